//! Between the words of the file system and those of the FUSE protocol. Pure.

use forebay_wire::{Attr, Caller, FileKind, Ino, SetTime, Timestamp};
use fuser::{FileAttr, FileType, Generation, INodeNo, Request, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

pub(crate) fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub(crate) fn generation(attr: &Attr) -> Generation {
    Generation(attr.generation)
}

pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: to_system_time(attr.atime),
        mtime: to_system_time(attr.mtime),
        ctime: to_system_time(attr.ctime),
        crtime: UNIX_EPOCH, // not part of the protocol on Linux
        kind: kind(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.block_size,
        flags: 0,
    }
}

/// Times no clock of this machine can hold become the epoch rather than a panic.
fn to_system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let base = if time.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(Duration::from_nanos(time.nanos.into()))).unwrap_or(UNIX_EPOCH)
}

/// Undoes how fuser 0.18 reads a time from the wire: for negative seconds it computes `epoch - (|seconds| +
/// nanoseconds)`, although nanoseconds count forward. Its distance from the epoch still holds both numbers.
pub(crate) fn from_request_time(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { secs: saturating(after.as_secs()), nanos: after.subsec_nanos() },
        Err(before) => {
            let distance = before.duration();
            Timestamp { secs: -saturating(distance.as_secs()), nanos: distance.subsec_nanos() }
        }
    }
}

fn saturating(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(from_request_time(time)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn some_attr() -> Attr {
        let epoch = Timestamp::default();
        Attr {
            ino: Ino(7),
            size: 0,
            blocks: 0,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            block_size: 4096,
            generation: 0,
            valid_ms: Attr::VALID_ALWAYS,
        }
    }

    #[test]
    fn times_before_the_epoch_keep_their_nanoseconds() {
        let time = to_system_time(Timestamp { secs: -2, nanos: 800_000_000 });
        assert_eq!(UNIX_EPOCH.duration_since(time).unwrap(), Duration::from_millis(1200));
        let as_the_library_reads_it = UNIX_EPOCH - Duration::new(2, 800_000_000);
        assert_eq!(from_request_time(as_the_library_reads_it), Timestamp { secs: -2, nanos: 800_000_000 });
    }

    #[test]
    fn times_after_the_epoch_go_both_ways() {
        for time in [Timestamp { secs: 0, nanos: 0 }, Timestamp { secs: 1_700_000_000, nanos: 999_999_999 }] {
            assert_eq!(from_request_time(to_system_time(time)), time);
        }
    }

    #[test]
    fn times_beyond_the_clock_do_not_panic() {
        to_system_time(Timestamp { secs: i64::MAX, nanos: 999_999_999 });
        to_system_time(Timestamp { secs: i64::MIN, nanos: 0 });
    }
}
