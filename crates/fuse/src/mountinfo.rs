//! Reading the table of mounts: which mount lies at a path.
//!
//! The table is the calling thread's, as a thread may have a mount namespace of its own and mounts in that.
//! Used to touch only mounts that are ours. Reading the table asks no file system anything, so it cannot hang on a
//! mount whose process is stopped.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Unique while the mount exists.
    pub mount_id: u64,
    /// Device number as `major:minor`; every FUSE connection has its own.
    pub device: String,
    pub mountpoint: PathBuf,
    pub fs_type: String,
}

/// The uppermost mount at exactly `path`, which must be absolute and without symbolic links.
pub(crate) fn topmost_at(path: &Path) -> std::io::Result<Option<MountEntry>> {
    let table = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(topmost_in(&table, path))
}

fn topmost_in(table: &[u8], path: &Path) -> Option<MountEntry> {
    table.split(|&b| b == b'\n').rev().filter_map(parse).find(|entry| entry.mountpoint == path)
}

/// `36 35 0:48 / /mnt rw,nosuid shared:1 - fuse.dwfs name rw,user_id=0`; octal escapes in the path.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(MountEntry {
        mount_id: text(fields[0]).parse().ok()?,
        device: text(fields[2]),
        mountpoint: PathBuf::from(OsString::from_vec(unescape(fields[4]))),
        fs_type: text(fields.get(dash + 1)?),
    })
}

/// The kernel writes blank, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let ([b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..], true) =
            (rest, rest.len() >= 4)
        {
            out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = &rest[4..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        36 22 0:48 / /mnt/a\\040b\\134c rw,nosuid master:2 propagate_from:1 - fuse.dwfs one rw,user_id=0\n\
        37 36 0:49 / /mnt/a\\040b\\134c rw - fuse.dwfs two rw\n";

    #[test]
    fn finds_the_uppermost_mount_of_an_escaped_path() {
        let entry = topmost_in(TABLE, Path::new("/mnt/a b\\c")).unwrap();
        assert_eq!(
            (entry.mount_id, entry.device.as_str(), entry.fs_type.as_str()),
            (37, "0:49", "fuse.dwfs")
        );
        assert_eq!(topmost_in(TABLE, Path::new("/mnt")), None);
        assert_eq!(topmost_in(TABLE, Path::new("/")).unwrap().fs_type, "ext4");
    }

    #[test]
    fn the_live_table_has_a_root() {
        assert!(topmost_at(Path::new("/")).unwrap().is_some());
    }
}
