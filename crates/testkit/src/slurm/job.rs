//! Jobs: submitting them, looking at them, awaiting what becomes of them.

use super::{ASK_AGAIN_AFTER, HostId, LIMIT, ROOT, Site, SiteError, User};
use crate::wait;
use std::fmt;
use std::fs;
use std::os::unix::fs::chown;
use std::time::SystemTime;

/// Number of a job, as Slurm writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job as Slurm shows it at one moment.
#[derive(Clone, Debug)]
pub struct Job {
    text: String,
}

/// States that a job does not leave.
const ENDS: [&str; 8] =
    ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"];

impl Job {
    /// A field of `scontrol show job`, with the blanks in it; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.text.lines().find_map(|line| field_in(line.trim(), name)).unwrap_or_default()
    }

    /// `PENDING`, `RUNNING`, ...
    pub fn state(&self) -> &str {
        self.field("JobState")
    }

    /// `staging-in`, `staged-in`, ...
    pub fn buffer_state(&self) -> &str {
        self.field("BurstBufferState")
    }

    /// Why it waits or ended.
    pub fn reason(&self) -> &str {
        self.field("Reason")
    }

    /// Whether Slurm has nothing to do for it any more.
    pub fn is_over(&self) -> bool {
        ENDS.contains(&self.state()) && matches!(self.buffer_state(), "" | "complete")
    }

    /// All that Slurm shows.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The value of `name=value` in a line of several; it ends before the next word that is a name with its sign.
fn field_in<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let key = format!("{name}=");
    let start = if line.starts_with(&key) { 0 } else { line.find(&format!(" {key}"))? + 1 };
    let value = &line[start + key.len()..];
    let ends = value.match_indices(' ').map(|(at, _)| at).find(|at| starts_with_name(&value[at + 1..]));
    Some(&value[..ends.unwrap_or(value.len())])
}

fn starts_with_name(text: &str) -> bool {
    let name = text.split_once('=').map_or("", |(name, _)| name);
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "/:_".contains(letter))
}

impl Site {
    /// Submits a batch script with options of `sbatch`; its number, or what `sbatch` said.
    pub fn submit(&self, user: &User, options: &str, script: &str) -> Result<JobId, SiteError> {
        let file = self.write_script(user, script)?;
        let said = self.shell(user, &format!("sbatch --parsable {options} {file}"))?;
        let number = said.lines().find_map(|line| line.trim().split(';').next()?.parse().ok());
        number.map(JobId).ok_or(SiteError::Answer { command: "sbatch", answer: said })
    }

    /// Puts a script into the user's home; its path.
    pub fn write_script(&self, user: &User, script: &str) -> Result<String, SiteError> {
        let named = tempfile::Builder::new().prefix("job-").suffix(".sh").tempfile_in(self.home(user));
        let path = named.and_then(|file| Ok(file.keep()?.1)).map_err(SiteError::file(self.home(user)))?;
        let written = fs::write(&path, script).and_then(|()| chown(&path, Some(user.uid), Some(user.uid)));
        written.map_err(SiteError::file(&path))?;
        Ok(path.display().to_string())
    }

    /// The job now; nothing when Slurm has forgotten it.
    pub fn job(&self, job: JobId) -> Result<Job, SiteError> {
        let asked = self.run_on(HostId::Control, &ROOT, &format!("scontrol show job {job}"))?;
        Ok(Job { text: asked.output })
    }

    /// Awaits a moment in the life of a job.
    pub fn await_job(
        &self,
        job: JobId,
        awaited: &str,
        mut is_so: impl FnMut(&Job) -> bool,
    ) -> Result<Job, SiteError> {
        let mut seen = self.job(job)?;
        let come = wait::wait_until_every(ASK_AGAIN_AFTER, awaited, LIMIT, || {
            if let Ok(now) = self.job(job) {
                seen = now;
            }
            is_so(&seen)
        });
        match come {
            Ok(()) => Ok(seen),
            Err(_) => Err(SiteError::Job { job, awaited: awaited.to_owned(), text: seen.text }),
        }
    }

    /// Awaits that slurmctld has written down what it knows, which it does some seconds late; the job is one that is not over. A job
    /// that it started and had not written down is started a second time by the next slurmctld.
    pub fn await_saved(&self, job: JobId) -> Result<(), SiteError> {
        let file = self.directory().join("slurm/job_state");
        let written = || fs::metadata(&file).and_then(|file| file.modified()).ok();
        let before = SystemTime::now();
        // A change makes it write.
        self.shell(&ROOT, &format!("scontrol update jobid={job} comment=saved"))?;
        Ok(wait::wait_until("slurmctld to save its state", LIMIT, || {
            written().is_some_and(|at| at > before)
        })?)
    }

    /// Awaits that Slurm gives a reason with these words in it, all of them: why the job waits, is held, or was sent back.
    pub fn await_reason(&self, job: JobId, words: &[&str]) -> Result<Job, SiteError> {
        let awaited = format!("a reason with {words:?}");
        self.await_job(job, &awaited, |job| words.iter().all(|word| job.reason().contains(word)))
    }

    /// Cancels a job with options of `scancel`.
    pub fn cancel(&self, user: &User, options: &str, job: JobId) -> Result<(), SiteError> {
        self.shell(user, &format!("scancel {options} {job}")).map(drop)
    }

    /// Submits a job that must come to its end in this state; what it wrote.
    pub fn run_job(
        &self,
        user: &User,
        options: &str,
        script: &str,
        state: &str,
    ) -> Result<String, SiteError> {
        let job = self.submit(user, options, script)?;
        self.await_state(user, job, state)
    }

    /// Awaits the end of a job and of its buffer, which must be in this state; what it wrote.
    pub fn await_state(&self, user: &User, job: JobId, state: &str) -> Result<String, SiteError> {
        let ended = self.await_end(job)?;
        let output = self.output(user, job);
        if ended.state() == state {
            return Ok(output);
        }
        let text = format!("{}\nit wrote:\n{output}", ended.text());
        Err(SiteError::Job { job, awaited: format!("the end as {state}"), text })
    }

    /// Awaits the end of a job and of its buffer.
    pub fn await_end(&self, job: JobId) -> Result<Job, SiteError> {
        self.await_job(job, "its end", Job::is_over)
    }

    /// What the job wrote to its standard output, which is where `sbatch` puts it by default.
    pub fn output(&self, user: &User, job: JobId) -> String {
        fs::read_to_string(self.home(user).join(format!("slurm-{job}.out"))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_with_the_blanks_in_them() {
        let text = "JobId=7 JobName=x\n   JobState=PENDING Reason=burst_buffer/datawarp: setup: no room a=b Dependency=(null)\n   BurstBuffer=#DW jobdw capacity=1GB type=scratch\n   BurstBufferState=staging-in\n";
        let job = Job { text: text.into() };
        assert_eq!(job.state(), "PENDING");
        assert_eq!(job.reason(), "burst_buffer/datawarp: setup: no room a=b");
        assert_eq!(job.field("BurstBuffer"), "#DW jobdw capacity=1GB type=scratch");
        assert_eq!((job.buffer_state(), job.field("Name"), job.is_over()), ("staging-in", "", false));
    }
}
