//! Are these the fragments of one instance, each at its place?

use super::{Finding, Instance, Opened, Problem, Report};
use crate::fragment::identity::{Identity, read};
use crate::fragment::{FORMAT, NAMESPACES};
use forebay_wire::{FsError, Result};
use rustix::fs::AtFlags;

/// Tells what does not fit; `false` when the data cannot be judged for that. A fragment without a record and without data
/// has not been used yet.
pub(super) fn agree(instance: &Instance, parts: &[Opened], report: &mut Report<'_>) -> Result<bool> {
    let mut agree = true;
    let mut first: Option<String> = None;
    for part in parts {
        let problem = match record(part)? {
            Record::Nothing => None,
            Record::Problem(problem) => Some(problem),
            Record::Found(identity) => {
                let first = first.get_or_insert_with(|| identity.instance.clone());
                misfit(instance, part, &identity, first)
            }
        };
        if let Some(problem) = problem {
            report.tell(Finding::left(part.position, None, problem));
            agree = false;
        }
    }
    Ok(agree)
}

enum Record {
    /// None, and nothing else either.
    Nothing,
    Problem(Problem),
    Found(Identity),
}

fn record(part: &Opened) -> Result<Record> {
    match read(&part.fragment) {
        Ok(Some(identity)) if identity.format == FORMAT => Ok(Record::Found(identity)),
        Ok(Some(_)) | Err(FsError::Damaged { .. }) => Ok(Record::Problem(Problem::UnknownRecord)),
        Err(error) => Err(error),
        Ok(None) => {
            let used = rustix::fs::statat(&part.fragment.root, NAMESPACES, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            Ok(if used { Record::Problem(Problem::NoRecord) } else { Record::Nothing })
        }
    }
}

fn misfit(instance: &Instance, part: &Opened, identity: &Identity, first: &str) -> Option<Problem> {
    if identity.instance != first {
        return Some(Problem::OtherInstance);
    }
    let at_home = (identity.index, identity.count) == (part.position, instance.servers);
    (!at_home).then_some(Problem::OtherPlace { index: identity.index, count: identity.count })
}
