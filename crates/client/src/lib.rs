//! Access to a namespace of an instance: [`Volume`].
//!
//! Handles, stripe I/O and locks of open files over the two services of `forebay-wire`. Knows neither FUSE nor where
//! the servers are.

mod volume;

pub use forebay_wire as wire;
pub use volume::{Counters, Handle, Opened, Volume};
