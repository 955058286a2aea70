//! A user's corner of the machine for the tests of the commands: programs, a parallel file system, a state directory, and a
//! guard that detaches what a failed test left mounted.
#![allow(dead_code, unused_macros, missing_docs, reason = "every test file uses its own part of it")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Makes two tests of a flow that takes a uid.
macro_rules! as_root_and_as_nobody {
    ($($flow:ident: $root:ident, $nobody:ident;)*) => {$(
        #[test]
        fn $root() {
            $flow(ROOT);
        }

        #[test]
        fn $nobody() {
            $flow(NOBODY);
        }
    )*};
}

pub const ROOT: u32 = 0;
/// An account without files, groups or a home, that exists everywhere.
pub const NOBODY: u32 = 65534;
pub const CAPACITY: &str = "64MiB";
pub const NAME: &str = "my_space";

/// A user's corner of the machine: programs, a parallel file system with the tutorial's data, a state directory.
pub struct Place {
    /// Everything of it lies below.
    pub directory: TempDir,
    /// Its user.
    pub uid: u32,
}

impl Place {
    pub fn new(uid: u32) -> Place {
        // The suite acts as other users and mounts images.
        assert!(rustix::process::geteuid().is_root(), "run the tests as root: make test");
        let directory = tempfile::Builder::new().prefix("forebay-sc17-").tempdir().unwrap();
        let place = Place { directory, uid };
        fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for part in ["", "bin", "home", "pfs", "pfs/data"] {
            let path = place.path(part);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(uid), Some(uid)).unwrap();
        }
        for program in [env!("CARGO_BIN_EXE_forebay"), env!("CARGO_BIN_EXE_dwstat")] {
            let program = Path::new(program);
            // By a process of its own: a file that is open for writing cannot be run, and a child forked by another test at
            // this moment would inherit it.
            let copied = Command::new("cp").arg(program).arg(place.path("bin")).status().unwrap();
            assert!(copied.success());
        }
        place.write(
            "pfs/data/file.dat",
            &(0..3_000_000u32).map(|i| ((i * 31) >> 7) as u8).collect::<Vec<_>>(),
        );
        place.write("pfs/data/note.txt", b"input of the tutorial\n");
        place
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub fn write(&self, relative: &str, content: &[u8]) {
        let path = self.path(relative);
        fs::write(&path, content).unwrap();
        chown(&path, Some(self.uid), Some(self.uid)).unwrap();
    }

    /// A directory of the user's own.
    pub fn make_directory(&self, relative: &str) {
        let path = self.path(relative);
        fs::create_dir_all(&path).unwrap();
        chown(&path, Some(self.uid), Some(self.uid)).unwrap();
    }

    /// A script of the tutorial with its marks filled in.
    pub fn script(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sc17").join(name);
        let text = fs::read_to_string(source)
            .unwrap()
            .replace("@CAPACITY@", CAPACITY)
            .replace("@PFS@", self.path("pfs").to_str().unwrap())
            .replace("@NAME@", NAME);
        self.write(name, text.as_bytes());
        self.path(name)
    }

    /// A program of ours as this place's user, with nothing of our own environment.
    pub fn program(&self, name: &str) -> Command {
        self.command(self.path("bin").join(name))
    }

    /// The same for any program.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .uid(self.uid)
            .gid(self.uid)
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", self.path("bin").display()),
            )
            .env("HOME", self.path("home"))
            .env("SHELL", "/bin/bash")
            .env("FOREBAY_STATE_DIR", self.path("state"))
            .current_dir(self.path("home"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, options: &[&str], script: &str) -> Output {
        self.program("forebay").arg("run").args(options).arg(self.script(script)).output().unwrap()
    }

    /// Runs a script that must succeed; its standard output.
    pub fn succeed(&self, options: &[&str], script: &str) -> String {
        let output = self.run(options, script);
        assert!(
            output.status.success(),
            "{script} as uid {}: {}\n{}",
            self.uid,
            output.status,
            shown(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn dwstat(&self, table: &str) -> String {
        let output = self.program("dwstat").arg(table).output().unwrap();
        assert!(output.status.success(), "dwstat {table}: {}", shown(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Mount points below this place.
    pub fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let below = format!("{}/", self.directory.path().display());
        table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .filter(|path| path.starts_with(&below))
            .map(str::to_owned)
            .collect()
    }

    /// What outlived the jobs: mounts, loop devices, instances, processes.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = self.mounts();
        found.extend(self.loop_devices());
        found.extend(entries(&self.path("state/instances")));
        found.extend(self.processes());
        found
    }

    fn loop_devices(&self) -> Vec<String> {
        entries(Path::new("/sys/block"))
            .into_iter()
            .filter_map(|device| fs::read_to_string(Path::new(&device).join("loop/backing_file")).ok())
            .filter(|backing| backing.starts_with(self.directory.path().to_str().unwrap()))
            .collect()
    }

    fn processes(&self) -> Vec<String> {
        let program = self.path("bin/forebay");
        entries(Path::new("/proc"))
            .into_iter()
            .filter(|process| fs::read_link(Path::new(process).join("exe")).is_ok_and(|exe| exe == program))
            .collect()
    }

    pub fn assert_nothing_is_left(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new(), "left behind by uid {}", self.uid);
        assert!(self.dwstat("instances").starts_with("no instances"), "{}", self.dwstat("instances"));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for mount in self.mounts() {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Paths in a directory; none if it does not exist.
pub fn entries(directory: &Path) -> Vec<String> {
    let Ok(listing) = fs::read_dir(directory) else { return Vec::new() };
    listing.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned())).collect()
}

/// Both outputs.
pub fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
