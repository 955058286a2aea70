//! An XFS file system in a file, mounted through a loop device, gone with its owner.
//!
//! Needs root, `mkfs.xfs` and the loop driver. The loop device is set to clear itself, so unmounting frees it.

use crate::process::{self, ProcessError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// mkfs.xfs refuses anything smaller.
pub const SMALLEST_BYTES: u64 = 300 << 20;

const TOOL_LIMIT: Duration = Duration::from_secs(120);

/// A mounted image.
#[derive(Debug)]
pub struct XfsImage {
    mount: PathBuf,
    image: PathBuf,
}

/// The image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum XfsImageError {
    /// A file or directory beside it.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// mkfs.xfs or mount.
    #[error(transparent)]
    Tool(#[from] ProcessError),
}

impl XfsImage {
    /// Makes `<directory>/<name>.img` of `bytes` (sparse) and mounts it at `<directory>/<name>`.
    pub fn create(directory: &Path, name: &str, bytes: u64) -> Result<XfsImage, XfsImageError> {
        let image = directory.join(format!("{name}.img"));
        let mount = directory.join(name);
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| XfsImageError::File { path, source }
        };
        fs::File::create(&image).and_then(|made| made.set_len(bytes)).map_err(file(&image))?;
        fs::create_dir_all(&mount).map_err(file(&mount))?;
        process::run(Command::new("mkfs.xfs").arg("-q").arg(&image), TOOL_LIMIT)?.success()?;
        process::run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]), TOOL_LIMIT)?
            .success()?;
        Ok(XfsImage { mount, image })
    }

    /// The root of the file system.
    pub fn path(&self) -> &Path {
        &self.mount
    }
}

impl Drop for XfsImage {
    fn drop(&mut self) {
        let plain = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::empty());
        if plain.is_err() {
            let _ = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH);
        }
        let _ = fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scratch, mounts};

    #[test]
    fn it_is_xfs_and_leaves_nothing() {
        let scratch = Scratch::new("xfs-image");
        let image = XfsImage::create(scratch.path(), "disk", SMALLEST_BYTES).unwrap();
        assert_eq!(mounts::at(image.path()).unwrap().kind, "xfs");
        fs::write(image.path().join("file"), "x").unwrap();
        drop(image);
        scratch.finish();
    }
}
