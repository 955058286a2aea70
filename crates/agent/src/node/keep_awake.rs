//! Whether the machine's processors are kept awake while many calls are answered: docs/adr/0019.

use forebay_awake::{Awake, Idle};
use serde::{Deserialize, Serialize};

/// When processors are kept awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepAwake {
    /// They sleep as the machine is set.
    Never,
    /// Where it is known to pay: in virtual machines that say how they sleep.
    #[default]
    InGuests,
    /// On every machine.
    Always,
}

impl KeepAwake {
    /// Its words, in the order of the variants.
    pub const WORDS: [(&'static str, KeepAwake); 3] =
        [("never", KeepAwake::Never), ("in-guests", KeepAwake::InGuests), ("always", KeepAwake::Always)];

    /// Its word.
    pub fn word(self) -> &'static str {
        KeepAwake::WORDS[self as usize].0
    }

    /// For those who answer calls in this process, if this machine's processors are to be kept awake.
    pub(crate) fn awake(self) -> Awake {
        self.asks(Idle::of_this_machine()).map_or_else(Awake::default, |idle| Awake::new(&idle))
    }

    fn asks(self, idle: Idle) -> Option<Idle> {
        match self {
            KeepAwake::Never => None,
            KeepAwake::InGuests => Some(idle).filter(Idle::is_of_a_guest),
            KeepAwake::Always => Some(idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_not_a_guest_is_asked_only_if_somebody_says_so() {
        let asks =
            |driver| KeepAwake::WORDS.map(|(_, when)| when.asks(Idle::at(Path::new("/d"), driver)).is_some());
        assert_eq!(asks("haltpoll"), [false, true, true]);
        assert_eq!(asks("intel_idle"), [false, false, true]);
    }

    #[test]
    fn words_are_those_of_files() {
        for (word, when) in KeepAwake::WORDS {
            assert_eq!((when.word(), serde_json::to_value(when).unwrap()), (word, word.into()));
        }
    }
}
