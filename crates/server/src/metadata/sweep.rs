//! What the other fragments hold, held against the names, after a tree was not closed cleanly.
//!
//! The walk at the open of a tree ([`crate::recover`]) sees only the fragment it is on. A sweep lists the substripe files
//! of all data services: those of files that had no stub at the walk and are older than it are removed; files that reach
//! further than their stub stay unsettled until somebody looks at them; all others are settled.
//!
//! A crash in the middle leaves some of them removed; the next open walks and sweeps again. A sweep that fails, because a data
//! service is away, can be repeated.

use super::Tree;
use crate::recover::{Stubs, end_of, place_of};
use forebay_wire::{FileId, FsError, Listing, Result};
use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

/// What the walk at the open of a tree knew.
pub(super) struct Walk {
    /// The striped files that had a stub.
    pub(super) stubs: Stubs,
    /// Ids from here on were given away since.
    pub(super) below: FileId,
}

impl Walk {
    /// The files of a listing that have no stub, with the number of substripes to remove. All substripe files of one file
    /// are in the same listing.
    fn orphans(&self, listing: &Listing) -> HashMap<FileId, u32> {
        let mut orphans: HashMap<FileId, u32> = HashMap::new();
        for entry in &listing.entries {
            if entry.file < self.below && !self.stubs.contains_key(&entry.file) {
                let substripes = orphans.entry(entry.file).or_default();
                *substripes = (*substripes).max(entry.substripe + 1);
            }
        }
        orphans
    }

    /// Adds the files of a listing of a server's that say more than their stub did.
    fn add_unsettled(&self, server: u32, listing: &Listing, to: &mut HashSet<FileId>) {
        for entry in &listing.entries {
            let Some(stub) = self.stubs.get(&entry.file) else { continue };
            let place = place_of(&stub.layout, server, entry.substripe);
            let end = place.map_or(0, |place| end_of(&stub.layout, place, entry.extent.length));
            if end > stub.size || entry.extent.mtime > stub.ctime {
                to.insert(entry.file);
            }
        }
    }
}

impl Tree {
    /// Looks at what the data services of an uncleanly ended tree hold; see the module. Returns how many pieces of files
    /// without a stub were removed. Does nothing where there is nothing to do. May run while the tree is in use. `Busy` while
    /// clients of before are awaited: they may still write without a word to the tree.
    pub fn sweep(&self) -> Result<u64> {
        if self.unsettled().awaits_claims() {
            return Err(FsError::Busy);
        }
        let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = &*walk else { return Ok(0) };
        let (mut removed, mut unsettled) = (0, HashSet::new());
        for (server, data) in (0..).zip(&self.data) {
            let mut cookie = Some(0);
            while let Some(at) = cookie {
                let listing = data.list(at)?;
                for (file, substripes) in known.orphans(&listing) {
                    data.remove(file, substripes)?;
                    removed += 1;
                }
                known.add_unsettled(server, &listing, &mut unsettled);
                cookie = listing.next;
            }
        }
        if !self.unsettled().swept(unsettled.into_iter()) {
            return Err(FsError::Busy);
        }
        *walk = None;
        Ok(removed)
    }
}
