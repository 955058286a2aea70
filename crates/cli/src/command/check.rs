//! `forebay check` and `forebay run --dry-run`: what a script asks for and what it would get.
//!
//! Allocation is shown for pools with nothing else in them, as this machine is configured; whether there is room at
//! the moment, `dwstat pools` tells.

mod preview;
mod render;

use super::run::Request;
use super::script_file::{Form, ScriptFile};
use crate::args::{Check, PoolArguments};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::offer::{Offers, offers};
use crate::say;
use crate::state_dir::StateDir;
use preview::preview;

/// Checks a script: 0 when its directives are accepted, 2 when they are not.
pub fn check(places: Places<'_>, arguments: &Check) -> Result<Exit, CommandError> {
    let script = ScriptFile::read(&arguments.script, Form::Script)?;
    let parsed = script.parse(None);
    let offers = configured(places, &arguments.pool)?;
    if arguments.json {
        say::answer(format_args!("{}\n", render::json(&script, &parsed, &offers)))
            .map_err(CommandError::Output)?;
    } else if parsed.errors.is_empty() {
        say::answer(render::text(&script, &parsed, &offers)).map_err(CommandError::Output)?;
    } else {
        crate::say::note(script.refusal(&parsed));
    }
    Ok(if parsed.errors.is_empty() { Exit::Success } else { Exit::Usage })
}

/// Says what `forebay run` would do, without a job id of its own.
pub fn dry_run(places: Places<'_>, request: &Request) -> Result<Exit, CommandError> {
    let plan = request.plan("0")?;
    let parsed = request.script.parse(None);
    let offers = configured(places, &request.pool)?;
    let mut text = render::text(&request.script, &parsed, &offers).to_string();
    if let (Some(allocation), Some(size)) = (&plan.allocation, request.capacity) {
        let preview = preview(allocation.capacity, allocation.pool.as_deref(), allocation.strategy, &offers);
        let size = forebay_model::capacity::format::exact(size);
        text.push_str(&format!("--capacity {size} counts instead: {preview}\n"));
    }
    for remark in &plan.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    text.push_str("dry run: nothing was allocated and nothing was run\n");
    say::answer(text).map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

/// What the configured nodes would offer if they were idle. Makes nothing.
fn configured(places: Places<'_>, pool: &PoolArguments) -> Result<Offers, CommandError> {
    let state = StateDir::from_environment(places.state_dir)?;
    let options = pool.options().map_err(CommandError::file("find", "--pool-dir"))?;
    Ok(offers(&places.config(&options, &state)?, &state.pool()))
}
