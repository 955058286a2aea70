//! Requests over io_uring (Linux 6.14, where root has set `/sys/module/fuse/parameters/enable_uring`).
//!
//! The kernel then has a queue for each processor and gives a request to the queue of the processor that the asking
//! program runs on. A thread that is bound to this processor serves it, so a request wakes nobody on another one, and one
//! call answers a request and waits for the next. Only what nobody waits for (FORGET, INTERRUPT) still comes over
//! `/dev/fuse`, which one more thread reads.
//!
//! Each thread has a ring of its own with one place for a request: a request that takes long holds up no other, since
//! every queue has several threads. The kernel gives a request to the one that has served last, so those
//! that are not needed cost the room of their stacks. Requests that are answered late get more of them ([`Reserve`]).
//!
//! Order of events: the rings are made ([`Rings::prepare`]), the kernel is told that requests may come this way, and the
//! threads register their places. From the second step on the kernel holds requests back until every queue has a
//! place, so what can fail is done in the first; if a registration fails nevertheless, all threads end ([`Muster`]). A crash
//! leaves nothing.

mod muster;
mod nudge;
mod place;
mod reserve;
mod ring;
mod slot;
mod worker;

use place::Place;
use ring::Ring;
use std::io;

pub(crate) use muster::Muster;
pub(crate) use reserve::Reserve;
pub(crate) use worker::{Service, serve};

/// Fewest places for requests at each processor: one may be held up by a slow disk.
const PLACES_MIN: usize = 2;
/// The same where locks may be waited for, which keep their places, and the most ...
const PLACES_WITH_LOCKS: std::ops::RangeInclusive<usize> = 8..=64;
/// ... of which there may be so many in all.
const PLACES_WITH_LOCKS_IN_ALL: usize = 512;
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

impl Lane {
    pub(crate) fn prepare(processor: u16, request_bytes: usize) -> io::Result<Lane> {
        Ok(Lane { ring: Ring::new()?, place: Place::new(request_bytes), processor })
    }
}

/// All that is needed to serve one connection.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) queues: usize,
    pub(crate) places_per_queue: usize,
}

impl Rings {
    /// Makes everything that may be refused (io_uring is switched off in many containers): for so many threads, or
    /// more where each processor has to have some.
    pub(crate) fn prepare(request_bytes: usize, threads: usize, locks: bool) -> io::Result<Rings> {
        let processors = processors(&std::fs::read_to_string("/sys/devices/system/cpu/possible")?)
            .ok_or(io::ErrorKind::Unsupported)?;
        let queues = usize::from(processors);
        let places_per_queue = threads.div_ceil(queues).max(places_at_least(queues, locks));
        let numbers = (0..places_per_queue).flat_map(|_| 0..processors);
        let lanes = numbers.map(|processor| Lane::prepare(processor, request_bytes));
        Ok(Rings { lanes: lanes.collect::<io::Result<_>>()?, queues, places_per_queue })
    }
}

fn places_at_least(queues: usize, locks: bool) -> usize {
    let (least, most) = PLACES_WITH_LOCKS.into_inner();
    if locks { (PLACES_WITH_LOCKS_IN_ALL / queues).clamp(least, most) } else { PLACES_MIN }
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
    fn a_queue_has_more_places_where_locks_keep_them() {
        let of = |queues| [false, true].map(|locks| places_at_least(queues, locks));
        assert_eq!([1, 2, 32, 64].map(of), [[2, 64], [2, 64], [2, 16], [2, 8]]);
    }

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
