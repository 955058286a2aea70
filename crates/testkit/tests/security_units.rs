//! The packages and the page for administrators, on hosts whose first process is systemd: services are confined to what their units
//! leave them (capabilities, filters of system calls, no new privileges), and whole jobs run.
//!
//! `tests/packaging/newcomer.py` is the test; here it uses this machine's own system as that of its hosts, which needs no network.
//! `make newcomer` runs it on Debian's base system.

use forebay_testkit::process;
use forebay_testkit::slurm::programs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Packages are made in seconds, those of large programs on a busy machine in minutes.
const PACKAGES_LIMIT: Duration = Duration::from_secs(900);
/// Four systems start and two jobs run: less than a minute on a quiet machine.
const HOSTS_LIMIT: Duration = Duration::from_secs(900);

#[test]
fn a_whole_job_runs_under_the_units_of_the_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = programs::built().unwrap_or_else(|error| panic!("{error}"));
    let packages = tempfile::tempdir().unwrap();
    let mut make = Command::new(root.join("scripts/deb.sh"));
    make.arg("--programs").arg(programs).arg("--output").arg(packages.path());
    // For as long as the test runs.
    make.env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    process::run(&mut make, PACKAGES_LIMIT).and_then(|made| made.success()).unwrap();
    let mut newcomer = Command::new("/usr/bin/python3");
    newcomer
        .arg(root.join("tests/packaging/newcomer.py"))
        .arg("--debs")
        .arg(packages.path())
        .args(["--base", "/"]);
    process::run(&mut newcomer, HOSTS_LIMIT).and_then(|done| done.success()).unwrap();
}
