//! Extended attributes, of an entry that is not followed.
//!
//! The calls take a path; the entry is named through a descriptor of its directory, so nothing before the last component is
//! resolved again.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs;
use rustix::io::Errno;

use super::cause::failed;
use super::entry;
use crate::tree::TreeError;

/// A value larger than this does not exist on Linux (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const SIZE_MAX: usize = 65536;

/// The path to use for a name in an open directory.
pub fn path_of(parent: &OwnedFd, name: &OsStr) -> Result<CString, TreeError> {
    entry::name_below(parent, name)
}

/// Splits the kernel's list and leaves out what is not the user's: `security.*` and `trusted.*` belong to the machine.
pub fn split(list: &[u8]) -> Vec<OsString> {
    let own = |name: &&[u8]| {
        !name.is_empty() && (name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_"))
    };
    list.split(|byte| *byte == 0).filter(own).map(|name| OsString::from(OsStr::from_bytes(name))).collect()
}

/// Runs a call that fills a buffer, first with a small one. A file system without attributes has none.
pub fn fill(
    operation: &'static str,
    mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, TreeError> {
    let mut small = [0u8; 256];
    match call(&mut small) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0u8; SIZE_MAX];
            let length = call(&mut large).map_err(failed(operation))?;
            large.truncate(length);
            Ok(large)
        }
        Err(errno) => Err(failed(operation)(errno)),
    }
}

/// Names of an entry's attributes; none where the file system has no attributes.
pub fn names(path: &CStr) -> Result<Vec<OsString>, TreeError> {
    listed(fill("list attributes", |buffer| fs::llistxattr(path, buffer)))
}

/// A list, empty where attributes are not supported.
pub fn listed(list: Result<Vec<u8>, TreeError>) -> Result<Vec<OsString>, TreeError> {
    match list {
        Err(TreeError { cause: crate::tree::Cause::Unsupported, .. }) => Ok(Vec::new()),
        other => other.map(|list| split(&list)),
    }
}

/// Value of one attribute.
pub fn value(path: &CStr, name: &OsStr) -> Result<Vec<u8>, TreeError> {
    fill("read attribute", |buffer| fs::lgetxattr(path, name, buffer))
}

/// Sets one attribute.
pub fn set(path: &CStr, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
    fs::lsetxattr(path, name, value, fs::XattrFlags::empty()).map_err(failed("set attribute"))
}
