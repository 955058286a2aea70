//! What a machine is in the cluster.

use clap::ValueEnum;
use std::path::Path;

/// Configuration of the controller.
pub const CONTROLLER_FILE: &str = "/etc/forebay/controller.toml";
/// Configuration of an agent.
pub const AGENT_FILE: &str = "/etc/forebay/agent.toml";

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// It runs the controller, usually beside slurmctld.
    Controller,
    /// It gives space.
    Storage,
    /// It runs jobs.
    Compute,
    /// Users log in there.
    Login,
}

/// What the machine is by its configuration files; a login node if it has none.
pub fn detect() -> Vec<Role> {
    let mut roles = Vec::new();
    if Path::new(CONTROLLER_FILE).exists() {
        roles.push(Role::Controller);
    }
    if let Ok(text) = std::fs::read_to_string(AGENT_FILE) {
        roles.push(of_agent(&text));
    }
    if roles.is_empty() {
        roles.push(Role::Login);
    }
    roles
}

/// An agent with a `[storage]` section gives space.
fn of_agent(text: &str) -> Role {
    let table = toml::from_str::<toml::Table>(text).unwrap_or_default();
    if table.contains_key("storage") { Role::Storage } else { Role::Compute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_with_storage_is_a_storage_node() {
        assert_eq!(of_agent("controller = \"head:4040\"\n[storage]\npool = \"p\"\n"), Role::Storage);
        assert_eq!(of_agent("controller = \"head:4040\"\n"), Role::Compute);
    }
}
