//! Volume against the bare local file system, in one run: `volume_bench <directory> [rounds]`.
//!
//! Each round runs every case on both, in turn; the table shows medians and the median of the ratios. Rewrites and
//! reads are of a file that is in the page cache, so that the cost of the volume shows and not that of the disk.

use forebay_client::{Handle, Volume};
use forebay_model::layout::LayoutChoice;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use forebay_wire::{Caller, Ino, OpenFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const FILE: u64 = 256 << 20;
const FRAGMENTS: usize = 4;

/// One of the two that are compared.
trait Target: Sync {
    fn write(&self, offset: u64, data: &[u8]);
    fn read(&self, offset: u64, buffer: &mut [u8]);
}

struct Bare(File);
struct Ours<'a>(&'a Volume, Handle);

impl Target for Bare {
    fn write(&self, offset: u64, data: &[u8]) {
        self.0.write_all_at(data, offset).expect("bare write");
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) {
        self.0.read_exact_at(buffer, offset).expect("bare read");
    }
}

impl Target for Ours<'_> {
    fn write(&self, offset: u64, data: &[u8]) {
        assert_eq!(self.0.write(self.1, offset, data, false).expect("write"), data.len());
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) {
        assert_eq!(self.0.read(self.1, offset, buffer).expect("read"), buffer.len());
    }
}

/// Bytes per second of going through `FILE` bytes in steps of `size`, from `threads` threads in parts of the file.
fn run(target: &dyn Target, size: usize, threads: u64, write: bool) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut buffer = vec![thread as u8; size];
                let part = FILE / threads;
                for offset in (thread * part..(thread + 1) * part).step_by(size) {
                    if write { target.write(offset, &buffer) } else { target.read(offset, &mut buffer) }
                }
            });
        }
    });
    FILE as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn open(directory: &Path, space: SpaceRule) -> (std::sync::Arc<Fragments>, Volume) {
    let fragment = |index: usize| {
        let root = directory.join(format!("fragment{index}"));
        std::fs::create_dir_all(&root).expect("make a fragment");
        FragmentSpec { root, space }
    };
    let specs: Vec<_> = (0..FRAGMENTS).map(fragment).collect();
    let fragments = Fragments::open(&specs).expect("open");
    let layout = LayoutChoice::default();
    let spec = NamespaceSpec { name: "bench".into(), layout, limits: Limits::default() };
    let services = fragments.namespace(&spec).expect("namespace");
    let volume = Volume::new(services.metadata, services.data);
    (fragments, volume)
}

fn compare(label: &str, bare: &dyn Target, ours: &dyn Target, rounds: usize) {
    println!("{label:<44}{:>12}{:>12}{:>8}", "bare MiB/s", "ours MiB/s", "ratio");
    let cases = [
        ("rewrite 1 MiB", 1 << 20, 1, true),
        ("read 1 MiB", 1 << 20, 1, false),
        ("rewrite 1 MiB, 2 threads, one file", 1 << 20, 2, true),
        ("read 1 MiB, 2 threads, one file", 1 << 20, 2, false),
        ("rewrite 4 KiB", 4096, 1, true),
        ("read 4 KiB", 4096, 1, false),
        ("rewrite 4 KiB, 2 threads, one file", 4096, 2, true),
    ];
    for (name, size, threads, write) in cases {
        let (mut a, mut b, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (x, y) = (run(bare, size, threads, write), run(ours, size, threads, write));
            a.push(x);
            b.push(y);
            ratio.push(y / x);
        }
        let mib = (1 << 20) as f64;
        println!("{name:<44}{:>12.0}{:>12.0}{:>8.2}", median(a) / mib, median(b) / mib, median(ratio));
    }
}

fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id() }
}

fn create_and_unlink(volume: &Volume, directory: &Path) {
    const FILES: usize = 10_000;
    let caller = me();
    let names: Vec<String> = (0..FILES).map(|n| format!("file{n}")).collect();
    let rate = |start: Instant| FILES as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for name in &names {
        File::create(directory.join(name)).expect("create");
    }
    let bare_create = rate(start);
    let start = Instant::now();
    for name in &names {
        std::fs::remove_file(directory.join(name)).expect("unlink");
    }
    let bare_unlink = rate(start);
    let start = Instant::now();
    for name in &names {
        let (attr, opened) =
            volume.create(caller, Ino::ROOT, OsStr::new(name), 0o644, OpenFlags::READ_WRITE).expect("create");
        volume.release(opened.handle).expect("release");
        volume.forget(attr.ino, 1);
    }
    let create = rate(start);
    let start = Instant::now();
    for name in &names {
        volume.unlink(me(), Ino::ROOT, OsStr::new(name)).expect("unlink");
    }
    let unlink = rate(start);
    println!("create /s: bare {bare_create:.0}, ours {create:.0}, ratio {:.2}", create / bare_create);
    println!("unlink /s: bare {bare_unlink:.0}, ours {unlink:.0}, ratio {:.2}", unlink / bare_unlink);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().expect("usage: volume_bench <directory> [rounds]");
    let rounds = arguments.next().map_or(5, |n| n.parse().expect("rounds is a number"));
    let directory = tempfile::tempdir_in(parent).expect("make a directory");
    let caller = me();
    let place = directory.path().join("bare");
    let bare =
        File::options().read(true).write(true).create_new(true).open(place).expect("make the bare file");
    let bare = Bare(bare);
    run(&bare, 1 << 20, 1, true);
    for (label, space) in [
        ("4 fragments, hard size", SpaceRule::Hard),
        ("4 fragments, metered", SpaceRule::Metered(forebay_model::units::Bytes(FILE))),
    ] {
        let place = directory.path().join(label.replace(' ', "-"));
        std::fs::create_dir(&place).expect("make a directory");
        let (fragments, volume) = open(&place, space);
        let flags = OpenFlags::READ_WRITE;
        let (_, opened) = volume.create(caller, Ino::ROOT, OsStr::new("f"), 0o600, flags).expect("create");
        let ours = Ours(&volume, opened.handle);
        run(&ours, 1 << 20, 1, true);
        compare(label, &bare, &ours, rounds);
        create_and_unlink(&volume, &place);
        drop(volume);
        fragments.close().expect("close");
    }
}
