//! The data service over one fragment: substripe files of one namespace.
//!
//! A substripe file is `data/<2 hex>/<file id, 16 hex>.<substripe>`; the two digits are the lowest of the id, so that
//! neighbours spread over 256 directories. It comes into being with its first write.
//!
//! Order of events and what a crash after each leaves:
//! * first write: directory made, file made, data written. A file without data, or with data beyond the length of its
//!   stub: the walk after a crash gives the stub the length that the data has.
//! * removal: the files go one by one, after their stub went. What is left has no stub: the walk after a crash removes
//!   it.
//!
//! Any thread may call. Lock order: the table of shares, then nothing.

mod given;
mod list;
mod paths;
pub(crate) mod share;

use crate::content;
use crate::descriptors::DataDescriptors;
use crate::fragment::{DIRECTORY, Fragment, make_directory};
use crate::host::host;
use forebay_wire::{DataService, Extent, FileId, FragmentAccount, FragmentSpace, Listing, Result, Share};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use share::LocalShare;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(crate) use paths::{bucket_name, parse_name, substripe_path};

/// Substripe files of one namespace on one fragment.
pub struct LocalData {
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) directory: OwnedFd,
    pub(crate) descriptors: Arc<DataDescriptors>,
    shares: Mutex<HashMap<FileId, Weak<LocalShare>>>,
    itself: Weak<LocalData>,
}

impl LocalData {
    /// The data directory of a namespace, made when absent.
    pub(crate) fn open(
        fragment: Arc<Fragment>,
        namespace: &OwnedFd,
        descriptors: Arc<DataDescriptors>,
    ) -> Result<Arc<LocalData>> {
        let directory = make_directory(namespace, "data", 0o700)?;
        Ok(Arc::new_cyclic(|itself| LocalData {
            fragment,
            directory,
            descriptors,
            shares: Mutex::default(),
            itself: itself.clone(),
        }))
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<FileId, Weak<LocalShare>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A share was dropped.
    pub(crate) fn forget(&self, file: FileId) {
        let mut shares = self.shares();
        if shares.get(&file).is_some_and(|share| share.strong_count() == 0) {
            shares.remove(&file);
        }
    }

    /// The names of a file's substripe files, which are on disk themselves, are so afterwards.
    fn sync_names_of(&self, file: FileId) -> Result<()> {
        if self.fragment.names_go_with_files() {
            return Ok(());
        }
        let bucket = rustix::fs::openat(&self.directory, bucket_name(file), DIRECTORY, Mode::empty())
            .map_err(host("open substripe directory"))?;
        self.fragment.synced(rustix::fs::fsync(&bucket))?;
        self.fragment.synced(rustix::fs::fsync(&self.directory))
    }

    fn remove_one(&self, file: FileId, substripe: u32) -> Result<()> {
        let path = substripe_path(file, substripe);
        let mut held = 0;
        if self.fragment.meter.counts() {
            held = match rustix::fs::statat(&self.directory, &path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => content::counted(&stat),
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(host("stat of substripe")(errno)),
            };
        }
        match rustix::fs::unlinkat(&self.directory, &path, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(host("remove substripe")(errno)),
        }
        self.fragment.meter.settle(held, 0, 0);
        Ok(())
    }

    fn extent(&self, file: FileId, substripe: u32) -> Result<Extent> {
        let path = substripe_path(file, substripe);
        match rustix::fs::statat(&self.directory, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(list::extent_of(&stat)),
            Err(Errno::NOENT) => Ok(Extent::default()),
            Err(errno) => Err(host("stat of substripe")(errno)),
        }
    }
}

impl DataService for LocalData {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        let mut shares = self.shares();
        if let Some(share) = shares.get(&file).and_then(Weak::upgrade) {
            return share;
        }
        let service = self.itself.upgrade().expect("a service that is called is not dropped");
        let share = LocalShare::new(service, file, substripes);
        shares.insert(file, Arc::downgrade(&share));
        share
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        let mut first_error = Ok(());
        for substripe in 0..substripes {
            first_error = first_error.and(self.remove_one(file, substripe));
        }
        first_error
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        let path = substripe_path(file, substripe);
        match rustix::fs::statat(&self.directory, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(stat.st_blocks as u64),
            Err(Errno::NOENT) => Ok(0),
            Err(errno) => Err(host("stat of substripe")(errno)),
        }
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        (0..substripes).map(|substripe| self.extent(file, substripe)).collect()
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        list::list(&self.directory, cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.fragment.space()
    }

    fn account(&self) -> Result<FragmentAccount> {
        self.fragment.account()
    }

    fn sync(&self) -> Result<()> {
        self.fragment.sync()
    }
}
