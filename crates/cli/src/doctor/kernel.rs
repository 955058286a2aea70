//! What the kernel and the machine offer to storage and compute nodes.

use super::finding::Finding;
use super::role::Role;
use forebay_agent::Capabilities;
use std::fmt::Display;

const SUBJECT: &str = "kernel";

/// The features that a role needs.
pub fn check(role: Role) -> Vec<Finding> {
    judge(role, &Capabilities::detect())
}

fn judge(role: Role, found: &Capabilities) -> Vec<Finding> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use forebay_agent::{Feature, Lack};

    #[test]
    fn what_is_missing_is_told_where_it_is_needed() {
        let all = Feature::Present;
        let whole =
            Capabilities { root: all.clone(), images: all.clone(), fuse: all.clone(), passthrough: all };
        let grades = |role, found: &Capabilities| -> Vec<Grade> {
            judge(role, found).iter().map(|finding| finding.grade).collect()
        };
        let none = |lack: &Lack| Feature::Missing(lack.clone());
        let no_root = Capabilities { root: none(&Lack::MayNotMount), ..whole.clone() };
        let no_fuse =
            Capabilities { fuse: none(&Lack::NoFuse("/dev/fuse is missing".into())), ..whole.clone() };
        let no_images = Capabilities { images: none(&Lack::NoMkfsXfs), ..whole.clone() };
        use Grade::{Bad, Doubtful, Good};
        for (role, found, expected) in [
            (Role::Compute, &whole, vec![Good, Good]),
            (Role::Compute, &no_root, vec![Bad, Good]),
            (Role::Compute, &no_fuse, vec![Good, Bad]),
            (Role::Compute, &no_images, vec![Good, Good]),
            (Role::Storage, &whole, vec![Good, Good]),
            (Role::Storage, &no_root, vec![Bad, Good]),
            (Role::Storage, &no_images, vec![Good, Doubtful]),
            (Role::Controller, &no_root, vec![]),
            (Role::Login, &no_root, vec![]),
        ] {
            assert_eq!(grades(role, found), expected, "{role:?} {found:?}");
        }
        let found = judge(Role::Compute, &no_fuse);
        assert!(found[1].found.contains("/dev/fuse is missing") && found[1].change.contains("module fuse"));
    }
}
