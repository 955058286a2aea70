//! An instance in a temporary directory, and short ways to use its volume.
#![allow(dead_code)] // Each test binary uses its own part.

use forebay_client::{Handle, Opened, Volume};
use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use forebay_wire::*;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

pub mod nodes;
pub mod world;

/// Who the tests are.
pub fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id() }
}

/// How to make an instance.
#[derive(Clone)]
pub struct Shape {
    pub fragments: usize,
    pub space: SpaceRule,
    pub layout: LayoutChoice,
    pub limits: Limits,
}

impl Shape {
    pub fn inline() -> Shape {
        Shape {
            fragments: 1,
            space: SpaceRule::Hard,
            layout: LayoutChoice::default(),
            limits: Limits::default(),
        }
    }

    /// Four fragments and stripes so small that everything crosses them.
    pub fn striped() -> Shape {
        let layout = LayoutChoice { stripe_size: Some(4096), ..LayoutChoice::default() };
        Shape { fragments: 4, layout, ..Shape::inline() }
    }

    pub fn metered(self, bytes: u64) -> Shape {
        Shape { space: SpaceRule::Metered(Bytes(bytes)), ..self }
    }
}

/// Fragments below `directory`, made when absent.
pub fn open_fragments(directory: &Path, shape: &Shape) -> Result<Arc<Fragments>> {
    let spec = |index: usize| {
        let root = directory.join(format!("fragment{index}"));
        std::fs::create_dir_all(&root).unwrap();
        FragmentSpec { root, space: shape.space }
    };
    Fragments::open(&(0..shape.fragments).map(spec).collect::<Vec<_>>())
}

pub fn open_volume(fragments: &Arc<Fragments>, shape: &Shape) -> Volume {
    let spec = NamespaceSpec { name: "c1".into(), layout: shape.layout, limits: shape.limits };
    let services = fragments.namespace(&spec).unwrap();
    Volume::new(services.metadata, services.data)
}

/// An instance that goes away with its directory.
pub struct Instance {
    pub volume: Volume,
    pub fragments: Arc<Fragments>,
    pub shape: Shape,
    pub directory: tempfile::TempDir,
}

impl Instance {
    pub fn new(shape: Shape) -> Instance {
        let directory = tempfile::tempdir().unwrap();
        let fragments = open_fragments(directory.path(), &shape).unwrap();
        Instance { volume: open_volume(&fragments, &shape), fragments, shape, directory }
    }

    /// Closes cleanly and opens again.
    pub fn reopen(self) -> Instance {
        let Instance { volume, fragments, shape, directory } = self;
        drop(volume);
        fragments.close().unwrap();
        let fragments = open_fragments(directory.path(), &shape).unwrap();
        Instance { volume: open_volume(&fragments, &shape), fragments, shape, directory }
    }

    /// Forgets to close and opens again.
    pub fn reopen_uncleanly(self) -> Instance {
        let Instance { volume, fragments, shape, directory } = self;
        drop(volume);
        drop(fragments);
        let fragments = open_fragments(directory.path(), &shape).unwrap();
        Instance { volume: open_volume(&fragments, &shape), fragments, shape, directory }
    }

    pub fn create(&self, name: &str) -> (Attr, Opened) {
        create(&self.volume, Ino::ROOT, name)
    }

    pub fn write_file(&self, name: &str, data: &[u8]) -> Ino {
        let (attr, opened) = self.create(name);
        write_all(&self.volume, opened.handle, 0, data);
        self.volume.release(opened.handle).unwrap();
        attr.ino
    }

    pub fn read_file(&self, name: &str) -> Vec<u8> {
        let attr = self.volume.lookup(me(), Ino::ROOT, OsStr::new(name)).unwrap();
        let opened = self.volume.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
        let data = read_all(&self.volume, opened.handle);
        self.volume.release(opened.handle).unwrap();
        self.volume.forget(attr.ino, 1);
        data
    }

    /// Used bytes as statfs has them.
    pub fn used(&self) -> u64 {
        let space = self.volume.statfs().unwrap();
        (space.blocks - space.blocks_free) * u64::from(space.block_size)
    }

    /// Substripe files on all fragments.
    pub fn substripe_files(&self) -> usize {
        let mut count = 0;
        for index in 0..self.shape.fragments {
            let data = self.directory.path().join(format!("fragment{index}/ns/c1/data"));
            for bucket in std::fs::read_dir(data).unwrap() {
                count += std::fs::read_dir(bucket.unwrap().path()).unwrap().count();
            }
        }
        count
    }
}

pub fn create(volume: &Volume, parent: Ino, name: &str) -> (Attr, Opened) {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    volume.create(me(), parent, OsStr::new(name), 0o644, flags).unwrap()
}

pub fn write_all(volume: &Volume, handle: Handle, offset: u64, data: &[u8]) {
    let mut done = 0;
    while done < data.len() {
        done += volume.write(handle, offset + done as u64, &data[done..], false).unwrap();
    }
}

pub fn read_all(volume: &Volume, handle: Handle) -> Vec<u8> {
    let mut data = Vec::new();
    let mut buffer = vec![0; 100_000];
    loop {
        match volume.read(handle, data.len() as u64, &mut buffer).unwrap() {
            0 => return data,
            n => data.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Bytes that differ everywhere.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend_from_slice(&next());
    }
    data.truncate(len);
    data
}

/// User and group that own nothing.
const NOBODY: u32 = 65534;

/// Runs the tests of this program whose names contain `filter` again as an ordinary user. Does nothing in that second
/// run, so a test that calls it may match its own filter.
pub fn again_without_privilege(filter: &str) {
    if !rustix::process::geteuid().is_root() {
        assert_eq!(rustix::process::geteuid().as_raw(), NOBODY, "run the tests as root or as {NOBODY}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    // The program itself may lie where others may not look.
    let program = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    let output = command.arg(filter).env("TMPDIR", directory.path()).current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains(" 0 passed"), "no test ran: {text}");
}
