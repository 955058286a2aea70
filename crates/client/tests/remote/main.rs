//! Volumes over connections to real servers on loopback: what holds in one process holds here, also when connections break
//! and servers are started anew.

#[path = "../support/mod.rs"]
mod support;

mod breaking;
mod direct;
mod entrusted;
mod instance;
mod known;
mod limits;
mod locks;
mod lockstep;
mod notices;
mod ordinary;
mod proxy;
mod refusals;
mod restart;
