//! A fragment whose disk stops taking data. Root only: it needs a disk that fails.
//!
//! The disk is a sparse image on a small tmpfs: its file system believes that there is space, the blocks below run out
//! when the page cache is written back.

mod support;

use forebay_wire::*;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

fn run(program: &str, arguments: &[&OsStr]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Unmounted with its test, also when that fails.
struct Mounted(PathBuf);

impl Mounted {
    fn new(options: &[&str], what: &Path, place: &Path) -> Mounted {
        std::fs::create_dir(place).unwrap();
        let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        arguments.extend([what.as_os_str(), place.as_os_str()]);
        run("mount", &arguments);
        Mounted(place.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A loop device is detached when its file system is unmounted.
        // The loop device lets go of its image a moment after its file system is unmounted.
        let done = Command::new("umount").arg(&self.0).output();
        if !done.is_ok_and(|output| output.status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
}

#[test]
fn a_fragment_that_failed_a_sync_can_be_read_but_not_written() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts a failing disk: run it as root");
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let _small = Mounted::new(&["-t", "tmpfs", "-o", "size=24m"], Path::new("forebay-test"), &at("small"));
    let image = at("small/image");
    std::fs::File::create(&image).unwrap().set_len(200 << 20).unwrap();
    // Without a journal, so that only data fails and not the file system as a whole.
    run(
        "mkfs.ext4",
        &["-q".as_ref(), "-F".as_ref(), "-O".as_ref(), "^has_journal".as_ref(), image.as_os_str()],
    );
    let _disk = Mounted::new(&["-o", "loop,errors=continue"], &image, &at("fragment0"));

    let mut shape = Shape { fragments: 1, ..Shape::striped() };
    shape.layout.substripes = Some(3);
    let fragments = open_fragments(directory.path(), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    let (_, small) = create(&volume, Ino::ROOT, "small");
    write_all(&volume, small.handle, 0, &pattern(1, 20_000));
    volume.fsync(small.handle, false).unwrap();
    let (_, large) = create(&volume, Ino::ROOT, "large");
    let data = pattern(2, 1 << 20);
    for n in 0..100 {
        write_all(&volume, large.handle, n << 20, &data);
    }
    let failed = volume.fsync(large.handle, false);
    assert!(matches!(failed, Err(FsError::Host { operation: "sync", .. } | FsError::NoSpace)), "{failed:?}");
    // Trying again does not make it good.
    assert_eq!(volume.fsync(large.handle, false), Err(FsError::Poisoned));
    assert_eq!(volume.fsync(small.handle, false), Err(FsError::Poisoned));
    assert_eq!(volume.write(large.handle, 0, &data, false), Err(FsError::Poisoned));
    let new = volume.create(me(), Ino::ROOT, OsStr::new("new"), 0o644, OpenFlags::READ_WRITE);
    assert_eq!(new.err(), Some(FsError::Poisoned));
    assert_eq!(volume.unlink(me(), Ino::ROOT, OsStr::new("small")), Err(FsError::Poisoned));
    assert_eq!(read_all(&volume, small.handle), pattern(1, 20_000));
    drop(volume);
    drop(fragments);
}
