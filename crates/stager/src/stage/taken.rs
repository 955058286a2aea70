//! Temporary names that another process of the same stage makes or takes away.
//!
//! A process that was killed leaves temporary files, which the next one replaces. It may also have sent a last call to the servers
//! of an instance, which is carried out when the next process is at work already: the making of a temporary name, its rename to
//! the target, or its removal. It then takes away what it has left before the new process removes that, or what the new process has made,
//! finished or not. Whoever finds its temporary name gone makes it anew and puts that in place, so that a target is whole at the end
//! whatever came first; such a call comes once, since who sent it is dead.
//!
//! Where the directory is gone there is nothing to be made in: the next attempt says so.

use std::path::Path;

use super::run::Run;
use crate::tree::{Cause, TreeError};

/// Attempts at one name. A killed process has left one call for it at most, and seldom do several processes follow each other so
/// quickly that more than one is late.
const ATTEMPTS_MAX: u32 = 4;

/// Makes something under a temporary name, in place of what an earlier process has left there.
pub fn made_anew<T>(
    run: &Run<'_>,
    temporary: &Path,
    mut how: impl FnMut() -> Result<T, TreeError>,
) -> Result<T, TreeError> {
    for _ in 1..ATTEMPTS_MAX {
        match how() {
            Err(TreeError { cause: Cause::Exists, .. }) => remove(run, temporary)?,
            made => return made,
        }
    }
    how()
}

fn remove(run: &Run<'_>, temporary: &Path) -> Result<(), TreeError> {
    match run.target().unlink(temporary) {
        Err(TreeError { cause: Cause::NotFound, .. }) => Ok(()),
        done => done,
    }
}

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
