//! What somebody asked of a layout: the instance's defaults, a directory's wishes, a file's own.

use super::{DEFAULT_STRIPE_SIZE, DEFAULT_SUBSTRIPES, Layout, LayoutError};

/// A partial layout. Parts that are `None` are left to the next one asked, at last to the rule of [`LayoutChoice::settle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LayoutChoice {
    /// Bytes of one stripe.
    pub stripe_size: Option<u64>,
    /// Servers a file is spread over.
    pub stripe_count: Option<u32>,
    /// Server of the first stripe.
    pub first_server: Option<u32>,
    /// Substripe files on each server.
    pub substripes: Option<u32>,
}

impl LayoutChoice {
    /// This choice where it says something, `fallback` where it does not.
    pub fn or(self, fallback: LayoutChoice) -> LayoutChoice {
        LayoutChoice {
            stripe_size: self.stripe_size.or(fallback.stripe_size),
            stripe_count: self.stripe_count.or(fallback.stripe_count),
            first_server: self.first_server.or(fallback.first_server),
            substripes: self.substripes.or(fallback.substripes),
        }
    }

    /// Nothing was asked for.
    pub fn is_empty(&self) -> bool {
        *self == LayoutChoice::default()
    }

    /// The layout of a file over `servers`. What is still open: 8 MiB stripes over all servers; one substripe where
    /// there is one server, three otherwise; the first server by a hash of the file's id, so that small files spread.
    pub fn settle(self, servers: u32, file_id: u64) -> Result<Layout, LayoutError> {
        let by_hash = (mix(file_id) % u64::from(servers.max(1))) as u32;
        Layout::new(
            self.stripe_size.unwrap_or(DEFAULT_STRIPE_SIZE),
            self.stripe_count.unwrap_or(servers),
            self.first_server.unwrap_or(by_hash),
            self.substripes.unwrap_or(if servers == 1 { 1 } else { DEFAULT_SUBSTRIPES }),
            servers,
        )
    }
}

/// Spreads neighbouring ids evenly: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(id: u64) -> u64 {
    let mut z = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
