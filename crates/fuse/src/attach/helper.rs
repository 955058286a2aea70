//! `fusermount3`, the set-uid program that mounts for ordinary users.
//!
//! The protocol: the helper finds a Unix socket at the descriptor named in `_FUSE_COMMFD`, mounts, and sends the opened
//! device over it. The socket is handed over as its standard input, so that no descriptor without close-on-exec ever
//! exists in this process, whose other threads may start programs at the same time.

use super::{AttachOptions, SUBTYPE};
use crate::error::{MountError, UnmountError};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketFlags, SocketType,
};
use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The helper only looks at the mount point; a dead network file system there may hold it up, but not for ever us.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The helper of fuse 3, or of fuse 2, on the search path or where packages put it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let places: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|dir| dir.is_absolute()).chain(usual).collect();
    ["fusermount3", "fusermount"]
        .iter()
        .find_map(|name| places.iter().map(|dir| dir.join(name)).find(|program| is_executable(program)))
}

fn is_executable(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Has the helper mount at `mountpoint`.
pub(super) fn mount(
    helper: &Path,
    mountpoint: &Path,
    options: &AttachOptions,
) -> Result<OwnedFd, MountError> {
    let io_error = |source: io::Error| MountError::Helper { helper: helper.into(), source };
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| io_error(error.into()))?;
    set_socket_timeout(&ours, Timeout::Recv, Some(ANSWER_WITHIN)).map_err(|error| io_error(error.into()))?;
    let mut child = Command::new(helper)
        .arg("-o")
        .arg(option_text(options))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io_error)?;
    let device = receive_device(&ours);
    if let Err(error) = &device
        && error.kind() == io::ErrorKind::WouldBlock
    {
        let _ = child.kill(); // set-uid: may be refused; the answer is the same
        return Err(io_error(io::Error::new(io::ErrorKind::TimedOut, "no answer within 30 s")));
    }
    drop(ours);
    let output = child.wait_with_output().map_err(io_error)?;
    match device {
        Ok(Some(device)) if output.status.success() => Ok(device),
        Ok(_) => Err(refusal(helper, mountpoint, &output)),
        Err(error) => Err(io_error(error)),
    }
}

fn refusal(helper: &Path, mountpoint: &Path, output: &Output) -> MountError {
    let message = words(helper, output);
    if message.contains("user_allow_other") {
        return MountError::AllowOtherRefused;
    }
    MountError::HelperRefused { helper: helper.into(), path: mountpoint.into(), message }
}

/// What the helper said, without its own name and on one line.
fn words(helper: &Path, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let name = format!("{}: ", helper.file_name().unwrap_or_default().to_string_lossy());
    let lines: Vec<&str> = said.lines().map(|line| line.strip_prefix(&name).unwrap_or(line).trim()).collect();
    match lines.join("; ") {
        silent if silent.is_empty() => format!("no reason given, {}", output.status),
        said => said,
    }
}

fn option_text(options: &AttachOptions) -> OsString {
    let fsname = options.fsname.replace('\\', "\\\\").replace(',', "\\,");
    let mut text = format!("default_permissions,nosuid,nodev,subtype={SUBTYPE},fsname={fsname}");
    if options.allow_other {
        text.push_str(",allow_other");
    }
    text.into()
}

/// The device, or `None` when the helper closed the socket without sending it.
fn receive_device(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8];
    let message = loop {
        let mut parts = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            other => break other?,
        }
    };
    if message.bytes == 0 || message.flags.contains(ReturnFlags::CTRUNC) {
        return Ok(None);
    }
    let mut descriptors = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.next().and_then(|mut list| list.next()))
}

/// Has the helper unmount `mountpoint`; `lazy` detaches it although it is in use.
pub(crate) fn unmount(helper: &Path, mountpoint: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mut command = Command::new(helper);
    command.arg("-u").env("LC_ALL", "C").stdin(Stdio::null());
    if lazy {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(mountpoint)
        .output()
        .map_err(|source| UnmountError::Helper { path: mountpoint.into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let message = words(helper, &output);
    Err(UnmountError::HelperRefused { helper: helper.into(), path: mountpoint.into(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_the_name_do_not_become_options() {
        let options = AttachOptions { fsname: "a,dev\\b", allow_other: false };
        let text = option_text(&options).into_string().unwrap();
        assert!(text.ends_with("fsname=a\\,dev\\\\b"), "{text}");
        assert!(!text.contains("allow_other"));
    }

    #[test]
    fn a_helper_that_sends_nothing_is_a_refusal() {
        let place = Path::new("/nowhere");
        let options = AttachOptions { fsname: "x", allow_other: false };
        match mount(Path::new("/bin/false"), place, &options) {
            Err(MountError::HelperRefused { message, .. }) => {
                assert!(message.contains("no reason"), "{message}")
            }
            other => panic!("{other:?}"),
        }
    }
}
