//! What is counted of an instance: of its fragments by their servers, of a namespace by its clients.

use super::codec::Item;
use super::record::{record, tags};
use crate::data::FragmentSpace;
use forebay_model::layout::SERVERS_MAX;
use forebay_model::limits::Policy;

tags!(Policy, "what happens at a limit", { Log = 0, Error = 1, Both = 2, });

record! {
    /// How much was written to a fragment within its write window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WindowAccount {
        /// Length of the window in seconds.
        pub length_s: u64,
        /// Bytes that may be written in it.
        pub limit: u64,
        /// Bytes that were, as of now.
        pub written: u64,
        /// The most that ever were.
        pub high_water: u64,
        /// What happens at the limit.
        pub policy: Policy,
    }
}

record! {
    /// Bytes that went in and out of a fragment since it was made.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TrafficAccount {
        /// Bytes read.
        pub bytes_read: u64,
        /// Bytes written.
        pub bytes_written: u64,
        /// None: writing is not limited.
        pub window: Option<WindowAccount>,
    }
}

record! {
    /// One fragment.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FragmentAccount {
        /// Name of the machine that serves it.
        pub node: String,
        /// Its space.
        pub space: FragmentSpace,
        /// Its traffic.
        pub traffic: TrafficAccount,
    }
}

record! {
    /// What was read and written through one or several mounts, and by stagings.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Moved {
        /// Bytes read.
        pub bytes_read: u64,
        /// Bytes written.
        pub bytes_written: u64,
        /// End of the furthest read.
        pub max_offset_read: u64,
        /// End of the furthest write.
        pub max_offset_written: u64,
        /// Bytes that stagings took out.
        pub stage_bytes_read: u64,
        /// Bytes that stagings brought in.
        pub stage_bytes_written: u64,
    }
}

impl Moved {
    /// Both together.
    pub fn and(self, other: Moved) -> Moved {
        Moved {
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
            max_offset_read: self.max_offset_read.max(other.max_offset_read),
            max_offset_written: self.max_offset_written.max(other.max_offset_written),
            stage_bytes_read: self.stage_bytes_read.saturating_add(other.stage_bytes_read),
            stage_bytes_written: self.stage_bytes_written.saturating_add(other.stage_bytes_written),
        }
    }
}

impl Item for FragmentAccount {
    const LIST: &'static str = "fragments";
    const MOST: usize = SERVERS_MAX as usize;
}
