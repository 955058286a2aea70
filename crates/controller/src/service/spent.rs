//! Credentials that were used: each serves once.
//!
//! munged refuses a credential that it has seen, and this remembers what it told us, should munged be started again in
//! between. What is older than any credential is forgotten.

use crate::munge::MAX_AGE_S;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most that are remembered; munged remembers the others.
const MAX_KNOWN: usize = 1 << 20;
/// Longer than a credential lives, on any clock that munged would accept.
const KEPT: Duration = Duration::from_secs(MAX_AGE_S as u64 * 10);

/// See the module.
#[derive(Default)]
pub(super) struct Spent(Mutex<Known>);

#[derive(Default)]
struct Known {
    all: HashSet<[u8; 32]>,
    in_order: VecDeque<(Instant, [u8; 32])>,
}

impl Spent {
    /// Whether this credential was never asked for before; from now on it was.
    pub fn is_new(&self, credential: &str) -> bool {
        let mark = *blake3::hash(credential.as_bytes()).as_bytes();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((seen, old)) = known.in_order.front().copied() {
            if seen.elapsed() < KEPT && known.in_order.len() < MAX_KNOWN {
                break;
            }
            known.in_order.pop_front();
            known.all.remove(&old);
        }
        if !known.all.insert(mark) {
            return false;
        }
        known.in_order.push_back((Instant::now(), mark));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_new_once() {
        let spent = Spent::default();
        assert!(spent.is_new("MUNGE:a:") && spent.is_new("MUNGE:b:"));
        assert!(!spent.is_new("MUNGE:a:"));
    }
}
