//! Temporary names that are gone when they are to become final.
//!
//! A process of the same stage that was killed may have sent a last call to the servers of an instance, which is carried out when
//! the next process is at work already: a rename of the same temporary name to the same target, or its removal. It then takes away
//! what the new process has made, finished or not. Whoever finds its temporary name gone makes it anew and puts that in place, so
//! that a target is whole at the end whatever came first; such a call comes once, since who sent it is dead.
//!
//! Where the directory is gone there is nothing to be made in: the next attempt says so.

use crate::tree::{Cause, TreeError};

/// Attempts at one name. A killed process has left one call for it at most, and seldom do several processes follow each other so
/// quickly that more than one is late.
const ATTEMPTS_MAX: u32 = 4;

/// Whether after this error of the `attempt`th attempt, from 1, another one is made.
pub fn may_be_tried_again(error: TreeError, attempt: u32) -> bool {
    error.cause == Cause::NotFound && attempt < ATTEMPTS_MAX
}

/// Makes attempts while the name is gone.
pub fn tried_again(mut once: impl FnMut() -> Result<(), TreeError>) -> Result<(), TreeError> {
    let mut attempt = 1;
    loop {
        match once() {
            Err(error) if may_be_tried_again(error, attempt) => attempt += 1,
            done => return done,
        }
    }
}
