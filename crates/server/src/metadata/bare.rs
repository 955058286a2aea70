//! Striped files that have no substripe file yet: nothing was ever written to them, so no data service has to be asked of
//! them when they are closed or removed.
//!
//! Of a shared tree only, where the clients write and say at each close whether they did. A file is bare from when it is
//! made until somebody closes it who wrote or of whom that is not known, as when a client is gone without a word. While it is
//! open for writing, what its writers have done is not known here. Nothing is remembered over a restart: then all are
//! asked.
//!
//! Pure memory, no more than [`BARE_MAX`] files.

use forebay_wire::FileId;
use std::collections::HashSet;

/// Files remembered; of others the data services are asked.
const BARE_MAX: usize = 65_536;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Bare(HashSet<FileId>);

impl Bare {
    /// A file was made.
    pub(super) fn made(&mut self, file: FileId) {
        if self.0.len() < BARE_MAX {
            self.0.insert(file);
        }
    }

    /// It may have substripe files from now on, or is gone; whether it was bare.
    pub(super) fn end(&mut self, file: FileId) -> bool {
        self.0.remove(&file)
    }

    /// It has none, unless somebody who has it open made some.
    pub(super) fn contains(&self, file: FileId) -> bool {
        self.0.contains(&file)
    }
}
