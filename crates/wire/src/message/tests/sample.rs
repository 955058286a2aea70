//! Values for every field, from a sequence of numbers: the same numbers, the same message, for ever. The golden bytes
//! depend on it.

use crate::attr::{Ino, SetTime, Timestamp};
use crate::data::FileId;
use crate::error::FsError;
use crate::lock::{LockRange, LockScope};
use crate::message::callback::Changed;
use crate::message::codec::{Bytes, Name};
use crate::message::failure::PLAIN;
use crate::metadata::Placement;
use crate::ticket::Ticket;
use forebay_model::layout::{Layout, STRIPE_SIZE_UNIT};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Numbers that look random and follow from the first.
pub(crate) struct Source(u64);

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        Source(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    fn bytes(&mut self, least: u64, most: u64) -> Vec<u8> {
        let length = least + self.below(most - least + 1);
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A value for a field.
pub(crate) trait Sample {
    fn sample(from: &mut Source) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn sample(from: &mut Source) -> Self {
                // Small and large ones: shifted down by a random number of bits.
                let shift = from.below(64);
                (from.next() >> shift) as $type
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i32, i64);

impl Sample for bool {
    fn sample(from: &mut Source) -> Self {
        from.below(2) == 1
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(from: &mut Source) -> Self {
        std::array::from_fn(|_| from.next() as u8)
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(from: &mut Source) -> Self {
        bool::sample(from).then(|| T::sample(from))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(from: &mut Source) -> Self {
        (0..from.below(4)).map(|_| T::sample(from)).collect()
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(from: &mut Source) -> Self {
        (A::sample(from), B::sample(from))
    }
}

impl Sample for String {
    fn sample(from: &mut Source) -> Self {
        String::from_utf8_lossy(&from.bytes(0, 9)).into_owned()
    }
}

impl Sample for Name {
    fn sample(from: &mut Source) -> Self {
        let mut bytes = from.bytes(1, 12);
        bytes.iter_mut().filter(|byte| matches!(**byte, b'/' | 0)).for_each(|byte| *byte = b'x');
        Name::new(OsStr::from_bytes(&bytes)).expect("a name without / and NUL")
    }
}

impl<const MOST: usize, const NO_NUL: bool> Sample for Bytes<MOST, NO_NUL> {
    fn sample(from: &mut Source) -> Self {
        let mut bytes = from.bytes(0, 12);
        bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'x');
        Bytes::new(&bytes).expect("few bytes without NUL")
    }
}

impl Sample for Timestamp {
    fn sample(from: &mut Source) -> Self {
        Timestamp { secs: i64::sample(from), nanos: from.below(1_000_000_000) as u32 }
    }
}

impl Sample for SetTime {
    fn sample(from: &mut Source) -> Self {
        if bool::sample(from) { SetTime::At(Timestamp::sample(from)) } else { SetTime::Now }
    }
}

impl Sample for Layout {
    fn sample(from: &mut Source) -> Self {
        let servers = 1 + from.below(9) as u32;
        let stripe_size = (1 + from.below(4096)) * STRIPE_SIZE_UNIT;
        let (count, first) = (1 + from.below(servers.into()) as u32, from.below(servers.into()) as u32);
        Layout::new(stripe_size, count, first, 1 + from.below(4) as u32, servers)
            .expect("a layout that can be")
    }
}

impl Sample for Placement {
    fn sample(from: &mut Source) -> Self {
        match bool::sample(from) {
            false => Placement::Inline,
            true => Placement::Striped { file: FileId::sample(from), layout: Layout::sample(from) },
        }
    }
}

impl Sample for LockRange {
    fn sample(from: &mut Source) -> Self {
        let start = from.below(1000);
        LockRange::new(start, start + from.below(1000)).expect("a range of bytes")
    }
}

impl Sample for LockScope {
    fn sample(from: &mut Source) -> Self {
        if bool::sample(from) { LockScope::Bytes(LockRange::sample(from)) } else { LockScope::File }
    }
}

impl Sample for Changed {
    fn sample(from: &mut Source) -> Self {
        match from.below(3) {
            0 => Changed::Attributes(Ino::sample(from)),
            1 => Changed::Entry(Ino::sample(from), Name::sample(from)),
            _ => Changed::Content(Ino::sample(from)),
        }
    }
}

impl Sample for Ticket {
    fn sample(from: &mut Source) -> Self {
        Ticket(Sample::sample(from))
    }
}

impl Sample for FsError {
    fn sample(from: &mut Source) -> Self {
        let index = from.below(PLAIN.len() as u64 + 1) as usize;
        // What the operation was stays at the server.
        PLAIN.get(index).copied().unwrap_or(FsError::Host { operation: "server", errno: 5 })
    }
}
