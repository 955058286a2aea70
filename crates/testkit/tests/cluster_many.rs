//! Ten thousand open files through one mount, a thousand clients of one server, and what happens one step beyond.
//!
//! Daemons begin with the descriptors that a login gives and may have at most [`Shape::descriptors_max`]. What was taken is
//! given back, which is counted in `/proc`.

mod deployed;

use deployed::{Deployment, LIMIT, Shape};
use forebay_client::Volume;
use forebay_client::remote::{Address, AttachError, Attached, ConnectError, Description, Timeouts, attach};
use forebay_server::local::raise_descriptor_limit;
use forebay_testkit::{Random, wait_until};
use forebay_wire::message::RefusalReason;
use forebay_wire::{Caller, Ino, OpenFlags, Secret};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Files that are open at once.
const FILES: usize = 10_000;
/// Clients that are attached at once, and the hosts that they are dealt over: a server keeps room for others than one host.
const CLIENTS: usize = 1_000;
const HOSTS: usize = 2;
/// Beyond the first stripe: on another server than the first bytes.
const SECOND_STRIPE: u64 = 70_000;
/// A process may have so many descriptors more afterwards than before: a server keeps the content of 1,024 files at hand for
/// who comes next, and connections were made for the first time.
const KEPT: usize = 1_024 + 200;
/// Content of a client's file, in bytes.
const CONTENT: usize = 1_000;

/// What a process has at a moment.
#[derive(Clone, Copy, Debug)]
struct Use {
    descriptors: usize,
    threads: usize,
    resident_kib: u64,
}

impl Use {
    fn of(process: u32) -> Use {
        let count = |what: &str| fs::read_dir(format!("/proc/{process}/{what}")).expect("it runs").count();
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says so");
        let resident_kib = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        Use { descriptors: count("fd"), threads: count("task"), resident_kib }
    }

    /// Bytes for each of so many things that were not there before.
    fn bytes_each(self, before: Use, count: usize) -> u64 {
        (self.resident_kib.saturating_sub(before.resident_kib) << 10) / count as u64
    }
}

/// Of all daemons: the servers, then the mounts.
fn all(deployment: &Deployment, shape: Shape) -> Vec<Use> {
    let servers = (0..shape.servers).map(|server| deployment.server_process(server));
    let mounts = (0..shape.clients).map(|client| deployment.mount_process(client));
    servers.chain(mounts).map(Use::of).collect()
}

fn tell(name: &str, before: Use, during: Use, after: Use, count: usize) {
    println!(
        "{name}: {} bytes each; before {before:?}, with {count} {during:?}, afterwards {after:?}",
        during.bytes_each(before, count)
    );
}

/// A file with eight bytes on each of two servers.
fn make(directory: &Path, number: usize) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(directory.join(number.to_string()))?;
    put(&file, number)?;
    Ok(file)
}

fn put(file: &File, number: usize) -> io::Result<()> {
    [0, SECOND_STRIPE].iter().try_for_each(|at| file.write_all_at(&number.to_le_bytes(), *at))
}

fn holds(file: &File, number: usize) -> io::Result<bool> {
    let mut found = [0; size_of::<usize>()];
    for at in [0, SECOND_STRIPE] {
        file.read_exact_at(&mut found, at)?;
        if found != number.to_le_bytes() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn ten_thousand_files_are_open_through_one_mount() {
    let shape = Shape { servers: 2, clients: 2, ..Shape::default() };
    let deployment = Deployment::start(shape);
    // For the test itself, which has them open.
    let most = raise_descriptor_limit().unwrap();
    assert!(
        most > FILES as u64 + 1_000,
        "this test needs more descriptors than {most}: raise the hard limit"
    );
    let directory = deployment.file(0, "many");
    fs::create_dir(&directory).unwrap();
    drop(make(&directory, FILES).unwrap());
    let before = all(&deployment, shape);
    let mut open: Vec<File> = (0..FILES).map(|number| make(&directory, number).unwrap()).collect();
    let during = all(&deployment, shape);
    // Some lose their name, by another node.
    for number in (0..FILES).step_by(10) {
        fs::remove_file(deployment.file(1, "many").join(number.to_string())).unwrap();
    }
    for (number, file) in open.iter().enumerate().rev() {
        assert!(holds(file, number).unwrap(), "file {number}");
        put(file, number + 1).unwrap();
    }
    for (number, file) in open.iter().enumerate().step_by(7) {
        assert!(holds(file, number + 1).unwrap(), "file {number} the second time");
    }
    // Nobody else is disturbed.
    fs::write(deployment.file(1, "beside"), "content").unwrap();
    open.clear();
    let returned = |after: &[Use]| {
        let mut pairs = before.iter().zip(after);
        pairs.all(|(before, after)| after.descriptors <= before.descriptors + KEPT)
    };
    let given_back = wait_until("the descriptors", LIMIT, || returned(&all(&deployment, shape)));
    let after = all(&deployment, shape);
    assert!(given_back.is_ok(), "before {before:?}, with the files {during:?}, afterwards {after:?}");
    for (at, name) in ["home server", "second server", "mount", "other mount"].iter().enumerate() {
        tell(name, before[at], during[at], after[at], FILES);
    }
    assert_eq!(fs::read_dir(deployment.file(1, "many")).unwrap().count(), FILES + 1 - FILES / 10);
    deployment.finish();
}

/// A client without a mount.
struct Client {
    attached: Attached,
    volume: Volume,
}

fn attach_one(deployment: &Deployment, patience: Duration) -> Result<Client, AttachError> {
    let token = fs::read(deployment.token_file()).expect("it was written by the deployment");
    let address = |server| Address { tcp: deployment.address(server), unix: None };
    let description = Description {
        instance: "tested".into(),
        namespace: "c1".into(),
        servers: (0..deployment.cluster().servers()).map(address).collect(),
        home: 0,
        secret: Secret::new(&token).expect("long enough"),
        timeouts: Timeouts { attach: patience, ..Timeouts::default() },
        direct: false,
    };
    let attached = attach(&description)?;
    let volume = Volume::new(attached.metadata.clone(), attached.data.clone());
    Ok(Client { attached, volume })
}

fn root() -> Caller {
    Caller { uid: 0, gid: 0, pid: std::process::id() }
}

/// The content of the file of a client.
fn content(number: usize) -> Vec<u8> {
    Random::new(number as u64).bytes(CONTENT)
}

impl Client {
    fn write(&self, number: usize) {
        let name = number.to_string();
        let made = self.volume.create(root(), Ino::ROOT, OsStr::new(&name), 0o644, OpenFlags::READ_WRITE);
        let (_, opened) = made.unwrap_or_else(|error| panic!("file {number}: {error}"));
        assert_eq!(self.volume.write(opened.handle, 0, &content(number), false), Ok(CONTENT));
        self.volume.release(opened.handle).unwrap();
    }

    fn reads(&self, number: usize) {
        let found = self.volume.lookup(root(), Ino::ROOT, OsStr::new(&number.to_string()));
        let attr = found.unwrap_or_else(|error| panic!("file {number}: {error}"));
        let opened = self.volume.open(root(), attr.ino, OpenFlags::READ_ONLY).unwrap();
        let mut data = vec![0; CONTENT + 1];
        assert_eq!(self.volume.read(opened.handle, 0, &mut data), Ok(CONTENT), "file {number}");
        assert!(data[..CONTENT] == content(number), "file {number}");
        self.volume.release(opened.handle).unwrap();
        self.volume.forget(attr.ino, 1);
    }
}

fn is_one_too_many(error: &AttachError) -> bool {
    let reason = RefusalReason::TooManyConnections;
    matches!(error, AttachError::Connect(ConnectError::Refused { reason: found, .. }) if *found == reason)
}

/// Clients on one host. What they do is done in its network.
struct Crowd<'a> {
    deployment: &'a Deployment,
    host: usize,
    clients: Vec<(usize, Client)>,
}

impl<'a> Crowd<'a> {
    fn gather(deployment: &'a Deployment, host: usize) -> Crowd<'a> {
        let join = |number| {
            let joined = attach_one(deployment, LIMIT);
            (number, joined.unwrap_or_else(|error| panic!("client {number}: {error}")))
        };
        let gathered =
            deployment.client(host).in_network(|| (host..CLIENTS).step_by(HOSTS).map(join).collect());
        Crowd { deployment, host, clients: gathered.unwrap_or_else(|error| panic!("{error}")) }
    }

    fn each(&self, work: impl Fn(&Client, usize) + Sync) {
        let host = self.deployment.client(self.host);
        let done = host.in_network(|| self.clients.iter().for_each(|(number, client)| work(client, *number)));
        done.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_thousand_clients_of_one_server() {
    let shape = Shape { servers: 1, clients: HOSTS, ..Shape::default() };
    let deployment = Deployment::serve(shape);
    raise_descriptor_limit().unwrap();
    let server = || Use::of(deployment.server_process(0));
    let (before, own_before) = (server(), Use::of(std::process::id()));
    let crowds = [0, 1].map(|host| Crowd::gather(&deployment, host));
    let idle = server();
    let each = idle.bytes_each(before, CLIENTS);
    println!("server: {each} bytes for an idle client; before {before:?}, with {CLIENTS} {idle:?}");
    crowds.iter().for_each(|crowd| crowd.each(Client::write));
    // What each has made another one reads, while all are there.
    crowds.iter().for_each(|crowd| crowd.each(|client, number| client.reads((number + 1) % CLIENTS)));
    let (working, own) = (server(), Use::of(std::process::id()));
    println!("server: {} bytes for a client that works; {working:?}", working.bytes_each(before, CLIENTS));
    println!("client: {} bytes each, with its connections; {own:?}", own.bytes_each(own_before, CLIENTS));
    // More of them than there is room for. The first that has no room is told so, and those who are there go on.
    let refused = deployment.client(0).in_network(|| {
        let mut more = Vec::new();
        loop {
            match attach_one(&deployment, Duration::from_millis(100)) {
                Ok(client) => more.push(client),
                Err(error) => break (more, error),
            }
            assert!(more.len() < 20_000, "there is no end");
        }
    });
    let (more, refused) = refused.unwrap_or_else(|error| panic!("{error}"));
    println!("refused after {} more: {refused}; the server has {:?}", more.len(), server());
    assert!(is_one_too_many(&refused), "{refused}");
    assert!(refused.to_string().contains("too many connections"), "{refused}");
    crowds.iter().for_each(|crowd| crowd.each(|client, number| client.reads(number)));
    // Whoever goes makes room.
    drop(more);
    let come = || deployment.client(0).in_network(|| attach_one(&deployment, LIMIT).is_ok());
    wait_until("room for one more", LIMIT, || come().is_ok_and(|came| came)).unwrap();
    crowds.iter().for_each(|crowd| crowd.each(|client, _| client.attached.close()));
    let is_back =
        || server().descriptors <= before.descriptors + 10 && server().threads <= before.threads + 10;
    wait_until("the descriptors and threads of the server", LIMIT, is_back).unwrap();
    println!("server afterwards: {:?}", server());
    deployment.finish();
}

/// Few, so that they are used up soon.
const FEW: u64 = 1_024;

#[test]
fn a_server_that_has_no_descriptors_left_refuses_an_open_and_nothing_else() {
    let shape = Shape { servers: 2, clients: 2, descriptors_max: FEW, ..Shape::default() };
    let deployment = Deployment::start(shape);
    raise_descriptor_limit().unwrap();
    let directory = deployment.file(0, "many");
    fs::create_dir(&directory).unwrap();
    let mut open = Vec::new();
    let refused = loop {
        match make(&directory, open.len()) {
            Ok(file) => open.push(file),
            Err(error) => break error,
        }
        assert!(open.len() < FEW as usize, "more files are open than descriptors are there");
    };
    println!("refused after {}: {refused}; {:?}", open.len(), all(&deployment, shape));
    assert!(open.len() as u64 > FEW / 2, "only {} of {FEW} were of use", open.len());
    assert_eq!(refused.raw_os_error(), Some(libc::ENFILE), "{refused}");
    assert!(!directory.join(open.len().to_string()).exists(), "what was refused was not made");
    // What is open can be used, also where the substripe files have to be opened again.
    for (number, file) in open.iter().enumerate() {
        assert!(holds(file, number).unwrap(), "file {number}");
        put(file, number + 1).unwrap();
    }
    // Names can be looked at, changed and removed, by the other node too.
    let other = deployment.file(1, "many");
    assert_eq!(fs::read_dir(&other).unwrap().count(), open.len());
    fs::create_dir(deployment.file(1, "directory")).unwrap();
    fs::rename(other.join("0"), other.join("renamed")).unwrap();
    fs::remove_file(other.join("1")).unwrap();
    assert_eq!(fs::metadata(other.join("2")).unwrap().len(), SECOND_STRIPE + 8);
    let new = File::create(deployment.file(1, "new"));
    assert_eq!(new.unwrap_err().raw_os_error(), Some(libc::ENFILE));
    // A client can come.
    deployment.client(1).in_network(|| drop(attach_one(&deployment, LIMIT).unwrap())).unwrap();
    // Half of them are closed, and there is room again.
    open.truncate(open.len() / 2);
    let makes = || File::create(deployment.file(1, "new")).is_ok();
    wait_until("room for an open file", LIMIT, makes).unwrap();
    drop(open);
    deployment.finish();
}
