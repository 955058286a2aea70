//! Names that are looked up before somebody asks.
//!
//! Answers hold for a second, so whoever looks at many names again and again, as a build or a listing of a directory does,
//! asks for each of them once a second. Who goes through the names of a directory in their order is taken to go on: the
//! next names that are known here are asked for in the same message, twice as many each time, and their answers wait here
//! for the question.
//!
//! An answer is given once, and only for as long as it may be shown anyway ([`super::validity`]), if this client has not
//! begun or ended to change the object since it was asked for ([`super::recent`]), nor had it open for writing
//! ([`super::held`]). The reference that the server counted for it is kept until the object is given back.
//!
//! Any thread; the lock is held for memory operations only.

use super::asked::Asked;
use super::held::Held;
use super::recent::Recent;
use super::validity::Validity;
use forebay_wire::message::Name;
use forebay_wire::{Attr, Ino};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names asked for at first when somebody seems to go through a directory, and at most.
const WINDOW_MIN: usize = 4;
const WINDOW_MAX: usize = 64;
/// Answers kept; when there are more, all are dropped.
const FOUND_MAX: usize = 4096;
/// Directories in which somebody goes on; when there are more, all are forgotten.
const WALKS_MAX: usize = 64;

struct Walk {
    /// The name that is asked for next by who goes on.
    next: Name,
    window: usize,
}

#[derive(Default)]
struct Inner {
    found: HashMap<(Ino, Name), (Attr, Asked)>,
    walks: HashMap<Ino, Walk>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ahead {
    inner: Mutex<Inner>,
}

impl Ahead {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of a directory is going to be asked for: what to ask for with it.
    pub(crate) fn plan(&self, directory: Ino, name: &Name, held: &Held) -> Vec<Name> {
        let mut inner = self.lock();
        let window = match inner.walks.get(&directory) {
            Some(walk) if walk.next == *name => (walk.window * 2).clamp(WINDOW_MIN, WINDOW_MAX),
            _ => 0,
        };
        let mut names = held.names_after(directory, name, window + 1);
        if inner.walks.len() >= WALKS_MAX {
            inner.walks.clear();
        }
        match names.len() > window {
            true => {
                let next = names.pop().expect("more than the window");
                inner.walks.insert(directory, Walk { next, window });
            }
            false => drop(inner.walks.remove(&directory)),
        }
        names
    }

    /// The answer for a name.
    pub(crate) fn found(&self, directory: Ino, name: Name, attr: Attr, asked: Asked) {
        let mut inner = self.lock();
        if inner.found.len() >= FOUND_MAX {
            inner.found.clear();
        }
        inner.found.insert((directory, name), (attr, asked));
    }

    /// The answer for a name, if there is one that may be shown; it is counted as a reference.
    pub(crate) fn take(
        &self,
        directory: Ino,
        name: &Name,
        (held, validity, recent): (&Held, &Validity, &Recent),
    ) -> Option<Attr> {
        let (attr, asked) = {
            let mut inner = self.lock();
            if inner.found.is_empty() {
                return None;
            }
            inner.found.remove(&(directory, name.clone()))?
        };
        let attr = validity.shown(attr, Some(directory), asked.others);
        let may_be = attr.valid_ms > 0 && !recent.was_changed(attr.ino, asked);
        (may_be && held.refer_kept(attr.ino, directory, name, asked.others.at())).then_some(attr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::samples::attr;
    use std::ffi::OsStr;

    const HERE: Ino = Ino(7);

    fn name(number: usize) -> Name {
        Name::new(OsStr::new(&format!("f{number:04}"))).unwrap()
    }

    #[derive(Default)]
    struct Client {
        ahead: Ahead,
        held: Held,
        validity: Validity,
        recent: Recent,
    }

    impl Client {
        fn with_files(count: usize) -> Client {
            let client = Client::default();
            for number in 0..count {
                client.held.refer(&attr(100 + number as u64), HERE, &name(number));
            }
            client
        }

        fn asks_ahead(&self, number: usize) -> bool {
            let (attr, asked) = (attr(100 + number as u64), self.recent.now(&self.validity));
            let is_known = self.held.keep(&attr, HERE, &name(number));
            if is_known {
                self.ahead.found(HERE, name(number), attr, asked);
            }
            is_known
        }

        fn take(&self, number: usize) -> Option<Attr> {
            self.ahead.take(HERE, &name(number), (&self.held, &self.validity, &self.recent))
        }
    }

    #[test]
    fn who_goes_through_the_names_in_order_is_expected_to_go_on() {
        let client = Client::with_files(300);
        let plan = |number| client.ahead.plan(HERE, &name(number), &client.held);
        assert_eq!(plan(0), []);
        assert_eq!(plan(1), [2, 3, 4, 5].map(name));
        assert_eq!(plan(6).len(), 8);
        let mut at = 15;
        for window in [16, 32, 64, 64] {
            assert_eq!(plan(at).len(), window);
            at += window + 1;
        }
        assert_eq!(plan(20), [], "somewhere else");
        assert_eq!(client.ahead.plan(Ino(8), &name(1), &client.held), [], "another directory");
        assert_eq!(plan(299), [], "the last one");
        assert_eq!(plan(299), []);
    }

    #[test]
    fn an_answer_is_given_once() {
        let client = Client::with_files(2);
        assert!(client.asks_ahead(1));
        assert_eq!(client.take(0), None);
        assert_eq!(client.take(1).map(|attr| attr.ino), Some(Ino(101)));
        assert_eq!(client.take(1), None);
        client.held.forget(Ino(101), 1);
        assert_eq!(client.held.take_forgotten().0.len(), 1, "the other one is still in use");
        client.held.forget(Ino(101), 1);
        let forgotten = client.held.take_forgotten().0;
        assert_eq!(forgotten.iter().map(|item| item.count).sum::<u64>(), 1);
    }

    #[test]
    fn what_was_not_asked_for_in_the_end_is_given_back_with_the_object() {
        let client = Client::with_files(1);
        assert!(client.asks_ahead(0));
        client.held.forget(Ino(100), 1);
        let forgotten = client.held.take_forgotten().0;
        assert_eq!(forgotten.iter().map(|item| (item.ino, item.count)).collect::<Vec<_>>(), [(Ino(100), 2)]);
        assert_eq!(client.take(0), None);
        assert!(!client.asks_ahead(5), "not known here");
        assert_eq!(client.held.take_forgotten().0.len(), 1, "given back at once");
    }

    #[test]
    fn what_changed_since_is_not_shown() {
        let changes: [fn(&Client); 5] = [
            |client| client.validity.announced(Ino(100)),
            |client| client.validity.announced(HERE),
            |client| drop(client.recent.changing([Ino(100)])),
            |client| drop(client.recent.changing_all()),
            |client| client.held.removed(HERE, &name(0)),
        ];
        for (number, change) in changes.iter().enumerate() {
            let client = Client::with_files(1);
            assert!(client.asks_ahead(0));
            change(&client);
            assert_eq!(client.take(0), None, "{number}");
        }
        let client = Client::with_files(1);
        drop(client.recent.changing([Ino(100)]));
        assert!(client.asks_ahead(0));
        assert!(client.take(0).is_some(), "it changed before");
    }
}
