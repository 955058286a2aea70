//! Runs one suite on a directory, with the eyes of the calling user, and says what it found.
//!
//! One thread only: the suites fork. Ends with 0 when all held, 1 when something did not, 2 when it could not be run.

use clap::{Parser, Subcommand, ValueEnum};
use forebay_testkit::exercise::{mapped, namespace, single_file};
use forebay_testkit::posix::{self, Cost, Outcome, Selection};
use forebay_testkit::random::{SEED_VARIABLE, seed_from_clock, seed_from_environment};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Something did not hold.
const BROKEN: u8 = 1;
/// The suite could not be run.
const UNUSABLE: u8 = 2;

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
    /// Random operations in lockstep with a local directory.
    Namespace {
        /// The directory under test, empty.
        under: PathBuf,
        /// A local directory, empty.
        beside: PathBuf,
        /// The directory under test through another mount, which takes turns with the first; may be repeated.
        #[arg(long, value_name = "DIR")]
        through: Vec<PathBuf>,
        #[command(flatten)]
        length: Length,
    },
    /// Random operations on one file.
    SingleFile {
        /// The file under test, which must not exist.
        file: PathBuf,
        #[command(flatten)]
        length: Length,
    },
    /// Random operations on one file that several nodes map.
    Mapped {
        /// The file under test, which must not exist, as each node names it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        length: Length,
    },
    /// Compares two trees as the lockstep run does.
    Compare {
        /// The directory under test.
        under: PathBuf,
        /// The local directory.
        beside: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Length {
    /// Number of operations.
    #[arg(long, default_value_t = 2000)]
    operations: u64,
    /// What decides the operations [default: FOREBAY_TEST_SEED, or the clock].
    #[arg(long)]
    seed: Option<u64>,
}

impl Length {
    fn seed(&self) -> u64 {
        self.seed.or_else(seed_from_environment).unwrap_or_else(seed_from_clock)
    }
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
    rustix::process::umask(rustix::fs::Mode::empty());
    match Arguments::parse().suite {
        Suite::Posix { directory, only, costs } => {
            let root = rustix::process::geteuid().is_root();
            let costs = costs.into_iter().map(Cost::from).collect();
            run_posix(&directory, &Selection { name: only, costs, root })
        }
        Suite::Namespace { under, beside, through, length } => {
            let (seed, operations) = (length.seed(), length.operations);
            let run = namespace::Run { under, also_under: through, beside, seed, operations };
            said(run.seed, namespace::run(&run).map(|summary| format!("{summary:?}")))
        }
        Suite::SingleFile { file, length } => {
            let run = single_file::Run { file, seed: length.seed(), operations: length.operations };
            said(run.seed, single_file::run(&run).map(|count| format!("{count} operations")))
        }
        Suite::Mapped { files, length } => {
            let run = mapped::Run { files, seed: length.seed(), operations: length.operations };
            said(run.seed, mapped::run(&run).map(|count| format!("{count} operations")))
        }
        Suite::Compare { under, beside } => compare(&under, &beside),
    }
}

fn said<E: Display>(seed: u64, result: Result<String, E>) -> ExitCode {
    match result {
        Ok(summary) => {
            println!("seed {seed}: {summary}");
            ExitCode::SUCCESS
        }
        Err(deviation) => {
            println!("{deviation}replay with {SEED_VARIABLE}={seed}");
            ExitCode::from(BROKEN)
        }
    }
}

fn compare(under: &Path, beside: &Path) -> ExitCode {
    match namespace::compare(under, beside) {
        Ok(paths) => {
            println!("{paths} paths are equal");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            println!("{difference}");
            ExitCode::from(BROKEN)
        }
    }
}

fn run_posix(directory: &Path, selection: &Selection) -> ExitCode {
    // A failed case speaks through its tally; the default hook would say everything twice.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut cases, mut checks, mut failed) = (0u64, 0u64, 0u64);
    let ran = posix::run(directory, selection, |outcome: &Outcome| {
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
        return ExitCode::from(UNUSABLE);
    }
    println!("{cases} cases, {checks} checks, {failed} cases failed");
    if cases == 0 {
        eprintln!("no case was selected");
        return ExitCode::from(UNUSABLE);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}
