//! Instances that are reached without DWFS: the namespace is a directory of the first fragment.

use crate::description::ConfigurationDescription;
use crate::error::AgentError;
use crate::mounting::{self, Departure};
use crate::record::Record;
use crate::serving::Serving;
use crate::stage::{StageError, StageTask};
use crate::{mount_table, namespace, signpost, usage};
use forebay_model::units::Bytes;
use forebay_stager::{
    CancelToken, Direction, PosixTree, StageProgress, StageReport, StageRequest, Tree, TreeError,
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Shows the tree where the job looks for it. The caller holds the gate.
pub(super) fn mount(
    serving: Serving,
    fragment: &Path,
    configuration: &ConfigurationDescription,
) -> Result<(), AgentError> {
    let tree = namespace::tree(fragment, configuration.id)?;
    let point = mount_table::resolved(&configuration.mount);
    if serving != Serving::DirectXfs {
        return signpost::put(&point, &tree);
    }
    if mount_table::at(&point)?.is_some() {
        return Ok(());
    }
    mounting::make_mount_point(&point)?;
    mounting::mount_bind(&tree, &point)
}

/// Ends that. The caller holds the gate.
pub(super) fn unmount(
    record: &Record,
    configuration: &ConfigurationDescription,
) -> Result<Departure, AgentError> {
    let point = mount_table::resolved(&configuration.mount);
    if record.serving != Serving::DirectXfs {
        return signpost::take_away(&point, record).map(|()| Departure::Clean);
    }
    let departure = mounting::unmount(&point)?;
    mounting::remove_mount_point(&point)?;
    Ok(departure)
}

/// Stages between two local trees.
pub(super) fn stage(
    tree: &Path,
    shown: &Path,
    task: &StageTask,
    progress: &(dyn Fn(StageProgress) + Sync),
    cancel: &CancelToken,
) -> Result<StageReport, StageError> {
    let failed = |source: TreeError| AgentError::StageTree { path: tree.to_owned(), source };
    let inside = PosixTree::confined_shown_as(tree, shown).map_err(failed)?;
    let outside = PosixTree::everywhere().map_err(failed)?;
    let (source, destination): (&dyn Tree, &dyn Tree) = match task.direction {
        Direction::In => (&outside, &inside),
        Direction::Out => (&inside, &outside),
    };
    let request = StageRequest { direction: task.direction, source, destination, what: task.what.clone() };
    forebay_stager::stage(&request, &task.options, progress, cancel)
        .map_err(|failure| StageError::Failed(Box::new(failure)))
}

/// Bytes taken. Where the fragment is a file system, that tells; a plain directory has to be walked.
pub(super) fn used(serving: Serving, fragment: &Path, capacity: Bytes) -> Result<Bytes, AgentError> {
    let failed = |path: &Path, error: std::io::Error| AgentError::system("look at", path, error);
    if serving == Serving::DirectXfs {
        let space = rustix::fs::statvfs(fragment).map_err(|error| failed(fragment, error.into()))?;
        return Ok(usage::used(capacity, Bytes(space.f_bavail.saturating_mul(space.f_frsize))));
    }
    let mut waiting = vec![fragment.to_owned()];
    let mut blocks = 0;
    while let Some(directory) = waiting.pop() {
        // The job may be removing files at the same time, and may have closed directories to everybody.
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            blocks += meta.blocks();
            if meta.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(Bytes(blocks * 512))
}
