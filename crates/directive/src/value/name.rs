//! Names of pools and persistent instances.
//!
//! The name of a persistent instance becomes part of an environment variable and of a mount path. It has letters,
//! digits, `_` and `-`, begins with a letter or `_` (a number is a job's buffer, a `-` looks like an option), and has
//! at most [`NAME_BYTES_MAX`] bytes. Slurm sets no limit but the first; `-` is accepted because names with it exist,
//! although a shell cannot write the variable.

use crate::diagnostic::{Code, Report};
use crate::fields::Value;

/// Longest name of a pool or a persistent instance, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The name of a persistent instance.
pub(crate) fn instance_name(value: &Value, report: &mut Report) -> Option<String> {
    let good = is_instance_name(&value.text, value.symbols_kept);
    if !good {
        let expected = format!(
            "letters, digits, `_` and `-`, beginning with a letter or `_`, at most {NAME_BYTES_MAX} characters"
        );
        let digit = value.text.first().is_some_and(u8::is_ascii_digit);
        let suggestion = digit.then(|| "names that begin with a digit belong to jobs".to_string());
        report.push(Code::BadName, value.start(), value.written(), expected, suggestion);
    }
    good.then(|| value.lossy().into_owned())
}

/// The name of a pool.
pub(crate) fn pool_name(value: &Value, report: &mut Report) -> Option<String> {
    let text = without_symbols(&value.text, value.symbols_kept);
    let good = is_short(&value.text)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        && !text.starts_with(b"-");
    if !good {
        let expected = format!("letters, digits, `_`, `-` and `.`, at most {NAME_BYTES_MAX} characters");
        report.add(Code::BadName, value.start(), value.written(), expected);
    }
    good.then(|| value.lossy().into_owned())
}

/// Whether this can be the name of a persistent instance. Where symbols are kept, each counts as one good character.
pub(crate) fn is_instance_name(name: &[u8], symbols_kept: bool) -> bool {
    let text = without_symbols(name, symbols_kept);
    is_short(name)
        && text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
}

/// Whether a shell takes `$PREFIX_<name>` as one variable.
pub(crate) fn is_shell_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'%')
}

fn is_short(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

/// The text with every kept symbol replaced by a letter, as its value is not known.
fn without_symbols(text: &[u8], symbols_kept: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let symbol =
            symbols_kept && text[at] == b'%' && text.get(at + 1).is_some_and(u8::is_ascii_alphabetic);
        out.push(if symbol { b'x' } else { text[at] });
        at += 1 + usize::from(symbol);
    }
    out
}
