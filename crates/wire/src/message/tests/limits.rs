//! Each limit: what reaches it is taken, one more is refused by name.

use super::super::codec::{Field, Item, Reader, put_string};
use super::super::values::{Credentials, Group, Piece, SessionId};
use super::super::{
    AttributeName, AttributeValue, BODY_MAX, BULK_MAX, Changed, Claim, Closed, DecodeError, Forgotten,
    GROUPS_MAX, HEADER_BYTES, Header, MetadataCall, MetadataRequest, NAME_MAX, Name, Once, PATH_MAX,
    SLOTS_MAX, SPANS_MAX, TEXT_MAX, Target,
};
use super::sample::{Sample, Source};
use crate::attr::{Ino, Timestamp};
use crate::lock::LockRange;
use forebay_model::layout::Layout;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn read<T: Field>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut from = Reader::new(bytes);
    let value = T::take(&mut from)?;
    from.end().map(|()| value)
}

/// `most` bytes are taken, one more is too long.
fn string_limit<T: Field>(most: usize) {
    let mut bytes = Vec::new();
    put_string(&vec![b'a'; most], &mut bytes);
    assert!(read::<T>(&bytes).is_ok());
    bytes.clear();
    put_string(&vec![b'a'; most + 1], &mut bytes);
    let refused = read::<T>(&bytes).err();
    let expected = |error: &DecodeError| matches!(error, DecodeError::TooLong { length, .. } if *length == most as u64 + 1);
    assert!(refused.as_ref().is_some_and(expected), "{refused:?}");
}

/// A list of `MOST` is taken, one more is too long, also when nothing of it is there.
fn list_limit<T: Item + Sample>() {
    let mut from = Source::new(3);
    let list: Vec<T> = (0..T::MOST).map(|_| T::sample(&mut from)).collect();
    let mut bytes = Vec::new();
    list.put(&mut bytes);
    assert!(bytes.len() < BODY_MAX / 4 * 3, "the longest list leaves room for the rest of a message");
    assert_eq!(read::<Vec<T>>(&bytes).map(|list| list.len()), Ok(T::MOST));
    let announced = (T::MOST as u32 + 1).to_le_bytes();
    let refused = read::<Vec<T>>(&announced).err();
    let (what, length, most) = (T::LIST, T::MOST as u64 + 1, T::MOST as u64);
    assert_eq!(refused, Some(DecodeError::TooLong { what, length, most }));
}

#[test]
fn strings_have_limits() {
    string_limit::<Name>(NAME_MAX);
    string_limit::<Target>(PATH_MAX);
    string_limit::<AttributeName>(255);
    string_limit::<AttributeValue>(64 << 10);
    string_limit::<String>(TEXT_MAX);
}

#[test]
fn lists_have_limits() {
    list_limit::<Group>();
    list_limit::<Piece>();
    list_limit::<Forgotten>();
    list_limit::<Closed>();
    list_limit::<Claim>();
    list_limit::<Changed>();
    list_limit::<crate::data::Listed>();
    list_limit::<u32>();
    list_limit::<Ino>();
    assert_eq!((Group::MOST, Piece::MOST), (GROUPS_MAX, SPANS_MAX));
}

#[test]
fn the_largest_request_fits_into_a_body() {
    let groups = (0..GROUPS_MAX as u32).map(Group).collect();
    let who = Credentials { uid: 1, gid: 1, pid: 1, groups };
    let name = AttributeName::new(&[b'n'; 255]).unwrap();
    let value = AttributeValue::new(&[1; 64 << 10]).unwrap();
    let request =
        MetadataRequest::SetXattr { who, ino: Ino(1), name, value, mode: crate::flags::XattrMode::Any };
    let mut body = Vec::new();
    MetadataCall { once: Some(Once { slot: 0, sequence: 1 }), request }.encode(&mut body);
    assert!(body.len() <= BODY_MAX, "{}", body.len());
}

#[test]
fn a_header_announces_no_more_than_the_limits() {
    let header = |body: usize, bulk: usize| {
        let (body, bulk) = (body as u32, bulk as u32);
        Header { flags: Default::default(), kind: 1, body, bulk, request: 0 }.encode()
    };
    let decode = |bytes: [u8; HEADER_BYTES]| Header::decode(&bytes).err();
    assert_eq!(decode(header(BODY_MAX, BULK_MAX)), None);
    assert!(matches!(decode(header(BODY_MAX + 1, 0)), Some(DecodeError::TooLong { what: "a body", .. })));
    assert!(matches!(decode(header(0, BULK_MAX + 1)), Some(DecodeError::TooLong { .. })));
}

#[test]
fn names_are_names() {
    for bad in [&b""[..], b"a/b", b"/", b"a\0"] {
        assert_eq!(Name::new(OsStr::from_bytes(bad)), None);
        let mut bytes = Vec::new();
        put_string(bad, &mut bytes);
        assert_eq!(read::<Name>(&bytes), Err(DecodeError::Impossible { what: "a name" }));
    }
    let mut bytes = Vec::new();
    put_string(b"a\0", &mut bytes);
    assert!(read::<Target>(&bytes).is_err() && read::<AttributeValue>(&bytes).is_ok());
    bytes.clear();
    put_string(&[0xff], &mut bytes);
    assert_eq!(read::<String>(&bytes), Err(DecodeError::Impossible { what: "a text" }));
}

#[test]
fn values_that_cannot_be_are_refused() {
    let mut bytes = Vec::new();
    0i64.put(&mut bytes);
    1_000_000_000u32.put(&mut bytes);
    assert_eq!(read::<Timestamp>(&bytes), Err(DecodeError::Impossible { what: "a time" }));
    bytes.clear();
    4095u64.put(&mut bytes);
    [1u32, 0, 1, 1].iter().for_each(|number| number.put(&mut bytes));
    assert_eq!(read::<Layout>(&bytes), Err(DecodeError::Impossible { what: "a layout" }));
    bytes.clear();
    [2u64, 1].iter().for_each(|number| number.put(&mut bytes));
    assert_eq!(read::<LockRange>(&bytes), Err(DecodeError::Impossible { what: "a range to lock" }));
    assert_eq!(read::<bool>(&[2]), Err(DecodeError::UnknownTag { what: "truth", tag: 2 }));
    assert_eq!(read::<SessionId>(&[0; 15]), Err(DecodeError::Short { needed: 16, left: 15 }));
}

#[test]
fn a_slot_is_one_of_those_there_are() {
    let call = |slot: u16| {
        let mut body = Vec::new();
        Once { slot, sequence: 1 }.put(&mut body);
        MetadataRequest::Forget { items: Vec::new() }.encode(&mut body);
        MetadataCall::decode(0x0102, &body)
    };
    assert!(call(SLOTS_MAX - 1).is_ok());
    assert_eq!(call(SLOTS_MAX), Err(DecodeError::Impossible { what: "a slot" }));
}

#[test]
fn a_text_that_is_too_long_is_cut_at_a_character() {
    let mut bytes = Vec::new();
    "é".repeat(TEXT_MAX).put(&mut bytes);
    assert_eq!(read::<String>(&bytes).map(|text| text.len()), Ok(TEXT_MAX));
    bytes.clear();
    format!("a{}", "é".repeat(TEXT_MAX)).put(&mut bytes);
    assert_eq!(read::<String>(&bytes).map(|text| text.len()), Ok(TEXT_MAX - 1));
}
