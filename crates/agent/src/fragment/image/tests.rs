//! Real images on real loop devices: these tests need root.

use super::*;
use crate::mount_table;
use forebay_model::ids::{FragmentId, InstanceId};
use forebay_model::units::MIB;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A fragment in a directory of its own; unmounts and removes everything when dropped, also when a test fails.
struct Scratch {
    fragment: XfsImage,
    _dir: tempfile::TempDir,
}

impl Scratch {
    fn new(capacity: u64) -> Scratch {
        Scratch::with(capacity, Room::Reserved)
    }

    fn with(capacity: u64, room: Room) -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(InstanceId(1), FragmentId(2), &dir.path().join("fragment"));
        Scratch { fragment: XfsImage::new(place, Bytes(capacity), room), _dir: dir }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.fragment.take_down();
    }
}

#[test]
fn an_image_holds_what_was_promised_and_its_space_is_reserved() {
    std::thread::scope(|scope| {
        for capacity in [MIB, 16 * MIB, 100 * MIB, 271 * MIB, 280 * MIB, 400 * MIB, 1500 * MIB, 5000 * MIB] {
            scope.spawn(move || holds_and_keeps(capacity));
        }
    });
}

fn holds_and_keeps(capacity: u64) {
    let scratch = Scratch::new(capacity);
    scratch.fragment.make().unwrap();
    let image = std::fs::metadata(scratch.fragment.image()).unwrap();
    assert!(image.blocks() * 512 >= image.len(), "{capacity}: {} of {}", image.blocks() * 512, image.len());
    let root = scratch.fragment.bring_up().unwrap();
    let space = rustix::fs::statvfs(&root).unwrap();
    let usable = space.f_bavail * space.f_frsize;
    assert!(usable >= capacity, "{capacity}: only {usable} usable");
    assert!(usable <= capacity + capacity / 32 + 24 * MIB, "{capacity}: {usable} usable are far too many");
    std::fs::write(root.join("file"), vec![1; 1 << 19]).unwrap();
    std::fs::remove_file(root.join("file")).unwrap();
    scratch.fragment.switch.lock().unwrap().take().unwrap().throw();
    trim(&root);
    let image = std::fs::metadata(scratch.fragment.image()).unwrap();
    assert!(image.blocks() * 512 >= image.len(), "trimming gave reserved space back");
}

#[test]
fn the_page_cache_of_the_disk_is_passed_by_where_that_is_possible() {
    let scratch = Scratch::new(32 * MIB);
    scratch.fragment.make().unwrap();
    let root = scratch.fragment.bring_up().unwrap();
    let device = mount_table::at(&root).unwrap().unwrap().source;
    let loop_directory = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop");
    let direct = std::fs::read_to_string(loop_directory.join("dio")).unwrap();
    assert_eq!(direct.trim() == "1", reads_sectors_directly(&scratch.fragment.image()));
}

/// Reads the second sector of a file past the page cache.
fn reads_sectors_directly(path: &Path) -> bool {
    const SECTOR: usize = 512;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    let mut buffer = [0u8; 16 * SECTOR];
    let start = buffer.as_ptr().align_offset(8 * SECTOR);
    let sector = &mut buffer[start..start + SECTOR];
    file.is_ok_and(|file| file.read_at(sector, SECTOR as u64).is_ok())
}

/// What `fstrim` does.
fn trim(root: &Path) {
    use std::os::fd::AsRawFd;
    const FITRIM: libc::c_ulong = 0xC018_5879;
    let directory = File::open(root).unwrap();
    let mut range = [0u64, u64::MAX, 0];
    // SAFETY: the kernel reads and writes a `struct fstrim_range`, three 64-bit numbers.
    let _ = unsafe { libc::ioctl(directory.as_raw_fd(), FITRIM, range.as_mut_ptr()) };
}

#[test]
fn a_detached_mount_that_is_still_in_use_is_joined_not_doubled() {
    let scratch = Scratch::new(32 * MIB);
    scratch.fragment.make().unwrap();
    let root = scratch.fragment.bring_up().unwrap();
    let held = File::create(root.join("held")).unwrap();
    let departure = scratch.fragment.take_down().unwrap();
    let Departure::Lazy { holders } = departure else { panic!("{departure:?}") };
    assert_eq!(holders.processes, [std::process::id()]);
    let device = loop_device::find(&scratch.fragment.image()).unwrap().map(|device| device.path);
    assert!(device.is_some(), "the open file keeps the device");
    std::fs::write(scratch.fragment.bring_up().unwrap().join("second"), "x").unwrap();
    assert_eq!(mount_table::at(&root).unwrap().map(|mount| mount.source), device);
    drop(held);
    assert_eq!(scratch.fragment.take_down().unwrap(), Departure::Clean);
    assert!(
        loop_device::find(&scratch.fragment.image()).unwrap().is_none(),
        "the device is gone with its last user"
    );
    assert!(scratch.fragment.bring_up().unwrap().join("second").exists());
}

#[test]
fn no_room_is_said_with_figures_and_leaves_nothing() {
    let scratch = Scratch::new(1 << 50);
    let error = scratch.fragment.make().unwrap_err();
    let AgentError::NoRoom { wanted, free, .. } = error else { panic!("{error}") };
    assert!(wanted.0 > 1 << 50 && free.0 > 0 && free < wanted);
    scratch.fragment.remove().unwrap();
    assert!(!scratch.fragment.place.directory().exists());
}

#[test]
fn a_sparse_image_is_larger_than_the_disk_and_takes_what_is_written() {
    const LARGE: u64 = 1 << 42;
    let scratch = Scratch::with(LARGE, Room::Sparse);
    scratch.fragment.make().unwrap();
    let taken = || std::fs::metadata(scratch.fragment.image()).unwrap().blocks() * 512;
    let empty = taken();
    assert!(empty < 1 << 30, "{empty} bytes of a new image are taken");
    let root = scratch.fragment.bring_up().unwrap();
    let space = rustix::fs::statvfs(&root).unwrap();
    assert!(
        space.f_bavail * space.f_frsize >= LARGE,
        "what was promised can be stored, as far as it can tell"
    );
    assert!(scratch.fragment.switch.lock().unwrap().is_none(), "nothing keeps it from giving space back");
    let file = File::create(root.join("file")).unwrap();
    file.write_all_at(&vec![1; 32 << 20], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let full = taken();
    assert!(full >= empty + (31 << 20), "{empty} {full}");
    scratch.fragment.remove().unwrap();
    assert!(!scratch.fragment.place.directory().exists());
}
