//! A [`Tree`] over any mounted file system.
//!
//! Every operation starts at a descriptor of the root. A confined tree resolves paths with `RESOLVE_BENEATH` (or, where the kernel
//! has no `openat2`, component by component, see [`beneath`]), so no symbolic
//! link in the middle leads out of it, not even one put there while we look; the last component is never followed. Below a
//! directory that is staged as a whole ([`Tree::hold`]) no link is followed at all.
//!
//! Callable from any thread. Descriptors of directories are kept in a small cache ([`directories`]); everything else is opened
//! and closed per call. Durability: as the trait says; nothing is synced by itself.

mod beneath;
mod cause;
mod directories;
mod entry;
mod file;
mod scan;
mod xattr;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};

use crate::tree::{DirStream, Metadata, ReadFile, SetMetadata, Space, SyncPoint, Tree, TreeError, WriteFile};
use cause::failed;
use directories::Directories;

/// See the module.
pub struct PosixTree {
    shown: PathBuf,
    directories: Directories,
}

impl PosixTree {
    /// A tree that cannot be left: an instance. `root` is an absolute path and itself resolved as usual.
    pub fn confined(root: &Path) -> Result<Self, TreeError> {
        Self::new(root, root, true)
    }

    /// As [`confined`](Self::confined), shown to users under another path (the mount of the instance).
    pub fn confined_shown_as(root: &Path, shown: &Path) -> Result<Self, TreeError> {
        Self::new(root, shown, true)
    }

    /// The whole machine as the user sees it: root `/`, symbolic links in the middle of a path are followed as usual. For the
    /// parallel file system.
    pub fn everywhere() -> Result<Self, TreeError> {
        Self::new(Path::new("/"), Path::new("/"), false)
    }

    /// An absolute path as a path of [`everywhere`](Self::everywhere): without its first slashes. Keeps a slash at the end, which
    /// [`What::File`](crate::What::File) gives a meaning to and `Path::strip_prefix` would drop.
    pub fn path_everywhere(absolute: &Path) -> PathBuf {
        let bytes = absolute.as_os_str().as_bytes();
        let start = bytes.iter().position(|byte| *byte != b'/').unwrap_or(bytes.len());
        PathBuf::from(OsStr::from_bytes(&bytes[start..]))
    }

    fn new(root: &Path, shown: &Path, confined: bool) -> Result<Self, TreeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(root, flags, Mode::empty()).map_err(failed("open"))?;
        Ok(Self { shown: shown.to_path_buf(), directories: Directories::new(root, confined) })
    }

    /// The directory holding `path`, and the last name in it (`.` where it has none, as the root itself).
    fn parent<'p>(
        &self,
        path: &'p Path,
        operation: &'static str,
    ) -> Result<(Arc<OwnedFd>, &'p OsStr), TreeError> {
        let Some(name) = path.file_name() else {
            return Ok((self.directories.open(path, operation)?, OsStr::new(".")));
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok((self.directories.open(parent, operation)?, name))
    }
}

impl Tree for PosixTree {
    fn root(&self) -> &Path {
        &self.shown
    }

    fn hold(&self, directory: &Path) -> Result<(), TreeError> {
        self.directories.hold(directory)
    }

    fn lstat(&self, path: &Path) -> Result<Metadata, TreeError> {
        let (parent, name) = self.parent(path, "stat")?;
        let stat = fs::statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("stat"))?;
        Ok(entry::metadata(&stat))
    }

    fn read_dir<'a>(&'a self, path: &Path) -> Result<Box<dyn DirStream + 'a>, TreeError> {
        let (parent, name) = self.parent(path, "open directory")?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(&*parent, name, flags, Mode::empty()).map_err(failed("open directory"))?;
        Ok(Box::new(scan::Scan::new(directory)))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, TreeError> {
        let (parent, name) = self.parent(path, "read link")?;
        entry::read_link(&parent, name)
    }

    fn open<'a>(&'a self, path: &Path) -> Result<Box<dyn ReadFile + 'a>, TreeError> {
        let (parent, name) = self.parent(path, "open")?;
        Ok(Box::new(file::open(&parent, name)?))
    }

    fn create<'a>(&'a self, path: &Path, mode: u32) -> Result<Box<dyn WriteFile + 'a>, TreeError> {
        let (parent, name) = self.parent(path, "create")?;
        Ok(Box::new(file::create(&parent, name, mode)?))
    }

    fn mkdir(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "make directory")?;
        entry::mkdir(&parent, name, mode)
    }

    fn symlink(&self, path: &Path, target: &Path) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "make link")?;
        fs::symlinkat(target, &*parent, name).map_err(failed("make link"))
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<(), TreeError> {
        let (old_parent, old_name) = self.parent(existing, "link")?;
        let (parent, name) = self.parent(new, "link")?;
        fs::linkat(&*old_parent, old_name, &*parent, name, AtFlags::empty()).map_err(failed("link"))
    }

    fn make_fifo(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "make fifo")?;
        entry::make_fifo(&parent, name, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), TreeError> {
        let (old_parent, old_name) = self.parent(from, "rename")?;
        let (parent, name) = self.parent(to, "rename")?;
        fs::renameat_with(&*old_parent, old_name, &*parent, name, RenameFlags::empty())
            .map_err(failed("rename"))
    }

    fn unlink(&self, path: &Path) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "remove")?;
        fs::unlinkat(&*parent, name, AtFlags::empty()).map_err(failed("remove"))
    }

    fn set_metadata(&self, path: &Path, change: &SetMetadata) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "set attributes")?;
        entry::set_metadata(&parent, name, change)
    }

    fn xattr_names(&self, path: &Path) -> Result<Vec<OsString>, TreeError> {
        let (parent, name) = self.parent(path, "list attributes")?;
        xattr::names(&xattr::path_of(&parent, name)?)
    }

    fn xattr(&self, path: &Path, attribute: &OsStr) -> Result<Vec<u8>, TreeError> {
        let (parent, name) = self.parent(path, "read attribute")?;
        xattr::value(&xattr::path_of(&parent, name)?, attribute)
    }

    fn set_xattr(&self, path: &Path, attribute: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "set attribute")?;
        xattr::set(&xattr::path_of(&parent, name)?, attribute, value)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), TreeError> {
        let (parent, name) = self.parent(path, "sync directory")?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(&*parent, name, flags, Mode::empty()).map_err(failed("sync directory"))?;
        fs::fsync(directory).map_err(failed("sync directory"))
    }

    fn sync_point<'a>(&'a self, path: &Path) -> Result<Box<dyn SyncPoint + 'a>, TreeError> {
        let (parent, name) = self.parent(path, "sync")?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(&*parent, name, flags, Mode::empty()).map_err(failed("sync"))?;
        Ok(Box::new(FileSystem(directory)))
    }

    fn space(&self, path: &Path) -> Result<Space, TreeError> {
        let directory = self.directories.open(path, "statfs")?;
        let stat = fs::fstatvfs(directory.as_fd()).map_err(failed("statfs"))?;
        let unit = stat.f_frsize;
        Ok(Space { total: stat.f_blocks.saturating_mul(unit), available: stat.f_bavail.saturating_mul(unit) })
    }
}

/// A directory standing for its whole file system. The kernel reports write-back errors since this descriptor was opened.
struct FileSystem(OwnedFd);

impl SyncPoint for FileSystem {
    fn sync(&self) -> Result<(), TreeError> {
        fs::syncfs(&self.0).map_err(failed("sync"))
    }
}
