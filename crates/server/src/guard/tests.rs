//! The guard against the kernel: the same objects in a tree and in a local directory, the same changes by the same
//! persons, the same answers and the same owners, groups and modes afterwards. Needs root, to be somebody else.

use super::*;
use crate::local::{Limits, NamespaceSpec, SpaceRule};
use crate::node::{NodeInstance, NodeSpec};
use forebay_wire::message::Group;
use forebay_wire::{DataService, SetTime, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::path::PathBuf;

const USERS: [u32; 3] = [0, 1001, 1002];
const GROUPS: [u32; 3] = [0, 2001, 2002];
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Op {
    Lookup(usize, usize),
    Create(usize, usize, u32),
    Mkdir(usize, usize, u32),
    Fifo(usize, usize, u32),
    Device(usize, usize),
    Symlink(usize, usize),
    Link(usize, usize, usize, usize),
    Unlink(usize, usize),
    Rmdir(usize, usize),
    Rename(usize, usize, usize, usize, bool),
    Open(usize, usize, u32),
    OpenDir(usize),
    Chmod(usize, usize, u32),
    Chown(usize, usize, Option<u32>, Option<u32>),
    Cut(usize, usize, u64),
    Times(usize, usize, u8),
    GetXattr(usize, usize),
    SetXattr(usize, usize),
    /// By root, for things to happen: the mode and owner of one of the directories.
    Prepare(usize, u32, u32, u32),
}

/// The directories of both worlds: the root, and two in it.
const DIRECTORIES: [&str; 3] = ["", "x", "y"];

fn person() -> impl Strategy<Value = Person> {
    let pick = |from: [u32; 3]| prop::sample::select(from.to_vec());
    (pick(USERS), pick(GROUPS), prop::collection::vec(pick(GROUPS), 0..2))
        .prop_map(|(uid, gid, groups)| Person { uid, gid, groups })
}

fn mode() -> impl Strategy<Value = u32> {
    let usual = prop::sample::select(vec![0o777, 0o770, 0o755, 0o644, 0o1777, 0o2775, 0o2755, 0o700, 0o6755]);
    prop_oneof![2 => usual, 1 => 0u32..0o10000]
}

fn op() -> impl Strategy<Value = Op> {
    let (d, n) = (0..DIRECTORIES.len(), 0..NAMES.len());
    let at = || (d.clone(), n.clone());
    let id = |from: [u32; 3]| prop::option::of(prop::sample::select(from.to_vec()));
    prop_oneof![
        at().prop_map(|(d, n)| Op::Lookup(d, n)),
        (at(), mode()).prop_map(|((d, n), m)| Op::Create(d, n, m)),
        (at(), mode()).prop_map(|((d, n), m)| Op::Create(d, n, m)),
        (at(), mode()).prop_map(|((d, n), m)| Op::Mkdir(d, n, m & 0o1777)),
        (at(), mode()).prop_map(|((d, n), m)| Op::Fifo(d, n, m)),
        at().prop_map(|(d, n)| Op::Device(d, n)),
        at().prop_map(|(d, n)| Op::Symlink(d, n)),
        (at(), at()).prop_map(|((a, b), (c, d))| Op::Link(a, b, c, d)),
        at().prop_map(|(d, n)| Op::Unlink(d, n)),
        at().prop_map(|(d, n)| Op::Rmdir(d, n)),
        (at(), at(), any::<bool>()).prop_map(|((a, b), (c, d), e)| Op::Rename(a, b, c, d, e)),
        (at(), prop::sample::select(vec![0, 1, 2, 0o1000, 0o1001])).prop_map(|((d, n), f)| Op::Open(d, n, f)),
        d.clone().prop_map(Op::OpenDir),
        (at(), mode()).prop_map(|((d, n), m)| Op::Chmod(d, n, m)),
        (at(), id(USERS), id(GROUPS)).prop_map(|((d, n), u, g)| Op::Chown(d, n, u, g)),
        (at(), 0u64..9000).prop_map(|((d, n), size)| Op::Cut(d, n, size)),
        (at(), 0u8..5).prop_map(|((d, n), how)| Op::Times(d, n, how)),
        at().prop_map(|(d, n)| Op::GetXattr(d, n)),
        at().prop_map(|(d, n)| Op::SetXattr(d, n)),
        (1..3usize, mode(), prop::sample::select(USERS.to_vec()), prop::sample::select(GROUPS.to_vec()))
            .prop_map(|(d, m, u, g)| Op::Prepare(d, m, u, g)),
    ]
}

type Said = std::result::Result<(), FsError>;

// ---- ours

struct Ours {
    tree: Arc<Tree>,
    _node: Arc<NodeInstance>,
    _directory: tempfile::TempDir,
}

fn caller(person: &Person) -> Caller {
    Caller { uid: person.uid, gid: person.gid, pid: 1 }
}

fn guard<'a>(tree: &'a Tree, person: &Person) -> Guard<'a> {
    let groups = person.groups.iter().map(|group| Group(*group)).collect();
    Guard::new(tree, &Credentials { uid: person.uid, gid: person.gid, pid: 1, groups })
}

fn root() -> Person {
    Person { uid: 0, gid: 0, groups: Vec::new() }
}

impl Ours {
    fn new() -> Ours {
        let directory = tempfile::tempdir().unwrap();
        let (place, instance) = (directory.path().to_owned(), "5eed".to_owned());
        let spec = NodeSpec { root: place, instance, space: SpaceRule::Hard, position: 0, servers: 1 };
        let node = NodeInstance::open(&spec).unwrap();
        let namespace =
            NamespaceSpec { name: "c1".into(), layout: Default::default(), limits: Limits::default() };
        let data = vec![node.data("c1").unwrap() as Arc<dyn DataService>];
        let tree = node.tree(&namespace, data).unwrap();
        let ours = Ours { tree, _node: node, _directory: directory };
        let all = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        ours.by(&root()).setattr(caller(&root()), Ino::ROOT, None, &all).unwrap();
        for name in &DIRECTORIES[1..] {
            let object = NewObject { caller: caller(&root()), mode: 0o777, rdev: 0 };
            MetadataService::mkdir(&*ours.tree, Ino::ROOT, OsStr::new(name), &object).unwrap();
        }
        ours
    }

    fn by(&self, person: &Person) -> Guard<'_> {
        guard(&self.tree, person)
    }

    fn ino(&self, guard: &Guard<'_>, d: usize) -> Result<Ino> {
        if DIRECTORIES[d].is_empty() {
            return Ok(Ino::ROOT);
        }
        let any = Caller { uid: 0, gid: 0, pid: 0 };
        guard.lookup(any, Ino::ROOT, OsStr::new(DIRECTORIES[d])).map(|attr| attr.ino)
    }

    fn apply(&self, person: &Person, op: &Op) -> Said {
        let g = self.by(person);
        let by = caller(person);
        let parent = |d: usize| self.ino(&g, d);
        let name = |n: usize| OsStr::new(NAMES[n]);
        let find = |d: usize, n: usize| g.lookup(by, parent(d)?, name(n)).map(|attr| attr.ino);
        let object = |mode: u32| NewObject { caller: by, mode, rdev: 0 };
        let set = |ino: Ino, change: SetAttr| g.setattr(by, ino, None, &change).map(drop);
        let nothing = SetAttr::default();
        match *op {
            Op::Lookup(d, n) => find(d, n).map(drop),
            Op::Create(d, n, m) => g
                .create(
                    parent(d)?,
                    name(n),
                    &object(0o100_000 | m),
                    OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE),
                )
                .map(drop),
            Op::Mkdir(d, n, m) => g.mkdir(parent(d)?, name(n), &object(0o040_000 | m)).map(drop),
            Op::Fifo(d, n, m) => g.mknod(parent(d)?, name(n), &object(0o010_000 | m)).map(drop),
            Op::Device(d, n) => {
                let null = NewObject { rdev: 0x103, ..object(0o020_600) };
                g.mknod(parent(d)?, name(n), &null).map(drop)
            }
            Op::Symlink(d, n) => g.symlink(by, parent(d)?, name(n), Path::new("nowhere")).map(drop),
            Op::Link(a, b, c, d) => {
                let ino = find(a, b)?;
                g.link(by, ino, parent(c)?, name(d)).map(drop)
            }
            Op::Unlink(d, n) => g.unlink(by, parent(d)?, name(n)),
            Op::Rmdir(d, n) => g.rmdir(by, parent(d)?, name(n)),
            Op::Rename(a, b, c, d, exchange) => {
                let how = if exchange { RenameMode::Exchange } else { RenameMode::Replace };
                g.rename(by, (parent(a)?, name(b)), (parent(c)?, name(d)), how)
            }
            Op::Open(d, n, flags) => {
                let ino = find(d, n)?;
                let opened = g.open(by, ino, OpenFlags(flags))?;
                if flags & 0o1000 != 0 {
                    // The kernel checks that a cut is a write, and then cuts without a further look.
                    let cut = SetAttr { size: Some(0), ..nothing };
                    let through = OpenFlags(flags).writable().then_some(&*opened);
                    g.setattr(by, ino, through, &cut)?;
                }
                Ok(())
            }
            Op::OpenDir(d) => g.opendir(by, parent(d)?).map(drop),
            Op::Chmod(d, n, m) => set(find(d, n)?, SetAttr { mode: Some(m), ..nothing }),
            Op::Chown(d, n, uid, gid) => set(find(d, n)?, SetAttr { uid, gid, ..nothing }),
            Op::Cut(d, n, size) => set(find(d, n)?, SetAttr { size: Some(size), ..nothing }),
            Op::Times(d, n, how) => {
                let (atime, mtime) = times(how);
                let time = |time: i64| match time {
                    NOW => Some(SetTime::Now),
                    OMIT => None,
                    secs => Some(SetTime::At(Timestamp { secs, nanos: 0 })),
                };
                set(find(d, n)?, SetAttr { atime: time(atime), mtime: time(mtime), ..nothing })
            }
            Op::GetXattr(d, n) => g.getxattr(by, find(d, n)?, OsStr::new("user.k")).map(drop),
            Op::SetXattr(d, n) => g.setxattr(by, find(d, n)?, OsStr::new("user.k"), b"v", XattrMode::Any),
            Op::Prepare(d, mode, uid, gid) => {
                let own = SetAttr { uid: Some(uid), gid: Some(gid), ..nothing };
                let g = self.by(&root());
                let ino = self.ino(&g, d)?;
                g.setattr(by, ino, None, &own)?;
                g.setattr(by, ino, None, &SetAttr { mode: Some(mode), ..nothing }).map(drop)
            }
        }
    }

    fn picture(&self) -> Vec<String> {
        let g = self.by(&root());
        let mut lines = Vec::new();
        for (d, directory) in DIRECTORIES.iter().enumerate() {
            let Ok(parent) = self.ino(&g, d) else { continue };
            let own = g.getattr(parent).unwrap();
            lines.push(format!("{}/ {:o} {} {}", directory, own.mode, own.uid, own.gid));
            for name in NAMES {
                let Ok(attr) = g.lookup(caller(&root()), parent, OsStr::new(name)) else { continue };
                let (mode, uid, gid, nlink) = (attr.mode, attr.uid, attr.gid, attr.nlink);
                let kind = attr.kind.mode_bits();
                let size = if attr.kind == FileKind::Regular { attr.size } else { 0 };
                lines.push(format!("{}/{name} {kind:o} {mode:o} {uid} {gid} {nlink} {size}", directory));
            }
        }
        lines
    }
}

const NOW: i64 = -1;
const OMIT: i64 = -2;

fn times(how: u8) -> (i64, i64) {
    [(NOW, NOW), (NOW, OMIT), (OMIT, NOW), (1000, OMIT), (1000, 2000)][usize::from(how)]
}

// ---- the kernel

struct Kernel {
    root: PathBuf,
    _directory: tempfile::TempDir,
}

/// Runs something as somebody else, on a thread of its own: the kernel keeps these by thread.
fn acting<T: Send>(person: &Person, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            // SAFETY: the calls take numbers, and a list that lives for the call. The raw calls are those of the thread
            // alone, which ends with what it does.
            unsafe {
                // The mask would change the modes of the oracle's files; ours come with it applied.
                assert_eq!(libc::unshare(libc::CLONE_FS), 0);
                libc::umask(0);
                let groups = &person.groups;
                assert_eq!(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), 0);
                libc::syscall(libc::SYS_setfsgid, person.gid);
                libc::syscall(libc::SYS_setfsuid, person.uid);
                assert_eq!(libc::syscall(libc::SYS_setfsuid, -1), i64::from(person.uid));
                assert_eq!(libc::syscall(libc::SYS_setfsgid, -1), i64::from(person.gid));
            }
            what()
        });
        acting.join().unwrap()
    })
}

impl Kernel {
    fn new() -> Kernel {
        let directory = tempfile::tempdir().unwrap();
        let all = || std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory.path(), all()).unwrap();
        let root = directory.path().join("root");
        for path in [root.clone(), root.join("x"), root.join("y")] {
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, all()).unwrap();
        }
        Kernel { root, _directory: directory }
    }

    fn at(&self, d: usize, n: usize) -> PathBuf {
        self.root.join(DIRECTORIES[d]).join(NAMES[n])
    }

    fn apply(&self, person: &Person, op: &Op) -> Said {
        let done = match op {
            Op::Prepare(..) => acting(&root(), || self.call(op)),
            _ => acting(person, || self.call(op)),
        };
        done.map_err(crate::host::host("oracle"))
    }

    fn call(&self, op: &Op) -> rustix::io::Result<()> {
        use rustix::fs::*;
        let raw = Mode::from_raw_mode;
        let own = AtFlags::SYMLINK_NOFOLLOW;
        match *op {
            Op::Lookup(d, n) => lstat(self.at(d, n)).map(drop),
            Op::Create(d, n, m) => {
                open(self.at(d, n), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, raw(m)).map(drop)
            }
            Op::Mkdir(d, n, m) => mkdir(self.at(d, n), raw(m)),
            Op::Fifo(d, n, m) => mknodat(CWD, self.at(d, n), FileType::Fifo, raw(m), 0),
            Op::Device(d, n) => mknodat(CWD, self.at(d, n), FileType::CharacterDevice, raw(0o600), 0x103),
            Op::Symlink(d, n) => symlink("nowhere", self.at(d, n)),
            Op::Link(a, b, c, d) => linkat(CWD, self.at(a, b), CWD, self.at(c, d), AtFlags::empty()),
            Op::Unlink(d, n) => unlink(self.at(d, n)),
            Op::Rmdir(d, n) => rmdir(self.at(d, n)),
            Op::Rename(a, b, c, d, exchange) => {
                let how = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
                renameat_with(CWD, self.at(a, b), CWD, self.at(c, d), how)
            }
            Op::Open(d, n, flags) => {
                let flags = OFlags::from_bits_retain(flags) | OFlags::NONBLOCK | OFlags::NOFOLLOW;
                open(self.at(d, n), flags, Mode::empty()).map(drop)
            }
            Op::OpenDir(d) => {
                let path = self.root.join(DIRECTORIES[d]);
                open(path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).map(drop)
            }
            Op::Chmod(d, n, m) => chmodat(CWD, self.at(d, n), raw(m), AtFlags::empty()),
            Op::Chown(d, n, uid, gid) => {
                chownat(CWD, self.at(d, n), uid.map(Uid::from_raw), gid.map(Gid::from_raw), own)
            }
            Op::Cut(d, n, size) => {
                let path =
                    std::ffi::CString::new(self.at(d, n).into_os_string().into_encoded_bytes()).unwrap();
                // SAFETY: the path is a string that lives for the call.
                match unsafe { libc::truncate(path.as_ptr(), size as i64) } {
                    0 => Ok(()),
                    _ => Err(rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
                }
            }
            Op::Times(d, n, how) => {
                let spec = |time: i64| match time {
                    NOW => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
                    OMIT => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                    secs => Timespec { tv_sec: secs, tv_nsec: 0 },
                };
                let (atime, mtime) = times(how);
                let times = Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
                utimensat(CWD, self.at(d, n), &times, own)
            }
            Op::GetXattr(d, n) => lgetxattr(self.at(d, n), "user.k", &mut [0u8; 64][..]).map(drop),
            Op::SetXattr(d, n) => lsetxattr(self.at(d, n), "user.k", b"v", XattrFlags::empty()),
            Op::Prepare(d, mode, uid, gid) => {
                let path = self.root.join(DIRECTORIES[d]);
                let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                chownat(CWD, &path, uid, gid, own)?;
                chmodat(CWD, &path, raw(mode), AtFlags::empty())
            }
        }
    }

    fn picture(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for d in DIRECTORIES {
            let own = rustix::fs::lstat(self.root.join(d)).unwrap();
            lines.push(format!("{d}/ {:o} {} {}", own.st_mode & 0o7777, own.st_uid, own.st_gid));
            for name in NAMES {
                let Ok(stat) = rustix::fs::lstat(self.root.join(d).join(name)) else { continue };
                let (kind, mode) = (stat.st_mode & 0o170_000, stat.st_mode & 0o7777);
                let (uid, gid, nlink) = (stat.st_uid, stat.st_gid, stat.st_nlink);
                let size = if kind == 0o100_000 { stat.st_size } else { 0 };
                lines.push(format!("{d}/{name} {kind:o} {mode:o} {uid} {gid} {nlink} {size}"));
            }
        }
        lines
    }

    /// What the kernel of a client refuses by itself before anybody is asked, or decides by rules that are its own.
    fn is_the_clients_business(&self, person: &Person, op: &Op) -> bool {
        let stat = |d: usize, n: usize| rustix::fs::lstat(self.at(d, n)).ok();
        let kind = |d: usize, n: usize| stat(d, n).map_or(0, |stat| stat.st_mode & 0o170_000);
        match *op {
            // `protected_hardlinks`.
            Op::Link(a, b, ..) => {
                !person.is_root() && stat(a, b).is_some_and(|stat| stat.st_uid != person.uid)
            }
            // Only regular files are opened and cut at a server, and links are followed by the client.
            Op::Open(d, n, _) | Op::Cut(d, n, _) => !matches!(kind(d, n), 0 | 0o100_000),
            Op::Chmod(d, n, _) | Op::GetXattr(d, n) | Op::SetXattr(d, n) => {
                !matches!(kind(d, n), 0 | 0o100_000 | 0o040_000)
            }
            // It takes the set-id bits, as a request of its own.
            Op::Chown(_, _, None, None) => true,
            // A name for itself.
            Op::Rename(a, b, c, d, _) => (a, b) == (c, d),
            _ => false,
        }
    }
}

#[test]
fn nobody_may_more_or_less_than_on_a_local_file_system() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: to act as others needs root");
        return;
    }
    const CASES: u32 = 50;
    let mut runner = TestRunner::new_with_rng(
        Config { cases: CASES, failure_persistence: None, ..Config::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let steps = prop::collection::vec((person(), op()), 40..100);
    let (allowed, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let done = runner.run(&steps, |steps| {
        let (ours, kernel) = (Ours::new(), Kernel::new());
        for (person, op) in &steps {
            if kernel.is_the_clients_business(person, op) {
                continue;
            }
            let (a, b) = (ours.apply(person, op), kernel.apply(person, op));
            prop_assert_eq!(a, b, "{:?} by {:?}\n{:#?}", op, person, kernel.picture());
            match a {
                Ok(()) => allowed.set(allowed.get() + 1),
                Err(FsError::AccessDenied | FsError::NotPermitted) => refused.set(refused.get() + 1),
                Err(_) => {}
            }
            prop_assert_eq!(ours.picture(), kernel.picture(), "after {:?} by {:?}", op, person);
        }
        Ok(())
    });
    done.unwrap();
    println!("{} allowed, {} refused", allowed.get(), refused.get());
    assert!(allowed.get() > 300 && refused.get() > 300, "{} {}", allowed.get(), refused.get());
}

#[test]
fn the_right_to_cut_is_that_of_the_open_file() {
    let ours = Ours::new();
    let one = Person { uid: 1001, gid: 2001, groups: Vec::new() };
    let two = Person { uid: 1002, gid: 2002, groups: Vec::new() };
    let g = ours.by(&one);
    let object = NewObject { caller: caller(&one), mode: 0o100_444, rdev: 0 };
    let (attr, opened) = g.create(Ino::ROOT, OsStr::new("f"), &object, OpenFlags::READ_WRITE).unwrap();
    let cut = SetAttr { size: Some(5), ..SetAttr::default() };
    let by = caller(&one);
    assert_eq!(g.setattr(by, attr.ino, None, &cut).map(drop), Err(FsError::AccessDenied));
    assert_eq!(g.setattr(by, attr.ino, Some(&*opened), &cut).map(|attr| attr.size), Ok(5));
    assert_eq!(g.open(by, attr.ino, OpenFlags::READ_WRITE).map(drop), Err(FsError::AccessDenied));
    let reading = ours.by(&two).open(by, attr.ino, OpenFlags::READ_ONLY).unwrap();
    let other = ours.by(&two);
    assert_eq!(other.setattr(by, attr.ino, Some(&*reading), &cut).map(drop), Err(FsError::AccessDenied));
    let object = NewObject { mode: 0o100_600, ..object };
    let (own, mine) = other.create(Ino::ROOT, OsStr::new("g"), &object, OpenFlags::READ_WRITE).unwrap();
    assert_ne!(own.ino, attr.ino);
    // An open file is the right to that file only.
    assert_eq!(other.setattr(by, attr.ino, Some(&*mine), &cut).map(drop), Err(FsError::AccessDenied));
}

#[test]
fn who_may_execute_may_open_to_execute() {
    let ours = Ours::new();
    let owner = Person { uid: 1001, gid: 2001, groups: Vec::new() };
    let other = Person { uid: 1002, gid: 2002, groups: Vec::new() };
    let object = NewObject { caller: caller(&owner), mode: 0o100_711, rdev: 0 };
    let flags = OpenFlags::READ_WRITE;
    let (attr, _) = ours.by(&owner).create(Ino::ROOT, OsStr::new("f"), &object, flags).unwrap();
    let (g, by) = (ours.by(&other), caller(&other));
    assert_eq!(g.open(by, attr.ino, OpenFlags::READ_ONLY).map(drop), Err(FsError::AccessDenied));
    assert_eq!(g.open(by, attr.ino, OpenFlags(OPEN_TO_EXECUTE)).map(drop), Ok(()));
}

#[test]
fn set_id_bits_are_taken_by_who_owns_or_writes_the_file() {
    let ours = Ours::new();
    let owner = Person { uid: 1001, gid: 2001, groups: Vec::new() };
    let other = Person { uid: 1002, gid: 2002, groups: Vec::new() };
    let object = NewObject { caller: caller(&owner), mode: 0o104_777, rdev: 0 };
    let flags = OpenFlags::READ_WRITE;
    let (attr, _) = ours.by(&owner).create(Ino::ROOT, OsStr::new("f"), &object, flags).unwrap();
    let (g, by) = (ours.by(&other), caller(&other));
    let take = SetAttr { kill_suid_sgid: true, ..SetAttr::default() };
    assert_eq!(g.setattr(by, attr.ino, None, &take).map(drop), Err(FsError::NotPermitted));
    let writing = g.open(by, attr.ino, flags).unwrap();
    assert_eq!(g.setattr(by, attr.ino, Some(&*writing), &take).map(|attr| attr.mode & 0o7777), Ok(0o777));
}
