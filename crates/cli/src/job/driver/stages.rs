//! Stage-in and stage-out of a job, one directive after the other, each copied in parallel by the stager.
//!
//! What is done is recorded per directive, so that a recovery repeats only what is missing; within a directive the
//! stager's journal does the same for files.

use super::Driver;
use crate::job::progress::ProgressLine;
use crate::job::summary::{Copied, STAGE_IN, STAGE_OUT, StageLine};
use forebay_agent::StageTask;
use forebay_controller::job::Wish;
use forebay_controller::record::{InstanceRecord, StageRecord, StageResult};
use forebay_controller::request::{StageDirection, StageKind, StageSpec, StageTarget};
use forebay_directive::{InstanceRef, StageListEntry, parse_stage_list};
use forebay_model::objects::AccessMode;
use forebay_model::units::Bytes;
use forebay_stager::report::{Warning, WarningKind};
use forebay_stager::{CancelToken, Direction, StageOptions, StageReport};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Driver<'_> {
    /// Carries out all stagings of one direction that are not done.
    pub(super) fn stage(&mut self, direction: StageDirection) -> Result<(), String> {
        let all: Vec<StageRecord> =
            self.job.stages.iter().filter(|stage| stage.spec.direction == direction).cloned().collect();
        let count = all.len();
        for (index, stage) in all.into_iter().enumerate() {
            if matches!(stage.result, StageResult::Done { .. }) {
                continue;
            }
            self.one(&stage, index + 1, count)?;
        }
        Ok(())
    }

    fn one(&mut self, stage: &StageRecord, number: usize, count: usize) -> Result<(), String> {
        let title = title(stage.spec.direction);
        let result = self.copy(stage, format!("{title} {number}/{count}"));
        let (line, recorded) = match &result {
            Ok(report) => (Ok(copied(report)), done(report)),
            Err(text) => (Err(text.clone()), StageResult::Failed { text: text.clone() }),
        };
        self.summary.stages.push(StageLine { title, paths: paths(&stage.spec), result: line });
        self.machine.registry.record_stage(stage.id, &recorded).map_err(|error| error.to_string())?;
        let report = result?;
        for warning in &report.warnings {
            self.note(format!("{title}: {}", tell(warning)));
        }
        for failure in &report.failures {
            self.note(format!("{title}: tolerated: {failure}"));
        }
        Ok(())
    }

    fn copy(&mut self, stage: &StageRecord, title: String) -> Result<StageReport, String> {
        let stops_at = match stage.spec.direction {
            StageDirection::In => |wish| wish != Wish::None,
            StageDirection::Out => |wish| matches!(wish, Wish::Halt | Wish::Discard),
        };
        let mut whole = StageReport::default();
        for (instance, task) in self.tasks(stage)? {
            let cancel = self.shared.staging_begins(stops_at);
            let line = ProgressLine::new(title.clone());
            let quiet = self.options.quiet;
            let show = |progress| {
                if !quiet {
                    line.show(&progress);
                }
            };
            let attachment = self.attachment(&instance).map_err(|error| error.to_string())?;
            let result = attachment.stage(&task, &show, &cancel);
            line.end();
            self.shared.staging_ends();
            add(&mut whole, result.map_err(|error| error.to_string())?);
        }
        Ok(whole)
    }

    /// What is to be copied from or into which instance. A list may name several.
    fn tasks(&mut self, stage: &StageRecord) -> Result<Vec<(InstanceRecord, StageTask)>, String> {
        let spec = &stage.spec;
        let direction = match spec.direction {
            StageDirection::In => Direction::In,
            StageDirection::Out => Direction::Out,
        };
        let (configuration, inside) = (stage.configuration, &spec.instance_path[..]);
        let single = |task| Ok(vec![(self.instance_of(stage)?, task)]);
        let options = self.stage_options(stage, 0);
        match spec.kind {
            StageKind::File => single(StageTask::file(configuration, direction, &spec.pfs, inside, options)),
            StageKind::Directory => {
                single(StageTask::directory(configuration, direction, &spec.pfs, inside, options))
            }
            StageKind::List => {
                let list = self.fetch_list(stage)?;
                self.list_tasks(stage, direction, &list)
            }
        }
    }

    /// Where the list can be read: on the parallel file system, or, when the job wrote it into the burst buffer, in a
    /// copy in the job's directory.
    fn fetch_list(&mut self, stage: &StageRecord) -> Result<PathBuf, String> {
        if stage.spec.instance_path.is_empty() {
            return Ok(stage.spec.pfs.clone());
        }
        let copy = self.machine.state.job(&self.job.token).join(format!("stage-{}.list", stage.id.0));
        let (configuration, inside) = (stage.configuration, &stage.spec.instance_path[..]);
        let task = StageTask::file(configuration, Direction::Out, &copy, inside, StageOptions::default());
        let instance = self.instance_of(stage)?;
        let attachment = self.attachment(&instance).map_err(|error| error.to_string())?;
        attachment.stage(&task, &|_| {}, &CancelToken::new()).map_err(|error| error.to_string())?;
        Ok(copy)
    }

    fn list_tasks(
        &self,
        stage: &StageRecord,
        direction: Direction,
        list: &Path,
    ) -> Result<Vec<(InstanceRecord, StageTask)>, String> {
        let job = self.job.own.iter().map(|own| (InstanceRef::Job, own));
        let other =
            self.job.attached.iter().map(|other| (InstanceRef::Persistent(other.label.clone()), other));
        let targets: Vec<(InstanceRef, &InstanceRecord)> = job.chain(other).collect();
        let entries = read_list(list, stage.spec.direction, &targets)?;
        let mut tasks = Vec::new();
        for (index, (target, instance)) in targets.into_iter().enumerate() {
            let files: Vec<(PathBuf, Vec<u8>)> = entries
                .iter()
                .filter(|entry| entry.target == target)
                .map(|entry| (OsString::from_vec(entry.pfs.clone()).into(), entry.path.clone()))
                .collect();
            let striped = instance.configurations.iter().find(|c| c.access.mode == AccessMode::Striped);
            if let Some(configuration) = striped.filter(|_| !files.is_empty()) {
                let options = self.stage_options(stage, index);
                tasks.push((instance.clone(), StageTask::list(configuration.id, direction, &files, options)));
            }
        }
        Ok(tasks)
    }

    fn stage_options(&self, stage: &StageRecord, part: usize) -> StageOptions {
        let directory = self.machine.state.job(&self.job.token);
        let name = format!("stage-{}-{part}.journal", stage.id.0);
        // A job that is recovered without its directory (removed by hand) stages again from the start.
        let journal = directory.is_dir().then(|| directory.join(name));
        StageOptions {
            tolerate_errors: stage.spec.tolerate_errors,
            journal,
            // What goes into a persistent instance outlives the job; a job's own space is staged anew after a power cut.
            durable: matches!(stage.spec.target, StageTarget::Persistent(_)).then_some(true),
            ..StageOptions::default()
        }
    }

    fn instance_of(&self, stage: &StageRecord) -> Result<InstanceRecord, String> {
        let mut all = self.job.own.iter().chain(&self.job.attached);
        all.find(|instance| instance.id == stage.instance)
            .cloned()
            .ok_or_else(|| format!("instance {} of {} is gone", stage.instance, paths(&stage.spec)))
    }
}

/// The files of a list; all that is wrong in it at once.
fn read_list(
    list: &Path,
    direction: StageDirection,
    targets: &[(InstanceRef, &InstanceRecord)],
) -> Result<Vec<StageListEntry>, String> {
    let text = std::fs::read(list).map_err(|error| format!("cannot read the list {list:?}: {error}"))?;
    let direction = match direction {
        StageDirection::In => forebay_directive::Direction::In,
        StageDirection::Out => forebay_directive::Direction::Out,
    };
    let targets: Vec<InstanceRef> = targets.iter().map(|(target, _)| target.clone()).collect();
    let parsed = parse_stage_list(&text, direction, &targets);
    if parsed.errors.is_empty() {
        return Ok(parsed.entries.into_iter().map(|entry| entry.value).collect());
    }
    let file = list.to_string_lossy();
    Err(parsed.errors.iter().map(|error| error.render(&file, &text)).collect::<Vec<_>>().join("\n"))
}

/// Adds the account of one part of a list to the whole.
fn add(whole: &mut StageReport, part: StageReport) {
    whole.bytes += part.bytes;
    whole.files += part.files;
    whole.files_skipped += part.files_skipped;
    whole.elapsed_ms += part.elapsed_ms;
    whole.failures_total += part.failures_total;
    whole.warnings_total += part.warnings_total;
    whole.failures.extend(part.failures);
    whole.warnings.extend(part.warnings);
}

fn tell(warning: &Warning) -> String {
    let what = match warning.kind {
        WarningKind::XattrNotKept => "an extended attribute was refused by the target's file system",
        WarningKind::SetIdNotKept => "the owner could not be kept, so set-id bits were dropped",
        WarningKind::OwnerNotKept => "the owner could not be kept",
        WarningKind::SpecialSkipped => "a socket or device was left out",
        WarningKind::LinkCopied => "the target cannot have hard links, the file was copied",
    };
    format!("{}: {what}", warning.path.display())
}

fn title(direction: StageDirection) -> &'static str {
    match direction {
        StageDirection::In => STAGE_IN,
        StageDirection::Out => STAGE_OUT,
    }
}

/// `/pfs/data -> $DW_JOB_STRIPED/data`, in the words of the script.
pub fn paths(spec: &StageSpec) -> String {
    let pfs = spec.pfs.display();
    let token = match &spec.target {
        StageTarget::Job => "$DW_JOB_STRIPED".to_string(),
        StageTarget::Persistent(name) => format!("$DW_PERSISTENT_STRIPED_{name}"),
    };
    let inside = format!("{token}/{}", String::from_utf8_lossy(&spec.instance_path));
    match (spec.kind, spec.direction) {
        (StageKind::List, _) if spec.instance_path.is_empty() => format!("list {pfs}"),
        (StageKind::List, _) => format!("list {inside}"),
        (_, StageDirection::In) => format!("{pfs} -> {inside}"),
        (_, StageDirection::Out) => format!("{inside} -> {pfs}"),
    }
}

fn copied(report: &StageReport) -> Copied {
    Copied {
        files: report.files,
        bytes: report.bytes,
        elapsed: Duration::from_millis(report.elapsed_ms),
        skipped: report.files_skipped,
        tolerated: report.failures_total,
    }
}

fn done(report: &StageReport) -> StageResult {
    StageResult::Done { files: report.files, bytes: Bytes(report.bytes), elapsed_ms: report.elapsed_ms }
}
