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
}

impl fmt::Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |set: bool, letter: char| if set { letter } else { '-' };
        let goal = match self.goal {
            Goal::Create => 'C',
            Goal::Destroy => 'D',
        };
        let text: String = [
            goal,
            letter(self.actualized, 'A'),
            letter(self.fuse_blown, 'F'),
            letter(self.transitioning, 'T'),
            letter(self.mixed, 'M'),
        ]
        .iter()
        .collect();
        f.pad(&text)
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
}
