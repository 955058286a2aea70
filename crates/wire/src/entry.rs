//! One entry of a directory listing.

use crate::attr::{FileKind, Ino};
use std::ffi::OsStr;

/// One name of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// Number of the object.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// The name, any bytes but `/` and NUL.
    pub name: &'a OsStr,
    /// Position after this entry: pass it to go on from here.
    pub next_cookie: u64,
}
