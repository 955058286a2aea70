//! The five-letter state that every DataWarp object carries.
//!
//! `dwstat` prints it as five characters (`CA---`), the JSON answers as an object; both come from this one value.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What the owner of an object wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// It is to exist (`C`).
    Create,
    /// It is to go away (`D`).
    Destroy,
}

/// Where an object stands on the way to its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectState {
    /// What is wanted.
    pub goal: Goal,
    /// It exists in reality, not only in the registry.
    pub actualized: bool,
    /// The service gave up retrying; an operator has to act.
    pub fuse_blown: bool,
    /// Work on it is in progress.
    pub transitioning: bool,
    /// Its parts differ, for example only some fragments exist.
    pub mixed: bool,
}

impl ObjectState {
    /// Wanted and real, nothing in progress: `CA---`.
    pub const GOOD: ObjectState = ObjectState {
        goal: Goal::Create,
        actualized: true,
        fuse_blown: false,
        transitioning: false,
        mixed: false,
    };

    /// Wanted, being made: `C--T-`.
    pub const CREATING: ObjectState =
        ObjectState { actualized: false, transitioning: true, ..ObjectState::GOOD };

    /// Unwanted, being removed: `DA-T-`.
    pub const DESTROYING: ObjectState =
        ObjectState { goal: Goal::Destroy, transitioning: true, ..ObjectState::GOOD };

    /// Neither wanted nor real: `D----`.
    pub const GONE: ObjectState = ObjectState { goal: Goal::Destroy, actualized: false, ..ObjectState::GOOD };

    /// Wanted and real, whatever else happens to it: it can be used.
    pub fn is_usable(self) -> bool {
        self.goal == Goal::Create && self.actualized && !self.fuse_blown
    }

    /// The five characters, all of them ASCII.
    pub fn letters(self) -> [u8; 5] {
        let letter = |set: bool, letter: u8| if set { letter } else { b'-' };
        let goal = match self.goal {
            Goal::Create => b'C',
            Goal::Destroy => b'D',
        };
        [
            goal,
            letter(self.actualized, b'A'),
            letter(self.fuse_blown, b'F'),
            letter(self.transitioning, b'T'),
            letter(self.mixed, b'M'),
        ]
    }

    /// The state that is printed as these five characters; `None` for anything else.
    pub fn from_letters(letters: &str) -> Option<ObjectState> {
        let &[goal, actualized, fuse_blown, transitioning, mixed] = letters.as_bytes() else { return None };
        let set = |found: u8, letter: u8| match found {
            b'-' => Some(false),
            _ if found == letter => Some(true),
            _ => None,
        };
        Some(ObjectState {
            goal: match goal {
                b'C' => Goal::Create,
                b'D' => Goal::Destroy,
                _ => return None,
            },
            actualized: set(actualized, b'A')?,
            fuse_blown: set(fuse_blown, b'F')?,
            transitioning: set(transitioning, b'T')?,
            mixed: set(mixed, b'M')?,
        })
    }
}

impl fmt::Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&self.letters()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_where_dwstat_puts_them() {
        assert_eq!(ObjectState::GOOD.to_string(), "CA---");
        assert_eq!(ObjectState::CREATING.to_string(), "C--T-");
        assert_eq!(ObjectState::DESTROYING.to_string(), "DA-T-");
        let all = ObjectState { fuse_blown: true, mixed: true, ..ObjectState::DESTROYING };
        assert_eq!(all.to_string(), "DAFTM");
    }
    #[test]
    fn letters_lead_back_to_the_state() {
        for bits in 0..32u8 {
            let bit = |n: u8| bits & (1 << n) != 0;
            let state = ObjectState {
                goal: if bit(0) { Goal::Create } else { Goal::Destroy },
                actualized: bit(1),
                fuse_blown: bit(2),
                transitioning: bit(3),
                mixed: bit(4),
            };
            assert_eq!(ObjectState::from_letters(&state.to_string()), Some(state));
        }
        for wrong in ["", "CA--", "CA----", "XA---", "CF---", "ca---"] {
            assert_eq!(ObjectState::from_letters(wrong), None, "{wrong}");
        }
    }
}
