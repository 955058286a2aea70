//! A client: a process that attaches the namespace and works in it with two threads until it has done enough.

use super::own::{Expected, Worker, directory_of, me};
use super::site::Map;
use super::together::{Partner, Shared, Shown};
use crate::machine::{self, Process, Seen};
use forebay_client::Volume;
use forebay_client::remote::attach;
use forebay_wire::{FsError, Ino};
use std::ffi::OsStr;
use std::sync::Arc;

/// What a client says when it has done all.
pub const DONE: &str = "done";

/// What a client is to do.
#[derive(Clone)]
pub struct Task {
    pub number: usize,
    pub map: Map,
    /// Operations of each thread.
    pub steps: u64,
    pub expected: Expected,
    pub shared: Arc<Shared>,
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
    let attached = attach(&task.map.description()).expect("attached");
    let shown = Arc::<Shown>::default();
    attached.set_notices(shown.clone());
    let volume = volume(&attached);
    let directory = own_directory(&volume, task.number);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut partner = Partner::new(task.number, &volume, task.shared.clone(), shown);
            (0..task.steps).for_each(|_| partner.step());
        });
        let mut worker = Worker::new(&volume, directory, task.expected.clone());
        (0..task.steps).for_each(|_| worker.step());
        worker.close();
    });
    volume.forget(directory, 1);
    drop(volume);
    attached.close();
}
