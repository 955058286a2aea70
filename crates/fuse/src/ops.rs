//! The operations, by group. Each is a few lines: decode the request, call the volume, answer.
//!
//! Called on the serving threads only. Answers are given exactly once; a reply that is dropped unanswered by a panic
//! tells the kernel EIO.

pub(crate) mod attrs;
pub(crate) mod data;
pub(crate) mod dirs;
pub(crate) mod lifetime;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod xattrs;
