//! The protocol against the running kernel: a file system of one file in memory, mounted in a namespace of the test's own.
//!
//! Programs of the test are child processes (python3), since a thread of this process that hangs in its own mount could
//! not be ended.

use forebay_awake::{Awake, Idle};
use forebay_fusedev::reply::*;
use forebay_fusedev::request::*;
use forebay_fusedev::*;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FILE: u64 = 2;
const NAME: &str = "file";
const FOREVER: Duration = Duration::from_secs(3600);
/// A test that waits longer than this for the kernel has found a bug.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the tests look at.
#[derive(Debug, PartialEq)]
enum Event {
    Lock(Lock),
    Interrupt,
    Complaint(String),
    End,
}

/// One file, whose exclusive locks of each kind are granted to the first who asks.
struct OneFile {
    content: Mutex<Vec<u8>>,
    /// Owner of the lock, by kind.
    locks: Mutex<HashMap<bool, u64>>,
    waiting: Waiters<DoneReply>,
    events: Mutex<Sender<Event>>,
}

impl OneFile {
    fn tell(&self, event: Event) {
        let _ = self.events.lock().unwrap().send(event);
    }

    fn attr(&self, node: u64) -> Attr {
        let size = self.content.lock().unwrap().len() as u64;
        match node {
            FILE => Attr {
                node,
                size,
                mode: libc::S_IFREG | 0o644,
                nlink: 1,
                block_size: 4096,
                ..Attr::default()
            },
            _ => Attr { node, mode: libc::S_IFDIR | 0o755, nlink: 2, block_size: 4096, ..Attr::default() },
        }
    }
}

impl Handler for OneFile {
    fn complain(&self, what: &dyn Display) {
        self.tell(Event::Complaint(what.to_string()));
    }

    fn end(&self) {
        self.tell(Event::End);
    }

    fn lookup(&self, _: &Context, name: &OsStr, reply: EntryReply) {
        match name == NAME {
            true => reply.entry(&Entry {
                attr: self.attr(FILE),
                name_valid: FOREVER,
                attr_valid: FOREVER,
                ..Entry::default()
            }),
            false => reply.refuse(Errno::NOENT),
        }
    }

    fn getattr(&self, context: &Context, _: &Getattr, reply: AttrReply) {
        reply.attr(FOREVER, &self.attr(context.node));
    }

    fn open(&self, _: &Context, _: &Open, reply: OpenReply) {
        reply.opened(&Opened::new(7, OpenMode::DIRECT_IO));
    }

    fn opendir(&self, _: &Context, _: &Open, reply: OpenReply) {
        reply.opened(&Opened::new(8, OpenMode::empty()));
    }

    fn readdir(&self, _: &Context, read: &Readdir, mut reply: DirectoryReply<'_>) {
        if read.offset == 0 {
            assert!(reply.add(FILE, 1, FileType::Regular, OsStr::new(NAME)));
        }
        reply.done();
    }

    fn read(&self, _: &Context, read: &Read, reply: DataReply<'_>) {
        assert_ne!(read.offset, 666, "a bug in the file system");
        let content = self.content.lock().unwrap();
        let rest = content.get(read.offset as usize..).unwrap_or_default();
        reply.fill(|buffer| {
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        });
    }

    fn write(&self, _: &Context, write: &Write<'_>, reply: WrittenReply) {
        let mut content = self.content.lock().unwrap();
        let end = write.offset as usize + write.data.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[write.offset as usize..end].copy_from_slice(write.data);
        reply.written(write.data.len() as u32);
    }

    fn setlk(&self, context: &Context, lock: &Lock, reply: DoneReply) {
        let mut locks = self.locks.lock().unwrap();
        let owner = locks.get(&lock.flock).copied();
        match (lock.range.kind, owner) {
            (LockKind::Unlock, Some(owner)) if owner == lock.owner => {
                locks.remove(&lock.flock);
                return reply.done();
            }
            (LockKind::Unlock, _) => return reply.done(),
            (_, None) => {
                locks.insert(lock.flock, lock.owner);
                reply.done();
            }
            (_, Some(_)) if lock.waits => {
                if let Err(reply) = self.waiting.keep(context.unique, reply) {
                    reply.refuse(Errno::INTR);
                }
            }
            (_, Some(_)) => reply.refuse(Errno::AGAIN),
        }
        self.tell(Event::Lock(*lock));
    }

    fn interrupt(&self, unique: u64) -> Interrupted {
        if let Some(reply) = self.waiting.interrupt(unique) {
            reply.refuse(Errno::INTR);
            self.tell(Event::Interrupt);
        }
        Interrupted::Heard
    }

    fn flush(&self, _: &Context, _: u64, _: u64, reply: DoneReply) {
        reply.done();
    }
}

/// How requests come in a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Device { threads: usize },
    Rings,
}

const WAYS: [Way; 3] = [Way::Device { threads: 1 }, Way::Device { threads: 3 }, Way::Rings];

/// The switch of the kernel for requests over io_uring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Switches io_uring on for one test at a time, over all processes, and puts the machine's own setting back, also when the
/// test failed.
struct SwitchedOn {
    before: String,
    _alone: std::fs::File,
}

impl SwitchedOn {
    fn new() -> SwitchedOn {
        let alone = std::fs::File::open(SWITCH).expect("a kernel with requests over io_uring (6.14)");
        alone.lock().unwrap();
        let before = std::fs::read_to_string(SWITCH).unwrap();
        std::fs::write(SWITCH, "Y").unwrap();
        SwitchedOn { before, _alone: alone }
    }
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        std::fs::write(SWITCH, self.before.trim()).unwrap();
    }
}

struct Mounted {
    _switched: Option<SwitchedOn>,
    point: tempfile::TempDir,
    events: Receiver<Event>,
    notifier: Notifier,
    file: Arc<OneFile>,
    /// Stands for the kernel's device.
    latency: tempfile::NamedTempFile,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

/// Moves this thread into a mount namespace of its own, where nobody else sees what it mounts.
fn isolate() {
    assert!(rustix::process::geteuid().is_root(), "these tests run as root");
    // SAFETY: only this thread's mount namespace and file system attributes are unshared, no memory or descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.unwrap();
    let private = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).unwrap();
}

impl Mounted {
    fn new(way: Way, wanted: Features) -> Mounted {
        isolate();
        let _switched = (way == Way::Rings).then(SwitchedOn::new);
        let (threads, wanted) = match way {
            Way::Device { threads } => (threads, wanted),
            Way::Rings => (1, wanted | Features::OVER_IO_URING),
        };
        let point = tempfile::Builder::new().prefix("fusedev-").tempdir().unwrap();
        let device = device::open().unwrap();
        let data =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,default_permissions", device.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        let flags = rustix::mount::MountFlags::NOSUID;
        rustix::mount::mount("test", point.path(), "fuse.test", flags, data.as_c_str()).unwrap();
        let greeting = Greeting::receive(device).unwrap();
        assert!(greeting.offer().minor >= abi::VERSION_MINOR_OLDEST);
        let features = Features::MAX_PAGES | Features::BIG_WRITES | wanted;
        let agreement = Agreement {
            features,
            max_readahead: 1 << 20,
            request_bytes: 1 << 20,
            max_background: 16,
            threads,
            max_stack_depth: 0,
        };
        let connection = greeting.agree(&agreement).unwrap();
        assert!(connection.features().contains(wanted), "this kernel has all that is tested");
        let (tell, events) = channel();
        let file = Arc::new(OneFile {
            content: Mutex::new(b"content".to_vec()),
            locks: Mutex::default(),
            waiting: Waiters::default(),
            events: Mutex::new(tell),
        });
        let (notifier, handler) = (connection.notifier(), Arc::clone(&file));
        let latency = tempfile::NamedTempFile::new().unwrap();
        let awake = Awake::new(&Idle::at(latency.path(), "haltpoll"));
        let serving = Serving { threads, queue_per_thread: threads > 1, name: "test", awake };
        let serving = std::thread::spawn(move || connection.serve(&*handler, &serving));
        Mounted { _switched, point, events, notifier, file, latency, serving: Some(serving) }
    }

    fn path(&self) -> PathBuf {
        self.point.path().join(NAME)
    }

    fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("the kernel said nothing")
    }

    /// A program in the namespace; its argument is the file.
    fn python(&self, script: &str) -> Program {
        let script = format!("import fcntl, mmap, os, signal, sys, errno\n{script}");
        let mut child = Command::new("python3")
            .args(["-c", &script])
            .arg(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Program { child, output }
    }

    fn end(mut self) {
        unmount(self.point.path()).unwrap();
        self.serving.take().unwrap().join().unwrap().unwrap();
        assert_eq!(self.event(), Event::End);
        assert!(self.notifier.inval_inode(FILE, 0, 0).is_err(), "nothing is left to notify");
    }
}

fn unmount(path: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH)
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.serving.is_some() {
            let _ = unmount(self.point.path()); // a failed test; the serving ends with it
        }
    }
}

struct Program {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn content_goes_both_ways_in_requests_of_any_size() {
    for way in WAYS {
        let mounted = Mounted::new(way, Features::empty());
        mounted
            .python(
                "
fd = os.open(sys.argv[1], os.O_RDWR)
assert os.read(fd, 100) == b'content'
assert os.listdir(os.path.dirname(sys.argv[1])) == ['file']
for size in (1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 5_000_000):
    data = os.urandom(size)
    assert os.pwrite(fd, data, 3) == size
    assert os.pread(fd, size, 3) == data, size
",
            )
            .ends_well();
        assert_eq!(mounted.file.content.lock().unwrap().len(), 5_000_003);
        mounted.end();
    }
}

#[test]
fn flock_and_fcntl_are_told_apart_and_do_not_exclude_each_other() {
    let mounted = Mounted::new(Way::Device { threads: 2 }, Features::POSIX_LOCKS | Features::FLOCK_LOCKS);
    let program = mounted.python(
        "
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
other = os.open(sys.argv[1], os.O_RDWR)
try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: pass
else: raise AssertionError('granted twice')
",
    );
    let Event::Lock(first) = mounted.event() else { panic!() };
    assert!(first.flock && first.range.kind == LockKind::Exclusive && first.handle == 7);
    let Event::Lock(second) = mounted.event() else { panic!() };
    assert!(!second.flock && !second.waits);
    assert_eq!((second.range.start, second.range.end, second.range.kind), (5, 14, LockKind::Exclusive));
    assert_ne!(first.owner, second.owner);
    let Event::Lock(third) = mounted.event() else { panic!() };
    assert!(
        third.flock && third.owner != first.owner,
        "the owner of flock is the open file, not the process"
    );
    program.ends_well();
    mounted.end();
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    for way in WAYS {
        let mounted = Mounted::new(way, Features::POSIX_LOCKS | Features::FLOCK_LOCKS);
        let mut program = mounted.python(
            "
first, second = (os.open(sys.argv[1], os.O_RDWR) for _ in range(2))
fcntl.flock(first, fcntl.LOCK_EX)
def stop(*_): raise TimeoutError
signal.signal(signal.SIGUSR1, stop)
try: fcntl.flock(second, fcntl.LOCK_EX)
except TimeoutError: print('interrupted', flush=True)
",
        );
        assert!(matches!(mounted.event(), Event::Lock(Lock { flock: true, .. })));
        assert!(matches!(mounted.event(), Event::Lock(Lock { waits: true, .. })));
        let pid = rustix::process::Pid::from_child(&program.child);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        assert_eq!(mounted.event(), Event::Interrupt);
        assert_eq!(program.says(), "interrupted");
        program.ends_well();
        mounted.end();
    }
}

/// Children of [`WAITERS_START`].
const WAITERS: usize = 200;
/// All on one processor, and all at once: children that wait for the lock held here.
const WAITERS_START: &str = "
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
held = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(held, fcntl.LOCK_EX)
children = []
begin, beginning = os.pipe()
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        own = os.open(sys.argv[1], os.O_RDWR)
        os.close(beginning)
        os.read(begin, 1)
        try: fcntl.flock(own, fcntl.LOCK_EX)
        except OSError as error: os._exit(error.errno)
        os._exit(0)
    children.append(pid)
os.close(beginning)
";

fn await_waiters(mounted: &Mounted) {
    for number in 0..=WAITERS {
        let event = mounted.event();
        assert!(matches!(event, Event::Lock(Lock { waits: true, .. })), "{number}: {event:?}");
    }
}

#[test]
fn locks_that_are_waited_for_leave_room_for_others() {
    for way in WAYS {
        let mounted = Mounted::new(way, Features::POSIX_LOCKS | Features::FLOCK_LOCKS);
        let mut program = mounted.python(&format!(
            "{WAITERS_START}
print('waiting', flush=True); sys.stdin.readline()
assert os.pread(held, 100, 0) == b'content'
for pid in children: os.kill(pid, signal.SIGKILL)
for pid in children: os.waitpid(pid, 0)
fcntl.flock(held, fcntl.LOCK_UN)
"
        ));
        assert_eq!(program.says(), "waiting");
        await_waiters(&mounted);
        program.go_on();
        program.ends_well();
        (0..WAITERS).for_each(|_| assert_eq!(mounted.event(), Event::Interrupt));
        mounted.end();
    }
}

#[test]
fn a_connection_that_is_cut_ends_while_locks_are_waited_for() {
    for way in WAYS {
        let mut mounted = Mounted::new(way, Features::POSIX_LOCKS | Features::FLOCK_LOCKS);
        let mut program = mounted.python(&format!(
            "{WAITERS_START}
print('waiting', flush=True)
for pid in children: assert os.waitpid(pid, 0)[1] != 0
"
        ));
        assert_eq!(program.says(), "waiting");
        await_waiters(&mounted);
        // Cuts the connection, and leaves the mount where it is in use.
        let _ = rustix::mount::unmount(mounted.point.path(), rustix::mount::UnmountFlags::FORCE);
        let served = mounted.serving.take().unwrap().join().unwrap();
        served.unwrap();
        program.ends_well();
        let _ = unmount(mounted.point.path());
    }
}

#[test]
fn a_panic_answers_its_request_and_the_mount_goes_on() {
    for way in WAYS {
        let mounted = Mounted::new(way, Features::empty());
        mounted
            .python(
                "
fd = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(5):
    try: os.pread(fd, 10, 666)
    except OSError as e: assert e.errno == errno.EIO, e
    else: raise AssertionError('no error')
    assert os.pread(fd, 7, 0) == b'content'
",
            )
            .ends_well();
        for _ in 0..5 {
            let Event::Complaint(text) = mounted.event() else { panic!("a panic went by in silence") };
            assert!(text.contains("panic") && text.contains("15"), "{text}");
        }
        mounted.end();
    }
}

#[test]
fn what_is_announced_is_asked_for_again() {
    let mounted = Mounted::new(Way::Device { threads: 2 }, Features::empty());
    let size = |expected: u64| {
        let script =
            format!("assert os.stat(sys.argv[1]).st_size == {expected}, os.stat(sys.argv[1]).st_size");
        mounted.python(&script).ends_well();
    };
    size(7);
    mounted.file.content.lock().unwrap().extend(b" and more");
    size(7); // the kernel may keep it for an hour
    mounted.notifier.inval_inode(FILE, 0, 0).unwrap();
    size(16);
    mounted.file.content.lock().unwrap().clear();
    mounted.notifier.inval_entry(abi::ROOT_NODE, OsStr::new(NAME)).unwrap();
    size(0);
    mounted.notifier.inval_entry(abi::ROOT_NODE, OsStr::new("never seen")).unwrap();
    mounted.end();
}

#[test]
fn unknown_operations_are_refused_and_end_nothing() {
    let mounted = Mounted::new(Way::Device { threads: 1 }, Features::empty());
    mounted
        .python(
            "
fd = os.open(sys.argv[1], os.O_RDWR)
for call in (lambda: os.posix_fallocate(fd, 0, 10), lambda: os.fsync(fd), lambda: os.open('.', os.O_TMPFILE | os.O_RDWR),
             lambda: os.copy_file_range(fd, fd, 1, 0, 4), lambda: os.setxattr(fd, 'user.a', b'b'),
             lambda: os.lseek(fd, 0, os.SEEK_DATA), lambda: fcntl.ioctl(fd, 0x5401, bytearray(64)), lambda: os.sync()):
    try: call()
    except OSError as e: assert e.errno != errno.EIO, e
assert os.pread(fd, 4, 0) == b'cont'
",
        )
        .ends_well();
    mounted.end();
}

#[test]
fn many_requests_keep_processors_awake() {
    for way in WAYS {
        let mounted = Mounted::new(way, Features::empty());
        let asked = || std::fs::read(mounted.latency.path()).unwrap();
        assert!(asked().is_empty());
        let limit = Instant::now() + PATIENCE;
        while asked() != 0_i32.to_ne_bytes() {
            assert_eq!(std::fs::read(mounted.path()).unwrap(), b"content");
            assert!(Instant::now() < limit, "{way:?}: requests are not counted");
        }
        mounted.end();
    }
}
