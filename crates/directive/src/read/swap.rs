//! `#DW swap 150GB`.

use crate::diagnostic::{Code, Report};
use crate::fields::{Fields, Value};
use crate::symbols::LineSymbols;
use crate::types::Swap;
use crate::value::{bytes, pool_name};
use crate::words::Word;
use forebay_model::units::Bytes;

/// The size behind the command, and the words after it.
pub(super) fn size<'w, 'a>(
    command: Word<'a>,
    words: &'w [Word<'a>],
    symbols: &mut LineSymbols,
    report: &mut Report,
) -> (Option<Bytes>, &'w [Word<'a>]) {
    match words.split_first() {
        Some((word, rest)) if !word.bytes.contains(&b'=') => {
            let value = Value::new(*word, 0, symbols, report);
            (value.and_then(|value| bytes(&value, report)), rest)
        }
        _ => {
            let expected = "the size for each compute node behind it, such as `swap 150GB`";
            report.add(Code::MissingValue, command.start(), command.bytes, expected);
            (None, words)
        }
    }
}

/// Puts the directive together.
pub(super) fn swap(size: Option<Bytes>, fields: &Fields, report: &mut Report) -> Option<Swap> {
    let pool = match fields.get("pool") {
        Some(value) => pool_name(value, report).map(Some),
        None => Some(None),
    };
    Some(Swap { per_node: size?, pool: pool? })
}
