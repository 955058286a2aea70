//! `dwstat` as a process: reads the registry of the user's state directory and prints.
//!
//! Makes and changes nothing, and waits for no job: it works while others write, and where nothing was ever recorded.

use super::options::{Request, Show, USAGE, UsageError, parse};
use super::{Options, render};
use crate::say;
use crate::state_dir::{StateDir, StateDirError};
use forebay_controller::error::RegistryError;
use forebay_controller::registry::{Registry, Snapshot};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use thiserror::Error;

/// The command line was wrong.
const EXIT_USAGE: u8 = 2;
/// The state could not be read or shown.
const EXIT_FAILURE: u8 = 1;

#[derive(Debug, Error)]
enum DwstatError {
    #[error("{0} (dwstat --help explains them)")]
    Usage(#[from] UsageError),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// Runs the command with the arguments behind its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let answer = parse(args).map_err(DwstatError::from).and_then(|request| match request {
        Request::Help => Ok(USAGE.to_owned()),
        Request::Version => Ok(format!("dwstat (forebay) {}\n", env!("CARGO_PKG_VERSION"))),
        Request::Show(show) => answer(&show),
    });
    let status = answer.and_then(|text| say::answer(text).map_err(DwstatError::Output));
    match status {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::plain(format_args!("dwstat: {error}\n"));
            ExitCode::from(if matches!(error, DwstatError::Usage(_)) { EXIT_USAGE } else { EXIT_FAILURE })
        }
    }
}

fn answer(show: &Show) -> Result<String, DwstatError> {
    let file = StateDir::from_environment(show.state_dir.as_deref())?.registry();
    let snapshot = match Registry::open_for_reading(&file)? {
        Some(registry) => registry.snapshot()?,
        None => {
            say::plain(format_args!(
                "dwstat: nothing is recorded in {} yet; the first `forebay run` sets up a pool\n",
                file.display()
            ));
            Snapshot::default()
        }
    };
    let options = Options {
        objects: show.objects.clone(),
        sizes: show.sizes,
        cache_details: show.cache_details,
        json: show.json,
        zone: TimeZone::system(),
        now: Timestamp::now().as_second(),
    };
    Ok(render(&snapshot, &options))
}
