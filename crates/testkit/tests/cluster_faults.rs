//! What breaks in a machine room: processes are killed, hosts crash, cables are pulled, disks fill up, tokens are wrong.
//!
//! What had been answered holds afterwards, what is under way waits or gets an error, and nothing else notices.

mod deployed;

use deployed::{Deployment, LIMIT, Shape, write_secret};
use forebay_testkit::cluster::{Fault, HostId, Storage};
use forebay_testkit::xfs_image::SMALLEST_BYTES;
use forebay_testkit::{Identity, Random, wait_until};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Size of one write of the load: it crosses stripes.
const BLOCK_BYTES: usize = 100_000;
/// Blocks of its file that are written over and over.
const BLOCKS: u64 = 40;
/// How long something is watched that must not happen.
const PATIENCE: Duration = Duration::from_millis(500);

/// A program that writes, reads back, makes and removes names all the time; it stops at the first wrong answer.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Load {
    fn start(directory: PathBuf, seed: u64) -> Load {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || work(&directory, seed, &ends, &counts));
        Load { stop, rounds, thread: Some(thread) }
    }

    /// Awaits that it has done something since now: whatever was in its way is over.
    fn goes_on(&mut self) {
        let goal = self.rounds.load(SeqCst) + 3;
        let finished = |load: &Load| load.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let went = wait_until("the load", LIMIT, || self.rounds.load(SeqCst) >= goal || finished(self));
        if finished(self) {
            let said = self.thread.take().map(|thread| thread.join().unwrap());
            panic!("the load ended: {said:?}");
        }
        assert!(went.is_ok(), "the load stands after {} rounds", self.rounds.load(SeqCst));
    }

    fn end(mut self) {
        self.stop.store(true, SeqCst);
        let thread = self.thread.take().expect("it has not ended");
        wait_until("the end of the load", LIMIT, || thread.is_finished()).unwrap();
        thread.join().unwrap().unwrap();
    }
}

fn work(directory: &PathBuf, seed: u64, stop: &AtomicBool, rounds: &AtomicU64) -> Result<(), String> {
    let said = |what: String| move |error: io::Error| format!("{what}: {error}");
    fs::create_dir_all(directory).map_err(said("mkdir".into()))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let file = options.open(directory.join("data")).map_err(said("open".into()))?;
    let mut written = vec![None; BLOCKS as usize];
    let mut random = Random::new(seed);
    while !stop.load(SeqCst) {
        let round = rounds.load(SeqCst);
        let block = random.below(BLOCKS);
        let data = Random::new(seed ^ round).bytes(BLOCK_BYTES);
        let at = block * BLOCK_BYTES as u64;
        file.write_all_at(&data, at).map_err(said(format!("write in round {round}")))?;
        written[block as usize] = Some(round);
        let block = random.below(BLOCKS);
        if let Some(round) = written[block as usize] {
            check(&file, seed, block, round)?;
        }
        let (name, other) = (directory.join(format!("name{round}")), directory.join(format!("other{round}")));
        let mut new = OpenOptions::new();
        // Not exclusive: with O_EXCL an answer that was lost with its server becomes EEXIST, since the name is there.
        new.write(true).create(true).truncate(false);
        drop(new.open(&name).map_err(said(format!("create in round {round}")))?);
        fs::rename(&name, &other).map_err(said(format!("rename in round {round}")))?;
        fs::remove_file(&other).map_err(said(format!("unlink in round {round}")))?;
        rounds.fetch_add(1, SeqCst);
    }
    for (block, round) in (0..).zip(written) {
        if let Some(round) = round {
            check(&file, seed, block, round)?;
        }
    }
    let names = fs::read_dir(directory).map_err(said("list".into()))?.count();
    if names == 1 { Ok(()) } else { Err(format!("{names} names are left")) }
}

fn check(file: &File, seed: u64, block: u64, round: u64) -> Result<(), String> {
    let mut found = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut found, block * BLOCK_BYTES as u64)
        .map_err(|error| format!("read of block {block}: {error}"))?;
    let expected = Random::new(seed ^ round).bytes(BLOCK_BYTES);
    if found == expected { Ok(()) } else { Err(format!("block {block} is not what round {round} wrote")) }
}

fn loads(deployment: &Deployment, clients: usize) -> Vec<Load> {
    let start = |client| Load::start(deployment.file(client, &format!("load{client}")), client as u64 + 1);
    let mut loads: Vec<Load> = (0..clients).map(start).collect();
    loads.iter_mut().for_each(Load::goes_on);
    loads
}

/// Runs `work` in a thread and hands out what it says, so that one can see that it waits.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (send, receive) = channel();
    std::thread::spawn(move || drop(send.send(work())));
    receive
}

#[test]
fn a_wrong_token_opens_nothing() {
    let deployment = Deployment::serve(Shape { clients: 1, ..Shape::default() });
    let directory = deployment.client(0).directory();
    let (token, description) = (directory.join("wrong-token"), directory.join("wrong.toml"));
    write_secret(&token, "wrong");
    fs::write(&description, deployment.description(&token)).unwrap();
    let (status, said) = deployment.mount_fails(0, &description);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("refuses") || said.contains("proof"), "{said}");
    assert!(!said.contains("wrong***"), "a secret is never shown: {said}");
    // A token that everybody can read is not even tried.
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    fs::set_permissions(&token, open).unwrap();
    let (_, said) = deployment.mount_fails(0, &description);
    assert!(said.contains("chmod 600"), "{said}");
    // Neither is another instance or namespace.
    let right = deployment.description(&deployment.token_file());
    for (from, to) in [("name = \"tested\"", "name = \"other\""), ("\"c1\"", "\"c2\"")] {
        fs::write(&description, right.replace(from, to)).unwrap();
        let (status, said) = deployment.mount_fails(0, &description);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("refuses"), "{said}");
    }
    deployment.finish();
}

#[test]
fn a_killed_server_comes_back_and_its_clients_go_on() {
    let mut deployment = Deployment::start(Shape { clients: 2, ..Shape::default() });
    let mut loads = loads(&deployment, 2);
    // The home of the names, one that has data only, and the home once more.
    for server in [0, 2, 0] {
        deployment.kill_server(server);
        std::thread::sleep(PATIENCE / 5);
        deployment.start_server(server);
        loads.iter_mut().for_each(Load::goes_on);
    }
    loads.into_iter().for_each(Load::end);
    deployment.finish();
}

#[test]
fn a_crashed_host_comes_back_with_its_disk() {
    let storage = Storage::Xfs { bytes: SMALLEST_BYTES };
    let mut deployment = Deployment::start(Shape { servers: 2, clients: 1, storage, ..Shape::default() });
    let mut load = loads(&deployment, 1).pop().unwrap();
    deployment.crash_server(1);
    deployment.boot_server(1);
    load.goes_on();
    load.end();
    deployment.finish();
}

#[test]
fn an_open_file_survives_the_server_of_its_name() {
    let mut deployment = Deployment::start(Shape { clients: 2, ..Shape::default() });
    let data = Random::new(5).bytes(1_000_000);
    for name in ["kept", "removed"] {
        fs::write(deployment.file(0, name), &data).unwrap();
    }
    let open = ["kept", "removed"]
        .map(|name| OpenOptions::new().read(true).write(true).open(deployment.file(0, name)).unwrap());
    fs::remove_file(deployment.file(1, "removed")).unwrap();
    deployment.kill_server(0);
    deployment.start_server(0);
    for file in &open {
        let mut found = vec![0; data.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == data);
        file.write_all_at(b"more", 1_000_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1_000_004);
    }
    assert_eq!(fs::metadata(deployment.file(1, "kept")).unwrap().len(), 1_000_004);
    assert_eq!(fs::metadata(deployment.file(1, "removed")).unwrap_err().kind(), ErrorKind::NotFound);
    drop(open);
    deployment.finish();
}

#[test]
fn locks_outlive_their_server_and_not_their_client() {
    let mut deployment = Deployment::start(Shape { clients: 2, ..Shape::default() });
    let root = Identity::root();
    deployment.shell(0, &root, "touch lock");
    let holder = deployment.shell_in_background(0, "flock lock -c 'touch held; sleep 1000'");
    wait_until("the holder", LIMIT, || deployment.file(1, "held").exists()).unwrap();
    let tried = "flock -n lock true && echo got || echo refused";
    assert_eq!(deployment.shell(1, &root, tried), "refused\n");
    deployment.kill_server(0);
    deployment.start_server(0);
    assert_eq!(deployment.shell(1, &root, tried), "refused\n");
    // Its client is killed: after the grace time nobody holds it.
    deployment.kill_mount(0);
    wait_until("the end of the lock", LIMIT, || deployment.shell(1, &root, tried) == "got\n").unwrap();
    // Its host cannot end before somebody has heard of its end.
    drop(holder);
    deployment.finish();
}

#[test]
fn what_a_killed_client_held_is_given_back() {
    let mut deployment = Deployment::start(Shape { clients: 2, metered: Some(16 << 20), ..Shape::default() });
    let free = |deployment: &Deployment| rustix::fs::statvfs(deployment.seen(1)).unwrap().f_bavail;
    let before = free(&deployment);
    // Open and without a name: only the client's hold keeps it.
    let mut holder = deployment.shell_in_background(
        0,
        "exec 3<> file; head -c 3000000 /dev/urandom >&3; rm file; touch ready; exec sleep 1000",
    );
    wait_until("the holder", LIMIT, || deployment.file(1, "ready").exists()).unwrap();
    assert!(free(&deployment) < before);
    holder.signal(libc::SIGKILL);
    holder.ends_within(LIMIT).unwrap();
    deployment.kill_mount(0);
    wait_until("the space of a file that only a dead client held", LIMIT, || free(&deployment) >= before)
        .unwrap();
    // The client can come back.
    deployment.mount(0, &Identity::root());
    assert!(deployment.file(0, "ready").exists());
    deployment.finish();
}

#[test]
fn a_short_fault_of_the_network_is_waited_for() {
    let deployment = Deployment::start(Shape { clients: 2, ..Shape::default() });
    let (server, client) = (HostId::Server(1), HostId::Client(0));
    let mut load = loads(&deployment, 1).pop().unwrap();
    for fault in [Fault::Unplugged(client), Fault::Silent(server), Fault::Severed(client, server)] {
        deployment.cluster().inject(fault).unwrap();
        std::thread::sleep(PATIENCE);
        deployment.cluster().repair(fault).unwrap();
        load.goes_on();
    }
    load.end();
    deployment.finish();
}

#[test]
fn a_mount_is_taken_away_while_its_home_server_is_away() {
    let mut deployment = Deployment::start(Shape { clients: 1, ..Shape::default() });
    deployment.kill_server(0);
    let point = deployment.mount_point(0);
    let mut unmount = deployment.forebay(&["umount", point.to_str().expect("plain path")]);
    let host = deployment.client(0);
    host.success(&mut unmount, Duration::from_secs(20)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(host.mounted_at(&point), None);
}

#[test]
fn a_server_that_stays_away_is_an_error_until_it_is_back() {
    let mut deployment = Deployment::start(Shape { clients: 1, final_s: 3, ..Shape::default() });
    let data = Random::new(7).bytes(1_000_000);
    fs::write(deployment.file(0, "file"), &data).unwrap();
    let file = Arc::new(File::open(deployment.file(0, "file")).unwrap());
    deployment.kill_server(3);
    let (reader, length) = (file.clone(), data.len());
    let read = in_background(move || {
        let mut found = vec![0; length];
        reader.read_exact_at(&mut found, 0).map(|()| found)
    });
    assert!(read.recv_timeout(PATIENCE).is_err(), "it has to wait first");
    let failed = read.recv_timeout(LIMIT).expect("it does not wait for ever").unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(libc::EIO), "{failed}");
    // Names are elsewhere and go on.
    fs::create_dir(deployment.file(0, "directory")).unwrap();
    deployment.start_server(3);
    let again = || {
        let mut found = vec![0; data.len()];
        file.read_exact_at(&mut found, 0).is_ok() && found == data
    };
    wait_until("the server's content", LIMIT, again).unwrap();
    drop(file);
    deployment.finish();
}

#[test]
fn unmounting_does_not_wait_for_servers() {
    let mut deployment = Deployment::start(Shape { servers: 2, clients: 1, ..Shape::default() });
    fs::write(deployment.file(0, "file"), "content").unwrap();
    (0..2).for_each(|server| deployment.kill_server(server));
    let begin = std::time::Instant::now();
    deployment.unmount(0);
    // Less than any wait for a server; the limit of the harness is no proof.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    (0..2).for_each(|server| deployment.start_server(server));
    deployment.mount(0, &Identity::root());
    assert_eq!(fs::read_to_string(deployment.file(0, "file")).unwrap(), "content");
    deployment.finish();
}

#[test]
fn a_full_fragment_is_an_error_of_the_writer_alone() {
    let deployment =
        Deployment::start(Shape { servers: 2, clients: 2, metered: Some(8 << 20), ..Shape::default() });
    fs::write(deployment.file(0, "before"), "content").unwrap();
    let filled = in_background({
        let path = deployment.file(0, "large");
        move || fs::write(path, vec![1; 32 << 20])
    });
    let full = filled.recv_timeout(LIMIT).unwrap().unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    // The other reads, makes names, and overwrites what is stored.
    assert_eq!(fs::read_to_string(deployment.file(1, "before")).unwrap(), "content");
    fs::create_dir(deployment.file(1, "directory")).unwrap();
    let stored = OpenOptions::new().write(true).open(deployment.file(1, "large")).unwrap();
    stored.write_all_at(&[2; 100_000], 0).unwrap();
    drop(stored);
    fs::remove_file(deployment.file(1, "large")).unwrap();
    let room = || fs::write(deployment.file(0, "after"), vec![3; 4 << 20]).is_ok();
    wait_until("the room of what was removed", LIMIT, room).unwrap();
    deployment.finish();
}
