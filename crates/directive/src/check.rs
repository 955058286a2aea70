//! What the directives of a script have to do with each other.
//!
//! Staging needs an instance that the script has, and has by then; space and swap are asked for once; what is created
//! or destroyed in a script is not what the same script uses. A directive that could not be understood counts as
//! there, so that one mistake is told once.

use crate::command::Command;
use crate::diagnostic::{Code, Place, Report};
use crate::read::Read;
use crate::types::{Access, Directive, InstanceRef, Stage, StagePath};
use forebay_model::objects::{AccessMode, ConfigurationType};
use std::collections::HashMap;

/// How an instance may be used, as far as the script says.
#[derive(Clone, Debug)]
struct Use {
    at: Place,
    /// `None` if another script made it.
    made_as: Option<(ConfigurationType, Vec<AccessMode>)>,
}

/// An end of a copy that lies in an instance.
#[derive(Debug)]
struct Staging {
    target: InstanceRef,
    at: Place,
    text: Vec<u8>,
}

/// What has been seen of a script so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    job: Option<Use>,
    swap: Option<Place>,
    attached: HashMap<String, Place>,
    created: HashMap<String, Use>,
    destroyed: HashMap<String, Place>,
    staged: Vec<Staging>,
    job_not_understood: bool,
    attach_not_understood: bool,
}

impl Checks {
    /// Takes note of a directive that has been told to be wrong.
    pub fn not_understood(&mut self, command: Command) {
        self.job_not_understood |= command == Command::JobDw;
        self.attach_not_understood |= command == Command::PersistentDw;
    }

    /// Takes note of a directive. False if it may not be there.
    pub fn directive(&mut self, read: &Read, report: &mut Report) -> bool {
        let at = read.at;
        let first = match &read.directive {
            Directive::JobDw(job) => {
                let first = self.job.as_ref().map(|job| job.at);
                let made_as = Some((job.kind, modes(&job.access)));
                self.job.get_or_insert(Use { at, made_as });
                first
            }
            Directive::Swap(_) => {
                let first = self.swap;
                self.swap.get_or_insert(at);
                first
            }
            Directive::PersistentDw(attached) => once(&mut self.attached, &attached.name, at),
            Directive::DestroyPersistent(destroyed) => once(&mut self.destroyed, &destroyed.name, at),
            Directive::CreatePersistent(created) => {
                let made_as = Some((created.kind, modes(&created.access)));
                let first = self.created.get(&created.name).map(|there| there.at);
                self.created.entry(created.name.clone()).or_insert(Use { at, made_as });
                first
            }
            Directive::StageIn(stage) | Directive::StageOut(stage) => {
                self.staged.extend(staging(stage, read));
                return true;
            }
        };
        if let Some(first) = first {
            let text = command_text(&read.directive);
            let expected = format!("it once; it is in line {} already", first.line);
            report.suggest(Code::DuplicateDirective, at, text.as_bytes(), expected, "remove one of the two");
        }
        first.is_none()
    }

    /// Tells what can be told only when all directives have been seen.
    pub fn finish(self, report: &mut Report) {
        for staging in &self.staged {
            self.check_staging(staging, report);
        }
        for (name, at) in &self.attached {
            if let Some(destroyed) = self.destroyed.get(name) {
                let expected = format!("no `persistentdw name={name}` in the same script (line {})", at.line);
                let suggestion =
                    "destroy it in a later job: #BB lines are carried out before the script runs";
                report.suggest(Code::DestroyOfAttached, *destroyed, name.as_bytes(), expected, suggestion);
            }
            if let Some(created) = self.created.get(name) {
                let expected =
                    format!("a second job that uses it; it is created in line {}", created.at.line);
                let suggestion = "split the script for Slurm: only a run on one machine creates it at once";
                report.suggest(Code::CreateAndUse, *at, name.as_bytes(), expected, suggestion);
            }
        }
    }

    fn check_staging(&self, staging: &Staging, report: &mut Report) {
        let (there, excused) = match &staging.target {
            InstanceRef::Job => (self.job.clone(), self.job_not_understood),
            InstanceRef::Persistent(name) => (self.attached_use(name), self.attach_not_understood),
        };
        match there {
            None if excused => {}
            None => tell_unallocated(staging, report),
            Some(there) => {
                if there.at > staging.at && !excused {
                    let expected = format!("it below line {}, which names the instance", there.at.line);
                    let suggestion = "move the staging directive down";
                    report.suggest(
                        Code::StageBeforeAllocation,
                        staging.at,
                        &staging.text,
                        expected,
                        suggestion,
                    );
                }
                check_use(&there, staging, report);
            }
        }
    }

    fn attached_use(&self, name: &str) -> Option<Use> {
        let at = *self.attached.get(name)?;
        let made_as = self.created.get(name).and_then(|created| created.made_as.clone());
        Some(Use { at, made_as })
    }
}

fn modes(access: &[Access]) -> Vec<AccessMode> {
    access.iter().map(|access| access.mode).collect()
}

/// Notes a name; gives the place where it was noted before.
fn once(names: &mut HashMap<String, Place>, name: &str, at: Place) -> Option<Place> {
    let first = names.get(name).copied();
    names.entry(name.to_string()).or_insert(at);
    first
}

fn command_text(directive: &Directive) -> String {
    match directive {
        Directive::PersistentDw(attached) => format!("persistentdw name={}", attached.name),
        Directive::CreatePersistent(created) => format!("create_persistent name={}", created.name),
        Directive::DestroyPersistent(destroyed) => format!("destroy_persistent name={}", destroyed.name),
        Directive::Swap(_) => "swap".to_string(),
        Directive::JobDw(_) | Directive::StageIn(_) | Directive::StageOut(_) => "jobdw".to_string(),
    }
}

/// The end of a copy that lies in an instance, if there is one. A list of a `stage_in` names its instances itself.
fn staging(stage: &Stage, read: &Read) -> Option<Staging> {
    let (at, text) = read.instance_path.clone()?;
    let ends = [Some(&stage.source), stage.destination.as_ref()];
    ends.into_iter().flatten().find_map(|path| match path {
        StagePath::Instance { target, .. } => {
            Some(Staging { target: target.clone(), at, text: text.clone() })
        }
        StagePath::Pfs(_) => None,
    })
}

fn tell_unallocated(staging: &Staging, report: &mut Report) {
    let (expected, suggestion) = match &staging.target {
        InstanceRef::Job => (
            "an instance that the script has allocated or attached".to_string(),
            "add `#DW jobdw type=scratch access_mode=striped capacity=<size>` above it".to_string(),
        ),
        InstanceRef::Persistent(name) if name.starts_with("CACHE_") => (
            "an instance with type=scratch that the script attaches".to_string(),
            format!("attach `{name}` if that is its name; a cache needs no staging"),
        ),
        InstanceRef::Persistent(name) => (
            "an instance that the script has allocated or attached".to_string(),
            format!("add `#DW persistentdw name={name}` above it"),
        ),
    };
    report.suggest(Code::UnallocatedTarget, staging.at, &staging.text, expected, suggestion);
}

/// Whether an instance made in this script can be staged to.
fn check_use(there: &Use, staging: &Staging, report: &mut Report) {
    let Some((kind, modes)) = &there.made_as else { return };
    let line = there.at.line;
    if *kind == ConfigurationType::Cache {
        let expected = format!("an instance with type=scratch; the one of line {line} is a cache");
        let suggestion =
            "remove the staging directive: a cache reads and writes the parallel file system by itself";
        report.suggest(Code::StageCache, staging.at, &staging.text, expected, suggestion);
    } else if !modes.contains(&AccessMode::Striped) {
        let expected = format!("an instance with striped access; the one of line {line} is private");
        let suggestion = "write access_mode=striped,private, or copy in the script: with private access each compute node has a tree of its own";
        report.suggest(Code::StagePrivate, staging.at, &staging.text, expected, suggestion);
    }
}
