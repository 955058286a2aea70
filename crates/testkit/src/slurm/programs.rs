//! The programs of the project, built for the tests that need the real files.
//!
//! `cargo test` of one crate does not build the programs of another, so cargo is asked here. Where all is built, as in
//! `make test`, that takes a fraction of a second.

use super::SiteError;
use crate::process;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// A build from nothing on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

/// Directory of the programs, built with the profile of the test itself.
pub fn built() -> Result<PathBuf, SiteError> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = BUILT.get() {
        return Ok(known.clone());
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--package", "forebay-cli", "--bins"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    process::run(&mut cargo, BUILD_LIMIT)?.success()?;
    Ok(BUILT.get_or_init(programs_beside_the_test).clone())
}

/// A test is in `target/<profile>/deps`, programs are in `target/<profile>`.
fn programs_beside_the_test() -> PathBuf {
    let own = std::env::current_exe().expect("/proc is mounted");
    let directory = own.ancestors().nth(2).expect("a test lies below its target directory");
    directory.to_owned()
}
