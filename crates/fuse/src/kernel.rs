//! Which kernel runs here, as far as the mount's behaviour depends on it.
//!
//! The version is used for reporting and for [`crate::probe`] only: what a mount really uses is negotiated with the
//! kernel capability by capability, because distribution kernels carry features of younger releases.

use std::fmt;

/// Major and minor number of a kernel release (`6.9` of `6.9.3-arch1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl KernelVersion {
    /// First release with FUSE passthrough.
    pub const PASSTHROUGH: KernelVersion = KernelVersion { major: 6, minor: 9 };

    /// Oldest release on which requests over io_uring were tested; they are there from 6.14.
    pub const IO_URING: KernelVersion = KernelVersion { major: 6, minor: 18 };

    /// The running kernel; `0.0` when it names its release in a way nobody has seen yet.
    pub fn running() -> KernelVersion {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::parse(&release).unwrap_or(KernelVersion { major: 0, minor: 0 })
    }

    /// Reads `6.1.0-18-amd64` and the like.
    pub fn parse(release: &str) -> Option<KernelVersion> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(KernelVersion { major, minor })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_release_names_of_distributions() {
        let version = |text| KernelVersion::parse(text).map(|v| (v.major, v.minor));
        assert_eq!(version("6.9.3-arch1-1"), Some((6, 9)));
        assert_eq!(version("4.18.0-553.el8_10.x86_64"), Some((4, 18)));
        assert_eq!(version("6.18-rc3"), Some((6, 18)));
        assert_eq!(version("next"), None);
        assert!(KernelVersion::parse("5.14.0").unwrap() < KernelVersion::PASSTHROUGH);
        assert!(KernelVersion::parse("6.10.0").unwrap() > KernelVersion::PASSTHROUGH);
    }

    #[test]
    fn the_running_kernel_has_a_version() {
        assert!(KernelVersion::running().major >= 3);
    }
}
