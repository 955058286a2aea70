//! Programs that people use, on a local file system (which proves the scripts) and on DWFS.
//!
//! Each script in `programs/` runs in a fresh directory under test, with a fresh local directory in `$LOCAL`. A program
//! that is missing is a failure that names its Debian package.

mod support;

use forebay_testkit::Identity;
use std::path::Path;
use std::process::Command;
use support::ground::{Ground, Way};

/// What every script begins with; `tree.sh` brings `make_tree` and `same_trees`.
const PRELUDE: &str = concat!(
    "set -Eeuo pipefail\ntrap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\numask 022\n",
    include_str!("programs/tree.sh")
);

/// One script, and the programs it needs with the packages they are in.
struct Script {
    name: &'static str,
    text: &'static str,
    needs: &'static [(&'static str, &'static str)],
}

macro_rules! scripts {
    ($($name:literal needs $($program:literal of $package:literal),+;)+) => {
        &[$(Script {
            name: $name,
            text: include_str!(concat!("programs/", $name, ".sh")),
            needs: &[$(($program, $package)),+],
        }),+]
    };
}

const SCRIPTS: &[Script] = scripts! {
    "git" needs "git" of "git";
    "tar" needs "tar" of "tar", "setfattr" of "attr", "gzip" of "gzip";
    "rsync" needs "rsync" of "rsync", "setfattr" of "attr";
    "cp" needs "cp" of "coreutils", "setfattr" of "attr";
    "sqlite" needs "sqlite3" of "sqlite3";
    "python" needs "/usr/bin/python3" of "python3";
    "build" needs "gcc" of "gcc", "make" of "make", "ar" of "binutils";
    "fio" needs "fio" of "fio", "/usr/bin/python3" of "python3";
    "hdf5" needs "/usr/bin/python3" of "python3-h5py", "h5repack" of "hdf5-tools";
    "netcdf" needs "ncgen" of "netcdf-bin", "nccopy" of "netcdf-bin";
    "walk" needs "find" of "findutils";
    "save" needs "perl" of "perl", "flock" of "util-linux";
    "mpi" needs "mpicc.mpich" of "libmpich-dev", "mpiexec.mpich" of "mpich";
    "stress" needs "stress-ng" of "stress-ng";
};

fn run_all(way: Way, server: Identity, eyes: Identity) {
    let only = std::env::var("FOREBAY_TEST_PROGRAM").ok();
    let chosen: Vec<&Script> =
        SCRIPTS.iter().filter(|script| only.as_deref().is_none_or(|name| name == script.name)).collect();
    assert!(!chosen.is_empty(), "FOREBAY_TEST_PROGRAM={only:?} names no script");
    let ground = Ground::new(way, &server, &eyes);
    let failures: Vec<String> =
        chosen.iter().filter_map(|script| run(&ground, script, &eyes).err()).collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), chosen.len(), failures.join("\n\n"));
    ground.finish();
}

fn run(ground: &Ground, script: &Script, eyes: &Identity) -> Result<(), String> {
    for (program, package) in script.needs {
        if !is_installed(program) {
            return Err(format!("{}: {program} is missing: apt-get install {package}", script.name));
        }
    }
    let directory = |parent: &Path| {
        let path = parent.join(script.name);
        std::fs::create_dir(&path).expect("the ground is writable");
        std::os::unix::fs::chown(&path, Some(eyes.uid), Some(eyes.gid)).expect("we are root");
        path
    };
    // On a mount of another user root may do nothing, so there the eyes make the directory.
    let (under, local) = (ground.under().join(script.name), directory(ground.beside()));
    let text = format!("mkdir \"$UNDER\"\ncd \"$UNDER\"\n{PRELUDE}\n{}", script.text);
    let file = ground.beside().join(format!("{}.sh", script.name));
    std::fs::write(&file, text).expect("the ground is writable");
    let mut command = Command::new("bash");
    command.arg(&file).current_dir("/");
    command.env("UNDER", &under).env("LOCAL", &local).env("HOME", &local).env("TMPDIR", &local);
    command.env("LC_ALL", "C.UTF-8");
    let finished = ground.run(&mut command);
    finished.map(drop).map_err(|error| format!("{}: {error}", script.name))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[test]
fn local_xfs_as_root() {
    run_all(Way::LocalXfs, Identity::root(), Identity::root());
}

#[test]
fn local_xfs_as_user() {
    run_all(Way::LocalXfs, Identity::root(), Identity::nobody());
}

#[test]
fn striped_as_root() {
    run_all(Way::Striped, Identity::root(), Identity::root());
}

#[test]
fn striped_as_user() {
    run_all(Way::Striped, Identity::nobody(), Identity::nobody());
}

#[test]
fn inline_as_user() {
    run_all(Way::Inline, Identity::nobody(), Identity::nobody());
}

#[test]
fn passthrough_as_root() {
    run_all(Way::Passthrough, Identity::root(), Identity::root());
}

#[test]
fn passthrough_as_user_on_a_mount_of_root() {
    run_all(Way::Passthrough, Identity::root(), Identity::nobody());
}
