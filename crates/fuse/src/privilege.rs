//! The credentials that the kernel keeps with a backing file.
//!
//! The kernel reads and writes a backing file with the credentials of the thread that registered it, not with those of
//! the program that writes. With `CAP_FSETID` among them the local file system would leave the set-id bits of a file
//! that an ordinary user writes to. So a file is registered without that capability unless its opener is root, who has
//! it by right. This matters for bits that are set while the file is open: a file that has them already is served by
//! requests.
//!
//! Capabilities belong to the thread: other serving threads are not affected, and the calling one has its own back
//! before it serves anything else.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;

/// Runs `register` with the credentials that the kernel is to keep for a file opened by `uid`.
pub(crate) fn registering_for<T>(uid: u32, register: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if uid == 0 {
        return register();
    }
    let own = capabilities(None)?;
    let effective = own.effective.difference(CapabilitySet::FSETID);
    set_capabilities(None, CapabilitySets { effective, ..own })?;
    let registered = register();
    // What is permitted can always be made effective again.
    set_capabilities(None, own)?;
    registered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective() -> CapabilitySet {
        capabilities(None).unwrap().effective
    }

    #[test]
    fn only_the_registration_for_a_user_lacks_the_capability() {
        let before = effective();
        assert!(before.contains(CapabilitySet::FSETID), "this test runs as root");
        registering_for(1000, || {
            assert_eq!(effective(), before.difference(CapabilitySet::FSETID));
            Ok(())
        })
        .unwrap();
        assert_eq!(effective(), before);
        assert_eq!(registering_for(0, || Ok(effective())).unwrap(), before);
        let refused = registering_for(1000, || Err::<(), _>(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(effective(), before);
    }
}
