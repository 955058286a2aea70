//! The mounts of this machine as `/proc/self/mountinfo` shows them.
//!
//! Reading it touches no file system, so a dead FUSE mount cannot block or fail a look at it.

use crate::error::AgentError;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const FILE: &str = "/proc/self/mountinfo";

/// The number of a mount, the same in all mount namespaces. The kernel gives it to the next
/// mount as soon as nobody keeps this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MountId(u64);

impl MountId {
    /// Of the mount that an open file is on; `fdinfo` is the file in `/proc` that says so.
    pub fn of_fdinfo(fdinfo: &Path) -> Option<MountId> {
        let text = std::fs::read_to_string(fdinfo).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
        line.trim().parse().ok().map(MountId)
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its number.
    pub id: MountId,
    /// Where it is.
    pub point: PathBuf,
    /// Type of its file system, as `xfs` or `fuse.dwfs`.
    pub kind: String,
    /// Device or other source.
    pub source: PathBuf,
}

/// All mounts, the oldest first.
pub(crate) fn read() -> Result<Vec<Mount>, AgentError> {
    let text = std::fs::read(FILE).map_err(|error| AgentError::system("read", FILE, error))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// The mount that is seen at a path, if it is a mount point. The path must be without symbolic links.
pub(crate) fn at(point: &Path) -> Result<Option<Mount>, AgentError> {
    Ok(read()?.into_iter().rfind(|mount| mount.point == point))
}

/// Mount points at or below a directory, the innermost first.
pub(crate) fn below(directory: &Path) -> Result<Vec<PathBuf>, AgentError> {
    let mut points: Vec<PathBuf> =
        read()?.into_iter().map(|mount| mount.point).filter(|point| point.starts_with(directory)).collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    Ok(points)
}

/// `36 35 98:0 /root /point opts shared:1 - type source superopts`; blanks in names are `\040`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = MountId(std::str::from_utf8(words.next()?).ok()?.parse().ok()?);
    let point = path(words.nth(3)?);
    words.find(|word| *word == b"-")?;
    let kind = String::from_utf8_lossy(words.next()?).into_owned();
    Some(Mount { id, point, kind, source: path(words.next()?) })
}

fn path(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        rest = after;
        let escaped = if *first == b'\\' { after.get(..3).and_then(octal) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        if escaped.is_some() {
            rest = &after[3..];
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// A path without symbolic links, as the mount table shows it; the last component need not be reachable (it may be a
/// dead mount).
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) if name.as_bytes() != b".." => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_and_names_unescaped() {
        let line = br"40 29 7:0 /a\040b /mnt/x\040y\134z rw,relatime shared:22 master:1 - xfs /dev/loop0 rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, MountId(40));
        assert_eq!(mount.point, Path::new(r"/mnt/x y\z"));
        assert_eq!((mount.kind.as_str(), mount.source.as_path()), ("xfs", Path::new("/dev/loop0")));
        assert_eq!(parse(b"garbage"), None);
    }

    #[test]
    fn the_root_is_a_mount() {
        assert!(at(Path::new("/")).unwrap().is_some());
        assert!(at(Path::new("/no/such/mount")).unwrap().is_none());
        assert!(below(Path::new("/")).unwrap().len() > 1);
    }
}
