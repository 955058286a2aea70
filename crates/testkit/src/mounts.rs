//! What is mounted where, from the mount table of the calling thread, and getting rid of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub point: PathBuf,
    /// Which part of the file system is seen there: usually `/`; for a kept namespace its name, `net:[4026532008]`.
    pub root: String,
    /// File system type, with its subtype: `xfs`, `fuse.dwfs`.
    pub kind: String,
    /// What is mounted: a device, or the name a FUSE file system gave itself.
    pub source: String,
}

/// All mounts this process sees, in the order they were made.
pub fn all() -> Vec<Mount> {
    table(&std::fs::read("/proc/thread-self/mountinfo").expect("/proc is mounted"))
}

/// All mounts another process sees, in the order they were made; none if it has ended.
pub fn of_process(pid: u32) -> Vec<Mount> {
    table(&std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default())
}

/// Mounts at `directory` or below it.
pub fn below(directory: &Path) -> Vec<Mount> {
    all().into_iter().filter(|mount| mount.point.starts_with(directory)).collect()
}

/// The topmost mount at exactly `point`.
pub fn at(point: &Path) -> Option<Mount> {
    all().into_iter().rfind(|mount| mount.point == point)
}

/// Takes every mount at `directory` or below out of the tree, even busy and dead ones; the innermost first.
pub fn detach_below(directory: &Path) {
    for mount in below(directory).into_iter().rev() {
        // A failure leaves the mount in the table, where the caller's own check finds it.
        let _ = rustix::mount::unmount(&mount.point, rustix::mount::UnmountFlags::DETACH);
    }
}

fn table(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    Some(Mount {
        point: PathBuf::from(OsString::from_vec(unescape(fields.get(4)?))),
        root: String::from_utf8_lossy(&unescape(fields.get(3)?)).into_owned(),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        source: String::from_utf8_lossy(&unescape(fields.get(dash + 2)?)).into_owned(),
    })
}

/// Mountinfo writes blank, tab, newline and backslash as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                out.push(code);
                rest = &tail[3..];
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_escapes_is_read() {
        let line = br"36 35 98:0 / /mnt/a\040b rw,noatime master:1 - fuse.dwfs some\134thing rw";
        let expected = Mount {
            point: PathBuf::from("/mnt/a b"),
            root: "/".into(),
            kind: "fuse.dwfs".into(),
            source: r"some\thing".into(),
        };
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(at(Path::new("/")).is_some());
    }
}
