//! Processes of a host that its daemons have started.

use super::{HostId, LIMIT, Site, SiteError};
use crate::wait;
use std::fs;
use std::path::Path;
use std::process::Command;

impl Site {
    /// Numbers, in the host, of the processes with these words somewhere in their command line.
    pub fn processes(&self, host: HostId, words: &str) -> Result<Vec<u32>, SiteError> {
        let table = self.cluster().host(host).seen(Path::new("/proc"))?;
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
        let mut kill = Command::new("kill");
        kill.arg("-9").args(found.iter().map(u32::to_string));
        self.cluster().host(host).success(&mut kill, LIMIT)?;
        let gone = || self.processes(host, words).is_ok_and(|now| !found.iter().any(|old| now.contains(old)));
        Ok(wait::wait_until("the end of killed processes", LIMIT, gone)?)
    }
}

fn command_line(table: &Path, number: u32) -> String {
    let bytes = fs::read(table.join(number.to_string()).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
