//! Nouns and rules of the burst buffer.
//!
//! Pure: no clock, no file, no thread, no randomness. Everything that several crates must agree on is here, so that
//! it can be tested by properties: sizes and their units, pools and granules, allocation over nodes, the states of
//! the DataWarp objects, the life cycle of a job and the stripe arithmetic of the file system.

pub mod allocate;
pub mod capacity;
pub mod ids;
pub mod layout;
pub mod lifecycle;
pub mod limits;
pub mod objects;
pub mod pool;
pub mod state;
pub mod units;
