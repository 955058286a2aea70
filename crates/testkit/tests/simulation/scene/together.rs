//! Work on what all clients share, and what has to hold of it.
//!
//! * A log that all append to: every record that was acknowledged is there once, no record is there twice or in part.
//! * A counter that is read and written under a lock: no addition is lost.
//! * A board of each client, which it overwrites with the next number and lengthens: whoever reads it finds a number that was
//!   there between his asking and the answer, and a length too; also when he shows attributes that he was granted for a time.
//! * A name that all try to make exclusively: one of them makes it.

use super::own::{me, read_all, write_all};
use crate::machine;
use forebay_client::Volume;
use forebay_client::remote::Notices;
use forebay_wire::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Length of a record of the log in bytes: some cross stripes.
const RECORD_BYTES: usize = 100;
/// Length of a board with number 0 in bytes: several stripes.
const BOARD_BYTES: u64 = 9000;
/// Exclusive makings that there are.
const RACES: u64 = 64;

/// What is known of what all share.
#[derive(Default)]
pub struct Shared {
    /// Records that were acknowledged, and those that may be there: a client was killed meanwhile.
    acknowledged: Mutex<BTreeSet<(usize, u64)>>,
    begun: Mutex<BTreeSet<(usize, u64)>>,
    added: AtomicU64,
    adding: AtomicU64,
    boards: Mutex<BTreeMap<usize, Arc<Board>>>,
    races: Mutex<BTreeMap<u64, u64>>,
}

#[derive(Default)]
struct Board {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

/// What a client shows of attributes until their term ends, as a kernel does.
#[derive(Default)]
pub struct Shown(Mutex<Showing>);

#[derive(Default)]
struct Showing {
    attributes: BTreeMap<Ino, (Attr, u64)>,
    notices: u64,
}

impl Notices for Shown {
    fn attributes_changed(&self, ino: Ino) {
        let mut shown = self.lock();
        shown.notices += 1;
        shown.attributes.remove(&ino);
    }

    fn content_changed(&self, ino: Ino) {
        self.attributes_changed(ino);
    }

    fn name_changed(&self, _parent: Ino, _name: &OsStr) {
        self.lock().notices += 1;
    }
}

impl Shown {
    fn lock(&self) -> std::sync::MutexGuard<'_, Showing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attributes as they are shown.
    fn getattr(&self, volume: &Volume, ino: Ino) -> Attr {
        let (known, notices) = {
            let shown = self.lock();
            (shown.attributes.get(&ino).copied(), shown.notices)
        };
        if let Some((attr, until)) = known
            && machine::now() < until
        {
            machine::note(|| "shown from memory".to_owned());
            return attr;
        }
        let asked = machine::now();
        let attr = volume.getattr(ino, None).expect("attributes");
        let mut shown = self.lock();
        if shown.notices == notices && attr.valid_ms > 0 {
            shown.attributes.insert(ino, (attr, asked + u64::from(attr.valid_ms) * 1_000_000));
        }
        attr
    }
}

/// One that works with the others.
pub struct Partner<'a> {
    pub client: usize,
    pub volume: &'a Volume,
    pub shared: Arc<Shared>,
    pub shown: Arc<Shown>,
    records: u64,
    board: u64,
    /// Numbers of its waits for locks: a grant may come twice, and is not to be taken for one of a later wait.
    waits: u64,
}

/// A file of the root, made by whoever comes first.
fn opened(volume: &Volume, name: &str) -> (Ino, forebay_client::Handle) {
    let made = volume.create(me(), Ino::ROOT, OsStr::new(name), 0o666, OpenFlags::READ_WRITE);
    let (attr, opened) = made.expect("a common file");
    (attr.ino, opened.handle)
}

fn close(volume: &Volume, (ino, handle): (Ino, forebay_client::Handle)) {
    volume.release(handle).expect("a close");
    volume.forget(ino, 1);
}

fn record(client: usize, number: u64) -> [u8; RECORD_BYTES] {
    let mut record = [b'.'; RECORD_BYTES];
    let text = format!("<{client} {number}");
    record[..text.len()].copy_from_slice(text.as_bytes());
    record[RECORD_BYTES - 1] = b'>';
    record
}

impl<'a> Partner<'a> {
    pub fn new(client: usize, volume: &'a Volume, shared: Arc<Shared>, shown: Arc<Shown>) -> Partner<'a> {
        Partner { client, volume, shared, shown, records: 0, board: 0, waits: 0 }
    }

    /// One operation.
    pub fn step(&mut self) {
        match machine::below(10) {
            0..3 => self.log(),
            3..6 => self.add(),
            6..7 => self.write_board(),
            7..9 => self.look_at_board(),
            _ => self.race(),
        }
    }

    fn log(&mut self) {
        self.records += 1;
        let key = (self.client, self.records);
        machine::note(|| format!("log {key:?}"));
        self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        let file = opened(self.volume, "log");
        let (_, done) = self.volume.append(file.1, &record(key.0, key.1), false).expect("an append");
        assert_eq!(done, RECORD_BYTES);
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        close(self.volume, file);
    }

    /// Adds to the counter that all have.
    pub fn add(&mut self) {
        machine::note(|| "add".to_owned());
        let file = opened(self.volume, "counter");
        let locks = self.volume.locks().expect("locks");
        let request = LockRequest {
            file: file.0,
            owner: LockOwner(self.client as u64),
            scope: LockScope::File,
            kind: LockKind::Exclusive,
            pid: 1,
        };
        self.waits += 1;
        locks.lock(&request, Some(WaitId(self.waits))).expect("the lock");
        machine::note(|| "locked".to_owned());
        let mut number = [0; 8];
        let read = self.volume.read(file.1, 0, &mut number).expect("a read");
        assert!(read == 0 || read == number.len());
        self.shared.adding.fetch_add(1, SeqCst);
        let next = u64::from_le_bytes(number) + 1;
        write_all(self.volume, file.1, 0, &next.to_le_bytes());
        self.shared.added.fetch_add(1, SeqCst);
        locks.unlock(file.0, request.owner, request.scope).expect("an unlock");
        close(self.volume, file);
    }

    fn board_of(&self, client: usize) -> Arc<Board> {
        self.shared.boards.lock().unwrap_or_else(PoisonError::into_inner).entry(client).or_default().clone()
    }

    fn write_board(&mut self) {
        let board = self.board_of(self.client);
        self.board += 1;
        machine::note(|| format!("write board {}", self.board));
        let file = opened(self.volume, &format!("board{}", self.client));
        board.begun.store(self.board, SeqCst);
        let content = vec![self.board as u8; (BOARD_BYTES + self.board) as usize];
        write_all(self.volume, file.1, 0, &content);
        // Of its own changes a client knows by itself.
        self.shown.attributes_changed(file.0);
        board.acknowledged.store(self.board, SeqCst);
        close(self.volume, file);
    }

    fn look_at_board(&mut self) {
        let clients: Vec<usize> =
            self.shared.boards.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        let Some(client) = clients.get(machine::below(clients.len().max(1) as u64) as usize) else { return };
        let board = self.board_of(*client);
        if board.acknowledged.load(SeqCst) == 0 {
            return;
        }
        machine::note(|| format!("look at board {client}"));
        let name = format!("board{client}");
        let attr = self.volume.lookup(me(), Ino::ROOT, OsStr::new(&name)).expect("a board");
        for _ in 0..3 {
            let from = board.acknowledged.load(SeqCst);
            let size = self.shown.getattr(self.volume, attr.ino).size;
            let to = board.begun.load(SeqCst);
            let lengths = if from == 0 { 0 } else { BOARD_BYTES + from }..=BOARD_BYTES + to;
            assert!(lengths.contains(&size), "board {client} shows {size} bytes, and has {lengths:?}");
        }
        let opened = self.volume.open(me(), attr.ino, OpenFlags::READ_ONLY).expect("an open");
        let from = board.acknowledged.load(SeqCst);
        let found = read_all(self.volume, opened.handle).expect("a read");
        let to = board.begun.load(SeqCst);
        let is_good = |byte: &u8| (from..=to).any(|number| number as u8 == *byte);
        let bad = found.iter().position(|byte| !is_good(byte));
        // What gets longer at this moment may be there in part, with nothing before it.
        let bad = bad.filter(|at| to == from || (*at as u64) < BOARD_BYTES + from);
        assert!(
            bad.is_none(),
            "board {client} has {:?} at {bad:?}, and had {from} to {to}",
            bad.map(|at| found[at])
        );
        assert!(found.len() as u64 >= BOARD_BYTES + from, "board {client} has {} bytes", found.len());
        self.volume.release(opened.handle).expect("a close");
        self.volume.forget(attr.ino, 1);
    }

    fn race(&mut self) {
        let number = machine::below(RACES);
        let name = format!("race{number}");
        machine::note(|| format!("race for {number}"));
        let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
        match self.volume.create(me(), Ino::ROOT, OsStr::new(&name), 0o644, flags) {
            Ok((attr, opened)) => {
                let mut races = self.shared.races.lock().unwrap_or_else(PoisonError::into_inner);
                *races.entry(number).or_default() += 1;
                drop(races);
                close(self.volume, (attr.ino, opened.handle));
            }
            Err(FsError::Exists) => {}
            Err(error) => panic!("an exclusive create of {name}: {error}"),
        }
    }
}

impl Shared {
    /// Looks at everything when nobody works any more. `killed`: clients were killed in the middle.
    pub fn check(&self, volume: &Volume, killed: u64) {
        self.check_log(volume, killed);
        self.check_counter(volume, killed);
        let races = self.races.lock().unwrap_or_else(PoisonError::into_inner);
        let twice: Vec<_> = races.iter().filter(|(_, winners)| **winners > 1).collect();
        assert!(twice.is_empty(), "names were made exclusively, and again: {twice:?}");
        for number in races.keys() {
            let name = format!("race{number}");
            let attr =
                volume.lookup(me(), Ino::ROOT, OsStr::new(&name)).expect("a name that was made exclusively");
            volume.forget(attr.ino, 1);
        }
    }

    fn check_log(&self, volume: &Volume, killed: u64) {
        let file = opened(volume, "log");
        let content = read_all(volume, file.1).expect("a read");
        close(volume, file);
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut holes = 0;
        let mut found = BTreeSet::new();
        assert_eq!(content.len() % RECORD_BYTES, 0, "length of the log");
        for piece in content.chunks(RECORD_BYTES) {
            let known = begun.iter().find(|key| record(key.0, key.1) == piece);
            match known {
                Some(key) => assert!(found.insert(*key), "record {key:?} is there twice"),
                // A client was killed after it had its place and before it had written all of it.
                None => holes += 1,
            }
        }
        assert!(holes <= killed, "{holes} records are torn, and {killed} clients were killed");
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged records are lost: {lost:?}");
    }

    fn check_counter(&self, volume: &Volume, killed: u64) {
        let file = opened(volume, "counter");
        let mut number = [0; 8];
        volume.read(file.1, 0, &mut number).expect("a read");
        let (found, from) = (u64::from_le_bytes(number), self.added.load(SeqCst));
        let to = self.adding.load(SeqCst);
        assert!(to - from <= killed);
        assert!((from..=to).contains(&found), "the counter is {found}, and {from} to {to} were added");
        let request = LockRequest {
            file: file.0,
            owner: LockOwner(1),
            scope: LockScope::File,
            kind: LockKind::Exclusive,
            pid: 1,
        };
        let locks = volume.locks().expect("locks");
        locks.lock(&request, None).expect("nobody holds the lock any more");
        locks.unlock(file.0, request.owner, request.scope).expect("an unlock");
        close(volume, file);
    }
}
