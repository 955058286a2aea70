//! Names that come from outside: tokens, labels, pools.
//!
//! They become directory names, columns of dwstat, names of environment variables, and JSON that Slurm rewrites before it
//! parses. So only characters that mean nothing anywhere are allowed.

use super::limits::MAX_WORD;
use super::refusal::Refusal;

/// Whether it can be used as a name.
fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+:@".contains(c);
    !text.is_empty() && text.len() <= MAX_WORD && !text.starts_with('.') && text.chars().all(allowed)
}

/// A name from outside as it may stand in a message.
pub(super) fn shown(text: &str) -> String {
    one_line(text, MAX_WORD)
}

/// A job's token, a label, a pool or a node.
pub(crate) fn check_word(text: &str) -> Result<(), Refusal> {
    if is_word(text) { Ok(()) } else { Err(Refusal::BadName { token: shown(text), digit: false }) }
}

/// A persistent instance: Slurm takes tokens with a digit for jobs and tears them down.
pub(super) fn check_name(text: &str) -> Result<(), Refusal> {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    if is_word(text) && !digit { Ok(()) } else { Err(Refusal::BadName { token: shown(text), digit: true }) }
}

/// One line without apostrophes, not too long: texts of agents end in Slurm.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let calm = |c: char| match c {
        '\'' => '`',
        c if c.is_control() => ' ',
        c => c,
    };
    text.trim().chars().map(calm).take(limit).collect()
}
