//! Slurm's symbols on directive lines: `%%`, `%A`, `%a`, `%d`, `%j`, `%u`, `%x`, and `\\`, which ends their
//! processing for the rest of the line.
//!
//! A line is cut into words before symbols are replaced, so that a job name or a directory with blanks stays within
//! its word, and columns are those of the text that was written. Without values for the symbols they are checked and
//! left as written. Pure; any thread may call it.

use std::borrow::Cow;

/// What the symbols stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// `%A`: job id of the array's master; the job id outside an array.
    pub array_job_id: Vec<u8>,
    /// `%a`: task id within the array.
    pub array_task_id: Vec<u8>,
    /// `%d`: working directory, absolute.
    pub work_dir: Vec<u8>,
    /// `%j`: job id.
    pub job_id: Vec<u8>,
    /// `%u`: user name.
    pub user: Vec<u8>,
    /// `%x`: job name.
    pub job_name: Vec<u8>,
}

/// The symbols, for messages.
pub const SYMBOLS: &str = "%% %A %a %d %j %u %x";

/// A `%` that does not begin a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown symbol at byte {offset}")]
pub struct UnknownSymbol {
    /// Where the `%` is, in bytes from 0.
    pub offset: usize,
    /// Bytes of the wrong symbol.
    pub length: usize,
}

impl Symbols {
    fn value(&self, letter: u8) -> &[u8] {
        match letter {
            b'%' => b"%",
            b'A' => &self.array_job_id,
            b'a' => &self.array_task_id,
            b'd' => &self.work_dir,
            b'j' => &self.job_id,
            b'u' => &self.user,
            _ => &self.job_name,
        }
    }
}

/// The symbols of one line, which a `\\` ends.
#[derive(Debug)]
pub(crate) struct LineSymbols<'s> {
    symbols: Option<&'s Symbols>,
    stopped: bool,
}

impl<'s> LineSymbols<'s> {
    /// At the beginning of a line.
    pub fn new(symbols: Option<&'s Symbols>) -> LineSymbols<'s> {
        LineSymbols { symbols, stopped: false }
    }

    /// For a text in which symbols mean nothing.
    pub fn ended() -> LineSymbols<'static> {
        LineSymbols { symbols: None, stopped: true }
    }

    /// Whether symbols may be written here.
    pub fn are_allowed(&self) -> bool {
        !self.stopped
    }

    /// Whether symbols are left as written, and may be there.
    pub fn are_kept(&self) -> bool {
        self.symbols.is_none() && !self.stopped
    }

    /// The next part of the line with its symbols replaced, or as written if there are no values for them.
    ///
    /// # Errors
    /// A `%` that does not begin a symbol.
    pub fn expand<'t>(&mut self, text: &'t [u8]) -> Result<Cow<'t, [u8]>, UnknownSymbol> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() && !self.stopped {
            match (text[at], text.get(at + 1)) {
                (b'\\', Some(b'\\')) => {
                    self.stopped = true;
                    at += 2;
                }
                (b'%', Some(letter)) if b"%Aadjux".contains(letter) => {
                    out.extend_from_slice(self.symbols.map_or(b"", |symbols| symbols.value(*letter)));
                    at += 2;
                }
                (b'%', next) => {
                    return Err(UnknownSymbol { offset: at, length: 1 + usize::from(next.is_some()) });
                }
                (byte, _) => {
                    out.push(byte);
                    at += 1;
                }
            }
        }
        if self.symbols.is_none() {
            return Ok(Cow::Borrowed(text));
        }
        out.extend_from_slice(&text[at..]);
        Ok(Cow::Owned(out))
    }
}

/// A text with its symbols replaced.
///
/// # Errors
/// A `%` that does not begin a symbol.
pub fn expand(text: &[u8], symbols: &Symbols) -> Result<Vec<u8>, UnknownSymbol> {
    LineSymbols::new(Some(symbols)).expand(text).map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        Symbols {
            array_job_id: b"41".to_vec(),
            array_task_id: b"7".to_vec(),
            work_dir: b"/home/my user".to_vec(),
            job_id: b"42".to_vec(),
            user: b"ann".to_vec(),
            job_name: b"50%u".to_vec(),
        }
    }

    #[test]
    fn each_symbol_stands_for_its_value_once() {
        let all = expand(b"%d/%u-%A_%a-%j/%x%%j", &symbols()).unwrap();
        assert_eq!(all, b"/home/my user/ann-41_7-42/50%u%j");
    }

    #[test]
    fn two_backslashes_end_it_for_the_rest_of_the_line() {
        assert_eq!(expand(br"%j\\%j%q\\", &symbols()).unwrap(), br"42%j%q\\");
        let symbols = symbols();
        let mut line = LineSymbols::new(Some(&symbols));
        assert_eq!(line.expand(br"a\b%j\\").unwrap().as_ref(), br"a\b42");
        assert_eq!(line.expand(b"%j%q").unwrap().as_ref(), b"%j%q");
    }

    #[test]
    fn unknown_symbols_are_found() {
        assert_eq!(expand(b"ab%q", &symbols()), Err(UnknownSymbol { offset: 2, length: 2 }));
        assert_eq!(expand(b"100%", &symbols()), Err(UnknownSymbol { offset: 3, length: 1 }));
    }

    #[test]
    fn without_values_symbols_are_checked_and_kept() {
        let mut line = LineSymbols::new(None);
        assert_eq!(line.expand(b"%j%%").unwrap().as_ref(), b"%j%%");
        assert!(line.expand(b"%q").is_err());
        assert_eq!(line.expand(br"\\%q").unwrap().as_ref(), br"\\%q");
    }
}
