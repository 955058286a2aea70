//! Slurm's files and programs on this machine.

use super::finding::Finding;
use super::slurm::{self, Keys};
use crate::user;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SUBJECT: &str = "slurm";
/// Where Slurm's configuration usually is.
const PLACES: [&str; 3] =
    ["/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf"];
/// What Slurm calls without a `GetSysState` line.
const DEFAULT_STATE: &str = "/opt/cray/dw_wlm/default/bin/dw_wlm_cli";
/// What it calls without a `GetSysStatus` line; the packages have a link there.
const DEFAULT_STATUS: &str = "/opt/cray/dws/default/bin/dwstat";
/// How long a command of Slurm may take.
const COMMAND_LIMIT_S: &str = "10";

/// What Slurm's configuration says here.
#[derive(Clone, Debug)]
pub struct SlurmFiles {
    /// `slurm.conf`
    pub slurm: Keys,
    /// `burst_buffer.conf` and where it is.
    pub burst_buffer: Option<(PathBuf, Keys)>,
}

impl SlurmFiles {
    /// Reads them; `None` where there is no Slurm.
    pub fn read() -> Option<SlurmFiles> {
        let named = std::env::var_os("SLURM_CONF").map(PathBuf::from);
        let path = named.or_else(|| PLACES.iter().map(PathBuf::from).find(|path| path.exists()))?;
        let slurm = Keys::read(&std::fs::read_to_string(&path).ok()?);
        let names = ["burst_buffer.conf", "burst_buffer_datawarp.conf"];
        let burst_buffer = names.iter().find_map(|name| {
            let path = path.with_file_name(name);
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path, Keys::read(&text)))
        });
        Some(SlurmFiles { slurm, burst_buffer })
    }

    /// What is wrong with them.
    pub fn check(&self, pools: Option<&[String]>) -> Vec<Finding> {
        let mut findings = slurm::check_slurm(&self.slurm);
        let Some((path, keys)) = &self.burst_buffer else {
            let change =
                "write burst_buffer.conf beside slurm.conf: GetSysState and GetSysStatus, see docs/slurm.md";
            findings.push(Finding::bad(SUBJECT, "there is no burst_buffer.conf", change));
            return findings;
        };
        findings.extend(slurm::check_burst_buffer(&self.slurm, keys, pools));
        let user = self.slurm.get("slurmuser").unwrap_or("root");
        for (key, default) in [("getsysstate", DEFAULT_STATE), ("getsysstatus", DEFAULT_STATUS)] {
            let program = Path::new(keys.get(key).unwrap_or(default));
            if key == "getsysstatus" && keys.get(key).is_none() && !program.exists() {
                let change = "set GetSysStatus to the path of dwstat, so that scontrol show dwstat works";
                findings.push(Finding::doubtful(SUBJECT, "GetSysStatus is not set", change));
            } else {
                findings.push(check_program(key, program, user));
            }
        }
        findings.push(Finding::good(SUBJECT, format!("read {}", path.display())));
        findings
    }
}

/// Slurm starts it directly, as its own user: an absolute path of a program that this user may read and run.
fn check_program(key: &str, program: &Path, user: &str) -> Finding {
    let bad = |why: String| {
        let change = format!("set {key} in burst_buffer.conf to the full path of forebay's program");
        Finding::bad(SUBJECT, format!("{key}={}: {why}", program.display()), change)
    };
    if !program.is_absolute() {
        return bad("it is no absolute path".into());
    }
    let metadata = match std::fs::metadata(program) {
        Ok(metadata) => metadata,
        Err(error) => return bad(error.to_string()),
    };
    let mode = metadata.permissions().mode();
    let owned = user::named(user).is_some_and(|uid| uid == metadata.uid() && mode & 0o500 == 0o500);
    if mode & 0o005 != 0o005 && !owned && user != "root" {
        return bad(format!("user {user} of Slurm may not read and run it"));
    }
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version {
        Ok(version) if version.contains("(forebay)") => {
            Finding::good(SUBJECT, format!("{key}={} is {version}", program.display()))
        }
        Ok(_) => bad("it is no program of forebay".into()),
        Err(error) => bad(error.to_string()),
    }
}

/// Names of Slurm's nodes; `None` when Slurm does not answer.
pub fn node_names() -> Option<Vec<String>> {
    let command = ["sinfo", "--noheader", "--Node", "--format=%N"];
    let output = Command::new("timeout")
        .arg(COMMAND_LIMIT_S)
        .args(command)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let mut names: Vec<String> =
        String::from_utf8_lossy(&output.stdout).split_whitespace().map(String::from).collect();
    names.sort();
    names.dedup();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;

    #[test]
    fn missing_files_and_keys_are_told() {
        let slurm = Keys::read("SlurmUser=root\nBurstBufferType=burst_buffer/datawarp\n");
        let none = SlurmFiles { slurm: slurm.clone(), burst_buffer: None };
        let found = none.check(None);
        assert!(
            found.iter().any(|one| one.grade == Grade::Bad && one.found == "there is no burst_buffer.conf")
        );
        let keys = Keys::read("GetSysState=/nonexistent/dw_wlm_cli\nGetSysStatus=/nonexistent/dwstat\n");
        let wrong = SlurmFiles { slurm, burst_buffer: Some(("/etc/slurm/burst_buffer.conf".into(), keys)) };
        let found = wrong.check(None);
        for key in ["getsysstate", "getsysstatus"] {
            assert!(
                found.iter().any(|one| one.grade == Grade::Bad && one.found.starts_with(key)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_program_that_slurm_cannot_run_is_found() {
        let text = |program: &str| {
            let finding = check_program("getsysstate", Path::new(program), "nobody");
            assert_eq!(finding.grade, Grade::Bad);
            finding.found
        };
        assert!(text("dw_wlm_cli").contains("no absolute path"));
        assert!(text("/nonexistent/dw_wlm_cli").contains("No such file"));
        assert!(text("/bin/true").contains("no program of forebay"));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dw_wlm_cli");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(text(path.to_str().unwrap()).contains("user nobody of Slurm may not read and run it"));
    }
}
