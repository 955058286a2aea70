//! `dw_wlm_cli` as a process: one call, one answer on standard output, status 0 or 1, and nothing on standard error.

use super::call::Call;
use super::carry_out::{Printed, carry_out};
use super::log::{Log, Severity};
use super::settings::log_file;
use super::text::{one_line, sentence};
use crate::say;
use std::ffi::OsString;
use std::io::Write;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// Every failure. Slurm only tells it from success.
const EXIT_FAILURE: u8 = 1;
/// So much of the words of a call is logged.
const WORDS_MAX: usize = 800;

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let started = Instant::now();
    // Standard error is the same pipe as the answer.
    std::panic::set_hook(Box::new(|_| {}));
    let called = words.clone();
    let (text, status) = match catch_unwind(move || called_with(called)) {
        Ok(Ok(text)) => (text, 0),
        Ok(Err(error)) => (sentence(&error.to_string()), EXIT_FAILURE),
        Err(_) => ("dw_wlm_cli failed by a fault of its own: tell an operator".to_owned(), EXIT_FAILURE),
    };
    // Slurm reads to the end; if it has gone away there is nobody to be told.
    let _ = say::at_length(|out| out.write_all(text.as_bytes()));
    log(&words, started, status, &text);
    ExitCode::from(status)
}

fn called_with(words: Vec<OsString>) -> Printed {
    carry_out(Call::read(words)?)
}

fn log(words: &[OsString], started: Instant, status: u8, text: &str) {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: String = one_line(&words.join(" ")).chars().take(WORDS_MAX).collect();
    let took = started.elapsed().as_millis();
    let (severity, outcome) = match status {
        0 => (Severity::Info, "done".to_owned()),
        _ => (Severity::Error, format!("failed: {text}")),
    };
    Log::open(log_file().as_deref()).write(severity, &format!("{words}: {outcome} ({took} ms)"));
}
