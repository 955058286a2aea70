//! Tables as lists of lists: the values of each row in the order of [`Columns::NAMES`], without their names, a state as its five
//! letters.
//!
//! A large cluster has a hundred thousand rows; written this way they are a quarter of the bytes, and dwstat waits for each of
//! them four times (written, sent, read, shown). `docs/openapi.json` describes it as `SnapshotRows`. Pure; any thread.

use crate::cluster::State;
use crate::cluster::view::{Objects, Shown, View};
use crate::registry::Snapshot;
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeTuple, Serializer};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// An object as a row of values.
pub(crate) trait Columns: Sized {
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
    /// Another value is there, or a row is too short or too long.
    fn read<'t, D: Deserializer<'t>>(row: D) -> Result<Self, D::Error>;
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

            fn read<'t, D: Deserializer<'t>>(row: D) -> Result<Self, D::Error> {
                let (id, Letters(state), $($member),+) = Deserialize::deserialize(row)?;
                Ok($object { id, state, $($member),+ })
            }
        }
    };
    ($object:ident: name, $($member:ident),+) => {
        impl Columns for $object {
            const NAMES: &'static [&'static str] = &["name", $(stringify!($member)),+];

            fn write<S: SerializeTuple>(&self, row: &mut S) -> Result<(), S::Error> {
                row.serialize_element(&self.name)?;
                $(row.serialize_element(&self.$member)?;)+
                Ok(())
            }

            fn read<'t, D: Deserializer<'t>>(row: D) -> Result<Self, D::Error> {
                let (name, $($member),+) = Deserialize::deserialize(row)?;
                Ok($object { name, $($member),+ })
            }
        }
    };
}

columns!(Pool: name, granularity, quantity, free);
columns!(Node: name, pool, online, drain, granularity, capacity, instances, activations);
columns!(Session: id, state, token, creator, owner, created, expiration, nodes);
columns!(Instance: id, state, session, bytes, nodes, created, expiration, intact, label, public, configurations, limits);
columns!(Configuration: id, state, instance, kind, access_mode, backing_path, activations);
columns!(Fragment: id, state, instance, capacity, node);
columns!(Namespace: id, state, configuration, fragment, span);
columns!(Registration: id, state, session, configuration, wait);
columns!(Activation: id, state, session, configuration, nodes, mount);

/// A state as its letters.
struct Letters(ObjectState);

impl Serialize for Letters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let letters = self.0.letters();
        serializer.serialize_str(std::str::from_utf8(&letters).unwrap_or_default())
    }
}

impl<'t> Deserialize<'t> for Letters {
    fn deserialize<D: Deserializer<'t>>(text: D) -> Result<Letters, D::Error> {
        let letters = Text::deserialize(text)?.0;
        let state = ObjectState::from_letters(&letters);
        state.map(Letters).ok_or_else(|| D::Error::custom(format_args!("{letters:?} is no state")))
    }
}

/// A text, copied only where it is not written as it is.
#[derive(Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

/// One object as a list.
struct Row<T>(T);

impl<T: Columns> Serialize for Row<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_tuple(T::NAMES.len())?;
        self.0.write(&mut row)?;
        row.end()
    }
}

impl<'t, T: Columns> Deserialize<'t> for Row<T> {
    fn deserialize<D: Deserializer<'t>>(row: D) -> Result<Row<T>, D::Error> {
        T::read(row).map(Row)
    }
}

/// The objects of one kind, each made when it is written.
struct Made<F>(F);

impl<T: Columns, I: Iterator<Item = T>, F: Fn() -> I> Serialize for Made<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)().map(Row))
    }
}

/// Some tables in this form; an empty one is there too.
pub(crate) struct Rows<'s, S>(pub &'s S, pub &'s [Shown]);

impl<S: Objects> Serialize for Rows<'_, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let Rows(seen, tables) = self;
        let mut map = serializer.serialize_map(Some(tables.len()))?;
        for table in *tables {
            let name = table.name();
            match table {
                Shown::Pools => map.serialize_entry(name, &Made(|| seen.pools()))?,
                Shown::Nodes => map.serialize_entry(name, &Made(|| seen.nodes()))?,
                Shown::Sessions => map.serialize_entry(name, &Made(|| seen.sessions()))?,
                Shown::Instances => map.serialize_entry(name, &Made(|| seen.instances()))?,
                Shown::Configurations => map.serialize_entry(name, &Made(|| seen.configurations()))?,
                Shown::Fragments => map.serialize_entry(name, &Made(|| seen.fragments()))?,
                Shown::Namespaces => map.serialize_entry(name, &Made(|| seen.namespaces()))?,
                Shown::Registrations => map.serialize_entry(name, &Made(|| seen.registrations()))?,
                Shown::Activations => map.serialize_entry(name, &Made(|| seen.activations()))?,
            }
        }
        map.end()
    }
}

/// Writes what a user sees of some tables.
///
/// # Errors
/// Those of the format.
pub(crate) fn write(state: &State, viewer: u32, tables: &[Shown]) -> Result<Vec<u8>, serde_json::Error> {
    let view = View::new(state, viewer);
    // A text that grows is copied again and again.
    let mut text = Vec::with_capacity(view.most(tables).saturating_mul(ROW_BYTES));
    serde_json::to_writer(&mut text, &Rows(&view, tables))?;
    Ok(text)
}

/// What a row takes, about.
const ROW_BYTES: usize = 48;

/// Who takes objects one by one, table by table, in the order in which they were asked for.
#[allow(missing_docs)]
pub trait Audience {
    fn pool(&mut self, one: Pool);
    fn node(&mut self, one: Node);
    fn session(&mut self, one: Session);
    fn instance(&mut self, one: Instance);
    fn configuration(&mut self, one: Configuration);
    fn fragment(&mut self, one: Fragment);
    fn namespace(&mut self, one: Namespace);
    fn registration(&mut self, one: Registration);
    fn activation(&mut self, one: Activation);
}

impl Audience for Snapshot {
    fn pool(&mut self, one: Pool) {
        self.pools.push(one);
    }
    fn node(&mut self, one: Node) {
        self.nodes.push(one);
    }
    fn session(&mut self, one: Session) {
        self.sessions.push(one);
    }
    fn instance(&mut self, one: Instance) {
        self.instances.push(one);
    }
    fn configuration(&mut self, one: Configuration) {
        self.configurations.push(one);
    }
    fn fragment(&mut self, one: Fragment) {
        self.fragments.push(one);
    }
    fn namespace(&mut self, one: Namespace) {
        self.namespaces.push(one);
    }
    fn registration(&mut self, one: Registration) {
        self.registrations.push(one);
    }
    fn activation(&mut self, one: Activation) {
        self.activations.push(one);
    }
}

/// Tells what [`write`] wrote; tables that are not there are empty.
///
/// # Errors
/// It is something else; what came before was told already.
pub(crate) fn read(text: &[u8], to: &mut impl Audience) -> Result<(), NotRows> {
    // Checked once, not text by text.
    let mut tables = serde_json::Deserializer::from_str(std::str::from_utf8(text)?);
    tables.deserialize_map(Tables(to))?;
    Ok(tables.end()?)
}

/// Takes the tables, and tells of them.
struct Tables<'a, A>(&'a mut A);

impl<'t, A: Audience> Visitor<'t> for Tables<'_, A> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("tables by their names")
    }

    fn visit_map<M: MapAccess<'t>>(self, mut tables: M) -> Result<(), M::Error> {
        let Tables(to) = self;
        let mut seen: Vec<Shown> = Vec::new();
        while let Some(Text(name)) = tables.next_key()? {
            let known = Shown::named(&name).filter(|table| !seen.contains(table));
            let table = known.ok_or_else(|| {
                M::Error::custom(format_args!(
                    "{name:?} where a table of the snapshot is expected, each once"
                ))
            })?;
            seen.push(table);
            match table {
                Shown::Pools => tables.next_value_seed(Told::new(|one| to.pool(one)))?,
                Shown::Nodes => tables.next_value_seed(Told::new(|one| to.node(one)))?,
                Shown::Sessions => tables.next_value_seed(Told::new(|one| to.session(one)))?,
                Shown::Instances => tables.next_value_seed(Told::new(|one| to.instance(one)))?,
                Shown::Configurations => tables.next_value_seed(Told::new(|one| to.configuration(one)))?,
                Shown::Fragments => tables.next_value_seed(Told::new(|one| to.fragment(one)))?,
                Shown::Namespaces => tables.next_value_seed(Told::new(|one| to.namespace(one)))?,
                Shown::Registrations => tables.next_value_seed(Told::new(|one| to.registration(one)))?,
                Shown::Activations => tables.next_value_seed(Told::new(|one| to.activation(one)))?,
            }
        }
        Ok(())
    }
}

/// Tells the objects of one kind, each when it was read.
struct Told<T, F> {
    tell: F,
    objects: PhantomData<T>,
}

impl<T: Columns, F: FnMut(T)> Told<T, F> {
    fn new(tell: F) -> Told<T, F> {
        Told { tell, objects: PhantomData }
    }
}

impl<'t, T: Columns, F: FnMut(T)> DeserializeSeed<'t> for Told<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, table: D) -> Result<(), D::Error> {
        table.deserialize_seq(self)
    }
}

impl<'t, T: Columns, F: FnMut(T)> Visitor<'t> for Told<T, F> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a list of rows")
    }

    fn visit_seq<S: SeqAccess<'t>>(mut self, mut rows: S) -> Result<(), S::Error> {
        while let Some(Row(object)) = rows.next_element()? {
            (self.tell)(object);
        }
        Ok(())
    }
}

/// Why a text is none of rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRows {
    /// Its bytes.
    #[error(transparent)]
    NotText(#[from] std::str::Utf8Error),
    /// Its JSON, or its tables.
    #[error("not a table of the snapshot: {0}")]
    Odd(#[from] serde_json::Error),
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
            ("\"fragments\"", "\"pools\""),
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
        let spaced = serde_json::from_str::<serde_json::Value>(&text).unwrap();
        assert_eq!(read(format!("{spaced:#}\n").as_bytes()).unwrap(), seen);
        assert!(read(format!("{text},").as_bytes()).is_err());
    }

    impl Objects for Snapshot {
        fn pools(&self) -> impl Iterator<Item = Pool> {
            self.pools.iter().cloned()
        }
        fn nodes(&self) -> impl Iterator<Item = Node> {
            self.nodes.iter().cloned()
        }
        fn sessions(&self) -> impl Iterator<Item = Session> {
            self.sessions.iter().cloned()
        }
        fn instances(&self) -> impl Iterator<Item = Instance> {
            self.instances.iter().cloned()
        }
        fn configurations(&self) -> impl Iterator<Item = Configuration> {
            self.configurations.iter().cloned()
        }
        fn fragments(&self) -> impl Iterator<Item = Fragment> {
            self.fragments.iter().cloned()
        }
        fn namespaces(&self) -> impl Iterator<Item = Namespace> {
            self.namespaces.iter().cloned()
        }
        fn registrations(&self) -> impl Iterator<Item = Registration> {
            self.registrations.iter().cloned()
        }
        fn activations(&self) -> impl Iterator<Item = Activation> {
            self.activations.iter().cloned()
        }
    }

    fn read(text: &[u8]) -> Result<Snapshot, NotRows> {
        let mut seen = Snapshot::default();
        super::read(text, &mut seen).map(|()| seen)
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
