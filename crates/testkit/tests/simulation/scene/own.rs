//! Work in a directory of one's own: every answer has to be the one that a model in memory gives.
//!
//! Each operation has an answer, however often its connection was cut and its server killed on the way. What was under way
//! when the client itself was killed was done or was not.

use crate::machine;
use forebay_client::{Handle, Volume};
use forebay_wire::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Names used in the directory.
const NAMES: u64 = 5;
/// Longest file in bytes.
const LENGTH_MAX: u64 = 40_000;
/// Longest piece written in bytes.
const PIECE_MAX: u64 = 14_000;

type Files = BTreeMap<String, Vec<u8>>;

/// What a directory has to hold.
#[derive(Clone, Default)]
pub struct Expected(Arc<Mutex<Known>>);

#[derive(Clone, Default)]
struct Known {
    /// As the last answer left it.
    now: Files,
    /// As the operation under way will leave it.
    then: Option<Files>,
}

/// Who the clients are.
pub fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: 1 }
}

/// The directory of a client.
pub fn directory_of(client: usize) -> String {
    format!("own{client}")
}

/// One that works in its directory.
pub struct Worker<'a> {
    pub volume: &'a Volume,
    pub directory: Ino,
    pub expected: Expected,
    /// An open file: its name, or none since it was removed, and what it has to hold.
    open: Option<(Option<String>, Ino, Handle, Vec<u8>)>,
    stamp: u8,
}

impl Expected {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, then: &Files) {
        self.lock().then = Some(then.clone());
    }

    fn end(&self, now: Files) {
        *self.lock() = Known { now, then: None };
    }

    /// The directory and its files are as one state says; the one that was under way may be there in part, where it is the
    /// content of a file.
    pub fn compare(&self, volume: &Volume, directory: Ino) {
        let known = self.lock().clone();
        let found = read_directory(volume, directory);
        let then = known.then.as_ref().unwrap_or(&known.now);
        let mixes = |found: &Vec<u8>, now: &Vec<u8>, then: &Vec<u8>| {
            (found.len() == now.len() || found.len() == then.len() || found.len() < now.len().max(then.len()))
                && (0..found.len()).all(|at| {
                    // Holes of what was to grow, and parts that were cut of what was to be cut.
                    let may_be_zero = at >= now.len().min(then.len());
                    let known = [now.get(at), then.get(at), may_be_zero.then_some(&0)];
                    known.contains(&Some(&found[at]))
                })
        };
        let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
        let (have, now, later) = (names(&found), names(&known.now), names(then));
        assert!(have == now || have == later, "there are {have:?}, and should be {now:?} or {later:?}");
        for (name, content) in &found {
            let is_one = known.now.get(name) == Some(content) || then.get(name) == Some(content);
            let is_mixed = match (known.now.get(name), then.get(name)) {
                (Some(now), Some(then)) => known.then.is_some() && mixes(content, now, then),
                _ => false,
            };
            assert!(is_one || is_mixed, "{name} {}", difference(content, known.now.get(name)));
        }
    }
}

/// Where content differs, for a message.
fn difference(found: &[u8], expected: Option<&Vec<u8>>) -> String {
    let Some(expected) = expected else { return "should not be there".to_owned() };
    let at = (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at));
    let byte = |of: &[u8]| at.and_then(|at| of.get(at).copied());
    format!(
        "has {} bytes and should have {}; the first that differs is {at:?}: {:?} for {:?}",
        found.len(),
        expected.len(),
        byte(found),
        byte(expected)
    )
}

/// All of a file.
pub fn read_all(volume: &Volume, handle: Handle) -> Result<Vec<u8>> {
    let (mut data, mut buffer) = (Vec::new(), vec![0; LENGTH_MAX as usize]);
    loop {
        match volume.read(handle, data.len() as u64, &mut buffer)? {
            0 => return Ok(data),
            count => data.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Writes all.
pub fn write_all(volume: &Volume, handle: Handle, offset: u64, data: &[u8]) {
    let mut done = 0;
    while done < data.len() {
        done += volume.write(handle, offset + done as u64, &data[done..], false).expect("a write");
    }
}

/// The names of a directory.
pub fn names_in(volume: &Volume, directory: Ino) -> Result<Vec<String>> {
    let (handle, mut names) = (volume.opendir(me(), directory)?, Vec::new());
    let listed = volume.readdir(handle, 0, &mut |entry| {
        names.push(entry.name.to_string_lossy().into_owned());
        true
    });
    volume.releasedir(handle).and(listed)?;
    names.retain(|name| name != "." && name != "..");
    names.sort();
    Ok(names)
}

fn read_directory(volume: &Volume, directory: Ino) -> Files {
    let read = |name: String| {
        let attr = volume.lookup(me(), directory, OsStr::new(&name)).expect("a name of a listing");
        let opened = volume.open(me(), attr.ino, OpenFlags::READ_ONLY).expect("opened");
        let content = read_all(volume, opened.handle).expect("a read");
        volume.release(opened.handle).expect("closed");
        volume.forget(attr.ino, 1);
        (name, content)
    };
    names_in(volume, directory).expect("listed").into_iter().map(read).collect()
}

impl<'a> Worker<'a> {
    pub fn new(volume: &'a Volume, directory: Ino, expected: Expected) -> Worker<'a> {
        Worker { volume, directory, expected, open: None, stamp: 0 }
    }

    fn files(&self) -> Files {
        self.expected.lock().now.clone()
    }

    fn some_name(&self) -> Option<String> {
        let names: Vec<String> = self.files().into_keys().collect();
        (!names.is_empty()).then(|| names[machine::below(names.len() as u64) as usize].clone())
    }

    /// One operation.
    pub fn step(&mut self) {
        match machine::below(13) {
            0..2 => self.create(),
            2 => self.open(),
            3..6 => self.write(),
            6 => self.append(),
            7 => self.cut(),
            8..10 => self.read(),
            10 => self.rename(),
            11 => self.unlink(),
            _ => self.list(),
        }
    }

    /// Closes what is open.
    pub fn close(&mut self) {
        if let Some((_, ino, handle, _)) = self.open.take() {
            self.volume.release(handle).expect("a close");
            self.volume.forget(ino, 1);
        }
    }

    fn create(&mut self) {
        self.close();
        let name = format!("file{}", machine::below(NAMES));
        let mut files = self.files();
        let is_new = !files.contains_key(&name);
        files.entry(name.clone()).or_default();
        self.expected.begin(&files);
        machine::note(|| format!("create {name}, new: {is_new}"));
        let made = self.volume.create(me(), self.directory, OsStr::new(&name), 0o644, OpenFlags::READ_WRITE);
        let (attr, opened) = made.expect("a create");
        assert_eq!(attr.size, files[&name].len() as u64, "{name} was made or found");
        let content = files[&name].clone();
        self.expected.end(files);
        self.open = Some((Some(name), attr.ino, opened.handle, content));
    }

    fn open(&mut self) {
        self.close();
        let Some(name) = self.some_name() else { return };
        machine::note(|| format!("open {name}"));
        let attr = self.volume.lookup(me(), self.directory, OsStr::new(&name)).expect("a lookup");
        let content = self.files().remove(&name).expect("known");
        assert_eq!(attr.size, content.len() as u64, "length of {name}");
        let opened = self.volume.open(me(), attr.ino, OpenFlags::READ_WRITE).expect("an open");
        self.open = Some((Some(name), attr.ino, opened.handle, content));
    }

    /// Does something to the content of the open file, and notes what it is then.
    fn change(&mut self, what: &str, then: Vec<u8>, change: impl FnOnce(&Volume, Ino, Handle)) {
        let Some((name, ino, handle, content)) = &mut self.open else { return };
        machine::note(|| format!("{what} {name:?}, then {} bytes", then.len()));
        let mut files = self.expected.lock().now.clone();
        if let Some(name) = name {
            files.insert(name.clone(), then.clone());
        }
        self.expected.begin(&files);
        change(self.volume, *ino, *handle);
        *content = then;
        self.expected.end(files);
    }

    fn piece(&mut self) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        let stamp = self.stamp;
        (0..1 + machine::below(PIECE_MAX)).map(|at| stamp.wrapping_add((at / 64) as u8).max(1)).collect()
    }

    fn write(&mut self) {
        let Some((.., content)) = &self.open else { return };
        let mut then = content.clone();
        let data = self.piece();
        let at = machine::below((then.len() as u64 + 3000).min(LENGTH_MAX - PIECE_MAX));
        let end = at as usize + data.len();
        then.resize(then.len().max(end), 0);
        then[at as usize..end].copy_from_slice(&data);
        self.change("write", then, |volume, _, handle| write_all(volume, handle, at, &data));
    }

    fn append(&mut self) {
        let Some((.., content)) = &self.open else { return };
        if content.len() as u64 + PIECE_MAX > LENGTH_MAX {
            return;
        }
        let (mut then, at) = (content.clone(), content.len() as u64);
        let data = self.piece();
        then.extend_from_slice(&data);
        self.change("append", then, |volume, _, handle| {
            let (offset, done) = volume.append(handle, &data, false).expect("an append");
            assert_eq!((offset, done), (at, data.len()), "where it was appended");
        });
    }

    fn cut(&mut self) {
        let Some((.., content)) = &self.open else { return };
        let mut then = content.clone();
        then.resize(machine::below(LENGTH_MAX) as usize, 0);
        let cut = SetAttr { size: Some(then.len() as u64), ..SetAttr::default() };
        self.change("cut", then, |volume, ino, handle| {
            let attr = volume.setattr(me(), ino, Some(handle), &cut).expect("a cut");
            assert_eq!(Some(attr.size), cut.size);
        });
    }

    fn read(&mut self) {
        let Some((name, _, handle, content)) = &self.open else { return };
        machine::note(|| format!("read {name:?}"));
        let found = read_all(self.volume, *handle).expect("a read");
        assert!(found == *content, "{name:?} {}", difference(&found, Some(content)));
        if machine::below(2) == 0 {
            self.volume.fsync(*handle, false).expect("a sync");
        }
    }

    fn rename(&mut self) {
        let Some(from) = self.some_name() else { return };
        let to = format!("file{}", machine::below(NAMES));
        let mut files = self.files();
        let content = files.remove(&from).expect("known");
        files.insert(to.clone(), content);
        self.expected.begin(&files);
        machine::note(|| format!("rename {from} {to}"));
        let (old, new) = (OsStr::new(&from), OsStr::new(&to));
        self.volume
            .rename(me(), self.directory, old, self.directory, new, RenameMode::Replace)
            .expect("a rename");
        self.expected.end(files);
        if let Some((Some(name), ..)) = &mut self.open {
            if *name == from {
                name.clone_from(&to);
            } else if *name == to {
                self.open.as_mut().expect("open").0 = None;
            }
        }
    }

    fn unlink(&mut self) {
        let Some(name) = self.some_name() else { return };
        let mut files = self.files();
        files.remove(&name);
        self.expected.begin(&files);
        machine::note(|| format!("unlink {name}"));
        self.volume.unlink(me(), self.directory, OsStr::new(&name)).expect("an unlink");
        self.expected.end(files);
        if let Some((open, ..)) = &mut self.open
            && *open == Some(name)
        {
            *open = None;
        }
    }

    fn list(&mut self) {
        let known: Vec<String> = self.files().into_keys().collect();
        machine::note(|| "list".to_owned());
        assert_eq!(names_in(self.volume, self.directory), Ok(known), "names of the directory");
    }
}
