//! The moment before a question whose answer is useless once others have changed the object, or this client has.
//!
//! What others change is counted by [`super::validity`] as it is announced; what this client changes by another such count, of whoever
//! keeps the answer. Any thread.

use super::validity::{Moment, Validity};
use forebay_wire::Ino;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) others: Moment,
    own: Moment,
}

impl Asked {
    /// Now, as others and as this client have changed things so far.
    pub(crate) fn now(others: &Validity, own: &Validity) -> Asked {
        Asked { others: others.now(), own: own.now() }
    }

    /// This client began to change the object, or ended, since then.
    pub(crate) fn was_changed_here(&self, ino: Ino, own: &Validity) -> bool {
        own.was_announced(ino, self.own)
    }
}
