//! Resolving a path that must not leave a directory, without the help of `openat2`: for Linux before 5.6, and where a filter of
//! system calls forbids it.
//!
//! One component at a time, each opened without following it. The text of a symbolic link is put in front of what is still to be
//! resolved; an absolute one leads outside. `..` goes back to the descriptor the walk came from and never to what the file system
//! calls the parent at that moment, so a rename that races with the walk leads nowhere else. Descriptors open at once: one for each
//! directory on the way down.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::cause::failed;
use super::entry;
use crate::tree::{Cause, TreeError};

/// Symbolic links followed before it counts as a circle, as the kernel does.
const LINKS_MAX: u32 = 40;

/// A component still to be resolved.
enum Part {
    Up,
    Down(OsString),
}

/// A descriptor (`O_PATH`) of the directory at `path` below `root`.
pub fn open(root: &Arc<OwnedFd>, path: &Path, operation: &'static str) -> Result<Arc<OwnedFd>, TreeError> {
    open_following(LINKS_MAX, root, path, operation)
}

/// The same, where a symbolic link is refused.
pub fn open_plain(
    root: &Arc<OwnedFd>,
    path: &Path,
    operation: &'static str,
) -> Result<Arc<OwnedFd>, TreeError> {
    open_following(0, root, path, operation)
}

fn open_following(
    links_max: u32,
    root: &Arc<OwnedFd>,
    path: &Path,
    operation: &'static str,
) -> Result<Arc<OwnedFd>, TreeError> {
    let mut left = parts(path, operation)?;
    let mut way = vec![Arc::clone(root)];
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        let Part::Down(name) = part else {
            way.pop();
            continue;
        };
        let here = way.last().ok_or(outside(operation))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = fs::openat(&**here, &name, flags, Mode::empty()).map_err(failed(operation))?;
        let stat = fs::fstat(&found).map_err(failed(operation))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => way.push(Arc::new(found)),
            FileType::Symlink => {
                links += 1;
                if links > links_max {
                    return Err(failed(operation)(Errno::LOOP));
                }
                let mut through = parts(&entry::read_link(&found, "".as_ref())?, operation)?;
                through.append(&mut left);
                left = through;
            }
            _ => return Err(failed(operation)(Errno::NOTDIR)),
        }
    }
    way.pop().ok_or(outside(operation))
}

fn outside(operation: &'static str) -> TreeError {
    TreeError { operation, cause: Cause::LeadsOutside }
}

fn parts(path: &Path, operation: &'static str) -> Result<VecDeque<Part>, TreeError> {
    let part = |component| match component {
        Component::CurDir => None,
        Component::ParentDir => Some(Ok(Part::Up)),
        Component::Normal(name) => Some(Ok(Part::Down(name.to_owned()))),
        Component::RootDir | Component::Prefix(_) => Some(Err(outside(operation))),
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use rustix::fs::ResolveFlags;

    use super::*;

    fn opened(path: &Path) -> Arc<OwnedFd> {
        Arc::new(fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap())
    }

    /// What the kernel's own way comes to: the directory, or that there is none.
    fn by_kernel(root: &OwnedFd, path: &Path) -> Result<u64, Cause> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fs::openat2(
            root,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        ) {
            Err(Errno::XDEV) => Err(Cause::LeadsOutside),
            other => other
                .map(|found| fs::fstat(&found).unwrap().st_ino)
                .map_err(|errno| failed("open")(errno).cause),
        }
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(prop::sample::select(vec!["a", "b", "c", "..", ".", "none"]), 1..6)
            .prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn every_path_leads_where_the_kernel_says(
            links in proptest::collection::vec((text(), text(), any::<bool>()), 0..8),
            paths in proptest::collection::vec(text(), 1..20),
        ) {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("root");
            std::fs::create_dir_all(root.join("a/b/c")).unwrap();
            std::fs::create_dir_all(root.join("b/a")).unwrap();
            std::fs::create_dir(place.path().join("c")).unwrap();
            std::fs::write(root.join("b/c"), "a file").unwrap();
            for (at, to, absolute) in links {
                let to = if absolute { root.join(to) } else { to.into() };
                // Where there is something already, or no directory, there is no link.
                if !at.contains("..") {
                    let _ = symlink(to, root.join(at));
                }
            }
            let top = opened(&root);
            for path in paths {
                let path = Path::new(&path);
                let ours = open(&top, path, "open").map(|found| fs::fstat(&*found).unwrap().st_ino);
                prop_assert_eq!(ours.map_err(|error| error.cause), by_kernel(&top, path), "{}", path.display());
            }
        }
    }
}
