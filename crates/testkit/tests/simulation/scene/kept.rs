//! Work of who knows that only what he synced outlives the power of a storage node.
//!
//! As long as no power goes every answer has to be the one that a model in memory gives. When it went, the names are as they were
//! at some moment since the last sync of the directory, and each byte of a file is one that it had at some moment since the
//! last sync of the file; what was synced is there. Then the work goes on from what was found. A sync of a file
//! that is answered after a power cut nobody here had noticed means all that was written through this open file; one of the
//! directory, or of what another open file wrote, means what the cut has left.
//!
//! An operation that failed because a disk was full has done nothing to names, and to content what it was to do in part or not
//! at all. One that failed because the disk of the names did is done or not; and when a sync of the directory failed so, no name is
//! changed any more until the server of the names is started anew.

use super::own::{me, names_in, read_all};
use crate::machine;
use forebay_client::{Handle, Volume};
use forebay_wire::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::result::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names used in the directory.
const NAMES: u64 = 5;
/// Longest file in bytes.
const LENGTH_MAX: u64 = 40_000;
/// Longest piece written in bytes.
const PIECE_MAX: u64 = 14_000;
/// So often everything is read again because something ended meanwhile.
const TRIES: usize = 40;

/// Names and the numbers of their files.
type Names = BTreeMap<String, usize>;

/// What a directory and its files were since they were synced, the last one now.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Known>>);

struct Known {
    names: Vec<Names>,
    files: Vec<Vec<Vec<u8>>>,
}

impl Default for Known {
    fn default() -> Known {
        Known { names: vec![Names::new()], files: Vec::new() }
    }
}

/// From which of the states before something may be.
#[derive(Clone, Copy)]
enum Since {
    /// All since the last sync.
    Sync,
    /// So many from the end.
    Last(usize),
}

impl Since {
    fn of<T>(self, all: &[T]) -> &[T] {
        match self {
            Since::Sync => all,
            Since::Last(count) => &all[all.len().saturating_sub(count)..],
        }
    }
}

fn add<T: Clone>(states: &mut Vec<T>, change: &dyn Fn(&mut T), to_all: bool) {
    let from = if to_all { 0 } else { states.len() - 1 };
    let mut then = states[from..].to_vec();
    then.iter_mut().for_each(change);
    states.extend(then);
}

/// Content that can have come of these.
pub(super) fn may_be(found: &[u8], states: &[Vec<u8>]) -> Result<(), String> {
    let lengths = states.iter().map(Vec::len);
    let (shortest, longest) = (lengths.clone().min().unwrap_or(0), lengths.max().unwrap_or(0));
    if !(shortest..=longest).contains(&found.len()) {
        return Err(format!("has {} bytes and should have {shortest} to {longest}", found.len()));
    }
    let is_known = |at: &usize| states.iter().any(|state| state.get(*at).copied().unwrap_or(0) == found[*at]);
    match (0..found.len()).find(|at| !is_known(at)) {
        None => Ok(()),
        Some(at) => {
            let known: Vec<_> = states.iter().map(|state| state.get(at)).collect();
            Err(format!("byte {at} of {} is {} and was {known:?}", found.len(), found[at]))
        }
    }
}

impl Known {
    fn now(&self) -> &Names {
        self.names.last().expect("there is always one")
    }

    fn content(&self, file: usize) -> &Vec<u8> {
        self.files[file].last().expect("there is always one")
    }

    /// Something was done. When the power went meanwhile it may have been done to any state before.
    fn note(&mut self, done: &Done<'_>, has_crashed: bool) {
        match done {
            Done::Nothing => {}
            Done::Names(change) => add(&mut self.names, change, has_crashed),
            Done::Content(file, change) => add(&mut self.files[*file], change, has_crashed),
        }
    }

    fn repeat_all_but(&mut self, file: usize) {
        for (_, states) in self.files.iter_mut().enumerate().filter(|(other, _)| *other != file) {
            states.push(states.last().expect("there is always one").clone());
        }
    }

    /// Takes what was found for what is, if it can be.
    fn accept(
        &mut self,
        found: &BTreeMap<String, Vec<u8>>,
        names: Since,
        content: Since,
    ) -> Result<(), String> {
        let mut reasons = Vec::new();
        let have: Vec<&String> = found.keys().collect();
        for state in names.of(&self.names).iter().rev() {
            if state.keys().collect::<Vec<_>>() != have {
                continue;
            }
            let wrong = state.iter().find_map(|(name, file)| {
                let wrong = may_be(&found[name], content.of(&self.files[*file])).err()?;
                Some(format!("{name} (file {file}) {wrong}"))
            });
            match wrong {
                Some(wrong) => reasons.push(wrong),
                None => {
                    let state = state.clone();
                    for (name, file) in &state {
                        self.files[*file].push(found[name].clone());
                    }
                    self.names.push(state);
                    return Ok(());
                }
            }
        }
        Err(match reasons.is_empty() {
            true => format!("there are {have:?}, and should be one of {:?}", names.of(&self.names)),
            false => reasons.join("; or "),
        })
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at everything after the power went everywhere.
    pub fn compare(&self, volume: &Volume, directory: Ino) {
        let found = read(volume, directory).expect("everything can be read");
        self.lock().accept(&found, Since::Sync, Since::Sync).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// All files of a directory.
pub(super) fn read(volume: &Volume, directory: Ino) -> Result<BTreeMap<String, Vec<u8>>, FsError> {
    let mut found = BTreeMap::new();
    for name in names_in(volume, directory)? {
        let attr = volume.lookup(me(), directory, OsStr::new(&name))?;
        let opened = volume.open(me(), attr.ino, OpenFlags::READ_ONLY);
        let content = opened.and_then(|opened| {
            let content = read_all(volume, opened.handle);
            volume.release(opened.handle).and(content)
        });
        volume.forget(attr.ino, 1);
        let content = content?;
        found.insert(name, content);
    }
    Ok(found)
}

/// One that works in its directory.
pub struct Keeper<'a> {
    volume: &'a Volume,
    directory: Ino,
    memory: Memory,
    /// Servers of the instance.
    servers: usize,
    open: Option<(usize, Ino, Handle)>,
    /// It was open before, and something of that is not synced: who opens a file is not told what was lost of it.
    has_rest: bool,
    stamp: u8,
    /// Power cuts and kills that are reckoned with.
    crashes: u64,
    kills: u64,
    disk: Disk,
}

/// The disk of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    Works,
    /// It may fail.
    Fails,
    /// A sync of names failed: it is not written to any more.
    Poisoned,
}

/// What an operation does to names, or to the content of a file.
enum Done<'a> {
    Nothing,
    Names(&'a dyn Fn(&mut Names)),
    Content(usize, &'a dyn Fn(&mut Vec<u8>)),
}

impl<'a> Keeper<'a> {
    pub fn new(volume: &'a Volume, directory: Ino, memory: Memory, servers: usize) -> Keeper<'a> {
        let (crashes, kills) = (machine::crashes(), machine::kills());
        Keeper {
            volume,
            directory,
            memory,
            servers,
            open: None,
            has_rest: false,
            stamp: 0,
            crashes,
            kills,
            disk: Disk::Works,
        }
    }

    /// The disk of the names is in another state from now on.
    pub fn set_disk(&mut self, disk: Disk) {
        self.disk = disk;
    }

    pub fn disk(&self) -> Disk {
        self.disk
    }

    fn some_name(&self) -> Option<(String, usize)> {
        let known = self.memory.lock();
        let names: Vec<_> = known.now().iter().map(|(name, file)| (name.clone(), *file)).collect();
        drop(known);
        (!names.is_empty()).then(|| names[machine::below(names.len() as u64) as usize].clone())
    }

    /// One operation.
    pub fn step(&mut self) {
        if !self.has_power() {
            self.learn(Since::Sync, Since::Sync);
        }
        self.kills = machine::kills();
        match machine::below(17) {
            0..2 => self.create(),
            2 => self.open(),
            3..6 => self.write(),
            6 => self.append(),
            7 => self.cut(),
            8..10 => self.read(),
            10 => self.rename(),
            11 => self.unlink(),
            12..15 => self.sync(),
            _ => self.sync_names(),
        }
    }

    /// Closes what is open. After a power cut it may not be there any more.
    pub fn close(&mut self) {
        if let Some((_, ino, handle)) = self.open.take() {
            let _ = self.volume.release(handle);
            self.volume.forget(ino, 1);
        }
    }

    /// Reads everything, and holds it against what it may be.
    fn learn(&mut self, names: Since, content: Since) {
        self.look_through_what_is_open(content);
        self.close();
        for _ in 0..TRIES {
            let (crashes, kills) = (machine::crashes(), machine::kills());
            let (names, content) =
                if crashes == self.crashes { (names, content) } else { (Since::Sync, Since::Sync) };
            let found = read(self.volume, self.directory);
            if machine::crashes() != crashes || (found.is_err() && machine::kills() != kills) {
                continue;
            }
            let found = found.unwrap_or_else(|error| panic!("what is there cannot be read: {error}"));
            machine::note(|| {
                format!("found {:?}", found.iter().map(|(n, c)| (n, c.len())).collect::<Vec<_>>())
            });
            let accepted = self.memory.lock().accept(&found, names, content);
            accepted.unwrap_or_else(|wrong| panic!("{wrong}"));
            (self.crashes, self.kills) = (crashes, kills);
            return;
        }
        panic!("there is always somebody who goes away");
    }

    fn look_through_what_is_open(&self, content: Since) {
        let Some((file, _, handle)) = self.open else { return };
        let crashes = machine::crashes();
        let Ok(found) = read_all(self.volume, handle) else { return };
        let is_quiet = crashes == machine::crashes();
        let content = if crashes == self.crashes { content } else { Since::Sync };
        let wrong = may_be(&found, content.of(&self.memory.lock().files[file])).err();
        assert!(!is_quiet || wrong.is_none(), "file {file}, open, {}", wrong.unwrap_or_default());
    }

    /// Notes what came of an operation. When it failed for a reason, learns it.
    fn attempt<T>(&mut self, done: Done<'_>, what: &str, result: Result<T, FsError>) -> Option<T> {
        let has_crashed = !self.has_power();
        let error = match result {
            Ok(result) => {
                let mut memory = self.memory.lock();
                let before = memory.now().clone();
                memory.note(&done, has_crashed);
                let is_allowed = self.disk != Disk::Poisoned || *memory.now() == before;
                assert!(is_allowed, "{what} after a sync of names that failed");
                return Some(result);
            }
            Err(error) => error,
        };
        machine::note(|| format!("{what} fails: {error}"));
        let was_killed = machine::kills() != self.kills;
        let is_full = error == FsError::NoSpace;
        let is_of_disk = self.disk != Disk::Works && is_of_disk(&error);
        assert!(is_full || was_killed || has_crashed || is_of_disk, "{what}: {error}");
        let is_undone = is_full && !was_killed && !has_crashed && !matches!(done, Done::Content(..));
        if !is_undone {
            self.memory.lock().note(&done, has_crashed);
        }
        let (names, content) = match (is_undone, &done) {
            (false, Done::Names(_)) => (Since::Last(2), Since::Last(1)),
            (false, Done::Content(..)) => (Since::Last(1), Since::Last(2)),
            _ => (Since::Last(1), Since::Last(1)),
        };
        // Of other files there is one state only, which is twice the same.
        if let (Done::Content(file, _), false) = (&done, has_crashed) {
            self.memory.lock().repeat_all_but(*file);
        }
        self.learn(names, content);
        None
    }

    fn create(&mut self) {
        self.close();
        let name = format!("file{}", machine::below(NAMES));
        let is_new = !self.memory.lock().now().contains_key(&name);
        machine::note(|| format!("create {name}, new: {is_new}"));
        let made = self.volume.create(me(), self.directory, OsStr::new(&name), 0o644, OpenFlags::READ_WRITE);
        let mut known = self.memory.lock();
        known.files.push(vec![Vec::new()]);
        let file = known.files.len() - 1;
        drop(known);
        let then = |names: &mut Names| {
            names.entry(name.clone()).or_insert(file);
        };
        let Some((attr, opened)) = self.attempt(Done::Names(&then), "a create", made) else { return };
        let known = self.memory.lock();
        let file = known.now()[&name];
        let expected = known.content(file).len() as u64;
        drop(known);
        if self.took(file, attr.ino, opened.handle) {
            assert_eq!(attr.size, expected, "length of {name}");
        }
    }

    /// A file is open. `false`: the power went, and it may be another one that had the name before; it is closed.
    fn took(&mut self, file: usize, ino: Ino, handle: Handle) -> bool {
        let is_known = self.has_power();
        self.open = Some((file, ino, handle));
        self.has_rest = self.memory.lock().files[file].len() > 1;
        if !is_known {
            self.close();
        }
        is_known
    }

    fn open(&mut self) {
        self.close();
        let Some((name, file)) = self.some_name() else { return };
        machine::note(|| format!("open {name}"));
        let found = self.volume.lookup(me(), self.directory, OsStr::new(&name));
        let opened = found.and_then(|attr| {
            let opened = self.volume.open(me(), attr.ino, OpenFlags::READ_WRITE);
            opened.inspect_err(|_| self.volume.forget(attr.ino, 1)).map(|opened| (attr.ino, opened.handle))
        });
        if let Some((ino, handle)) = self.attempt(Done::Nothing, "an open", opened) {
            self.took(file, ino, handle);
        }
    }

    /// Does something to the content of the open file, and notes what it is then.
    fn change(
        &mut self,
        what: &str,
        then: &dyn Fn(&mut Vec<u8>),
        change: impl FnOnce(&Volume, Ino, Handle) -> Result<(), FsError>,
    ) {
        let Some((file, ino, handle)) = self.open else { return };
        machine::note(|| format!("{what}, file {file}"));
        let done = change(self.volume, ino, handle);
        self.attempt(Done::Content(file, then), what, done);
    }

    fn content(&self) -> Option<Vec<u8>> {
        let (file, ..) = self.open?;
        Some(self.memory.lock().content(file).clone())
    }

    fn piece(&mut self) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        let stamp = self.stamp;
        (0..1 + machine::below(PIECE_MAX)).map(|at| stamp.wrapping_add((at / 64) as u8).max(1)).collect()
    }

    fn write(&mut self) {
        let Some(content) = self.content() else { return };
        let data = self.piece();
        let at = machine::below((content.len() as u64 + 3000).min(LENGTH_MAX - PIECE_MAX));
        self.change("a write", &|content| put(content, at as usize, &data), |volume, _, handle| {
            let mut done = 0;
            while done < data.len() {
                done += volume.write(handle, at + done as u64, &data[done..], false)?;
            }
            Ok(())
        });
    }

    fn append(&mut self) {
        let Some(content) = self.content().filter(|content| content.len() as u64 + PIECE_MAX < LENGTH_MAX)
        else {
            return;
        };
        let (data, crashes, is_asked_again) = (self.piece(), self.crashes, self.servers == 1);
        // After a power cut the end is where that left it, which the answer says.
        let (end, place) = (content.len(), Cell::new(None));
        let then = |content: &mut Vec<u8>| match place.get() {
            Some(at) if is_asked_again => put_again(content, end, at, &data),
            at => put(content, at.unwrap_or(content.len()), &data),
        };
        self.change("an append", &then, |volume, _, handle| {
            let (offset, done) = volume.append(handle, &data, false)?;
            place.set(Some(offset as usize));
            let is_end = offset == end as u64;
            assert!(is_end || machine::crashes() != crashes, "appended at {offset}");
            if done < data.len() { Err(FsError::NoSpace) } else { Ok(()) }
        });
    }

    fn cut(&mut self) {
        let length = machine::below(LENGTH_MAX);
        let cut = SetAttr { size: Some(length), ..SetAttr::default() };
        self.change("a cut", &|content| content.resize(length as usize, 0), |volume, ino, handle| {
            volume.setattr(me(), ino, Some(handle), &cut).map(drop)
        });
        // A sync right after it has nothing but the cut to cover.
        if machine::below(3) == 0 {
            self.sync();
        }
    }

    fn read(&mut self) {
        let Some((file, _, handle)) = self.open else { return };
        machine::note(|| format!("read file {file}"));
        let found = read_all(self.volume, handle);
        let Some(found) = self.attempt(Done::Nothing, "a read", found) else { return };
        if self.has_power() {
            let states = [self.content().expect("it is open")];
            may_be(&found, &states).unwrap_or_else(|wrong| panic!("file {file} {wrong}"));
        }
    }

    /// No power went since the last look.
    fn has_power(&self) -> bool {
        machine::crashes() == self.crashes
    }

    fn rename(&mut self) {
        let Some((from, _)) = self.some_name() else { return };
        let to = format!("file{}", machine::below(NAMES));
        machine::note(|| format!("rename {from} {to}"));
        let (old, new) = (OsStr::new(&from), OsStr::new(&to));
        let done = self.volume.rename(me(), self.directory, old, self.directory, new, RenameMode::Replace);
        let then = |names: &mut Names| {
            if let Some(file) = names.remove(&from) {
                names.insert(to.clone(), file);
            }
        };
        self.attempt(Done::Names(&then), "a rename", done);
    }

    fn unlink(&mut self) {
        let Some((name, _)) = self.some_name() else { return };
        machine::note(|| format!("unlink {name}"));
        let done = self.volume.unlink(me(), self.directory, OsStr::new(&name));
        let then = |names: &mut Names| {
            names.remove(&name);
        };
        self.attempt(Done::Names(&then), "an unlink", done);
    }

    fn sync(&mut self) {
        let Some((file, _, handle)) = self.open else { return };
        let data_only = machine::below(2) == 0;
        machine::note(|| format!("sync file {file}"));
        let done = self.volume.fsync(handle, data_only);
        if self.attempt(Done::Nothing, "a sync", done).is_some() && (self.has_power() || !self.has_rest) {
            self.has_rest = false;
            self.memory.lock().files[file].drain_to_last();
        }
    }

    fn sync_names(&mut self) {
        machine::note(|| "sync the directory".to_owned());
        let done = self.volume.opendir(me(), self.directory).and_then(|handle| {
            let done = self.volume.fsyncdir(handle, false);
            let _ = self.volume.releasedir(handle);
            done
        });
        if self.disk == Disk::Fails && done.as_ref().is_err_and(is_of_disk) {
            self.disk = Disk::Poisoned;
        }
        if self.attempt(Done::Nothing, "a sync of the directory", done).is_some() && self.has_power() {
            assert!(self.disk != Disk::Poisoned, "a sync of names that failed is answered the next time");
            self.memory.lock().names.drain_to_last();
        }
    }
}

/// A disk failed, or what it has lost is told.
pub(super) fn is_of_disk(error: &FsError) -> bool {
    match error {
        FsError::Poisoned => true,
        FsError::Host { errno, .. } => *errno == libc::EIO,
        _ => false,
    }
}

/// Writes into what a file holds.
pub(super) fn put(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    content.resize(content.len().max(at + data.len()), 0);
    content[at..at + data.len()].copy_from_slice(data);
}

/// Appends where the answer says, to what ended elsewhere before. A server that holds names and content loses in a power cut that it was
/// asked, and is asked again: from the end before up to there is what the first time left, all of it or a part.
fn put_again(content: &mut Vec<u8>, end: usize, at: usize, data: &[u8]) {
    if at > end {
        put(content, end, &data[..data.len().min(at - end)]);
    }
    put(content, at, data);
}

/// Everything but the last state is over.
trait DrainToLast {
    fn drain_to_last(&mut self);
}

impl<T> DrainToLast for Vec<T> {
    fn drain_to_last(&mut self) {
        self.drain(..self.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content after an append of `[1, 2, 3]` behind `[9, 9]` was asked for again, and was done at this place.
    fn asked_again(at: usize) -> Vec<u8> {
        let mut content = vec![9, 9];
        put_again(&mut content, 2, at, &[1, 2, 3]);
        content
    }

    #[test]
    fn an_append_that_a_power_cut_met_may_have_left_a_part_of_itself_and_nothing_else() {
        assert_eq!(asked_again(2), [9, 9, 1, 2, 3]);
        assert_eq!(asked_again(4), [9, 9, 1, 2, 1, 2, 3]);
        assert_eq!(asked_again(5), [9, 9, 1, 2, 3, 1, 2, 3]);
        assert_eq!(asked_again(6), [9, 9, 1, 2, 3, 0, 1, 2, 3]);
        // What the content ended with is lost too.
        assert_eq!(asked_again(1), [9, 1, 2, 3]);
    }
}
