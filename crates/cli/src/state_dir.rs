//! Where a user's burst buffer keeps its state.
//!
//! One directory per user: `$FOREBAY_STATE_DIR`, else `$XDG_STATE_HOME/forebay`, else `~/.local/state/forebay`. It holds
//! the registry, a directory per instance, the mount points, and a directory per job. Nothing of forebay lies outside
//! of it, except fragments whose node directory was named by the user (`--pool-dir`, configuration file).
//!
//! The layout is part of the contract between versions; paths are made from here and nowhere else.

use rustix::fs::Mode;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The environment variable that overrides the place.
pub const STATE_DIR_VARIABLE: &str = "FOREBAY_STATE_DIR";

/// Why there is no state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Neither of the variables is set.
    #[error(
        "cannot tell where to keep state: set HOME, XDG_STATE_HOME or {STATE_DIR_VARIABLE}, or give --state-dir"
    )]
    NoHome,
    /// A relative path would mean another directory for every command.
    #[error(
        "the state directory must be an absolute path, {given:?} is not: check --state-dir, {STATE_DIR_VARIABLE}, XDG_STATE_HOME and HOME"
    )]
    Relative {
        /// What was given.
        given: PathBuf,
    },
    /// What is made with such a mask its owner cannot use, and could not remove.
    #[error(
        "the umask {mask:04o} takes rights from the owner of new files, and nothing can be kept in them: set another one, such as umask 077"
    )]
    Mask {
        /// The mask.
        mask: u32,
    },
    /// The directory cannot be made.
    #[error(
        "cannot make the state directory {path:?}: {source}; choose another one with --state-dir or {STATE_DIR_VARIABLE}"
    )]
    Make {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A user's state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Chooses the directory from `--state-dir` and the environment, without touching the disk.
    pub fn choose(
        option: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<StateDir, StateDirError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = option
            .map(Path::to_path_buf)
            .or_else(|| set(STATE_DIR_VARIABLE))
            .or_else(|| set("XDG_STATE_HOME").map(|path| path.join("forebay")))
            .or_else(|| set("HOME").map(|path| path.join(".local/state/forebay")))
            .ok_or(StateDirError::NoHome)?;
        if root.is_absolute() { Ok(StateDir { root }) } else { Err(StateDirError::Relative { given: root }) }
    }

    /// The directory of this process's environment.
    pub fn from_environment(option: Option<&Path>) -> Result<StateDir, StateDirError> {
        StateDir::choose(option, |name| std::env::var_os(name))
    }

    /// Makes the directories, readable by the owner only: scripts and paths of jobs are nobody else's business.
    pub fn make(&self) -> Result<(), StateDirError> {
        let mask = mask();
        let is_root = rustix::process::geteuid().is_root();
        let shuts_out = mask.contains(Mode::RUSR) || mask.contains(Mode::WUSR) || mask.contains(Mode::XUSR);
        // Permissions do not stop root.
        if shuts_out && !is_root {
            return Err(StateDirError::Mask { mask: mask.as_raw_mode() });
        }
        for path in [self.root.clone(), self.instances(), self.mounts(), self.jobs(), self.pool()] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|source| StateDirError::Make { path, source })?;
        }
        Ok(())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database of pools, sessions and instances.
    pub fn registry(&self) -> PathBuf {
        self.root.join("registry.sqlite")
    }

    /// One directory per instance: description, lease, socket, log.
    pub fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// Mount points of activations.
    pub fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    /// One directory per job: the copy of its script, journals of its stages.
    pub fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// The directory of one job.
    pub fn job(&self, token: &str) -> PathBuf {
        self.jobs().join(token)
    }

    /// Where the default pool's nodes keep their fragments.
    pub fn pool(&self) -> PathBuf {
        self.root.join("pool")
    }
}

/// The mask of this process. It can be read by setting it only; another thread makes no file that the stricter one would harm.
fn mask() -> Mode {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(option: Option<&str>, variables: &[(&str, &str)]) -> Result<StateDir, StateDirError> {
        StateDir::choose(option.map(Path::new), |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_option_wins_then_the_variable_then_xdg_then_home() {
        let all = [(STATE_DIR_VARIABLE, "/v"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(choose(Some("/o"), &all).unwrap().root(), Path::new("/o"));
        assert_eq!(choose(None, &all).unwrap().root(), Path::new("/v"));
        assert_eq!(choose(None, &all[1..]).unwrap().root(), Path::new("/x/forebay"));
        assert_eq!(choose(None, &all[2..]).unwrap().root(), Path::new("/h/.local/state/forebay"));
    }

    #[test]
    fn an_empty_variable_is_not_set_and_a_relative_one_is_refused() {
        assert!(matches!(choose(None, &[("HOME", "")]), Err(StateDirError::NoHome)));
        assert!(matches!(choose(None, &[("XDG_STATE_HOME", "state")]), Err(StateDirError::Relative { .. })));
    }
}
