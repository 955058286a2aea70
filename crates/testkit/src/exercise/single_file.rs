//! Everything that reads or changes the bytes of one file, against a vector of bytes.

use super::{Deviation, History};
use crate::map::Map;
use crate::posix::check;
use crate::random::Random;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, copy_file_range, fallocate, ftruncate};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file never grows beyond this: sixteen stripes of 64 KiB.
const LONGEST: u64 = 1 << 20;

/// Operations between two comparisons of the whole file.
const COMPARE_EVERY: u64 = 200;

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The file, which is made.
    pub file: PathBuf,
    /// What decides the operations.
    pub seed: u64,
    /// How many.
    pub operations: u64,
}

/// One operation; ranges are already cut to what the file can hold.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read { offset: u64, length: usize },
    Write { offset: u64, length: usize, pattern: u64 },
    MapRead { offset: u64, length: usize },
    MapWrite { offset: u64, length: usize, pattern: u64, sync: bool },
    Truncate { length: u64 },
    Punch { offset: u64, length: u64 },
    Zero { offset: u64, length: u64, keep: bool },
    Allocate { offset: u64, length: u64, keep: bool },
    Copy { from: u64, to: u64, length: usize },
    Reopen,
    Sync,
    Holes,
}

/// Runs it, until the first deviation; how many operations were done.
pub fn run(run: &Run) -> std::result::Result<u64, Deviation> {
    let mut history = History::default();
    let mut random = Random::new(run.seed);
    let mut number = 0;
    let result = exercise(run, &mut random, &mut history, &mut number);
    result.map_err(|what| Deviation { seed: run.seed, number, what, history })?;
    Ok(run.operations)
}

fn exercise(
    run: &Run,
    random: &mut Random,
    history: &mut History,
    number: &mut u64,
) -> std::result::Result<(), String> {
    let mut exercise = Exercise::start(&run.file).map_err(check::name)?;
    while *number < run.operations {
        let operation = next(random, exercise.expected.len() as u64);
        history.push(*number, &operation);
        exercise.step(operation)?;
        *number += 1;
        if number.is_multiple_of(COMPARE_EVERY) {
            exercise.compare()?;
        }
    }
    exercise.reopen().map_err(check::name)?;
    exercise.compare()
}

fn next(random: &mut Random, size: u64) -> Operation {
    let pattern = random.bits();
    let (offset, length) = range(random, LONGEST);
    let (inside, inside_length) = if size == 0 { (0, 0) } else { range(random, size) };
    match random.below(100) {
        0..18 => Operation::Read { offset, length: length as usize },
        18..40 => Operation::Write { offset, length: length as usize, pattern },
        40..50 if inside_length > 0 => Operation::MapRead { offset: inside, length: inside_length as usize },
        50..64 if inside_length > 0 => {
            let sync = random.one_in(3);
            Operation::MapWrite { offset: inside, length: inside_length as usize, pattern, sync }
        }
        64..72 => Operation::Truncate { length: random.below(LONGEST) },
        72..78 => Operation::Punch { offset, length: length.max(1) },
        78..82 => Operation::Zero { offset, length: length.max(1), keep: random.one_in(2) },
        82..86 => Operation::Allocate { offset, length: length.max(1), keep: random.one_in(2) },
        86..92 => {
            let to = random.below(LONGEST);
            let distance = inside.abs_diff(to);
            let length = inside_length.min(LONGEST - to).min(distance) as usize;
            Operation::Copy { from: inside, to, length }
        }
        92..96 => Operation::Reopen,
        96..98 => Operation::Sync,
        _ => Operation::Holes,
    }
}

/// A range of a file of this size: often short, often at the edge of a stripe, never beyond the size.
fn range(random: &mut Random, size: u64) -> (u64, u64) {
    let offset = match random.below(3) {
        0 => (random.below(16) * 65_536 + random.below(3)).saturating_sub(1).min(size - 1),
        _ => random.below(size),
    };
    let longest = *random.pick(&[10, 5_000, 70_000, 300_000]);
    (offset, random.below(longest).min(size - offset))
}

struct Exercise {
    path: PathBuf,
    file: OwnedFd,
    expected: Vec<u8>,
}

impl Exercise {
    fn start(path: &Path) -> Result<Exercise> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
        Ok(Exercise { path: path.to_owned(), file, expected: Vec::new() })
    }

    fn reopen(&mut self) -> Result<()> {
        self.file = rustix::fs::open(&self.path, OFlags::RDWR, Mode::empty())?;
        Ok(())
    }

    fn step(&mut self, operation: Operation) -> std::result::Result<(), String> {
        match operation {
            Operation::Read { offset, length } => self.read(offset, length),
            Operation::MapRead { offset, length } => self.map_read(offset, length),
            Operation::Holes => self.holes(),
            _ => self.change(operation).map_err(check::name),
        }?;
        let size = rustix::fs::fstat(&self.file).map_err(check::name)?.st_size;
        if size as usize == self.expected.len() {
            return Ok(());
        }
        Err(format!("after {operation:?} the size is {size}, expected {}", self.expected.len()))
    }

    fn change(&mut self, operation: Operation) -> Result<()> {
        match operation {
            Operation::Write { offset, length, pattern } => self.write(offset, length, pattern),
            Operation::MapWrite { offset, length, pattern, sync } => {
                self.map_write(offset, length, pattern, sync)
            }
            Operation::Truncate { length } => {
                ftruncate(&self.file, length)?;
                self.expected.resize(length as usize, 0);
                Ok(())
            }
            Operation::Punch { offset, length } => {
                fallocate(
                    &self.file,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    offset,
                    length,
                )?;
                self.clear(offset, length);
                Ok(())
            }
            Operation::Zero { offset, length, keep } => {
                self.allocate(FallocateFlags::ZERO_RANGE, offset, length, keep)?;
                self.clear(offset, length);
                Ok(())
            }
            Operation::Allocate { offset, length, keep } => {
                self.allocate(FallocateFlags::empty(), offset, length, keep)
            }
            Operation::Copy { from, to, length } => self.copy(from, to, length),
            Operation::Reopen => self.reopen(),
            Operation::Sync => rustix::fs::fsync(&self.file),
            Operation::Read { .. } | Operation::MapRead { .. } | Operation::Holes => Ok(()),
        }
    }

    fn write(&mut self, offset: u64, length: usize, pattern: u64) -> Result<()> {
        let data = Random::new(pattern).bytes(length);
        let mut written = 0;
        while written < length {
            written += rustix::io::pwrite(&self.file, &data[written..], offset + written as u64)?;
        }
        if length > 0 {
            self.put(offset as usize, &data);
        }
        Ok(())
    }

    fn put(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if self.expected.len() < end {
            self.expected.resize(end, 0);
        }
        self.expected[offset..end].copy_from_slice(data);
    }

    fn clear(&mut self, offset: u64, length: u64) {
        let size = self.expected.len();
        let (start, end) = ((offset as usize).min(size), ((offset + length) as usize).min(size));
        self.expected[start..end].fill(0);
    }

    fn allocate(&mut self, mode: FallocateFlags, offset: u64, length: u64, keep: bool) -> Result<()> {
        let keep_size = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        fallocate(&self.file, mode | keep_size, offset, length)?;
        let end = (offset + length) as usize;
        if !keep && end > self.expected.len() {
            self.expected.resize(end, 0);
        }
        Ok(())
    }

    fn copy(&mut self, from: u64, to: u64, length: usize) -> Result<()> {
        let (mut at, mut into, mut left) = (from, to, length);
        while left > 0 {
            match copy_file_range(&self.file, Some(&mut at), &self.file, Some(&mut into), left)? {
                0 => return Err(Errno::IO),
                count => left -= count,
            }
        }
        let piece = self.expected[from as usize..from as usize + length].to_vec();
        if length > 0 {
            self.put(to as usize, &piece);
        }
        Ok(())
    }

    fn map_write(&mut self, offset: u64, length: usize, pattern: u64, sync: bool) -> Result<()> {
        let end = offset as usize + length;
        let map = Map::shared(&self.file, end)?;
        let data = Random::new(pattern).bytes(length);
        map.write(offset as usize, &data);
        self.put(offset as usize, &data);
        if sync { map.sync() } else { Ok(()) }
    }

    fn read(&self, offset: u64, length: usize) -> std::result::Result<(), String> {
        let mut buffer = vec![0; length];
        let mut have = 0;
        while have < length {
            match rustix::io::pread(&self.file, &mut buffer[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) => return Err(check::name(error)),
            }
        }
        let size = self.expected.len();
        let (start, end) = ((offset as usize).min(size), (offset as usize + length).min(size));
        same_bytes(&buffer[..have], &self.expected[start..end], offset)
    }

    fn map_read(&self, offset: u64, length: usize) -> std::result::Result<(), String> {
        let map = Map::shared(&self.file, offset as usize + length).map_err(check::name)?;
        let found = map.read(offset as usize, length);
        same_bytes(&found, &self.expected[offset as usize..offset as usize + length], offset)
    }

    /// Whatever is said to be a hole must be zeros, and the ranges must go forward to the end.
    fn holes(&self) -> std::result::Result<(), String> {
        let size = self.expected.len() as u64;
        let mut at = 0;
        while at < size {
            let data = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => size,
                Err(error) => return Err(check::name(error)),
            };
            let hole = self.expected.get(at as usize..data as usize);
            let Some(hole) = hole else { return Err(format!("data from {data} of {size} sought from {at}")) };
            if let Some(first) = hole.iter().position(|&byte| byte != 0) {
                return Err(format!("{} is said to be a hole and holds data", at + first as u64));
            }
            if data == size {
                return Ok(());
            }
            let end = rustix::fs::seek(&self.file, SeekFrom::Hole(data)).map_err(check::name)?;
            if end <= data || end > size {
                return Err(format!("a hole at {end} of {size} sought from the data at {data}"));
            }
            at = end;
        }
        Ok(())
    }

    fn compare(&self) -> std::result::Result<(), String> {
        // One byte more than there is, to see the end.
        self.read(0, self.expected.len() + 1)
    }
}

fn same_bytes(found: &[u8], expected: &[u8], offset: u64) -> std::result::Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let pairs = found.iter().zip(expected);
    let first = pairs.clone().position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let wrong = pairs.filter(|(a, b)| a != b).count();
    Err(format!(
        "read {} bytes at {offset}, expected {}; {wrong} are wrong, the first at {}: found {:?}, expected {:?}",
        found.len(),
        expected.len(),
        offset + first as u64,
        found.get(first),
        expected.get(first)
    ))
}
