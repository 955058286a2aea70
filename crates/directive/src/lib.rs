//! `#DW` and `#BB` job directives: text to typed directives and back.
//!
//! The language is that of Cray DataWarp and of Slurm's `burst_buffer/datawarp` plugin; `docs/directives.md` describes
//! it. [`parse_script`] reads a job script, [`parse_lines`] a file of directives, [`parse_bb_option`] the text of
//! sbatch's `--bb`, [`parse_stage_list`] the file of a `type=list`.
//!
//! Invariants: no text of any bytes makes a panic; everything that is not understood is told, with its place; a
//! directive that is handed out is valid by itself, and valid among the others if there are no errors. Pure: nothing is
//! read or looked up, so whether a pool, a path or a persistent instance exists is not known here. Any thread may call
//! everything.
#![forbid(unsafe_code)]

mod bb_option;
mod check;
mod command;
mod diagnostic;
mod fields;
mod lines;
mod near_miss;
mod print;
mod read;
mod script;
mod stage_list;
mod suggest;
mod symbols;
mod types;
mod value;
mod words;

pub use bb_option::parse_bb_option;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use script::{Parsed, parse_lines, parse_lines_with, parse_script, parse_script_with};
pub use stage_list::{StageList, StageListEntry, parse_stage_list};
pub use symbols::{SYMBOLS, Symbols, UnknownSymbol, expand};
pub use types::{
    Access, CreatePersistent, DestroyPersistent, Directive, InstanceRef, JobDw, Located, PersistentDw,
    ReadAhead, Stage, StageKind, StagePath, Swap, WRITE_WINDOW_LENGTH_S, WRITE_WINDOW_MULTIPLIER,
};
pub use value::Direction;
