//! Access to a namespace of an instance: [`Volume`].
//!
//! ```text
//! kernel adapter, stager ──> Volume ──┬─ names, attributes ──> MetadataService
//!                                     └─ content: stripes ───> DataService of each fragment
//! ```
//!
//! Open files and their locks, stripe I/O and counters over the two services of `forebay-wire`. Knows no FUSE, and does not
//! care where the servers are: in the same process, or elsewhere ([`remote`]).

mod counters;
mod file;
mod handles;
pub mod remote;
mod stripes;
mod turns;
mod volume;

pub use counters::Counters;
pub use handles::Handle;
pub use volume::{Opened, Volume};
