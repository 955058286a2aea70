//! The serving threads.
//!
//! Each reads a request, serves it, and reads the next: blocking, without a dispatcher between; a few of them at a time
//! ([`crate::seats`]). With a queue of its own (a cloned descriptor) a thread answers where it has read. The threads end
//! when the kernel says that the mount is gone (ENODEV). One whose device fails otherwise complains and ends; when all
//! have, the connection is cut and programs get ENOTCONN instead of waiting for ever.

use crate::abi::opcode;
use crate::buffer::Buffer;
use crate::closings::Closings;
use crate::connection::Connection;
use crate::device;
use crate::dispatch::Dispatch;
use crate::flags::Features;
use crate::handler::Handler;
use crate::request::{decode, glance};
use crate::seats::Seats;
use crate::transport::Device;
use crate::uring::{self, Lane, Muster, Reserve, Rings};
use forebay_awake::Awake;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Threads, at least one.
    pub threads: usize,
    /// Each thread has a queue of its own.
    pub queue_per_thread: bool,
    /// Begin of the threads' names.
    pub name: &'static str,
    /// Is told of each request, so that the machine's processors stay awake while there are many.
    pub awake: Awake,
}

/// What the serving threads of one mount have in common.
#[derive(Clone, Copy)]
struct Shared<'a> {
    handler: &'a dyn Handler,
    features: Features,
    request_bytes: usize,
    closings: &'a Closings,
    awake: &'a Awake,
}

/// Runs the threads until all have ended, then tells the handler.
pub(crate) fn run(connection: Connection, handler: &dyn Handler, serving: &Serving) -> io::Result<()> {
    let Connection { device, features, request_bytes, rings, closings } = connection;
    let awake = &serving.awake;
    let shared = Shared { handler, features, request_bytes, closings: &closings, awake };
    let served = match rings {
        None => by_device(device, shared, serving),
        Some(rings) => by_rings(&device, rings, shared, serving),
    };
    handler.end();
    served
}

/// Each thread reads the device.
fn by_device(device: Arc<OwnedFd>, shared: Shared<'_>, serving: &Serving) -> io::Result<()> {
    let channels = channels(device, serving)?;
    let seats = Seats::default();
    std::thread::scope(|scope| {
        let (mut threads, seats) = (Vec::new(), &seats);
        for (number, channel) in channels.into_iter().enumerate() {
            match named(serving, number).spawn_scoped(scope, move || serve(channel, seats, shared)) {
                Ok(thread) => threads.push(thread),
                // The others serve as well, only fewer at a time.
                Err(error) if !threads.is_empty() => {
                    shared.handler.complain(&format_args!("a serving thread: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(joined(threads)?)
    })
}

/// A thread for each place, and one for what comes over the device nevertheless.
fn by_rings(device: &Arc<OwnedFd>, rings: Rings, shared: Shared<'_>, serving: &Serving) -> io::Result<()> {
    let Shared { handler, features, request_bytes, closings, awake } = shared;
    let reserve = Reserve::new(rings.queues, rings.places_per_queue);
    let (muster, seats) = (Arc::new(Muster::new(rings.lanes.len())), Seats::default());
    let service = uring::Service { device, handler, closings, features, reserve: &reserve, awake };
    std::thread::scope(|scope| {
        let crew = Crew { scope, service, request_bytes, serving };
        let mut threads = Vec::new();
        for (number, lane) in (1..).zip(rings.lanes) {
            match crew.employ(number, lane, &muster) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    handler.complain(&format_args!("a serving thread: {error}"));
                    muster.report(false);
                }
            }
        }
        if muster.wait() {
            match named(serving, 0).spawn_scoped(scope, || serve(Arc::clone(device), &seats, shared)) {
                Ok(thread) => threads.push(thread),
                // Only what nobody waits for stays in the kernel.
                Err(error) => handler.complain(&format_args!("the thread of the device: {error}")),
            }
        }
        Ok(joined(threads)?)
    })
}

/// Who serves the rings of a connection, and gets more hands where all have to wait.
#[derive(Clone, Copy)]
struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    service: uring::Service<'env>,
    request_bytes: usize,
    serving: &'env Serving,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// One of those that begin together.
    fn employ(
        self,
        number: usize,
        lane: Lane,
        muster: &Arc<Muster>,
    ) -> io::Result<ScopedJoinHandle<'scope, Result<(), Errno>>> {
        let muster = Arc::clone(muster);
        let enlist = move |is_ready| {
            muster.report(is_ready);
            muster.wait()
        };
        let work = move || uring::serve(lane, self.service, None, &enlist, &|at, file| self.hire(at, file));
        named(self.serving, number).spawn_scoped(self.scope, work)
    }

    /// Begins to give this processor's queue one place more, for a lock of this file.
    fn hire(self, processor: u16, file: u64) {
        let came = move |is_there| {
            self.service.reserve.came(processor, is_there);
            is_there
        };
        let missing = move |error: &io::Error| {
            self.service.handler.complain(&format_args!("one more serving thread: {error}"));
            came(false);
        };
        let work = move || match Lane::prepare(processor, self.request_bytes) {
            // How it ends matters to nobody: the queue has others.
            Ok(lane) => {
                _ = uring::serve(lane, self.service, Some(file), &came, &|at, file| self.hire(at, file))
            }
            Err(error) => missing(&error),
        };
        if let Err(error) = named(self.serving, usize::from(processor)).spawn_scoped(self.scope, work) {
            missing(&error);
        }
    }
}

fn named(serving: &Serving, number: usize) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("{}-{number}", serving.name))
}

/// The first error; a thread does not panic, since requests are caught.
fn joined(threads: Vec<ScopedJoinHandle<'_, Result<(), Errno>>>) -> Result<(), Errno> {
    let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::IO)));
    ended.fold(Ok(()), Result::and)
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

fn serve(channel: Arc<OwnedFd>, seats: &Seats, shared: Shared<'_>) -> Result<(), Errno> {
    seats.take();
    let Shared { handler, features, request_bytes, closings, awake } = shared;
    let post = closings.enter();
    let mut buffer = Buffer::new(request_bytes);
    let answers = Arc::new(Device::new(Arc::clone(&channel), request_bytes));
    let dispatch = Dispatch { handler, features, answers, awake };
    loop {
        match rustix::io::read(&channel, buffer.for_request()) {
            Ok(length) => {
                // First: who waits for a close takes a thread that sleeps for one that fetched nothing.
                post.begin(glance::operation(buffer.split(length).0) == Some(opcode::RELEASE));
                seats.leave();
                one(&dispatch, &mut buffer, length);
                post.end();
                seats.take();
            }
            // A signal; nothing there after all; or a request that its caller gave up while it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(Errno::NODEV | Errno::CONNABORTED) => {
                seats.end();
                return Ok(());
            }
            Err(error) => {
                seats.end();
                handler.complain(&format_args!("a serving thread ends, reading the FUSE device: {error}"));
                return Err(error);
            }
        }
    }
}

/// A panic has answered EIO when it gets here (the reply was dropped on its way); the buffer holds plain bytes.
fn one(dispatch: &Dispatch<'_>, buffer: &mut Buffer, length: usize) {
    let (message, room) = buffer.split(length);
    let decoded = decode(message, dispatch.features);
    if catch_unwind(AssertUnwindSafe(|| dispatch.serve(decoded, room))).is_err() {
        dispatch.panicked(message);
    }
}
