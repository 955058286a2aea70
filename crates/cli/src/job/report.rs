//! How a job ended: the status of the command and the closing words.
//!
//! Pure.

use crate::exit::Exit;
use forebay_controller::job::{Failure, JobState, ScriptEnd};
use forebay_model::lifecycle::Phase;

/// The status of the command: the script's own, unless something of ours went wrong.
pub fn exit(state: &JobState, signal: Option<i32>) -> Exit {
    let Some(failure) = &state.failure else { return script_exit(state.script) };
    let interrupted = state.script.is_none().then_some(signal).flatten();
    match (failure.phase, interrupted) {
        (Phase::Setup | Phase::DataIn | Phase::PreRun, Some(signal)) => signal_exit(signal),
        (Phase::DataIn, None) => Exit::StageIn,
        (Phase::Setup | Phase::PreRun | Phase::Running, _) => Exit::SetUp,
        (Phase::PostRun | Phase::DataOut | Phase::Kept, _) => Exit::StageOut,
        (Phase::Teardown | Phase::Ended, _) => Exit::Software,
    }
}

fn script_exit(end: Option<ScriptEnd>) -> Exit {
    match end {
        Some(ScriptEnd::Exited(status)) => Exit::Script(u8::try_from(status & 0xff).unwrap_or(255)),
        Some(ScriptEnd::Signaled(signal)) => signal_exit(signal),
        None => Exit::Success,
    }
}

/// The status of a command that a signal ended.
pub fn signal_exit(signal: i32) -> Exit {
    Exit::Script(u8::try_from((128 + signal) & 0xff).unwrap_or(255))
}

/// What the user has to know and do when a job did not simply end.
pub fn closing(state: &JobState, token: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(failure) = &state.failure {
        lines.push(format!("job {token} failed {}", told(failure)));
    }
    if state.phase == Phase::Kept {
        lines.push(format!(
            "the data of job {token} is kept: `forebay recover {token}` stages it out and cleans up, \
             `forebay recover --discard {token}` gives it up"
        ));
    } else if state.stuck {
        lines.push(format!("job {token} could not be finished: `forebay recover {token}` tries again"));
    }
    lines
}

/// `in stage-out: no space left`: in what work, and why.
pub fn told(failure: &Failure) -> String {
    format!("{}: {}", doing(failure.phase), failure.cause)
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "while its space was made",
        Phase::DataIn => "in stage-in, so the script was not run",
        Phase::PreRun => "while its space was mounted, so the script was not run",
        Phase::Running => "when its script was to run",
        Phase::PostRun => "while its space was unmounted",
        Phase::DataOut | Phase::Kept => "in stage-out",
        Phase::Teardown | Phase::Ended => "while its space was given back",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(phase: Option<Phase>, script: Option<ScriptEnd>) -> JobState {
        let failure = phase.map(|phase| Failure { phase, cause: "it broke".into() });
        JobState { failure, script, ..JobState::new(false) }
    }

    #[test]
    fn the_scripts_status_counts_unless_forebay_failed() {
        let script = Some(ScriptEnd::Exited(7));
        assert_eq!(exit(&ended(None, script), None), Exit::Script(7));
        assert_eq!(exit(&ended(None, Some(ScriptEnd::Signaled(9))), None), Exit::Script(137));
        assert_eq!(exit(&ended(Some(Phase::DataOut), script), None), Exit::StageOut);
        assert_eq!(exit(&ended(Some(Phase::DataIn), None), None), Exit::StageIn);
        assert_eq!(exit(&ended(Some(Phase::PreRun), None), None), Exit::SetUp);
    }

    #[test]
    fn an_interrupt_before_the_script_is_no_failure_of_ours() {
        assert_eq!(exit(&ended(Some(Phase::DataIn), None), Some(2)), Exit::Script(130));
        assert_eq!(exit(&ended(Some(Phase::DataOut), Some(ScriptEnd::Exited(0))), Some(2)), Exit::StageOut);
    }

    #[test]
    fn kept_data_comes_with_the_way_to_it() {
        let state = JobState { phase: Phase::Kept, ..ended(Some(Phase::DataOut), None) };
        let text = closing(&state, "100001").join("\n");
        assert!(text.contains("it broke") && text.contains("forebay recover --discard 100001"), "{text}");
    }
}
