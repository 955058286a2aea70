//! Reading and writing the substripe files of a server on the same machine without asking it: it gives their descriptors
//! over the Unix socket, once for each file.
//!
//! Only what is plainly the same is done directly: reads of substripe files that are there, and writes where the size of
//! the fragment is enforced by the file system below. For everything else, and on every doubt, the server is asked.
//! A sync always is: it knows which files it gave away.
//!
//! Descriptors are kept as long as the share. Any thread; a lock is held to look one up, and while one is asked for.

use super::connection::Sink;
use super::data::Server;
use forebay_wire::message::{DataRequest, Reply};
use forebay_wire::{FileId, FsError, Result, Span, Window};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Substripe files that have descriptors here, over all files. Beyond that the server is asked for data.
const DESCRIPTORS_MAX: u64 = 2048;
static DESCRIPTORS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Open {
    descriptor: Arc<OwnedFd>,
    may_write: bool,
}

/// See the module.
pub(crate) struct Direct {
    file: FileId,
    substripes: u32,
    open: RwLock<Vec<Option<Open>>>,
    /// The server gives no descriptors for reading, or none for writing.
    no_reading: AtomicBool,
    no_writing: AtomicBool,
}

impl Direct {
    pub(crate) fn new(file: FileId, substripes: u32) -> Direct {
        Direct {
            file,
            substripes,
            open: RwLock::new(vec![None; substripes as usize]),
            no_reading: AtomicBool::new(false),
            no_writing: AtomicBool::new(false),
        }
    }

    fn known(&self, substripe: u32, write: bool) -> Option<Arc<OwnedFd>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let found = open.get(substripe as usize)?.as_ref()?;
        (found.may_write || !write).then(|| found.descriptor.clone())
    }

    /// The descriptor of a substripe file; `None` where the server is to be asked for the data.
    fn descriptor(&self, server: &Server, substripe: u32, write: bool) -> Option<Arc<OwnedFd>> {
        let refused = if write { &self.no_writing } else { &self.no_reading };
        if let Some(known) = self.known(substripe, write) {
            return Some(known);
        }
        if refused.load(Relaxed) || DESCRIPTORS.load(Relaxed) >= DESCRIPTORS_MAX {
            return None;
        }
        match self.ask(server, write, write.then_some(substripe)) {
            Ok(()) => self.known(substripe, write),
            // The data is asked for instead, and whatever is wrong is said then.
            Err(FsError::Unsupported | FsError::AccessDenied) => {
                refused.store(true, Relaxed);
                None
            }
            Err(_) => None,
        }
    }

    fn ask(&self, server: &Server, write: bool, make: Option<u32>) -> Result<()> {
        let (file, substripes, ticket) = (self.file, self.substripes, server.ticket(self.file)?);
        let request = DataRequest::Descriptors { file, substripes, ticket, write, make };
        let mut descriptors = Vec::new();
        let reply = server.ask(&request, &[], &mut Sink::Descriptors(&mut descriptors))?;
        let Reply::Descriptors { substripes } = reply else { return Err(super::link::NOT_UNDERSTOOD) };
        if substripes.len() != descriptors.len() {
            return Err(super::link::NOT_UNDERSTOOD);
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        for (substripe, descriptor) in substripes.into_iter().zip(descriptors) {
            let Some(slot) = open.get_mut(substripe as usize) else { continue };
            if slot.as_ref().is_some_and(|known| known.may_write || !write) {
                continue;
            }
            if slot.is_none() {
                DESCRIPTORS.fetch_add(1, Relaxed);
            }
            *slot = Some(Open { descriptor: Arc::new(descriptor), may_write: write });
        }
        Ok(())
    }

    /// Reads; `None`: the server is to be asked.
    pub(crate) fn read(&self, server: &Server, spans: &[Span], buffer: &mut [u8]) -> Result<Option<bool>> {
        let mut is_whole = true;
        for span in spans {
            let part = buffer.get_mut(span.at..span.at + span.len).ok_or(FsError::InvalidArgument)?;
            let Some(descriptor) = self.descriptor(server, span.substripe, false) else { return Ok(None) };
            let Ok(read) = read_at(&descriptor, span.offset, part) else { return Ok(None) };
            is_whole &= read == span.len;
            part[read..].fill(0);
        }
        Ok(Some(is_whole))
    }

    /// Has a window take a span; `false`: the server is to be asked.
    pub(crate) fn show(&self, server: &Server, span: &Span, window: &mut dyn Window) -> bool {
        self.descriptor(server, span.substripe, false)
            .is_some_and(|descriptor| window.take(descriptor.as_fd(), span.offset, span.len))
    }

    /// Writes; `None`: nothing was written, the server is to be asked.
    pub(crate) fn write(&self, server: &Server, spans: &[Span], buffer: &[u8]) -> Result<Option<usize>> {
        if !server.tickets.as_ref().is_some_and(|tickets| tickets.may_write(self.file)) {
            return Ok(None);
        }
        let mut total = 0;
        for span in spans {
            let part = buffer.get(span.at..span.at + span.len).ok_or(FsError::InvalidArgument)?;
            let descriptor = self.descriptor(server, span.substripe, true);
            let written = descriptor.map(|descriptor| write_at(&descriptor, span.offset, part));
            match written {
                Some(Ok(written)) => {
                    total += written;
                    if written < span.len {
                        break;
                    }
                }
                // The server says what is wrong.
                Some(Err(_)) | None if total == 0 => return Ok(None),
                Some(Err(_)) | None => break,
            }
        }
        Ok(Some(total))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        DESCRIPTORS.fetch_sub(open.iter().flatten().count() as u64, Relaxed);
    }
}

/// Reads until the end of the file or of the buffer.
fn read_at(descriptor: &OwnedFd, offset: u64, buffer: &mut [u8]) -> std::result::Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(descriptor, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes all, or a part when space runs out; an error means that nothing was written.
fn write_at(descriptor: &OwnedFd, offset: u64, data: &[u8]) -> std::result::Result<usize, Errno> {
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pwrite(descriptor, &data[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}
