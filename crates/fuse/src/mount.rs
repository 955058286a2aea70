//! Mounting: checks, the kernel's mount, the agreement with the kernel, the serving threads.
//!
//! Order of events: (1) options and mount point are checked, (2) the kernel mounts, (3) protocol and features are
//! agreed, (4) passthrough is tried with a file in memory, (5) threads start serving, (6) the kernel is made to know the root.
//! An error in 2 leaves nothing; an error in 3 to 6 takes the mount away again. A crash after 2 leaves a dead mount: [`crate::unmount_stale`].

use crate::adapter::{Adapter, Shared};
use crate::attach::{AttachOptions, Way, attach};
use crate::backing::{self, Backing};
use crate::cache::KernelCache;
use crate::error::MountError;
use crate::kernel::KernelVersion;
use crate::mounted::{Ended, Features, Mounted};
use crate::mountinfo::topmost_at;
use crate::negotiate::{self, Plan, Wishes};
use crate::options::MountOptions;
use crate::root;
use crate::unmount::Target;
use forebay_client::Volume;
use forebay_fusedev::{Connection, Greeting, HandshakeError, Serving};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Begin of the names of the serving threads.
const THREAD_NAME: &str = "dwfs";

/// Longest name for `df`, in bytes; the kernel takes no more than a page of options.
const FSNAME_MAX: usize = 255;

/// Mounts `volume` at `mountpoint`, an existing directory, and serves it with threads of its own until it is unmounted.
pub fn mount(volume: Arc<Volume>, mountpoint: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    check(options)?;
    let mountpoint = directory(mountpoint)?;
    let attach_options = AttachOptions { fsname: &options.fsname, allow_other: options.allow_other };
    let (device, way) = attach(&mountpoint, &attach_options)?;
    let target = target(mountpoint, way)?;
    match serve(volume, device, &target, options) {
        Ok(parts) => Ok(Mounted::new(target, parts.ended, parts.features, parts.shared, parts.cache)),
        Err(source) => {
            let path = target.mountpoint.clone();
            if let Err(error) = target.remove(true) {
                crate::complaint::complain("taking a failed mount away", &error);
            }
            Err(MountError::Handshake { path, source })
        }
    }
}

fn check(options: &MountOptions) -> Result<(), MountError> {
    if !(1..=MountOptions::THREADS_MAX).contains(&options.threads) {
        return Err(MountError::Threads { given: options.threads, max: MountOptions::THREADS_MAX });
    }
    let name = &options.fsname;
    if name.is_empty() || name.len() > FSNAME_MAX || name.chars().any(char::is_control) {
        return Err(MountError::FsName { name: name.clone(), max: FSNAME_MAX });
    }
    Ok(())
}

fn directory(path: &Path) -> Result<PathBuf, MountError> {
    let error = |source| MountError::Mountpoint { path: path.into(), source };
    let canonical = path.canonicalize().map_err(error)?;
    match canonical.metadata().map_err(error)?.is_dir() {
        true => Ok(canonical),
        false => Err(error(io::ErrorKind::NotADirectory.into())),
    }
}

/// The entry of the mount just made, so that no other is ever removed in its place.
fn target(mountpoint: PathBuf, way: Way) -> Result<Target, MountError> {
    let found = topmost_at(&mountpoint).and_then(|entry| entry.ok_or_else(|| io::ErrorKind::NotFound.into()));
    match found {
        Ok(entry) => Ok(Target { mountpoint, entry, way }),
        Err(source) => Err(MountError::Mount { path: mountpoint, source }),
    }
}

struct Parts {
    ended: Arc<Ended>,
    features: Features,
    shared: Arc<Shared>,
    cache: KernelCache,
}

fn serve(volume: Arc<Volume>, device: OwnedFd, target: &Target, options: &MountOptions) -> io::Result<Parts> {
    let ended = Arc::new(Ended::not_yet(device.try_clone()?));
    let (connection, plan) = agree(device, options, volume.locks().is_some()).map_err(as_io)?;
    let queue_per_thread = options.threads > 1 && connection.can_have_queues();
    let (registrar, cache) = (connection.registrar(), KernelCache::new(connection.notifier()));
    let shared = Arc::new(Shared { backing: Backing::default(), kernel_cache: cache.clone() });
    if plan.passthrough && backing::is_taken(&registrar)? {
        shared.backing.switch_on();
    }
    let io_uring = connection.is_over_io_uring();
    let features = Features { io_uring, ..features(&plan, options, queue_per_thread, target) };
    let adapter = Adapter::new(volume, options.cache, plan, &connection, Arc::clone(&shared));
    let (threads, awake) = (options.threads, options.awake.clone());
    let serving = Serving { threads, queue_per_thread, name: THREAD_NAME, awake };
    start(connection, adapter, serving, Arc::clone(&ended))?;
    root::make_known(&target.mountpoint)?;
    Ok(Parts { ended, features, shared, cache })
}

fn agree(device: OwnedFd, options: &MountOptions, locks: bool) -> Result<(Connection, Plan), HandshakeError> {
    let greeting = Greeting::receive(device)?;
    let wishes =
        Wishes { passthrough: options.passthrough, locks, io_uring: options.io_uring, cache: options.cache };
    let plan = negotiate::plan(greeting.offer().features, &wishes);
    Ok((greeting.agree(&plan.agreement(options.threads))?, plan))
}

fn as_io(error: HandshakeError) -> io::Error {
    match error {
        HandshakeError::Device(errno) => errno.into(),
        disagreement => io::Error::new(io::ErrorKind::Unsupported, disagreement),
    }
}

fn features(plan: &Plan, options: &MountOptions, queue_per_thread: bool, target: &Target) -> Features {
    Features {
        kernel: KernelVersion::running(),
        data: plan.data,
        passthrough: false, // the switch is asked when the features are
        threads: options.threads,
        queue_per_thread,
        io_uring: false,
        mounted_directly: target.way == Way::Syscall,
    }
}

fn start(connection: Connection, adapter: Adapter, serving: Serving, tell: Arc<Ended>) -> io::Result<()> {
    let run = move || {
        let result = connection.serve(&adapter, &serving);
        drop(adapter); // who is told finds the volume no longer used
        tell.set(result);
    };
    std::thread::Builder::new().name("dwfs-session".into()).spawn(run)?;
    Ok(())
}
