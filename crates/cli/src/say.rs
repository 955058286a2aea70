//! What the commands say, on streams that may be closed or full.
//!
//! A reader that has gone away, or a log on a full disk, must not stop a job between two steps: words that cannot be
//! written to standard error are lost. Standard output is the answer of a command: there a failure is an error, but for a
//! reader that has seen enough (`forebay recover --list | head -1`). May be called from any thread.
//!
//! Names of jobs, files and instances come from others, and a terminal obeys what is in them: control characters are shown as
//! `\u001b`, which JSON has too.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

/// Tells the user something, behind the name of the command.
pub fn note(text: impl Display) {
    plain(format_args!("forebay: {text}\n"));
}

/// The same without the name, and without ending the line.
pub fn plain(text: impl Display) {
    // Nobody is left to be told that nobody is left.
    let _ = io::stderr().lock().write_all(visible(&text.to_string()).as_bytes());
}

/// A name that somebody chose, which begins no line of its own.
pub fn name(text: &str) -> Cow<'_, str> {
    escaped(text, char::is_control)
}

/// The lines of a text, without what a terminal obeys.
fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_bad(c) {
            // Writing to a string cannot fail.
            true => drop(write!(out, "\\u{:04x}", c as u32)),
            false => out.push(c),
        }
    }
    out.into()
}

/// Writes the answer of a command.
pub fn answer(text: impl Display) -> io::Result<()> {
    at_length(|out| out.write_all(visible(&text.to_string()).as_bytes()))
}

/// Writes an answer that is not in memory as a whole, in pieces that are large already.
pub fn at_length(write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // Not through the buffer of standard output, which looks for ends of lines in everything.
    let mut direct = File::from(out.as_fd().try_clone_to_owned()?);
    match out.flush().and_then(|()| write(&mut direct)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        assert_eq!(visible("two\nlines\twith ü"), "two\nlines\twith ü");
        assert_eq!(
            visible("\u{1b}[2Jred\u{7}\u{9b}1m\r\u{7f}"),
            "\\u001b[2Jred\\u0007\\u009b1m\\u000d\\u007f"
        );
        assert_eq!(name("a\nforebay: job 2"), "a\\u000aforebay: job 2");
        let json = serde_json::json!({ "name": "\u{7f}\u{9b}\u{1b}" });
        let read: serde_json::Value = serde_json::from_str(&visible(&json.to_string())).unwrap();
        assert_eq!(read, json);
    }
}
