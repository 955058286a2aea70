//! An attached instance: mounts, stagings, figures.
//!
//! Order of events in attaching, all under the instance's gate: if nobody else is attached, what a crash may have left
//! is removed - the lease is taken - fragments are brought up - the instance process is started or joined. Detaching:
//! own mounts are given back - the lease; the last one ends the process and takes the fragments down. A crash anywhere
//! drops the leases; what is mounted then is removed by the next attach or clean-up.

mod direct;

use crate::account::{FragmentUse, InstanceAccount, NamespaceAccount};
use crate::description::ConfigurationDescription;
use crate::error::AgentError;
use crate::fragment::{self, Fragment};
use crate::holders::Holders;
use crate::lease::{Lease, Unused};
use crate::mounting::Departure;
use crate::namespace;
use crate::process::LogTail;
use crate::process::connection::Connection;
use crate::process::{leftover, spawn};
use crate::record::{FragmentKind, Record};
use crate::serving::Serving;
use crate::stage::{StageError, StageTask};
use crate::state_directory::StateDirectory;
use crate::usage::{self, Usage};
use crate::xfs_counters::XfsCounters;
use crate::{clean, destroy};
use forebay_model::ids::ConfigurationId;
use forebay_server::local::LIMIT_REACHED;
use forebay_stager::{CancelToken, StageProgress, StageReport};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lease on an instance. While any is held the fragments are up and nobody can destroy the instance. A process that
/// is killed loses its leases by itself; what it had mounted is removed by the next [`crate::Agent::clean_stale`].
/// Dropping it detaches too, without saying how that went.
pub struct Attachment {
    state: StateDirectory,
    record: Record,
    fragments: Vec<Box<dyn Fragment>>,
    /// Where the fragments' contents are.
    roots: Vec<PathBuf>,
    /// `None` once given back.
    lease: Option<Lease>,
    /// Configurations this attachment has mounted.
    mounts: BTreeMap<ConfigurationId, Lease>,
    /// `None` if the instance is reached directly.
    process: Option<Mutex<Connection>>,
    /// Counters at the time of attaching.
    begin: usage::Counts,
}

/// How a configuration was unmounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// It is gone.
    Clean,
    /// Processes still had files of it open: it left the tree and will be gone when they end.
    Lazy {
        /// Who was seen to hold it.
        holders: Holders,
    },
    /// Another attachment has mounted it too, so it stays.
    Shared,
}

/// What is to become of the instance when the last one has left.
#[derive(Clone, Copy)]
enum After {
    Keep,
    Discard,
}

impl From<Departure> for Unmounted {
    fn from(departure: Departure) -> Unmounted {
        match departure {
            Departure::Clean => Unmounted::Clean,
            Departure::Lazy { holders } => Unmounted::Lazy { holders },
        }
    }
}

impl Attachment {
    pub(crate) fn open(state: StateDirectory, program: Option<&Path>) -> Result<Attachment, AgentError> {
        let _gate = state.existing_gate()?;
        let record = state.complete_record()?;
        let alone = match Unused::prove(state.path(), state.instance()) {
            Ok(_) => true,
            Err(AgentError::InUse { .. }) => false,
            Err(error) => return Err(error),
        };
        if alone {
            clean::leftovers(&state, &record)?;
        }
        let lease = Lease::share(state.path())?;
        let fragments = fragment::of_instance(&record.description, record.fragments);
        let mut attachment = Attachment {
            state,
            record,
            fragments,
            roots: Vec::new(),
            lease: None,
            mounts: BTreeMap::new(),
            process: None,
            begin: usage::Counts::default(),
        };
        let opened = attachment.bring_up(alone, program);
        if opened.is_err() && alone {
            // Nobody else needs what has been brought up so far. Waiting threads are known to these fragments only.
            let _ = fragment::on_all(&attachment.fragments, |fragment| fragment.take_down());
            let _ = clean::leftovers(&attachment.state, &attachment.record);
        }
        opened?;
        attachment.lease = Some(lease);
        Ok(attachment)
    }

    fn bring_up(&mut self, alone: bool, program: Option<&Path>) -> Result<(), AgentError> {
        self.roots = fragment::on_all(&self.fragments, |fragment| fragment.bring_up())?;
        if self.record.serving.needs_process() {
            let start = alone || crate::process::lifelock_is_free(&self.state)?;
            let connection =
                if start { spawn::start(&self.state, program)? } else { Connection::open(&self.state)? };
            self.process = Some(Mutex::new(connection));
        }
        self.begin = self.counts()?;
        Ok(())
    }

    /// How the instance is served.
    pub fn serving(&self) -> Serving {
        self.record.serving
    }

    /// Mounts a configuration and answers its path, without a slash at the end. Mounting it again changes nothing.
    pub fn mount(&mut self, configuration: ConfigurationId) -> Result<PathBuf, AgentError> {
        let description = self.configuration(configuration)?.clone();
        if !self.mounts.contains_key(&configuration) {
            let _gate = self.state.existing_gate()?;
            let lease = Lease::share_mount(self.state.path(), configuration)?;
            match &self.process {
                Some(process) => lock(process).mount(configuration)?,
                None => direct::mount(self.record.serving, &self.roots[0], &description)?,
            }
            self.mounts.insert(configuration, lease);
        }
        Ok(description.mount)
    }

    /// Gives the mount of a configuration back; it goes when no other attachment uses it.
    pub fn unmount(&mut self, configuration: ConfigurationId) -> Result<Unmounted, AgentError> {
        self.configuration(configuration)?;
        let _gate = self.state.existing_gate()?;
        self.unmount_under_gate(configuration)
    }

    fn unmount_under_gate(&mut self, configuration: ConfigurationId) -> Result<Unmounted, AgentError> {
        let lease = self.mounts.remove(&configuration).ok_or(AgentError::NotMounted { configuration })?;
        if !lease.give_back()? {
            return Ok(Unmounted::Shared);
        }
        let departure = match &self.process {
            Some(process) => lock(process).unmount(configuration)?,
            None => direct::unmount(&self.record, self.configuration(configuration)?)?,
        };
        Ok(departure.into())
    }

    /// Stages data in or out. Blocks; reports progress at a limited rate; `cancel` stops it soon. Several stagings may
    /// run at the same time.
    pub fn stage(
        &self,
        task: &StageTask,
        progress: &(dyn Fn(StageProgress) + Sync),
        cancel: &CancelToken,
    ) -> Result<StageReport, StageError> {
        let description = self.configuration(task.configuration)?;
        if self.process.is_some() {
            return Connection::open(&self.state)?.stage(task, progress, cancel);
        }
        let tree = namespace::tree(&self.roots[0], task.configuration)?;
        direct::stage(&tree, &description.mount, task, progress, cancel)
    }

    /// Present figures.
    pub fn usage(&self) -> Result<Usage, AgentError> {
        let counts = self.counts()?.since(self.begin);
        let used = self.used()?;
        Ok(counts.usage(self.record.description.capacity(), used))
    }

    /// The accounting, since the instance was made; where it is reached directly, since its file system was mounted.
    pub fn account(&self) -> Result<InstanceAccount, AgentError> {
        match &self.process {
            Some(process) => lock(process).account(),
            None => self.account_directly(),
        }
    }

    /// What was logged of limits that were reached, as far as it is among the last lines of the log.
    pub fn limits_reached(&self) -> Vec<String> {
        if self.process.is_none() {
            return Vec::new();
        }
        let tail = LogTail::of(&self.state);
        tail.lines().iter().filter(|line| line.starts_with(LIMIT_REACHED)).cloned().collect()
    }

    fn account_directly(&self) -> Result<InstanceAccount, AgentError> {
        let described = &self.record.description;
        let (counts, used) = (self.counts()?, self.used()?);
        let usage = counts.usage(described.capacity(), used);
        // Nothing but the first fragment is used.
        let fragment = described.fragments.iter().take(1).map(|fragment| FragmentUse {
            node: fragment.node.clone(),
            capacity: fragment.capacity.0,
            used: used.0,
            bytes_read: usage.bytes_read.map(|bytes| bytes.0),
            bytes_written: usage.bytes_written.map(|bytes| bytes.0),
            files_created: usage.files_created,
            window: None,
        });
        let namespace = |configuration: &ConfigurationDescription| NamespaceAccount {
            name: namespace::name(configuration.id),
            ..NamespaceAccount::default()
        };
        Ok(InstanceAccount {
            namespaces: described.configurations.iter().map(namespace).collect(),
            fragments: fragment.collect(),
        })
    }

    fn counts(&self) -> Result<usage::Counts, AgentError> {
        let figures = match &self.process {
            Some(process) => Some(lock(process).figures()?),
            None => None,
        };
        let images = self.record.fragments == FragmentKind::XfsImage;
        let xfs =
            images.then(|| self.roots.iter().map(|root| XfsCounters::of_mount(root)).collect()).flatten();
        Ok(usage::Counts::new(figures, xfs))
    }

    fn used(&self) -> Result<forebay_model::units::Bytes, AgentError> {
        let capacity = self.record.description.capacity();
        match &self.process {
            Some(process) => Ok(usage::used(capacity, lock(process).figures()?.available)),
            None => direct::used(self.record.serving, &self.roots[0], capacity),
        }
    }

    /// Gives the lease back. The last one out unmounts everything and ends the instance process.
    pub fn detach(mut self) -> Result<(), AgentError> {
        self.leave(After::Keep)
    }

    /// Detaches and removes the instance with all its data. Faster than [`Attachment::detach`] and
    /// [`crate::Agent::destroy_instance`] because nothing is written back first. If others are attached it only
    /// detaches, and answers [`AgentError::InUse`].
    pub fn discard(mut self) -> Result<(), AgentError> {
        self.leave(After::Discard)
    }

    /// All steps are taken also when one fails; the first failure is answered.
    fn leave(&mut self, after: After) -> Result<(), AgentError> {
        let Some(lease) = self.lease.take() else { return Ok(()) };
        let _gate = self.state.existing_gate()?;
        let mine: Vec<ConfigurationId> = self.mounts.keys().copied().collect();
        let mut results: Vec<Result<(), AgentError>> = Vec::new();
        for configuration in mine {
            results.push(self.unmount_under_gate(configuration).map(drop));
        }
        match (lease.give_back(), after) {
            (Ok(true), After::Keep) => results.extend(self.last_one_out()),
            (Ok(true), After::Discard) => results.push(self.remove()),
            (Ok(false), After::Keep) => self.process = None,
            (Ok(false), After::Discard) => {
                self.process = None;
                results.push(Unused::prove(self.state.path(), self.state.instance()).map(drop));
            }
            (Err(error), _) => results.push(Err(error)),
        }
        results.into_iter().collect()
    }

    fn last_one_out(&mut self) -> Vec<Result<(), AgentError>> {
        let mut results = Vec::new();
        if let Some(process) = self.process.take() {
            let mut connection = process.into_inner().unwrap_or_else(PoisonError::into_inner);
            results.push(connection.end(false));
            results.push(leftover::wait_for_end(&self.state).map(drop));
        }
        // The threads that have to end before the devices do are known to these fragments only.
        results.push(fragment::on_all(&self.fragments, |fragment| fragment.take_down()).map(drop));
        results.push(clean::leftovers(&self.state, &self.record));
        results
    }

    /// From the first step on nobody can attach any more: what is not written back is never seen as data.
    fn remove(&mut self) -> Result<(), AgentError> {
        self.record.begin_removing(self.state.path())?;
        self.record.removing = true;
        if let Some(process) = self.process.take() {
            let mut connection = process.into_inner().unwrap_or_else(PoisonError::into_inner);
            // If it has died meanwhile, removing cleans up after it.
            let _ = connection.end(true);
            let _ = leftover::wait_for_end(&self.state);
        }
        self.fragments.iter().for_each(|fragment| fragment.abandon());
        // The threads that have to end before the devices do are known to these fragments only.
        fragment::on_all(&self.fragments, |fragment| fragment.take_down())?;
        destroy::remove(&self.state, self.record.clone())
    }

    fn configuration(
        &self,
        configuration: ConfigurationId,
    ) -> Result<&crate::description::ConfigurationDescription, AgentError> {
        let known = &self.record.description.configurations;
        known.iter().find(|known| known.id == configuration).ok_or_else(|| AgentError::UnknownConfiguration {
            instance: self.state.instance(),
            configuration,
            known: known.iter().map(|known| known.id).collect(),
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Whoever wants to know calls `detach`. What is left is removed by the next attach or clean-up.
        let _ = self.leave(After::Keep);
    }
}

fn lock(process: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}
