//! Scenes that go one way: what a power cut takes, and who is told, right behind one operation.
//!
//! The seed decides only what the cut leaves. Each was once wrong, and is told apart by what it does, not by its seed.

use super::client::{self, own_directory};
use super::kept::{self, Disk, Keeper, Memory};
use super::own::{me, read_all};
use super::site::{SERVES, Site};
use crate::machine::{self, Faults, Seen};
use forebay_client::remote::{Attached, attach};
use forebay_client::{Handle, Volume};
use forebay_wire::{FsError, Ino, OpenFlags, RenameMode, SetAttr};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

/// Files are striped, so a name is made in several steps.
const SERVERS: usize = 2;
/// Length of a file in bytes: several stripes on each of two servers.
const LENGTH: usize = 60_000;
/// Length of a stripe in bytes.
const STRIPE: usize = super::site::STRIPE_BYTES as usize;
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
/// Longest time that a file which was cut is closed before the power cut, in milliseconds: it may be synced by then.
const CLOSED_MS: u64 = 12_000;
/// So often something is appended on a full disk.
const APPENDS: u8 = 4;
/// Operations before the disk of the names fails, while it does, and after it was put in order.
const STEPS: [u64; 3] = [15, 25, 25];
/// Longest time that a server needs to serve.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A scene, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A file is cut, a server of its content loses its power, and the file is synced.
    CutAndCrash,
    /// The same, and the server of the names is killed meanwhile.
    CutAndKill,
    /// Files are made on a disk that is full now and then, and its machine loses its power.
    MakeAndCrash,
    /// Files are removed, and the machine of the names loses its power before it has them removed on its disk, or after.
    RemoveAndCrash,
    /// The disk of a server of the content fails, and is in order again when its server is started anew.
    DiskFails,
    /// A file is synced twice at the same time, and a server of its content loses its power meanwhile.
    SyncTogether,
    /// A file that is open for writing is given another name, and the machine of the names loses its power before that is on its disk,
    /// or after.
    RenameAndCrash,
    /// The machine of the names loses its power when it has the name of a new file on its disk, and not all the rest of it.
    NameAndCrash,
    /// The disk of the names fails, and is in order again when its server is started anew.
    NamesFail,
    /// A file is appended to on disks that are full, and again when they are not, and the server of the names may be killed meanwhile.
    AppendAndKill,
    /// A file is appended to, a server of its content loses its power, the server of the names may be killed, and the file is closed,
    /// opened again and appended to.
    AppendAndCrash,
    /// A file is cut and closed, a server of its content loses its power, and the file is looked at, opened again and appended to.
    CutCloseAndCrash,
}

impl Scene {
    /// All there are.
    pub const ALL: [Scene; 12] = [
        Scene::CutAndCrash,
        Scene::CutAndKill,
        Scene::MakeAndCrash,
        Scene::RemoveAndCrash,
        Scene::DiskFails,
        Scene::SyncTogether,
        Scene::RenameAndCrash,
        Scene::NameAndCrash,
        Scene::NamesFail,
        Scene::AppendAndKill,
        Scene::AppendAndCrash,
        Scene::CutCloseAndCrash,
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
            Scene::CutAndCrash => cut_and_crash(&mut site, false),
            Scene::CutAndKill => cut_and_crash(&mut site, true),
            Scene::MakeAndCrash => make_and_crash(&mut site),
            Scene::RemoveAndCrash => remove_and_crash(&mut site),
            Scene::DiskFails => disk_fails(&mut site),
            Scene::SyncTogether => sync_together(&mut site),
            Scene::RenameAndCrash => rename_and_crash(&mut site),
            Scene::NameAndCrash => name_and_crash(&mut site),
            Scene::NamesFail => names_fail(&mut site),
            Scene::AppendAndKill => append_and_kill(&mut site),
            Scene::AppendAndCrash => append_and_crash(&mut site),
            Scene::CutCloseAndCrash => cut_close_and_crash(&mut site),
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

/// A file that somebody has open, on a volume of his own.
struct Open {
    attached: Attached,
    volume: Volume,
    directory: Ino,
    ino: Ino,
    handle: Handle,
}

impl Open {
    /// One that was just made.
    fn made(site: &Site, name: &str) -> Open {
        let (attached, volume) = attached(site);
        let directory = own_directory(&volume, 0);
        let (ino, handle) = made(&volume, directory, name).expect("made");
        Open { attached, volume, directory, ino, handle }
    }

    /// One that is on the disks, with its names, and holds this byte all over.
    fn synced(site: &Site, name: &str, byte: u8) -> Open {
        let open = Open::made(site, name);
        open.write(0, &[byte; LENGTH]);
        open.sync().expect("synced");
        open.sync_names();
        open
    }

    fn write(&self, at: usize, piece: &[u8]) {
        assert_eq!(self.volume.write(self.handle, at as u64, piece, false), Ok(piece.len()));
    }

    fn cut(&self, length: usize) {
        let cut = SetAttr { size: Some(length as u64), ..SetAttr::default() };
        self.volume.setattr(me(), self.ino, Some(self.handle), &cut).expect("cut");
    }

    fn sync(&self) -> Result<(), FsError> {
        self.volume.fsync(self.handle, machine::below(2) == 0)
    }

    fn sync_names(&self) {
        client::sync_directory(&self.volume, self.directory);
        client::sync_directory(&self.volume, Ino::ROOT);
    }

    fn content(&self) -> Vec<u8> {
        read_all(&self.volume, self.handle).expect("it can be read")
    }

    /// Closes it and opens it again.
    fn reopen(&mut self) {
        self.volume.release(self.handle).expect("closed");
        self.open_again();
    }

    /// Opens it again when it is closed.
    fn open_again(&mut self) {
        let opened = self.volume.open(me(), self.ino, OpenFlags::READ_WRITE);
        self.handle = opened.expect("it can be opened").handle;
    }

    /// Cuts it, through the open file or by its number, and closes it; something may be written in between.
    fn cut_and_close(&self) {
        let is_by_number = machine::below(2) == 0;
        if !is_by_number {
            self.cut(CUT);
            let length = machine::below(3) as usize * STRIPE;
            self.write(CUT, &vec![8; length]);
        }
        self.volume.release(self.handle).expect("closed");
        if is_by_number {
            self.set_length(CUT);
        }
    }

    /// Sets the length of the closed file.
    fn set_length(&self, length: usize) {
        let change = SetAttr { size: Some(length as u64), ..SetAttr::default() };
        self.volume.setattr(me(), self.ino, None, &change).expect("a length");
    }

    /// The length that the closed file shows.
    fn shown(&self) -> usize {
        self.volume.getattr(self.ino, None).expect("attributes").size as usize
    }

    /// What the closed file holds; it is as long as it has shown, and grows by zeros.
    fn look_closed(&self, shown: usize) -> Vec<u8> {
        assert_eq!(self.shown(), shown);
        let is_growing = machine::below(3) == 0;
        if is_growing {
            self.set_length(2 * LENGTH);
        }
        let opened = self.volume.open(me(), self.ino, OpenFlags::READ_ONLY).expect("it can be opened");
        let found = read_all(&self.volume, opened.handle).expect("it can be read");
        self.volume.release(opened.handle).expect("closed");
        let length = if is_growing { 2 * LENGTH } else { shown };
        assert_eq!(found.len(), length, "{shown} bytes were shown");
        assert!(found[shown..].iter().all(|byte| *byte == 0), "what a file grows by is zeros");
        found
    }

    /// Closes it and goes; returns what it held.
    fn leave(self) -> Vec<u8> {
        let left = self.content();
        self.volume.release(self.handle).expect("closed");
        self.go();
        left
    }

    /// Goes when it is closed.
    fn go(self) {
        self.volume.forget(self.ino, 1);
        self.volume.forget(self.directory, 1);
        drop(self.volume);
        self.attached.close();
    }
}

/// What the files of the directory hold after every machine lost its power once more.
fn all_after_all(site: &mut Site) -> BTreeMap<String, Vec<u8>> {
    (0..SERVERS).for_each(|position| site.crash(position));
    start_all(site);
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    let found = kept::read(&volume, directory).expect("everything can be read");
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    found
}

/// What a file that is on the disks with its name holds then.
fn content_after_all(site: &mut Site, name: &str) -> Vec<u8> {
    all_after_all(site).remove(name).expect("it was synced")
}

/// A sync that is answered means the cut; where the cut was lost it is told, once.
fn cut_and_crash(site: &mut Site, is_home_killed: bool) {
    let file = Open::synced(site, "file", 7);
    file.cut(CUT);
    let is_crash = !is_home_killed || machine::below(4) > 0;
    if is_crash {
        site.crash(1);
        start(site, 1);
    }
    if is_home_killed {
        // It alone knew that it had cut something on the other one.
        site.kill(0);
        start(site, 0);
    }
    let first = file.sync();
    machine::note(|| format!("the first sync: {first:?}"));
    assert!(is_crash || first.is_ok(), "nothing was lost");
    if first.is_err() {
        file.sync().expect("it is told once");
    }
    let left = file.leave();
    assert!(first.is_err() || left.len() == CUT, "it has {} bytes", left.len());
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
    assert!(left.len() == CUT || left.len() == LENGTH || left.iter().all(|byte| [0, 7].contains(byte)));
}

/// An append goes to the end of the file, whatever became of the one before.
fn append_and_kill(site: &mut Site) {
    let file = Open::synced(site, "file", 7);
    for round in 1..=APPENDS {
        machine::set_faults(Faults { full: 1 + machine::below(3), ..Faults::default() });
        let failed = file.volume.append(file.handle, &[round; LENGTH], false);
        machine::set_faults(Faults::default());
        machine::note(|| format!("the append: {failed:?}"));
        assert!(matches!(failed, Ok(_) | Err(FsError::NoSpace)), "{failed:?}");
        if machine::below(2) == 0 {
            site.kill(0);
            start(site, 0);
        }
        let end = file.content().len() as u64;
        let done = file.volume.append(file.handle, &[round; PIECE], false);
        assert_eq!(done, Ok((end, PIECE)), "behind {failed:?}");
    }
    file.sync().expect("nothing was lost");
    let left = file.leave();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

/// Who opens a file appends to the end that it shows, and not to one that a power cut took.
fn append_and_crash(site: &mut Site) {
    let mut file = Open::synced(site, "file", 7);
    for round in 1..=APPENDS {
        let piece = vec![round; 1 + machine::below(PIECE as u64) as usize];
        let end = file.content().len() as u64;
        assert_eq!(file.volume.append(file.handle, &piece, false), Ok((end, piece.len())));
        site.crash(1);
        start(site, 1);
        if machine::below(4) > 0 {
            site.kill(0);
            start(site, 0);
        }
        file.reopen();
        let end = file.content().len() as u64;
        assert_eq!(file.volume.append(file.handle, &piece, false), Ok((end, piece.len())));
        file.sync().expect("nothing was lost since");
    }
    let left = file.leave();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

/// What a closed file shows behind a power cut is what it has, whoever opens it and however.
fn cut_close_and_crash(site: &mut Site) {
    let mut file = Open::synced(site, "file", 7);
    for round in 1..=APPENDS {
        file.write(0, &[round; LENGTH]);
        file.sync().expect("nothing was lost since");
        file.cut_and_close();
        std::thread::sleep(Duration::from_millis(machine::below(CLOSED_MS)));
        site.crash(1);
        start(site, 1);
        let shown = file.shown();
        if machine::below(3) == 0 {
            // What the file has lost is mended by then; after a kill its length is asked of its servers.
            std::thread::sleep(Duration::from_millis(CLOSED_MS));
            site.kill(0);
            start(site, 0);
        }
        let left = file.look_closed(shown);
        file.open_again();
        assert!(file.content() == left, "{} bytes were shown", left.len());
        let piece = vec![round; 1 + machine::below(PIECE as u64) as usize];
        let done = file.volume.append(file.handle, &piece, false);
        assert_eq!(done, Ok((left.len() as u64, piece.len())));
        file.sync().expect("nothing was lost since");
    }
    let left = file.leave();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

/// Whoever is told that a file is synced may rely on it, also while somebody else still syncs it.
fn sync_together(site: &mut Site) {
    let file = Open::synced(site, "file", 7);
    // So that both have connections.
    assert_eq!(both_sync(&file, || ()), [Ok(()); 2]);
    for round in 0..SYNCED_TWICE {
        sync_in_a_power_cut(site, &file, round);
    }
    let left = file.leave();
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

fn sync_in_a_power_cut(site: &mut Site, file: &Open, round: u8) {
    file.write(0, &[round; LENGTH]);
    let length = if machine::below(2) == 0 { CUT } else { LENGTH };
    if length == CUT {
        file.cut(CUT);
    }
    let answers = both_sync(file, || {
        std::thread::sleep(Duration::from_micros(machine::below(SYNCS_US)));
        site.crash(1);
        start(site, 1);
    });
    machine::note(|| format!("the syncs: {answers:?}"));
    let left = file.content();
    let is_whole = left == vec![round; length];
    assert!(is_whole || answers.iter().all(Result::is_err), "{} bytes of {length}", left.len());
    if answers.iter().any(Result::is_err) {
        file.sync().expect("it is told once");
    }
}

/// Two sync a file at about the same time; what happens meanwhile, and what they are answered.
fn both_sync(file: &Open, meanwhile: impl FnOnce()) -> [Result<(), FsError>; 2] {
    let sync = || {
        std::thread::sleep(Duration::from_micros(machine::below(SYNCS_US / 4)));
        file.sync()
    };
    std::thread::scope(|scope| {
        let both = [scope.spawn(sync), scope.spawn(sync)];
        meanwhile();
        both.map(|one| one.join().expect("answered"))
    })
}

/// Whoever has a file open keeps it, under whichever name the power cut leaves it, and what he writes then is its content.
fn rename_and_crash(site: &mut Site) {
    let file = Open::synced(site, "file", PIECES + 1);
    let mut states = States(vec![vec![PIECES + 1; LENGTH]]);
    let is_replacing = machine::below(2) == 0;
    if is_replacing {
        let (ino, handle) = made(&file.volume, file.directory, "moved").expect("made");
        file.volume.fsync(handle, false).expect("synced");
        file.volume.release(handle).expect("closed");
        file.volume.forget(ino, 1);
        file.sync_names();
    }
    let mut write = |number| {
        // Some of it beyond the end.
        let (at, piece) = (machine::below((LENGTH + PIECE) as u64) as usize, [number; PIECE]);
        file.write(at, &piece);
        states.wrote(at, &piece);
    };
    write(1);
    let (old, new) = (OsStr::new("file"), OsStr::new("moved"));
    let mode = RenameMode::Replace;
    file.volume.rename(me(), file.directory, old, file.directory, new, mode).expect("renamed");
    write(2);
    site.crash(0);
    // Servers of content are written to meanwhile.
    start(site, 0);
    write(3);
    let first = file.sync();
    assert!(is_done(first) || file.sync().is_ok(), "it is told once");
    let left = file.content();
    states.assert_may_be(&left);
    let longer = left.len() + 2 * PIECE;
    file.cut(longer);
    assert!(file.content()[left.len()..] == [0; 2 * PIECE], "what a file grows by is zeros");
    file.sync().expect("synced");
    file.sync_names();
    let left = file.leave();
    let mut found = all_after_all(site);
    assert!(is_replacing || found.len() == 1, "there are {:?}", found.keys());
    let is_it = |name: &str| found.get(name).is_some_and(|content| *content == left);
    assert!(is_it("file") || is_it("moved"), "what was synced is as it was");
    if found.len() == 2 {
        assert_eq!(found.remove("moved"), Some(Vec::new()), "what was not replaced after all");
    }
}

/// A sync that is answered means the content. Without what says where that is, the file is lost to who has it open.
fn name_and_crash(site: &mut Site) {
    let file = Open::made(site, "file");
    // On one server only, which may be the other one: then nothing of the content is lost.
    let first = [1; STRIPE];
    file.write(STRIPE * machine::below(2) as usize, &first);
    let before = file.content();
    if machine::below(2) == 0 {
        file.sync_names();
    }
    site.crash(0);
    start(site, 0);
    let told = [file.sync(), file.sync()];
    machine::note(|| format!("the syncs: {told:?}"));
    if told[1].is_err() {
        assert_eq!(told[1], Err(FsError::Stale), "the file is lost, and nothing else is told twice");
        assert_eq!(read_all(&file.volume, file.handle), Err(FsError::Stale));
        file.volume.release(file.handle).expect("closed");
        return file.go();
    }
    assert!(told[0].is_err() || file.content() == before, "what was synced is there");
    let second = [2; LENGTH];
    file.write(0, &second);
    file.sync().expect("nothing was lost since");
    file.sync_names();
    assert!(file.leave() == second);
    assert!(content_after_all(site, "file") == second, "what was synced is as it was");
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
        kept::put(&mut next, at, piece);
        self.0.push(next);
    }

    fn synced(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Each byte is as it was at some time since.
    fn assert_may_be(&self, found: &[u8]) {
        kept::may_be(found, &self.0).unwrap_or_else(|wrong| panic!("it {wrong}"));
    }
}

/// A write or a sync that a failing disk had to do with: it is done, or fails as the disk does.
fn is_done<T>(result: Result<T, FsError>) -> bool {
    assert!(result.as_ref().err().is_none_or(kept::is_of_disk), "{:?}", result.err());
    result.is_ok()
}

/// A sync that fails is told, and again as long as something is not synced; nothing that was synced is lost; names, and what can be
/// read, are as well as before. When the server is started anew its disk is used again.
fn disk_fails(site: &mut Site) {
    let file = Open::synced(site, "file", PIECES + 1);
    let (volume, directory) = (&file.volume, file.directory);
    let mut states = States(vec![vec![PIECES + 1; LENGTH]]);
    // Some fail for a moment: a second sync would find nothing left to write, and must not say that all is well.
    let count = if machine::below(2) == 0 { 1 + machine::below(2) } else { u64::MAX };
    site.fail_disk(1, machine::below(CALLS), count);
    let (mut is_told, mut is_refused) = (false, false);
    for number in 1..=PIECES {
        let (at, piece) = (machine::below((LENGTH - PIECE) as u64) as usize, [number; PIECE]);
        // What fails is done in part: what is on the other server, or nothing.
        let written = volume.write(file.handle, at as u64, &piece, false);
        // A write of which a part could be done says how much.
        is_refused |= !is_done(written) || written != Ok(PIECE);
        states.wrote(at, &piece);
        let is_synced = is_done(file.sync());
        assert!(!(is_told && is_synced), "a sync that failed is answered the next time");
        is_told |= !is_synced;
        if is_synced && !is_refused {
            states.synced();
        }
        volume.mkdir(me(), directory, OsStr::new(&format!("directory{number}")), 0o755).expect("made");
    }
    assert!(is_told || is_refused, "nobody was told");
    states.assert_may_be(&file.content());
    if machine::below(2) == 0 {
        site.kill(1)
    } else {
        site.crash(1)
    }
    start(site, 1);
    // What was lost may be told once more.
    let is_lost = !is_done(file.sync());
    let last = [PIECES + 2; PIECE];
    file.write(0, &last);
    states.wrote(0, &last);
    assert_eq!(file.sync(), Ok(()), "told before: {is_lost}");
    for number in 1..=PIECES {
        let name = OsString::from(format!("directory{number}"));
        let attr = volume.lookup(me(), directory, &name).expect("it was made");
        volume.forget(attr.ino, 2);
        volume.rmdir(me(), directory, &name).expect("removed");
    }
    let left = file.leave();
    assert!(left[..PIECE] == last, "what was synced last");
    states.assert_may_be(&left);
    assert!(content_after_all(site, "file") == left, "what was synced is as it was");
}

/// What was told to be done is there as long as the server runs, what was told to be synced for good, and a sync that failed is not
/// answered later. When the server is started anew its disk is used again.
fn names_fail(site: &mut Site) {
    let (attached, volume) = attached(site);
    let directory = own_directory(&volume, 0);
    client::sync_directory(&volume, Ino::ROOT);
    let memory = Memory::default();
    let mut keeper = Keeper::new(&volume, directory, memory.clone(), SERVERS);
    (0..STEPS[0]).for_each(|_| keeper.step());
    let count = if machine::below(2) == 0 { 1 + machine::below(2) } else { u64::MAX };
    keeper.set_disk(Disk::Fails);
    site.fail_disk(0, machine::below(CALLS), count);
    (0..STEPS[1]).for_each(|_| keeper.step());
    machine::note(|| format!("the disk of the names: {:?}", keeper.disk()));
    if machine::below(2) == 0 {
        site.kill(0)
    } else {
        site.crash(0)
    }
    start(site, 0);
    keeper.set_disk(Disk::Works);
    (0..STEPS[2]).for_each(|_| keeper.step());
    keeper.close();
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
    (0..SERVERS).for_each(|position| site.crash(position));
    start_all(site);
    let (attached, volume) = self::attached(site);
    let directory = own_directory(&volume, 0);
    memory.compare(&volume, directory);
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
}
