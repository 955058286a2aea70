//! Sizes, with the model's errors turned into findings.

use crate::diagnostic::{Code, Place, Report};
use crate::fields::Value;
use forebay_model::capacity::{self, Capacity, CapacityError, UNITS};
use forebay_model::units::Bytes;

/// The units of a size that is not a count of nodes, for messages.
const BYTE_UNITS: &str = "K KiB KB M MiB MB G GiB GB T TiB TB P PiB PB";

/// A size or a count of nodes.
pub(crate) fn capacity(value: &Value, report: &mut Report) -> Option<Capacity> {
    let text = value.lossy();
    match text.parse() {
        Ok(capacity) => Some(capacity),
        Err(error) => {
            tell(&error, value.start(), &text, UNITS, report);
            None
        }
    }
}

/// A size.
pub(crate) fn bytes(value: &Value, report: &mut Report) -> Option<Bytes> {
    bytes_at(value, 0, &value.lossy(), report)
}

/// A size that is a part of a value, at byte `offset` of it.
pub(crate) fn bytes_at(value: &Value, offset: usize, text: &str, report: &mut Report) -> Option<Bytes> {
    match capacity::parse_bytes(text) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            tell(&error, value.place(offset), text, BYTE_UNITS, report);
            None
        }
    }
}

/// Tells what is wrong with a size that is not a count of nodes.
pub(crate) fn tell_bytes(error: &CapacityError, place: Place, text: &str, report: &mut Report) {
    tell(error, place, text, BYTE_UNITS, report);
}

fn tell(error: &CapacityError, place: Place, text: &str, units: &str, report: &mut Report) {
    let (code, expected, suggestion) = match error {
        CapacityError::Fraction { integer, .. } => {
            let suggestion = integer.as_ref().map(|integer| format!("write `{integer}`"));
            (Code::SizeFraction, format!("an integer and one of the units {units}"), suggestion)
        }
        CapacityError::UnknownUnit { .. } => {
            (Code::SizeUnit, format!("one of the units {units}, or none for bytes"), None)
        }
        CapacityError::Zero { .. } => (Code::SizeZero, "at least 1".to_string(), None),
        CapacityError::Overflow { .. } => {
            (Code::SizeOverflow, "less than 2^64 bytes (16384PiB)".to_string(), None)
        }
        CapacityError::Nodes { .. } => {
            (Code::SizeNodes, format!("one of the units {units}, or none for bytes"), None)
        }
        CapacityError::Empty
        | CapacityError::NotANumber { .. }
        | CapacityError::Signed { .. }
        | CapacityError::Blanks { .. } => {
            (Code::SizeMalformed, format!("an integer and one of the units {units}"), None)
        }
    };
    report.push(code, place, text.as_bytes(), expected, suggestion);
}
