//! Job numbers given out before the job is set up.
//!
//! A script may name its own number (`%j` in a path), so the number must be known before its directives are read. A
//! crash in between leaves a number that nobody has, which is no loss.

use super::{Registry, number};
use crate::error::RegistryError;

impl Registry {
    /// The next job number, for [`crate::request::JobRequest::token`]. It is never given out again.
    pub fn reserve_token(&self, owner_uid: u32) -> Result<String, RegistryError> {
        self.change(|tx| number::token(tx, owner_uid))
    }
}
