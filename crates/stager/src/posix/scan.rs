//! Reading a directory through `getdents64`, one buffer at a time.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Dir;

use super::cause::failed;
use super::entry;
use crate::tree::{DirEntry, DirStream, TreeError};

/// A directory being read.
pub struct Scan {
    state: State,
}

enum State {
    Fresh(OwnedFd),
    Open(Dir),
    Ended,
}

impl Scan {
    /// `directory` is open for reading.
    pub fn new(directory: OwnedFd) -> Self {
        Self { state: State::Fresh(directory) }
    }
}

impl DirStream for Scan {
    fn next_entry(&mut self) -> Result<Option<DirEntry>, TreeError> {
        if let State::Fresh(_) = self.state
            && let State::Fresh(directory) = std::mem::replace(&mut self.state, State::Ended)
        {
            self.state = State::Open(Dir::new(directory).map_err(failed("read directory"))?);
        }
        let State::Open(directory) = &mut self.state else { return Ok(None) };
        for found in directory {
            let found = found.map_err(failed("read directory"))?;
            let name = found.file_name().to_bytes();
            if name != b"." && name != b".." {
                let name = OsString::from(OsStr::from_bytes(name));
                return Ok(Some(DirEntry { name, kind: entry::kind(found.file_type()) }));
            }
        }
        self.state = State::Ended;
        Ok(None)
    }
}
