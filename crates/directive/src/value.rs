//! Values of keys: text to numbers, sizes, words, names, access modes and paths.
//!
//! Each function either gives the value or tells what is wrong with it and gives nothing; none does neither.

mod access;
mod name;
mod path;
mod size;

pub(crate) use access::{access_modes, kind_word, mode_word, modifiers_text};
pub(crate) use name::{instance_name, is_shell_name, pool_name};
pub use path::Direction;
pub(crate) use path::{base_name, instance_path, pfs_path, stage_list_source};
pub(crate) use size::{bytes, bytes_at, capacity, tell_bytes};

use crate::diagnostic::{Code, Report};
use crate::fields::Value;
use crate::suggest::did_you_mean;
use forebay_model::units::Bytes;

/// One of a few words, each with its meaning.
pub(crate) fn choice<T: Copy>(
    value: &Value,
    choices: &[(&'static str, T)],
    report: &mut Report,
) -> Option<T> {
    let found = choices.iter().find(|(word, _)| word.as_bytes() == value.text.as_ref());
    if found.is_none() {
        let words = || choices.iter().map(|(word, _)| *word);
        let expected = words().collect::<Vec<_>>().join(" or ");
        let suggestion = did_you_mean(&value.text, words());
        report.push(Code::UnknownValue, value.start(), value.written(), expected, suggestion);
    }
    found.map(|(_, meaning)| *meaning)
}

/// `yes` or `no`.
pub(crate) fn yes_or_no(value: &Value, report: &mut Report) -> Option<bool> {
    choice(value, &[("yes", true), ("no", false)], report)
}

/// A positive integer; `what` says of what.
pub(crate) fn count(value: &Value, what: &str, report: &mut Report) -> Option<u64> {
    let text = value.lossy();
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| *number > 0 && digits_only);
    if number.is_none() {
        let expected = format!("{what}, an integer from 1 to {}", u64::MAX);
        report.add(Code::BadNumber, value.start(), value.written(), expected);
    }
    number
}

/// `after:unit` of `read_ahead=`.
pub(crate) fn read_ahead(value: &Value, report: &mut Report) -> Option<(Bytes, Option<Bytes>)> {
    let text = value.lossy();
    let Some((after, unit)) = text.split_once(':') else {
        return bytes(value, report).map(|after| (after, None));
    };
    let unit_bytes = bytes_at(value, after.len() + 1, unit, report);
    Some((bytes_at(value, 0, after, report)?, Some(unit_bytes?)))
}
