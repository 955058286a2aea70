//! Requests for names and attributes: what each does to the tree, the session, the grants and the locks.
//!
//! A change is told to the other clients first ([`super::home::Home::change`]), then made. An answer with attributes that
//! counts a reference is counted in the session before it is sent, so that whatever happens to the client the reference
//! is given back.
//!
//! *After a server was started anew* a change that was under way may have been made or not, and its answer is lost. What was
//! done and what was begun is written down ([`crate::deeds`], [`super::remembered`]). After a crash of the machine nobody believes
//! that; then a request is settled by looking: a removal of a name that is not there was made; so was a rename whose source is gone
//! and whose target is the object that the client knows, and a link of a name to the right object. Something new under a
//! name that exists is taken for ours when it looks as it would look then ([`super::settle`]), except where the client
//! insisted on being the one who makes the file: then nobody can tell, and the answer is that it exists.

use super::home::Home;
use super::hosted::Hosted;
use super::session::{Answer, Referred, Session};
use super::{files, locking, names, reclaim, remembered};
use crate::deeds::{Deed, Values};
use crate::guard::Guard;
use forebay_wire::message::{Credentials, MetadataRequest, Reply, Status};
use forebay_wire::{Attr, FsError, Ino, MetadataService, Result, Statfs};
use std::sync::Arc;

/// A request of a session, with what surrounds it.
pub(crate) struct Asking<'a> {
    pub(crate) home: &'a Arc<Home>,
    pub(crate) hosted: &'a Hosted,
    pub(crate) session: &'a Session,
    /// When it was begun with, as [`Home::now`] counts.
    pub(crate) asked_at: u64,
    /// It may have been carried out by a server that is gone.
    pub(crate) is_repeated: bool,
    /// Where it is written down that it was carried out.
    pub(crate) deed: Deed<'a>,
    /// A server that is gone had begun it, so.
    pub(crate) begun: Option<Values>,
    /// What the frame carries.
    pub(crate) bulk: &'a [u8],
}

impl Asking<'_> {
    /// Carries a request out. `spare` may be used for what the answer carries.
    pub(crate) fn carry_out(&self, request: MetadataRequest, spare: &mut Vec<u8>) -> Answer {
        self.try_to(request, spare).unwrap_or_else(|error| Answer::from(Reply::Failed { error }))
    }

    /// Answers a request that an earlier server carried out.
    pub(crate) fn remember(&self, request: &MetadataRequest, values: Values) -> Answer {
        let answer = if self.holds_all(request) {
            remembered::answer(self, request, values)
        } else {
            Err(FsError::Stale)
        };
        answer.unwrap_or_else(|error| Answer::from(Reply::Failed { error }))
    }

    /// The client holds the objects that a request names.
    fn holds_all(&self, request: &MetadataRequest) -> bool {
        objects(request).into_iter().flatten().all(|ino| self.session.holds(ino))
    }

    fn try_to(&self, request: MetadataRequest, spare: &mut Vec<u8>) -> Result<Answer> {
        use MetadataRequest as R;
        if !self.holds_all(&request) {
            return Err(FsError::Stale);
        }
        let tree = self.tree();
        let done = |()| Answer::from(Reply::Done);
        match request {
            R::Lookup { who, parent, name } => names::lookup(self, &who, parent, &name).map(attr_answer),
            R::Forget { items } => {
                items.iter().for_each(|item| self.forget(item.ino, item.count));
                Ok(done(()))
            }
            R::GetAttr { ino } => {
                let valid_ms = self.grant_answered(ino);
                Ok(attr_answer(Attr { valid_ms, ..tree.getattr(ino)? }))
            }
            R::SetAttr { who, ino, handle, change } => {
                files::set_attributes(self, &who, ino, handle, &change).map(attr_answer)
            }
            R::ReadLink { ino } => tree.readlink(ino).map(carrying),
            R::Mknod { who, parent, name, mode, rdev } => {
                names::mknod(self, &who, parent, &name, mode, rdev).map(attr_answer)
            }
            R::Create { who, parent, name, mode, flags } => {
                let opened = files::create(self, &who, parent, &name, mode, flags)?;
                Ok(Reply::Opened { opened }.into())
            }
            R::Mkdir { who, parent, name, mode } => {
                names::mkdir(self, &who, parent, &name, mode).map(attr_answer)
            }
            R::Symlink { who, parent, name, target } => {
                names::symlink(self, &who, parent, &name, &target).map(attr_answer)
            }
            R::Link { who, ino, parent, name } => {
                names::link(self, &who, ino, parent, &name).map(attr_answer)
            }
            R::Unlink { who, parent, name } => names::remove(self, &who, parent, &name, false).map(done),
            R::Rmdir { who, parent, name } => names::remove(self, &who, parent, &name, true).map(done),
            R::Rename { who, from, to, mode, expected } => {
                names::rename(self, &who, &from, &to, mode, expected).map(done)
            }
            R::Open { who, ino, flags, reclaim } => {
                let opened = files::open(self, &who, ino, flags, reclaim)?;
                Ok(Reply::Opened { opened }.into())
            }
            R::Close { items } => {
                items.iter().for_each(|closed| files::close(self, closed));
                Ok(done(()))
            }
            R::OpenDir { who, ino } => {
                files::open_directory(self, &who, ino).map(|handle| Reply::Directory { handle }.into())
            }
            R::ReadDir { handle, cookie, with_attributes, most } => {
                files::read_directory(self, handle, cookie, with_attributes, most)
            }
            R::CloseDir { handle } => {
                drop(self.session.close_directory(handle));
                Ok(done(()))
            }
            R::SyncDir { handle, data_only } => {
                self.session.directory(handle)?.directory.sync(data_only).map(done)
            }
            R::GetXattr { who, ino, name } => {
                self.guard(&who).getxattr(who.caller(), ino, name.as_os_str()).map(carrying)
            }
            R::SetXattr { who, ino, name, value, mode } => {
                let _changing = self.change_attributes(ino);
                self.changing(&who)
                    .setxattr(who.caller(), ino, name.as_os_str(), value.as_bytes(), mode)
                    .map(done)
            }
            R::ListXattr { who, ino } => self.guard(&who).listxattr(who.caller(), ino).map(carrying),
            R::RemoveXattr { who, ino, name } => {
                let _changing = self.change_attributes(ino);
                match self.changing(&who).removexattr(who.caller(), ino, name.as_os_str()) {
                    Err(FsError::NoAttribute) if self.is_repeated => Ok(done(())),
                    removed => removed.map(done),
                }
            }
            R::GetLock { request } => locking::test(self, &request).map(Answer::from),
            R::SetLock { request, wait, reclaim } => {
                locking::lock(self, request, wait, reclaim).map(Answer::from)
            }
            R::Unlock { ino, owner, scope } => locking::unlock(self, ino, owner, scope).map(done),
            R::CancelLock { wait } => {
                Ok(Reply::Flag { value: self.home.cancel_lock(self.session, wait) }.into())
            }
            R::ReleaseLocks { ino, owner, family } => {
                locking::owner_closed(self, ino, owner, family);
                Ok(done(()))
            }
            R::ReturnLocks { ino, number, held } => {
                self.home.return_locks(ino, self.session, number, held);
                Ok(done(()))
            }
            R::GiveBack => Ok(Reply::Flag { value: tree.give_back() }.into()),
            R::Counts => Ok(Reply::Size { bytes: tree.files_created() }.into()),
            R::Statfs => self.space().map(|space| Reply::Space { space }.into()),
            R::Status => self.status().map(|status| Reply::Status { status }.into()),
            R::SyncAll => tree.sync().map(done),
            R::Reclaim { items } => Ok(reclaim::references(self, items).into()),
            R::ReclaimDone => {
                self.home.is_back(self.session);
                Ok(done(()))
            }
            R::Report { moved } => {
                self.session.report(moved);
                Ok(done(()))
            }
            R::TooLong { handle, end } => {
                self.session.file(handle)?.stub.was_too_long(end);
                Ok(done(()))
            }
            R::Goodbye => {
                self.home.goodbye(self.session);
                Ok(done(()))
            }
            open_file => files::carry_out(self, open_file, spare),
        }
    }

    /// The tree as who asks may use it.
    pub(crate) fn guard(&self, who: &Credentials) -> Guard<'_> {
        Guard::new(&self.home.hosted.metadata, who)
    }

    /// The same for a change, which is written down.
    pub(crate) fn changing(&self, who: &Credentials) -> Guard<'_> {
        self.guard(who).noting(self.deed)
    }

    /// The tree, for what needs no permission.
    pub(crate) fn tree(&self) -> &dyn MetadataService {
        &*self.home.hosted.metadata
    }

    /// Counts a reference that the tree gave in the session, and says how long the answer holds. The name that it was
    /// found under is one of `parent`.
    pub(crate) fn found(&self, parent_valid_ms: u32, attr: Attr) -> Result<Attr> {
        let referred = self.session.refer(attr.ino);
        self.keep(attr.ino, referred)?;
        let is_new = referred == Referred::First;
        let granted_ms = self.home.grant_answered(attr.ino, self.session, self.asked_at, is_new);
        let valid_ms = parent_valid_ms.min(granted_ms);
        Ok(Attr { valid_ms, ..attr })
    }

    /// How long attributes hold that the request answers with, of an object that the client had before.
    pub(crate) fn grant_answered(&self, ino: Ino) -> u32 {
        self.home.grant_answered(ino, self.session, self.asked_at, false)
    }

    /// Keeps a reference that the tree gave, or gives it back if the session has one already.
    pub(crate) fn keep(&self, ino: Ino, referred: Referred) -> Result<()> {
        if referred != Referred::First {
            self.tree().forget(ino, 1);
        }
        if referred == Referred::Over { Err(FsError::Stale) } else { Ok(()) }
    }

    /// Gives references back, as many as there are.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        if self.session.unrefer(ino, count) {
            self.tree().forget(ino, 1);
        }
    }

    /// Waits until nobody is awaited any more who was there before the server started, and might lose something by this.
    pub(crate) fn await_others(&self) -> Result<()> {
        if self.home.recovery.wait() { Ok(()) } else { Err(FsError::Unreachable) }
    }

    fn change_attributes(&self, ino: Ino) -> super::home::Changing<'_> {
        self.home.change(self.session, vec![forebay_wire::message::Changed::Attributes(ino)])
    }

    fn space(&self) -> Result<Statfs> {
        /// Unit of the block counts, in bytes.
        const BLOCK: u64 = 4096;
        let (mut blocks, mut free) = (0, 0);
        let (mut files, mut files_free) = (0, 0);
        for (position, data) in self.home.hosted.data.iter().enumerate() {
            let space = data.space()?;
            blocks += space.capacity / BLOCK;
            free += space.free / BLOCK;
            if position as u32 == self.hosted.namespace.position {
                (files, files_free) = (space.files, space.files_free);
            }
        }
        Ok(Statfs {
            block_size: BLOCK as u32,
            blocks,
            blocks_free: free,
            blocks_available: free,
            files,
            files_free,
            name_max: forebay_wire::message::NAME_MAX as u32,
        })
    }

    fn status(&self) -> Result<Status> {
        let space = self.space()?;
        let (sessions, open_files, written_files) = self.home.usage();
        let block = u64::from(space.block_size);
        let tree = &self.home.hosted.metadata;
        let limits = tree.given_limits();
        let fragments = self.home.hosted.data.iter().map(|data| data.account()).collect::<Result<_>>()?;
        Ok(Status {
            capacity: space.blocks * block,
            free: space.blocks_free * block,
            max_file_size: limits.max_file_size.map(|size| size.0),
            file_size_policy: limits.policies.file_size,
            max_files: limits.max_files,
            file_count_policy: limits.policies.file_count,
            moved: self.home.moved(),
            layout: tree.default_layout(),
            fragments,
            files_created: self.tree().files_created(),
            sessions,
            open_files,
            written_files,
        })
    }
}

/// The objects that a request names by their numbers. A client has to hold them: a number that was guessed leads past
/// the directories above it, which may be closed to who asks.
fn objects(request: &MetadataRequest) -> [Option<Ino>; 2] {
    use MetadataRequest as R;
    match request {
        R::Lookup { parent, .. }
        | R::Mknod { parent, .. }
        | R::Create { parent, .. }
        | R::Mkdir { parent, .. }
        | R::Symlink { parent, .. }
        | R::Unlink { parent, .. }
        | R::Rmdir { parent, .. } => [Some(*parent), None],
        R::GetAttr { ino }
        | R::SetAttr { ino, .. }
        | R::ReadLink { ino }
        | R::Open { ino, .. }
        | R::OpenDir { ino, .. }
        | R::GetXattr { ino, .. }
        | R::SetXattr { ino, .. }
        | R::ListXattr { ino, .. }
        | R::RemoveXattr { ino, .. } => [Some(*ino), None],
        R::Link { ino, parent, .. } => [Some(*ino), Some(*parent)],
        R::Rename { from, to, .. } => [Some(from.0), Some(to.0)],
        R::GetLock { request } | R::SetLock { request, .. } => [Some(request.file), None],
        _ => [None, None],
    }
}

pub(crate) fn attr_answer(attr: Attr) -> Answer {
    Reply::Attr { attr }.into()
}

pub(crate) fn carrying(bytes: Vec<u8>) -> Answer {
    let length = bytes.len();
    Answer::with(Reply::Bytes, bytes, length)
}
