//! Scenes that go one way: what a power cut takes, and who is told, right behind one operation.
//!
//! The seed decides only what the cut leaves. Each was once wrong, and is told apart by what it does, not by its seed.

use super::client::{self, own_directory};
use super::own::{me, read_all};
use super::site::{SERVES, Site};
use crate::machine::{self, Faults, Seen};
use forebay_client::remote::{Attached, attach};
use forebay_client::{Handle, Volume};
use forebay_wire::{FsError, Ino, OpenFlags, SetAttr};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Files are striped, so a name is made in several steps.
const SERVERS: usize = 2;
/// Length of a file in bytes: several stripes on each of two servers.
const LENGTH: usize = 60_000;
/// What it is cut to: within the first stripe.
const CUT: usize = 100;
/// Names that are tried on a disk that is full now and then.
const NAMES: u64 = 30;
/// Files that are removed.
const REMOVED: u64 = 4;
/// Pieces that are written to a disk that fails, and their length in bytes: each is on both servers.
const PIECES: u8 = 12;
const PIECE: usize = 9000;
/// So many calls a failing disk takes at most.
const CALLS: u64 = 12;
/// So often two sync while a server loses its power.
const SYNCED_TWICE: u8 = 12;
/// What two syncs take together, in microseconds.
const SYNCS_US: u64 = 2000;
/// Longest time that a server needs to serve.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A scene, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A file is cut, a server of its content loses its power, and the file is synced.
    CutAndCrash,
    /// Files are made on a disk that is full now and then, and its machine loses its power.
    MakeAndCrash,
    /// Files are removed, and the machine of the names loses its power before it has them removed on its disk, or after.
    RemoveAndCrash,
    /// The disk of a server of the content fails, and is in order again when its server is started anew.
    DiskFails,
    /// A file is synced twice at the same time, and a server of its content loses its power meanwhile.
    SyncTogether,
}

impl Scene {
    /// All there are.
    pub const ALL: [Scene; 5] = [
        Scene::CutAndCrash,
        Scene::MakeAndCrash,
        Scene::RemoveAndCrash,
        Scene::DiskFails,
        Scene::SyncTogether,
    ];

    /// The one that is called so.
    pub fn of(name: &str) -> Option<Scene> {
        Scene::ALL.into_iter().find(|scene| format!("{scene:?}") == name)
    }

    /// Plays it, in a directory that is empty.
    pub fn play(self, directory: &Path) {
        let mut site = Site::new(directory, SERVERS, 0);
        site.have_disks();
        start_all(&mut site);
        match self {
            Scene::CutAndCrash => cut_and_crash(&mut site),
            Scene::MakeAndCrash => make_and_crash(&mut site),
            Scene::RemoveAndCrash => remove_and_crash(&mut site),
            Scene::DiskFails => disk_fails(&mut site),
            Scene::SyncTogether => sync_together(&mut site),
        }
    }
}

fn start(site: &mut Site, position: usize) {
    site.start(position);
    match machine::wait_for_seen(SERVES_WITHIN) {
        Some(Seen::Said(process, said)) if said == SERVES => site.may_be_full(process),
        _ => panic!("server {position} does not serve"),
    }
}

/// All at the same time: they wait for each other.
fn start_all(site: &mut Site) {
    (0..SERVERS).for_each(|position| site.start(position));
    for _ in 0..SERVERS {
        match machine::wait_for_seen(SERVES_WITHIN) {
            Some(Seen::Said(process, said)) if said == SERVES => site.may_be_full(process),
            _ => panic!("the servers do not serve"),
        }
    }
}

fn attached(site: &Site) -> (Attached, Volume) {
    let attached = attach(&site.map().description()).expect("attached");
    let volume = client::volume(&attached);
    (attached, volume)
}

fn made(volume: &Volume, directory: Ino, name: &str) -> Result<(Ino, Handle), FsError> {
    let made = volume.create(me(), directory, OsStr::new(name), 0o644, OpenFlags::READ_WRITE)?;
    Ok((made.0.ino, made.1.handle))
}

/// What a file holds after every machine lost its power once more.
fn content_after_all(site: &mut Site, name: &str) -> Vec<u8> {
    (0..SERVERS).for_each(|position| site.crash(position));
    start_all(site);
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    let attr = volume.lookup(me(), directory, OsStr::new(name)).expect("it was synced");
    let opened = volume.open(me(), attr.ino, OpenFlags::READ_ONLY).expect("it can be opened");
    let content = read_all(&volume, opened.handle).expect("it can be read");
    volume.release(opened.handle).expect("it can be closed");
    volume.forget(attr.ino, 1);
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    content
}

/// A sync that is answered means the cut; where the cut was lost it is told, once.
fn cut_and_crash(site: &mut Site) {
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    let (ino, handle) = made(&volume, directory, "file").expect("made");
    assert_eq!(volume.write(handle, 0, &[7; LENGTH], false), Ok(LENGTH));
    volume.fsync(handle, false).expect("synced");
    client::sync_directory(&volume, directory);
    client::sync_directory(&volume, Ino::ROOT);
    let cut = SetAttr { size: Some(CUT as u64), ..SetAttr::default() };
    volume.setattr(me(), ino, Some(handle), &cut).expect("cut");
    site.crash(1);
    start(site, 1);
    let first = volume.fsync(handle, machine::below(2) == 0);
    machine::note(|| format!("the first sync: {first:?}"));
    if first.is_err() {
        volume.fsync(handle, false).expect("it is told once");
    }
    let left = read_all(&volume, handle).expect("it can be read");
    assert!(first.is_err() || left.len() == CUT, "it has {} bytes", left.len());
    volume.release(handle).expect("closed");
    volume.forget(ino, 1);
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
    assert!(left.len() == CUT || left.len() == LENGTH || left.iter().all(|byte| [0, 7].contains(byte)));
}

/// Whoever is told that a file is synced may rely on it, also while somebody else still syncs it.
fn sync_together(site: &mut Site) {
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    let (ino, handle) = made(&volume, directory, "file").expect("made");
    assert_eq!(volume.write(handle, 0, &[7; LENGTH], false), Ok(LENGTH));
    client::sync_directory(&volume, directory);
    client::sync_directory(&volume, Ino::ROOT);
    // So that both have connections.
    assert_eq!(both_sync(&volume, handle, || ()), [Ok(()); 2]);
    for round in 0..SYNCED_TWICE {
        sync_in_a_power_cut(site, &volume, (ino, handle), round);
    }
    let left = read_all(&volume, handle).expect("it can be read");
    volume.release(handle).expect("closed");
    volume.forget(ino, 1);
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

fn sync_in_a_power_cut(site: &mut Site, volume: &Volume, (ino, handle): (Ino, Handle), round: u8) {
    assert_eq!(volume.write(handle, 0, &[round; LENGTH], false), Ok(LENGTH));
    let length = if machine::below(2) == 0 { CUT } else { LENGTH };
    if length == CUT {
        let cut = SetAttr { size: Some(CUT as u64), ..SetAttr::default() };
        volume.setattr(me(), ino, Some(handle), &cut).expect("cut");
    }
    let answers = both_sync(volume, handle, || {
        std::thread::sleep(Duration::from_micros(machine::below(SYNCS_US)));
        site.crash(1);
        start(site, 1);
    });
    machine::note(|| format!("the syncs: {answers:?}"));
    let left = read_all(volume, handle).expect("it can be read");
    let is_whole = left == vec![round; length];
    assert!(is_whole || answers.iter().all(Result::is_err), "{} bytes of {length}", left.len());
    if answers.iter().any(Result::is_err) {
        volume.fsync(handle, false).expect("it is told once");
    }
}

/// Two sync a file at about the same time; what happens meanwhile, and what they are answered.
fn both_sync(volume: &Volume, handle: Handle, meanwhile: impl FnOnce()) -> [Result<(), FsError>; 2] {
    let sync = || {
        std::thread::sleep(Duration::from_micros(machine::below(SYNCS_US / 4)));
        volume.fsync(handle, machine::below(2) == 0)
    };
    std::thread::scope(|scope| {
        let both = [scope.spawn(sync), scope.spawn(sync)];
        meanwhile();
        both.map(|one| one.join().expect("answered"))
    })
}

/// A name whose making failed is not there, whatever the power cut left.
fn make_and_crash(site: &mut Site) {
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    client::sync_directory(&volume, Ino::ROOT);
    machine::set_faults(Faults { full: 3, ..Faults::default() });
    let mut failed = Vec::new();
    for name in (0..NAMES).map(|number| format!("file{number}")) {
        match made(&volume, directory, &name) {
            Ok((ino, handle)) => {
                volume.release(handle).expect("closed");
                volume.forget(ino, 1);
            }
            Err(FsError::NoSpace) => failed.push(name),
            Err(error) => panic!("{name}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(machine::below(200)));
    }
    machine::set_faults(Faults::default());
    // Who says goodbye first has the list of sessions synced, and with it all names.
    site.crash(0);
    start(site, 0);
    for name in &failed {
        let found = volume.lookup(me(), directory, OsStr::new(name)).map(|attr| attr.ino);
        assert_eq!(found, Err(FsError::NotFound), "{name}, whose making failed");
    }
    machine::note(|| format!("{} failed", failed.len()));
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
}

/// A file whose removal is lost is whole.
fn remove_and_crash(site: &mut Site) {
    let (first, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    for name in (0..REMOVED).map(|number| format!("file{number}")) {
        let (ino, handle) = made(&volume, directory, &name).expect("made");
        assert_eq!(volume.write(handle, 0, &[7; LENGTH], false), Ok(LENGTH));
        volume.fsync(handle, false).expect("synced");
        volume.release(handle).expect("closed");
        volume.forget(ino, 1);
    }
    client::sync_directory(&volume, directory);
    client::sync_directory(&volume, Ino::ROOT);
    for name in (0..REMOVED).map(|number| format!("file{number}")) {
        volume.unlink(me(), directory, OsStr::new(&name)).expect("removed");
        std::thread::sleep(Duration::from_millis(machine::below(30)));
    }
    std::thread::sleep(Duration::from_millis(machine::below(60)));
    site.crash(0);
    start(site, 0);
    // Another client: this one knows that it has removed them.
    let (second, looks) = attached(site);
    let seen = own_directory(&looks, 0);
    for name in (0..REMOVED).map(|number| format!("file{number}")) {
        let attr = match looks.lookup(me(), seen, OsStr::new(&name)) {
            Err(FsError::NotFound) => continue,
            found => found.expect("it is there or not"),
        };
        let opened = looks.open(me(), attr.ino, OpenFlags::READ_ONLY).expect("it can be opened");
        let content = read_all(&looks, opened.handle).expect("it can be read");
        assert!(content == [7; LENGTH], "{name} is there again, with {} bytes of its own", content.len());
        machine::note(|| format!("{name} is there again"));
        looks.release(opened.handle).expect("closed");
        looks.forget(attr.ino, 1);
    }
    looks.forget(seen, 1);
    volume.forget(directory, 1);
    drop((volume, looks));
    second.close();
    first.close();
}

/// What a file was since a sync of it was answered, the last one now.
struct States(Vec<Vec<u8>>);

impl States {
    fn wrote(&mut self, at: usize, piece: &[u8]) {
        let mut next = self.0.last().expect("there is one").clone();
        next[at..at + piece.len()].copy_from_slice(piece);
        self.0.push(next);
    }

    fn synced(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Each byte is as it was at some time since.
    fn assert_may_be(&self, found: &[u8]) {
        assert_eq!(found.len(), LENGTH);
        let is_known = |at: usize| self.0.iter().any(|state| state[at] == found[at]);
        let wrong = (0..LENGTH).find(|at| !is_known(*at));
        assert_eq!(wrong, None, "it is {:?}", wrong.map(|at| found[at]));
    }
}

/// A write or a sync that a failing disk had to do with: it is done, or fails as the disk does.
fn is_done<T>(result: Result<T, FsError>) -> bool {
    let is_of_disk = |error: &FsError| match error {
        FsError::Poisoned => true,
        FsError::Host { errno, .. } => *errno == libc::EIO,
        _ => false,
    };
    assert!(result.as_ref().err().is_none_or(is_of_disk), "{:?}", result.err());
    result.is_ok()
}

/// A sync that fails is told, and again as long as something is not synced; nothing that was synced is lost; names, and what can be
/// read, are as well as before. When the server is started anew its disk is used again.
fn disk_fails(site: &mut Site) {
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    let (ino, handle) = made(&volume, directory, "file").expect("made");
    assert_eq!(volume.write(handle, 0, &[PIECES + 1; LENGTH], false), Ok(LENGTH));
    volume.fsync(handle, false).expect("synced");
    client::sync_directory(&volume, directory);
    client::sync_directory(&volume, Ino::ROOT);
    let mut states = States(vec![vec![PIECES + 1; LENGTH]]);
    // Some fail for a moment: a second sync would find nothing left to write, and must not say that all is well.
    let count = if machine::below(2) == 0 { 1 + machine::below(2) } else { u64::MAX };
    site.fail_disk(1, machine::below(CALLS), count);
    let (mut is_told, mut is_refused) = (false, false);
    for number in 1..=PIECES {
        let (at, piece) = (machine::below((LENGTH - PIECE) as u64) as usize, [number; PIECE]);
        // What fails is done in part: what is on the other server, or nothing.
        let written = volume.write(handle, at as u64, &piece, false);
        // A write of which a part could be done says how much.
        is_refused |= !is_done(written) || written != Ok(PIECE);
        states.wrote(at, &piece);
        let is_synced = is_done(volume.fsync(handle, machine::below(2) == 0));
        assert!(!(is_told && is_synced), "a sync that failed is answered the next time");
        is_told |= !is_synced;
        if is_synced && !is_refused {
            states.synced();
        }
        volume.mkdir(me(), directory, OsStr::new(&format!("directory{number}")), 0o755).expect("made");
    }
    assert!(is_told || is_refused, "nobody was told");
    states.assert_may_be(&read_all(&volume, handle).expect("it can be read"));
    if machine::below(2) == 0 {
        site.kill(1)
    } else {
        site.crash(1)
    }
    start(site, 1);
    // What was lost may be told once more.
    let is_lost = !is_done(volume.fsync(handle, false));
    let last = [PIECES + 2; PIECE];
    assert_eq!(volume.write(handle, 0, &last, false), Ok(PIECE));
    states.wrote(0, &last);
    assert_eq!(volume.fsync(handle, false), Ok(()), "told before: {is_lost}");
    let left = read_all(&volume, handle).expect("it can be read");
    assert!(left[..PIECE] == last, "what was synced last");
    states.assert_may_be(&left);
    volume.release(handle).expect("closed");
    volume.forget(ino, 1);
    for number in 1..=PIECES {
        let name = format!("directory{number}");
        let attr = volume.lookup(me(), directory, OsStr::new(&name)).expect("it was made");
        volume.forget(attr.ino, 2);
    }
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}
