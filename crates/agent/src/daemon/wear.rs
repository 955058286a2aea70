//! How much was ever written to a node's disk.
//!
//! The kernel counts since the machine was started; what it had counted before is kept in a file of the agent. What is written
//! between the last note and a crash of the machine is not counted. A directory that is on no disk of its own (a network
//! or memory file system) has no wear.

use super::state;
use crate::error::AgentError;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a sector, whatever the disk's own is.
const SECTOR: u64 = 512;
/// Place of the sectors written in the kernel's line for a disk.
const WRITTEN: usize = 6;
/// It is noted again when so much was written since.
const NOTE_EVERY: u64 = 1 << 30;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// The start of the machine.
    boot: String,
    /// Written before it.
    before: u64,
    /// Written since.
    since: u64,
}

impl Note {
    fn updated(&self, boot: &str, since: u64) -> Note {
        let is_same = self.boot == boot && since >= self.since;
        let before = if is_same { self.before } else { self.before.saturating_add(self.since) };
        Note { boot: boot.to_owned(), before, since }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Wear {
    file: PathBuf,
    disk: Option<PathBuf>,
    note: Note,
}

impl Wear {
    /// The wear of the disk that a directory is on, noted in a file.
    pub fn open(file: PathBuf, directory: Option<&Path>) -> Result<Wear, AgentError> {
        let device = directory.and_then(|directory| std::fs::metadata(directory).ok()).map(|meta| meta.dev());
        let disk = device.map(|device| {
            let (major, minor) = (libc::major(device), libc::minor(device));
            PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
        });
        let note = state::read(&file)?.unwrap_or_default();
        Ok(Wear { file, disk, note })
    }

    /// Bytes ever written.
    pub fn bytes(&mut self) -> Bytes {
        let since = self.disk.as_deref().and_then(written);
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        if let Some(since) = since {
            let next = self.note.updated(boot.trim(), since);
            let is_due =
                next.boot != self.note.boot || next.since / NOTE_EVERY != self.note.since / NOTE_EVERY;
            self.note = next;
            if is_due {
                // It is noted again with the next gigabyte.
                let _ = state::write(&self.file, &self.note);
            }
        }
        Bytes(self.note.before.saturating_add(self.note.since))
    }
}

fn written(stat: &Path) -> Option<u64> {
    let line = std::fs::read_to_string(stat).ok()?;
    line.split_whitespace().nth(WRITTEN)?.parse::<u64>().ok()?.checked_mul(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_a_start_counts() {
        let first = Note::default().updated("a", 10);
        let later = first.updated("a", 15);
        assert_eq!(later.before + later.since, 15);
        let other = later.updated("b", 3);
        assert_eq!(other.before + other.since, 18);
        let smaller = other.updated("b", 1);
        assert_eq!(smaller.before + smaller.since, 19, "the disk was taken out and put in");
    }

    #[test]
    fn a_directory_without_a_disk_has_no_wear() {
        let directory = tempfile::tempdir().unwrap();
        let mut wear = Wear::open(directory.path().join("wear.json"), Some(Path::new("/proc"))).unwrap();
        assert_eq!(wear.bytes(), Bytes(0));
    }
}
