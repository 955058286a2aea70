//! A set of namespaces, alive as long as their first process.
//!
//! That process, the keeper, is `cat` reading a pipe whose other end only the test holds. It is process 1 of its namespace of
//! process numbers: when it ends, the kernel kills everything else in there, and with the last process go the mounts and
//! the network. It ends when it is killed, and by itself when the test is gone.

use super::ClusterError;
use crate::isolation;
use crate::leaks::Namespace;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Namespaces that every host has of its own.
const OWN: UnshareFlags = UnshareFlags::NEWNET.union(UnshareFlags::NEWNS).union(UnshareFlags::NEWUTS);

/// What hosts of one cluster may have in common, besides the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing.
    Nothing,
    /// System V memory and process numbers: what MPI needs to talk through memory. Such a host cannot crash alone: its
    /// processes end with the cluster.
    MemoryAndProcesses,
}

/// What hosts may share.
const COMMON: ThreadNameSpaceType =
    ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION.union(ThreadNameSpaceType::PROCESS_ID);

/// All that a host has, to go there.
const ALL: ThreadNameSpaceType = ThreadNameSpaceType::NETWORK
    .union(ThreadNameSpaceType::MOUNT)
    .union(ThreadNameSpaceType::PROCESS_ID)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION);

/// See the module.
#[derive(Debug)]
pub(super) struct Namespaces {
    keeper: Child,
    handle: OwnedFd,
    names: Vec<Namespace>,
}

impl Namespaces {
    /// Makes them, with this host name; the keeper works in `directory`, so that it is found there if it stays behind. Memory and
    /// process numbers are those of `beside`, if there is one.
    pub(super) fn start(
        host_name: &str,
        directory: &Path,
        beside: Option<&Namespaces>,
    ) -> Result<Namespaces, ClusterError> {
        let device = directory.join("device");
        std::fs::create_dir_all(&device).map_err(ClusterError::file(&device))?;
        let keeper = in_thread(|| start_keeper(host_name, directory, &device, beside))
            .map_err(ClusterError::namespaces("start a host"))?;
        let handle = pidfd_open(Pid::from_child(&keeper), PidfdFlags::empty());
        let handle = handle.map_err(|errno| ClusterError::namespaces("hold a host")(errno.into()))?;
        let names = Namespace::of_process(keeper.id());
        Ok(Namespaces { keeper, handle, names })
    }

    /// The number of the keeper on the machine; `/proc/<it>/root` is the tree of files as the host sees it.
    pub(super) fn keeper(&self) -> u32 {
        self.keeper.id()
    }

    pub(super) fn names(&self) -> &[Namespace] {
        &self.names
    }

    /// Does `work` in all namespaces; what it starts is a process there. It cannot start threads.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ClusterError> {
        self.moved(ALL, work)
    }

    /// Does `work` in the network alone.
    pub(super) fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ClusterError> {
        self.moved(ThreadNameSpaceType::NETWORK, work)
    }

    fn moved<T: Send>(
        &self,
        kinds: ThreadNameSpaceType,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, ClusterError> {
        let moved = in_thread(|| {
            // SAFETY: only the working directory and the like of this thread, which starts and ends here, are unshared.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_thread_name_spaces(self.handle.as_fd(), kinds)?;
            Ok(work())
        });
        moved.map_err(ClusterError::namespaces("enter a host"))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // The keeper is gone when every process of the namespace is: the kernel makes it wait for them.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn start_keeper(
    host_name: &str,
    directory: &Path,
    device: &Path,
    beside: Option<&Namespaces>,
) -> io::Result<Child> {
    isolation::enter(device)?;
    let more = match beside {
        Some(other) => {
            move_into_thread_name_spaces(other.handle.as_fd(), COMMON)?;
            UnshareFlags::empty()
        }
        None => UnshareFlags::NEWIPC.union(UnshareFlags::NEWPID),
    };
    // SAFETY: this thread does nothing but start the keeper, and shares memory and descriptors as before.
    unsafe { unshare_unsafe(OWN.union(more)) }?;
    rustix::system::sethostname(host_name.as_bytes())?;
    let mut keeper = Command::new("cat");
    keeper.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one plain system call between fork and exec.
    unsafe {
        keeper.pre_exec(|| {
            // Orphans in the host become children of the keeper, which would never ask how they ended.
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    // A group of its own: keys pressed at the terminal are not for it.
    keeper.process_group(0).spawn()
}

/// Namespaces belong to threads: a new thread for every visit, so that no other is ever moved.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
