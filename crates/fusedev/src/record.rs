//! The fixed part of an answer, put together on the stack. Pure.

use crate::attr::{Attr, Entry, Statfs};
use std::time::Duration;

/// Bytes of an entry with attributes.
pub(crate) const ENTRY_BYTES: usize = 128;
/// The longest fixed part: an entry and an opened file.
const BYTES_MAX: usize = 160;

/// Numbers in the order of the wire.
#[derive(Clone)]
pub(crate) struct Record {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { bytes: [0; BYTES_MAX], length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn raw<const N: usize>(mut self, bytes: [u8; N]) -> Record {
        self.bytes[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += N;
        self
    }

    pub(crate) fn u16(self, number: u16) -> Record {
        self.raw(number.to_ne_bytes())
    }

    pub(crate) fn u32(self, number: u32) -> Record {
        self.raw(number.to_ne_bytes())
    }

    pub(crate) fn i32(self, number: i32) -> Record {
        self.raw(number.to_ne_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Record {
        self.raw(number.to_ne_bytes())
    }

    pub(crate) fn i64(self, number: i64) -> Record {
        self.raw(number.to_ne_bytes())
    }

    pub(crate) fn attr(self, attr: &Attr) -> Record {
        self.u64(attr.node)
            .u64(attr.size)
            .u64(attr.blocks)
            .i64(attr.atime.secs)
            .i64(attr.mtime.secs)
            .i64(attr.ctime.secs)
            .u32(attr.atime.nanos)
            .u32(attr.mtime.nanos)
            .u32(attr.ctime.nanos)
            .u32(attr.mode)
            .u32(attr.nlink)
            .u32(attr.uid)
            .u32(attr.gid)
            .u32(attr.rdev)
            .u32(attr.block_size)
            .u32(0)
    }

    pub(crate) fn entry(self, entry: &Entry) -> Record {
        self.u64(entry.attr.node)
            .u64(entry.generation)
            .u64(entry.name_valid.as_secs())
            .u64(entry.attr_valid.as_secs())
            .u32(entry.name_valid.subsec_nanos())
            .u32(entry.attr_valid.subsec_nanos())
            .attr(&entry.attr)
    }

    pub(crate) fn attr_answer(self, valid: Duration, attr: &Attr) -> Record {
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0).attr(attr)
    }

    pub(crate) fn statfs(self, fs: &Statfs) -> Record {
        let head = self.u64(fs.blocks).u64(fs.blocks_free).u64(fs.blocks_available);
        let counts = head.u64(fs.files).u64(fs.files_free);
        let sizes = counts.u32(fs.block_size).u32(fs.name_max).u32(fs.block_size).u32(0);
        (0..6).fold(sizes, |record, _| record.u32(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_kernel_header() {
        let length = |record: Record| record.as_bytes().len();
        assert_eq!(length(Record::new().attr(&Attr::default())), 88);
        assert_eq!(length(Record::new().entry(&Entry::default())), ENTRY_BYTES);
        assert_eq!(length(Record::new().attr_answer(Duration::ZERO, &Attr::default())), 104);
        assert_eq!(length(Record::new().statfs(&Statfs::default())), 80);
    }

    #[test]
    fn fields_are_where_the_kernel_header_has_them() {
        let attr = Attr { node: 1, size: 2, mode: 0o644, block_size: 9, ..Attr::default() };
        let record = Record::new().attr(&attr);
        let word = |at: usize| u32::from_ne_bytes(record.as_bytes()[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(8), word(60), word(80)), (1, 2, 0o644, 9));
    }
}
