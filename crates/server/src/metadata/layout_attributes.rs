//! The layout of a file or directory, shown and set as the extended attributes `user.dwfs.stripe_size`,
//! `user.dwfs.stripe_count`, `user.dwfs.substripes` and `user.dwfs.first_server`, each a decimal number.
//!
//! On a file they show how it is spread; they can be set while it is empty. On a directory they show what new files of
//! it get; setting one does not change the files that are there, and sub-directories do not inherit it. They are not
//! listed, so that programs that copy all attributes of a file do not copy its layout.
//!
//! Order of events when the layout of an empty file changes, and what a crash after each leaves: the stub says where
//! the content will be (an empty file of the new layout), then the empty substripe files of the old layout are removed
//! (files without a stub, which the walk at the next open removes).

use super::lookup::{Object, Reach};
use super::{Annotation, Tree};
use forebay_model::layout::{Layout, LayoutChoice};
use forebay_wire::{FileKind, FsError, Ino, Result, Sharing, XattrMode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Everything that starts like this is the file system's own.
pub(super) const RESERVED: &[u8] = b"user.dwfs.";

/// One part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    StripeSize,
    StripeCount,
    Substripes,
    FirstServer,
}

impl Part {
    /// The part of an attribute's name.
    pub(super) fn of(name: &OsStr) -> Option<Part> {
        match name.as_bytes().strip_prefix(RESERVED)? {
            b"stripe_size" => Some(Part::StripeSize),
            b"stripe_count" => Some(Part::StripeCount),
            b"substripes" => Some(Part::Substripes),
            b"first_server" => Some(Part::FirstServer),
            _ => None,
        }
    }

    fn get(self, choice: &LayoutChoice) -> Option<u64> {
        match self {
            Part::StripeSize => choice.stripe_size,
            Part::StripeCount => choice.stripe_count.map(u64::from),
            Part::Substripes => choice.substripes.map(u64::from),
            Part::FirstServer => choice.first_server.map(u64::from),
        }
    }

    fn set(self, choice: &mut LayoutChoice, value: Option<u64>) -> Result<()> {
        let small = value.map(|value| u32::try_from(value).map_err(|_| FsError::InvalidArgument));
        match self {
            Part::StripeSize => choice.stripe_size = value,
            Part::StripeCount => choice.stripe_count = small.transpose()?,
            Part::Substripes => choice.substripes = small.transpose()?,
            Part::FirstServer => choice.first_server = small.transpose()?,
        }
        Ok(())
    }
}

/// A layout with every part said.
fn choice_of(layout: &Layout) -> LayoutChoice {
    LayoutChoice {
        stripe_size: Some(layout.stripe_size()),
        stripe_count: Some(layout.stripe_count()),
        first_server: Some(layout.first_server()),
        substripes: Some(layout.substripes()),
    }
}

fn parse_number(value: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(value).map_err(|_| FsError::InvalidArgument)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FsError::InvalidArgument);
    }
    text.parse().map_err(|_| FsError::InvalidArgument)
}

impl Tree {
    /// The text of one part. A part that a directory leaves open to each file has no value.
    pub(super) fn layout_part(&self, object: &Object, part: Part) -> Result<Vec<u8>> {
        let choice = match object.kind {
            FileKind::Regular => choice_of(&self.layout_of(&object.annotation)?),
            FileKind::Directory => self.for_new_files(&object.annotation)?,
            _ => return Err(FsError::NoAttribute),
        };
        let value = part.get(&choice).ok_or(FsError::NoAttribute)?;
        Ok(value.to_string().into_bytes())
    }

    fn layout_of(&self, annotation: &Annotation) -> Result<Layout> {
        match annotation.striped {
            Some((_, layout)) => Ok(layout),
            None => {
                let inline = LayoutChoice {
                    stripe_count: Some(1),
                    substripes: Some(1),
                    first_server: Some(self.home.position),
                    stripe_size: annotation.new_files.stripe_size.or(self.defaults.stripe_size),
                };
                self.settle(inline)
            }
        }
    }

    fn settle(&self, choice: LayoutChoice) -> Result<Layout> {
        choice.settle(self.data.len() as u32, 0).map_err(|_| FsError::InvalidArgument)
    }

    /// What new files of a directory get; the first server stays open if nobody chose it.
    fn for_new_files(&self, annotation: &Annotation) -> Result<LayoutChoice> {
        let asked = annotation.new_files.or(self.defaults);
        let settled = choice_of(&self.settle(asked)?);
        let first_server = if self.data.len() == 1 { Some(0) } else { asked.first_server };
        Ok(LayoutChoice { first_server, ..settled })
    }

    /// Sets one part, or takes a directory's wish back.
    pub(super) fn set_layout_part(
        &self,
        ino: Ino,
        part: Part,
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        self.fragment().writable()?;
        let value = value.map(parse_number).transpose()?;
        self.await_loans(ino);
        let old = {
            let _order = self.shared();
            let object = self.object(ino)?;
            match object.kind {
                FileKind::Directory => return self.set_for_new_files(&object, part, value, mode),
                FileKind::Regular => self.set_for_file(&object, part, value, mode)?,
                _ => return Err(FsError::NotPermitted),
            }
        };
        if let Some((file, layout)) = old {
            // Only an empty file gets another layout.
            self.purge(file, layout, 0);
        }
        Ok(())
    }

    fn set_for_new_files(
        &self,
        object: &Object,
        part: Part,
        value: Option<u64>,
        mode: XattrMode,
    ) -> Result<()> {
        let mut annotation = object.annotation;
        let exists = part.get(&annotation.new_files).is_some();
        match (mode, value, exists) {
            (XattrMode::Create, Some(_), true) => return Err(FsError::Exists),
            (XattrMode::Replace, Some(_), false) | (_, None, false) => return Err(FsError::NoAttribute),
            _ => {}
        }
        part.set(&mut annotation.new_files, value)?;
        self.settle(annotation.new_files.or(self.defaults))?;
        self.annotate_keeping_mode(object, annotation)
    }

    /// Returns the content that the file had before.
    fn set_for_file(
        &self,
        object: &Object,
        part: Part,
        value: Option<u64>,
        mode: XattrMode,
    ) -> Result<Option<(forebay_wire::FileId, Layout)>> {
        // Every file has a layout, so every part exists and none can be taken away.
        let Some(value) = value else { return Err(FsError::NotPermitted) };
        if mode == XattrMode::Create {
            return Err(FsError::Exists);
        }
        let mut choice = choice_of(&self.layout_of(&object.annotation)?);
        part.set(&mut choice, Some(value))?;
        if part == Part::StripeCount && value > 1 && object.annotation.striped.is_none() {
            // An inline file that is to be spread has no substripes and no first server of its own choice yet.
            choice = LayoutChoice { substripes: None, first_server: None, ..choice };
        }
        self.settle(choice)?;
        if object.stat.st_size != 0 {
            return Err(FsError::NotEmpty);
        }
        if self.sharing == Sharing::Shared && matches!(object.reach, Reach::Stub(_)) {
            // Whoever has it open knows the old place.
            return Err(FsError::Busy);
        }
        if matches!(&object.reach, Reach::Stub(stub) if stub.is_lent()) {
            // Whoever has it would go on at the old place.
            return Err(FsError::Busy);
        }
        let content = self.new_content(choice)?;
        let old = object.annotation.striped;
        self.annotate_keeping_mode(object, Annotation { mode: object.annotation.mode, ..content })?;
        Ok(old)
    }
}
