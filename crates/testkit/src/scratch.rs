//! A directory that goes away with its owner.
//!
//! Made below `FOREBAY_TEST_DIR` or the system's temporary directory, open to every user for passing through. When the
//! owner goes, also in a panic, whatever is mounted inside is detached and the tree is removed. A tree with a mount
//! that will not go is left alone and named: removing files through somebody's mount would be worse than a leftover.

use crate::{leaks, mounts, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable that says where scratch directories are made.
pub const DIRECTORY_VARIABLE: &str = "FOREBAY_TEST_DIR";

/// How long processes that were told to end may take before they count as left behind.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// A directory of a test's own.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A fresh, empty directory whose name begins with `label`.
    ///
    /// # Panics
    /// If the directory cannot be made: no test can go on without.
    pub fn new(label: &str) -> Scratch {
        let parent = std::env::var_os(DIRECTORY_VARIABLE).map_or_else(std::env::temp_dir, PathBuf::from);
        let made = tempfile::Builder::new().prefix(&format!("forebay-{label}-")).tempdir_in(&parent);
        let path = made.unwrap_or_else(|error| panic!("scratch in {}: {error}", parent.display())).keep();
        // Mounts are listed by their resolved path, so a scratch path must be one.
        let path = fs::canonicalize(path).expect("the directory was made a moment ago");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("we own the directory");
        Scratch { path }
    }

    /// Where it is: absolute, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory inside, made if needed, with exactly these permissions.
    pub fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).expect("scratch is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("we own the directory");
        path
    }

    /// Ends its life with the check that nothing but files is left in it.
    ///
    /// # Panics
    /// If a mount, a loop device or a process that has to do with this directory is still there.
    pub fn finish(self) {
        let mut left = Vec::new();
        let gone = wait::wait_until("leaving nothing behind", GONE_WITHIN, || {
            left = leaks::below(&self.path);
            left.is_empty()
        });
        if gone.is_err() {
            let list: Vec<String> = left.iter().map(ToString::to_string).collect();
            panic!("left behind in {}: {}", self.path.display(), list.join("; "));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        mounts::detach_below(&self.path);
        if let [mount, ..] = &mounts::below(&self.path)[..] {
            eprintln!("{} stays: {} cannot be unmounted", self.path.display(), mount.point.display());
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} stays: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_owner_also_in_a_panic() {
        let (send, receive) = std::sync::mpsc::channel();
        let ended = std::thread::spawn(move || {
            let scratch = Scratch::new("panic");
            fs::write(scratch.path().join("file"), "x").unwrap();
            send.send(scratch.path().to_owned()).unwrap();
            panic!("on purpose");
        })
        .join();
        assert!(ended.is_err());
        assert!(!receive.recv().unwrap().exists());
    }
}
