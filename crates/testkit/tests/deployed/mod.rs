//! An instance served by several hosts and mounted on several others, as an operator and a job would do it: with files of
//! configuration and the commands `forebay serve` and `forebay mount`, each a process of its own in its host.
//!
//! The program is this test program, started once more: [`program::forebay_process`] is the command line of `forebay`.
//! What the daemons say goes into a file each, and is shown when a test fails.

// Each test target uses a part of this.
#![allow(dead_code)]

mod program;

use forebay_testkit::cluster::{Cluster, Host, HostId, Plan, Storage};
use forebay_testkit::io_uring::SwitchedOn;
use forebay_testkit::{Identity, ProcessGuard, process, wait_until};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Longer than anything takes that works.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Longest a suite may take: there to end what hangs.
pub const SUITE_LIMIT: Duration = Duration::from_secs(600);
/// Every host has an address of its own, so all servers use the same port.
const PORT: u16 = 7070;
/// Names in the configuration.
const INSTANCE: &str = "tested";
const NEIGHBOUR: &str = "neighbour";
const NAMESPACE: &str = "c1";
/// Descriptors that a process may have without having asked for more.
const SOFT_DESCRIPTORS: u64 = 1024;
/// What daemons say when they are ready.
const SERVING: &str = "forebay: serving";
const MOUNTED: &str = "forebay: mounted";

/// What is deployed.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Hosts with a fragment.
    pub servers: usize,
    /// Hosts with a mount.
    pub clients: usize,
    /// What the fragments are on.
    pub storage: Storage,
    /// Bytes that each fragment may hold; otherwise its disk is the limit.
    pub metered: Option<u64>,
    /// Bytes.
    pub stripe_size: u64,
    /// Clients reach the servers over Unix sockets, as on the storage nodes themselves, and get descriptors.
    pub short_circuit: bool,
    /// Mounts take their requests over io_uring where the kernel can, and otherwise, or when not wanted, over the device.
    pub io_uring: bool,
    /// How long the servers keep what a client holds that they do not hear of.
    pub grace_s: u64,
    /// How long a client waits for a server that it does not hear of.
    pub final_s: u64,
    /// Descriptors that a daemon can have: the hard limit. It begins with a soft one as a login gives it.
    pub descriptors_max: u64,
    /// The servers serve a second instance, each on a directory of the machine.
    pub has_neighbour: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            servers: 4,
            clients: 3,
            storage: Storage::Directory,
            metered: None,
            // Small, so that every larger write crosses several servers.
            stripe_size: 64 << 10,
            short_circuit: false,
            io_uring: true,
            grace_s: 2,
            final_s: 60,
            descriptors_max: 20_000,
            has_neighbour: false,
        }
    }
}

/// A program that goes on running, and what it says.
struct Daemon {
    guard: ProcessGuard,
    log: PathBuf,
}

impl Daemon {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// See the module. Gone when dropped; [`Deployment::finish`] checks that.
pub struct Deployment {
    // Dropped in this order: what uses, then what is used.
    mounts: Vec<Option<Daemon>>,
    servers: Vec<Option<Daemon>>,
    cluster: Cluster,
    shape: Shape,
    /// Every start of a daemon has a log of its own.
    logs: AtomicU32,
    finished: bool,
    switch: Option<SwitchedOn>,
}

impl Deployment {
    /// Builds the hosts, starts all servers, and mounts on all clients as root, open to every user.
    pub fn start(shape: Shape) -> Deployment {
        let mut deployment = Deployment::serve(shape);
        for client in 0..shape.clients {
            deployment.mount(client, &Identity::root());
        }
        deployment
    }

    /// The same without mounts.
    pub fn serve(shape: Shape) -> Deployment {
        assert!(rustix::process::geteuid().is_root(), "these tests make namespaces: run them as root");
        let plan = Plan { servers: shape.servers, clients: shape.clients, storage: shape.storage };
        let cluster = Cluster::build(&plan).unwrap_or_else(|error| panic!("{error}"));
        let switch = SwitchedOn::new().unwrap_or_else(|error| panic!("switching io_uring on: {error}"));
        let mut deployment = Deployment {
            switch: switch.filter(|_| shape.io_uring),
            mounts: (0..shape.clients).map(|_| None).collect(),
            servers: (0..shape.servers).map(|_| None).collect(),
            cluster,
            shape,
            logs: AtomicU32::new(0),
            finished: false,
        };
        deployment.write_files();
        for server in 0..shape.servers {
            deployment.launch_server(server);
        }
        (0..shape.servers).for_each(|server| deployment.await_server(server));
        deployment
    }

    /// The hosts.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client's host.
    pub fn client(&self, client: usize) -> &Host {
        self.cluster.client(client)
    }

    /// Where a client has mounted it, as programs of its host see it.
    pub fn mount_point(&self, client: usize) -> PathBuf {
        self.client(client).directory().join("mount")
    }

    /// The same as the test itself sees it.
    pub fn seen(&self, client: usize) -> PathBuf {
        self.client(client).seen(&self.mount_point(client)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A file within, as the test itself sees it through a client.
    pub fn file(&self, client: usize, name: &str) -> PathBuf {
        self.seen(client).join(name)
    }

    /// A copy of `forebay-suite` that every user may run.
    pub fn suite(&self) -> PathBuf {
        self.cluster.directory().join("suite")
    }

    /// Runs a shell script in a client's mount; it must succeed.
    pub fn shell(&self, client: usize, eyes: &Identity, script: &str) -> String {
        let script = format!("cd {:?}\n{script}", self.mount_point(client));
        self.client(client).shell(eyes, &script, LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a shell script in a client's mount.
    pub fn shell_in_background(&self, client: usize, script: &str) -> ProcessGuard {
        let mut command = Command::new("bash");
        let script = format!("cd {:?}\n{script}", self.mount_point(client));
        command.args(["-Eeuo", "pipefail", "-c", &script]).stdin(Stdio::null());
        self.client(client).start(&mut command).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a suite in a client's host with these eyes, which must succeed.
    pub fn judge(&self, client: usize, eyes: &Identity, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
        let mut command = Command::new(self.suite());
        command.args(arguments).current_dir("/");
        let judged = self.client(client).success(eyes.apply(&mut command), SUITE_LIMIT);
        judged.unwrap_or_else(|error| panic!("{error}")).output
    }

    /// Mounts on a client as somebody, and awaits it.
    pub fn mount(&mut self, client: usize, who: &Identity) {
        self.mount_described(client, who, &self.instance_file());
    }

    /// Mounts the second instance on a client as root, and awaits it.
    pub fn mount_neighbour(&mut self, client: usize) {
        let description = self.cluster.directory().join("neighbour.toml");
        let own = self.description(&self.token_file());
        write(&description, &own.replace("id = 17", "id = 18").replace(INSTANCE, NEIGHBOUR));
        self.mount_described(client, &Identity::root(), &description);
    }

    fn mount_described(&mut self, client: usize, who: &Identity, description: &Path) {
        self.mounts[client] = Some(self.launch_mount(client, who, description));
        let daemon = self.mounts[client].as_mut().expect("it was set a moment ago");
        await_ready(daemon, MOUNTED);
    }

    /// Starts the process of a mount with another description of the instance; its end, and what it said.
    pub fn mount_fails(&self, client: usize, description: &Path) -> (Option<i32>, String) {
        let mut daemon = self.launch_mount(client, &Identity::root(), description);
        let status = daemon.guard.ends_within(LIMIT).expect("a mount that cannot be made ends");
        (status.code(), daemon.said())
    }

    /// Unmounts the polite way: SIGTERM, and the process must end well and the mount be gone.
    pub fn unmount(&mut self, client: usize) {
        let mut daemon = self.mounts[client].take().expect("it is mounted");
        end_politely(&mut daemon);
        let point = self.mount_point(client);
        assert_eq!(self.client(client).mounted_at(&point), None, "{}", daemon.said());
    }

    /// Kills the process of a mount, and takes the dead mount away.
    pub fn kill_mount(&mut self, client: usize) {
        kill(self.mounts[client].take().expect("it is mounted"));
        let mut command = self.forebay(&["umount", self.mount_point(client).to_str().expect("plain path")]);
        self.client(client).success(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Kills a server's process.
    pub fn kill_server(&mut self, server: usize) {
        kill(self.servers[server].take().expect("it runs"));
    }

    /// Crashes the host of a server with all that runs there.
    pub fn crash_server(&mut self, server: usize) {
        let crashed = std::thread::scope(|scope| {
            // The end of a host waits until its processes are reaped.
            let mut daemon = self.servers[server].take().expect("it runs");
            scope.spawn(move || daemon.guard.ends_within(LIMIT));
            self.cluster.crash(HostId::Server(server))
        });
        crashed.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Boots a host that crashed and starts its server.
    pub fn boot_server(&mut self, server: usize) {
        self.cluster.boot(HostId::Server(server)).unwrap_or_else(|error| panic!("{error}"));
        self.start_server(server);
    }

    /// Ends a server the polite way.
    pub fn stop_server(&mut self, server: usize) {
        end_politely(self.servers[server].as_mut().expect("it runs"));
        self.servers[server] = None;
    }

    /// Starts a server that does not run, and awaits that it serves.
    pub fn start_server(&mut self, server: usize) {
        self.launch_server(server);
        self.await_server(server);
    }

    /// The process of a server, as the machine numbers it.
    pub fn server_process(&self, server: usize) -> u32 {
        self.servers[server].as_ref().expect("it runs").guard.id()
    }

    /// The process of a mount, as the machine numbers it.
    pub fn mount_process(&self, client: usize) -> u32 {
        self.mounts[client].as_ref().expect("it is mounted").guard.id()
    }

    /// What the process of a server has said since its last start.
    pub fn server_said(&self, server: usize) -> String {
        self.servers[server].as_ref().expect("it runs").said()
    }

    /// Where a server is reached by clients.
    pub fn address(&self, server: usize) -> String {
        format!("{}:{PORT}", self.cluster.server(server).address())
    }

    /// Ends everything the polite way and checks that nothing is left.
    pub fn finish(mut self) {
        for client in 0..self.shape.clients {
            if self.mounts[client].is_some() {
                self.unmount(client);
            }
        }
        for server in 0..self.shape.servers {
            if self.servers[server].is_some() {
                self.stop_server(server);
            }
        }
        self.finished = true;
    }

    /// The description of the instance for clients.
    pub fn instance_file(&self) -> PathBuf {
        self.cluster.directory().join("instance.toml")
    }

    /// The configuration of a server.
    pub fn server_file(&self, server: usize) -> PathBuf {
        self.cluster.server(server).directory().join("server.toml")
    }

    /// The secret of the clients; the one of the servers is beside it.
    pub fn token_file(&self) -> PathBuf {
        self.cluster.directory().join("token")
    }

    /// A command line of `forebay`.
    pub fn forebay(&self, arguments: &[&str]) -> Command {
        program::command(&self.cluster.directory().join("forebay"), arguments)
    }

    fn write_files(&self) {
        let directory = self.cluster.directory();
        copy(&std::env::current_exe().expect("/proc is mounted"), &directory.join("forebay"));
        copy(Path::new(env!("CARGO_BIN_EXE_forebay-suite")), &self.suite());
        for secret in ["token", "seal"] {
            write_secret(&directory.join(secret), secret);
        }
        write(&self.instance_file(), &self.description(&self.token_file()));
        for server in 0..self.shape.servers {
            write(&self.server_file(server), &self.configuration(server));
        }
        for client in 0..self.shape.clients {
            fs::create_dir(self.mount_point(client)).expect("scratch is writable");
        }
    }

    /// A description of the instance with the token in this file.
    pub fn description(&self, token_file: &Path) -> String {
        let mut text = format!(
            "id = 17\nname = {INSTANCE:?}\nnamespace = {NAMESPACE:?}\ntoken_file = {token_file:?}\nfinal_s = {}\n",
            self.shape.final_s
        );
        self.list_servers(&mut text, "server");
        text
    }

    fn list_servers(&self, text: &mut String, key: &str) {
        for server in 0..self.shape.servers {
            let _ = writeln!(text, "[[{key}]]\naddress = \"{}\"", self.address(server));
            text.push_str(&self.socket(server));
        }
    }

    /// The line for the Unix socket of a server, where there is one.
    fn socket(&self, server: usize) -> String {
        let path = self.cluster.server(server).directory().join("server.sock");
        if self.shape.short_circuit { format!("socket = {path:?}\n") } else { String::new() }
    }

    fn configuration(&self, server: usize) -> String {
        let (host, shape) = (self.cluster.server(server), self.shape);
        let mut text = format!(
            "listen = [\"{}\"]\n{}state = {:?}\ngrace_s = {}\n",
            self.address(server),
            self.socket(server),
            host.directory().join("state"),
            shape.grace_s,
        );
        self.describe_instance(&mut text, server, 17, INSTANCE, &host.fragment());
        if shape.has_neighbour {
            let fragment = host.directory().join(NEIGHBOUR);
            fs::create_dir(&fragment).expect("scratch is writable");
            self.describe_instance(&mut text, server, 18, NEIGHBOUR, &fragment);
        }
        text
    }

    fn describe_instance(&self, text: &mut String, server: usize, id: u64, name: &str, fragment: &Path) {
        let shape = self.shape;
        let space = shape.metered.map_or("hard".into(), |bytes| bytes.to_string());
        let secret = |name: &str| self.cluster.directory().join(name);
        let _ = write!(
            text,
            "[[instance]]\nid = {id}\nname = {name:?}\nfragment = {fragment:?}\nspace = {space:?}\n\
             position = {server}\ntoken_file = {:?}\nseal_file = {:?}\nfinal_s = {}\n",
            secret("token"),
            secret("seal"),
            shape.final_s,
        );
        self.list_servers(text, "instance.server");
        let _ = writeln!(
            text,
            "[[instance.namespace]]\nname = {NAMESPACE:?}\nstripe_size = \"{}\"",
            shape.stripe_size
        );
    }

    fn launch_server(&mut self, server: usize) {
        let file = self.server_file(server);
        let command = self.forebay(&["--config", file.to_str().expect("plain path"), "serve"]);
        let daemon = self.launch(self.cluster.server(server), command, &Identity::root());
        self.servers[server] = Some(daemon);
    }

    fn await_server(&mut self, server: usize) {
        await_ready(self.servers[server].as_mut().expect("it was started"), SERVING);
    }

    fn launch_mount(&self, client: usize, who: &Identity, description: &Path) -> Daemon {
        let point = self.mount_point(client);
        std::os::unix::fs::chown(&point, Some(who.uid), Some(who.gid)).expect("we are root");
        let description = description.to_str().expect("plain path");
        let mut words = vec!["mount", "--instance", description, point.to_str().expect("plain path")];
        words.extend(["--io-uring", if self.shape.io_uring { "switch-on" } else { "never" }]);
        let command = self.forebay(&words);
        self.launch(self.client(client), command, who)
    }

    fn launch(&self, host: &Host, mut command: Command, who: &Identity) -> Daemon {
        let log = log_path(host, self.logs.fetch_add(1, SeqCst) + 1);
        let said = File::options().create(true).append(true).open(&log).expect("scratch is writable");
        let errors = said.try_clone().expect("a descriptor");
        command.current_dir("/").stdin(Stdio::null()).stdout(said).stderr(errors);
        let most = self.shape.descriptors_max;
        let limit = Rlimit { current: Some(SOFT_DESCRIPTORS.min(most)), maximum: Some(most) };
        // SAFETY: one plain system call between fork and exec. Before `who` gives the right to it up.
        unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
        let guard = host.start(who.apply(&mut command)).unwrap_or_else(|error| panic!("{error}"));
        Daemon { guard, log }
    }

    /// What all daemons said, in the order they were started.
    fn all_said(&self) -> String {
        let mut text = String::new();
        for number in 1..=self.logs.load(SeqCst) {
            for host in self.cluster.hosts() {
                if let Ok(said) = fs::read_to_string(log_path(host, number)) {
                    let _ = writeln!(text, "--- process {number}, on {}, said:\n{said}", host.id());
                }
            }
        }
        text
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if !self.finished {
            eprintln!("{}", self.all_said());
        }
    }
}

fn log_path(host: &Host, number: u32) -> PathBuf {
    host.directory().join(format!("{number}.log"))
}

fn await_ready(daemon: &mut Daemon, word: &str) {
    let mut ended = None;
    let ready = wait_until(word, LIMIT, || {
        ended = daemon.guard.ended();
        ended.is_some() || daemon.said().contains(word)
    });
    let ready = ready.is_ok() && ended.is_none();
    assert!(ready, "not ready: {ended:?}; it said:\n{}", daemon.said());
}

fn end_politely(daemon: &mut Daemon) {
    daemon.guard.signal(libc::SIGTERM);
    let status = daemon.guard.ends_within(LIMIT);
    assert!(status.is_some_and(|status| status.success()), "{status:?}; it said:\n{}", daemon.said());
}

fn kill(mut daemon: Daemon) {
    daemon.guard.signal(libc::SIGKILL);
    assert!(daemon.guard.ends_within(LIMIT).is_some(), "SIGKILL ends every process");
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A secret of 64 letters that differs by its name.
pub fn write_secret(path: &Path, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    write(path, &format!("{name:*<64}"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// By a process of its own: a file that is open for writing cannot be run, and a child that another test forks at this
/// moment would inherit it.
fn copy(from: &Path, to: &Path) {
    let copied = process::run(Command::new("cp").args([from, to]), LIMIT);
    copied.and_then(process::Finished::success).unwrap_or_else(|error| panic!("{error}"));
}
