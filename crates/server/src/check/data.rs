//! The substripe files of one namespace on one fragment, held against its names.

use super::finding::Substripe;
use super::names::Names;
use super::{Finding, LOST, Mode, Opened, Outcome, Problem, Report, Summary, entries, open_if_there};
use crate::data::parse_name;
use crate::fragment::{NAMESPACES, make_directory, state};
use crate::host::host;
use forebay_wire::Result;
use rustix::fs::{AtFlags, RenameFlags, Stat};
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is to be done.
pub(super) struct Work<'a> {
    pub(super) namespace: &'a str,
    pub(super) part: &'a Opened,
    /// All fragments that are checked: one of them has the record of the counters.
    pub(super) all: &'a [Opened],
    /// `None`: they are not known, or not all.
    pub(super) names: Option<&'a Names>,
    pub(super) mode: Mode,
}

impl Work<'_> {
    /// Looks at every substripe file.
    pub(super) fn check(&self, report: &mut Report<'_>) -> Result<()> {
        let Some(all) = open_if_there(&self.part.fragment.root, NAMESPACES)? else { return Ok(()) };
        let Some(own) = open_if_there(&all, self.namespace)? else { return Ok(()) };
        let Some(data) = open_if_there(&own, "data")? else { return Ok(()) };
        for name in entries(&data)? {
            let path = Path::new(OsStr::from_bytes(name.to_bytes())).to_owned();
            let bucket = name.to_str().ok().filter(|text| is_bucket(text));
            let bucket = bucket.and_then(|text| open_if_there(&data, text).ok().flatten());
            let Some(bucket) = bucket else {
                report.tell(self.left(Problem::Foreign { path }));
                continue;
            };
            for name in entries(&bucket)? {
                if let Some(finding) = self.judge(&bucket, &path, &name, report.summary)? {
                    report.tell(finding);
                }
            }
        }
        Ok(())
    }

    fn judge(
        &self,
        bucket: &OwnedFd,
        path: &Path,
        name: &CStr,
        summary: &mut Summary,
    ) -> Result<Option<Finding>> {
        let ours = parse_name(name.to_bytes());
        let ours = ours.filter(|(file, _)| path.to_str() == Some(&crate::data::bucket_name(*file)));
        let stat = rustix::fs::statat(bucket, name, AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat"))?;
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        let Some((file, index)) = ours.filter(|_| is_file) else {
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            return Ok(Some(self.left(Problem::Foreign { path })));
        };
        let Some(names) = self.names else {
            summary.not_judged += 1;
            return Ok(None);
        };
        summary.judged += 1;
        let length = stat.st_size as u64;
        let substripe = Substripe { file, index, length };
        match names.share_len(file, self.part.position, index) {
            Some(Some(expected)) if length <= expected => Ok(None),
            Some(Some(expected)) => Ok(Some(self.left(Problem::Beyond { substripe, expected }))),
            Some(None) => self.put_away(bucket, name, &stat, Problem::Misplaced(substripe)).map(Some),
            None => self.put_away(bucket, name, &stat, Problem::Orphan(substripe)).map(Some),
        }
    }

    fn left(&self, problem: Problem) -> Finding {
        Finding::left(self.part.position, Some(self.namespace), problem)
    }

    fn put_away(&self, bucket: &OwnedFd, name: &CStr, stat: &Stat, problem: Problem) -> Result<Finding> {
        let outcome = match self.mode {
            Mode::Look => Outcome::CanBeMoved,
            Mode::Repair if stat.st_size == 0 && stat.st_blocks == 0 => {
                rustix::fs::unlinkat(bucket, name, AtFlags::empty())
                    .map_err(host("remove an empty substripe file"))?;
                Outcome::Removed
            }
            Mode::Repair => Outcome::Moved(self.move_away(bucket, name)?),
        };
        Ok(Finding { outcome, ..self.left(problem) })
    }

    fn move_away(&self, bucket: &OwnedFd, name: &CStr) -> Result<PathBuf> {
        let root = &self.part.fragment.root;
        let lost = make_directory(root, LOST, 0o700)?;
        let own = make_directory(&lost, self.namespace, 0o700)?;
        // What it takes is not counted where it goes.
        for part in self.all {
            state::forget_counters(&part.fragment)?;
        }
        rustix::fs::renameat_with(bucket, name, &own, name, RenameFlags::NOREPLACE)
            .map_err(host("move to lost+found"))?;
        for directory in [&own, &lost, root, bucket] {
            rustix::fs::fsync(directory).map_err(host("sync a directory of a fragment"))?;
        }
        Ok(Path::new(LOST).join(self.namespace).join(OsStr::from_bytes(name.to_bytes())))
    }
}

/// A directory that [`crate::data::substripe_path`] makes.
fn is_bucket(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
