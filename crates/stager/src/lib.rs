//! Parallel, verified, resumable copies between a parallel file system and an instance.
//!
//! ```text
//!   StageRequest --> stage() --> StageReport | StageFailure
//!                      |  walker -> bounded queue -> workers
//!              Tree (source)      Tree (destination)
//!               /        \            /        \
//!        PosixTree   volume of    PosixTree   volume of
//!                    an instance              an instance
//! ```
//!
//! [`stage`] blocks; it runs its workers in scoped threads and leaves none behind. It may be called from any thread, for
//! several stages at once.

pub mod cancel;
pub mod failure;
pub mod posix;
pub mod raw_path;
pub mod report;
pub mod request;
pub mod stage;
pub mod tree;

pub use cancel::CancelToken;
pub use failure::{ItemFailure, Reason, Side, StageFailure};
pub use posix::PosixTree;
pub use report::{StageProgress, StageReport};
pub use request::{Direction, ListPair, StageOptions, StageRequest, Tuning, Verify, What};
pub use stage::stage;
pub use tree::{Cause, Tree, TreeError};
