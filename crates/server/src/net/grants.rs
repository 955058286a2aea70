//! Who may show what for how long without asking.
//!
//! A grant on an object lets a client answer `stat` of it from memory; one on a directory also lookups of names in it,
//! those that are not there too. A grant ends by itself after [`VALID_MS`], or [`VALID_ALONE_MS`]. Before anything is changed, every other
//! client with a grant that has not ended is told, and the change waits for its answer or the end of the grant:
//!
//! 1. [`Grants::begin`]: who has to be told; from now on nobody is given a grant on what changes;
//! 2. they are told, and answer ([`Grants::answered`]), or their grants end ([`Told::until`]);
//! 3. the change is made;
//! 4. [`Grants::end`].
//!
//! So no client shows what was before a completed change. A grant is given before the object is looked at: a change that
//! begins in between finds the grant. It is the client's part not to keep an answer during whose asking it was told of a
//! change, since the answer may be older, and to count the time from its asking.
//!
//! For [`QUIET_MS`] after a change only the one who made it is given grants, so that clients that work on the same files
//! ask instead of being told again and again. While a client has a file open for writing the others get no grant on it,
//! since its length and times change without a word to this service.
//!
//! A name that a client moves is shown where it is now as long as it might be shown where it was ([`Grants::carried`]): the client is
//! told of changes of that name, whether or not it was given a grant on the directory, and of no other name there.
//!
//! What a kernel is answered it takes up a little later, and not at all if it was told of a change meanwhile; it then goes on
//! with the attributes that it had, however old they are. So a client is granted nothing on an object that others changed until
//! it was answered its attributes as they are now, and [`TAKEN_UP_MS`] have passed ([`Grants::answering`]): who is granted nothing is
//! told nothing. An answer that is lost later, when there are grants again, changes nothing. An object that a client did
//! not have before its kernel takes up at once.
//!
//! Two clients whose kernels lock the same directory for changes of their own cannot answer each other until these are
//! made. Then the grants end the wait, once: afterwards neither is given one while both go on.
//!
//! Pure memory; `now` is milliseconds of a clock that only goes forward. Grants that ended are swept out when there are
//! many.

use crate::locks::Session;
use forebay_wire::Ino;
use forebay_wire::message::{Changed, Name};
use std::collections::HashMap;

/// A name of a directory.
pub(crate) type Place = (Ino, Name);

/// How long a grant lasts, as the client is told.
pub(crate) const VALID_MS: u32 = 1000;
/// The same for a client that is alone in its namespace, as most are: a change waits so long only when the client hangs and
/// another one comes then.
pub(crate) const VALID_ALONE_MS: u32 = 5000;
/// How long after a change others get no grant.
pub(crate) const QUIET_MS: u64 = 5000;
/// After so long a kernel has taken up what it was answered.
const TAKEN_UP_MS: u64 = 100;
/// For differences between clocks over the time of a grant.
const SLACK_MS: u64 = 100;
/// After so long every grant of before has ended.
pub(crate) const ENDED_AFTER_MS: u64 = VALID_ALONE_MS as u64 + SLACK_MS;
/// Objects remembered before those whose time is over are looked for.
const SWEEP_AT: usize = 4096;

/// Somebody who has to be told of a change before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) session: Session,
    /// What changes.
    pub(crate) ino: Ino,
    /// When the grant has ended anyway.
    pub(crate) until: u64,
    /// It may show what was; otherwise it is better told, but need not be waited for if it cannot answer.
    pub(crate) must: bool,
}

#[derive(Debug, Default)]
struct Object {
    /// Until when whose grant lasts.
    grants: Holders,
    /// Names of it were shown: who was told that its attributes change goes on showing those.
    shows_names: bool,
    /// Changes under way.
    changing: u32,
    /// The last change.
    changed: Option<LastChange>,
    /// Who was answered its attributes.
    answers: Vec<AnswerTo>,
    /// Who has it open for writing, and how often.
    writers: Vec<(Session, u32)>,
}

/// Who may show something until when.
type Holders = Vec<(Session, u64)>;

/// Until when a client may show it.
fn shown_by(holders: &Holders, session: Session) -> Option<u64> {
    holders.iter().filter(|(holder, _)| *holder == session).map(|(_, until)| *until).max()
}

/// A client may show something from now on until then, or longer if it might before: names that it looked up in a
/// directory it shows as long as it was told then.
fn is_shown_to(holders: &mut Holders, session: Session, now: u64, until: u64) {
    let until = until.max(shown_by(holders, session).unwrap_or(0));
    holders.retain(|(holder, until)| *holder != session && *until > now);
    holders.push((session, until));
}

/// The others who may show it, as they have to be told of a change.
fn others(holders: &Holders, ino: Ino, by: Session, now: u64) -> impl Iterator<Item = Told> {
    let others = holders.iter().filter(move |(holder, until)| *holder != by && *until > now);
    others.map(move |(session, until)| Told { session: *session, ino, until: *until, must: true })
}

/// A client was answered the attributes, as they are since the last change by others.
#[derive(Clone, Copy, Debug)]
struct AnswerTo {
    session: Session,
    /// They were looked at then or later.
    looked: u64,
    /// When its kernel has taken them up.
    taken_up: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastChange {
    at: u64,
    /// Who made it; `None` when several did lately.
    by: Option<Session>,
    /// The last change before by anybody else.
    others_at: Option<u64>,
}

impl LastChange {
    fn is_quiet(self, now: u64) -> bool {
        now < self.at + QUIET_MS
    }

    /// The last change that a client did not make itself.
    fn by_others_than(self, session: Session) -> Option<u64> {
        if self.by == Some(session) { self.others_at } else { Some(self.at) }
    }
}

impl Object {
    fn may_have(&self, session: Session, now: u64) -> bool {
        let others_write = self.writers.iter().any(|(writer, _)| *writer != session);
        let quiet = self.changed.is_some_and(|changed| changed.is_quiet(now) && changed.by != Some(session));
        self.changing == 0 && !others_write && !quiet
    }

    /// The first answer since the last change by others.
    fn answer_to(&self, session: Session) -> Option<&AnswerTo> {
        let changed = self.changed.and_then(|last| last.by_others_than(session));
        let is_later = |answer: &&AnswerTo| changed.is_none_or(|changed| answer.looked > changed);
        self.answers.iter().find(|answer| answer.session == session).filter(is_later)
    }

    /// The client is being answered the attributes. Returns when its kernel has them, as they are since the last change by
    /// others: earlier than by this answer, if there was one before.
    fn answering(&mut self, session: Session, looked: u64, taken_up: u64) -> u64 {
        if let Some(answer) = self.answer_to(session) {
            return answer.taken_up;
        }
        self.answers.retain(|answer| answer.session != session);
        self.answers.push(AnswerTo { session, looked, taken_up });
        taken_up
    }

    fn was_changed(&mut self, by: Session, now: u64) {
        let last = self.changed;
        let alone = last.is_none_or(|last| !last.is_quiet(now) || last.by == Some(by));
        let others_at = last.and_then(|last| last.by_others_than(by));
        self.changed = Some(LastChange { at: now, by: alone.then_some(by), others_at });
    }

    fn is_over(&self, now: u64) -> bool {
        let quiet = self.changed.is_some_and(|changed| changed.is_quiet(now));
        let granted = self.grants.iter().any(|(_, until)| *until > now);
        self.changing == 0 && self.writers.is_empty() && !quiet && !granted
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Grants {
    objects: HashMap<Ino, Object>,
    /// Names that were moved, and who may show them at their new place.
    moved: HashMap<Place, Holders>,
    sweep_at: usize,
}

impl Grants {
    pub(crate) fn new() -> Grants {
        Grants { objects: HashMap::new(), moved: HashMap::new(), sweep_at: SWEEP_AT }
    }

    /// A client is being answered the attributes of an object, as they were at `looked` or later. `is_new`: it did not have the
    /// object before. To be said before [`Grants::grant`].
    pub(crate) fn answering(&mut self, ino: Ino, session: Session, looked: u64, now: u64, is_new: bool) {
        self.sweep(now);
        let taken_up = if is_new { now } else { now + TAKEN_UP_MS };
        self.objects.entry(ino).or_default().answering(session, looked, taken_up);
    }

    /// Grants, if possible; returns for how long, in milliseconds. `is_alone`: there is no other client.
    pub(crate) fn grant(&mut self, ino: Ino, session: Session, now: u64, is_alone: bool) -> u32 {
        self.sweep(now);
        let object = self.objects.entry(ino).or_default();
        if !object.may_have(session, now) {
            return 0;
        }
        // So long after a change a kernel looks no name up before it has asked for the attributes; a client without a kernel
        // need not ask.
        if object.answering(session, now, now + TAKEN_UP_MS) > now {
            return 0;
        }
        let valid_ms = if is_alone { VALID_ALONE_MS } else { VALID_MS };
        let until = now + u64::from(valid_ms) + SLACK_MS;
        is_shown_to(&mut object.grants, session, now, until);
        valid_ms
    }

    /// What was granted last may be used to show names of a directory.
    pub(crate) fn names_are_shown(&mut self, directory: Ino) {
        self.objects.entry(directory).or_default().shows_names = true;
    }

    /// A client moves a name, which it goes on showing as long as it might before. Only in a change of both directories: nobody is granted
    /// anything on them meanwhile.
    pub(crate) fn carried(&mut self, from: &Place, to: &Place, session: Session, now: u64) {
        self.sweep(now);
        let granted = self.objects.get(&from.0).and_then(|object| shown_by(&object.grants, session));
        let until = granted.max(self.moved.get(from).and_then(|holders| shown_by(holders, session)));
        if let Some(until) = until.filter(|until| *until > now) {
            is_shown_to(self.moved.entry(to.clone()).or_default(), session, now, until);
        }
    }

    /// Who has to be told of a change beside those with grants: who moved one of its names to where it is now.
    pub(crate) fn carriers(&self, items: &[Changed], by: Session, now: u64) -> Vec<Told> {
        let mut told = Vec::new();
        for item in items {
            let Changed::Entry(ino, name) = item else { continue };
            let Some(holders) = self.moved.get(&(*ino, name.clone())) else { continue };
            told.extend(others(holders, *ino, by, now));
        }
        told
    }

    /// A change begins; returns who has to be told of it first. Objects may be named twice.
    pub(crate) fn begin(&mut self, objects: &[Ino], by: Session, now: u64) -> Vec<Told> {
        let mut told = Vec::new();
        for ino in objects {
            let object = self.objects.entry(*ino).or_default();
            object.changing += 1;
            // They stay until they are answered: a second change that begins meanwhile has to wait for them too.
            told.extend(others(&object.grants, *ino, by, now));
        }
        told
    }

    /// A client was told of a change and has answered: it shows nothing of the object any more, but names.
    pub(crate) fn answered(&mut self, told: Told) {
        if let Some(object) = self.objects.get_mut(&told.ino).filter(|object| !object.shows_names) {
            object.grants.retain(|(holder, until)| *holder != told.session || *until > told.until);
        }
    }

    /// A change was made, or was not.
    pub(crate) fn end(&mut self, objects: &[Ino], by: Session, now: u64) {
        for ino in objects {
            let Some(object) = self.objects.get_mut(ino) else { continue };
            object.changing = object.changing.saturating_sub(1);
            object.was_changed(by, now);
        }
    }

    /// A client has a file open for writing, once more. Others must have been told: a change of it is under way.
    pub(crate) fn opened_for_writing(&mut self, ino: Ino, session: Session) {
        let writers = &mut self.objects.entry(ino).or_default().writers;
        match writers.iter_mut().find(|(writer, _)| *writer == session) {
            Some((_, count)) => *count += 1,
            None => writers.push((session, 1)),
        }
    }

    /// A client closed a file that it had open for writing, once.
    pub(crate) fn closed_for_writing(&mut self, ino: Ino, session: Session, now: u64) {
        let Some(object) = self.objects.get_mut(&ino) else { return };
        let Some(at) = object.writers.iter().position(|(writer, _)| *writer == session) else { return };
        object.writers[at].1 -= 1;
        if object.writers[at].1 == 0 {
            object.writers.swap_remove(at);
        }
        object.was_changed(session, now);
    }

    /// A client is gone: it shows nothing any more.
    pub(crate) fn session_ended(&mut self, session: Session) {
        for object in self.objects.values_mut() {
            object.grants.retain(|(holder, _)| *holder != session);
            object.answers.retain(|answer| answer.session != session);
            object.writers.retain(|(writer, _)| *writer != session);
        }
        for holders in self.moved.values_mut() {
            holders.retain(|(holder, _)| *holder != session);
        }
    }

    fn sweep(&mut self, now: u64) {
        if self.remembered() >= self.sweep_at {
            self.objects.retain(|_, object| !object.is_over(now));
            self.moved.retain(|_, holders| holders.iter().any(|(_, until)| *until > now));
            self.sweep_at = (self.remembered() * 2).max(SWEEP_AT);
        }
    }

    fn remembered(&self) -> usize {
        self.objects.len() + self.moved.len()
    }
}

#[cfg(test)]
mod tests;
