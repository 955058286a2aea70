//! Pools and nodes as the controller knows them, and beside those of Slurm. Pure.

use super::finding::Finding;
use forebay_controller::registry::Snapshot;
use std::collections::BTreeSet;

const SUBJECT: &str = "nodes";
/// So many names are told.
const NAMES_SHOWN: usize = 10;

/// What is wrong with pools and nodes.
pub fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = Vec::new();
    if snapshot.pools.is_empty() {
        let change = "write a [[pool]] with name and granularity into /etc/forebay/controller.toml";
        findings.push(Finding::bad(
            "pools",
            "there is no pool: Slurm takes the burst buffer for down",
            change,
        ));
    }
    for pool in &snapshot.pools {
        if pool.quantity.0 == 0 {
            let found = format!("pool {} has no space", pool.name);
            let change =
                format!("start agents with pool = \"{}\" in [storage] of /etc/forebay/agent.toml", pool.name);
            findings.push(Finding::bad("pools", found, change));
        } else {
            let found = format!("pool {} has {} granules, {} free", pool.name, pool.quantity.0, pool.free.0);
            findings.push(Finding::good("pools", found));
        }
    }
    let named = |wanted: &dyn Fn(&forebay_model::objects::Node) -> bool| -> Vec<&str> {
        snapshot.nodes.iter().filter(|node| wanted(node)).map(|node| node.name.as_str()).collect()
    };
    let offline = named(&|node| !node.online);
    if !offline.is_empty() {
        let change = "start forebay-agent there (systemctl status forebay-agent), or give the node up with dwcli rm node";
        findings.push(Finding::bad(SUBJECT, format!("do not answer: {}", shown(&offline)), change));
    }
    let drained = named(&|node| node.drain);
    if !drained.is_empty() {
        let change = "dwcli update node --name NAME --no-drain when they are to be used again";
        findings.push(Finding::doubtful(
            SUBJECT,
            format!("take no new instances: {}", shown(&drained)),
            change,
        ));
    }
    if offline.is_empty() {
        findings.push(Finding::good(SUBJECT, format!("{} nodes, all answer", snapshot.nodes.len())));
    }
    findings
}

/// Slurm's nodes that have no agent: jobs with a burst buffer fail there.
pub fn check_slurm(snapshot: &Snapshot, slurm_nodes: &[String]) -> Finding {
    let known: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let unknown: Vec<&str> =
        slurm_nodes.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    if unknown.is_empty() {
        return Finding::good(
            SUBJECT,
            format!("an agent has registered from each of {} nodes of Slurm", slurm_nodes.len()),
        );
    }
    let change =
        "start forebay-agent there, with node = \"NAME\" as Slurm's NodeName if the host name differs";
    Finding::bad(SUBJECT, format!("nodes of Slurm without an agent: {}", shown(&unknown)), change)
}

fn shown(names: &[&str]) -> String {
    let mut text = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_SHOWN {
        text.push_str(&format!(" and {} more", names.len() - NAMES_SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Grade;
    use forebay_model::objects::{Node, Pool};
    use forebay_model::units::{Bytes, Granules};

    fn node(name: &str, online: bool, drain: bool) -> Node {
        Node {
            name: name.into(),
            pool: Some("p".into()),
            online,
            drain,
            granularity: Bytes(1),
            capacity: Bytes(1),
            instances: 0,
            activations: 0,
        }
    }

    fn snapshot(quantity: u64, nodes: Vec<Node>) -> Snapshot {
        let (quantity, free) = (Granules(quantity), Granules(0));
        let pools = vec![Pool { name: "p".into(), granularity: Bytes(1), quantity, free }];
        Snapshot { pools, nodes, ..Snapshot::default() }
    }

    #[test]
    fn a_sound_cluster_has_good_findings_only() {
        let snapshot = snapshot(5, vec![node("n1", true, false)]);
        assert!(check(&snapshot).iter().all(|finding| finding.grade == Grade::Good));
        assert_eq!(check_slurm(&snapshot, &["n1".into()]).grade, Grade::Good);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let snapshot = snapshot(0, vec![node("n1", false, false), node("n2", true, true)]);
        let found: Vec<(Grade, String)> =
            check(&snapshot).into_iter().map(|finding| (finding.grade, finding.found)).collect();
        assert!(found.contains(&(Grade::Bad, "pool p has no space".into())));
        assert!(found.contains(&(Grade::Bad, "do not answer: n1".into())));
        assert!(found.contains(&(Grade::Doubtful, "take no new instances: n2".into())));
        let finding = check_slurm(&snapshot, &["n1".into(), "n3".into()]);
        assert_eq!(
            (finding.grade, finding.found.as_str()),
            (Grade::Bad, "nodes of Slurm without an agent: n3")
        );
        assert_eq!(check(&Snapshot::default())[0].grade, Grade::Bad);
    }
}
