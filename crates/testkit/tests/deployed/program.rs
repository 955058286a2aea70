//! `forebay` as a process: this same test program, started again with its command line in the environment.

use clap::Parser;
use forebay_cli::args::Arguments;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Full name of the test that is the program.
const PROGRAM_TEST: &str = "deployed::program::forebay_process";
/// The command line, one word a line.
const WORDS: &str = "FOREBAY_TEST_WORDS";

/// A command that carries out `arguments`; `program` is a copy of this test program.
pub fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", PROGRAM_TEST, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(WORDS, arguments.join("\n"));
    command
}

#[test]
#[ignore = "the program that other tests start"]
fn forebay_process() {
    let words =
        std::env::var(WORDS).expect("this test is a program that other tests start; it does nothing alone");
    let words = std::iter::once("forebay").chain(words.lines());
    let ended = forebay_cli::command::main(Arguments::parse_from(words));
    // The status beyond good and bad is the real program's affair; this is one for the harness.
    std::process::exit(i32::from(ended != ExitCode::SUCCESS));
}
