//! Random sequences of operations on a volume and on a local directory, in lockstep: every answer and, now and then,
//! everything that can be seen must be equal. `FOREBAY_TEST_SEED` replays one sequence, `FOREBAY_TEST_OPERATIONS`
//! makes them longer.

mod support;

use forebay_wire::RenameMode;
use support::world::{Local, Op, Ours, Outcome, SLOTS, World};
use support::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// The same as an ordinary user: the test program again, as somebody else.
#[test]
fn without_privilege_files_are_as_local_ones() {
    support::again_without_privilege("as_local_ones");
}

/// Few names, so that operations meet; depth up to three.
fn path(r: &mut Random) -> String {
    let depth = 1 + r.below(3);
    (0..depth).map(|_| r.pick(&["a", "b", "c", "ä\u{7f}"])).collect::<Vec<_>>().join("/")
}

fn offset(r: &mut Random) -> u64 {
    match r.below(3) {
        0 => r.below(40_000),
        1 => r.below(20) * 4096,
        _ => (r.below(20) * 4096).saturating_sub(r.below(3)),
    }
}

/// Modes; without privilege only those that the local file system lets its owner use, for the oracle's sake, and no
/// set-id bits: taking those from a file that changes is up to whoever calls a volume.
fn mode(r: &mut Random, privileged: bool) -> u32 {
    let any = [0o644, 0o600, 0o4755, 0o1777, 0o2711];
    let odd = [0, 0o444, 0o200, 0o1000, 0o4000];
    if privileged && r.below(3) == 0 {
        return r.pick(&odd);
    }
    let mode = r.pick(&any) | 0o700;
    if privileged { mode } else { mode & 0o1777 }
}

fn op(r: &mut Random, privileged: bool, metered: bool) -> Op {
    let slot = r.below(SLOTS as u64) as usize;
    let keep = 1;
    // Space beyond the end of a file is not given where space is counted; see docs/SEMANTICS.md.
    let allocations: &[u32] = if metered { &[0, 2 | keep, 16] } else { &[0, keep, 2 | keep, 16, 16 | keep] };
    match r.below(44) {
        0..=3 => Op::Create(path(r), mode(r, privileged), slot),
        4..=6 => Op::Open(path(r), r.below(4) == 0, slot),
        7 => Op::Close(slot),
        8..=15 => {
            let (seed, len) = (r.next(), r.below(20_000) as usize);
            Op::Write(slot, offset(r), pattern(seed, len))
        }
        16..=18 => Op::Read(slot, offset(r), r.below(30_000) as usize),
        19..=20 => Op::Cut(path(r), offset(r)),
        21..=22 => Op::Allocate(slot, offset(r), r.below(30_000), r.pick(allocations)),
        23 => Op::Copy(slot, offset(r), (slot + 1) % SLOTS, offset(r), r.below(30_000)),
        24 => Op::Sync(slot),
        25..=28 => Op::Mkdir(path(r), mode(r, privileged)),
        29 => Op::Rmdir(path(r)),
        30..=31 => Op::Unlink(path(r)),
        32..=34 => {
            let how = [RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
            Op::Rename(path(r), path(r), r.pick(&how))
        }
        35 => Op::Link(path(r), path(r)),
        36 => Op::Symlink(path(r), path(r)),
        37 => Op::Fifo(path(r), mode(r, privileged)),
        38..=39 => Op::Chmod(path(r), mode(r, privileged)),
        40 => Op::Times(path(r), r.below(1 << 31) as i64, r.below(1 << 31) as i64),
        41..=42 => Op::SetXattr(path(r), format!("user.{}", r.below(3)), pattern(3, r.below(40) as usize)),
        _ => Op::RemoveXattr(path(r), format!("user.{}", r.below(3))),
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// With two paths it is open which one is found wanting first.
fn are_same(op: &Op, ours: &Outcome, local: &Outcome) -> bool {
    let wanting = |outcome: &Outcome| {
        outcome.as_ref().is_err_and(|error| error == "NotFound" || error == "NotDirectory")
    };
    let two_paths = matches!(op, Op::Rename(..) | Op::Link(..));
    ours == local || (two_paths && wanting(ours) && wanting(local))
}

/// The sequence of an ordinary run; `make soak` takes others.
const SEED: u64 = 20_261_120;

fn lockstep(shape: Shape) {
    let operations = number("FOREBAY_TEST_OPERATIONS").unwrap_or(3000);
    let seed = number("FOREBAY_TEST_SEED").unwrap_or(SEED);
    println!("FOREBAY_TEST_SEED={seed}");
    let mut r = Random(seed | 1);
    let privileged = rustix::process::geteuid().is_root();
    let metered = shape.space != forebay_server::local::SpaceRule::Hard;
    let oracle = tempfile::tempdir().unwrap();
    std::fs::create_dir(oracle.path().join("root")).unwrap();
    let root = oracle.path().join("root");
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut local = Local::new(root);
    let mut instance = Instance::new(shape);
    let mut done = 0;
    let mut successes = 0;
    while done < operations {
        // A stretch of operations, then everything is compared and the instance is closed, one way or the other.
        let Instance { volume, fragments, shape, directory } = instance;
        let mut ours = Ours::new(volume);
        for _ in 0..300 {
            let op = op(&mut r, privileged, metered);
            let (a, b) = (ours.apply(&op), local.apply(&op));
            assert!(
                are_same(&op, &a, &b),
                "operation {done} of seed {seed}: {op:?}\nours {a:?}\nlocal {b:?}"
            );
            successes += u64::from(a.is_ok());
            done += 1;
            if done % 50 == 0 {
                let (a, b) = (ours.picture(), local.picture());
                let paths = a.keys().chain(b.keys());
                let differ: Vec<_> =
                    paths.filter(|p| a.get(*p) != b.get(*p)).map(|p| (p, a.get(p), b.get(p))).collect();
                assert!(differ.is_empty(), "after operation {done} of seed {seed}: {op:?}\n{differ:#?}");
            }
        }
        local.close_all();
        instance = Instance { volume: ours.into_volume(), fragments, shape, directory };
        instance = if r.below(2) == 0 { instance.reopen() } else { instance.reopen_uncleanly() };
    }
    // Guards against a sequence that only ever fails.
    assert!(successes > operations / 10, "{successes} of {operations} operations succeeded");
}

#[test]
fn inline_files_are_as_local_ones() {
    lockstep(Shape::inline());
}

#[test]
fn striped_files_are_as_local_ones() {
    lockstep(Shape::striped());
}

#[test]
fn metered_inline_files_are_as_local_ones() {
    lockstep(Shape::inline().metered(1 << 30));
}

#[test]
fn metered_striped_files_are_as_local_ones() {
    lockstep(Shape::striped().metered(1 << 30));
}

/// Two volumes over one tree, as two machines have them: each operation is done by one of them and seen by both. The lower
/// slots are open files of the first, the upper ones of the second.
fn lockstep_of_two(shape: Shape, home: usize) {
    let operations = number("FOREBAY_TEST_OPERATIONS").unwrap_or(3000);
    let seed = number("FOREBAY_TEST_SEED").unwrap_or(SEED);
    println!("FOREBAY_TEST_SEED={seed}");
    let mut r = Random(seed | 1);
    let privileged = rustix::process::geteuid().is_root();
    let metered = shape.space != forebay_server::local::SpaceRule::Hard;
    let oracle = tempfile::tempdir().unwrap();
    let root = oracle.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut local = Local::new(root);
    let mut nodes = nodes::Nodes::new(shape, home);
    let (mut done, mut successes) = (0, 0);
    while done < operations {
        let mut ours = [Ours::new(nodes.volume()), Ours::new(nodes.volume())];
        for _ in 0..300 {
            let mut op = op(&mut r, privileged, metered);
            if let Op::Copy(from, _, to, ..) = &mut op {
                *to = *from ^ 1;
            }
            let by = match &op {
                Op::Create(_, _, slot) | Op::Open(_, _, slot) | Op::Close(slot) | Op::Write(slot, ..) => {
                    *slot
                }
                Op::Read(slot, ..) | Op::Allocate(slot, ..) | Op::Copy(slot, ..) | Op::Sync(slot) => *slot,
                _ => r.below(SLOTS as u64) as usize,
            };
            let (a, b) = (ours[by * 2 / SLOTS].apply(&op), local.apply(&op));
            assert!(
                are_same(&op, &a, &b),
                "operation {done} of seed {seed}: {op:?}\nours {a:?}\nlocal {b:?}"
            );
            successes += u64::from(a.is_ok());
            done += 1;
            if done % 50 == 0 {
                let b = local.picture();
                for ours in &mut ours {
                    let a = ours.picture();
                    let paths = a.keys().chain(b.keys());
                    let differ: Vec<_> =
                        paths.filter(|p| a.get(*p) != b.get(*p)).map(|p| (p, a.get(p), b.get(p))).collect();
                    assert!(differ.is_empty(), "after operation {done} of seed {seed}: {op:?}\n{differ:#?}");
                }
            }
        }
        local.close_all();
        ours.into_iter().for_each(|ours| drop(ours.into_volume()));
        nodes = match r.below(3) {
            0 => nodes.reopen(),
            1 => nodes.reopen_uncleanly(),
            _ => {
                let nodes = nodes.reopen_uncleanly();
                assert_eq!(nodes.tree.sweep(), Ok(0), "files that are closed leave nothing");
                nodes
            }
        };
    }
    assert!(successes > operations / 10, "{successes} of {operations} operations succeeded");
}

#[test]
fn shared_files_are_as_local_ones() {
    lockstep_of_two(Shape::striped(), 2);
}

#[test]
fn shared_metered_files_are_as_local_ones() {
    lockstep_of_two(Shape::striped().metered(1 << 30), 1);
}

#[test]
fn shared_inline_files_are_as_local_ones() {
    lockstep_of_two(Shape::inline().metered(1 << 30), 0);
}
