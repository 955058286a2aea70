//! Sizes as `dwstat` and Slurm print them.
//!
//! All arithmetic is in integers; what has to be rounded is rounded half up. Pure; any thread may call it.

use crate::units::*;

/// How `dwstat` shows a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeStyle {
    /// Without an option: the largest IEC unit the size reaches, up to two decimals, trailing zeros dropped
    /// (`397.44GiB`, `1.5PiB`, `16MiB`).
    #[default]
    Binary,
    /// `-b`: bytes without a unit.
    Bytes,
    /// `-H`: as `Binary` with SI units (`426.75GB`).
    Si,
    /// One unit for all sizes, with exactly two decimals (`-G`: `395.14GB`).
    Fixed(SizeUnit),
}

/// The unit of [`SizeStyle::Fixed`]: the option's letter is lower-case for IEC, upper-case for SI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeUnit {
    /// `-k`
    KiB,
    /// `-m`
    MiB,
    /// `-g`
    GiB,
    /// `-t`
    TiB,
    /// `-p`
    PiB,
    /// `-e`
    EiB,
    /// `-K`
    KB,
    /// `-M`
    MB,
    /// `-G`
    GB,
    /// `-T`
    TB,
    /// `-P`
    PB,
    /// `-E`
    EB,
}

impl SizeUnit {
    /// The unit of an option letter.
    pub fn from_option(letter: char) -> Option<SizeUnit> {
        Some(match letter {
            'k' => SizeUnit::KiB,
            'm' => SizeUnit::MiB,
            'g' => SizeUnit::GiB,
            't' => SizeUnit::TiB,
            'p' => SizeUnit::PiB,
            'e' => SizeUnit::EiB,
            'K' => SizeUnit::KB,
            'M' => SizeUnit::MB,
            'G' => SizeUnit::GB,
            'T' => SizeUnit::TB,
            'P' => SizeUnit::PB,
            'E' => SizeUnit::EB,
            _ => return None,
        })
    }

    /// Its name and its size in bytes.
    fn parts(self) -> (&'static str, u64) {
        match self {
            SizeUnit::KiB => ("KiB", KIB),
            SizeUnit::MiB => ("MiB", MIB),
            SizeUnit::GiB => ("GiB", GIB),
            SizeUnit::TiB => ("TiB", TIB),
            SizeUnit::PiB => ("PiB", PIB),
            SizeUnit::EiB => ("EiB", EIB),
            SizeUnit::KB => ("KB", KB),
            SizeUnit::MB => ("MB", MB),
            SizeUnit::GB => ("GB", GB),
            SizeUnit::TB => ("TB", TB),
            SizeUnit::PB => ("PB", PB),
            SizeUnit::EB => ("EB", EB),
        }
    }
}

const BINARY: [SizeUnit; 6] =
    [SizeUnit::EiB, SizeUnit::PiB, SizeUnit::TiB, SizeUnit::GiB, SizeUnit::MiB, SizeUnit::KiB];
const SI: [SizeUnit; 6] =
    [SizeUnit::EB, SizeUnit::PB, SizeUnit::TB, SizeUnit::GB, SizeUnit::MB, SizeUnit::KB];

/// A size in the given style.
pub fn format_size(bytes: Bytes, style: SizeStyle) -> String {
    match style {
        SizeStyle::Bytes => bytes.0.to_string(),
        SizeStyle::Binary => human(bytes.0, &BINARY),
        SizeStyle::Si => human(bytes.0, &SI),
        SizeStyle::Fixed(unit) => {
            let (name, size) = unit.parts();
            let hundredths = hundredths_of(bytes.0, size);
            format!("{}.{:02}{name}", hundredths / 100, hundredths % 100)
        }
    }
}

/// A size with the largest unit that divides it exactly, tried in Slurm's order (binary before decimal at each
/// power); bytes without a unit otherwise. Reads back as the same size.
pub fn exact(bytes: Bytes) -> String {
    // EiB and EB are left out: the table that sizes are read with ends at P.
    let pairs = BINARY.into_iter().zip(SI).skip(1);
    let order = pairs.flat_map(|(binary, si)| [binary.parts(), si.parts()]);
    let dividing = order.into_iter().find(|(_, size)| bytes.0 >= *size && bytes.0.is_multiple_of(*size));
    match dividing {
        Some((name, size)) => format!("{}{name}", bytes.0 / size),
        None => bytes.0.to_string(),
    }
}

/// The largest unit that the size reaches; the next larger one where rounding gets there, so that a byte less than a
/// TiB is `1TiB` and not `1024GiB`.
fn human(bytes: u64, units: &[SizeUnit]) -> String {
    let Some(reached) = units.iter().position(|unit| bytes >= unit.parts().1) else {
        return if bytes == 0 { "0".to_string() } else { format!("{bytes}B") };
    };
    let (name, size) = units[reached].parts();
    let hundredths = hundredths_of(bytes, size);
    match reached.checked_sub(1).map(|larger| units[larger].parts()) {
        Some((larger_name, larger)) if hundredths >= u128::from(larger / size) * 100 => {
            without_trailing_zeros(100, larger_name)
        }
        _ => without_trailing_zeros(hundredths, name),
    }
}

fn without_trailing_zeros(hundredths: u128, name: &str) -> String {
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match (rest / 10, rest % 10) {
        (0, 0) => format!("{whole}{name}"),
        (tenth, 0) => format!("{whole}.{tenth}{name}"),
        _ => format!("{whole}.{rest:02}{name}"),
    }
}

/// Hundredths of a unit, rounded half up.
fn hundredths_of(bytes: u64, size: u64) -> u128 {
    (u128::from(bytes) * 100 + u128::from(size) / 2) / u128::from(size)
}
