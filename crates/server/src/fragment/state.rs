//! What the last process knew when it closed the instance: `state.json` on fragment 0, or, where every fragment has a
//! process of its own, on each for itself.
//!
//! It spares the next open a walk over all files. It names the boot in which it was written, so after a power cut,
//! as after the crash of a process, it does not count and the walk of [`crate::recover`] is made. So it is synced only
//! for the sake of the file ids ([`crate::ids`]).
//! While an instance is open the record says so (`clean: false`). A record that cannot be read is like none.

use super::{Fragment, read_file, replace_file};
use crate::boot::Boot;
use crate::host::host;
use forebay_wire::{FsError, Moved, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const RECORD: &str = "state.json";

/// Counters of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// Nobody has the instance open, and the counters are right.
    clean: bool,
    /// The boot that this was written in.
    boot: String,
    /// The next file id that was never given away.
    pub(crate) next_file: u64,
    /// Used bytes of each fragment, 0 where nothing is counted.
    pub(crate) used: Vec<u64>,
    /// Files created, by namespace.
    pub(crate) created: BTreeMap<String, u64>,
    /// What was read and written by users of a namespace: bytes read and written, ends of the furthest read and write.
    #[serde(default)]
    moved: BTreeMap<String, [u64; 4]>,
    /// What stagings took out of a namespace and brought in, in bytes.
    #[serde(default)]
    staged: BTreeMap<String, [u64; 2]>,
}

impl State {
    /// These counters, neither open nor closed.
    pub(crate) fn counters(next_file: u64, used: Vec<u64>, created: BTreeMap<String, u64>) -> State {
        State { next_file, used, created, ..State::default() }
    }

    /// With what was read and written.
    pub(crate) fn and_moved(self, by_namespace: BTreeMap<String, Moved>) -> State {
        let mut state = self;
        for (name, of) in by_namespace {
            let moved = [of.bytes_read, of.bytes_written, of.max_offset_read, of.max_offset_written];
            state.staged.insert(name.clone(), [of.stage_bytes_read, of.stage_bytes_written]);
            state.moved.insert(name, moved);
        }
        state
    }

    /// What was read and written, by namespace.
    pub(crate) fn moved(&self) -> BTreeMap<String, Moved> {
        let names = self.moved.keys().chain(self.staged.keys()).cloned();
        names.map(|name| (name.clone(), self.moved_in(&name))).collect()
    }

    fn moved_in(&self, name: &str) -> Moved {
        let [bytes_read, bytes_written, max_offset_read, max_offset_written] =
            self.moved.get(name).copied().unwrap_or_default();
        let [stage_bytes_read, stage_bytes_written] = self.staged.get(name).copied().unwrap_or_default();
        Moved {
            bytes_read,
            bytes_written,
            max_offset_read,
            max_offset_written,
            stage_bytes_read,
            stage_bytes_written,
        }
    }
}

/// The state of an instance that was closed in this boot; `None` when the files have to be walked. The second value
/// is a lower bound for file ids from a record that is otherwise out of date.
pub(crate) fn read(fragments: &[Fragment]) -> Result<(Option<State>, u64)> {
    let Some(content) = read_file(&fragments[0].root, RECORD)? else { return Ok((None, 0)) };
    let Ok(state) = serde_json::from_slice::<State>(&content) else { return Ok((None, 0)) };
    let next_file = state.next_file;
    let usable = state.clean && state.used.len() == fragments.len() && boot().as_ref() == Some(&state.boot);
    Ok((usable.then_some(state), next_file))
}

/// Says that the instance is open. Nothing else of the record counts until it is closed, except that file ids below
/// `next_file` are taken.
pub(crate) fn write_open(fragment: &Fragment, next_file: u64, durable: bool) -> Result<()> {
    write(fragment, &State { next_file, ..State::default() }, durable)
}

/// Removes the record of a fragment that is opened together with others: it would be out of date.
pub(crate) fn forget(fragment: &Fragment) -> Result<()> {
    match rustix::fs::unlinkat(&fragment.root, RECORD, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(host("remove the state of a fragment")(errno)),
    }
}

/// Says that the instance is closed and these are its counters.
pub(crate) fn write_closed(fragment: &Fragment, state: State) -> Result<()> {
    let boot = boot();
    write(fragment, &State { clean: boot.is_some(), boot: boot.unwrap_or_default(), ..state }, false)
}

/// Says that the counters are out of date, so that the next open walks. Nothing to do where there is no record.
pub(crate) fn forget_counters(fragment: &Fragment) -> Result<()> {
    let Some(content) = read_file(&fragment.root, RECORD)? else { return Ok(()) };
    match serde_json::from_slice::<State>(&content) {
        Ok(state) => write_open(fragment, state.next_file, false),
        // A record that cannot be read does not count already.
        Err(_) => Ok(()),
    }
}

fn write(fragment: &Fragment, state: &State, durable: bool) -> Result<()> {
    let text =
        serde_json::to_vec(state).map_err(|_| FsError::Damaged { what: "state.json cannot be written" })?;
    replace_file(&fragment.root, RECORD, &text, durable)
}

fn boot() -> Option<String> {
    Boot::present().ok().map(|boot| boot.to_string())
}
