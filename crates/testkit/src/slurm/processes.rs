//! Processes of a host that its daemons have started.

use super::{HostId, LIMIT, Site, SiteError};
use crate::wait;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In the command line of a process that copies for a job.
const STAGING: &str = "agent-worker stage";

/// A process of a host that was stopped in the middle of its work. It does not go on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Where it is.
    pub host: HostId,
    /// Its number in the host.
    pub number: u32,
}

impl Site {
    /// Numbers, in the host, of the processes with these words somewhere in their command line.
    pub fn processes(&self, host: HostId, words: &str) -> Result<Vec<u32>, SiteError> {
        let table = self.process_table(host)?;
        let entries = fs::read_dir(&table).map_err(SiteError::file(&table))?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let matches = |number: &u32| command_line(&table, *number).contains(words);
        Ok(entries.flatten().filter_map(number).filter(matches).collect())
    }

    /// Kills them with SIGKILL, at least one, and awaits their end.
    pub fn kill_processes(&self, host: HostId, words: &str) -> Result<(), SiteError> {
        let found = self.processes(host, words)?;
        if found.is_empty() {
            return Err(SiteError::NoProcess { host, words: words.to_owned() });
        }
        self.signal_processes(host, "KILL", &found)?;
        let gone = || self.processes(host, words).is_ok_and(|now| !found.iter().any(|old| now.contains(old)));
        Ok(wait::wait_until("the end of killed processes", LIMIT, gone)?)
    }

    /// Awaits that a storage node copies for a job and has moved so many bytes, and stops the process that does it.
    pub fn pause_staging(&self, after_bytes: u64) -> Result<Paused, SiteError> {
        let mut found = None;
        wait::wait_until("the middle of a staging", LIMIT, || {
            found = self.staging(after_bytes);
            found.is_some()
        })?;
        let paused = found.expect("it was awaited");
        self.signal_processes(paused.host, "STOP", &[paused.number])?;
        let stopped = || self.process_state(paused) == Some('T');
        wait::wait_until("the stop of a staging", LIMIT, stopped)?;
        Ok(paused)
    }

    /// Lets it go on.
    pub fn resume(&self, paused: Paused) -> Result<(), SiteError> {
        self.signal_processes(paused.host, "CONT", &[paused.number])
    }

    /// Kills it and awaits its end.
    pub fn kill_paused(&self, paused: Paused) -> Result<(), SiteError> {
        self.signal_processes(paused.host, "KILL", &[paused.number])?;
        let gone = || matches!(self.process_state(paused), None | Some('Z'));
        Ok(wait::wait_until("the end of a killed process", LIMIT, gone)?)
    }

    /// A process that copies, is not stopped, and has moved so much already.
    fn staging(&self, after_bytes: u64) -> Option<Paused> {
        let servers = (0..self.options.storage_nodes).map(HostId::Server);
        let all = servers.flat_map(|host| {
            let numbers = self.processes(host, STAGING).unwrap_or_default();
            numbers.into_iter().map(move |number| Paused { host, number })
        });
        let moves = |process: &Paused| {
            self.process_state(*process) != Some('T') && self.moved(*process) >= after_bytes
        };
        all.into_iter().find(moves)
    }

    /// What it read and wrote as files.
    fn moved(&self, process: Paused) -> u64 {
        let text = self.process_file(process, "io").unwrap_or_default();
        let figure = |line: &str| {
            let counted = line.strip_prefix("rchar: ").or_else(|| line.strip_prefix("wchar: "))?;
            counted.trim().parse::<u64>().ok()
        };
        text.lines().filter_map(figure).sum()
    }

    /// `R`, `S`, `T`, ...; none if it is gone.
    fn process_state(&self, process: Paused) -> Option<char> {
        let text = self.process_file(process, "stat")?;
        text.rsplit_once(") ")?.1.chars().next()
    }

    fn process_file(&self, process: Paused, name: &str) -> Option<String> {
        let table = self.process_table(process.host).ok()?;
        fs::read_to_string(table.join(process.number.to_string()).join(name)).ok()
    }

    fn process_table(&self, host: HostId) -> Result<PathBuf, SiteError> {
        Ok(self.cluster().host(host).seen(Path::new("/proc"))?)
    }

    fn signal_processes(&self, host: HostId, signal: &str, numbers: &[u32]) -> Result<(), SiteError> {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{signal}")).args(numbers.iter().map(u32::to_string));
        self.cluster().host(host).success(&mut kill, LIMIT)?;
        Ok(())
    }
}

fn command_line(table: &Path, number: u32) -> String {
    let bytes = fs::read(table.join(number.to_string()).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
