//! Drives one job through its life: asks the pure step function what is next, records it, carries it out.
//!
//! Order of events for every step: the step is computed; the registry records the phase that begins (and what is known
//! of the script's end and of the first failure); then the effect is carried out; its end is the next event. A crash
//! before the record repeats the earlier effect, a crash after it repeats this one; all effects are idempotent, so
//! `forebay recover` carries on from the recorded phase. The script is the one effect that outlives a killed driver: it
//! begins when its process group is recorded ([`super::held`]), so that recovery finds it or it has not run.
//!
//! Interrupts come on another thread. They go through the same step function on the shared state; what it answers
//! (end the script, stop the staging) is done right there, and the work in progress then ends by itself.

mod effects;
mod stages;
mod wait;

pub use effects::remove_empty;

use super::environment::Exposed;
use super::summary::{InstanceLine, Summary};
use crate::error::CommandError;
use crate::interrupt::Interrupts;
use crate::machine::Machine;
use forebay_agent::{Attachment, Serving};
use forebay_controller::job::{Event, JobState, step};
use forebay_controller::record::{InstanceRecord, Job};
use forebay_model::capacity::format::{SizeStyle, format_size};
use forebay_model::ids::InstanceId;
use forebay_model::lifecycle::Phase;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use wait::Shared;

/// What a driver needs to know beyond the record of the job.
#[derive(Debug, Default)]
pub struct DriverOptions {
    /// Serve new instances this way.
    pub serve: Option<Serving>,
    /// No progress.
    pub quiet: bool,
    /// The program that is the script; the default is the job's copy of it.
    pub interactive: Option<super::script::ScriptCommand>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// Where it rests: ended, kept, or stuck in the phase that failed.
    pub state: JobState,
    /// The account of it.
    pub summary: Summary,
}

/// One job being carried through its life.
pub struct Driver<'a> {
    machine: &'a Machine,
    options: DriverOptions,
    job: Job,
    shared: Arc<Shared>,
    attachments: BTreeMap<InstanceId, Attachment>,
    exposed: Vec<Exposed>,
    summary: Summary,
    begun: Instant,
}

impl<'a> Driver<'a> {
    /// A driver for a job that the registry has recorded; the record says where it stands.
    pub fn new(machine: &'a Machine, job: Job, options: DriverOptions) -> Driver<'a> {
        let summary =
            Summary { token: job.token.clone(), name: job.script.name.clone(), ..Summary::default() };
        Driver {
            machine,
            options,
            shared: Arc::new(Shared::new(job.state())),
            job,
            attachments: BTreeMap::new(),
            exposed: Vec::new(),
            summary,
            begun: Instant::now(),
        }
    }

    /// Carries the job on from `event` until it rests.
    ///
    /// # Errors
    /// Only when the registry cannot record what happened; the job can then be recovered from its last phase.
    pub fn run(mut self, event: Event, interrupts: &Interrupts) -> Result<Outcome, CommandError> {
        let shared = Arc::clone(&self.shared);
        let hook = {
            let shared = Arc::clone(&shared);
            move || shared.interrupt()
        };
        interrupts.during(hook, || self.steps(event))?;
        self.summary.total = self.begun.elapsed();
        Ok(Outcome { state: shared.state(), summary: self.summary })
    }

    fn steps(&mut self, mut event: Event) -> Result<(), CommandError> {
        loop {
            let effect = self.advance(event)?;
            let Some(effect) = effect else { break };
            event = self.perform(effect);
        }
        self.settle();
        Ok(())
    }

    /// Takes one step and records it.
    fn advance(&mut self, event: Event) -> Result<Option<forebay_controller::job::Effect>, CommandError> {
        let (next, effect) = self.shared.change(|state| {
            let taken = step(state, event);
            *state = taken.next;
            (state.clone(), taken.effect)
        });
        self.machine.registry.record(self.job.session, &next)?;
        Ok(effect)
    }

    /// Gives back what the driver still holds when a job rests before its teardown: mounts and leases. The data stays.
    fn settle(&mut self) {
        let state = self.shared.state();
        if state.phase == Phase::Kept || state.stuck {
            for (instance, attachment) in std::mem::take(&mut self.attachments) {
                if let Err(error) = attachment.detach() {
                    self.note(format!("instance {instance} could not be detached: {error}"));
                }
            }
        }
    }

    fn note(&mut self, note: String) {
        self.summary.notes.push(note);
    }

    /// The instances of the job with the names that paths and the summary use.
    fn instances(&self) -> Vec<(String, InstanceRecord)> {
        let own = self.job.own.iter().map(|own| ("job".to_string(), own.clone()));
        let attached = self.job.attached.iter().map(|other| (other.label.clone(), other.clone()));
        own.chain(attached).collect()
    }

    /// The attachment of an instance; attaches it when it is not yet.
    fn attachment(
        &mut self,
        instance: &InstanceRecord,
    ) -> Result<&mut Attachment, forebay_agent::AgentError> {
        if !self.attachments.contains_key(&instance.id) {
            let attachment = self.machine.agent.attach(instance.id)?;
            self.describe(instance, attachment.serving());
            self.attachments.insert(instance.id, attachment);
        }
        self.attachments.get_mut(&instance.id).ok_or(forebay_agent::AgentError::UnknownInstance {
            instance: instance.id,
            directory: self.machine.agent.directory(instance.id),
        })
    }

    fn describe(&mut self, instance: &InstanceRecord, serving: Serving) {
        let granularity = instance.bytes.0.checked_div(instance.granules.0).unwrap_or_default();
        let nodes = instance.fragments.len();
        self.summary.instances.push(InstanceLine {
            name: if instance.persistent { instance.label.clone() } else { "job".into() },
            bytes: instance.bytes.0,
            dealt: format!(
                "{} granule{} of {} on {nodes} node{} of {}",
                instance.granules.0,
                if instance.granules.0 == 1 { "" } else { "s" },
                format_size(forebay_model::units::Bytes(granularity), SizeStyle::Binary),
                if nodes == 1 { "" } else { "s" },
                instance.pool
            ),
            served: serving.describe().into(),
            not_enforced: serving.not_enforced().into_iter().map(String::from).collect(),
        });
    }
}
