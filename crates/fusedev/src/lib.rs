//! The kernel's FUSE protocol, and the device it is spoken on.
//!
//! ```text
//!   /dev/fuse -> [ session: thread, buffer ] -> [ request: typed ] -> Handler (the file system)
//!             <------------------------------ [ reply: typed ] <--------'
//! ```
//!
//! The way of a connection: a device is opened ([`device::open`]) and mounted by somebody, [`Greeting::receive`] hears
//! what the kernel offers, [`Greeting::agree`] takes some of it, [`Connection::serve`] serves until the mount is gone.
//! Decoding and encoding are pure and hold against any bytes; knows nothing of any particular file system.
//!
//! Written from the kernel's own header, `include/uapi/linux/fuse.h`, versions 7.23 to 7.45.

pub mod abi;
mod attr;
mod backing;
mod buffer;
mod closings;
mod connection;
mod cursor;
pub mod device;
mod dispatch;
mod flags;
mod handler;
mod handshake;
mod notify;
mod record;
pub mod reply;
pub mod request;
mod seats;
mod session;
mod transport;
mod uring;
mod waiters;
mod window;

pub use attr::{Attr, Entry, FileType, Statfs, Time};
pub use backing::{BackingId, Registrar};
pub use closings::{Closings, Served};
pub use connection::Connection;
pub use flags::{Features, IoctlFlags, OpenMode, WriteFlags};
pub use handler::{Handler, Interrupted};
pub use handshake::{Agreement, Greeting, HandshakeError, Offer};
pub use notify::Notifier;
pub use reply::Opened;
pub use request::Context;
pub use rustix::io::Errno;
pub use session::Serving;
pub use waiters::{NotKept, Waiters};
pub use window::Window;
