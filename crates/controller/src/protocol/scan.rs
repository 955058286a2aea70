//! Reads the JSON of [`super::rows`] value by value.
//!
//! A general reader of JSON asks what each value is; here that is known, and there are half a million of them. What is read is
//! JSON that this version's controller writes, or may write with blanks in other places; everything else is refused. Pure.

use forebay_model::ids::*;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use std::borrow::Cow;

/// Something else than was expected stands somewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expected} is expected at byte {at}")]
pub(crate) struct Odd {
    expected: &'static str,
    at: usize,
}

/// A text and how far it was read.
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    /// At the start of a text.
    pub fn new(text: &'t str) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    /// For a value that was read and cannot be.
    pub fn odd(&self, expected: &'static str) -> Odd {
        Odd { expected, at: self.at }
    }

    /// The next byte that is no blank, which stays the next one.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Goes past this mark, if it is the next one.
    pub fn skip(&mut self, mark: u8) -> bool {
        let is_next = self.peek() == Some(mark);
        self.at += usize::from(is_next);
        is_next
    }

    /// Goes past this mark.
    pub fn pass(&mut self, mark: u8, name: &'static str) -> Result<(), Odd> {
        if self.skip(mark) { Ok(()) } else { Err(self.odd(name)) }
    }

    /// Nothing comes any more.
    pub fn end(&mut self) -> Result<(), Odd> {
        if self.peek().is_none() { Ok(()) } else { Err(self.odd("the end")) }
    }

    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let is_next = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn number(&mut self) -> Result<u64, Odd> {
        self.peek();
        let digits = &self.text.as_bytes()[self.at..];
        let mut value: u64 = 0;
        let mut count = 0;
        while let Some(digit) =
            digits.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10)
        {
            let next = value.checked_mul(10).and_then(|value| value.checked_add(digit.into()));
            value = next.ok_or_else(|| self.odd("a number of 64 bits"))?;
            count += 1;
        }
        // JSON has no numbers that begin with more zeros than they need.
        if count == 0 || (count > 1 && digits[0] == b'0') {
            return Err(self.odd("a number"));
        }
        self.at += count;
        Ok(value)
    }

    /// A text in quotation marks.
    pub fn text(&mut self) -> Result<Cow<'t, str>, Odd> {
        self.pass(b'"', "a text")?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            match bytes.get(self.at) {
                None | Some(0..0x20) => return Err(self.odd("the end of a text")),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        if !escaped {
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let whole = serde_json::from_str(&self.text[start - 1..self.at]);
        whole.map(Cow::Owned).map_err(|_| self.odd("a text as JSON has it"))
    }

    /// One of the words of a type.
    fn named<T: Deserialize<'t>>(&mut self, expected: &'static str) -> Result<T, Odd> {
        let text = self.text()?;
        let word: StrDeserializer<'_, WordError> = (*text).into_deserializer();
        // Words are compared, not kept.
        T::deserialize(word).map_err(|_| self.odd(expected))
    }
}

/// A value of a row.
pub(crate) trait Cell: Sized {
    /// Reads it.
    fn read(from: &mut Scanner<'_>) -> Result<Self, Odd>;
}

impl Cell for u64 {
    fn read(from: &mut Scanner<'_>) -> Result<u64, Odd> {
        from.number()
    }
}

impl Cell for u32 {
    fn read(from: &mut Scanner<'_>) -> Result<u32, Odd> {
        u32::try_from(from.number()?).map_err(|_| from.odd("a number of 32 bits"))
    }
}

impl Cell for i64 {
    fn read(from: &mut Scanner<'_>) -> Result<i64, Odd> {
        let negative = from.skip(b'-');
        let value = i128::from(from.number()?);
        let value = if negative { -value } else { value };
        i64::try_from(value).map_err(|_| from.odd("a number of 64 bits"))
    }
}

impl Cell for bool {
    fn read(from: &mut Scanner<'_>) -> Result<bool, Odd> {
        match (from.word("true"), from.word("false")) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => Err(from.odd("true or false")),
        }
    }
}

impl Cell for String {
    fn read(from: &mut Scanner<'_>) -> Result<String, Odd> {
        from.text().map(Cow::into_owned)
    }
}

impl Cell for Option<String> {
    fn read(from: &mut Scanner<'_>) -> Result<Option<String>, Odd> {
        if from.word("null") { Ok(None) } else { String::read(from).map(Some) }
    }
}

impl Cell for ObjectState {
    fn read(from: &mut Scanner<'_>) -> Result<ObjectState, Odd> {
        let letters = from.text()?;
        ObjectState::from_letters(&letters).ok_or_else(|| from.odd("the five letters of a state"))
    }
}

impl Cell for ConfigurationType {
    fn read(from: &mut Scanner<'_>) -> Result<ConfigurationType, Odd> {
        from.named("a type of configurations")
    }
}

impl Cell for AccessMode {
    fn read(from: &mut Scanner<'_>) -> Result<AccessMode, Odd> {
        from.named("an access mode")
    }
}

macro_rules! numbers {
    ($($kind:ident),+) => {
        $(impl Cell for $kind {
            fn read(from: &mut Scanner<'_>) -> Result<$kind, Odd> {
                from.number().map($kind)
            }
        })+
    };
}

numbers!(
    Bytes,
    Granules,
    SessionId,
    InstanceId,
    ConfigurationId,
    FragmentId,
    NamespaceId,
    RegistrationId,
    ActivationId
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell<T: Cell>(text: &str) -> Result<T, Odd> {
        let mut from = Scanner::new(text);
        let value = T::read(&mut from)?;
        from.end().map(|()| value)
    }

    proptest! {
        /// The general reader of JSON is the oracle, of values and of what is none.
        #[test]
        fn values_are_what_json_says(text in r#"[ \n]?("(\\"|\\u00e9|\\n|\\\\|\\x|[a-zé\t])*"|-?[0-9]{0,21}|true|null|fals)?[ ,"]?"#) {
            prop_assert_eq!(cell::<String>(&text).ok(), serde_json::from_str(&text).ok());
            prop_assert_eq!(cell::<Option<String>>(&text).ok(), serde_json::from_str(&text).ok());
            prop_assert_eq!(cell::<u64>(&text).ok(), serde_json::from_str(&text).ok());
            prop_assert_eq!(cell::<u32>(&text).ok(), serde_json::from_str(&text).ok());
            prop_assert_eq!(cell::<bool>(&text).ok(), serde_json::from_str(&text).ok());
            // serde_json reads -0 as a fraction.
            if text.trim() != "-0" {
                prop_assert_eq!(cell::<i64>(&text).ok(), serde_json::from_str(&text).ok());
            }
        }
    }
}
