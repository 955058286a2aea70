//! `forebay controller` as its supervisor sees it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Ended when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("--config").arg(config).arg("controller");
    command
}

/// Starts it and gives its ready line.
fn start(config: &Path) -> (Daemon, String) {
    let mut child = command(config).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Daemon(child), line)
}

fn write(directory: &Path, more: &str) -> std::path::PathBuf {
    let at = |name: &str| directory.join(name).display().to_string();
    let text = format!(
        "socket = '{}'\nstate = '{}'\n{more}\n[[pool]]\nname = 'p'\ngranularity = '16MiB'\n",
        at("run/c.sock"),
        at("state")
    );
    let path = directory.join("controller.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_says_where_it_listens_answers_and_ends_when_told() {
    let directory = tempfile::tempdir().unwrap();
    let config = write(directory.path(), "");
    let socket = directory.path().join("run/c.sock");
    for _ in 0..2 {
        let (mut daemon, line) = start(&config);
        assert_eq!(line, format!("forebay: controller ready at unix:{}\n", socket.display()));
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /v1/pools HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(r#""name":"p""#), "{answer}");
        let second = command(&config).output().unwrap();
        assert_eq!(second.status.code(), Some(69), "{}", text(&second));
        assert!(text(&second).contains("another controller"), "{}", text(&second));
        let pid = rustix::process::Pid::from_child(&daemon.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
        assert!(!socket.exists());
    }
}

#[test]
fn what_it_makes_is_nobody_elses_but_its_socket() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let (_daemon, _) = start(&write(directory.path(), ""));
    let mode =
        |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run"), 0o755);
    assert_eq!(mode("run/c.sock"), 0o666);
    assert_eq!(mode("state"), 0o700);
    for name in ["state/registry.sqlite", "state/secret", "state/lock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn a_configuration_is_printed_or_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let config = write(directory.path(), "registry = 'mine'");
    let printed = command(&config).arg("--print-config").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("registry = \"mine\"") && printed.contains("lost_after_s = 60"), "{printed}");
    assert!(!directory.path().join("state").exists(), "printing makes nothing");
    let refused = command(&write(directory.path(), "lost_after = 5")).output().unwrap();
    assert_eq!(refused.status.code(), Some(78));
    assert!(text(&refused).contains("lost_after") && text(&refused).contains("line 3"), "{}", text(&refused));
    let missing = command(&directory.path().join("none.toml")).output().unwrap();
    assert_eq!(missing.status.code(), Some(78));
    assert!(text(&missing).contains("none.toml"), "{}", text(&missing));
}
