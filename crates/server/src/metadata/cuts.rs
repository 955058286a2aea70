//! Cuts of a striped file that are not synced.
//!
//! The home of a name cuts the content on all servers. One that loses its power since has lost the cut, while whoever cut and syncs
//! heard of nothing: so the first sync after a cut asks all of them out of which memory they answer, and fails once where that is
//! another one. A home that is killed before that sync forgets what it cut; for the next one it is written down which memories have
//! the cut ([`crate::deeds`]). What becomes of a cut that is not synced when its file is closed stands in [`super::cut_files`].
//!
//! Order of events of a cut, and what a sync says when the home is killed after each: it is made, server by server: nobody was answered,
//! and who asks again has it made again; its memories are written down: it is told if one of them is gone.
//!
//! Any thread may call. The lock is held for memory operations only.

use super::Tree;
use super::cut_files::Cut;
use super::reach::server_of;
use super::stub::LocalStub;
use super::xattr::digest;
use forebay_model::layout::{Layout, Substripe};
use forebay_wire::{DataService, FileId, FsError, Result, Share, Sharing};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a sync fails with when a server of the content has lost a cut of an earlier process.
const LOST: FsError = FsError::Host {
    operation: "a storage node lost its power before a cut was synced",
    errno: Errno::IO.raw_os_error(),
};

/// So often a lost cut is made again, at most: the server may lose its power once more.
const CUT_AGAIN_MAX: usize = 3;

/// See the module.
#[derive(Default)]
pub(super) struct Cuts {
    /// The shares of the file on all servers, if this process has cut it since the last sync.
    shares: Mutex<Vec<Arc<dyn Share>>>,
    /// The cut that is written down is one of this process, and not of an earlier one.
    is_here: AtomicBool,
}

impl Cuts {
    fn shares(&self) -> MutexGuard<'_, Vec<Arc<dyn Share>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalStub {
    /// These shares are going to be cut: the next sync covers them.
    fn cuts(&self, shares: &[Arc<dyn Share>]) {
        // Of one machine's own there is none that is told separately.
        if self.tree().sharing == Sharing::Sole {
            return;
        }
        let mut cut = self.cuts.shares();
        cut.clear();
        cut.extend_from_slice(shares);
    }

    /// They were cut: the next sync covers them, also if it is one of the next process, and who opens the file later finds it cut.
    fn has_cut(&self, file: FileId, cut: Cut, shares: &[Arc<dyn Share>]) -> Result<()> {
        // A sync meanwhile did not cover all of it.
        self.cuts(shares);
        let is_elsewhere = shares.iter().any(|share| share.memory().is_some());
        if self.tree().sharing == Sharing::Sole || !is_elsewhere {
            return Ok(());
        }
        self.write_down(cut.memories);
        if self.is_remembered(file, cut) { Ok(()) } else { self.sync_now() }
    }

    fn write_down(&self, memories: NonZeroU64) {
        let reservations = self.tree().reservations.get();
        let kept = self.reservation.get_or_init(|| reservations.and_then(|all| all.of(self.number())));
        if let Some(kept) = kept {
            self.cuts.is_here.store(true, SeqCst);
            kept.set_cut(Some(memories));
        }
    }

    /// The cuts alone, by who makes one.
    fn sync_now(&self) -> Result<()> {
        let _turn = self.syncing();
        self.sync_cuts()
    }

    /// Cuts are on the disks of all servers afterwards. An error is told once where a server lost one, and again where it could not be
    /// asked.
    pub(super) fn sync_cuts(&self) -> Result<()> {
        let own = self.sync_own_cuts();
        let Some((kept, memories)) = self.kept().and_then(|kept| kept.cut().map(|memories| (kept, memories)))
        else {
            return own;
        };
        let synced = match self.cuts.is_here.load(SeqCst) {
            true => own,
            false => own.and_then(|()| self.sync_earlier_cut(memories)),
        };
        let cut = self.cuts.shares();
        // What was cut meanwhile is not covered.
        if synced != Err(FsError::Unreachable) && cut.is_empty() {
            self.cuts.is_here.store(false, SeqCst);
            kept.set_cut(None);
        }
        synced
    }

    /// The same of a cut that an earlier process has made, which these memories had.
    fn sync_earlier_cut(&self, memories: NonZeroU64) -> Result<()> {
        let Some((file, layout)) = self.annotation().striped else { return Ok(()) };
        let shares = self.tree().shares(file, &layout)?;
        shares.iter().try_for_each(|share| share.sync(false))?;
        if memories_of(&shares) == memories { Ok(()) } else { Err(LOST) }
    }

    fn sync_own_cuts(&self) -> Result<()> {
        let shares = std::mem::take(&mut *self.cuts.shares());
        if shares.is_empty() {
            return Ok(());
        }
        let failed: Vec<_> =
            shares.iter().filter_map(|share| share.sync(false).err().map(|error| (share, error))).collect();
        let Some((_, first)) = failed.first() else {
            self.are_synced();
            return Ok(());
        };
        let first = *first;
        let unasked = failed.into_iter().filter(|(_, error)| *error == FsError::Unreachable);
        let mut cut = self.cuts.shares();
        cut.extend(unasked.map(|(share, _)| share.clone()));
        Err(first)
    }

    /// What was cut is on the disks, unless it was cut meanwhile.
    fn are_synced(&self) {
        let cut = self.cuts.shares();
        if let (true, Some((file, _))) = (cut.is_empty(), self.annotation().striped) {
            self.tree().cut_files.forget(file);
        }
    }
}

impl Tree {
    /// The shares of a file on all servers that it is spread over.
    fn shares(&self, file: FileId, layout: &Layout) -> Result<Vec<Arc<dyn Share>>> {
        shares_of(&self.data, file, layout)
    }

    /// Cuts the substripe files of a file on all servers.
    pub(super) fn cut_content(
        &self,
        stub: &LocalStub,
        file: FileId,
        layout: &Layout,
        size: u64,
    ) -> Result<()> {
        let shares = self.shares(file, layout)?;
        stub.cuts(&shares);
        cut_all(&shares, layout, size)?;
        let cut = Cut { layout: *layout, memories: memories_of(&shares), length: Some(size) };
        stub.has_cut(file, cut, &shares)
    }

    /// Makes a cut of a file again that servers have lost.
    pub(super) fn cut_once_more(&self, file: FileId, layout: &Layout, size: u64) -> Result<()> {
        cut_again(&self.shares(file, layout)?, layout, size)
    }
}

/// Makes a cut again that servers have lost, and has them bring it to their disks.
pub(super) fn cut_again(shares: &[Arc<dyn Share>], layout: &Layout, size: u64) -> Result<()> {
    let mut synced = Ok(());
    for _ in 0..CUT_AGAIN_MAX {
        cut_all(shares, layout, size)?;
        // All of them: what was lost before is told once.
        synced = shares.iter().map(|share| share.sync(false)).fold(Ok(()), Result::and);
        if synced.is_ok() {
            break;
        }
    }
    synced
}

pub(super) fn cut_all(shares: &[Arc<dyn Share>], layout: &Layout, size: u64) -> Result<()> {
    for (slot, share) in (0..).zip(shares) {
        for index in 0..layout.substripes() {
            share.cut(index, layout.share_len(Substripe { slot, index }, size))?;
        }
    }
    Ok(())
}

/// Stands for the memories that these have to do with, in their order.
pub(super) fn memories_of(shares: &[Arc<dyn Share>]) -> NonZeroU64 {
    let memories = shares.iter().map(|share| share.memory().unwrap_or(u64::MAX));
    let bytes: Vec<u8> = memories.flat_map(u64::to_ne_bytes).collect();
    NonZeroU64::new(digest(&bytes)).unwrap_or(NonZeroU64::MIN)
}

/// The shares of a file on all servers that it is spread over.
pub(super) fn shares_of(
    data: &[Arc<dyn DataService>],
    file: FileId,
    layout: &Layout,
) -> Result<Vec<Arc<dyn Share>>> {
    let share = |slot| Ok(server_of(data, layout, slot)?.share(file, layout.substripes()));
    (0..layout.stripe_count()).map(share).collect()
}
