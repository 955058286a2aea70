//! Entry of the instance process.
//!
//! Order of events: signals of terminals and of a shutdown are ignored (the attachments decide when to end) - the life
//! lock is taken - fragments are opened - connections are served - all is unmounted and closed. Standard input is the
//! listening socket, standard output and error are the log. A crash anywhere drops the lock; what was mounted is then
//! removed by the next attach or clean-up.

use super::lifelock::{self, LifeLock};
use super::log_tail::{self, note};
use super::server::Server;
use super::service::Service;
use super::spawn::OPTION;
use crate::state_directory::StateDirectory;
use forebay_model::ids::InstanceId;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the instance process. `arguments` are those after the subcommand: `--directory <state directory>`.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(state) = parse(arguments) else {
        note(format_args!(
            "usage: {} {OPTION} <state directory>: started by the agent only",
            super::spawn::SUBCOMMAND
        ));
        return ExitCode::from(64);
    };
    match run(&state) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("instance {}: {error}", state.instance()));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<StateDirectory> {
    let mut arguments = arguments.into_iter();
    let (option, directory) = (arguments.next()?, PathBuf::from(arguments.next()?));
    if option != OPTION || arguments.next().is_some() {
        return None;
    }
    let instance = InstanceId(directory.file_name()?.to_str()?.parse().ok()?);
    Some(StateDirectory::new(directory.parent()?, instance))
}

fn run(state: &StateDirectory) -> Result<(), Box<dyn std::error::Error>> {
    ignore_signals();
    // Modes are what callers say; a mask would change them.
    rustix::process::umask(rustix::fs::Mode::empty());
    let listener = listener()?;
    let Some(lock) = LifeLock::take(&lifelock::path(state))? else {
        return Err("another process serves this instance".into());
    };
    log_tail::begin();
    let server = Server::new(state.clone(), listener);
    let result = match Service::open(state) {
        Ok(service) => server.run(service),
        Err(error) => {
            let reason = error.to_string();
            server.refuse(&reason);
            return Err(reason.into());
        }
    };
    drop(lock);
    result.map_err(Into::into)
}

/// The terminal's signals are for the job, and at a shutdown the attachments still have to unmount and stage out: they
/// end this process when they are done.
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM, libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// The socket that came as standard input.
fn listener() -> Result<UnixListener, std::io::Error> {
    let listener = UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    // A socket, and one that listens: anything else means that somebody else started us.
    listener.local_addr()?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(listener)
}
