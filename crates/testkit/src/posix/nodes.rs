//! mknod and mkfifo: what is neither file, directory nor link.

use super::check::{granted, refused, refused_with_one_of, same};
use super::child;
use super::files::*;
use super::{Case, case};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone every_kind_a_user_may_make),
    case!(Anyone making_refuses_whatever_exists),
    case!(Anyone a_fifo_joins_two_processes),
    case!(Anyone a_fifo_without_a_reader),
    case!(Anyone a_socket_is_bound_and_reached),
    case!(Root root_makes_devices),
    case!(User users_make_no_devices),
];

fn make(path: &str, kind: FileType, mode: u32, device: u64) -> rustix::io::Result<()> {
    mknodat(CWD, path, kind, Mode::from_raw_mode(mode), device)
}

fn every_kind_a_user_may_make() {
    for (name, kind) in
        [("file", FileType::RegularFile), ("fifo", FileType::Fifo), ("socket", FileType::Socket)]
    {
        granted(make(name, kind, 0o640, 0));
        same(granted(kind_of(name)), kind);
        same(granted(mode_of(name)), 0o640);
        same(granted(links_of(name)), 1);
        let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        same(granted(owner_of(name)), me);
    }
    // Linux: one that stands for a removed name in an overlay is nobody's device.
    granted(make("whiteout", FileType::CharacterDevice, 0o600, 0));
    granted(write_file("file", b"a file like any other"));
    granted(rustix::fs::rename("fifo", "renamed"));
    same(granted(kind_of("renamed")), FileType::Fifo);
    granted(rustix::fs::unlink("renamed"));
    refused(open("socket", OFlags::RDWR), Errno::NXIO);
}

fn making_refuses_whatever_exists() {
    granted(mkdir("dir", 0o755));
    granted(rustix::fs::symlink("nowhere", "dangling"));
    for existing in ["dir", "dangling"] {
        refused(mkfifo(existing, 0o644), Errno::EXIST);
        refused(make(existing, FileType::RegularFile, 0o644, 0), Errno::EXIST);
    }
    refused(mkfifo("missing/fifo", 0o644), Errno::NOENT);
    refused_with_one_of(make("d", FileType::Directory, 0o755, 0), &[Errno::PERM, Errno::INVAL]);
}

fn a_fifo_joins_two_processes() {
    granted(mkfifo("fifo", 0o600));
    let message = vec![b'm'; 300_000];
    let sent = message.clone();
    let writer = child::beside(move |_| {
        let fifo = granted(open("fifo", OFlags::WRONLY));
        let mut rest = &sent[..];
        while !rest.is_empty() {
            rest = &rest[granted(rustix::io::write(&fifo, rest))..];
        }
    });
    let fifo = granted(open("fifo", OFlags::RDONLY));
    let mut received = Vec::new();
    let mut buffer = [0; 10_000];
    loop {
        match granted(rustix::io::read(&fifo, &mut buffer[..])) {
            0 => break,
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
    writer.finish();
    same(received.len(), message.len());
    same(received == message, true);
    same(granted(size_of("fifo")), 0);
}

fn a_fifo_without_a_reader() {
    granted(mkfifo("fifo", 0o600));
    refused(open("fifo", OFlags::WRONLY | OFlags::NONBLOCK), Errno::NXIO);
    granted(open("fifo", OFlags::RDONLY | OFlags::NONBLOCK));
}

fn a_socket_is_bound_and_reached() {
    use std::os::unix::net::{UnixListener, UnixStream};
    // Relative, because a socket's path may only be 108 bytes long.
    let listener = UnixListener::bind("socket").expect("bind");
    same(granted(kind_of("socket")), FileType::Socket);
    UnixStream::connect("socket").expect("connect");
    listener.accept().expect("somebody connected");
    drop(listener);
    let error = UnixStream::connect("socket").map(drop).map_err(|error| error.kind());
    same(error, Err(std::io::ErrorKind::ConnectionRefused));
}

fn root_makes_devices() {
    let null = rustix::fs::makedev(1, 3);
    granted(make("null", FileType::CharacterDevice, 0o666, null));
    granted(make("disk", FileType::BlockDevice, 0o600, rustix::fs::makedev(259, 70_000)));
    same(granted(lstat("null")).st_rdev, null);
    same(granted(lstat("disk")).st_rdev, rustix::fs::makedev(259, 70_000));
    same(granted(kind_of("disk")), FileType::BlockDevice);
}

fn users_make_no_devices() {
    refused(make("null", FileType::CharacterDevice, 0o666, rustix::fs::makedev(1, 3)), Errno::PERM);
    refused(make("disk", FileType::BlockDevice, 0o666, rustix::fs::makedev(8, 0)), Errno::PERM);
    refused(lstat("null"), Errno::NOENT);
}
