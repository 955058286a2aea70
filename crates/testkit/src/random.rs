//! Random numbers that can be had again: the seed is printed with every failure and taken from `FOREBAY_TEST_SEED`.
//!
//! The generator is splitmix64 (Steele, Lea, Flood 2014): small, and every seed is as good as any other.

use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable that fixes the seed.
pub const SEED_VARIABLE: &str = "FOREBAY_TEST_SEED";

/// The lowest bit of every byte of a word.
const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;

/// A sequence of random numbers, fully decided by its seed.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random { seed, state: seed }
    }

    /// The sequence of `FOREBAY_TEST_SEED`, or of the clock when that is not set.
    ///
    /// # Panics
    /// If the variable is set to something that is not a number: a replay that silently uses another seed is worthless.
    pub fn from_environment() -> Random {
        Random::new(seed_from_environment().unwrap_or_else(seed_from_clock))
    }

    /// What decides this sequence.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        self.bits() % limit
    }

    /// True with a chance of one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `things`, which must not be empty.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }

    /// `length` random bytes without zeros, so that data and hole can be told apart.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut out = vec![0; length.next_multiple_of(8)];
        for word in out.chunks_exact_mut(8) {
            word.copy_from_slice(&(self.bits() | LOWEST_BITS).to_le_bytes());
        }
        out.truncate(length);
        out
    }
}

/// The seed the environment asks for.
pub fn seed_from_environment() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    match text.parse() {
        Ok(seed) => Some(seed),
        Err(_) => panic!("{SEED_VARIABLE}={text}: expected a decimal number below 2^64"),
    }
}

/// A seed nobody chose.
pub fn seed_from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence() {
        let sequence = |seed| {
            let mut random = Random::new(seed);
            [random.bits(), random.bits(), random.below(10)]
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
    }

    #[test]
    fn splitmix_gives_its_published_first_value() {
        assert_eq!(Random::new(1_234_567).bits(), 6_457_827_717_110_365_317);
    }

    #[test]
    fn bytes_are_never_zero() {
        assert!(Random::new(3).bytes(10_001).iter().all(|&byte| byte != 0));
    }
}
