//! What a mounted XFS has counted: bytes read and written by its users, names created.
//!
//! From `/sys/fs/xfs/<device>/stats/stats`, whose counters begin with the mount. Bytes that went through mapped memory
//! are not in the counters of read and written bytes, nor are blocks shared by a reflink.

use crate::mount_table;
use std::path::Path;

/// Counters of one or several file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XfsCounters {
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub creates: u64,
}

impl XfsCounters {
    /// Of the XFS mounted at a place; `None` if there is none, or the kernel does not count.
    pub fn of_mount(point: &Path) -> Option<XfsCounters> {
        let mount = mount_table::at(point).ok()??;
        let device = mount.source.file_name()?.to_str()?.to_owned();
        let text = std::fs::read_to_string(Path::new("/sys/fs/xfs").join(device).join("stats/stats")).ok()?;
        parse(&text)
    }
}

/// `dir <lookups> <creates> <removes> <getdents>` and `xpc <allocated> <written> <read>`.
fn parse(text: &str) -> Option<XfsCounters> {
    let number = |line: &str, index| -> Option<u64> {
        let line = text.lines().find(|found| found.split(' ').next() == Some(line))?;
        line.split(' ').nth(index)?.parse().ok()
    };
    Some(XfsCounters {
        bytes_read: number("xpc", 3)?,
        bytes_written: number("xpc", 2)?,
        creates: number("dir", 2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_found_by_their_names() {
        let text = "extent_alloc 1 2 3 4\ndir 10 11 12 13\nxpc 4096 100 200\ndebug 0\n";
        let counters = parse(text).unwrap();
        assert_eq!(counters, XfsCounters { bytes_read: 200, bytes_written: 100, creates: 11 });
        assert_eq!(parse("dir 1 2 3 4\n"), None);
    }
}
