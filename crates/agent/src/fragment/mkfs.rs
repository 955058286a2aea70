//! Runs `mkfs.xfs`, the same way for every kind of fragment.
//!
//! Nothing of what was there before counts: the caller has made sure that it is nobody's. A crash in the middle leaves what the
//! next call overwrites.

use super::image_size::ImagePlan;
use crate::capabilities::find_mkfs_xfs;
use crate::error::AgentError;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a file system on a device or in an image. `-K`: a discard would give the reserved blocks back. The features are named because their
/// defaults, which the size of the image depends on, differ between versions of `mkfs.xfs`.
pub(crate) fn make_xfs(device: &Path, plan: ImagePlan) -> Result<(), AgentError> {
    const PROGRAM: &str = "mkfs.xfs";
    let failed = |error| AgentError::system("run mkfs.xfs on", device, error);
    let program = find_mkfs_xfs().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    let mut command = Command::new(program);
    command.args(["-q", "-f", "-K", "-m", "crc=1,finobt=1,reflink=1,rmapbt=0"]);
    if plan.unsupported {
        command.arg("--unsupported");
    }
    if let Some(log) = plan.log {
        command.args(["-l".to_owned(), format!("size={}", log.0)]);
    }
    let output = command.arg(device).stdin(Stdio::null()).env("LC_ALL", "C").output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(AgentError::Program {
        program: PROGRAM,
        path: device.to_owned(),
        status: output.status,
        output: said,
    })
}
