//! A tree over another one that fails the n-th of the operations it is told to count, and counts the faults that fired.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_stager::tree::{
    Cause, DirStream, Metadata, ReadFile, SetMetadata, Space, SyncPoint, Tree, TreeError, WriteFile,
};

/// When to fail, and how.
pub struct Plan {
    /// Only this operation counts; empty: every one.
    pub operation: &'static str,
    /// Which one fails, from 1; 0 fails none.
    pub nth: u64,
    /// Whether all after it fail too, as on a disk that is full or gone.
    pub forever: bool,
    pub cause: Cause,
    seen: AtomicU64,
    fired: AtomicU64,
    /// Made late, and going to be taken away late too.
    left: Mutex<Option<PathBuf>>,
}

impl Plan {
    pub fn new(operation: &'static str, nth: u64, forever: bool, cause: Cause) -> Self {
        Self {
            operation,
            nth,
            forever,
            cause,
            seen: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            left: Mutex::default(),
        }
    }

    /// Faults that fired.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Operations counted.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    fn meet(&self, operation: &'static str) -> Result<(), TreeError> {
        if !self.operation.is_empty() && self.operation != operation {
            return Ok(());
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        if self.nth == 0 || number < self.nth || (number > self.nth && !self.forever) {
            return Ok(());
        }
        self.fired.fetch_add(1, Ordering::SeqCst);
        Err(TreeError { operation, cause: self.cause })
    }
}

/// See the module.
pub struct Faulty<'t> {
    pub inner: &'t dyn Tree,
    pub plan: Plan,
}

struct Reading<'f>(Box<dyn ReadFile + 'f>, &'f Plan);
struct Writing<'f>(Box<dyn WriteFile + 'f>, &'f Plan);
struct Listing<'f>(Box<dyn DirStream + 'f>, &'f Plan);
struct Point<'f>(#[expect(dead_code, reason = "held, not synced")] Box<dyn SyncPoint + 'f>, &'f Plan);

impl DirStream for Listing<'_> {
    fn next_entry(&mut self) -> Result<Option<forebay_stager::tree::DirEntry>, TreeError> {
        self.1.meet("next_entry")?;
        self.0.next_entry()
    }
}

impl SyncPoint for Point<'_> {
    fn sync(&self) -> Result<(), TreeError> {
        // What a real sync does is not the question here, and hundreds of them take minutes.
        self.1.meet("sync_point")
    }
}

impl ReadFile for Reading<'_> {
    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.1.meet("metadata")?;
        self.0.metadata()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.1.meet("read")?;
        self.0.read_at(offset, buffer)
    }
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, TreeError> {
        self.1.meet("next_data")?;
        self.0.next_data(offset)
    }
    fn xattr_names(&self) -> Result<Vec<OsString>, TreeError> {
        self.1.meet("xattr_names")?;
        self.0.xattr_names()
    }
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        self.1.meet("xattr")?;
        self.0.xattr(name)
    }
}

impl WriteFile for Writing<'_> {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        if let Err(error) = self.1.meet("write") {
            // A failed write may have written a part.
            self.0.write_at(offset, &data[..data.len() / 2])?;
            return Err(error);
        }
        self.0.write_at(offset, data)
    }
    fn set_len(&self, size: u64) -> Result<(), TreeError> {
        self.1.meet("set_len")?;
        self.0.set_len(size)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.1.meet("read_back")?;
        let read = self.0.read_at(offset, buffer)?;
        // A disk that returns something else than was written.
        if self.1.meet("corrupt").is_err()
            && let Some(byte) = buffer.first_mut()
        {
            *byte ^= 1;
        }
        Ok(read)
    }
    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.1.meet("metadata")?;
        self.0.metadata()
    }
    fn set_metadata(&self, change: &SetMetadata) -> Result<(), TreeError> {
        self.1.meet("set_metadata")?;
        self.0.set_metadata(change)
    }
    fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        self.1.meet("set_xattr")?;
        self.0.set_xattr(name, value)
    }
    fn sync(&self) -> Result<(), TreeError> {
        self.1.meet("sync")?;
        self.0.sync()
    }
}

impl Faulty<'_> {
    /// The last calls of a process of the same stage that was killed, carried out only now.
    fn meet_late_making(&self, temporary: &Path) -> Result<(), TreeError> {
        let is_left = self.plan.meet("late_create_and_unlink").is_err();
        if is_left {
            *self.plan.left.lock().unwrap() = Some(temporary.to_path_buf());
        }
        if is_left || self.plan.meet("late_create").is_err() {
            self.inner.create(temporary, 0o600)?;
        }
        Ok(())
    }

    /// Before what was made late is removed.
    fn meet_late_removal(&self, temporary: &Path) -> Result<(), TreeError> {
        let left = self.plan.left.lock().unwrap().take_if(|left| left == temporary);
        left.map_or(Ok(()), |left| self.inner.unlink(&left))
    }

    fn meet_late_calls(&self, temporary: &Path, target: &Path) -> Result<(), TreeError> {
        if self.plan.meet("late_rename").is_err() {
            self.inner.rename(temporary, target)?;
        }
        if self.plan.meet("late_unlink").is_err() {
            self.inner.unlink(temporary)?;
        }
        Ok(())
    }
}

impl Tree for Faulty<'_> {
    fn root(&self) -> &Path {
        self.inner.root()
    }
    fn hold(&self, directory: &Path) -> Result<(), TreeError> {
        self.plan.meet("hold")?;
        self.inner.hold(directory)
    }
    fn lstat(&self, path: &Path) -> Result<Metadata, TreeError> {
        self.plan.meet("lstat")?;
        self.inner.lstat(path)
    }
    fn read_dir<'a>(&'a self, path: &Path) -> Result<Box<dyn DirStream + 'a>, TreeError> {
        self.plan.meet("read_dir")?;
        Ok(Box::new(Listing(self.inner.read_dir(path)?, &self.plan)))
    }
    fn read_link(&self, path: &Path) -> Result<PathBuf, TreeError> {
        self.plan.meet("read_link")?;
        self.inner.read_link(path)
    }
    fn open<'a>(&'a self, path: &Path) -> Result<Box<dyn ReadFile + 'a>, TreeError> {
        self.plan.meet("open")?;
        Ok(Box::new(Reading(self.inner.open(path)?, &self.plan)))
    }
    fn create<'a>(&'a self, path: &Path, mode: u32) -> Result<Box<dyn WriteFile + 'a>, TreeError> {
        self.plan.meet("create")?;
        self.meet_late_making(path)?;
        Ok(Box::new(Writing(self.inner.create(path, mode)?, &self.plan)))
    }
    fn mkdir(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        self.plan.meet("mkdir")?;
        self.inner.mkdir(path, mode)
    }
    fn symlink(&self, path: &Path, target: &Path) -> Result<(), TreeError> {
        self.plan.meet("symlink")?;
        self.meet_late_making(path)?;
        self.inner.symlink(path, target)
    }
    fn link(&self, existing: &Path, new: &Path) -> Result<(), TreeError> {
        self.plan.meet("link")?;
        self.inner.link(existing, new)
    }
    fn make_fifo(&self, path: &Path, mode: u32) -> Result<(), TreeError> {
        self.plan.meet("make_fifo")?;
        self.meet_late_making(path)?;
        self.inner.make_fifo(path, mode)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TreeError> {
        self.plan.meet("rename")?;
        self.meet_late_calls(from, to)?;
        self.inner.rename(from, to)
    }
    fn unlink(&self, path: &Path) -> Result<(), TreeError> {
        self.plan.meet("unlink")?;
        self.meet_late_removal(path)?;
        self.inner.unlink(path)
    }
    fn set_metadata(&self, path: &Path, change: &SetMetadata) -> Result<(), TreeError> {
        self.plan.meet("set_metadata")?;
        self.inner.set_metadata(path, change)
    }
    fn xattr_names(&self, path: &Path) -> Result<Vec<OsString>, TreeError> {
        self.plan.meet("xattr_names")?;
        self.inner.xattr_names(path)
    }
    fn xattr(&self, path: &Path, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        self.plan.meet("xattr")?;
        self.inner.xattr(path, name)
    }
    fn set_xattr(&self, path: &Path, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        self.plan.meet("set_xattr")?;
        self.inner.set_xattr(path, name, value)
    }
    fn sync_dir(&self, path: &Path) -> Result<(), TreeError> {
        self.plan.meet("sync_dir")?;
        self.inner.sync_dir(path)
    }
    fn sync_point<'a>(&'a self, path: &Path) -> Result<Box<dyn SyncPoint + 'a>, TreeError> {
        self.plan.meet("take_sync_point")?;
        Ok(Box::new(Point(self.inner.sync_point(path)?, &self.plan)))
    }
    fn space(&self, path: &Path) -> Result<Space, TreeError> {
        self.plan.meet("space")?;
        self.inner.space(path)
    }
}
