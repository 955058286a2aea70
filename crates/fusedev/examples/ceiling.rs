//! The most that FUSE can give on a machine: a mount with one directory of names, kept in memory, and one `file`. Its reads are answered
//! with whatever is in the buffer, but for the mark of benches/ioprobe.c at its start; its writes are dropped, as are those of
//! the files made beside it. No file system over FUSE moves data, or makes and removes files, faster than this, since it has to
//! do what is left out here as well.
//!
//! `ceiling DIRECTORY MIB`, as root: mounts a `file` of so many MiB at the directory, says `ready`, and serves until its
//! standard input ends.

use forebay_awake::{Awake, Idle};
use forebay_fusedev::reply::*;
use forebay_fusedev::request::*;
use forebay_fusedev::*;
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const FILE: u64 = 2;
const NAME: &str = "file";
const FOREVER: Duration = Duration::from_secs(3600);
const MIB: u64 = 1 << 20;
/// Threads that serve.
const THREADS: usize = 2;

/// The top directory.
const TOP: u64 = 1;

struct Nothing {
    size: u64,
    /// All names and their nodes.
    names: Mutex<HashMap<OsString, u64>>,
    /// The node of the next file.
    next: AtomicU64,
}

impl Nothing {
    fn new(size: u64) -> Self {
        let names = HashMap::from([(NAME.into(), FILE)]);
        Self { size, names: Mutex::new(names), next: AtomicU64::new(FILE + 1) }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<OsString, u64>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attr(&self, node: u64) -> Attr {
        let (mode, size) = match node {
            TOP => (libc::S_IFDIR | 0o777, 0),
            FILE => (libc::S_IFREG | 0o666, self.size),
            _ => (libc::S_IFREG | 0o666, 0),
        };
        Attr { node, size, mode, nlink: 1, block_size: MIB as u32, ..Attr::default() }
    }

    fn entry(&self, node: u64) -> Entry {
        Entry { attr: self.attr(node), name_valid: FOREVER, attr_valid: FOREVER, ..Entry::default() }
    }
}

impl Handler for Nothing {
    fn complain(&self, what: &dyn Display) {
        eprintln!("ceiling: {what}");
    }

    fn lookup(&self, _: &Context, name: &OsStr, reply: EntryReply) {
        let found = self.names().get(name).copied();
        match found {
            Some(node) => reply.entry(&self.entry(node)),
            None => reply.refuse(Errno::NOENT),
        }
    }

    fn getattr(&self, context: &Context, _: &Getattr, reply: AttrReply) {
        reply.attr(FOREVER, &self.attr(context.node));
    }

    fn open(&self, _: &Context, _: &Open, reply: OpenReply) {
        reply.opened(&Opened::new(1, OpenMode::DIRECT_IO | OpenMode::PARALLEL_DIRECT_WRITES));
    }

    fn create(&self, _: &Context, create: &Create<'_>, reply: CreateReply) {
        let node = self.next.fetch_add(1, Ordering::Relaxed);
        self.names().insert(create.name.to_owned(), node);
        reply.created(&self.entry(node), &Opened::new(1, OpenMode::DIRECT_IO));
    }

    fn unlink(&self, _: &Context, name: &OsStr, reply: DoneReply) {
        self.names().remove(name);
        reply.done();
    }

    /// Asked for: it gives up the locks of who closes, so that no file system with locks can do without it.
    fn flush(&self, _: &Context, _: u64, _: u64, reply: DoneReply) {
        reply.done();
    }

    fn read(&self, _: &Context, read: &Read, reply: DataReply<'_>) {
        let left = self.size.saturating_sub(read.offset);
        reply.fill(|buffer| {
            let mark = read.offset.to_ne_bytes();
            let room = buffer.len().min(mark.len());
            buffer[..room].copy_from_slice(&mark[..room]);
            Ok(buffer.len().min(left as usize))
        });
    }

    fn write(&self, _: &Context, write: &Write<'_>, reply: WrittenReply) {
        reply.written(write.data.len() as u32);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, mib] = &arguments[..] else { return Err("usage: ceiling DIRECTORY MIB".into()) };
    let nothing = Nothing::new(mib.parse::<u64>()? * MIB);
    let device = device::open()?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let data = CString::new(data)?;
    rustix::mount::mount(
        "ceiling",
        directory,
        "fuse.ceiling",
        rustix::mount::MountFlags::NOSUID,
        data.as_c_str(),
    )?;
    let agreement = Agreement {
        features: Features::MAX_PAGES
            | Features::BIG_WRITES
            | Features::PARALLEL_DIROPS
            | Features::OVER_IO_URING,
        max_readahead: MIB as u32,
        request_bytes: MIB as u32,
        max_background: 16,
        threads: THREADS,
        max_stack_depth: 0,
    };
    let connection = Greeting::receive(device)?.agree(&agreement)?;
    // As mounts do it: what FUSE gives is compared with them.
    let idle = Some(Idle::of_this_machine()).filter(Idle::is_of_a_guest);
    let awake = idle.map_or_else(Awake::default, |idle| Awake::new(&idle));
    let serving = Serving { threads: THREADS, queue_per_thread: true, name: "ceiling", awake };
    std::thread::scope(|scope| {
        scope.spawn(|| connection.serve(&nothing, &serving));
        println!("ready");
        let _ = std::io::stdout().flush();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH)
    })?;
    Ok(())
}
