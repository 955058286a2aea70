//! What the agent is to make of an instance of the registry: places and layout added to the record.
//!
//! Pure, and the same for the same record: making an instance again after a crash must describe the same places.

use crate::config::{Config, DEFAULT_STRIPE_SIZE};
use crate::state_dir::StateDir;
use forebay_agent::{ConfigurationDescription, FragmentDescription, InstanceDescription};
use forebay_controller::record::{ConfigurationRecord, FragmentRecord, InstanceRecord};
use forebay_model::limits::WriteWindow;
use forebay_model::objects::AccessMode;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Substripes of a file on one node where there are several nodes: writers of one shared file do not queue on one
/// inode. The number is DataWarp's own. With one node files are kept whole, at the speed of the local file system.
const SUBSTRIPES_STRIPED: u32 = 3;

/// The description of an instance whose mounts carry `mount_name` (a job's token, a persistent instance's name).
pub fn describe(
    instance: &InstanceRecord,
    mount_name: &str,
    state: &StateDir,
    config: &Config,
) -> InstanceDescription {
    let pool = config.pools.iter().find(|pool| pool.name == instance.pool);
    let by_nodes = if instance.fragments.len() == 1 { 1 } else { SUBSTRIPES_STRIPED };
    InstanceDescription {
        instance: instance.id,
        label: instance.label.clone(),
        fragments: instance.fragments.iter().map(|fragment| fragment_at(fragment, state)).collect(),
        configurations: instance
            .configurations
            .iter()
            .map(|configuration| configuration_at(configuration, mount_name, state))
            .collect(),
        stripe_size: pool.map_or(DEFAULT_STRIPE_SIZE, |pool| pool.stripe_size),
        substripes: pool.and_then(|pool| pool.substripes).unwrap_or(by_nodes),
        write_window: instance.write_window.map(|window| WriteWindow {
            length_s: window.length_s,
            multiplier: window.multiplier,
            policy: config.policy.write_window,
        }),
        policies: config.policy.of_namespaces(),
    }
}

/// A fragment's own directory. Registries number their fragments independently, so the name carries a mark of the
/// registry's place: users may share a disk.
fn fragment_at(fragment: &FragmentRecord, state: &StateDir) -> FragmentDescription {
    let registry = xxhash_rust::xxh3::xxh3_64(state.root().as_os_str().as_bytes());
    FragmentDescription {
        id: fragment.id,
        node: fragment.node.clone(),
        directory: fragment.directory.join(format!(
            "fragment-{:08x}-{}",
            registry & 0xffff_ffff,
            fragment.id
        )),
        capacity: fragment.capacity,
    }
}

fn configuration_at(
    configuration: &ConfigurationRecord,
    mount_name: &str,
    state: &StateDir,
) -> ConfigurationDescription {
    ConfigurationDescription {
        id: configuration.id,
        access_mode: configuration.access.mode,
        max_file_size: configuration.access.max_file_size,
        max_files: configuration.access.max_files,
        mount: mount_point(state, mount_name, configuration.access.mode),
    }
}

/// Where a configuration is mounted: the name DataWarp's later versions used, without the job id for persistent
/// instances, so that their paths stay the same from job to job.
pub fn mount_point(state: &StateDir, name: &str, mode: AccessMode) -> PathBuf {
    let mode = match mode {
        AccessMode::Striped => "striped",
        AccessMode::Private => "private",
        AccessMode::Ldbalance => "ldbalance",
    };
    state.mounts().join(format!("{name}_{mode}_scratch"))
}
