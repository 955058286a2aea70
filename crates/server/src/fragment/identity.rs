//! Which fragment of which instance a directory is: `fragment.json`.
//!
//! Order of events when an instance is opened for the first time: the records are written one fragment after the
//! other, fragment 0 last. A crash before the last leaves an instance without a record on fragment 0; the next open
//! writes all again, which is refused when any fragment already holds names or data.

use super::{FORMAT, Fragment, NAMESPACES, read_file, replace_file};
use crate::host::host;
use forebay_wire::{FsError, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const RECORD: &str = "fragment.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// Version of the layout on disk.
    pub(crate) format: u32,
    /// Random number that all fragments of one instance share, hexadecimal.
    pub(crate) instance: String,
    /// Position of this fragment.
    pub(crate) index: u32,
    /// Fragments of the instance.
    pub(crate) count: u32,
}

/// Sees to it that the fragments belong together and are all there, in order.
pub(crate) fn check_or_write(fragments: &[Fragment]) -> Result<()> {
    let records = fragments.iter().map(read).collect::<Result<Vec<_>>>()?;
    let Some(first) = &records[0] else { return write_all(fragments) };
    for (index, record) in records.iter().enumerate() {
        let record = record.as_ref().ok_or(FsError::Damaged { what: "fragment.json is missing" })?;
        if record.format != FORMAT {
            return Err(FsError::Damaged { what: "fragment.json has an unknown format" });
        }
        if record.instance != first.instance {
            return Err(FsError::Damaged { what: "the fragments are of different instances" });
        }
        if record.index as usize != index || record.count as usize != fragments.len() {
            return Err(FsError::Damaged { what: "fragments are missing or in another order" });
        }
    }
    Ok(())
}

/// What a fragment says that it is; `None` when it says nothing.
pub(crate) fn read(fragment: &Fragment) -> Result<Option<Identity>> {
    let Some(content) = read_file(&fragment.root, RECORD)? else { return Ok(None) };
    let record = serde_json::from_slice(&content);
    record.map(Some).map_err(|_| FsError::Damaged { what: "fragment.json cannot be read" })
}

fn write_all(fragments: &[Fragment]) -> Result<()> {
    for fragment in fragments {
        match rustix::fs::statat(&fragment.root, NAMESPACES, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(host("stat of fragment")(errno)),
            Ok(_) => return Err(FsError::Damaged { what: "fragment.json is missing" }),
        }
    }
    let instance = random_name()?;
    for (index, fragment) in fragments.iter().enumerate().rev() {
        let (index, count) = (index as u32, fragments.len() as u32);
        let record = Identity { format: FORMAT, instance: instance.clone(), index, count };
        let text = serde_json::to_vec(&record)
            .map_err(|_| FsError::Damaged { what: "fragment.json cannot be written" })?;
        replace_file(&fragment.root, RECORD, &text, true)?;
    }
    Ok(())
}

/// 128 random bits of the kernel's, hexadecimal.
fn random_name() -> Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| FsError::Host {
        operation: "read a random number",
        errno: error.raw_os_error().unwrap_or_default(),
    })?;
    Ok(text.trim().replace('-', ""))
}
