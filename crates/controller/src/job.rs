//! What a job does next, as a pure function.
//!
//! A driver keeps a [`JobState`], hands every [`Event`] to [`step`], records `next.phase` (and outcome) in the registry
//! **before** it carries out the effect, and reports the effect's end as the next event. At most one piece of work is
//! in progress; [`Effect::StopWork`] and [`Effect::EndScript`] with a running script only hurry the work in progress,
//! whose end is still reported by its own event.
//!
//! Crash: the phase in the registry names the work that was in progress, every effect is idempotent, so a new process
//! builds `JobState` from the record ([`crate::record::Job::state`]) and sends [`Event::Recover`].
//!
//! Rules. Failure before the script ran: teardown, nothing of value is in a fresh instance, and nothing is deleted from
//! a persistent one. The script's own failure changes nothing: results are staged out. A failed or stopped stage-out, or
//! a failed unmount, keeps the data. Results are given up only by [`Recovery::Discard`].

use forebay_model::lifecycle::Phase;
use serde::{Deserialize, Serialize};

/// A job as far as its next step depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// The work in progress.
    pub phase: Phase,
    /// Keep the instance after stage-out.
    pub keep: bool,
    /// How the script ended, once it did.
    pub script: Option<ScriptEnd>,
    /// What went wrong first; later failures do not replace it. A recovery begins without one.
    pub failure: Option<Failure>,
    /// What the user asked for meanwhile. Not stored: a new process asks anew.
    pub wish: Wish,
    /// Another process than the first carries the job. Not stored.
    pub recovering: bool,
    /// The work in progress failed and only a later recovery can carry on. Not stored.
    pub stuck: bool,
}

/// What interrupts and recovery ask of the work that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Carry on.
    #[default]
    None,
    /// Interrupted once: run nothing more, save the results.
    Stop,
    /// Interrupted twice: run nothing more, stage nothing more, keep the data.
    Halt,
    /// Recovery is to give the results up.
    Discard,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptEnd {
    /// With this status, 0 to 255.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// What went wrong, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The work that was in progress.
    pub phase: Phase,
    /// For the user.
    pub cause: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The job is recorded; begin.
    Begin,
    /// The last work effect is done.
    Done,
    /// The last work effect failed, or was stopped by [`Effect::StopWork`].
    Failed {
        /// For the user.
        cause: String,
    },
    /// The script ended, however.
    ScriptEnded(ScriptEnd),
    /// Ctrl-C or SIGTERM.
    Interrupt,
    /// `--keep` asked for while the job runs.
    KeepRequested,
    /// Its process is gone; another one carries the job on. Nothing of the old one is in progress any more, except
    /// perhaps the script itself.
    Recover(Recovery),
}

/// What recovery is to do with results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Stage them out.
    Finish,
    /// Give them up.
    Discard,
}

/// What the driver has to carry out. All are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make the job's own instance real (nothing to do without one).
    MakeInstance,
    /// Carry out all `stage_in`s that are not done.
    StageIn,
    /// Mount all configurations.
    Mount,
    /// Start the script, once recovery can find it; report `ScriptEnded`, or `Failed` if it cannot be started.
    RunScript,
    /// End the script's process group. While this driver runs the script: send the signal (`force`: SIGKILL) and wait for
    /// the `ScriptEnded` that follows. During recovery: wait until the group is gone and report `Done`.
    EndScript {
        /// Do not ask, kill.
        force: bool,
    },
    /// Unmount all configurations.
    Unmount,
    /// Carry out all `stage_out`s that are not done (none is fine).
    StageOut,
    /// Ask the staging or making in progress to stop; it then reports `Failed` (or `Done` if it was faster).
    StopWork,
    /// Unmount what is still mounted, destroy the job's own instance, and give its space back.
    Teardown,
}

/// The answer of [`step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The job after the event. Record it before carrying out the effect.
    pub next: JobState,
    /// What to carry out. `None`: wait for the work in progress, or, when [`JobState::is_at_rest`], nothing.
    pub effect: Option<Effect>,
}

impl JobState {
    /// A job that begins.
    pub fn new(keep: bool) -> JobState {
        JobState {
            phase: Phase::Setup,
            keep,
            script: None,
            failure: None,
            wish: Wish::None,
            recovering: false,
            stuck: false,
        }
    }

    /// Nothing is in progress and nothing will happen by itself: the driver can end.
    pub fn is_at_rest(&self) -> bool {
        self.stuck || matches!(self.phase, Phase::Kept | Phase::Ended)
    }

    /// The same job, with this cause unless an earlier one is known.
    fn blamed(mut self, cause: &str) -> JobState {
        let phase = self.phase;
        self.failure.get_or_insert_with(|| Failure { phase, cause: cause.to_owned() });
        self
    }

    /// Interrupted or discarded: nothing new is begun before the script.
    fn is_stopped(&self) -> bool {
        self.wish != Wish::None
    }
}

/// What a job in `job` does about `event`.
///
/// An event that makes no sense in this state (a `Done` without work, an interrupt during teardown) changes nothing.
pub fn step(job: &JobState, event: Event) -> Step {
    let next = job.clone();
    match event {
        Event::Begin if job.phase == Phase::Setup => then(next, Phase::Setup, Effect::MakeInstance),
        Event::Begin => stay(next),
        Event::Done => done(next),
        Event::Failed { cause } => failed(next, &cause),
        Event::ScriptEnded(end) => script_ended(next, end),
        Event::Interrupt => interrupted(next),
        Event::KeepRequested => stay(JobState { keep: true, ..next }),
        Event::Recover(recovery) => recovered(next, recovery),
    }
}

fn stay(next: JobState) -> Step {
    Step { next, effect: None }
}

fn then(mut next: JobState, phase: Phase, effect: Effect) -> Step {
    next.phase = phase;
    Step { next, effect: Some(effect) }
}

fn kept(job: JobState) -> Step {
    stay(JobState { phase: Phase::Kept, ..job })
}

fn done(job: JobState) -> Step {
    match job.phase {
        Phase::Setup | Phase::DataIn | Phase::PreRun if job.is_stopped() => {
            then(job.blamed("interrupted before the script was started"), Phase::Teardown, Effect::Teardown)
        }
        Phase::Setup => then(job, Phase::DataIn, Effect::StageIn),
        Phase::DataIn => then(job, Phase::PreRun, Effect::Mount),
        Phase::PreRun => then(job, Phase::Running, Effect::RunScript),
        // A script that runs ends by `ScriptEnded`; `Done` is recovery's word that a forsaken one is gone.
        Phase::Running if job.recovering => then(job, Phase::PostRun, Effect::Unmount),
        Phase::PostRun => unmounted(job),
        Phase::DataOut if job.keep => kept(job),
        Phase::DataOut => then(job, Phase::Teardown, Effect::Teardown),
        Phase::Teardown => stay(JobState { phase: Phase::Ended, ..job }),
        Phase::Running | Phase::Kept | Phase::Ended => stay(job),
    }
}

fn unmounted(job: JobState) -> Step {
    match job.wish {
        Wish::Discard => then(job, Phase::Teardown, Effect::Teardown),
        Wish::Halt => kept(job.blamed("interrupted twice: stage-out was not begun")),
        Wish::None | Wish::Stop => then(job, Phase::DataOut, Effect::StageOut),
    }
}

fn failed(job: JobState, cause: &str) -> Step {
    let job = job.blamed(cause);
    match job.phase {
        Phase::Setup | Phase::DataIn | Phase::PreRun => then(job, Phase::Teardown, Effect::Teardown),
        // A forsaken script that cannot be ended may still write: neither stage out nor give up under its hands.
        Phase::Running if job.recovering => stay(JobState { stuck: true, ..job }),
        // The script could not be started. From `Running` on results are saved; without any that costs nothing.
        Phase::Running => then(job, Phase::PostRun, Effect::Unmount),
        Phase::PostRun | Phase::DataOut => kept(job),
        Phase::Teardown => stay(JobState { stuck: true, ..job }),
        Phase::Kept | Phase::Ended => stay(job),
    }
}

fn script_ended(mut job: JobState, end: ScriptEnd) -> Step {
    if job.phase != Phase::Running {
        return stay(job);
    }
    job.script = Some(end);
    then(job, Phase::PostRun, Effect::Unmount)
}

fn interrupted(mut job: JobState) -> Step {
    job.wish = match job.wish {
        Wish::None => Wish::Stop,
        Wish::Stop => Wish::Halt,
        other => other,
    };
    let effect = match job.phase {
        Phase::Setup | Phase::DataIn | Phase::PreRun => Some(Effect::StopWork),
        Phase::Running => Some(Effect::EndScript { force: job.wish == Wish::Halt }),
        Phase::DataOut if job.wish == Wish::Halt => Some(Effect::StopWork),
        Phase::PostRun | Phase::DataOut | Phase::Kept | Phase::Teardown | Phase::Ended => None,
    };
    Step { next: job, effect }
}

fn recovered(mut job: JobState, recovery: Recovery) -> Step {
    job.recovering = true;
    job.stuck = false;
    // What failed then is tried again now: only what fails this time is to be blamed.
    job.failure = None;
    job.wish = match recovery {
        Recovery::Finish => Wish::None,
        Recovery::Discard => Wish::Discard,
    };
    match job.phase {
        // The script has not run: what is there is a copy, or nothing.
        Phase::Setup | Phase::DataIn | Phase::PreRun | Phase::Teardown => {
            then(job, Phase::Teardown, Effect::Teardown)
        }
        Phase::Running => then(job, Phase::Running, Effect::EndScript { force: true }),
        // Asked for by name: the data is not to be kept any longer.
        Phase::Kept => then(JobState { keep: false, ..job }, Phase::PostRun, Effect::Unmount),
        Phase::PostRun | Phase::DataOut => then(job, Phase::PostRun, Effect::Unmount),
        Phase::Ended => stay(job),
    }
}

#[cfg(test)]
mod tests;
