//! From paths to inodes.

use super::cause::cause;
use super::entry;
use forebay_client::Volume;
use forebay_stager::Cause;
use forebay_wire::{Attr, FileKind, Ino};
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Symbolic links followed in one path, as many as Linux follows.
const LINKS_LIMIT: u32 = 40;
/// Directories remembered.
const REMEMBERED: usize = 256;

/// An inode that the volume counts as in use until this is dropped. The root is not counted.
pub(crate) struct Held {
    volume: Arc<Volume>,
    /// Its attributes when it was looked up.
    pub attr: Attr,
}

impl Held {
    /// Takes over one count that the volume has made.
    pub fn new(volume: Arc<Volume>, attr: Attr) -> Held {
        Held { volume, attr }
    }

    pub fn ino(&self) -> Ino {
        self.attr.ino
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.attr.ino != Ino::ROOT {
            self.volume.forget(self.attr.ino, 1);
        }
    }
}

/// A name in a directory; the name need not exist.
pub(crate) struct Place<'p> {
    pub parent: Arc<Held>,
    pub name: &'p OsStr,
}

/// Resolves paths in one volume.
pub(crate) struct Resolver {
    volume: Arc<Volume>,
    shown: PathBuf,
    remembered: Mutex<HashMap<PathBuf, Arc<Held>>>,
    /// Directories below which no symbolic link is followed.
    plain: Mutex<Vec<(PathBuf, Arc<Held>)>>,
}

impl Resolver {
    pub fn new(volume: Arc<Volume>, shown: &Path) -> Resolver {
        Resolver { volume, shown: shown.to_owned(), remembered: Mutex::default(), plain: Mutex::default() }
    }

    /// From now on no symbolic link is followed below this directory.
    pub fn hold(&self, directory: &Path) -> Result<(), Cause> {
        let found = self.directory(directory)?;
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).push((directory.to_owned(), found));
        Ok(())
    }

    /// The directory and the last name of a path. The root has no place.
    pub fn place<'p>(&self, path: &'p Path) -> Result<Place<'p>, Cause> {
        let name = path.file_name().ok_or(Cause::Exists)?;
        let parent = self.directory(path.parent().unwrap_or(Path::new("")))?;
        Ok(Place { parent, name })
    }

    /// What stands at a path, not followed.
    pub fn entry(&self, path: &Path) -> Result<Held, Cause> {
        if path.as_os_str().is_empty() {
            return self.root();
        }
        let place = self.place(path)?;
        self.lookup(place.parent.ino(), place.name)
    }

    /// After something was renamed, these paths may lead elsewhere.
    pub fn renamed(&self, from: &Path, to: &Path) {
        self.remembered().retain(|path, _| !path.starts_with(from) && !path.starts_with(to));
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Arc<Held>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self, path: &Path) -> Result<Arc<Held>, Cause> {
        if let Some(known) = self.remembered().get(path) {
            return Ok(Arc::clone(known));
        }
        let found = self.walk(path)?;
        let mut remembered = self.remembered();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(path.to_owned(), Arc::clone(&found));
        Ok(found)
    }

    fn root(&self) -> Result<Held, Cause> {
        let attr = self.volume.getattr(Ino::ROOT, None).map_err(cause)?;
        Ok(Held::new(Arc::clone(&self.volume), attr))
    }

    fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Held, Cause> {
        let attr = self.volume.lookup(super::caller(), parent, name).map_err(cause)?;
        Ok(Held::new(Arc::clone(&self.volume), attr))
    }

    /// The held directory that a path is in, and the way from there.
    fn held<'p>(&self, path: &'p Path) -> Option<(Arc<Held>, &'p Path)> {
        let plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(top, held): &(PathBuf, Arc<Held>)| Some((Arc::clone(held), path.strip_prefix(top).ok()?));
        plain.iter().filter_map(of).min_by_key(|(_, rest)| rest.as_os_str().len())
    }

    fn walk(&self, path: &Path) -> Result<Arc<Held>, Cause> {
        match self.held(path) {
            Some((top, rest)) => self.walk_plain(top, rest),
            None => self.walk_following(path),
        }
    }

    /// Goes down from a directory, where nothing on the way may be a symbolic link.
    fn walk_plain(&self, top: Arc<Held>, path: &Path) -> Result<Arc<Held>, Cause> {
        let mut here = top;
        for name in names(path)? {
            if name == ".." {
                return Err(Cause::LeadsOutside);
            }
            let found = self.lookup(here.ino(), &name)?;
            match found.attr.kind {
                FileKind::Directory => here = Arc::new(found),
                FileKind::Symlink => return Err(Cause::SymbolicLink),
                _ => return Err(Cause::NotDirectory),
            }
        }
        Ok(here)
    }

    /// Follows a path to a directory, symbolic links included, never out of the namespace.
    fn walk_following(&self, path: &Path) -> Result<Arc<Held>, Cause> {
        let mut stack = vec![Arc::new(self.root()?)];
        let mut ahead: VecDeque<OsString> = names(path)?;
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                stack.pop();
                if stack.is_empty() {
                    return Err(Cause::LeadsOutside);
                }
                continue;
            }
            let here = stack.last().map_or(Ino::ROOT, |directory| directory.ino());
            let found = self.lookup(here, &name)?;
            match found.attr.kind {
                FileKind::Directory => stack.push(Arc::new(found)),
                FileKind::Symlink => {
                    links += 1;
                    if links > LINKS_LIMIT {
                        return Err(Cause::SymbolicLink);
                    }
                    let target = entry::read_link(&self.volume, found.ino()).map_err(cause)?;
                    let rest = self.inside(&target, &mut stack)?;
                    for name in names(&rest)?.into_iter().rev() {
                        ahead.push_front(name);
                    }
                }
                _ => return Err(Cause::NotDirectory),
            }
        }
        stack.pop().ok_or(Cause::LeadsOutside)
    }

    /// A link's text as a path from the top of `stack`, which an absolute one moves to the root.
    fn inside(&self, target: &Path, stack: &mut Vec<Arc<Held>>) -> Result<PathBuf, Cause> {
        if !target.is_absolute() {
            return Ok(target.to_owned());
        }
        stack.truncate(1);
        target.strip_prefix(&self.shown).map(Path::to_owned).map_err(|_| Cause::LeadsOutside)
    }
}

/// The names of a relative path; `..` stays, `.` does not.
fn names(path: &Path) -> Result<VecDeque<OsString>, Cause> {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| match component {
            Component::Normal(name) => Ok(name.to_owned()),
            Component::ParentDir => Ok("..".into()),
            _ => Err(Cause::LeadsOutside),
        })
        .collect()
}
