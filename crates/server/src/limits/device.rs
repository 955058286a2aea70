//! What the local file system of a fragment has counted, by whatever way it was read and written: also by those whom
//! files were handed to.
//!
//! Only of an XFS that the fragment has to itself: its counters, `/sys/fs/xfs/<device>/stats/stats`, begin with the mount
//! and go on with every read(2) and write(2). Bytes that went through mapped memory are not in them.

use rustix::fs::{AtFlags, Stat};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// See the module.
pub(super) struct Device {
    counters: PathBuf,
    /// Bytes read and written when this process began.
    begin: (u64, u64),
}

impl Device {
    /// Of the fragment with this root; `None` where nothing is counted, or the file system has others in it.
    pub(super) fn of(root: &OwnedFd) -> Option<Device> {
        let stat = rustix::fs::fstat(root).ok()?;
        if !is_top_of_its_file_system(root, &stat) {
            return None;
        }
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let counters = PathBuf::from("/sys/fs/xfs").join(device.file_name()?).join("stats/stats");
        let begin = read(&counters)?;
        Some(Device { counters, begin })
    }

    /// Bytes read and written since.
    pub(super) fn moved(&self) -> Option<(u64, u64)> {
        let now = read(&self.counters)?;
        Some((now.0.saturating_sub(self.begin.0), now.1.saturating_sub(self.begin.1)))
    }
}

fn is_top_of_its_file_system(root: &OwnedFd, stat: &Stat) -> bool {
    let above = rustix::fs::statat(root, "..", AtFlags::empty());
    above.is_ok_and(|above| above.st_dev != stat.st_dev)
}

fn read(counters: &PathBuf) -> Option<(u64, u64)> {
    parse(&std::fs::read_to_string(counters).ok()?)
}

/// `xpc <allocated> <written> <read>`.
fn parse(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("xpc "))?;
    let mut numbers = line.split(' ').skip(1).map(str::parse);
    let (written, read) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((read, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_by_its_name() {
        assert_eq!(parse("dir 1 2 3 4\nxpc 4096 100 200\ndebug 0\n"), Some((200, 100)));
        assert_eq!(parse("dir 1 2 3 4\nxpc 4096 100\n"), None);
        assert_eq!(parse("dir 1 2 3 4\n"), None);
    }
}
