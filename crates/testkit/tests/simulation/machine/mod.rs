//! A machine in this process on which everything happens in an order that a seed decides.
//!
//! The product's code runs unchanged. Its threads are real threads, of which one runs at a time: whoever waits for a mutex,
//! a condition, a socket, the clock or a thread gives the processor away here ([`schedule`]), and whoever asks for something
//! that others may see can be interrupted there. That works because Rust's library reaches the system through the C library,
//! and the symbols of the C library that matter are defined in this program: [`waits`] (futexes), [`threads`], [`clock`],
//! [`sockets`], [`files`], [`chance`]. The linker takes ours. What the product asks the kernel itself is handed to us by
//! the kernel: [`dispatch`]. In a thread that is not part of a simulation all of it does what it always does.
//!
//! * The clock stands still while anybody can run, but for the little that each step takes, and jumps to the next moment
//!   somebody waits for when nobody can. A minute of grace costs nothing.
//! * The network is memory: [`network`].
//! * Files are real files. Each call that changes one is a place where the process that makes it can be killed, or its machine
//!   lose its power, and the disk what was not synced: [`disk`]; or where there is no space: [`space`].
//! * Threads belong to processes. A process that is killed never runs again: its threads stay where they are, its
//!   connections end, and its descriptors below its directories are closed, as the kernel would do it.
//!
//! What is not simulated: reordering by processors, and interrupting a thread between two such places.
//!
//! One simulation a process; what is killed is left as it is until the process ends.

mod broken;
mod chance;
mod clock;
mod disk;
mod dispatch;
mod faults;
mod files;
mod network;
mod real;
mod schedule;
mod sockets;
mod space;
mod threads;
mod trace;
mod waits;

pub use disk::add as add_disk;
pub use faults::{Fault, Faults};
pub use schedule::{Process, Seen};

use schedule::{Key, Schedule};
use std::time::Duration;

/// What a run was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Events, and a hash of all of them in order.
    pub events: u64,
    /// See `events`.
    pub hash: u64,
    /// Simulated time that passed.
    pub nanoseconds: u64,
    /// How often each kind of fault happened, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
}

/// Runs a simulation: `first` is the first thread of process 0. Returns when it has ended, whatever the others do.
/// A panic of any thread ends the program.
pub fn run(seed: u64, first: impl FnOnce() + Send + 'static) -> Summary {
    dispatch::prepare();
    std::panic::set_hook(Box::new(schedule::panicked));
    schedule::begin(Schedule::new(seed));
    let ended = std::thread::Builder::new().name("scene".to_owned()).spawn(first).expect("a thread").join();
    ended.expect("a panic ends the program");
    schedule::end()
}

/// Starts a process.
pub fn start(name: &str, main: impl FnOnce() + Send + 'static) -> Process {
    let process = schedule::with(|schedule| schedule.add_process(name));
    let before = schedule::with(|schedule| schedule.become_process(process));
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(main);
    schedule::with(|schedule| schedule.become_process(before));
    drop(started.expect("a thread"));
    process
}

/// Kills a process as `kill -9` does. `below`: its directory.
pub fn kill(process: Process, below: &std::path::Path) {
    kill_client(process);
    files::close_below(below);
}

/// The power of a process's machine goes. `disk`: its disk.
pub fn crash(process: Process, disk: &std::path::Path) {
    schedule::with(|schedule| {
        schedule.happened(Fault::Crashed);
        schedule.crash(process);
    });
    lose_power(disk);
}

/// What a process had open is closed, and its disk has what it has without power.
pub fn lose_power(disk: &std::path::Path) {
    files::close_below(disk);
    disk::crash(disk);
}

/// How often processes were killed so far.
pub fn kills() -> u64 {
    schedule::with(|schedule| schedule.kills)
}

/// How often the power of a machine went so far.
pub fn crashes() -> u64 {
    schedule::with(|schedule| schedule.crashes)
}

/// The disk of a process may be full now and then.
pub fn may_be_full(process: Process) {
    schedule::with(|schedule| schedule.full.insert(process, 0));
}

/// The disk of a process fails after so many calls, at so many.
pub fn fail_disk(process: Process, after: u64, count: u64) {
    schedule::with(|schedule| schedule.failing.insert(process, (after, count)));
}

/// Kills a process that has no files.
pub fn kill_client(process: Process) {
    schedule::with(|schedule| {
        schedule.happened(Fault::Killed);
        schedule.kill(process);
    });
    schedule::pass();
}

/// Closes what a process that is gone had open at and below its directory.
pub fn bury(below: &std::path::Path) {
    files::close_below(below);
}

/// The process of this thread.
pub fn own_process() -> Process {
    schedule::with(|schedule| schedule.process())
}

/// Faults may happen to a process.
pub fn set_mortal(process: Process) {
    schedule::with(|schedule| schedule.mortal.push(process));
}

/// Ends of connections that somebody has.
pub fn open_connections() -> usize {
    schedule::with(|schedule| schedule.network.open_ends())
}

/// Files at and below a directory that are open.
pub fn descriptors_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    files::open_below(directory).into_iter().map(|(_, path)| path).collect()
}

/// Waits until something was seen, or for so long.
pub fn wait_for_seen(within: Duration) -> Option<Seen> {
    let until = schedule::now() + within.as_nanos() as u64;
    loop {
        if let Some(seen) = schedule::with(|schedule| schedule.seen.pop_front()) {
            return Some(seen);
        }
        if schedule::now() >= until {
            return None;
        }
        schedule::wait(Key::Seen, Some(until));
    }
}

/// Something happened that the scene waits for.
pub fn tell(what: Seen) {
    schedule::with(|schedule| schedule.tell(what));
}

/// Which faults may happen from now on.
pub fn set_faults(faults: Faults) {
    schedule::with(|schedule| schedule.faults = faults);
}

/// Nanoseconds since the begin, simulated.
pub fn now() -> u64 {
    schedule::now()
}

/// Adds a line to the trace.
pub fn note(text: impl FnOnce() -> String) {
    schedule::with(|schedule| schedule.note(text));
}

/// A number below a limit, from the seed.
pub fn below(limit: u64) -> u64 {
    schedule::with(|schedule| schedule.dice.below(limit))
}
