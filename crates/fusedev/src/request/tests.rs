use super::*;
use crate::abi::opcode;
use crate::attr::Time;
use crate::flags::WriteFlags;
use proptest::prelude::*;

/// Writes messages as the kernel does.
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new(opcode: u32, node: u64) -> Message {
        let mut message = Message(Vec::new());
        message.u32(0).u32(opcode).u64(77).u64(node).u32(1000).u32(100).u32(4242).u32(0);
        message
    }

    fn u32(&mut self, number: u32) -> &mut Message {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Message {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Message {
        self.0.extend(bytes);
        self
    }

    fn done(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }
}

fn decoded(message: &Message) -> Operation<'static> {
    let bytes: &'static [u8] = Vec::leak(message.done());
    let request = decode(bytes, Features::empty()).unwrap();
    assert_eq!(request.context, Context { unique: 77, node: 9, uid: 1000, gid: 100, pid: 4242 });
    request.operation
}

#[test]
fn a_write_borrows_its_data() {
    let mut message = Message::new(opcode::WRITE, 9);
    message.u64(3).u64(1 << 40).u32(5).u32(0b110).u64(8).u32(libc::O_SYNC as u32).u32(0).raw(b"hello");
    let bytes = message.done();
    let request = decode(&bytes, Features::empty()).unwrap();
    let Operation::Write(write) = request.operation else { panic!("{request:?}") };
    assert_eq!((write.handle, write.offset, write.data), (3, 1 << 40, &b"hello"[..]));
    assert_eq!(write.how, WriteFlags::LOCK_OWNER | WriteFlags::KILL_SUID_SGID);
    assert_eq!((write.lock_owner, write.flags), (Some(8), libc::O_SYNC));
    assert_eq!(write.data.as_ptr() as usize - bytes.as_ptr() as usize, 80);
}

#[test]
fn times_before_the_epoch_and_beyond_any_clock_are_read_as_they_are() {
    for (secs, nanos) in [(-2, 800_000_000), (i64::MIN, 0), (i64::MAX, 999_999_999)] {
        let mut message = Message::new(opcode::SETATTR, 9);
        message.u32(1 << 5 | 1 << 7).u32(0).u64(0).u64(0).u64(0); // mtime, atime now
        message.u64(0).u64(secs as u64).u64(0).u32(0).u32(nanos).u32(0).u32(0).u32(0).u32(0).u32(0).u32(0);
        let Operation::Setattr(change) = decoded(&message) else { panic!() };
        let mtime = Some(NewTime::At(Time { secs, nanos }));
        assert_eq!(change, Setattr { mtime, atime: Some(NewTime::Now), ..Setattr::default() });
    }
}

#[test]
fn locks_of_both_kinds_are_told_apart() {
    for (number, waits) in [(opcode::SETLK, false), (opcode::SETLKW, true)] {
        for flock in [false, true] {
            let mut message = Message::new(number, 9);
            message.u64(3).u64(0xabc).u64(10).u64(i64::MAX as u64).u32(libc::F_WRLCK as u32).u32(55);
            message.u32(flock.into()).u32(0);
            let range = LockRange { start: 10, end: i64::MAX as u64, kind: LockKind::Exclusive, pid: 55 };
            assert_eq!(
                decoded(&message),
                Operation::Setlk(Lock { handle: 3, owner: 0xabc, range, flock, waits })
            );
        }
    }
}

#[test]
fn names_come_one_after_another() {
    let mut message = Message::new(opcode::RENAME2, 9);
    message.u64(4).u32(2).u32(0).raw(b"old\0new name\0");
    let expected = Rename { name: "old".as_ref(), new_parent: 4, new_name: "new name".as_ref(), flags: 2 };
    assert_eq!(decoded(&message), Operation::Rename(expected));
    let mut message = Message::new(opcode::SYMLINK, 9);
    message.raw(b"link\0to/there\0");
    assert_eq!(decoded(&message), Operation::Symlink { name: "link".as_ref(), target: "to/there".as_ref() });
}

#[test]
fn forgets_come_as_many_as_they_say() {
    let mut message = Message::new(opcode::BATCH_FORGET, 9);
    message.u32(2).u32(0).u64(5).u64(1).u64(6).u64(7);
    let Operation::BatchForget(forgets) = decoded(&message) else { panic!() };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(5, 1), (6, 7)]);
    let mut message = Message::new(opcode::BATCH_FORGET, 9);
    message.u32(u32::MAX).u32(0).u64(5).u64(1);
    assert_eq!(
        decode(&message.done(), Features::empty()),
        Err(DecodeError::Body { unique: 77, opcode: opcode::BATCH_FORGET })
    );
}

#[test]
fn setxattr_has_two_forms() {
    let value = Operation::Setxattr(Setxattr { name: "user.a".as_ref(), value: b"xyz", flags: 1 });
    let mut short = Message::new(opcode::SETXATTR, 9);
    short.u32(3).u32(1).raw(b"user.a\0xyz");
    assert_eq!(decoded(&short), value);
    let mut long = Message::new(opcode::SETXATTR, 9);
    long.u32(3).u32(1).u64(0).raw(b"user.a\0xyz");
    assert_eq!(decode(&long.done(), Features::SETXATTR_EXT).unwrap().operation, value);
}

#[test]
fn extensions_at_the_end_are_no_part_of_the_body() {
    let mut message = Message::new(opcode::LOOKUP, 9);
    message.raw(b"name\0\0\0\0").u64(1);
    let mut bytes = message.done();
    bytes[36..38].copy_from_slice(&1u16.to_ne_bytes());
    assert_eq!(
        decode(&bytes, Features::empty()).unwrap().operation,
        Operation::Lookup { name: "name".as_ref() }
    );
    bytes[36..38].copy_from_slice(&3u16.to_ne_bytes()); // longer than the body
    assert!(matches!(decode(&bytes, Features::empty()), Err(DecodeError::Body { unique: 77, .. })));
}

#[test]
fn a_length_that_is_not_so_is_refused() {
    let mut bytes = Message::new(opcode::STATFS, 9).done();
    assert!(decode(&bytes, Features::empty()).is_ok());
    bytes.push(0);
    let expected = DecodeError::Length { unique: 77, opcode: opcode::STATFS, said: 40, length: 41 };
    assert_eq!(decode(&bytes, Features::empty()), Err(expected));
    assert_eq!(decode(&bytes[..39], Features::empty()), Err(DecodeError::NoHeader { length: 39 }));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), features in any::<u64>()) {
        let _ = decode(&bytes, Features::from_bits_retain(features));
    }

    /// With a valid header, so that every operation's body sees arbitrary bytes.
    #[test]
    fn arbitrary_bodies_never_panic_and_borrow_only_the_message(
        number in 0u32..60,
        extension_words in 0u16..4,
        body in prop::collection::vec(any::<u8>(), 0..300),
        features in any::<u64>(),
    ) {
        let mut message = Message::new(number, 9);
        let mut bytes = message.raw(&body).done();
        bytes[36..38].copy_from_slice(&extension_words.to_ne_bytes());
        match decode(&bytes, Features::from_bits_retain(features)) {
            Ok(Request { operation: Operation::Write(write), .. }) => prop_assert!(write.data.len() <= body.len()),
            Ok(Request { operation: Operation::BatchForget(list), .. }) => prop_assert!(list.iter().count() * 16 <= body.len()),
            Ok(_) => {}
            Err(error) => prop_assert_eq!(error.unique(), Some(77)),
        }
    }

    /// Cutting a message anywhere, with its length put right, gives an error or an operation, never a panic.
    #[test]
    fn messages_cut_short_never_panic(number in 1u32..54, cut in 0usize..160) {
        let mut message = Message::new(number, 9);
        message.raw(&[1; 128]).raw(b"a\0b\0");
        let mut bytes = message.done();
        bytes.truncate(cut.max(IN_HEADER_BYTES));
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let _ = decode(&bytes, Features::empty());
    }
}
