//! Requests over io_uring (Linux 6.14, where root has set `/sys/module/fuse/parameters/enable_uring`).
//!
//! The kernel then has a queue for each processor and gives a request to the queue of the processor that the asking
//! program runs on. A thread that is bound to this processor serves it, so a request wakes nobody on another one, and one
//! call answers a request and waits for the next. Only what nobody waits for (FORGET, INTERRUPT) still comes over
//! `/dev/fuse`, which one more thread reads.
//!
//! Each thread has a ring of its own with one place for a request: a request that takes long holds up no other, since
//! every queue has [`THREADS_PER_QUEUE`] threads.
//!
//! Order of events: the rings are made ([`Rings::prepare`]), the kernel is told that requests may come this way, and the
//! threads register their places. From the second step on the kernel holds requests back until every queue has a
//! place, so what can fail is done in the first; if a registration fails nevertheless, all threads end ([`Muster`]). A crash
//! leaves nothing.

mod muster;
mod place;
mod ring;
mod slot;
mod worker;

use place::Place;
use ring::Ring;
use std::io;

pub(crate) use muster::Muster;
pub(crate) use worker::serve;

/// Places for requests at each processor: one may be held up by a slow disk.
const THREADS_PER_QUEUE: u16 = 2;
/// Most processors this is done for: every place has the memory of a request.
const PROCESSORS_MAX: u16 = 64;

/// A ring and its place, not yet known to the kernel's FUSE.
#[derive(Debug)]
pub(crate) struct Lane {
    ring: Ring,
    place: Box<Place>,
    /// Number of the processor and of the queue.
    processor: u16,
}

/// All that is needed to serve one connection.
#[derive(Debug)]
pub(crate) struct Rings(Vec<Lane>);

impl Rings {
    /// Makes everything that may be refused (io_uring is switched off in many containers).
    pub(crate) fn prepare(request_bytes: usize) -> io::Result<Rings> {
        let processors = processors(&std::fs::read_to_string("/sys/devices/system/cpu/possible")?)
            .ok_or(io::ErrorKind::Unsupported)?;
        let numbers = (0..processors).flat_map(|processor| [processor; THREADS_PER_QUEUE as usize]);
        let lane = |processor| Ok(Lane { ring: Ring::new()?, place: Place::new(request_bytes), processor });
        numbers.map(lane).collect::<io::Result<_>>().map(Rings)
    }

    pub(crate) fn into_lanes(self) -> Vec<Lane> {
        self.0
    }
}

/// How many processors there can be, from `0` or `0-7`; `None` when that is not one range from 0 or too many.
fn processors(possible: &str) -> Option<u16> {
    let range = possible.trim();
    let last = match range.split_once('-') {
        None => range,
        Some(("0", last)) => last,
        Some(_) => return None,
    };
    let count = last.parse::<u16>().ok()?.checked_add(1)?;
    (range.starts_with('0') && count <= PROCESSORS_MAX).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_range_of_few_processors_is_served() {
        assert_eq!(
            (processors("0\n"), processors("0-1\n"), processors("0-63")),
            (Some(1), Some(2), Some(64))
        );
        for odd in ["", "0-64", "0-65535", "1-3", "0,2-3", "0-", "x"] {
            assert_eq!(processors(odd), None, "{odd}");
        }
    }
}
