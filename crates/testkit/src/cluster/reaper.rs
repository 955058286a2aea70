//! Removes the cluster's directory when the test is killed and cannot do it.
//!
//! A shell reads from a pipe that the test holds. A word means that the test lives and cleans up by itself; the end of the
//! pipe without a word means that it was killed. The hosts end by the same sign at the same time, so the shell tries for
//! a while. It never crosses into another file system: whatever is still mounted below keeps its files.

use super::ClusterError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `$1` is the directory. 100 tries of 0.1 s.
const SCRIPT: &str = r#"
read -r word && exit 0
for try in $(seq 100); do
    rm -rf --one-file-system -- "$1" 2> /dev/null
    test -e "$1" || exit 0
    sleep 0.1
done
exit 1
"#;

/// See the module.
#[derive(Debug)]
pub(super) struct Reaper {
    shell: Child,
}

impl Reaper {
    /// Watches over `directory`.
    pub(super) fn watch(directory: &Path) -> Result<Reaper, ClusterError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "reaper"]).arg(directory).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Keys pressed at the terminal end the test, not the reaper.
        let shell = shell.process_group(0).spawn().map_err(ClusterError::file("/bin/sh"))?;
        Ok(Reaper { shell })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.shell.wait();
    }
}
