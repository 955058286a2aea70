//! The ways in which an instance can be served, and the choice among them.
//!
//! Pure. The choice is made once, when an instance is made, and recorded: a later attach on the same machine must find
//! the data where the first one put it.

use crate::capabilities::{Capabilities, Feature, Lack};
use crate::description::InstanceDescription;
use crate::error::AgentError;
use serde::{Deserialize, Serialize};

/// How an instance reaches the job. Chosen when it is made; never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serving {
    /// The fragment is an XFS image of fixed size on a loop device, and the job's path is a bind mount of the
    /// namespace in it: no process of ours between the job and the local file system.
    DirectXfs,
    /// The DWFS file system over all fragments, mounted through FUSE by an instance process.
    Fuse {
        /// Files that are one local file are handed to the kernel, which then reads and writes them itself.
        passthrough: bool,
    },
    /// The namespace is a plain directory of the first fragment.
    PlainDirectory,
}

impl Serving {
    /// One line for the summary of a job.
    pub fn describe(self) -> &'static str {
        match self {
            Serving::DirectXfs => "local XFS of fixed size, reached directly",
            Serving::Fuse { passthrough: true } => "DWFS through FUSE with kernel passthrough",
            Serving::Fuse { passthrough: false } => "DWFS through FUSE",
            Serving::PlainDirectory => "plain directory on the first node's disk",
        }
    }

    /// What the description asks for and this way of serving does not hold to, one phrase each.
    pub fn not_enforced(self) -> Vec<&'static str> {
        match self {
            Serving::DirectXfs | Serving::Fuse { .. } => Vec::new(),
            Serving::PlainDirectory => vec![
                "the capacity of the allocation",
                "striping over the storage nodes",
                "limits on file size, number of files and bytes written",
            ],
        }
    }

    /// True if an instance process has to run while the instance is attached.
    pub(crate) fn needs_process(self) -> bool {
        matches!(self, Serving::Fuse { .. })
    }

    /// Why this way cannot serve the instance on this machine; `None` if it can.
    pub fn obstacle(self, instance: &InstanceDescription, capabilities: &Capabilities) -> Option<Obstacle> {
        match self {
            Serving::DirectXfs if instance.fragments.len() != 1 => {
                Some(Obstacle::SeveralFragments { fragments: instance.fragments.len() })
            }
            Serving::DirectXfs if instance.has_limits() => Some(Obstacle::Limits),
            Serving::DirectXfs => lack(&capabilities.images),
            Serving::Fuse { passthrough: true } if instance.write_window.is_some() => {
                Some(Obstacle::WriteWindow)
            }
            Serving::Fuse { passthrough: false } => lack(&capabilities.fuse),
            Serving::Fuse { passthrough: true } => {
                lack(&capabilities.fuse).or_else(|| lack(&capabilities.passthrough))
            }
            Serving::PlainDirectory => None,
        }
    }

    /// The fastest correct way for an instance; `wanted` overrides the choice and is refused where it cannot work.
    pub fn choose(
        instance: &InstanceDescription,
        capabilities: &Capabilities,
        wanted: Option<Serving>,
    ) -> Result<Serving, AgentError> {
        if let Some(serving) = wanted {
            return match serving.obstacle(instance, capabilities) {
                None => Ok(serving),
                Some(obstacle) => Err(AgentError::ServingImpossible { serving, obstacle }),
            };
        }
        let by_speed =
            [Serving::DirectXfs, Serving::Fuse { passthrough: true }, Serving::Fuse { passthrough: false }];
        let best = by_speed.into_iter().find(|way| way.obstacle(instance, capabilities).is_none());
        Ok(best.unwrap_or(Serving::PlainDirectory))
    }
}

fn lack(feature: &Feature) -> Option<Obstacle> {
    feature.lack().map(|lack| Obstacle::Machine(lack.clone()))
}

/// Why a way of serving cannot be used for an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Only one fragment can be reached directly.
    #[error("the instance has {fragments} fragments, only one can be reached directly")]
    SeveralFragments {
        /// Fragments of the instance.
        fragments: usize,
    },
    /// XFS has no such limits.
    #[error(
        "the instance limits file sizes, the number of files or how much is written, which only DWFS enforces"
    )]
    Limits,
    /// What the kernel writes itself is not counted.
    #[error("the instance has a write window, and what the kernel writes itself is not counted")]
    WriteWindow,
    /// The machine lacks something.
    #[error(transparent)]
    Machine(Lack),
}
