//! The serving threads.
//!
//! Each reads a request, serves it, and reads the next: blocking, without a dispatcher between. With a queue of its own
//! (a cloned descriptor) a thread answers where it has read. The threads end when the kernel says that the mount is gone
//! (ENODEV). One whose device fails otherwise complains and ends; when all have, the connection is cut and programs get
//! ENOTCONN instead of waiting for ever.

use crate::abi::IN_HEADER_BYTES;
use crate::buffer::Buffer;
use crate::connection::Connection;
use crate::device;
use crate::dispatch::Dispatch;
use crate::handler::Handler;
use crate::transport::Device;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Threads, at least one.
    pub threads: usize,
    /// Each thread has a queue of its own.
    pub queue_per_thread: bool,
    /// Begin of the threads' names.
    pub name: &'static str,
}

/// Runs the threads until all have ended, then tells the handler.
pub(crate) fn run(connection: Connection, handler: &dyn Handler, serving: &Serving) -> io::Result<()> {
    let Connection { device, features, request_bytes } = connection;
    let channels = channels(device, serving)?;
    let served = std::thread::scope(|scope| -> io::Result<()> {
        let mut threads = Vec::new();
        for (number, channel) in channels.into_iter().enumerate() {
            let worker = move || serve(channel, handler, features, request_bytes);
            let name = format!("{}-{number}", serving.name);
            match std::thread::Builder::new().name(name).spawn_scoped(scope, worker) {
                Ok(thread) => threads.push(thread),
                // The others serve as well, only fewer at a time.
                Err(error) if !threads.is_empty() => {
                    handler.complain(&format_args!("a serving thread: {error}"))
                }
                Err(error) => return Err(error),
            }
        }
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::IO)));
        Ok(ended.fold(Ok(()), Result::and)?)
    });
    handler.end();
    served
}

/// A descriptor for each thread, cloned where wanted and possible.
fn channels(device: Arc<OwnedFd>, serving: &Serving) -> io::Result<Vec<Arc<OwnedFd>>> {
    let mut channels = vec![device];
    for _ in 1..serving.threads {
        let first = &channels[0];
        let further = match serving.queue_per_thread {
            true => Arc::new(device::clone(first)?),
            false => Arc::clone(first),
        };
        channels.push(further);
    }
    Ok(channels)
}

fn serve(
    channel: Arc<OwnedFd>,
    handler: &dyn Handler,
    features: crate::flags::Features,
    request_bytes: usize,
) -> Result<(), Errno> {
    let mut buffer = Buffer::new(request_bytes);
    let dispatch = Dispatch { handler, features, answers: Arc::new(Device::new(Arc::clone(&channel))) };
    loop {
        match rustix::io::read(&channel, buffer.for_request()) {
            Ok(length) => one(&dispatch, &mut buffer, length),
            // A signal; nothing there after all; or a request that its caller gave up while it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(()),
            Err(error) => {
                handler.complain(&format_args!("a serving thread ends, reading the FUSE device: {error}"));
                return Err(error);
            }
        }
    }
}

/// A panic has answered EIO when it gets here (the reply was dropped on its way); the buffer holds plain bytes.
fn one(dispatch: &Dispatch<'_>, buffer: &mut Buffer, length: usize) {
    let (message, room) = buffer.split(length);
    let opcode = message.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    debug_assert!(length >= IN_HEADER_BYTES, "the kernel sends whole requests");
    if catch_unwind(AssertUnwindSafe(|| dispatch.serve(message, room))).is_err() {
        dispatch
            .handler
            .complain(&format_args!("a panic while serving operation {opcode:?}; it was answered EIO"));
    }
}
