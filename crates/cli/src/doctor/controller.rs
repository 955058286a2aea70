//! The controller, asked from this machine.

use super::finding::Finding;
use forebay_controller::client::{Address, Client, ClientError};
use forebay_controller::registry::Snapshot;
use std::time::Duration;

const SUBJECT: &str = "controller";
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether it answers, and what it says.
pub fn check() -> (Finding, Option<Snapshot>) {
    let address = match Address::configured() {
        Ok(address) => address,
        Err(error) => {
            let change = "write controller = \"host:port\" into /etc/forebay/client.toml";
            return (Finding::bad(SUBJECT, error.to_string(), change), None);
        }
    };
    match Client::open(address.clone()).with_patience(PATIENCE).snapshot() {
        Ok(snapshot) => (Finding::good(SUBJECT, format!("answers at {address}")), Some(snapshot)),
        Err(error) => (Finding::bad(SUBJECT, error.to_string(), change(&address, &error)), None),
    }
}

fn change(address: &Address, error: &ClientError) -> String {
    match (error, address) {
        (ClientError::Unreachable { .. }, Address::Unix(path)) => format!(
            "start forebay-controller on this machine, or, if it runs elsewhere, write controller = \"host:port\" into \
             /etc/forebay/client.toml; its socket is {}",
            path.display()
        ),
        (ClientError::Unreachable { .. }, Address::Tcp(name)) => format!(
            "start forebay-controller, put {name} into listen of its /etc/forebay/controller.toml, and open the port"
        ),
        (ClientError::Munge(_), _) => "set up MUNGE first".into(),
        (ClientError::NotAController { .. }, _) => {
            "correct the address, or install the same version everywhere".into()
        }
        (ClientError::Refused { .. } | ClientError::Unanswered { .. }, _) => {
            "compare clocks and munge.key of both machines, and look into the controller's log".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_remedy() {
        let socket: Address = "unix:/run/c.sock".parse().unwrap();
        let port: Address = "head:7600".parse().unwrap();
        let away =
            |address: &Address| ClientError::Unreachable { address: address.clone(), reason: "r".into() };
        let other = ClientError::NotAController { address: port.clone(), reason: "r".into() };
        let refused = ClientError::Refused { kind: "k".into(), text: "t".into() };
        for (address, error, expected) in [
            (&socket, away(&socket), "its socket is /run/c.sock"),
            (&port, away(&port), "put head:7600 into listen"),
            (&port, other, "correct the address"),
            (&port, refused, "compare clocks and munge.key"),
        ] {
            let change = change(address, &error);
            assert!(change.contains(expected), "{change}");
        }
    }
}
