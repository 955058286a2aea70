//! A mount served by a process of its own, for root or for an ordinary user, that goes away with the test.
//!
//! The server is the example program `dwfs_mount`, which `cargo test` builds beside the tests.
#![allow(dead_code)] // every test program uses a part

pub mod isolation;
pub mod switch;
pub mod xfs;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Who mounts and uses the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Nobody,
}

pub const USERS: [User; 2] = [User::Root, User::Nobody];
const NOBODY: u32 = 65534;

impl User {
    /// A command that runs `program` as this user.
    pub fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        assert!(rustix::process::geteuid().is_root(), "these tests run as root");
        if self == User::Root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
        command
    }

    fn own(self, path: &Path) {
        if self == User::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

/// A place with a mount point and fragments, without a server yet.
pub struct Place {
    pub user: User,
    pub directory: TempDir,
}

impl Place {
    pub fn new(user: User) -> Place {
        isolation::enter();
        let directory = tempfile::Builder::new().prefix("dwfs-fuse-").tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let place = Place { user, directory };
        place.make("mnt");
        place
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Makes a directory that belongs to the user.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        self.user.own(&path);
        path
    }

    fn command(&self, fragments: &[PathBuf], options: &[&str]) -> Command {
        // Run through an open descriptor: the build directory may be closed to the user.
        let program = fs::File::open(server_program()).unwrap();
        let mut command = self.user.command("/proc/self/fd/0");
        command.arg(self.mountpoint()).args(fragments).arg("--foreground").args(options);
        command.stdin(Stdio::from(program)).stdout(Stdio::piped()).current_dir("/");
        command
    }

    /// What a server says that is expected to end by itself.
    pub fn refused(&self, fragments: &[PathBuf], options: &[&str]) -> String {
        let output = self.command(fragments, options).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success(), "mounted although it should not: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn serve(self, fragments: &[PathBuf], options: &[&str]) -> Server {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut child = self.command(fragments, options).stderr(Stdio::from(log)).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut features = String::new();
        output.read_line(&mut features).unwrap();
        let server = Server { place: Some(self), child, features, ended: false, _output: output };
        assert!(server.features.starts_with("mounted"), "no mount: {}", server.log());
        server
    }
}

fn server_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/dwfs_mount");
    assert!(program.exists(), "{} is missing: build it with cargo build --examples", program.display());
    program
}

/// A running server.
pub struct Server {
    place: Option<Place>,
    child: Child,
    /// The line it printed when the mount was there.
    pub features: String,
    ended: bool,
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Serves new directories of an ordinary file system.
    pub fn start(user: User, fragments: usize, options: &[&str]) -> Server {
        let place = Place::new(user);
        let roots: Vec<PathBuf> = (0..fragments).map(|n| place.make(&format!("f{n}"))).collect();
        place.serve(&roots, options)
    }

    fn place(&self) -> &Place {
        self.place.as_ref().unwrap()
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.place().mountpoint()
    }

    /// Directory of a fragment made by [`Server::start`].
    pub fn fragment(&self, index: usize) -> PathBuf {
        self.place().directory.path().join(format!("f{index}"))
    }

    pub fn user(&self) -> User {
        self.place().user
    }

    /// What the server wrote to its standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.place().log()).unwrap()
    }

    /// Runs a program as the user, in the mount; its standard output. It must succeed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.try_run(program, arguments);
        assert!(output.status.success(), "{:?}: {program} {arguments:?}\n{}", self.user(), said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn try_run(&self, program: &str, arguments: &[&str]) -> Output {
        // The shell enters the directory as the user: root may not look into another user's mount.
        let mut command = self.user().command("/bin/sh");
        command.args(["-c", "cd \"$0\" && exec \"$@\""]).arg(self.mountpoint()).arg(program).args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    pub fn sh(&self, script: &str) -> String {
        self.run("/bin/sh", &["-euc", script])
    }

    pub fn python(&self, script: &str) -> String {
        self.run("python3", &["-c", &format!("import os, errno, sys, mmap, fcntl, struct\n{script}")])
    }

    /// Starts a shell script in the mount that talks over its standard input and output.
    pub fn converse(&self, script: &str) -> Conversation {
        let mut command = self.user().command("/bin/sh");
        let script = format!("cd \"$0\" && {{ {script}\n}}");
        let mut child = command
            .args(["-euc", &script])
            .arg(self.mountpoint())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Conversation { child, input, output }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        self.ended = true;
        status
    }

    /// Ends the server as a user would; gives its place back for another one.
    pub fn stop(mut self) -> Place {
        self.signal(rustix::process::Signal::TERM);
        assert!(self.wait().success());
        assert!(!is_mounted(&self.mountpoint()), "still mounted");
        self.place.take().unwrap()
    }

    /// Gives its place for another one while the server still runs.
    pub fn give_place(&mut self) -> Place {
        self.place.take().unwrap()
    }

    /// Kills the server; the dead mount stays.
    pub fn kill(mut self) -> Place {
        self.signal(rustix::process::Signal::KILL);
        self.wait();
        self.place.take().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        while is_mounted(&self.mountpoint()) {
            if rustix::mount::unmount(self.mountpoint(), flags).is_err() {
                break;
            }
        }
    }
}

/// A shell script and the test taking turns.
pub struct Conversation {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Something is mounted at exactly this path.
pub fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// Number of the uppermost mount at exactly this path, and of its device.
pub fn numbers(path: &Path) -> Option<(String, String)> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let mut mounts = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.rfind(|fields| fields.get(4).copied() == path.to_str())?;
    Some((found[0].to_owned(), found[2].to_owned()))
}

/// Waits for a condition that another process brings about; fails after a minute.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
