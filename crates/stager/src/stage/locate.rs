//! From the paths of a request to what they name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::run::{Run, shown};
use super::similar;
use crate::failure::{ItemFailure, Reason};
use crate::tree::{Cause, EntryKind, Metadata, Tree, TreeError};

/// Symbolic links followed before it counts as a circle, as the kernel does.
const LINKS_MAX: u32 = 40;
/// Names looked at for one like the missing.
const NAMES_MAX: usize = 4096;
/// Mode of directories made on the way to a destination; the user's umask does not reach here.
const DIRECTORY_MODE: u32 = 0o755;

/// Follows the symbolic links a named path ends in. A path that does not exist is itself the answer.
pub fn follow(tree: &dyn Tree, path: &Path) -> Result<(PathBuf, Option<Metadata>), TreeError> {
    let mut path = tidy(path);
    for _ in 0..LINKS_MAX {
        let found = match tree.lstat(&path) {
            Ok(found) => found,
            Err(TreeError { cause: Cause::NotFound, .. }) => return Ok((path, None)),
            Err(error) => return Err(error),
        };
        if found.kind != EntryKind::Symlink {
            return Ok((path, Some(found)));
        }
        let text = tree.read_link(&path)?;
        path = if text.is_absolute() {
            let outside = TreeError { operation: "follow link", cause: Cause::LeadsOutside };
            tidy(text.strip_prefix(tree.root()).map_err(|_| outside)?)
        } else {
            tidy(&path.parent().unwrap_or(Path::new("")).join(text))
        };
    }
    Err(TreeError { operation: "follow link", cause: Cause::SymbolicLink })
}

/// The same path without `.`, empty components and slashes at either end. `..` stays: only the file system knows what it means.
pub fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)).collect()
}

/// Whether there is something above a path.
pub fn has_parent(tree: &dyn Tree, path: &Path) -> bool {
    tree.lstat(path.parent().unwrap_or(Path::new(""))).is_ok()
}

/// The nearest existing directory above a path, as users see it.
pub fn nearest(tree: &dyn Tree, path: &Path) -> PathBuf {
    shown(tree, &nearest_in(tree, path).0)
}

/// The nearest existing directory above, and the first component below it.
fn nearest_in<'p>(tree: &dyn Tree, path: &'p Path) -> (PathBuf, &'p OsStr) {
    let mut missing = path.file_name().unwrap_or_default();
    for above in path.ancestors().skip(1) {
        if tree.lstat(above).is_ok() {
            return (above.to_path_buf(), missing);
        }
        missing = above.file_name().unwrap_or(missing);
    }
    (PathBuf::new(), missing)
}

/// Why a source does not exist: how far the path is right, and what was perhaps meant.
pub fn missing(tree: &dyn Tree, path: &Path) -> Reason {
    let (directory, name) = nearest_in(tree, path);
    let mut names = Vec::new();
    if let Ok(mut stream) = tree.read_dir(&directory) {
        while let Ok(Some(entry)) = stream.next_entry() {
            names.push(entry.name);
            if names.len() >= NAMES_MAX {
                break;
            }
        }
    }
    let similar = similar::nearest(name.as_bytes(), names.iter().map(|name| name.as_bytes()));
    Reason::SourceMissing {
        nearest: shown(tree, &directory),
        similar: similar.map(|name| PathBuf::from(OsStr::from_bytes(name))),
    }
}

/// Makes a directory of the destination, and those above it, where they are missing.
pub fn make_directories(run: &Run<'_>, path: &Path) -> Result<(), ItemFailure> {
    let tree = run.target();
    let failure = |error| run.target_failure(path, error, 0);
    let mut absent = Vec::new();
    for above in path.ancestors() {
        match follow(tree, above).map_err(failure)?.1 {
            None => absent.push(above),
            Some(found) if found.kind == EntryKind::Directory => break,
            Some(found) => return Err(not_directory(tree, above, found.kind)),
        }
    }
    for directory in absent.into_iter().rev() {
        match tree.mkdir(directory, DIRECTORY_MODE) {
            Err(TreeError { cause: Cause::Exists, .. }) => {}
            other => other.map_err(|error| run.target_failure(directory, error, 0))?,
        }
        run.commit.made_in(run, directory.parent().unwrap_or(Path::new(""))).map_err(failure)?;
    }
    Ok(())
}

/// Something else stands where a directory is needed.
pub fn not_directory(tree: &dyn Tree, path: &Path, kind: EntryKind) -> ItemFailure {
    ItemFailure { path: shown(tree, path), reason: Reason::TargetNotDirectory { kind } }
}
