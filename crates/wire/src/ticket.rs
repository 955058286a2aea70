//! The right of a session to the content of one file, made by the metadata server and checked by the data servers without
//! asking it: both know the seal of the instance.
//!
//! A ticket is one byte of rights, seven zeros and 24 bytes of mac over namespace, rights, file and session. It has no end:
//! it is good as long as the session knows it, as an open file is. Pure: any thread.

use crate::data::FileId;
use crate::message::{DecodeError, Field, Reader, SessionId};
use crate::proof::Secret;

/// Bytes of a ticket.
pub const TICKET_BYTES: usize = 32;
const MAC_AT: usize = 8;
const READ: u8 = 1;
const WRITE: u8 = 2;
const PURPOSE: &str = "forebay 2026 ticket of a file";

/// What a ticket allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// To read.
    Read,
    /// To read and write. A write may have to read around what it changes, so there is no right to write alone.
    ReadWrite,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub [u8; TICKET_BYTES]);

impl Ticket {
    /// What it says it allows; whether that is true the key tells.
    pub fn rights(&self) -> Rights {
        if self.0[0] & WRITE != 0 { Rights::ReadWrite } else { Rights::Read }
    }
}

impl Field for Ticket {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Field::take(from).map(Ticket)
    }
}

/// Makes and checks the tickets of one namespace.
#[derive(Clone)]
pub struct TicketKey([u8; 32]);

impl TicketKey {
    /// The key of a namespace of the instance with this seal.
    pub fn new(seal: &Secret, namespace: &str) -> TicketKey {
        TicketKey(*blake3::keyed_hash(&seal.key(PURPOSE), namespace.as_bytes()).as_bytes())
    }

    /// A ticket for a session.
    pub fn issue(&self, rights: Rights, file: FileId, session: SessionId) -> Ticket {
        let mut bytes = [0; TICKET_BYTES];
        bytes[0] = match rights {
            Rights::Read => READ,
            Rights::ReadWrite => READ | WRITE,
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&bytes[..MAC_AT]);
        hasher.update(&file.0.to_le_bytes());
        hasher.update(&session.0);
        let mac = hasher.finalize();
        bytes[MAC_AT..].copy_from_slice(&mac.as_bytes()[..TICKET_BYTES - MAC_AT]);
        Ticket(bytes)
    }

    /// What a ticket allows a session on a file; `None` for one that was not made for both.
    pub fn check(&self, ticket: &Ticket, file: FileId, session: SessionId) -> Option<Rights> {
        let rights = ticket.rights();
        let expected = self.issue(rights, file, session);
        // All bytes are looked at, wherever the first difference is.
        let difference = expected.0.iter().zip(&ticket.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        (std::hint::black_box(difference) == 0).then_some(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_its_file_session_namespace_and_rights_only() {
        let seal = Secret::new(&[5; 32]).unwrap();
        let (key, file, session) = (TicketKey::new(&seal, "striped"), FileId(7), SessionId([1; 16]));
        for rights in [Rights::Read, Rights::ReadWrite] {
            let ticket = key.issue(rights, file, session);
            assert_eq!(key.check(&ticket, file, session), Some(rights));
            assert_eq!(key.check(&ticket, FileId(8), session), None);
            assert_eq!(key.check(&ticket, file, SessionId([2; 16])), None);
            assert_eq!(TicketKey::new(&seal, "private").check(&ticket, file, session), None);
            let other_seal = Secret::new(&[6; 32]).unwrap();
            assert_eq!(TicketKey::new(&other_seal, "striped").check(&ticket, file, session), None);
        }
    }

    #[test]
    fn no_bit_of_a_ticket_can_be_changed() {
        let key = TicketKey::new(&Secret::new(&[5; 32]).unwrap(), "striped");
        let ticket = key.issue(Rights::Read, FileId(7), SessionId([1; 16]));
        for bit in 0..TICKET_BYTES * 8 {
            let mut changed = ticket;
            changed.0[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.check(&changed, FileId(7), SessionId([1; 16])), None, "bit {bit}");
        }
    }
}
