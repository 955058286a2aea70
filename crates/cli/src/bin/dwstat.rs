//! The `dwstat` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::dwstat::command::main(std::env::args_os().skip(1))
}
