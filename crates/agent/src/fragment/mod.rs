//! Fragments: the piece of an instance on one storage node.
//!
//! Three forms: [`image::XfsImage`] and [`volume::LvmVolume`], which need root and have a size that nobody can exceed, and
//! [`directory::PlainDirectory`]. All have a directory that the node reserves for the fragment, and in it a name that says
//! whose it is:
//!
//! ```text
//! <directory>/instance-<id>-fragment-<id>/image.xfs     XFS image: the file system
//! <directory>/instance-<id>-fragment-<id>/mount/        XFS image, volume: where it is mounted while attached
//! <directory>/instance-<id>-fragment-<id>/root/         plain directory: the content
//! ```
//!
//! A fragment is made when `image.xfs` or `root` exists, which is the last step of making it; a volume when it is in its
//! group, which is the first: whoever makes volumes has to remember whether it came to the end. Order in removing: unmount -
//! content - directory.
//!
//! The caller holds the instance's gate.

pub(crate) mod directory;
pub(crate) mod image;
pub(crate) mod image_size;
mod mkfs;
mod mounted;
pub(crate) mod place;
pub(crate) mod volume;

use crate::description::InstanceDescription;
use crate::error::AgentError;
use crate::mounting::Departure;
use crate::record::FragmentKind;
use forebay_model::units::Bytes;
use std::path::{Path, PathBuf};

/// A piece of space on this machine. Every step can be repeated.
pub(crate) trait Fragment: Send + Sync {
    /// Makes it, durably, unless it is made.
    fn make(&self) -> Result<(), AgentError>;
    /// It is made.
    fn is_made(&self) -> bool;
    /// Makes its content reachable and answers where.
    fn bring_up(&self) -> Result<PathBuf, AgentError>;
    /// Ends that; what was written reaches the disk.
    fn take_down(&self) -> Result<Departure, AgentError>;
    /// Its content is not needed any more: what has not reached the disk yet never has to. Only removing may follow.
    fn abandon(&self);
    /// Removes it with all its content.
    fn remove(&self) -> Result<Departure, AgentError>;
    /// The file system under its content has the promised size itself; otherwise somebody has to count.
    fn hard_size(&self) -> bool;
    /// Bytes that can be stored.
    fn capacity(&self) -> Bytes;
}

/// The fragments of an instance, in order.
pub(crate) fn of_instance(description: &InstanceDescription, kind: FragmentKind) -> Vec<Box<dyn Fragment>> {
    let instance = description.instance;
    let one = |fragment: &crate::description::FragmentDescription| -> Box<dyn Fragment> {
        let place = place::Place::new(instance, fragment.id, &fragment.directory);
        match kind {
            FragmentKind::XfsImage => {
                Box::new(image::XfsImage::new(place, fragment.capacity, image::Room::Reserved))
            }
            FragmentKind::Directory => Box::new(directory::PlainDirectory::new(place, fragment.capacity)),
        }
    };
    description.fragments.iter().map(one).collect()
}

/// Threads that work on fragments at the same time.
const PARALLEL: usize = 8;

/// Carries a step out on all fragments, several at a time; answers in order. All are tried also when one fails, and the
/// first failure is answered.
pub(crate) fn on_all<T: Send>(
    fragments: &[Box<dyn Fragment>],
    step: impl Fn(&dyn Fragment) -> Result<T, AgentError> + Sync,
) -> Result<Vec<T>, AgentError> {
    if let [only] = fragments {
        return Ok(vec![step(only.as_ref())?]);
    }
    let mut results = Vec::with_capacity(fragments.len());
    for group in fragments.chunks(PARALLEL) {
        std::thread::scope(|scope| {
            let running: Vec<_> =
                group.iter().map(|fragment| scope.spawn(|| step(fragment.as_ref()))).collect();
            results.extend(running.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
        });
    }
    results.into_iter().collect()
}

/// The directory itself without symbolic links, as the mount table shows it.
pub(crate) fn resolved(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}
