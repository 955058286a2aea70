//! A volume over connections against the local volume and the bare local file system, in one run:
//! `remote_bench <directory> [rounds]`.
//!
//! Four servers run in this process and are reached over TCP on loopback, over Unix sockets, and past the servers by
//! descriptors. Each round runs every way in turn; the table shows medians. The file is in the page cache, so that the cost
//! of the way shows and not that of the disk.

use forebay_client::remote::{Address, Attached, Description, Peers, Timeouts, attach, peers};
use forebay_client::{Handle, Volume};
use forebay_model::layout::LayoutChoice;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use forebay_server::net::{HostedNamespace, HostedTree, NetConfig, Secrets, ServedData, Server};
use forebay_server::node::{NodeInstance, NodeSpec};
use forebay_wire::{Caller, DataService, Ino, OpenFlags, Secret};
use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const SERVERS: usize = 4;
const FILE: u64 = 128 << 20;
const NAMES: usize = 2000;
const NAME: &str = "bench";

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

/// Requests per second, from threads in parts of the file; `most` bytes are gone through.
fn run(target: &dyn Target, size: usize, threads: u64, write: bool, most: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut buffer = vec![thread as u8; size];
                let (part, steps) = (FILE / threads, most / threads / size as u64);
                for step in 0..steps {
                    let offset = thread * part + step * size as u64;
                    if write { target.write(offset, &buffer) } else { target.read(offset, &mut buffer) }
                }
            });
        }
    });
    (most / size as u64) as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id() }
}

fn token() -> Secret {
    Secret::new(&[1; 32]).expect("long enough")
}

fn seal() -> Secret {
    Secret::new(&[2; 32]).expect("long enough")
}

/// Four servers of one instance, with the names at the first.
struct Instance {
    servers: Vec<Server>,
    addresses: Vec<Address>,
    _nodes: Vec<Arc<NodeInstance>>,
    _peers: Peers,
}

fn serve(directory: &Path) -> Instance {
    let node = |position: usize| {
        let root = directory.join(format!("node{position}"));
        std::fs::create_dir_all(&root).expect("make a fragment");
        let (position, servers) = (position as u32, SERVERS as u32);
        let spec = NodeSpec { root, instance: "be".into(), space: SpaceRule::Hard, position, servers };
        NodeInstance::open(&spec).expect("open a fragment")
    };
    let nodes: Vec<_> = (0..SERVERS).map(node).collect();
    let start = |position: usize| {
        let unix = directory.join(format!("socket{position}"));
        let tcp = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let config = NetConfig { tcp, unix: Some(unix.clone()), ..NetConfig::default() };
        let server = Server::start(config).expect("start a server");
        let tcp = server.addresses().expect("addresses")[0].to_string();
        (server, Address { tcp, unix: Some(unix) })
    };
    let (servers, addresses): (Vec<_>, Vec<_>) = (0..SERVERS).map(start).unzip();
    let peers = peers(&description(&addresses, seal(), false, true)).expect("peers");
    let data: Vec<_> = nodes.iter().map(|node| ServedData::new(node.data(NAME).expect("data"))).collect();
    let mut all = peers.data.clone();
    all[0] = data[0].clone() as Arc<dyn DataService>;
    let spec =
        NamespaceSpec { name: NAME.into(), layout: LayoutChoice::default(), limits: Limits::default() };
    let tree = nodes[0].tree(&spec, all.clone()).expect("names");
    for (position, (server, data)) in servers.iter().zip(data).enumerate() {
        let home = HostedTree { metadata: tree.clone(), data: all.clone(), max_files: None, sessions: None };
        let namespace = HostedNamespace {
            name: NAME.into(),
            data,
            tree: (position == 0).then_some(home),
            max_file_size: i64::MAX as u64,
            position: position as u32,
            servers: SERVERS as u32,
            direct_writes: true,
        };
        server.add(NAME, Secrets { token: token(), seal: seal() }, namespace).expect("serve");
    }
    Instance { servers, addresses, _nodes: nodes, _peers: peers }
}

fn description(addresses: &[Address], secret: Secret, unix: bool, direct: bool) -> Description {
    let address =
        |address: &Address| Address { tcp: address.tcp.clone(), unix: address.unix.clone().filter(|_| unix) };
    Description {
        instance: NAME.into(),
        namespace: NAME.into(),
        servers: addresses.iter().map(address).collect(),
        home: 0,
        secret,
        timeouts: Timeouts::default(),
        direct,
    }
}

fn volume(attached: &Attached) -> Volume {
    Volume::new(attached.metadata.clone(), attached.data.clone())
}

fn content(ways: &[(&str, &dyn Target)], rounds: usize) {
    print!("{:<28}", "per second");
    ways.iter().for_each(|(name, _)| print!("{name:>12}"));
    println!("   ratios to the first");
    for (name, size, threads, write) in [
        ("rewrite 1 MiB", 1 << 20, 1, true),
        ("read 1 MiB", 1 << 20, 1, false),
        ("rewrite 1 MiB, 4 threads", 1 << 20, 4, true),
        ("read 1 MiB, 4 threads", 1 << 20, 4, false),
        ("rewrite 4 KiB", 4096, 1, true),
        ("read 4 KiB", 4096, 1, false),
        ("rewrite 4 KiB, 4 threads", 4096, 4, true),
        ("read 4 KiB, 4 threads", 4096, 4, false),
    ] {
        let most = if size == 4096 { 32 << 20 } else { FILE };
        let mut rates = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for (rates, (_, target)) in rates.iter_mut().zip(ways) {
                rates.push(run(*target, size, threads, write, most));
            }
        }
        let medians: Vec<f64> = rates.into_iter().map(median).collect();
        print!("{name:<28}");
        medians.iter().for_each(|rate| print!("{rate:>12.0}"));
        print!("  ");
        medians.iter().for_each(|rate| print!(" {:.2}", rate / medians[0]));
        println!();
    }
}

/// Creates, looks up and removes names.
fn names(label: &str, volume: &Volume) {
    let names: Vec<String> = (0..NAMES).map(|n| format!("file{n}")).collect();
    let rate = |start: Instant| NAMES as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for name in &names {
        let made = volume.create(me(), Ino::ROOT, OsStr::new(name), 0o644, OpenFlags::READ_WRITE);
        let (attr, opened) = made.expect("create");
        volume.release(opened.handle).expect("release");
        volume.forget(attr.ino, 1);
    }
    let create = rate(start);
    let start = Instant::now();
    for name in &names {
        let attr = volume.lookup(me(), Ino::ROOT, OsStr::new(name)).expect("lookup");
        volume.forget(attr.ino, 1);
    }
    let lookup = rate(start);
    let start = Instant::now();
    let handle = volume.opendir(me(), Ino::ROOT).expect("opendir");
    let mut listed = 0;
    let mut seen = Vec::new();
    volume
        .readdir_with_attributes(handle, 0, &mut |_, attr| {
            listed += 1;
            seen.extend(attr.map(|attr| attr.ino));
            true
        })
        .expect("readdir");
    seen.iter().for_each(|ino| volume.forget(*ino, 1));
    volume.releasedir(handle).expect("releasedir");
    let list = listed as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    names.iter().for_each(|name| volume.unlink(me(), Ino::ROOT, OsStr::new(name)).expect("unlink"));
    println!(
        "{label:<14} create+close {create:>8.0}/s  lookup {lookup:>8.0}/s  listed {list:>9.0}/s  unlink {:>8.0}/s",
        rate(start)
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().expect("usage: remote_bench <directory> [rounds]");
    let rounds = arguments.next().map_or(5, |n| n.parse().expect("rounds is a number"));
    let directory = tempfile::tempdir_in(parent).expect("make a directory");
    let place = directory.path().join("bare");
    let bare = File::options().read(true).write(true).create_new(true).open(place).expect("a bare file");
    let fragment = |index: usize| {
        let root = directory.path().join(format!("fragment{index}"));
        std::fs::create_dir_all(&root).expect("make a fragment");
        FragmentSpec { root, space: SpaceRule::Hard }
    };
    let fragments = Fragments::open(&(0..SERVERS).map(fragment).collect::<Vec<_>>()).expect("open");
    let spec =
        NamespaceSpec { name: NAME.into(), layout: LayoutChoice::default(), limits: Limits::default() };
    let services = fragments.namespace(&spec).expect("namespace");
    let local = Volume::new(services.metadata, services.data);
    let instance = serve(directory.path());
    let ways = [(false, false), (true, false), (true, true)];
    let attached = ways.map(|(unix, direct)| {
        attach(&description(&instance.addresses, token(), unix, direct)).expect("attach")
    });
    let remote = [0, 1, 2].map(|way| volume(&attached[way]));
    let open = |volume: &Volume, name: &str| {
        let made = volume.create(me(), Ino::ROOT, OsStr::new(name), 0o600, OpenFlags::READ_WRITE);
        made.expect("create").1.handle
    };
    let bare = Bare(bare);
    let ours = Ours(&local, open(&local, "f"));
    let [tcp, unix, direct] = [0, 1, 2].map(|way| Ours(&remote[way], open(&remote[way], &format!("f{way}"))));
    let all: [(&str, &dyn Target); 5] =
        [("bare", &bare), ("local", &ours), ("TCP", &tcp), ("Unix", &unix), ("direct", &direct)];
    for (_, target) in &all {
        run(*target, 1 << 20, 1, true, FILE);
    }
    content(&all, rounds);
    names("local", &local);
    names("TCP", &remote[0]);
    names("Unix", &remote[1]);
    drop(remote);
    attached.iter().for_each(Attached::close);
    instance.servers.into_iter().for_each(Server::stop);
}
