//! The answers that Slurm parses.
//!
//! One object with one member, an array; ids, sizes and times are integers; no apostrophe anywhere, because Slurm makes
//! quotation marks of them before it parses. Slurm keeps ids, owners and times of creation in 32 bits. Pure.

use crate::dwstat::json::OneList;
use crate::dwstat::object::Object;
use forebay_model::units::Bytes;

/// `pools` and the `show_` verbs: the objects of one kind, while they are told.
pub struct Shows(OneList);

impl Shows {
    /// The kind; `now` is in seconds since the epoch.
    pub fn new(object: Object, now: i64) -> Shows {
        Shows(OneList::new(object, now))
    }

    /// Who is to be told.
    pub fn audience(&mut self) -> &mut OneList {
        &mut self.0
    }

    /// The answer, without an end of the line.
    pub fn finish(self) -> String {
        let mut text = self.0.finish();
        text.iter_mut().filter(|byte| **byte == b'\'').for_each(|byte| *byte = b'`');
        // One ASCII character in place of another.
        String::from_utf8(text).unwrap_or_default()
    }
}

/// `real_size`
pub fn real_size(size: Bytes) -> String {
    format!("{{\"units\":\"bytes\",\"capacity\":{}}}", size.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dwstat::json::text;
    use forebay_controller::protocol::rows::Audience;
    use forebay_controller::registry::Snapshot;
    use forebay_model::ids::*;
    use forebay_model::objects::*;
    use forebay_model::state::ObjectState;
    use forebay_model::units::Granules;
    use serde_json::{Value, json};

    fn snapshot() -> Snapshot {
        let state = ObjectState::GOOD;
        Snapshot {
            pools: vec![Pool {
                name: "default".into(),
                granularity: Bytes(16_777_216),
                quantity: Granules(640),
                free: Granules(639),
            }],
            sessions: vec![Session {
                id: SessionId(101),
                state,
                token: "347".into(),
                creator: "SLURM".into(),
                owner: 5001,
                created: 1_795_190_327,
                expiration: 0,
                nodes: 2,
            }],
            instances: vec![Instance {
                id: InstanceId(102),
                state,
                session: SessionId(101),
                bytes: Bytes(33_554_432),
                nodes: 1,
                created: 1_795_190_328,
                expiration: 0,
                intact: true,
                label: "don't".into(),
                public: false,
                configurations: 1,
                limits: Some(InstanceLimits { write_window_length: 86_400, write_window_multiplier: 10 }),
            }],
            configurations: vec![Configuration {
                id: ConfigurationId(103),
                state,
                instance: InstanceId(102),
                kind: ConfigurationType::Scratch,
                access_mode: AccessMode::Striped,
                backing_path: None,
                activations: 0,
            }],
            ..Snapshot::default()
        }
    }

    /// As the controller tells them: configurations before instances.
    fn objects(snapshot: &Snapshot, object: Object, now: i64) -> String {
        let mut shows = Shows::new(object, now);
        let to = shows.audience();
        snapshot.pools.iter().for_each(|one| to.pool(one.clone()));
        snapshot.sessions.iter().for_each(|one| to.session(one.clone()));
        snapshot.configurations.iter().for_each(|one| to.configuration(one.clone()));
        snapshot.instances.iter().for_each(|one| to.instance(one.clone()));
        let shown = shows.finish();
        assert_eq!(shown, text(snapshot, &[object], now).replace('\'', "`"));
        shown
    }

    /// What slurmctld was seen to read, to the byte for `pools`.
    #[test]
    fn the_answers_have_what_slurm_reads() {
        let read = |object| objects(&snapshot(), object, 1_795_190_400);
        assert_eq!(
            read(Object::Pools),
            r#"{"pools":[{"id":"default","units":"bytes","granularity":16777216,"quantity":640,"free":639}]}"#
        );
        let value = |object| serde_json::from_str::<Value>(&read(object)).unwrap();
        let session = &value(Object::Sessions)["sessions"][0];
        assert_eq!(
            (&session["id"], &session["token"], &session["owner"], &session["created"]),
            (&json!(101), &json!("347"), &json!(5001), &json!(1_795_190_327))
        );
        let instance = &value(Object::Instances)["instances"][0];
        assert_eq!(instance["capacity"], json!({"bytes": 33_554_432, "nodes": 1}));
        assert_eq!(instance["limits"], json!({"write_window_length": 86_400, "write_window_multiplier": 10}));
        assert_eq!(instance["links"], json!({"session": 101, "configurations": [103]}));
        assert_eq!(real_size(Bytes(33_554_432)), r#"{"units":"bytes","capacity":33554432}"#);
    }

    #[test]
    fn each_is_one_object_with_one_array_and_no_apostrophe() {
        for (snapshot, rows) in [(snapshot(), 1), (Snapshot::default(), 0)] {
            for object in [Object::Pools, Object::Sessions, Object::Instances, Object::Configurations] {
                let text = objects(&snapshot, object, 0);
                assert!(!text.contains('\''), "{text}");
                let value: Value = serde_json::from_str(&text).unwrap();
                let members: Vec<&Value> = value.as_object().unwrap().values().collect();
                assert_eq!(members.len(), 1);
                assert_eq!(members[0].as_array().unwrap().len(), rows);
            }
        }
    }
}
