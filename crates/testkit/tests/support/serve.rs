//! The process that serves a mount: this same test program, started again with its orders in the environment.
//!
//! It wires the file system exactly as a product would: fragments, one namespace, a volume, a mount.

use forebay_client::Volume;
use forebay_fuse::{MountOptions, Mounted, mount};
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_server::local::{
    FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule, raise_descriptor_limit,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Full name of the test that serves.
const SERVING_TEST: &str = "support::serve::file_system_process";

const MOUNT_POINT: &str = "FOREBAY_SERVE_MOUNT_POINT";
const FRAGMENTS: &str = "FOREBAY_SERVE_FRAGMENTS";
const STRIPE_SIZE: &str = "FOREBAY_SERVE_STRIPE_SIZE";
const METERED: &str = "FOREBAY_SERVE_METERED";
const PASSTHROUGH: &str = "FOREBAY_SERVE_PASSTHROUGH";

/// What is to be served.
#[derive(Clone, Debug)]
pub struct Orders {
    /// An empty directory.
    pub mount_point: PathBuf,
    /// One directory a fragment; no colon in a path.
    pub fragments: Vec<PathBuf>,
    /// Bytes.
    pub stripe_size: u64,
    /// Capacity of each fragment in bytes; otherwise the disk is the limit.
    pub metered: Option<u64>,
    /// Files are handed to the kernel, or serving fails.
    pub passthrough: bool,
}

impl Orders {
    /// Makes `program`, a copy of this test program, carry them out.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command.args(["--exact", SERVING_TEST, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(MOUNT_POINT, &self.mount_point);
        command.env(FRAGMENTS, std::env::join_paths(&self.fragments).expect("no colon in a scratch path"));
        command.env(STRIPE_SIZE, self.stripe_size.to_string());
        command.envs(self.metered.map(|bytes| (METERED, bytes.to_string())));
        command.envs(self.passthrough.then_some((PASSTHROUGH, "1")));
        command
    }

    fn from_environment() -> Orders {
        let variable =
            |name| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: {ONLY_FOR}"));
        let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number of bytes"));
        Orders {
            mount_point: variable(MOUNT_POINT).into(),
            fragments: std::env::split_paths(&variable(FRAGMENTS)).collect(),
            stripe_size: number(STRIPE_SIZE).expect("a stripe size is always given"),
            metered: number(METERED),
            passthrough: std::env::var_os(PASSTHROUGH).is_some(),
        }
    }
}

const ONLY_FOR: &str = "this test is the server that other tests start; it does nothing alone";

#[test]
#[ignore = "the server of the mounts, started by the other tests"]
fn file_system_process() {
    if let Err(error) = serve(&Orders::from_environment()) {
        panic!("the mount failed: {error}");
    }
}

fn serve(orders: &Orders) -> Result<(), Box<dyn Error>> {
    raise_descriptor_limit()?;
    let space = orders.metered.map_or(SpaceRule::Hard, |bytes| SpaceRule::Metered(Bytes(bytes)));
    let specs: Vec<_> =
        orders.fragments.iter().map(|root| FragmentSpec { root: root.clone(), space }).collect();
    let fragments = Fragments::open(&specs)?;
    let layout = LayoutChoice { stripe_size: Some(orders.stripe_size), ..LayoutChoice::default() };
    let services =
        fragments.namespace(&NamespaceSpec { name: "c1".into(), layout, limits: Limits::default() })?;
    let volume = Arc::new(Volume::new(services.metadata, services.data));
    let options = MountOptions {
        allow_other: rustix::process::geteuid().is_root(),
        passthrough: orders.passthrough,
        // Whatever the machine's switch says at the moment; mounts of clusters are tested with requests over io_uring.
        io_uring: false,
        ..MountOptions::named("forebay-test")
    };
    let mounted = mount(Arc::clone(&volume), &orders.mount_point, &options)?;
    eprintln!("mounted {} {:?}", orders.mount_point.display(), mounted.features());
    if orders.passthrough && !mounted.passthrough() {
        return Err("passthrough was asked for and the kernel does not give it".into());
    }
    unmount_on_signal(&mounted)?;
    mounted.wait()?;
    drop(mounted);
    drop(volume);
    fragments.close()?;
    Ok(())
}

fn unmount_on_signal(mounted: &Mounted) -> Result<(), Box<dyn Error>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let unmounter = mounted.unmounter();
    std::thread::spawn(move || {
        for _ in &mut signals {
            eprintln!("unmounting: {:?}", unmounter.unmount());
        }
    });
    Ok(())
}
