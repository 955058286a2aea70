//! A file system for one run, in memory and seen by this run only: the numbers of its files are the same in each run of a
//! seed, which those of a file system that others use are not.
//!
//! Needs root, and a kernel with `user.` attributes on tmpfs (6.6 and later). The mount goes with the process.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room for all files of a run.
const OPTIONS: &std::ffi::CStr = c"size=256m,mode=0755";

/// See the module.
pub struct Ground(tempfile::TempDir);

impl Ground {
    /// Mounts it, for this thread and those that it starts.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn new() -> Ground {
        let directory = tempfile::tempdir().expect("a directory");
        let path = CString::new(directory.path().as_os_str().as_bytes()).expect("a path");
        let (tmpfs, none) = (c"tmpfs".as_ptr(), std::ptr::null());
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // Safe: all of these are texts that end with a zero, or none.
        let done = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(tmpfs, path.as_ptr(), tmpfs, 0, OPTIONS.as_ptr().cast()) == 0
        };
        assert!(
            done,
            "a file system in memory is mounted, which needs root: {}",
            std::io::Error::last_os_error()
        );
        Ground(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.0.path().as_os_str().as_bytes()) {
            // Safe: a text that ends with a zero. What is still open there goes with the process.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
    }
}
