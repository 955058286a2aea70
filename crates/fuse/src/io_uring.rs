//! The machine's switch for requests over io_uring.
//!
//! The kernel offers io_uring to a FUSE file system only while `/sys/module/fuse/parameters/enable_uring` says so, and only root may
//! set that. It is no order: a file system that does not ask for io_uring is served as before. So whoever mounts as root may
//! switch it on, before the mount; nobody switches it off, since other mounts may have come to rely on it.
//!
//! What closes io_uring to processes (`kernel.io_uring_disabled`, filters of system calls) stays in force: such a mount takes its requests
//! over `/dev/fuse`.

use crate::kernel::KernelVersion;
use std::path::Path;

/// The kernel's parameter.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Words of the kernel for a parameter that is on.
const ON: [&str; 2] = ["Y", "1"];

/// Lets file systems of this machine take their requests over io_uring, if the kernel can and is not older than what that was tested
/// with ([`KernelVersion::IO_URING`]). Says whether mounts made from now on may; being refused is not an error.
pub fn switch_on() -> bool {
    let switch = Path::new(SWITCH);
    let is_on = || std::fs::read_to_string(switch).is_ok_and(|word| ON.contains(&word.trim()));
    is_on() || (KernelVersion::running() >= KernelVersion::IO_URING && std::fs::write(switch, ON[0]).is_ok())
}
