//! Lines that are comments by the letter and directives by intent: `# DW jobdw ...`, `#dw jobdw ...`,
//! `##DW jobdw ...`, `#DW_persistentdw ...`.
//!
//! A line is told only if a known command follows the letters and something like its keys follows that, so that prose
//! about a directive stays silent.

use crate::command::{self, Command};
use crate::diagnostic::{Code, Report};
use crate::suggest;
use crate::words::{Word, is_blank};

/// Longer comments are not looked at beyond this.
const LOOK_BYTES_MAX: usize = 4_096;

/// Warns about a line that is not a directive but looks like one.
pub(crate) fn tell(number: usize, physical: &[u8], report: &mut Report) {
    let physical = &physical[..physical.len().min(LOOK_BYTES_MAX)];
    let line = || Word::new(number, physical, 0, physical.len());
    if let Some(meant) = meant(physical) {
        report.suggest(
            Code::NearMiss,
            line().start(),
            physical,
            format!("`{} {}` at the beginning of the line", meant.prefix().text(), meant.name()),
            "correct the line if it is meant, it is ignored as it stands",
        );
    } else if physical.starts_with(b"#SBATCH") && has_option(physical) {
        report.suggest(
            Code::SbatchOption,
            line().start(),
            physical,
            "the same as #DW or #BB lines",
            "write the directives out in the script",
        );
    }
}

/// The command that a comment is meant to be.
fn meant(physical: &[u8]) -> Option<Command> {
    let after_marks = physical.iter().position(|byte| *byte != b'#' && !is_blank(*byte))?;
    if !physical[..after_marks].contains(&b'#') {
        return None;
    }
    let text = &physical[after_marks..];
    let letters = text.get(..2)?;
    if !letters.eq_ignore_ascii_case(b"DW") && !letters.eq_ignore_ascii_case(b"BB") {
        return None;
    }
    let separators = text[2..].iter().take_while(|byte| is_blank(**byte) || b"_:-".contains(byte)).count();
    let rest = &text[2 + separators..];
    let name_length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    let (name, after) = rest.split_at(name_length);
    let name = suggest::nearest(name, command::names())?;
    let command = Command::from_name(name.as_bytes())?;
    let has_keys = match command {
        Command::Swap => after.iter().find(|byte| !is_blank(**byte)).is_some_and(u8::is_ascii_digit),
        _ => after.contains(&b'='),
    };
    has_keys.then_some(command)
}

/// Whether an option that carries directives is among the words.
fn has_option(physical: &[u8]) -> bool {
    let mut words = physical.split(|byte| is_blank(*byte));
    words.any(|word| {
        word == b"--bb" || word == b"--bbf" || word.starts_with(b"--bb=") || word.starts_with(b"--bbf=")
    })
}
