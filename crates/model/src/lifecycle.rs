//! The life of a job in the burst buffer, as one value with ordered transitions.
//!
//! The phases carry the workload manager's verbs. A phase names the work that is *in progress*: a job in `DataIn` may
//! have been staged in partly, a job in `PreRun` has been staged in completely. That makes every phase the point from
//! which the job is carried on after a crash.
//!
//! Invariant that protects the data: once the script may have run (`Running`), `Teardown` is entered only from
//! `DataOut` (everything is staged out) or from `Kept` (its owner decided).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a job stands. The order of the variants is the order of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Space is being made.
    Setup,
    /// Input is being staged in.
    DataIn,
    /// The instance is being mounted.
    PreRun,
    /// The script runs.
    Running,
    /// The instance is being unmounted.
    PostRun,
    /// Results are being staged out.
    DataOut,
    /// Stage-out failed or was stopped: the data is kept until its owner decides.
    Kept,
    /// Space is being given back.
    Teardown,
    /// Nothing of the job is left.
    Ended,
}

impl Phase {
    /// Every phase, in the order of life.
    pub const ALL: [Phase; 9] = [
        Phase::Setup,
        Phase::DataIn,
        Phase::PreRun,
        Phase::Running,
        Phase::PostRun,
        Phase::DataOut,
        Phase::Kept,
        Phase::Teardown,
        Phase::Ended,
    ];

    /// The name used in the registry and in JSON: the workload manager's verb where there is one.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Setup => "setup",
            Phase::DataIn => "data_in",
            Phase::PreRun => "pre_run",
            Phase::Running => "running",
            Phase::PostRun => "post_run",
            Phase::DataOut => "data_out",
            Phase::Kept => "kept",
            Phase::Teardown => "teardown",
            Phase::Ended => "ended",
        }
    }

    /// The phase with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// The script may have run, so that the instance may hold results that exist nowhere else.
    pub fn may_hold_results(self) -> bool {
        matches!(self, Phase::Running | Phase::PostRun | Phase::DataOut | Phase::Kept)
    }

    /// Whether a job may go from here to `next`. Staying is always allowed, so that repeating a step after a crash
    /// is no error.
    pub fn may_become(self, next: Phase) -> bool {
        use Phase::*;
        self == next
            || match self {
                Setup => matches!(next, DataIn | Teardown),
                DataIn => matches!(next, PreRun | Teardown),
                PreRun => matches!(next, Running | Teardown),
                Running => matches!(next, PostRun | Kept),
                PostRun => matches!(next, DataOut | Kept),
                // Back to PostRun: after a crash the mounts are looked at again before the rest is staged out.
                DataOut => matches!(next, Teardown | Kept | PostRun),
                Kept => matches!(next, PostRun | Teardown),
                Teardown => next == Ended,
                Ended => false,
            }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde_and_lead_back() {
        for phase in Phase::ALL {
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{phase}\""));
            assert_eq!(Phase::from_name(phase.name()), Some(phase));
        }
        assert_eq!(Phase::from_name("data-in"), None);
    }

    #[test]
    fn results_are_given_up_only_after_stage_out_or_on_request() {
        let into_teardown: Vec<Phase> = Phase::ALL
            .into_iter()
            .filter(|p| p.may_become(Phase::Teardown) && p.may_hold_results())
            .collect();
        assert_eq!(into_teardown, [Phase::DataOut, Phase::Kept]);
    }

    #[test]
    fn every_phase_reaches_the_end() {
        for start in Phase::ALL {
            let mut seen = vec![start];
            let mut next = 0;
            while next < seen.len() {
                let from = seen[next];
                for to in Phase::ALL {
                    if from.may_become(to) && !seen.contains(&to) {
                        seen.push(to);
                    }
                }
                next += 1;
            }
            assert!(seen.contains(&Phase::Ended), "{start} cannot end");
        }
    }
}
