//! What the instance process does: volumes, mounts, stagings.
//!
//! Mounting, unmounting and ending exclude each other by the lock of `namespaces`; stagings and figures only take it
//! for a moment. Ending waits for running stagings, whose peers are gone by then, so that they are being stopped.

use super::log_tail::note;
use super::protocol::Figures;
use crate::account::{FragmentUse, InstanceAccount, NamespaceAccount, shape};
use crate::error::AgentError;
use crate::fragment::{self, Fragment};
use crate::holders::Holders;
use crate::node::KeepAwake;
use crate::record::Record;
use crate::serving::Serving;
use crate::stage::{self, StageTask};
use crate::state_directory::StateDirectory;
use crate::volume_tree::VolumeTree;
use crate::{mount_table, mounting, namespace};
use forebay_client::Volume;
use forebay_fuse::{KernelCache, MountError, MountOptions, Mounted, Unmount, UnmountError};
use forebay_model::ids::ConfigurationId;
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use forebay_stager::{
    CancelToken, Direction, PosixTree, StageFailure, StageProgress, StageReport, StageRequest, TreeError,
};
use forebay_wire::{FragmentAccount, FsError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Why a request could not be carried out. Becomes a line of text on the socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("opening the file system: {0}")]
    Open(FsError),
    #[error("looking at the file system: {0}")]
    FileSystem(FsError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Unmount(#[from] UnmountError),
    #[error("preparing to stage: {0}")]
    Stage(TreeError),
    #[error("the instance has no configuration {0}")]
    UnknownConfiguration(ConfigurationId),
    #[error("the process is ending")]
    Ending,
}

/// A configuration being served.
struct Namespace {
    volume: Arc<Volume>,
    mount_point: PathBuf,
    mounted: Option<Mounted>,
    /// For announcing to the kernel what a staging changes; shared with the trees of running stagings.
    cache: Arc<RwLock<Option<KernelCache>>>,
}

/// The open instance.
pub(crate) struct Service {
    record: Record,
    /// `None` once it has ended.
    fragments: Mutex<Option<Arc<Fragments>>>,
    namespaces: Mutex<BTreeMap<ConfigurationId, Namespace>>,
    /// Read by stagings, written by the end.
    staging: RwLock<()>,
}

impl Service {
    /// Opens fragments and volumes. The starter has brought the fragments up and holds the gate.
    pub fn open(state: &StateDirectory) -> Result<Service, ServiceError> {
        let record = state.complete_record()?;
        // As many as the system lets us have: open files of the job need descriptors here.
        forebay_server::local::raise_descriptor_limit().map_err(ServiceError::Open)?;
        let specs = fragment_specs(&record)?;
        let fragments = Fragments::open(&specs).map_err(ServiceError::Open)?;
        if let Some(window) = record.description.write_window {
            let sizes: Vec<Bytes> = record.description.fragments.iter().map(|one| one.capacity).collect();
            fragments.limit_writes(window, &sizes).map_err(ServiceError::Open)?;
        }
        let mut namespaces = BTreeMap::new();
        for configuration in &record.description.configurations {
            namespaces.insert(configuration.id, open_namespace(&record, configuration, &fragments)?);
        }
        Ok(Service {
            record,
            fragments: Mutex::new(Some(fragments)),
            namespaces: Mutex::new(namespaces),
            staging: RwLock::new(()),
        })
    }

    /// Mounts a configuration; nothing to do if it is mounted.
    pub fn mount(&self, configuration: ConfigurationId) -> Result<(), ServiceError> {
        let mut namespaces = self.namespaces()?;
        let unknown = ServiceError::UnknownConfiguration(configuration);
        let namespace = namespaces.get_mut(&configuration).ok_or(unknown)?;
        if namespace.mounted.is_some() {
            return Ok(());
        }
        mounting::make_mount_point(&namespace.mount_point)?;
        let mounted =
            forebay_fuse::mount(Arc::clone(&namespace.volume), &namespace.mount_point, &self.options())?;
        *namespace.cache.write().unwrap_or_else(PoisonError::into_inner) =
            Some(mounted.kernel_cache().clone());
        namespace.mounted = Some(mounted);
        Ok(())
    }

    /// Unmounts it; the answer says who still uses it.
    pub fn unmount(&self, configuration: ConfigurationId) -> Result<Option<Holders>, ServiceError> {
        let mut namespaces = self.namespaces()?;
        let unknown = ServiceError::UnknownConfiguration(configuration);
        namespaces.get_mut(&configuration).ok_or(unknown)?.unmount()
    }

    /// Present figures over all configurations.
    pub fn figures(&self) -> Result<Figures, ServiceError> {
        let namespaces = self.namespaces()?;
        let mut figures = Figures::default();
        for namespace in namespaces.values() {
            let counters = namespace.volume.counters();
            figures.bytes_read += counters.bytes_read;
            figures.bytes_written += counters.bytes_written;
            figures.files_created += counters.files_created;
        }
        // All configurations share the space of the fragments.
        if let Some(namespace) = namespaces.values().next() {
            let space = namespace.volume.statfs().map_err(ServiceError::FileSystem)?;
            figures.available = Bytes(space.blocks_available.saturating_mul(u64::from(space.block_size)));
        }
        Ok(figures)
    }

    /// The accounting.
    pub fn account(&self) -> Result<InstanceAccount, ServiceError> {
        let namespaces = self.namespaces()?;
        let fragments = self.fragments.lock().unwrap_or_else(PoisonError::into_inner);
        let accounts = fragments.as_ref().ok_or(ServiceError::Ending)?.accounts();
        let described = &self.record.description;
        let created = namespaces.values().map(|namespace| namespace.volume.counters().files_created).sum();
        let fragment = |(position, account): (usize, FragmentAccount)| {
            // All names are in the first fragment.
            let created = if position == 0 { created } else { 0 };
            let named = described.fragments.get(position);
            let account = FragmentUse::new(account, created);
            match named {
                Some(named) => FragmentUse { node: named.node.clone(), ..account },
                None => account,
            }
        };
        let accounts = accounts.map_err(ServiceError::FileSystem)?;
        Ok(InstanceAccount {
            fragments: accounts.into_iter().enumerate().map(fragment).collect(),
            namespaces: namespaces.iter().map(|(id, one)| self.namespace_account(*id, one)).collect(),
        })
    }

    fn namespace_account(&self, id: ConfigurationId, namespace: &Namespace) -> NamespaceAccount {
        let described = &self.record.description;
        let configuration = described.configurations.iter().find(|known| known.id == id);
        let moved = namespace.volume.moved_ever();
        // What the kernel reads and writes itself does not pass the volume.
        let is_all = self.record.serving != Serving::Fuse { passthrough: true };
        NamespaceAccount {
            name: namespace::name(id),
            layout: namespace.volume.new_layout().map(|layout| shape(&layout)),
            max_file_size: configuration.and_then(|known| known.max_file_size).map(|size| size.0),
            file_size_policy: described.policies.file_size,
            max_files: configuration.and_then(|known| known.max_files),
            file_count_policy: described.policies.file_count,
            files_created: Some(namespace.volume.counters().files_created),
            moved: is_all.then(|| moved.into()),
            staged: Some(moved.into()),
            clients: Some(u64::from(namespace.mounted.is_some())),
            open: None,
        }
    }

    /// Stages data; blocks until it is done.
    pub fn stage(
        &self,
        task: &StageTask,
        progress: &(dyn Fn(StageProgress) + Sync),
        cancel: &CancelToken,
    ) -> Result<Result<StageReport, StageFailure>, ServiceError> {
        let _running = self.staging.read().unwrap_or_else(PoisonError::into_inner);
        let (inside, volume) = self.tree(task.configuration)?;
        let outside = PosixTree::everywhere().map_err(ServiceError::Stage)?;
        let (source, destination): (&dyn forebay_stager::Tree, &dyn forebay_stager::Tree) =
            match task.direction {
                Direction::In => (&outside, &inside),
                Direction::Out => (&inside, &outside),
            };
        let request =
            StageRequest { direction: task.direction, source, destination, what: task.what.clone() };
        let done = forebay_stager::stage(&request, &task.options, progress, cancel);
        let (out, brought_in) = stage::moved(task.direction, &done);
        volume.count_staged(out, brought_in);
        Ok(done)
    }

    fn tree(&self, configuration: ConfigurationId) -> Result<(VolumeTree, Arc<Volume>), ServiceError> {
        let namespaces = self.namespaces()?;
        let unknown = ServiceError::UnknownConfiguration(configuration);
        let namespace = namespaces.get(&configuration).ok_or(unknown)?;
        let (volume, cache) = (Arc::clone(&namespace.volume), Arc::clone(&namespace.cache));
        Ok((VolumeTree::new(volume.clone(), &namespace.mount_point, cache), volume))
    }

    /// Unmounts and closes everything; with `discard` without writing back what is about to be removed. Errors are logged: there is nobody who could do better, and the next open
    /// looks through fragments that were not closed.
    pub fn end(&self, discard: bool) {
        let fragments = self.fragments.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _none_runs = self.staging.write().unwrap_or_else(PoisonError::into_inner);
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        for namespace in namespaces.values_mut() {
            if let Err(error) = namespace.unmount() {
                note(format_args!("unmounting at the end: {error}"));
            }
            // In the same process this cannot fail.
            let _ = namespace.volume.report();
            if !discard && let Err(error) = namespace.volume.sync() {
                note(format_args!("writing back at the end: {error}"));
            }
        }
        namespaces.clear();
        if !discard && let Some(Err(error)) = fragments.map(Fragments::close) {
            note(format_args!("closing the fragments: {error}"));
        }
    }

    fn namespaces(&self) -> Result<MutexGuard<'_, BTreeMap<ConfigurationId, Namespace>>, ServiceError> {
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.fragments.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if ended { Err(ServiceError::Ending) } else { Ok(namespaces) }
    }

    fn options(&self) -> MountOptions {
        let mut options = MountOptions::named(self.record.description.label.clone());
        // Root serves whoever the permissions let in; another user may only serve themselves.
        options.allow_other = rustix::process::geteuid().is_root();
        options.passthrough = self.record.serving == Serving::Fuse { passthrough: true };
        options.awake = KeepAwake::default().awake();
        options
    }
}

impl Namespace {
    fn unmount(&mut self) -> Result<Option<Holders>, ServiceError> {
        *self.cache.write().unwrap_or_else(PoisonError::into_inner) = None;
        let Some(mounted) = self.mounted.take() else { return Ok(None) };
        // Users are only looked for if there can be any, and before the mount leaves the tree: afterwards their paths do
        // not show it any more.
        let idle = mounting::unmount_idle(&self.mount_point);
        let users = if idle { Holders::default() } else { Holders::of_mount(&self.mount_point) };
        let how = mounted.unmount()?;
        mounting::remove_mount_point(&self.mount_point)?;
        Ok((how == Unmount::Lazy).then_some(users))
    }
}

fn fragment_specs(record: &Record) -> Result<Vec<FragmentSpec>, AgentError> {
    let fragments = fragment::of_instance(&record.description, record.fragments);
    let spec = |fragment: &dyn Fragment| {
        let metered = SpaceRule::Metered(fragment.capacity());
        let space = if fragment.hard_size() { SpaceRule::Hard } else { metered };
        Ok(FragmentSpec { root: fragment.bring_up()?, space })
    };
    fragment::on_all(&fragments, spec)
}

fn open_namespace(
    record: &Record,
    configuration: &crate::description::ConfigurationDescription,
    fragments: &Arc<Fragments>,
) -> Result<Namespace, ServiceError> {
    let limits = Limits {
        max_file_size: configuration.max_file_size,
        max_files: configuration.max_files,
        policies: record.description.policies,
    };
    let layout = LayoutChoice {
        stripe_size: Some(record.description.stripe_size.0),
        substripes: Some(record.description.substripes),
        ..LayoutChoice::default()
    };
    let spec = NamespaceSpec { name: namespace::name(configuration.id), layout, limits };
    let services = fragments.namespace(&spec).map_err(ServiceError::Open)?;
    Ok(Namespace {
        volume: Arc::new(Volume::new(services.metadata, services.data)),
        mount_point: mount_table::resolved(&configuration.mount),
        mounted: None,
        cache: Arc::new(RwLock::new(None)),
    })
}
