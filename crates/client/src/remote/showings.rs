//! What is being shown of files: content that is read from the page cache without the server's, or the local file system's,
//! knowing when.
//!
//! It is shown while the server's word holds that no other client changes the file ([`Quiet`]). When another wants to, the
//! server says so and waits for the answer, and the answer is given when everything is handed over that was begun before. So
//! who announces calls [`Showings::await_earlier`] after [`super::validity`] has its note, and who shows looks at the
//! word again after [`Showings::begin`]: one of the two sees the other.
//!
//! Objects share their counts with others; an answer may wait a little longer than it has to, but never for what is begun
//! after it. Any thread.

use super::validity::{Moment, Validity};
use super::word::Word;
use forebay_wire::Ino;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Groups of objects that are waited for together.
const SHARDS: usize = 64;
/// How long the server is not asked again after it did not give its word.
const ASK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Shard {
    /// Waits so far. What is begun is counted by whether that is even or odd.
    waits: AtomicU64,
    under_way: [AtomicU32; 2],
    /// Held by who waits: one at a time.
    waiting: Mutex<()>,
    ended: Condvar,
}

/// See the module.
pub(crate) struct Showings {
    shards: Box<[Shard]>,
}

/// Something that is shown until this is dropped.
pub(crate) struct Showing<'a> {
    shard: &'a Shard,
    count: usize,
}

impl Default for Showings {
    fn default() -> Showings {
        Showings { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl Showings {
    fn shard(&self, ino: Ino) -> &Shard {
        &self.shards[ino.0 as usize % SHARDS]
    }

    /// Content of a file is going to be shown, if the server's word still holds.
    pub(crate) fn begin(&self, ino: Ino) -> Showing<'_> {
        let shard = self.shard(ino);
        loop {
            let waits = shard.waits.load(SeqCst);
            let showing = Showing { shard, count: waits as usize % 2 };
            shard.under_way[showing.count].fetch_add(1, SeqCst);
            if shard.waits.load(SeqCst) == waits {
                return showing;
            }
        }
    }

    /// Waits until everything is handed over that was begun before.
    pub(crate) fn await_earlier(&self, ino: Ino) {
        let shard = self.shard(ino);
        let waiting = shard.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = shard.waits.fetch_add(1, SeqCst) as usize % 2;
        let is_shown = |_: &mut ()| shard.under_way[earlier].load(SeqCst) > 0;
        drop(shard.ended.wait_while(waiting, is_shown).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        let was_last = self.shard.under_way[self.count].fetch_sub(1, SeqCst) == 1;
        if was_last && self.shard.waits.load(SeqCst) as usize % 2 != self.count {
            // Who has looked and does not wait yet holds the lock.
            drop(self.shard.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.shard.ended.notify_all();
        }
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    word: Option<Word>,
    asked: Option<Instant>,
}

/// Whether other clients leave an open file alone, as far as the server said.
#[derive(Default)]
pub(crate) struct Quiet {
    state: Mutex<State>,
}

impl Quiet {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They do, now.
    pub(crate) fn holds(&self, ino: Ino, validity: &Validity) -> bool {
        self.lock().word.is_some_and(|word| word.holds(ino, validity))
    }

    /// It is time to ask for the word again. Says so to one caller at a time.
    pub(crate) fn is_to_be_asked_for(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let is_time = state.asked.is_none_or(|asked| now >= asked + ASK_AGAIN);
        if is_time {
            state.asked = Some(now);
        }
        is_time
    }

    /// The server gave its word for so long from the asking, or did not (0).
    pub(crate) fn was_given(&self, asked: Moment, valid_ms: u32) {
        self.lock().word = Word::given(valid_ms, asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const HERE: Ino = Ino(7);

    #[test]
    fn the_word_ends_with_its_time_and_with_an_announcement() {
        let (quiet, validity) = (Quiet::default(), Validity::default());
        assert!(!quiet.holds(HERE, &validity), "nobody said so");
        assert!(quiet.is_to_be_asked_for() && !quiet.is_to_be_asked_for());
        quiet.was_given(validity.now(), 100_000);
        assert!(quiet.holds(HERE, &validity));
        validity.announced(Ino(8));
        assert!(quiet.holds(HERE, &validity), "another file");
        validity.announced(HERE);
        assert!(!quiet.holds(HERE, &validity));
        quiet.was_given(validity.now(), 0);
        assert!(!quiet.holds(HERE, &validity));
        quiet.was_given(validity.now(), 1);
        std::thread::sleep(Duration::from_millis(2));
        assert!(!quiet.holds(HERE, &validity));
    }

    #[test]
    fn an_answer_waits_for_what_was_begun_before_and_for_nothing_else() {
        let showings = Showings::default();
        showings.await_earlier(HERE);
        let first = showings.begin(HERE);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let all = &showings;
            scope.spawn(move || {
                all.await_earlier(HERE);
                tell.send(()).unwrap();
            });
            while showings.shard(HERE).waits.load(SeqCst) < 2 {
                std::thread::yield_now();
            }
            let later = showings.begin(HERE);
            assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
            drop(first);
            told.recv_timeout(Duration::from_secs(60)).unwrap();
            drop(later);
        });
        showings.await_earlier(HERE);
    }
}
