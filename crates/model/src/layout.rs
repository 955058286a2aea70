//! Stripe arithmetic: where the bytes of a file are.
//!
//! A file is cut into stripes of `stripe_size`. Stripe `k` goes to slot `k % stripe_count`, the slots being servers
//! (fragments) counted from `first_server` around the ring. The stripes of one slot form rows, row `r = k /
//! stripe_count`; row `r` goes to substripe file `r % substripes` of that server as its stripe number `r / substripes`.
//! Substripes exist so that writers of one shared file do not queue on one inode of the local file system: writers in
//! neighbouring rows meet different substripe files.
//!
//! Invariants, tested as properties: every byte of a file has exactly one place and every place at most one byte;
//! within one substripe file a larger place means a larger file offset; the pieces of a range cover it in order,
//! without overlap. Pure, no state, any thread.

use std::fmt;
use std::ops::Range;

mod choice;
mod pieces;
#[cfg(test)]
mod tests;

pub use choice::LayoutChoice;
pub use pieces::{Piece, Pieces};

/// Stripe size when nobody says otherwise, in bytes.
pub const DEFAULT_STRIPE_SIZE: u64 = 8 << 20;
/// Substripe files on each server when a file is spread over several servers.
pub const DEFAULT_SUBSTRIPES: u32 = 3;
/// Stripe sizes are multiples of this, in bytes: a page, so that a page never lies in two files.
pub const STRIPE_SIZE_UNIT: u64 = 4096;
/// Largest stripe size, in bytes.
pub const STRIPE_SIZE_MAX: u64 = 4 << 30;
/// Most substripe files on one server.
pub const SUBSTRIPES_MAX: u32 = 64;
/// Most servers of one instance.
pub const SERVERS_MAX: u32 = 4096;

/// How one file is spread. Always valid: made by [`Layout::new`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    stripe_size: u64,
    stripe_count: u32,
    first_server: u32,
    substripes: u32,
    servers: u32,
}

/// A layout that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The stripe size is zero, too large or no multiple of the unit.
    #[error("stripe size {stripe_size}: a multiple of {STRIPE_SIZE_UNIT} up to {STRIPE_SIZE_MAX} is needed")]
    StripeSize {
        /// What was asked for, in bytes.
        stripe_size: u64,
    },
    /// More servers than there are, or none.
    #[error("stripe count {stripe_count}: from 1 to the number of servers, {servers}, is needed")]
    StripeCount {
        /// What was asked for.
        stripe_count: u32,
        /// Servers of the instance.
        servers: u32,
    },
    /// A server that does not exist.
    #[error("first server {first_server}: from 0 to below the number of servers, {servers}, is needed")]
    FirstServer {
        /// What was asked for.
        first_server: u32,
        /// Servers of the instance.
        servers: u32,
    },
    /// No substripe or too many.
    #[error("substripes {substripes}: from 1 to {SUBSTRIPES_MAX} is needed")]
    Substripes {
        /// What was asked for.
        substripes: u32,
    },
    /// No server or too many.
    #[error("{servers} servers: from 1 to {SERVERS_MAX} is needed")]
    Servers {
        /// Servers of the instance.
        servers: u32,
    },
}

/// One substripe file of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Substripe {
    /// Position of the server in the file's ring, 0 ..= stripe_count - 1. [`Layout::server`] tells which server it is.
    pub slot: u32,
    /// Which of the server's substripe files.
    pub index: u32,
}

impl Layout {
    /// The layout, if it can be.
    pub fn new(
        stripe_size: u64,
        stripe_count: u32,
        first_server: u32,
        substripes: u32,
        servers: u32,
    ) -> Result<Layout, LayoutError> {
        if servers == 0 || servers > SERVERS_MAX {
            return Err(LayoutError::Servers { servers });
        }
        if stripe_size == 0 || stripe_size > STRIPE_SIZE_MAX || !stripe_size.is_multiple_of(STRIPE_SIZE_UNIT)
        {
            return Err(LayoutError::StripeSize { stripe_size });
        }
        if stripe_count == 0 || stripe_count > servers {
            return Err(LayoutError::StripeCount { stripe_count, servers });
        }
        if first_server >= servers {
            return Err(LayoutError::FirstServer { first_server, servers });
        }
        if substripes == 0 || substripes > SUBSTRIPES_MAX {
            return Err(LayoutError::Substripes { substripes });
        }
        Ok(Layout { stripe_size, stripe_count, first_server, substripes, servers })
    }

    /// Bytes of one stripe.
    pub fn stripe_size(&self) -> u64 {
        self.stripe_size
    }

    /// Servers the file is spread over.
    pub fn stripe_count(&self) -> u32 {
        self.stripe_count
    }

    /// Server of the first stripe.
    pub fn first_server(&self) -> u32 {
        self.first_server
    }

    /// Substripe files on each server.
    pub fn substripes(&self) -> u32 {
        self.substripes
    }

    /// Servers of the instance.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// The whole content is in one file of one server.
    pub fn is_whole(&self) -> bool {
        self.stripe_count == 1 && self.substripes == 1
    }

    /// The server at a position of the file's ring.
    pub fn server(&self, slot: u32) -> u32 {
        debug_assert!(slot < self.stripe_count);
        (self.first_server + slot) % self.servers
    }

    /// All substripe files the file can have.
    pub fn all_substripes(&self) -> impl Iterator<Item = Substripe> + use<> {
        let substripes = self.substripes;
        (0..self.stripe_count)
            .flat_map(move |slot| (0..substripes).map(move |index| Substripe { slot, index }))
    }

    /// Where the byte at `offset` is: the substripe file and the offset in it.
    pub fn place(&self, offset: u64) -> (Substripe, u64) {
        let stripe = offset / self.stripe_size;
        let row = stripe / u64::from(self.stripe_count);
        let slot = (stripe % u64::from(self.stripe_count)) as u32;
        let index = (row % u64::from(self.substripes)) as u32;
        let local_stripe = row / u64::from(self.substripes);
        (Substripe { slot, index }, local_stripe * self.stripe_size + offset % self.stripe_size)
    }

    /// The file offset of the byte at `local` of a substripe file: the inverse of [`Layout::place`]. `None` when it
    /// is beyond the largest offset that 64 bits count.
    pub fn offset_of(&self, substripe: Substripe, local: u64) -> Option<u64> {
        let local_stripe = local / self.stripe_size;
        let row =
            local_stripe.checked_mul(u64::from(self.substripes))?.checked_add(u64::from(substripe.index))?;
        let stripe = row.checked_mul(u64::from(self.stripe_count))?.checked_add(u64::from(substripe.slot))?;
        stripe.checked_mul(self.stripe_size)?.checked_add(local % self.stripe_size)
    }

    /// How many of the file's first `end` bytes are in this substripe file. They are its first bytes, so this is also
    /// the length that the substripe file of a file of `end` bytes has at most, and the place in it of the first byte
    /// at or after `end`.
    pub fn share_len(&self, substripe: Substripe, end: u64) -> u64 {
        let cycle = u64::from(self.stripe_count) * u64::from(self.substripes);
        let position = u64::from(substripe.index) * u64::from(self.stripe_count) + u64::from(substripe.slot);
        let stripes = end / self.stripe_size;
        let whole_cycles = stripes / cycle;
        let into_cycle = stripes % cycle;
        let tail = match into_cycle.cmp(&position) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => end % self.stripe_size,
            std::cmp::Ordering::Greater => self.stripe_size,
        };
        whole_cycles * self.stripe_size + tail
    }

    /// The part of a substripe file that a range of the file covers: always one contiguous range, maybe empty.
    pub fn share_range(&self, substripe: Substripe, range: Range<u64>) -> Range<u64> {
        self.share_len(substripe, range.start)..self.share_len(substripe, range.end)
    }

    /// Content up to `end` may be on another server than the first stripe is.
    pub fn is_spread(&self, end: u64) -> bool {
        self.stripe_count > 1 && end > self.stripe_size
    }

    /// The pieces of a range of the file, in the order of the file.
    pub fn pieces(&self, range: Range<u64>) -> Pieces {
        Pieces::new(*self, range)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes over {} of {} servers from {}, {} substripes",
            self.stripe_size, self.stripe_count, self.servers, self.first_server, self.substripes
        )
    }
}
