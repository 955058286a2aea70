//! The words after a command, sorted by their keys.
//!
//! Invariants: no key is there twice; every word is a field, a flag, or told.

use crate::diagnostic::{Code, Place, Report};
use crate::suggest::{did_you_mean, nearest};
use crate::symbols::{LineSymbols, SYMBOLS};
use crate::words::Word;
use std::borrow::Cow;

/// The value of a key, or a word that stands for itself.
#[derive(Clone, Debug)]
pub(crate) struct Value<'a> {
    word: Word<'a>,
    offset: usize,
    /// The value with its symbols replaced; as written if there are no values for them.
    pub text: Cow<'a, [u8]>,
    /// Symbols were left as written.
    pub symbols_kept: bool,
    /// Symbols may be written here.
    pub symbols_allowed: bool,
}

impl<'a> Value<'a> {
    /// The part of a word from `offset` on. `None` if a symbol in it is unknown, which is told.
    pub fn new(
        word: Word<'a>,
        offset: usize,
        symbols: &mut LineSymbols,
        report: &mut Report,
    ) -> Option<Value<'a>> {
        let (symbols_kept, symbols_allowed) = (symbols.are_kept(), symbols.are_allowed());
        match symbols.expand(&word.bytes[offset..]) {
            Ok(text) => Some(Value { word, offset, text, symbols_kept, symbols_allowed }),
            Err(unknown) => {
                let at = offset + unknown.offset;
                let text = &word.bytes[at..at + unknown.length];
                let expected = format!("one of {SYMBOLS}");
                report.suggest(
                    Code::UnknownSymbol,
                    word.place(at),
                    text,
                    expected,
                    "write `%%` for a percent sign",
                );
                None
            }
        }
    }

    /// As it was written.
    pub fn written(&self) -> &'a [u8] {
        &self.word.bytes[self.offset..]
    }

    /// Where it begins.
    pub fn start(&self) -> Place {
        self.word.place(self.offset)
    }

    /// The whole word, with its key.
    pub fn word(&self) -> Word<'a> {
        self.word
    }

    /// Where a byte of `text` stands; the beginning where replaced symbols have moved it.
    pub fn place(&self, at: usize) -> Place {
        let moved = self.text.as_ref() != self.written();
        self.word.place(self.offset + if moved { 0 } else { at })
    }

    /// The text as a string; bytes that are not UTF-8 are replaced, which no keyword or number survives.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }
}

/// What a command takes.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary {
    /// Words of the form `key=value`.
    pub keys: &'static [&'static str],
    /// Words without a value.
    pub flags: &'static [&'static str],
}

impl Vocabulary {
    /// For messages.
    fn list(&self) -> String {
        let keys = self.keys.iter().map(|key| format!("{key}="));
        keys.chain(self.flags.iter().map(|flag| (*flag).to_string())).collect::<Vec<_>>().join(" ")
    }
}

/// The fields of a directive.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    subject: (Place, &'a [u8]),
    values: Vec<(&'static str, Value<'a>)>,
    flags: Vec<&'static str>,
    /// Keys that were written with something wrong that has been told: they are not missing as well.
    damaged: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Sorts words by their keys. `subject` is what they belong to: the command and its place.
    pub fn read(
        subject: (Place, &'a [u8]),
        words: &[Word<'a>],
        takes: Vocabulary,
        symbols: &mut LineSymbols,
        report: &mut Report,
    ) -> Fields<'a> {
        let mut fields = Fields { subject, values: Vec::new(), flags: Vec::new(), damaged: Vec::new() };
        let mut at = 0;
        while at < words.len() {
            at += fields.word(&words[at..], takes, symbols, report);
        }
        fields
    }

    /// Takes the first of the words, and says how many belong together.
    fn word(
        &mut self,
        words: &[Word<'a>],
        takes: Vocabulary,
        symbols: &mut LineSymbols,
        report: &mut Report,
    ) -> usize {
        let word = words[0];
        let Some(equals) = word.bytes.iter().position(|byte| *byte == b'=') else {
            return self.bare(words, takes, report);
        };
        let key = known(takes.keys, &word.bytes[..equals]);
        if word.bytes.len() == equals + 1 {
            return self.without_value(words, key, report);
        }
        let Some(value) = Value::new(word, equals + 1, symbols, report) else {
            self.damaged.extend(key);
            return 1;
        };
        match key {
            None => self.damaged.extend(unknown_key(word, equals, takes, report)),
            Some(key) if self.has(key) => {
                let expected = format!("`{key}=` once");
                report.suggest(
                    Code::DuplicateKey,
                    word.start(),
                    word.bytes,
                    expected,
                    "remove one of the two",
                );
            }
            Some(key) => self.values.push((key, value)),
        }
        1
    }

    /// A word without `=`: a flag, or part of something that was written with blanks.
    fn bare(&mut self, words: &[Word<'a>], takes: Vocabulary, report: &mut Report) -> usize {
        let word = words[0];
        if let Some(flag) = known(takes.flags, word.bytes) {
            if self.flags.contains(&flag) {
                let expected = format!("`{flag}` once");
                report.suggest(
                    Code::DuplicateKey,
                    word.start(),
                    word.bytes,
                    expected,
                    "remove one of the two",
                );
            }
            self.flags.push(flag);
            return 1;
        }
        let next = words.get(1).map_or(&b""[..], |next| next.bytes);
        if let (Some(key), true) = (known(takes.keys, word.bytes), next.starts_with(b"=")) {
            let value =
                if next == b"=" { words.get(2).map_or(&b""[..], |value| value.bytes) } else { &next[1..] };
            self.blank_around_equals(word, key, value, report);
            return if next == b"=" { 3.min(words.len()) } else { 2 };
        }
        let joined = [word.bytes, b"_", next].concat();
        let equals = joined.iter().position(|byte| *byte == b'=').unwrap_or(0);
        if let Some(key) = known(takes.keys, &joined[..equals]) {
            let joined = String::from_utf8_lossy(&joined).into_owned();
            let expected = format!("`{key}=` in one word");
            let written = [word.bytes, b" ", next].concat();
            report.suggest(Code::BlankInKey, word.start(), &written, expected, format!("write `{joined}`"));
            self.damaged.push(key);
            return 2;
        }
        let suggestion = did_you_mean(word.bytes, takes.flags.iter().copied());
        let expected = format!("key=value with one of {}", takes.list());
        report.push(Code::StrayWord, word.start(), word.bytes, expected, suggestion);
        1
    }

    /// `key=` with nothing behind it.
    fn without_value(&mut self, words: &[Word<'a>], key: Option<&'static str>, report: &mut Report) -> usize {
        let word = words[0];
        let next = words.get(1).map_or(&b""[..], |next| next.bytes);
        if let (Some(key), false, false) = (key, next.is_empty(), next.contains(&b'=')) {
            self.blank_around_equals(word, key, next, report);
            return 2;
        }
        report.add(Code::MissingValue, word.start(), word.bytes, "a value directly behind the `=`");
        self.damaged.extend(key);
        1
    }

    fn blank_around_equals(&mut self, word: Word, key: &'static str, value: &[u8], report: &mut Report) {
        let value = String::from_utf8_lossy(value);
        report.suggest(
            Code::BlankAroundEquals,
            word.start(),
            word.bytes,
            "key and value without blanks between them",
            format!("write `{key}={value}`"),
        );
        self.damaged.push(key);
    }

    fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(there, _)| *there == key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.values.iter().find(|(there, _)| *there == key).map(|(_, value)| value)
    }

    /// What the words belong to.
    pub fn subject(&self) -> (Place, &'a [u8]) {
        self.subject
    }

    /// Whether a flag is there.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The value of a key that must be there. If it is not, that is told, at the command.
    pub fn require(&self, key: &'static str, expected: &str, report: &mut Report) -> Option<&Value<'a>> {
        let value = self.get(key);
        if value.is_none() && !self.damaged.contains(&key) {
            let (place, text) = self.subject;
            report.add(Code::MissingKey, place, text, format!("{key}={expected}"));
        }
        value
    }

    /// Whether a key was written, be it rightly or not.
    pub fn mentions(&self, key: &'static str) -> bool {
        self.has(key) || self.damaged.contains(&key)
    }
}

fn known(words: &'static [&'static str], written: &[u8]) -> Option<&'static str> {
    words.iter().copied().find(|word| word.as_bytes() == written)
}

/// Tells it, and gives the key that is probably meant.
fn unknown_key(word: Word, equals: usize, takes: Vocabulary, report: &mut Report) -> Option<&'static str> {
    let key = &word.bytes[..equals];
    let meant = nearest(key, takes.keys.iter().copied());
    let suggestion = meant.map(|meant| format!("did you mean `{meant}`?"));
    let expected = format!("one of {}", takes.list());
    report.push(Code::UnknownKey, word.start(), key, expected, suggestion);
    meant
}
