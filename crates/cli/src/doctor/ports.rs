//! The ports that this machine's daemons listen at, by their configuration files: whether they listen there, and nobody else.

use super::finding::Finding;
use super::role::{AGENT_FILE, CONTROLLER_FILE, Role};
use forebay_agent::daemon::{AgentConfig, file_server_lives};
use forebay_controller::registry::Snapshot;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

const SUBJECT: &str = "ports";
const LIMIT: Duration = Duration::from_secs(3);

/// Looks at the ports of a role. `snapshot` is what the controller knows, if it answered.
pub fn check(role: Role, snapshot: Option<&Snapshot>) -> Vec<Finding> {
    match role {
        Role::Controller => check_file(Path::new(CONTROLLER_FILE), "forebay-controller", &Server::Unknown),
        Role::Storage => {
            let file = Path::new(AGENT_FILE);
            check_file(file, "forebay-agent", &server(file, snapshot))
        }
        Role::Compute | Role::Login => Vec::new(),
    }
}

/// The addresses of one file.
fn check_file(file: &Path, unit: &str, server: &Server) -> Vec<Finding> {
    let addresses = listening(&std::fs::read_to_string(file).unwrap_or_default());
    let judged = addresses.iter().map(|address| judge(address, reach(address), server, file, unit));
    judged.collect()
}

/// What is known of the process that is to listen.
#[derive(Debug, PartialEq, Eq)]
enum Server {
    /// It lives.
    Lives,
    /// It does not; it has nothing to do either, if `is_idle`.
    Absent { is_idle: bool },
    /// Nothing, to this user.
    Unknown,
}

/// The file server of this node.
fn server(file: &Path, snapshot: Option<&Snapshot>) -> Server {
    let Ok(config) = AgentConfig::read(file) else { return Server::Unknown };
    match file_server_lives(&config) {
        Ok(true) => Server::Lives,
        Ok(false) => {
            let serves = |snapshot: &Snapshot| snapshot.fragments.iter().any(|one| one.node == config.node);
            Server::Absent { is_idle: snapshot.is_some_and(|snapshot| !serves(snapshot)) }
        }
        Err(_) => Server::Unknown,
    }
}

/// Why an address is not reached.
#[derive(Debug)]
enum Unreached {
    /// The machine is there; nobody listens.
    Refused(String),
    Otherwise(String),
}

impl Unreached {
    fn of(error: &io::Error) -> Unreached {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Unreached::Refused(error.to_string()),
            _ => Unreached::Otherwise(error.to_string()),
        }
    }

    fn text(self) -> String {
        match self {
            Unreached::Refused(text) | Unreached::Otherwise(text) => text,
        }
    }
}

/// `listen`, at the top or in `[storage]`, as one text or a list.
fn listening(text: &str) -> Vec<String> {
    let table = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let storage = table.get("storage").and_then(toml::Value::as_table);
    let values = [table.get("listen"), storage.and_then(|storage| storage.get("listen"))];
    let texts = |value: &toml::Value| match value {
        toml::Value::String(text) => vec![text.clone()],
        toml::Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(String::from)).collect(),
        _ => Vec::new(),
    };
    values.into_iter().flatten().flat_map(texts).collect()
}

/// Connects, and says why not.
fn reach(address: &str) -> Result<(), Unreached> {
    let mut last = Unreached::Otherwise("the name has no address".to_owned());
    for socket in address.to_socket_addrs().map_err(|error| Unreached::of(&error))? {
        match TcpStream::connect_timeout(&socket, LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => last = Unreached::of(&error),
        }
    }
    Err(last)
}

fn judge(address: &str, reached: Result<(), Unreached>, server: &Server, file: &Path, unit: &str) -> Finding {
    let file = file.display();
    match (reached, server) {
        (Ok(()), Server::Absent { .. }) => {
            let found = format!(
                "another program listens at {address}, where the file server of this node is to listen"
            );
            let change = format!(
                "end that program (ss --listening --tcp --processes names it), or set another listen in [storage] of {file}"
            );
            Finding::bad(SUBJECT, found, change)
        }
        (Ok(()), _) => Finding::good(SUBJECT, format!("something listens at {address}")),
        (Err(Unreached::Refused(_)), Server::Absent { is_idle: true }) => Finding::good(
            SUBJECT,
            format!("nothing listens at {address} yet: the file server starts with the first instance"),
        ),
        (Err(why), Server::Lives) => {
            let found = format!(
                "{address} cannot be reached from here, although the file server runs: {}",
                why.text()
            );
            let change = format!(
                "open the port in the firewall, or correct listen in {file} and restart {unit}: no instance of this \
                 node can be mounted"
            );
            Finding::bad(SUBJECT, found, change)
        }
        (Err(why), _) => {
            let change = format!(
                "start {unit} (systemctl status {unit}), or correct listen in {file}; the other machines must reach the port"
            );
            let found = format!("{address} cannot be reached from here: {}", why.text());
            Finding::doubtful(SUBJECT, found, change)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use forebay_model::ids::{FragmentId, InstanceId};
    use forebay_model::objects::Fragment;
    use forebay_model::state::ObjectState;
    use forebay_model::units::Bytes;
    use std::net::{SocketAddr, TcpListener};
    use std::os::fd::OwnedFd;

    const IDLE: Server = Server::Absent { is_idle: true };
    const BUSY: Server = Server::Absent { is_idle: false };

    /// The finding about an address as it is now.
    fn finding(address: &str, server: &Server) -> Finding {
        judge(address, reach(address), server, Path::new("/f"), "u")
    }

    #[test]
    fn addresses_of_both_files() {
        assert_eq!(listening("listen = [\"a:1\", \"b:2\"]\n"), ["a:1", "b:2"]);
        assert_eq!(listening("node = \"s1\"\n[storage]\nlisten = \"s1:3\"\n"), ["s1:3"]);
        assert_eq!(listening("node = \"c1\"\n"), Vec::<String>::new());
    }

    #[test]
    fn a_port_is_reached_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for server in [Server::Lives, Server::Unknown] {
            assert_eq!(finding(&address, &server).grade, Grade::Good);
        }
        drop(listener);
        for (server, grade) in [
            (Server::Lives, Grade::Bad),
            (Server::Unknown, Grade::Doubtful),
            (BUSY, Grade::Doubtful),
            (IDLE, Grade::Good),
        ] {
            let finding = finding(&address, &server);
            assert_eq!(finding.grade, grade, "{server:?}");
            assert!(finding.found.contains(&address), "{}", finding.found);
            assert!(grade == Grade::Good || finding.found.contains("refused"), "{}", finding.found);
        }
    }

    #[test]
    fn a_port_that_somebody_else_has_taken_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for server in [IDLE, BUSY] {
            let finding = finding(&address, &server);
            assert_eq!(finding.grade, Grade::Bad);
            assert!(finding.found.contains("another program listens at 127.0.0.1"), "{}", finding.found);
            assert!(finding.change.contains("[storage] of /f"), "{}", finding.change);
        }
    }

    /// A listener that takes nobody, and whose queue is full: packets to it are dropped, as by a firewall.
    fn full() -> (OwnedFd, Vec<OwnedFd>, SocketAddr) {
        use rustix::net::{
            AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
        };
        let socket = |flags| socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        let listener = socket(SocketFlags::CLOEXEC);
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&listener, 0).unwrap();
        let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        let waiting = (0..4).map(|_| {
            let one = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
            // In progress, for good.
            let _ = connect(&one, &address);
            one
        });
        (listener, waiting.collect(), address)
    }

    #[test]
    fn a_port_that_is_blocked_is_told() {
        let (_listener, _waiting, address) = full();
        let found = finding(&address.to_string(), &Server::Lives);
        assert_eq!(found.grade, Grade::Bad);
        assert!(found.found.contains("the file server runs: connection timed out"), "{}", found.found);
        assert!(found.change.contains("firewall"), "{}", found.change);
    }

    #[test]
    fn an_address_without_a_number_is_told() {
        let finding = finding("127.0.0.1:port", &BUSY);
        assert_eq!(finding.grade, Grade::Doubtful);
        assert!(finding.found.contains("127.0.0.1:port cannot be reached"), "{}", finding.found);
    }

    #[test]
    fn a_node_without_a_file_server_is_idle_if_it_has_no_fragments() {
        let place = tempfile::tempdir().unwrap();
        let (file, state) = (place.path().join("agent.toml"), place.path().join("state"));
        let text = format!(
            "node = 'n'\nstate = '{}'\n[storage]\npool = 'p'\ndirectory = '/ssd'\ncapacity = '64MiB'\n\
             granularity = '16MiB'\nlisten = '127.0.0.1:7070'\n",
            state.display()
        );
        std::fs::write(&file, text).unwrap();
        let fragment = Fragment {
            id: FragmentId(1),
            state: ObjectState::GOOD,
            instance: InstanceId(1),
            capacity: Bytes(1),
            node: "n".into(),
        };
        let elsewhere = Fragment { node: "m".into(), ..fragment.clone() };
        let snapshot = |fragment| Snapshot { fragments: vec![fragment], ..Snapshot::default() };
        assert_eq!(server(&file, None), BUSY);
        assert_eq!(server(&file, Some(&snapshot(fragment))), BUSY);
        assert_eq!(server(&file, Some(&snapshot(elsewhere))), IDLE);
        assert!(!state.exists(), "looking makes nothing");
        assert_eq!(server(&place.path().join("none"), None), Server::Unknown);
    }
}
