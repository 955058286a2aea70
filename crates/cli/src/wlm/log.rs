//! Where `dw_wlm_cli` writes what it did, since its streams belong to Slurm.
//!
//! Syslog, or a file if one is configured. One line for each call, written at its end with one write, so that lines of
//! calls at the same time do not mix. What cannot be written is lost: a call never fails, or waits, for its log.

use super::text::one_line;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where the system's log is reached.
const SYSLOG: &str = "/dev/log";
/// Facility `daemon` of syslog(3), times eight.
const DAEMON: u8 = 3 << 3;
/// Longest line.
const LINE_MAX: usize = 2000;

/// How bad it is, as in syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The call failed.
    Error = 3,
    /// The call was carried out.
    Info = 6,
}

/// A log.
#[derive(Debug)]
pub enum Log {
    /// A file.
    File(File),
    /// Syslog.
    System(UnixDatagram),
    /// There is none.
    None,
}

impl Log {
    /// The file, if one is named and can be written; else syslog, if there is one.
    pub fn open(file: Option<&Path>) -> Log {
        let opened = file.and_then(|path| {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o640)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)
                .ok()
        });
        opened.map(Log::File).or_else(system).unwrap_or(Log::None)
    }

    /// Writes a line.
    pub fn write(&mut self, severity: Severity, text: &str) {
        let process = std::process::id();
        let text: String = one_line(text).chars().take(LINE_MAX).collect();
        // A log that does not take it must not hold up Slurm.
        let _ = match self {
            Log::File(file) => {
                let now = jiff::Timestamp::now();
                file.write_all(format!("{now:.3} dw_wlm_cli[{process}]: {text}\n").as_bytes())
            }
            Log::System(socket) => {
                let priority = DAEMON | severity as u8;
                socket.send(format!("<{priority}>dw_wlm_cli[{process}]: {text}").as_bytes()).map(drop)
            }
            Log::None => Ok(()),
        };
    }
}

fn system() -> Option<Log> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect(SYSLOG).ok()?;
    Some(Log::System(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_one_line_a_call() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for text in ["setup 7: done", "teardown\n8: failed"] {
            Log::open(Some(&path)).write(Severity::Info, text);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with(&format!("dw_wlm_cli[{}]: setup 7: done", std::process::id())));
        assert!(lines[1].ends_with("teardown 8: failed"));
    }
}
