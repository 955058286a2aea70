//! Paths of any bytes in JSON.
//!
//! A name need not be UTF-8, JSON text must be. Bytes that are not part of valid UTF-8, control characters and `%` become
//! `%XX`; everything else stays readable. Used by the journal and by everything that travels between processes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Text form of a path.
pub fn encode(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '%' => text.push_str("%25"),
                c if c.is_control() => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| push_byte(&mut text, b))
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| push_byte(&mut text, *b));
    }
    text
}

fn push_byte(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// The path behind a text form; `None` when a `%` is not followed by two hexadecimal digits.
pub fn decode(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(*rest.next()?).to_digit(16)?;
        let low = char::from(*rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// For `#[serde(with = "raw_path")]`.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(path))
}

/// For `#[serde(with = "raw_path")]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(&text).ok_or_else(|| D::Error::custom("`%` must be followed by two hexadecimal digits"))
}

/// For `#[serde(with = "raw_path::optional")]`.
pub mod optional {
    use super::{Deserialize, Deserializer, Error, Path, PathBuf, Serializer, decode, encode};
    use serde::Serialize;

    /// As the one above, for an absent path.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(|p: &Path| encode(p)).serialize(serializer)
    }

    /// As the one above, for an absent path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| {
                decode(&text)
                    .ok_or_else(|| D::Error::custom("`%` must be followed by two hexadecimal digits"))
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_path_comes_back(bytes: Vec<u8>) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            proptest::prop_assert_eq!(decode(&encode(&path)), Some(path));
        }
    }

    #[test]
    fn readable_names_stay_readable_and_others_are_escaped() {
        let path = PathBuf::from(OsString::from_vec(b"spectra/\xC3\xA9t\xC3\xA9 1%\xFF\n".to_vec()));
        assert_eq!(encode(&path), "spectra/été 1%25%FF%0A");
        assert_eq!(decode("%G0"), None);
        assert_eq!(decode("%1"), None);
    }
}
