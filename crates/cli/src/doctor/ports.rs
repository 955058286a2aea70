//! The ports that this machine's daemons listen at, by their configuration files: whether something listens there.

use super::finding::Finding;
use super::role::{AGENT_FILE, CONTROLLER_FILE, Role};
use forebay_agent::daemon::AgentConfig;
use forebay_controller::registry::Snapshot;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

const SUBJECT: &str = "ports";
const LIMIT: Duration = Duration::from_secs(3);

/// Looks at the ports of a role. `snapshot` is what the controller knows, if it answered.
pub fn check(role: Role, snapshot: Option<&Snapshot>) -> Vec<Finding> {
    let (file, unit) = match role {
        Role::Controller => (CONTROLLER_FILE, "forebay-controller"),
        Role::Storage => (AGENT_FILE, "forebay-agent"),
        Role::Compute | Role::Login => return Vec::new(),
    };
    let addresses = listening(&std::fs::read_to_string(file).unwrap_or_default());
    let is_idle = role == Role::Storage && snapshot.is_some_and(serves_nothing);
    let judged = addresses.iter().map(|address| match reach(address) {
        Err(Unreached::Refused(_)) if is_idle => Finding::good(
            SUBJECT,
            format!("nothing listens at {address} yet: the file server starts with the first instance"),
        ),
        reached => judge(address, reached, file, unit),
    });
    judged.collect()
}

/// Whether this node has no part of any instance.
fn serves_nothing(snapshot: &Snapshot) -> bool {
    let config = AgentConfig::read(Path::new(AGENT_FILE));
    config.is_ok_and(|config| !snapshot.fragments.iter().any(|fragment| fragment.node == config.node))
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

fn judge(address: &str, reached: Result<(), Unreached>, file: &str, unit: &str) -> Finding {
    match reached {
        Ok(()) => Finding::good(SUBJECT, format!("something listens at {address}")),
        Err(why) => {
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
    use std::net::TcpListener;

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
        assert_eq!(judge(&address, reach(&address), "f", "u").grade, Grade::Good);
        drop(listener);
        let finding = judge(&address, reach(&address), "f", "u");
        assert_eq!(finding.grade, Grade::Doubtful);
        assert!(finding.found.contains(&address) && finding.found.contains("refused"), "{}", finding.found);
    }
}
