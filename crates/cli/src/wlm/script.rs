//! The job script as Slurm hands it over, and what it asks for.
//!
//! A batch script ends in a NUL byte, an interactive one perhaps without a line end. If any directive has a `%`, then
//! `setup` gets another file: the directives alone, joined and with their symbols replaced, at `/proc/<pid>/fd/<n>` of
//! slurmctld. In such a text `%` means itself. Only `job_process` and `setup` read scripts: what `setup` read is what
//! counts for the rest of the job's life.

use super::reading::{Finding, findings};
use forebay_directive::{Diagnostic, Parsed, Symbols, parse_script, parse_script_with};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest script that is read; Slurm itself takes 4 MiB.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;
/// So many findings are told; the rest is counted.
const FINDINGS_SHOWN: usize = 3;

/// Whether Slurm has replaced its symbols in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The script as the user wrote it.
    No,
    /// The directives alone.
    Yes,
}

/// A script that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobScript {
    text: Vec<u8>,
    replaced: Replaced,
}

/// Why a script is refused.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("cannot read the job script {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Too large.
    #[error("the job script {path} is larger than {} MiB", SCRIPT_BYTES_MAX >> 20, path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Its directives.
    #[error("{}", listed(.0, Diagnostic::to_text))]
    Directives(Vec<Diagnostic>),
    /// Its directives, as Slurm reads them.
    #[error("{}", listed(.0, Finding::to_string))]
    Misread(Vec<Finding>),
}

trait ToText {
    fn to_text(&self) -> String;
}

impl ToText for Diagnostic {
    fn to_text(&self) -> String {
        format!("line {}: {}", self.line, self.message())
    }
}

fn listed<T>(findings: &[T], text: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = findings.iter().take(FINDINGS_SHOWN).map(text).collect();
    let rest = match findings.len().saturating_sub(FINDINGS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more, which forebay check shows"),
    };
    format!("burst buffer directives refused: {}{rest}", shown.join("; "))
}

impl JobScript {
    /// Reads the file of `--job`.
    ///
    /// # Errors
    /// [`ScriptError::File`], [`ScriptError::TooLarge`]
    pub fn read(path: &Path) -> Result<JobScript, ScriptError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut text));
        read.map_err(|source| ScriptError::File { path: path.to_owned(), source })?;
        if text.len() as u64 > SCRIPT_BYTES_MAX {
            return Err(ScriptError::TooLarge { path: path.to_owned() });
        }
        let replaced = if is_descriptor(path) { Replaced::Yes } else { Replaced::No };
        Ok(JobScript::new(text, replaced))
    }

    /// A script with this text.
    pub fn new(mut text: Vec<u8>, replaced: Replaced) -> JobScript {
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
        }
        JobScript { text, replaced }
    }

    /// Its directives, if they are right and Slurm reads the same in them.
    ///
    /// # Errors
    /// [`ScriptError::Directives`], [`ScriptError::Misread`]
    pub fn directives(&self) -> Result<Parsed, ScriptError> {
        let parsed = self.parsed();
        if !parsed.errors.is_empty() {
            return Err(ScriptError::Directives(parsed.errors));
        }
        let findings = findings(&self.text, self.replaced, &parsed);
        if findings.is_empty() { Ok(parsed) } else { Err(ScriptError::Misread(findings)) }
    }

    fn parsed(&self) -> Parsed {
        match self.replaced {
            Replaced::No => parse_script(&self.text),
            Replaced::Yes => parse_script_with(&doubled(&self.text), Some(&Symbols::default())),
        }
    }
}

/// A text in which every `%` means itself, written so that it does.
fn doubled(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        out.push(*byte);
        if *byte == b'%' {
            out.push(b'%');
        }
    }
    out
}

/// `/proc/<pid>/fd/<n>`
fn is_descriptor(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let head: Vec<String> = parts.by_ref().take(4).collect();
    let number = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let process = |text: &String| number(text) || text == "self";
    matches!(&head[..], [root, proc, pid, fd] if root == "/" && proc == "proc" && process(pid) && fd == "fd")
        && parts.next().is_some_and(|descriptor| number(&descriptor))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_directive::{Directive, StagePath};

    fn script(text: &str, replaced: Replaced) -> JobScript {
        JobScript::new(text.as_bytes().to_vec(), replaced)
    }

    const JOB: &str = "#!/bin/bash\n#DW jobdw capacity=100MB access_mode=striped type=scratch pool=default";

    #[test]
    fn the_nul_byte_of_slurm_and_a_missing_line_end_do_no_harm() {
        for end in ["", "\n", "\n\0", "\0", "\nsrun a\n\0"] {
            let parsed = script(&format!("{JOB}{end}"), Replaced::No).directives().unwrap();
            assert_eq!(parsed.directives.len(), 1, "{end:?}");
        }
    }

    #[test]
    fn lines_are_joined_as_slurm_joins_them() {
        let text = "#!/bin/sh\n#DW jobdw type=scratch \\\n#DW     capacity=1GiB access_mode=striped\n";
        assert_eq!(script(text, Replaced::No).directives().unwrap().directives.len(), 1);
    }

    #[test]
    fn what_belongs_to_other_parts_of_a_heterogeneous_job_is_ignored() {
        let text = "#!/bin/sh\n#EXCLUDED DW jobdw capacity=1GiB access_mode=striped type=scratch\nexit 0\n";
        assert!(script(text, Replaced::No).directives().unwrap().directives.is_empty());
    }

    #[test]
    fn symbols_are_accepted_before_and_mean_themselves_after_they_were_replaced() {
        let line = "#DW stage_in type=file source=/p/%u/%j%% destination=$DW_JOB_STRIPED/f";
        let pfs = |text: &str, replaced| {
            let parsed = script(&format!("{JOB}\n{text}"), replaced).directives().unwrap();
            match &parsed.directives[1].value {
                Directive::StageIn(stage) => match &stage.source {
                    StagePath::Pfs(path) => String::from_utf8(path.clone()).unwrap(),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(pfs(line, Replaced::No), "/p/%u/%j%%");
        let replaced = "#DW stage_in type=file source=/p/ann/7% destination=$DW_JOB_STRIPED/f";
        assert_eq!(pfs(replaced, Replaced::Yes), "/p/ann/7%");
        assert!(script(&format!("{JOB}\n{replaced}"), Replaced::No).directives().is_err());
    }

    #[test]
    fn the_place_of_the_replaced_text_is_known() {
        assert!(is_descriptor(Path::new("/proc/4711/fd/12")));
        assert!(is_descriptor(Path::new("/proc/self/fd/12")));
        for other in
            ["/proc/4711/fd", "/proc/4711/fd/12/x", "/proc/a/fd/1", "proc/1/fd/2", "/tmp/proc/1/fd/2"]
        {
            assert!(!is_descriptor(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn refusals_name_lines_and_are_counted() {
        let text = "#!/bin/sh\n#DW jobdw capacity=1.5GiB access_mode=striped type=scratch\n";
        let error = script(text, Replaced::No).directives().unwrap_err().to_string();
        assert!(
            error.starts_with("burst buffer directives refused: line 2: size with a fraction"),
            "{error}"
        );
        assert!(error.contains("1536MiB"), "{error}");
        let many = "#!/bin/sh\n#DW a\n#DW b\n#DW c\n#DW d\n#DW e\n";
        let error = script(many, Replaced::No).directives().unwrap_err().to_string();
        assert!(error.ends_with("; and 2 more, which forebay check shows"), "{error}");
    }
}
