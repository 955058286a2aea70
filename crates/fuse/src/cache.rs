//! Telling the kernel that something changed without passing the mount: staging through the volume while the mount is
//! in use. May be called from any thread that serves no request of the same mount.

use forebay_fusedev::Notifier;
use forebay_wire::Ino;
use std::ffi::OsStr;
use std::io;

/// What the kernel remembers of one mount. With [`crate::CachePolicy::SoleOwner`] every change made through the volume
/// beside the mount has to be announced here, or programs may see the old state for as long as the mount lives.
#[derive(Clone, Debug)]
pub struct KernelCache(Notifier);

impl KernelCache {
    pub(crate) fn new(notifier: Notifier) -> KernelCache {
        KernelCache(notifier)
    }

    /// The attributes or the content of `ino` changed. Errors: the mount is gone.
    pub fn changed(&self, ino: Ino) -> io::Result<()> {
        self.0.inval_inode(ino.0, 0, 0)
    }

    /// Only the attributes of `ino` changed, as those of a directory that got an entry. Errors: the mount is gone.
    pub fn attributes_changed(&self, ino: Ino) -> io::Result<()> {
        self.0.inval_inode(ino.0, -1, 0)
    }

    /// `name` in `parent` stands for something else than before, or for nothing. Errors: the mount is gone.
    pub fn name_changed(&self, parent: Ino, name: &OsStr) -> io::Result<()> {
        self.0.inval_entry(parent.0, name)
    }
}
