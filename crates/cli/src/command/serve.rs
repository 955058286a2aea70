//! `forebay serve`: the server of a storage node.

use crate::args::ServeNode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use forebay_agent::node::ServerConfig;
use std::path::Path;

/// Serves until SIGTERM.
pub fn serve(places: Places<'_>, serve: &ServeNode) -> Result<Exit, CommandError> {
    let config = ServerConfig::read(given(places)?)?;
    if serve.print_config {
        say::answer(config.render()).map_err(CommandError::Output)?;
    }
    Ok(Exit::Success)
}

/// The configuration of a server is never looked for: `--config` has to name it.
pub(super) fn given<'a>(places: Places<'a>) -> Result<&'a Path, CommandError> {
    places.config.ok_or_else(|| CommandError::Option {
        option: "--config".into(),
        problem: "the configuration of the server has to be named".into(),
    })
}
