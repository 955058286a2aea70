//! A namespace of an instance as a [`Tree`], so that data is staged through the volume and not through the mount.
//!
//! Paths are resolved here, one lookup per component, because the volume knows inodes and names only. Symbolic links
//! in the middle are followed inside the namespace; an absolute one is followed if it begins with the path at which the
//! namespace is (or would be) mounted. The directories used last are remembered by their path, as an open directory
//! would be: one that is renamed meanwhile goes on receiving what was on its way there.
//!
//! Every inode in use is counted in the volume as the kernel would count it, and given back on drop. While the
//! namespace is mounted, the kernel is told of every change, because it believes to be the only one who changes things.
//!
//! All operations may be called from any thread.

mod cause;
mod entry;
mod file;
mod resolve;

use crate::volume_tree::cause::failed;
use crate::volume_tree::file::{VolumeDirectory, VolumeReader, VolumeWriter};
use crate::volume_tree::resolve::{Held, Place, Resolver};
use forebay_client::Volume;
use forebay_fuse::KernelCache;
use forebay_stager::tree::{DirStream, Metadata, ReadFile, SetMetadata, Space, SyncPoint, WriteFile};
use forebay_stager::{Cause, Tree, TreeError};
use forebay_wire::{Attr, Caller, FileKind, OpenFlags, RenameMode, SetAttr, SetTime, Timestamp, XattrMode};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The kernel's memory of a mount, while there is one.
pub(crate) type SharedCache = Arc<RwLock<Option<KernelCache>>>;

/// See the module.
pub(crate) struct VolumeTree {
    volume: Arc<Volume>,
    shown: PathBuf,
    resolver: Resolver,
    cache: SharedCache,
}

/// Staging acts as the user who runs the process.
pub(crate) fn caller() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id() }
}

impl VolumeTree {
    /// The tree of a volume that users see at `shown`.
    pub fn new(volume: Arc<Volume>, shown: &Path, cache: SharedCache) -> VolumeTree {
        let resolver = Resolver::new(Arc::clone(&volume), shown);
        VolumeTree { volume, shown: shown.to_owned(), resolver, cache }
    }

    fn place<'p>(&self, path: &'p Path, operation: &'static str) -> Result<Place<'p>, TreeError> {
        self.resolver.place(path).map_err(|cause| TreeError { operation, cause })
    }

    fn entry(&self, path: &Path, operation: &'static str) -> Result<Held, TreeError> {
        self.resolver.entry(path).map_err(|cause| TreeError { operation, cause })
    }

    /// Takes an inode that the volume has counted for us, and says that its name is new.
    fn made(&self, place: &Place<'_>, attr: Attr) -> Held {
        self.name_changed(place);
        Held::new(Arc::clone(&self.volume), attr)
    }

    fn name_changed(&self, place: &Place<'_>) {
        announce(&self.cache, |cache| {
            cache.name_changed(place.parent.ino(), place.name)?;
            cache.attributes_changed(place.parent.ino())
        });
    }
}

/// Tells the kernel of a change. An error means that the mount is gone, and with it what the kernel remembered.
fn announce(cache: &SharedCache, tell: impl FnOnce(&KernelCache) -> std::io::Result<()>) {
    if let Some(cache) = &*cache.read().unwrap_or_else(PoisonError::into_inner) {
        let _ = tell(cache);
    }
}

impl Tree for VolumeTree {
    fn root(&self) -> &Path {
        &self.shown
    }

    fn hold(&self, directory: &Path) -> Result<(), TreeError> {
        self.resolver.hold(directory).map_err(|cause| TreeError { operation: "open directory", cause })
    }

    fn lstat(&self, path: &Path) -> Result<Metadata, TreeError> {
        Ok(entry::metadata(&self.entry(path, "look at")?.attr))
    }

    fn read_dir<'a>(&'a self, path: &Path) -> Result<Box<dyn DirStream + 'a>, TreeError> {
        let directory = self.entry(path, "read directory")?;
        Ok(Box::new(VolumeDirectory::open(Arc::clone(&self.volume), directory)?))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, TreeError> {
        entry::read_link(&self.volume, self.entry(path, "read link")?.ino()).map_err(failed("read link"))
    }

    fn open<'a>(&'a self, path: &Path) -> Result<Box<dyn ReadFile + 'a>, TreeError> {
        let file = self.entry(path, "open")?;
        let refuse = |cause| Err(TreeError { operation: "open", cause });
        match file.attr.kind {
            FileKind::Regular => Ok(Box::new(VolumeReader::open(Arc::clone(&self.volume), file)?)),
            FileKind::Directory => refuse(Cause::IsDirectory),
            FileKind::Symlink => refuse(Cause::SymbolicLink),
            _ => refuse(Cause::Unsupported),
        }
    }

    fn create<'a>(&'a self, path: &Path, mode: u32) -> Result<Box<dyn WriteFile + 'a>, TreeError> {
        let place = self.place(path, "create")?;
        let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
        let made = self.volume.create(caller(), place.parent.ino(), place.name, mode, flags);
        let (attr, opened) = made.map_err(failed("create"))?;
        let file = self.made(&place, attr);
        Ok(Box::new(VolumeWriter::new(Arc::clone(&self.volume), file, opened, Arc::clone(&self.cache))))
    }

    fn mkdir(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        let place = self.place(path, "make directory")?;
        let made = self.volume.mkdir(caller(), place.parent.ino(), place.name, mode);
        let attr = made.map_err(failed("make directory"))?;
        let directory = self.made(&place, attr);
        // A directory with the set-group-id bit hands it down; staging says the mode exactly.
        if directory.attr.mode == mode {
            return Ok(());
        }
        entry::set_mode(&self.volume, directory.ino(), None, mode).map_err(failed("make directory"))
    }

    fn symlink(&self, path: &Path, target: &Path) -> Result<(), TreeError> {
        let place = self.place(path, "make link")?;
        let made = self.volume.symlink(caller(), place.parent.ino(), place.name, target);
        self.made(&place, made.map_err(failed("make link"))?);
        Ok(())
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<(), TreeError> {
        let file = self.entry(existing, "link")?;
        let place = self.place(new, "link")?;
        let made = self.volume.link(caller(), file.ino(), place.parent.ino(), place.name);
        let linked = self.made(&place, made.map_err(failed("link"))?);
        announce(&self.cache, |cache| cache.attributes_changed(linked.ino()));
        Ok(())
    }

    fn make_fifo(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        let place = self.place(path, "make fifo")?;
        let bits = FileKind::Fifo.mode_bits() | mode;
        let made = self.volume.mknod(caller(), place.parent.ino(), place.name, bits, 0);
        self.made(&place, made.map_err(failed("make fifo"))?);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), TreeError> {
        let old = self.place(from, "rename")?;
        let new = self.place(to, "rename")?;
        let moved = self.volume.rename(
            caller(),
            old.parent.ino(),
            old.name,
            new.parent.ino(),
            new.name,
            RenameMode::Replace,
        );
        moved.map_err(failed("rename"))?;
        self.resolver.renamed(from, to);
        self.name_changed(&old);
        self.name_changed(&new);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> Result<(), TreeError> {
        let place = self.place(path, "remove")?;
        self.volume.unlink(caller(), place.parent.ino(), place.name).map_err(failed("remove"))?;
        self.name_changed(&place);
        Ok(())
    }

    fn set_metadata(&self, path: &Path, change: &SetMetadata) -> Result<(), TreeError> {
        let entry = self.entry(path, "set attributes")?;
        entry::set_metadata(&self.volume, &entry, None, change).map_err(failed("set attributes"))?;
        announce(&self.cache, |cache| cache.attributes_changed(entry.ino()));
        Ok(())
    }

    fn xattr_names(&self, path: &Path) -> Result<Vec<OsString>, TreeError> {
        let entry = self.entry(path, "list attributes")?;
        entry::xattr_names(&self.volume, entry.ino()).map_err(failed("list attributes"))
    }

    fn xattr(&self, path: &Path, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        let entry = self.entry(path, "read attribute")?;
        self.volume.getxattr(caller(), entry.ino(), name).map_err(failed("read attribute"))
    }

    fn set_xattr(&self, path: &Path, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        let entry = self.entry(path, "set attribute")?;
        let set = self.volume.setxattr(caller(), entry.ino(), name, value, XattrMode::Any);
        set.map_err(failed("set attribute"))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), TreeError> {
        let directory = self.entry(path, "sync directory")?;
        let sync = || {
            let handle = self.volume.opendir(caller(), directory.ino())?;
            let synced = self.volume.fsyncdir(handle, false);
            self.volume.releasedir(handle)?;
            synced
        };
        sync().map_err(failed("sync directory"))
    }

    fn sync_point<'a>(&'a self, _path: &Path) -> Result<Box<dyn SyncPoint + 'a>, TreeError> {
        Ok(Box::new(WholeVolume(&self.volume)))
    }

    fn space(&self, _path: &Path) -> Result<Space, TreeError> {
        let space = self.volume.statfs().map_err(failed("look at the space of"))?;
        let unit = u64::from(space.block_size);
        Ok(Space {
            total: space.blocks.saturating_mul(unit),
            available: space.blocks_available.saturating_mul(unit),
        })
    }
}

/// The volume remembers a failed write-back by itself, whenever it was.
struct WholeVolume<'a>(&'a Volume);

impl SyncPoint for WholeVolume<'_> {
    fn sync(&self) -> Result<(), TreeError> {
        self.0.sync().map_err(failed("sync"))
    }
}

/// Times as the volume takes them.
fn set_times(atime: Timestamp, mtime: Timestamp) -> SetAttr {
    SetAttr { atime: Some(SetTime::At(atime)), mtime: Some(SetTime::At(mtime)), ..SetAttr::default() }
}
