//! A controller in a process of its own, which can be killed and whose log can be read, and a munged with a key of its own.

use forebay_controller::munge::Munge;
use forebay_controller::service::{Config, Service};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CONFIG: &str = "FOREBAY_TEST_CONTROLLER";
const READY: &str = "ready ";

/// The process; killed at the latest when the test ends.
pub struct Controller {
    child: Child,
    log: PathBuf,
    /// Where it listens on the network.
    pub addresses: Vec<String>,
}

impl Controller {
    /// Starts it with a configuration and waits until it is ready.
    pub fn start(directory: &Path, config: &str) -> Controller {
        let (file, log) = (directory.join("controller.toml"), directory.join("controller.log"));
        std::fs::write(&file, config).unwrap();
        let errors = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "process::controller"])
            .env(CONFIG, &file)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ready = lines.map_while(Result::ok).filter_map(|line| {
            // The harness writes the test's name before it, on the same line.
            line.find(READY).map(|at| line[at + READY.len()..].to_owned())
        });
        let Some(ready) = ready.next() else {
            drop(child.wait());
            panic!("no controller: {}", std::fs::read_to_string(&log).unwrap());
        };
        let addresses = ready.split_whitespace().map(str::to_owned).collect();
        Controller { child, log, addresses }
    }

    /// As a power cut does it, as far as a process can.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its own end.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the process that other tests start"]
fn controller() {
    let file = std::env::var_os(CONFIG).expect("started by other tests only");
    let service = Service::start(&Config::read(Path::new(&file)).unwrap()).unwrap();
    let addresses: Vec<String> = service.addresses().iter().map(ToString::to_string).collect();
    let mut out = std::io::stdout();
    writeln!(out, "{READY}{}", addresses.join(" ")).unwrap();
    out.flush().unwrap();
    service.wait().unwrap();
}

/// A munged with a new key, in a directory that everybody may enter.
pub struct Munged {
    child: Child,
    directory: tempfile::TempDir,
}

/// Lets a program believe in another time, from the package faketime. The dynamic linker puts the machine's directory in.
const FAKETIME: &str = "/usr/$LIB/faketime/libfaketimeMT.so.1";

impl Munged {
    pub fn start() -> Munged {
        let mut key = [0; 128];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut key).unwrap();
        Munged::with(&key, None)
    }

    /// One with the same key on a machine whose clock is so many seconds ahead, or behind if there are less than none.
    pub fn elsewhere(&self, ahead_s: i64) -> Munged {
        Munged::with(&std::fs::read(self.directory.path().join("key")).unwrap(), Some(ahead_s))
    }

    fn with(key: &[u8], ahead_s: Option<i64>) -> Munged {
        let directory = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("key"), key).unwrap();
        std::fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let option = |name: &str, file: &str| format!("--{name}={}", at(file).display());
        let mut command = Command::new("munged");
        command
            .args(["--foreground", "--force"])
            .args([option("key-file", "key"), option("socket", "socket"), option("log-file", "log")])
            .args([option("pid-file", "pid"), option("seed-file", "seed")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(ahead_s) = ahead_s {
            command.env("LD_PRELOAD", FAKETIME).env("FAKETIME", format!("{ahead_s:+}"));
        }
        let child = command.spawn().expect("munged of the package munge: make setup");
        let munged = Munged { child, directory };
        let munge = munged.munge();
        crate::place::await_it("munged answers", || munge.check().is_ok());
        munged
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn munge(&self) -> Munge {
        Munge::new(Some(&self.socket()))
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
