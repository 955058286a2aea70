//! What a serving thread has to know of a request before it is decoded, read where the header has it.

use std::ops::Range;

const OPERATION: Range<usize> = 4..8;
const UNIQUE: Range<usize> = 8..16;
const NODE: Range<usize> = 16..24;

fn field<const BYTES: usize>(header: &[u8], at: Range<usize>) -> Option<[u8; BYTES]> {
    header.get(at)?.try_into().ok()
}

/// The number of the operation, of [`crate::abi::opcode`]; `None` of what is no header.
pub(crate) fn operation(header: &[u8]) -> Option<u32> {
    field(header, OPERATION).map(u32::from_ne_bytes)
}

/// The number of the request; 0 of what is no header.
pub(crate) fn unique(header: &[u8]) -> u64 {
    field(header, UNIQUE).map_or(0, u64::from_ne_bytes)
}

/// The object that it is about; 0 where there is none.
pub(crate) fn node(header: &[u8]) -> u64 {
    field(header, NODE).map_or(0, u64::from_ne_bytes)
}
