//! A data service for tests that is as another one, but for what a test puts in its way.

use forebay_wire::{DataService, Extent, FileId, FragmentAccount, FragmentSpace, Listing, Result, Share};
use std::sync::Arc;

type Before = Box<dyn Fn() -> Result<()> + Send + Sync>;
type Over = Box<dyn Fn(Arc<dyn Share>) -> Arc<dyn Share> + Send + Sync>;

/// See the module.
pub(super) struct Altered {
    pub(super) service: Arc<dyn DataService>,
    /// Happens before it says how far a file reaches, if it does not fail.
    pub(super) before_extents: Before,
    /// Its shares are these.
    pub(super) over_share: Over,
}

impl DataService for Altered {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        (self.over_share)(self.service.share(file, substripes))
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.service.remove(file, substripes)
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        self.service.blocks(file, substripe)
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        (self.before_extents)()?;
        self.service.extents(file, substripes)
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        self.service.list(cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.service.space()
    }

    fn account(&self) -> Result<FragmentAccount> {
        self.service.account()
    }

    fn sync(&self) -> Result<()> {
        self.service.sync()
    }
}
