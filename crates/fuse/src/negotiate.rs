//! What this mount agrees on with the kernel at its start. Pure: capabilities in, plan out.
//!
//! Every capability is optional. An older kernel gives a slower mount, never one that behaves differently; the table
//! of what which kernel gives is `docs/kernels.md`.

use crate::options::CachePolicy;
use fuser::InitFlags;

/// How file contents travel between program and file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPath {
    /// Each read and write of a program is a request of up to 1 MiB; memory mappings use the page cache, which the
    /// kernel keeps coherent with the requests (Linux 6.6).
    Direct,
    /// Through the kernel's page cache, written through: older kernels refuse shared mappings of directly accessed
    /// files.
    Cached,
}

/// The agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub flags: InitFlags,
    pub data: DataPath,
    /// The kernel knows passthrough; whether it accepts backing files of this process is seen when one is offered.
    pub passthrough: bool,
    /// The kernel leaves clearing of set-id bits on writes to the file system (else it does that itself, at the cost of
    /// a request before writes).
    pub kills_privileges: bool,
}

/// Taken whenever the kernel has them.
const WELCOME: InitFlags = InitFlags::FUSE_ATOMIC_O_TRUNC
    .union(InitFlags::FUSE_FILE_OPS)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_CACHE_SYMLINKS);
// Never: FUSE_POSIX_LOCKS and FUSE_FLOCK_LOCKS (the kernel grants locks itself, right for the only mount of a
// namespace), FUSE_WRITEBACK_CACHE (slower here and hides sizes and times from the volume), FUSE_POSIX_ACL (the tree
// keeps mode bits only), FUSE_DONT_MASK (the kernel applies the umask).

/// Plans a mount over a kernel with `capabilities`.
pub(crate) fn plan(capabilities: InitFlags, wants_passthrough: bool, cache: CachePolicy) -> Plan {
    let data = match capabilities.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
        true => DataPath::Direct,
        false => DataPath::Cached,
    };
    let passthrough = wants_passthrough && capabilities.contains(InitFlags::FUSE_PASSTHROUGH);
    let mut wanted = WELCOME | invalidation(cache);
    if data == DataPath::Direct {
        wanted |= InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
    }
    if passthrough {
        wanted |= InitFlags::FUSE_PASSTHROUGH;
    }
    let flags = wanted & capabilities;
    Plan { flags, data, passthrough, kills_privileges: flags.contains(InitFlags::FUSE_HANDLE_KILLPRIV_V2) }
}

/// A sole owner says when pages are out of date; otherwise a changed time or size does.
fn invalidation(cache: CachePolicy) -> InitFlags {
    match cache {
        CachePolicy::SoleOwner => InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        CachePolicy::Revalidate => InitFlags::FUSE_AUTO_INVAL_DATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: InitFlags = InitFlags::all();

    #[test]
    fn a_new_kernel_gets_direct_data_with_mappings() {
        let plan = plan(NEW, true, CachePolicy::SoleOwner);
        assert_eq!((plan.data, plan.passthrough, plan.kills_privileges), (DataPath::Direct, true, true));
        assert!(!plan.flags.intersects(InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS));
        assert!(!plan.flags.contains(InitFlags::FUSE_WRITEBACK_CACHE));
    }

    #[test]
    fn a_kernel_without_mappings_of_direct_files_gets_the_cache() {
        let old = NEW - InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP - InitFlags::FUSE_PASSTHROUGH;
        let plan = plan(old, true, CachePolicy::SoleOwner);
        assert_eq!((plan.data, plan.passthrough), (DataPath::Cached, false));
    }

    #[test]
    fn nothing_is_asked_that_the_kernel_has_not() {
        let plan = plan(InitFlags::FUSE_FILE_OPS, true, CachePolicy::Revalidate);
        assert_eq!(plan.flags, InitFlags::FUSE_FILE_OPS);
        assert!(!plan.kills_privileges);
    }

    #[test]
    fn passthrough_only_when_wanted() {
        let plan = plan(NEW, false, CachePolicy::SoleOwner);
        assert!(!plan.passthrough && !plan.flags.contains(InitFlags::FUSE_PASSTHROUGH));
    }
}
