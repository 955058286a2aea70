//! What the client holds at the metadata server, so that it can claim it again from a server that was started anew:
//! references to objects with a name each that they were last seen under, open files, locks.
//!
//! Any thread; the lock is held for lookups and changes in memory only. The server's view follows ours with the replies:
//! a reference is counted here when the reply has come, and taken off when it is given back, before the server is told.

use forebay_wire::message::{Claim, Credentials, Forgotten, Item, Name};
use forebay_wire::{Attr, Ino, LockFamily, LockOwner, LockRange, LockRequest, LockScope, OpenFlags};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Reference {
    count: u64,
    generation: u64,
    place: Option<(Ino, Name)>,
}

/// An open file, as it was opened.
#[derive(Clone)]
pub(crate) struct OpenedFile {
    pub(crate) who: Credentials,
    pub(crate) ino: Ino,
    pub(crate) flags: OpenFlags,
}

/// One life of the session at one server: what is said to one makes no sense to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) boot: u64,
    pub(crate) incarnation: u64,
}

#[derive(Default)]
struct Inner {
    /// The life that knows what is held here.
    life: Option<Life>,
    references: HashMap<Ino, Reference>,
    /// What names were last seen to stand for; those that are a place in `references`.
    names: HashMap<(Ino, Name), Ino>,
    forgotten: HashMap<Ino, u64>,
    files: HashMap<u64, OpenedFile>,
    /// Files that could not be closed yet.
    unclosed: Vec<u64>,
    locks: HashMap<Ino, Vec<LockRequest>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Held {
    inner: Mutex<Inner>,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reply counted a reference to the object of a name.
    pub(crate) fn refer(&self, attr: &Attr, parent: Ino, name: &Name) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let reference = inner.references.entry(attr.ino).or_insert(Reference {
            count: 0,
            generation: attr.generation,
            place: None,
        });
        reference.count += 1;
        reference.generation = attr.generation;
        let is_same = reference.place.as_ref().is_some_and(|(at, known)| *at == parent && known == name);
        if !is_same {
            inner.move_to(attr.ino, Some((parent, name.clone())));
        }
    }

    /// Gives references back; `true` when so many wait to be told to the server that it is time.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let mut inner = self.lock();
        let Some(reference) = inner.references.get_mut(&ino) else { return false };
        let count = count.min(reference.count);
        reference.count -= count;
        if reference.count == 0 {
            inner.move_to(ino, None);
            inner.references.remove(&ino);
        }
        *inner.forgotten.entry(ino).or_default() += count;
        inner.forgotten.len() >= Forgotten::MOST
    }

    /// What is to be told to the server of references given back, and in which life it counts.
    pub(crate) fn take_forgotten(&self) -> (Vec<Forgotten>, Option<Life>) {
        let mut inner = self.lock();
        let life = inner.life;
        let some: Vec<Ino> = inner.forgotten.keys().take(Forgotten::MOST).copied().collect();
        let take = |ino| inner.forgotten.remove(&ino).map(|count| Forgotten { ino, count });
        (some.into_iter().filter_map(take).collect(), life)
    }

    /// The object that a name was last seen to stand for.
    pub(crate) fn known(&self, parent: Ino, name: &Name) -> Option<Ino> {
        self.lock().names.get(&(parent, name.clone())).copied()
    }

    /// A name stands for nothing any more.
    pub(crate) fn removed(&self, parent: Ino, name: &Name) {
        let mut inner = self.lock();
        if let Some(ino) = inner.names.get(&(parent, name.clone())).copied() {
            inner.move_to(ino, None);
        }
    }

    /// A name was moved; `swapped`: with the other one.
    pub(crate) fn renamed(&self, from: (Ino, Name), to: (Ino, Name), swapped: bool) {
        let mut inner = self.lock();
        let (source, target) = (inner.names.get(&from).copied(), inner.names.get(&to).copied());
        if let Some(ino) = target {
            inner.move_to(ino, None);
        }
        if let Some(ino) = source {
            inner.move_to(ino, Some(to));
        }
        if let Some(ino) = target.filter(|_| swapped) {
            inner.move_to(ino, Some(from));
        }
    }

    /// A file was opened under a number in a life; `false` when that life is over, and its numbers with it.
    #[must_use]
    pub(crate) fn opened(&self, handle: u64, file: OpenedFile, life: Option<Life>) -> bool {
        let mut inner = self.lock();
        if inner.life == life {
            inner.files.insert(handle, file);
        }
        inner.life == life
    }

    /// A file is being closed; returns in which life its number counts.
    pub(crate) fn closed(&self, handle: u64) -> Option<Life> {
        let mut inner = self.lock();
        inner.files.remove(&handle);
        inner.life
    }

    /// The server could not be told that a file is closed.
    pub(crate) fn not_closed_yet(&self, handle: u64, life: Option<Life>) {
        let mut inner = self.lock();
        if inner.life == life {
            inner.unclosed.push(handle);
        }
    }

    /// Files to be closed, and the life in which their numbers count.
    pub(crate) fn take_unclosed(&self) -> (Vec<u64>, Option<Life>) {
        let mut inner = self.lock();
        (std::mem::take(&mut inner.unclosed), inner.life)
    }

    /// The life that knows what is held.
    pub(crate) fn life(&self) -> Option<Life> {
        self.lock().life
    }

    /// Another life knows what is held from now on.
    pub(crate) fn begin(&self, life: Life) {
        self.lock().life = Some(life);
    }

    /// A lock was granted.
    pub(crate) fn locked(&self, request: &LockRequest) {
        let mut inner = self.lock();
        let locks = inner.locks.entry(request.file).or_default();
        take_out(locks, request.owner, request.scope);
        locks.push(*request);
    }

    /// A lock was given up.
    pub(crate) fn unlocked(&self, file: Ino, owner: LockOwner, scope: LockScope) {
        let mut inner = self.lock();
        if let Some(locks) = inner.locks.get_mut(&file) {
            take_out(locks, owner, scope);
            if locks.is_empty() {
                inner.locks.remove(&file);
            }
        }
    }

    /// An owner may have locks of a family on a file.
    pub(crate) fn has_locks(&self, file: Ino, owner: LockOwner, family: LockFamily) -> bool {
        let is_it = |lock: &LockRequest| lock.owner == owner && lock.scope.family() == family;
        self.lock().locks.get(&file).is_some_and(|locks| locks.iter().any(is_it))
    }

    /// All references, parents before what is in them, for a life that begins. What was to be told in the one before is
    /// forgotten.
    pub(crate) fn claims(&self, life: Life) -> Vec<Claim> {
        let mut inner = self.lock();
        inner.life = Some(life);
        inner.forgotten.clear();
        inner.unclosed.clear();
        let mut order = Vec::with_capacity(inner.references.len());
        let mut done = HashSet::from([Ino::ROOT]);
        for ino in inner.references.keys() {
            inner.with_parents(*ino, &mut done, &mut order);
        }
        if inner.references.contains_key(&Ino::ROOT) {
            order.insert(0, Ino::ROOT);
        }
        let claim = |ino: Ino| {
            let Reference { count, generation, place } = inner.references.get(&ino)?;
            Some(Claim { ino, generation: *generation, count: *count, place: place.clone() })
        };
        order.into_iter().filter_map(claim).collect()
    }

    /// Files to open again.
    pub(crate) fn files(&self) -> Vec<(u64, OpenedFile)> {
        self.lock().files.iter().map(|(handle, file)| (*handle, file.clone())).collect()
    }

    /// Locks to take again.
    pub(crate) fn locks(&self) -> Vec<LockRequest> {
        self.lock().locks.values().flatten().copied().collect()
    }
}

impl Inner {
    fn move_to(&mut self, ino: Ino, place: Option<(Ino, Name)>) {
        let Some(reference) = self.references.get_mut(&ino) else { return };
        let before = std::mem::replace(&mut reference.place, place.clone());
        if let Some(before) = before
            && self.names.get(&before) == Some(&ino)
        {
            self.names.remove(&before);
        }
        let Some(place) = place else { return };
        if let Some(other) = self.names.insert(place, ino).filter(|other| *other != ino)
            && let Some(other) = self.references.get_mut(&other)
        {
            // The name was somebody else's once.
            other.place = None;
        }
    }

    /// Adds an object to the order, after the directories that lead to it.
    fn with_parents(&self, ino: Ino, done: &mut HashSet<Ino>, order: &mut Vec<Ino>) {
        let mut path = Vec::new();
        let mut at = ino;
        while done.insert(at) {
            path.push(at);
            match self.references.get(&at).and_then(|reference| reference.place.as_ref()) {
                Some((parent, _)) => at = *parent,
                None => break,
            }
        }
        order.extend(path.into_iter().rev());
    }
}

/// Takes what an owner holds within a scope out of a list; what lies around it stays.
fn take_out(locks: &mut Vec<LockRequest>, owner: LockOwner, scope: LockScope) {
    let range = scope.range();
    let mut rest = Vec::new();
    locks.retain(|lock| {
        let is_hit = lock.owner == owner
            && lock.scope.family() == scope.family()
            && lock.scope.range().overlaps(range);
        if is_hit && let LockScope::Bytes(held) = lock.scope {
            let before = range.start().checked_sub(1).and_then(|last| LockRange::new(held.start(), last));
            let after = range.last().checked_add(1).and_then(|start| LockRange::new(start, held.last()));
            let piece = |range| LockRequest { scope: LockScope::Bytes(range), ..*lock };
            rest.extend(before.into_iter().chain(after).map(piece));
        }
        !is_hit
    });
    locks.append(&mut rest);
}
