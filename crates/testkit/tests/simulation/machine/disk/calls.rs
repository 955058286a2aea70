//! What each system call does to a disk, written down when it has done it.

use super::content::Change;
use super::ground;
use super::log::{Attributes, Effect, Node};
use super::{Disk, schedule, with};
use std::ffi::{CStr, CString, OsString};
use std::path::PathBuf;

/// So many names of a path are shown.
const SHOWN: usize = 3;
/// How the name of a temporary directory begins.
const GROUND: &str = ".tmp";

/// A name of a directory, whether or not there is something under it.
struct Place {
    disk: usize,
    directory: Node,
    name: OsString,
    /// What is under it, and its kind.
    found: Option<(Node, u32)>,
}

/// What has to be known before a call is made.
enum Before {
    Make(Place, usize),
    Link(Place, Node),
    Remove(Place),
    Move(Place, Place, usize),
    /// By a descriptor of its own, or none.
    Attributes(usize, Node, i32, bool),
    Write(usize, Node, u64),
    Copy(usize, Node, u64),
    Length(usize, Node, u64),
    Allocate(usize, Node, u64),
    Times(usize, Node),
    Sync(usize, Node),
    SyncAll(usize),
}

/// Makes a call, and writes down what it did. The result is as the kernel gives it.
pub(in super::super) fn around(number: i64, a: [usize; 6], make: impl FnOnce() -> i64) -> i64 {
    let is_any = schedule::aside(|| with(|disks| !disks.is_empty()));
    if !is_any {
        return make();
    }
    let before = schedule::aside(|| with(|disks| look(disks, number, a)));
    let result = make();
    if let Some(before) = before {
        schedule::aside(|| {
            with(|disks| {
                if result >= 0 {
                    write_down(disks, &before, a, result);
                }
                if let Before::Attributes(_, _, descriptor, true) = before {
                    // Safe: it is ours.
                    unsafe { libc::close(descriptor) };
                }
            });
        });
    }
    result
}

/// The number of links of a file as the product is to see it: without the one beside the disk.
pub(in super::super) fn hides_a_link(node: u64) -> bool {
    schedule::aside(|| with(|disks| disks.iter().any(|disk| disk.in_kept.contains(&node))))
}

/// The end of a path; where the ground of this run is differs from run to run.
fn shown(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let from = names.iter().rposition(|name| name.starts_with(GROUND)).map_or(0, |at| at + 1);
    names[from.max(names.len().saturating_sub(SHOWN))..].join("/")
}

/// A call of a file for those who read what happened.
pub(in super::super) fn named(call: &str, number: i64, a: [usize; 6]) -> String {
    let text = |at: usize| {
        // Safe: it is a path by the caller's word.
        let path = unsafe { CStr::from_ptr(a[at] as *const _) };
        shown(&path.to_string_lossy())
    };
    let file = || shown(&std::fs::read_link(own(a[0] as i32)).unwrap_or_default().to_string_lossy());
    schedule::aside(|| match number {
        libc::SYS_openat | libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_unlinkat => {
            format!("{call} {}", text(1))
        }
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
            format!("{call} {} {}", text(1), text(3))
        }
        libc::SYS_pwrite64 => format!("{call} {} {} at {}", file(), a[2], a[3]),
        libc::SYS_ftruncate => format!("{call} {} to {}", file(), a[1]),
        _ => format!("{call} {}", file()),
    })
}

/// What kind of file system a descriptor of a disk is to be taken for: one with a log.
pub(in super::super) fn shown_kind(descriptor: i32) -> Option<i64> {
    let is_of_disk = schedule::aside(|| with(|disks| file(disks, descriptor as usize).is_some()));
    is_of_disk.then_some(libc::XFS_SUPER_MAGIC)
}

fn stat(directory: i32, path: &CStr, flags: i32) -> Option<libc::stat> {
    // Safe: a text that ends with a zero, and a place for the answer.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstatat(directory, path.as_ptr(), &mut found, flags) == 0).then_some(found)
    }
}

fn disk_of(disks: &[Disk], node: Node) -> Option<usize> {
    disks.iter().position(|disk| disk.nodes.contains(&node))
}

/// The file of a descriptor, if it is on a disk.
fn file(disks: &[Disk], descriptor: usize) -> Option<(usize, Node)> {
    let node = stat(descriptor as i32, c"", libc::AT_EMPTY_PATH)?.st_ino;
    Some((disk_of(disks, node)?, node))
}

/// # Safety
/// `path` is a text that ends with a zero.
unsafe fn place(disks: &[Disk], directory: usize, path: usize) -> Option<Place> {
    // Safe: the caller says so.
    let path = unsafe { CStr::from_ptr(path as *const _) };
    let bytes = path.to_bytes();
    let (above, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&bytes[..=at], &bytes[at + 1..]),
        None => (&b"."[..], bytes),
    };
    let above = CString::new(above).expect("a path");
    let parent = match (above.as_c_str() == c".", directory as i32) {
        // A descriptor that only names a directory is enough.
        (true, directory) if directory != libc::AT_FDCWD => stat(directory, c"", libc::AT_EMPTY_PATH),
        (_, directory) => stat(directory, &above, 0),
    }?;
    let disk = disk_of(disks, parent.st_ino)?;
    let found = stat(directory as i32, path, libc::AT_SYMLINK_NOFOLLOW);
    let found = found.map(|found| (found.st_ino, found.st_mode));
    Some(Place { disk, directory: parent.st_ino, name: ground::name_of(name), found })
}

/// What a path names, open.
unsafe fn opened(disks: &[Disk], directory: usize, path: usize) -> Option<Before> {
    // Safe: the caller says that it is a path.
    let descriptor = unsafe {
        let path = CStr::from_ptr(path as *const _);
        libc::openat(directory as i32, path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC)
    };
    let node = stat(descriptor, c"", libc::AT_EMPTY_PATH)?.st_ino;
    match disk_of(disks, node) {
        Some(disk) => Some(Before::Attributes(disk, node, descriptor, true)),
        None => {
            // Safe: it is ours.
            unsafe { libc::close(descriptor) };
            None
        }
    }
}

fn own(descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

/// A file that is about to lose a name keeps one beside the disk.
unsafe fn keep(disks: &mut [Disk], place: &Place, directory: usize, path: usize) {
    let Some((node, mode)) = place.found else { return };
    if mode & libc::S_IFMT == libc::S_IFDIR {
        return;
    }
    let disk = &mut disks[place.disk];
    let kept = CString::new(ground::kept_at(&disk.kept, node).into_os_string().into_encoded_bytes());
    let kept = kept.expect("a path");
    // Safe: texts that end with a zero. It may have one already.
    unsafe { libc::linkat(directory as i32, path as *const _, libc::AT_FDCWD, kept.as_ptr(), 0) };
    disk.in_kept.insert(node);
}

fn length(node: &libc::stat) -> u64 {
    node.st_size as u64
}

fn look(disks: &mut [Disk], number: i64, a: [usize; 6]) -> Option<Before> {
    let by_descriptor = |disks: &[Disk]| file(disks, a[0]);
    // Safe: the arguments are those of a call of this number.
    unsafe {
        Some(match number {
            libc::SYS_openat if a[2] & (libc::O_CREAT | libc::O_TRUNC) as usize != 0 => {
                Before::Make(place(disks, a[0], a[1])?, a[2])
            }
            libc::SYS_mkdirat | libc::SYS_mknodat => Before::Make(place(disks, a[0], a[1])?, 0),
            libc::SYS_symlinkat => {
                assert!(place(disks, a[1], a[2]).is_none(), "symbolic links on a disk are not simulated");
                return None;
            }
            libc::SYS_linkat => {
                let from = place(disks, a[0], a[1])?;
                Before::Link(place(disks, a[2], a[3])?, from.found?.0)
            }
            libc::SYS_unlinkat => {
                let place = place(disks, a[0], a[1])?;
                keep(disks, &place, a[0], a[1]);
                Before::Remove(place)
            }
            libc::SYS_renameat | libc::SYS_renameat2 => {
                let (from, to) = (place(disks, a[0], a[1])?, place(disks, a[2], a[3])?);
                let flags = if number == libc::SYS_renameat2 { a[4] } else { 0 };
                if flags == 0 {
                    keep(disks, &to, a[2], a[3]);
                }
                Before::Move(from, to, flags)
            }
            libc::SYS_fsetxattr | libc::SYS_fremovexattr | libc::SYS_fchmod | libc::SYS_fchown => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Attributes(disk, node, a[0] as i32, false)
            }
            libc::SYS_setxattr | libc::SYS_removexattr => opened(disks, libc::AT_FDCWD as usize, a[0])?,
            libc::SYS_fchmodat | libc::SYS_fchownat => opened(disks, a[0], a[1])?,
            libc::SYS_write => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Write(disk, node, libc::lseek(a[0] as i32, 0, libc::SEEK_CUR) as u64)
            }
            libc::SYS_pwrite64 => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Write(disk, node, a[3] as u64)
            }
            libc::SYS_pwritev | libc::SYS_pwritev2 | libc::SYS_writev => {
                assert!(by_descriptor(disks).is_none(), "system call {number} on a disk is not simulated");
                return None;
            }
            libc::SYS_copy_file_range => {
                let (disk, node) = file(disks, a[2])?;
                let at = (a[3] as *const u64).as_ref();
                Before::Copy(disk, node, *at.expect("a place to copy to"))
            }
            libc::SYS_ftruncate => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Length(disk, node, a[1] as u64)
            }
            libc::SYS_fallocate => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Allocate(disk, node, length(&stat(a[0] as i32, c"", libc::AT_EMPTY_PATH)?))
            }
            libc::SYS_utimensat if a[1] == 0 => {
                let (disk, node) = by_descriptor(disks)?;
                // Of files it depends on the kernel's clock whether it is done.
                let kind = stat(a[0] as i32, c"", libc::AT_EMPTY_PATH)?.st_mode & libc::S_IFMT;
                (kind == libc::S_IFDIR).then_some(Before::Times(disk, node))?
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let (disk, node) = by_descriptor(disks)?;
                Before::Sync(disk, node)
            }
            libc::SYS_syncfs => Before::SyncAll(by_descriptor(disks)?.0),
            _ => return None,
        })
    }
}

fn write_down(disks: &mut [Disk], before: &Before, a: [usize; 6], result: i64) {
    let name =
        |place: &Place, node| Effect::Name { directory: place.directory, name: place.name.clone(), node };
    match before {
        Before::Make(place, flags) => made(&mut disks[place.disk], place, *flags, (a, result)),
        Before::Link(place, node) => {
            disks[place.disk].add(vec![name(place, Some(*node))]);
        }
        Before::Remove(place) => {
            disks[place.disk]
                .add(vec![name(place, None), Effect::Extent { node: place.found.expect("there").0 }]);
        }
        Before::Move(from, to, flags) => {
            let moved = from.found.expect("there").0;
            let replaced = to.found.map(|(node, _)| node);
            if replaced == Some(moved) {
                return;
            }
            let is_exchange = *flags == libc::RENAME_EXCHANGE as usize;
            let back = if is_exchange { replaced } else { None };
            let mut record = vec![name(from, back), name(to, Some(moved))];
            record.extend(replaced.map(|node| Effect::Extent { node }));
            disks[from.disk].add(record);
        }
        Before::Attributes(disk, node, descriptor, _) => {
            let attributes = ground::attributes(&own(*descriptor));
            disks[*disk].add(vec![Effect::Attributes { node: *node, attributes }]);
        }
        Before::Write(disk, node, offset) => {
            // Safe: so much was written from there.
            let bytes = unsafe { std::slice::from_raw_parts(a[1] as *const u8, result as usize) }.to_vec();
            disks[*disk].change(*node, Change::Write { offset: *offset, bytes });
        }
        Before::Copy(disk, node, offset) => {
            let mut bytes = vec![0; result as usize];
            // Safe: there is so much room.
            let read =
                unsafe { libc::pread(a[2] as i32, bytes.as_mut_ptr().cast(), bytes.len(), *offset as i64) };
            assert_eq!(read as i64, result, "what was copied is read");
            disks[*disk].change(*node, Change::Write { offset: *offset, bytes });
        }
        Before::Length(disk, node, length) => set_length(&mut disks[*disk], *node, *length),
        Before::Allocate(disk, node, length) => {
            let (mode, start, end) = (a[1] as i32, a[2] as u64, a[2] as u64 + a[3] as u64);
            if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
                let record = disks[*disk].add(vec![Effect::Extent { node: *node }]);
                disks[*disk].change(*node, Change::Zero { start, end, record });
            }
            if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > *length {
                set_length(&mut disks[*disk], *node, end);
            }
        }
        Before::Times(disk, node) => {
            disks[*disk].add(vec![Effect::Extent { node: *node }]);
        }
        Before::Sync(disk, node) => disks[*disk].sync(*node),
        Before::SyncAll(disk) => disks[*disk].sync_all(),
    }
}

fn set_length(disk: &mut Disk, node: Node, length: u64) {
    let record = disk.add(vec![Effect::Extent { node }]);
    disk.change(node, Change::Length { length, record });
}

fn made(disk: &mut Disk, place: &Place, flags: usize, (a, result): ([usize; 6], i64)) {
    if let Some((node, _)) = place.found {
        if flags & libc::O_TRUNC as usize != 0 {
            set_length(disk, node, 0);
        }
        return;
    }
    // Safe: the call was made with this path, and a descriptor that was opened is ours to look at.
    let (node, attributes) = unsafe {
        let is_opened = flags != 0;
        let descriptor = match is_opened {
            true => result as i32,
            false => libc::openat(a[0] as i32, a[1] as *const _, libc::O_PATH | libc::O_NOFOLLOW),
        };
        let node = stat(descriptor, c"", libc::AT_EMPTY_PATH).expect("it was made").st_ino;
        let attributes: Attributes = ground::attributes(&own(descriptor));
        if !is_opened {
            libc::close(descriptor);
        }
        (node, attributes)
    };
    disk.nodes.insert(node);
    if !ground::is_directory(&attributes) {
        disk.contents.insert(node, Default::default());
    }
    let name = Effect::Name { directory: place.directory, name: place.name.clone(), node: Some(node) };
    disk.add(vec![name, Effect::Attributes { node, attributes }]);
}
