use super::*;
use crate::remote::samples;
use forebay_wire::LockKind;
use std::ffi::OsStr;

const LIFE: Life = Life { boot: 1, incarnation: 1 };

fn name(name: &str) -> Name {
    Name::new(OsStr::new(name)).unwrap()
}

fn refer(held: &Held, ino: u64, parent: u64, at: &str) {
    held.refer(&attr_of(ino), Ino(parent), &name(at));
}

fn attr_of(ino: u64) -> Attr {
    Attr { kind: FileKind::Directory, generation: ino * 10, valid_ms: 0, ..samples::attr(ino) }
}

fn claimed(held: &Held) -> Vec<(u64, u64, Option<u64>)> {
    let claims = held.claims(LIFE);
    claims
        .into_iter()
        .map(|claim| (claim.ino.0, claim.count, claim.place.map(|(parent, _)| parent.0)))
        .collect()
}

fn told(held: &Held) -> Vec<(u64, u64)> {
    let (items, _) = held.take_forgotten();
    let mut told: Vec<_> = items.into_iter().map(|item| (item.ino.0, item.count)).collect();
    told.sort_unstable();
    told
}

#[test]
fn the_place_of_a_directory_is_known_until_it_is_seen_elsewhere() {
    let held = Held::default();
    let is_it = |at: &str| held.may_be_directory(Ino(1), &name(at));
    refer(&held, 5, 1, "directory");
    held.refer(&samples::attr(6), Ino(1), &name("file"));
    assert!(is_it("directory") && !is_it("file") && !is_it("other"));
    let moving = held.moving(&(Ino(1), name("file")), &(Ino(1), name("other")));
    assert!(is_it("file") && is_it("other"), "until it is known what was moved");
    drop(moving);
    refer(&held, 5, 1, "moved");
    assert!(is_it("moved") && !is_it("directory") && !is_it("other"));
}

#[test]
fn what_a_life_did_not_find_is_not_given_back_to_it() {
    let held = Held::default();
    refer(&held, 5, 1, "moved");
    refer(&held, 5, 1, "moved");
    refer(&held, 6, 1, "well");
    assert_eq!(held.claims(LIFE).len(), 2);
    held.gone([Ino(5)]);
    // It is there under another name, and is counted there once.
    refer(&held, 5, 1, "back");
    held.forget(Ino(5), 2);
    held.forget(Ino(6), 1);
    assert_eq!(told(&held), [(6, 1)]);
    held.forget(Ino(5), 1);
    assert_eq!(told(&held), [(5, 1)]);
    // The next life finds it.
    refer(&held, 5, 1, "back");
    held.gone([Ino(5)]);
    held.claims(LIFE);
    held.forget(Ino(5), 1);
    assert_eq!(told(&held), [(5, 1)]);
}

#[test]
fn what_is_kept_of_an_open_file_that_was_not_found_is_not_given_back() {
    let held = Held::default();
    refer(&held, 5, 1, "f");
    open(&held, 1, 5);
    held.forget(Ino(5), 1);
    held.claims(LIFE);
    held.gone([Ino(5)]);
    held.lost(1);
    assert_eq!(told(&held), []);
}

fn open(held: &Held, handle: u64, ino: u64) {
    let who = Credentials { uid: 0, gid: 0, pid: 0, groups: Vec::new() };
    let file = OpenedFile { who, ino: Ino(ino), flags: OpenFlags::READ_ONLY, placement: Placement::Inline };
    assert!(held.opened(handle, file, held.life()));
}

#[test]
fn parents_are_claimed_before_what_is_in_them() {
    let held = Held::default();
    for (ino, parent, at) in [(9, 1, "a"), (3, 9, "b"), (7, 3, "c"), (2, 7, "d")] {
        refer(&held, ino, parent, at);
    }
    refer(&held, 2, 7, "d");
    let expected = [(9, 1, Some(1)), (3, 1, Some(9)), (7, 1, Some(3)), (2, 2, Some(7))];
    assert_eq!(claimed(&held), expected);
    held.renamed((Ino(1), name("a")), (Ino(1), name("z")), false);
    held.removed(Ino(7), &name("d"));
    assert!(claimed(&held).contains(&(2, 2, None)));
    assert_eq!(held.known(Ino(1), &name("z")), Some(Ino(9)));
    assert_eq!(held.known(Ino(1), &name("a")), None);
}

#[test]
fn what_leads_to_an_open_file_stays_known_until_it_is_closed() {
    let held = Held::default();
    held.begin(LIFE);
    refer(&held, 9, 1, "a");
    refer(&held, 3, 9, "b");
    open(&held, 5, 3);
    held.forget(Ino(3), 1);
    held.forget(Ino(9), 1);
    assert_eq!(held.take_forgotten().0, []);
    assert_eq!(claimed(&held), [(9, 1, Some(1)), (3, 1, Some(9))]);
    assert!(!held.closed(Closed { handle: 5, wrote: false }));
    let mut forgotten = held.take_forgotten().0;
    forgotten.sort_by_key(|forgotten| forgotten.ino);
    let all = [Forgotten { ino: Ino(3), count: 1 }, Forgotten { ino: Ino(9), count: 1 }];
    assert_eq!(forgotten, all);
    assert_eq!(claimed(&held), []);
}

#[test]
fn what_is_or_was_open_for_writing_since_is_not_known_by_earlier_answers() {
    let held = Held::default();
    held.begin(LIFE);
    refer(&held, 3, 1, "a");
    let attr = |ino| Attr { ino: Ino(ino), ..attr_of(3) };
    assert!(held.keep(&attr(3), Ino(1), &name("a")));
    let before = Instant::now();
    let who = Credentials { uid: 0, gid: 0, pid: 0, groups: Vec::new() };
    let file = OpenedFile { who, ino: Ino(3), flags: OpenFlags::READ_WRITE, placement: Placement::Inline };
    assert!(held.opened(5, file, held.life()));
    assert!(!held.refer_kept(Ino(3), Ino(1), &name("a"), before), "it is open for writing");
    held.closed(Closed { handle: 5, wrote: true });
    assert!(!held.refer_kept(Ino(3), Ino(1), &name("a"), before), "it was");
    let after = Instant::now() + std::time::Duration::from_nanos(1);
    assert!(!held.refer_kept(Ino(3), Ino(1), &name("b"), after), "another name");
    assert!(held.refer_kept(Ino(3), Ino(1), &name("a"), after));
    assert!(!held.refer_kept(Ino(3), Ino(1), &name("a"), after), "there was one");
}

#[test]
fn a_file_opened_in_a_life_that_is_over_is_not_held() {
    let held = Held::default();
    held.begin(LIFE);
    let before = held.life();
    held.claims(Life { incarnation: 2, ..LIFE });
    let who = Credentials { uid: 0, gid: 0, pid: 0, groups: Vec::new() };
    let file = OpenedFile { who, ino: Ino(3), flags: OpenFlags::READ_ONLY, placement: Placement::Inline };
    assert!(!held.opened(5, file, before));
    assert!(held.files().is_empty());
}

#[test]
fn a_lock_given_or_given_up_in_a_life_that_is_over_is_as_it_was() {
    let (held, next) = (Held::default(), Life { incarnation: 2, ..LIFE });
    let scope = LockScope::File;
    let lock = LockRequest { file: Ino(3), owner: LockOwner(1), scope, kind: LockKind::Shared, pid: 1 };
    held.begin(LIFE);
    held.claims(next);
    assert!(!held.locked(&lock, LIFE));
    assert_eq!(held.locks(), []);
    assert!(held.locked(&lock, next));
    assert!(!held.unlocked_in(lock.file, lock.owner, scope, LIFE));
    assert_eq!(held.locks(), [lock]);
    assert!(held.unlocked_in(lock.file, lock.owner, scope, next));
    assert_eq!(held.locks(), []);
}

#[test]
fn locks_are_remembered_byte_by_byte() {
    let held = Held::default();
    let bytes = |start, last| LockScope::Bytes(LockRange::new(start, last).unwrap());
    let lock = |scope, kind| LockRequest { file: Ino(3), owner: LockOwner(1), scope, kind, pid: 1 };
    held.begin(LIFE);
    assert!(held.locked(&lock(bytes(0, 99), LockKind::Exclusive), LIFE));
    assert!(held.locked(&lock(bytes(10, 19), LockKind::Shared), LIFE));
    held.unlocked(Ino(3), LockOwner(1), bytes(50, 200));
    held.unlocked(Ino(3), LockOwner(2), bytes(0, 200));
    let mut locks: Vec<_> = held.locks().iter().map(|lock| (lock.scope.range(), lock.kind)).collect();
    locks.sort_by_key(|(range, _)| range.start());
    let expected = [
        (LockRange::new(0, 9).unwrap(), LockKind::Exclusive),
        (LockRange::new(10, 19).unwrap(), LockKind::Shared),
        (LockRange::new(20, 49).unwrap(), LockKind::Exclusive),
    ];
    assert_eq!(locks, expected);
    assert!(held.has_locks(Ino(3), LockOwner(1), LockFamily::Bytes));
    assert!(!held.has_locks(Ino(3), LockOwner(1), LockFamily::File));
    held.unlocked(Ino(3), LockOwner(1), LockScope::Bytes(LockRange::WHOLE));
    assert!(!held.has_locks(Ino(3), LockOwner(1), LockFamily::Bytes));
}
