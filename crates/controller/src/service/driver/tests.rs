//! Order of the driver's deeds, with a registry that a test can hold up.

use super::super::store::{Rows, StoreError};
use super::*;
use crate::cluster::row::Row;
use crate::cluster::{Settings, SpaceByHand};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::sync_channel;

/// Rows that are stored when the gate is opened, and fail when it is gone.
struct Gated {
    gate: Receiver<()>,
    entered: Sender<usize>,
}

impl Rows for Gated {
    fn load(&mut self) -> Result<Vec<Row>, StoreError> {
        Ok(Vec::new())
    }

    fn store(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let _ = self.entered.send(changes.len());
        self.gate.recv().map_err(|_| StoreError::InUse { path: "/gone".into() })
    }
}

struct Test {
    commands: Commands,
    gate: Option<Sender<()>>,
    entered: Receiver<usize>,
    thread: std::thread::JoinHandle<Result<(), ServiceError>>,
}

fn start() -> Test {
    let settings = Settings {
        registry: "test".into(),
        operators: BTreeSet::new(),
        workload_managers: BTreeSet::new(),
        mount_root: "/mnt".into(),
        pools: Vec::new(),
        policies: Default::default(),
        space_by_hand: SpaceByHand::Unlimited,
        lost_after_s: 60,
        storage_wait_s: 200,
    };
    let (gate, opened) = channel();
    let (entered, seen) = channel();
    let (events, commands, receiver) = channels();
    let rows = Box::new(Gated { gate: opened, entered });
    let driver = Driver::new(State::new(settings).unwrap(), rows, events);
    let thread = std::thread::spawn(move || driver.run(receiver));
    Test { commands, gate: Some(gate), entered: seen, thread }
}

impl Test {
    /// A request that stores something.
    fn make_session(&self, number: u64) -> oneshot::Receiver<Result<Answer, Refusal>> {
        let (reply, answer) = oneshot::channel();
        let (token, hosts) = (format!("s{number}"), Vec::new());
        let request = Request::CreateSession { token, owner: 0, group: 0, hosts, creator: None };
        let (id, caller) = (RequestId(number), Caller { uid: 0 });
        self.commands.send(Command::Ask { id, caller, request, reply }).unwrap();
        answer
    }

    fn open(&self) {
        self.gate.as_ref().unwrap().send(()).unwrap();
    }
}

#[test]
fn nothing_is_answered_before_it_is_stored_and_what_waited_is_stored_together() {
    let test = start();
    let mut first = test.make_session(1);
    test.entered.recv().unwrap();
    let mut others: Vec<_> = (2..=20).map(|number| test.make_session(number)).collect();
    assert!(first.try_recv().is_err());
    test.open();
    assert!(first.blocking_recv().unwrap().is_ok());
    test.entered.recv().unwrap();
    assert!(others.iter_mut().all(|answer| answer.try_recv().is_err()));
    test.open();
    // One transaction for all of them: the gate was opened twice.
    assert!(others.into_iter().all(|answer| answer.blocking_recv().unwrap().is_ok()));
    test.commands.stop();
    test.thread.join().unwrap().unwrap();
}

#[test]
fn what_cannot_be_stored_is_not_answered_and_nothing_after_it() {
    let mut test = start();
    let first = test.make_session(1);
    test.entered.recv().unwrap();
    let second = test.make_session(2);
    test.gate.take();
    assert!(matches!(test.thread.join().unwrap(), Err(ServiceError::Store(_))));
    assert!(first.blocking_recv().is_err() && second.blocking_recv().is_err());
    assert!(test.commands.send(Command::Stop).is_err());
}

#[test]
fn who_reads_a_lot_does_not_hold_up_what_is_decided() {
    const LOOKS: usize = 10;
    let test = start();
    let done = Arc::new(AtomicUsize::new(0));
    let (going, first_look) = sync_channel(1);
    for _ in 0..LOOKS {
        let (done, going) = (Arc::clone(&done), going.clone());
        let reading = Box::new(move |_: &State, _: &Figures| {
            let _ = going.try_send(());
            // Longer than all looks together may take before the next group.
            std::thread::sleep(READING_TIME * 2);
            done.fetch_add(1, Ordering::Relaxed);
        });
        test.commands.send(Command::Read { first: false, reading }).unwrap();
    }
    first_look.recv().unwrap();
    let urgent = {
        let (reply, answer) = oneshot::channel();
        let done = Arc::clone(&done);
        let reading = Box::new(move |_: &State, _: &Figures| {
            let _ = reply.send(done.load(Ordering::Relaxed));
        });
        test.commands.send(Command::Read { first: true, reading }).unwrap();
        answer
    };
    let answer = test.make_session(1);
    test.open();
    assert!(answer.blocking_recv().unwrap().is_ok());
    assert!(done.load(Ordering::Relaxed) < LOOKS, "all looks were before it");
    assert!(urgent.blocking_recv().unwrap() < LOOKS);
    test.commands.stop();
    test.thread.join().unwrap().unwrap();
}
