//! The cluster itself: hosts reach each other, faults cut exactly what they say, and nothing stays behind.

use forebay_testkit::cluster::{Cluster, ClusterError, Fault, Host, HostId, Plan, Storage};
use forebay_testkit::leaks::{self, Namespace};
use forebay_testkit::xfs_image::SMALLEST_BYTES;
use forebay_testkit::{Identity, ProcessGuard, mounts, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longer than any working connection takes.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a connection is tried that is expected to fail. The assertion is that it does not come about.
const PATIENCE: Duration = Duration::from_millis(300);

fn cluster(servers: usize, clients: usize, storage: Storage) -> Cluster {
    Cluster::build(&Plan { servers, clients, storage }).unwrap()
}

fn listener(host: &Host) -> (TcpListener, SocketAddr) {
    let listener = host.in_network(|| TcpListener::bind((host.address(), 0))).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn connect(from: &Host, to: SocketAddr, patience: Duration) -> std::io::Result<TcpStream> {
    from.in_network(|| TcpStream::connect_timeout(&to, patience)).unwrap()
}

fn reaches(from: &Host, to: SocketAddr) -> bool {
    wait_until("a connection", LIMIT, || connect(from, to, LIMIT).is_ok()).is_ok()
}

fn is_cut_off(from: &Host, to: SocketAddr) -> bool {
    connect(from, to, PATIENCE).is_err_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        )
    })
}

#[test]
fn every_host_talks_to_every_other_and_to_nobody_else() {
    let cluster = cluster(4, 3, Storage::Directory);
    for to in cluster.hosts() {
        let (listener, address) = listener(to);
        for from in cluster.hosts() {
            let mut out = connect(from, address, LIMIT).unwrap();
            out.write_all(b"ping").unwrap();
            let (mut accepted, peer) = listener.accept().unwrap();
            let mut word = [0; 4];
            accepted.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"ping");
            assert_eq!(peer.ip(), from.address());
        }
        // The machine has no such network: the connection must not come about.
        assert!(TcpStream::connect_timeout(&address, PATIENCE).is_err());
    }
    cluster.finish();
}

#[test]
fn clusters_stand_side_by_side() {
    let (one, other) = (cluster(1, 1, Storage::Directory), cluster(1, 1, Storage::Directory));
    assert_eq!(one.server(0).address(), other.server(0).address());
    let (_listening, address) = listener(one.server(0));
    assert!(reaches(one.client(0), address));
    assert_eq!(connect(other.client(0), address, LIMIT).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    one.finish();
    other.finish();
}

#[test]
fn a_fault_cuts_what_it_says_and_nothing_else_until_it_is_repaired() {
    let cluster = cluster(2, 2, Storage::Directory);
    let (server, client) = (HostId::Server(0), HostId::Client(0));
    let (_first, cut) = listener(cluster.server(0));
    let (_second, whole) = listener(cluster.server(1));
    for fault in [Fault::Unplugged(server), Fault::Silent(server), Fault::Severed(client, server)] {
        assert!(reaches(cluster.client(0), cut) && reaches(cluster.client(1), cut), "before {fault:?}");
        cluster.inject(fault).unwrap();
        assert!(is_cut_off(cluster.client(0), cut), "{fault:?}");
        assert!(reaches(cluster.client(0), whole), "{fault:?}");
        if matches!(fault, Fault::Severed(..)) {
            assert!(reaches(cluster.client(1), cut), "{fault:?}");
        } else {
            assert!(is_cut_off(cluster.client(1), cut), "{fault:?}");
        }
        cluster.repair(fault).unwrap();
        assert!(reaches(cluster.client(0), cut), "after {fault:?}");
    }
    cluster.finish();
}

#[test]
fn an_open_connection_outlives_a_short_fault() {
    let cluster = cluster(1, 1, Storage::Directory);
    for fault in [
        Fault::Unplugged(HostId::Client(0)),
        Fault::Silent(HostId::Server(0)),
        Fault::Severed(HostId::Client(0), HostId::Server(0)),
    ] {
        let (listener, address) = listener(cluster.server(0));
        let mut out = connect(cluster.client(0), address, LIMIT).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        cluster.inject(fault).unwrap();
        out.write_all(b"late").unwrap();
        accepted.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut word = [0; 4];
        let nothing = accepted.read(&mut word).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "{fault:?}");
        cluster.repair(fault).unwrap();
        accepted.set_read_timeout(Some(LIMIT)).unwrap();
        accepted.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"late");
    }
    cluster.finish();
}

#[test]
fn a_host_has_names_processes_and_mounts_of_its_own() {
    let cluster = cluster(1, 1, Storage::Directory);
    let (client, eyes) = (cluster.client(0), Identity::nobody());
    assert_eq!(client.shell(&eyes, "uname -n; id -u", LIMIT).unwrap(), "client0\n65534\n");
    let point = client.directory().join("point");
    std::fs::create_dir(&point).unwrap();
    let script = format!("mount -t tmpfs none {0} && echo inside > {0}/file", point.display());
    client.shell(&Identity::root(), &script, LIMIT).unwrap();
    assert_eq!(client.mounted_at(&point).unwrap().kind, "tmpfs");
    assert_eq!(cluster.server(0).mounted_at(&point), None);
    assert_eq!(mounts::at(&point), None);
    assert!(!point.join("file").exists());
    let seen = client.seen(&point.join("file")).unwrap();
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "inside\n");
    // Only the shell itself and the keeper are there; the number of the first process is 1 here too.
    let processes = client.shell(&Identity::root(), "cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l", LIMIT);
    let processes = processes.unwrap();
    assert!(
        processes.starts_with("cat\n") && processes.trim_end().lines().last().unwrap().len() == 1,
        "{processes}"
    );
    cluster.finish();
}

#[test]
fn a_crashed_host_is_gone_with_its_processes_and_boots_with_its_disk() {
    let mut cluster = cluster(1, 1, Storage::Xfs { bytes: SMALLEST_BYTES });
    let id = HostId::Server(0);
    let fragment = cluster.server(0).fragment();
    assert_eq!(cluster.server(0).mounted_at(&fragment).unwrap().kind, "xfs");
    let file = fragment.join("file");
    std::fs::write(cluster.server(0).seen(&file).unwrap(), "kept").unwrap();
    let (listening, address) = listener(cluster.server(0));
    let mut running = cluster.server(0).start(Command::new("sleep").arg("1000")).unwrap();
    assert!(reaches(cluster.client(0), address));
    assert!(running.ended().is_none());

    // A socket of the test keeps the network of the host alive; it has to go first, like a program's.
    drop(listening);
    let killed = std::thread::scope(|scope| {
        let killed = scope.spawn(|| running.ends_within(LIMIT));
        cluster.crash(id).unwrap();
        killed.join().unwrap()
    });
    assert!(killed.is_some_and(|status| !status.success()));
    assert!(is_cut_off(cluster.client(0), address));
    assert!(
        matches!(cluster.server(0).run(&mut Command::new("true"), LIMIT), Err(ClusterError::Down(down)) if down == id)
    );

    cluster.boot(id).unwrap();
    assert_eq!(std::fs::read_to_string(cluster.server(0).seen(&file).unwrap()).unwrap(), "kept");
    let (listening, address) = listener(cluster.server(0));
    assert!(reaches(cluster.client(0), address));
    drop(listening);
    cluster.finish();
}

#[test]
fn a_full_disk_is_full() {
    let cluster = cluster(1, 0, Storage::Xfs { bytes: SMALLEST_BYTES });
    let fill = format!("dd if=/dev/zero of={}/file bs=1M count=400", cluster.server(0).fragment().display());
    let error = cluster.server(0).shell(&Identity::root(), &fill, LIMIT).unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
    cluster.finish();
}

#[test]
fn a_panicking_test_leaves_nothing() {
    let (send, receive) = std::sync::mpsc::channel();
    let ended = std::thread::spawn(move || {
        let cluster = cluster(1, 1, Storage::Xfs { bytes: SMALLEST_BYTES });
        let running = cluster.server(0).start(Command::new("sleep").arg("1000")).unwrap();
        send.send((cluster.namespaces(), cluster.directory().to_owned(), running.id())).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(ended.is_err());
    let (namespaces, directory, _) = receive.recv().unwrap();
    assert_nothing_of(&namespaces, &directory);
}

fn assert_nothing_of(namespaces: &[Namespace], directory: &Path) {
    let mut left = Vec::new();
    let gone = wait_until("the end of everything", LIMIT, || {
        left = leaks::holding(namespaces);
        left.extend(leaks::below(directory));
        left.is_empty() && !directory.exists()
    });
    assert!(gone.is_ok(), "{} exists: {}, {left:?}", directory.display(), directory.exists());
}

/// Full name of the process below.
const VICTIM: &str = "victim_process";

#[test]
fn a_killed_test_leaves_nothing() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", VICTIM, "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut victim = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
    let (root, directory) = loop {
        let mut line = String::new();
        let read = std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert!(read > 0, "the victim ended before it had a cluster");
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [.., "CLUSTER", root, directory] = words[..] {
            break (root.to_owned(), directory.to_owned());
        }
    };
    // The root of the host is `/proc/<its first process>/root`.
    let namespaces = Namespace::of_process(root.split('/').nth(2).unwrap().parse().unwrap());
    let own = Namespace::of_process(std::process::id());
    let namespaces: Vec<_> = namespaces.into_iter().filter(|name| !own.contains(name)).collect();
    assert!(namespaces.len() >= 5 && !leaks::holding(&namespaces).is_empty());
    assert!(Path::new(&directory).exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_nothing_of(&namespaces, Path::new(&directory));
}

#[test]
#[ignore = "the process that another test kills"]
fn victim_process() {
    let cluster = cluster(1, 1, Storage::Xfs { bytes: SMALLEST_BYTES });
    let server = cluster.server(0);
    let _running: ProcessGuard = server.start(Command::new("sleep").arg("1000")).unwrap();
    // On a line that the harness may have begun.
    let root = server.seen(Path::new("/")).unwrap();
    println!("CLUSTER {} {}", root.display(), cluster.directory().display());
    loop {
        std::thread::park();
    }
}
