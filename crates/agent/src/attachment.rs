//! An attached instance: mounts, stagings, figures.

use crate::error::AgentError;
use crate::serving::Serving;
use crate::stage::{StageError, StageTask};
use crate::usage::Usage;
use forebay_model::ids::ConfigurationId;
use forebay_stager::{CancelToken, StageProgress, StageReport};
use std::path::{Path, PathBuf};

/// A lease on an instance. While any is held the fragments are up and nobody can destroy the instance. A process that
/// is killed loses its leases by itself; what it had mounted is removed by the next [`crate::Agent::clean_stale`].
#[derive(Debug)]
pub struct Attachment {
    serving: Serving,
}

/// How a configuration was unmounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// It is gone.
    Clean,
    /// Processes still had files of it open: it left the tree and will be gone when they end.
    Lazy {
        /// Ids of the processes seen to hold it.
        holders: Vec<u32>,
    },
    /// Another attachment has mounted it too, so it stays.
    Shared,
}

impl Attachment {
    pub(crate) fn open(_directory: &Path, _program: Option<&Path>) -> Result<Attachment, AgentError> {
        Ok(Attachment { serving: Serving::PlainDirectory })
    }

    /// How the instance is served.
    pub fn serving(&self) -> Serving {
        self.serving
    }

    /// Mounts a configuration and answers its path, without a slash at the end. Mounting it again changes nothing.
    pub fn mount(&mut self, configuration: ConfigurationId) -> Result<PathBuf, AgentError> {
        Err(AgentError::NotMounted { configuration })
    }

    /// Gives the mount of a configuration back; it goes when no other attachment uses it.
    pub fn unmount(&mut self, configuration: ConfigurationId) -> Result<Unmounted, AgentError> {
        Err(AgentError::NotMounted { configuration })
    }

    /// Stages data in or out. Blocks; reports progress at a limited rate from another thread; `cancel` stops it soon.
    /// Several stagings may run at the same time.
    pub fn stage(
        &self,
        task: &StageTask,
        progress: &(dyn Fn(StageProgress) + Sync),
        cancel: &CancelToken,
    ) -> Result<StageReport, StageError> {
        let _ = (progress, cancel);
        Err(AgentError::NotMounted { configuration: task.configuration }.into())
    }

    /// Present figures.
    pub fn usage(&self) -> Result<Usage, AgentError> {
        Ok(Usage::default())
    }

    /// Gives the lease back. The last one out unmounts everything and ends the instance process.
    pub fn detach(self) -> Result<(), AgentError> {
        Ok(())
    }
}
