//! An agent of the simulation: it keeps the contract that `cluster::event` states, on a disk that is a map.

use crate::dice::Dice;
use forebay_controller::cluster::effect::{List, Order, Part, Work};
use forebay_controller::cluster::event::{AgentMessage, Copied, HeldFragment, Registering};
use forebay_controller::cluster::row::TaskId;
use forebay_controller::request::StageDirection;
use forebay_model::ids::*;
use forebay_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What happens to the data of the world when an order is carried out.
pub enum Deed {
    None,
    Removed(InstanceId),
    StagedOut { instance: InstanceId, fragments: Vec<Part>, pfs: Vec<u8>, task: TaskId },
}

pub struct Agent {
    pub name: String,
    pub pool: Option<String>,
    pub capacity: u64,
    /// It never comes back.
    pub dead: bool,
    /// It says and hears nothing until then.
    pub away_until: i64,
    pub incarnation: u64,
    /// Where its file servers are: another one after a reboot.
    pub port: u16,
    pub list: Option<List>,
    pub disk: BTreeMap<FragmentId, HeldFragment>,
    pub mounts: BTreeMap<ActivationId, (InstanceId, String)>,
    finished: BTreeMap<TaskId, AgentMessage>,
    progress: BTreeMap<TaskId, u64>,
    /// A planted defect: it follows lists that are older than its newest.
    pub follows_old_lists: bool,
}

impl Agent {
    pub fn new(name: String, pool: Option<String>, capacity: u64) -> Agent {
        Agent {
            name,
            pool,
            capacity,
            dead: false,
            away_until: 0,
            incarnation: 0,
            port: 1,
            list: None,
            disk: BTreeMap::new(),
            mounts: BTreeMap::new(),
            finished: BTreeMap::new(),
            progress: BTreeMap::new(),
            follows_old_lists: false,
        }
    }

    pub fn is_away(&self, now: i64) -> bool {
        self.dead || now < self.away_until
    }

    pub fn register(&mut self) -> AgentMessage {
        self.incarnation += 1;
        self.list = None;
        AgentMessage::Register(Registering {
            registry: (!self.disk.is_empty()).then(|| crate::world::REGISTRY.to_owned()),
            pool: self.pool.clone(),
            capacity: Bytes(self.capacity),
            granularity: Bytes(1),
            bytes_written: Bytes(0),
            fragments: self.disk.values().copied().collect(),
            mounts: self.mounts.keys().copied().collect(),
            address: self.pool.as_ref().map(|_| format!("{}:{}", self.name, self.port)),
            socket: None,
        })
    }

    /// The process died and was started again.
    pub fn restart(&mut self) {
        self.list = None;
        self.finished.clear();
        self.progress.clear();
        for held in self.disk.values_mut() {
            held.serving = false;
        }
    }

    pub fn reboot(&mut self) {
        self.restart();
        self.port += 1;
        self.mounts.clear();
    }

    pub fn take_list(&mut self, list: List) {
        let newest = self.list.as_ref().map_or(0, |list| list.number);
        if list.incarnation != self.incarnation || (list.number < newest && !self.follows_old_lists) {
            return;
        }
        let listed: BTreeSet<TaskId> = list.orders.iter().map(|order| order.task).collect();
        self.finished.retain(|task, _| listed.contains(task));
        self.progress.retain(|task, _| listed.contains(task));
        self.list = Some(list);
    }

    /// What it says from time to time: that it lives, and what it did and nobody acknowledged.
    pub fn heartbeat(&self) -> Vec<AgentMessage> {
        let list = self.list.as_ref().map_or(0, |list| list.number);
        let mut said = vec![AgentMessage::Heartbeat { list, bytes_written: Bytes(0) }];
        said.extend(self.finished.values().cloned());
        said
    }

    /// Orders that are not finished.
    pub fn open_orders(&self) -> Vec<Order> {
        let orders = self.list.iter().flat_map(|list| &list.orders);
        orders.filter(|order| !self.finished.contains_key(&order.task)).cloned().collect()
    }

    /// Works on an order for a while; some end in a message.
    pub fn work(&mut self, order: &Order, dice: &mut Dice, failures: u64) -> (Option<AgentMessage>, Deed) {
        let task = order.task;
        if order.cancel {
            let text = "broken off".to_owned();
            return (Some(self.finish(task, AgentMessage::Failed { task, text, again: true })), Deed::None);
        }
        if dice.once_in(failures) {
            let text = "it's\nbad luck".to_owned();
            let again = !dice.once_in(20);
            return (Some(self.finish(task, AgentMessage::Failed { task, text, again })), Deed::None);
        }
        if let Work::Stage { stage, target, .. } = &order.work {
            let progress = self.progress.entry(task).or_default();
            *progress += 1;
            if *progress < 3 {
                return (None, Deed::None);
            }
            if stage.direction == StageDirection::Out {
                let (instance, fragments) = (target.instance, target.fragments.clone());
                return (None, Deed::StagedOut { instance, fragments, pfs: stage.pfs.clone(), task });
            }
        }
        let deed = self.do_it(&order.work);
        (Some(self.done(task)), deed)
    }

    pub fn done(&mut self, task: TaskId) -> AgentMessage {
        self.finish(task, AgentMessage::Done { task, copied: Some(Copied::default()) })
    }

    pub fn failed(&mut self, task: TaskId) -> AgentMessage {
        let text = "a fragment is not there".to_owned();
        self.finish(task, AgentMessage::Failed { task, text, again: true })
    }

    fn finish(&mut self, task: TaskId, message: AgentMessage) -> AgentMessage {
        self.finished.insert(task, message.clone());
        message
    }

    /// A task that failed is tried again when it is listed again; the agent knows it by the list's number.
    pub fn forget_failures(&mut self) {
        self.finished.retain(|_, message| !matches!(message, AgentMessage::Failed { .. }));
    }

    fn do_it(&mut self, work: &Work) -> Deed {
        match work {
            Work::MakeFragment { fragment, instance, bytes, .. } => {
                let held =
                    HeldFragment { fragment: *fragment, instance: *instance, bytes: *bytes, serving: false };
                self.disk.entry(*fragment).or_insert(held);
                let used: u64 = self.disk.values().map(|held| held.bytes.0).sum();
                assert!(
                    used <= self.capacity,
                    "{}: space given twice: {used} of {}",
                    self.name,
                    self.capacity
                );
            }
            Work::Serve { fragment, .. } => {
                // What was ordered of a fragment that is not there is refused by a real agent.
                if let Some(held) = self.disk.get_mut(fragment) {
                    held.serving = true;
                }
            }
            Work::RemoveFragment { fragment } => {
                if let Some(held) = self.disk.remove(fragment) {
                    return Deed::Removed(held.instance);
                }
            }
            Work::Mount { activation, target, path } => {
                self.mounts.insert(*activation, (target.instance, path.clone()));
            }
            Work::Unmount { activation } => {
                self.mounts.remove(activation);
            }
            Work::Stage { .. } => {}
        }
        Deed::None
    }
}
