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

const MISSING: FsError = FsError::Damaged { what: "fragment.json is missing" };

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// Version of the layout on disk.
    pub(crate) format: u32,
    /// What all fragments of one instance share, hexadecimal: a random number, or what the servers were told.
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
        let record = record.as_ref().ok_or(MISSING)?;
        if record.instance != first.instance {
            return Err(FsError::Damaged { what: "the fragments are of different instances" });
        }
        check(record, index as u32, fragments.len() as u32)?;
    }
    Ok(())
}

/// Sees to it that a fragment that is opened by itself is the one of this position.
pub(crate) fn check_or_write_one(
    fragment: &Fragment,
    instance: &str,
    position: u32,
    servers: u32,
) -> Result<()> {
    match read(fragment)? {
        Some(record) if record.instance != instance => {
            Err(FsError::Damaged { what: "the fragment is of another instance" })
        }
        Some(record) => check(&record, position, servers),
        None => {
            check_empty(fragment)?;
            let instance = instance.to_owned();
            write(fragment, &Identity { format: FORMAT, instance, index: position, count: servers })
        }
    }
}

fn check(record: &Identity, index: u32, count: u32) -> Result<()> {
    if record.format != FORMAT {
        return Err(FsError::Damaged { what: "fragment.json has an unknown format" });
    }
    if record.index != index || record.count != count {
        return Err(FsError::Damaged { what: "fragments are missing or in another order" });
    }
    Ok(())
}

pub(crate) fn read(fragment: &Fragment) -> Result<Option<Identity>> {
    let Some(content) = read_file(&fragment.root, RECORD)? else { return Ok(None) };
    let record = serde_json::from_slice(&content);
    record.map(Some).map_err(|_| FsError::Damaged { what: "fragment.json cannot be read" })
}

/// A fragment without a record must be new.
fn check_empty(fragment: &Fragment) -> Result<()> {
    match rustix::fs::statat(&fragment.root, NAMESPACES, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(host("stat of fragment")(errno)),
        Ok(_) => Err(MISSING),
    }
}

fn write_all(fragments: &[Fragment]) -> Result<()> {
    fragments.iter().try_for_each(check_empty)?;
    let instance = random_name()?;
    for (index, fragment) in fragments.iter().enumerate().rev() {
        let (index, count) = (index as u32, fragments.len() as u32);
        write(fragment, &Identity { format: FORMAT, instance: instance.clone(), index, count })?;
    }
    Ok(())
}

fn write(fragment: &Fragment, record: &Identity) -> Result<()> {
    let text = serde_json::to_vec(record)
        .map_err(|_| FsError::Damaged { what: "fragment.json cannot be written" })?;
    replace_file(&fragment.root, RECORD, &text, true)
}

/// 128 random bits of the kernel's, hexadecimal.
fn random_name() -> Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| FsError::Host {
        operation: "read a random number",
        errno: error.raw_os_error().unwrap_or_default(),
    })?;
    Ok(text.trim().replace('-', ""))
}
