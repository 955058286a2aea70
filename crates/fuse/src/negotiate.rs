//! What this mount agrees on with the kernel at its start. Pure: capabilities in, plan out.
//!
//! Every capability is optional. An older kernel gives a slower mount, never one that behaves differently; the table
//! of what which kernel gives is `docs/kernels.md`.

use crate::options::CachePolicy;
use forebay_fusedev::{Agreement, Features};

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
    pub features: Features,
    pub data: DataPath,
    /// The kernel knows passthrough; whether it accepts backing files of this process is seen when one is offered.
    pub passthrough: bool,
    /// The kernel leaves clearing of set-id bits on writes to the file system (else it does that itself, at the cost of
    /// a request before writes).
    pub kills_privileges: bool,
    /// Locks of programs are requests; otherwise the kernel grants them itself.
    pub grants_locks: bool,
}

/// What the mount would like beside what every mount takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub passthrough: bool,
    /// The volume grants locks, as it must where several mounts share a namespace.
    pub locks: bool,
    /// Requests over io_uring.
    pub io_uring: bool,
    pub cache: CachePolicy,
}

/// Largest request, the most the kernel sends with its default of 256 pages.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests the kernel may have under way for read-ahead and asynchronous direct I/O.
const BACKGROUND_MAX: u16 = 64;
/// File systems that may be stacked: this one over the backing file's.
const STACK_DEPTH: u32 = 1;

impl Plan {
    /// The words for the kernel, of a mount with so many threads.
    pub(crate) fn agreement(&self, threads: usize) -> Agreement {
        Agreement {
            features: self.features,
            max_readahead: REQUEST_BYTES_MAX,
            request_bytes: REQUEST_BYTES_MAX,
            max_background: BACKGROUND_MAX,
            threads,
            max_stack_depth: if self.passthrough { STACK_DEPTH } else { 0 },
        }
    }
}

/// Taken whenever the kernel has them.
const WELCOME: Features = Features::ATOMIC_O_TRUNC
    .union(Features::FILE_OPS)
    .union(Features::DO_READDIRPLUS)
    .union(Features::READDIRPLUS_AUTO)
    .union(Features::ASYNC_DIO)
    .union(Features::PARALLEL_DIROPS)
    .union(Features::HANDLE_KILLPRIV_V2)
    .union(Features::MAX_PAGES)
    .union(Features::CACHE_SYMLINKS)
    .union(Features::ASYNC_READ)
    .union(Features::BIG_WRITES);
// Never: WRITEBACK_CACHE (slower here and hides sizes and times from the volume), POSIX_ACL (the tree keeps mode bits
// only), DONT_MASK (the kernel applies the umask).

/// Only where the volume grants locks: the kernel's own are right for the only mount of a namespace, and faster.
const LOCKS: Features = Features::POSIX_LOCKS.union(Features::FLOCK_LOCKS);

/// Plans a mount over a kernel that offers so much.
pub(crate) fn plan(offered: Features, wishes: &Wishes) -> Plan {
    let data = match offered.contains(Features::DIRECT_IO_ALLOW_MMAP) && !wishes.cache.caches_data() {
        true => DataPath::Direct,
        false => DataPath::Cached,
    };
    let passthrough = wishes.passthrough && offered.contains(Features::PASSTHROUGH);
    let grants_locks = wishes.locks && offered.contains(LOCKS);
    let mut wanted = WELCOME | invalidation(wishes.cache);
    if data == DataPath::Direct {
        wanted |= Features::DIRECT_IO_ALLOW_MMAP;
    }
    if passthrough {
        wanted |= Features::PASSTHROUGH;
    }
    if grants_locks {
        wanted |= LOCKS;
    }
    if wishes.io_uring {
        wanted |= Features::OVER_IO_URING;
    }
    let features = wanted & offered;
    let kills_privileges = features.contains(Features::HANDLE_KILLPRIV_V2);
    Plan { features, data, passthrough, kills_privileges, grants_locks }
}

/// A sole owner says when pages are out of date; otherwise a changed time or size does.
fn invalidation(cache: CachePolicy) -> Features {
    match cache {
        CachePolicy::SoleOwner => Features::EXPLICIT_INVAL_DATA,
        CachePolicy::Revalidate | CachePolicy::AsAnswered | CachePolicy::CloseToOpen => {
            Features::AUTO_INVAL_DATA
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Features = Features::all();
    const ALONE: Wishes =
        Wishes { passthrough: true, locks: false, io_uring: true, cache: CachePolicy::SoleOwner };

    #[test]
    fn a_new_kernel_gets_direct_data_with_mappings() {
        let plan = plan(NEW, &ALONE);
        assert_eq!((plan.data, plan.passthrough, plan.kills_privileges), (DataPath::Direct, true, true));
        assert!(!plan.features.contains(Features::WRITEBACK_CACHE));
        assert_eq!(plan.agreement(1).max_stack_depth, STACK_DEPTH);
    }

    #[test]
    fn locks_are_asked_for_both_kinds_or_none() {
        assert!(!plan(NEW, &ALONE).features.intersects(LOCKS));
        let shared = plan(NEW, &Wishes { locks: true, ..ALONE });
        assert!(shared.grants_locks && shared.features.contains(LOCKS));
        let half = plan(NEW - Features::FLOCK_LOCKS, &Wishes { locks: true, ..ALONE });
        assert!(!half.grants_locks && !half.features.intersects(LOCKS));
        assert!([shared, half].iter().all(|plan| plan.features.contains(Features::OVER_IO_URING)));
    }

    #[test]
    fn a_kernel_without_mappings_of_direct_files_gets_the_cache() {
        let plan = plan(NEW - Features::DIRECT_IO_ALLOW_MMAP - Features::PASSTHROUGH, &ALONE);
        assert_eq!((plan.data, plan.passthrough), (DataPath::Cached, false));
    }

    #[test]
    fn close_to_open_goes_through_the_cache_and_is_invalidated_by_times() {
        let plan = plan(NEW, &Wishes { cache: CachePolicy::CloseToOpen, ..ALONE });
        assert_eq!(plan.data, DataPath::Cached);
        assert!(plan.features.contains(Features::AUTO_INVAL_DATA));
        assert!(!plan.features.contains(Features::WRITEBACK_CACHE));
    }

    #[test]
    fn nothing_is_asked_that_the_kernel_has_not() {
        let plan = plan(Features::FILE_OPS, &Wishes { cache: CachePolicy::Revalidate, ..ALONE });
        assert_eq!(plan.features, Features::FILE_OPS);
        assert!(!plan.kills_privileges);
    }

    #[test]
    fn passthrough_only_when_wanted() {
        let plan = plan(NEW, &Wishes { passthrough: false, ..ALONE });
        assert!(!plan.passthrough && !plan.features.contains(Features::PASSTHROUGH));
    }
}
