//! Length, times and space of a striped file of a shared tree, as of now.
//!
//! [`super::reach`] says what makes a file live, settled or unsettled; here is what happens to one that is open.
//!
//! What counts of the substripe files' times: of a file that was live from its first byte, all; of one that was opened for
//! writing later, those that changed since; of one that is unsettled after a crash, those after the last change of the
//! stub. A time that somebody sets explicitly makes all earlier ones count no more.
//!
//! Any thread may call. Lock order: the state of a file, then those of the tree. Data services are asked while the
//! state of the file is held, so a file whose data service is away holds up nobody but those who ask for this file.

use super::Tree;
use super::annotation::Annotation;
use super::cut_files::Cut;
use super::places::Slots;
use super::reach::Reach;
use super::stub::LocalStub;
use crate::deeds::Deed;
use crate::host::host;
use forebay_model::layout::Layout;
use forebay_wire::{Attr, FileId, FsError, Ino, Result, Sharing, Spread, Stub, Timestamp};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_OMIT};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

/// Unit of the block counts, in bytes.
const BLOCK: u64 = 512;

/// What is known of a file while it is open.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// How often it is open for writing.
    writers: u32,
    /// All who had it open for writing since it was made have said what they did.
    is_told: bool,
    /// Its substripe files when their times last counted for nothing; `None`: not known.
    base: Option<Reach>,
    /// Since it was opened for writing somebody who had it so is gone without a word.
    is_left: bool,
}

impl Live {
    /// Of a file that was just made.
    pub(super) fn of_empty() -> Live {
        Live { base: Some(Reach::default()), ..Live::default() }
    }
}

/// Length and times, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Now {
    size: u64,
    blocks: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

fn mtime_of(stat: &Stat) -> Timestamp {
    Timestamp { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }
}

fn ctime_of(stat: &Stat) -> Timestamp {
    Timestamp { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 }
}

impl Now {
    fn of(stat: &Stat, reach: &Reach, base: Option<&Reach>) -> Now {
        let (mtime, ctime) = (mtime_of(stat), ctime_of(stat));
        let changed = match base {
            Some(base) => reach.changed_since(base),
            None => reach.changed_after(ctime),
        };
        let changed = changed.unwrap_or(mtime);
        Now {
            size: reach.end.max(stat.st_size as u64),
            blocks: reach.blocks,
            mtime: mtime.max(changed),
            ctime: ctime.max(changed),
        }
    }

    fn shown(self, attr: Attr) -> Attr {
        Attr { size: self.size, blocks: self.blocks, mtime: self.mtime, ctime: self.ctime, ..attr }
    }
}

impl LocalStub {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn striped(&self) -> Option<(FileId, Layout)> {
        self.annotation().striped
    }

    pub(super) fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(self.descriptor()).map_err(host("stat"))
    }

    /// Somebody opens the file for writing.
    pub(super) fn writer_came(&self) -> Result<()> {
        let mut live = self.live();
        if live.writers == 0 {
            self.first_writer_comes(&mut live)?;
        }
        live.writers += 1;
        Ok(())
    }

    fn first_writer_comes(&self, live: &mut Live) -> Result<()> {
        let Some((file, layout)) = self.striped() else { return Ok(()) };
        let cut_files = &self.tree().cut_files;
        cut_files.opened(file);
        let found = self.find_out(live, file, &layout);
        if found.is_err() {
            cut_files.is_not_opened(file);
        }
        found
    }

    /// Where others may have written a file since the stub was last right, or have lost a cut, that is found out before it is written.
    fn find_out(&self, live: &mut Live, file: FileId, layout: &Layout) -> Result<()> {
        self.mend(live)?;
        self.look(live)?;
        if live.base.is_none() {
            live.base = Some(self.reach(file, layout)?);
        }
        self.tree().table().set_blocks(self.number(), None);
        let told = self.tree().told(file);
        (live.is_told, live.is_left) = (told != Slots::Any, false);
        self.is_narrow.store(told == Slots::None || told == Slots::One(0), SeqCst);
        Ok(())
    }

    /// Somebody opens the file to read it.
    fn reader_came(&self) -> Result<()> {
        let may_be_lost = |(file, _)| self.tree().cut_files.length(file).is_some();
        if self.striped().is_some_and(may_be_lost) { self.mend(&mut self.live()) } else { Ok(()) }
    }

    /// A server of a file that nobody has open for writing may have lost a cut. Nobody has seen what is beyond it, so it is cut once
    /// more; killed in the middle the next process finds the file longer or not, as after a cut that a power cut undid.
    fn mend(&self, live: &mut Live) -> Result<()> {
        let Some((file, layout)) = self.striped() else { return Ok(()) };
        let is_asked = live.writers > 0 || self.tree().unsettled().contains(file);
        let known = self.tree().cut_files.length(file);
        let Some(length) = known.filter(|_| !is_asked) else { return Ok(()) };
        let reach = self.reach(file, &layout)?;
        if reach.end > length {
            return self.cut_once_more(live, file, &layout, length);
        }
        live.base.get_or_insert(reach);
        Ok(())
    }

    fn cut_once_more(&self, live: &mut Live, file: FileId, layout: &Layout, length: u64) -> Result<()> {
        let tree = self.tree();
        tree.cut_once_more(file, layout, length)?;
        tree.cut_files.forget(file);
        tree.table().set_blocks(self.number(), None);
        live.base = None;
        Ok(())
    }

    /// A cut of it, which is going to be made again if it is lost, as long as nobody else may write it; `false`: it is not remembered.
    pub(super) fn is_remembered(&self, file: FileId, cut: Cut) -> bool {
        let (live, tree) = (self.live(), self.tree());
        let may_be_written = live.is_left || tree.unsettled().contains(file);
        let length = cut.length.filter(|_| !may_be_written);
        tree.cut_files.add(file, Cut { length, ..cut }, live.writers > 0)
    }

    /// Somebody who had it open for writing closes it. The last one settles it; if that fails it is unsettled.
    fn writer_went(&self, said: Said) {
        let mut live = self.live();
        live.writers = live.writers.saturating_sub(1);
        let Some((file, layout)) = self.striped() else { return };
        if said != Said::WroteNothing {
            self.tree().bare().end(file);
        }
        live.is_told &= said != Said::Nothing;
        live.is_left |= said == Said::Nothing;
        if live.writers > 0 {
            return;
        }
        let length = self.last_writer_went(&mut live, file, &layout);
        let may_be_written = live.is_left || self.tree().unsettled().contains(file);
        self.tree().cut_files.closed(file, length.filter(|_| !may_be_written));
    }

    /// The length that it is settled with, if it is.
    fn last_writer_went(&self, live: &mut Live, file: FileId, layout: &Layout) -> Option<u64> {
        if self.is_nameless() {
            // It goes with the last who has it open; those who read it until then have to ask for its length.
            self.tree().unsettled().add(file);
            if live.is_told && self.spread() == Spread::First {
                self.tree().places().settled(file, Slots::One(0));
            }
            return None;
        }
        let reach = self.reach(file, layout);
        let settled =
            reach.and_then(|reach| self.settle(live, file, &reach).map(|now| (reach.slots(), now.size)));
        let Ok((slots, length)) = settled else {
            self.tree().unsettled().add(file);
            return None;
        };
        if live.is_told {
            self.tree().places().settled(file, slots);
        }
        Some(length)
    }

    /// The substripe files of a file that nobody has open for writing.
    fn reach(&self, file: FileId, layout: &Layout) -> Result<Reach> {
        if self.tree().bare().contains(file) {
            return Ok(Reach::default());
        }
        self.tree().reach(file, layout, self.spread())
    }

    /// Where there may be something of it. Who asks while a client is saying that it will write elsewhere may see the file as it was
    /// before that: nothing is written there yet.
    pub(super) fn spread(&self) -> Spread {
        if self.is_narrow.load(SeqCst) { Spread::First } else { Spread::Any }
    }

    /// Gives the stub what the substripe files say.
    fn settle(&self, live: &mut Live, file: FileId, reach: &Reach) -> Result<Now> {
        let stat = self.stat()?;
        let now = Now::of(&stat, reach, live.base.as_ref());
        if now.size > stat.st_size as u64 {
            self.tree().note_length(now.size);
            rustix::fs::ftruncate(self.descriptor(), now.size).map_err(host("grow a stub"))?;
        }
        if now.size > stat.st_size as u64 || now.mtime != mtime_of(&stat) {
            let times = Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: Timespec { tv_sec: now.mtime.secs, tv_nsec: now.mtime.nanos as _ },
            };
            rustix::fs::futimens(self.descriptor(), &times).map_err(host("set times"))?;
        }
        live.base = Some(reach.clone());
        // Before anybody can see that it is settled.
        self.tree().settlings.fetch_add(1, SeqCst);
        self.tree().unsettled().remove(file);
        self.tree().table().set_blocks(self.number(), Some(now.blocks));
        Ok(now)
    }

    /// What the substripe files say now, if the stub alone does not know.
    fn look(&self, live: &mut Live) -> Result<Option<Now>> {
        let Some((file, layout)) = self.striped() else { return Ok(None) };
        let tree = self.tree();
        if live.writers > 0 {
            let reach = tree.reach(file, &layout, self.spread())?;
            return Ok(Some(Now::of(&self.stat()?, &reach, live.base.as_ref())));
        }
        if !tree.unsettled().contains(file) {
            return Ok(None);
        }
        let reach = tree.reach(file, &layout, self.spread())?;
        if self.is_nameless() {
            return Ok(Some(Now::of(&self.stat()?, &reach, live.base.as_ref())));
        }
        match self.settle(live, file, &reach) {
            Ok(now) => Ok(Some(now)),
            // The disk does not take it: it stays unsettled, and is as long all the same.
            Err(_) => Ok(Some(Now::of(&self.stat()?, &reach, live.base.as_ref()))),
        }
    }

    /// Length of a striped file of a shared tree.
    pub(super) fn shared_size(&self) -> Result<u64> {
        let now = self.look(&mut self.live())?;
        Ok(match now {
            Some(now) => now.size,
            None => self.stat()?.st_size as u64,
        })
    }

    /// It was given another length. What the substripe files said before is not known any more.
    pub(super) fn was_cut(&self) {
        if self.tree().sharing == Sharing::Shared {
            let mut live = self.live();
            if live.writers == 0 {
                live.base = None;
            }
            self.tree().table().set_blocks(self.number(), None);
        }
    }

    /// How often the file is open for writing.
    pub(super) fn writers(&self) -> u32 {
        self.live().writers
    }

    /// Runs a change of the time of the content: what the substripe files said before counts for nothing afterwards.
    pub(super) fn setting_time<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut live = self.live();
        self.look(&mut live)?;
        live.base = match self.striped() {
            Some((file, layout)) if live.writers > 0 => {
                Some(self.tree().reach(file, &layout, self.spread())?)
            }
            _ => None,
        };
        change()
    }
}

/// What is known of what somebody wrote who closes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// He is gone without a word: what he asked for may still come in.
    Nothing,
    /// That he wrote nothing.
    WroteNothing,
    /// That he may have written, and that all of it was done before.
    Wrote,
}

impl Tree {
    /// Where a file has content, as far as that is known, when somebody opens it for writing; not any more from then on.
    fn told(&self, file: FileId) -> Slots {
        let place = self.places().end(file);
        if self.bare().contains(file) { Slots::None } else { place }
    }

    /// How often a file was settled so far: for [`Tree::refined`].
    pub(super) fn settlings(&self) -> u64 {
        self.settlings.load(SeqCst)
    }

    /// Attributes of an object of a shared tree that its stub alone does not know; `before`: [`Tree::settlings`] before the stub
    /// was looked at. Nothing of the tree may be held.
    pub(super) fn refined(&self, attr: Attr, annotation: &Annotation, before: u64) -> Result<Attr> {
        let (Sharing::Shared, Some((file, layout))) = (self.sharing, annotation.striped) else {
            return Ok(attr);
        };
        if let Some(stub) = self.live_stub(attr.ino, file)? {
            let now = stub.look(&mut stub.live())?;
            if let Some(now) = now {
                return Ok(now.shown(attr));
            }
        }
        let attr = match self.settlings() == before {
            true => attr,
            // It may have been settled after the stub was looked at: what the stub says now is right.
            false => self.looked_at_again(attr)?,
        };
        let known = self.table().get(attr.ino).and_then(|entry| entry.blocks);
        let blocks = match known {
            Some(blocks) => blocks,
            None if attr.size == 0 => 0,
            None if attr.size <= layout.stripe_size() => self.blocks(attr.size, annotation)?,
            None => {
                let blocks = self.reach(file, &layout, Spread::Any)?.blocks;
                self.table().set_blocks(attr.ino, Some(blocks));
                blocks
            }
        };
        Ok(Attr { blocks, ..attr })
    }

    /// Length and times as the stub has them now; unchanged if it is gone.
    fn looked_at_again(&self, attr: Attr) -> Result<Attr> {
        let _order = self.shared();
        let stat = match self.object(attr.ino) {
            Ok(object) => object.stat,
            Err(FsError::Stale) => return Ok(attr),
            Err(error) => return Err(error),
        };
        let (mtime, ctime) = (mtime_of(&stat), ctime_of(&stat));
        Ok(Attr { size: stat.st_size as u64, mtime, ctime, ..attr })
    }

    /// The stub of a file that may know more than its attributes: one that is open, or unsettled.
    fn live_stub(&self, ino: Ino, file: FileId) -> Result<Option<Arc<LocalStub>>> {
        if let Some(stub) = self.opened(ino) {
            return Ok(Some(stub));
        }
        if !self.unsettled().contains(file) {
            return Ok(None);
        }
        match self.open_stub(ino) {
            Ok(stub) => Ok(Some(stub)),
            // Without a name, and not open: its last attributes answer for it.
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Space of a striped file as far as it is known without asking anybody, in units of 512 bytes.
    pub(super) fn known_blocks(&self, attr: &Attr) -> u64 {
        let known = self.table().get(attr.ino).and_then(|entry| entry.blocks);
        known.unwrap_or(attr.size.div_ceil(BLOCK))
    }
}

/// One opening of a file of a shared tree. Closed when it is dropped.
pub struct OpenFile {
    stub: Arc<LocalStub>,
    writes: bool,
    /// Who closes it has said so, and whether anything was written through it.
    closed: OnceLock<bool>,
}

impl OpenFile {
    pub(super) fn new(stub: Arc<LocalStub>, writes: bool) -> Result<OpenFile> {
        if writes {
            stub.writer_came()?
        } else {
            stub.reader_came()?
        }
        Ok(OpenFile { stub, writes, closed: OnceLock::new() })
    }

    /// Who has the opening that a stub stands for closes it, and says whether he may have changed the content.
    pub(crate) fn is_closed(stub: &dyn Stub, wrote: bool) {
        if let Some(opening) = stub.as_any().downcast_ref::<OpenFile>() {
            // Told once: a handle is closed by who takes it out of the table.
            let _ = opening.closed.set(wrote);
        }
    }

    fn said(&self) -> Said {
        match self.closed.get() {
            None => Said::Nothing,
            Some(false) => Said::WroteNothing,
            Some(true) => Said::Wrote,
        }
    }

    /// Reserves the next bytes at the end, and writes it down.
    pub(crate) fn reserve_noted(stub: &dyn Stub, length: u64, deed: &Deed<'_>) -> Result<u64> {
        match stub.as_any().downcast_ref::<OpenFile>() {
            Some(opening) => opening.stub.reserve_noted(length, deed),
            None => stub.reserve(length),
        }
    }

    /// Gives up the rest of what was reserved, and writes it down.
    pub(crate) fn give_up_noted(stub: &dyn Stub, rest: Range<u64>, deed: &Deed<'_>) -> Result<()> {
        match stub.as_any().downcast_ref::<OpenFile>() {
            Some(opening) => opening.stub.give_up_noted(rest, deed),
            None => stub.give_up(rest)?,
        }
        Ok(())
    }

    /// Appends, and writes it down; `begun`: where an earlier process began it.
    pub(crate) fn append_noted(
        stub: &dyn Stub,
        data: &[u8],
        begun: Option<u64>,
        deed: &Deed<'_>,
    ) -> Result<(u64, usize)> {
        match stub.as_any().downcast_ref::<OpenFile>() {
            Some(opening) => opening.stub.append_noted(data, begun, deed),
            None => stub.append(data),
        }
    }

    /// A stub that was given out is an opening of this file for writing.
    pub(crate) fn writing(stub: &dyn Stub, ino: Ino) -> bool {
        let opening = stub.as_any().downcast_ref::<OpenFile>();
        opening.is_some_and(|opening| opening.writes && opening.stub.number() == ino)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.writes {
            self.stub.writer_went(self.said());
        }
    }
}

/// Everything is the stub's; only opening and closing are counted.
impl Stub for OpenFile {
    fn placement(&self) -> forebay_wire::Placement {
        self.stub.placement()
    }

    fn known_size(&self) -> Option<u64> {
        self.stub.known_size()
    }

    fn size(&self) -> Result<u64> {
        self.stub.size()
    }

    fn reserve(&self, length: u64) -> Result<u64> {
        self.stub.reserve(length)
    }

    fn give_up(&self, rest: Range<u64>) -> Result<()> {
        self.stub.give_up(rest)
    }

    fn append(&self, data: &[u8]) -> Result<(u64, usize)> {
        self.stub.append(data)
    }

    fn was_read(&self) -> Result<()> {
        self.stub.was_read()
    }

    fn was_written(&self, end: u64) -> Result<()> {
        self.stub.was_written(end)
    }

    fn was_changed(&self) -> Result<()> {
        self.stub.was_changed()
    }

    fn drop_suid_sgid(&self) -> Result<()> {
        self.stub.drop_suid_sgid()
    }

    fn was_too_long(&self, end: u64) {
        self.stub.was_too_long(end);
    }

    fn will_change(&self, end: u64) -> Result<()> {
        self.stub.will_change(end)
    }

    fn sync(&self, data_only: bool) -> Result<Spread> {
        self.stub.sync(data_only)
    }

    fn backing(&self) -> Option<Arc<std::os::fd::OwnedFd>> {
        self.stub.backing()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.stub.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.stub.write(offset, data)
    }

    fn fallocate(&self, offset: u64, length: u64, mode: forebay_wire::FallocateMode) -> Result<()> {
        self.stub.fallocate(offset, length, mode)
    }

    fn seek(&self, offset: u64, what: forebay_wire::SeekWhat) -> Result<Option<u64>> {
        self.stub.seek(offset, what)
    }

    fn copy_to(&self, offset: u64, to: &dyn Stub, to_offset: u64, length: u64) -> Result<Option<u64>> {
        let to = to.as_any().downcast_ref::<OpenFile>().map_or(to, |to| &*to.stub);
        self.stub.copy_to(offset, to, to_offset, length)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests;
