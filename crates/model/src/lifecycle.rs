//! The life of a job in the burst buffer, as one value with ordered transitions.
//!
//! The phases carry the workload manager's verbs. A phase names the work that is *in progress*: a job in `DataIn` may
//! have been staged in partly, a job in `PreRun` has been staged in completely. That makes every phase the point from
//! which the job is carried on after a crash.

use serde::{Deserialize, Serialize};

/// Where a job stands. The order of the variants is the order of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Space is being made.
    Setup,
    /// Input is being staged in.
    DataIn,
    /// The instance is being mounted.
    PreRun,
    /// The script runs.
    Running,
    /// The instance is being unmounted.
    PostRun,
    /// Results are being staged out.
    DataOut,
    /// Stage-out failed or was stopped: the data is kept until its owner decides.
    Kept,
    /// Space is being given back.
    Teardown,
    /// Nothing of the job is left.
    Ended,
}
