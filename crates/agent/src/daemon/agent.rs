//! The conversation of an agent with the controller.
//!
//! ```text
//! main thread      registers, heartbeats, reports what has ended
//! "file server"    starts the file server when it does not live
//! "orders"         waits for lists
//! "task"           one for each order that is worked on
//! ```
//!
//! Order of events at the start: the state directory is claimed - what dead mounts left is taken away - the file server lives
//! again, if it has anything to serve and that does not take too long - the
//! number of the registration is written - the agent registers with what the node holds. A crash at any point: the next agent
//! does the same, and every order is repeated until its end was taken. While the controller is away everything that runs goes on.
//!
//! Lock order: the state here is never held while anything is waited for.

use super::config::{AgentConfig, StorageConfig};
use super::duties::Duties;
use super::error::TaskError;
use super::fragments::NewFragment;
use super::node::{Node, Serving};
use super::stages::{Cancel, StageSpace, Staging};
use super::targets::InstanceSecrets;
use super::wear::Wear;
use super::worker::note;
use crate::atomic_file;
use crate::error::AgentError;
use crate::process::lifelock::{self, LifeLock};
use forebay_controller::client::{Client, ClientError, Heard, Orders};
use forebay_controller::cluster::effect::{Named, Order, Work};
use forebay_controller::cluster::event::{AgentMessage, Copied, Registering};
use forebay_controller::cluster::row::TaskId;
use forebay_model::ids::InstanceId;
use forebay_model::units::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A sign of life is given so often; the controller waits for many.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The file server is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Pause after the file server could not be started.
const SERVE_AGAIN: Duration = Duration::from_secs(2);
/// How long the file server is waited for at the start.
const SERVE_WAIT: Duration = Duration::from_secs(10);
/// How long a poll for orders waits.
const POLL: Duration = Duration::from_secs(20);
/// Pause after the controller was not reached.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between two attempts to register.
const REGISTER_EVERY: Duration = Duration::from_secs(2);
/// How long what needs no hurry is tried while the controller is away.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long secrets are tried to be had.
const SECRETS_PATIENCE: Duration = Duration::from_secs(20);
/// The same complaint is not repeated within this time.
const QUIET: Duration = Duration::from_secs(60);

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A file of the agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// What the node holds cannot be found out.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// Another agent runs.
    #[error("another agent runs with {state:?} (process {pid})")]
    Runs {
        /// Its directory.
        state: std::path::PathBuf,
        /// Its id, as far as it is known.
        pid: String,
    },
    /// No thread is to be had.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Ends an agent; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends it within a moment. What runs on the node goes on.
    pub fn stop(&self) {
        self.0.store(true, SeqCst);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// An agent that runs.
pub struct Agent {
    shared: Arc<Shared>,
    wear: Wear,
    _lock: LifeLock,
}

struct Shared {
    node: Node,
    client: Client,
    stop: Stop,
    state: Mutex<Conversation>,
    changed: Condvar,
}

#[derive(Default)]
struct Conversation {
    duties: Duties,
    cancels: BTreeMap<TaskId, Cancel>,
    /// The registration that counts; 0: none yet.
    incarnation: u64,
    is_registered: bool,
    said: BTreeMap<&'static str, (String, Instant)>,
}

impl Agent {
    /// Claims the state directory and has everything served again that was.
    pub fn open(node: Node, client: Client, stop: Stop) -> Result<Agent, DaemonError> {
        // What it makes for users to walk through is for all to walk through.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let path = node.state().lock();
        let Some(lock) = LifeLock::take(&path)? else {
            let pid = lifelock::living(&path)?.and_then(|living| living.pid);
            let pid = pid.map_or("not known".to_owned(), |pid| pid.to_string());
            return Err(DaemonError::Runs { state: node.config().state.clone(), pid });
        };
        let storage = node.config().storage.as_ref().map(|storage| storage.directory.as_path());
        let wear = Wear::open(node.state().wear(), storage)?;
        if let Some(warning) = node.config().storage.as_ref().and_then(StorageConfig::warning) {
            note(format_args!("{warning}"));
        }
        let state = Mutex::default();
        let shared = Arc::new(Shared { node, client, stop, state, changed: Condvar::new() });
        Ok(Agent { shared, wear, _lock: lock })
    }

    /// Works until it is stopped.
    pub fn run(mut self) -> Result<(), DaemonError> {
        if let Err(error) = self.shared.node.sweep_mounts() {
            self.shared.complain("mounts", &error.sentence());
        }
        if let Err(error) = self.shared.node.sweep_stages() {
            self.shared.complain("stage", &error.sentence());
        }
        if let Err(error) = self.shared.node.sweep_instances() {
            self.shared.complain("instances", &error.sentence());
        }
        let (tried, is_tried) = channel();
        self.spawn("file server", move |shared| shared.keep_serving(&tried))?;
        // It goes on trying. What is not served when the agent registers is ordered anew.
        let _ = is_tried.recv_timeout(SERVE_WAIT);
        self.spawn("orders", |shared| shared.hear_orders())?;
        let (mut next_heartbeat, mut next_attempt) = (Instant::now(), Instant::now());
        while !self.shared.stop.is_stopped() {
            let is_registered = self.shared.lock().is_registered;
            if !is_registered && Instant::now() >= next_attempt {
                self.register()?;
                (next_heartbeat, next_attempt) = (Instant::now(), Instant::now() + REGISTER_EVERY);
            } else if is_registered && Instant::now() >= next_heartbeat {
                self.heartbeat();
                next_heartbeat = Instant::now() + HEARTBEAT;
            }
            if is_registered {
                self.shared.report();
            }
            self.shared.wait();
        }
        Ok(())
    }

    fn spawn(&self, name: &str, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Result<(), DaemonError> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(&shared));
        thread.map(drop).map_err(DaemonError::Thread)
    }

    fn register(&mut self) -> Result<(), DaemonError> {
        let shared = self.shared.clone();
        let registering = match self.holdings() {
            Ok(registering) => registering,
            Err(error) => {
                shared.complain("hold", &error.sentence());
                return Ok(());
            }
        };
        let incarnation = next_incarnation(&shared.node)?;
        {
            let mut state = shared.lock();
            state.incarnation = incarnation;
            state.duties.forget_list();
        }
        let message = AgentMessage::Register(registering);
        let client = shared.client.clone().with_patience(PATIENCE);
        match client.tell(&shared.node.config().node, incarnation, &message) {
            Ok(Heard::Yes) => {
                let mut state = shared.lock();
                state.is_registered = true;
                state.said.clear();
                shared.changed.notify_all();
            }
            Ok(Heard::Register) => {}
            Err(error) => shared.complain("register", &error.to_string()),
        }
        Ok(())
    }

    fn holdings(&mut self) -> Result<Registering, TaskError> {
        let node = &self.shared.node;
        let storage = node.config().storage.as_ref();
        Ok(Registering {
            registry: node.held_registry()?,
            pool: storage.map(|storage| storage.pool.clone()),
            capacity: storage.map_or(Bytes(0), |storage| storage.capacity),
            granularity: storage.map_or(Bytes(0), |storage| storage.granularity),
            bytes_written: self.wear.bytes(),
            fragments: node.held_fragments()?,
            mounts: node.held_mounts()?,
            address: storage.map(|storage| storage.address.to_string()),
            socket: storage.and_then(|storage| storage.socket.to_str().map(str::to_owned)),
        })
    }

    fn heartbeat(&mut self) {
        let bytes_written = self.wear.bytes();
        let list = self.shared.lock().duties.number();
        self.shared.tell(&AgentMessage::Heartbeat { list, bytes_written });
    }
}

/// The number of the next registration, durably.
fn next_incarnation(node: &Node) -> Result<u64, AgentError> {
    let path = node.state().incarnation();
    let last: u64 = super::state::read(&path)?.unwrap_or(0);
    let next = last + 1;
    atomic_file::write(&path, format!("{next}\n").as_bytes())?;
    Ok(next)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Conversation> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until something changes, for a moment.
    fn wait(&self) {
        let state = self.lock();
        drop(self.changed.wait_timeout(state, LOOK_EVERY));
    }

    /// Says something in the log, unless it was just said.
    fn complain(&self, about: &'static str, text: &str) {
        let mut state = self.lock();
        let last = state.said.get(about);
        if last.is_none_or(|(said, when)| said != text || when.elapsed() > QUIET) {
            note(format_args!("{text}"));
            state.said.insert(about, (text.to_owned(), Instant::now()));
        }
    }

    /// Starts the file server whenever it does not live; says when it has tried.
    fn keep_serving(&self, tried: &Sender<()>) {
        while !self.stop.is_stopped() {
            let kept = self.node.keep_serving();
            // The first time somebody waits for it.
            let _ = tried.send(());
            match kept {
                Ok(()) => std::thread::sleep(LOOK_EVERY),
                Err(error) => {
                    self.complain("serve", &error.sentence());
                    std::thread::sleep(SERVE_AGAIN);
                }
            }
        }
    }

    /// `true`: the controller has heard it.
    fn tell(&self, message: &AgentMessage) -> bool {
        let incarnation = self.lock().incarnation;
        let client = self.client.clone().with_patience(PATIENCE);
        match client.tell(&self.node.config().node, incarnation, message) {
            Ok(Heard::Yes) => true,
            Ok(Heard::Register) => {
                self.lost_registration(incarnation);
                false
            }
            Err(error) => {
                self.complain("controller", &error.to_string());
                false
            }
        }
    }

    fn lost_registration(&self, incarnation: u64) {
        let mut state = self.lock();
        if state.incarnation == incarnation {
            state.is_registered = false;
            self.changed.notify_all();
        }
    }

    fn report(&self) {
        let untold = self.lock().duties.untold();
        for (task, message) in untold {
            if !self.tell(&message) {
                return;
            }
            self.lock().duties.told(task);
        }
    }

    fn hear_orders(self: &Arc<Shared>) {
        while !self.stop.is_stopped() {
            let (incarnation, after, is_registered) = {
                let state = self.lock();
                (state.incarnation, state.duties.number(), state.is_registered)
            };
            if !is_registered {
                self.wait();
                continue;
            }
            let client = self.client.clone().with_patience(Duration::ZERO);
            match client.orders(&self.node.config().node, incarnation, after, POLL) {
                Ok(Orders::List(list)) if list.incarnation == incarnation => {
                    let mut state = self.lock();
                    if state.incarnation == incarnation {
                        state.duties.take(list);
                    }
                    drop(state);
                    self.go_on();
                    self.forget_stages();
                }
                Ok(Orders::List(_) | Orders::Nothing) => {}
                Ok(Orders::Register) => {
                    self.lost_registration(incarnation);
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    self.complain("controller", &error.to_string());
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Begins and stops what the list says.
    fn go_on(self: &Arc<Shared>) {
        let mut state = self.lock();
        for task in state.duties.stop() {
            if let Some(cancel) = state.cancels.get(&task) {
                cancel.cancel();
            }
        }
        let orders = state.duties.begin();
        for order in orders {
            let cancel = Cancel::default();
            let task = order.task;
            state.cancels.insert(task, cancel.clone());
            let shared = self.clone();
            let work = move || shared.work(&order, &cancel);
            let thread = std::thread::Builder::new().name("task".into()).spawn(work);
            if let Err(error) = thread {
                let text = format!("the agent cannot start a thread: {error}");
                state.cancels.remove(&task);
                state.duties.end(task, AgentMessage::Failed { task, text, again: true });
            }
        }
        self.changed.notify_all();
    }

    fn work(self: &Arc<Shared>, order: &Order, cancel: &Cancel) {
        let task = order.task;
        let message = match self.carry_out(order, cancel) {
            Ok(copied) => AgentMessage::Done { task, copied },
            Err(error) => {
                let text = error.sentence();
                note(format_args!("task {}: {text}", task.0));
                AgentMessage::Failed { task, text, again: error.may_go_better() }
            }
        };
        let mut state = self.lock();
        state.cancels.remove(&task);
        state.duties.end(task, message);
        drop(state);
        self.go_on();
    }

    fn carry_out(&self, order: &Order, cancel: &Cancel) -> Result<Option<Copied>, TaskError> {
        let (node, task) = (&self.node, order.task);
        if order.cancel {
            node.forget_stage(task)?;
            return Err(TaskError::Cancelled);
        }
        match &order.work {
            &Work::MakeFragment { fragment, instance, bytes, owner } => {
                node.make_fragment(&NewFragment { fragment, instance, bytes, owner })?;
            }
            Work::Serve {
                fragment,
                instance,
                owner,
                group,
                fragments,
                configurations,
                write_window,
                policies,
                ..
            } => {
                let serving = Serving {
                    fragment: *fragment,
                    instance: *instance,
                    owner: *owner,
                    group: *group,
                    fragments,
                    configurations,
                    write_window: *write_window,
                    policies: *policies,
                };
                node.serve(&serving, &self.secrets(*instance)?)?;
            }
            Work::RemoveFragment { fragment } => node.remove_fragment(*fragment)?,
            Work::Mount { activation, path, target } => {
                node.mount(*activation, path, target, &self.secrets(target.instance)?.token)?;
            }
            Work::Unmount { activation } => node.unmount(*activation)?,
            Work::Stage { stage, uid, gid, target, persistent, others } => {
                let own = Named { persistent: persistent.clone(), target: target.clone() };
                let named = std::iter::once(&own).chain(others);
                let spaces = named.map(|one| self.stage_space(one)).collect::<Result<Vec<_>, _>>()?;
                let staging = Staging { task, row: stage, uid: *uid, gid: *gid, spaces: &spaces };
                return node.stage(&staging, cancel).map(Some);
            }
        }
        Ok(None)
    }

    fn stage_space(&self, named: &Named) -> Result<StageSpace, TaskError> {
        let (persistent, target) = (named.persistent.clone(), named.target.clone());
        let token = self.secrets(target.instance)?.token;
        Ok(StageSpace { persistent, target, token })
    }

    fn secrets(&self, instance: InstanceId) -> Result<InstanceSecrets, TaskError> {
        let client = self.client.clone().with_patience(SECRETS_PATIENCE);
        let secrets = client.secrets(&self.node.config().node, instance);
        let secrets = secrets.map_err(|source: ClientError| TaskError::NoSecrets { instance, source })?;
        Ok(InstanceSecrets { token: secrets.token, seal: secrets.seal })
    }

    /// Removes what is left of stagings that are not wanted any more, or whose ends were taken.
    fn forget_stages(&self) {
        let known = self.node.known_stages().unwrap_or_default();
        let concerned = {
            let state = self.lock();
            if !state.duties.has_list() {
                return;
            }
            state.duties.concerned()
        };
        for task in known.into_iter().filter(|task| !concerned.contains(task)) {
            if let Err(error) = self.node.forget_stage(task) {
                self.complain("stage", &error.sentence());
            }
        }
    }
}

impl AgentConfig {
    /// Where the controller is.
    pub fn controller_address(
        &self,
    ) -> Result<forebay_controller::client::Address, forebay_controller::client::AddressError> {
        match &self.controller {
            Some(address) => address.parse(),
            None => forebay_controller::client::Address::configured(),
        }
    }
}
