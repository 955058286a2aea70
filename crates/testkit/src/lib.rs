//! What the tests of Forebay stand on, and the suites that judge a file system.
//!
//! Tests only: no product crate depends on this one except for its own tests. Three layers:
//!
//! * things a test borrows and always gives back, also when it fails: [`scratch`], [`xfs_image`], [`process`],
//!   [`mounted`], [`identity`], [`isolation`], [`wait`], [`leaks`], [`random`], [`cluster`] (hosts and a network),
//!   [`slurm`] (users and a workload manager on them);
//! * the suites, each of which takes the directory under test and knows nothing of who serves it: [`posix`] (a table
//!   of what POSIX and Linux promise), [`exercise`] (random operations against an oracle);
//! * the command `forebay-suite`, which runs a suite in a process of its own, so that the file system can be judged
//!   with the eyes of any user.
//!
//! The integration tests of this crate run the suites on a local file system (which proves the suites) and on DWFS.

pub mod cluster;
pub mod exercise;
pub mod identity;
pub mod io_uring;
pub mod isolation;
pub mod leaks;
mod map;
pub mod mounted;
pub mod mounts;
pub mod posix;
pub mod process;
pub mod random;
pub mod scratch;
pub mod slurm;
pub mod wait;
pub mod xfs_image;

pub use identity::Identity;
pub use mounted::MountedProcess;
pub use process::{Finished, ProcessGuard};
pub use random::Random;
pub use scratch::Scratch;
pub use wait::wait_until;
pub use xfs_image::XfsImage;
