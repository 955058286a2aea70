//! Holds those who reach a tree over a network to the permissions of its objects.
//!
//! The kernel of a client checks as well, but from the attributes that it was told, and a client that lies gains nothing
//! by it: here the answer is worked out again from the stubs. A [`Guard`] is made for each request, with the person who
//! asks; its methods are those of the metadata service, in the same words.
//!
//! The rules are those of Linux's own file systems ([`rules`], pure), tested against the kernel. What a client is told
//! without a rule: attributes of a number that it holds, and the target of a link. Linux's `protected_hardlinks` and its
//! like are left to the clients' kernels.
//!
//! A check and what it allows are two steps: somebody may change a mode in between, as if he had done so a moment later.
//!
//! Any thread may call.

pub mod rules;
#[cfg(test)]
mod tests;

use crate::deeds::Deed;
use crate::metadata::{OpenFile, Tree};
use forebay_wire::message::Credentials;
use forebay_wire::{
    Attr, Caller, Directory, FileKind, FsError, Ino, MetadataService, NewObject, OpenFlags, RenameMode,
    Result, SetAttr, Sharing, Stub, WriteLimits, XattrMode,
};
use rules::{EXECUTE, Person, READ, WRITE};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Bit of open flags by which the kernel says that a file is opened to run it.
const OPEN_TO_EXECUTE: u32 = 0x20;

/// A tree as one person may use it.
pub struct Guard<'a> {
    tree: &'a Tree,
    person: Person,
    caller: Caller,
    /// Where a change is written down.
    deed: Deed<'a>,
}

impl<'a> Guard<'a> {
    /// The tree for who asks.
    pub fn new(tree: &'a Tree, who: &Credentials) -> Guard<'a> {
        let groups = who.groups.iter().map(|group| group.0).collect();
        let person = Person { uid: who.uid, gid: who.gid, groups };
        Guard { tree, person, caller: who.caller(), deed: Deed::UNNOTED }
    }

    /// The same; a change is written down so that the next process knows of it.
    pub(crate) fn noting(self, deed: Deed<'a>) -> Guard<'a> {
        Guard { deed, ..self }
    }

    fn need(&self, ino: Ino, wanted: u32) -> Result<Attr> {
        let attr = self.tree.own_attr(ino)?;
        rules::access(&attr, &self.person, wanted)?;
        Ok(attr)
    }

    /// The directory may be searched, and written to once it is clear what for.
    fn directory(&self, ino: Ino) -> Result<Attr> {
        let directory = self.need(ino, EXECUTE)?;
        if directory.kind == FileKind::Directory { Ok(directory) } else { Err(FsError::NotDirectory) }
    }

    /// A name may be made in a directory.
    fn may_make(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        let directory = self.directory(parent)?;
        self.unless_there(parent, name, rules::access(&directory, &self.person, WRITE))?;
        Ok(directory)
    }

    /// The outcome of making a name; that the name exists comes before all else that may be wrong. Only a failure is looked
    /// into: the tree makes no name that exists.
    fn unless_there<T>(&self, parent: Ino, name: &OsStr, outcome: Result<T>) -> Result<T> {
        match outcome {
            Ok(done) => Ok(done),
            Err(FsError::Exists) => Err(FsError::Exists),
            Err(error) => match self.tree.peek(parent, name) {
                Ok(_) => Err(FsError::Exists),
                Err(_) => Err(error),
            },
        }
    }

    /// A name may be taken out of a directory. Where that does not depend on what it stands for, it need not be there: the
    /// tree removes no name that is not.
    fn may_remove(&self, parent: Ino, name: &OsStr) -> Result<()> {
        let directory = self.directory(parent)?;
        let allowed = rules::access(&directory, &self.person, WRITE);
        if allowed.is_ok() && !rules::is_sticky(&directory) {
            return Ok(());
        }
        let victim = self.tree.peek(parent, name)?;
        allowed?;
        rules::sticky(&directory, &victim, &self.person)
    }

    fn new_object(&self, directory: &Attr, object: &NewObject) -> NewObject {
        let mode = rules::mode_of_new(directory, &self.person, object.mode);
        NewObject { caller: self.caller, mode, rdev: object.rdev }
    }

    fn attribute(&self, ino: Ino, name: &OsStr, wanted: u32) -> Result<()> {
        let attr = self.tree.own_attr(ino)?;
        if name.as_bytes().starts_with(b"trusted.") && !self.person.is_root() {
            let hidden = if wanted == READ { FsError::NoAttribute } else { FsError::NotPermitted };
            return Err(hidden);
        }
        if wanted == WRITE {
            rules::sticky_attribute(&attr, &self.person)?;
        }
        rules::access(&attr, &self.person, wanted)
    }
}

impl MetadataService for Guard<'_> {
    fn sharing(&self) -> Sharing {
        self.tree.sharing()
    }

    fn limits(&self) -> WriteLimits {
        self.tree.limits()
    }

    fn lookup(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<Attr> {
        self.directory(parent)?;
        MetadataService::lookup(self.tree, self.caller, parent, name)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.tree.forget(ino, count);
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        MetadataService::getattr(self.tree, ino)
    }

    fn setattr(&self, _by: Caller, ino: Ino, through: Option<&dyn Stub>, change: &SetAttr) -> Result<Attr> {
        let attr = self.tree.own_attr(ino)?;
        let writes = through.is_some_and(|stub| OpenFile::writing(stub, ino));
        let change = rules::change(&attr, &self.person, change, writes)?;
        self.tree.setattr(ino, &change, &self.deed)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        MetadataService::readlink(self.tree, ino)
    }

    fn mknod(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr> {
        let directory = self.may_make(parent, name)?;
        let made = rules::device(&self.person, object.mode, object.rdev)
            .and_then(|()| self.tree.mknod(parent, name, &self.new_object(&directory, object), &self.deed));
        self.unless_there(parent, name, made)
    }

    fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        flags: OpenFlags,
    ) -> Result<(Attr, Arc<dyn Stub>)> {
        let directory = self.may_make(parent, name)?;
        let object = self.new_object(&directory, object);
        let made = self.tree.create_open(parent, name, &object, flags, &self.deed);
        self.unless_there(parent, name, made)
    }

    fn mkdir(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr> {
        self.may_make(parent, name)?;
        let object = NewObject { caller: self.caller, ..*object };
        self.unless_there(parent, name, self.tree.mkdir(parent, name, &object, &self.deed))
    }

    fn symlink(&self, _by: Caller, parent: Ino, name: &OsStr, target: &Path) -> Result<Attr> {
        self.may_make(parent, name)?;
        let made = self.tree.symlink(parent, name, target, self.caller, &self.deed);
        self.unless_there(parent, name, made)
    }

    fn link(&self, _by: Caller, ino: Ino, parent: Ino, name: &OsStr) -> Result<Attr> {
        self.may_make(parent, name)?;
        let linked = self.tree.own_attr(ino).and_then(|attr| match attr.kind {
            FileKind::Directory => Err(FsError::NotPermitted),
            _ => self.tree.link(ino, parent, name, &self.deed),
        });
        self.unless_there(parent, name, linked)
    }

    fn unlink(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        self.may_remove(parent, name)?;
        self.tree.unlink(parent, name, &self.deed)
    }

    fn rmdir(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        self.may_remove(parent, name)?;
        self.tree.rmdir(parent, name, &self.deed)
    }

    fn rename(&self, _by: Caller, from: (Ino, &OsStr), to: (Ino, &OsStr), mode: RenameMode) -> Result<()> {
        let target = self.directory(to.0)?;
        self.directory(from.0)?;
        let moved = self.tree.peek(from.0, from.1)?;
        let replaced = match self.tree.peek(to.0, to.1) {
            Ok(replaced) => Some(replaced),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        match mode {
            RenameMode::NoReplace if replaced.is_some() => return Err(FsError::Exists),
            RenameMode::Exchange if replaced.is_none() => return Err(FsError::NotFound),
            _ => {}
        }
        self.may_remove(from.0, from.1)?;
        match replaced {
            Some(other) => {
                self.may_remove(to.0, to.1)?;
                let kinds = [moved.kind, other.kind].map(|kind| kind == FileKind::Directory);
                match kinds {
                    [true, false] if mode != RenameMode::Exchange => return Err(FsError::NotDirectory),
                    [false, true] if mode != RenameMode::Exchange => return Err(FsError::IsDirectory),
                    _ => {}
                }
            }
            None => rules::access(&target, &self.person, WRITE)?,
        }
        let changes_parent =
            |attr: &Attr| attr.kind == FileKind::Directory && from.0 != to.0 && attr.ino != to.0;
        let exchanged = replaced.filter(|_| mode == RenameMode::Exchange);
        for attr in [Some(moved), exchanged].into_iter().flatten().filter(changes_parent) {
            // Its `..` is written.
            rules::access(&attr, &self.person, WRITE)?;
        }
        self.tree.rename(from, to, mode, &self.deed)
    }

    fn open(&self, _by: Caller, ino: Ino, flags: OpenFlags) -> Result<Arc<dyn Stub>> {
        let to_execute = flags.contains(OpenFlags(OPEN_TO_EXECUTE));
        let read = if to_execute { EXECUTE } else { READ };
        let writes = flags.writable() || flags.contains(OpenFlags::TRUNCATE);
        let wanted = [(flags.readable(), read), (writes, WRITE)];
        let wanted = wanted.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, bit)| bit).sum();
        self.need(ino, wanted)?;
        MetadataService::open(self.tree, self.caller, ino, flags)
    }

    fn opendir(&self, _by: Caller, ino: Ino) -> Result<Box<dyn Directory>> {
        self.need(ino, READ)?;
        MetadataService::opendir(self.tree, self.caller, ino)
    }

    fn getxattr(&self, _by: Caller, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.attribute(ino, name, READ)?;
        MetadataService::getxattr(self.tree, self.caller, ino, name)
    }

    fn setxattr(&self, _by: Caller, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        self.attribute(ino, name, WRITE)?;
        self.tree.setxattr(ino, name, value, mode, &self.deed)
    }

    fn listxattr(&self, _by: Caller, ino: Ino) -> Result<Vec<u8>> {
        let names = MetadataService::listxattr(self.tree, self.caller, ino)?;
        if self.person.is_root() {
            return Ok(names);
        }
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| !name.starts_with(b"trusted."));
        Ok(shown.flatten().copied().collect())
    }

    fn removexattr(&self, _by: Caller, ino: Ino, name: &OsStr) -> Result<()> {
        self.attribute(ino, name, WRITE)?;
        self.tree.removexattr(ino, name, &self.deed)
    }

    fn give_back(&self) -> bool {
        self.tree.give_back()
    }

    fn files_created(&self) -> u64 {
        self.tree.files_created()
    }

    fn sync(&self) -> Result<()> {
        self.tree.sync()
    }
}
