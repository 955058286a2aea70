//! Whether what a request waits for is so, cannot become so, or is still to come.
//!
//! Read from the rows alone, so that it does not matter which request brought it about, or whether the controller was
//! started again meanwhile.

use super::effect::Answer;
use super::refusal::Refusal;
use super::row::*;
use super::step::Step;
use super::waiting::{Until, Waiting};
use crate::request::StageDirection;
use forebay_model::state::Goal;

type Verdict = Option<Result<Answer, Refusal>>;

const DONE: Verdict = Some(Ok(Answer::Done));

impl Step<'_> {
    /// The answer, if there is one by now.
    pub fn verdict(&self, waiting: &Waiting) -> Verdict {
        let Some(session) = self.state.tables.sessions.get(&waiting.session) else {
            return match waiting.until {
                Until::Gone => DONE,
                _ => Some(Err(Refusal::TornDown { token: waiting.token.clone() })),
            };
        };
        let torn_down = || Some(Err(Refusal::TornDown { token: session.token.clone() }));
        let leaving = session.state.goal == Goal::Destroy;
        match waiting.until {
            Until::Ready | Until::StagedIn | Until::Mounted if leaving => torn_down(),
            Until::StagedOut if session.hurry => torn_down(),
            Until::Ready => self.readiness(session),
            Until::StagedIn => match self.readiness(session) {
                DONE => self.staged(session, StageDirection::In),
                other => other,
            },
            Until::Mounted => match self.readiness(session) {
                DONE => self.mounted(session),
                other => other,
            },
            Until::Unmounted => self.unmounted(session),
            Until::StagedOut => match self.unmounted(session) {
                DONE => self.staged(session, StageDirection::Out),
                other => other,
            },
            Until::Gone => self.going(session),
            Until::FreeForJob(_) | Until::FreeForPersistent(_) => None,
        }
    }

    /// All instances can be used; or one never will be as things are.
    fn readiness(&self, session: &SessionRow) -> Verdict {
        let mut waits = false;
        for instance in self.used_instances(session.id) {
            let Some(row) = self.state.tables.instances.get(&instance) else { continue };
            if !row.intact {
                return Some(Err(Refusal::NotIntact { label: row.label.clone() }));
            }
            for fragment in self.state.links.fragments.of(&instance) {
                let Some(row) = self.state.tables.fragments.get(fragment) else { continue };
                if row.step == FragmentStep::Serving {
                    continue;
                }
                waits = true;
                if let Some(trouble) = self.trouble(&Subject::Fragment(*fragment), &row.node) {
                    return Some(Err(trouble));
                }
            }
        }
        if waits { None } else { DONE }
    }

    /// Why a subject does not come further by itself.
    fn trouble(&self, subject: &Subject, node: &str) -> Option<Refusal> {
        let task = self.task_for(subject);
        let what = match task.map(|task| task.verb) {
            Some(Verb::Make) | None => "making space",
            Some(Verb::Serve) => "starting the file servers",
            Some(Verb::Remove) => "removing space",
            Some(Verb::Mount) => "mounting",
            Some(Verb::Unmount) => "unmounting",
            Some(Verb::Stage) => "staging",
        };
        if let Some(task) = task.filter(|task| task.blown) {
            // What the client says then is that it reaches nobody.
            if let Some(node) = self.storage_away(subject).filter(|_| task.verb == Verb::Mount) {
                return Some(Refusal::NodeLost { node, what });
            }
            let text = task.failure.clone().unwrap_or_default();
            return Some(Refusal::Failed { what, node: node.to_owned(), text });
        }
        let lost = !self.state.is_online(node);
        lost.then(|| Refusal::NodeLost { node: node.to_owned(), what })
    }

    fn mounted(&self, session: &SessionRow) -> Verdict {
        let mut waits = false;
        for activation in self.state.links.activations.of(&session.id) {
            if self
                .state
                .tables
                .activations
                .get(activation)
                .is_some_and(|row| row.state.goal == Goal::Destroy)
            {
                let what = "the job was unmounted again before it was mounted everywhere".to_owned();
                return Some(Err(Refusal::Invalid { what }));
            }
            for host in &session.hosts {
                let row = self.state.tables.mounts.get(&(*activation, host.clone()));
                if row.is_some_and(|row| row.mounted) {
                    continue;
                }
                waits = true;
                if let Some(trouble) = self.trouble(&Subject::Mount(*activation, host.clone()), host) {
                    return Some(Err(trouble));
                }
            }
        }
        if waits { None } else { DONE }
    }

    /// Nothing is mounted where it could be unmounted.
    fn unmounted(&self, session: &SessionRow) -> Verdict {
        let mut waits = false;
        for activation in self.state.links.activations.of(&session.id) {
            for node in self.state.links.mounts.of(activation) {
                if !self.state.is_online(node) {
                    continue;
                }
                waits = true;
                if let Some(trouble) = self.trouble(&Subject::Mount(*activation, node.clone()), node) {
                    return Some(Err(trouble));
                }
            }
        }
        if waits { None } else { DONE }
    }

    /// All stagings of a direction are done; or some failed and none is in progress.
    fn staged(&self, session: &SessionRow, direction: StageDirection) -> Verdict {
        let stages = self.state.links.stages.of(&session.id);
        let rows = stages.filter_map(|id| self.state.tables.stages.get(id));
        let rows: Vec<&StageRow> = rows.filter(|row| row.direction == direction && !row.live).collect();
        if rows.iter().any(|row| row.outcome == StageOutcome::Pending && row.wanted) {
            return self.given_up(session).map(Err);
        }
        match rows.iter().find_map(|row| failure(row)) {
            Some(text) => Some(Err(Refusal::StageFailed { text: text.to_owned() })),
            None => DONE,
        }
    }

    /// A session that is to be gone still is there.
    fn going(&self, session: &SessionRow) -> Verdict {
        if let Some(Err(trouble)) = self.unmounted(session) {
            return Some(Err(trouble));
        }
        let owed = self.owed(session.id);
        let rows: Vec<&StageRow> = owed.iter().filter_map(|id| self.state.tables.stages.get(id)).collect();
        if !rows.is_empty() && !rows.iter().any(|row| row.wanted) {
            let reason = rows.iter().find_map(|row| failure(row)).unwrap_or_default().to_owned();
            let (token, pending) = (session.token.clone(), rows.len());
            return Some(Err(Refusal::ResultsPending { token, pending, reason }));
        }
        self.given_up(session).map(Err)
    }

    /// A fragment that the session depends on, whose agent answers and was told to give up.
    fn given_up(&self, session: &SessionRow) -> Option<Refusal> {
        let instances = self.used_instances(session.id);
        let fragments = instances.iter().flat_map(|id| self.state.links.fragments.of(id));
        let rows = fragments.filter_map(|id| self.state.tables.fragments.get(id));
        let mut reachable = rows.filter(|row| self.state.is_online(&row.node));
        reachable.find_map(|row| self.trouble(&Subject::Fragment(row.id), &row.node))
    }
}

fn failure(row: &StageRow) -> Option<&str> {
    match &row.outcome {
        StageOutcome::Failed { text } => Some(text),
        StageOutcome::Pending if !row.wanted => Some("the staging was broken off: ask for it again"),
        _ => None,
    }
}
