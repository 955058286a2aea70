//! A size in a configuration file, before anybody reads it as a size.
//!
//! Files write sizes in quotes, with a unit. A bare number is what people write first, so the refusal shows it as it has to be.
//! Pure.

use super::format::exact;
use crate::units::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// The text of a size; whoever reads it says what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeText(pub String);

impl fmt::Display for SizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SizeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SizeText, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = SizeText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size in quotes, such as \"8MiB\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SizeText, E> {
        Ok(SizeText(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SizeText, E> {
        u64::try_from(number)
            .map_err(|_| E::custom(format!("{number} is not a size")))
            .and_then(|n| self.visit_u64(n))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<SizeText, E> {
        let text = exact(Bytes(number));
        Err(E::custom(format!(
            "{number} is a number, and a size stands in quotes with its unit: write \"{text}\""
        )))
    }
}
