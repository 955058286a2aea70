//! Limits of an instance, and what happens when one is reached.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Seconds of a write window when nobody says otherwise.
pub const WINDOW_LENGTH_S: u64 = 86_400;
/// So many times the size may be written in it when nobody says otherwise.
pub const WINDOW_MULTIPLIER: u64 = 10;
/// Longest write window, in seconds: a year.
pub const WINDOW_LENGTH_MAX_S: u64 = 366 * 86_400;
/// Largest multiplier of a write window.
pub const WINDOW_MULTIPLIER_MAX: u64 = 1 << 32;

/// What happens when a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// It is logged and goes on.
    Log,
    /// It is refused.
    #[default]
    Error,
    /// It is refused and logged.
    Both,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 3] = [Policy::Log, Policy::Error, Policy::Both];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Log => "log",
            Policy::Error => "error",
            Policy::Both => "both",
        }
    }

    /// The policy of a word.
    pub fn of_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// What goes beyond the limit is refused.
    pub fn refuses(self) -> bool {
        self != Policy::Log
    }

    /// It is logged.
    pub fn logs(self) -> bool {
        self != Policy::Error
    }
}

/// What happens when a limit of a namespace is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policies {
    /// A file grows beyond the largest size.
    #[serde(default)]
    pub file_size: Policy,
    /// More files are created than allowed.
    #[serde(default)]
    pub file_count: Policy,
}

/// What happens at each limit of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstancePolicies {
    /// More is written within the write window than allowed.
    pub write_window: Policy,
    /// A file grows beyond the largest size.
    pub file_size: Policy,
    /// More files are created than allowed.
    pub file_count: Policy,
}

impl InstancePolicies {
    /// Those of its namespaces.
    pub fn of_namespaces(&self) -> Policies {
        Policies { file_size: self.file_size, file_count: self.file_count }
    }

    /// Everything that goes beyond a limit is refused, and nothing logged.
    pub fn are_usual(&self) -> bool {
        *self == InstancePolicies::default()
    }
}

/// How much may be written to a fragment within a span of time, to spare its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteWindow {
    /// The span in seconds; a write counts for so long.
    pub length_s: u64,
    /// So many times the size of the fragment may be written in it.
    pub multiplier: u64,
    /// What happens then.
    #[serde(default)]
    pub policy: Policy,
}

impl WriteWindow {
    /// Bytes that may be written to a fragment of this size within the span.
    pub fn limit(&self, fragment: Bytes) -> Bytes {
        Bytes(fragment.0.saturating_mul(self.multiplier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_the_original() {
        let window = WriteWindow { length_s: 86_400, multiplier: 10, policy: Policy::Error };
        assert_eq!(window.limit(Bytes((2 * 82_496) << 20)), Bytes(1_730_066_513_920));
        assert_eq!(window.limit(Bytes(u64::MAX)), Bytes(u64::MAX));
    }

    #[test]
    fn words_and_meanings() {
        for policy in Policy::ALL {
            assert_eq!(Policy::of_name(policy.name()), Some(policy));
            assert!(policy.refuses() || policy.logs());
        }
        assert_eq!(Policy::of_name("ignore"), None);
        assert!(
            Policy::Both.refuses() && Policy::Both.logs() && !Policy::Log.refuses() && !Policy::Error.logs()
        );
    }
}
