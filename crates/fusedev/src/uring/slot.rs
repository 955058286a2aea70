//! Where an answer waits until the thread that owns the ring hands it to the kernel.
//!
//! Answers are given while the handler still looks at its request, which lies in the same memory; so they are only noted
//! here, and written when the handler is done. An answer may come later and from another thread: the owner waits for
//! it, unless the connection ends before ([`Slot::give_up`]).

use crate::transport::Transport;
use rustix::io::Errno;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) unique: u64,
    /// Negative, or 0.
    pub(super) error: i32,
    /// What is to be copied to the payload.
    pub(super) bytes: Vec<u8>,
    /// What is there already.
    pub(super) in_payload: usize,
}

/// Room for one answer.
#[derive(Debug)]
pub(super) struct Slot {
    /// Address of the payload.
    payload: usize,
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Content {
    answer: Option<Answer>,
    is_given_up: bool,
    /// The owner waits: to wake nobody costs a system call too, with each answer.
    is_awaited: bool,
}

impl Slot {
    pub(super) fn new(payload: usize) -> Slot {
        Slot { payload, content: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `true`: the owner was waiting, and was woken.
    fn put(&self, answer: Answer) -> bool {
        self.change(|content| content.answer = Some(answer))
    }

    /// Nobody wants the answer any more.
    pub(super) fn give_up(&self) {
        self.change(|content| content.is_given_up = true);
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> bool {
        let mut content = self.lock();
        change(&mut content);
        let is_awaited = content.is_awaited;
        drop(content);
        if is_awaited {
            self.changed.notify_one();
        }
        is_awaited
    }

    /// Waits for the answer; `None` when it was given up first.
    pub(super) fn take(&self) -> Option<Answer> {
        let mut content = self.lock();
        while content.answer.is_none() && !content.is_given_up {
            content.is_awaited = true;
            content = self.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        content.is_awaited = false;
        content.answer.take()
    }
}

impl Transport for Slot {
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()> {
        let answer = match fixed.is_empty() && data.as_ptr() as usize == self.payload {
            true => Answer { unique, in_payload: data.len(), ..Answer::default() },
            false => Answer { unique, bytes: [fixed, data].concat(), ..Answer::default() },
        };
        self.put(answer);
        Ok(())
    }

    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()> {
        self.put(Answer { unique, error: -errno.raw_os_error(), ..Answer::default() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_lies_in_the_payload_is_not_copied() {
        let payload = [7; 8];
        let slot = Slot::new(payload.as_ptr() as usize);
        slot.answer(3, &[], &payload[..5]).unwrap();
        assert_eq!(slot.take(), Some(Answer { unique: 3, in_payload: 5, ..Answer::default() }));
        slot.answer(4, b"fix", b"data").unwrap();
        let together = Answer { unique: 4, bytes: b"fixdata".to_vec(), ..Answer::default() };
        assert_eq!(slot.take(), Some(together));
        slot.refuse(5, Errno::NOSPC).unwrap();
        let refusal = Answer { unique: 5, error: -libc::ENOSPC, ..Answer::default() };
        assert_eq!(slot.take(), Some(refusal));
    }

    #[test]
    fn only_an_owner_who_waits_is_woken() {
        let slot = Slot::new(0);
        let answer = |unique| Answer { unique, ..Answer::default() };
        for unique in 0..3 {
            assert!(!slot.put(answer(unique)), "nobody waits");
            assert_eq!(slot.take(), Some(answer(unique)));
            std::thread::scope(|scope| {
                let owner = scope.spawn(|| slot.take());
                while !slot.lock().is_awaited {
                    std::thread::yield_now();
                }
                assert!(slot.put(answer(9)));
                assert_eq!(owner.join().unwrap(), Some(answer(9)));
            });
        }
    }
}
