//! What the tests with Slurm and Forebay share: a site, and jobs that must end as they should.

// Each test target uses a part of this.
#![allow(dead_code)]

use forebay_testkit::slurm::{BufferOptions, Job, JobId, Options, Site, User, programs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// First lines of a job with 100 MB that all its nodes share.
pub const STRIPED: &str = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\nset -eu\n";

/// Waits in a job script until a file is there, not for ever.
pub const AWAIT_FILE: &str =
    "await() { for i in $(seq 600); do [ -e \"$1\" ] && return; sleep 0.1; done; exit 7; }\n";

/// Makes `many`: 1200 files in eight directories, 4.7 MiB in all.
pub const MANY: &str = "mkdir many; cd many; for d in 1 2 3 4 5 6 7 8; do mkdir $d; \
                        (cd $d; head -c 614400 /dev/urandom | split -b 4096 -a 3); done";
/// Of them, moved before a copy is in its middle; more than a program reads to start.
pub const IN_THE_MIDDLE_BYTES: u64 = 1 << 20;

/// A burst buffer with the programs of this build.
pub fn buffer() -> BufferOptions {
    BufferOptions::new(programs::built().unwrap_or_else(|error| panic!("{error}")))
}

/// A site with two storage nodes and four compute nodes.
pub fn site() -> Site {
    site_with(buffer())
}

/// The same with another burst buffer.
pub fn site_with(buffer: BufferOptions) -> Site {
    let options = Options { buffer: Some(buffer), ..Options::default() };
    Site::build(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Nothing of any job is left, and the site ends.
pub fn finish(site: Site) {
    site.await_empty().unwrap_or_else(|error| panic!("{error}"));
    site.finish();
}

/// Submits a job; it must be accepted.
pub fn submit(site: &Site, user: &User, options: &str, script: &str) -> JobId {
    site.submit(user, options, script).unwrap_or_else(|error| panic!("{error}"))
}

/// Awaits that a job ends in a state; what it wrote.
pub fn ends(site: &Site, user: &User, job: JobId, state: &str) -> String {
    site.await_state(user, job, state).unwrap_or_else(|error| panic!("{error}\n{}", site.output(user, job)))
}

/// Runs a job that must succeed; what it wrote.
pub fn completes(site: &Site, user: &User, options: &str, script: &str) -> String {
    site.run_job(user, options, script, "COMPLETED").unwrap_or_else(|error| panic!("{error}"))
}

/// Awaits a moment in the life of a job.
pub fn awaits(site: &Site, job: JobId, awaited: &str, is_so: impl FnMut(&Job) -> bool) -> Job {
    site.await_job(job, awaited, is_so).unwrap_or_else(|error| panic!("{error}"))
}

/// Submits a job that must come to wait, be held or be sent back with a reason in which all these words are.
pub fn fails(site: &Site, user: &User, options: &str, script: &str, words: &[&str]) -> (JobId, Job) {
    let job = submit(site, user, options, script);
    (job, is_told(site, job, words))
}

/// Awaits a reason in which all these words are.
pub fn is_told(site: &Site, job: JobId, words: &[&str]) -> Job {
    site.await_reason(job, words).unwrap_or_else(|error| panic!("{error}"))
}

/// Cancels a job with options of `scancel`.
pub fn cancel(site: &Site, user: &User, options: &str, job: JobId) {
    site.cancel(user, options, job).unwrap_or_else(|error| panic!("{error}"));
}

/// Cancels a job and awaits that it and its buffer are gone.
pub fn is_cancelled(site: &Site, user: &User, job: JobId) {
    cancel(site, user, "", job);
    ends(site, user, job, "CANCELLED");
}

/// Runs a shell script at the user's home; it must succeed.
pub fn shell(site: &Site, user: &User, script: &str) -> String {
    site.shell(user, script).unwrap_or_else(|error| panic!("{error}"))
}

/// A file in the user's home.
pub fn at_home(site: &Site, user: &User, name: &str) -> PathBuf {
    site.home(user).join(name)
}

/// Makes a file that jobs await.
pub fn signal(site: &Site, user: &User, name: &str) {
    shell(site, user, &format!("touch {name}"));
}

/// Awaits a file.
pub fn awaits_file(site: &Site, user: &User, name: &str) {
    let path = at_home(site, user, name);
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
