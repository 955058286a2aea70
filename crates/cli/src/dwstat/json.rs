//! The same objects as JSON, with the keys that workload managers read from the burst buffer's command line.
//!
//! Sizes are bytes, dates seconds since the epoch, `quantity` and `free` of a pool are in granules.

use super::Options;
use super::object::Object;
use forebay_controller::registry::Snapshot;
use forebay_model::ids::{ConfigurationId, InstanceId};
use forebay_model::objects::*;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// One JSON object with a list for every kind that was asked for, empty ones included.
pub fn render(snapshot: &Snapshot, options: &Options) -> String {
    let lists =
        options.objects.iter().map(|&object| (object.name().to_owned(), list(snapshot, object, options.now)));
    format!("{}\n", Value::Object(lists.collect::<Map<String, Value>>()))
}

/// The objects of one kind; `now` is in seconds since the epoch.
pub fn list(snapshot: &Snapshot, object: Object, now: i64) -> Value {
    let expired = |expiration: i64| expiration != 0 && expiration <= now;
    match object {
        Object::Pools => snapshot.pools.iter().map(pool).collect(),
        Object::Nodes => snapshot.nodes.iter().map(node).collect(),
        Object::Sessions => {
            snapshot.sessions.iter().map(|one| session(one, expired(one.expiration))).collect()
        }
        Object::Instances => {
            let configurations = configurations_of(snapshot);
            let of = |one: &Instance| {
                let of_it = configurations.get(&one.id).map_or(&[][..], Vec::as_slice);
                instance(one, of_it, expired(one.expiration))
            };
            snapshot.instances.iter().map(of).collect()
        }
        Object::Configurations => snapshot.configurations.iter().map(configuration).collect(),
        Object::Fragments => snapshot.fragments.iter().map(fragment).collect(),
        Object::Namespaces => snapshot.namespaces.iter().map(namespace).collect(),
        Object::Registrations => snapshot.registrations.iter().map(registration).collect(),
        Object::Activations => snapshot.activations.iter().map(activation).collect(),
    }
}

fn pool(pool: &Pool) -> Value {
    json!({
        "id": pool.name,
        "units": "bytes",
        "granularity": pool.granularity,
        "quantity": pool.quantity,
        "free": pool.free,
    })
}

fn node(node: &Node) -> Value {
    json!({
        "id": node.name,
        "online": node.online,
        "drain": node.drain,
        "granularity": node.granularity,
        "capacity": node.capacity,
        "instances": node.instances,
        "activations": node.activations,
        "links": {"pool": node.pool},
    })
}

fn session(session: &Session, expired: bool) -> Value {
    json!({
        "id": session.id,
        "token": session.token,
        "creator": session.creator,
        "owner": session.owner,
        "created": session.created,
        "expiration": session.expiration,
        "expired": expired,
        "nodes": session.nodes,
        "state": session.state,
    })
}

fn configurations_of(snapshot: &Snapshot) -> HashMap<InstanceId, Vec<ConfigurationId>> {
    let mut configurations: HashMap<InstanceId, Vec<ConfigurationId>> = HashMap::new();
    for configuration in &snapshot.configurations {
        configurations.entry(configuration.instance).or_default().push(configuration.id);
    }
    configurations
}

fn instance(instance: &Instance, configurations: &[ConfigurationId], expired: bool) -> Value {
    json!({
        "id": instance.id,
        "label": instance.label,
        "public": instance.public,
        "intact": instance.intact,
        "capacity": {"bytes": instance.bytes, "nodes": instance.nodes},
        "created": instance.created,
        "expiration": instance.expiration,
        "expired": expired,
        "links": {"configurations": configurations, "session": instance.session},
        "state": instance.state,
    })
}

fn configuration(configuration: &Configuration) -> Value {
    json!({
        "id": configuration.id,
        "type": configuration.kind,
        "access_mode": configuration.access_mode.word(),
        "backing_path": configuration.backing_path,
        "activations": configuration.activations,
        "links": {"instance": configuration.instance},
        "state": configuration.state,
    })
}

fn fragment(fragment: &Fragment) -> Value {
    json!({
        "id": fragment.id,
        "capacity": {"bytes": fragment.capacity},
        "links": {"instance": fragment.instance, "node": fragment.node},
        "state": fragment.state,
    })
}

fn namespace(namespace: &Namespace) -> Value {
    json!({
        "id": namespace.id,
        "span": namespace.span,
        "links": {"configuration": namespace.configuration, "fragment": namespace.fragment},
        "state": namespace.state,
    })
}

fn registration(registration: &Registration) -> Value {
    json!({
        "id": registration.id,
        "wait": registration.wait,
        "links": {"session": registration.session, "configuration": registration.configuration},
        "state": registration.state,
    })
}

fn activation(activation: &Activation) -> Value {
    json!({
        "id": activation.id,
        "mount": activation.mount,
        "nodes": activation.nodes,
        "links": {"session": activation.session, "configuration": activation.configuration},
        "state": activation.state,
    })
}
