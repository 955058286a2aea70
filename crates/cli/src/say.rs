//! What the commands say, on streams that may be closed or full.
//!
//! A reader that has gone away, or a log on a full disk, must not stop a job between two steps: words that cannot be
//! written to standard error are lost. Standard output is the answer of a command: there a failure is an error, but for a
//! reader that has seen enough (`forebay recover --list | head -1`). May be called from any thread.

use std::fmt::Display;
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
    let _ = io::stderr().lock().write_all(text.to_string().as_bytes());
}

/// Writes the answer of a command.
pub fn answer(text: impl Display) -> io::Result<()> {
    at_length(|out| out.write_all(text.to_string().as_bytes()))
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
