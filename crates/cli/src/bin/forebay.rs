//! The `forebay` command; everything is in the library.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::command::main(forebay_cli::args::Arguments::parse())
}
