//! The file of a `type=list` directive: one regular file a line, source first, destination second.
//!
//! Lines that are empty or begin with `#` are passed over; symbols are not replaced. A list may be long, so what does
//! not fit is told line by line up to a limit, and nothing is handed out twice.

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::fields::Value;
use crate::symbols::LineSymbols;
use crate::types::{InstanceRef, Located, StagePath};
use crate::value::{Direction, base_name, instance_path, pfs_path};
use crate::words::{Word, words};

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageListEntry {
    /// The file on the parallel file system, absolute.
    pub pfs: Vec<u8>,
    /// The instance.
    pub target: InstanceRef,
    /// The file in the instance: relative, normalised, never empty.
    pub path: Vec<u8>,
}

/// What a list says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageList {
    /// The files, in the order of the list.
    pub entries: Vec<Located<StageListEntry>>,
    /// What is wrong, in the order of the text.
    pub errors: Vec<Diagnostic>,
    /// What is doubtful.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a list. `targets` are the instances it may name, see [`crate::Parsed::stage_targets`].
pub fn parse_stage_list(list: &[u8], direction: Direction, targets: &[InstanceRef]) -> StageList {
    let mut report = Report::default();
    let mut entries = Vec::new();
    for (index, line) in list.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words: Vec<Word> = words(index + 1, line, 0).take(3).collect();
        if words.first().is_none_or(|word| word.bytes.starts_with(b"#")) {
            continue;
        }
        let entry = entry(&words, direction, targets, &mut report);
        entries.extend(entry.map(|value| Located {
            line: index + 1,
            column: words[0].start().column,
            value,
        }));
    }
    let (warnings, errors) = report.finish();
    StageList { entries, errors, warnings }
}

fn entry(
    words: &[Word],
    direction: Direction,
    targets: &[InstanceRef],
    report: &mut Report,
) -> Option<StageListEntry> {
    let form = match direction {
        Direction::In => "<PFS path> $DW_JOB_STRIPED/<path>",
        Direction::Out => "$DW_JOB_STRIPED/<path> <PFS path>",
    };
    let [source, destination] = words else {
        let wrong = words.get(2).or(words.first())?;
        let expected = format!("two words, `{form}`");
        report.add(Code::ListLine, wrong.start(), wrong.bytes, expected);
        return None;
    };
    let (pfs_word, instance_word) = match direction {
        Direction::In => (source, destination),
        Direction::Out => (destination, source),
    };
    if pfs_word.bytes.starts_with(b"$DW_") && instance_word.bytes.starts_with(b"/") {
        let expected = format!("the source first: `{form}`");
        report.suggest(Code::ListLine, source.start(), source.bytes, expected, "exchange the two");
        return None;
    }
    let pfs = pfs_path(&literal(*pfs_word, report)?, report);
    let instance_value = literal(*instance_word, report)?;
    let instance = instance_path(&instance_value, report);
    let StagePath::Instance { target, path, trailing_slash } = instance? else { return None };
    if !targets.contains(&target) {
        let expected = "an instance that the script has allocated or attached";
        report.add(Code::UnallocatedTarget, instance_word.start(), instance_word.bytes, expected);
        return None;
    }
    let file = (pfs?, path, trailing_slash);
    complete(direction, target, file, *source, report)
}

/// Symbols mean nothing in a list.
fn literal<'a>(word: Word<'a>, report: &mut Report) -> Option<Value<'a>> {
    let mut symbols = LineSymbols::ended();
    Value::new(word, 0, &mut symbols, report)
}

/// Gives a destination that names a directory the name of its source, which must be a file. `file` is the path on the
/// parallel file system, the path in the instance, and whether that ended in a slash.
fn complete(
    direction: Direction,
    target: InstanceRef,
    file: (Vec<u8>, Vec<u8>, bool),
    source: Word,
    report: &mut Report,
) -> Option<StageListEntry> {
    let (mut pfs, mut path, trailing_slash) = file;
    let in_directory = path.is_empty() || trailing_slash;
    let source_is_file = match direction {
        Direction::In => !pfs.ends_with(b"/") && base_name(&pfs).is_some(),
        Direction::Out => !in_directory,
    };
    if !source_is_file {
        let expected = "the path of a file, without `/` at the end";
        report.add(Code::FileExpected, source.start(), source.bytes, expected);
        return None;
    }
    match direction {
        Direction::In if in_directory => path = join(&path, base_name(&pfs)?),
        Direction::Out if pfs.ends_with(b"/") => pfs.extend_from_slice(base_name(&path)?),
        _ => {}
    }
    Some(StageListEntry { pfs, target, path })
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

impl crate::types::Stage {
    /// Destination of a `type=file` with its file name: one that is empty or ends in `/` takes the name of the source.
    /// `None` for the other kinds, which have no such rule.
    pub fn file_destination(&self) -> Option<StagePath> {
        if self.kind != crate::types::StageKind::File {
            return None;
        }
        let name = match &self.source {
            StagePath::Pfs(path) | StagePath::Instance { path, .. } => base_name(path)?,
        };
        match self.destination.as_ref()? {
            StagePath::Instance { target, path, trailing_slash } if path.is_empty() || *trailing_slash => {
                let path = join(path, name);
                Some(StagePath::Instance { target: target.clone(), path, trailing_slash: false })
            }
            StagePath::Pfs(path) if path.ends_with(b"/") => Some(StagePath::Pfs([path, name].concat())),
            other => Some(other.clone()),
        }
    }
}
