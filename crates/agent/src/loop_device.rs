//! Loop devices: a file as a block device.
//!
//! Made with the kernel's own requests, without `losetup`. Every device is set to go away by itself with its last user
//! (a mount or an open descriptor), so that neither an error nor a crash on our side leaks one: between
//! LOOP_CONFIGURE and the mount the descriptor keeps it, afterwards the mount does.
//!
//! A device goes to its file past the page cache. The file system on it has a page cache of its own: a second one below would
//! take the memory and the copying twice, and what is synced would be written there first and only then to the disk (three
//! times slower here for 2 GiB). Where the file cannot be used that way (a file system without direct I/O, a disk with sectors of
//! 4 KiB) the kernel goes through the page cache by itself. What a sync promises is the same.
//!
//! Callable from any thread; two processes may look for a free device at the same time (the loser tries again).

use crate::error::AgentError;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The device that hands out free loop devices.
pub(crate) const CONTROL: &str = "/dev/loop-control";
/// Tries to get a free device while other processes get them first.
const TRIES: u32 = 64;
/// Time after which a device in use is told not to discard.
const SWITCH_DELAY: Duration = Duration::from_secs(1);

// From linux/loop.h.
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Sector of the device, in bytes. Named because the kernel would otherwise take that of a disk with larger ones for a device that
/// goes past the page cache, and a file system made for this one could not be mounted.
const SECTOR: u32 = 512;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const EMPTY_INFO: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// A loop device that is kept alive by this value until somebody else (a mount) uses it.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    /// `/dev/loop<n>`.
    pub path: PathBuf,
    /// Its number, if this call has set it up.
    fresh: Option<i32>,
    _open: File,
}

impl LoopDevice {
    /// Sees to it that a new device never gives space back. A discard (`fstrim` runs every week on many machines) would
    /// free the image's reserved blocks on the host, which could then run out of space under a file system that was
    /// promised it.
    ///
    /// The kernel holds up all I/O of the device for about ten milliseconds at the switch, so it is thrown a little later,
    /// which a short job never meets. A kernel without such a switch cannot be helped.
    ///
    /// The kernel keeps the switch with the number when the device has gone, and does not take it back (a device that cannot
    /// discard has no granularity of discarding, and without one every other value is refused). So whoever gets the number next
    /// has a device that does not discard either: a hint is lost, no data, until the number is removed (LOOP_CTL_REMOVE) or the
    /// machine starts anew. It is not removed here: another program may just have been told that the number is free.
    pub fn forbid_discard(self) -> Option<DiscardSwitch> {
        let number = self.fresh?;
        let (cancel, cancelled) = channel::<()>();
        let throw = move || {
            // Also when whoever set the device up has left and others go on using it.
            if cancelled.recv_timeout(SWITCH_DELAY).is_err() {
                let _ = std::fs::write(format!("/sys/block/loop{number}/queue/discard_max_bytes"), "0");
            }
            // The number was this device's as long as this was open.
            drop(self);
        };
        let thread =
            std::thread::Builder::new().name("forbid-discard".into()).stack_size(64 << 10).spawn(throw);
        thread.ok().map(|thread| DiscardSwitch { cancel, thread })
    }
}

/// A switch that will be thrown, unless it is cancelled before.
#[derive(Debug)]
pub(crate) struct DiscardSwitch {
    cancel: Sender<()>,
    thread: JoinHandle<()>,
}

impl DiscardSwitch {
    /// Lets go of the device; nothing needs to be switched any more.
    pub fn cancel(self) {
        // The thread may have ended.
        let _ = self.cancel.send(());
        // It does nothing that can fail.
        let _ = self.thread.join();
    }

    /// Throws it.
    #[cfg(test)]
    pub fn throw(self) {
        let DiscardSwitch { cancel, thread } = self;
        drop(cancel);
        thread.join().unwrap();
    }
}

/// The device that shows the file; an existing one if there is one, because two devices over one image would be two
/// file systems that destroy each other.
pub(crate) fn attach(image: &Path) -> Result<LoopDevice, AgentError> {
    if let Some(device) = find(image)? {
        return Ok(device);
    }
    let failed = |operation, path: &Path, error| AgentError::system(operation, path, error);
    let backing =
        OpenOptions::new().read(true).write(true).open(image).map_err(|e| failed("open image", image, e))?;
    let control = Path::new(CONTROL);
    let control_file =
        OpenOptions::new().read(true).write(true).open(control).map_err(|e| failed("open", control, e))?;
    let mut last = std::io::Error::from_raw_os_error(libc::EBUSY);
    for _ in 0..TRIES {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument and touches no memory of ours.
        let number = unsafe { libc::ioctl(control_file.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(failed("get a free loop device from", control, std::io::Error::last_os_error()));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        match configure(&path, &backing) {
            Ok(open) => return Ok(LoopDevice { path, fresh: Some(number), _open: open }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
            Err(error) => return Err(failed("set up loop device", &path, error)),
        }
    }
    Err(failed("get a free loop device from", control, last))
}

fn configure(device: &Path, backing: &File) -> std::io::Result<File> {
    let open = OpenOptions::new().read(true).write(true).open(device)?;
    let info = LoopInfo { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..EMPTY_INFO };
    let config = LoopConfig { fd: backing.as_raw_fd() as u32, block_size: SECTOR, info, reserved: [0; 8] };
    // SAFETY: the kernel reads a `struct loop_config`, which `config` is laid out as and which outlives the call.
    if unsafe { libc::ioctl(open.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(open)
}

/// The device that shows the file, if there is one. Its path alone would not do: it may have been renamed.
pub(crate) fn find(image: &Path) -> Result<Option<LoopDevice>, AgentError> {
    let meta = match std::fs::metadata(image) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AgentError::system("look at image", image, error)),
    };
    for name in candidates(image)? {
        let path = Path::new("/dev").join(name);
        let Ok(open) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if status(&open).is_some_and(|info| info.device == meta.dev() && info.inode == meta.ino()) {
            return Ok(Some(LoopDevice { path, fresh: None, _open: open }));
        }
    }
    Ok(None)
}

/// Loop devices in use whose file has the image's name. Others are not opened, because an open descriptor delays
/// the end of a device that belongs to somebody else.
fn candidates(image: &Path) -> Result<Vec<String>, AgentError> {
    let list = std::fs::read_dir("/sys/block").map_err(|e| AgentError::system("read", "/sys/block", e))?;
    let names = list.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with("loop") && shows(name, image)).collect())
}

fn shows(device: &str, image: &Path) -> bool {
    let file = Path::new("/sys/block").join(device).join("loop/backing_file");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let shown = Path::new(text.trim_end_matches('\n').trim_end_matches(" (deleted)"));
    shown.file_name().is_some() && shown.file_name() == image.file_name()
}

fn status(open: &File) -> Option<LoopInfo> {
    let mut info = EMPTY_INFO;
    // SAFETY: the kernel writes a `struct loop_info64`, which `info` is laid out as and which outlives the call.
    let answer = unsafe { libc::ioctl(open.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (answer == 0).then_some(info)
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);
