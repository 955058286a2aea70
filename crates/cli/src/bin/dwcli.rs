//! The `dwcli` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::dwcli::command::main(std::env::args_os())
}
