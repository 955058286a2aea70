//! Shows what the daemons said when a test fails.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of each log that are shown.
const LINES_SHOWN: usize = 60;

/// See the module. Dropped in a panic, it prints.
#[derive(Debug)]
pub(super) struct Witness {
    hosts: Vec<PathBuf>,
}

impl Witness {
    /// Looks at the logs in these directories.
    pub(super) fn new<'a>(hosts: impl Iterator<Item = &'a Path>) -> Witness {
        Witness { hosts: hosts.map(Path::to_owned).collect() }
    }

    fn logs(&self) -> Vec<PathBuf> {
        let entries = self.hosts.iter().flat_map(fs::read_dir).flatten().flatten();
        let mut logs: Vec<_> = entries.map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        logs
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for log in self.logs() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(LINES_SHOWN);
            eprintln!("--- {} ends with:\n{}", log.display(), lines[from..].join("\n"));
        }
    }
}
