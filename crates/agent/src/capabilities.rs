//! What this machine allows: root's rights, loop devices with XFS, FUSE, kernel passthrough.
//!
//! Looks only; mounts and writes nothing, and takes well below two milliseconds, so it can run at the start of every
//! command. Every missing feature carries its reason, for the summary of the job.

use forebay_fuse::FuseSupport;
use std::path::{Path, PathBuf};

/// Features of the machine and of the caller's rights on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The caller may mount file systems (root with CAP_SYS_ADMIN).
    pub root: Feature,
    /// Fragments can be XFS images of fixed size on loop devices.
    pub images: Feature,
    /// DWFS can be mounted through FUSE.
    pub fuse: Feature,
    /// The kernel can read and write a FUSE file's backing file itself.
    pub passthrough: Feature,
}

/// A feature, or why it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feature {
    /// It can be used.
    Present,
    /// It cannot.
    Missing(Lack),
}

/// Why a feature is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// The caller is not root.
    #[error("not run as root")]
    NotRoot,
    /// Root without the right to mount, as in many containers.
    #[error("run as root without the right to mount (CAP_SYS_ADMIN), as in a container")]
    MayNotMount,
    /// No loop devices.
    #[error("loop devices cannot be used ({0:?}: {1})")]
    NoLoopDevices(PathBuf, String),
    /// No `mkfs.xfs`.
    #[error("mkfs.xfs is not installed (Debian package xfsprogs)")]
    NoMkfsXfs,
    /// The kernel has no XFS.
    #[error("the kernel has no XFS")]
    NoXfs,
    /// FUSE cannot be used.
    #[error("{0}")]
    NoFuse(String),
    /// The kernel has no FUSE passthrough.
    #[error("Linux {release} has no FUSE passthrough, which came with 6.9")]
    KernelTooOld {
        /// Release of the running kernel.
        release: String,
    },
    /// The file system below a fragment cannot promise space.
    #[error("the file system of {0:?} cannot reserve space")]
    CannotReserve(PathBuf),
    /// Switched off by the caller.
    #[error("switched off")]
    SwitchedOff,
}

impl Feature {
    /// The reason, if it is missing.
    pub fn lack(&self) -> Option<&Lack> {
        match self {
            Feature::Present => None,
            Feature::Missing(lack) => Some(lack),
        }
    }

    /// True if it can be used.
    pub fn present(&self) -> bool {
        self.lack().is_none()
    }

    fn and(self, next: impl FnOnce() -> Feature) -> Feature {
        if self.present() { next() } else { self }
    }
}

impl Capabilities {
    /// What the machine allows the calling process.
    pub fn detect() -> Capabilities {
        let root = mount_right();
        let images = root.clone().and(mkfs).and(xfs).and(loop_devices);
        let support = forebay_fuse::probe();
        let fuse = fuse(&support);
        let passthrough = root.clone().and(|| fuse.clone()).and(|| passthrough(&support));
        Capabilities { root, images, fuse, passthrough }
    }

    /// The same machine without XFS images: fragments become directories.
    pub fn without_images(self) -> Capabilities {
        Capabilities { images: Feature::Missing(Lack::SwitchedOff), ..self }
    }

    /// The same machine without FUSE (and so without passthrough).
    pub fn without_fuse(self) -> Capabilities {
        let off = Feature::Missing(Lack::SwitchedOff);
        Capabilities { fuse: off.clone(), passthrough: off, ..self }
    }

    /// The same machine without kernel passthrough.
    pub fn without_passthrough(self) -> Capabilities {
        Capabilities { passthrough: Feature::Missing(Lack::SwitchedOff), ..self }
    }

    /// What is missing, each with its reason, in the order in which a user would ask.
    pub fn missing(&self) -> Vec<(&'static str, &Lack)> {
        let all = [
            ("XFS images of fixed size", &self.images),
            ("FUSE", &self.fuse),
            ("kernel passthrough", &self.passthrough),
        ];
        all.into_iter().filter_map(|(name, feature)| feature.lack().map(|lack| (name, lack))).collect()
    }
}

fn mount_right() -> Feature {
    if !rustix::process::geteuid().is_root() {
        return Feature::Missing(Lack::NotRoot);
    }
    let effective = rustix::thread::capabilities(None).map(|sets| sets.effective);
    match effective {
        Ok(set) if set.contains(rustix::thread::CapabilitySet::SYS_ADMIN) => Feature::Present,
        _ => Feature::Missing(Lack::MayNotMount),
    }
}

/// Directories besides those of PATH where administrators' programs lie.
const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// Where `mkfs.xfs` is, if it is installed. `PATH` is not asked: root's programs come from the system's directories.
pub(crate) fn find_mkfs_xfs() -> Option<PathBuf> {
    find_program("mkfs.xfs")
}

/// The same for another program.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    PROGRAM_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.is_file())
}

fn mkfs() -> Feature {
    find_mkfs_xfs().map_or(Feature::Missing(Lack::NoMkfsXfs), |_| Feature::Present)
}

fn xfs() -> Feature {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim() == "xfs") {
        return Feature::Present;
    }
    let module = Path::new("/lib/modules").join(kernel_release()).join("kernel/fs/xfs");
    if module.is_dir() { Feature::Present } else { Feature::Missing(Lack::NoXfs) }
}

fn loop_devices() -> Feature {
    let path = Path::new(crate::loop_device::CONTROL);
    match std::fs::File::options().read(true).write(true).open(path) {
        Ok(_) => Feature::Present,
        Err(error) => Feature::Missing(Lack::NoLoopDevices(path.to_owned(), error.to_string())),
    }
}

fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn fuse(support: &FuseSupport) -> Feature {
    support
        .obstacle
        .as_ref()
        .map_or(Feature::Present, |obstacle| Feature::Missing(Lack::NoFuse(obstacle.to_string())))
}

fn passthrough(support: &FuseSupport) -> Feature {
    if support.passthrough() {
        Feature::Present
    } else {
        Feature::Missing(Lack::KernelTooOld { release: kernel_release() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_switched_off_is_missing_with_its_reason() {
        let without = Capabilities::detect().without_fuse().without_images();
        assert_eq!(without.fuse.lack(), Some(&Lack::SwitchedOff));
        assert_eq!(without.missing().len(), 3);
    }
}
