//! A program that plays a role: this test program run again, by a shell script that the scene keeps.
//!
//! The script starts the one test `roles::play` and says in the environment which role to play; the scene's path is among the
//! arguments, by which left-over processes are found.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the words of a role stand.
pub const ARGUMENTS: &str = "FOREBAY_TEST_ARGUMENTS";

/// The script of a scene, which runs `me`, this program or a copy of it. `words` are those of its arguments that the role gets, and
/// `shown` those that stand in its command line, as the shell writes them.
pub fn script(root: &Path, me: &Path, (words, shown): (&str, &str)) -> PathBuf {
    let script = root.join("role.sh");
    if !script.exists() {
        let text = format!(
            "#!/bin/sh\nexec env {ARGUMENTS}=\"{words}\" {} --exact roles::play --nocapture --ignored --test-threads 1 {} {shown}\n",
            me.display(),
            root.display()
        );
        // Written by a process of its own: a file that is open for writing cannot be run, and a child forked by another
        // test at this moment would inherit it.
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let written = Command::new("sh").args(["-c", write, "sh", &text]).arg(&script).status().unwrap();
        assert!(written.success());
    }
    script
}
