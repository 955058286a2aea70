//! The memory in which one request comes and its answer goes: the headers and the payload.
//!
//! The kernel writes it between the submission of an entry and its completion, this process at all other times. A request
//! is its header, the fixed part of its operation, and the rest (names, data) in the payload; an answer is its header,
//! and all else in the payload. Layout: `struct fuse_uring_req_header`.

use crate::abi::IN_HEADER_BYTES;
use crate::buffer::Buffer;
use crate::transport::out_header;

/// Bytes for a request's or an answer's header.
const HEADER_BYTES: usize = 128;
/// Bytes for the fixed part of a request.
const FIXED_BYTES: usize = 128;

/// The headers.
#[repr(C, align(4096))]
struct Headers {
    header: [u8; HEADER_BYTES],
    fixed: [u8; FIXED_BYTES],
    flags: u64,
    commit: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// Bytes of the headers as the kernel counts them, without what aligns them.
const HEADERS_BYTES: usize = HEADER_BYTES + FIXED_BYTES + 32;

/// A request, as far as it is there.
pub(super) struct Arrived<'a> {
    pub(super) header: &'a [u8],
    pub(super) fixed: &'a [u8],
    pub(super) rest: &'a [u8],
    /// For the data of the answer; empty where the request has brought data itself.
    pub(super) room: &'a mut [u8],
}

/// One place.
pub(super) struct Place {
    headers: Headers,
    payload: Buffer,
    /// Addresses and lengths of both, for the kernel.
    parts: [libc::iovec; 2],
}

// SAFETY: the pointers lead to memory of the place itself and are used by the kernel only.
unsafe impl Send for Place {}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    /// Boxed: the kernel keeps its address.
    pub(super) fn new(request_bytes: usize) -> Box<Place> {
        let headers = Headers {
            header: [0; HEADER_BYTES],
            fixed: [0; FIXED_BYTES],
            flags: 0,
            commit: 0,
            payload_bytes: 0,
            padding: 0,
            reserved: 0,
        };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut place = Box::new(Place { headers, payload: Buffer::new(request_bytes), parts: [nothing; 2] });
        let headers = libc::iovec { iov_base: (&raw mut place.headers).cast(), iov_len: HEADERS_BYTES };
        let data = place.payload.data();
        let payload = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
        place.parts = [headers, payload];
        place
    }

    /// Where the kernel finds the addresses.
    pub(super) fn parts(&self) -> &[libc::iovec; 2] {
        &self.parts
    }

    /// Number of the request that came last.
    pub(super) fn commit(&self) -> u64 {
        self.headers.commit
    }

    /// The request that came last.
    pub(super) fn arrived(&mut self) -> Arrived<'_> {
        let (header, fixed) = (&self.headers.header[..IN_HEADER_BYTES], &self.headers.fixed[..]);
        let data = self.payload.data();
        let length = (self.headers.payload_bytes as usize).min(data.len());
        match length {
            0 => Arrived { header, fixed, rest: &[], room: data },
            length => Arrived { header, fixed, rest: &data[..length], room: &mut [] },
        }
    }

    /// Writes an answer: `prefix`, or so many bytes that are in the payload already.
    pub(super) fn answer(&mut self, unique: u64, error: i32, prefix: &[u8], in_payload: usize) {
        let length = prefix.len().max(in_payload);
        self.payload.data()[..prefix.len()].copy_from_slice(prefix);
        self.headers.header[..16].copy_from_slice(&out_header(unique, error, length));
        self.headers.payload_bytes = length as u32;
    }
}
