//! Whether this process could mount, found out without trying.
//!
//! Looks at the device, the helper's file mode and this process's own privileges; takes well under a millisecond and
//! changes nothing. A mount may still be refused (by a policy nobody can read beforehand): [`crate::mount`] has the
//! last word.

use crate::attach::find_helper;
use crate::kernel::KernelVersion;
use forebay_fusedev::device;
use rustix::fs::StatVfsMountFlags;
use std::fmt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What the machine offers to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuseSupport {
    /// `/dev/fuse` is there.
    pub device: bool,
    /// The mount helper, if installed.
    pub helper: Option<PathBuf>,
    /// This process may mount by itself.
    pub may_mount: bool,
    /// The kernel.
    pub kernel: KernelVersion,
    /// Why nothing can be mounted; `None` when it can.
    pub obstacle: Option<Obstacle>,
}

impl FuseSupport {
    /// A mount is expected to work.
    pub fn usable(&self) -> bool {
        self.obstacle.is_none()
    }

    /// Passthrough is expected to work; the kernel decides at mount time.
    pub fn passthrough(&self) -> bool {
        self.usable() && self.may_mount && self.kernel >= KernelVersion::PASSTHROUGH
    }
}

/// What stands in the way of mounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No `/dev/fuse`: the kernel module is not loaded, or the container has no such device.
    NoDevice,
    /// Root without the capability to mount, or with the device closed by a device policy.
    NoPrivilege,
    /// An ordinary user who may not open the device. The helper opens it with the user's own rights, so it cannot
    /// help; systems with udev give it mode 0666.
    DeviceClosed,
    /// An ordinary user without `fusermount3`.
    NoHelper,
    /// `fusermount3` lacks the set-uid bit of root.
    HelperNotSetuid(PathBuf),
    /// Set-uid programs have no effect on the file system that `fusermount3` is on.
    HelperOnNosuid(PathBuf),
    /// `fusermount3` looks a mount up in this file before it takes it away; without it mounts could be made, and never
    /// be removed.
    NoMountTable(PathBuf),
    /// This process may not gain privileges (`no_new_privs`), so the helper could not either.
    NoNewPrivileges,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoDevice => write!(f, "there is no {} (load the kernel module fuse)", device::PATH),
            Obstacle::NoPrivilege => write!(f, "this process may not open {} and mount", device::PATH),
            Obstacle::DeviceClosed => {
                write!(f, "{0} is closed to this user (an operator can open it: chmod 666 {0})", device::PATH)
            }
            Obstacle::NoHelper => write!(f, "fusermount3 is not installed (package fuse3)"),
            Obstacle::HelperNotSetuid(path) => write!(f, "{} is not set-uid root", path.display()),
            Obstacle::HelperOnNosuid(path) => write!(f, "{} is on a nosuid file system", path.display()),
            Obstacle::NoMountTable(path) => write!(
                f,
                "there is no {0}, without which fusermount3 can mount and not unmount (an operator can make it: \
                 ln -s ../proc/self/mounts {0})",
                path.display()
            ),
            Obstacle::NoNewPrivileges => {
                write!(f, "this process may not gain privileges, so fusermount3 cannot mount for it")
            }
        }
    }
}

/// Looks at what is there.
pub fn probe() -> FuseSupport {
    let helper = find_helper();
    let device = Path::new(device::PATH).exists();
    let may_mount = device && may_mount_directly();
    let obstacle = obstacle(device, may_mount, helper.as_deref());
    FuseSupport { device, helper, may_mount, kernel: KernelVersion::running(), obstacle }
}

fn obstacle(device: bool, may_mount: bool, helper: Option<&Path>) -> Option<Obstacle> {
    if !device {
        return Some(Obstacle::NoDevice);
    }
    if may_mount {
        return None;
    }
    if rustix::process::geteuid().is_root() {
        return Some(Obstacle::NoPrivilege); // the helper has no more rights than root without the capability
    }
    match helper {
        None => Some(Obstacle::NoHelper),
        Some(_) if device::open().is_err() => Some(Obstacle::DeviceClosed),
        Some(helper) => helper_obstacle(helper, Path::new(MOUNT_TABLE)),
    }
}

/// Where the helper looks.
const MOUNT_TABLE: &str = "/etc/mtab";

fn helper_obstacle(helper: &Path, table: &Path) -> Option<Obstacle> {
    let setuid =
        std::fs::metadata(helper).is_ok_and(|m| m.uid() == 0 && m.permissions().mode() & 0o4000 != 0);
    if !setuid {
        return Some(Obstacle::HelperNotSetuid(helper.into()));
    }
    if rustix::fs::statvfs(helper).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOSUID)) {
        return Some(Obstacle::HelperOnNosuid(helper.into()));
    }
    if rustix::thread::no_new_privs().unwrap_or(false) {
        return Some(Obstacle::NoNewPrivileges);
    }
    // Opened, not looked at: a link that leads nowhere is no table.
    if std::fs::File::open(table).is_err() {
        return Some(Obstacle::NoMountTable(table.into()));
    }
    None
}

/// CAP_SYS_ADMIN in force and the device opens.
fn may_mount_directly() -> bool {
    rustix::process::geteuid().is_root() && has_sys_admin() && device::open().is_ok()
}

fn has_sys_admin() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_each_obstacle_apart() {
        assert_eq!(obstacle(false, false, None), Some(Obstacle::NoDevice));
        assert_eq!(obstacle(true, true, None), None);
        assert_eq!(
            helper_obstacle(Path::new("/bin/true"), Path::new(MOUNT_TABLE)),
            Some(Obstacle::HelperNotSetuid("/bin/true".into()))
        );
    }

    #[test]
    fn a_helper_that_could_not_unmount_is_an_obstacle() {
        let helper = find_helper().expect("the tests need fuse3");
        let place = tempfile::tempdir().unwrap();
        let table = place.path().join("mtab");
        assert_eq!(helper_obstacle(&helper, Path::new(MOUNT_TABLE)), None);
        let missing = Obstacle::NoMountTable(table.clone());
        assert_eq!(helper_obstacle(&helper, &table), Some(missing.clone()));
        std::os::unix::fs::symlink("nowhere", &table).unwrap();
        assert_eq!(helper_obstacle(&helper, &table), Some(missing.clone()));
        let text = missing.to_string();
        assert!(text.contains("ln -s ../proc/self/mounts"), "{text}");
    }

    #[test]
    fn a_usable_machine_says_so() {
        let support = probe();
        assert!(support.device && support.usable(), "{support:?}");
    }
}
