//! Paths in JSON: a text where the bytes are UTF-8, which they nearly always are, else an array of the bytes.
//!
//! For `#[serde(with = "...")]` on a `Vec<u8>`. Pure; any thread.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::Serializer;
use std::fmt;

/// Writes a path.
pub fn serialize<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(path) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => serializer.collect_seq(path),
    }
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_any(Path)
}

struct Path;

impl<'de> Visitor<'de> for Path {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path: a text, or an array of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Vec<u8>, A::Error> {
        let mut path = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            path.push(byte);
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct One(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn every_path_comes_back() {
        for (path, json) in [(&b"/pfs/a"[..], "\"/pfs/a\""), (b"", "\"\""), (b"/\xff", "[47,255]")] {
            let one = One(path.to_vec());
            assert_eq!(serde_json::to_string(&one).unwrap(), json);
            assert_eq!(serde_json::from_str::<One>(json).unwrap(), one);
        }
        assert!(serde_json::from_str::<One>("[256]").is_err() && serde_json::from_str::<One>("7").is_err());
    }
}
