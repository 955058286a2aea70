//! Mounts one namespace over local directories, without controller and agent: for file system test suites and
//! measurements. Serves until SIGINT, SIGTERM or an unmount from outside.
//!
//! Without `--foreground` it starts itself again in the background and returns when the mount is there.

use clap::Parser;
use forebay_client::Volume;
use forebay_fuse::{CachePolicy, MountOptions, Mounted, Unmount, mount, unmount_stale};
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_server::local::{
    FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule, raise_descriptor_limit,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

/// Mount DWFS over local directories.
#[derive(Parser)]
struct Arguments {
    /// An existing, empty directory.
    mountpoint: PathBuf,
    /// One directory for each storage node; created when absent.
    #[arg(required = true)]
    fragments: Vec<PathBuf>,
    /// Capacity of each fragment in bytes, counted by the file system; without it the disk is the limit.
    #[arg(long)]
    metered: Option<u64>,
    /// Stripe size in bytes.
    #[arg(long)]
    stripe_size: Option<u64>,
    /// Fragments a file is dealt over.
    #[arg(long)]
    stripe_count: Option<u32>,
    /// Local files a file's share on one fragment is dealt over.
    #[arg(long)]
    substripes: Option<u32>,
    /// Hand files that are one local file to the kernel.
    #[arg(long)]
    passthrough: bool,
    /// Let other users in.
    #[arg(long)]
    allow_other: bool,
    /// Others change the fragments: let the kernel keep nothing.
    #[arg(long)]
    revalidate: bool,
    /// Serving threads.
    #[arg(long)]
    threads: Option<usize>,
    /// Take requests over /dev/fuse also where the kernel offers io_uring.
    #[arg(long)]
    no_io_uring: bool,
    /// Stay in the foreground.
    #[arg(long)]
    foreground: bool,
}

const MOUNTED: &str = "mounted";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.foreground { serve(&arguments) } else { start_in_background() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dwfs_mount: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start_in_background() -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--foreground")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let said = child.stdout.take().map(BufReader::new).and_then(|output| output.lines().next());
    match said {
        Some(Ok(line)) if line.starts_with(MOUNTED) => {
            println!("{line} pid={}", child.id());
            Ok(())
        }
        _ => Err(format!("the mount did not come about: {}", child.wait()?).into()),
    }
}

fn serve(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    raise_descriptor_limit()?;
    let fragments = open_fragments(arguments)?;
    let services = fragments.namespace(&namespace(arguments))?;
    let volume = Arc::new(Volume::new(services.metadata, services.data));
    if unmount_stale(&arguments.mountpoint)? {
        eprintln!("dwfs_mount: removed the mount of a killed predecessor");
    }
    let mounted = mount(Arc::clone(&volume), &arguments.mountpoint, &options(arguments))?;
    unmount_on_signal(&mounted)?;
    // Last: who reads it may send a signal at once.
    println!("{MOUNTED} {} {:?}", mounted.mountpoint().display(), mounted.features());
    mounted.wait()?;
    drop(mounted);
    drop(volume);
    fragments.close()?;
    Ok(())
}

fn open_fragments(arguments: &Arguments) -> Result<Arc<Fragments>, Box<dyn Error>> {
    let space = arguments.metered.map_or(SpaceRule::Hard, |bytes| SpaceRule::Metered(Bytes(bytes)));
    let mut specs = Vec::new();
    for root in &arguments.fragments {
        std::fs::create_dir_all(root)?;
        specs.push(FragmentSpec { root: root.canonicalize()?, space });
    }
    Ok(Fragments::open(&specs)?)
}

fn namespace(arguments: &Arguments) -> NamespaceSpec {
    let layout = LayoutChoice {
        stripe_size: arguments.stripe_size,
        stripe_count: arguments.stripe_count,
        substripes: arguments.substripes,
        ..LayoutChoice::default()
    };
    NamespaceSpec { name: "c1".into(), layout, limits: Limits::default() }
}

fn options(arguments: &Arguments) -> MountOptions {
    let named = MountOptions::named("dwfs_mount");
    MountOptions {
        allow_other: arguments.allow_other,
        passthrough: arguments.passthrough,
        io_uring: !arguments.no_io_uring,
        threads: arguments.threads.unwrap_or(named.threads),
        cache: if arguments.revalidate { CachePolicy::Revalidate } else { CachePolicy::SoleOwner },
        ..named
    }
}

fn unmount_on_signal(mounted: &Mounted) -> Result<(), Box<dyn Error>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let unmounter = mounted.unmounter();
    std::thread::spawn(move || {
        for _ in &mut signals {
            match unmounter.unmount() {
                Ok(Unmount::Clean) => return,
                Ok(Unmount::Lazy) => eprintln!("dwfs_mount: still in use; serving what is open, then ending"),
                Err(error) => eprintln!("dwfs_mount: {error}"),
            }
        }
    });
    Ok(())
}
