//! Where an answer waits until the thread that owns the ring hands it to the kernel.
//!
//! Answers are given while the handler still looks at its request, which lies in the same memory; so they are only noted
//! here, and written when the handler is done. An answer may come later and from another thread: the owner waits for
//! it.

use crate::transport::Transport;
use rustix::io::Errno;
use std::sync::{Condvar, Mutex, PoisonError};

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
    answer: Mutex<Option<Answer>>,
    given: Condvar,
}

impl Slot {
    pub(super) fn new(payload: usize) -> Slot {
        Slot { payload, answer: Mutex::new(None), given: Condvar::new() }
    }

    fn put(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.given.notify_one();
    }

    /// Waits for the answer.
    pub(super) fn take(&self) -> Answer {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let none = |answer: &mut Option<Answer>| answer.is_none();
        let mut answer = self.given.wait_while(answer, none).unwrap_or_else(PoisonError::into_inner);
        answer.take().unwrap_or_default() // it is there: that was waited for
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
        assert_eq!(slot.take(), Answer { unique: 3, in_payload: 5, ..Answer::default() });
        slot.answer(4, b"fix", b"data").unwrap();
        assert_eq!(slot.take(), Answer { unique: 4, bytes: b"fixdata".to_vec(), ..Answer::default() });
        slot.refuse(5, Errno::NOSPC).unwrap();
        assert_eq!(slot.take(), Answer { unique: 5, error: -libc::ENOSPC, ..Answer::default() });
    }
}
