//! What agents say: they register, live, finish work and fail, or are silent for too long.
//!
//! Nothing an agent says is believed unless it belongs to its latest incarnation. What a node holds is compared with the
//! rows only when it registers, because only that is one consistent picture; in between its reports count.

mod order;
mod register;
mod task;

use super::effect::{Effect, Notice};
use super::event::{AgentMessage, Copied};
use super::limits::{FIRST_RETRY_S, MAX_ATTEMPTS, MAX_TEXT, retry_pause_s};
use super::row::*;
use super::step::Step;
use super::word::one_line;
use forebay_model::ids::FragmentId;
use forebay_model::state::Goal;

impl Step<'_> {
    /// Time passed: silent agents are lost, tasks are due for another attempt.
    pub fn tick(&mut self, now: i64) {
        if now <= self.state.now {
            return;
        }
        self.state.now = now;
        let online = self.state.tables.nodes.values().filter(|node| node.online);
        let online: Vec<String> = online.map(|node| node.name.clone()).collect();
        for node in online {
            // After a start nobody was heard of yet.
            self.state.heard.entry(node.clone()).or_insert(now);
            if self.state.is_silent(&node) {
                self.lose(&node);
            }
        }
        self.relist_due(now);
    }

    fn relist_due(&mut self, now: i64) {
        while let Some(&(time, task)) = self.state.due.first() {
            if time > now {
                return;
            }
            self.state.due.pop_first();
            if let Some(node) = self.state.tables.tasks.get(&task).map(|task| task.node.clone()) {
                self.relist(&node);
            }
        }
    }

    fn lose(&mut self, node: &str) {
        self.state.heard.remove(node);
        self.state.tables.nodes.edit(&node.to_owned(), |row| row.online = false);
        self.touch_users_of_node(node);
        self.say(Effect::Notice(Notice::Node { node: node.to_owned(), online: false }));
        self.say(Effect::Log { uid: None, text: format!("node {node} does not answer: taken for lost") });
    }

    /// An agent says something.
    pub fn hear(&mut self, node: String, incarnation: u64, message: AgentMessage) {
        if let AgentMessage::Register(registering) = message {
            return self.register(node, incarnation, registering);
        }
        let known = self.state.tables.nodes.get(&node);
        match known.map(|row| (row.incarnation.cmp(&incarnation), row.online)) {
            Some((std::cmp::Ordering::Greater, _)) => {}
            Some((std::cmp::Ordering::Equal, true)) => {
                self.state.heard.insert(node.clone(), self.state.now);
                self.believe(node, message);
            }
            _ => self.say(Effect::AskToRegister { node }),
        }
    }

    fn believe(&mut self, node: String, message: AgentMessage) {
        match message {
            AgentMessage::Register(_) => {}
            AgentMessage::Heartbeat { list, bytes_written } => {
                self.state.written.insert(node.clone(), bytes_written);
                if self.state.tables.nodes.get(&node).is_some_and(|row| list < row.list) {
                    self.remind(&node);
                }
            }
            AgentMessage::Done { task, copied } => {
                if let Some(row) = self.task_of(&node, task) {
                    self.done(&row, copied);
                }
            }
            AgentMessage::Failed { task, text, again } => {
                if let Some(row) = self.task_of(&node, task) {
                    self.failed(&row, &text, again);
                }
            }
        }
    }

    /// The task, if it is this node's. One that is gone was reported before.
    fn task_of(&self, node: &str, task: TaskId) -> Option<TaskRow> {
        self.state.tables.tasks.get(&task).filter(|row| row.node == node).cloned()
    }

    fn done(&mut self, task: &TaskRow, copied: Option<Copied>) {
        self.touch_users_of_subject(&task.subject);
        self.drop_task(task.id);
        match (&task.subject, task.verb) {
            (Subject::Fragment(id), Verb::Make) => self.advance(*id, FragmentStep::Made),
            (Subject::Fragment(id), Verb::Serve) => self.advance(*id, FragmentStep::Serving),
            (Subject::Fragment(id), _) => self.fragment_is_gone(*id),
            (Subject::Mount(id, node), Verb::Mount) => {
                self.state.tables.mounts.edit(&(*id, node.clone()), |row| row.mounted = true);
            }
            (Subject::Mount(id, node), _) => self.state.remove(Key::Mount((*id, node.clone()))),
            (Subject::Stage(id), _) => {
                let Copied { files, bytes, .. } = copied.unwrap_or_default();
                self.end_stage(*id, StageOutcome::Done { files, bytes });
            }
        }
    }

    fn failed(&mut self, task: &TaskRow, text: &str, again: bool) {
        let text = one_line(text, MAX_TEXT);
        self.touch_users_of_subject(&task.subject);
        if let Subject::Stage(stage) = &task.subject {
            self.drop_task(task.id);
            let outcome =
                if task.cancel { StageOutcome::Pending } else { StageOutcome::Failed { text: text.clone() } };
            self.end_stage(*stage, outcome);
        } else {
            self.put_off(task, &text, again);
        }
        let text = format!("node {}: {:?} of {:?} failed: {text}", task.node, task.verb, task.subject);
        self.say(Effect::Log { uid: None, text });
    }

    /// The task is tried again later, or not any more.
    fn put_off(&mut self, task: &TaskRow, text: &str, again: bool) {
        let (attempts, now) = (task.attempts.saturating_add(1), self.state.now);
        let since = task.failing_since.unwrap_or(now);
        // A storage node that is being started is worth more than a few attempts, and they need not be far apart.
        let awaits =
            now - since < self.state.settings.storage_wait_s && self.storage_away(&task.subject).is_some();
        let enough = attempts >= MAX_ATTEMPTS && !awaits;
        let blown = (!again || enough) && self.somebody_asks_for(&task.subject);
        let pause = if awaits { FIRST_RETRY_S } else { retry_pause_s(attempts) };
        let not_before = now + if blown { 0 } else { pause };
        self.state.tables.tasks.edit(&task.id, |row| {
            (row.attempts, row.blown, row.not_before) = (attempts, blown, not_before);
            (row.failure, row.failing_since) = (Some(text.to_owned()), Some(since));
        });
        if !blown {
            self.state.due.insert((not_before, task.id));
        }
        self.show_fuse(&task.subject, blown);
        self.relist(&task.node);
    }

    /// Whether a session would try it again. What has none is tried for ever, with pauses.
    fn somebody_asks_for(&self, subject: &Subject) -> bool {
        let tables = &self.state.tables;
        let Subject::Fragment(id) = subject else {
            return matches!(subject, Subject::Mount(id, _) if tables.activations.contains(id));
        };
        let instance = tables.fragments.get(id).and_then(|row| tables.instances.get(&row.instance));
        instance.is_some_and(|row| tables.sessions.contains(&row.session))
    }

    fn end_stage(&mut self, stage: StageId, outcome: StageOutcome) {
        self.state.tables.stages.edit(&stage, |row| {
            row.wanted &= matches!(outcome, StageOutcome::Pending);
            row.outcome = outcome;
        });
    }

    /// A fragment came one step further.
    fn advance(&mut self, id: FragmentId, step: FragmentStep) {
        let Some(row) = self.state.tables.fragments.get(&id) else { return };
        if row.state.goal == Goal::Destroy {
            return;
        }
        self.set_step(id, step);
    }

    /// Its agent said that a fragment is gone: only now its granules are free.
    fn fragment_is_gone(&mut self, id: FragmentId) {
        let Some(instance) = self.state.tables.fragments.get(&id).map(|row| row.instance) else { return };
        self.state.remove(Key::Fragment(id));
        let owner = self.state.tables.instances.get(&instance).map(|row| row.session);
        if owner.is_some_and(|session| !self.state.tables.sessions.contains(&session)) {
            self.retire_if_empty(instance);
        }
    }
}
