//! A namespace of an instance, mounted on a client node.
//!
//! Order of events at the start: the token is read - the servers are attached - the kernel mounts. An error at any point
//! leaves nothing. At the end: the mount goes away, what is under way is served - the session says goodbye, which gives back
//! what it holds at once. A crash leaves a dead mount, which `forebay umount` removes, and a session that ends with the grace
//! time of the servers.

use super::{InstanceFile, NodeError, read_secret, remote};
use crate::account::InstanceAccount;
use forebay_client::Volume;
use forebay_client::remote::{Attached, Notices};
use forebay_fuse::{CachePolicy, KernelCache, MountOptions, Mounted, Unmounter};
use forebay_wire::Ino;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Threads that serve the mount. A request whose server is away holds its thread until the server is back; the others go on
/// as long as a thread is left.
const THREADS: usize = 16;

/// What a caller may choose about a mount.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountWishes {
    /// Let other users in. Always so for root.
    pub allow_other: bool,
}

/// See the module.
pub struct ClientMount {
    // Dropped in this order: the mount uses the attachment.
    mounted: Mounted,
    attached: Attached,
}

/// Limits and accounting of the namespace that a file describes.
pub fn status(file: &InstanceFile) -> Result<InstanceAccount, NodeError> {
    let attached = remote::attach(file, read_secret(&file.token_file)?)?;
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
        let token = read_secret(&file.token_file)?;
        let attached = remote::attach(file, token)?;
        let mut options = MountOptions::named(format!("{}/{}", file.name, file.namespace));
        options.allow_other = wishes.allow_other || rustix::process::geteuid().is_root();
        options.cache = CachePolicy::AsAnswered;
        options.threads = options.threads.max(THREADS);
        let volume = Volume::new(attached.metadata.clone(), attached.data.clone());
        let volume = Arc::new(volume.with_locks(attached.locks.clone()));
        let mounted = forebay_fuse::mount(volume, mountpoint, &options)?;
        attached.set_notices(Arc::new(Announcer(mounted.kernel_cache().clone())));
        Ok(ClientMount { mounted, attached })
    }

    /// Where it is mounted, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.mounted.unmounter()
    }

    /// Waits until the mount is gone, whoever removed it, and every request is served.
    pub fn wait(self) -> Result<(), NodeError> {
        let ended = self.mounted.wait();
        self.attached.close();
        Ok(ended?)
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
