//! Closes that the kernel told and that are still being served.
//!
//! The kernel tells the last close of an open file (RELEASE) without waiting for the answer. A program that knows of the
//! close, say because the process that closed has ended, may ask for the lock that went with it at once, and its
//! question can overtake the close on another serving thread. [`Closings::settle`] lets a thread wait for the closes
//! that were handed out before its own request.
//!
//! Each serving thread says what it is at: fetching, serving a close, or serving something else. Between the kernel
//! handing a request out and the thread saying so it still seems to fetch; such a thread is told from one that really waits
//! for a request by the scheduler's word on it: who waits, sleeps. Only closes are waited for, so two threads never wait
//! for each other.
//!
//! Requests read from the device were handed out in the order they were asked. Over io_uring each processor has a queue of its own, where a
//! close may lie while all threads of that queue are busy: there one of them is waited for that has nothing to serve, for
//! [`IDLE_WITHIN`] at most, since a busy queue need not have one.
//!
//! Called from the serving threads. A close served costs two stores; settling costs a small file in /proc per thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for closes: one that takes longer waits for a server that is away.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
/// Longest wait for a thread of a queue that has nothing to serve.
const IDLE_WITHIN: Duration = Duration::from_millis(100);
/// Between two looks at a thread.
const PAUSE: Duration = Duration::from_micros(200);

const FETCHING: u64 = 0;
const CLOSING: u64 = 1;
const BUSY: u64 = 2;
/// What is above the kind counts the requests, so that a thread that has gone on is seen to have.
const ONE_REQUEST: u64 = 4;
const KIND: u64 = 3;

/// What the serving threads of a connection are at.
#[derive(Debug, Default)]
pub struct Closings {
    posts: Mutex<Vec<Arc<Post>>>,
    served: Arc<AtomicU64>,
}

/// How many closes had been served at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served(u64);

/// One serving thread. Written by it alone.
#[derive(Debug)]
pub(crate) struct Post {
    thread: i32,
    /// The queue it serves, where requests come in several.
    queue: Option<u16>,
    at: AtomicU64,
    served: Arc<AtomicU64>,
}

impl Closings {
    /// The calling thread serves what comes over the device from now on.
    pub(crate) fn enter(&self) -> Arc<Post> {
        self.enter_at(None)
    }

    /// The calling thread serves a processor's queue from now on.
    pub(crate) fn enter_queue(&self, processor: u16) -> Arc<Post> {
        self.enter_at(Some(processor))
    }

    fn enter_at(&self, queue: Option<u16>) -> Arc<Post> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let served = Arc::clone(&self.served);
        let post = Arc::new(Post { thread, queue, at: AtomicU64::new(FETCHING), served });
        self.posts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&post));
        post
    }

    /// For [`Closings::settle`]: taken before what a close may change is looked at.
    pub fn served(&self) -> Served {
        Served(self.served.load(Ordering::SeqCst))
    }

    /// Waits until the closes are served that were handed out before the caller's request; a second at most. Says whether
    /// any may have been served since `before`.
    pub fn settle(&self, before: Served) -> bool {
        let posts = self.posts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let deadline = Instant::now() + SETTLED_WITHIN;
        let waited = posts.iter().map(|post| post.settle(deadline));
        let waited = waited.fold(false, |any, waited| any | waited);
        let queues: BTreeSet<u16> = posts.iter().filter_map(|post| post.queue).collect();
        let waited = queues.into_iter().fold(waited, |any, queue| any | settle_queue(&posts, queue));
        waited || self.served() != before
    }
}

/// Waits until nothing can lie in a queue: one of its threads has nothing to serve.
fn settle_queue(posts: &[Arc<Post>], queue: u16) -> bool {
    let deadline = Instant::now() + IDLE_WITHIN;
    let mut waited = false;
    while !posts.iter().any(|post| post.queue == Some(queue) && post.is_idle()) && Instant::now() < deadline {
        waited = true;
        std::thread::sleep(PAUSE);
    }
    waited
}

impl Post {
    /// A request was fetched.
    pub(crate) fn begin(&self, is_close: bool) {
        let kind = if is_close { CLOSING } else { BUSY };
        let before = self.at.load(Ordering::Relaxed);
        self.at.store((before & !KIND) + ONE_REQUEST + kind, Ordering::SeqCst);
    }

    /// It is served; the next one is fetched.
    pub(crate) fn end(&self) {
        let at = self.at.load(Ordering::Relaxed);
        if at & KIND == CLOSING {
            self.served.fetch_add(1, Ordering::SeqCst);
        }
        self.at.store(at & !KIND, Ordering::SeqCst);
    }

    fn settle(&self, deadline: Instant) -> bool {
        let first = self.at.load(Ordering::SeqCst);
        let mut waited = false;
        let mut now = first;
        while self.may_close(first, now) && Instant::now() < deadline {
            waited = true;
            std::thread::sleep(PAUSE);
            now = self.at.load(Ordering::SeqCst);
        }
        waited
    }

    /// The thread serves a close that was handed out before the wait began, or may have fetched one.
    fn may_close(&self, first: u64, now: u64) -> bool {
        match first & KIND {
            CLOSING => now == first,
            FETCHING if now == first => !self.is_idle(),
            // What it seemed to fetch it has fetched by now.
            FETCHING => now == first + ONE_REQUEST + CLOSING,
            _ => false,
        }
    }

    /// It waits for a request.
    fn is_idle(&self) -> bool {
        let at = self.at.load(Ordering::SeqCst);
        at & KIND == FETCHING && self.sleeps() && self.at.load(Ordering::SeqCst) == at
    }

    /// The scheduler's word: `S` in `/proc/self/task/<thread>/stat`, behind the name in brackets.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.thread));
        stat.is_ok_and(|line| line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn threads_that_wait_or_serve_something_else_are_not_waited_for() {
        let closings = Closings::default();
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let closings = &closings;
            scope.spawn(move || {
                let post = closings.enter();
                tell.send((post.thread, Arc::clone(&post))).unwrap();
                _ = ended.recv(); // sleeps, as in a read of the device
            });
            let (thread, post) = told.recv().unwrap();
            while !Post::sleeps(&post) {
                std::thread::yield_now();
            }
            assert_ne!(thread, rustix::thread::gettid().as_raw_nonzero().get());
            assert!(!closings.settle(closings.served()));
            post.begin(false);
            assert!(!closings.settle(closings.served()));
            post.end();
            assert!(!closings.settle(closings.served()));
            drop(end);
        });
    }

    #[test]
    fn a_queue_is_settled_when_one_of_its_threads_is_idle() {
        let closings = Closings::default();
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let closings = &closings;
            // Busy with something else: a close may lie behind it.
            let busy = closings.enter_queue(1);
            busy.begin(false);
            let settling = scope.spawn(move || closings.settle(closings.served()));
            std::thread::sleep(PAUSE * 5);
            assert!(!settling.is_finished());
            scope.spawn(move || {
                tell.send(closings.enter_queue(1)).unwrap();
                _ = ended.recv();
            });
            let idle = told.recv().unwrap();
            assert!(settling.join().unwrap());
            while !idle.is_idle() {
                std::thread::yield_now();
            }
            assert!(!closings.settle(closings.served()), "the other one would have been handed it");
            drop(end);
        });
    }

    #[test]
    fn a_close_is_waited_for() {
        let closings = Closings::default();
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let closings = &closings;
            scope.spawn(move || {
                let post = closings.enter();
                post.begin(true);
                tell.send(Arc::clone(&post)).unwrap();
                _ = ended.recv();
                post.end();
            });
            let post = told.recv().unwrap();
            let first = post.at.load(Ordering::SeqCst);
            let before = closings.served();
            let settling = scope.spawn(move || closings.settle(before));
            std::thread::sleep(PAUSE * 5);
            assert!(!settling.is_finished());
            drop(end);
            assert!(settling.join().unwrap());
            assert!(closings.settle(before), "one was served meanwhile");
            assert_ne!(post.at.load(Ordering::SeqCst), first);
        });
    }

    #[test]
    fn a_thread_that_runs_may_have_fetched_a_close() {
        let closings = Closings::default();
        let (tell, told) = channel();
        let (go, gone) = channel::<()>();
        std::thread::scope(|scope| {
            let closings = &closings;
            scope.spawn(move || {
                let post = closings.enter();
                tell.send(()).unwrap();
                // Runs without having said what it fetched.
                while gone.try_recv().is_err() {
                    std::hint::spin_loop();
                }
                post.begin(true);
                post.end();
            });
            told.recv().unwrap();
            let settling = scope.spawn(move || closings.settle(closings.served()));
            std::thread::sleep(PAUSE * 5);
            assert!(!settling.is_finished());
            go.send(()).unwrap();
            assert!(settling.join().unwrap());
        });
    }
}
