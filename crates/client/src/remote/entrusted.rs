//! Files of which this client decides by itself about locks: the server entrusts them to a client that is alone, with the answer
//! to a lock, until another client asks.
//!
//! What is held ([`super::held`]) is then all there is on the file. For each file it is one of
//!
//! * *asked*: requests go to the server; how many are under way is counted. An entrustment is taken up only by the one request that
//!   is under way, and if nothing was called back since it was sent: then the server's table and what is held here are the same;
//! * *entrusted*: locks are given here, for a time counted from the asking, and given up here, however long; the server knows of none
//!   of that. What cannot be decided here, as when a request has to wait, has the locks returned first;
//! * *being returned*: one thread tells the server what is held; all others wait for it.
//!
//! When the server was started anew nothing is entrusted any more: when answers of its earlier life do not count any more, and before
//! the locks that are held are claimed ([`Entrusted::is_over`]), so that all that was decided here is held by then.
//!
//! Any thread. The lock is held for memory operations only, that of [`super::held`] may be taken under it.

use forebay_wire::Ino;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct Mine {
    number: u64,
    until: Instant,
    /// The server may know that it was given back: nothing is decided here any more.
    was_sent_back: bool,
}

#[derive(Default)]
struct Of {
    asking: usize,
    mine: Option<Mine>,
    is_returning: bool,
}

impl Of {
    fn is_idle(&self) -> bool {
        self.asking == 0 && self.mine.is_none() && !self.is_returning
    }

    /// The locks are going to be returned: the number under which they were entrusted, if they were.
    fn send_back(&mut self) -> Option<u64> {
        let mine = self.mine.as_mut()?;
        mine.was_sent_back = true;
        self.is_returning = true;
        Some(mine.number)
    }
}

#[derive(Default)]
struct State {
    files: HashMap<Ino, Of>,
    /// How often something was called back, or all of it ended.
    recalls: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Entrusted {
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    /// Changes what is known of a file, and forgets it where there is nothing more to know.
    fn change(&mut self, file: Ino, change: impl FnOnce(&mut Of)) {
        let Some(of) = self.files.get_mut(&file) else { return };
        change(of);
        if of.is_idle() {
            self.files.remove(&file);
        }
    }
}

/// What is to be done about a lock.
pub(crate) enum Turn<'a, T> {
    /// It was decided here.
    Decided(T),
    /// The server is asked, as long as this is held.
    Ask(Asking<'a>),
    /// The locks of the file are returned first.
    Return(Returning<'a>),
}

/// A request that is under way.
pub(crate) struct Asking<'a> {
    entrusted: &'a Entrusted,
    file: Ino,
    recalls: u64,
    at: Instant,
}

/// The locks of a file are being returned, as long as this is held.
pub(crate) struct Returning<'a> {
    entrusted: &'a Entrusted,
    pub(crate) file: Ino,
    pub(crate) number: u64,
}

impl Entrusted {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the locks of a file are being returned.
    fn settled(&self, file: Ino) -> MutexGuard<'_, State> {
        let is_returning = |state: &mut State| state.files.get(&file).is_some_and(|of| of.is_returning);
        self.changed.wait_while(self.lock(), is_returning).unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a lock of a file, if that is for this client to do. `decide` is told whether it may give locks, and says nothing
    /// where the server is to be asked.
    pub(crate) fn turn<T>(&self, file: Ino, decide: impl FnOnce(bool) -> Option<T>) -> Turn<'_, T> {
        let mut state = self.settled(file);
        let recalls = state.recalls;
        let of = state.files.entry(file).or_default();
        let at = Instant::now();
        if let Some(mine) = of.mine.as_ref().filter(|mine| !mine.was_sent_back)
            && let Some(decided) = decide(at < mine.until)
        {
            return Turn::Decided(decided);
        }
        if let Some(number) = of.send_back() {
            return Turn::Return(Returning { entrusted: self, file, number });
        }
        of.asking += 1;
        Turn::Ask(Asking { entrusted: self, file, recalls, at })
    }

    /// Another client asks for locks of a file. What is to be returned; none: nothing was decided about here, and nothing will be.
    pub(crate) fn recalled(&self, file: Ino) -> Option<Returning<'_>> {
        let mut state = self.settled(file);
        state.recalls += 1;
        let number = state.files.get_mut(&file)?.send_back()?;
        Some(Returning { entrusted: self, file, number })
    }

    /// The server was started anew, or gave this client up: it knows of nothing that was entrusted.
    pub(crate) fn is_over(&self) {
        let mut state = self.lock();
        state.recalls += 1;
        state.files.retain(|_, of| {
            of.mine = None;
            !of.is_idle()
        });
    }
}

impl Asking<'_> {
    /// The answer entrusts the locks of the file under a number. What it gave is held already.
    pub(crate) fn is_answered(&self, number: u64, valid_ms: u32) {
        let mut state = self.entrusted.lock();
        let is_undisturbed = state.recalls == self.recalls;
        if let Some(of) = state.files.get_mut(&self.file)
            && is_undisturbed
            && of.asking == 1
        {
            let until = self.at + Duration::from_millis(valid_ms.into());
            of.mine = Some(Mine { number, until, was_sent_back: false });
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.entrusted.lock().change(self.file, |of| of.asking -= 1);
    }
}

impl Returning<'_> {
    /// The server has them.
    pub(crate) fn is_done(&self) {
        if let Some(of) = self.entrusted.lock().files.get_mut(&self.file) {
            of.mine = None;
        }
    }
}

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        self.entrusted.lock().change(self.file, |of| of.is_returning = false);
        self.entrusted.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);
    const LONG_MS: u32 = 100_000;

    fn asked(entrusted: &Entrusted) -> Asking<'_> {
        match entrusted.turn(FILE, |_| Some(())) {
            Turn::Ask(asking) => asking,
            _ => panic!("the server is to be asked"),
        }
    }

    fn is_mine(entrusted: &Entrusted) -> bool {
        matches!(entrusted.turn(FILE, |may| may.then_some(())), Turn::Decided(()))
    }

    #[test]
    fn what_is_entrusted_is_decided_here_until_it_is_returned() {
        let entrusted = Entrusted::default();
        asked(&entrusted).is_answered(1, LONG_MS);
        assert!(is_mine(&entrusted));
        let Turn::Return(returning) = entrusted.turn(FILE, |_| None::<()>) else { panic!("it is returned") };
        assert_eq!((returning.file, returning.number), (FILE, 1));
        returning.is_done();
        drop(returning);
        drop(asked(&entrusted));
        assert!(entrusted.lock().files.is_empty());
    }

    #[test]
    fn what_could_not_be_returned_is_still_to_be() {
        let entrusted = Entrusted::default();
        asked(&entrusted).is_answered(1, LONG_MS);
        drop(entrusted.recalled(FILE).expect("it is to be returned"));
        // The server may have it, and not have been heard.
        assert!(!is_mine(&entrusted), "nothing is decided here meanwhile");
        assert!(entrusted.recalled(FILE).is_some());
    }

    #[test]
    fn two_requests_under_way_take_nothing_up() {
        let entrusted = Entrusted::default();
        let (one, two) = (asked(&entrusted), asked(&entrusted));
        one.is_answered(1, LONG_MS);
        drop(one);
        drop(asked(&entrusted));
        two.is_answered(1, LONG_MS);
        drop(two);
        assert!(is_mine(&entrusted));
    }

    #[test]
    fn what_was_called_back_before_the_answer_came_is_not_taken_up() {
        for is_over in [false, true] {
            let entrusted = Entrusted::default();
            let asking = asked(&entrusted);
            if is_over {
                entrusted.is_over();
            } else {
                assert!(entrusted.recalled(FILE).is_none());
            }
            asking.is_answered(1, LONG_MS);
            drop(asking);
            drop(asked(&entrusted));
        }
    }

    #[test]
    fn what_is_over_gives_no_lock() {
        let entrusted = Entrusted::default();
        asked(&entrusted).is_answered(1, 0);
        assert!(!is_mine(&entrusted), "its time is over");
        entrusted.is_over();
        drop(asked(&entrusted));
    }
}
