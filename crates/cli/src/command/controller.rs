//! `forebay controller`: the daemon that allocates a cluster's burst buffer.
//!
//! It stays in the foreground and says in one line on standard output that it is ready and where it listens. SIGTERM and
//! SIGINT end it; who waits for an answer then asks the next one. What is refused and what goes wrong goes to standard
//! error, one line each. When it cannot write its registry it ends with a status that tells its supervisor to start it
//! again: what it has answered is on the disk.

use super::accounts::accountant;
use crate::args::Controller;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use forebay_controller::custody;
use forebay_controller::service::{Config, Service};
use rustix::fs::Mode;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;

/// Where the configuration is, unless `--config` names another.
const CONFIG_FILE: &str = "/etc/forebay/controller.toml";

/// Runs until SIGTERM.
pub fn controller(places: Places<'_>, controller: &Controller) -> Result<Exit, CommandError> {
    let file = places.config.unwrap_or(Path::new(CONFIG_FILE));
    let config = Config::read(file)?;
    if controller.print_config {
        say::answer(config.render()).map_err(CommandError::Output)?;
        return Ok(Exit::Success);
    }
    custody::unchangeable(file)?;
    // What it makes is nobody else's; the socket gets its mode when it is there.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    // Before anything is opened, so that a signal that comes early is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CommandError::Signals)?;
    let service = Service::start_with(&config, Some(accountant()))?;
    let stopper = service.stopper();
    let handle = signals.handle();
    let waiting = std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    say::answer(ready(&service) + "\n").map_err(CommandError::Output)?;
    let ended = service.wait();
    handle.close();
    drop(waiting.join());
    ended?;
    Ok(Exit::Success)
}

fn ready(service: &Service) -> String {
    let mut at: Vec<String> = service.addresses().iter().map(ToString::to_string).collect();
    at.extend(service.socket().map(|socket| format!("unix:{}", socket.display())));
    format!("forebay: controller ready at {}", at.join(", "))
}
