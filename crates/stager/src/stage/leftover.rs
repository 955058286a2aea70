//! Temporary names that an earlier run of the same stage has left and this one did not meet, because their sources are gone.
//!
//! Only names that carry this stage's own checksum are removed, and only where nothing of this run can be on its way: from a
//! directory in which everything is done, or for a named file that is not copied. It is tidying up: what cannot be removed stays,
//! and the stage is none the worse for it. A directory whose source is gone is not visited.

use std::path::Path;

use super::node::Node;
use super::run::Run;

/// Everything in a directory is done: removes what is left of earlier runs.
pub fn sweep(run: &Run<'_>, directory: &Node) {
    if directory.is_fresh || !directory.is_whole || run.stopping() || !run.may_have_leftovers() {
        return;
    }
    let Ok(mut names) = run.target().read_dir(&directory.target) else { return };
    while let Ok(Some(entry)) = names.next_entry() {
        if run.is_temporary(&entry.name) {
            let _ = run.target().unlink(&directory.target.join(&entry.name));
        }
    }
}

/// A named file is not going to be copied: removes what an earlier run has left of it.
pub fn remove(run: &Run<'_>, target: &Path) {
    if run.may_have_leftovers() {
        let _ = run.target().unlink(&run.temporary(target));
    }
}
