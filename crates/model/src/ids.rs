//! Identifiers of the DataWarp objects.
//!
//! Every object has a positive decimal id that is never used twice within one registry, so that a line of `dwstat`
//! noted yesterday never names another object today.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// A user's or job's presence in the burst buffer (`sess` in dwstat).
    SessionId
);
id!(
    /// A piece of allocated space (`inst`).
    InstanceId
);
id!(
    /// The part of an instance on one storage node (`frag`).
    FragmentId
);
id!(
    /// A use made of an instance: type and access mode (`conf`).
    ConfigurationId
);
id!(
    /// A metadata tree of a configuration (`ns`).
    NamespaceId
);
id!(
    /// The right of a session to use a configuration (`reg`).
    RegistrationId
);
id!(
    /// The mounts of a configuration for a session (`activ`).
    ActivationId
);
