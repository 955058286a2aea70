//! A whole script, a file of directives, and the text of sbatch's `--bb`.

use crate::check::Checks;
use crate::command::{self, Command};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::lines::{DirectiveLine, Form, Prefix, directive_lines};
use crate::read;
use crate::suggest;
use crate::symbols::Symbols;
use crate::types::{Directive, InstanceRef, Located};
use crate::words::Word;
use serde::Serialize;

/// What a script says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parsed {
    /// The directives that could be read, in the order of the script.
    pub directives: Vec<Located<Directive>>,
    /// What is doubtful, in the order of the text.
    pub warnings: Vec<Diagnostic>,
    /// What is wrong, in the order of the text. The script must not be run unless this is empty.
    pub errors: Vec<Diagnostic>,
}

impl Parsed {
    /// The instances that the script can stage to and from: its own, if it has one with striped access, and those it
    /// attaches. The lines of a stage list may name these.
    pub fn stage_targets(&self) -> Vec<InstanceRef> {
        let targets = self.directives.iter().filter_map(|located| match &located.value {
            Directive::JobDw(job) if job.access_to(forebay_model::objects::AccessMode::Striped).is_some() => {
                Some(InstanceRef::Job)
            }
            Directive::PersistentDw(attached) => Some(InstanceRef::Persistent(attached.name.clone())),
            _ => None,
        });
        targets.collect()
    }
}

/// Reads the directives of a job script. Slurm's symbols are checked and left as written.
pub fn parse_script(script: &[u8]) -> Parsed {
    parse_script_with(script, None)
}

/// Reads the directives of a job script and replaces Slurm's symbols in the values, if there are values for them.
pub fn parse_script_with(script: &[u8], symbols: Option<&Symbols>) -> Parsed {
    parse(script, Form::Script, symbols)
}

/// Reads a file of directives (`--bbf`). Slurm's symbols are checked and left as written.
pub fn parse_lines(text: &[u8]) -> Parsed {
    parse_lines_with(text, None)
}

/// Reads a file of directives (`--bbf`) and replaces Slurm's symbols in the values, if there are values for them.
pub fn parse_lines_with(text: &[u8], symbols: Option<&Symbols>) -> Parsed {
    parse(text, Form::Directives, symbols)
}

pub(crate) fn parse(text: &[u8], form: Form, symbols: Option<&Symbols>) -> Parsed {
    let mut report = Report::default();
    let mut checks = Checks::default();
    let mut directives = Vec::new();
    for line in directive_lines(text, form, &mut report) {
        directives.extend(one(&line, symbols, &mut checks, &mut report));
    }
    checks.finish(&mut report);
    let (warnings, errors) = report.finish();
    Parsed { directives, warnings, errors }
}

/// Reads one directive.
fn one(
    line: &DirectiveLine,
    symbols: Option<&Symbols>,
    checks: &mut Checks,
    report: &mut Report,
) -> Option<Located<Directive>> {
    if let Some(command_line) = line.after_command {
        let expected = format!("all directives above the first command, which is in line {command_line}");
        let suggestion = "move it up: Slurm's own scan stops at the first line that does not begin with `#`";
        let place = line.prefix_word.start();
        report.suggest(Code::AfterFirstCommand, place, line.prefix.text().as_bytes(), expected, suggestion);
    }
    let command = command_of(line, report)?;
    if line.broken {
        checks.not_understood(command);
        return None;
    }
    let Some(read) = read::directive(command, &line.words, symbols, report) else {
        checks.not_understood(command);
        return None;
    };
    let fine = checks.directive(&read, report);
    let place = line.prefix_word.start();
    fine.then_some(Located { line: place.line, column: place.column, value: read.directive })
}

/// The command of a line, which must belong to its prefix.
fn command_of(line: &DirectiveLine, report: &mut Report) -> Option<Command> {
    let prefix = line.prefix.text();
    let Some(word) = line.words.first() else {
        if !line.broken {
            let expected = format!("one of {}", command::names_with(line.prefix));
            report.add(Code::MissingCommand, line.prefix_word.start(), prefix.as_bytes(), expected);
        }
        return None;
    };
    let Some(command) = Command::from_name(word.bytes) else {
        tell_unknown(word, &line.words, line.prefix, report);
        return None;
    };
    if command.prefix() != line.prefix {
        let right = command.prefix().text();
        let expected = format!("{right} {}", command.name());
        let suggestion = match command.prefix() {
            Prefix::Bb => {
                "persistent instances are made and removed by #BB lines, which Slurm handles itself"
            }
            Prefix::Dw => "only create_persistent and destroy_persistent are written with #BB",
        };
        report.suggest(Code::WrongPrefix, line.prefix_word.start(), prefix.as_bytes(), expected, suggestion);
        return None;
    }
    Some(command)
}

fn tell_unknown(word: &Word, words: &[Word], prefix: Prefix, report: &mut Report) {
    let next = words.get(1).map_or(&b""[..], |next| next.bytes);
    let joined = [word.bytes, b"_", next].concat();
    let suggestion = match Command::from_name(&joined) {
        Some(command) => Some(format!("write `{}` in one word", command.name())),
        None => suggest::did_you_mean(word.bytes, command::names()),
    };
    let expected = format!("one of {}", command::names_with(prefix));
    report.push(Code::UnknownCommand, word.start(), word.bytes, expected, suggestion);
}
