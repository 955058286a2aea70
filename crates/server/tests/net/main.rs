//! A server over loopback, against a client that can do anything wrong.

mod awake;
mod client;
mod content;
mod handshakes;
mod locks;
mod nonsense;
mod offers;
mod once;
mod place;
mod restart;
mod sessions;
mod sight;
mod strangers;
