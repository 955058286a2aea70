//! An agent that keeps the contract of `cluster::event` and says that everything went well. It has no disk.

use forebay_controller::client::{Client, ClientError, Heard, Orders};
use forebay_controller::cluster::AgentMessage;
use forebay_controller::cluster::effect::{Order, Part, Work};
use forebay_controller::cluster::event::{Copied, HeldFragment, Registering};
use forebay_model::ids::{ActivationId, FragmentId};
use forebay_model::units::{Bytes, MIB};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What it has and was told.
#[derive(Default)]
pub struct Node {
    pub fragments: BTreeMap<FragmentId, HeldFragment>,
    pub mounts: BTreeSet<ActivationId>,
    /// The parts that the latest order to serve named.
    pub served: Vec<Part>,
}

/// A thread that is an agent.
pub struct Agent {
    pub node: Arc<Mutex<Node>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub fn start(client: Client, name: String, capacity: u64) -> Agent {
        let (node, ends): (Arc<Mutex<Node>>, Arc<AtomicBool>) = Default::default();
        let mut work = Working {
            client: client.with_patience(Duration::ZERO),
            name,
            capacity,
            node: Arc::clone(&node),
            ends: Arc::clone(&ends),
            incarnation: 0,
            list: 0,
        };
        let thread = Some(std::thread::spawn(move || work.run()));
        Agent { node, ends, thread }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

struct Working {
    client: Client,
    name: String,
    capacity: u64,
    node: Arc<Mutex<Node>>,
    ends: Arc<AtomicBool>,
    incarnation: u64,
    list: u64,
}

impl Working {
    fn run(&mut self) {
        while !self.ends.load(Ordering::Relaxed) {
            if self.incarnation == 0 && !self.register() {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let polled = self.client.orders(&self.name, self.incarnation, self.list, Duration::from_secs(1));
            match polled {
                Ok(Orders::List(list)) => {
                    self.list = list.number;
                    list.orders.iter().for_each(|order| self.work(order));
                }
                Ok(Orders::Nothing) => {
                    let alive = AgentMessage::Heartbeat { list: self.list, bytes_written: Bytes(MIB) };
                    self.say(&alive);
                }
                Ok(Orders::Register) => self.incarnation = 0,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn register(&mut self) -> bool {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let incarnation = NEXT.fetch_add(1, Ordering::Relaxed);
        let node = self.node.lock().unwrap();
        let storage = self.capacity > 0;
        let message = AgentMessage::Register(Registering {
            registry: None,
            pool: storage.then(|| "wlm_pool".into()),
            capacity: Bytes(self.capacity),
            granularity: Bytes(1),
            bytes_written: Bytes(MIB),
            fragments: node.fragments.values().copied().collect(),
            mounts: node.mounts.iter().copied().collect(),
            address: storage.then(|| format!("{}:4041", self.name)),
            socket: None,
        });
        drop(node);
        let heard = self.client.tell(&self.name, incarnation, &message);
        if heard == Ok(Heard::Yes) {
            (self.incarnation, self.list) = (incarnation, 0);
        }
        heard == Ok(Heard::Yes)
    }

    /// Says it until it was heard, as an agent does with what it did.
    fn say(&mut self, message: &AgentMessage) {
        while !self.ends.load(Ordering::Relaxed) {
            match self.client.tell(&self.name, self.incarnation, message) {
                Ok(Heard::Yes) => return,
                Ok(Heard::Register) => {
                    self.incarnation = 0;
                    return;
                }
                Err(ClientError::Refused { text, .. }) => panic!("{}: {text}", self.name),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn work(&mut self, order: &Order) {
        if self.incarnation == 0 {
            return;
        }
        let mut node = self.node.lock().unwrap();
        let mut copied = None;
        match &order.work {
            Work::MakeFragment { fragment, instance, bytes, .. } => {
                let held =
                    HeldFragment { fragment: *fragment, instance: *instance, bytes: *bytes, serving: false };
                node.fragments.entry(*fragment).or_insert(held);
            }
            Work::Serve { fragment, fragments, .. } => {
                node.fragments.get_mut(fragment).unwrap().serving = true;
                node.served = fragments.clone();
            }
            Work::RemoveFragment { fragment } => drop(node.fragments.remove(fragment)),
            Work::Mount { activation, .. } => drop(node.mounts.insert(*activation)),
            Work::Unmount { activation } => drop(node.mounts.remove(activation)),
            Work::Stage { .. } => copied = Some(Copied { files: 1, bytes: Bytes(MIB), skipped: 0 }),
        }
        drop(node);
        self.say(&AgentMessage::Done { task: order.task, copied });
    }
}
