//! `forebay shell`: an interactive job, as with `salloc --bbf`.

use super::run::{Request, size_option};
use super::script_file::{Form, ScriptFile};
use crate::args::Shell;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::job::script::{Input, ScriptCommand};
use crate::machine::Places;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Runs a shell, or a command, with a burst buffer around it.
pub fn shell(places: Places<'_>, arguments: Shell) -> Result<Exit, CommandError> {
    let script = directives(&arguments)?;
    let mut words = arguments.command.into_iter();
    let program = words.next().or_else(|| std::env::var_os("SHELL").filter(|shell| !shell.is_empty()));
    let interactive = ScriptCommand {
        program: program.map_or_else(|| PathBuf::from("/bin/sh"), PathBuf::from),
        arguments: words.collect(),
        directory: std::env::current_dir().map_err(CommandError::file("find", "."))?,
        variables: Vec::new(),
        input: if std::io::stdin().is_terminal() { Input::Terminal } else { Input::Inherited },
    };
    let request = Request {
        script,
        name: "interactive".into(),
        arguments: Vec::new(),
        interactive: Some(interactive),
        capacity: size_option(arguments.capacity.as_deref())?,
        pool: arguments.pool,
        serve: arguments.serve,
        keep: arguments.keep,
        quiet: arguments.quiet,
    };
    request.carry_out(places)
}

/// The directives of `--bbf` or `--bb`; without either there is no burst buffer.
fn directives(arguments: &Shell) -> Result<ScriptFile, CommandError> {
    if let Some(file) = &arguments.bbf {
        return ScriptFile::read(file, Form::Lines);
    }
    Ok(match &arguments.bb {
        Some(request) => ScriptFile::given("--bb", request.clone(), Form::Request),
        None => ScriptFile::given("--bbf", String::new(), Form::Lines),
    })
}
