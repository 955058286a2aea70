//! One file that several nodes map, read and write in turns, against what is promised of mapped files.
//!
//! The promise, of a mapping that several nodes have of one file (`docs/SEMANTICS.md`, *Mapped files*):
//!
//! * stores of a node are seen at once by its own reads and mappings, and by those of others after `msync`, `fsync` or
//!   `munmap`; until then others see them or what was there before;
//! * what others wrote is seen by a read at once, and by a mapping after the file was opened or looked at; until then it
//!   shows that or what was there before;
//! * lengths are the same for all at all times.
//!
//! So the oracle knows, beside the bytes as they are, which older ones may still be seen by whom ([`Older`]). A file system
//! of one machine may never show any of them and passes too.
//!
//! A page is stored to and written back as a whole. So nodes do what the promise asks of programs: nobody changes a page
//! that another has stored to before that is synced, nor stores to one that it has not looked at since another changed it.

use super::{Deviation, History};
use crate::map::Map;
use crate::posix::check;
use crate::random::Random;
use rustix::fs::{Mode, OFlags, fstat, fsync, ftruncate};
use rustix::io::Result;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file never grows beyond this: two and a half stripes of 64 KiB.
const LONGEST: usize = 160 << 10;
/// What is stored and written back as a whole.
const PAGE: usize = 4096;
/// Operations between two comparisons of the whole file by everybody.
const COMPARE_EVERY: u64 = 100;

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The file, which is made, as each node names it.
    pub files: Vec<PathBuf>,
    /// What decides the operations.
    pub seed: u64,
    /// How many.
    pub operations: u64,
}

/// One operation of a node.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read { at: usize, length: usize },
    Write { at: usize, length: usize, pattern: u64 },
    Load { at: usize, length: usize, private: bool },
    Store { at: usize, length: usize, pattern: u64 },
    StorePrivately { at: usize, length: usize, pattern: u64 },
    Truncate { length: usize },
    Sync(Sync),
    Look(Look),
}

/// How stores reach the others.
#[derive(Clone, Copy, Debug)]
enum Sync {
    Msync,
    Fsync,
    Munmap,
}

/// How a mapping comes to show what others wrote.
#[derive(Clone, Copy, Debug)]
enum Look {
    Open,
    Stat,
}

/// Runs it, until the first deviation; how many operations were done.
pub fn run(run: &Run) -> std::result::Result<u64, Deviation> {
    let mut history = History::default();
    let mut number = 0;
    let result = exercise(run, &mut history, &mut number);
    result.map_err(|what| Deviation { seed: run.seed, number, what, history })?;
    Ok(run.operations)
}

fn exercise(run: &Run, history: &mut History, number: &mut u64) -> std::result::Result<(), String> {
    let mut random = Random::new(run.seed);
    let mut exercise = Exercise::start(&run.files).map_err(check::name)?;
    while *number < run.operations {
        let node = random.below(run.files.len() as u64) as usize;
        let operation = next(&mut random, &exercise, node);
        history.push(*number, &(node, operation));
        exercise.step(node, operation)?;
        *number += 1;
        if number.is_multiple_of(COMPARE_EVERY) {
            exercise.compare()?;
        }
    }
    exercise.compare()
}

fn next(random: &mut Random, exercise: &Exercise, node: usize) -> Operation {
    let pattern = random.bits();
    let (at, length) = range(random, LONGEST);
    let reach = exercise.reach(node);
    let (inside, inside_length) = if reach == 0 { (0, 0) } else { range(random, reach) };
    match random.below(100) {
        0..16 => Operation::Read { at, length },
        16..34 => Operation::Write { at, length, pattern },
        34..54 if inside_length > 0 => {
            Operation::Load { at: inside, length: inside_length, private: random.one_in(4) }
        }
        54..72 if inside_length > 0 => Operation::Store { at: inside, length: inside_length, pattern },
        72..75 if inside_length > 0 => {
            Operation::StorePrivately { at: inside, length: inside_length, pattern }
        }
        75..80 => Operation::Truncate { length: random.below(LONGEST as u64) as usize },
        80..90 => Operation::Sync(*random.pick(&[Sync::Msync, Sync::Msync, Sync::Fsync, Sync::Munmap])),
        _ => Operation::Look(*random.pick(&[Look::Open, Look::Stat])),
    }
}

/// A range of a file of this size: often short, often at the edge of a page or a stripe, never beyond the size.
fn range(random: &mut Random, size: usize) -> (usize, usize) {
    let below = |random: &mut Random, limit: usize| random.below(limit as u64) as usize;
    let edge = *random.pick(&[PAGE, 16 * PAGE]);
    let at = match random.below(3) {
        0 => (below(random, LONGEST / edge) * edge + below(random, 3)).saturating_sub(1).min(size - 1),
        _ => below(random, size),
    };
    let longest = *random.pick(&[10, 2_000, 10_000, 40_000]);
    (at, below(random, longest).min(size - at))
}

fn pages(range: &Range<usize>) -> Range<usize> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// Values that a byte may have, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Values([u64; 4]);

impl Values {
    fn insert(&mut self, value: u8) {
        self.0[usize::from(value / 64)] |= 1 << (value % 64);
    }

    fn contains(self, value: u8) -> bool {
        self.0[usize::from(value / 64)] & 1 << (value % 64) != 0
    }
}

/// Older values of each byte that somebody may still see.
#[derive(Clone)]
struct Older(Vec<Values>);

impl Older {
    fn none() -> Older {
        Older(vec![Values::default(); LONGEST])
    }

    fn is_none_in(&self, range: Range<usize>) -> bool {
        self.0[range].iter().all(|values| *values == Values::default())
    }

    fn forget(&mut self, range: Range<usize>) {
        self.0[range].fill(Values::default());
    }
}

struct Node {
    path: PathBuf,
    file: OwnedFd,
    map: Map,
    /// What its mapping may show beside the bytes as they are.
    stale: Older,
    /// Pages that it has stored to since the last sync.
    dirty: BTreeSet<usize>,
    /// The length that it knows of: a mapping reaches no further.
    known: usize,
}

impl Node {
    fn open(path: &Path) -> Result<Node> {
        let file = rustix::fs::open(path, OFlags::RDWR, Mode::empty())?;
        let map = Map::shared(&file, LONGEST)?;
        let (stale, dirty) = (Older::none(), BTreeSet::new());
        Ok(Node { path: path.to_owned(), file, map, stale, dirty, known: 0 })
    }
}

struct Exercise {
    nodes: Vec<Node>,
    /// The bytes as they are when everything is synced and looked at.
    now: Vec<u8>,
    /// What was there before stores that are not synced: others may read that.
    unsynced: Older,
}

impl Exercise {
    fn start(files: &[PathBuf]) -> Result<Exercise> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let first = files.first().expect("a run has a file");
        drop(rustix::fs::open(first, flags, Mode::from_raw_mode(0o600))?);
        let nodes = files.iter().map(|file| Node::open(file)).collect::<Result<_>>()?;
        Ok(Exercise { nodes, now: Vec::new(), unsynced: Older::none() })
    }

    /// How far a node may touch its mapping.
    fn reach(&self, node: usize) -> usize {
        self.nodes[node].known.min(self.now.len())
    }

    fn step(&mut self, node: usize, operation: Operation) -> std::result::Result<(), String> {
        match operation {
            Operation::Read { at, length } => self.read(node, at, length),
            Operation::Load { at, length, private } => self.load(node, at, length, private),
            Operation::StorePrivately { at, length, pattern } => {
                self.store_privately(node, at, length, pattern)
            }
            Operation::Look(look) => self.look(node, look),
            _ => self.change(node, operation).map_err(check::name),
        }
    }

    fn change(&mut self, node: usize, operation: Operation) -> Result<()> {
        match operation {
            Operation::Write { at, length, pattern } => self.write(node, at, length, pattern),
            Operation::Store { at, length, pattern } => self.store(node, at, length, pattern),
            Operation::Truncate { length } => self.truncate(node, length),
            Operation::Sync(how) => self.sync(node, how),
            _ => Ok(()),
        }
    }

    fn write(&mut self, node: usize, at: usize, length: usize, pattern: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.sync_others(node, pages(&(at..at + length)))?;
        let data = Random::new(pattern).bytes(length);
        let mut written = 0;
        while written < length {
            written += rustix::io::pwrite(&self.nodes[node].file, &data[written..], (at + written) as u64)?;
        }
        self.becomes(node, at, &data);
        Ok(())
    }

    fn store(&mut self, node: usize, at: usize, length: usize, pattern: u64) -> Result<()> {
        let pages = pages(&(at..at + length));
        self.sync_others(node, pages.clone())?;
        if !self.nodes[node].stale.is_none_in(pages.start * PAGE..pages.end * PAGE) {
            fstat(&self.nodes[node].file)?;
            self.has_looked(node);
        }
        let data = Random::new(pattern).bytes(length);
        for (number, byte) in (at..).zip(&self.now[at..at + length]) {
            self.unsynced.0[number].insert(*byte);
        }
        self.nodes[node].map.write(at, &data);
        self.nodes[node].dirty.extend(pages);
        self.becomes(node, at, &data);
        Ok(())
    }

    fn truncate(&mut self, node: usize, length: usize) -> Result<()> {
        self.sync_others(node, 0..LONGEST / PAGE)?;
        ftruncate(&self.nodes[node].file, length as u64)?;
        let (cut, old) = (length.min(self.now.len()), self.now.len());
        self.others_may_see(node, cut..old);
        self.now.resize(length, 0);
        // Beyond the end a mapped page is zeros.
        self.others_may_see(node, old.min(length)..length);
        // Somebody may have heard of it, and hears of more only when he looks.
        self.nodes.iter_mut().for_each(|other| other.known = other.known.min(length));
        self.nodes[node].known = length;
        self.nodes[node].dirty.retain(|page| page * PAGE < length);
        self.unsynced.forget(length..LONGEST);
        Ok(())
    }

    /// A node has put these bytes there.
    fn becomes(&mut self, node: usize, at: usize, data: &[u8]) {
        let (old, end) = (self.now.len(), at + data.len());
        if old < end {
            self.now.resize(end, 0);
            self.others_may_see(node, old..end);
            self.nodes[node].known = end;
        }
        self.others_may_see(node, at..end);
        self.now[at..end].copy_from_slice(data);
        self.nodes[node].stale.forget(at..end);
    }

    /// Mappings of others may go on showing what is there now.
    fn others_may_see(&mut self, node: usize, range: Range<usize>) {
        for (_, other) in self.nodes.iter_mut().enumerate().filter(|(number, _)| *number != node) {
            for at in range.clone() {
                other.stale.0[at].insert(self.now[at]);
            }
        }
    }

    /// Has all others sync what they have stored to these pages.
    fn sync_others(&mut self, node: usize, pages: Range<usize>) -> Result<()> {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            if self.nodes[other].dirty.range(pages.clone()).next().is_some() {
                self.sync(other, Sync::Msync)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self, node: usize, how: Sync) -> Result<()> {
        let own = &mut self.nodes[node];
        match how {
            Sync::Msync => own.map.sync()?,
            Sync::Fsync => fsync(&own.file)?,
            Sync::Munmap => own.map = Map::shared(&own.file, LONGEST)?,
        }
        for page in std::mem::take(&mut own.dirty) {
            self.unsynced.forget(page * PAGE..(page + 1) * PAGE);
        }
        Ok(())
    }

    fn look(&mut self, node: usize, look: Look) -> std::result::Result<(), String> {
        let own = &self.nodes[node];
        let size = match look {
            Look::Open => {
                let again =
                    rustix::fs::open(&own.path, OFlags::RDONLY, Mode::empty()).map_err(check::name)?;
                fstat(&again)
            }
            Look::Stat => rustix::fs::stat(&own.path),
        };
        let size = size.map_err(check::name)?.st_size as usize;
        if size != self.now.len() {
            return Err(format!("node {node} sees {size} bytes, there are {}", self.now.len()));
        }
        self.has_looked(node);
        Ok(())
    }

    fn has_looked(&mut self, node: usize) {
        let own = &mut self.nodes[node];
        own.known = self.now.len();
        for page in 0..LONGEST / PAGE {
            let bytes = page * PAGE..(page + 1) * PAGE;
            match own.dirty.contains(&page) {
                true => own.stale.forget(bytes),
                // Of what others have not synced nobody knows.
                false => own.stale.0[bytes.clone()].copy_from_slice(&self.unsynced.0[bytes]),
            }
        }
    }

    fn read(&self, node: usize, at: usize, length: usize) -> std::result::Result<(), String> {
        let own = &self.nodes[node];
        let mut buffer = vec![0; length];
        let mut have = 0;
        while have < length {
            let offset = (at + have) as u64;
            match rustix::io::pread(&own.file, &mut buffer[have..], offset).map_err(check::name)? {
                0 => break,
                count => have += count,
            }
        }
        let expected = self.now.len().saturating_sub(at).min(length);
        if have != expected {
            return Err(format!("node {node} read {have} bytes at {at}, expected {expected}"));
        }
        let of_others = |at: usize| !own.dirty.contains(&(at / PAGE));
        let older = |at: usize| if of_others(at) { self.unsynced.0[at] } else { Values::default() };
        self.judge(node, "reads", at, &buffer[..have], older)
    }

    fn load(&self, node: usize, at: usize, length: usize, private: bool) -> std::result::Result<(), String> {
        let own = &self.nodes[node];
        let found = match private {
            false => own.map.read(at, length),
            true => self.private(node).map_err(check::name)?.read(at, length),
        };
        self.judge(node, if private { "loads privately" } else { "loads" }, at, &found, |at| own.stale.0[at])
    }

    fn private(&self, node: usize) -> Result<Map> {
        Map::new(&self.nodes[node].file, LONGEST, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)
    }

    /// What is stored to a private mapping is seen there and nowhere else, which the following operations judge.
    fn store_privately(
        &self,
        node: usize,
        at: usize,
        length: usize,
        pattern: u64,
    ) -> std::result::Result<(), String> {
        let data = Random::new(pattern).bytes(length);
        let map = self.private(node).map_err(check::name)?;
        map.write(at, &data);
        if map.read(at, length) == data {
            Ok(())
        } else {
            Err(format!("node {node} lost what it stored at {at}"))
        }
    }

    /// Every byte is the one that is there, or an older one that may be seen.
    fn judge(
        &self,
        node: usize,
        does: &str,
        at: usize,
        found: &[u8],
        older: impl Fn(usize) -> Values,
    ) -> std::result::Result<(), String> {
        let is_wrong = |at: usize, byte: u8| byte != self.now[at] && !older(at).contains(byte);
        let Some((first, byte)) = (at..).zip(found.iter().copied()).find(|(at, byte)| is_wrong(*at, *byte))
        else {
            return Ok(());
        };
        let wrong = (at..).zip(found).filter(|(at, byte)| is_wrong(*at, **byte)).count();
        Err(format!(
            "node {node} {does} {} bytes at {at}; {wrong} are wrong, the first at {first}: {byte}, expected {}",
            found.len(),
            self.now[first]
        ))
    }

    /// Everything is synced and looked at, and everybody reads and loads the same.
    fn compare(&mut self) -> std::result::Result<(), String> {
        for node in 0..self.nodes.len() {
            self.sync(node, Sync::Msync).map_err(check::name)?;
        }
        for node in 0..self.nodes.len() {
            self.look(node, if node % 2 == 0 { Look::Stat } else { Look::Open })?;
            self.read(node, 0, LONGEST)?;
            self.load(node, 0, self.now.len(), false)?;
        }
        Ok(())
    }
}
