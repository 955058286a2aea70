//! Which state of a file the kernel's pages are of, for [`crate::CachePolicy::CloseToOpen`].
//!
//! At each open the file is looked at. Its pages may be kept if it is as it was at the open before: the same length, the
//! same times to the nanosecond. A time of this very moment proves nothing, since another write in the same tick of a
//! clock would leave it as it is; so a file that was changed within [`SETTLED`] is not remembered. Pages that came in since the last
//! open are of that state or of a later one, which then differs.
//!
//! Any thread. At most [`FILES_MAX`] files are remembered; the pages of others are read anew.

use forebay_wire::{Attr, Ino, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files remembered.
const FILES_MAX: usize = 65_536;
/// A change that is at least so long ago is over, by clocks that differ by less.
const SETTLED: Duration = Duration::from_secs(2);

type State = (u64, Timestamp, Timestamp);

/// See the module.
#[derive(Default)]
pub(crate) struct Seen(Mutex<HashMap<Ino, State>>);

impl Seen {
    /// A file is opened and has these attributes: whether the pages of before may be kept.
    pub(crate) fn is_unchanged(&self, attr: &Attr) -> bool {
        self.is_unchanged_at(attr, SystemTime::now())
    }

    fn is_unchanged_at(&self, attr: &Attr, now: SystemTime) -> bool {
        let state = (attr.size, attr.mtime, attr.ctime);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match is_settled(attr.ctime.max(attr.mtime), now) {
            true if seen.len() >= FILES_MAX && !seen.contains_key(&attr.ino) => {
                seen.clear();
                seen.insert(attr.ino, state)
            }
            true => seen.insert(attr.ino, state),
            false => seen.remove(&attr.ino),
        };
        before == Some(state)
    }
}

fn is_settled(changed: Timestamp, now: SystemTime) -> bool {
    let Ok(secs) = u64::try_from(changed.secs) else { return true };
    let changed = Duration::new(secs, changed.nanos);
    now.duration_since(UNIX_EPOCH).is_ok_and(|now| changed + SETTLED <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::tests::some_attr;

    #[test]
    fn only_what_was_settled_and_is_the_same_is_kept() {
        let seen = Seen::default();
        let time = |secs| Timestamp { secs, nanos: 5 };
        let attr = Attr { mtime: time(100), ctime: time(100), ..some_attr() };
        let at = |secs| UNIX_EPOCH + Duration::from_secs(secs);
        assert!(!seen.is_unchanged_at(&attr, at(101)), "it may change once more in this moment");
        assert!(!seen.is_unchanged_at(&attr, at(103)), "the state of before was not remembered");
        assert!(seen.is_unchanged_at(&attr, at(104)));
        let longer = Attr { size: attr.size + 1, ..attr };
        assert!(!seen.is_unchanged_at(&longer, at(105)));
        assert!(seen.is_unchanged_at(&longer, at(106)));
        let later = Attr { mtime: Timestamp { secs: 100, nanos: 6 }, ..longer };
        assert!(!seen.is_unchanged_at(&later, at(107)));
    }
}
