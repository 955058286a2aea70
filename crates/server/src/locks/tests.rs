//! The table against a naive reference, event by event, and the rules one by one.

mod kernel;
mod reference;

use super::*;
use forebay_wire::{HeldLock, LockKind, LockLimit, LockRange};
use proptest::prelude::*;
use reference::{Place, Reference, UNITS, bytes_of, pid_of};
use std::collections::BTreeSet;

const SESSIONS: u64 = 3;
const OWNERS: u64 = 3;
const FILES: u64 = 2;

fn scopes() -> impl Strategy<Value = LockScope> {
    let bytes = (0..UNITS, 1..=UNITS)
        .prop_map(|(start, length)| LockScope::Bytes(bytes_of(start..(start + length).min(UNITS))));
    prop_oneof![1 => Just(LockScope::File), 5 => bytes]
}

fn owners() -> impl Strategy<Value = Owner> {
    (1..=SESSIONS, 1..=OWNERS)
        .prop_map(|(session, owner)| Owner { session: Session(session), owner: LockOwner(owner) })
}

fn requests() -> impl Strategy<Value = (Session, LockRequest)> {
    let kinds = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
    (owners(), 1..=FILES, scopes(), kinds).prop_map(|(owner, file, scope, kind)| {
        let request = LockRequest { file: Ino(file), owner: owner.owner, scope, kind, pid: pid_of(owner) };
        (owner.session, request)
    })
}

fn requests_of_one_file() -> impl Strategy<Value = (Session, LockRequest)> {
    requests().prop_map(|(session, request)| (session, LockRequest { file: Ino(1), ..request }))
}

/// Few numbers, so that some are used twice and some cancelled.
fn numbers() -> impl Strategy<Value = RequestId> {
    (0u64..30).prop_map(RequestId)
}

fn events() -> impl Strategy<Value = Event> {
    let lock = (requests(), numbers(), prop::bool::weighted(0.75))
        .prop_map(|((session, request), id, wait)| Event::Lock { session, id, request, wait });
    let unlock = (requests(), numbers()).prop_map(|((session, r), id)| Event::Unlock {
        session,
        id,
        file: r.file,
        owner: r.owner,
        scope: r.scope,
    });
    let cancel = (1..=SESSIONS, numbers()).prop_map(|(s, id)| Event::Cancel { session: Session(s), id });
    let owner_closed = requests().prop_map(|(session, r)| Event::OwnerClosed {
        session,
        file: r.file,
        owner: r.owner,
        family: r.scope.family(),
    });
    let file_closed = (1..=SESSIONS, 1..=FILES)
        .prop_map(|(session, file)| Event::FileClosed { session: Session(session), file: Ino(file) });
    let ended = (1..=SESSIONS).prop_map(|session| Event::SessionEnded { session: Session(session) });
    prop_oneof![60 => lock, 20 => unlock, 4 => cancel, 4 => owner_closed, 2 => file_closed, 2 => ended]
}

fn limits() -> impl Strategy<Value = LockLimits> {
    let tight = (2usize..9, 2usize..7, 1usize..5).prop_map(|(locks_of_file, locks_of_session, waiting)| {
        LockLimits { locks_of_file, locks_of_session, waiting_of_session: waiting }
    });
    prop_oneof![2 => Just(LockLimits::default()), 1 => tight]
}

fn places() -> impl Iterator<Item = Place> {
    (1..=FILES).flat_map(|file| [(Ino(file), LockFamily::File), (Ino(file), LockFamily::Bytes)])
}

/// The table holds what the reference holds, lock by lock, and nobody waits for nothing.
fn same_state(table: &LockTable, reference: &Reference) {
    let mut count = 0;
    for place in places() {
        let mut locks = Vec::new();
        if let Some(file) = table.files.get(&place) {
            file.check();
            locks.extend(file.all().map(|(owner, held)| {
                assert_eq!(held.pid, pid_of(owner));
                (owner, held.range, held.kind)
            }));
        }
        assert_eq!(locks, reference.runs(place), "{place:?}");
        count += locks.len();
    }
    assert_eq!(table.held(), count);
    let waiting: Vec<_> =
        table.queue.all().map(|waiting| (waiting.session, waiting.id, waiting.request)).collect();
    let expected: Vec<_> = reference.waiting.iter().map(|w| (w.session, w.id, w.request)).collect();
    assert_eq!(waiting, expected);
    assert!(!reference.any_grantable() && !reference.any_circle());
}

/// Applies an event to both and compares the answers. Which request of a circle is refused is the table's choice;
/// that it was in one is checked.
fn step(table: &mut LockTable, reference: &mut Reference, event: Event) {
    let mut answers = table.apply(event);
    let expected = reference.apply(&event);
    let circles = answers.split_off(expected.len().min(answers.len()));
    assert_eq!(answers, expected, "answers to {event:?}");
    for refused in circles {
        assert_eq!(refused.outcome, Err(LockRefusal::Deadlock), "more answers than expected to {event:?}");
        assert!(reference.in_circle(refused.session, refused.id), "{refused:?} is in no circle");
        reference.forget(refused.session, refused.id);
    }
    same_state(table, reference);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_reference_does(
        limits in limits(),
        steps in prop::collection::vec((events(), requests()), 1..90),
    ) {
        let (mut table, mut reference) = (LockTable::new(limits), Reference::new(limits));
        for (event, (session, asked)) in steps {
            step(&mut table, &mut reference, event);
            prop_assert_eq!(table.test(session, &asked), reference.test(session, &asked));
        }
        for session in 1..=SESSIONS {
            step(&mut table, &mut reference, Event::SessionEnded { session: Session(session) });
        }
        prop_assert_eq!((table.held(), table.waiting()), (0, 0));
        prop_assert!(table.is_bare(), "something is kept of sessions that ended");
    }
}

/// A table and a way to write events down shortly: owners are numbers, `session * 10 + owner`.
struct Scene {
    table: LockTable,
    next: u64,
}

const GRANTED: Option<Result<(), LockRefusal>> = Some(Ok(()));
const WAITS: Option<Result<(), LockRefusal>> = None;

impl Scene {
    fn new() -> Scene {
        Scene { table: LockTable::new(LockLimits::default()), next: 1 }
    }

    fn request(owner: u64, file: u64, scope: LockScope, kind: LockKind) -> (Session, LockRequest) {
        let request =
            LockRequest { file: Ino(file), owner: LockOwner(owner % 10), scope, kind, pid: owner as u32 };
        (Session(owner / 10), request)
    }

    /// Asks for a lock; returns its number and the answer, if it has one at once.
    fn ask(
        &mut self,
        owner: u64,
        file: u64,
        scope: LockScope,
        kind: LockKind,
        wait: bool,
    ) -> (RequestId, Option<Result<(), LockRefusal>>) {
        let id = RequestId(self.next);
        self.next += 1;
        let (session, request) = Scene::request(owner, file, scope, kind);
        let answers = self.table.apply(Event::Lock { session, id, request, wait });
        (id, answers.iter().find(|answer| answer.id == id).map(|answer| answer.outcome))
    }

    /// Gives a scope up; returns who was granted something by it.
    fn unlock(&mut self, owner: u64, file: u64, scope: LockScope) -> Vec<RequestId> {
        let (session, id) = (Session(owner / 10), RequestId(u64::MAX));
        let event = Event::Unlock { session, id, file: Ino(file), owner: LockOwner(owner % 10), scope };
        granted(&self.table.apply(event)).into_iter().filter(|granted| *granted != id).collect()
    }

    fn held_by_others(&self, owner: u64, scope: LockScope, kind: LockKind) -> Option<HeldLock> {
        let (session, request) = Scene::request(owner, 1, scope, kind);
        self.table.test(session, &request)
    }
}

fn granted(answers: &[Answer]) -> Vec<RequestId> {
    answers.iter().filter(|answer| answer.outcome.is_ok()).map(|answer| answer.id).collect()
}

fn bytes(start: u64, last: u64) -> LockScope {
    LockScope::Bytes(LockRange::new(start, last).unwrap())
}

use LockKind::{Exclusive, Shared};
use LockScope::File;

#[test]
fn a_hole_in_the_middle_leaves_two_locks() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(11, 1, bytes(0, LockRange::LAST_MAX), Exclusive, false).1, GRANTED);
    scene.unlock(11, 1, bytes(100, 199));
    assert_eq!(scene.table.held(), 2);
    assert_eq!(scene.ask(21, 1, bytes(100, 199), Exclusive, false).1, GRANTED);
    assert_eq!(scene.ask(21, 1, bytes(99, 99), Shared, false).1, Some(Err(LockRefusal::WouldBlock)));
    let in_the_way = scene.held_by_others(21, bytes(150, 1_000_000), Shared).unwrap();
    let range = LockRange::new(200, LockRange::LAST_MAX).unwrap();
    assert_eq!(in_the_way, HeldLock { kind: Exclusive, range, pid: 11, same_client: false });
}

#[test]
fn those_who_wait_are_served_in_the_order_they_came() {
    let mut scene = Scene::new();
    scene.ask(11, 1, File, Exclusive, false);
    let (second, outcome) = scene.ask(21, 1, File, Exclusive, true);
    assert_eq!(outcome, WAITS);
    let (third, _) = scene.ask(31, 1, File, Exclusive, true);
    assert_eq!(scene.unlock(11, 1, File), [second]);
    assert_eq!(scene.unlock(21, 1, File), [third]);
}

#[test]
fn readers_who_wait_are_let_in_together() {
    let mut scene = Scene::new();
    scene.ask(11, 1, bytes(0, 99), Exclusive, false);
    let (one, _) = scene.ask(21, 1, bytes(0, 49), Shared, true);
    let (other, _) = scene.ask(31, 1, bytes(40, 60), Shared, true);
    assert_eq!(scene.unlock(11, 1, bytes(0, 99)), [one, other]);
}

#[test]
fn a_circle_over_two_files_is_refused() {
    let mut scene = Scene::new();
    scene.ask(11, 1, bytes(0, 9), Exclusive, false);
    scene.ask(21, 2, bytes(0, 9), Exclusive, false);
    assert_eq!(scene.ask(11, 2, bytes(5, 5), Shared, true).1, WAITS);
    assert_eq!(scene.ask(21, 1, bytes(5, 5), Shared, true).1, Some(Err(LockRefusal::Deadlock)));
    // Without waiting it is an ordinary refusal.
    assert_eq!(scene.ask(21, 1, bytes(5, 5), Shared, false).1, Some(Err(LockRefusal::WouldBlock)));
}

#[test]
fn a_long_circle_is_refused_and_a_long_chain_is_not() {
    let mut scene = Scene::new();
    for owner in 1..=9 {
        scene.ask(10 + owner, owner, bytes(0, 0), Exclusive, false);
    }
    for owner in 1..9 {
        assert_eq!(scene.ask(10 + owner, owner + 1, bytes(0, 0), Exclusive, true).1, WAITS);
    }
    assert_eq!(scene.ask(19, 1, bytes(0, 0), Exclusive, true).1, Some(Err(LockRefusal::Deadlock)));
}

#[test]
fn a_circle_that_a_thread_closes_by_what_it_got_is_broken() {
    let mut scene = Scene::new();
    scene.ask(21, 2, bytes(0, 0), Exclusive, false);
    scene.ask(31, 1, bytes(0, 0), Shared, false);
    // A thread of 11 waits for 21; 21 waits for 31; then another thread of 11 shares with 31 what 21 wants alone.
    assert_eq!(scene.ask(11, 2, bytes(0, 0), Exclusive, true).1, WAITS);
    assert_eq!(scene.ask(21, 1, bytes(0, 0), Exclusive, true).1, WAITS);
    let (session, request) = Scene::request(11, 1, bytes(0, 0), Shared);
    let answers = scene.table.apply(Event::Lock { session, id: RequestId(99), request, wait: false });
    let outcomes: Vec<_> = answers.iter().map(|answer| (answer.session.0, answer.outcome)).collect();
    assert_eq!(outcomes, [(1, Ok(())), (2, Err(LockRefusal::Deadlock))]);
}

#[test]
fn two_who_share_and_both_want_it_alone_do_not_block_each_other() {
    let mut scene = Scene::new();
    scene.ask(11, 1, File, Shared, false);
    scene.ask(21, 1, File, Shared, false);
    assert_eq!(scene.ask(11, 1, File, Exclusive, true).1, WAITS);
    // 11 gave its shared lock up, so 21 gets the file for itself; then 11 has its turn.
    assert_eq!(scene.ask(21, 1, File, Exclusive, true).1, GRANTED);
    assert_eq!(scene.unlock(21, 1, File).len(), 1);
}

#[test]
fn flock_loses_the_old_lock_when_the_new_one_is_refused() {
    let mut scene = Scene::new();
    scene.ask(11, 1, File, Shared, false);
    scene.ask(21, 1, File, Shared, false);
    assert_eq!(scene.ask(11, 1, File, Exclusive, false).1, Some(Err(LockRefusal::WouldBlock)));
    assert_eq!(scene.table.held(), 1);
    // A range is kept.
    scene.ask(11, 2, bytes(0, 9), Shared, false);
    scene.ask(21, 2, bytes(0, 9), Shared, false);
    assert_eq!(scene.ask(11, 2, bytes(0, 9), Exclusive, false).1, Some(Err(LockRefusal::WouldBlock)));
    assert_eq!(scene.table.held(), 3);
}

#[test]
fn the_families_do_not_meet() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(11, 1, File, Exclusive, false).1, GRANTED);
    assert_eq!(scene.ask(21, 1, LockScope::Bytes(LockRange::WHOLE), Exclusive, false).1, GRANTED);
    let closed = Event::OwnerClosed {
        session: Session(2),
        file: Ino(1),
        owner: LockOwner(1),
        family: LockFamily::File,
    };
    scene.table.apply(closed);
    assert_eq!(scene.table.held(), 2);
}

#[test]
fn what_is_called_back_is_answered_once() {
    let mut scene = Scene::new();
    scene.ask(11, 1, File, Exclusive, false);
    let (id, _) = scene.ask(21, 1, File, Exclusive, true);
    let cancel = Event::Cancel { session: Session(2), id };
    let cancelled = Answer { session: Session(2), id, outcome: Err(LockRefusal::Cancelled) };
    assert_eq!(scene.table.apply(cancel), [cancelled]);
    assert_eq!(scene.table.apply(cancel), []);
    assert_eq!(scene.unlock(11, 1, File), []);
}

#[test]
fn the_end_of_a_session_lets_others_in_and_is_not_answered_to_it() {
    let mut scene = Scene::new();
    scene.ask(11, 1, bytes(0, 9), Exclusive, false);
    scene.ask(11, 2, File, Exclusive, false);
    let (range, _) = scene.ask(21, 1, bytes(5, 5), Exclusive, true);
    let (whole, _) = scene.ask(31, 2, File, Shared, true);
    scene.ask(22, 1, bytes(0, 0), Shared, true);
    scene.ask(12, 1, bytes(0, 0), Exclusive, true);
    let answers = scene.table.apply(Event::SessionEnded { session: Session(1) });
    assert!(answers.iter().all(|answer| answer.session != Session(1)));
    let granted: BTreeSet<_> = granted(&answers).into_iter().collect();
    assert!(granted.contains(&range) && granted.contains(&whole) && granted.len() == 3);
}

#[test]
fn an_owner_that_closes_keeps_its_place_in_the_queue_for_ranges() {
    let mut scene = Scene::new();
    scene.ask(11, 1, bytes(0, 9), Exclusive, false);
    scene.ask(21, 1, bytes(50, 59), Exclusive, false);
    let (id, _) = scene.ask(21, 1, bytes(0, 9), Exclusive, true);
    let closed = Event::OwnerClosed {
        session: Session(2),
        file: Ino(1),
        owner: LockOwner(1),
        family: LockFamily::Bytes,
    };
    assert_eq!(scene.table.apply(closed), []);
    assert_eq!(scene.table.held(), 1);
    assert_eq!(scene.unlock(11, 1, bytes(0, 9)), [id]);
}

#[test]
fn limits_refuse_and_leave_everything_as_it_was() {
    let limits = LockLimits { locks_of_file: 2, locks_of_session: 3, waiting_of_session: 1 };
    let mut scene = Scene { table: LockTable::new(limits), next: 1 };
    let too_many = |what, limit| Some(Err(LockRefusal::TooMany { what, limit }));
    scene.ask(11, 1, bytes(0, 9), Exclusive, false);
    scene.ask(11, 1, bytes(20, 29), Exclusive, false);
    let refused = scene.ask(11, 1, bytes(40, 49), Exclusive, false).1;
    assert_eq!(refused, too_many(LockLimit::LocksOfFile, 2));
    // A hole would make three of two.
    let hole = Event::Unlock {
        session: Session(1),
        id: RequestId(50),
        file: Ino(1),
        owner: LockOwner(1),
        scope: bytes(5, 5),
    };
    let outcome = scene.table.apply(hole)[0].outcome;
    assert_eq!(outcome, Err(LockRefusal::TooMany { what: LockLimit::LocksOfFile, limit: 2 }));
    scene.ask(11, 2, File, Shared, false);
    assert_eq!(scene.ask(11, 3, File, Shared, false).1, too_many(LockLimit::LocksOfClient, 3));
    assert_eq!(scene.table.held(), 3);
    assert_eq!(scene.ask(21, 1, bytes(0, 0), Shared, true).1, WAITS);
    assert_eq!(scene.ask(21, 1, bytes(1, 1), Shared, true).1, too_many(LockLimit::WaitingOfClient, 1));
    // Filling the gap makes one of two.
    assert_eq!(scene.ask(11, 1, bytes(10, 19), Exclusive, false).1, GRANTED);
    assert_eq!(scene.table.held(), 2);
}
