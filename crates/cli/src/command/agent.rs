//! `forebay agent`: the daemon that carries out the controller's orders on a node.
//!
//! It stays in the foreground, says in one line on standard output that it works, and for whom. SIGTERM and SIGINT end it: what it
//! has started (the file server, mounts, stagings) goes on, and the next agent finds it. What goes wrong is said on standard
//! error, one line each.

use crate::args::Agent as AgentArguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use forebay_agent::daemon::{Agent, AgentConfig, Node, Stop};
use forebay_controller::client::Client;
use forebay_controller::custody;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;

/// Where the configuration is, unless `--config` names another.
const CONFIG_FILE: &str = "/etc/forebay/agent.toml";

/// Works until SIGTERM.
pub fn agent(places: Places<'_>, agent: &AgentArguments) -> Result<Exit, CommandError> {
    let file = places.config.unwrap_or(Path::new(CONFIG_FILE));
    let config = AgentConfig::read(file)?;
    if agent.print_config {
        say::answer(config.render()).map_err(CommandError::Output)?;
        return Ok(Exit::Success);
    }
    if !rustix::process::geteuid().is_root() {
        let (option, problem) = ("agent".into(), "it has to be started as root, because it mounts".into());
        return Err(CommandError::Option { option, problem });
    }
    custody::unchangeable(file)?;
    let address = config.controller_address()?;
    let ready = format!("forebay: agent of node {} asks the controller at {address}\n", config.node);
    // Before anything is begun, so that a signal that comes early is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CommandError::Signals)?;
    let stop = Stop::default();
    let node = Node::open(config)?;
    let daemon = Agent::open(node, Client::open(address), stop.clone())?;
    let wait = move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(CommandError::Signals)?;
    say::answer(ready).map_err(CommandError::Output)?;
    daemon.run()?;
    Ok(Exit::Success)
}
