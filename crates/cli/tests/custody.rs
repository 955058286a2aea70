//! The daemons rely on nothing that others than root could change, and on no secret that others could have read: each such thing
//! is refused at the start with a sentence that names it, and as it was before they start. Needs root, as they do.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A user and a group that nobody trusts.
const STRANGER: u32 = 4321;
/// What the supervisor does not try again.
const REFUSED: i32 = 78;

/// A daemon with its files, in a directory of its own.
struct Place {
    directory: tempfile::TempDir,
    daemon: &'static str,
}

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    /// A daemon that has run once, so that all its files are there.
    fn new(daemon: &'static str) -> Place {
        assert!(rustix::process::geteuid().is_root(), "these tests need root");
        let place = Place { directory: tempfile::tempdir().unwrap(), daemon };
        for name in ["etc", "disk"] {
            fs::create_dir(place.at(name)).unwrap();
        }
        let at = |name: &str| place.at(name).display().to_string();
        let text = match daemon {
            "controller" => format!("socket = '{}'\nstate = '{}'\n", at("c.sock"), at("state")),
            _ => format!(
                "node = 'n'\ncontroller = 'unix:{}'\nstate = '{}'\n[storage]\npool = 'p'\ndirectory = '{}'\nkind = 'directory'\n\
                 capacity = '64MiB'\ngranularity = '16MiB'\nlisten = '127.0.0.1:7070'\nsocket = '{}'\n",
                at("none.sock"),
                at("state"),
                at("disk"),
                at("server.sock")
            ),
        };
        fs::write(place.at("etc/daemon.toml"), text).unwrap();
        place.starts();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.arg("--config").arg(self.at("etc/daemon.toml")).arg(self.daemon);
        command
    }

    /// It says that it is ready.
    fn starts(&self) {
        let mut child = Running(self.command().stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("forebay: "), "it did not start: {line:?}");
    }

    /// What it says when it does not start.
    fn refuses(&self) -> String {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running(command.spawn().unwrap());
        // It says that it is ready, or it ends.
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "", "it started");
        let mut said = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(REFUSED), "{said}");
        said
    }

    /// Refused while the thing has this mode, and not before and after.
    fn refuses_mode(&self, name: &str, mode: u32) {
        let path = self.at(name);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        self.names(name, &format!("(mode {mode:04o})"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode, "it was changed");
        fs::set_permissions(&path, before).unwrap();
    }

    /// Refused while the thing is a stranger's.
    fn refuses_owner(&self, name: &str) {
        chown(self.at(name), Some(STRANGER), None).unwrap();
        self.names(name, &format!("belongs to user {STRANGER}"));
        chown(self.at(name), Some(0), None).unwrap();
    }

    fn names(&self, name: &str, problem: &str) {
        let (said, path) = (self.refuses(), self.at(name).canonicalize().unwrap());
        let is_named = said.contains(&format!("{path:?}")) && said.contains(problem) && said.contains(": ch");
        assert!(is_named && said.trim_end().lines().count() == 1, "{name}: {said}");
    }
}

/// A link to a file instead of the file.
fn behind_a_link(file: &Path, link_in: &Path) {
    let moved = link_in.join("moved");
    fs::rename(file, &moved).unwrap();
    symlink(&moved, file).unwrap();
}

#[test]
fn the_controller_relies_on_nothing_that_others_could_change() {
    let place = Place::new("controller");
    for (name, mode) in [
        ("etc", 0o777),
        ("etc/daemon.toml", 0o666),
        ("state", 0o777),
        ("state", 0o1777),
        ("state/secret", 0o644),
        ("state/secret", 0o606),
        ("state/registry.sqlite", 0o602),
    ] {
        place.refuses_mode(name, mode);
    }
    for name in ["etc", "etc/daemon.toml", "state", "state/secret", "state/registry.sqlite"] {
        place.refuses_owner(name);
    }
    place.starts();
}

#[test]
fn the_agent_relies_on_nothing_that_others_could_change() {
    let place = Place::new("agent");
    for (name, secret) in [("7.toml", "no secret"), ("7.token", "token"), ("7.seal", "seal")] {
        fs::write(place.at("state/instances").join(name), secret.repeat(8)).unwrap();
        fs::set_permissions(place.at("state/instances").join(name), Permissions::from_mode(0o600)).unwrap();
    }
    for (name, mode) in [
        ("etc", 0o777),
        ("etc/daemon.toml", 0o666),
        ("state", 0o777),
        ("state/instances", 0o755),
        ("state/mounts", 0o711),
        ("state/instances/7.token", 0o644),
        ("state/instances/7.seal", 0o604),
        ("disk", 0o777),
        ("disk", 0o1777),
    ] {
        place.refuses_mode(name, mode);
    }
    for name in ["etc", "etc/daemon.toml", "state", "state/instances/7.token", "disk"] {
        place.refuses_owner(name);
    }
    place.starts();
}

#[test]
fn groups_are_others_unless_they_are_roots() {
    let place = Place::new("agent");
    fs::set_permissions(place.at("disk"), Permissions::from_mode(0o775)).unwrap();
    place.starts();
    chown(place.at("disk"), None, Some(STRANGER)).unwrap();
    place.names("disk", "(mode 0775)");
    fs::set_permissions(place.at("disk"), Permissions::from_mode(0o750)).unwrap();
    place.starts();
}

#[test]
fn a_link_leads_nowhere_that_others_could_change() {
    let place = Place::new("controller");
    let open = place.at("open");
    fs::create_dir(&open).unwrap();
    behind_a_link(&place.at("etc/daemon.toml"), &open);
    place.starts();
    place.refuses_mode("open", 0o777);
    fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
    place.starts();
    chown(open.join("moved"), Some(STRANGER), None).unwrap();
    place.names("open/moved", "belongs to user");
}
