//! The kinds of objects that can be asked for.

/// A kind of object: one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Pools.
    Pools,
    /// Sessions.
    Sessions,
    /// Instances.
    Instances,
    /// Configurations.
    Configurations,
    /// Registrations.
    Registrations,
    /// Activations.
    Activations,
    /// Fragments.
    Fragments,
    /// Namespaces.
    Namespaces,
    /// Nodes.
    Nodes,
}

impl Object {
    /// Every kind, in the order of `all`; the first [`Object::MOST`] are the order of `most`.
    pub const ALL: [Object; 9] = [
        Object::Pools,
        Object::Sessions,
        Object::Instances,
        Object::Configurations,
        Object::Registrations,
        Object::Activations,
        Object::Fragments,
        Object::Namespaces,
        Object::Nodes,
    ];

    /// How many kinds `most` shows.
    pub const MOST: usize = 6;

    /// The word on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Object::Pools => "pools",
            Object::Sessions => "sessions",
            Object::Instances => "instances",
            Object::Configurations => "configurations",
            Object::Registrations => "registrations",
            Object::Activations => "activations",
            Object::Fragments => "fragments",
            Object::Namespaces => "namespaces",
            Object::Nodes => "nodes",
        }
    }

    /// What is printed instead of an empty table.
    pub fn none(self) -> String {
        match self {
            Object::Configurations => "no scratch, cache, swap configurations".to_owned(),
            other => format!("no {}", other.name()),
        }
    }

    /// The kinds that a word on the command line stands for.
    pub fn named(word: &str) -> Option<&'static [Object]> {
        match word {
            "most" => Some(&Object::ALL[..Object::MOST]),
            "all" => Some(&Object::ALL),
            _ => {
                let position = Object::ALL.iter().position(|object| object.name() == word)?;
                Some(&Object::ALL[position..=position])
            }
        }
    }
}
