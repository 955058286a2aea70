//! What is counted of an instance, by whatever way it is served: the accounting that `forebay status` prints.
//!
//! Pure records. They also travel between the instance process and who asks it.

use forebay_model::layout::Layout;
use forebay_model::limits::Policy;
use forebay_wire::message::Status;
use forebay_wire::{FragmentAccount, Moved};
use serde::{Deserialize, Serialize};

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceAccount {
    /// Its namespaces, or the one that was asked for.
    pub namespaces: Vec<NamespaceAccount>,
    /// Its fragments, in order.
    pub fragments: Vec<FragmentUse>,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceAccount {
    /// Its name.
    pub name: String,
    /// Layout of a new file: stripe size in bytes, fragments, substripe files on each.
    pub layout: Option<(u64, u32, u32)>,
    /// Longest file in bytes; `None`: no limit.
    pub max_file_size: Option<u64>,
    /// What happens to longer ones.
    pub file_size_policy: Policy,
    /// Most files that may be created; `None`: no limit.
    pub max_files: Option<u64>,
    /// What happens to more.
    pub file_count_policy: Policy,
    /// Files created since it was made; `None` where they are not counted.
    pub files_created: Option<u64>,
    /// What its users read and wrote through it; `None` where that is not counted.
    pub moved: Option<Moves>,
    /// What stagings took out of it and brought in; `None` where that is not counted.
    #[serde(default)]
    pub staged: Option<StagedBytes>,
    /// Who uses it; `None` where nobody counts.
    pub clients: Option<u64>,
    /// Files that are open, and how many of them for writing.
    pub open: Option<(u64, u64)>,
}

/// What was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moves {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// End of the furthest read.
    pub max_offset_read: u64,
    /// End of the furthest write.
    pub max_offset_written: u64,
}

/// What stagings moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedBytes {
    /// Bytes that were taken out.
    pub bytes_read: u64,
    /// Bytes that were brought in.
    pub bytes_written: u64,
}

/// A fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentUse {
    /// Machine or storage node that has it.
    pub node: String,
    /// Bytes that can be stored.
    pub capacity: u64,
    /// Bytes that are taken.
    pub used: u64,
    /// Bytes read, however, since it was made; `None` where nobody counts.
    pub bytes_read: Option<u64>,
    /// Bytes written.
    pub bytes_written: Option<u64>,
    /// Files created whose names it has; `None` where they are not counted.
    pub files_created: Option<u64>,
    /// How much was written of what may be; `None`: no limit.
    pub window: Option<WindowUse>,
}

/// A write window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowUse {
    /// Its length in seconds.
    pub length_s: u64,
    /// Bytes that may be written in it.
    pub limit: u64,
    /// Bytes that were, as of now.
    pub written: u64,
    /// The most that ever were.
    pub high_water: u64,
    /// What happens at the limit.
    pub policy: Policy,
}

impl From<Moved> for Moves {
    fn from(moved: Moved) -> Moves {
        let Moved { bytes_read, bytes_written, max_offset_read, max_offset_written, .. } = moved;
        Moves { bytes_read, bytes_written, max_offset_read, max_offset_written }
    }
}

impl From<Moved> for StagedBytes {
    fn from(moved: Moved) -> StagedBytes {
        StagedBytes { bytes_read: moved.stage_bytes_read, bytes_written: moved.stage_bytes_written }
    }
}

impl FragmentUse {
    /// As the one who serves it counts; `files_created` are those of all namespaces.
    pub(crate) fn new(account: FragmentAccount, files_created: u64) -> FragmentUse {
        let (space, traffic) = (account.space, account.traffic);
        let window = traffic.window.map(|window| WindowUse {
            length_s: window.length_s,
            limit: window.limit,
            written: window.written,
            high_water: window.high_water,
            policy: window.policy,
        });
        FragmentUse {
            node: account.node,
            capacity: space.capacity,
            used: space.capacity.saturating_sub(space.free),
            bytes_read: Some(traffic.bytes_read),
            bytes_written: Some(traffic.bytes_written),
            files_created: Some(files_created),
            window,
        }
    }
}

impl InstanceAccount {
    /// Of a namespace that servers serve, whose home is one of them.
    pub(crate) fn of_status(namespace: &str, home: u32, status: Status) -> InstanceAccount {
        let created = |position| if position == home { status.files_created } else { 0 };
        let fragments = (0..).zip(status.fragments);
        InstanceAccount {
            fragments: fragments.map(|(at, account)| FragmentUse::new(account, created(at))).collect(),
            namespaces: vec![NamespaceAccount {
                name: namespace.to_owned(),
                layout: status.layout.map(|layout| shape(&layout)),
                max_file_size: status.max_file_size,
                file_size_policy: status.file_size_policy,
                max_files: status.max_files,
                file_count_policy: status.file_count_policy,
                files_created: Some(status.files_created),
                moved: Some(status.moved.into()),
                staged: Some(status.moved.into()),
                clients: Some(u64::from(status.sessions)),
                open: Some((status.open_files, status.written_files)),
            }],
        }
    }
}

/// Stripe size, fragments and substripe files on each.
pub(crate) fn shape(layout: &Layout) -> (u64, u32, u32) {
    (layout.stripe_size(), layout.stripe_count(), layout.substripes())
}
