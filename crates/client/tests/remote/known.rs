//! What a client knows of a file that others leave alone is not asked for, and is asked for again when they do not.

use super::instance::{Served, volume};
use super::support::*;
use forebay_client::{Handle, Volume};
use forebay_model::layout::LayoutChoice;
use forebay_wire::*;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 20;
/// Less than a question to the home and its answer take.
const BYTES_OF_A_QUESTION: u64 = 50;

/// Four servers; files begin on another one than the home, whose proxy carries nothing of their content.
fn served() -> Served {
    let layout = LayoutChoice { first_server: Some(1), ..Shape::striped().layout };
    Served::new(Shape { layout, ..Shape::striped() })
}

/// Bytes that pass between a client and the home, and between the home and the first server of the content: of a round.
fn bytes(served: &Served, round: impl Fn(u64)) -> (u64, u64) {
    let carried = || [0, 1].map(|position: usize| served.proxies[position].carried());
    let before = carried();
    (0..ROUNDS).for_each(&round);
    let after = carried();
    ((after[0] - before[0]) / ROUNDS, (after[1] - before[1]) / ROUNDS)
}

fn nothing_at(volume: &Volume, handle: Handle, offset: u64) {
    assert_eq!(volume.read(handle, offset, &mut [0; 100]), Ok(0));
}

/// Waits until a client that is new, or that others disturbed, is given a word on an object.
fn await_word(volume: &Volume, ino: Ino) {
    let begun = Instant::now();
    while volume.getattr(ino, None).unwrap().valid_ms == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing may ever be kept");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_end_of_what_one_writes_is_not_asked_for() {
    let served = served();
    let attached = served.attach();
    let volume = volume(&attached);
    await_word(&volume, Ino::ROOT);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, b"data");
    let (home, content) = bytes(&served, |_| nothing_at(&volume, opened.handle, 4));
    assert!(home < BYTES_OF_A_QUESTION && content < BYTES_OF_A_QUESTION, "{home} and {content} bytes");
    let mut read = [0; 100];
    assert_eq!(volume.read(opened.handle, 1, &mut read), Ok(3));
    assert_eq!(&read[..3], b"ata");
    for (length, left) in [(50, 49), (2, 1), (60, 59)] {
        let change = SetAttr { size: Some(length), ..SetAttr::default() };
        volume.setattr(me(), attr.ino, None, &change).unwrap();
        assert_eq!(volume.read(opened.handle, 1, &mut read), Ok(left));
    }
    volume.release(opened.handle).unwrap();
}

#[test]
fn what_others_append_is_read() {
    let served = served();
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    for round in 0..30 {
        let name = format!("file {round}");
        let (_, opened) = create(&a, Ino::ROOT, &name);
        write_all(&a, opened.handle, 0, b"own");
        nothing_at(&a, opened.handle, 3);
        let seen = b.lookup(me(), Ino::ROOT, OsStr::new(&name)).unwrap();
        match round % 3 {
            0 => {
                let other = b.open(me(), seen.ino, OpenFlags::READ_WRITE).unwrap();
                b.append(other.handle, b"more", false).unwrap();
                b.release(other.handle).unwrap();
            }
            1 => {
                let grown = SetAttr { size: Some(7), ..SetAttr::default() };
                b.setattr(me(), seen.ino, None, &grown).unwrap();
            }
            _ => {
                let other = a.open(me(), seen.ino, OpenFlags::READ_WRITE).unwrap();
                write_all(&a, other.handle, 3, b"more");
                a.release(other.handle).unwrap();
            }
        }
        assert_eq!(a.read(opened.handle, 3, &mut [0; 100]), Ok(4), "round {round}");
        a.release(opened.handle).unwrap();
    }
}

#[test]
fn a_home_that_has_nothing_to_sync_is_not_asked_to() {
    let served = served();
    let attached = served.attach();
    let volume = volume(&attached);
    await_word(&volume, Ino::ROOT);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    let sync = |round: u64| {
        write_all(&volume, opened.handle, 0, &round.to_le_bytes());
        volume.fsync(opened.handle, true).unwrap();
    };
    sync(0);
    let (home, content) = bytes(&served, sync);
    assert!(home < BYTES_OF_A_QUESTION && content > BYTES_OF_A_QUESTION, "{home} and {content} bytes");
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let changes: [(&str, &dyn Fn()); 4] = [
        ("mode", &|| {
            volume.setattr(me(), attr.ino, None, &mode).unwrap();
        }),
        ("attribute", &|| {
            volume.setxattr(me(), attr.ino, OsStr::new("user.a"), b"v", XattrMode::Any).unwrap();
        }),
        ("name", &|| {
            volume.link(me(), attr.ino, Ino::ROOT, OsStr::new("other")).unwrap();
        }),
        ("no name", &|| volume.unlink(me(), Ino::ROOT, OsStr::new("other")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        let before = served.proxies[0].carried();
        sync(1);
        let asked = served.proxies[0].carried() - before;
        assert!(asked >= BYTES_OF_A_QUESTION, "{what}: {asked} bytes");
        let (home, _) = bytes(&served, sync);
        assert!(home < BYTES_OF_A_QUESTION, "{what}: {home} bytes");
    }
    volume.release(opened.handle).unwrap();
}

#[test]
fn what_others_change_is_synced() {
    let served = served();
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    assert_eq!(b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap().ino, attr.ino);
    let sync = || {
        write_all(&a, opened.handle, 0, b"data");
        a.fsync(opened.handle, true).unwrap();
    };
    await_word(&a, attr.ino);
    sync();
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    b.setattr(me(), attr.ino, None, &mode).unwrap();
    let before = served.proxies[0].carried();
    sync();
    let asked = served.proxies[0].carried() - before;
    assert!(asked >= BYTES_OF_A_QUESTION, "{asked} bytes");
    a.release(opened.handle).unwrap();
}

#[test]
fn who_writes_syncs_and_looks_sees_what_was_written() {
    let served = served();
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    await_word(&a, Ino::ROOT);
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    let size = || a.getattr(attr.ino, None).unwrap().size;
    await_word(&a, attr.ino);
    for round in 1..ROUNDS {
        write_all(&a, opened.handle, round * 10, b"data");
        a.fsync(opened.handle, true).unwrap();
        assert_eq!(size(), round * 10 + 4);
        if round % 5 == 0 {
            write_all(&a, opened.handle, 1000 + round, b"x");
            assert_eq!(size(), 1001 + round);
            let cut = SetAttr { size: Some(round * 10), ..SetAttr::default() };
            a.setattr(me(), attr.ino, Some(opened.handle), &cut).unwrap();
            assert_eq!(size(), round * 10);
        }
    }
    let (home, _) = bytes(&served, |_| assert!(size() > 0));
    assert!(home < BYTES_OF_A_QUESTION, "{home} bytes for a look");
    let other =
        b.open(me(), b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap().ino, OpenFlags::READ_WRITE);
    let other = other.unwrap();
    write_all(&b, other.handle, 5000, b"x");
    assert_eq!(size(), 5001);
    a.release(opened.handle).unwrap();
    b.release(other.handle).unwrap();
}
