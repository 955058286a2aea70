//! Fields to bytes and back: little endian, fixed width, byte strings with their length before them.
//!
//! Reading never trusts a length: each kind of list and string has a limit, and nothing is allocated for what is not
//! there. What can be read was written by [`Field::put`] exactly so: one value has one form.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("{needed} more bytes are needed, {left} are left")]
    Short {
        /// Bytes that the next field needs.
        needed: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// They go on after the last field.
    #[error("{bytes} bytes follow the last field")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// The header does not begin as a header does.
    #[error("magic {found:#06x}: {:#06x} was expected", super::header::MAGIC)]
    Magic {
        /// What is there instead.
        found: u16,
    },
    /// The frame is of another version.
    #[error("version {found} of the protocol: {:?} is spoken here", super::header::VERSIONS)]
    Version {
        /// Which.
        found: u8,
    },
    /// A bit of the flags, or a reserved field, has no meaning in this version.
    #[error("{what} {found:#x} has no meaning")]
    Reserved {
        /// Which field.
        what: &'static str,
        /// What is in it.
        found: u16,
    },
    /// No message has this kind: whoever sent it speaks more than we do. Only this error leaves the connection usable.
    #[error("no message of kind {kind:#06x} is known")]
    UnknownKind {
        /// The kind.
        kind: u16,
    },
    /// A choice that is none.
    #[error("{tag} is no {what}")]
    UnknownTag {
        /// What is chosen.
        what: &'static str,
        /// What was found.
        tag: u8,
    },
    /// Longer than it may be.
    #[error("{what}: {length} is over the limit of {most}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its length as announced.
        length: u64,
        /// The most.
        most: u64,
    },
    /// A value that cannot be.
    #[error("{what} cannot be so")]
    Impossible {
        /// Which.
        what: &'static str,
    },
}

/// Bytes on their way to a message.
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let short = DecodeError::Short { needed: count, left: self.left.len() };
        let (bytes, left) = self.left.split_at_checked(count).ok_or(short)?;
        self.left = left;
        Ok(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.left.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { bytes: self.left.len() }) }
    }

    /// A length, as 32 bits, that may not be over `most`.
    pub(crate) fn length(&mut self, what: &'static str, most: usize) -> Result<usize, DecodeError> {
        let length = u32::take(self)? as usize;
        if length <= most {
            return Ok(length);
        }
        Err(DecodeError::TooLong { what, length: length as u64, most: most as u64 })
    }

    /// A byte string of at most `most` bytes.
    pub(crate) fn string(&mut self, what: &'static str, most: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.length(what, most)?;
        self.bytes(length)
    }
}

/// Something that a message is made of.
pub trait Field: Sized {
    /// Adds its bytes.
    fn put(&self, to: &mut Vec<u8>);
    /// The next one.
    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Something that messages have lists of.
pub trait Item: Field {
    /// What a list of it is called.
    const LIST: &'static str;
    /// The longest list.
    const MOST: usize;
}

/// Adds a byte string. Its length is held to the limit by who makes it: names, targets and values have types for that.
pub(crate) fn put_string(bytes: &[u8], to: &mut Vec<u8>) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    (bytes.len() as u32).put(to);
    to.extend_from_slice(bytes);
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bytes = from.bytes(size_of::<$type>())?;
                Ok(<$type>::from_le_bytes(bytes.try_into().expect("as many bytes as were asked for")))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i32, i64);

impl Field for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::UnknownTag { what: "truth", tag }),
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(from.bytes(N)?.try_into().expect("as many bytes as were asked for"))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl<T: Item> Field for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        debug_assert!(self.len() <= T::MOST, "{}: {}", T::LIST, self.len());
        (self.len() as u32).put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let length = from.length(T::LIST, T::MOST)?;
        // Every item has a byte at least: no room is made for what cannot be there.
        let mut items = Vec::with_capacity(length.min(from.left.len()));
        for _ in 0..length {
            items.push(T::take(from)?);
        }
        Ok(items)
    }
}

/// Longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest path, in bytes: the target of a symbolic link.
pub const PATH_MAX: usize = 4095;
/// Longest name of an extended attribute, in bytes.
pub const ATTRIBUTE_NAME_MAX: usize = 255;
/// Longest value of an extended attribute, in bytes.
pub const ATTRIBUTE_VALUE_MAX: usize = 64 << 10;
/// Longest text: names of instances, namespaces and machines, reasons.
pub const TEXT_MAX: usize = 1024;

/// A name of a directory: 1 to [`NAME_MAX`] bytes, no `/` and no NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(OsString);

impl Name {
    /// The name, if it can be one.
    pub fn new(name: &OsStr) -> Option<Name> {
        let bytes = name.as_bytes();
        let fits = (1..=NAME_MAX).contains(&bytes.len());
        (fits && !bytes.iter().any(|byte| matches!(byte, b'/' | 0))).then(|| Name(name.to_owned()))
    }

    /// As the file system knows it.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl Field for Name {
    fn put(&self, to: &mut Vec<u8>) {
        put_string(self.0.as_bytes(), to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = from.string("a name", NAME_MAX)?;
        Name::new(OsStr::from_bytes(bytes)).ok_or(DecodeError::Impossible { what: "a name" })
    }
}

/// Bytes of at most `MOST`, without NUL if `TEXT`: a target, a name or a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bytes<const MOST: usize, const NO_NUL: bool>(Vec<u8>);

/// Target of a symbolic link.
pub type Target = Bytes<PATH_MAX, true>;
/// Name of an extended attribute.
pub type AttributeName = Bytes<ATTRIBUTE_NAME_MAX, true>;
/// Value of an extended attribute.
pub type AttributeValue = Bytes<ATTRIBUTE_VALUE_MAX, false>;

impl<const MOST: usize, const NO_NUL: bool> Bytes<MOST, NO_NUL> {
    /// These bytes, unless they are too many or have a NUL among them where none may be.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() <= MOST && !(NO_NUL && bytes.contains(&0));
        fits.then(|| Bytes(bytes.to_vec()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the file system knows it.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes as a name or path.
    pub fn into_os_string(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl<const MOST: usize, const NO_NUL: bool> Field for Bytes<MOST, NO_NUL> {
    fn put(&self, to: &mut Vec<u8>) {
        put_string(&self.0, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = from.string("a byte string", MOST)?;
        Bytes::new(bytes).ok_or(DecodeError::Impossible { what: "a byte string" })
    }
}

/// Names of instances, namespaces and machines, and reasons: at most [`TEXT_MAX`] bytes; the rest of a longer one is cut
/// off when it is written.
impl Field for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_string(&self.as_bytes()[..self.floor_char_boundary(TEXT_MAX)], to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = from.string("a text", TEXT_MAX)?;
        let text = str::from_utf8(bytes).map_err(|_| DecodeError::Impossible { what: "a text" })?;
        Ok(text.to_owned())
    }
}
