//! What the driver and the interrupt hook share: the job's state and a hold on the work in progress.
//!
//! The lock is held for moments only, never while work is done. Work that begins looks at the state under the same lock
//! as it is put into reach of the hook, so that no interrupt falls between the two.

use crate::job::script::{KILL_WAIT, ScriptGroup};
use forebay_controller::job::{Effect, Event, JobState, Wish, step};
use forebay_stager::CancelToken;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// State and work of one job.
pub struct Shared {
    inner: Mutex<Inner>,
}

struct Inner {
    state: JobState,
    script: Option<ScriptGroup>,
    staging: Option<CancelToken>,
}

impl Shared {
    /// A job that has no work in progress.
    pub fn new(state: JobState) -> Shared {
        Shared { inner: Mutex::new(Inner { state, script: None, staging: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the state.
    pub fn state(&self) -> JobState {
        self.lock().state.clone()
    }

    /// Changes the state.
    pub fn change<T>(&self, change: impl FnOnce(&mut JobState) -> T) -> T {
        change(&mut self.lock().state)
    }

    /// Puts a staging within reach of interrupts. It is cancelled at once when the wish for that is there already.
    pub fn staging_begins(&self, stops_at: fn(Wish) -> bool) -> CancelToken {
        let mut inner = self.lock();
        let token = CancelToken::new();
        if stops_at(inner.state.wish) {
            token.cancel();
        }
        inner.staging = Some(token.clone());
        token
    }

    /// The staging is over.
    pub fn staging_ends(&self) {
        self.lock().staging = None;
    }

    /// Puts the script within reach of interrupts; ends it at once when one came before.
    pub fn script_begins(&self, group: ScriptGroup) {
        let mut inner = self.lock();
        inner.script = Some(group);
        match inner.state.wish {
            Wish::None => {}
            Wish::Stop => group.terminate(),
            Wish::Halt | Wish::Discard => group.kill(),
        }
    }

    /// The script is over.
    pub fn script_ends(&self) {
        self.lock().script = None;
    }

    /// Called by the interrupt hook.
    pub fn interrupt(self: &std::sync::Arc<Self>) {
        let mut inner = self.lock();
        let taken = step(&inner.state, Event::Interrupt);
        let first = inner.state.wish == Wish::None;
        inner.state = taken.next;
        match taken.effect {
            Some(Effect::EndScript { force: true }) => inner.end_script(true),
            Some(Effect::EndScript { force: false }) => {
                inner.end_script(false);
                self.kill_later(inner.script);
            }
            Some(Effect::StopWork) => {
                if let Some(staging) = &inner.staging {
                    staging.cancel();
                }
            }
            _ => {}
        }
        announce(&inner.state, first);
    }

    /// A script that ignores the signal is killed after a while, as Slurm does.
    fn kill_later(self: &std::sync::Arc<Self>, script: Option<ScriptGroup>) {
        let Some(group) = script else { return };
        let shared = std::sync::Arc::clone(self);
        let spawned = std::thread::Builder::new().name("kill-wait".into()).spawn(move || {
            std::thread::sleep(KILL_WAIT.max(Duration::from_secs(1)));
            if shared.lock().script.is_some() {
                group.kill();
            }
        });
        if let Err(error) = spawned {
            crate::say::note(format_args!(
                "cannot watch the script's end ({error}): a second interrupt kills it"
            ));
        }
    }
}

impl Inner {
    fn end_script(&self, force: bool) {
        match self.script {
            Some(group) if force => group.kill(),
            Some(group) => group.terminate(),
            None => {}
        }
    }
}

/// Tells what the interrupt did and what the next one would do.
fn announce(state: &JobState, first: bool) {
    use forebay_model::lifecycle::Phase;
    let text = match (state.phase, first) {
        (Phase::Setup | Phase::DataIn | Phase::PreRun, _) => {
            "interrupted: cleaning up, the script is not run"
        }
        (Phase::Running, true) => {
            "interrupted: ending the script, then staging out; interrupt again to kill it and keep the data without staging out"
        }
        (Phase::Running, false) => "interrupted again: killing the script; its data is kept",
        (Phase::PostRun | Phase::DataOut, true) => {
            "interrupted: finishing the stage-out; interrupt again to stop it and keep the data"
        }
        (Phase::PostRun | Phase::DataOut, false) => {
            "interrupted again: stopping the stage-out; the data is kept"
        }
        (Phase::Kept | Phase::Teardown | Phase::Ended, _) => return,
    };
    // The terminal echoes ^C at the start of the line.
    crate::say::plain(format_args!("\nforebay: {text}\n"));
}
