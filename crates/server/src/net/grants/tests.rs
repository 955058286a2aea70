//! Clients that keep what they were granted, against changes that overlap: nobody shows what was.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const CLIENTS: u64 = 3;
const OBJECTS: u64 = 2;

#[derive(Clone, Debug)]
enum Step {
    /// A client looks at an object, and keeps the answer as long as it may.
    Look {
        client: u64,
        object: u64,
        is_alone: bool,
    },
    /// A client begins a change of objects.
    Begin {
        client: u64,
        objects: Vec<u64>,
    },
    /// The oldest change that can be made is made.
    Make,
    /// A client answers one of those who told it.
    Answer {
        which: usize,
    },
    Open {
        client: u64,
        object: u64,
    },
    Close {
        client: u64,
        object: u64,
    },
    End {
        client: u64,
    },
    Pass {
        ms: u64,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let (client, object) = (1..=CLIENTS, 1..=OBJECTS);
    prop_oneof![
        8 => (client.clone(), object.clone(), any::<bool>())
            .prop_map(|(client, object, is_alone)| Step::Look { client, object, is_alone }),
        3 => (client.clone(), prop::collection::vec(object.clone(), 1..3))
            .prop_map(|(client, objects)| Step::Begin { client, objects }),
        4 => Just(Step::Make),
        4 => (0usize..8).prop_map(|which| Step::Answer { which }),
        1 => (client.clone(), object.clone()).prop_map(|(client, object)| Step::Open { client, object }),
        1 => (client.clone(), object).prop_map(|(client, object)| Step::Close { client, object }),
        1 => client.prop_map(|client| Step::End { client }),
        4 => prop_oneof![0u64..400, 900u64..1300, 4800u64..5300].prop_map(|ms| Step::Pass { ms }),
    ]
}

struct Change {
    by: u64,
    objects: Vec<Ino>,
    told: Vec<Told>,
}

#[derive(Default)]
struct World {
    now: u64,
    /// Value of each object: how often it was changed.
    values: HashMap<u64, u64>,
    /// What clients remember, and until when.
    shown: HashMap<(u64, u64), (u64, u64)>,
    /// What the kernels of clients were answered, and when they have it.
    answered: HashMap<(u64, u64), (u64, u64)>,
    writing: HashMap<(u64, u64), u32>,
    changes: Vec<Change>,
    grants_given: u64,
}

impl World {
    fn step(&mut self, grants: &mut Grants, step: &Step) {
        match step {
            Step::Look { client, object, is_alone } => {
                let value = self.values.get(object).copied().unwrap_or(0);
                let first = self.answered.entry((*client, *object));
                let is_new = matches!(first, Entry::Vacant(_));
                let taken_up = self.now + if is_new { 0 } else { TAKEN_UP_MS };
                let answered = first.or_insert((value, taken_up));
                if answered.0 != value {
                    *answered = (value, taken_up);
                }
                let is_taken_up = answered.1 <= self.now;
                grants.answering(Ino(*object), Session(*client), self.now, self.now, is_new);
                let valid_ms = grants.grant(Ino(*object), Session(*client), self.now, *is_alone);
                if valid_ms > 0 {
                    assert!(is_taken_up, "client {client} would be told of {object} before it has it");
                    self.grants_given += 1;
                    // As the names of a directory: what was learned earlier may be shown for longer.
                    let shown = self.shown.entry((*client, *object)).or_default();
                    *shown = (value, shown.1.max(self.now + u64::from(valid_ms)));
                }
            }
            Step::Begin { client, objects } => {
                let objects: Vec<Ino> = objects.iter().map(|object| Ino(*object)).collect();
                let told = grants.begin(&objects, Session(*client), self.now);
                self.changes.push(Change { by: *client, objects, told });
            }
            Step::Make => self.make(grants),
            Step::Answer { which } => {
                let told: Vec<Told> =
                    self.changes.iter().flat_map(|change| change.told.iter().copied()).collect();
                if let Some(answer) = told.get(*which).copied() {
                    self.shown.remove(&(answer.session.0, answer.ino.0));
                    grants.answered(answer);
                    let change =
                        self.changes.iter_mut().find(|change| change.told.contains(&answer)).unwrap();
                    change.told.retain(|told| *told != answer);
                }
            }
            Step::Open { client, object } => {
                let told = grants.begin(&[Ino(*object)], Session(*client), self.now);
                for told in told {
                    self.shown.remove(&(told.session.0, told.ino.0));
                    grants.answered(told);
                }
                grants.opened_for_writing(Ino(*object), Session(*client));
                grants.end(&[Ino(*object)], Session(*client), self.now);
                *self.writing.entry((*client, *object)).or_default() += 1;
            }
            Step::Close { client, object } => {
                let Some(count) = self.writing.get_mut(&(*client, *object)).filter(|count| **count > 0)
                else {
                    return;
                };
                *count -= 1;
                // It wrote until now, without telling anybody.
                self.change(*client, *object);
                grants.closed_for_writing(Ino(*object), Session(*client), self.now);
            }
            Step::End { client } => {
                self.shown.retain(|(holder, _), _| holder != client);
                self.answered.retain(|(holder, _), _| holder != client);
                self.writing.retain(|(writer, _), _| writer != client);
                grants.session_ended(Session(*client));
            }
            Step::Pass { ms } => self.now += ms,
        }
    }

    /// Makes the oldest change whose tellings are all answered or over.
    fn make(&mut self, grants: &mut Grants) {
        let now = self.now;
        let ready = |change: &Change| change.told.iter().all(|told| told.until <= now);
        let Some(at) = self.changes.iter().position(ready) else { return };
        let change = self.changes.remove(at);
        for object in &change.objects {
            self.change(change.by, object.0);
        }
        grants.end(&change.objects, Session(change.by), self.now);
    }

    /// The kernel of who makes a change has what it makes of an object, if it had what was.
    fn change(&mut self, by: u64, object: u64) {
        let value = self.values.entry(object).or_default();
        if let Some(answered) = self.answered.get_mut(&(by, object)).filter(|answered| answered.0 == *value) {
            answered.0 += 1;
        }
        *value += 1;
        self.shown.remove(&(by, object));
    }

    fn check(&self) {
        for ((client, object), (value, until)) in &self.shown {
            let is = self.values.get(object).copied().unwrap_or(0);
            assert!(
                *until <= self.now || *value == is,
                "client {client} shows {value} of {object}, which is {is}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_shows_what_was(steps in prop::collection::vec(steps(), 1..120)) {
        let (mut grants, mut world) = (Grants::new(), World::default());
        for step in &steps {
            world.step(&mut grants, step);
            world.check();
        }
        // Once all is over nothing is remembered.
        for change in std::mem::take(&mut world.changes) {
            grants.end(&change.objects, Session(change.by), world.now);
        }
        (1..=CLIENTS).for_each(|client| grants.session_ended(Session(client)));
        grants.sweep_at = 0;
        grants.sweep(world.now + 2 * QUIET_MS);
        prop_assert!(grants.objects.is_empty());
    }
}

/// A client looks at an object that it has had for long.
fn looked_at(grants: &mut Grants, ino: u64, session: u64, now: u64, is_alone: bool) -> u32 {
    grants.answering(Ino(ino), Session(session), now, now, true);
    grants.grant(Ino(ino), Session(session), now, is_alone)
}

#[test]
fn who_is_alone_with_an_object_is_granted_it_and_goes_on_after_own_changes() {
    let mut grants = Grants::new();
    assert_eq!(looked_at(&mut grants, 7, 1, 0, false), VALID_MS);
    assert_eq!(grants.begin(&[Ino(7)], Session(1), 1), []);
    assert_eq!(looked_at(&mut grants, 7, 1, 1, false), 0, "while it changes");
    grants.end(&[Ino(7)], Session(1), 2);
    assert_eq!(looked_at(&mut grants, 7, 1, 3, false), VALID_MS);
    assert_eq!(looked_at(&mut grants, 7, 2, 3, false), 0, "somebody else changed it");
    assert_eq!(looked_at(&mut grants, 7, 2, 2 + QUIET_MS, false), VALID_MS);
}

#[test]
fn who_is_answered_a_change_of_others_is_granted_it_when_his_kernel_has_taken_it_up() {
    let mut grants = Grants::new();
    let look = |grants: &mut Grants, now| {
        grants.answering(Ino(7), Session(1), now, now, false);
        grants.grant(Ino(7), Session(1), now, false)
    };
    assert_eq!(looked_at(&mut grants, 7, 1, 1, false), VALID_MS);
    grants.begin(&[Ino(7)], Session(2), 2);
    grants.end(&[Ino(7)], Session(2), 3);
    let later = 3 + 2 * QUIET_MS;
    assert_eq!(look(&mut grants, later), 0);
    assert_eq!(look(&mut grants, later + TAKEN_UP_MS - 1), 0);
    assert_eq!(look(&mut grants, later + TAKEN_UP_MS), VALID_MS);
    // He has what he makes of it.
    grants.begin(&[Ino(7)], Session(1), later + 1000);
    grants.end(&[Ino(7)], Session(1), later + 1001);
    assert_eq!(look(&mut grants, later + 1002), VALID_MS);
    // Another one looks names up only.
    let names = |grants: &mut Grants, now| grants.grant(Ino(7), Session(3), now, false);
    let later = later + 1001 + QUIET_MS;
    assert_eq!(names(&mut grants, later), 0);
    assert_eq!(names(&mut grants, later + TAKEN_UP_MS), VALID_MS);
}

#[test]
fn nobody_is_granted_what_another_writes() {
    let mut grants = Grants::new();
    grants.opened_for_writing(Ino(7), Session(1));
    assert_eq!(looked_at(&mut grants, 7, 1, 0, false), VALID_MS);
    assert_eq!(looked_at(&mut grants, 7, 2, QUIET_MS * 9, false), 0);
    grants.closed_for_writing(Ino(7), Session(1), QUIET_MS * 9);
    assert_eq!(looked_at(&mut grants, 7, 2, QUIET_MS * 10, false), VALID_MS);
}

#[test]
fn objects_of_which_only_attributes_are_answered_are_forgotten_too() {
    let mut grants = Grants::new();
    for ino in 0..3 * SWEEP_AT as u64 {
        grants.answering(Ino(ino), Session(1), ino, ino, false);
    }
    assert!(grants.objects.len() <= SWEEP_AT);
}

#[test]
fn many_objects_are_forgotten_when_their_time_is_over() {
    let mut grants = Grants::new();
    for ino in 0..3 * SWEEP_AT as u64 {
        looked_at(&mut grants, ino, 1, ino * 10, false);
    }
    assert!(grants.objects.len() <= SWEEP_AT);
}

fn place(directory: u64, text: &str) -> Place {
    (Ino(directory), Name::new(std::ffi::OsStr::new(text)).unwrap())
}

fn carriers(grants: &Grants, place: &Place, by: u64, now: u64) -> Vec<(u64, u64)> {
    let items = [Changed::Entry(place.0, place.1.clone())];
    grants.carriers(&items, Session(by), now).into_iter().map(|told| (told.session.0, told.until)).collect()
}

#[test]
fn who_moves_what_he_was_granted_is_told_of_it_where_it_is_now() {
    let mut grants = Grants::new();
    let (first, second, third) = (place(1, "a"), place(2, "b"), place(3, "c"));
    assert_eq!(looked_at(&mut grants, 1, 1, 0, true), VALID_ALONE_MS);
    grants.carried(&first, &second, Session(1), 10);
    assert_eq!(carriers(&grants, &second, 2, 20), [(1, ENDED_AFTER_MS)]);
    grants.carried(&second, &third, Session(1), 30);
    assert_eq!(carriers(&grants, &third, 2, 40), [(1, ENDED_AFTER_MS)], "and moved on");
    assert_eq!(carriers(&grants, &third, 1, 40), [], "who makes the change needs no word");
    assert_eq!(carriers(&grants, &place(2, "other"), 2, 40), [], "other names there were not moved");
    assert_eq!(carriers(&grants, &third, 2, ENDED_AFTER_MS), []);
    grants.session_ended(Session(1));
    assert_eq!(carriers(&grants, &third, 2, 40), []);
}

#[test]
fn who_moves_what_he_was_not_granted_is_told_of_nothing() {
    let mut grants = Grants::new();
    grants.carried(&place(1, "a"), &place(2, "b"), Session(1), 0);
    assert_eq!(carriers(&grants, &place(2, "b"), 2, 1), []);
}

#[test]
fn names_that_were_moved_are_forgotten_when_their_time_is_over() {
    let mut grants = Grants::new();
    for now in 0..3 * SWEEP_AT as u64 {
        looked_at(&mut grants, 1, 1, now, false);
        grants.carried(&place(1, "a"), &place(2, &now.to_string()), Session(1), now);
    }
    assert!(grants.moved.len() <= SWEEP_AT);
    for now in 0..9 {
        grants.carried(&place(1, "a"), &place(2, "b"), Session(1), now);
    }
    assert_eq!(grants.moved[&place(2, "b")].len(), 1);
}
