//! The offline check of fragments: do names and data fit together, and is anything in the way of the next start?
//!
//! Every fragment on this machine is locked first, so none is checked that a process serves. Then, for each namespace, the
//! stubs are read where its names are kept, and all substripe files are held against them.
//!
//! What is found is told, one [`Finding`] after the other. With [`Mode::Repair`] a substripe file that nothing accounts for
//! is moved to `lost+found/<namespace>/` of its fragment: that no stub names it does not prove that its file was
//! removed, so its data is never deleted. Only a substripe file without any data goes, since nothing is lost with it.
//!
//! Data is judged only against names that were read completely. Where they are not on this machine, or one stub cannot be
//! read, substripe files are counted as not judged and nothing is moved.
//!
//! Order of events of a move: the directories are made - the record of the counters is marked as out of date - the file is
//! renamed - both directories are synced. A crash in between leaves the file at one place or the other, and the next start
//! counts anew.
//!
//! Memory: one entry for each striped file. One thread; any thread may call.

mod data;
mod finding;
mod identity;
mod names;
#[cfg(test)]
mod tests;

pub use finding::{Finding, Outcome, Problem, Summary};

use crate::fragment::{DIRECTORY, Fragment, NAMESPACES};
use crate::host::host;
use forebay_wire::{FsError, Result};
use names::Names;
use rustix::fs::{Dir, Mode as FileMode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Where things go that nothing accounts for, in each fragment.
pub const LOST: &str = "lost+found";

/// Whether anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Look,
    /// What nothing accounts for is moved out of the way.
    Repair,
}

/// A fragment on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which of the instance's servers it belongs to.
    pub position: u32,
    /// Its directory.
    pub root: PathBuf,
}

/// An instance as its configuration has it, as far as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Servers it has, here or elsewhere.
    pub servers: u32,
    /// Its fragments on this machine.
    pub parts: Vec<Part>,
    /// Its namespaces, each with the position of the server that keeps its names.
    pub namespaces: Vec<(String, u32)>,
}

/// A fragment that is being checked.
struct Opened {
    position: u32,
    fragment: Fragment,
}

/// Checks; `sink` is told every finding when it is made. `Busy` when a process serves one of the fragments.
pub fn check(instance: &Instance, mode: Mode, sink: &mut dyn FnMut(&Finding)) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut report = Report { summary: &mut summary, sink };
    let parts = open(instance)?;
    // Otherwise they may be mixed up: what is an orphan here may be another instance's file.
    if identity::agree(instance, &parts, &mut report)? {
        for name in namespaces(instance, &parts, &mut report)? {
            check_namespace(instance, &name, &parts, mode, &mut report)?;
        }
    }
    Ok(summary)
}

/// Where findings go.
struct Report<'a> {
    summary: &'a mut Summary,
    sink: &'a mut dyn FnMut(&Finding),
}

impl Report<'_> {
    fn tell(&mut self, finding: Finding) {
        self.summary.count(&finding);
        (self.sink)(&finding);
    }
}

fn check_namespace(
    instance: &Instance,
    name: &str,
    parts: &[Opened],
    mode: Mode,
    report: &mut Report<'_>,
) -> Result<()> {
    let home = instance.namespaces.iter().find(|(known, _)| known == name).map(|(_, home)| *home);
    let at_home = parts.iter().find(|part| Some(part.position) == home);
    let names = match at_home {
        Some(part) => names::read(instance, name, part, report)?,
        None => Names::default(),
    };
    report.summary.files += names.files();
    let judge = at_home.is_some() && names.complete();
    for part in parts {
        let work = data::Work { namespace: name, part, all: parts, names: judge.then_some(&names), mode };
        work.check(report)?;
    }
    Ok(())
}

fn open(instance: &Instance) -> Result<Vec<Opened>> {
    let open =
        |part: &Part| Ok(Opened { position: part.position, fragment: Fragment::open(&part.root, None)? });
    instance.parts.iter().map(open).collect()
}

/// Names of all namespaces that the configuration or a fragment knows.
fn namespaces(instance: &Instance, parts: &[Opened], report: &mut Report<'_>) -> Result<Vec<String>> {
    let mut found: Vec<String> = instance.namespaces.iter().map(|(name, _)| name.clone()).collect();
    for part in parts {
        let Some(directory) = open_if_there(&part.fragment.root, NAMESPACES)? else { continue };
        for name in entries(&directory)? {
            let text = name.to_string_lossy().into_owned();
            if !found.contains(&text) {
                let problem = Problem::UnknownNamespace;
                report.tell(Finding::left(part.position, Some(&text), problem));
                found.push(text);
            }
        }
    }
    Ok(found)
}

fn open_if_there(parent: &OwnedFd, name: &str) -> Result<Option<OwnedFd>> {
    match rustix::fs::openat(parent, name, DIRECTORY, FileMode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(host("open a directory of a fragment")(errno)),
    }
}

/// All names of a directory but `.` and `..`. Only for directories of ours, which are small.
fn entries(directory: &OwnedFd) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(host("list a directory of a fragment"))? {
        let entry = entry.map_err(host("list a directory of a fragment"))?;
        if !is_dot(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// An error of one object becomes a finding; `Err` is kept for what ends the check.
fn said(error: FsError) -> String {
    error.to_string()
}
