//! Whether and how files are handed to the kernel (passthrough).
//!
//! Switched on at most once, before the first request is served, and switched off for the rest of the mount when the
//! kernel refuses a file while no other is handed over. A file that is refused is served by requests; no data is lost
//! either way.

use crate::complaint::complain;
use crate::opens::Served;
use forebay_fusedev::{BackingId, Registrar};
use forebay_wire::Loan;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the kernel takes backing files from this process: registers one unnamed file in memory and gives it back.
pub(crate) fn is_taken(registrar: &Registrar) -> io::Result<bool> {
    let probe = rustix::fs::memfd_create("passthrough-probe", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(registrar.register(&probe).is_ok())
}

/// A file that the kernel reads and writes itself.
#[derive(Debug)]
pub(crate) struct Passed {
    // Dropped in this order: the kernel lets go before the file is given back.
    id: BackingId,
    _loan: Lent,
}

impl Passed {
    pub(crate) fn id(&self) -> &BackingId {
        &self.id
    }
}

struct Lent(#[expect(dead_code, reason = "held until dropped")] Box<dyn Loan>);

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lent")
    }
}

/// The switch.
#[derive(Debug, Default)]
pub(crate) struct Backing {
    on: AtomicBool,
    used: AtomicBool,
}

impl Backing {
    pub(crate) fn switch_on(&self) {
        self.on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// How a file of which this is the content is to be served; `open_backing` registers a descriptor.
    pub(crate) fn offer(
        &self,
        loan: Option<Box<dyn Loan>>,
        open_backing: impl FnOnce(&OwnedFd) -> io::Result<BackingId>,
    ) -> Served {
        let Some(loan) = loan.filter(|_| self.is_on()) else { return Served::ByRequests };
        match open_backing(loan.descriptor()) {
            Ok(id) => {
                self.used.store(true, Ordering::Release);
                Served::ByBacking(Arc::new(Passed { id, _loan: Lent(loan) }))
            }
            Err(error) => {
                self.refused(&error);
                Served::ByRequests
            }
        }
    }

    /// A first refusal is about the machine (privilege, kind of file system); later ones are about one file.
    fn refused(&self, error: &io::Error) {
        if !self.used.load(Ordering::Acquire) {
            self.on.store(false, Ordering::Release);
        }
        complain("the kernel does not take a file for passthrough, serving it by requests", error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(_: &OwnedFd) -> io::Result<BackingId> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    struct Null(OwnedFd);

    impl Loan for Null {
        fn descriptor(&self) -> &OwnedFd {
            &self.0
        }
    }

    fn file() -> Option<Box<dyn Loan>> {
        Some(Box::new(Null(std::fs::File::open("/dev/null").unwrap().into())))
    }

    #[test]
    fn a_refusal_of_the_first_file_switches_off() {
        let backing = Backing::default();
        assert!(matches!(backing.offer(file(), |_| panic!("off")), Served::ByRequests));
        backing.switch_on();
        assert!(matches!(backing.offer(None, |_| panic!("no file")), Served::ByRequests));
        assert!(backing.is_on());
        assert!(matches!(backing.offer(file(), refuse), Served::ByRequests));
        assert!(!backing.is_on());
    }
}
