//! Random operations through two attachments at once and on a local directory, in lockstep: every answer, and now and then
//! everything that can be seen, must be equal.

use super::instance::{Served, volume};
use super::support::world::{Local, Op, Ours, Outcome, SLOTS, World};
use super::support::*;
use forebay_wire::RenameMode;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

fn path(r: &mut Random) -> String {
    let depth = 1 + r.below(3);
    (0..depth).map(|_| r.pick(&["a", "b", "c", "d"])).collect::<Vec<_>>().join("/")
}

fn op(r: &mut Random) -> Op {
    let slot = r.below(SLOTS as u64) as usize;
    let mode = r.pick(&[0o644, 0o700, 0o755]) | 0o700;
    let offset = r.below(40_000);
    match r.below(36) {
        0..=3 => Op::Create(path(r), mode, slot),
        4..=6 => Op::Open(path(r), r.below(4) == 0, slot),
        7 => Op::Close(slot),
        8..=14 => {
            let (seed, length) = (r.below(1 << 40), r.below(20_000) as usize);
            Op::Write(slot, offset, pattern(seed, length))
        }
        15..=17 => Op::Read(slot, offset, r.below(30_000) as usize),
        18..=19 => Op::Cut(path(r), offset),
        20 => Op::Copy(slot, offset, (slot + 1) % SLOTS, r.below(40_000), r.below(30_000)),
        21 => Op::Sync(slot),
        22..=24 => Op::Mkdir(path(r), mode),
        25 => Op::Rmdir(path(r)),
        26..=27 => Op::Unlink(path(r)),
        28..=29 => Op::Rename(
            path(r),
            path(r),
            r.pick(&[RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]),
        ),
        30 => Op::Link(path(r), path(r)),
        31 => Op::Symlink(path(r), path(r)),
        32 => Op::Chmod(path(r), mode),
        33 => Op::Allocate(slot, offset, 1 + r.below(30_000), r.pick(&[0, 1, 3, 16])),
        34 => Op::SetXattr(path(r), format!("user.{}", r.below(3)), pattern(3, r.below(40) as usize)),
        _ => Op::RemoveXattr(path(r), format!("user.{}", r.below(3))),
    }
}

/// With two paths it is open which one is found wanting first. Onto a directory that it is in, or into itself, nothing can
/// be moved, for more than one reason: a kernel gives its own before a mounted file system is asked.
fn are_same(op: &Op, ours: &Outcome, local: &Outcome) -> bool {
    let wanting = |outcome: &Outcome| {
        outcome.as_ref().is_err_and(|error| error == "NotFound" || error == "NotDirectory")
    };
    let two_paths = matches!(op, Op::Rename(..) | Op::Link(..));
    let is_in = |inner: &String, outer: &String| inner.starts_with(&format!("{outer}/"));
    let onto_its_own = matches!(op, Op::Rename(from, to, _) if is_in(from, to) || is_in(to, from));
    ours == local
        || (two_paths && wanting(ours) && wanting(local))
        || (onto_its_own && ours.is_err() && local.is_err())
}

pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Runs operations by one client or two; `between` is called before each with its number.
pub fn lockstep(
    served: &mut Served,
    clients: u64,
    operations: u64,
    mut between: impl FnMut(&mut Served, u64, &mut Random),
) {
    let seed = number("FOREBAY_TEST_SEED").unwrap_or(20_261_121);
    println!("FOREBAY_TEST_SEED={seed}");
    let mut r = Random(seed | 1);
    let oracle = tempfile::tempdir().unwrap();
    let root = oracle.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let attached = [served.attach(), served.attach()];
    let mut ours: Vec<Ours> = attached.iter().map(|attached| Ours::new(volume(attached))).collect();
    let mut local = [Local::new(root.clone()), Local::new(root)];
    let mut successes = 0;
    for done in 0..operations {
        between(served, done, &mut r);
        let op = op(&mut r);
        let who = r.below(clients) as usize;
        let (a, b) = (ours[who].apply(&op), local[who].apply(&op));
        assert!(
            are_same(&op, &a, &b),
            "operation {done} of seed {seed} by {who}: {op:?}\nours {a:?}\nlocal {b:?}"
        );
        successes += u64::from(a.is_ok());
        if done % 50 == 49 {
            let (a, b) = (ours[1 - who].picture(), local[who].picture());
            let paths = a.keys().chain(b.keys());
            let differ: Vec<_> =
                paths.filter(|p| a.get(*p) != b.get(*p)).map(|p| (p, a.get(p), b.get(p))).collect();
            assert!(differ.is_empty(), "after operation {done} of seed {seed}: {op:?}\n{differ:#?}");
        }
    }
    assert!(successes > operations / 10, "{successes} of {operations} operations succeeded");
    ours.into_iter().for_each(|ours| drop(ours.into_volume()));
}

fn operations() -> u64 {
    number("FOREBAY_TEST_OPERATIONS").unwrap_or(1500)
}

#[test]
fn two_clients_of_inline_files_are_as_two_local_programs() {
    lockstep(&mut Served::new(Shape::inline()), 2, operations(), |_, _, _| {});
}

#[test]
fn two_clients_of_striped_files_are_as_two_local_programs() {
    lockstep(&mut Served::new(Shape::striped()), 2, operations(), |_, _, _| {});
}
