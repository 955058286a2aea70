//! What happened to a job and how fast, told at its end.
//!
//! `Summary::render` is pure; the driver fills the record in as it goes. Written to standard error, so that the script's
//! own output stays what a program reads.

use super::figures::{count, duration, rate, size};
use crate::say;
use std::fmt::Write;
use std::time::Duration;

/// The account of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Job id.
    pub token: String,
    /// Job name.
    pub name: String,
    /// Space and serving way of each instance used.
    pub instances: Vec<InstanceLine>,
    /// Stagings that were done or failed, in order.
    pub stages: Vec<StageLine>,
    /// The script, once it ended.
    pub script: Option<ScriptLine>,
    /// What deserves attention, a sentence each.
    pub notes: Vec<String>,
    /// From start to end.
    pub total: Duration,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLine {
    /// `job` or the name of a persistent instance.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// `13 granules of 16MiB on 1 node of wlm_pool`
    pub dealt: String,
    /// How it reached the script.
    pub served: String,
    /// What that way does not enforce.
    pub not_enforced: Vec<String>,
}

/// A staging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLine {
    /// `stage in` or `stage out`.
    pub title: &'static str,
    /// `/pfs/data -> $DW_JOB_STRIPED/data`
    pub paths: String,
    /// Files, bytes and time, or why it failed.
    pub result: Result<Copied, String>,
}

/// What a staging moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files copied, without those that were complete already.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took, made durable.
    pub elapsed: Duration,
    /// Files complete from an interrupted run.
    pub skipped: u64,
    /// Failures that `tolerate_errors=yes` let pass.
    pub tolerated: u64,
}

/// The script's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// `exit status 0`, `killed by SIGTERM`.
    pub end: String,
    /// How long it ran.
    pub elapsed: Duration,
    /// Bytes read from the burst buffer, where they can be counted.
    pub bytes_read: Option<u64>,
    /// Bytes written to it.
    pub bytes_written: Option<u64>,
}

impl Summary {
    /// The text, one line per fact.
    pub fn render(&self) -> String {
        let mut text = format!("forebay: job {} ({})\n", self.token, say::name(&self.name));
        for instance in &self.instances {
            row(
                &mut text,
                "space",
                &format!("{}: {}, {}", instance.name, size(instance.bytes), instance.dealt),
            );
            row(&mut text, "served as", &instance.served);
            if !instance.not_enforced.is_empty() {
                row(&mut text, "not enforced", &instance.not_enforced.join("; "));
            }
        }
        for stage in self.stages.iter().filter(|stage| stage.title == STAGE_IN) {
            row(&mut text, stage.title, &stage.render());
        }
        if let Some(script) = &self.script {
            row(&mut text, "script", &script.render());
        }
        for stage in self.stages.iter().filter(|stage| stage.title != STAGE_IN) {
            row(&mut text, stage.title, &stage.render());
        }
        for note in &self.notes {
            row(&mut text, "note", note);
        }
        row(&mut text, "total", &duration(self.total));
        text
    }
}

/// Title of a staging before the script.
pub const STAGE_IN: &str = "stage in";
/// Title of a staging after it.
pub const STAGE_OUT: &str = "stage out";

fn row(text: &mut String, title: &str, value: &str) {
    // Further lines of a value (the list of failed files) stand under its first one.
    let value = value.replace('\n', "\n                ");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {title:<13} {value}");
}

impl StageLine {
    fn render(&self) -> String {
        match &self.result {
            Ok(copied) => format!("{}: {}", self.paths, copied.render()),
            Err(cause) => format!("{}: FAILED: {cause}", self.paths),
        }
    }
}

impl Copied {
    fn render(&self) -> String {
        let mut text =
            format!("{}, {} in {}", count(self.files, "file"), size(self.bytes), duration(self.elapsed));
        if let Some(rate) = rate(self.bytes, self.elapsed) {
            text.push_str(&format!(" ({rate})"));
        }
        if self.skipped > 0 {
            text.push_str(&format!(", {} complete before", count(self.skipped, "file")));
        }
        if self.tolerated > 0 {
            text.push_str(&format!(", {} tolerated", count(self.tolerated, "failure")));
        }
        text
    }
}

impl ScriptLine {
    fn render(&self) -> String {
        let figure = |bytes: Option<u64>| bytes.map_or("an uncounted amount".to_string(), size);
        format!(
            "{} after {}; read {}, wrote {}",
            self.end,
            duration(self.elapsed),
            figure(self.bytes_read),
            figure(self.bytes_written)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_summary() {
        let copied =
            Copied { files: 300, bytes: 3 << 29, elapsed: Duration::from_millis(1500), ..Copied::default() };
        let summary = Summary {
            token: "100001".into(),
            name: "job_scratch".into(),
            instances: vec![InstanceLine {
                name: "job".into(),
                bytes: 208 << 20,
                dealt: "13 granules of 16MiB on 1 node of wlm_pool".into(),
                served: "plain directory".into(),
                not_enforced: vec!["capacity".into(), "striping".into()],
            }],
            stages: vec![
                StageLine {
                    title: STAGE_OUT,
                    paths: "$DW_JOB_STRIPED/out -> /pfs/out".into(),
                    result: Err("full\ndelete something".into()),
                },
                StageLine {
                    title: STAGE_IN,
                    paths: "/pfs/data -> $DW_JOB_STRIPED/data".into(),
                    result: Ok(copied),
                },
            ],
            script: Some(ScriptLine {
                end: "exit status 0".into(),
                elapsed: Duration::from_millis(12_340),
                bytes_read: Some(1 << 30),
                bytes_written: None,
            }),
            notes: vec!["the data is kept".into()],
            total: Duration::from_secs(15),
        };
        let wanted = "\
forebay: job 100001 (job_scratch)
  space         job: 208.0 MiB, 13 granules of 16MiB on 1 node of wlm_pool
  served as     plain directory
  not enforced  capacity; striping
  stage in      /pfs/data -> $DW_JOB_STRIPED/data: 300 files, 1.5 GiB in 1.50 s (1.0 GiB/s)
  script        exit status 0 after 12.3 s; read 1.0 GiB, wrote an uncounted amount
  stage out     $DW_JOB_STRIPED/out -> /pfs/out: FAILED: full
                delete something
  note          the data is kept
  total         15.0 s
";
        assert_eq!(summary.render(), wanted);
    }
}
