//! A node and what can be done on it: each order as a function that can be cut off anywhere and be done again.
//!
//! Any thread may call; the caller sees to it that of one fragment, activation or staging only one order is carried out at
//! a time.

use super::config::{AgentConfig, StorageConfig};
use super::control::Request;
use super::disk_mark;
use super::error::TaskError;
use super::file_server;
use super::fragments::{Disk, NewFragment};
use super::left_mounts::LeftMounts;
use super::mounts::Mounts;
use super::stages::{Cancel, Stages, Staging};
use super::state::State;
use super::targets::{self, InstanceSecrets};
use super::worker;
use crate::atomic_file;
use crate::error::AgentError;
use crate::node::{InstanceConfig, NamespaceConfig, Owner};
use forebay_controller::cluster::effect::{Part, Target, Use};
use forebay_controller::cluster::event::{Copied, HeldFragment};
use forebay_controller::cluster::row::TaskId;
use forebay_controller::custody;
use forebay_controller::request::WindowRequest;
use forebay_model::ids::{ActivationId, FragmentId, InstanceId};
use forebay_model::limits::{InstancePolicies, Policy, WriteWindow};
use forebay_model::objects::AccessMode;
use forebay_server::local::SpaceRule;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Node {
    config: AgentConfig,
    state: State,
    program: PathBuf,
    left: LeftMounts,
    /// The file server is started by one thread at a time.
    starting: Mutex<()>,
    /// A new disk is marked by one thread at a time.
    marking: Mutex<()>,
}

/// What a fragment's file server is to know.
#[derive(Clone, Copy, Debug)]
pub struct Serving<'a> {
    /// The fragment.
    pub fragment: FragmentId,
    /// Its instance.
    pub instance: InstanceId,
    /// Uid of the owner.
    pub owner: u32,
    /// Gid of the owner.
    pub group: u32,
    /// All fragments of the instance, in order.
    pub fragments: &'a [Part],
    /// What it is used as.
    pub configurations: &'a [Use],
    /// How much may be written to the fragment.
    pub write_window: Option<WindowRequest>,
    /// What happens at the limits.
    pub policies: InstancePolicies,
}

impl Node {
    /// Makes the agent's directories. A node that could make no volumes in its group, or whose disk others could change, says so
    /// now, not when a job waits.
    pub fn open(config: AgentConfig) -> Result<Node, AgentError> {
        if let Some(storage) = &config.storage {
            storage.check()?;
            custody::unchangeable(&storage.directory)?;
        }
        let state = State::open(&config.state)?;
        Ok(Node {
            state,
            program: worker::own_program()?,
            config,
            left: LeftMounts::default(),
            starting: Mutex::default(),
            marking: Mutex::default(),
        })
    }

    /// Runs another program for its processes.
    pub fn with_program(self, program: PathBuf) -> Node {
        Node { program, ..self }
    }

    /// Its configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    fn storage(&self) -> Result<&StorageConfig, TaskError> {
        self.config.storage.as_ref().ok_or(TaskError::NoStorage)
    }

    /// The disk, which is the right one.
    fn disk(&self) -> Result<Disk<'_>, TaskError> {
        let storage = self.storage()?;
        let _marking = self.marking.lock().unwrap_or_else(PoisonError::into_inner);
        disk_mark::check(storage, &self.config.node, &self.state.disk())?;
        Ok(Disk { storage, registry: &self.config.registry })
    }

    fn mounts(&self) -> Mounts<'_> {
        Mounts {
            state: &self.state,
            left: &self.left,
            node: &self.config.node,
            program: &self.program,
            holders: self.config.holders,
            io_uring: self.config.io_uring,
            keep_awake: self.config.keep_awake,
        }
    }

    fn stages(&self) -> Stages<'_> {
        Stages { state: &self.state, node: &self.config.node, program: &self.program }
    }

    /// Makes a fragment, unless it is made.
    pub fn make_fragment(&self, wanted: &NewFragment) -> Result<(), TaskError> {
        self.disk()?.make(wanted)
    }

    /// Has a fragment served as described; what its file server knew before is replaced.
    ///
    /// Order of events: secrets - the instance's file - the fragment is reachable - the file server lives - it serves. After a
    /// crash anywhere the next start of the file server serves what has a file.
    pub fn serve(&self, serving: &Serving<'_>, secrets: &InstanceSecrets) -> Result<(), TaskError> {
        let config = self.served(serving)?;
        targets::write_secret(&config.token_file, &secrets.token)?;
        targets::write_secret(&config.seal_file, &secrets.seal)?;
        atomic_file::write(&self.state.instance(serving.instance), config.file().as_bytes())?;
        self.ensure_file_server()?;
        file_server::ask(&self.state, Request::Serve(serving.instance))
    }

    fn served(&self, serving: &Serving<'_>) -> Result<InstanceConfig, TaskError> {
        let record = self.disk()?.complete(serving.fragment)?;
        let position = serving.fragments.iter().position(|part| part.fragment == serving.fragment);
        let position = position.filter(|_| record.instance == serving.instance);
        let position = position.ok_or_else(|| TaskError::BadOrder {
            problem: format!("fragment {} is none of instance {}", serving.fragment, serving.instance),
        })?;
        let (root, is_hard) = self.disk()?.bring_up(serving.fragment)?;
        let spec = |one: &Use| {
            let policies = serving.policies.of_namespaces();
            targets::namespace_spec(one.configuration, &one.access, one.layout, policies)
        };
        let (private, shared): (Vec<&Use>, Vec<&Use>) =
            serving.configurations.iter().partition(|one| one.access.mode == AccessMode::Private);
        let namespace =
            |one: &&Use| NamespaceConfig { home: one.home.unwrap_or_default() as u32, spec: spec(one) };
        Ok(InstanceConfig {
            id: serving.instance,
            name: targets::instance_name(serving.instance),
            fragment: root,
            space: if is_hard { SpaceRule::Hard } else { SpaceRule::Metered(record.bytes) },
            position: position as u32,
            servers: targets::servers(serving.fragments, &self.config.node)?,
            token_file: self.state.token(serving.instance),
            seal_file: self.state.seal(serving.instance),
            final_wait: Duration::from_secs(targets::FINAL_S),
            write_window: serving.write_window.map(|asked| window(asked, serving.policies.write_window)),
            namespaces: shared.iter().map(namespace).collect(),
            templates: private.iter().map(|one| spec(one)).collect(),
            owner: Some(Owner { uid: serving.owner, gid: serving.group }),
        })
    }

    /// Starts the file server if it does not live and there is anything to serve.
    pub fn keep_serving(&self) -> Result<(), TaskError> {
        if self.config.storage.is_none() || file_server::is_living(&self.state)? {
            return Ok(());
        }
        if self.state.served()?.is_empty() { Ok(()) } else { self.ensure_file_server() }
    }

    fn ensure_file_server(&self) -> Result<(), TaskError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if !file_server::is_living(&self.state)? {
            self.bring_up_all()?;
        }
        file_server::ensure(&self.state, self.storage()?, self.config.keep_awake, &self.program)
    }

    /// Everything that a new file server will look for. What cannot be reached keeps nothing else from being served.
    fn bring_up_all(&self) -> Result<(), TaskError> {
        let served: BTreeSet<InstanceId> = self.state.served()?.into_iter().collect();
        for record in self.disk()?.held()?.iter().filter(|record| served.contains(&record.instance)) {
            if let Err(error) = self.disk()?.bring_up(record.fragment) {
                worker::note(format_args!("fragment {}: {error}", record.fragment));
            }
        }
        Ok(())
    }

    /// Stops serving a fragment and removes it with its content, if it is there.
    ///
    /// Order of events: the instance's file - the file server lets go - secrets - the fragment - its record. After a crash anywhere
    /// it is done again, since the fragment is held for as long as it has a record; so nothing may come after that.
    pub fn remove_fragment(&self, fragment: FragmentId) -> Result<(), TaskError> {
        let Some(record) = self.disk()?.to_remove(fragment)? else { return Ok(()) };
        let instance = record.instance;
        atomic_file::remove(&self.state.instance(instance))?;
        if file_server::is_living(&self.state)? {
            file_server::ask(&self.state, Request::End(instance))?;
        }
        self.state.remove_secrets(instance)?;
        self.disk()?.remove(&record)
    }

    /// Mounts an activation, unless it is mounted.
    pub fn mount(
        &self,
        activation: ActivationId,
        path: &str,
        target: &Target,
        token: &str,
    ) -> Result<(), TaskError> {
        self.mounts().mount(activation, path, target, token)
    }

    /// Unmounts an activation, if it is mounted, also when somebody uses it.
    pub fn unmount(&self, activation: ActivationId) -> Result<(), TaskError> {
        self.mounts().unmount(activation)
    }

    /// Copies as the user, unless that is done.
    pub fn stage(&self, staging: &Staging<'_>, cancel: &Cancel) -> Result<Copied, TaskError> {
        self.stages().stage(staging, cancel)
    }

    /// A staging is not wanted, or its result was taken.
    pub fn forget_stage(&self, task: TaskId) -> Result<(), TaskError> {
        self.stages().forget(task)
    }

    /// Stagings that have something on this node: running, or with a result.
    pub fn known_stages(&self) -> Result<Vec<TaskId>, TaskError> {
        Ok(self.state.staging()?)
    }

    /// The fragments on the disk, and whether they are served.
    pub fn held_fragments(&self) -> Result<Vec<HeldFragment>, TaskError> {
        if self.config.storage.is_none() {
            return Ok(Vec::new());
        }
        let served = file_server::served(&self.state)?;
        let held = self.disk()?.held()?.into_iter().map(|record| HeldFragment {
            fragment: record.fragment,
            instance: record.instance,
            bytes: record.bytes,
            serving: record.is_made && served.contains(&record.instance),
        });
        Ok(held.collect())
    }

    /// The registry that the fragments on the disk belong to; the first that is not ours, if there is one.
    pub fn held_registry(&self) -> Result<Option<String>, TaskError> {
        if self.config.storage.is_none() {
            return Ok(None);
        }
        let held = self.disk()?.held()?;
        let foreign = held.iter().find(|record| record.registry != self.config.registry);
        Ok(foreign.or(held.first()).map(|record| record.registry.clone()))
    }

    /// Removes what stagings left that nobody finished. For the start of an agent.
    pub fn sweep_stages(&self) -> Result<(), TaskError> {
        self.stages().sweep()
    }

    /// Removes what is written down of instances of which nothing is on the disk. For the start of an agent: a removal never leaves
    /// any, but a power cut can undo its first steps, which are on another file system than its last ones.
    pub fn sweep_instances(&self) -> Result<(), TaskError> {
        if self.config.storage.is_none() {
            return Ok(());
        }
        let mut kept = self.disk()?.instances()?;
        if file_server::is_living(&self.state)? {
            kept.extend(self.state.served()?);
        }
        Ok(self.state.keep_instances(&kept)?)
    }

    /// Takes away what mounts left whose processes are dead. For the start of an agent, when no order is worked on.
    pub fn sweep_mounts(&self) -> Result<(), TaskError> {
        self.mounts().sweep()
    }

    /// The activations that are mounted.
    pub fn held_mounts(&self) -> Result<Vec<ActivationId>, TaskError> {
        self.mounts().held()
    }
}

fn window(asked: WindowRequest, policy: Policy) -> WriteWindow {
    WriteWindow { length_s: asked.length_s, multiplier: asked.multiplier, policy }
}
