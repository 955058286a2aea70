//! The metadata service of a namespace on another machine: each operation one request.

use super::connection::Sink;
use super::directory::RemoteDirectory;
use super::held::{Life, OpenedFile};
use super::home::{Home, name};
use super::lacking;
use super::link::{Ask, NOT_UNDERSTOOD, Patience};
use super::stub::RemoteStub;
use forebay_wire::message::{
    AttributeName, AttributeValue, Credentials, MetadataRequest, Name, Opened, Reply, Target,
};
use forebay_wire::{
    Attr, Caller, Directory, FsError, Ino, MetadataService, Moved, NewObject, OpenFlags, RenameMode, Result,
    SetAttr, Sharing, Stub, WriteLimits, XattrMode,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct RemoteMetadata {
    home: Arc<Home>,
    /// Files created, as far as is known.
    created: AtomicU64,
}

impl RemoteMetadata {
    pub(crate) fn new(home: Arc<Home>) -> RemoteMetadata {
        RemoteMetadata { home, created: AtomicU64::new(0) }
    }

    fn who(&self, by: Caller) -> Credentials {
        self.home.groups.of(by)
    }

    /// Asks for an object by a name of it, and counts the reference.
    fn refer(&self, request: &MetadataRequest, parent: Ino, name: &Name) -> Result<Attr> {
        let before = self.home.validity.now();
        let attr = self.home.ask_attr(request)?;
        self.home.held.refer(&attr, parent, name);
        Ok(self.home.validity.shown(attr, Some(parent), before))
    }

    /// Looks a name up, and with it names that are likely to be looked up next.
    fn look_up(&self, who: Credentials, parent: Ino, name: &Name, ahead: Vec<Name>) -> Result<Attr> {
        let home = &self.home;
        let request = |name: &Name| MetadataRequest::Lookup { who: who.clone(), parent, name: name.clone() };
        let then: Vec<_> = ahead.iter().map(request).collect();
        let (asked, mut others) = (home.recent.now(&home.validity), Vec::new());
        let looked_up = home.link.ask_many(&request(name), &then, &mut others);
        for (name, reply) in ahead.into_iter().zip(others) {
            if let Reply::Attr { attr } = reply
                && home.held.keep(&attr, parent, &name)
            {
                home.ahead.found(parent, name, attr, asked);
            }
        }
        let Reply::Attr { attr } = looked_up?.0 else { return Err(NOT_UNDERSTOOD) };
        home.held.refer(&attr, parent, name);
        // What was found in it is granted for no longer than the directory.
        home.fresh.extend(parent, asked.others, attr.valid_ms);
        Ok(home.validity.shown(attr, Some(parent), asked.others))
    }

    /// Asks for a change of a name in a directory, and for what becomes of the directory by it.
    fn change_in(&self, directory: Ino, request: &MetadataRequest) -> Result<(Reply, Life)> {
        let (recent, before) = (&self.home.recent, self.home.validity.now());
        let step = recent.begin(directory);
        let asked = self.home.link.ask_both(request, &MetadataRequest::GetAttr { ino: directory });
        let known = match &asked {
            Ok((_, _, Some(Reply::Attr { attr }))) => {
                self.home.fresh.extend(directory, before, attr.valid_ms);
                Some((*attr, before))
            }
            _ => None,
        };
        recent.end(directory, step, known);
        asked.map(|(reply, life, _)| (reply, life))
    }

    /// What is to be remembered of a file that was opened.
    fn opened(&self, (reply, life): (Reply, Life), who: Credentials, flags: OpenFlags) -> Result<Opened> {
        let Reply::Opened { opened } = reply else { return Err(NOT_UNDERSTOOD) };
        let file = OpenedFile { who, ino: opened.attr.ino, flags, placement: opened.placement };
        // The server was started anew at this moment, and knows nothing of this file.
        if !self.home.held.opened(opened.handle, file, Some(life)) {
            return Err(FsError::Stale);
        }
        Ok(opened)
    }
}

fn attribute_name(name: &OsStr) -> Result<AttributeName> {
    AttributeName::new(name.as_bytes()).ok_or(FsError::NameTooLong)
}

impl MetadataService for RemoteMetadata {
    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn limits(&self) -> WriteLimits {
        WriteLimits { max_file_size: self.home.max_file_size }
    }

    fn lookup(&self, by: Caller, parent: Ino, of: &OsStr) -> Result<Attr> {
        let name = name(of)?;
        let home = &self.home;
        if home.fresh.lacks(parent, &name, &home.validity) {
            return Err(FsError::NotFound);
        }
        if let Some(attr) = home.ahead.take(parent, &name, (&home.held, &home.validity, &home.recent)) {
            return Ok(attr);
        }
        let (who, ahead) = (self.who(by), home.ahead.plan(parent, &name, &home.held));
        let found = self.look_up(who.clone(), parent, &name, ahead);
        if found == Err(FsError::NotFound) {
            lacking::missed(home, &who, parent);
        }
        found
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.home.fresh.forget(ino);
        if self.home.held.forget(ino, count) {
            self.home.tell_forgotten();
        }
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let Home { recent, validity, known, .. } = &*self.home;
        if let Some(attr) = recent.get(ino, validity).or_else(|| known.shown(ino, validity, recent)) {
            return Ok(attr);
        }
        let before = validity.now();
        let attr = self.home.ask_attr(&MetadataRequest::GetAttr { ino })?;
        self.home.fresh.extend(ino, before, attr.valid_ms);
        known.told(&attr, before, validity);
        Ok(validity.shown(attr, None, before))
    }

    fn setattr(&self, by: Caller, ino: Ino, through: Option<&dyn Stub>, change: &SetAttr) -> Result<Attr> {
        let through = through.and_then(|stub| stub.as_any().downcast_ref::<RemoteStub>());
        let handle = through.map(RemoteStub::handle);
        let before = self.home.validity.now();
        let _changing = (self.home.recent.changing([ino]), self.home.standby.changing(ino));
        let _cutting = change.size.map(|_| self.home.known.cutting(ino));
        let request = MetadataRequest::SetAttr { who: self.who(by), ino, handle, change: *change };
        let (attr, life) = self.home.ask_attr_in(&request)?;
        if let Some(stub) = through {
            stub.was_changed_in(life);
        }
        self.home.known.told(&attr, before, &self.home.validity);
        Ok(self.home.validity.shown(attr, None, before))
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut target = Vec::new();
        self.home.fetch(&MetadataRequest::ReadLink { ino }, &mut target)?;
        Ok(target)
    }

    fn mknod(&self, parent: Ino, of: &OsStr, object: &NewObject) -> Result<Attr> {
        let name = name(of)?;
        let NewObject { caller, mode, rdev } = *object;
        let request =
            MetadataRequest::Mknod { who: self.who(caller), parent, name: name.clone(), mode, rdev };
        let _making = self.home.fresh.making(parent, &name);
        let _changing = self.home.recent.changing([parent]);
        self.refer(&request, parent, &name)
    }

    fn create(
        &self,
        parent: Ino,
        of: &OsStr,
        object: &NewObject,
        flags: OpenFlags,
    ) -> Result<(Attr, Arc<dyn Stub>)> {
        let name = name(of)?;
        let _making = self.home.fresh.making(parent, &name);
        let who = self.who(object.caller);
        let (before, asked) = (self.home.validity.now(), self.home.known.now(&self.home.validity));
        let request = MetadataRequest::Create {
            who: who.clone(),
            parent,
            name: name.clone(),
            mode: object.mode,
            flags,
        };
        let opened = self.opened(self.change_in(parent, &request)?, who, flags)?;
        self.home.held.refer(&opened.attr, parent, &name);
        let attr = self.home.validity.shown(opened.attr, Some(parent), before);
        Ok((attr, Arc::new(RemoteStub::new(self.home.clone(), opened, asked))))
    }

    fn mkdir(&self, parent: Ino, of: &OsStr, object: &NewObject) -> Result<Attr> {
        let name = name(of)?;
        let who = self.who(object.caller);
        let (home, before) = (&self.home, self.home.validity.now());
        let _changing = home.recent.changing([parent]);
        let _making = home.fresh.making(parent, &name);
        let (making, life) = (home.fresh.begin(before), home.held.life());
        let request = MetadataRequest::Mkdir { who, parent, name: name.clone(), mode: object.mode };
        let ask = Ask::Metadata(&request);
        let (reply, now) = home.link.ask_in(Patience::Wait, ask, &[], &mut Sink::Nothing, |_| true)?;
        let Reply::Attr { attr } = reply else { return Err(NOT_UNDERSTOOD) };
        home.held.refer(&attr, parent, &name);
        // A server that was started anew meanwhile may have found what was made before, with something in it.
        if life == Some(now) {
            home.fresh.made(attr.ino, making, attr.valid_ms);
        }
        Ok(home.validity.shown(attr, Some(parent), before))
    }

    fn symlink(&self, by: Caller, parent: Ino, of: &OsStr, target: &Path) -> Result<Attr> {
        let name = name(of)?;
        let target = Target::new(target.as_os_str().as_bytes()).ok_or(FsError::NameTooLong)?;
        let _changing = self.home.recent.changing([parent]);
        let _making = self.home.fresh.making(parent, &name);
        let request = MetadataRequest::Symlink { who: self.who(by), parent, name: name.clone(), target };
        self.refer(&request, parent, &name)
    }

    fn link(&self, by: Caller, ino: Ino, parent: Ino, of: &OsStr) -> Result<Attr> {
        let name = name(of)?;
        let _changing = self.home.recent.changing([parent, ino]);
        let _making = self.home.fresh.making(parent, &name);
        let request = MetadataRequest::Link { who: self.who(by), ino, parent, name: name.clone() };
        self.refer(&request, parent, &name)
    }

    fn unlink(&self, by: Caller, parent: Ino, of: &OsStr) -> Result<()> {
        let name = name(of)?;
        let home = &self.home;
        let removed = home.held.known(parent, &name);
        let _changing = removed.map(|ino| home.recent.changing([ino]));
        // One that goes by another name too.
        let _changing_any = removed.is_none().then(|| home.recent.changing_all());
        let removing = home.fresh.removing();
        let request = MetadataRequest::Unlink { who: self.who(by), parent, name: name.clone() };
        let (Reply::Done, _) = self.change_in(parent, &request)? else { return Err(NOT_UNDERSTOOD) };
        home.held.removed(parent, &name);
        home.fresh.removed(parent, &name, removing);
        Ok(())
    }

    fn rmdir(&self, by: Caller, parent: Ino, of: &OsStr) -> Result<()> {
        let name = name(of)?;
        // The directory that goes is not known here.
        let _changing = self.home.recent.changing_all();
        self.home.fresh.forget_all();
        let request = MetadataRequest::Rmdir { who: self.who(by), parent, name: name.clone() };
        self.home.order(&request)?;
        self.home.held.removed(parent, &name);
        Ok(())
    }

    fn rename(&self, by: Caller, from: (Ino, &OsStr), to: (Ino, &OsStr), mode: RenameMode) -> Result<()> {
        let (from, to) = ((from.0, name(from.1)?), (to.0, name(to.1)?));
        let expected = self.home.held.known(from.0, &from.1);
        let _changing = self.home.recent.changing_all();
        let _making = [&from, &to].map(|(directory, name)| self.home.fresh.making(*directory, name));
        if let Some(replaced) = self.home.held.known(to.0, &to.1) {
            self.home.fresh.forget(replaced);
        }
        let _moving = self.home.held.moving(&from, &to);
        self.home.validity.names_move([from.0, to.0]);
        let request =
            MetadataRequest::Rename { who: self.who(by), from: from.clone(), to: to.clone(), mode, expected };
        self.home.order(&request)?;
        self.home.held.renamed(from.clone(), to.clone(), mode == RenameMode::Exchange);
        Ok(())
    }

    fn open(&self, by: Caller, ino: Ino, flags: OpenFlags) -> Result<Arc<dyn Stub>> {
        let who = self.who(by);
        let asked_at = self.home.known.now(&self.home.validity);
        let request = MetadataRequest::Open { who: who.clone(), ino, flags, reclaim: None };
        let sink = &mut Sink::Nothing;
        let asked = self.home.link.ask_in(Patience::Wait, Ask::Metadata(&request), &[], sink, |_| true)?;
        let opened = self.opened(asked, who, flags)?;
        Ok(Arc::new(RemoteStub::new(self.home.clone(), opened, asked_at)))
    }

    fn opendir(&self, by: Caller, ino: Ino) -> Result<Box<dyn Directory>> {
        // To list it changes its time.
        let _changing = self.home.recent.changing([ino]);
        Ok(Box::new(RemoteDirectory::open(self.home.clone(), self.who(by), ino)?))
    }

    fn getxattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        let name = attribute_name(name)?;
        let mut value = Vec::new();
        self.home.fetch(&MetadataRequest::GetXattr { who: self.who(by), ino, name }, &mut value)?;
        Ok(value)
    }

    fn setxattr(&self, by: Caller, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        let name = attribute_name(name)?;
        let value = AttributeValue::new(value).ok_or(FsError::AttributeTooBig)?;
        let _changing = self.home.recent.changing([ino]);
        self.home.order(&MetadataRequest::SetXattr { who: self.who(by), ino, name, value, mode })
    }

    fn listxattr(&self, by: Caller, ino: Ino) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        self.home.fetch(&MetadataRequest::ListXattr { who: self.who(by), ino }, &mut names)?;
        Ok(names)
    }

    fn removexattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<()> {
        let name = attribute_name(name)?;
        let _changing = self.home.recent.changing([ino]);
        self.home.order(&MetadataRequest::RemoveXattr { who: self.who(by), ino, name })
    }

    fn give_back(&self) -> bool {
        self.home.tell_forgotten();
        matches!(self.home.ask(&MetadataRequest::GiveBack), Ok(Reply::Flag { value: true }))
    }

    fn files_created(&self) -> u64 {
        // What was known last is better than waiting for a server that is not there.
        if let Ok(Reply::Size { bytes }) = self.home.ask(&MetadataRequest::Counts) {
            self.created.store(bytes, Relaxed);
        }
        self.created.load(Relaxed)
    }

    fn report(&self, moved: Moved) -> Result<()> {
        self.home.order(&MetadataRequest::Report { moved })
    }

    fn sync(&self) -> Result<()> {
        self.home.order(&MetadataRequest::SyncAll)
    }
}
