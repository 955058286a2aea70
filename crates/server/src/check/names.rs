//! The stubs of a namespace: which content there has to be.
//!
//! Read are the tree of names and the files that lost their name while somebody had them open (`open`): their content
//! belongs to whoever reclaims them at the next start.

use super::{Finding, Instance, Opened, Problem, Report, open_if_there, said};
use crate::fragment::{DIRECTORY, NAMESPACES};
use crate::host::host;
use crate::metadata::{ATTRIBUTE, Annotation, TEXT_MAX, is_marked};
use forebay_model::layout::{Layout, Substripe};
use forebay_wire::{FileId, FileKind, FsError, Result};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Directories of a namespace that hold stubs.
const TREES: [&str; 2] = ["tree", "open"];

/// A striped file as its stub has it.
struct Known {
    layout: Layout,
    size: u64,
    inode: u64,
}

/// All striped files of a namespace.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<FileId, Known>,
    incomplete: bool,
}

impl Names {
    /// Number of striped files.
    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Every stub was read.
    pub(super) fn complete(&self) -> bool {
        !self.incomplete
    }

    /// How long a substripe file of a server can be; `None` for content that no stub names, `Some(None)` when its layout
    /// has no such file there.
    pub(super) fn share_len(&self, file: FileId, server: u32, index: u32) -> Option<Option<u64>> {
        let known = self.files.get(&file)?;
        let layout = known.layout;
        let slot = (0..layout.stripe_count()).find(|slot| layout.server(*slot) == server);
        let slot = slot.filter(|_| index < layout.substripes());
        Some(slot.map(|slot| layout.share_len(Substripe { slot, index }, known.size)))
    }
}

/// Reads all stubs of a namespace.
pub(super) fn read(
    instance: &Instance,
    namespace: &str,
    home: &Opened,
    report: &mut Report<'_>,
) -> Result<Names> {
    let mut reader = Reader { instance, namespace, home, report, names: Names::default() };
    let Some(all) = open_if_there(&home.fragment.root, NAMESPACES)? else { return Ok(reader.names) };
    let Some(own) = open_if_there(&all, namespace)? else { return Ok(reader.names) };
    for tree in TREES {
        if let Some(root) = open_if_there(&own, tree)? {
            reader.walk(root)?;
        }
    }
    Ok(reader.names)
}

struct Reader<'a, 'r> {
    instance: &'a Instance,
    namespace: &'a str,
    home: &'a Opened,
    report: &'a mut Report<'r>,
    names: Names,
}

impl Reader<'_, '_> {
    /// Walks a tree with one descriptor for each level; iterative, since users make deep trees.
    fn walk(&mut self, root: OwnedFd) -> Result<()> {
        let mut path = PathBuf::new();
        let mut open = vec![Dir::new(root).map_err(host("list a directory"))?];
        while let Some(entries) = open.last_mut() {
            let entry = match entries.next() {
                Some(Ok(entry)) => entry,
                ended => {
                    if let Some(Err(errno)) = ended {
                        self.unreadable(&path, said(host("list a directory")(errno)));
                    }
                    open.pop();
                    path.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            if super::is_dot(name) {
                continue;
            }
            path.push(OsStr::from_bytes(name.to_bytes()));
            let directory = entries.fd().map_err(host("list a directory"))?;
            match self.visit(directory, name, &path) {
                Ok(Some(next)) => open.push(next),
                Ok(None) => drop(path.pop()),
                Err(error) => {
                    self.unreadable(&path, said(error));
                    path.pop();
                }
            }
        }
        Ok(())
    }

    /// Looks at one object; a directory is returned open.
    fn visit(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &std::path::Path,
    ) -> Result<Option<Dir>> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat"))?;
        match FileKind::from_mode(stat.st_mode) {
            Some(FileKind::Directory) => {
                let next = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())
                    .map_err(host("open a directory"))?;
                Dir::new(next).map(Some).map_err(host("list a directory"))
            }
            Some(FileKind::Regular) if is_marked(&stat) => {
                if let Some((file, layout)) = annotation_of(directory, name, &stat)?.striped {
                    self.found(file, layout, &stat, path);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn found(&mut self, file: FileId, layout: Layout, stat: &Stat, path: &std::path::Path) {
        if layout.servers() != self.instance.servers {
            self.problem(Problem::OtherServers { path: path.to_owned(), servers: layout.servers() });
        }
        let known = Known { layout, size: stat.st_size as u64, inode: stat.st_ino };
        let before = self.names.files.insert(file, known);
        // Hard links are one inode under several names.
        if before.is_some_and(|before| before.inode != stat.st_ino) {
            self.problem(Problem::SharedContent { path: path.to_owned(), file });
        }
    }

    fn unreadable(&mut self, path: &std::path::Path, reason: String) {
        self.names.incomplete = true;
        self.problem(Problem::Unreadable { path: path.to_owned(), reason });
    }

    fn problem(&mut self, problem: Problem) {
        self.report.tell(Finding::left(self.home.position, Some(self.namespace), problem));
    }
}

/// A marked stub without the attribute is what a crash in the middle of making it left, and counts as inline
/// ([`crate::metadata`]): it is empty, or what was written since is in it. One that has a length and holds nothing has lost
/// the word about where its content is.
fn annotation_of(directory: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<Annotation> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stub = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(host("open a stub"))?;
    let mut text = [0; TEXT_MAX];
    match rustix::fs::fgetxattr(&stub, ATTRIBUTE, &mut text) {
        Ok(length) => Annotation::parse(&text[..length]),
        Err(Errno::NODATA) if stat.st_size == 0 || stat.st_blocks > 0 => Ok(Annotation::default()),
        Err(Errno::NODATA) => {
            Err(FsError::Damaged { what: "the attribute user.dwfs.stub of a stub is missing" })
        }
        Err(errno) => Err(host("read the attribute of a stub")(errno)),
    }
}
