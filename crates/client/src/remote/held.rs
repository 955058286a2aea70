//! What the client holds at the metadata server, so that it can claim it again from a server that was started anew:
//! references to objects with a name each that they were last seen under, open files, locks.
//!
//! An object that is open, and a directory that leads to something held, can be claimed only as long as the server knows
//! them: one reference to them is kept when the last one is given back here, until they are closed or nothing is left
//! in them. A kernel does not do otherwise; others who use a volume may.
//!
//! Any thread; the lock is held for lookups and changes in memory only. The server's view follows ours with the replies:
//! a reference is counted here when the reply has come, and taken off when it is given back, before the server is told.

use forebay_wire::message::{Claim, Closed, Credentials, Forgotten, Item, Name};
use forebay_wire::{
    Attr, FileKind, Ino, LockFamily, LockOwner, LockRange, LockRequest, LockScope, OpenFlags, Placement,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct Reference {
    /// As whoever uses the volume counts.
    count: u64,
    /// Kept at the server beyond that.
    kept: u64,
    /// Of both together so many that the server does not know: it found the object gone when they were claimed. What is given
    /// back is taken from these first, or it would take references that were counted since.
    void: u64,
    /// Open files of the object, and places of held objects in it.
    pins: u64,
    /// Of the open files those that are open for writing, and when the last one was closed.
    writers: u64,
    written: Option<Instant>,
    generation: u64,
    is_directory: bool,
    place: Option<(Ino, Name)>,
}

/// An open file, as it was opened.
#[derive(Clone)]
pub(crate) struct OpenedFile {
    pub(crate) who: Credentials,
    pub(crate) ino: Ino,
    pub(crate) flags: OpenFlags,
    /// Where its content is: that of an open file stays where it is.
    pub(crate) placement: Placement,
}

/// One life of the session at one server: what is said to one makes no sense to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) boot: u64,
    pub(crate) incarnation: u64,
}

/// Locks of one file that are decided about here, at most, and about so many more than one request can add.
pub(crate) const LOCKS_OF_FILE_HERE_MAX: usize = 256;
/// Locks on all files beyond which none is taken here, and files with locks.
const LOCKS_HERE_MAX: usize = 4096;
const FILES_HERE_MAX: usize = 64;

/// What came of a lock that was to be taken without asking the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    Taken,
    /// Another owner's is in the way.
    InTheWay,
    TooMany,
}

#[derive(Default)]
struct Inner {
    /// The life that knows what is held here.
    life: Option<Life>,
    references: HashMap<Ino, Reference>,
    /// What names were last seen to stand for; those that are a place in `references`.
    names: BTreeMap<(Ino, Name), Ino>,
    forgotten: HashMap<Ino, u64>,
    files: HashMap<u64, OpenedFile>,
    /// Closed files of which the server was not told yet.
    unclosed: Vec<Closed>,
    /// Names that are being moved, and where to; what they stand for has the one or the other.
    moving: Vec<((Ino, Name), (Ino, Name))>,
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
        let reference = inner.references.entry(attr.ino).or_default();
        reference.count += 1;
        reference.generation = attr.generation;
        reference.is_directory = attr.kind == FileKind::Directory;
        let is_same = reference.place.as_ref().is_some_and(|(at, known)| *at == parent && known == name);
        if !is_same {
            inner.move_to(attr.ino, Some((parent, name.clone())));
        }
    }

    /// A reply counted a reference to the object of a name that nobody asked for yet; it is kept with the others. `false`:
    /// there are none, or the name stood for something else, and it is given back.
    pub(crate) fn keep(&self, attr: &Attr, parent: Ino, name: &Name) -> bool {
        let mut inner = self.lock();
        let is_known = inner.names.get(&(parent, name.clone())) == Some(&attr.ino);
        match inner.references.get_mut(&attr.ino).filter(|reference| is_known && reference.count > 0) {
            Some(reference) => {
                reference.kept += 1;
                true
            }
            None => {
                inner.give_back(attr.ino, 1);
                false
            }
        }
    }

    /// One of the kept references is used for a name that was found before anybody asked. `false`: there is none, or the object
    /// was written since.
    pub(crate) fn refer_kept(&self, ino: Ino, parent: Ino, name: &Name, since: Instant) -> bool {
        let mut inner = self.lock();
        let is_known = inner.names.get(&(parent, name.clone())) == Some(&ino);
        let Some(reference) = inner.references.get_mut(&ino) else { return false };
        let is_written = reference.writers > 0 || reference.written.is_some_and(|at| at >= since);
        if !is_known || is_written || reference.kept == 0 {
            return false;
        }
        (reference.kept, reference.count) = (reference.kept - 1, reference.count + 1);
        true
    }

    /// The next names of a directory that are known here, in their order.
    pub(crate) fn names_after(&self, parent: Ino, name: &Name, most: usize) -> Vec<Name> {
        let inner = self.lock();
        let after = inner.names.range((Bound::Excluded((parent, name.clone())), Bound::Unbounded));
        let here = after.take_while(|((directory, _), _)| *directory == parent);
        here.take(most).map(|((_, name), _)| name.clone()).collect()
    }

    /// Gives references back; `true` when so many wait to be told to the server that it is time.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let mut inner = self.lock();
        let Some(reference) = inner.references.get_mut(&ino) else { return false };
        let mut given_back = count.min(reference.count);
        reference.count -= given_back;
        if reference.count == 0 && reference.kept == 0 && reference.pins > 0 && given_back > 0 {
            reference.kept = 1;
            given_back -= 1;
        }
        inner.give_back(ino, given_back);
        inner.release(ino);
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

    /// The server could not be told; it will be, unless that life is over.
    pub(crate) fn not_told_yet(&self, items: Vec<Forgotten>, life: Option<Life>) {
        let mut inner = self.lock();
        if inner.life == life {
            items.into_iter().for_each(|item| inner.tell_of(item.ino, item.count));
        }
    }

    /// The object that a name was last seen to stand for.
    pub(crate) fn known(&self, parent: Ino, name: &Name) -> Option<Ino> {
        self.lock().names.get(&(parent, name.clone())).copied()
    }

    /// The name was last seen to stand for a directory, or something is being moved to it or from it.
    pub(crate) fn may_be_directory(&self, parent: Ino, name: &Name) -> bool {
        let inner = self.lock();
        let is_it = |place: &(Ino, Name)| place.0 == parent && place.1 == *name;
        let ino = inner.names.get(&(parent, name.clone()));
        ino.and_then(|ino| inner.references.get(ino)).is_some_and(|reference| reference.is_directory)
            || inner.moving.iter().any(|(from, to)| is_it(from) || is_it(to))
    }

    /// A name stands for nothing any more.
    pub(crate) fn removed(&self, parent: Ino, name: &Name) {
        let mut inner = self.lock();
        if let Some(ino) = inner.names.get(&(parent, name.clone())).copied() {
            inner.move_to(ino, None);
        }
    }

    /// A name is going to be moved: until that is over what it stands for is claimed by both names.
    pub(crate) fn moving(&self, from: &(Ino, Name), to: &(Ino, Name)) -> Moving<'_> {
        let names = (from.clone(), to.clone());
        self.lock().moving.push(names.clone());
        Moving { held: self, names }
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
            let reference = inner.references.entry(file.ino).or_default();
            reference.pins += 1;
            reference.writers += u64::from(file.flags.writable());
            inner.files.insert(handle, file);
        }
        inner.life == life
    }

    /// A file was closed, of which the server is to be told; `true` when so many wait for that that it is time. A file
    /// that is not held is gone there too.
    pub(crate) fn closed(&self, closed: Closed) -> bool {
        let mut inner = self.lock();
        if let Some(file) = inner.files.remove(&closed.handle) {
            inner.was_closed(&file);
            inner.unclosed.push(closed);
        }
        inner.unclosed.len() >= Closed::MOST
    }

    /// A file that was open is gone from the server.
    pub(crate) fn lost(&self, handle: u64) {
        let mut inner = self.lock();
        if let Some(file) = inner.files.remove(&handle) {
            inner.was_closed(&file);
        }
    }

    /// The server could not be told.
    pub(crate) fn not_closed_yet(&self, items: Vec<Closed>, life: Life) {
        let mut inner = self.lock();
        if inner.life == Some(life) {
            inner.unclosed.extend(items);
        }
    }

    /// Closed files that the server does not know of, if this is the life in which their numbers count.
    pub(crate) fn take_unclosed(&self, life: Life) -> Vec<Closed> {
        let mut inner = self.lock();
        if inner.life != Some(life) {
            return Vec::new();
        }
        let many = inner.unclosed.len().min(Closed::MOST);
        inner.unclosed.drain(..many).collect()
    }

    /// There are some.
    pub(crate) fn has_unclosed(&self) -> bool {
        !self.lock().unclosed.is_empty()
    }

    /// The life that knows what is held.
    pub(crate) fn life(&self) -> Option<Life> {
        self.lock().life
    }

    /// Another life knows what is held from now on.
    pub(crate) fn begin(&self, life: Life) {
        self.lock().life = Some(life);
    }

    /// A lock was granted in a life; `false` when that life is over: the lock was not claimed from the next one, and is nobody's.
    #[must_use]
    pub(crate) fn locked(&self, request: &LockRequest, life: Life) -> bool {
        let mut inner = self.lock();
        let counts = inner.life == Some(life);
        if counts {
            inner.locked(request);
        }
        counts
    }

    /// Takes a lock of a file whose locks are all held here.
    pub(crate) fn lock_here(&self, request: &LockRequest) -> Here {
        let mut inner = self.lock();
        let has_many = inner.locks.len() > FILES_HERE_MAX
            || inner.locks.values().map(Vec::len).sum::<usize>() > LOCKS_HERE_MAX;
        let of_file = inner.locks.get(&request.file).map_or(&[][..], Vec::as_slice);
        let is_in_the_way = |held: &LockRequest| {
            held.owner != request.owner
                && held.scope.family() == request.scope.family()
                && held.scope.range().overlaps(request.scope.range())
                && held.kind.conflicts_with(request.kind)
        };
        if has_many || of_file.len() >= LOCKS_OF_FILE_HERE_MAX {
            return Here::TooMany;
        }
        if of_file.iter().any(is_in_the_way) {
            return Here::InTheWay;
        }
        inner.locked(request);
        Here::Taken
    }

    /// All locks of a file that are held.
    pub(crate) fn locks_of(&self, file: Ino) -> Vec<LockRequest> {
        self.lock().locks.get(&file).cloned().unwrap_or_default()
    }

    /// A lock was given up here, or could not be claimed.
    pub(crate) fn unlocked(&self, file: Ino, owner: LockOwner, scope: LockScope) {
        self.lock().unlocked(file, owner, scope);
    }

    /// A lock was given up at the server in a life; `false` when that life is over: the lock was claimed from the next one.
    #[must_use]
    pub(crate) fn unlocked_in(&self, file: Ino, owner: LockOwner, scope: LockScope, life: Life) -> bool {
        let mut inner = self.lock();
        let counts = inner.life == Some(life);
        if counts {
            inner.unlocked(file, owner, scope);
        }
        counts
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
        inner.references.values_mut().for_each(|reference| reference.void = 0);
        let mut order = Vec::with_capacity(inner.references.len());
        let mut done = HashSet::from([Ino::ROOT]);
        for ino in inner.references.keys() {
            inner.with_parents(*ino, &mut done, &mut order);
        }
        if inner.references.contains_key(&Ino::ROOT) {
            order.insert(0, Ino::ROOT);
        }
        let claim = |ino: Ino| {
            let Reference { count, kept, generation, place, .. } = inner.references.get(&ino)?;
            Some(Claim { ino, generation: *generation, count: *count + *kept, place: place.clone() })
        };
        let claims: Vec<Claim> = order.into_iter().filter_map(claim).collect();
        claims.into_iter().flat_map(|claim| inner.by_all_names(claim)).collect()
    }

    /// Objects that the life which begins did not find: it knows of no reference to them.
    pub(crate) fn gone(&self, objects: impl IntoIterator<Item = Ino>) {
        let mut inner = self.lock();
        for ino in objects {
            if let Some(reference) = inner.references.get_mut(&ino) {
                reference.void = reference.count + reference.kept;
            }
        }
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

/// A name is being moved, until this is dropped.
pub(crate) struct Moving<'a> {
    held: &'a Held,
    names: ((Ino, Name), (Ino, Name)),
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut inner = self.held.lock();
        if let Some(at) = inner.moving.iter().position(|names| *names == self.names) {
            inner.moving.swap_remove(at);
        }
    }
}

impl Inner {
    /// Takes the place of what the owner had in that range.
    fn locked(&mut self, request: &LockRequest) {
        let locks = self.locks.entry(request.file).or_default();
        take_out(locks, request.owner, request.scope);
        locks.push(*request);
    }

    fn unlocked(&mut self, file: Ino, owner: LockOwner, scope: LockScope) {
        if let Some(locks) = self.locks.get_mut(&file) {
            take_out(locks, owner, scope);
            if locks.is_empty() {
                self.locks.remove(&file);
            }
        }
    }

    /// A claim, and the same by the names that its object may have been given meanwhile. To claim twice is to claim once.
    fn by_all_names(&self, claim: Claim) -> Vec<Claim> {
        let Some(place) = claim.place.clone() else { return vec![claim] };
        let others = self.moving.iter().filter_map(|(from, to)| match &place {
            place if place == from => Some(to),
            place if place == to => Some(from),
            _ => None,
        });
        let others: Vec<Claim> =
            others.map(|other| Claim { place: Some(other.clone()), ..claim.clone() }).collect();
        std::iter::once(claim).chain(others).collect()
    }

    fn was_closed(&mut self, file: &OpenedFile) {
        if let Some(reference) = self.references.get_mut(&file.ino).filter(|_| file.flags.writable()) {
            reference.writers = reference.writers.saturating_sub(1);
            reference.written = Some(Instant::now());
        }
        self.unpin(file.ino);
    }

    fn move_to(&mut self, ino: Ino, place: Option<(Ino, Name)>) {
        let Some(reference) = self.references.get_mut(&ino) else { return };
        let before = std::mem::replace(&mut reference.place, place.clone());
        if let Some((parent, name)) = place {
            if let Some(parent) = self.references.get_mut(&parent) {
                parent.pins += 1;
            }
            if let Some(other) = self.names.insert((parent, name), ino).filter(|other| *other != ino)
                && let Some(other) = self.references.get_mut(&other)
            {
                // The name was somebody else's once.
                other.place = None;
                self.unpin(parent);
            }
        }
        if let Some(before) = before {
            if self.names.get(&before) == Some(&ino) {
                self.names.remove(&before);
            }
            self.unpin(before.0);
        }
    }

    fn unpin(&mut self, ino: Ino) {
        if let Some(reference) = self.references.get_mut(&ino) {
            reference.pins = reference.pins.saturating_sub(1);
        }
        self.release(ino);
    }

    fn give_back(&mut self, ino: Ino, count: u64) {
        let reference = self.references.get_mut(&ino);
        let unknown = reference.map_or(0, |reference| {
            let unknown = reference.void.min(count);
            reference.void -= unknown;
            unknown
        });
        self.tell_of(ino, count - unknown);
    }

    fn tell_of(&mut self, ino: Ino, count: u64) {
        if count > 0 {
            *self.forgotten.entry(ino).or_default() += count;
        }
    }

    /// Lets go of an object that nothing needs any more, and of the directories that were held for it alone.
    fn release(&mut self, ino: Ino) {
        let mut at = Some(ino);
        while let Some(ino) = at.take() {
            let is_unused = |reference: &Reference| reference.count == 0 && reference.pins == 0;
            if !self.references.get(&ino).is_some_and(is_unused) {
                return;
            }
            let kept = self.references.get(&ino).map_or(0, |reference| reference.kept);
            self.give_back(ino, kept);
            let Some(reference) = self.references.remove(&ino) else { return };
            let Some(place) = reference.place else { return };
            if self.names.get(&place) == Some(&ino) {
                self.names.remove(&place);
            }
            if let Some(parent) = self.references.get_mut(&place.0) {
                parent.pins = parent.pins.saturating_sub(1);
                at = Some(place.0);
            }
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

#[cfg(test)]
mod tests;
