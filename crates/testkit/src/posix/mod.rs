//! What POSIX and Linux promise of a file system, as a table of cases.
//!
//! [`run`] takes any directory and judges it with the eyes of the calling user: it must pass on a local file system,
//! and then it must pass on DWFS. Every case works in a fresh directory of its own, which is its working directory, with
//! the file creation mask cleared. Cases that need root make children with other identities; they show that the kernel
//! checks permissions with the right owner, group and mode.
//!
//! Must run in a process with one thread (cases fork), which is what the command `forebay-suite posix` is for.

pub mod check;

mod capacity;
mod child;
mod data;
mod directories;
mod files;
mod links;
mod locks;
mod many;
mod maps;
mod modes;
mod nodes;
mod opening;
mod paths;
mod permissions;
mod reading_directories;
mod removing;
mod renaming;
mod space;
mod times;
mod truncating;
mod xattrs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Whose eyes a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Any user.
    Anyone,
    /// Root, because it becomes other users or makes what only root may.
    Root,
    /// Anybody but root, because root may do everything.
    User,
}

/// What a case costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Milliseconds.
    Small,
    /// Seconds: many files.
    Many,
    /// Fills the whole file system: only where it is small and there is no other user.
    FillsUp,
}

/// One behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `file::behaviour`.
    pub name: &'static str,
    /// Whose eyes.
    pub who: Who,
    /// What it costs.
    pub cost: Cost,
    run: fn(),
}

impl Case {
    const fn costing(self, cost: Cost) -> Case {
        Case { cost, ..self }
    }
}

/// A case named after its function and its file.
macro_rules! case {
    ($who:ident $run:ident) => {
        $crate::posix::Case {
            name: concat!(module_path!(), "::", stringify!($run)),
            who: $crate::posix::Who::$who,
            cost: $crate::posix::Cost::Small,
            run: $run,
        }
    };
}
use case;

/// Which cases to run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Only cases whose name contains this.
    pub name: Option<String>,
    /// Which costs are acceptable.
    pub costs: Vec<Cost>,
    /// The caller is root.
    pub root: bool,
}

/// What one case came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the case.
    pub name: &'static str,
    /// Its checks.
    pub tally: check::Tally,
}

/// All cases of the suite.
pub fn cases() -> impl Iterator<Item = Case> {
    let tables: [&[Case]; 19] = [
        opening::CASES,
        directories::CASES,
        nodes::CASES,
        links::CASES,
        renaming::CASES,
        removing::CASES,
        truncating::CASES,
        data::CASES,
        modes::CASES,
        times::CASES,
        permissions::CASES,
        paths::CASES,
        reading_directories::CASES,
        xattrs::CASES,
        space::CASES,
        locks::CASES,
        maps::CASES,
        many::CASES,
        capacity::CASES,
    ];
    tables.into_iter().flatten().copied()
}

/// Runs the selected cases in `directory`, one after the other, telling each outcome as it comes.
///
/// A case without a single check counts as failed: it proves nothing.
pub fn run(directory: &Path, selection: &Selection, mut tell: impl FnMut(&Outcome)) -> io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::empty());
    // Cases have working directories of their own.
    let directory = &fs::canonicalize(directory)?;
    for case in cases().filter(|case| wanted(case, selection)) {
        let place = CasePlace::enter(directory, case.name)?;
        let mut tally = child::tally_of(case.run);
        if tally.checks == 0 {
            tally.failures.push("the case checked nothing".into());
        }
        tally.failures.extend(place.leave(directory).err().map(|error| format!("cleaning up: {error}")));
        tell(&Outcome { name: case.name, tally });
    }
    Ok(())
}

fn wanted(case: &Case, selection: &Selection) -> bool {
    let eyes = match case.who {
        Who::Anyone => true,
        Who::Root => selection.root,
        Who::User => !selection.root,
    };
    let named = selection.name.as_ref().is_none_or(|part| case.name.contains(part.as_str()));
    eyes && named && selection.costs.contains(&case.cost)
}

/// The directory of one case while it is the working directory.
struct CasePlace {
    path: PathBuf,
}

impl CasePlace {
    fn enter(directory: &Path, name: &str) -> io::Result<CasePlace> {
        let path = directory.join(name.rsplit("::").next().unwrap_or(name));
        fs::create_dir(&path)?;
        std::env::set_current_dir(&path)?;
        Ok(CasePlace { path })
    }

    fn leave(self, directory: &Path) -> io::Result<()> {
        std::env::set_current_dir(directory)?;
        fs::remove_dir_all(&self.path)
    }
}
