//! A client: a process that attaches the namespace and works in it with two threads until it has done enough.

use super::kept::{Keeper, Memory};
use super::own::{Expected, Worker, directory_of, me};
use super::site::Map;
use super::together::{Partner, Shared, Shown};
use crate::machine::{self, Process, Seen};
use forebay_client::Volume;
use forebay_client::remote::attach;
use forebay_wire::{FsError, Ino};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

/// What a client says when it has done all.
pub const DONE: &str = "done";

/// Who comes adds to what others have locked.
const FIRST_ADDITIONS: u64 = 3;
/// Each client comes so much later than the one before, at most, in nanoseconds.
const LATER_NS_MAX: u64 = 400_000_000;

/// What a client is to do.
#[derive(Clone)]
pub struct Task {
    pub number: usize,
    pub map: Map,
    /// Operations of each thread.
    pub steps: u64,
    pub work: Work,
}

/// What its threads work on.
#[derive(Clone)]
pub enum Work {
    /// One in a directory of the client's own, one with the others.
    Together { expected: Expected, shared: Arc<Shared> },
    /// Each in a directory of its own, which is there.
    Alone { memories: [Memory; 2] },
}

/// Starts a client.
pub fn start(task: Task) -> Process {
    machine::start(&format!("client{}", task.number), move || {
        let process = machine::own_process();
        work(&task);
        machine::tell(Seen::Said(process, DONE.to_owned()));
    })
}

/// A volume over what was attached.
pub fn volume(attached: &forebay_client::remote::Attached) -> Volume {
    Volume::new(attached.metadata.clone(), attached.data.clone()).with_locks(attached.locks.clone())
}

/// The directory of a client's own, made if need be.
pub fn own_directory(volume: &Volume, number: usize) -> Ino {
    let name = directory_of(number);
    match volume.mkdir(me(), Ino::ROOT, OsStr::new(&name), 0o755) {
        Ok(attr) => attr.ino,
        Err(FsError::Exists) => volume.lookup(me(), Ino::ROOT, OsStr::new(&name)).expect("it is there").ino,
        Err(error) => panic!("the directory of client {number}: {error}"),
    }
}

fn work(task: &Task) {
    // So that some are alone for a while, first or last.
    std::thread::sleep(Duration::from_nanos(machine::below(1 + task.number as u64 * LATER_NS_MAX)));
    let attached = attach(&task.map.description()).expect("attached");
    let shown = Arc::<Shown>::default();
    attached.set_notices(shown.clone());
    let volume = volume(&attached);
    match &task.work {
        Work::Together { expected, shared } => together(task, &volume, shown, expected, shared),
        Work::Alone { memories } => std::thread::scope(|scope| {
            for (number, memory) in (2 * task.number..).zip(memories) {
                let volume = &volume;
                scope.spawn(move || {
                    let directory = own_directory(volume, number);
                    let mut keeper = Keeper::new(volume, directory, memory.clone(), task.map.servers());
                    (0..task.steps).for_each(|_| keeper.step());
                    keeper.close();
                    volume.forget(directory, 1);
                });
            }
        }),
    }
    drop(volume);
    attached.close();
}

fn together(task: &Task, volume: &Volume, shown: Arc<Shown>, expected: &Expected, shared: &Arc<Shared>) {
    let directory = own_directory(volume, task.number);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut partner = Partner::new(task.number, volume, shared.clone(), shown);
            (0..FIRST_ADDITIONS).for_each(|_| partner.add());
            (0..task.steps).for_each(|_| partner.step());
        });
        let mut worker = Worker::new(volume, directory, expected.clone());
        (0..task.steps).for_each(|_| worker.step());
        worker.close();
    });
    volume.forget(directory, 1);
}

/// The names of a directory are on the disk afterwards.
pub fn sync_directory(volume: &Volume, directory: Ino) {
    let handle = volume.opendir(me(), directory).expect("opened");
    volume.fsyncdir(handle, false).expect("synced");
    volume.releasedir(handle).expect("closed");
}
