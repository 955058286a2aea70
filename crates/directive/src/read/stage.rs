//! `#DW stage_in` and `#DW stage_out`.

use super::Read;
use crate::command::Command;
use crate::diagnostic::{Code, Place, Report};
use crate::fields::{Fields, Value};
use crate::types::{Directive, Stage, StageKind, StagePath};
use crate::value::{Direction, base_name, choice, instance_path, pfs_path, stage_list_source, yes_or_no};

const KINDS: [(&str, StageKind); 3] =
    [("file", StageKind::File), ("directory", StageKind::Directory), ("list", StageKind::List)];

/// Reads the fields of either command.
pub(super) fn stage(command: Command, fields: &Fields, report: &mut Report) -> Option<Read> {
    let direction = if command == Command::StageIn { Direction::In } else { Direction::Out };
    let kind = fields.require("type", "file, directory or list", report);
    let kind = kind.cloned().and_then(|value| choice(&value, &KINDS, report));
    let tolerate_errors = match fields.get("tolerate_errors") {
        Some(value) => yes_or_no(value, report),
        None => Some(false),
    };
    let ends = match kind {
        Some(StageKind::List) => list(direction, fields, report),
        _ => pair(direction, kind, fields, report),
    };
    let (source, destination) = ends?;
    let instance = match direction {
        Direction::In => fields.get("destination"),
        Direction::Out => fields.get("source"),
    };
    let stage = Stage { kind: kind?, source, destination, tolerate_errors: tolerate_errors? };
    let names_instance = [Some(&stage.source), stage.destination.as_ref()]
        .into_iter()
        .flatten()
        .any(|path| matches!(path, StagePath::Instance { .. }));
    let instance_path = instance.filter(|_| names_instance).map(place_and_text);
    let directive = match direction {
        Direction::In => Directive::StageIn(stage),
        Direction::Out => Directive::StageOut(stage),
    };
    Some(Read { directive, at: fields.subject().0, instance_path })
}

fn place_and_text(value: &Value) -> (Place, Vec<u8>) {
    (value.start(), value.written().to_vec())
}

type Ends = (StagePath, Option<StagePath>);

/// Source and destination of a file or directory, or of a kind that was not understood.
fn pair(direction: Direction, kind: Option<StageKind>, fields: &Fields, report: &mut Report) -> Option<Ends> {
    let (source_form, destination_form) = match direction {
        Direction::In => ("<PFS path>", "$DW_JOB_STRIPED/<path>"),
        Direction::Out => ("$DW_JOB_STRIPED/<path>", "<PFS path>"),
    };
    let read = |value: &Value, on_pfs: bool, report: &mut Report| {
        if on_pfs { pfs_path(value, report).map(StagePath::Pfs) } else { instance_path(value, report) }
    };
    let source_value = fields.require("source", source_form, report);
    let source = source_value.and_then(|value| read(value, direction == Direction::In, report));
    let destination = fields.require("destination", destination_form, report);
    let destination = destination.and_then(|value| read(value, direction == Direction::Out, report));
    let source = source?;
    if let (Some(StageKind::File), Some(value)) = (kind, source_value) {
        file_named(&source, value, report)?;
    }
    Some((source, Some(destination?)))
}

/// The file that a list is in. The list names the destinations.
fn list(direction: Direction, fields: &Fields, report: &mut Report) -> Option<Ends> {
    if let Some(value) = fields.get("destination") {
        let expected = "no `destination=` with type=list: each line of the list has its own";
        report.suggest(Code::ListDestination, value.start(), value.written(), expected, "remove it");
    }
    let value = fields.require("source", "<file with the list>", report)?;
    let source = stage_list_source(value, direction, report)?;
    file_named(&source, value, report)?;
    fields.get("destination").is_none().then_some((source, None))
}

/// A source that has to be a file must not be spelled as a directory.
fn file_named(source: &StagePath, value: &Value, report: &mut Report) -> Option<()> {
    let directory = match source {
        StagePath::Pfs(path) => path.ends_with(b"/") || base_name(path).is_none(),
        StagePath::Instance { path, trailing_slash, .. } => *trailing_slash || path.is_empty(),
    };
    if directory {
        let expected = "the path of a file, without `/` at the end";
        let suggestion = "write type=directory if a directory is meant";
        report.suggest(Code::FileExpected, value.start(), value.written(), expected, suggestion);
    }
    (!directory).then_some(())
}
