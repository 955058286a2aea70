//! `#DW jobdw`.

use crate::diagnostic::{Code, Report};
use crate::fields::{Fields, Value};
use crate::types::{JobDw, ReadAhead};
use crate::value::{
    access_modes, bytes, capacity, choice, count, pfs_path, pool_name, read_ahead, yes_or_no,
};
use forebay_model::allocate::Strategy;
use forebay_model::objects::ConfigurationType;

const TYPES: [(&str, ConfigurationType); 2] =
    [("scratch", ConfigurationType::Scratch), ("cache", ConfigurationType::Cache)];
const STRATEGIES: [(&str, Strategy); 3] =
    [("bandwidth", Strategy::Bandwidth), ("interference", Strategy::Interference), ("wear", Strategy::Wear)];
/// Keys that have a meaning with `type=cache` only.
const CACHE_KEYS: [&str; 5] = ["pfs", "modified_threshold", "read_ahead", "sync_on_close", "sync_to_pfs"];

/// Reads the fields; `access_keys` are the keys that access modes may be written with.
pub(crate) fn job(fields: &Fields, access_keys: &[&'static str], report: &mut Report) -> Option<JobDw> {
    let kind = fields.require("type", "scratch or cache", report).cloned();
    let kind = kind.and_then(|value| type_word(&value, report));
    let written_key = access_keys.iter().copied().find(|key| fields.mentions(key)).unwrap_or(access_keys[0]);
    let access = fields.require(written_key, "striped, private or both (striped,private)", report);
    let access = access.cloned().and_then(|value| access_modes(&value, kind, report));
    let size = fields.require("capacity", "<size>, such as 200GB", report).cloned();
    let size = size.and_then(|value| capacity(&value, report));
    let mut good = true;
    let pfs = optional(fields, "pfs", &mut good, |value| pfs_path(value, report));
    let job = JobDw {
        pool: optional(fields, "pool", &mut good, |value| pool_name(value, report)),
        pfs,
        write_window_length_s: optional(fields, "write_window_length", &mut good, |value| {
            count(value, "seconds", report)
        }),
        write_window_multiplier: optional(fields, "write_window_multiplier", &mut good, |value| {
            count(value, "a multiple of the size", report)
        }),
        modified_threshold: optional(fields, "modified_threshold", &mut good, |value| bytes(value, report)),
        read_ahead: optional(fields, "read_ahead", &mut good, |value| {
            read_ahead(value, report).map(|(after, unit)| ReadAhead { after, unit })
        }),
        sync_on_close: optional(fields, "sync_on_close", &mut good, |value| yes_or_no(value, report)),
        sync_to_pfs: optional(fields, "sync_to_pfs", &mut good, |value| yes_or_no(value, report)),
        strategy: optional(fields, "optimization_strategy", &mut good, |value| {
            choice(value, &STRATEGIES, report)
        }),
        max_mds: optional(fields, "max_mds", &mut good, |value| yes_or_no(value, report)),
        kind: kind?,
        access: access?,
        capacity: size?,
    };
    let has_pfs = job.kind != ConfigurationType::Cache
        || fields.require("pfs", "<directory> for type=cache", report).is_some();
    (good && has_pfs).then_some(job)
}

/// The type that space is asked for as.
pub(super) fn type_word(value: &Value, report: &mut Report) -> Option<ConfigurationType> {
    if value.text.as_ref() == b"swap" {
        let expected = "scratch or cache";
        report.suggest(
            Code::UnknownValue,
            value.start(),
            value.written(),
            expected,
            "write `#DW swap <size>`",
        );
        return None;
    }
    choice(value, &TYPES, report)
}

/// Warns about keys that do nothing.
pub(crate) fn job_vocabulary_checks(fields: &Fields, report: &mut Report) {
    let is = |key, word: &[u8]| fields.get(key).is_some_and(|value| value.text.as_ref() == word);
    if is("type", b"scratch") {
        for value in CACHE_KEYS.iter().filter_map(|key| fields.get(key)) {
            let word = value.word();
            report.add(Code::KeyWithoutEffect, word.start(), word.bytes, "this key with type=cache only");
        }
    }
    if let Some(value) =
        fields.get("max_mds").filter(|_| is("type", b"cache") || is("access_mode", b"private"))
    {
        let expected = "max_mds= with type=scratch and access_mode=striped only";
        report.add(Code::KeyWithoutEffect, value.word().start(), value.word().bytes, expected);
    }
}

/// The value of a key that may be missing. One that is there and wrong makes the directive bad.
fn optional<T>(
    fields: &Fields,
    key: &str,
    good: &mut bool,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Option<T> {
    let read = read(fields.get(key)?);
    *good &= read.is_some();
    read
}
