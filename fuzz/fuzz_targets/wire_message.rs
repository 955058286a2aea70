//! Any bytes as any message: decoding ends, and what it accepts is written again as the same bytes.
//!
//! The first two bytes are the kind, the rest is the body. `cargo +nightly fuzz run wire_message`

#![no_main]

use forebay_wire::message::{CallbackRequest, DataRequest, Entry, Handshake, Header, MetadataCall, Reply};
use libfuzzer_sys::fuzz_target;

macro_rules! check {
    ($message:ty, $kind:expr, $body:expr) => {
        if let Ok(message) = <$message>::decode($kind, $body) {
            let mut again = Vec::new();
            message.encode(&mut again);
            assert_eq!(again, $body);
        }
    };
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = bytes.try_into().map_err(drop).and_then(|bytes| Header::decode(bytes).map_err(drop)) {
        assert_eq!(header.encode(), bytes);
    }
    let Some((kind, body)) = bytes.split_first_chunk() else { return };
    let kind = u16::from_le_bytes(*kind);
    check!(Handshake, kind, body);
    check!(MetadataCall, kind, body);
    check!(DataRequest, kind, body);
    check!(CallbackRequest, kind, body);
    check!(Reply, kind, body);
    if let Ok(entries) = Entry::all(body) {
        let mut again = Vec::new();
        assert!(entries.iter().all(|entry| entry.add_to(&mut again, usize::MAX)));
        assert_eq!(again, body);
    }
});
