//! Who could change, or read, what a daemon relies on: its configuration, its state, its disk.
//!
//! Whoever can write to a directory can exchange what is in it. So a path is only as safe as every directory on its way, and
//! every one of them has to belong to root or to the user who runs the daemon, and nobody else may write to it. A directory
//! with the sticky bit, such as `/tmp`, is safe to lead through, because nobody there exchanges what is somebody else's; it
//! is not safe to keep anything in. A group is taken for somebody else, unless it is root's.
//!
//! Called at the start of the daemons, and by the agent before it uses its disk. Any thread may call; nothing is changed. What
//! is found to be safe stays so: only root and the user of the daemon could change it.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Permission to write, of the group and of all others.
const WRITE: u32 = 0o022;
/// Every permission of the group and of all others.
const ANY: u32 = 0o077;
/// Nobody but the owner of a file takes it out of such a directory.
const STICKY: u32 = 0o1000;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o7777;
/// Root's uid and gid.
const ROOT: u32 = 0;
/// Symbolic links on the way to a file, at most: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// What a daemon does not rely on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustodyError {
    /// It, or a directory on the way to it, is somebody else's.
    #[error(
        "{path:?} is refused: it belongs to user {owner}, who could change it; make it root's: chown root {path:?}"
    )]
    Foreign {
        /// What.
        path: PathBuf,
        /// Whose.
        owner: u32,
    },
    /// Others may write to it, or to a directory on the way to it.
    #[error(
        "{path:?} is refused: others than its owner may change it (mode {mode:04o}); take that away: chmod go-w {path:?}"
    )]
    Writable {
        /// What.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others may read it.
    #[error(
        "{path:?} is refused: others than its owner may use it (mode {mode:04o}), and it is secret; whoever has read it \
         knows it for good, so think of replacing it, then: chmod go= {path:?}"
    )]
    Exposed {
        /// What.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It cannot be looked at.
    #[error("cannot look at {path:?}: {reason}")]
    Unseen {
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Refuses what others than root and this user could change or exchange. What does not exist is nobody's, and safe if the
/// directory is in which it is missing.
///
/// # Errors
/// [`CustodyError`] with the first thing on the way that is not safe.
pub fn unchangeable(path: &Path) -> Result<(), CustodyError> {
    walk(path).map(drop)
}

/// Refuses also what others could read.
///
/// # Errors
/// [`CustodyError`].
pub fn secret(path: &Path) -> Result<(), CustodyError> {
    match walk(path)? {
        Some(found) => closed(path, &found),
        None => Ok(()),
    }
}

/// Refuses an open file that others could read or change: what is read from it is what was looked at.
///
/// # Errors
/// [`CustodyError`].
pub fn secret_file(path: &Path, file: &File) -> Result<(), CustodyError> {
    let found = file.metadata().map_err(|error| unseen(path, &error))?;
    owned(path, &found)?;
    closed(path, &found)
}

/// Goes the way of a path from the root on, and along symbolic links; what is at its end, if it exists.
fn walk(path: &Path) -> Result<Option<Metadata>, CustodyError> {
    let absolute = std::path::absolute(path).map_err(|error| unseen(path, &error))?;
    let mut left = steps(&absolute);
    let mut reached = PathBuf::from("/");
    let mut found = look(&reached)?;
    let mut links = 0;
    while let Some(step) = left.pop() {
        // A directory on the way: others may add to it what is theirs.
        owned(&reached, &found)?;
        if found.mode() & STICKY == 0 {
            unwritable(&reached, &found)?;
        }
        if step == ".." {
            reached.pop();
            found = look(&reached)?;
            continue;
        }
        let next = reached.join(&step);
        found = match next.symlink_metadata() {
            Ok(found) => found,
            // What is missing in a directory where others may make it could be theirs in a moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return look(&reached).and_then(|directory| unwritable(&reached, &directory)).map(|()| None);
            }
            Err(error) => return Err(unseen(&next, &error)),
        };
        if !found.is_symlink() {
            reached = next;
            continue;
        }
        owned(&next, &found)?;
        links += 1;
        if links > LINKS_MAX {
            return Err(unseen(path, &io::Error::other("too many symbolic links on the way")));
        }
        let target = next.read_link().map_err(|error| unseen(&next, &error))?;
        if target.is_absolute() {
            reached = PathBuf::from("/");
        }
        left.extend(steps(&target));
        found = look(&reached)?;
    }
    owned(&reached, &found)?;
    unwritable(&reached, &found)?;
    Ok(Some(found))
}

/// The names of a path, the first one at the end.
fn steps(path: &Path) -> Vec<OsString> {
    let is_step =
        |component: &Component<'_>| matches!(component, Component::Normal(_) | Component::ParentDir);
    let names = path.components().filter(is_step).map(|component| component.as_os_str().to_owned());
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

fn look(path: &Path) -> Result<Metadata, CustodyError> {
    path.symlink_metadata().map_err(|error| unseen(path, &error))
}

fn unseen(path: &Path, error: &io::Error) -> CustodyError {
    CustodyError::Unseen { path: path.to_owned(), reason: error.to_string() }
}

fn owned(path: &Path, found: &Metadata) -> Result<(), CustodyError> {
    let me = nix::unistd::geteuid().as_raw();
    if [ROOT, me].contains(&found.uid()) {
        return Ok(());
    }
    Err(CustodyError::Foreign { path: path.to_owned(), owner: found.uid() })
}

/// The permissions that others than the owner have of these. Those of root's group are root's.
fn of_others(found: &Metadata, of: u32) -> u32 {
    let group = if found.gid() == ROOT { 0o070 } else { 0 };
    found.mode() & of & !group
}

fn unwritable(path: &Path, found: &Metadata) -> Result<(), CustodyError> {
    if of_others(found, WRITE) == 0 {
        return Ok(());
    }
    Err(CustodyError::Writable { path: path.to_owned(), mode: found.mode() & PERMISSIONS })
}

fn closed(path: &Path, found: &Metadata) -> Result<(), CustodyError> {
    if of_others(found, ANY) == 0 {
        return Ok(());
    }
    Err(CustodyError::Exposed { path: path.to_owned(), mode: found.mode() & PERMISSIONS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// `a/b/file` in a new directory.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        let file = place.path().join("a/b/file");
        fs::write(&file, "x").unwrap();
        for (name, mode) in [("a", 0o755), ("a/b", 0o755), ("a/b/file", 0o644)] {
            set(&place.path().join(name), mode);
        }
        (place, file)
    }

    /// The thing that is refused, from the place on.
    fn refused(place: &tempfile::TempDir, path: &Path) -> Option<String> {
        let path = match unchangeable(path) {
            Ok(()) => return None,
            Err(CustodyError::Foreign { path, .. } | CustodyError::Writable { path, .. }) => path,
            Err(other) => panic!("{other}"),
        };
        Some(path.strip_prefix(place.path().canonicalize().unwrap()).unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn what_others_may_write_to_is_refused_wherever_on_the_way() {
        let (place, file) = place();
        assert_eq!(refused(&place, &file), None);
        for name in ["a", "a/b", "a/b/file"] {
            let path = place.path().join(name);
            let before = fs::metadata(&path).unwrap().permissions();
            set(&path, before.mode() | 0o002);
            assert_eq!(refused(&place, &file).as_deref(), Some(name));
            fs::set_permissions(&path, before).unwrap();
        }
        assert_eq!(refused(&place, &file), None);
        let text = {
            set(&file, 0o666);
            unchangeable(&file).unwrap_err().to_string()
        };
        assert!(text.contains("mode 0666") && text.contains("chmod go-w"), "{text}");
    }

    #[test]
    fn a_sticky_directory_is_led_through_and_nothing_is_kept_in_it() {
        let (place, file) = place();
        let directory = place.path().join("a/b");
        set(&directory, 0o1777);
        assert_eq!(refused(&place, &file), None);
        assert_eq!(refused(&place, &directory).as_deref(), Some("a/b"));
        assert_eq!(refused(&place, &directory.join("missing")).as_deref(), Some("a/b"));
    }

    #[test]
    fn what_is_missing_is_as_safe_as_its_directory() {
        let (place, file) = place();
        let missing = file.with_file_name("missing/deep");
        assert_eq!(refused(&place, &missing), None);
        assert_eq!(secret(&missing), Ok(()));
        set(&place.path().join("a"), 0o777);
        assert_eq!(refused(&place, &missing).as_deref(), Some("a"));
    }

    #[test]
    fn the_way_of_a_link_is_looked_at_as_well() {
        let (place, file) = place();
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        symlink(&file, other.join("absolute")).unwrap();
        symlink("../a/b/../b/file", other.join("relative")).unwrap();
        symlink("loop", other.join("loop")).unwrap();
        for link in ["absolute", "relative"] {
            assert_eq!(refused(&place, &other.join(link)), None);
            set(&place.path().join("a/b"), 0o777);
            assert_eq!(refused(&place, &other.join(link)).as_deref(), Some("a/b"));
            set(&place.path().join("a/b"), 0o755);
            set(&other, 0o777);
            assert_eq!(refused(&place, &other.join(link)).as_deref(), Some("other"));
            set(&other, 0o755);
        }
        assert!(matches!(unchangeable(&other.join("loop")), Err(CustodyError::Unseen { .. })));
    }

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        let (_place, file) = place();
        for mode in [0o644, 0o604, 0o601] {
            set(&file, mode);
            let open = File::open(&file).unwrap();
            for refused in [secret(&file), secret_file(&file, &open)] {
                let error = refused.unwrap_err();
                assert!(
                    matches!(error, CustodyError::Exposed { mode: found, .. } if found == mode),
                    "{error}"
                );
                assert!(error.to_string().contains("chmod go="), "{error}");
            }
        }
        for mode in [0o600, 0o400] {
            set(&file, mode);
            assert_eq!(secret(&file), Ok(()));
            assert_eq!(secret_file(&file, &File::open(&file).unwrap()), Ok(()));
        }
    }
}
