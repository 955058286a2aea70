//! Where the controller is.

use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Names the controller for a command.
pub const VARIABLE: &str = "FOREBAY_CONTROLLER";
/// Names the controller for a machine: `controller = "host:port"`.
pub const CONFIG_FILE: &str = "/etc/forebay/client.toml";
/// Where the controller listens on its own machine.
pub const DEFAULT_SOCKET: &str = "/run/forebay/controller.sock";

/// Where the controller is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket on this machine.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

/// Why the address is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A text that is no address.
    #[error(
        "{text:?} is no address of a controller: write host:port, or unix: and the full path of its socket"
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The file cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    controller: String,
    /// Where `dw_wlm_cli` writes its log, which is nothing to this crate.
    #[serde(rename = "log")]
    _log: Option<PathBuf>,
}

impl Address {
    /// The address that is configured: `FOREBAY_CONTROLLER`, else the machine's file, else the usual socket.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn configured() -> Result<Address, AddressError> {
        let named = Address::named_by(std::env::var_os(VARIABLE).as_deref(), Path::new(CONFIG_FILE))?;
        Ok(named.unwrap_or_else(|| Address::Unix(DEFAULT_SOCKET.into())))
    }

    /// The address that somebody configured; `None` where nobody did, and no cluster needs to be there.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn named() -> Result<Option<Address>, AddressError> {
        Address::named_by(std::env::var_os(VARIABLE).as_deref(), Path::new(CONFIG_FILE))
    }

    fn named_by(variable: Option<&std::ffi::OsStr>, path: &Path) -> Result<Option<Address>, AddressError> {
        if let Some(text) = variable.filter(|text| !text.is_empty()) {
            return text.to_string_lossy().parse().map(Some);
        }
        let fail = |reason: String| AddressError::File { path: path.to_owned(), reason };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error.to_string())),
        };
        let file: File = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        file.controller.parse().map(Some)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let bad = || AddressError::Form { text: text.chars().take(300).collect() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Address::Unix(path.into())) } else { Err(bad()) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/';
        if host.is_empty() || host.contains(odd) || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        Ok(Address::Tcp(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_file_and_the_file_before_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("client.toml");
        assert_eq!(Address::named_by(None, &path), Ok(None));
        std::fs::write(&path, "controller = \"head:4040\"\nlog = \"/var/log/wlm\"\n").unwrap();
        assert_eq!(Address::named_by(None, &path), Ok(Some(Address::Tcp("head:4040".into()))));
        let variable = std::ffi::OsStr::new("unix:/run/x.sock");
        assert_eq!(Address::named_by(Some(variable), &path), Ok(Some(Address::Unix("/run/x.sock".into()))));
        std::fs::write(&path, "controler = \"head:4040\"\n").unwrap();
        let error = Address::named_by(None, &path).unwrap_err().to_string();
        assert!(error.contains("controler") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "head", "unix:relative", ":4040", "head:", "head:99999", "a b:1", "http://head:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert_eq!("[::1]:4040".parse::<Address>().unwrap().to_string(), "[::1]:4040");
    }
}
