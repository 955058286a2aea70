//! The commands of `forebay`, one module each, and what they share.

mod accounts;
pub mod agent;
pub mod check;
pub mod config;
pub mod controller;
pub mod fsck;
pub mod mount;
pub mod persistent;
pub mod recover;
pub mod run;
pub mod script_file;
pub mod serve;
pub mod shell;
pub mod status;
pub mod umount;

use crate::args::{Arguments, Command};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::interrupt::outlive_file_size_limit;
use crate::machine::Places;
use std::process::ExitCode;

/// Carries out a command line.
pub fn main(arguments: Arguments) -> ExitCode {
    let places = Places { state_dir: arguments.state_dir.as_deref(), config: arguments.config.as_deref() };
    if let Err(error) = outlive_file_size_limit() {
        return report(&CommandError::Signals(error)).into();
    }
    let done = match arguments.command {
        Command::Run(run) => run::run(places, run),
        Command::Shell(shell) => shell::shell(places, shell),
        Command::Check(check) => check::check(places, &check),
        Command::CreatePersistent(create) => persistent::create_command(places, &create),
        Command::DestroyPersistent(destroy) => persistent::destroy_command(places, &destroy),
        Command::Recover(recover) => recover::recover(places, &recover),
        Command::Config(pool) => config::config(places, &pool),
        Command::Serve(serve) => serve::serve(places, &serve),
        Command::Agent(agent) => agent::agent(places, &agent),
        Command::AgentWorker { arguments } => return forebay_agent::daemon::worker::main(arguments),
        Command::Controller(controller) => controller::controller(places, &controller),
        Command::Doctor(doctor) => crate::doctor::command::doctor(&doctor),
        Command::Mount(mount) => mount::mount(&mount),
        Command::Status(status) => status::status(places, &status),
        Command::Umount(umount) => umount::umount(&umount),
        Command::Fsck(fsck) => fsck::fsck(places, &fsck),
        Command::ScriptProcess { arguments } => return crate::job::held::main(arguments),
        Command::InstanceProcess { arguments } => return forebay_agent::process::main(arguments),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => report(&error).into(),
    }
}

/// Tells an error to the user and gives its status.
fn report(error: &CommandError) -> Exit {
    crate::say::note(error);
    error.exit()
}
