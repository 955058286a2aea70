//! Mounting: checks, the kernel's mount, the agreement with the kernel, the serving threads.
//!
//! Order of events: (1) options and mount point are checked, (2) the kernel mounts, (3) protocol and features are
//! agreed, (4) passthrough is tried with a file in memory, (5) threads start serving. An error in 2 leaves nothing; an
//! error in 3 to 5 takes the mount away again. A crash after 2 leaves a dead mount: [`crate::unmount_stale`].

use crate::adapter::{Adapter, Shared};
use crate::attach::{AttachOptions, Way, attach};
use crate::cache::KernelCache;
use crate::device;
use crate::error::MountError;
use crate::kernel::KernelVersion;
use crate::mounted::{Ended, Features, Mounted};
use crate::mountinfo::topmost_at;
use crate::negotiate::Plan;
use crate::options::MountOptions;
use crate::unmount::Target;
use forebay_client::Volume;
use fuser::{Config, Session, SessionACL};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
            if let Err(error) = target.remove() {
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
    let queue_per_thread = options.threads > 1 && device::can_clone(&device);
    let shared = Arc::new(Shared::default());
    let adapter = Adapter::new(volume, options, Arc::clone(&shared));
    let mut config = Config::default();
    config.n_threads = Some(options.threads);
    config.clone_fd = queue_per_thread;
    let access = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let session = Session::from_fd(adapter, device, access, config)?;
    let plan: Plan = *shared.agreed.get().ok_or(io::ErrorKind::InvalidData)?;
    if plan.passthrough && device::takes_backing_files(session.as_fd()).is_ok() {
        shared.backing.switch_on();
    }
    let features = features(&plan, options, queue_per_thread, target);
    let cache = KernelCache::new(session.notifier());
    let _ = shared.kernel_cache.set(cache.clone()); // set here only
    Ok(Parts { ended: start(session)?, features, shared, cache })
}

fn features(plan: &Plan, options: &MountOptions, queue_per_thread: bool, target: &Target) -> Features {
    Features {
        kernel: KernelVersion::running(),
        data: plan.data,
        passthrough: false, // the switch is asked when the features are
        threads: options.threads,
        queue_per_thread,
        mounted_directly: target.way == Way::Syscall,
    }
}

fn start(session: Session<Adapter>) -> io::Result<Arc<Ended>> {
    let ended = Arc::new(Ended::default());
    let tell = Arc::clone(&ended);
    std::thread::Builder::new().name("dwfs-session".into()).spawn(move || tell.set(session.run()))?;
    Ok(ended)
}
