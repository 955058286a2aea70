//! The disk of one server takes what is written and fails when it is to keep it.
//!
//! Whoever relies on it is told by an error, and again whenever he asks, on whatever node; everything else goes on.

mod deployed;

use deployed::{Deployment, LIMIT, Shape};
use forebay_testkit::cluster::Storage;
use forebay_testkit::{Random, wait_until};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The server whose disk fails. The names are on server 0.
const FAILING: usize = 1;
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
    (0..2).for_each(|client| deployment.mount(client, &forebay_testkit::Identity::root()));
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
