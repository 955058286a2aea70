//! Which orders an agent works on, and what it has to report. Pure.
//!
//! The rules of the controller's contract: of two lists the one with the greater number counts, and it is complete; of one
//! subject one order is worked on at a time, in the order of their numbers; what is not on the list is not wanted, and is broken
//! off; what is on it after it was done is reported again; what is on a newer list after it failed is tried again.
//! A report is kept until the controller has taken it, or does not list the order any more.

use forebay_controller::cluster::effect::{List, Order, Work};
use forebay_controller::cluster::event::AgentMessage;
use forebay_controller::cluster::row::{StageId, TaskId};
use forebay_model::ids::{ActivationId, FragmentId};
use std::collections::{BTreeMap, BTreeSet};

/// Orders that are worked on at the same time.
const WORKING_MAX: usize = 64;

/// What an order is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Fragment(FragmentId),
    Mount(ActivationId),
    Stage(StageId),
}

fn subject(work: &Work) -> Subject {
    match work {
        Work::MakeFragment { fragment, .. }
        | Work::Serve { fragment, .. }
        | Work::RemoveFragment { fragment } => Subject::Fragment(*fragment),
        Work::Mount { activation, .. } | Work::Unmount { activation } => Subject::Mount(*activation),
        Work::Stage { stage, .. } => Subject::Stage(stage.id),
    }
}

#[derive(Debug)]
struct Ended {
    message: AgentMessage,
    /// The number of the list when the controller took the report.
    told_at: Option<u64>,
}

#[derive(Debug)]
struct Working {
    subject: Subject,
    is_stopping: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Duties {
    list: Option<List>,
    working: BTreeMap<TaskId, Working>,
    ended: BTreeMap<TaskId, Ended>,
}

impl Duties {
    /// The number of the newest list; 0: there is none.
    pub fn number(&self) -> u64 {
        self.list.as_ref().map_or(0, |list| list.number)
    }

    /// A list came in.
    pub fn take(&mut self, list: List) {
        if list.number < self.number() {
            return;
        }
        let listed: BTreeSet<TaskId> = list.orders.iter().map(|order| order.task).collect();
        self.ended.retain(|task, _| listed.contains(task));
        self.list = Some(list);
    }

    /// The agent registers anew: the lists of before do not count.
    pub fn forget_list(&mut self) {
        self.list = None;
    }

    /// What is to be begun now. Whoever takes it works on it, and says [`Duties::end`]. An order that is cancelled may have
    /// been begun by an agent of before: that is to be broken off.
    pub fn begin(&mut self) -> Vec<Order> {
        let Some(list) = &self.list else { return Vec::new() };
        let mut orders: Vec<&Order> = list.orders.iter().collect();
        orders.sort_by_key(|order| order.task);
        let mut busy: BTreeSet<Subject> = self.working.values().map(|working| working.subject).collect();
        let mut begun = Vec::new();
        for order in orders {
            if self.working.contains_key(&order.task) || self.working.len() >= WORKING_MAX {
                continue;
            }
            if let Some(ended) = self.ended.get_mut(&order.task) {
                if ended.told_at.is_none_or(|number| number >= list.number) {
                    continue;
                }
                if matches!(ended.message, AgentMessage::Done { .. }) {
                    ended.told_at = None;
                    continue;
                }
                self.ended.remove(&order.task);
            }
            let subject = subject(&order.work);
            if busy.insert(subject) {
                self.working.insert(order.task, Working { subject, is_stopping: order.cancel });
                begun.push(order.clone());
            }
        }
        begun
    }

    /// What is to be broken off now; each is said once.
    pub fn stop(&mut self) -> Vec<TaskId> {
        let Some(list) = &self.list else { return Vec::new() };
        let wanted = |task| list.orders.iter().any(|order| order.task == task && !order.cancel);
        let mut stopped = Vec::new();
        for (task, working) in &mut self.working {
            if !working.is_stopping && !wanted(*task) {
                working.is_stopping = true;
                stopped.push(*task);
            }
        }
        stopped
    }

    /// Work on an order has ended.
    pub fn end(&mut self, task: TaskId, message: AgentMessage) {
        self.working.remove(&task);
        let is_listed =
            self.list.as_ref().is_none_or(|list| list.orders.iter().any(|order| order.task == task));
        if is_listed {
            self.ended.insert(task, Ended { message, told_at: None });
        }
    }

    /// What the controller has to be told.
    pub fn untold(&self) -> Vec<(TaskId, AgentMessage)> {
        let untold = self.ended.iter().filter(|(_, ended)| ended.told_at.is_none());
        untold.map(|(task, ended)| (*task, ended.message.clone())).collect()
    }

    /// The controller has taken a report.
    pub fn told(&mut self, task: TaskId) {
        let number = self.number();
        if let Some(ended) = self.ended.get_mut(&task) {
            ended.told_at = Some(number);
        }
    }

    /// Orders that something may have to be kept of: listed, or worked on.
    pub fn concerned(&self) -> BTreeSet<TaskId> {
        let listed = self.list.iter().flat_map(|list| list.orders.iter().map(|order| order.task));
        listed.chain(self.working.keys().copied()).collect()
    }

    /// There is a list that counts.
    pub fn has_list(&self) -> bool {
        self.list.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENT: FragmentId = FragmentId(1);

    fn order(task: u64, work: Work) -> Order {
        Order { task: TaskId(task), cancel: false, work }
    }

    fn remove(task: u64) -> Order {
        order(task, Work::RemoveFragment { fragment: FRAGMENT })
    }

    fn unmount(task: u64, activation: u64) -> Order {
        order(task, Work::Unmount { activation: ActivationId(activation) })
    }

    fn list(number: u64, orders: &[Order]) -> List {
        List { node: "n".into(), incarnation: 1, number, orders: orders.to_vec() }
    }

    fn begun(duties: &mut Duties) -> Vec<u64> {
        duties.begin().iter().map(|order| order.task.0).collect()
    }

    fn done(task: u64) -> AgentMessage {
        AgentMessage::Done { task: TaskId(task), copied: None }
    }

    fn failed(task: u64) -> AgentMessage {
        AgentMessage::Failed { task: TaskId(task), text: "x".into(), again: true }
    }

    fn untold(duties: &Duties) -> Vec<u64> {
        duties.untold().iter().map(|(task, _)| task.0).collect()
    }

    #[test]
    fn one_order_for_each_subject_at_a_time_in_their_order() {
        let mut duties = Duties::default();
        duties.take(list(1, &[remove(5), remove(3), unmount(4, 1)]));
        assert_eq!(begun(&mut duties), [3, 4]);
        assert_eq!(begun(&mut duties), [] as [u64; 0]);
        duties.take(list(2, &[remove(5), unmount(4, 1)]));
        assert_eq!(duties.stop(), [TaskId(3)]);
        assert_eq!(duties.stop(), []);
        assert_eq!(begun(&mut duties), [] as [u64; 0], "the old one has not ended");
        duties.end(TaskId(3), done(3));
        assert_eq!(untold(&duties), [] as [u64; 0], "nobody wants to know");
        assert_eq!(begun(&mut duties), [5]);
    }

    #[test]
    fn an_old_list_does_not_count_and_a_new_registration_begins_anew() {
        let mut duties = Duties::default();
        duties.take(list(7, &[remove(1)]));
        duties.take(list(6, &[remove(1), unmount(2, 1)]));
        assert_eq!((duties.number(), begun(&mut duties)), (7, vec![1]));
        duties.forget_list();
        assert_eq!(duties.number(), 0);
        duties.end(TaskId(1), done(1));
        assert_eq!(untold(&duties), [1], "it may still be wanted");
        duties.take(list(3, &[]));
        assert_eq!(untold(&duties), [] as [u64; 0]);
    }

    #[test]
    fn what_was_done_is_reported_until_it_is_taken_and_again_if_it_is_listed_again() {
        let mut duties = Duties::default();
        duties.take(list(1, &[remove(1)]));
        begun(&mut duties);
        duties.end(TaskId(1), done(1));
        assert_eq!(untold(&duties), [1]);
        duties.told(TaskId(1));
        assert_eq!((untold(&duties), begun(&mut duties)), (vec![], vec![]));
        duties.take(list(2, &[remove(1)]));
        assert_eq!((begun(&mut duties), untold(&duties)), (vec![], vec![1]));
    }

    #[test]
    fn what_failed_is_tried_again_when_a_newer_list_has_it() {
        let mut duties = Duties::default();
        duties.take(list(1, &[remove(1)]));
        begun(&mut duties);
        duties.end(TaskId(1), failed(1));
        duties.take(list(2, &[remove(1)]));
        assert_eq!(begun(&mut duties), [] as [u64; 0], "the controller does not know of it yet");
        duties.told(TaskId(1));
        assert_eq!(begun(&mut duties), [] as [u64; 0]);
        duties.take(list(3, &[remove(1)]));
        assert_eq!((begun(&mut duties), untold(&duties)), (vec![1], vec![]));
    }

    #[test]
    fn what_is_cancelled_is_broken_off() {
        let mut duties = Duties::default();
        let cancelled = |order: Order| Order { cancel: true, ..order };
        duties.take(list(1, &[remove(1), cancelled(unmount(2, 1))]));
        let begun: Vec<bool> = duties.begin().iter().map(|order| order.cancel).collect();
        assert_eq!(begun, [false, true], "an agent of before may have begun it");
        duties.take(list(2, &[cancelled(remove(1)), cancelled(unmount(2, 1))]));
        assert_eq!(duties.stop(), [TaskId(1)]);
        assert!(duties.begin().is_empty() && untold(&duties).is_empty());
        duties.end(TaskId(1), failed(1));
        duties.end(TaskId(2), failed(2));
        assert_eq!(untold(&duties), [1, 2]);
    }

    #[test]
    fn there_is_a_limit() {
        let mut duties = Duties::default();
        let many: Vec<Order> = (0..100).map(|number| unmount(number, number)).collect();
        duties.take(list(1, &many));
        assert_eq!(begun(&mut duties).len(), WORKING_MAX);
        duties.end(TaskId(0), done(0));
        assert_eq!(begun(&mut duties), [WORKING_MAX as u64]);
    }
}
