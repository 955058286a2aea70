//! Prints what a script says: `cargo run --example read_script job.sh`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: read_script FILE");
        return ExitCode::from(2);
    };
    let script = match std::fs::read(&file) {
        Ok(script) => script,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::from(2);
        }
    };
    let parsed = forebay_directive::parse_script(&script);
    for found in parsed.warnings.iter().chain(&parsed.errors) {
        eprint!("{}", found.render(&file, &script));
    }
    for directive in &parsed.directives {
        println!("{directive:?}", directive = directive.value.to_string());
    }
    if parsed.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
