//! Runs one suite on a directory, with the eyes of the calling user, and says what it found.
//!
//! One thread only: the suites fork. Ends with 0 when all held, 1 when something did not, 2 when it could not be run.

use clap::{Parser, Subcommand, ValueEnum};
use forebay_testkit::posix::{self, Cost, Outcome, Selection};
use std::path::PathBuf;
use std::process::ExitCode;

/// Judges a file system.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// What POSIX and Linux promise, case by case.
    Posix {
        /// The directory under test.
        directory: PathBuf,
        /// Only cases whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Costs of the cases to run.
        #[arg(long, value_delimiter = ',', default_value = "small")]
        costs: Vec<CostName>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CostName {
    Small,
    Many,
    FillsUp,
}

impl From<CostName> for Cost {
    fn from(name: CostName) -> Cost {
        match name {
            CostName::Small => Cost::Small,
            CostName::Many => Cost::Many,
            CostName::FillsUp => Cost::FillsUp,
        }
    }
}

fn main() -> ExitCode {
    match Arguments::parse().suite {
        Suite::Posix { directory, only, costs } => {
            let root = rustix::process::geteuid().is_root();
            let costs = costs.into_iter().map(Cost::from).collect();
            run_posix(directory, &Selection { name: only, costs, root })
        }
    }
}

fn run_posix(directory: PathBuf, selection: &Selection) -> ExitCode {
    // A failed case speaks through its tally; the default hook would say everything twice.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut cases, mut checks, mut failed) = (0u64, 0u64, 0u64);
    let ran = posix::run(&directory, selection, |outcome: &Outcome| {
        cases += 1;
        checks += outcome.tally.checks;
        if !outcome.tally.failures.is_empty() {
            failed += 1;
            println!("FAILED {} ({} checks)", outcome.name, outcome.tally.checks);
            outcome.tally.failures.iter().for_each(|line| println!("    {line}"));
        }
    });
    if let Err(error) = ran {
        eprintln!("the suite cannot be run in {}: {error}", directory.display());
        return ExitCode::from(2);
    }
    println!("{cases} cases, {checks} checks, {failed} cases failed");
    if cases == 0 {
        eprintln!("no case was selected");
        return ExitCode::from(2);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
