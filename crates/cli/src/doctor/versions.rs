//! The programs of forebay that are found by their names: all of one version.

use super::finding::Finding;
use std::process::{Command, Stdio};

const SUBJECT: &str = "version";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The programs that users and Slurm call.
const PROGRAMS: [&str; 3] = ["forebay", "dwstat", "dwcli"];

/// Compares them with this program.
pub fn check() -> Vec<Finding> {
    PROGRAMS.iter().map(|program| judge(program, said(program))).collect()
}

fn said(program: &str) -> Option<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn judge(program: &str, said: Option<String>) -> Finding {
    match said {
        None => {
            let change = "add the directory of forebay's programs to PATH";
            Finding::doubtful(SUBJECT, format!("{program} is not found by its name"), change)
        }
        Some(said) if said.split_whitespace().last() == Some(VERSION) => Finding::good(SUBJECT, said),
        Some(said) => {
            let change = format!("install version {VERSION} everywhere, or correct PATH");
            Finding::bad(SUBJECT, format!("{program} says {said:?}, and this is {VERSION}"), change)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;

    #[test]
    fn another_version_is_told() {
        assert_eq!(judge("dwstat", Some(format!("dwstat (forebay) {VERSION}"))).grade, Grade::Good);
        assert_eq!(judge("dwstat", Some("dwstat (forebay) 0.0.1".into())).grade, Grade::Bad);
        assert_eq!(judge("dwstat", None).grade, Grade::Doubtful);
    }
}
