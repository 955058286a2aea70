//! Locks between clients.

use crate::client::Connection;
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{
    FsError, HeldLock, Ino, LockFamily, LockKind, LockOwner, LockRange, LockRequest, LockScope, WaitId,
};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
/// A file that every client may name: locks ask for nothing else of it.
const FILE: Ino = Ino::ROOT;

fn request(owner: u64, scope: LockScope, kind: LockKind) -> LockRequest {
    LockRequest { file: FILE, owner: LockOwner(owner), scope, kind, pid: 100 + owner as u32 }
}

fn bytes(start: u64, last: u64) -> LockScope {
    LockScope::Bytes(LockRange::new(start, last).unwrap())
}

fn lock(connection: &mut Connection, request: LockRequest, wait: Option<u64>) -> Reply {
    connection.ask(MetadataRequest::SetLock { request, wait: wait.map(WaitId), reclaim: false })
}

fn failed(error: FsError) -> Reply {
    Reply::Failed { error }
}

#[test]
fn a_lock_keeps_others_away_until_it_is_given_up() {
    let place = Place::new(LONG);
    let (mut holds, mut waits, mut told) = (place.metadata(1), place.metadata(2), place.callback(2));
    assert_eq!(lock(&mut holds, request(1, bytes(0, 99), LockKind::Exclusive), None), Reply::Done);
    let wanted = request(1, bytes(50, 50), LockKind::Shared);
    assert_eq!(lock(&mut waits, wanted, None), failed(FsError::WouldBlock));
    let range = LockRange::new(0, 99).unwrap();
    let held = HeldLock { kind: LockKind::Exclusive, range, pid: 101, same_client: false };
    assert_eq!(waits.ask(MetadataRequest::GetLock { request: wanted }), Reply::Lock { held: Some(held) });
    assert_eq!(lock(&mut waits, wanted, Some(7)), Reply::LockWaits);
    let unlock = MetadataRequest::Unlock { ino: FILE, owner: LockOwner(1), scope: bytes(40, 60) };
    assert_eq!(holds.ask(unlock), Reply::Done);
    let (number, message) = told.hear().unwrap();
    assert_eq!(message, CallbackRequest::LockGranted { wait: WaitId(7) });
    told.say_done(number);
}

#[test]
fn a_client_that_is_gone_leaves_no_lock() {
    let place = Place::new(Duration::from_millis(50));
    let (mut holds, mut waits, mut told) = (place.metadata(1), place.metadata(2), place.callback(2));
    assert_eq!(lock(&mut holds, request(1, LockScope::File, LockKind::Exclusive), None), Reply::Done);
    assert_eq!(lock(&mut waits, request(1, LockScope::File, LockKind::Exclusive), Some(1)), Reply::LockWaits);
    drop(holds);
    assert_eq!(told.hear().unwrap().1, CallbackRequest::LockGranted { wait: WaitId(1) });
}

#[test]
fn a_circle_between_clients_is_refused() {
    let place = Place::new(LONG);
    let (mut one, mut other) = (place.metadata(1), place.metadata(2));
    lock(&mut one, request(1, bytes(0, 0), LockKind::Exclusive), None);
    lock(&mut other, request(1, bytes(1, 1), LockKind::Exclusive), None);
    assert_eq!(lock(&mut one, request(1, bytes(1, 1), LockKind::Exclusive), Some(1)), Reply::LockWaits);
    let refused = lock(&mut other, request(1, bytes(0, 0), LockKind::Exclusive), Some(1));
    assert_eq!(refused, failed(FsError::Deadlock));
}

#[test]
fn a_request_can_be_called_back_and_an_owner_can_close() {
    let place = Place::new(LONG);
    let (mut holds, mut waits) = (place.metadata(1), place.metadata(2));
    lock(&mut holds, request(1, bytes(0, 0), LockKind::Exclusive), None);
    let wanted = request(1, bytes(0, 0), LockKind::Exclusive);
    assert_eq!(lock(&mut waits, wanted, Some(3)), Reply::LockWaits);
    let cancel = MetadataRequest::CancelLock { wait: WaitId(3) };
    assert_eq!(waits.ask(cancel.clone()), Reply::Flag { value: true });
    assert_eq!(waits.ask(cancel), Reply::Flag { value: false });
    let closed = MetadataRequest::ReleaseLocks { ino: FILE, owner: LockOwner(1), family: LockFamily::Bytes };
    assert_eq!(holds.ask(closed), Reply::Done);
    assert_eq!(lock(&mut waits, wanted, None), Reply::Done);
    // Numbers with the highest bit are the server's own.
    assert_eq!(lock(&mut holds, wanted, Some(u64::MAX)), failed(FsError::InvalidArgument));
}
