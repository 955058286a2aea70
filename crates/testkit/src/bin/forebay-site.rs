//! A site in a box to work in by hand: builds it, says where its hosts are, and keeps it until SIGTERM or SIGINT.
//!
//! The file of hosts is written when everything is ready: one line for each, its name and the number of a process in it, whose
//! namespaces `nsenter` enters. It is removed before anything ends. Killed with SIGKILL, the site ends as well.

use clap::{Parser, ValueEnum};
use forebay_testkit::cluster::{Host, Storage};
use forebay_testkit::slurm::{BufferOptions, FragmentKind, Options, Site, SiteError};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A cluster with MUNGE, Slurm and Forebay in namespaces of this machine. Needs root.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where the hosts are written down once they are ready.
    #[arg(long, value_name = "FILE")]
    hosts: PathBuf,
    /// Directory of forebay, dwstat, dwcli and dw_wlm_cli; without it Slurm has no burst buffer.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Hosts with disks for the burst buffer.
    #[arg(long, default_value_t = 2)]
    storage_nodes: usize,
    /// Hosts that run jobs.
    #[arg(long, default_value_t = 4)]
    compute_nodes: usize,
    /// What keeps a fragment in its bounds.
    #[arg(long, value_enum, default_value_t = Kind::Image)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// An XFS image on a loop device.
    Image,
    /// A directory.
    Directory,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Site(#[from] SiteError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("signals: {0}")]
    Signals(std::io::Error),
}

fn main() -> ExitCode {
    match keep_site(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("forebay-site: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn keep_site(arguments: &Arguments) -> Result<(), Failure> {
    // Before anything is built, so that a signal during the start is not lost; it is obeyed afterwards.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::Signals)?;
    let site = Site::build(&options(arguments))?;
    let on_file = |source| Failure::File { path: arguments.hosts.clone(), source };
    publish(&arguments.hosts, &hosts(&site)?).map_err(on_file)?;
    let _ = signals.forever().next();
    std::fs::remove_file(&arguments.hosts).map_err(on_file)?;
    site.finish();
    Ok(())
}

fn options(arguments: &Arguments) -> Options {
    let kind = match arguments.kind {
        Kind::Image => FragmentKind::Image,
        Kind::Directory => FragmentKind::Directory,
    };
    Options {
        storage_nodes: arguments.storage_nodes,
        compute_nodes: arguments.compute_nodes,
        storage: Storage::Directory,
        buffer: arguments
            .programs
            .clone()
            .map(|programs| BufferOptions { kind, ..BufferOptions::new(programs) }),
        ..Options::for_mpi()
    }
}

fn hosts(site: &Site) -> Result<String, SiteError> {
    let mut text = String::new();
    for host in site.cluster().hosts() {
        let _ = writeln!(text, "{} {}", host.id(), keeper(host)?);
    }
    Ok(text)
}

/// The first process of a host: its root is `/proc/<number>/root`.
fn keeper(host: &Host) -> Result<String, SiteError> {
    let root = host.seen(Path::new("/"))?;
    Ok(root.iter().nth(2).map(|number| number.to_string_lossy().into_owned()).unwrap_or_default())
}

/// Whoever sees the file sees all of it.
fn publish(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}
