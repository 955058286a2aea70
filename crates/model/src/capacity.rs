//! Sizes as people write them (`200GB`, `600G`, `2N`) and as Slurm prints them.
//!
//! Reading follows Slurm's table: an unsigned decimal integer and a unit in any case, where `G` and `GiB` are powers
//! of 1024, `GB` is a power of 1000, and `N` counts storage nodes. Unlike Slurm, which reads `3.5TB` as three bytes,
//! everything that is not exactly that is refused. How `dwstat` prints sizes is in [`format`].
//!
//! Invariant: a [`Capacity`] prints as text that reads as the same capacity. Pure; any thread may call it.

pub mod format;
pub mod text;

use crate::units::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A requested amount of space. Never zero when it was read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capacity {
    /// So many bytes.
    Bytes(Bytes),
    /// So many whole storage nodes.
    Nodes(u64),
}

/// The units a size may carry, for messages.
pub const UNITS: &str = "K KiB KB M MiB MB G GiB GB T TiB TB P PiB PB N";

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// Nothing is written.
    #[error("no size given")]
    Empty,
    /// It does not begin with a digit.
    #[error("`{text}` is not a size")]
    NotANumber {
        /// What was written.
        text: String,
    },
    /// A plus or minus.
    #[error("`{text}` has a sign")]
    Signed {
        /// What was written.
        text: String,
    },
    /// Blanks before, within or after.
    #[error("`{text}` has blanks in it")]
    Blanks {
        /// What was written.
        text: String,
    },
    /// Digits after a point or comma.
    #[error("`{text}` has a fraction")]
    Fraction {
        /// What was written.
        text: String,
        /// The integer form of the same size, or of the next larger one where there is none.
        integer: Option<String>,
    },
    /// Zero is no space.
    #[error("`{text}` is no space at all")]
    Zero {
        /// What was written.
        text: String,
    },
    /// The letters after the number are no unit.
    #[error("`{unit}` is not a unit")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// The part after the digits.
        unit: String,
    },
    /// It does not fit into 64 bits.
    #[error("`{text}` is more than 2^64 bytes")]
    Overflow {
        /// What was written.
        text: String,
    },
    /// A count of nodes where only bytes make sense.
    #[error("`{text}` counts nodes")]
    Nodes {
        /// What was written.
        text: String,
    },
}

/// What one of a unit is.
#[derive(Clone, Copy)]
enum Unit {
    Bytes(u64),
    Nodes,
}

fn unit(name: &str) -> Option<Unit> {
    Some(match name.to_ascii_lowercase().as_str() {
        "" => Unit::Bytes(1),
        "k" | "kib" => Unit::Bytes(KIB),
        "m" | "mib" => Unit::Bytes(MIB),
        "g" | "gib" => Unit::Bytes(GIB),
        "t" | "tib" => Unit::Bytes(TIB),
        "p" | "pib" => Unit::Bytes(PIB),
        "kb" => Unit::Bytes(KB),
        "mb" => Unit::Bytes(MB),
        "gb" => Unit::Bytes(GB),
        "tb" => Unit::Bytes(TB),
        "pb" => Unit::Bytes(PB),
        "n" | "node" | "nodes" => Unit::Nodes,
        _ => return None,
    })
}

impl FromStr for Capacity {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Capacity, CapacityError> {
        let (digits, rest) = split_number(text)?;
        if rest.starts_with(['.', ',']) {
            return Err(fraction(text, digits, &rest[1..]));
        }
        let owned = || text.to_string();
        let unit =
            unit(rest).ok_or_else(|| CapacityError::UnknownUnit { text: owned(), unit: rest.to_string() })?;
        let overflow = || CapacityError::Overflow { text: owned() };
        let number: u64 = digits.parse().map_err(|_| overflow())?;
        match unit {
            _ if number == 0 => Err(CapacityError::Zero { text: owned() }),
            Unit::Bytes(one) => Ok(Capacity::Bytes(Bytes(number.checked_mul(one).ok_or_else(overflow)?))),
            Unit::Nodes => Ok(Capacity::Nodes(number)),
        }
    }
}

/// Reads a size in bytes, where a count of nodes makes no sense.
///
/// # Errors
/// As for [`Capacity`], and [`CapacityError::Nodes`].
pub fn parse_bytes(text: &str) -> Result<Bytes, CapacityError> {
    match text.parse()? {
        Capacity::Bytes(bytes) => Ok(bytes),
        Capacity::Nodes(_) => Err(CapacityError::Nodes { text: text.to_string() }),
    }
}

/// Splits after the leading digits, of which there is at least one.
fn split_number(text: &str) -> Result<(&str, &str), CapacityError> {
    if text.trim().is_empty() {
        return Err(CapacityError::Empty);
    }
    if text.contains(char::is_whitespace) {
        return Err(CapacityError::Blanks { text: text.to_string() });
    }
    if text.starts_with(['+', '-']) {
        return Err(CapacityError::Signed { text: text.to_string() });
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let starts_with_fraction = text[end..].starts_with('.') && text[end + 1..].starts_with(char::is_numeric);
    if end == 0 && !starts_with_fraction {
        return Err(CapacityError::NotANumber { text: text.to_string() });
    }
    Ok(text.split_at(end))
}

/// The error for `whole.tail`, where `tail` is digits and a unit.
fn fraction(text: &str, whole: &str, tail: &str) -> CapacityError {
    let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    let (decimals, unit_name) = tail.split_at(end);
    match unit(unit_name) {
        None => CapacityError::UnknownUnit { text: text.to_string(), unit: unit_name.to_string() },
        Some(unit) => {
            CapacityError::Fraction { text: text.to_string(), integer: integer_form(whole, decimals, unit) }
        }
    }
}

/// The same size without a fraction, in the largest smaller unit of the same family that divides it exactly; the next
/// larger whole number of the next smaller unit where none does. `None` when the number is too long to compute with.
fn integer_form(whole: &str, decimals: &str, unit: Unit) -> Option<String> {
    let scale = 10_u128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let tenths: u128 = if decimals.is_empty() { 0 } else { decimals.parse().ok()? };
    let scaled = whole.checked_mul(scale)?.checked_add(tenths)?;
    let Unit::Bytes(one) = unit else {
        return Some(format!("{}N", scaled.div_ceil(scale).max(1)));
    };
    let scaled_bytes = scaled.checked_mul(u128::from(one))?;
    if scaled_bytes == 0 {
        return None;
    }
    let family = family_from(one);
    let exact = family
        .iter()
        .find(|(_, smaller)| scaled_bytes.is_multiple_of(u128::from(*smaller).saturating_mul(scale)));
    let (name, size) = exact.or(family.first()).copied().unwrap_or(("", 1));
    Some(format!("{}{name}", scaled_bytes.div_ceil(u128::from(size).checked_mul(scale)?)))
}

/// The units of a unit's family from itself or the next smaller one downwards: a fraction of a TB is told in GB.
fn family_from(one: u64) -> &'static [(&'static str, u64)] {
    const BINARY: &[(&str, u64)] =
        &[("PiB", PIB), ("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("", 1)];
    const DECIMAL: &[(&str, u64)] = &[("PB", PB), ("TB", TB), ("GB", GB), ("MB", MB), ("KB", KB), ("", 1)];
    let family = if BINARY.iter().any(|(_, size)| *size == one) { BINARY } else { DECIMAL };
    let below = family.iter().position(|(_, size)| *size < one).unwrap_or(family.len() - 1);
    &family[below..]
}

impl fmt::Display for Capacity {
    /// As Slurm prints a size: the largest unit that divides it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capacity::Bytes(bytes) => f.pad(&format::exact(*bytes)),
            Capacity::Nodes(count) => f.pad(&format!("{count}N")),
        }
    }
}

#[cfg(test)]
mod tests;
