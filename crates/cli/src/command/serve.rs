//! `forebay serve`: the server of a storage node.
//!
//! It stays in the foreground and says in one line on standard output that it serves and where. SIGTERM and SIGINT end it: connections
//! are closed, fragments are closed, and the clients wait for the next start. What it has to say meanwhile goes to
//! standard error.

use crate::args::ServeNode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use forebay_agent::node::{ServerConfig, ServerNode, Whereabouts};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;

/// Serves until SIGTERM.
pub fn serve(places: Places<'_>, serve: &ServeNode) -> Result<Exit, CommandError> {
    let config = ServerConfig::read(given(places)?)?;
    if serve.print_config {
        say::answer(config.render()).map_err(CommandError::Output)?;
        return Ok(Exit::Success);
    }
    // Modes are what callers say; a mask would change them.
    rustix::process::umask(rustix::fs::Mode::empty());
    // Before anything is opened, so that a signal that comes early is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CommandError::Signals)?;
    let node = ServerNode::start(&config)?;
    if let Some(complaint) = node.room().complaint() {
        say::note(complaint);
    }
    say::answer(ready(&config, node.whereabouts()) + "\n").map_err(CommandError::Output)?;
    signals.forever().next();
    let unclosed = node.stop();
    for (instance, error) in &unclosed {
        say::note(format_args!(
            "instance {instance} was not closed ({error}): its next start walks all files"
        ));
    }
    Ok(if unclosed.is_empty() { Exit::Success } else { Exit::Software })
}

fn ready(config: &ServerConfig, whereabouts: &Whereabouts) -> String {
    let instances: Vec<&str> = config.instances.iter().map(|instance| instance.name.as_str()).collect();
    let mut at: Vec<String> = whereabouts.addresses.iter().map(ToString::to_string).collect();
    at.extend(whereabouts.socket.iter().map(|socket| socket.display().to_string()));
    format!("forebay: serving {} at {}", instances.join(", "), at.join(", "))
}

/// The configuration of a server is never looked for: `--config` has to name it.
pub(super) fn given<'a>(places: Places<'a>) -> Result<&'a Path, CommandError> {
    places.config.ok_or_else(|| CommandError::Option {
        option: "--config".into(),
        problem: "the configuration of the server has to be named".into(),
    })
}
