//! Telling the kernel, unasked, that what it remembers is out of date.
//!
//! May be called from any thread. Invalidating may wait for requests on the same object to end, so it must not be done
//! while serving one of those that hold the object in the kernel (a lookup of the name, a listing of the directory; with
//! `inval_inode` and a range, a read or write of the pages). Holding a [`Notifier`] does not keep the connection open.

use crate::abi::notification;
use crate::record::Record;
use crate::transport::{out_header, write_message};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};

/// Speaks on one connection.
#[derive(Clone, Debug)]
pub struct Notifier(Weak<OwnedFd>);

impl Notifier {
    pub(crate) fn new(device: &Arc<OwnedFd>) -> Notifier {
        Notifier(Arc::downgrade(device))
    }

    /// Attributes and pages of `node` changed in a range; a negative offset means the attributes only, a length of 0 all
    /// that follows. An object the kernel does not know is no error. Errors: the mount is gone.
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> io::Result<()> {
        let record = Record::new().u64(node).i64(offset).i64(length);
        self.send(notification::INVAL_INODE, &record, &[])
    }

    /// `name` in `parent` stands for something else, or nothing. Errors: the mount is gone.
    pub fn inval_entry(&self, parent: u64, name: &OsStr) -> io::Result<()> {
        let record = Record::new().u64(parent).u32(name.len() as u32).u32(0);
        self.send(notification::INVAL_ENTRY, &record, &with_end(name))
    }

    /// `name` in `parent`, which stood for `child`, was removed: who watches it is told. Errors: the mount is gone.
    pub fn delete(&self, parent: u64, child: u64, name: &OsStr) -> io::Result<()> {
        let record = Record::new().u64(parent).u64(child).u32(name.len() as u32).u32(0);
        self.send(notification::DELETE, &record, &with_end(name))
    }

    fn send(&self, code: i32, record: &Record, data: &[u8]) -> io::Result<()> {
        let device = self.0.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let fixed = record.as_bytes();
        let header = out_header(0, code, fixed.len() + data.len());
        match write_message(&device, &header, fixed, data) {
            Ok(()) | Err(Errno::NOENT) => Ok(()), // the kernel does not remember it
            Err(error) => Err(error.into()),
        }
    }
}

fn with_end(name: &OsStr) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}
