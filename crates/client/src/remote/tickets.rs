//! The rights to the content of files that are open, shared by those who open files and those who use the content: the
//! latter know the file's id only.

use forebay_wire::{FileId, FsError, Result, Rights, Ticket};
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

#[derive(Default)]
pub(crate) struct Tickets {
    /// By file: the number of the open file and its ticket. The best one is last.
    known: RwLock<HashMap<FileId, Vec<(u64, Ticket)>>>,
}

impl Tickets {
    /// A file was opened under a number. Another ticket of the same number is replaced.
    pub(crate) fn add(&self, file: FileId, handle: u64, ticket: Ticket) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let tickets = known.entry(file).or_default();
        tickets.retain(|(other, _)| *other != handle);
        tickets.push((handle, ticket));
        tickets.sort_by_key(|(_, ticket)| ticket.rights());
    }

    /// It was closed.
    pub(crate) fn remove(&self, file: FileId, handle: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(tickets) = known.get_mut(&file) {
            tickets.retain(|(other, _)| *other != handle);
            if tickets.is_empty() {
                known.remove(&file);
            }
        }
    }

    /// The ticket of a file that allows most.
    pub(crate) fn best(&self, file: FileId) -> Result<Ticket> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let best = known.get(&file).and_then(|tickets| tickets.last());
        best.map(|(_, ticket)| *ticket).ok_or(FsError::AccessDenied)
    }

    /// Whether somebody has the file open for writing.
    pub(crate) fn may_write(&self, file: FileId) -> bool {
        self.best(file).is_ok_and(|ticket| ticket.rights() == Rights::ReadWrite)
    }
}
