//! A namespace of an instance, mounted on a client node.
//!
//! Order of events at the start: the token is read - the servers are attached - the kernel mounts. An error at any point
//! leaves nothing. At the end: the mount goes away, what is under way is served - the session says goodbye, which gives back
//! what it holds at once. A crash leaves a dead mount, which `forebay umount` removes, and a session that ends with the grace
//! time of the servers.

use super::{Cache, InstanceFile, KeepAwake, NodeError, read_secret, remote};
use crate::account::InstanceAccount;
use forebay_client::Volume;
use forebay_client::remote::{Attached, Notices};
use forebay_fuse::{CachePolicy, KernelCache, MountOptions, Mounted, Unmounter};
use forebay_wire::{Ino, Moved, Secret};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that serve the mount. A request whose server is away holds its thread until the server is back; the others go on
/// as long as a thread is left.
const THREADS: usize = 16;

/// How often the home is told what was read and written.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Whether a mount takes its requests over io_uring instead of `/dev/fuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoUring {
    /// Not at all.
    Never,
    /// Where root has switched the kernel's side on.
    #[default]
    IfOn,
    /// It is switched on for the machine, as far as we may ([`forebay_fuse::io_uring`]).
    SwitchOn,
}

impl IoUring {
    /// Its words, in the order of the variants.
    pub const WORDS: [(&'static str, IoUring); 3] =
        [("never", IoUring::Never), ("if-on", IoUring::IfOn), ("switch-on", IoUring::SwitchOn)];

    /// Its word.
    pub fn word(self) -> &'static str {
        IoUring::WORDS[self as usize].0
    }
}

/// What a caller may choose about a mount.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountWishes {
    /// Let other users in. Always so for root.
    pub allow_other: bool,
    /// How requests come.
    pub io_uring: IoUring,
    /// Whether the machine's processors stay awake while there are many requests.
    pub keep_awake: KeepAwake,
}

/// See the module.
pub struct ClientMount {
    // Dropped in this order: the mount uses the attachment.
    mounted: Mounted,
    reporter: Reporter,
    volume: Arc<Volume>,
    attached: Arc<Attached>,
}

/// Where the servers of a mount are; see [`ClientMount::servers`].
pub struct Servers(Arc<Attached>);

impl Servers {
    /// From now on they are looked for where a file says. It has to be of the same instance.
    pub fn move_to(&self, file: &InstanceFile) -> Result<(), NodeError> {
        let servers = file.servers.iter().map(remote::address).collect();
        if self.0.move_servers(servers) {
            return Ok(());
        }
        Err(NodeError::OtherServers { path: file.source.clone(), servers: file.servers.len() })
    }
}

/// Limits and accounting of the namespace that a file describes.
pub fn status(file: &InstanceFile) -> Result<InstanceAccount, NodeError> {
    status_with(file, read_secret(&file.token_file)?)
}

/// The same with the token itself; the file that is named is not read.
pub fn status_with(file: &InstanceFile, token: Secret) -> Result<InstanceAccount, NodeError> {
    let attached = remote::attach(file, token)?;
    let status = attached.status();
    let mut status = status.map_err(|source| NodeError::Status { instance: file.name.clone(), source })?;
    // Who asks is a client too, for that moment.
    status.sessions = status.sessions.saturating_sub(1);
    Ok(InstanceAccount::of_status(&file.namespace, file.home, status))
}

impl ClientMount {
    /// Attaches and mounts.
    pub fn start(
        file: &InstanceFile,
        mountpoint: &Path,
        wishes: MountWishes,
    ) -> Result<ClientMount, NodeError> {
        // Connections to each server, and files of servers on the same machine that are read and written directly.
        forebay_server::local::raise_descriptor_limit().map_err(|source| NodeError::Limits { source })?;
        let token = read_secret(&file.token_file)?;
        let attached = Arc::new(remote::attach(file, token)?);
        let mut options = MountOptions::named(format!("{}/{}", file.name, file.namespace));
        options.allow_other = wishes.allow_other || rustix::process::geteuid().is_root();
        options.cache = match file.cache {
            Cache::None => CachePolicy::AsAnswered,
            Cache::CloseToOpen => CachePolicy::CloseToOpen,
        };
        options.threads = options.threads.max(THREADS);
        options.io_uring = wishes.io_uring != IoUring::Never;
        options.awake = wishes.keep_awake.awake();
        if wishes.io_uring == IoUring::SwitchOn {
            forebay_fuse::io_uring::switch_on();
        }
        let volume = Volume::new(attached.metadata.clone(), attached.data.clone());
        let volume = Arc::new(volume.with_locks(attached.locks.clone()));
        let mounted = forebay_fuse::mount(Arc::clone(&volume), mountpoint, &options)?;
        let reporter = Reporter::start(&volume).map_err(|source| NodeError::Thread { source })?;
        attached.set_notices(Arc::new(Announcer(mounted.kernel_cache().clone())));
        Ok(ClientMount { mounted, reporter, volume, attached })
    }

    /// Where it is mounted, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.mounted.unmounter()
    }

    /// For telling it, from another thread, that its servers are somewhere else.
    pub fn servers(&self) -> Servers {
        Servers(self.attached.clone())
    }

    /// Waits until the mount is gone, whoever removed it, and every request is served.
    pub fn wait(self) -> Result<(), NodeError> {
        let ended = self.mounted.wait();
        self.attached.report_at_the_end(self.volume.moved());
        // Also ends a report that waits for its server.
        self.attached.close();
        drop(self.reporter);
        Ok(ended?)
    }
}

/// Tells the home now and then what was read and written: only here is all of it seen.
struct Reporter {
    /// Dropped to end it.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    fn start(volume: &Arc<Volume>) -> std::io::Result<Reporter> {
        let (stop, stopped) = channel();
        let volume = Arc::downgrade(volume);
        let run = move || {
            let mut told = Moved::default();
            while stopped.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(volume) = volume.upgrade() else { return };
                let moved = volume.moved();
                // A report that was lost is made up for by the next one.
                if moved != told && volume.report().is_ok() {
                    told = moved;
                }
            }
        };
        let thread = std::thread::Builder::new().name("report".into()).spawn(run)?;
        Ok(Reporter { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        // One that panicked has nothing more to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Passes on to the kernel what others are about to change. An error means that the mount is gone, and with it whatever
/// the kernel remembered.
struct Announcer(KernelCache);

impl Notices for Announcer {
    fn attributes_changed(&self, ino: Ino) {
        let _ = self.0.attributes_changed(ino);
    }

    fn content_changed(&self, ino: Ino) {
        let _ = self.0.changed(ino);
    }

    fn name_changed(&self, parent: Ino, name: &OsStr) {
        let _ = self.0.name_changed(parent, name);
    }
}
