//! The kernel adapter: a DWFS volume as a FUSE mount.
//!
//! ```text
//!   program -> kernel -> /dev/fuse -> forebay_fusedev -> [ this crate ] -> forebay_client::Volume -> fragments
//!                 \________________ passthrough: one local file _________________________________________/
//! ```
//!
//! [`mount`] makes and serves a mount as root or as an ordinary user, [`Mounted`] is its handle, [`probe`] says
//! beforehand whether it can work, [`unmount_stale`] removes what a killed process left. Error numbers are made here
//! and nowhere below. The kernel checks permissions, grants locks (the volume does where
//! other mounts share the namespace) and applies the umask; the volume does the rest.
//!
//! Differences between kernels are in `docs/kernels.md`: an older kernel is slower, never wrong.

mod adapter;
mod attach;
mod backing;
mod cache;
mod complaint;
mod errno;
mod error;
pub mod io_uring;
mod kernel;
mod lock_owners;
mod mount;
mod mounted;
mod mountinfo;
mod negotiate;
mod opens;
mod ops;
mod options;
mod privilege;
mod probe;
mod root;
mod seen;
mod set_id;
mod translate;
mod unmount;

pub use cache::KernelCache;
pub use error::{MountError, UnmountError};
pub use kernel::KernelVersion;
pub use mount::mount;
pub use mounted::{Features, Mounted, Unmounter};
pub use negotiate::DataPath;
pub use options::{CachePolicy, MountOptions};
pub use probe::{FuseSupport, Obstacle, probe};
pub use unmount::{Unmount, unmount_stale};
