//! What the controller wants made on this machine: the instance, its fragments and the uses made of it.
//!
//! Pure records. They are stored in `instance.json` as they were given, and never change in the life of an instance.

use crate::error::{AgentError, DescriptionFault};
use forebay_model::ids::{ConfigurationId, FragmentId, InstanceId};
use forebay_model::layout::{STRIPE_SIZE_MAX, STRIPE_SIZE_UNIT, SUBSTRIPES_MAX};
use forebay_model::limits::{Policies, WriteWindow};
use forebay_model::objects::AccessMode;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// An instance as the controller describes it to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceDescription {
    /// Id, unique in the registry; names the instance's state directory.
    pub instance: InstanceId,
    /// `I<session>-0` or the name of a persistent instance; shows as the source of the mount in `df`.
    pub label: String,
    /// The pieces of space, in the order in which files are dealt over them. The first one holds the metadata.
    pub fragments: Vec<FragmentDescription>,
    /// The namespaces in it, each mounted at a place of its own.
    pub configurations: Vec<ConfigurationDescription>,
    /// Bytes of a file that lie on one fragment before the next one's turn.
    pub stripe_size: Bytes,
    /// Local files that the share of a fragment is dealt over.
    pub substripes: u32,
    /// How much may be written to each fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_window: Option<WriteWindow>,
    /// What happens when a limit of a configuration is reached.
    #[serde(default)]
    pub policies: Policies,
}

/// A piece of space on one storage node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentDescription {
    /// Id.
    pub id: FragmentId,
    /// The storage node it lies on; for messages.
    pub node: String,
    /// Where the node keeps it. The agent makes this directory and removes it with all that is in it, so it must
    /// belong to the fragment alone.
    pub directory: PathBuf,
    /// Bytes that can be stored in it.
    pub capacity: Bytes,
}

/// A namespace of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationDescription {
    /// Id; the namespace on disk is called `c<id>`.
    pub id: ConfigurationId,
    /// Who sees what. On one machine, where the job has one client node, private and striped look the same.
    pub access_mode: AccessMode,
    /// A write beyond this size is refused with EFBIG, or logged.
    pub max_file_size: Option<Bytes>,
    /// Creating more files than this is refused with EMFILE, or logged.
    pub max_files: Option<u64>,
    /// The directory that the job sees it at. The agent makes it (its parents too) and removes it again when empty.
    pub mount: PathBuf,
}

impl InstanceDescription {
    /// Bytes that can be stored in all fragments together.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.fragments.iter().fold(0, |sum, fragment| sum.saturating_add(fragment.capacity.0)))
    }

    /// True if there is a limit that only DWFS can enforce: of a namespace (file size, number of files), or on writing.
    pub fn has_limits(&self) -> bool {
        self.write_window.is_some()
            || self.configurations.iter().any(|c| c.max_file_size.is_some() || c.max_files.is_some())
    }
}

/// Most fragments of one instance.
const FRAGMENTS_LIMIT: usize = 1024;
/// Most configurations of one instance.
const CONFIGURATIONS_LIMIT: usize = 64;
/// Longest label: it has to fit into a line of the mount table.
const LABEL_LIMIT: usize = 128;

impl InstanceDescription {
    /// Refuses what cannot be carried out.
    pub fn validate(&self) -> Result<(), AgentError> {
        self.fault()
            .map_or(Ok(()), |fault| Err(AgentError::BadDescription { instance: self.instance, fault }))
    }

    fn fault(&self) -> Option<DescriptionFault> {
        if self.fragments.is_empty() {
            return Some(DescriptionFault::NoFragment);
        }
        if self.configurations.is_empty() {
            return Some(DescriptionFault::NoConfiguration);
        }
        let printable = |c: char| c.is_ascii_graphic() && c != '\\' && c != ',';
        if self.label.is_empty() || self.label.len() > LABEL_LIMIT || !self.label.chars().all(printable) {
            return Some(DescriptionFault::BadLabel(self.label.clone()));
        }
        let stripes = 1..=STRIPE_SIZE_MAX;
        if !stripes.contains(&self.stripe_size.0)
            || !self.stripe_size.0.is_multiple_of(STRIPE_SIZE_UNIT)
            || !(1..=SUBSTRIPES_MAX).contains(&self.substripes)
        {
            return Some(DescriptionFault::BadLayout {
                stripe_size: self.stripe_size,
                substripes: self.substripes,
            });
        }
        self.count_fault().or_else(|| self.fragment_fault()).or_else(|| self.path_fault())
    }

    fn count_fault(&self) -> Option<DescriptionFault> {
        let too_many =
            |kind, count, limit| (count > limit).then_some(DescriptionFault::TooMany { kind, count, limit });
        let fragments = self.fragments.iter().map(|fragment| fragment.id.0).collect();
        let configurations = self.configurations.iter().map(|configuration| configuration.id.0).collect();
        too_many("fragments", self.fragments.len(), FRAGMENTS_LIMIT)
            .or_else(|| too_many("configurations", self.configurations.len(), CONFIGURATIONS_LIMIT))
            .or_else(|| duplicate("fragment", fragments))
            .or_else(|| duplicate("configuration", configurations))
    }

    fn fragment_fault(&self) -> Option<DescriptionFault> {
        let empty = self.fragments.iter().find(|fragment| fragment.capacity.0 == 0)?;
        Some(DescriptionFault::NoCapacity { id: empty.id.0 })
    }

    /// Everything the agent makes and removes is in a place of its own.
    fn path_fault(&self) -> Option<DescriptionFault> {
        let fragments = self.fragments.iter().map(|fragment| &fragment.directory);
        let mut paths: Vec<&PathBuf> =
            fragments.chain(self.configurations.iter().map(|c| &c.mount)).collect();
        if let Some(path) = paths.iter().find(|path| !is_plain_absolute(path)) {
            return Some(DescriptionFault::PathNotAbsolute((*path).clone()));
        }
        // In the order of their components a path comes right before one that lies in it.
        paths.sort();
        let overlap = paths.windows(2).find(|pair| pair[1].starts_with(pair[0]))?;
        Some(DescriptionFault::PathsOverlap(overlap[0].clone(), overlap[1].clone()))
    }
}

fn duplicate(kind: &'static str, mut ids: Vec<u64>) -> Option<DescriptionFault> {
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(DescriptionFault::DuplicateId { kind, id: twice[0] })
}

fn is_plain_absolute(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.clone().next().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> InstanceDescription {
        let fragment = |id| FragmentDescription {
            id: FragmentId(id),
            node: format!("node{id}"),
            directory: format!("/pool/f{id}").into(),
            capacity: Bytes(1),
        };
        let configuration = ConfigurationDescription {
            id: ConfigurationId(1),
            access_mode: AccessMode::Striped,
            max_file_size: None,
            max_files: None,
            mount: "/mnt/job".into(),
        };
        InstanceDescription {
            instance: InstanceId(1),
            label: "I1-0".into(),
            fragments: vec![fragment(1), fragment(2)],
            configurations: vec![configuration],
            stripe_size: Bytes(8 << 20),
            substripes: 1,
            write_window: None,
            policies: Policies::default(),
        }
    }

    fn fault_after(change: impl FnOnce(&mut InstanceDescription)) -> Option<DescriptionFault> {
        let mut description = description();
        change(&mut description);
        description.fault()
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        use DescriptionFault as F;
        assert_eq!(fault_after(|_| ()), None);
        assert_eq!(fault_after(|d| d.fragments.clear()), Some(F::NoFragment));
        assert_eq!(fault_after(|d| d.configurations.clear()), Some(F::NoConfiguration));
        assert_eq!(fault_after(|d| d.label = "a b".into()), Some(F::BadLabel("a b".into())));
        assert_eq!(fault_after(|d| d.fragments[1].capacity = Bytes(0)), Some(F::NoCapacity { id: 2 }));
        let layout = F::BadLayout { stripe_size: Bytes(5000), substripes: 1 };
        assert_eq!(fault_after(|d| d.stripe_size = Bytes(5000)), Some(layout));
        assert!(matches!(fault_after(|d| d.substripes = 0), Some(F::BadLayout { .. })));
        let twice = F::DuplicateId { kind: "fragment", id: 1 };
        assert_eq!(fault_after(|d| d.fragments[1].id = FragmentId(1)), Some(twice));
        for path in ["relative", "/a/../b", "/"] {
            let fault = fault_after(|d| d.configurations[0].mount = path.into());
            assert_eq!(fault, Some(F::PathNotAbsolute(path.into())));
        }
    }

    #[test]
    fn a_path_inside_another_one_is_refused_also_with_a_sibling_between() {
        let fault = fault_after(|d| {
            d.fragments[0].directory = "/pool/a".into();
            d.fragments[1].directory = "/pool/a-b".into();
            d.configurations[0].mount = "/pool/a/mount".into();
        });
        assert_eq!(fault, Some(DescriptionFault::PathsOverlap("/pool/a".into(), "/pool/a/mount".into())));
    }
}
