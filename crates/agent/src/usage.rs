//! What is stored in an instance and what has been read and written.

use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};

/// Figures of an attached instance. Counts begin with this attachment and include what was staged through it, so
/// that what a script did is the difference of two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes that can be stored.
    pub capacity: Bytes,
    /// Bytes that are taken.
    pub used: Bytes,
    /// Bytes read; `None` where they cannot be counted.
    pub bytes_read: Option<Bytes>,
    /// Bytes written; `None` where they cannot be counted.
    pub bytes_written: Option<Bytes>,
    /// Files and directories created; `None` where they cannot be counted.
    pub files_created: Option<u64>,
}
