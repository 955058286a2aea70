//! The network side of the servers: sessions, connections and requests.
//!
//! ```text
//! Server ─┬─ Listener: sockets            Register: instance/namespace -> Hosted ─┬─ ServedData: content here
//!         └─ connection: a thread each                                            └─ Home: if the names are here
//!              handshake -> one of                                                     ├─ Session of each client: slots,
//!              ├─ data: DataRequest -> ServedData                                      │    references, open files, outbox
//!              ├─ metadata: MetadataRequest -> Asking -> tree                          ├─ Grants: who shows what till when
//!              └─ callback: outbox -> client                                           ├─ LockTable
//!                                                                                      └─ Recovery: after a start
//! ```
//!
//! What always holds:
//! * nothing is read or kept of a client that has not proved that it knows the instance's secret, but for one small frame;
//! * a change is made once, however often it is sent ([`slots`]), also over the end of the process ([`crate::deeds`]);
//! * a change that completed is seen by all ([`grants`]);
//! * what a client held is released when it is gone for the grace time, and not before ([`session`]);
//! * a request that is too long, malformed or unknown costs nobody else anything.
//!
//! The messages and how they are framed: `forebay_wire::message`.

mod callback;
mod data;
mod earlier;
mod entrusted;
mod files;
mod frame;
mod grants;
mod handshake;
mod home;
mod hosted;
mod listener;
mod locking;
mod names;
mod outbox;
mod reclaim;
mod recovery;
mod remembered;
mod requests;
mod serve;
mod server;
mod session;
mod settle;
mod shares;
mod slots;
mod stream;
mod telling;

pub use hosted::{HostError, HostedNamespace, HostedTree, Maker, Secrets};
pub use listener::ListenError;
pub use recovery::SessionsError;
pub use server::{ClientInfo, NetConfig, Server, StartError};
pub use shares::ServedData;
