//! Tables as lists of lists: the values of each row in the order of [`Columns::NAMES`], without their names, a state as its five
//! letters.
//!
//! A large cluster has a hundred thousand rows; written this way they are a quarter of the bytes, and dwstat waits for each of
//! them four times (written, sent, read, shown). `docs/openapi.json` describes it as `SnapshotRows`. Pure; any thread.

use crate::cluster::view::Shown;
use crate::registry::Snapshot;
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use serde::de::{self, DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeTuple, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// An object as a row of values.
pub trait Columns: Sized {
    /// Names of the values, in order.
    const NAMES: &'static [&'static str];

    /// Writes the values.
    ///
    /// # Errors
    /// Those of the format.
    fn write<S: SerializeTuple>(&self, row: &mut S) -> Result<(), S::Error>;

    /// Reads them.
    ///
    /// # Errors
    /// Those of the format, and a row that is too short.
    fn read<'de, A: SeqAccess<'de>>(row: &mut A) -> Result<Self, A::Error>;
}

/// The members of an object, all or none; a state comes second wherever there is one.
macro_rules! columns {
    ($object:ident: id, state, $($member:ident),+) => {
        impl Columns for $object {
            const NAMES: &'static [&'static str] = &["id", "state", $(stringify!($member)),+];

            fn write<S: SerializeTuple>(&self, row: &mut S) -> Result<(), S::Error> {
                row.serialize_element(&self.id)?;
                row.serialize_element(&Letters(self.state))?;
                $(row.serialize_element(&self.$member)?;)+
                Ok(())
            }

            fn read<'de, A: SeqAccess<'de>>(row: &mut A) -> Result<Self, A::Error> {
                let (id, Letters(state)) = (next(row)?, next(row)?);
                Ok($object { id, state, $($member: next(row)?),+ })
            }
        }
    };
    ($object:ident, $($member:ident),+) => {
        impl Columns for $object {
            const NAMES: &'static [&'static str] = &[$(stringify!($member)),+];

            fn write<S: SerializeTuple>(&self, row: &mut S) -> Result<(), S::Error> {
                $(row.serialize_element(&self.$member)?;)+
                Ok(())
            }

            fn read<'de, A: SeqAccess<'de>>(row: &mut A) -> Result<Self, A::Error> {
                Ok($object { $($member: next(row)?),+ })
            }
        }
    };
}

columns!(Pool, name, granularity, quantity, free);
columns!(Node, name, pool, online, drain, granularity, capacity, instances, activations);
columns!(Session: id, state, token, creator, owner, created, expiration, nodes);
columns!(Instance: id, state, session, bytes, nodes, created, expiration, intact, label, public, configurations);
columns!(Configuration: id, state, instance, kind, access_mode, backing_path, activations);
columns!(Fragment: id, state, instance, capacity, node);
columns!(Namespace: id, state, configuration, fragment, span);
columns!(Registration: id, state, session, configuration, wait);
columns!(Activation: id, state, session, configuration, nodes, mount);

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(row: &mut A) -> Result<T, A::Error> {
    row.next_element()?.ok_or_else(|| de::Error::custom("a row is too short"))
}

/// A state as its letters.
struct Letters(ObjectState);

impl Serialize for Letters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let letters = self.0.letters();
        serializer.serialize_str(std::str::from_utf8(&letters).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Letters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Letters, D::Error> {
        struct Reading;
        impl Visitor<'_> for Reading {
            type Value = Letters;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the five letters of a state")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Letters, E> {
                let state = ObjectState::from_letters(text);
                state.map(Letters).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Reading)
    }
}

/// One object as a list.
struct Row<T>(T);

impl<T: Columns> Serialize for Row<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_tuple(T::NAMES.len())?;
        self.0.write(&mut row)?;
        row.end()
    }
}

impl<'de, T: Columns> Deserialize<'de> for Row<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row<T>, D::Error> {
        struct Reading<T>(PhantomData<T>);
        impl<'de, T: Columns> Visitor<'de> for Reading<T> {
            type Value = Row<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {}", T::NAMES.join(", "))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<Row<T>, A::Error> {
                let object = T::read(&mut row)?;
                match row.next_element::<de::IgnoredAny>()? {
                    None => Ok(Row(object)),
                    Some(_) => Err(de::Error::custom("a row is too long")),
                }
            }
        }
        deserializer.deserialize_tuple(T::NAMES.len(), Reading(PhantomData))
    }
}

/// The objects of one kind.
#[derive(Default)]
struct List<T>(T);

impl<T: Columns> Serialize for List<&Vec<T>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Row))
    }
}

impl<'de, T: Columns> Deserialize<'de> for List<Vec<T>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<Vec<T>>, D::Error> {
        struct Reading<T>(PhantomData<T>);
        impl<'de, T: Columns> Visitor<'de> for Reading<T> {
            type Value = List<Vec<T>>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<List<Vec<T>>, A::Error> {
                let mut objects = Vec::new();
                while let Some(Row(object)) = rows.next_element()? {
                    objects.push(object);
                }
                Ok(List(objects))
            }
        }
        deserializer.deserialize_seq(Reading(PhantomData))
    }
}

/// Some tables of a snapshot in this form; an empty one is there too.
pub(crate) struct Rows<'s>(pub &'s Snapshot, pub &'s [Shown]);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Rows(seen, tables) = self;
        let mut map = serializer.serialize_map(Some(tables.len()))?;
        for table in *tables {
            let name = table.name();
            match table {
                Shown::Pools => map.serialize_entry(name, &List(&seen.pools))?,
                Shown::Nodes => map.serialize_entry(name, &List(&seen.nodes))?,
                Shown::Sessions => map.serialize_entry(name, &List(&seen.sessions))?,
                Shown::Instances => map.serialize_entry(name, &List(&seen.instances))?,
                Shown::Configurations => map.serialize_entry(name, &List(&seen.configurations))?,
                Shown::Fragments => map.serialize_entry(name, &List(&seen.fragments))?,
                Shown::Namespaces => map.serialize_entry(name, &List(&seen.namespaces))?,
                Shown::Registrations => map.serialize_entry(name, &List(&seen.registrations))?,
                Shown::Activations => map.serialize_entry(name, &List(&seen.activations))?,
            }
        }
        map.end()
    }
}

/// What [`Rows`] wrote; tables that are not there are empty.
///
/// # Errors
/// It is something else.
pub(crate) fn read(text: &[u8]) -> Result<Snapshot, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sent {
        pools: List<Vec<Pool>>,
        nodes: List<Vec<Node>>,
        sessions: List<Vec<Session>>,
        instances: List<Vec<Instance>>,
        configurations: List<Vec<Configuration>>,
        fragments: List<Vec<Fragment>>,
        namespaces: List<Vec<Namespace>>,
        registrations: List<Vec<Registration>>,
        activations: List<Vec<Activation>>,
    }
    let sent: Sent = parse(text)?;
    Ok(Snapshot {
        pools: sent.pools.0,
        nodes: sent.nodes.0,
        sessions: sent.sessions.0,
        instances: sent.instances.0,
        configurations: sent.configurations.0,
        fragments: sent.fragments.0,
        namespaces: sent.namespaces.0,
        registrations: sent.registrations.0,
        activations: sent.activations.0,
    })
}

/// Text is checked to be UTF-8 once, not string by string.
fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    match std::str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        Err(error) => Err(de::Error::custom(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::openapi::snapshot;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let seen = snapshot();
        let text = serde_json::to_string(&Rows(&seen, &Shown::ALL)).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), seen);
        assert!(text.contains(r#""fragments":[[4,"CA---",2,1,"n"]]"#), "{text}");
        let some = serde_json::to_string(&Rows(&seen, &[Shown::Pools])).unwrap();
        assert_eq!(
            read(some.as_bytes()).unwrap(),
            Snapshot { pools: seen.pools.clone(), ..Snapshot::default() }
        );
        for (from, to) in [
            (r#"[4,"CA---",2,1,"n"]"#, r#"[4,"CA---",2,1]"#),
            (r#"[4,"CA---",2,1,"n"]"#, r#"[4,"CA---",2,1,"n",0]"#),
            ("CA---", "CA--X"),
            ("\"fragments\"", "\"splinters\""),
            ("[4,", "[-4,"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert!(read(other.as_bytes()).is_err(), "{to}");
        }
        for end in 0..text.len() {
            assert!(read(&text.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(read(b"\xff").is_err());
    }

    /// The names are the object's own, in their order.
    #[test]
    fn columns_are_named_after_members() {
        fn check<T: Columns + Serialize>(object: &T) {
            let value = serde_json::to_value(object).unwrap();
            let members: std::collections::BTreeSet<&str> =
                value.as_object().unwrap().keys().map(String::as_str).collect();
            let names: std::collections::BTreeSet<&str> = T::NAMES.iter().copied().collect();
            assert_eq!(members, names);
        }
        let seen = snapshot();
        check(&seen.pools[0]);
        check(&seen.nodes[0]);
        check(&seen.sessions[0]);
        check(&seen.instances[0]);
        check(&seen.configurations[0]);
        check(&seen.fragments[0]);
        check(&seen.namespaces[0]);
        check(&seen.registrations[0]);
        check(&seen.activations[0]);
    }
}
