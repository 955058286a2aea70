//! The start of a connection: the kernel introduces itself, the file system says what it takes.
//!
//! [`Greeting::receive`] reads the kernel's INIT, [`Greeting::agree`] answers it. Until then programs that touch the mount
//! wait. A greeting that is dropped closes the device, and the kernel cuts the mount (ENOTCONN). The decoding and encoding
//! are pure.

use crate::abi::{
    IN_HEADER_BYTES, READ_BUFFER_BYTES_MIN, VERSION_MAJOR, VERSION_MINOR, VERSION_MINOR_OLDEST, opcode,
};
use crate::connection::Connection;
use crate::cursor::{Cursor, Taken};
use crate::flags::Features;
use crate::record::Record;
use crate::transport::{out_header, write_message};
use crate::uring::Rings;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The device failed, or the mount was taken away meanwhile.
    #[error("the FUSE device: {0}")]
    Device(#[from] Errno),
    /// The kernel is older than this crate goes.
    #[error(
        "the kernel speaks version {major}.{minor} of the FUSE protocol, and {VERSION_MAJOR}.{VERSION_MINOR_OLDEST} is needed"
    )]
    TooOld {
        /// The kernel's.
        major: u32,
        /// The kernel's.
        minor: u32,
    },
    /// The first message was no greeting.
    #[error("the kernel's first message on the FUSE device is no greeting")]
    NoGreeting,
}

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Minor version of the protocol; the major one is 7.
    pub minor: u32,
    /// Most bytes the kernel reads ahead.
    pub max_readahead: u32,
    /// What it knows.
    pub features: Features,
}

/// What the file system takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The features; what was not offered is left out.
    pub features: Features,
    /// Most bytes the kernel reads ahead, if it offers that many.
    pub max_readahead: u32,
    /// Bytes of the largest read or write; whole pages, at least one. Kernels have limits of their own, and those
    /// before 4.20 (without [`Features::MAX_PAGES`]) send no more than 128 KiB.
    pub request_bytes: u32,
    /// Requests the kernel may have under way for read-ahead and asynchronous direct I/O.
    pub max_background: u16,
    /// Threads that will serve: over io_uring, where each has memory for a request, that is made before the answer.
    pub threads: usize,
    /// File systems that may lie on one another, with [`Features::PASSTHROUGH`].
    pub max_stack_depth: u32,
}

struct Hello {
    unique: u64,
    major: u32,
    offer: Offer,
}

/// Requests that may be answered late.
const LOCKS: Features = Features::POSIX_LOCKS.union(Features::FLOCK_LOCKS);

/// Reads an INIT message; `None` when it is another one.
fn hello(message: &[u8]) -> Option<Hello> {
    fn read(cursor: &mut Cursor<'_>) -> Taken<Option<Hello>> {
        let (_length, opcode, unique) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
        cursor.skip(IN_HEADER_BYTES - 16)?;
        if opcode != opcode::INIT {
            return Ok(None);
        }
        let (major, minor) = (cursor.u32()?, cursor.u32()?);
        let mut offer = Offer { minor, max_readahead: 0, features: Features::empty() };
        if major == VERSION_MAJOR {
            offer.max_readahead = cursor.u32()?;
            let low = Features::from_bits_retain(cursor.u32()?.into());
            let high = if low.contains(Features::INIT_EXT) { cursor.u32()? } else { 0 };
            offer.features = low | Features::from_bits_retain(u64::from(high) << 32);
        }
        Ok(Some(Hello { unique, major, offer }))
    }
    read(&mut Cursor::new(message)).ok().flatten()
}

/// The answer to INIT, 64 bytes.
fn welcome(offer: &Offer, agreement: &Agreement, page_bytes: usize) -> Record {
    let bits = agreement.features.bits();
    let readahead = agreement.max_readahead.min(offer.max_readahead);
    let background = agreement.max_background;
    let pages = agreement.request_bytes.div_ceil(page_bytes as u32);
    let head = Record::new().u32(VERSION_MAJOR).u32(VERSION_MINOR.min(offer.minor)).u32(readahead);
    let sizes = head.u32(bits as u32).u16(background).u16(background).u32(agreement.request_bytes).u32(1);
    let high = sizes.u16(u16::try_from(pages).unwrap_or(u16::MAX)).u16(0).u32((bits >> 32) as u32);
    (0..6).fold(high.u32(agreement.max_stack_depth), |record, _| record.u32(0))
}

/// A connection whose kernel has introduced itself and waits for an answer.
#[derive(Debug)]
pub struct Greeting {
    device: OwnedFd,
    unique: u64,
    offer: Offer,
}

impl Greeting {
    /// Waits for the kernel's greeting on a device that was mounted.
    pub fn receive(device: OwnedFd) -> Result<Greeting, HandshakeError> {
        let mut buffer = vec![0; READ_BUFFER_BYTES_MIN];
        loop {
            let length = match rustix::io::read(&device, &mut buffer[..]) {
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                result => result?,
            };
            let hello = hello(&buffer[..length]).ok_or(HandshakeError::NoGreeting)?;
            if hello.major > VERSION_MAJOR {
                // It is told our major version and tries again with that.
                let answer = Record::new().u32(VERSION_MAJOR).u32(VERSION_MINOR);
                send(&device, hello.unique, &answer)?;
                continue;
            }
            if (hello.major, hello.offer.minor) < (VERSION_MAJOR, VERSION_MINOR_OLDEST) {
                let refusal = out_header(hello.unique, -Errno::PROTO.raw_os_error(), 0);
                write_message(&device, &refusal, &[], &[])?;
                return Err(HandshakeError::TooOld { major: hello.major, minor: hello.offer.minor });
            }
            return Ok(Greeting { device, unique: hello.unique, offer: hello.offer });
        }
    }

    /// What the kernel offers.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Takes what `agreement` names, as far as it was offered. The mount works from here on.
    pub fn agree(self, agreement: &Agreement) -> Result<Connection, HandshakeError> {
        // Flags above 32 bits are taken by the kernel only with this one.
        let mut features = agreement.features & self.offer.features;
        features |= self.offer.features & Features::INIT_EXT;
        // The kernel counts the size of requests in its pages, which have 64 KiB on some machines.
        let page_bytes = rustix::param::page_size();
        let request_bytes = (agreement.request_bytes as usize).max(1).next_multiple_of(page_bytes);
        let rings = match features.contains(Features::OVER_IO_URING) {
            true => Rings::prepare(request_bytes, agreement.threads, features.intersects(LOCKS)).ok(), // refused: the device serves as well
            false => None,
        };
        features.set(Features::OVER_IO_URING, rings.is_some());
        let agreement = Agreement { features, request_bytes: request_bytes as u32, ..*agreement };
        send(&self.device, self.unique, &welcome(&self.offer, &agreement, page_bytes))?;
        Ok(Connection::new(self.device, features, request_bytes, rings))
    }
}

fn send(device: &OwnedFd, unique: u64, answer: &Record) -> Result<(), Errno> {
    let fixed = answer.as_bytes();
    write_message(device, &out_header(unique, 0, fixed.len()), fixed, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn init(major: u32, minor: u32, flags: u32, flags2: u32) -> Vec<u8> {
        let mut message = vec![0; IN_HEADER_BYTES];
        message[4..8].copy_from_slice(&opcode::INIT.to_ne_bytes());
        message[8..16].copy_from_slice(&2u64.to_ne_bytes());
        for word in [major, minor, 1 << 17, flags, flags2] {
            message.extend(word.to_ne_bytes());
        }
        message
    }

    #[test]
    fn upper_flags_count_only_when_the_kernel_says_that_it_has_them() {
        let extended = (Features::INIT_EXT | Features::ASYNC_DIO).bits() as u32;
        let offer = hello(&init(7, 40, extended, 1 << 5)).unwrap().offer;
        assert!(offer.features.contains(Features::PASSTHROUGH | Features::ASYNC_DIO));
        let offer = hello(&init(7, 31, Features::ASYNC_DIO.bits() as u32, 1 << 5)).unwrap().offer;
        assert_eq!(offer, Offer { minor: 31, max_readahead: 1 << 17, features: Features::ASYNC_DIO });
        let newer = hello(&init(8, 0, 0, 0)).unwrap();
        assert_eq!((newer.major, newer.unique), (8, 2));
        assert!(hello(&[0; 64]).is_none());
    }

    #[test]
    fn the_answer_is_as_the_kernel_header_has_it() {
        let features = Features::INIT_EXT | Features::PASSTHROUGH;
        let offer = Offer { minor: 99, max_readahead: 1 << 17, features };
        let agreement = Agreement {
            features,
            max_readahead: 1 << 20,
            request_bytes: 1 << 20,
            max_background: 64,
            threads: 1,
            max_stack_depth: 1,
        };
        let record = welcome(&offer, &agreement, 4096);
        let word = |at: usize| u32::from_ne_bytes(record.as_bytes()[at..at + 4].try_into().unwrap());
        assert_eq!(record.as_bytes().len(), 64);
        assert_eq!((word(0), word(4), word(8)), (7, VERSION_MINOR, 1 << 17));
        assert_eq!((word(12), word(16), word(20), word(24)), (1 << 30, 64 << 16 | 64, 1 << 20, 1));
        assert_eq!((word(28), word(32), word(36)), (256, 1 << 5, 1));
        let large_pages = welcome(&offer, &agreement, 65536);
        assert_eq!(large_pages.as_bytes()[28..30], 16u16.to_ne_bytes());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = hello(&bytes);
        }
    }
}
