//! Where `dw_wlm_cli` writes its log: `FOREBAY_LOG`, else `log = "FILE"` in the machine's client file, else syslog.
//!
//! What the file says about the controller is read by the controller's client. A file that cannot be used is told there;
//! here it only means that the log goes to syslog.

use forebay_controller::client::CONFIG_FILE;
use serde::Deserialize;
use std::path::PathBuf;

/// Names the log for one process.
pub const LOG_VARIABLE: &str = "FOREBAY_LOG";

#[derive(Default, Deserialize)]
struct File {
    log: Option<PathBuf>,
}

/// The file that is configured.
pub fn log_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(LOG_VARIABLE).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let text = std::fs::read_to_string(CONFIG_FILE).ok()?;
    log_of(&text)
}

fn log_of(text: &str) -> Option<PathBuf> {
    toml::from_str::<File>(text).unwrap_or_default().log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stands_beside_others() {
        assert_eq!(log_of("controller = \"head:4040\"\nlog = \"/var/log/x\"\n"), Some("/var/log/x".into()));
        assert_eq!(log_of("controller = \"head:4040\"\n"), None);
        assert_eq!(log_of("log = 7"), None);
    }
}
