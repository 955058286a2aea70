//! One sequence of operations on two worlds: a volume and a local directory. Paths are relative, slots are open files.

use super::*;
use forebay_client::Handle;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Open files at a time.
pub const SLOTS: usize = 4;

#[derive(Clone, Debug)]
pub enum Op {
    Create(String, u32, usize),
    Open(String, bool, usize),
    Close(usize),
    Write(usize, u64, Vec<u8>),
    Read(usize, u64, usize),
    Cut(String, u64),
    Allocate(usize, u64, u64, u32),
    Copy(usize, u64, usize, u64, u64),
    Sync(usize),
    Mkdir(String, u32),
    Rmdir(String),
    Unlink(String),
    Rename(String, String, RenameMode),
    Link(String, String),
    Symlink(String, String),
    Fifo(String, u32),
    Chmod(String, u32),
    Times(String, i64, i64),
    SetXattr(String, String, Vec<u8>),
    RemoveXattr(String, String),
}

/// What an operation said: bytes, a number, or the kind of error.
pub type Outcome = std::result::Result<Vec<u8>, String>;

pub trait World {
    fn apply(&mut self, op: &Op) -> Outcome;
    /// Everything that can be seen: one line for each object.
    fn picture(&mut self) -> BTreeMap<PathBuf, String>;
}

fn line(
    kind: FileKind,
    mode: u32,
    nlink: u32,
    size: u64,
    content: &[u8],
    xattrs: &[(String, Vec<u8>)],
) -> String {
    let size = if kind == FileKind::Directory { 0 } else { size };
    let content = content.iter().fold(0u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{kind:?} {mode:o} links {nlink} size {size} content {content:x} {xattrs:?}")
}

// ---- the volume

pub struct Ours {
    pub volume: Volume,
    slots: [Option<Handle>; SLOTS],
}

fn said<T>(result: Result<T>, show: impl FnOnce(T) -> Vec<u8>) -> Outcome {
    result.map(show).map_err(|error| match error {
        FsError::Host { errno, .. } => format!("{:?}", Errno::from_raw_os_error(errno)),
        other => format!("{other:?}"),
    })
}

fn nothing<T>(_: T) -> Vec<u8> {
    Vec::new()
}

impl Ours {
    pub fn new(volume: Volume) -> Ours {
        Ours { volume, slots: [None; SLOTS] }
    }

    pub fn into_volume(mut self) -> Volume {
        for slot in self.slots.iter_mut().filter_map(Option::take) {
            self.volume.release(slot).unwrap();
        }
        self.volume
    }

    /// Finds a path, uses it and forgets it.
    fn at<T>(&self, path: &str, use_it: impl FnOnce(Ino) -> Result<T>) -> Result<T> {
        let mut held = Vec::new();
        let mut at = Ok(Ino::ROOT);
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = at.and_then(|ino| self.volume.lookup(me(), ino, OsStr::new(part))).map(|attr| attr.ino);
            held.extend(at);
        }
        let done = at.and_then(use_it);
        held.iter().for_each(|ino| self.volume.forget(*ino, 1));
        done
    }

    fn below<T>(&self, path: &str, use_it: impl FnOnce(Ino, &OsStr) -> Result<T>) -> Result<T> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.at(parent, |ino| use_it(ino, OsStr::new(name)))
    }

    fn forgotten(&self, made: Result<Attr>) -> Outcome {
        if let Ok(attr) = made {
            self.volume.forget(attr.ino, 1);
        }
        said(made, nothing)
    }

    fn slot(&self, slot: usize) -> Result<Handle> {
        self.slots[slot].ok_or(FsError::BadHandle)
    }

    fn keep(&mut self, slot: usize, opened: Result<(Option<Ino>, Opened)>) -> Outcome {
        let (made, opened) = opened.map_err(|error| said(Err::<(), _>(error), nothing).unwrap_err())?;
        if let Some(ino) = made {
            self.volume.forget(ino, 1);
        }
        if let Some(old) = self.slots[slot].replace(opened.handle) {
            self.volume.release(old).unwrap();
        }
        Ok(Vec::new())
    }

    fn draw(&self, path: PathBuf, ino: Ino, picture: &mut BTreeMap<PathBuf, String>) {
        let v = &self.volume;
        let attr = v.getattr(ino, None).unwrap();
        let content = match attr.kind {
            FileKind::Regular => {
                let opened = v.open(me(), ino, OpenFlags::READ_ONLY).unwrap();
                let content = read_all(v, opened.handle);
                v.release(opened.handle).unwrap();
                content
            }
            FileKind::Symlink => v.readlink(ino).unwrap(),
            _ => Vec::new(),
        };
        let names = v.listxattr(me(), ino).unwrap();
        let mut xattrs: Vec<_> = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| {
                let value = v.getxattr(me(), ino, OsStr::from_bytes(name)).unwrap();
                (String::from_utf8(name.to_vec()).unwrap(), value)
            })
            .collect();
        xattrs.sort();
        picture.insert(path.clone(), line(attr.kind, attr.mode, attr.nlink, attr.size, &content, &xattrs));
        if attr.kind == FileKind::Directory {
            let handle = v.opendir(me(), ino).unwrap();
            let mut names = Vec::new();
            v.readdir(handle, 0, &mut |entry| {
                names.push(entry.name.to_owned());
                true
            })
            .unwrap();
            v.releasedir(handle).unwrap();
            assert_eq!(names.iter().filter(|name| *name == "." || *name == "..").count(), 2);
            for name in names.iter().filter(|name| *name != "." && *name != "..") {
                let child = v.lookup(me(), ino, name).unwrap();
                self.draw(path.join(name), child.ino, picture);
                v.forget(child.ino, 1);
            }
        }
    }
}

impl World for Ours {
    fn apply(&mut self, op: &Op) -> Outcome {
        let v = &self.volume;
        match op {
            Op::Create(path, mode, slot) => {
                let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
                let made = self.below(path, |parent, name| v.create(me(), parent, name, *mode, flags));
                self.keep(*slot, made.map(|(attr, opened)| (Some(attr.ino), opened)))
            }
            Op::Open(path, cut, slot) => {
                let cut = if *cut { OpenFlags::TRUNCATE } else { OpenFlags::READ_ONLY };
                let opened = self.at(path, |ino| v.open(me(), ino, OpenFlags::READ_WRITE.with(cut)));
                self.keep(*slot, opened.map(|opened| (None, opened)))
            }
            Op::Close(slot) => {
                let handle = self.slots[*slot].take().ok_or(FsError::BadHandle);
                said(handle.and_then(|handle| v.release(handle)), nothing)
            }
            Op::Write(slot, offset, data) => {
                let written = self.slot(*slot).and_then(|h| v.write(h, *offset, data, false));
                said(written, |n| n.to_le_bytes().to_vec())
            }
            Op::Read(slot, offset, len) => {
                let mut buffer = vec![0xee; *len];
                let read = self.slot(*slot).and_then(|h| v.read(h, *offset, &mut buffer));
                said(read, |n| {
                    buffer.truncate(n);
                    buffer
                })
            }
            Op::Cut(path, size) => {
                let change = SetAttr { size: Some(*size), ..SetAttr::default() };
                said(self.at(path, |ino| v.setattr(me(), ino, None, &change)), nothing)
            }
            Op::Allocate(slot, offset, length, mode) => {
                let mode = FallocateMode(*mode);
                said(self.slot(*slot).and_then(|h| v.fallocate(h, *offset, *length, mode)), nothing)
            }
            Op::Copy(from, from_offset, to, to_offset, length) => {
                let copied = self.slot(*from).and_then(|f| {
                    let to = self.slot(*to)?;
                    v.copy_range(f, *from_offset, to, *to_offset, *length)
                });
                said(copied, |n| n.to_le_bytes().to_vec())
            }
            Op::Sync(slot) => said(self.slot(*slot).and_then(|h| v.fsync(h, false)), nothing),
            Op::Mkdir(path, mode) => {
                self.forgotten(self.below(path, |parent, name| v.mkdir(me(), parent, name, *mode)))
            }
            Op::Rmdir(path) => said(self.below(path, |parent, name| v.rmdir(me(), parent, name)), nothing),
            Op::Unlink(path) => said(self.below(path, |parent, name| v.unlink(me(), parent, name)), nothing),
            Op::Rename(from, to, mode) => {
                let moved = self.below(from, |parent, name| {
                    self.below(to, |new_parent, new_name| {
                        v.rename(me(), parent, name, new_parent, new_name, *mode)
                    })
                });
                said(moved, nothing)
            }
            Op::Link(from, to) => self.forgotten(
                self.at(from, |ino| self.below(to, |parent, name| v.link(me(), ino, parent, name))),
            ),
            Op::Symlink(target, path) => self
                .forgotten(self.below(path, |parent, name| v.symlink(me(), parent, name, Path::new(target)))),
            Op::Fifo(path, mode) => self
                .forgotten(self.below(path, |parent, name| v.mknod(me(), parent, name, 0o010_000 | mode, 0))),
            Op::Chmod(path, mode) => {
                let change = SetAttr { mode: Some(*mode), ..SetAttr::default() };
                said(self.at(path, |ino| v.setattr(me(), ino, None, &change)), nothing)
            }
            Op::Times(path, atime, mtime) => {
                let at = |secs: i64| Some(SetTime::At(Timestamp { secs, nanos: 7 }));
                let change = SetAttr { atime: at(*atime), mtime: at(*mtime), ..SetAttr::default() };
                let set = self.at(path, |ino| v.setattr(me(), ino, None, &change));
                said(set, |attr| format!("{:?} {:?}", attr.atime, attr.mtime).into_bytes())
            }
            Op::SetXattr(path, name, value) => {
                let set = |ino| v.setxattr(me(), ino, OsStr::new(name), value, XattrMode::Any);
                said(self.at(path, set), nothing)
            }
            Op::RemoveXattr(path, name) => {
                said(self.at(path, |ino| v.removexattr(me(), ino, OsStr::new(name))), nothing)
            }
        }
    }

    fn picture(&mut self) -> BTreeMap<PathBuf, String> {
        let mut picture = BTreeMap::new();
        self.draw(PathBuf::new(), Ino::ROOT, &mut picture);
        picture
    }
}

// ---- the local file system

pub struct Local {
    root: PathBuf,
    slots: [Option<OwnedFd>; SLOTS],
}

fn local<T>(result: rustix::io::Result<T>, show: impl FnOnce(T) -> Vec<u8>) -> Outcome {
    result.map(show).map_err(|errno| {
        let ours = match errno {
            Errno::NOENT => FsError::NotFound,
            Errno::EXIST => FsError::Exists,
            Errno::NOTDIR => FsError::NotDirectory,
            Errno::ISDIR => FsError::IsDirectory,
            Errno::NOTEMPTY => FsError::NotEmpty,
            Errno::INVAL => FsError::InvalidArgument,
            Errno::PERM => FsError::NotPermitted,
            Errno::NODATA => FsError::NoAttribute,
            Errno::BADF => FsError::BadHandle,
            Errno::FBIG => FsError::FileTooLarge,
            Errno::OPNOTSUPP => FsError::Unsupported,
            other => return format!("{other:?}"),
        };
        format!("{ours:?}")
    })
}

impl Local {
    pub fn new(root: PathBuf) -> Local {
        Local { root, slots: [const { None }; SLOTS] }
    }

    pub fn close_all(&mut self) {
        self.slots = [const { None }; SLOTS];
    }

    fn slot(&self, slot: usize) -> rustix::io::Result<&OwnedFd> {
        self.slots[slot].as_ref().ok_or(Errno::BADF)
    }

    fn keep(&mut self, slot: usize, flags: OFlags, path: &str, mode: u32) -> Outcome {
        let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // A volume is told to open regular files only; the kernel resolves the rest.
        if !flags.contains(OFlags::CREATE) {
            let stat = rustix::fs::lstat(self.root.join(path));
            match stat.map(|stat| FileKind::from_mode(stat.st_mode).unwrap()) {
                Ok(FileKind::Regular | FileKind::Directory) | Err(_) => {}
                Ok(_) => return local::<()>(Err(Errno::INVAL), nothing),
            }
        }
        let opened = rustix::fs::open(self.root.join(path), flags, Mode::from_raw_mode(mode));
        let fd = opened.map_err(|errno| local::<()>(Err(errno), nothing).unwrap_err())?;
        if flags.contains(OFlags::CREATE) {
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode)).unwrap();
        }
        self.slots[slot] = Some(fd);
        Ok(Vec::new())
    }

    fn chmod_new(&self, made: rustix::io::Result<()>, path: &str, mode: u32) -> Outcome {
        if made.is_ok() {
            // A set-group-id directory hands its bit down to directories.
            let stat = rustix::fs::lstat(self.root.join(path)).unwrap();
            let mode = Mode::from_raw_mode(mode | (stat.st_mode & 0o2000));
            rustix::fs::chmod(self.root.join(path), mode).unwrap();
        }
        local(made, nothing)
    }

    /// Changes by path must not go through symbolic links: the volume is given numbers.
    fn no_link(&self, path: &str) -> rustix::io::Result<FileKind> {
        let stat = rustix::fs::lstat(self.root.join(path))?;
        Ok(FileKind::from_mode(stat.st_mode).unwrap())
    }
}

impl Op {
    fn paths(&self) -> Vec<&str> {
        match self {
            Op::Create(path, ..)
            | Op::Open(path, ..)
            | Op::Cut(path, _)
            | Op::Mkdir(path, _)
            | Op::Rmdir(path)
            | Op::Unlink(path)
            | Op::Symlink(_, path)
            | Op::Fifo(path, _)
            | Op::Chmod(path, _)
            | Op::Times(path, ..)
            | Op::SetXattr(path, ..)
            | Op::RemoveXattr(path, _) => vec![path],
            Op::Link(from, to) => {
                // The source is looked up to its end before the target.
                vec![from, to]
            }
            Op::Rename(from, to, _) => vec![from, to],
            Op::Close(_) | Op::Write(..) | Op::Read(..) | Op::Allocate(..) | Op::Copy(..) | Op::Sync(_) => {
                Vec::new()
            }
        }
    }
}

impl Local {
    /// Looks the directories of a path up one by one, as a kernel in front of a volume does; here the local kernel would
    /// follow symbolic links in the middle.
    fn look_up(&self, op: &Op) -> rustix::io::Result<()> {
        for (index, path) in op.paths().into_iter().enumerate() {
            let parents: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
            for parent in parents.into_iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
                if self.no_link(parent.to_str().unwrap())? != FileKind::Directory {
                    return Err(Errno::NOTDIR);
                }
            }
            if index == 0 && matches!(op, Op::Link(..)) {
                self.no_link(path)?;
            }
        }
        Ok(())
    }
}

impl World for Local {
    fn apply(&mut self, op: &Op) -> Outcome {
        let full = |path: &str| self.root.join(path);
        if let Err(errno) = self.look_up(op) {
            return local::<()>(Err(errno), nothing);
        }
        match op {
            Op::Create(path, mode, slot) => self.keep(*slot, OFlags::CREATE | OFlags::EXCL, path, *mode),
            Op::Open(path, cut, slot) => {
                self.keep(*slot, if *cut { OFlags::TRUNC } else { OFlags::empty() }, path, 0)
            }
            Op::Close(slot) => local(self.slots[*slot].take().map(drop).ok_or(Errno::BADF), nothing),
            Op::Write(slot, offset, data) => {
                local(self.slot(*slot).and_then(|fd| rustix::io::pwrite(fd, data, *offset)), |n| {
                    n.to_le_bytes().to_vec()
                })
            }
            Op::Read(slot, offset, len) => {
                let mut buffer = vec![0xee; *len];
                let read = self.slot(*slot).and_then(|fd| rustix::io::pread(fd, &mut buffer[..], *offset));
                local(read, |n| {
                    buffer.truncate(n);
                    buffer
                })
            }
            Op::Cut(path, size) => match self.no_link(path) {
                Ok(FileKind::Regular) => {
                    let file = std::fs::OpenOptions::new().write(true).open(full(path)).unwrap();
                    local(rustix::fs::ftruncate(&file, *size), nothing)
                }
                Ok(FileKind::Directory) => local::<()>(Err(Errno::ISDIR), nothing),
                Ok(_) => local::<()>(Err(Errno::INVAL), nothing),
                Err(errno) => local::<()>(Err(errno), nothing),
            },
            Op::Allocate(slot, offset, length, mode) => {
                let flags = FallocateFlags::from_bits_retain(*mode);
                let done = self.slot(*slot).and_then(|fd| rustix::fs::fallocate(fd, flags, *offset, *length));
                local(done, nothing)
            }
            Op::Copy(from, from_offset, to, to_offset, length) => {
                // By hand: how much one call copies is up to the file system.
                let copied = self.slot(*from).and_then(|from| {
                    let to = self.slot(*to)?;
                    let mut buffer = vec![0; *length as usize];
                    let n = rustix::io::pread(from, &mut buffer[..], *from_offset)?;
                    let same = rustix::fs::fstat(from)?.st_ino == rustix::fs::fstat(to)?.st_ino;
                    if same && n > 0 && from_offset.abs_diff(*to_offset) < n as u64 {
                        return Err(Errno::INVAL);
                    }
                    let mut done = 0;
                    while done < n {
                        done += rustix::io::pwrite(to, &buffer[done..n], *to_offset + done as u64)?;
                    }
                    Ok(n as u64)
                });
                local(copied, |n| n.to_le_bytes().to_vec())
            }
            Op::Sync(slot) => local(self.slot(*slot).and_then(rustix::fs::fsync), nothing),
            Op::Mkdir(path, mode) => self.chmod_new(rustix::fs::mkdir(full(path), Mode::RWXU), path, *mode),
            Op::Rmdir(path) => local(rustix::fs::rmdir(full(path)), nothing),
            Op::Unlink(path) => local(rustix::fs::unlink(full(path)), nothing),
            Op::Rename(from, to, mode) => {
                let flags = match mode {
                    RenameMode::Replace => RenameFlags::empty(),
                    RenameMode::NoReplace => RenameFlags::NOREPLACE,
                    RenameMode::Exchange => RenameFlags::EXCHANGE,
                };
                let here = rustix::fs::CWD;
                local(rustix::fs::renameat_with(here, full(from), here, full(to), flags), nothing)
            }
            Op::Link(from, to) => {
                let here = rustix::fs::CWD;
                local(rustix::fs::linkat(here, full(from), here, full(to), AtFlags::empty()), nothing)
            }
            Op::Symlink(target, path) => local(rustix::fs::symlink(target, full(path)), nothing),
            Op::Fifo(path, mode) => {
                let made = rustix::fs::mknodat(
                    rustix::fs::CWD,
                    full(path),
                    rustix::fs::FileType::Fifo,
                    Mode::RUSR,
                    0,
                );
                self.chmod_new(made, path, *mode)
            }
            Op::Chmod(path, mode) => match self.no_link(path) {
                Ok(FileKind::Symlink) => local::<()>(Err(Errno::OPNOTSUPP), nothing),
                Ok(_) => local(rustix::fs::chmod(full(path), Mode::from_raw_mode(*mode)), nothing),
                Err(errno) => local::<()>(Err(errno), nothing),
            },
            Op::Times(path, atime, mtime) => {
                let spec = |tv_sec| rustix::fs::Timespec { tv_sec, tv_nsec: 7 };
                let times =
                    rustix::fs::Timestamps { last_access: spec(*atime), last_modification: spec(*mtime) };
                let set =
                    rustix::fs::utimensat(rustix::fs::CWD, full(path), &times, AtFlags::SYMLINK_NOFOLLOW);
                let at = |secs: &i64| Timestamp { secs: *secs, nanos: 7 };
                local(set, |()| format!("{:?} {:?}", at(atime), at(mtime)).into_bytes())
            }
            Op::SetXattr(path, name, value) => match self.no_link(path) {
                Ok(FileKind::Regular | FileKind::Directory) => {
                    local(rustix::fs::lsetxattr(full(path), &name[..], value, XattrFlags::empty()), nothing)
                }
                Ok(_) => local::<()>(Err(Errno::PERM), nothing),
                Err(errno) => local::<()>(Err(errno), nothing),
            },
            Op::RemoveXattr(path, name) => match self.no_link(path) {
                Ok(FileKind::Regular | FileKind::Directory) => {
                    local(rustix::fs::lremovexattr(full(path), &name[..]), nothing)
                }
                Ok(_) => local::<()>(Err(Errno::NODATA), nothing),
                Err(errno) => local::<()>(Err(errno), nothing),
            },
        }
    }

    fn picture(&mut self) -> BTreeMap<PathBuf, String> {
        let mut picture = BTreeMap::new();
        draw_local(&self.root, PathBuf::new(), &mut picture);
        picture
    }
}

fn draw_local(root: &Path, path: PathBuf, picture: &mut BTreeMap<PathBuf, String>) {
    let full = root.join(&path);
    let stat = rustix::fs::lstat(&full).unwrap();
    let kind = FileKind::from_mode(stat.st_mode).unwrap();
    let content = match kind {
        FileKind::Regular => std::fs::read(&full).unwrap(),
        FileKind::Symlink => rustix::fs::readlink(&full, Vec::new()).unwrap().into_bytes(),
        _ => Vec::new(),
    };
    let mut xattrs = Vec::new();
    if matches!(kind, FileKind::Regular | FileKind::Directory) {
        let fd = rustix::fs::open(&full, OFlags::RDONLY, Mode::empty()).unwrap();
        let mut names = vec![0; 65536];
        let len = rustix::fs::flistxattr(fd.as_fd(), &mut names[..]).unwrap();
        for name in names[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
            let mut value = vec![0; 65536];
            let len = rustix::fs::fgetxattr(fd.as_fd(), OsStr::from_bytes(name), &mut value[..]).unwrap();
            value.truncate(len);
            xattrs.push((String::from_utf8(name.to_vec()).unwrap(), value));
        }
    }
    xattrs.sort();
    let mode = stat.st_mode & 0o7777;
    let drawn = line(kind, mode, stat.st_nlink as u32, stat.st_size as u64, &content, &xattrs);
    picture.insert(path.clone(), drawn);
    if kind == FileKind::Directory {
        for entry in std::fs::read_dir(&full).unwrap() {
            draw_local(root, path.join(entry.unwrap().file_name()), picture);
        }
    }
}
