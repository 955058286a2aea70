//! `forebay fsck`: the offline check of a server's fragments.
//!
//! One line for each finding on standard output, and one of totals. The exit statuses are those of fsck(8): 0 when all is
//! in order, 1 when everything that was found was repaired, 4 when something is left.

use crate::args::Fsck;
use crate::command::serve::given;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use forebay_agent::node::{CheckedInstance, ServerConfig, checked_instances};
use forebay_server::check::{Mode, Summary, check};

/// Checks all fragments of the configurations.
pub fn fsck(places: Places<'_>, fsck: &Fsck) -> Result<Exit, CommandError> {
    let first = given(places)?;
    let files = std::iter::once(first).chain(fsck.also.iter().map(|file| file.as_path()));
    let configs = files.map(ServerConfig::read).collect::<Result<Vec<_>, _>>()?;
    let mode = if fsck.repair { Mode::Repair } else { Mode::Look };
    let mut worst = Exit::Success;
    for checked in checked_instances(&configs)?.values() {
        let summary = check_one(checked, mode)?;
        worst = match (worst, exit(&summary)) {
            (Exit::Uncorrected, _) | (_, Exit::Uncorrected) => Exit::Uncorrected,
            (Exit::Corrected, _) | (_, Exit::Corrected) => Exit::Corrected,
            _ => Exit::Success,
        };
    }
    Ok(worst)
}

fn check_one(checked: &CheckedInstance, mode: Mode) -> Result<Summary, CommandError> {
    let name = &checked.name;
    // A finding that cannot be written must not end a repair half way; the totals tell that they could not be.
    let told = check(&checked.instance, mode, &mut |finding| {
        let _ = say::answer(format_args!("{name}: {finding}\n"));
    });
    let summary = told.map_err(CommandError::file_system(format!("check instance {name}")))?;
    let Summary { files, judged, not_judged, harmless, repaired, left } = summary;
    let totals = format!(
        "{name}: {files} striped files, {judged} substripe files judged, {not_judged} not judged; {repaired} repaired, \
         {left} left, {harmless} settled by the next start\n"
    );
    say::answer(totals).map_err(CommandError::Output)?;
    Ok(summary)
}

fn exit(summary: &Summary) -> Exit {
    match (summary.left, summary.repaired) {
        (0, 0) => Exit::Success,
        (0, _) => Exit::Corrected,
        _ => Exit::Uncorrected,
    }
}
