//! The disk of one server takes what is written and fails when it is to keep it, or ends altogether.
//!
//! Whoever relies on it is told by an error, and again whenever he asks, on whatever node; everything else goes on.

mod deployed;

use deployed::{Deployment, LIMIT, Shape};
use forebay_testkit::cluster::Storage;
use forebay_testkit::{Identity, Random, wait_until};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The server whose disk fails. The names are on server 0.
const FAILING: usize = 1;
/// The server that keeps the names.
const HOME: usize = 0;
/// Where it writes down what was done for its clients, in the fragment; and what its log says when it cannot any more.
const DEEDS: &str = "sessions-c1.deeds";
const REFUSED: &str = "cannot be written down any more";
/// Size of a disk that ends, in bytes.
const DISK_BYTES: u64 = 1 << 30;
/// Pieces that are written, in bytes.
const PIECE: usize = 1 << 20;
/// More of them than the failing disk has room for, on two servers.
const PIECES: u64 = 100;
/// A file of this length has a stripe on each of two servers.
const SMALL: usize = 130_000;

fn errno(result: io::Result<()>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn rewrite(file: &File, data: &[u8]) -> io::Result<()> {
    file.write_all_at(data, 0)
}

#[test]
fn a_failed_sync_is_told_to_everybody_and_harms_nobody_else() {
    let storage = Storage::Failing { server: FAILING };
    let shape = Shape { servers: 2, clients: 3, storage, has_neighbour: true, ..Shape::default() };
    let mut deployment = Deployment::serve(shape);
    (0..2).for_each(|client| deployment.mount(client, &Identity::root()));
    deployment.mount_neighbour(2);
    let small = Random::new(1).bytes(SMALL);
    fs::write(deployment.file(0, "small"), &small).unwrap();
    File::open(deployment.file(0, "small")).unwrap().sync_all().unwrap();

    // It takes everything, and cannot keep it.
    let large = File::create_new(deployment.file(0, "large")).unwrap();
    let piece = Random::new(2).bytes(PIECE);
    (0..PIECES).for_each(|number| large.write_all_at(&piece, number * PIECE as u64).unwrap());
    let first = errno(large.sync_all());
    assert!(matches!(first, Some(libc::EIO | libc::ENOSPC)), "{first:?}");
    // A second sync would find nothing left to write. It does not say that all is well.
    assert_eq!(errno(large.sync_all()), Some(libc::EIO));
    let said = deployment.server_said(FAILING);
    let line = said.lines().find(|line| line.contains("poisoned")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("forebay: fragment ") && line.contains("sync failed"), "{line}");
    assert!(!deployment.server_said(0).contains("poisoned"), "the other server's disk is well");

    // The same on another node that has written nothing of it, and for who writes to a file that was well.
    let seen = File::open(deployment.file(1, "large")).unwrap();
    assert_eq!(errno(seen.sync_all()), Some(libc::EIO));
    let other = OpenOptions::new().read(true).write(true).open(deployment.file(1, "small")).unwrap();
    assert_eq!(errno(rewrite(&other, &small)), Some(libc::EIO));
    // What can be read is read, names go on, and so does the other server's disk.
    for client in [0, 1] {
        assert!(fs::read(deployment.file(client, "small")).unwrap() == small, "client {client}");
    }
    fs::create_dir(deployment.file(1, "directory")).unwrap();
    fs::rename(deployment.file(1, "small"), deployment.file(1, "directory/small")).unwrap();
    assert!(fs::read(deployment.file(0, "directory/small")).unwrap() == small);
    // The other instance of the same servers.
    let beside = File::create_new(deployment.file(2, "beside")).unwrap();
    rewrite(&beside, &small).unwrap();
    beside.sync_all().unwrap();
    assert!(fs::read(deployment.file(2, "beside")).unwrap() == small);

    // The disk is repaired, and its server started anew: it is used again, with what it had kept.
    deployment.kill_server(FAILING);
    deployment.cluster().repair_disk(FAILING).unwrap_or_else(|error| panic!("{error}"));
    deployment.start_server(FAILING);
    wait_until("the server's content", LIMIT, || rewrite(&other, &small).is_ok()).unwrap();
    other.sync_all().unwrap();
    assert!(fs::read(deployment.file(0, "directory/small")).unwrap() == small);
    fs::remove_file(deployment.file(0, "large")).unwrap();
    drop((large, seen, other, beside));
    deployment.finish();
}

/// All that is on the disk is on it; from then on it takes and gives nothing any more.
fn end_disk(deployment: &Deployment, server: usize) {
    let host = deployment.cluster().server(server);
    let script = format!("sync -f {0:?}; xfs_io -x -c shutdown {0:?}", host.fragment());
    host.shell(&Identity::root(), &script, LIMIT).unwrap_or_else(|error| panic!("{error}"));
}

/// The servers serve the other instance as before, its names too, without having been started anew.
fn neighbour_is_well(deployment: &Deployment, content: &[u8]) {
    fs::create_dir(deployment.file(1, "directory")).unwrap();
    fs::rename(deployment.file(1, "beside"), deployment.file(1, "directory/beside")).unwrap();
    let beside = File::open(deployment.file(1, "directory/beside")).unwrap();
    beside.sync_all().unwrap();
    assert!(fs::read(deployment.file(1, "directory/beside")).unwrap() == content);
    for server in [HOME, FAILING] {
        let process = PathBuf::from(format!("/proc/{}/stat", deployment.server_process(server)));
        assert!(!fs::read_to_string(process).unwrap().contains(") Z "), "server {server} has ended");
    }
}

#[test]
fn a_store_to_what_is_written_down_that_the_disk_refuses_ends_no_server() {
    let shape = Shape { servers: 2, clients: 2, has_neighbour: true, ..Shape::default() };
    let mut deployment = Deployment::serve(shape);
    deployment.mount(0, &Identity::root());
    deployment.mount_neighbour(1);
    let small = Random::new(4).bytes(SMALL);
    fs::write(deployment.file(1, "beside"), &small).unwrap();
    fs::create_dir(deployment.file(0, "first")).unwrap();
    let said = || deployment.server_said(HOME).matches(REFUSED).count();
    assert_eq!(said(), 0);

    // Where there is no page any more the kernel says the same as where the disk does not give or take it: SIGBUS.
    let deeds = deployment.cluster().server(HOME).fragment().join(DEEDS);
    let files: Vec<_> = fs::read_dir(&deeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    files.iter().for_each(|path| OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap());
    // The names are as well as before; what is done with them is not known to the next process.
    for number in 0..10 {
        fs::rename(deployment.file(0, "first"), deployment.file(0, "second")).unwrap();
        fs::rename(deployment.file(0, "second"), deployment.file(0, "first")).unwrap();
        fs::write(deployment.file(0, &format!("file{number}")), &small).unwrap();
    }
    let mut log = OpenOptions::new().append(true).create(true).open(deployment.file(0, "log")).unwrap();
    (0..10).for_each(|number| writeln!(log, "{number}").unwrap());
    // Once for what is done alone, once for the client.
    assert_eq!(said(), 2);
    neighbour_is_well(&deployment, &small);

    deployment.kill_server(HOME);
    deployment.start_server(HOME);
    assert_eq!(fs::read_to_string(deployment.file(0, "log")).unwrap().lines().count(), 10);
    fs::rename(deployment.file(0, "first"), deployment.file(0, "second")).unwrap();
    assert!(fs::read(deployment.file(0, "file9")).unwrap() == small);
    assert!(!deployment.server_said(HOME).contains(REFUSED));
    drop(log);
    deployment.finish();
}

#[test]
fn a_disk_of_names_that_ends_harms_no_other_instance() {
    let storage = Storage::Xfs { bytes: DISK_BYTES };
    let shape = Shape { servers: 2, clients: 2, storage, has_neighbour: true, ..Shape::default() };
    let mut deployment = Deployment::serve(shape);
    deployment.mount(0, &Identity::root());
    deployment.mount_neighbour(1);
    let small = Random::new(3).bytes(SMALL);
    fs::write(deployment.file(0, "kept"), &small).unwrap();
    fs::write(deployment.file(1, "beside"), &small).unwrap();
    let appended = OpenOptions::new().append(true).create(true).open(deployment.file(0, "log")).unwrap();
    (&appended).write_all(b"first").unwrap();
    let (server, image) = (deployment.server_process(HOME), deployment.file(0, "kept"));
    let open = OpenOptions::new().read(true).write(true).open(&image).unwrap();

    end_disk(&deployment, HOME);
    assert_eq!(errno((&appended).write_all(b"second")), Some(libc::EIO));
    assert_eq!(errno(fs::create_dir(deployment.file(0, "directory"))), Some(libc::EIO));
    assert_eq!(errno(fs::rename(&image, deployment.file(0, "moved"))), Some(libc::EIO));
    assert_eq!(errno(fs::remove_file(&image)), Some(libc::EIO));
    assert_eq!(errno(rewrite(&open, &small)), Some(libc::EIO));
    assert_eq!(errno(open.sync_all()), Some(libc::EIO));

    neighbour_is_well(&deployment, &small);
    assert_eq!(deployment.server_process(HOME), server);

    // The disk is in order again, with what it had.
    drop((appended, open));
    deployment.crash_server(HOME);
    deployment.boot_server(HOME);
    assert!(fs::read(&image).unwrap() == small);
    fs::create_dir(deployment.file(0, "directory")).unwrap();
    deployment.finish();
}
