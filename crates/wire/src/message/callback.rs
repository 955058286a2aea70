//! Requests from the server to the client, on the callback connection of a session. The reply to each is `Done`.

use super::codec::{DecodeError, Field, Item, Name, Reader};
use super::record::messages;
use crate::attr::Ino;
use crate::error::FsError;
use crate::lock::WaitId;

/// Something that a client may have kept and may not show again without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Attributes of an object.
    Attributes(Ino),
    /// What a name of a directory stands for, or that it stands for nothing.
    Entry(Ino, Name),
    /// Content of a file.
    Content(Ino),
}

impl Field for Changed {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Changed::Attributes(ino) => {
                1u8.put(to);
                ino.put(to);
            }
            Changed::Entry(parent, name) => {
                2u8.put(to);
                parent.put(to);
                name.put(to);
            }
            Changed::Content(ino) => {
                3u8.put(to);
                ino.put(to);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            1 => Ino::take(from).map(Changed::Attributes),
            2 => Ok(Changed::Entry(Ino::take(from)?, Name::take(from)?)),
            3 => Ino::take(from).map(Changed::Content),
            tag => Err(DecodeError::UnknownTag { what: "thing that changed", tag }),
        }
    }
}

impl Item for Changed {
    const LIST: &'static str = "things that changed";
    const MOST: usize = 1024;
}

messages! {
    /// What a server asks of a client.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum CallbackRequest {
        /// Forget these before you answer: they are about to change.
        Invalidate = 0x0301 { items: Vec<Changed>, },
        /// A lock that was waited for is granted.
        LockGranted = 0x0302 { wait: WaitId, },
        /// A lock that was waited for is refused after all.
        LockFailed = 0x0303 { wait: WaitId, error: FsError, },
        /// Another client asks for locks of a file: send `ReturnLocks` before you answer.
        ReturnLocks = 0x0304 { ino: Ino, number: u64, },
    }
}
