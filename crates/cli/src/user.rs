//! Who runs the command, on which host, and where its commands are found.

use std::ffi::{CStr, OsString};
use std::path::Path;

/// Name of the user, as Slurm's `%u`; the number where the user has no name.
pub fn name() -> String {
    let uid = rustix::process::getuid().as_raw();
    // SAFETY: the name of a record is ended by a zero and lives as long as the record.
    let name =
        |record: &libc::passwd| unsafe { CStr::from_ptr(record.pw_name) }.to_string_lossy().into_owned();
    with_record(uid, name).unwrap_or_else(|| uid.to_string())
}

/// The group that a user begins with; `None` for somebody whom this machine does not know.
pub fn primary_group(uid: u32) -> Option<u32> {
    with_record(uid, |record| record.pw_gid)
}

/// The uid of a user's name.
pub fn named(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    let mut record = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut strings = vec![0_u8; 16 * 1024];
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
    let answer = unsafe {
        let (strings, length) = (strings.as_mut_ptr().cast(), strings.len());
        libc::getpwnam_r(name.as_ptr(), record.as_mut_ptr(), strings, length, &mut found)
    };
    // SAFETY: `found` is null or points to the record, which was filled in then.
    (answer == 0).then_some(unsafe { found.as_ref() }).flatten().map(|record| record.pw_uid)
}

/// What can be read of a user's record.
fn with_record<T>(uid: u32, read: impl FnOnce(&libc::passwd) -> T) -> Option<T> {
    let mut record = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut strings = vec![0_u8; 16 * 1024];
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
    let answer = unsafe {
        libc::getpwuid_r(uid, record.as_mut_ptr(), strings.as_mut_ptr().cast(), strings.len(), &mut found)
    };
    // SAFETY: `found` is null or points to the record, which was filled in then; its strings are in `strings`.
    (answer == 0).then_some(unsafe { found.as_ref() }).flatten().map(read)
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
