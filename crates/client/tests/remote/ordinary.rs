//! What one does with a file system, by two clients at once.

use super::instance::{Served, volume};
use super::support::*;
use forebay_wire::*;
use std::collections::BTreeSet;
use std::ffi::OsStr;

#[test]
fn what_one_writes_the_other_reads() {
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let data = pattern(1, 100_000);
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    write_all(&a, opened.handle, 5, &data);
    let seen = b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    assert_eq!((seen.ino, seen.size), (attr.ino, 100_005));
    let other = b.open(me(), seen.ino, OpenFlags::READ_WRITE).unwrap();
    let read = read_all(&b, other.handle);
    assert_eq!(read[5..], data);
    let (offset, done) = b.append(other.handle, b"more", false).unwrap();
    assert_eq!((offset, done), (100_005, 4));
    assert_eq!(read_all(&a, opened.handle).len(), 100_009);
    a.fsync(opened.handle, false).unwrap();
    a.release(opened.handle).unwrap();
    b.release(other.handle).unwrap();
    assert_eq!(a.getattr(attr.ino, None).unwrap().size, 100_009);
    assert_eq!(b.counters().files_created, 1);
    assert!(a.statfs().unwrap().blocks > 0);
}

#[test]
fn a_large_directory_comes_whole_and_with_attributes() {
    const FILES: usize = 3000;
    let served = Served::new(Shape::inline());
    let attached = served.attach();
    let volume = volume(&attached);
    for index in 0..FILES {
        let made = volume.mknod(me(), Ino::ROOT, OsStr::new(&format!("{index:04}")), 0o100_644, 0).unwrap();
        volume.forget(made.ino, 1);
    }
    let handle = volume.opendir(me(), Ino::ROOT).unwrap();
    // As the kernel asks: a few hundred at a time, going on from a cookie.
    let mut names = BTreeSet::new();
    let (mut cookie, mut with_attributes) = (0, 0);
    loop {
        let mut taken = 0;
        volume
            .readdir_with_attributes(handle, cookie, &mut |entry, attr| {
                if taken == 321 {
                    return false;
                }
                taken += 1;
                cookie = entry.next_cookie;
                if let Some(attr) = attr {
                    assert_eq!((attr.ino, attr.kind), (entry.ino, entry.kind));
                    with_attributes += 1;
                    volume.forget(attr.ino, 1);
                }
                assert!(names.insert(entry.name.to_owned()), "{:?} twice", entry.name);
                true
            })
            .unwrap();
        if taken == 0 {
            break;
        }
    }
    volume.releasedir(handle).unwrap();
    assert_eq!((names.len(), with_attributes), (FILES + 2, FILES));
}

#[test]
fn names_that_are_none_are_refused_as_locally() {
    let served = Served::new(Shape::inline());
    let attached = served.attach();
    let volume = volume(&attached);
    let lookup = |name: &str| volume.lookup(me(), Ino::ROOT, OsStr::new(name)).map(|attr| attr.ino);
    assert_eq!(lookup(&"n".repeat(256)), Err(FsError::NameTooLong));
    assert_eq!(lookup(&"n".repeat(255)), Err(FsError::NotFound));
    assert_eq!(lookup("a/b"), Err(FsError::InvalidArgument));
    let long = "t".repeat(4096);
    let linked = volume.symlink(me(), Ino::ROOT, OsStr::new("l"), std::path::Path::new(&long));
    assert_eq!(linked, Err(FsError::NameTooLong));
    let big = vec![0; (64 << 10) + 1];
    let set = volume.setxattr(me(), Ino::ROOT, OsStr::new("user.a"), &big, XattrMode::Any);
    assert_eq!(set, Err(FsError::AttributeTooBig));
}

#[test]
fn several_threads_share_an_attachment() {
    let served = Served::new(Shape::striped());
    let attached = served.attach();
    let volume = volume(&attached);
    std::thread::scope(|scope| {
        for thread in 0..24 {
            let volume = &volume;
            scope.spawn(move || {
                let name = format!("file{thread}");
                let data = pattern(thread, 50_000);
                let (attr, opened) = create(volume, Ino::ROOT, &name);
                write_all(volume, opened.handle, 0, &data);
                assert_eq!(read_all(volume, opened.handle), data);
                volume.release(opened.handle).unwrap();
                volume.unlink(me(), Ino::ROOT, OsStr::new(&name)).unwrap();
                volume.forget(attr.ino, 1);
            });
        }
    });
    assert_eq!(volume.counters().files_created, 24);
}

#[test]
fn over_the_unix_socket_it_is_the_same() {
    let served = Served::new(Shape::striped());
    let mut description = served.local_description(false);
    // Over TCP there would be nobody.
    description.servers.iter_mut().for_each(|address| address.tcp = "nowhere".into());
    let attached = forebay_client::remote::attach(&description).unwrap();
    let volume = volume(&attached);
    let data = pattern(3, 70_000);
    let (_, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, &data);
    assert_eq!(read_all(&volume, opened.handle), data);
    volume.release(opened.handle).unwrap();
}

#[test]
fn space_that_is_not_there_is_not_allocated_and_nothing_of_others_is_cut() {
    let served = Served::new(Shape::striped().metered(1 << 20));
    let attached = served.attach();
    let volume = volume(&attached);
    let (_, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, b"here");
    let allocated = volume.fallocate(opened.handle, 0, 64 << 20, FallocateMode::ALLOCATE);
    assert_eq!(allocated, Err(FsError::NoSpace));
    let mut read = [0; 4];
    assert_eq!(volume.read(opened.handle, 0, &mut read), Ok(4));
    assert_eq!(&read, b"here");
    volume.fallocate(opened.handle, 0, 100_000, FallocateMode::ALLOCATE).unwrap();
    volume.release(opened.handle).unwrap();
}

#[test]
fn moving_an_open_file_onto_another_name_of_it_leaves_both() {
    let served = Served::new(Shape::inline());
    let attached = served.attach();
    let volume = volume(&attached);
    let (attr, opened) = create(&volume, Ino::ROOT, "a");
    let rename = |to: &str| {
        volume.rename(me(), Ino::ROOT, OsStr::new("a"), Ino::ROOT, OsStr::new(to), RenameMode::Replace)
    };
    rename("a").unwrap();
    assert_eq!(volume.getattr(attr.ino, None).unwrap().nlink, 1);
    volume.link(me(), attr.ino, Ino::ROOT, OsStr::new("b")).unwrap();
    rename("b").unwrap();
    assert_eq!(volume.getattr(attr.ino, None).unwrap().nlink, 2);
    volume.release(opened.handle).unwrap();
}

/// Somebody whom permissions bind.
const USER: Caller = Caller { uid: 20_007, gid: 20_007, pid: 1 };

fn sync_directory(volume: &forebay_client::Volume, by: Caller, ino: Ino) -> Result<()> {
    let handle = volume.opendir(by, ino)?;
    volume.fsyncdir(handle, true)?;
    volume.releasedir(handle)
}

#[test]
fn to_sync_a_directory_again_takes_one_question() {
    const ROUNDS: u64 = 30;
    // Frames of a question and its answer, and not of three.
    const BYTES_OF_A_ROUND: u64 = 100;
    let served = Served::new(Shape::inline());
    let attached = served.attach();
    let volume = volume(&attached);
    sync_directory(&volume, me(), Ino::ROOT).unwrap();
    let before = served.proxies[0].carried();
    (0..ROUNDS).for_each(|_| sync_directory(&volume, me(), Ino::ROOT).unwrap());
    let carried = served.proxies[0].carried() - before;
    assert!(carried < ROUNDS * BYTES_OF_A_ROUND, "{carried} bytes for {ROUNDS} rounds");
    // One that is listed is closed.
    let handle = volume.opendir(me(), Ino::ROOT).unwrap();
    volume.readdir(handle, 0, &mut |_| true).unwrap();
    volume.releasedir(handle).unwrap();
    sync_directory(&volume, me(), Ino::ROOT).unwrap();
}

#[test]
fn who_may_not_open_a_directory_any_more_is_not_given_one_that_was_open() {
    let served = Served::new(Shape::inline());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let directory = a.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap().ino;
    assert_eq!(b.lookup(me(), Ino::ROOT, OsStr::new("directory")).unwrap().ino, directory);
    for (round, changer) in [&a, &a, &b].into_iter().enumerate() {
        let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
        changer.setattr(me(), directory, None, &mode(0o755)).unwrap();
        // Until the one who opens it is told of changes.
        let begun = std::time::Instant::now();
        while a.getattr(directory, None).unwrap().valid_ms == 0 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "nothing may ever be kept");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        sync_directory(&a, USER, directory).unwrap();
        changer.setattr(me(), directory, None, &mode(0o700)).unwrap();
        assert_eq!(sync_directory(&a, USER, directory), Err(FsError::AccessDenied), "round {round}");
        assert_eq!(sync_directory(&a, me(), directory), Ok(()));
    }
}

/// A kernel looks a link up and asks for its target a moment later: the name may have been given to another link in between.
#[test]
fn a_link_that_was_looked_up_can_be_read_when_it_was_replaced_or_removed() {
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let link = |name: &str, target: &str| {
        b.symlink(me(), Ino::ROOT, OsStr::new(name), std::path::Path::new(target)).unwrap();
        a.lookup(me(), Ino::ROOT, OsStr::new(name)).unwrap().ino
    };
    let (replaced, removed) = (link("current", "run1"), link("last", "run0"));
    b.symlink(me(), Ino::ROOT, OsStr::new("next"), std::path::Path::new("run2")).unwrap();
    let (next, current) = (OsStr::new("next"), OsStr::new("current"));
    b.rename(me(), Ino::ROOT, next, Ino::ROOT, current, RenameMode::Replace).unwrap();
    b.unlink(me(), Ino::ROOT, OsStr::new("last")).unwrap();
    assert_eq!(a.readlink(replaced).as_deref(), Ok(&b"run1"[..]));
    assert_eq!(a.readlink(removed).as_deref(), Ok(&b"run0"[..]));
    a.forget(replaced, 1);
    a.forget(removed, 1);
}
