//! What a simulation is about: servers with fragments, clients that work, and what goes wrong.
//!
//! * [`site`]: the servers of one instance, each a process, and how they are started, stopped and killed;
//! * [`client`]: a process that attaches and works, with two threads;
//! * [`own`], [`together`]: the work and what has to come of it, alone and together with the others;
//! * [`kept`]: the work of who knows that only what he synced outlives the power, on disks that are full now and then;
//! * [`scripted`]: scenes that go one way, for what was found once;
//! * [`play`]: a whole run: who works, what goes wrong when, and what is looked at in the end.

mod client;
mod kept;
mod own;
mod play;
mod scripted;
mod site;
mod together;

pub use play::{Plan, play};
pub use scripted::Scene;
