//! The rules of a job's steps, one by one. That they lose nothing together is shown by `tests/job_simulation.rs`.

use super::*;
use Phase::*;

fn at(phase: Phase) -> JobState {
    JobState { phase, ..JobState::new(false) }
}

fn fail() -> Event {
    Event::Failed { cause: "cause".into() }
}

/// Where the job is and what it does after one event.
fn after(job: JobState, event: Event) -> (Phase, Option<Effect>) {
    let taken = step(&job, event);
    (taken.next.phase, taken.effect)
}

#[test]
fn a_smooth_job_goes_through_all_phases_once() {
    let mut job = JobState::new(false);
    let mut event = Event::Begin;
    let mut effects = vec![];
    loop {
        let taken = step(&job, event);
        job = taken.next;
        let Some(effect) = taken.effect else { break };
        effects.push(effect);
        event = match effect {
            Effect::RunScript => Event::ScriptEnded(ScriptEnd::Exited(3)),
            _ => Event::Done,
        };
    }
    use Effect::*;
    assert_eq!(effects, [MakeInstance, StageIn, Mount, RunScript, Unmount, StageOut, Teardown]);
    assert_eq!((job.phase, job.script, job.failure), (Ended, Some(ScriptEnd::Exited(3)), None));
}

#[test]
fn a_failure_goes_where_no_result_is_lost() {
    for phase in [Setup, DataIn, PreRun] {
        assert_eq!(after(at(phase), fail()), (Teardown, Some(Effect::Teardown)), "{phase}");
    }
    assert_eq!(after(at(Running), fail()), (PostRun, Some(Effect::Unmount)));
    for phase in [PostRun, DataOut] {
        assert_eq!(after(at(phase), fail()), (Kept, None), "{phase}");
    }
    let stuck = step(&at(Phase::Teardown), fail()).next;
    assert!(stuck.stuck && stuck.is_at_rest() && stuck.phase == Teardown);
}

#[test]
fn the_first_failure_is_the_one_that_is_told() {
    let first = step(&at(DataIn), fail()).next;
    let second = step(&first, Event::Failed { cause: "later".into() }).next;
    assert_eq!(second.failure, Some(Failure { phase: DataIn, cause: "cause".into() }));
}

#[test]
fn the_scripts_own_failure_does_not_keep_results_back() {
    for end in [ScriptEnd::Exited(0), ScriptEnd::Exited(1), ScriptEnd::Signaled(9)] {
        let taken = step(&at(Running), Event::ScriptEnded(end));
        assert_eq!((taken.next.phase, taken.next.failure), (PostRun, None));
    }
}

#[test]
fn the_first_interrupt_ends_the_script_and_the_second_keeps_the_data() {
    let once = step(&at(Running), Event::Interrupt);
    assert_eq!(once.effect, Some(Effect::EndScript { force: false }));
    let twice = step(&once.next, Event::Interrupt);
    assert_eq!(twice.effect, Some(Effect::EndScript { force: true }));
    for (job, next) in [(once.next, (DataOut, Some(Effect::StageOut))), (twice.next, (Kept, None))] {
        let unmounting = step(&job, Event::ScriptEnded(ScriptEnd::Signaled(15))).next;
        assert_eq!(after(unmounting, Event::Done), next);
    }
    let staging = step(&at(DataOut), Event::Interrupt);
    assert_eq!(staging.effect, None, "one interrupt does not stop a stage-out");
    let stopped = step(&staging.next, Event::Interrupt);
    assert_eq!(stopped.effect, Some(Effect::StopWork));
    assert_eq!(after(stopped.next, fail()), (Kept, None));
}

#[test]
fn an_interrupt_before_the_script_means_that_it_is_not_started() {
    for phase in [Setup, DataIn, PreRun] {
        let stopped = step(&at(phase), Event::Interrupt);
        assert_eq!(stopped.effect, Some(Effect::StopWork), "{phase}");
        // The work may have been faster than the interrupt.
        for event in [Event::Done, fail()] {
            let taken = step(&stopped.next, event);
            assert_eq!((taken.next.phase, taken.effect), (Teardown, Some(Effect::Teardown)), "{phase}");
            assert!(taken.next.failure.is_some());
        }
    }
}

#[test]
fn recovery_carries_every_phase_on() {
    for phase in Phase::ALL {
        let expected = match phase {
            Setup | DataIn | PreRun | Teardown => (Teardown, Some(Effect::Teardown)),
            Running => (Running, Some(Effect::EndScript { force: true })),
            PostRun | DataOut | Kept => (PostRun, Some(Effect::Unmount)),
            Ended => (Ended, None),
        };
        for recovery in [Recovery::Finish, Recovery::Discard] {
            assert_eq!(after(at(phase), Event::Recover(recovery)), expected, "{phase}");
        }
    }
    let finish = step(&at(DataOut), Event::Recover(Recovery::Finish)).next;
    assert_eq!(after(finish, Event::Done), (DataOut, Some(Effect::StageOut)));
    let discard = step(&at(DataOut), Event::Recover(Recovery::Discard)).next;
    assert_eq!(after(discard, Event::Done), (Teardown, Some(Effect::Teardown)));
}

#[test]
fn a_recovery_blames_what_fails_this_time() {
    let kept = step(&at(DataOut), Event::Failed { cause: "the disk is full".into() }).next;
    let begun = step(&kept, Event::Recover(Recovery::Finish)).next;
    assert_eq!(begun.failure, None, "what failed is tried again");
    let unmounted = step(&begun, Event::Done).next;
    let again = step(&unmounted, Event::Failed { cause: "the directory is gone".into() }).next;
    assert_eq!(again.failure.map(|failure| failure.cause).as_deref(), Some("the directory is gone"));
    let ended = step(&unmounted, Event::Done).next;
    assert_eq!((ended.phase, ended.failure), (Teardown, None));
}

#[test]
fn a_script_that_cannot_be_ended_stops_its_recovery() {
    for recovery in [Recovery::Finish, Recovery::Discard] {
        let ending = step(&at(Running), Event::Recover(recovery)).next;
        let failed = step(&ending, fail());
        assert_eq!((failed.next.phase, failed.effect), (Running, None));
        assert!(failed.next.is_at_rest());
        let again = step(&failed.next, Event::Recover(recovery));
        assert!(!again.next.is_at_rest());
    }
}

#[test]
fn a_kept_job_rests_after_its_stage_out_until_it_is_asked_for() {
    let kept = step(&JobState { keep: true, ..at(DataOut) }, Event::Done);
    assert_eq!((kept.next.phase, kept.effect), (Kept, None));
    assert!(kept.next.is_at_rest());
    let late = step(&at(Running), Event::KeepRequested).next;
    assert!(late.keep);
    let asked = step(&kept.next, Event::Recover(Recovery::Finish)).next;
    assert!(!asked.keep);
}

#[test]
fn events_without_meaning_change_nothing() {
    for job in [at(Kept), at(Ended)] {
        for event in [Event::Begin, Event::Done, Event::ScriptEnded(ScriptEnd::Exited(0))] {
            assert_eq!(step(&job, event), Step { next: job.clone(), effect: None });
        }
    }
    // A stray `Done` must not be taken for the end of the script.
    assert_eq!(after(at(Running), Event::Done), (Running, None));
}

#[test]
fn steps_follow_the_life_cycle() {
    for phase in Phase::ALL {
        for keep in [false, true] {
            for wish in [Wish::None, Wish::Stop, Wish::Halt] {
                let job = JobState { keep, wish, ..at(phase) };
                for event in
                    [Event::Begin, Event::Done, fail(), Event::Interrupt, Event::Recover(Recovery::Finish)]
                {
                    let next = step(&job, event.clone()).next.phase;
                    assert!(phase.may_become(next), "{phase} to {next} by {event:?}");
                }
            }
        }
    }
}
