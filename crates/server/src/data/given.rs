//! Descriptors of substripe files that are given to a client on the same machine, which then reads and writes them without
//! a word to the service.
//!
//! Descriptors to write with are given only where the size of the fragment is enforced by the file system below and there
//! is no write window: nothing counts what is written through them. The service does not know when that happens either, so a file given for writing
//! is synced as a whole, by name ([`LocalData::sync_given`]), not by what the share remembers.
//!
//! Order of events: a substripe file that is to be made is made as by a first write ([`crate::data`]), then opened again
//! for the client. A crash in between leaves an empty substripe file. Any thread may call.

use super::{LocalData, substripe_path};
use crate::host::host;
use forebay_wire::{DataService, FileId, FsError, Result, Span};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

impl LocalData {
    /// Descriptors of the substripe files that are there, with their numbers; `make` is made if it is not there.
    /// `Unsupported` to write where use is counted.
    pub fn descriptors(
        &self,
        file: FileId,
        substripes: u32,
        write: bool,
        make: Option<u32>,
    ) -> Result<Vec<(u32, OwnedFd)>> {
        if write {
            self.fragment.writable()?;
            if self.fragment.counts_writes() {
                return Err(FsError::Unsupported);
            }
        }
        if let Some(substripe) = make.filter(|_| write) {
            let share = self.share(file, substripes);
            share.write(&[Span { substripe, offset: 0, at: 0, len: 0 }], &[])?;
        }
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let opened = |substripe| Ok(self.open_one(file, substripe, access)?.map(|fd| (substripe, fd)));
        (0..substripes).filter_map(|substripe| opened(substripe).transpose()).collect()
    }

    /// The substripe files and their names are on disk, whoever wrote them and through which descriptor.
    pub fn sync_given(&self, file: FileId, substripes: u32, data_only: bool) -> Result<()> {
        let mut any = false;
        for substripe in 0..substripes {
            let Some(fd) = self.open_one(file, substripe, OFlags::RDONLY)? else { continue };
            let done = if data_only { rustix::fs::fdatasync(&fd) } else { rustix::fs::fsync(&fd) };
            self.fragment.synced(done)?;
            any = true;
        }
        if any { self.sync_names_of(file) } else { Ok(()) }
    }

    fn open_one(&self, file: FileId, substripe: u32, access: OFlags) -> Result<Option<OwnedFd>> {
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, substripe_path(file, substripe), flags, Mode::empty()) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(host("open substripe")(errno)),
        }
    }
}
