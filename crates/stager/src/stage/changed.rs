//! Whether a source file stayed the same while it was read.

use crate::tree::Metadata;

/// Same file, same size, no change of content or attributes in between. A change within the granularity of the file system's
/// clock right after `before` was taken stays unseen on kernels that do not refine time stamps (Linux before 6.13).
pub fn is_same(before: &Metadata, after: &Metadata) -> bool {
    (before.device, before.inode, before.size, before.mtime, before.ctime)
        == (after.device, after.inode, after.size, after.mtime, after.ctime)
}
