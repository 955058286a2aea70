//! The `dw_wlm_cli` command, which Slurm calls.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::wlm::command::main(std::env::args_os().skip(1))
}
