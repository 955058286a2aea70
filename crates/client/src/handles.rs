//! Handles of open files and directories. Numbers are counted up and never used twice, so that a stale handle is found
//! out. Any thread; each lock is held to look up, insert or remove only.

use crate::file::File;
use forebay_wire::{Directory, FsError, Ino, OpenFlags, Result, Stub};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An open file or directory of a volume. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// An open file with the rights that it was opened with. The file goes before the stub: see [`File`].
#[derive(Clone)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) file: Arc<File>,
    /// What this open may do at the metadata service.
    pub(crate) stub: Arc<dyn Stub>,
    flags: OpenFlags,
}

#[derive(Clone)]
enum Open {
    File(OpenFile),
    Directory(Arc<dyn Directory>),
}

const SHARDS: usize = 16;

/// The handles of a volume.
#[derive(Default)]
pub(crate) struct Handles {
    last: AtomicU64,
    shards: [RwLock<HashMap<u64, Open>>; SHARDS],
}

impl OpenFile {
    pub(crate) fn readable(self) -> Result<OpenFile> {
        if self.flags.readable() { Ok(self) } else { Err(FsError::BadHandle) }
    }

    pub(crate) fn writable(self) -> Result<OpenFile> {
        if self.flags.writable() { Ok(self) } else { Err(FsError::BadHandle) }
    }
}

impl Handles {
    fn shard(&self, handle: Handle) -> &RwLock<HashMap<u64, Open>> {
        &self.shards[handle.0 as usize % SHARDS]
    }

    fn look(&self, handle: Handle) -> RwLockReadGuard<'_, HashMap<u64, Open>> {
        self.shard(handle).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, handle: Handle) -> RwLockWriteGuard<'_, HashMap<u64, Open>> {
        self.shard(handle).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, open: Open) -> Handle {
        let handle = Handle(self.last.fetch_add(1, Relaxed) + 1);
        self.change(handle).insert(handle.0, open);
        handle
    }

    pub(crate) fn add_file(
        &self,
        ino: Ino,
        file: Arc<File>,
        stub: Arc<dyn Stub>,
        flags: OpenFlags,
    ) -> Handle {
        self.add(Open::File(OpenFile { ino, file, stub, flags }))
    }

    pub(crate) fn add_directory(&self, directory: Arc<dyn Directory>) -> Handle {
        self.add(Open::Directory(directory))
    }

    pub(crate) fn file(&self, handle: Handle) -> Result<OpenFile> {
        match self.look(handle).get(&handle.0) {
            Some(Open::File(file)) => Ok(file.clone()),
            _ => Err(FsError::BadHandle),
        }
    }

    pub(crate) fn directory(&self, handle: Handle) -> Result<Arc<dyn Directory>> {
        match self.look(handle).get(&handle.0) {
            Some(Open::Directory(directory)) => Ok(directory.clone()),
            _ => Err(FsError::BadHandle),
        }
    }

    pub(crate) fn remove_file(&self, handle: Handle) -> Result<OpenFile> {
        self.file(handle)?;
        match self.change(handle).remove(&handle.0) {
            Some(Open::File(file)) => Ok(file),
            _ => Err(FsError::BadHandle),
        }
    }

    pub(crate) fn remove_directory(&self, handle: Handle) -> Result<()> {
        self.directory(handle)?;
        self.change(handle).remove(&handle.0).map(|_| ()).ok_or(FsError::BadHandle)
    }
}
