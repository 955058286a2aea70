//! Content on the same machine, past the server.

use super::instance::{Served, token, volume};
use super::support::*;
use forebay_client::remote::attach;
use forebay_wire::*;
use std::ffi::OsStr;

#[test]
fn what_is_written_directly_is_seen_by_others_and_reaches_the_disk() {
    let served = Served::new(Shape::striped());
    let near = attach(&served.local_description(true)).unwrap();
    let far = attach(&served.description(token())).unwrap();
    let (a, b) = (volume(&near), volume(&far));
    let data = pattern(1, 90_000);
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    write_all(&a, opened.handle, 0, &data);
    assert_eq!(read_all(&a, opened.handle), data);
    let seen = b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    assert_eq!((seen.ino, seen.size), (attr.ino, 90_000));
    let other = b.open(me(), seen.ino, OpenFlags::READ_WRITE).unwrap();
    assert_eq!(read_all(&b, other.handle), data);
    let cut = SetAttr { size: Some(10), ..SetAttr::default() };
    b.setattr(me(), seen.ino, Some(other.handle), &cut).unwrap();
    assert_eq!(read_all(&a, opened.handle), data[..10]);
    write_all(&a, opened.handle, 50_000, b"again");
    a.fsync(opened.handle, false).unwrap();
    let read = read_all(&b, other.handle);
    assert_eq!((read.len(), &read[..10], &read[50_000..]), (50_005, &data[..10], &b"again"[..]));
    a.release(opened.handle).unwrap();
    b.release(other.handle).unwrap();
}

#[test]
fn what_is_open_needs_no_server_for_its_content() {
    let mut served = Served::new(Shape::striped());
    let near = attach(&served.local_description(true)).unwrap();
    let volume = volume(&near);
    let (_, opened) = create(&volume, Ino::ROOT, "file");
    // Every substripe file of every server.
    write_all(&volume, opened.handle, 0, &pattern(1, 200_000));
    for position in 1..4 {
        served.stop(position);
    }
    write_all(&volume, opened.handle, 1000, &pattern(2, 100_000));
    let mut read = vec![0; 100_000];
    assert_eq!(volume.read(opened.handle, 1000, &mut read).unwrap(), 100_000);
    assert_eq!(read, pattern(2, 100_000));
    (1..4).for_each(|position| served.start(position));
    volume.fsync(opened.handle, false).unwrap();
    volume.release(opened.handle).unwrap();
}

#[test]
fn who_opened_a_file_for_reading_gets_nothing_to_write_with() {
    let served = Served::new(Shape::striped());
    let near = attach(&served.local_description(true)).unwrap();
    let volume = volume(&near);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, b"data");
    volume.release(opened.handle).unwrap();
    let stub = near.metadata.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
    let Placement::Striped { file, layout } = stub.placement() else { panic!("it is striped") };
    let share = near.data[layout.server(0) as usize].share(file, layout.substripes());
    let span = [Span { substripe: 0, offset: 0, at: 0, len: 4 }];
    assert_eq!(share.write(&span, b"evil"), Err(FsError::AccessDenied));
    let mut read = [0; 4];
    share.read(&span, &mut read).unwrap();
    assert_eq!(&read, b"data");
}
