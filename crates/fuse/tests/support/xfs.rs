//! An XFS file system in an image file, mounted through a loop device that the kernel detaches with the mount.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub struct XfsImage {
    directory: TempDir,
}

impl XfsImage {
    /// `size` as truncate(1) takes it; mkfs.xfs wants at least 300M.
    pub fn new(size: &str) -> XfsImage {
        super::isolation::enter();
        let directory = tempfile::Builder::new().prefix("dwfs-xfs-").tempdir().unwrap();
        let image = XfsImage { directory };
        let (file, root) = (image.directory.path().join("image"), image.root());
        std::fs::create_dir(&root).unwrap();
        done(Command::new("truncate").arg("-s").arg(size).arg(&file));
        done(Command::new("mkfs.xfs").arg("-q").arg(&file));
        done(Command::new("mount").args(["-o", "loop"]).arg(&file).arg(&root));
        image
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub fn fragment(&self) -> PathBuf {
        let path = self.root().join("fragment");
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for XfsImage {
    fn drop(&mut self) {
        if super::is_mounted(&self.root()) {
            let unmounted = Command::new("umount").arg(self.root()).status().is_ok_and(|s| s.success());
            if !unmounted {
                let _ = Command::new("umount").arg("-l").arg(self.root()).status();
            }
        }
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The path must not be used by another test.
pub fn tree(fragment: &Path) -> PathBuf {
    forebay_server::local::tree_path(fragment, "c1")
}
