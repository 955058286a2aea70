//! The grounds the suites run on: a local XFS file system as the proof of the suites, and DWFS in its ways of serving.
//!
//! A ground is one scratch directory with an XFS image; on it the fragments (which are also of XFS where the product
//! runs as root) and the directory beside that serves as oracle. All of it goes with the ground.

use super::serve::Orders;
use forebay_testkit::process::{self, ProcessError};
use forebay_testkit::xfs_image::SMALLEST_BYTES;
use forebay_testkit::{Finished, Identity, MountedProcess, Scratch, XfsImage, isolation};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Size of the image all fragments and the oracle are on; sparse.
const DISK_BYTES: u64 = 6 << 30;

/// Stripes so small that every larger write crosses several.
const STRIPE_BYTES: u64 = 64 << 10;

/// Longest a suite may take. Far beyond what any takes: it is there to end what hangs.
const SUITE_LIMIT: Duration = Duration::from_secs(900);

/// What is under the directory under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// XFS itself: what the suites must hold on.
    LocalXfs,
    /// DWFS, four fragments, every file dealt over all.
    Striped,
    /// DWFS, one fragment, content in the file itself.
    Inline,
    /// DWFS, one fragment, files handed to the kernel.
    Passthrough,
}

/// How much fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// More than a suite needs.
    Plenty,
    /// The smallest disk there is: XFS of 300 MiB says when it is full.
    SmallDisk,
    /// So many bytes a fragment, counted by DWFS.
    Metered(u64),
}

/// A directory under test with all it stands on.
pub struct Ground {
    // Dropped in this order: first what uses, then what is used.
    mounted: Option<MountedProcess>,
    orders: Option<(Orders, Identity)>,
    small_disks: Vec<XfsImage>,
    disk: XfsImage,
    scratch: Scratch,
    eyes: Identity,
    under: PathBuf,
    beside: PathBuf,
}

impl Ground {
    /// A ground served by `server` and looked at with the eyes of `eyes`.
    pub fn new(way: Way, server: &Identity, eyes: &Identity) -> Ground {
        Ground::with_room(way, Room::Plenty, server, eyes)
    }

    /// The same with so much room.
    pub fn with_room(way: Way, room: Room, server: &Identity, eyes: &Identity) -> Ground {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests mount and become other users: run them as root"
        );
        let scratch = Scratch::new("ground");
        isolation::enter(&scratch.directory("device", 0o755)).expect("a mount namespace");
        let disk = XfsImage::create(scratch.path(), "disk", DISK_BYTES).expect("an XFS image");
        let beside = owned_directory(&disk.path().join("beside"), eyes);
        copy_program(Path::new(env!("CARGO_BIN_EXE_forebay-suite")), &scratch.path().join("suite"));
        let mut ground = Ground {
            mounted: None,
            orders: None,
            under: PathBuf::new(),
            beside,
            small_disks: Vec::new(),
            disk,
            scratch,
            eyes: eyes.clone(),
        };
        let root = match way {
            Way::LocalXfs => ground.fragments(1, room, server).remove(0),
            _ => ground.serve(way, room, server),
        };
        ground.under = root.join("under");
        ground.make_under(way, server);
        ground
    }

    /// On a mount of another user root may do nothing, so there the user makes the directory.
    fn make_under(&self, way: Way, server: &Identity) {
        if way == Way::LocalXfs || *server != self.eyes {
            owned_directory(&self.under, &self.eyes);
        } else {
            let made = self.run(Command::new("mkdir").args(["-m", "755"]).arg(&self.under));
            made.unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        }
    }

    fn serve(&mut self, way: Way, room: Room, server: &Identity) -> PathBuf {
        let count = if way == Way::Striped { 4 } else { 1 };
        let fragments = self.fragments(count, room, server);
        let orders = Orders {
            mount_point: owned_directory(&self.scratch.path().join("mount"), server),
            fragments,
            stripe_size: STRIPE_BYTES,
            metered: if let Room::Metered(bytes) = room { Some(bytes) } else { None },
            passthrough: way == Way::Passthrough,
        };
        let this = std::env::current_exe().expect("/proc is mounted");
        copy_program(&this, &self.server_program());
        let mount_point = orders.mount_point.clone();
        self.orders = Some((orders, server.clone()));
        self.mount();
        mount_point
    }

    /// Directories that belong to the server, each on a disk of its own if the disks are small.
    fn fragments(&mut self, count: usize, room: Room, server: &Identity) -> Vec<PathBuf> {
        let make = |number| {
            let parent = match room {
                Room::SmallDisk => {
                    let name = format!("small{number}");
                    let disk = XfsImage::create(self.scratch.path(), &name, SMALLEST_BYTES);
                    self.small_disks.push(disk.expect("an XFS image"));
                    self.scratch.path().join(name)
                }
                _ => self.disk.path().to_owned(),
            };
            owned_directory(&parent.join(format!("fragment{number}")), server)
        };
        (0..count).map(make).collect()
    }

    fn server_program(&self) -> PathBuf {
        self.scratch.path().join("server")
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("server.log")
    }

    fn mount(&mut self) {
        let (orders, server) = self.orders.as_ref().expect("only a served ground is mounted");
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("scratch is writable");
        let errors = log.try_clone().expect("a descriptor");
        let mut command = orders.command(&self.server_program());
        command.current_dir("/").stdin(std::process::Stdio::null()).stdout(log).stderr(errors);
        let mounted = MountedProcess::start(server.apply(&mut command), &orders.mount_point);
        self.mounted = Some(mounted.unwrap_or_else(|error| panic!("{error}\n{}", self.log())));
    }

    /// Unmounts the polite way and mounts again.
    pub fn remount(&mut self) {
        let mounted = self.mounted.take().expect("only a served ground is mounted again");
        mounted.unmount().unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        self.mount();
    }

    /// The directory under test; it belongs to the eyes.
    pub fn under(&self) -> &Path {
        &self.under
    }

    /// A local directory of the eyes, beside it.
    pub fn beside(&self) -> &Path {
        &self.beside
    }

    /// Runs a suite with the eyes of the ground.
    ///
    /// # Panics
    /// With all it said, if it fails.
    pub fn judge(&self, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
        let mut command = Command::new(self.scratch.path().join("suite"));
        command.args(arguments).current_dir("/");
        self.run(&mut command).unwrap_or_else(|error| panic!("{error}\n{}", self.log())).output
    }

    /// Runs a program with the eyes of the ground, which must succeed.
    pub fn run(&self, command: &mut Command) -> Result<Finished, ProcessError> {
        process::run(self.eyes.apply(command), SUITE_LIMIT)?.success()
    }

    /// What the server said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path())
            .map_or_else(|_| String::new(), |log| format!("the server said:\n{log}"))
    }

    /// Ends it the polite way and checks that nothing is left.
    pub fn finish(mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount().unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        }
        let Ground { small_disks, disk, scratch, .. } = self;
        drop((small_disks, disk));
        scratch.finish();
    }
}

fn owned_directory(path: &Path, owner: &Identity) -> PathBuf {
    fs::create_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)).expect("we are root");
    path.to_owned()
}

/// Copies, because another user may not pass through the directories of the build. By a process of its own: a file that
/// is open for writing cannot be run, and a child forked by another test at this moment would inherit it.
fn copy_program(from: &Path, to: &Path) {
    let copied = process::run(Command::new("cp").args([from, to]), SUITE_LIMIT);
    copied.and_then(Finished::success).unwrap_or_else(|error| panic!("{error}"));
}
