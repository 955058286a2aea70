//! #DW and #BB job directives: text to typed directives and back.
#![forbid(unsafe_code)]

mod diagnostic;
mod symbols;
mod types;

pub use diagnostic::{Code, Diagnostic, Severity};
pub use symbols::Symbols;
pub use types::{
    Access, CreatePersistent, DestroyPersistent, Directive, InstanceRef, JobDw, Located, PersistentDw,
    ReadAhead, Stage, StageKind, StagePath, Swap, WRITE_WINDOW_LENGTH_S, WRITE_WINDOW_MULTIPLIER,
};

use serde::Serialize;

/// What a script says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parsed {
    /// The directives that could be read, in the order of the script.
    pub directives: Vec<Located<Directive>>,
    /// What is doubtful.
    pub warnings: Vec<Diagnostic>,
    /// What is wrong. The script must not be run unless this is empty.
    pub errors: Vec<Diagnostic>,
}
