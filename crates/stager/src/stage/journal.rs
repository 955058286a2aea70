//! The memory of finished files, so that a stage interrupted by a crash does not copy them again.
//!
//! JSON lines. The first names the stage; each other one a target that was complete when it was written, with what source and
//! target looked like:
//! ```text
//! {"forebay_stage":2,"identity":"9a…","boot":null}
//! {"target":"run7/out.h5","key":"5f…"}
//! ```
//! `key` is a 128-bit hash over the target's path and the inode, size and times of source and target: a file is skipped only
//! if both still look exactly so. A line is written after the rename, so a torn or missing one only means that a file is copied
//! again. With a durable stage-out the content was on disk before the rename; otherwise a restart of the machine makes the
//! journal worthless, which is why `boot` then holds the boot it was written in, and a journal of another boot is started
//! anew.
//!
//! Lines are written in groups of up to [`GROUP_BYTES`], at most [`GROUP_TIME`] after the first: a crash forgets the last of them.
//!
//! A file that is not such a journal is never overwritten. Known keys are kept in memory, 16 bytes each, at most
//! [`KNOWN_MAX`]; the files beyond that are copied again.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::failure::{ItemFailure, Reason};
use crate::raw_path;
use crate::tree::{Cause, Metadata};

/// Records remembered.
const KNOWN_MAX: usize = 4 << 20;
/// Longest line read: a path of 4096 bytes, each escaped, and the rest.
const LINE_MAX: u64 = 16 * 1024;
/// A group of lines is written when it has this size ...
const GROUP_BYTES: usize = 16 * 1024;
/// ... or, with the next line, when its first has waited for so long.
const GROUP_TIME: Duration = Duration::from_millis(100);
/// The only form that is read; a journal of another is begun anew. 1 had a checksum in each line.
const FORMAT: u32 = 2;
/// How a journal is called in messages that has no path.
const LENT: &str = "(open file)";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    forebay_stage: u32,
    identity: String,
    boot: Option<String>,
}

impl Header {
    fn of(identity: u64, durable: bool) -> io::Result<Header> {
        let boot = (!durable).then(boot).transpose()?;
        Ok(Header { forebay_stage: FORMAT, identity: format!("{identity:016x}"), boot })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(with = "raw_path")]
    target: PathBuf,
    key: String,
}

/// What a finished file looked like on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record(u128);

impl Record {
    pub fn new(target: &Path, source: &Metadata, there: &Metadata) -> Self {
        let mut text = Vec::with_capacity(256);
        for number in [source.device, source.inode, source.size, there.device, there.inode, there.size] {
            text.extend_from_slice(&number.to_le_bytes());
        }
        for stamp in [source.mtime, source.ctime, there.mtime] {
            text.extend_from_slice(&stamp.secs.to_le_bytes());
            text.extend_from_slice(&stamp.nanos.to_le_bytes());
        }
        text.extend_from_slice(target.as_os_str().as_encoded_bytes());
        Self(xxh3_128(&text))
    }
}

/// See the module.
pub struct Journal {
    path: PathBuf,
    /// Somebody else opened it, and removes it.
    is_lent: bool,
    known: HashSet<Record>,
    is_repeated: bool,
    written: Mutex<Written>,
}

/// The file, and the lines on the way to it.
struct Written {
    file: File,
    waiting: Vec<u8>,
    since: Instant,
}

impl Written {
    fn write(&mut self) -> io::Result<()> {
        let done = self.file.write_all(&self.waiting);
        self.waiting.clear();
        done
    }
}

impl Journal {
    /// Opens the journal of a stage, or begins one. `durable` as the option of that name.
    pub fn open(path: &Path, identity: u64, durable: bool) -> Result<Self, ItemFailure> {
        let open = || OpenOptions::new().read(true).append(true).create(true).open(path);
        let journal = open().and_then(|file| Self::begin(path, file, &Header::of(identity, durable)?));
        journal.map_err(|error| unusable(path, &error))
    }

    /// The same with a file that is open for reading and appending. It is never removed here.
    pub fn of_file(file: &File, identity: u64, durable: bool) -> Result<Self, ItemFailure> {
        let path = Path::new(LENT);
        let journal = file.try_clone();
        let journal = journal.and_then(|file| Self::begin(path, file, &Header::of(identity, durable)?));
        let mut journal = journal.map_err(|error| unusable(path, &error))?;
        journal.is_lent = true;
        Ok(journal)
    }

    fn begin(path: &Path, mut file: File, header: &Header) -> io::Result<Self> {
        let is_repeated = file.metadata()?.len() > 0;
        let known = if !is_repeated { None } else { read(&file, header)? };
        let known = match known {
            Some((known, torn)) => {
                if torn {
                    file.write_all(b"\n")?;
                }
                known
            }
            None => {
                file.set_len(0)?;
                let mut line = serde_json::to_vec(header)?;
                line.push(b'\n');
                file.write_all(&line)?;
                HashSet::new()
            }
        };
        let written = Written { file, waiting: Vec::new(), since: Instant::now() };
        let (path, written) = (path.to_path_buf(), Mutex::new(written));
        Ok(Self { path, is_lent: false, known, is_repeated, written })
    }

    /// Whether nothing was finished before.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether it was there: an earlier run has begun and did not finish.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Whether a file was finished before and still looks the same.
    pub fn has(&self, record: &Record) -> bool {
        self.known.contains(record)
    }

    /// Notes a file that is in place.
    pub fn add(&self, target: &Path, record: &Record) -> Result<(), ItemFailure> {
        let line = Line { target: target.to_path_buf(), key: format!("{:032x}", record.0) };
        let noted = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.note(&line)
        });
        noted.map_err(|error| unusable(&self.path, &error))
    }

    /// Whole lines go in one write, so that a crash tears at most the last.
    fn note(&self, line: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.waiting.is_empty() {
            written.since = Instant::now();
        }
        written.waiting.extend_from_slice(line);
        let is_due = written.waiting.len() >= GROUP_BYTES || written.since.elapsed() >= GROUP_TIME;
        if is_due { written.write() } else { Ok(()) }
    }

    /// Writes what is on the way. What is not written is only copied again.
    pub fn flush(&self) {
        let _ = self.written.lock().unwrap_or_else(PoisonError::into_inner).write();
    }

    /// The stage is complete: nothing to remember. A journal that stays only costs the next run some look-ups.
    pub fn remove(&self) {
        if !self.is_lent {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Keys of a journal, and whether its last line is torn. `None` when it is of another stage or another boot.
fn read(file: &File, expected: &Header) -> io::Result<Option<(HashSet<Record>, bool)>> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0))?;
    let mut line = Vec::new();
    reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
    let Ok(header) = serde_json::from_slice::<Header>(&line) else {
        // A first line cut short is our own beginning; anything else belongs to somebody.
        let ours = line.starts_with(br#"{"forebay_stage":"#) && !line.ends_with(b"\n");
        return if ours { Ok(None) } else { Err(io::Error::from(io::ErrorKind::InvalidData)) };
    };
    if header.forebay_stage != FORMAT || header.identity != expected.identity || header.boot != expected.boot
    {
        return Ok(None);
    }
    let mut known = HashSet::new();
    loop {
        let whole = line.ends_with(b"\n");
        line.clear();
        if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(Some((known, !whole)));
        }
        if line.ends_with(b"\n")
            && known.len() < KNOWN_MAX
            && let Ok(found) = serde_json::from_slice::<Line>(&line)
            && let Ok(key) = u128::from_str_radix(&found.key, 16)
        {
            known.insert(Record(key));
        }
    }
}

/// Names this boot of the machine.
fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn unusable(path: &Path, error: &io::Error) -> ItemFailure {
    let error = match error.kind() {
        io::ErrorKind::NotFound => Cause::NotFound,
        io::ErrorKind::PermissionDenied => Cause::AccessDenied,
        io::ErrorKind::ReadOnlyFilesystem => Cause::ReadOnly,
        io::ErrorKind::StorageFull => Cause::NoSpace,
        io::ErrorKind::QuotaExceeded => Cause::Quota,
        io::ErrorKind::IsADirectory => Cause::IsDirectory,
        io::ErrorKind::InvalidData => Cause::Exists,
        _ => Cause::Other { errno: error.raw_os_error().unwrap_or(0) },
    };
    ItemFailure { path: path.to_path_buf(), reason: Reason::Journal { error } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{EntryKind, Stamp};

    fn metadata(inode: u64) -> Metadata {
        let stamp = Stamp { secs: 1, nanos: 2 };
        Metadata {
            kind: EntryKind::Regular,
            device: 1,
            inode,
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 3,
            allocated: 4096,
            atime: stamp,
            mtime: stamp,
            ctime: stamp,
        }
    }

    fn record(name: &str, inode: u64) -> Record {
        Record::new(Path::new(name), &metadata(inode), &metadata(inode + 1))
    }

    #[test]
    fn finished_files_are_known_again_and_a_torn_line_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 7, true).unwrap();
        journal.add(Path::new("a"), &record("a", 1)).unwrap();
        journal.add(Path::new("b"), &record("b", 2)).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let again = Journal::open(&path, 7, true).unwrap();
        assert!(again.has(&record("a", 1)) && !again.has(&record("b", 2)) && !again.has(&record("a", 9)));
        again.add(Path::new("c"), &record("c", 3)).unwrap();
        drop(again);
        let third = Journal::open(&path, 7, true).unwrap();
        assert!(third.has(&record("a", 1)) && third.has(&record("c", 3)) && !third.has(&record("b", 2)));
    }

    #[test]
    fn the_journal_of_another_stage_is_begun_anew_and_a_foreign_file_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        Journal::open(&path, 7, true).unwrap().add(Path::new("a"), &record("a", 1)).unwrap();
        assert!(Journal::open(&path, 8, true).unwrap().is_empty());
        assert!(Journal::open(&path, 8, false).unwrap().is_empty());
        std::fs::write(&path, "my thesis\n").unwrap();
        assert!(Journal::open(&path, 7, true).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"my thesis\n");
    }

    #[test]
    fn a_journal_that_was_lent_is_used_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let open = || OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
        let first = Journal::of_file(&open(), 7, true).unwrap();
        assert!(!first.is_repeated());
        first.add(Path::new("a"), &record("a", 1)).unwrap();
        first.remove();
        drop(first);
        let again = Journal::of_file(&open(), 7, true).unwrap();
        assert!(again.is_repeated() && again.has(&record("a", 1)));
        assert!(Journal::of_file(&open(), 8, true).unwrap().is_empty(), "of another stage");
    }

    #[test]
    fn a_header_cut_short_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, br#"{"forebay_stage":1,"iden"#).unwrap();
        Journal::open(&path, 7, true).unwrap().add(Path::new("a"), &record("a", 1)).unwrap();
        assert!(Journal::open(&path, 7, true).unwrap().has(&record("a", 1)));
    }
}
