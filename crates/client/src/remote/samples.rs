//! Attributes for the tests of this part, which look at a field or two of them.

use forebay_wire::{Attr, FileKind, Ino, Timestamp};

/// An empty file that may be shown for longer than a test runs.
pub(crate) fn attr(ino: u64) -> Attr {
    let time = Timestamp::default();
    Attr {
        ino: Ino(ino),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        kind: FileKind::Regular,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        block_size: 1,
        generation: 0,
        valid_ms: 100_000,
    }
}
