//! Access modes with their modifiers: `striped(MFS=10GiB,client_cache),private`.

use crate::diagnostic::{Code, Report};
use crate::fields::Value;
use crate::suggest::did_you_mean;
use crate::types::Access;
use crate::value::bytes_at;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;

const MODES: [(&str, AccessMode); 3] = [
    ("striped", AccessMode::Striped),
    ("private", AccessMode::Private),
    ("ldbalance", AccessMode::Ldbalance),
];
const MODIFIERS: [&str; 3] = ["MFS", "MFC", "client_cache"];
const MODIFIERS_EXPECTED: &str =
    "MFS=<size>, MFC=<number> or client_cache, separated by commas, without blanks";

/// The access modes of a value. `kind` is `None` when the type has not been understood; then any mode will do.
pub(crate) fn access_modes(
    value: &Value,
    kind: Option<ConfigurationType>,
    report: &mut Report,
) -> Option<Vec<Access>> {
    let text = value.lossy();
    let mut modes: Vec<Access> = Vec::new();
    let mut good = true;
    for (offset, part) in parts(&text, 0) {
        match one_mode(value, offset, part, kind, report) {
            Some(access) if modes.iter().any(|there| there.mode == access.mode) => {
                let expected = "each access mode once";
                report.add(Code::DuplicateValue, value.place(offset), part.as_bytes(), expected);
                good = false;
            }
            Some(access) => modes.push(access),
            None => good = false,
        }
    }
    good.then_some(modes)
}

/// The parts between commas outside parentheses, with their offsets.
fn parts(text: &str, base: usize) -> Vec<(usize, &str)> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push((base + start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push((base + start, &text[start..]));
    found
}

fn one_mode(
    value: &Value,
    offset: usize,
    part: &str,
    kind: Option<ConfigurationType>,
    report: &mut Report,
) -> Option<Access> {
    let (name, modifiers) = match part.split_once('(') {
        Some((name, rest)) => (name, Some(rest)),
        None => (part, None),
    };
    let found = MODES.iter().find(|(word, _)| *word == name);
    let Some((_, mode)) = found else {
        let of_kind = kind.map_or(&MODES[..], modes_of).iter().map(|(word, _)| *word);
        let expected = of_kind.clone().collect::<Vec<_>>().join(" or ");
        let suggestion = did_you_mean(name.as_bytes(), of_kind);
        report.push(Code::UnknownValue, value.place(offset), name.as_bytes(), expected, suggestion);
        return None;
    };
    if let Some(kind) = kind.filter(|kind| !modes_of(*kind).iter().any(|(_, allowed)| allowed == mode)) {
        let of_kind = modes_of(kind).iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
        let expected = format!("{of_kind} for type={}", kind_word(kind));
        report.add(Code::AccessNotForType, value.place(offset), name.as_bytes(), expected);
        return None;
    }
    let plain = Access::plain(*mode);
    match modifiers {
        None => Some(plain),
        Some(rest) => with_modifiers(value, offset + name.len() + 1, rest, plain, report),
    }
}

/// The modes of a type; cache shares `striped` with scratch.
fn modes_of(kind: ConfigurationType) -> &'static [(&'static str, AccessMode)] {
    const CACHE: [(&str, AccessMode); 2] = [MODES[0], MODES[2]];
    match kind {
        ConfigurationType::Cache => &CACHE,
        ConfigurationType::Scratch | ConfigurationType::Swap => &MODES[..2],
    }
}

/// A type as it is written.
pub(crate) fn kind_word(kind: ConfigurationType) -> &'static str {
    match kind {
        ConfigurationType::Scratch => "scratch",
        ConfigurationType::Cache => "cache",
        ConfigurationType::Swap => "swap",
    }
}

/// A mode as it is written.
pub(crate) fn mode_word(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Striped => "striped",
        AccessMode::Private => "private",
        AccessMode::Ldbalance => "ldbalance",
    }
}

/// `rest` is what follows the opening parenthesis.
fn with_modifiers(
    value: &Value,
    offset: usize,
    rest: &str,
    plain: Access,
    report: &mut Report,
) -> Option<Access> {
    let inside = rest.strip_suffix(')').filter(|inside| !inside.contains(['(', ')']));
    let Some(inside) = inside else {
        let at = offset.saturating_sub(1);
        let expected = "one closing parenthesis at the end of the mode";
        report.add(Code::BadModifier, value.place(at), format!("({rest}").as_bytes(), expected);
        return None;
    };
    let mut access = plain;
    let mut seen: Vec<&str> = Vec::new();
    let mut good = true;
    for (at, modifier) in parts(inside, offset) {
        let name = modifier.split_once('=').map_or(modifier, |(name, _)| name);
        if seen.contains(&name) {
            let expected = "each modifier once";
            report.add(Code::DuplicateValue, value.place(at), modifier.as_bytes(), expected);
            good = false;
            continue;
        }
        seen.push(name);
        good &= one_modifier(value, at, modifier, &mut access, report).is_some();
    }
    good.then_some(access)
}

/// Reads a modifier into `access`. `None` if it is wrong, which has been told.
fn one_modifier(
    value: &Value,
    at: usize,
    modifier: &str,
    access: &mut Access,
    report: &mut Report,
) -> Option<()> {
    match modifier.split_once('=') {
        Some(("MFS", "0")) => access.max_file_size = None,
        Some(("MFS", size)) => access.max_file_size = Some(bytes_at(value, at + 4, size, report)?),
        Some(("MFC", number)) => access.max_files = max_files(value, at + 4, number, report)?,
        None if modifier == "client_cache" => access.client_cache = true,
        Some(("client_cache", "yes")) => access.client_cache = true,
        Some(("client_cache", "no")) => access.client_cache = false,
        _ => {
            let name = modifier.split_once('=').map_or(modifier, |(name, _)| name);
            let suggestion = did_you_mean(name.as_bytes(), MODIFIERS).filter(|_| !MODIFIERS.contains(&name));
            let expected = MODIFIERS_EXPECTED.to_string();
            report.push(Code::BadModifier, value.place(at), modifier.as_bytes(), expected, suggestion);
            return None;
        }
    }
    Some(())
}

/// A number of files; zero is no limit.
fn max_files(value: &Value, at: usize, number: &str, report: &mut Report) -> Option<Option<u64>> {
    let parsed: Option<u64> = number.parse().ok().filter(|_| !number.starts_with('+'));
    if parsed.is_none() {
        report.add(
            Code::BadNumber,
            value.place(at),
            number.as_bytes(),
            "a number of files, an integer (0: no limit)",
        );
    }
    parsed.map(|count| Some(count).filter(|count| *count > 0))
}

/// The modifiers of a mode as they are written, with their parentheses.
pub(crate) fn modifiers_text(access: &Access) -> String {
    let size = access
        .max_file_size
        .map(|Bytes(size)| format!("MFS={}", forebay_model::capacity::format::exact(Bytes(size))));
    let files = access.max_files.map(|count| format!("MFC={count}"));
    let cache = access.client_cache.then(|| "client_cache".to_string());
    let all: Vec<String> = [size, files, cache].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("({})", all.join(",")) }
}
