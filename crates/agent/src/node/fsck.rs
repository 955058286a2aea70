//! Which fragments on this machine are checked together.
//!
//! A machine can run several servers of one instance, each with a configuration of its own. Their fragments are judged as
//! one, so that data is held against names wherever both are here.

use super::{InstanceConfig, NodeError, ServerConfig};
use forebay_model::ids::InstanceId;
use forebay_server::check::{Instance, Part};
use std::collections::BTreeMap;

/// What is checked as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedInstance {
    /// Its name.
    pub name: String,
    /// Its fragments and namespaces.
    pub instance: Instance,
}

/// All instances of these configurations, by their ids.
pub fn checked_instances(
    configs: &[ServerConfig],
) -> Result<BTreeMap<InstanceId, CheckedInstance>, NodeError> {
    let mut all: BTreeMap<InstanceId, CheckedInstance> = BTreeMap::new();
    for config in configs {
        for instance in &config.instances {
            let whole = all.entry(instance.id).or_insert_with(|| without_parts(instance));
            let part = Part { position: instance.position, root: instance.fragment.clone() };
            let differs = whole.instance.servers as usize != instance.servers.len()
                || whole.instance.namespaces != homes(instance);
            let twice = |known: &Part| known.position == part.position || known.root == part.root;
            if differs || whole.instance.parts.iter().any(twice) {
                return Err(NodeError::Disagree { path: config.source.clone(), instance: instance.id });
            }
            whole.instance.parts.push(part);
        }
    }
    Ok(all)
}

fn without_parts(instance: &InstanceConfig) -> CheckedInstance {
    let servers = instance.servers.len() as u32;
    let instance_parts = Instance { servers, parts: Vec::new(), namespaces: homes(instance) };
    CheckedInstance { name: instance.name.clone(), instance: instance_parts }
}

fn homes(instance: &InstanceConfig) -> Vec<(String, u32)> {
    instance.namespaces.iter().map(|namespace| (namespace.spec.name.clone(), namespace.home)).collect()
}
