//! The environment that a job's script sees.
//!
//! Pure: the caller says what is set already. What DataWarp sets (`DW_JOB_STRIPED` and its family) always wins; what
//! Slurm would set for a batch job on one node is set only where it is not set already, so that `forebay run` inside
//! an allocation of a real Slurm keeps that allocation's values. DataWarp paths end with a slash: client code
//! concatenates path and file name without one.

use forebay_model::objects::AccessMode;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path that the script is told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The name of a persistent instance; `None` is the job's own.
    pub persistent: Option<String>,
    /// Access mode of the configuration.
    pub mode: AccessMode,
    /// Where it is mounted.
    pub path: PathBuf,
}

impl Exposed {
    /// Name of the variable, `DW_JOB_STRIPED` or `DW_PERSISTENT_STRIPED_<name>`.
    pub fn variable(&self) -> String {
        let mode = match self.mode {
            AccessMode::Striped => "STRIPED",
            AccessMode::Private => "PRIVATE",
            AccessMode::Ldbalance => "LDBAL_CACHE",
        };
        match &self.persistent {
            None => format!("DW_JOB_{mode}"),
            Some(name) => format!("DW_PERSISTENT_{mode}_{name}"),
        }
    }

    fn value(&self) -> OsString {
        let mut value = self.path.as_os_str().as_bytes().to_vec();
        if value.last() != Some(&b'/') {
            value.push(b'/');
        }
        OsString::from_vec(value)
    }
}

/// What the Slurm variables say.
#[derive(Clone, Debug)]
pub struct BatchJob<'a> {
    /// The job's id, the token of its session.
    pub id: &'a str,
    /// Job name.
    pub name: &'a str,
    /// User name.
    pub user: &'a str,
    /// Uid.
    pub uid: u32,
    /// Gid.
    pub gid: u32,
    /// Where the command was given.
    pub submit_dir: &'a Path,
    /// This machine.
    pub host: &'a str,
    /// Processors that the job may use.
    pub cpus: usize,
}

/// All variables to add to the script's environment, in a stable order. `is_set` tells what the environment has.
pub fn variables(
    job: &BatchJob<'_>,
    exposed: &[Exposed],
    is_set: &dyn Fn(&str) -> bool,
) -> Vec<(String, OsString)> {
    let datawarp = exposed.iter().map(|path| (path.variable(), path.value()));
    let slurm = slurm(job).into_iter().filter(|(name, _)| !is_set(name));
    datawarp.chain(slurm.map(|(name, value)| (name.to_string(), value))).collect()
}

/// The variables of a Slurm batch job on one node.
fn slurm(job: &BatchJob<'_>) -> Vec<(&'static str, OsString)> {
    let text = |value: &str| OsString::from(value);
    let number = |value: u64| OsString::from(value.to_string());
    vec![
        ("SLURM_JOB_ID", text(job.id)),
        ("SLURM_JOBID", text(job.id)),
        ("SLURM_JOB_NAME", text(job.name)),
        ("SLURM_JOB_USER", text(job.user)),
        ("SLURM_JOB_UID", number(job.uid.into())),
        ("SLURM_JOB_GID", number(job.gid.into())),
        ("SLURM_JOB_NUM_NODES", number(1)),
        ("SLURM_NNODES", number(1)),
        ("SLURM_JOB_NODELIST", text(job.host)),
        ("SLURM_NODELIST", text(job.host)),
        ("SLURMD_NODENAME", text(job.host)),
        ("SLURM_SUBMIT_HOST", text(job.host)),
        ("SLURM_SUBMIT_DIR", job.submit_dir.as_os_str().to_os_string()),
        ("SLURM_JOB_CPUS_PER_NODE", number(job.cpus as u64)),
        ("SLURM_CPUS_ON_NODE", number(job.cpus as u64)),
        ("SLURM_TASKS_PER_NODE", number(1)),
        ("SLURM_NODEID", number(0)),
        ("SLURM_PROCID", number(0)),
        ("SLURM_LOCALID", number(0)),
        ("ENVIRONMENT", text("BATCH")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> BatchJob<'static> {
        BatchJob {
            id: "100001",
            name: "job_scratch",
            user: "ada",
            uid: 1000,
            gid: 1000,
            submit_dir: Path::new("/home/ada/run"),
            host: "nid00002",
            cpus: 2,
        }
    }

    fn exposed(persistent: Option<&str>, mode: AccessMode) -> Exposed {
        Exposed {
            persistent: persistent.map(String::from),
            mode,
            path: PathBuf::from("/s/mounts/1_striped_scratch"),
        }
    }

    #[test]
    fn paths_end_with_a_slash_and_carry_datawarps_names() {
        let paths = [
            exposed(None, AccessMode::Striped),
            exposed(None, AccessMode::Private),
            exposed(Some("my_Space"), AccessMode::Striped),
        ];
        let all = variables(&job(), &paths, &|_| false);
        let names: Vec<&str> = all.iter().take(3).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["DW_JOB_STRIPED", "DW_JOB_PRIVATE", "DW_PERSISTENT_STRIPED_my_Space"]);
        assert!(all.iter().take(3).all(|(_, value)| value == "/s/mounts/1_striped_scratch/"));
    }

    #[test]
    fn slurms_own_values_are_kept_and_datawarps_are_not() {
        let all = variables(&job(), &[exposed(None, AccessMode::Striped)], &|name| {
            name == "SLURM_JOB_ID" || name == "DW_JOB_STRIPED"
        });
        let has = |wanted: &str| all.iter().any(|(name, _)| name == wanted);
        assert!(
            !has("SLURM_JOB_ID") && has("SLURM_JOBID") && has("DW_JOB_STRIPED") && has("SLURM_SUBMIT_DIR")
        );
    }
}
