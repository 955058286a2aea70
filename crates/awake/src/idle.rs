//! What the kernel is asked for: how long a processor without work may take to wake.
//!
//! The request stands in four bytes written to the device, microseconds as a number of this machine's byte order, and ends when it is
//! closed: by this process or, after a crash, by the kernel.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The kernel's device for such requests.
pub const DEVICE: &str = "/dev/cpu_dma_latency";
/// Names what puts processors to sleep.
pub const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// What puts the processors of a virtual machine to sleep under KVM. It says that they wake within 1 us, whatever the host does meanwhile.
const OF_A_GUEST: &str = "haltpoll";
/// Processors without work do not sleep, but look for work.
const NOT_AT_ALL_US: i32 = 0;
/// The lightest sleep of today's processors (C1 of Intel and AMD) is allowed, the next one is not (10 us and more).
const LIGHTLY_US: i32 = 2;

/// How a machine is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    device: PathBuf,
    longest_us: i32,
}

impl Idle {
    /// As this machine has to be asked.
    pub fn of_this_machine() -> Idle {
        // Without a driver there is nothing to choose from, and the request does no harm.
        let driver = std::fs::read_to_string(DRIVER).unwrap_or_default();
        Idle::at(Path::new(DEVICE), &driver)
    }

    /// By a device of this path, where `driver` puts processors to sleep.
    pub fn at(device: &Path, driver: &str) -> Idle {
        let longest_us = if driver.trim() == OF_A_GUEST { NOT_AT_ALL_US } else { LIGHTLY_US };
        Idle { device: device.to_owned(), longest_us }
    }

    /// It is a virtual machine whose processors do not sleep at all while this is held.
    pub fn is_of_a_guest(&self) -> bool {
        self.longest_us == NOT_AT_ALL_US
    }

    /// How long waking may take, in microseconds.
    pub fn longest_us(&self) -> i32 {
        self.longest_us
    }

    /// Asks, until the file is closed.
    pub(crate) fn hold(&self) -> io::Result<File> {
        let mut device = OpenOptions::new().write(true).open(&self.device)?;
        device.write_all(&self.longest_us.to_ne_bytes())?;
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_kept_awake_and_others_may_sleep_lightly() {
        assert!(Idle::at(Path::new("/d"), "haltpoll").is_of_a_guest());
        assert!(!Idle::at(Path::new("/d"), "intel_idle").is_of_a_guest());
        let asked = |driver| Idle::at(Path::new("/d"), driver).longest_us();
        assert_eq!(asked("haltpoll\n"), 0);
        assert_eq!(["intel_idle\n", "acpi_idle\n", "none\n", ""].map(asked), [2; 4]);
    }

    #[test]
    fn the_request_is_four_bytes_and_a_device_that_is_missing_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("latency");
        let idle = Idle::at(&device, "acpi_idle");
        assert_eq!(idle.hold().unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create(&device).unwrap();
        drop(idle.hold().unwrap());
        assert_eq!(std::fs::read(&device).unwrap(), 2_i32.to_ne_bytes());
    }
}
