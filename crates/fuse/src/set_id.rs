//! Set-id bits, which go when somebody without privilege changes the content of a file.
//!
//! The kernel leaves that to the file system and marks the writes it is about: every one of an ordinary user. It does
//! not expect that the mode changed by it and would show the old one for as long as it keeps attributes, so it is told.
//! As next to no file has such bits, nothing is looked at before the first one was shown to the kernel; a file must
//! have been shown before it can be opened.

use crate::adapter::Adapter;
use crate::complaint::complain;
use forebay_client::Handle;
use forebay_wire::{Attr, Caller, FileKind, Ino, Result, SetAttr};
use std::sync::atomic::{AtomicBool, Ordering};

/// The bits.
pub(crate) const SET_ID: u32 = 0o6000;

/// Whether any file with set-id bits was ever shown.
#[derive(Default)]
pub(crate) struct SetId(AtomicBool);

impl SetId {
    /// To be called with all attributes that go to the kernel.
    pub(crate) fn note(&self, attr: &Attr) {
        if has_set_id(attr) && !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Release);
        }
    }

    fn seen(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

fn has_set_id(attr: &Attr) -> bool {
    attr.kind == FileKind::Regular && attr.mode & SET_ID != 0
}

impl Adapter {
    /// The file has set-id bits now.
    pub(crate) fn is_set_id(&self, ino: Ino, handle: Option<Handle>) -> Result<bool> {
        Ok(self.set_id.seen() && has_set_id(&self.volume.getattr(ino, handle)?))
    }

    /// Clears the bits after a change of content that the kernel does not mark (truncating open, allocation, copy).
    pub(crate) fn kill_set_id(&self, caller: Caller, ino: Ino, handle: Handle) -> Result<()> {
        if caller.uid == 0 || !self.kills_privileges() || !self.is_set_id(ino, Some(handle))? {
            return Ok(());
        }
        let change = SetAttr { kill_suid_sgid: true, ..SetAttr::default() };
        self.volume.setattr(caller, ino, Some(handle), &change)?;
        self.tell_attributes_changed(ino);
        Ok(())
    }

    /// Makes the kernel ask again. A failure means that the mount is going away.
    pub(crate) fn tell_attributes_changed(&self, ino: Ino) {
        if let Err(error) = self.shared.kernel_cache.attributes_changed(ino) {
            complain("announcing changed attributes", &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::tests::some_attr;

    #[test]
    fn only_regular_files_with_the_bits_count() {
        let set_id = SetId::default();
        set_id.note(&Attr { mode: 0o755, ..some_attr() });
        set_id.note(&Attr { mode: 0o2755, kind: FileKind::Directory, ..some_attr() });
        assert!(!set_id.seen());
        set_id.note(&Attr { mode: 0o2755, ..some_attr() });
        assert!(set_id.seen());
    }
}
