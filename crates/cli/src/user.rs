//! Who runs the command, on which host, and where its commands are found.

use std::ffi::OsString;
use std::path::Path;

/// Name of the user, as Slurm's `%u`; the number where the user has no name.
pub fn name() -> String {
    let uid = rustix::process::getuid().as_raw();
    let mut record = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut strings = vec![0_u8; 16 * 1024];
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
    let answer = unsafe {
        libc::getpwuid_r(uid, record.as_mut_ptr(), strings.as_mut_ptr().cast(), strings.len(), &mut found)
    };
    if answer != 0 || found.is_null() {
        return uid.to_string();
    }
    // SAFETY: `found` is not null, so the record was filled in and its name points into `strings`, ended by a zero.
    let name = unsafe { std::ffi::CStr::from_ptr((*found).pw_name) };
    name.to_string_lossy().into_owned()
}

/// Name of this machine, without its domain.
pub fn host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().into_owned();
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_string()
}

/// `PATH` with the directory of this program at its front, so that a script finds the `dwstat` that belongs to
/// this forebay; `None` when it is there already.
pub fn path_with_commands() -> Option<OsString> {
    let directory = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|known: std::path::PathBuf| known == Path::new(&directory)) {
        return None;
    }
    std::env::join_paths([directory].into_iter().chain(std::env::split_paths(&path))).ok()
}
