//! The words of one directive to its value.
//!
//! Every function reads all fields before it gives up, so that all errors of a directive are told at once.

mod jobdw;
mod persistent;
mod stage;
mod swap;

pub(crate) use jobdw::{job, job_vocabulary_checks};

use crate::command::Command;
use crate::diagnostic::{Place, Report};
use crate::fields::{Fields, Vocabulary};
use crate::symbols::{LineSymbols, Symbols};
use crate::types::Directive;
use crate::words::Word;

/// A directive that could be read, with the places that later findings are about.
#[derive(Debug)]
pub(crate) struct Read {
    /// Itself.
    pub directive: Directive,
    /// Its command word.
    pub at: Place,
    /// For staging: where the instance path is, and what is written there.
    pub instance_path: Option<(Place, Vec<u8>)>,
}

/// Reads what follows the prefix. `None` if there is an error, which has been told.
pub(crate) fn directive(
    command: Command,
    words: &[Word],
    symbols: Option<&Symbols>,
    report: &mut Report,
) -> Option<Read> {
    let (command_word, words) = words.split_first()?;
    let mut symbols = LineSymbols::new(symbols);
    let (size, words) = match command {
        Command::Swap => swap::size(*command_word, words, &mut symbols, report),
        _ => (None, words),
    };
    let takes = Vocabulary { keys: command.keys(), flags: command.flags() };
    let at = command_word.start();
    let fields = Fields::read((at, command_word.bytes), words, takes, &mut symbols, report);
    let plain = |directive| Read { directive, at, instance_path: None };
    match command {
        Command::JobDw => {
            job_vocabulary_checks(&fields, report);
            job(&fields, &["access_mode"], report).map(|job| plain(Directive::JobDw(job)))
        }
        Command::Swap => swap::swap(size, &fields, report).map(|swap| plain(Directive::Swap(swap))),
        Command::StageIn | Command::StageOut => stage::stage(command, &fields, report),
        Command::PersistentDw => persistent::attach(&fields, report).map(plain),
        Command::CreatePersistent => persistent::create(&fields, report).map(plain),
        Command::DestroyPersistent => persistent::destroy(&fields, report).map(plain),
    }
}
