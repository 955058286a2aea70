//! Mounts of activations on this node: a process each.
//!
//! Order of events in mounting: `instance.toml`, `token` - the way to the mount point is judged ([`super::mount_place`]) -
//! `mount.json` - mount point - process, which attaches and mounts. In
//! unmounting: who is in the way is ended or left ([`super::evict`]) - the mount leaves the tree - the process gives back what it
//! holds and ends - mount point - directory. After a crash at any point the directory says what was to be where, and doing it
//! again, or unmounting, finds the rest. Mounting what is mounted tells the process to read `instance.toml` again (SIGHUP): where
//! the servers are may have changed. A mount is there if its process lives and the mount table shows it: the mount itself is
//! never asked, because its servers may be away.

use super::config::Holding;
use super::error::TaskError;
use super::evict;
use super::left_mounts::LeftMounts;
use super::log_file;
use super::mount_place;
use super::state::{self, State};
use super::tail::Tail;
use super::targets;
use super::worker::{self, Role, note, say_ready};
use crate::error::AgentError;
use crate::mount_table::{self, Mount};
use crate::mounting;
use crate::node::{ClientMount, InstanceFile, IoUring, KeepAwake, MountWishes};
use crate::process::lifelock::{self, LifeLock};
use forebay_controller::cluster::effect::Target;
use forebay_model::ids::{ActivationId, InstanceId};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// Type of our mounts in the mount table.
const KIND: &str = "fuse.dwfs";
/// How long a process that another agent has started may take to mount.
const MOUNT_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a process may take to end when its mount is gone.
const END_WAIT: Duration = Duration::from_secs(10);

/// What is mounted, or was to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MountRecord {
    activation: ActivationId,
    instance: InstanceId,
    path: PathBuf,
    /// Its source in the mount table.
    source: String,
    /// As the configuration was.
    #[serde(default)]
    io_uring: IoUring,
    #[serde(default)]
    keep_awake: KeepAwake,
}

/// The mounts of a node.
pub(super) struct Mounts<'a> {
    pub state: &'a State,
    pub left: &'a LeftMounts,
    pub node: &'a str,
    pub program: &'a Path,
    pub holders: Holding,
    pub io_uring: IoUring,
    pub keep_awake: KeepAwake,
}

impl Mounts<'_> {
    /// Mounts, unless it is mounted.
    pub fn mount(
        &self,
        activation: ActivationId,
        path: &str,
        target: &Target,
        token: &str,
    ) -> Result<(), TaskError> {
        let path = checked(path)?;
        let directory = self.state.mount(activation);
        let home = target.home().unwrap_or_default();
        let record = MountRecord {
            activation,
            instance: target.instance,
            path: path.clone(),
            source: targets::mount_source(target, home),
            io_uring: self.io_uring,
            keep_awake: self.keep_awake,
        };
        let is_up = self.is_up(&record)?;
        targets::write_client(&directory, self.node, target, token)?;
        if is_up {
            // Its servers may be somewhere else now.
            return Ok(lifelock::signal(&self.lock(activation), Signal::HUP)?);
        }
        mount_place::check_way(&path)?;
        state::write(&directory.join("mount.json"), &record)?;
        self.clear(&record)?;
        mounting::make_mount_point(&path)?;
        mount_place::check(&path)?;
        worker::start(self.program, Role::Mount, &directory, &directory.join("log"))
    }

    /// Mounted, by a process that lives. One that is about to mount is waited for; of one that was killed nobody waits for an answer any
    /// more afterwards: see [`evict::cut`].
    fn is_up(&self, record: &MountRecord) -> Result<bool, TaskError> {
        let lock = self.lock(record.activation);
        if !self.state.mount(record.activation).is_dir() {
            return Ok(false);
        }
        if is_in_table(record)? && !lifelock::is_at_work(&lock)? {
            evict::cut(&mount_table::resolved(&record.path))?;
            lifelock::wait_for_end(&lock, END_WAIT)?;
        }
        let begin = Instant::now();
        while lifelock::living(&lock)?.is_some() {
            if is_in_table(record)? {
                return Ok(true);
            }
            if begin.elapsed() > MOUNT_WAIT {
                lifelock::signal(&lock, Signal::KILL)?;
                lifelock::wait_for_end(&lock, END_WAIT)?;
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(false)
    }

    fn lock(&self, activation: ActivationId) -> PathBuf {
        self.state.mount(activation).join("process")
    }

    /// Takes away what a dead process of ours left mounted; anything else stays, and is named.
    fn clear(&self, record: &MountRecord) -> Result<(), TaskError> {
        let point = mount_table::resolved(&record.path);
        while let Some(found) = mount_table::at(&point)? {
            if found.kind != KIND || found.source != Path::new(&record.source) {
                let problem = format!("has a mount of {:?} (type {})", found.source, found.kind);
                return Err(TaskError::Foreign { path: point, problem });
            }
            self.detach(record.activation, &found)?;
        }
        Ok(())
    }

    /// Unmounts, also what is in use.
    pub fn unmount(&self, activation: ActivationId) -> Result<(), TaskError> {
        let directory = self.state.mount(activation);
        let Some(record) = state::read::<MountRecord>(&directory.join("mount.json"))? else {
            // Nothing was mounted before there was a record.
            return Ok(state::remove_directory(&directory)?);
        };
        let lock = self.lock(activation);
        let point = mount_table::resolved(&record.path);
        // One that is about to mount would do so behind our back.
        self.is_up(&record)?;
        let mut is_used = false;
        while let Some(found) = in_table(&record)? {
            if evict::unmount(&point, self.holders)? {
                is_used = true;
                self.detach(activation, &found)?;
            }
        }
        self.left.end_holders(activation)?;
        let is_left = is_used && self.holders == Holding::Leave;
        if !is_left && !lifelock::wait_for_end(&lock, END_WAIT)? {
            lifelock::signal(&lock, Signal::KILL)?;
            if !lifelock::wait_for_end(&lock, END_WAIT)? {
                let said = Tail::since(&directory.join("log"), 0);
                let what = format!("the end of the process that mounted {}", point.display());
                return Err(TaskError::Silent { what, waited: END_WAIT * 2, said });
            }
        }
        if mount_table::at(&point)?.is_none() {
            mounting::remove_mount_point(&record.path)?;
        }
        Ok(state::remove_directory(&directory)?)
    }

    /// Takes a mount that is used from its path. Who is in it can be found at the end of the activation.
    fn detach(&self, activation: ActivationId, found: &Mount) -> Result<(), AgentError> {
        if self.holders == Holding::Kill {
            self.left.keep(activation, found)?;
        }
        evict::detach(&found.point)
    }

    /// Takes away what is left of mounts whose processes are dead, as after a start of the machine.
    pub fn sweep(&self) -> Result<(), TaskError> {
        for activation in self.state.activations()? {
            if lifelock::living(&self.lock(activation))?.is_none() {
                self.unmount(activation)?;
            }
        }
        Ok(())
    }

    /// The activations that are mounted.
    pub fn held(&self) -> Result<Vec<ActivationId>, TaskError> {
        let mut held = Vec::new();
        for activation in self.state.activations()? {
            let directory = self.state.mount(activation);
            let record = state::read::<MountRecord>(&directory.join("mount.json"))?;
            let Some(record) = record else { continue };
            if lifelock::living(&self.lock(activation))?.is_some() && is_in_table(&record)? {
                held.push(activation);
            }
        }
        Ok(held)
    }
}

fn is_in_table(record: &MountRecord) -> Result<bool, AgentError> {
    Ok(in_table(record)?.is_some())
}

fn in_table(record: &MountRecord) -> Result<Option<Mount>, AgentError> {
    let found = mount_table::at(&mount_table::resolved(&record.path))?;
    Ok(found.filter(|found| found.kind == KIND && found.source == Path::new(&record.source)))
}

/// Where the controller may have something mounted: an absolute path without tricks.
fn checked(path: &str) -> Result<PathBuf, TaskError> {
    let plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    let is_plain = path.starts_with('/') && path.len() > 1 && Path::new(path).components().all(plain);
    if is_plain && !path.contains('\0') {
        return Ok(path.trim_end_matches('/').into());
    }
    Err(TaskError::BadOrder { problem: format!("{path:?} is no absolute path to mount at") })
}

/// The process of a mount.
pub(super) fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let Some(_lock) = LifeLock::take(&directory.join("process"))? else {
        return Err("another process mounts this".into());
    };
    let record: MountRecord =
        state::read(&directory.join("mount.json"))?.ok_or("it is not said what is to be mounted")?;
    log_file::keep(directory.join("log"))?;
    let description = directory.join("instance.toml");
    let file = InstanceFile::read(&description)?;
    // Before the mount, so that a signal that comes early is not lost. The terminal's are not for it.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    rustix::process::umask(rustix::fs::Mode::empty());
    let mounted = ClientMount::start(
        &file,
        &record.path,
        MountWishes { allow_other: true, io_uring: record.io_uring, keep_awake: record.keep_awake },
    )?;
    say_ready();
    let (unmounter, servers) = (mounted.unmounter(), mounted.servers());
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let done: Result<(), Box<dyn Error>> = match signal {
                SIGTERM => unmounter.unmount().map(drop).map_err(Into::into),
                SIGHUP => InstanceFile::read(&description)
                    .and_then(|file| servers.move_to(&file))
                    .map_err(Into::into),
                _ => Ok(()),
            };
            if let Err(error) = done {
                note(format_args!("signal {signal}: {error}"));
            }
        }
    })?;
    mounted.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_absolute_paths_are_mounted_at() {
        for path in ["/var/opt/cray/dws/mounts/batch/7_striped_scratch/", "/mnt"] {
            assert_eq!(checked(path).unwrap(), Path::new(path.trim_end_matches('/')));
        }
        for path in ["", "/", "mnt", "/mnt/../etc", "/a\0b"] {
            assert!(matches!(checked(path), Err(TaskError::BadOrder { .. })), "{path:?}");
        }
    }
}
