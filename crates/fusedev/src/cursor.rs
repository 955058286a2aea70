//! Reading numbers, names and bytes one after another out of a message. Pure; never reads beyond the message and never
//! panics, whatever is in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The message ended before the value did, or a name has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooShort;

pub(crate) type Taken<T> = Result<T, TooShort>;

/// What is left of a message: numbers come from its fixed part, names and data from the rest. Both lie together, or apart
/// from each other where the kernel brings them so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    fixed: &'a [u8],
    /// `None`: what follows the fixed part.
    rest: Option<&'a [u8]>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Cursor<'a> {
        Cursor { fixed: message, rest: None }
    }

    pub(crate) fn apart(fixed: &'a [u8], rest: &'a [u8]) -> Cursor<'a> {
        Cursor { fixed, rest: Some(rest) }
    }

    fn array<const N: usize>(&mut self) -> Taken<[u8; N]> {
        let (first, rest) = self.fixed.split_first_chunk::<N>().ok_or(TooShort)?;
        self.fixed = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Taken<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Taken<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn i32(&mut self) -> Taken<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Taken<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn i64(&mut self) -> Taken<i64> {
        self.array().map(i64::from_ne_bytes)
    }

    /// Leaves out bytes of the fixed part.
    pub(crate) fn skip(&mut self, count: usize) -> Taken<()> {
        self.fixed = self.fixed.get(count..).ok_or(TooShort)?;
        Ok(())
    }

    /// Where names and data are.
    fn rest(&mut self) -> &mut &'a [u8] {
        self.rest.as_mut().unwrap_or(&mut self.fixed)
    }

    /// Data.
    pub(crate) fn bytes(&mut self, count: usize) -> Taken<&'a [u8]> {
        let (first, rest) = self.rest().split_at_checked(count).ok_or(TooShort)?;
        *self.rest() = rest;
        Ok(first)
    }

    /// A name up to its zero byte, which is taken too.
    pub(crate) fn name(&mut self) -> Taken<&'a OsStr> {
        let end = self.rest().iter().position(|&byte| byte == 0).ok_or(TooShort)?;
        let name = self.bytes(end + 1)?;
        Ok(OsStr::from_bytes(&name[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_there_and_no_more() {
        let mut message = Vec::new();
        message.extend(7u32.to_ne_bytes());
        message.extend((-1i64).to_ne_bytes());
        message.extend(b"name\0ab");
        let mut cursor = Cursor::new(&message);
        assert_eq!((cursor.u32(), cursor.i64()), (Ok(7), Ok(-1)));
        assert_eq!(cursor.name().unwrap(), "name");
        assert_eq!(cursor.name(), Err(TooShort), "no zero byte");
        assert_eq!(cursor.u32(), Err(TooShort));
        assert_eq!(cursor.bytes(3), Err(TooShort));
        assert_eq!(cursor.bytes(2), Ok(&b"ab"[..]), "a refusal takes nothing");
        assert_eq!(cursor.bytes(0), Ok(&b""[..]));
    }

    #[test]
    fn names_and_data_that_lie_apart_are_taken_from_there() {
        let fixed = [7u32.to_ne_bytes(), 8u32.to_ne_bytes()].concat();
        let mut cursor = Cursor::apart(&fixed, b"a\0bc");
        assert_eq!(cursor.u32(), Ok(7));
        assert_eq!(cursor.name().unwrap(), "a");
        assert_eq!((cursor.u32().is_ok(), cursor.u32()), (true, Err(TooShort)), "no number from the rest");
        assert_eq!((cursor.bytes(2), cursor.bytes(1)), (Ok(&b"bc"[..]), Err(TooShort)));
    }
}
