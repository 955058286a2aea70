//! On which servers there is something of a striped file, where that is known: the others need not be asked to remove it.
//!
//! Of a shared tree only. It is known from when the last writer closes a file, who says at that that he has written, and only if
//! everybody who had it open for writing since it was made said so: of a client that is gone without a word a late request may
//! still come in somewhere. Nothing is remembered over a restart: then all are asked.
//!
//! Pure memory, no more than [`PLACES_MAX`] files.

use forebay_model::layout::Layout;
use forebay_wire::FileId;
use std::collections::HashMap;

/// Files remembered; of others all servers are asked.
const PLACES_MAX: usize = 65_536;

/// Positions of a file's ring of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Slots {
    /// None.
    #[default]
    None,
    /// This one.
    One(u32),
    /// Several, or not known.
    Any,
}

impl Slots {
    pub(super) fn with(self, slot: u32) -> Slots {
        match self {
            Slots::None => Slots::One(slot),
            Slots::One(one) if one == slot => self,
            _ => Slots::Any,
        }
    }

    /// Those of a layout.
    pub(super) fn of(self, layout: &Layout) -> impl Iterator<Item = u32> {
        let (from, to) = match self {
            Slots::None => (0, 0),
            Slots::One(slot) => (slot, slot + 1),
            Slots::Any => (0, layout.stripe_count()),
        };
        from..to
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<FileId, Slots>);

impl Places {
    /// A file that nobody has open for writing has its content here.
    pub(super) fn settled(&mut self, file: FileId, slots: Slots) {
        if matches!(slots, Slots::One(_)) && self.0.len() < PLACES_MAX {
            self.0.insert(file, slots);
        }
    }

    /// It may have content anywhere from now on, or is gone. Where it had it.
    pub(super) fn end(&mut self, file: FileId) -> Slots {
        self.0.remove(&file).unwrap_or(Slots::Any)
    }
}
