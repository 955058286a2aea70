//! Who could change what the daemons of this machine rely on: what would keep them from starting.

use super::finding::Finding;
use super::role::{AGENT_FILE, CONTROLLER_FILE, Role};
use forebay_agent::daemon::AgentConfig;
use forebay_controller::custody::{self, CustodyError};
use forebay_controller::service::Config;
use std::path::{Path, PathBuf};

const SUBJECT: &str = "custody";

/// Looks at the files of a role and at what they name.
pub fn check(role: Role) -> Option<Finding> {
    match role {
        Role::Controller => judge(&of_controller(Path::new(CONTROLLER_FILE))),
        Role::Storage | Role::Compute => judge(&of_agent(Path::new(AGENT_FILE))),
        Role::Login => None,
    }
}

/// What a daemon relies on: the configuration, its state, its disk. That of a file that is refused is not known.
fn of_controller(file: &Path) -> Vec<PathBuf> {
    let config = Config::read(file).ok();
    std::iter::once(file.to_owned()).chain(config.map(|config| config.state)).collect()
}

fn of_agent(file: &Path) -> Vec<PathBuf> {
    let config = AgentConfig::read(file).ok();
    let named = config.into_iter().flat_map(|config| {
        std::iter::once(config.state).chain(config.storage.map(|storage| storage.directory))
    });
    std::iter::once(file.to_owned()).chain(named).collect()
}

/// Nothing to say where there is no configuration.
fn judge(paths: &[PathBuf]) -> Option<Finding> {
    if !paths.first()?.exists() {
        return None;
    }
    Some(match paths.iter().try_for_each(|path| custody::unchangeable(path)) {
        Ok(()) => Finding::good(SUBJECT, "nobody but root can change configuration and state"),
        // What this user may not look at nobody else can change.
        Err(error @ CustodyError::Unseen { .. }) => {
            Finding::doubtful(SUBJECT, error.to_string(), "run forebay doctor as root")
        }
        Err(error) => Finding::bad(SUBJECT, error.to_string(), "do that: the daemon does not start before"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_could_change_is_told() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["state", "disk"] {
            fs::create_dir(at(name)).unwrap();
        }
        let agent = format!(
            "node = 'n'\nstate = '{}'\n[storage]\npool = 'p'\ndirectory = '{}'\ncapacity = '64MiB'\n\
             granularity = '16MiB'\nlisten = '127.0.0.1:7070'\n",
            at("state").display(),
            at("disk").display()
        );
        fs::write(at("agent.toml"), agent).unwrap();
        fs::write(at("controller.toml"), format!("state = '{}'\n", at("state").display())).unwrap();
        let agent = || judge(&of_agent(&at("agent.toml"))).unwrap();
        let controller = || judge(&of_controller(&at("controller.toml"))).unwrap();
        for name in ["agent.toml", "controller.toml", "state", "disk"] {
            fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!((agent().grade, controller().grade), (Grade::Good, Grade::Good));
        for (name, of_agent, of_controller) in [
            ("agent.toml", Grade::Bad, Grade::Good),
            ("controller.toml", Grade::Good, Grade::Bad),
            ("state", Grade::Bad, Grade::Bad),
            ("disk", Grade::Bad, Grade::Good),
        ] {
            fs::set_permissions(at(name), Permissions::from_mode(0o757)).unwrap();
            assert_eq!((agent().grade, controller().grade), (of_agent, of_controller), "{name}");
            fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(judge(&of_agent(&at("none.toml"))), None);
    }
}
