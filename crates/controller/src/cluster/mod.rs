//! The core of a cluster's controller: what is to be done when something happens, as a pure function.
//!
//! [`step()`] takes the state and an event and gives effects. It reads no clock, no file and no network, and it is the only
//! way to change a [`State`]. One thread, the driver, owns the state: it feeds events and carries the effects out in
//! their order, of which [`Effect::Store`] is always the first and must be durable before the next one.
//!
//! What is wanted is written in rows, and after every event the rows it concerns are reconciled: which order follows from
//! the difference between what is wanted and what agents said there is. A request of the workload manager only says
//! what is wanted, and is answered when the rows say that it is so. That makes every request repeatable, and a restart
//! of any part is no special case.
//!
//! Invariants, which the simulation in `tests/cluster_simulation.rs` checks with crashes, losses and reordering:
//! - A granule belongs to one fragment's row from before the order to make it goes out until its agent said that it is gone.
//! - From `pre_run` on a session's stage-outs are owed: while one is not done, its instance is destroyed only with hurry.
//! - Everything that was answered "done" was stored before.
//! - Tasks have stable numbers and are handed out until their end was reported.

mod agents;
mod by_hand;
mod changes;
pub mod effect;
pub mod event;
mod jobs;
pub mod limits;
mod links;
mod mount_place;
mod operators;
mod plan;
mod reconcile;
pub mod refusal;
pub mod request;
pub mod row;
pub mod settings;
mod state;
mod step;
pub mod table;
#[cfg(test)]
mod tests;
mod users;
mod verdict;
pub mod view;
mod waiting;
mod word;

pub use effect::{Answer, Effect};
pub use event::{AgentMessage, Event};
pub use refusal::Refusal;
pub use request::{Caller, Request, RequestId};
pub use settings::{Settings, SpaceByHand};
pub use state::{RestoreError, State};
pub use step::{list, step};
pub(crate) use word::check_word;
