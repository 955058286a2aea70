//! Fragments on this node's disk.
//!
//! Order of events in making: record - fragment ([`crate::fragment`]) - record again, saying that it is complete. In removing: the
//! file server lets go of it (see [`super::node`]) - record, saying that it is not complete - fragment - record. A crash after any of
//! them is repaired by doing it again. What is there of a fragment whose record says that it is not complete was never anybody's
//! or is nobody's any more: it is removed before the fragment is made.

use super::config::StorageConfig;
use super::error::TaskError;
use super::records::{Form, FragmentRecord};
use crate::fragment::directory::PlainDirectory;
use crate::fragment::image::XfsImage;
use crate::fragment::volume::{LvmVolume, Owner};
use crate::fragment::{Fragment, place::Place};
use forebay_model::ids::{FragmentId, InstanceId};
use forebay_model::units::Bytes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// See the module.
pub(super) struct Disk<'a> {
    pub storage: &'a StorageConfig,
    pub registry: &'a str,
}

/// A fragment that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFragment {
    /// Which.
    pub fragment: FragmentId,
    /// Whose part it is.
    pub instance: InstanceId,
    /// Its size.
    pub bytes: Bytes,
    /// The uid that it belongs to.
    pub owner: u32,
}

impl Disk<'_> {
    fn directory(&self) -> &Path {
        &self.storage.directory
    }

    fn place_directory(&self, fragment: FragmentId) -> PathBuf {
        self.directory().join(fragment.to_string())
    }

    /// The fragment that a record describes.
    fn fragment(&self, record: &FragmentRecord) -> Box<dyn Fragment> {
        let place = Place::new(record.instance, record.fragment, &self.place_directory(record.fragment));
        match record.form() {
            Form::Image(room) => Box::new(XfsImage::new(place, record.bytes, room)),
            Form::Directory => Box::new(PlainDirectory::new(place, record.bytes)),
            Form::Volume { group } => {
                let (instance, fragment) = (record.instance, record.fragment);
                let owner = Owner { registry: &record.registry, instance, fragment };
                Box::new(LvmVolume::new(place, &group, &owner, record.bytes))
            }
        }
    }

    /// Makes a fragment, unless it is made.
    pub fn make(&self, wanted: &NewFragment) -> Result<(), TaskError> {
        let fragment = wanted.fragment;
        let record = match FragmentRecord::of(self.directory(), fragment, self.registry)? {
            Some(record) => self.check(record, wanted.instance, wanted.bytes)?,
            None => {
                self.refuse_what_is_there(fragment)?;
                let form = self.storage.kind.form();
                let record = FragmentRecord::new(self.registry, wanted, &form);
                record.write(self.directory())?;
                record
            }
        };
        let made = self.fragment(&record);
        match (record.is_made, made.is_made()) {
            (true, true) => Ok(()),
            (true, false) => Err(self.lost(fragment)),
            (false, _) => {
                made.abandon();
                made.remove()?;
                made.make()?;
                Ok(record.made().write(self.directory())?)
            }
        }
    }

    fn check(
        &self,
        record: FragmentRecord,
        instance: InstanceId,
        bytes: Bytes,
    ) -> Result<FragmentRecord, TaskError> {
        if record.instance == instance && record.bytes == bytes {
            return Ok(record);
        }
        let problem = format!(
            "is a fragment of {} bytes of instance {}, wanted is one of {} bytes of instance {instance}",
            record.bytes.0, record.instance, bytes.0
        );
        Err(TaskError::Foreign { path: self.place_directory(record.fragment), problem })
    }

    /// Without a record it is somebody else's.
    fn refuse_what_is_there(&self, fragment: FragmentId) -> Result<(), TaskError> {
        let path = self.place_directory(fragment);
        match std::fs::symlink_metadata(&path) {
            Ok(_) => {
                Err(TaskError::Foreign { path, problem: "is there without a record that it is ours".into() })
            }
            Err(_) => Ok(()),
        }
    }

    /// A fragment that is complete and there.
    pub fn complete(&self, fragment: FragmentId) -> Result<FragmentRecord, TaskError> {
        let record = FragmentRecord::of(self.directory(), fragment, self.registry)?;
        let record = record.filter(|record| record.is_made);
        let record =
            record.ok_or_else(|| TaskError::NotHere { fragment, path: self.directory().to_owned() })?;
        if self.fragment(&record).is_made() { Ok(record) } else { Err(self.lost(fragment)) }
    }

    fn lost(&self, fragment: FragmentId) -> TaskError {
        TaskError::Lost { fragment, path: self.place_directory(fragment) }
    }

    /// Makes the content of a fragment reachable; answers where, and whether its size is fixed.
    pub fn bring_up(&self, fragment: FragmentId) -> Result<(PathBuf, bool), TaskError> {
        let record = self.complete(fragment)?;
        let fragment = self.fragment(&record);
        Ok((fragment.bring_up()?, fragment.hard_size()))
    }

    /// The record of a fragment that is to be removed; `None`: there is nothing to remove, any more.
    pub fn to_remove(&self, fragment: FragmentId) -> Result<Option<FragmentRecord>, TaskError> {
        let record = FragmentRecord::of(self.directory(), fragment, self.registry)?;
        if record.is_none() {
            self.refuse_what_is_there(fragment)?;
            // The first record may have been cut off.
            FragmentRecord::remove(self.directory(), fragment)?;
        }
        Ok(record)
    }

    /// Removes a fragment that nobody serves any more.
    pub fn remove(&self, record: &FragmentRecord) -> Result<(), TaskError> {
        record.clone().given_up().write(self.directory())?;
        let fragment = self.fragment(record);
        fragment.abandon();
        fragment.remove()?;
        Ok(FragmentRecord::remove(self.directory(), record.fragment)?)
    }

    /// Whose fragments have a record here, also those that were lost.
    pub fn instances(&self) -> Result<BTreeSet<InstanceId>, TaskError> {
        let mut instances = BTreeSet::new();
        for id in FragmentRecord::all(self.directory())? {
            instances.extend(FragmentRecord::read(self.directory(), id)?.map(|record| record.instance));
        }
        Ok(instances)
    }

    /// The fragments that are here: complete ones, and those that were begun. What was lost is not.
    pub fn held(&self) -> Result<Vec<FragmentRecord>, TaskError> {
        let mut held = Vec::new();
        for id in FragmentRecord::all(self.directory())? {
            if let Some(record) = FragmentRecord::read(self.directory(), id)?
                && (!record.is_made || self.fragment(&record).is_made())
            {
                held.push(record);
            }
        }
        Ok(held)
    }
}
