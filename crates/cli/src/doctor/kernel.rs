//! What the kernel and the machine offer to storage and compute nodes.

use super::finding::Finding;
use super::role::Role;
use forebay_agent::Capabilities;
use std::fmt::Display;

const SUBJECT: &str = "kernel";

/// The features that a role needs.
pub fn check(role: Role) -> Vec<Finding> {
    let found = Capabilities::detect();
    match role {
        Role::Controller | Role::Login => Vec::new(),
        Role::Compute => {
            let change =
                "load the module fuse, give the container the device /dev/fuse, and run the agent as root";
            vec![
                needed("mounts", found.root.lack(), "run forebay doctor and the agent as root"),
                needed("FUSE", found.fuse.lack(), change),
            ]
        }
        Role::Storage => {
            let change = "install xfsprogs, load the modules loop and xfs, or set kind = \"directory\" in [storage] of \
                          /etc/forebay/agent.toml, where the size of instances is only counted";
            vec![
                needed("mounts", found.root.lack(), "run forebay doctor and the agent as root"),
                wanted("fragments of fixed size", found.images.lack(), change),
            ]
        }
    }
}

fn needed(what: &str, lack: Option<impl Display>, change: &str) -> Finding {
    match lack {
        None => Finding::good(SUBJECT, format!("{what} can be used")),
        Some(lack) => Finding::bad(SUBJECT, format!("{what} cannot be used: {lack}"), change),
    }
}

fn wanted(what: &str, lack: Option<impl Display>, change: &str) -> Finding {
    match lack {
        None => Finding::good(SUBJECT, format!("{what} can be used")),
        Some(lack) => Finding::doubtful(SUBJECT, format!("{what} cannot be used: {lack}"), change),
    }
}
