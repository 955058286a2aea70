//! Directives as text: one line each, keys in a fixed order, sizes with the largest unit that divides them.
//!
//! Invariant: the line of a directive that was read without symbols reads as the same directive. There is one
//! exception: where a `\\` ended the symbols of the line, they are not ended for keys that are printed before it. A
//! directive whose symbols were replaced reads as the same one if its values have no blank, `%` or `\\` in them.
//! Paths never stand at the end of a line, where a `\` would continue it.

use crate::types::{Access, CreatePersistent, Directive, InstanceRef, JobDw, Stage, StageKind, StagePath};
use crate::value::{kind_word, mode_word, modifiers_text};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::format::exact;
use std::fmt;

impl Directive {
    /// The directive as a line, without a line end.
    pub fn to_line(&self) -> Vec<u8> {
        match self {
            Directive::JobDw(job) => jobdw(job),
            Directive::Swap(swap) => {
                let mut line = format!("#DW swap {}", exact(swap.per_node)).into_bytes();
                put_optional(&mut line, "pool", swap.pool.as_ref());
                line
            }
            Directive::StageIn(stage) => stage_line("#DW stage_in", stage),
            Directive::StageOut(stage) => stage_line("#DW stage_out", stage),
            Directive::PersistentDw(attached) => {
                format!("#DW persistentdw name={}", attached.name).into_bytes()
            }
            Directive::CreatePersistent(created) => create_persistent(created),
            Directive::DestroyPersistent(destroyed) => {
                let hurry = if destroyed.hurry { " hurry" } else { "" };
                format!("#BB destroy_persistent name={}{hurry}", destroyed.name).into_bytes()
            }
        }
    }
}

impl fmt::Display for Directive {
    /// As [`Directive::to_line`]; bytes that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.to_line()))
    }
}

impl fmt::Display for StagePath {
    /// As it is written in a directive; bytes that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&stage_path(self)))
    }
}

impl fmt::Display for InstanceRef {
    /// The environment variable with its `$`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstanceRef::Job => f.pad("$DW_JOB_STRIPED"),
            InstanceRef::Persistent(name) => f.pad(&format!("$DW_PERSISTENT_STRIPED_{name}")),
        }
    }
}

fn put(line: &mut Vec<u8>, key: &str, value: impl AsRef<[u8]>) {
    line.extend_from_slice(format!(" {key}=").as_bytes());
    line.extend_from_slice(value.as_ref());
}

fn put_optional(line: &mut Vec<u8>, key: &str, value: Option<impl AsRef<[u8]>>) {
    if let Some(value) = value {
        put(line, key, value);
    }
}

fn jobdw(job: &JobDw) -> Vec<u8> {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    let mut line = b"#DW jobdw".to_vec();
    put(&mut line, "type", kind_word(job.kind));
    put(&mut line, "access_mode", access_text(&job.access));
    put_optional(&mut line, "pfs", job.pfs.as_ref());
    put(&mut line, "capacity", job.capacity.to_string());
    put_optional(&mut line, "pool", job.pool.as_ref());
    let number = |number: u64| number.to_string();
    put_optional(&mut line, "write_window_length", job.write_window_length_s.map(number));
    put_optional(&mut line, "write_window_multiplier", job.write_window_multiplier.map(number));
    put_optional(&mut line, "modified_threshold", job.modified_threshold.map(exact));
    let read_ahead = job.read_ahead.map(|ahead| {
        let unit = ahead.unit.map(|unit| format!(":{}", exact(unit)));
        format!("{}{}", exact(ahead.after), unit.unwrap_or_default())
    });
    put_optional(&mut line, "read_ahead", read_ahead);
    put_optional(&mut line, "sync_on_close", job.sync_on_close.map(yes_or_no));
    put_optional(&mut line, "sync_to_pfs", job.sync_to_pfs.map(yes_or_no));
    put_optional(&mut line, "optimization_strategy", job.strategy.map(strategy_word));
    put_optional(&mut line, "max_mds", job.max_mds.map(yes_or_no));
    line
}

fn strategy_word(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Bandwidth => "bandwidth",
        Strategy::Interference => "interference",
        Strategy::Wear => "wear",
    }
}

fn create_persistent(created: &CreatePersistent) -> Vec<u8> {
    let mut line = b"#BB create_persistent".to_vec();
    put(&mut line, "name", &created.name);
    put(&mut line, "capacity", created.capacity.to_string());
    put(&mut line, "access", access_text(&created.access));
    put(&mut line, "type", kind_word(created.kind));
    put_optional(&mut line, "pool", created.pool.as_ref());
    line
}

fn access_text(access: &[Access]) -> String {
    let modes = access.iter().map(|access| format!("{}{}", mode_word(access.mode), modifiers_text(access)));
    modes.collect::<Vec<_>>().join(",")
}

fn stage_line(command: &str, stage: &Stage) -> Vec<u8> {
    let mut line = command.as_bytes().to_vec();
    put(&mut line, "source", stage_path(&stage.source));
    put_optional(&mut line, "destination", stage.destination.as_ref().map(stage_path));
    put_optional(&mut line, "tolerate_errors", stage.tolerate_errors.then_some("yes"));
    let kind = match stage.kind {
        StageKind::File => "file",
        StageKind::Directory => "directory",
        StageKind::List => "list",
    };
    put(&mut line, "type", kind);
    line
}

fn stage_path(path: &StagePath) -> Vec<u8> {
    match path {
        StagePath::Pfs(path) => path.clone(),
        StagePath::Instance { target, path, trailing_slash } => {
            let mut text = target.to_string().into_bytes();
            if !path.is_empty() {
                text.push(b'/');
                text.extend_from_slice(path);
            }
            if *trailing_slash {
                text.push(b'/');
            }
            text
        }
    }
}
