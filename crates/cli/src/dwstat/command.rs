//! `dwstat` as a process: reads the state and prints.
//!
//! The state is the cluster's where a controller is named (`FOREBAY_CONTROLLER`, `/etc/forebay/client.toml`), else that of
//! the user's own jobs on this machine; `--state-dir` and `FOREBAY_STATE_DIR` always mean the latter. Makes and changes
//! nothing, and waits for no job: it works while others write, and where nothing was ever recorded.
//!
//! Slurm runs it for whoever asks, with whatever words they give, as Slurm's user and for at most two seconds. So it looks
//! into no directory of somebody else, and gives a controller that does not answer up early.

use super::object::Object;
use super::options::{Request, Show, USAGE, UsageError, parse};
use super::tables::Tables;
use super::{Options, render};
use crate::say;
use crate::state_dir::{STATE_DIR_VARIABLE, StateDir, StateDirError};
use forebay_controller::client::{Address, AddressError, Client, ClientError};
use forebay_controller::cluster::view::Shown;
use forebay_controller::error::RegistryError;
use forebay_controller::registry::{Registry, Snapshot};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use thiserror::Error;

/// The command line was wrong.
const EXIT_USAGE: u8 = 2;
/// The state could not be read or shown.
const EXIT_FAILURE: u8 = 1;
/// Names the controller for one process; see `Address::named`.
const CONTROLLER_VARIABLE: &str = "FOREBAY_CONTROLLER";
/// How long a controller that is away is tried. Slurm ends dwstat after two seconds, with nothing to tell.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
enum DwstatError {
    #[error("{0} (dwstat --help explains them)")]
    Usage(#[from] UsageError),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("--state-dir {path:?} belongs to uid {owner}: dwstat shows uid {uid} only its own jobs")]
    NotYours { path: PathBuf, owner: u32, uid: u32 },
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// Runs the command with the arguments behind its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let status = parse(args).map_err(DwstatError::from).and_then(|request| match request {
        Request::Help => print(USAGE),
        Request::Version => print(&format!("dwstat (forebay) {}\n", env!("CARGO_PKG_VERSION"))),
        Request::Show(show) => answer(&show),
    });
    match status {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::plain(format_args!("dwstat: {error}\n"));
            ExitCode::from(if matches!(error, DwstatError::Usage(_)) { EXIT_USAGE } else { EXIT_FAILURE })
        }
    }
}

fn print(text: &str) -> Result<(), DwstatError> {
    say::at_length(|out| out.write_all(text.as_bytes())).map_err(DwstatError::Output)
}

fn answer(show: &Show) -> Result<(), DwstatError> {
    let options = Options {
        objects: show.objects.clone(),
        sizes: show.sizes,
        cache_details: show.cache_details,
        json: show.json,
        zone: TimeZone::system(),
        now: Timestamp::now().as_second(),
    };
    let asked = tables(&show.objects, show.json);
    match controller(show)?.map(|address| Client::open(address).with_patience(PATIENCE)) {
        None => print(&render(&of_this_machine(show.state_dir.as_deref())?, &options)),
        Some(client) if show.json => print(&render(&client.look(&asked)?, &options)),
        Some(client) => {
            let mut tables = Tables::new(&options);
            client.look_through(&asked, &mut tables)?;
            say::at_length(|out| tables.write(&options.objects, out)).map_err(DwstatError::Output)
        }
    }
}

/// The controller to be asked, if it is the cluster's state that is meant.
fn controller(show: &Show) -> Result<Option<Address>, DwstatError> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let local = show.state_dir.is_some() || (is_set(STATE_DIR_VARIABLE) && !is_set(CONTROLLER_VARIABLE));
    if local { Ok(None) } else { Ok(Address::named()?) }
}

/// What has to be asked for to show these objects.
fn tables(objects: &[Object], json: bool) -> Vec<Shown> {
    let mut tables: Vec<Shown> = objects.iter().filter_map(|object| Shown::named(object.name())).collect();
    // In JSON an instance names its configurations.
    if json && tables.contains(&Shown::Instances) && !tables.contains(&Shown::Configurations) {
        tables.push(Shown::Configurations);
    }
    tables
}

fn of_this_machine(state_dir: Option<&Path>) -> Result<Snapshot, DwstatError> {
    if let Some(path) = state_dir {
        check_owner(path)?;
    }
    let file = StateDir::from_environment(state_dir)?.registry();
    if let Some(registry) = Registry::open_for_reading(&file)? {
        return Ok(registry.snapshot()?);
    }
    say::plain(format_args!(
        "dwstat: nothing is recorded in {} yet; the first `forebay run` sets up a pool\n",
        file.display()
    ));
    Ok(Snapshot::default())
}

/// A directory that is named must be the caller's own: what reads it may run for somebody else.
fn check_owner(path: &Path) -> Result<(), DwstatError> {
    let uid = rustix::process::geteuid().as_raw();
    match std::fs::metadata(path).map(|metadata| metadata.uid()) {
        Ok(owner) if owner != uid => Err(DwstatError::NotYours { path: path.to_owned(), owner, uid }),
        _ => Ok(()),
    }
}
