//! What a caller may choose about a mount.

use forebay_awake::Awake;
use std::time::Duration;

/// Choices of one mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The name `df` and `/proc/mounts` show as the device; the type is always `fuse.dwfs`.
    pub fsname: String,
    /// Let other users than the one who mounts in. Always allowed for root; other users need `user_allow_other` in
    /// `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Hand files that live in one local file to the kernel (needs root and Linux 6.9; quietly not used where the
    /// kernel refuses: see [`crate::Features::passthrough`]). Writes then do not pass the volume: only for fragments
    /// whose own file system has the size and for volumes without a limit on file size.
    pub passthrough: bool,
    /// Threads that serve requests, 1 to [`MountOptions::THREADS_MAX`].
    pub threads: usize,
    /// Take requests over io_uring where the kernel offers it (Linux 6.14, and root has set
    /// `/sys/module/fuse/parameters/enable_uring`); quietly not used elsewhere: see [`crate::Features::io_uring`].
    pub io_uring: bool,
    /// Who else changes the instance.
    pub cache: CachePolicy,
    /// Keeps the machine's processors awake while there are many requests.
    pub awake: Awake,
}

impl MountOptions {
    /// Most threads a mount may have: each owns a request buffer.
    pub const THREADS_MAX: usize = 64;

    /// Options with a name and the measured defaults.
    pub fn named(fsname: impl Into<String>) -> MountOptions {
        MountOptions {
            fsname: fsname.into(),
            allow_other: false,
            passthrough: false,
            threads: default_threads(),
            io_uring: true,
            cache: CachePolicy::SoleOwner,
            awake: Awake::default(),
        }
    }
}

/// Two threads keep a copying daemon busy on a small machine; more only pay where there are more processors.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(2, 16)
}

/// How long the kernel may trust what it knows of names and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CachePolicy {
    /// All changes pass this mount, or are announced through [`crate::KernelCache`]: the kernel keeps names,
    /// attributes and pages.
    #[default]
    SoleOwner,
    /// Others change the instance without saying so: the kernel asks for every name and attribute again.
    Revalidate,
    /// Others change the instance, and each answer says how long it holds ([`forebay_wire::Attr::valid_ms`]); what is
    /// changed before is announced through [`crate::KernelCache`].
    AsAnswered,
    /// The same for names and attributes; file data stays in the kernel's page cache while a file is open, and from one
    /// open to the next if nobody changed the file meanwhile. What others write is seen by who opens the file after they
    /// closed it.
    CloseToOpen,
}

impl CachePolicy {
    /// Longest life of names and attributes in the kernel.
    pub(crate) fn time_to_live(self) -> Duration {
        match self {
            CachePolicy::SoleOwner | CachePolicy::AsAnswered | CachePolicy::CloseToOpen => {
                Duration::from_secs(3600)
            }
            CachePolicy::Revalidate => Duration::ZERO,
        }
    }

    /// File data is read and written through the kernel's page cache.
    pub(crate) fn caches_data(self) -> bool {
        self == CachePolicy::CloseToOpen
    }

    /// Pages of a file stay valid from one open to the next, whatever happens.
    pub(crate) fn keeps_pages(self) -> bool {
        self == CachePolicy::SoleOwner
    }
}
