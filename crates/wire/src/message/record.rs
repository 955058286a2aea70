//! How a message is declared: its fields once, in the order of the wire, and the code that writes and reads them made from
//! that. A field's name, its place and its type are then never told twice.

/// A struct whose fields follow each other on the wire.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name { $($(#[$about])* pub $field: $type,)* }

        impl $crate::message::codec::Field for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $($crate::message::codec::Field::put(&self.$field, to);)*
            }

            fn take(from: &mut $crate::message::codec::Reader<'_>) -> Result<Self, $crate::message::DecodeError> {
                Ok($name { $($field: $crate::message::codec::Field::take(from)?,)* })
            }
        }

        #[cfg(test)]
        impl $crate::message::tests::sample::Sample for $name {
            fn sample(from: &mut $crate::message::tests::sample::Source) -> Self {
                $name { $($field: $crate::message::tests::sample::Sample::sample(from),)* }
            }
        }
    };
}

/// A set of messages: the kind of each, and its fields in the order of the wire.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $kind:literal $({ $($(#[$field_about:meta])* $field:ident: $type:ty,)* })?,)*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            // A field whose name does not say all is told about in the text of its message.
            $($(#[$about])* $variant $({ $(#[allow(missing_docs)] $(#[$field_about])* $field: $type,)* })?,)*
        }

        impl $name {
            /// All kinds, with their names.
            pub const KINDS: &[(u16, &str)] = &[$(($kind, stringify!($variant)),)*];

            /// The number of this message in the header of a frame.
            pub fn kind(&self) -> u16 {
                match self { $($name::$variant { .. } => $kind,)* }
            }

            /// The name of this message, for texts.
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant { .. } => stringify!($variant),)* }
            }

            /// Adds the fields to a body.
            pub fn encode(&self, body: &mut Vec<u8>) {
                match self {
                    $($name::$variant $({ $($field,)* })? => { $($($crate::message::codec::Field::put($field, body);)*)? })*
                }
                let _ = body;
            }

            /// The message of a kind and a body, all of it.
            pub fn decode(kind: u16, body: &[u8]) -> Result<$name, $crate::message::DecodeError> {
                let mut from = $crate::message::codec::Reader::new(body);
                let message = $name::take(kind, &mut from)?;
                from.end()?;
                Ok(message)
            }

            /// The message of a kind, from where the reader is.
            pub(crate) fn take(
                kind: u16,
                from: &mut $crate::message::codec::Reader<'_>,
            ) -> Result<$name, $crate::message::DecodeError> {
                let _ = &from;
                match kind {
                    $($kind => Ok($name::$variant $({ $($field: $crate::message::codec::Field::take(from)?,)* })?),)*
                    kind => Err($crate::message::DecodeError::UnknownKind { kind }),
                }
            }

            /// A message of a kind, with fields from a source.
            #[cfg(test)]
            pub(crate) fn sample(kind: u16, from: &mut $crate::message::tests::sample::Source) -> $name {
                let _ = &from;
                match kind {
                    $($kind => $name::$variant $({ $($field: $crate::message::tests::sample::Sample::sample(from),)* })?,)*
                    kind => panic!("no message of kind {kind:#06x}"),
                }
            }
        }
    };
}

/// An enum without fields, a byte on the wire.
macro_rules! tags {
    ($type:ty, $what:literal, { $($variant:ident = $tag:literal,)* }) => {
        impl $crate::message::codec::Field for $type {
            fn put(&self, to: &mut Vec<u8>) {
                to.push(match self { $(<$type>::$variant => $tag,)* });
            }

            fn take(from: &mut $crate::message::codec::Reader<'_>) -> Result<Self, $crate::message::DecodeError> {
                match u8::take(from)? {
                    $($tag => Ok(<$type>::$variant),)*
                    tag => Err($crate::message::DecodeError::UnknownTag { what: $what, tag }),
                }
            }
        }

        #[cfg(test)]
        impl $crate::message::tests::sample::Sample for $type {
            fn sample(from: &mut $crate::message::tests::sample::Source) -> Self {
                *from.one_of(&[$(<$type>::$variant,)*])
            }
        }
    };
}

pub(crate) use {messages, record, tags};
