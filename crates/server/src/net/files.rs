//! Requests that open, read, change and close files and directories.

use super::names::{change_name, settled};
use super::requests::Asking;
use super::session::{Answer, OpenDirectory, OpenFile};
use super::settle;
use crate::locks;
use crate::metadata::{APPEND, CUT, OpenFile as TreeFile};
use forebay_wire::message::{
    BULK_MAX, Changed, Closed, Credentials, Entry, MetadataRequest, Name, Opened, Reply,
};
use forebay_wire::ticket::Rights;
use forebay_wire::{
    Attr, FileKind, FsError, Ino, MetadataService, NewObject, OpenFlags, Placement, Result, SetAttr, Spread,
    Stub,
};
use std::sync::Arc;

/// Longest listing of one request: an answer is kept until the next one of its slot.
const LISTING_MAX: usize = 512 << 10;
/// More than an entry takes beside its name, without and with attributes.
const ENTRY_BYTES: usize = 24;
const ATTRIBUTES_BYTES: usize = 128;

pub(crate) fn set_attributes(
    asking: &Asking<'_>,
    who: &Credentials,
    ino: Ino,
    handle: Option<u64>,
    change: &SetAttr,
) -> Result<Attr> {
    let through = handle.map(|handle| asking.session.file(handle)).transpose()?;
    if through.as_ref().is_some_and(|file| file.ino != ino) {
        return Err(FsError::BadHandle);
    }
    if change.size.is_some_and(|size| size > asking.hosted.namespace.max_file_size) {
        return Err(FsError::FileTooLarge);
    }
    let mut items = vec![Changed::Attributes(ino)];
    items.extend(change.size.map(|_| Changed::Content(ino)));
    let changing = asking.home.change(asking.session, items);
    // The right to change the length is that of an open file only if it was opened for writing.
    let through = through.filter(|file| file.flags.writable());
    let stub = through.as_ref().map(|file| &*file.stub);
    // The length was set already, when the server was started.
    let is_cut = asking.begun.is_some_and(|[what, ..]| what == CUT);
    let change = SetAttr { size: change.size.filter(|_| !is_cut), ..*change };
    let attr = asking.changing(who).setattr(who.caller(), ino, stub, &change)?;
    drop(changing);
    Ok(Attr { valid_ms: asking.grant_answered(ino), ..attr })
}

pub(crate) fn create(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    mode: u32,
    flags: OpenFlags,
) -> Result<Opened> {
    let object = NewObject { caller: who.caller(), mode, rdev: 0 };
    let changing = change_name(asking, parent, name, &[]);
    let mut stub = None;
    let created =
        asking.changing(who).create(parent, name.as_os_str(), &object, flags).map(|(attr, opened)| {
            stub = Some(opened);
            attr
        });
    let is_ours = |attr: &Attr| {
        !flags.contains(OpenFlags::EXCLUSIVE) && settle::looks_new(attr, who, FileKind::Regular)
    };
    let attr = settled(asking, who, parent, name, created, is_ours)?;
    drop(changing);
    give_open(asking, who, parent, attr, flags, stub)
}

/// Opens a file that was made, for who made it: he may do what he asked for, whatever its mode.
pub(crate) fn give_open(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    attr: Attr,
    flags: OpenFlags,
    stub: Option<Arc<dyn Stub>>,
) -> Result<Opened> {
    let attr = asking.found(asking.home.grant_names(parent, asking.session), attr)?;
    let stub = match stub {
        Some(stub) => stub,
        None => asking.tree().open(who.caller(), attr.ino, flags)?,
    };
    if flags.writable() {
        start_writing(asking, attr.ino, false);
    }
    let opened = keep_open(asking, attr.ino, flags, stub, None, attr);
    if opened.is_err() && flags.writable() {
        asking.home.closed_for_writing(attr.ino, asking.session);
    }
    opened
}

pub(crate) fn open(
    asking: &Asking<'_>,
    who: &Credentials,
    ino: Ino,
    flags: OpenFlags,
    reclaim: Option<u64>,
) -> Result<Opened> {
    if let Some(number) = reclaim
        && let Ok(file) = asking.session.file(number)
    {
        // It was taken up already, and the answer was lost.
        return describe(asking, number, &file);
    }
    if flags.writable() {
        start_writing(asking, ino, reclaim.is_some());
    }
    let stub = match reclaim {
        // What was open stays open, whatever its mode became since.
        Some(_) => asking.tree().open(who.caller(), ino, flags),
        None => asking.guard(who).open(who.caller(), ino, flags),
    };
    let opened = stub.and_then(|stub| {
        let attr = asking.tree().getattr(ino)?;
        keep_open(asking, ino, flags, stub, reclaim, attr)
    });
    if opened.is_err() && flags.writable() {
        asking.home.closed_for_writing(ino, asking.session);
    }
    opened
}

/// Tells others that they may not show a file any more, since its length and times change from now on.
fn start_writing(asking: &Asking<'_>, ino: Ino, goes_on: bool) {
    let items = vec![Changed::Attributes(ino), Changed::Content(ino)];
    let _changing = match goes_on {
        true => asking.home.resume(asking.session, items),
        false => asking.home.change(asking.session, items),
    };
    asking.home.opened_for_writing(ino, asking.session);
}

/// Gives an open file a number. Whoever calls has it marked as written, if it is.
fn keep_open(
    asking: &Asking<'_>,
    ino: Ino,
    flags: OpenFlags,
    stub: Arc<dyn Stub>,
    number: Option<u64>,
    attr: Attr,
) -> Result<Opened> {
    let file = OpenFile { ino, flags, stub };
    let handle = asking.session.open(file.clone(), number)?;
    Ok(opened(asking, handle, &file, attr))
}

fn describe(asking: &Asking<'_>, handle: u64, file: &OpenFile) -> Result<Opened> {
    let attr = asking.tree().getattr(file.ino)?;
    Ok(opened(asking, handle, file, attr))
}

fn opened(asking: &Asking<'_>, handle: u64, file: &OpenFile, attr: Attr) -> Opened {
    let placement = file.stub.placement();
    let rights = if file.flags.writable() { Rights::ReadWrite } else { Rights::Read };
    let ticket = match placement {
        Placement::Inline => None,
        Placement::Striped { file, .. } => Some(asking.home.tickets.issue(rights, file, asking.session.id)),
    };
    let valid_ms = attr.valid_ms.min(asking.home.grant(file.ino, asking.session));
    Opened { handle, placement, ticket, attr: Attr { valid_ms, ..attr } }
}

pub(crate) fn close(asking: &Asking<'_>, closed: &Closed) {
    let Some((file, is_last)) = asking.session.close(closed.handle) else { return };
    let (ino, writable) = (file.ino, file.flags.writable());
    TreeFile::is_closed(&*file.stub, closed.wrote);
    drop(file);
    if writable {
        asking.home.closed_for_writing(ino, asking.session);
    }
    if is_last {
        asking.home.apply(locks::Event::FileClosed { session: asking.session.number, file: ino });
    }
}

pub(crate) fn open_directory(asking: &Asking<'_>, who: &Credentials, ino: Ino) -> Result<u64> {
    let directory = Arc::from(asking.guard(who).opendir(who.caller(), ino)?);
    asking.session.open_directory(OpenDirectory { ino, directory, who: who.clone() })
}

struct Found {
    ino: Ino,
    kind: FileKind,
    next_cookie: u64,
    name: Name,
}

pub(crate) fn read_directory(
    asking: &Asking<'_>,
    handle: u64,
    cookie: u64,
    with_attributes: bool,
    most: u32,
) -> Result<Answer> {
    let open = asking.session.directory(handle)?;
    let most = (most as usize).min(LISTING_MAX);
    let (found, mut is_end) = list(&open, cookie, with_attributes, most)?;
    let mut listing = Vec::with_capacity(most.min(64 << 10));
    for Found { ino, kind, next_cookie, name } in found {
        let attr = with_attributes.then(|| look_up(asking, &open, &name, ino)).flatten();
        let entry = Entry { ino, kind, next_cookie, name, attr };
        if !entry.add_to(&mut listing, most) {
            entry.attr.inspect(|attr| asking.forget(attr.ino, 1));
            is_end = false;
            break;
        }
    }
    let length = listing.len();
    Ok(Answer::with(Reply::Listing { is_end }, listing, length))
}

/// Entries that should fit, and whether they are the last.
fn list(open: &OpenDirectory, cookie: u64, with_attributes: bool, most: usize) -> Result<(Vec<Found>, bool)> {
    let each = if with_attributes { ENTRY_BYTES + ATTRIBUTES_BYTES } else { ENTRY_BYTES };
    let (mut found, mut bytes, mut is_end) = (Vec::new(), 0, true);
    open.directory.read(cookie, &mut |entry| {
        bytes += each + entry.name.len();
        if bytes > most && !found.is_empty() {
            is_end = false;
            return false;
        }
        // What no name can be is not in a directory.
        let name = Name::new(entry.name);
        let next_cookie = entry.next_cookie;
        found.extend(name.map(|name| Found { ino: entry.ino, kind: entry.kind, next_cookie, name }));
        true
    })?;
    Ok((found, is_end))
}

/// Attributes of an entry, with a reference; none when the name stands for something else meanwhile, or may not be
/// looked up.
fn look_up(asking: &Asking<'_>, open: &OpenDirectory, name: &Name, ino: Ino) -> Option<Attr> {
    if name.as_os_str() == "." || name.as_os_str() == ".." {
        return None;
    }
    let attr = super::names::lookup(asking, &open.who, open.ino, name).ok()?;
    if attr.ino != ino {
        asking.forget(attr.ino, 1);
        return None;
    }
    Some(attr)
}

/// Requests for an open file.
pub(crate) fn carry_out(
    asking: &Asking<'_>,
    request: MetadataRequest,
    spare: &mut Vec<u8>,
) -> Result<Answer> {
    use MetadataRequest as R;
    let stub = |handle: u64| asking.session.file(handle).map(|file| file.stub);
    let writable = |handle: u64| {
        let file = asking.session.file(handle)?;
        if file.flags.writable() { Ok(file.stub) } else { Err(FsError::BadHandle) }
    };
    let done = |()| Answer::from(Reply::Done);
    let size = |bytes: u64| Answer::from(Reply::Size { bytes });
    match request {
        R::Size { handle } => stub(handle)?.size().map(size),
        R::Reserve { handle, length } => {
            TreeFile::reserve_noted(&*writable(handle)?, length, &asking.deed).map(size)
        }
        R::GiveUp { handle, start, end } => {
            // After a crash of the machine nothing of before is reserved any more.
            match asking.is_repeated {
                true => Ok(done(())),
                false => TreeFile::give_up_noted(&*writable(handle)?, start..end, &asking.deed).map(done),
            }
        }
        R::WasRead { handle } => stub(handle)?.was_read().map(done),
        R::WasWritten { handle, end: 0 } => writable(handle)?.was_changed().map(done),
        R::WasWritten { handle, end } => writable(handle)?.was_written(end).map(done),
        R::DropSetId { handle } => drop_set_id(asking, handle).map(done),
        R::SyncFile { handle, data_only } => {
            let spread = stub(handle)?.sync(data_only)?;
            Ok(Reply::Synced { is_spread: spread != Spread::First }.into())
        }
        R::Spreads { handle } => writable(handle)?.will_change(u64::MAX).map(done),
        R::ReadInline { handle, offset, length } => {
            let stub = stub(handle)?;
            let length = length as usize;
            if length > BULK_MAX {
                return Err(FsError::InvalidArgument);
            }
            let mut buffer = std::mem::take(spare);
            let read = stub.read(offset, super::frame::room(&mut buffer, length))?;
            Ok(Answer::with(Reply::Bytes, buffer, read))
        }
        R::WriteInline { handle, offset } => {
            let stub = writable(handle)?;
            fits(asking, offset, asking.bulk.len() as u64)?;
            let written = stub.write(offset, asking.bulk)? as u64;
            asking.deed.done([written, 0, 0, 0]);
            Ok(size(written))
        }
        R::AppendInline { handle } => {
            let begun = asking.begun.filter(|[what, ..]| *what == APPEND).map(|[_, _, at, _]| at);
            let stub = writable(handle)?;
            let (offset, written) = TreeFile::append_noted(&*stub, asking.bulk, begun, &asking.deed)?;
            Ok(Reply::Appended { offset, bytes: written as u64 }.into())
        }
        R::FallocateInline { handle, offset, length, mode } => {
            let stub = writable(handle)?;
            fits(asking, offset, length)?;
            stub.fallocate(offset, length, mode)?;
            asking.deed.done([0; 4]);
            Ok(done(()))
        }
        R::SeekInline { handle, offset, what } => {
            Ok(Reply::Offset { offset: stub(handle)?.seek(offset, what)? }.into())
        }
        R::CopyInline { from, offset, to, to_offset, length } => {
            let (from, to) = (stub(from)?, writable(to)?);
            fits(asking, to_offset, length)?;
            let copied = from.copy_to(offset, &*to, to_offset, length)?;
            asking.deed.done([u64::from(copied.is_some()), copied.unwrap_or(0), 0, 0]);
            Ok(Reply::Offset { offset: copied }.into())
        }
        other => Ok(Reply::Unsupported { kind: other.kind() }.into()),
    }
}

fn drop_set_id(asking: &Asking<'_>, handle: u64) -> Result<()> {
    let file = asking.session.file(handle)?;
    let _changing = asking.home.change(asking.session, vec![Changed::Attributes(file.ino)]);
    file.stub.drop_suid_sgid()
}

/// A range within the longest file.
fn fits(asking: &Asking<'_>, offset: u64, length: u64) -> Result<()> {
    let end = offset.checked_add(length).ok_or(FsError::FileTooLarge)?;
    if end > asking.hosted.namespace.max_file_size { Err(FsError::FileTooLarge) } else { Ok(()) }
}
