//! What the kernel is asked for: how long a processor without work may take to wake.
//!
//! The request stands in four bytes written to the device, microseconds as a number of this machine's byte order. It holds until another
//! is written or the device is closed: by this process or, after a crash, by the kernel.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The kernel's device for such requests.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// Names what puts processors to sleep.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// What puts the processors of a virtual machine to sleep under KVM. It says that they wake within 1 us, whatever the host does meanwhile.
const OF_A_GUEST: &str = "haltpoll";
/// Processors without work do not sleep, but look for work.
const NOT_AT_ALL_US: i32 = 0;
/// The lightest sleep of today's processors (C1 of Intel and AMD) is allowed, the next one is not (10 us and more).
const LIGHTLY_US: i32 = 2;
/// As if nobody had asked: the kernel's own value for that.
const ANY_US: i32 = 2_000_000_000;

/// How a machine is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    device: PathBuf,
    /// How long waking may take, in microseconds.
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

    /// A request, which asks for nothing yet.
    pub(crate) fn request(&self) -> io::Result<Request> {
        let device = OpenOptions::new().write(true).open(&self.device)?;
        Ok(Request { device, longest_us: self.longest_us })
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Request {
    device: File,
    longest_us: i32,
}

impl Request {
    /// Asks.
    pub(crate) fn hold(&self) -> io::Result<()> {
        self.write(self.longest_us)
    }

    /// Asks no more.
    pub(crate) fn let_go(&self) -> io::Result<()> {
        self.write(ANY_US)
    }

    fn write(&self, us: i32) -> io::Result<()> {
        self.device.write_all_at(&us.to_ne_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_kept_awake_and_others_may_sleep_lightly() {
        assert!(Idle::at(Path::new("/d"), "haltpoll").is_of_a_guest());
        assert!(!Idle::at(Path::new("/d"), "intel_idle").is_of_a_guest());
        let asked = |driver| Idle::at(Path::new("/d"), driver).longest_us;
        assert_eq!(asked("haltpoll\n"), 0);
        assert_eq!(["intel_idle\n", "acpi_idle\n", "none\n", ""].map(asked), [2; 4]);
    }

    #[test]
    fn the_request_is_four_bytes_and_a_device_that_is_missing_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("latency");
        let idle = Idle::at(&device, "acpi_idle");
        assert_eq!(idle.request().unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create(&device).unwrap();
        let (request, asked) = (idle.request().unwrap(), || std::fs::read(&device).unwrap());
        assert!(asked().is_empty());
        for _ in 0..2 {
            request.hold().unwrap();
            assert_eq!(asked(), 2_i32.to_ne_bytes());
            request.let_go().unwrap();
            assert_eq!(asked(), ANY_US.to_ne_bytes());
        }
    }
}
