//! Between the words of the file system and those of the FUSE protocol. Pure.

use forebay_fusedev::request::NewTime;
use forebay_fusedev::{Context, FileType, Time};
use forebay_wire::{Attr, Caller, FileKind, Ino, SetTime, Timestamp};

/// Nanoseconds of the last moment of a second.
const NANOS_MAX: u32 = 999_999_999;

pub(crate) fn caller(context: &Context) -> Caller {
    Caller { uid: context.uid, gid: context.gid, pid: context.pid }
}

pub(crate) fn ino(context: &Context) -> Ino {
    Ino(context.node)
}

pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(attr: &Attr) -> forebay_fusedev::Attr {
    forebay_fusedev::Attr {
        node: attr.ino.0,
        size: attr.size,
        blocks: attr.blocks,
        atime: shown(attr.atime),
        mtime: shown(attr.mtime),
        ctime: shown(attr.ctime),
        mode: kind(attr.kind).mode() | (attr.mode & 0o7777),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        block_size: attr.block_size,
    }
}

fn shown(time: Timestamp) -> Time {
    Time { secs: time.secs, nanos: time.nanos }
}

/// The kernel sends whole nanoseconds within the second.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp { secs: time.secs, nanos: time.nanos.min(NANOS_MAX) }
}

pub(crate) fn set_time(time: NewTime) -> SetTime {
    match time {
        NewTime::Now => SetTime::Now,
        NewTime::At(time) => SetTime::At(timestamp(time)),
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
    fn times_go_both_ways_whatever_they_are() {
        for secs in [i64::MIN, -2, 0, 1_700_000_000, i64::MAX] {
            let time = Timestamp { secs, nanos: 800_000_000 };
            assert_eq!(timestamp(shown(time)), time);
        }
        assert_eq!(timestamp(Time { secs: 1, nanos: u32::MAX }).nanos, NANOS_MAX);
    }

    #[test]
    fn modes_carry_the_kind() {
        assert_eq!(attr(&some_attr()).mode, libc::S_IFREG | 0o644);
        assert_eq!(attr(&Attr { kind: FileKind::Socket, ..some_attr() }).mode, libc::S_IFSOCK | 0o644);
    }
}
