//! The stage itself.

use crate::cancel::CancelToken;
use crate::failure::{ItemFailure, Reason, Side, StageFailure};
use crate::report::{StageProgress, StageReport};
use crate::request::{StageOptions, StageRequest};
use crate::tree::Cause;

/// Copies what `request` says; blocks until it is done, failed or cancelled.
pub fn stage(
    request: &StageRequest<'_>,
    _options: &StageOptions,
    _progress: &(dyn Fn(StageProgress) + Sync),
    _cancel: &CancelToken,
) -> Result<StageReport, StageFailure> {
    let reason =
        Reason::FileSystem { operation: "stage".into(), side: Side::Source, error: Cause::Unsupported };
    let first = ItemFailure { path: request.source.root().to_path_buf(), reason };
    Err(StageFailure {
        failures: vec![first.clone()],
        first,
        failures_total: 1,
        report: StageReport::default(),
    })
}
