//! A mount in the place of ours whose process cannot end: it has its kernel forget a name of a directory, which waits for a change there,
//! which waits for the answer of this process. The kernel keeps a connection for as long as a thread is in a call to it, so killing
//! the process ends neither.

use crate::leaks;
use crate::roles;
use crate::scene::{Scene, wait_until};
use forebay_fusedev::reply::*;
use forebay_fusedev::request::*;
use forebay_fusedev::*;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::{CString, OsStr};
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

const KIND: &str = "fuse.dwfs";
/// A directory whose removal is never answered.
const DIRECTORY: &str = "directory";
const NODE: u64 = 2;
const FOREVER: Duration = Duration::from_secs(3600);

struct Silent(Notifier);

impl Silent {
    fn attr(node: u64) -> Attr {
        Attr { node, mode: libc::S_IFDIR | 0o755, nlink: 2, block_size: 4096, ..Attr::default() }
    }
}

impl Handler for Silent {
    fn complain(&self, what: &dyn Display) {
        panic!("{what}");
    }

    fn lookup(&self, _: &Context, _: &OsStr, reply: EntryReply) {
        let attr = Silent::attr(NODE);
        reply.entry(&Entry { attr, name_valid: FOREVER, attr_valid: FOREVER, ..Entry::default() });
    }

    fn getattr(&self, context: &Context, _: &Getattr, reply: AttrReply) {
        reply.attr(FOREVER, &Silent::attr(context.node));
    }

    fn rmdir(&self, _: &Context, _: &OsStr, reply: DoneReply) {
        // Dropping it would answer.
        std::mem::forget(reply);
        let notifier = self.0.clone();
        std::thread::spawn(move || notifier.inval_entry(abi::ROOT_NODE, OsStr::new("another")));
    }
}

/// The process.
pub fn play(point: &str, source: &str) -> ExitCode {
    let device = device::open().unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    mount(source, point, KIND, MountFlags::NOSUID, CString::new(data).unwrap().as_c_str()).unwrap();
    let agreement = Agreement {
        features: Features::empty(),
        max_readahead: 0,
        request_bytes: 1 << 20,
        max_background: 16,
        threads: 1,
        max_stack_depth: 0,
    };
    let connection = Greeting::receive(device).unwrap().agree(&agreement).unwrap();
    let handler = Silent(connection.notifier());
    let serving = Serving { threads: 1, queue_per_thread: false, name: "silent", awake: Default::default() };
    connection.serve(&handler, &serving).unwrap();
    ExitCode::SUCCESS
}

/// The connection of a mount, which is cut when this is dropped: a failed test leaves nobody who waits.
struct Cut {
    control: PathBuf,
    /// Open from the start: when the connection is gone its number is another's, and so is the file of that name.
    abort: fs::File,
}

impl Cut {
    fn of(scene: &Scene, point: &str) -> Cut {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let is_there = |fields: &Vec<&str>| fields[4] == point;
        let fields = table.lines().map(|line| line.split(' ').collect()).rfind(is_there).unwrap();
        let number = fields[2].split_once(':').unwrap().1;
        let control = scene.path("connections");
        fs::create_dir(&control).unwrap();
        mount("control", &control, "fusectl", MountFlags::empty(), None).unwrap();
        let abort = fs::File::options().write(true).open(control.join(number).join("abort")).unwrap();
        Cut { control, abort }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // It is gone if all went well.
        let _ = self.abort.write_all(b"1");
        unmount(&self.control, UnmountFlags::DETACH).unwrap();
    }
}

/// What is at a path in the place of one of ours, somebody who waits in it, and nobody who could answer him.
pub struct Stuck {
    pub waiting: Child,
    _cut: Cut,
}

impl Stuck {
    /// In the place of the mount of this activation's process, which is killed.
    pub fn instead_of_mount(scene: &Scene, state: &str, point: &str) -> Stuck {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let source = table.lines().find(|line| line.split(' ').nth(1) == Some(point)).unwrap();
        let source = source.split(' ').next().unwrap();
        leaks::kill_with(&scene.path(state), "mount");
        unmount(point, UnmountFlags::DETACH).unwrap();
        let mut server = roles::start_silently(scene.root(), &["silent-mount", point, source]);
        let directory = Path::new(point).join(DIRECTORY);
        wait_until("it is mounted", || {
            let end = server.try_wait().unwrap();
            assert!(end.is_none(), "{end:?}: {}", roles::log(scene.root()));
            directory.is_dir()
        });
        let cut = Cut::of(scene, point);
        let mut waiting = Command::new("rmdir");
        let waiting = waiting.arg(directory).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it is to forget a name", || is_forgetting(server.id()));
        server.kill().unwrap();
        // Its first thread ends, another one does not.
        wait_until("it is killed", || is_dead(server.id()));
        assert!(is_forgetting(server.id()));
        std::thread::spawn(move || server.wait());
        Stuck { waiting, _cut: cut }
    }
}

/// A thread of a process waits for the lock of a directory.
fn is_forgetting(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    let stack = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stack")).unwrap_or_default();
    threads.flatten().map(stack).any(|stack| stack.contains("fuse_reverse_inval_entry"))
}

fn is_dead(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('Z')
}
