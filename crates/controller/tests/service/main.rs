//! The controller as a running service, spoken to as commands and agents do, with agents that only pretend to work.
//!
//! Needs root, because agents are root.

mod agent;
mod basics;
mod kill;
mod limits;
mod network;
mod place;
mod process;
mod raw;
mod watching;
