//! The walker: from the request to names in the queue, and the directories of the target.
//!
//! One thread. Depth first, so that few directories are unfinished at a time. Up to [`OPEN_MAX`] directories are open; below
//! that depth the names of sub-directories are read before the first is entered (only those, and only of the directories on
//! the way).

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::Entry;
use super::leftover;
use super::locate::{self, tidy};
use super::node::{Node, Target};
use super::run::{Run, shown};
use crate::failure::{ItemFailure, Reason};
use crate::request::{Direction, ListPair, What};
use crate::tree::{Cause, DirStream, EntryKind, Metadata, TreeError};

/// Directories open at once.
const OPEN_MAX: usize = 64;
/// Names handed over together.
const CHUNK: usize = 64;
/// ... or fewer, while workers have nothing to do.
const CHUNK_STARVING: usize = 8;
/// Files of a list checked for space beforehand; a longer list is not.
const CHECKED_MAX: usize = 4096;

/// Walks the request.
pub fn walk<'r>(run: &Run<'r>) {
    let mut walker = Walker { run, chunk: Vec::new(), target_top: None };
    let done = match &run.request.what {
        What::File(pair) => walker.list(std::slice::from_ref(pair)),
        What::List { pairs } => walker.list(pairs),
        What::Directory(pair) => walker.directory(pair),
    };
    if let Err(failure) = done {
        run.fail(failure);
    }
    walker.hand_over();
}

struct Walker<'w, 'r> {
    run: &'w Run<'r>,
    chunk: Vec<Entry>,
    /// Device and inode of the directory everything goes into; a source directory must not be it.
    target_top: Option<(u64, u64)>,
}

/// A directory being read.
struct Level<'w> {
    node: Arc<Node>,
    stream: Option<Box<dyn DirStream + 'w>>,
    /// Sub-directories read ahead.
    ahead: Vec<OsString>,
}

impl<'w, 'r> Walker<'w, 'r> {
    fn push(&mut self, entry: Entry) {
        self.run.account.entries_found.add(1);
        self.chunk.push(entry);
        let length = self.chunk.len();
        if length >= CHUNK || (length >= CHUNK_STARVING && self.run.queue.is_starving()) {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if !self.chunk.is_empty() {
            self.run.queue.push_names(std::mem::take(&mut self.chunk), &|| self.run.stopping());
        }
    }

    fn list(&mut self, pairs: &[ListPair]) -> Result<(), ItemFailure> {
        self.check_space(pairs)?;
        let mut targets = HashMap::new();
        for pair in pairs {
            if self.run.stopping() {
                return Ok(());
            }
            if let Err(failure) = self.named(pair, &mut targets) {
                self.run.fail(failure);
            }
        }
        Ok(())
    }

    /// One file the request names.
    fn named<'p>(
        &mut self,
        pair: &'p ListPair,
        targets: &mut HashMap<PathBuf, &'p Path>,
    ) -> Result<(), ItemFailure> {
        let run = self.run;
        let (source, found) = follow_source(run, &pair.source).inspect_err(|_| {
            if let Ok(target) = self.target_of(pair) {
                leftover::remove(run, &target);
            }
        })?;
        let target = self.target_of(pair)?;
        if let Some(other) = targets.insert(target.clone(), &pair.source) {
            let reason = Reason::DuplicateTarget { other: shown(run.source(), other) };
            return Err(ItemFailure { path: shown(run.target(), &target), reason });
        }
        let directory = target.parent().unwrap_or(Path::new("")).to_path_buf();
        self.prepare(&directory)?;
        if let Ok(there) = run.target().lstat(&target)
            && (there.device, there.inode) == (found.device, found.inode)
        {
            return Err(overlap(run, &source, &target));
        }
        let (Some(name), Some(renamed)) = (source.file_name(), target.file_name()) else {
            let reason = Reason::NotRegularFile { kind: EntryKind::Directory };
            return Err(ItemFailure { path: shown(run.source(), &source), reason });
        };
        let above = source.parent().unwrap_or(Path::new("")).to_path_buf();
        let dir = Node::new(None, above, Target { path: directory, is_fresh: false, is_whole: false }, None);
        self.push(Entry { dir, name: name.into(), renamed: Some(renamed.into()), kind: None, named: true });
        Ok(())
    }

    /// Where a named file goes: links in the last component are followed, so that the file a link leads to is replaced and not
    /// the link.
    fn target_of(&self, pair: &ListPair) -> Result<PathBuf, ItemFailure> {
        let tree = self.run.target();
        let text = pair.destination.as_os_str().as_encoded_bytes();
        let mut target = tidy(&pair.destination);
        if text.is_empty() || text.ends_with(b"/") {
            target.push(pair.source.file_name().unwrap_or_default());
        }
        let followed = locate::follow(tree, &target);
        match followed {
            Ok((path, found)) => match found.map(|found| found.kind) {
                Some(EntryKind::Directory) => {
                    Err(ItemFailure { path: shown(tree, &target), reason: Reason::TargetIsDirectory })
                }
                _ => Ok(path),
            },
            // Something that is no directory is in the way; the preparation says what.
            Err(TreeError { cause: Cause::NotDirectory, .. }) => Ok(target),
            Err(error) => Err(self.run.target_failure(&target, error, 0)),
        }
    }

    /// The directory of a named file: made by a stage-in, only looked for by a stage-out.
    fn prepare(&self, directory: &Path) -> Result<(), ItemFailure> {
        let run = self.run;
        if run.request.direction == Direction::In {
            locate::make_directories(run, directory)?;
        }
        let (path, found) = locate::follow(run.target(), directory)
            .map_err(|error| run.target_failure(directory, error, 0))?;
        match found {
            Some(found) if found.kind == EntryKind::Directory => {
                run.commit.will_write(run, &path, &found).map_err(|error| run.target_failure(&path, error, 0))
            }
            Some(found) => Err(locate::not_directory(run.target(), directory, found.kind)),
            None => {
                let reason =
                    Reason::TargetDirectoryMissing { nearest: locate::nearest(run.target(), directory) };
                Err(ItemFailure { path: shown(run.target(), directory), reason })
            }
        }
    }

    /// Whether what is named can fit: an answer before the first byte is moved. Holes need no room. Not asked when blocks may be
    /// shared, when a part may be there already, or for a list too long to be looked at twice.
    fn check_space(&self, pairs: &[ListPair]) -> Result<(), ItemFailure> {
        let run = self.run;
        if pairs.len() > CHECKED_MAX || run.journal.as_ref().is_some_and(|journal| !journal.is_empty()) {
            return Ok(());
        }
        let Some(first) = pairs.first() else { return Ok(()) };
        let above = tidy(&first.destination);
        let Some(space) = above.ancestors().find_map(|above| run.target().space(above).ok()) else {
            return Ok(());
        };
        let Some(device) =
            above.ancestors().find_map(|above| run.target().lstat(above).ok()).map(|found| found.device)
        else {
            return Ok(());
        };
        let mut needed = 0u64;
        for pair in pairs {
            if let Ok((_, Some(found))) = locate::follow(run.source(), &pair.source) {
                if found.device == device {
                    return Ok(());
                }
                needed = needed.saturating_add(found.allocated.min(found.size));
            }
        }
        if needed <= space.available {
            return Ok(());
        }
        let reason = Reason::NoSpace { needed: Some(needed), free: Some(space.available) };
        Err(ItemFailure { path: shown(run.target(), &above), reason })
    }

    fn directory(&mut self, pair: &ListPair) -> Result<(), ItemFailure> {
        let run = self.run;
        let (source, found) = follow_source(run, &pair.source)?;
        if found.kind != EntryKind::Directory {
            let reason = Reason::NotDirectory { kind: found.kind };
            return Err(ItemFailure { path: shown(run.source(), &source), reason });
        }
        run.source().hold(&source).map_err(|error| run.source_failure(&source, error))?;
        let (target, made) = self.top(&pair.destination)?;
        run.target().hold(&target).map_err(|error| run.target_failure(&target, error, 0))?;
        self.refuse_overlap(&source, &found, &target)?;
        let apply = made.then_some(found);
        let node = Node::new(None, source, Target { path: target, is_fresh: made, is_whole: true }, apply);
        run.account.directories.add(1);
        self.descend(node);
        Ok(())
    }

    /// The target directory of a directory stage, and whether it was made.
    fn top(&mut self, destination: &Path) -> Result<(PathBuf, bool), ItemFailure> {
        let run = self.run;
        let wanted = tidy(destination);
        let failure = |error| run.target_failure(&wanted, error, 0);
        let (target, found) = locate::follow(run.target(), &wanted).map_err(failure)?;
        let made = found.is_none();
        if made {
            self.prepare(target.parent().unwrap_or(Path::new("")))?;
            run.target().mkdir(&target, 0o700).map_err(failure)?;
        }
        let found = run.target().lstat(&target).map_err(failure)?;
        if found.kind != EntryKind::Directory {
            return Err(locate::not_directory(run.target(), &target, found.kind));
        }
        run.commit.will_write(run, &target, &found).map_err(failure)?;
        self.target_top = Some((found.device, found.inode));
        Ok((target, made))
    }

    /// Looks at the directories above both ends. What this cannot see, because a link is in the way, the walk sees when it meets
    /// the target.
    fn refuse_overlap(&self, source: &Path, found: &Metadata, target: &Path) -> Result<(), ItemFailure> {
        let run = self.run;
        let is = |tree: &dyn crate::tree::Tree, path: &Path, wanted: (u64, u64)| {
            tree.lstat(path).is_ok_and(|there| (there.device, there.inode) == wanted)
        };
        let source_key = (found.device, found.inode);
        let into_source = target.ancestors().any(|above| is(run.target(), above, source_key));
        let out_of_target =
            self.target_top.is_some_and(|top| source.ancestors().any(|above| is(run.source(), above, top)));
        if into_source || out_of_target { Err(overlap(run, source, target)) } else { Ok(()) }
    }

    fn descend(&mut self, top: Arc<Node>) {
        let mut levels = vec![self.open(top)];
        loop {
            let deep = levels.len() > OPEN_MAX;
            let Some(level) = levels.last_mut() else { return };
            if self.run.stopping() {
                return;
            }
            match self.advance(level, deep) {
                Step::Within => {}
                Step::Into(node) => {
                    let below = self.open(node);
                    levels.push(below);
                }
                Step::Out => {
                    if let Some(level) = levels.pop() {
                        level.node.leave(self.run);
                    }
                }
            }
        }
    }

    fn open(&self, node: Arc<Node>) -> Level<'w> {
        let stream = match self.run.source().read_dir(&node.source) {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.run.fail(self.run.source_failure(&node.source, error));
                None
            }
        };
        Level { node, stream, ahead: Vec::new() }
    }

    /// One name of a directory.
    fn advance(&mut self, level: &mut Level<'w>, deep: bool) -> Step {
        let Some(stream) = &mut level.stream else {
            return match level.ahead.pop() {
                Some(name) => self.enter(level, name),
                None => Step::Out,
            };
        };
        let entry = match stream.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                level.stream = None;
                return Step::Within;
            }
            Err(error) => {
                self.run.fail(self.run.source_failure(&level.node.source, error));
                level.stream = None;
                return Step::Within;
            }
        };
        let kind = match entry.kind {
            Some(kind) => kind,
            None => match self.run.source().lstat(&level.node.source.join(&entry.name)) {
                Ok(found) => found.kind,
                Err(error) => {
                    self.run.fail(self.run.source_failure(&level.node.source.join(&entry.name), error));
                    return Step::Within;
                }
            },
        };
        if kind != EntryKind::Directory {
            level.node.enter();
            let dir = Arc::clone(&level.node);
            self.push(Entry { dir, name: entry.name.into(), renamed: None, kind: Some(kind), named: false });
            return Step::Within;
        }
        if deep {
            level.ahead.push(entry.name);
            return Step::Within;
        }
        self.enter(level, entry.name)
    }

    /// Makes a sub-directory at the target, or finds it there.
    fn enter(&self, level: &Level<'w>, name: OsString) -> Step {
        let run = self.run;
        let source = level.node.source.join(&name);
        let target = level.node.target.join(&name);
        match self.make(&source, &target) {
            Ok((found, is_fresh)) => {
                run.account.directories.add(1);
                let target = Target { path: target, is_fresh, is_whole: true };
                Step::Into(Node::new(Some(Arc::clone(&level.node)), source, target, Some(found)))
            }
            Err(failure) => {
                run.fail(failure);
                Step::Within
            }
        }
    }

    /// What the source directory is, and whether the target had to be made.
    fn make(&self, source: &Path, target: &Path) -> Result<(Metadata, bool), ItemFailure> {
        let run = self.run;
        let found = run.source().lstat(source).map_err(|error| run.source_failure(source, error))?;
        if self.target_top == Some((found.device, found.inode)) {
            return Err(overlap(run, source, target));
        }
        let failure = |error| run.target_failure(target, error, 0);
        let mode = (found.mode & 0o777) | 0o700;
        match run.target().mkdir(target, mode) {
            Err(TreeError { cause: Cause::Exists, .. }) => {
                let there = run.target().lstat(target).map_err(failure)?;
                if there.kind != EntryKind::Directory {
                    return Err(locate::not_directory(run.target(), target, there.kind));
                }
                run.commit.will_write(run, target, &there).map_err(failure)?;
                Ok((found, false))
            }
            other => other.map(|()| (found, true)).map_err(failure),
        }
    }
}

enum Step {
    /// Go on in this directory.
    Within,
    /// Go on in this one below.
    Into(Arc<Node>),
    /// This directory is read.
    Out,
}

fn overlap(run: &Run<'_>, source: &Path, target: &Path) -> ItemFailure {
    let destination = shown(run.target(), target);
    ItemFailure { path: shown(run.source(), source), reason: Reason::Overlap { destination } }
}

/// What a named source is, links followed.
fn follow_source(run: &Run<'_>, path: &Path) -> Result<(PathBuf, Metadata), ItemFailure> {
    let (followed, found) =
        locate::follow(run.source(), path).map_err(|error| run.source_failure(&tidy(path), error))?;
    match found {
        Some(found) => Ok((followed, found)),
        None => Err(ItemFailure {
            path: shown(run.source(), &tidy(path)),
            reason: locate::missing(run.source(), &followed),
        }),
    }
}
