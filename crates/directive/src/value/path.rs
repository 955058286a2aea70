//! The two kinds of paths of a staging directive.
//!
//! Which kind a path is, its place in the directive decides: the source of `stage_in` and the destination of
//! `stage_out` are on the parallel file system, the other two are in an instance. So the older form of an instance
//! path, `/ss/file1`, cannot be taken for an absolute path of the same spelling.
//!
//! Invariants: an instance path that is handed out has no `..`, no `.` and no empty component, so it cannot leave the
//! instance by its text; a PFS path is absolute and is kept byte for byte.

use super::name::is_instance_name;
use crate::diagnostic::{Code, Report};
use crate::fields::Value;
use crate::suggest::did_you_mean;
use crate::types::{InstanceRef, StagePath};

/// Longest path, in bytes: the kernel takes no longer ones.
pub const PATH_BYTES_MAX: usize = 4_095;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// `stage_in`: from the parallel file system.
    In,
    /// `stage_out`: to it.
    Out,
}

const STRIPED: &str = "$DW_JOB_STRIPED";
const INSTANCE_EXPECTED: &str = "$DW_JOB_STRIPED/<path> or $DW_PERSISTENT_STRIPED_<name>/<path>";
const PFS_EXPECTED: &str = "an absolute path on the parallel file system";

/// A path on the parallel file system.
pub(crate) fn pfs_path(value: &Value, report: &mut Report) -> Option<Vec<u8>> {
    let text = value.text.as_ref();
    check_bytes(value, report)?;
    if let Some(dollar) = variable_at(text) {
        if variable(&text[dollar..]).is_ok_and(|(name, _)| name.starts_with(b"DW_")) {
            let suggestion = "look whether source and destination, or stage_in and stage_out, are exchanged";
            report.suggest(Code::NotOnPfs, value.start(), value.written(), PFS_EXPECTED, suggestion);
        } else {
            tell_shell_variable(value, dollar, PFS_EXPECTED, report);
        }
        return None;
    }
    let begins_with_symbol = value.symbols_kept && text.starts_with(b"%d");
    if text.first() != Some(&b'/') && !begins_with_symbol {
        let suggestion = match (text.first(), value.symbols_allowed) {
            (Some(b'~'), _) => "write the path in full: `~` is not expanded here",
            (_, true) => "write it from `/` on, or with `%d/` for the working directory",
            (_, false) => "write it from `/` on",
        };
        report.suggest(Code::RelativePath, value.start(), value.written(), PFS_EXPECTED, suggestion);
        return None;
    }
    Some(text.to_vec())
}

/// A path in an instance.
pub(crate) fn instance_path(value: &Value, report: &mut Report) -> Option<StagePath> {
    let text = value.text.as_ref();
    check_bytes(value, report)?;
    if text.first() != Some(&b'$') {
        return without_token(value, report);
    }
    let (target, rest_at) = token(value, report)?;
    relative(value, rest_at, target, report)
}

/// The file that holds the list of a `stage_out`: on the parallel file system, or in the instance, where the job has
/// written it.
pub(crate) fn stage_list_source(
    value: &Value,
    direction: Direction,
    report: &mut Report,
) -> Option<StagePath> {
    if direction == Direction::Out && value.text.starts_with(b"$") {
        return instance_path(value, report);
    }
    pfs_path(value, report).map(StagePath::Pfs)
}

/// The last component of a path, if it has one.
pub(crate) fn base_name(path: &[u8]) -> Option<&[u8]> {
    let last = path.split(|byte| *byte == b'/').rfind(|component| !component.is_empty())?;
    (last != b"." && last != b"..").then_some(last)
}

fn check_bytes(value: &Value, report: &mut Report) -> Option<()> {
    let text = value.text.as_ref();
    let expected = if text.contains(&0) {
        "a path without NUL bytes".to_string()
    } else if text.len() > PATH_BYTES_MAX {
        format!("at most {PATH_BYTES_MAX} bytes")
    } else {
        return Some(());
    };
    report.add(Code::BadPath, value.start(), value.written(), expected);
    None
}

/// The first `$` that a shell would take for a variable.
fn variable_at(text: &[u8]) -> Option<usize> {
    let begins = |next: &u8| next.is_ascii_alphabetic() || *next == b'_' || *next == b'{';
    text.windows(2).position(|pair| pair[0] == b'$' && begins(&pair[1]))
}

/// Name of the variable at the beginning of `text`, and where the rest of the path begins.
///
/// # Errors
/// An opening brace without a closing one.
fn variable(text: &[u8]) -> Result<(&[u8], usize), ()> {
    let slash =
        |from: usize| text[from..].iter().position(|byte| *byte == b'/').map_or(text.len(), |at| from + at);
    if text.get(1) != Some(&b'{') {
        let end = slash(0);
        return Ok((&text[1..end], end));
    }
    let close = text.iter().position(|byte| *byte == b'}').ok_or(())?;
    Ok((&text[2..close], close + 1))
}

fn tell_shell_variable(value: &Value, at: usize, expected: &str, report: &mut Report) {
    let text = &value.text[at..];
    let end = variable(text).map_or(text.len(), |(_, end)| end);
    let suggestion = match value.symbols_allowed {
        true => "write the path in full, or with the symbols %d, %u or %j",
        false => "write the path in full",
    };
    report.suggest(Code::ShellVariable, value.place(at), &text[..end], expected, suggestion);
}

/// An instance path that does not begin with a variable: the older form, or a mistake.
fn without_token(value: &Value, report: &mut Report) -> Option<StagePath> {
    let text = value.text.as_ref();
    if text == b"/ss" || text.starts_with(b"/ss/") {
        let rest = String::from_utf8_lossy(&text[3..]).into_owned();
        let suggestion = format!("write `{STRIPED}{rest}`");
        report.suggest(Code::OldInstancePath, value.start(), value.written(), INSTANCE_EXPECTED, suggestion);
        return relative(value, 3, InstanceRef::Job, report);
    }
    let name = String::from_utf8_lossy(text);
    let name = name.trim_start_matches('/');
    let suggestion = match base_name(name.as_bytes()) {
        _ if name.starts_with("DW_") => format!("write `${name}`"),
        Some(base) if text.starts_with(b"/") => {
            format!("write `{STRIPED}/{}`", String::from_utf8_lossy(base))
        }
        _ => format!("write `{STRIPED}/{name}`"),
    };
    report.suggest(Code::NotInInstance, value.start(), value.written(), INSTANCE_EXPECTED, suggestion);
    None
}

/// The instance that the variable at the beginning stands for, and where the rest begins.
fn token(value: &Value, report: &mut Report) -> Option<(InstanceRef, usize)> {
    let text = value.text.as_ref();
    let Ok((name, rest)) = variable(text) else {
        report.add(Code::BadPath, value.start(), value.written(), "a `}` after the `${`");
        return None;
    };
    if rest < text.len() && text[rest] != b'/' {
        report.add(Code::BadPath, value.place(rest), &text[rest..], "a `/` after the variable");
        return None;
    }
    if let Some(target) = striped_target(name, value.symbols_kept) {
        return Some((target, rest));
    }
    let token = &text[..rest];
    if name == b"DW_JOB_PRIVATE" || name.starts_with(b"DW_PERSISTENT_PRIVATE_") {
        tell_private(value, token, report);
    } else if [b"DW_JOB_STRIPED_CACHE".as_slice(), b"DW_JOB_LDBAL_CACHE"].contains(&name)
        || name.starts_with(b"DW_PERSISTENT_LDBAL_CACHE_")
    {
        tell_cache(value, token, report);
    } else if name.to_ascii_uppercase().starts_with(b"DW") {
        let persistent = name.to_ascii_uppercase().starts_with(b"DW_P");
        let meant = if persistent { "$DW_PERSISTENT_STRIPED_<name>" } else { STRIPED };
        let suggestion = format!("did you mean `{meant}`?");
        report.suggest(Code::UnknownToken, value.start(), token, INSTANCE_EXPECTED, suggestion);
    } else {
        let suggestion = did_you_mean(name, ["DW_JOB_STRIPED"]);
        let suggestion = suggestion.unwrap_or_else(|| format!("begin the path with `{STRIPED}`"));
        report.suggest(Code::ShellVariable, value.start(), token, INSTANCE_EXPECTED, suggestion);
    }
    None
}

fn striped_target(name: &[u8], symbols_kept: bool) -> Option<InstanceRef> {
    if name == b"DW_JOB_STRIPED" {
        return Some(InstanceRef::Job);
    }
    let instance = name.strip_prefix(b"DW_PERSISTENT_STRIPED_")?;
    let good = is_instance_name(instance, symbols_kept);
    good.then(|| InstanceRef::Persistent(String::from_utf8_lossy(instance).into_owned()))
}

fn tell_private(value: &Value, token: &[u8], report: &mut Report) {
    report.suggest(
        Code::StagePrivate,
        value.start(),
        token,
        "an instance with access_mode=striped: with private access each compute node has a tree of its own",
        "add striped to access_mode and stage to `$DW_JOB_STRIPED`, or copy in the script",
    );
}

fn tell_cache(value: &Value, token: &[u8], report: &mut Report) {
    report.suggest(
        Code::StageCache,
        value.start(),
        token,
        "an instance with type=scratch: a cache reads and writes the parallel file system by itself",
        "remove the staging directive",
    );
}

/// The part after the variable, with `.`, `..` and empty components resolved by their text.
fn relative(value: &Value, from: usize, target: InstanceRef, report: &mut Report) -> Option<StagePath> {
    let rest = &value.text[from..];
    if let Some(dollar) = variable_at(rest) {
        tell_shell_variable(value, from + dollar, "no variable behind the one of the instance", report);
        return None;
    }
    let mut components: Vec<&[u8]> = Vec::new();
    for component in rest.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                if components.pop().is_none() {
                    let expected = "a path that stays inside the instance";
                    report.suggest(
                        Code::PathEscape,
                        value.start(),
                        value.written(),
                        expected,
                        "remove the `..`",
                    );
                    return None;
                }
            }
            name => components.push(name),
        }
    }
    let last = rest.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let trailing_slash = !rest.is_empty() && [&b""[..], b".", b".."].contains(&last);
    Some(StagePath::Instance { target, path: components.join(&b'/'), trailing_slash })
}
