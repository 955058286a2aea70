//! `forebay recover`: what interrupted jobs left is finished or discarded.
//!
//! A job needs recovery when the process that carried it is gone and it has not ended. Which effects follow, the pure
//! step function of the controller says; this module finds the jobs and takes them over, one process each.

use super::persistent::forget;
use super::run::conclude;
use crate::args::Recover;
use crate::config::PoolOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::job::driver::{Driver, DriverOptions};
use crate::job::report::{signal_exit, told};
use crate::job::script::adopt_orphans;
use crate::machine::{Machine, Places};
use crate::say;
use forebay_agent::AgentError;
use forebay_controller::job::{Event, Recovery};
use forebay_controller::process::ProcessId;
use forebay_controller::record::Job;
use forebay_controller::registry::Orphans;
use forebay_model::lifecycle::Phase;

/// Finds and recovers jobs.
pub fn recover(places: Places<'_>, arguments: &Recover) -> Result<Exit, CommandError> {
    adopt_orphans();
    let machine = Machine::open(places, &PoolOptions::default())?;
    let orphans = orphans(&machine)?;
    if arguments.list {
        list(&machine, &orphans)?;
        return Ok(Exit::Success);
    }
    let interrupts = Interrupts::install().map_err(CommandError::Signals)?;
    let recovery = if arguments.discard { Recovery::Discard } else { Recovery::Finish };
    let mut exit = Exit::Success;
    let chosen = choose(&machine, &orphans, &arguments.tokens)?;
    for job in chosen {
        if let Some(signal) = interrupts.last_signal() {
            say::note(format_args!("interrupted: job {} and those after it are left as they are", job.token));
            return Ok(signal_exit(signal));
        }
        let ended = one(&machine, job, recovery, &interrupts)?;
        if exit == Exit::Success {
            exit = ended;
        }
    }
    if arguments.tokens.is_empty() {
        half_done(&machine, &orphans)?;
        stale(&machine)?;
    }
    Ok(exit)
}

/// Told by every command that works with space: a job that was cut off must not be forgotten.
pub fn notice(machine: &Machine) -> Result<(), CommandError> {
    for job in &orphans(machine)?.jobs {
        say::note(describe(job));
    }
    Ok(())
}

fn orphans(machine: &Machine) -> Result<Orphans, CommandError> {
    // A process that cannot be looked at is taken for living: its job is left alone.
    Ok(machine.registry.orphans(&|process: ProcessId| process.is_alive().unwrap_or(true))?)
}

fn describe(job: &Job) -> String {
    let what = match job.phase {
        Phase::Kept => "keeps its data",
        Phase::Setup | Phase::DataIn | Phase::PreRun => "was cut off before its script ran",
        Phase::Running => "was cut off while its script ran",
        Phase::PostRun | Phase::DataOut => "was cut off before its results were staged out",
        Phase::Teardown | Phase::Ended => "was cut off while its space was given back",
    };
    let token = &job.token;
    let why =
        job.failure.as_ref().map(|failure| format!(" (it failed {})", told(failure))).unwrap_or_default();
    format!(
        "job {token} ({}) {what}{why}: `forebay recover {token}` finishes it, `forebay recover --discard {token}` gives its data up",
        say::name(&job.script.name)
    )
}

fn list(machine: &Machine, orphans: &Orphans) -> Result<(), CommandError> {
    let jobs = orphans.jobs.iter().map(describe);
    let persistents = orphans.persistents.iter().map(|instance| {
        let label = &instance.label;
        format!("persistent instance {label} is half made or half removed: `forebay recover` removes it")
    });
    let mut lines: Vec<String> = jobs.chain(persistents).collect();
    let recoverable = lines.len();
    lines.extend(unknown_instances(machine)?);
    if recoverable == 0 {
        lines.push("nothing to recover".into());
    }
    say::answer(lines.join("\n") + "\n").map_err(CommandError::Output)
}

/// Without names: all, but for those that their owner wanted to keep.
fn choose(machine: &Machine, orphans: &Orphans, tokens: &[String]) -> Result<Vec<Job>, CommandError> {
    if tokens.is_empty() {
        let wanted = |job: &&Job| !(job.phase == Phase::Kept && job.keep && job.failure.is_none());
        return Ok(orphans.jobs.iter().filter(wanted).cloned().collect());
    }
    tokens.iter().map(|token| named(machine, orphans, token)).collect()
}

fn named(machine: &Machine, orphans: &Orphans, token: &str) -> Result<Job, CommandError> {
    if let Some(job) = orphans.jobs.iter().find(|job| job.token == token) {
        return Ok(job.clone());
    }
    match machine.registry.job(token)? {
        Some(job) => Err(CommandError::JobRuns { token: token.into(), pid: job.owner.pid }),
        None => {
            let known = orphans.jobs.iter().map(|job| job.token.clone()).collect();
            Err(CommandError::UnknownJob { token: token.into(), known })
        }
    }
}

fn one(
    machine: &Machine,
    job: Job,
    recovery: Recovery,
    interrupts: &Interrupts,
) -> Result<Exit, CommandError> {
    let me = ProcessId::current().map_err(CommandError::file("read", "/proc/self/stat"))?;
    let job = machine.registry.take_over(job.session, job.owner, me)?;
    let driver = Driver::new(machine, job, DriverOptions::default());
    let outcome = driver.run(Event::Recover(recovery), interrupts)?;
    conclude(&outcome, interrupts, false);
    let rests = outcome.state.phase == Phase::Ended;
    Ok(if rests { Exit::Success } else { Exit::StageOut })
}

/// Persistent instances that were being made or removed.
fn half_done(machine: &Machine, orphans: &Orphans) -> Result<(), CommandError> {
    for instance in &orphans.persistents {
        forget(machine, instance)?;
        say::note(format_args!("half-made or half-removed persistent instance {} removed", instance.label));
    }
    for unknown in unknown_instances(machine)? {
        say::note(unknown);
    }
    Ok(())
}

/// Instances on the disk that the registry does not know: never removed by themselves, somebody's data may be in them.
fn unknown_instances(machine: &Machine) -> Result<Vec<String>, CommandError> {
    let known: Vec<_> = machine.registry.instances()?.iter().map(|instance| instance.id).collect();
    let unknown = machine.agent.instances()?.into_iter().filter(|id| !known.contains(id));
    Ok(unknown
        .map(|id| {
            let directory = machine.agent.directory(id);
            format!("{directory:?} holds instance {id}, which the registry does not know: look at it and remove it by hand")
        })
        .collect())
}

/// Dead mounts of instances that nobody uses.
fn stale(machine: &Machine) -> Result<(), CommandError> {
    for instance in machine.registry.persistents()? {
        match machine.agent.clean_stale(instance.id) {
            Ok(()) | Err(AgentError::InUse { .. } | AgentError::UnknownInstance { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
