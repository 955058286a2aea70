//! Connections that break at any byte: every change is made exactly once.

use super::instance::{Served, volume};
use super::lockstep::lockstep;
use super::support::*;
use forebay_model::layout::LayoutChoice;
use forebay_wire::*;
use std::ffi::OsStr;
use std::time::Duration;

#[test]
fn operations_are_as_local_ones_whatever_breaks() {
    let mut served = Served::new(Shape::striped());
    served.proxies.iter().for_each(|proxy| proxy.break_after(60_000));
    lockstep(&mut served, 2, 600, |_, _, _| {});
    let broken: u64 = served.proxies.iter().map(|proxy| proxy.broken()).sum();
    assert!(broken > 50, "only {broken} connections broke");
    served.proxies.iter().for_each(|proxy| proxy.break_after(0));
}

#[test]
fn changes_are_made_once_while_connections_break() {
    const ROUNDS: u64 = 150;
    let served = Served::new(Shape::inline());
    served.proxies[0].break_after(2500);
    let attached = served.attach();
    let volume = volume(&attached);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (name, moved) = (format!("{thread}-{round}"), format!("{thread}-{round}-moved"));
                    // Each would fail if an earlier sending of it had been carried out already.
                    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
                    let made = volume.create(me(), Ino::ROOT, OsStr::new(&name), 0o644, flags);
                    let (attr, opened) = made.unwrap_or_else(|error| panic!("create {name}: {error}"));
                    let (at, done) = volume.append(opened.handle, b"once", false).unwrap();
                    assert_eq!((at, done), (0, 4), "{name}");
                    volume
                        .rename(
                            me(),
                            Ino::ROOT,
                            OsStr::new(&name),
                            Ino::ROOT,
                            OsStr::new(&moved),
                            RenameMode::NoReplace,
                        )
                        .unwrap_or_else(|error| panic!("rename {name}: {error}"));
                    assert_eq!(volume.getattr(attr.ino, None).unwrap().size, 4, "{name}");
                    volume.release(opened.handle).unwrap();
                    if round % 2 == 0 {
                        volume
                            .unlink(me(), Ino::ROOT, OsStr::new(&moved))
                            .unwrap_or_else(|error| panic!("unlink {moved}: {error}"));
                    }
                    volume.forget(attr.ino, 1);
                }
            });
        }
    });
    assert!(served.proxies[0].broken() > 20, "{} connections broke", served.proxies[0].broken());
    served.proxies[0].break_after(0);
    let handle = volume.opendir(me(), Ino::ROOT).unwrap();
    let mut names = 0;
    volume
        .readdir(handle, 0, &mut |_| {
            names += 1;
            true
        })
        .unwrap();
    volume.releasedir(handle).unwrap();
    assert_eq!(names, 2 + 4 * ROUNDS / 2);
    assert_eq!(volume.counters().files_created, 4 * ROUNDS);
    let status = attached.status().unwrap();
    assert_eq!((status.sessions, status.open_files), (1, 0));
}

#[test]
fn a_server_that_is_away_is_waited_for_and_closing_does_not_wait() {
    let served = Served::new(Shape::striped());
    let attached = served.attach();
    let volume = volume(&attached);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, &pattern(1, 40_000));
    let upstream = served.proxies[0].away();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_all(&volume, opened.handle));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!reading.is_finished(), "it does not wait");
        served.proxies[0].lead_to(upstream);
        assert_eq!(reading.join().unwrap(), pattern(1, 40_000));
    });
    served.proxies[0].away();
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| volume.getattr(attr.ino, None));
        attached.close();
        assert_eq!(waiting.join().unwrap(), Err(FsError::Unreachable));
    });
    drop(volume);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    served.proxies[0].lead_to(upstream);
}

/// As a server that has as many connections as it may have, or no descriptors left.
#[test]
fn a_server_that_refuses_further_connections_serves_all_over_those_there_are() {
    const THREADS: usize = 12;
    const ROUNDS: usize = 10;
    let served = Served::new(Shape::striped());
    let mut description = served.description(super::instance::token());
    description.timeouts.unreachable = Duration::from_millis(500);
    let attached = forebay_client::remote::attach(&description).unwrap();
    let volume = volume(&attached);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, &pattern(1, 200_000));
    // The home has connections of its own to the others.
    assert_eq!(volume.getattr(attr.ino, None).map(|attr| attr.size), Ok(200_000));
    served.proxies.iter().for_each(|proxy| proxy.lead_to(None));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert_eq!(volume.getattr(attr.ino, None).map(|attr| attr.size), Ok(200_000));
                    assert_eq!(read_all(&volume, opened.handle), pattern(1, 200_000));
                }
            });
        }
    });
    volume.release(opened.handle).unwrap();
}

#[test]
fn a_server_that_stays_away_fails_what_is_asked_until_it_is_back() {
    let served = Served::new(Shape::inline());
    let mut description = served.description(super::instance::token());
    description.timeouts.unreachable = Duration::from_millis(200);
    let attached = forebay_client::remote::attach(&description).unwrap();
    let volume = volume(&attached);
    let (attr, opened) = create(&volume, Ino::ROOT, "file");
    let upstream = served.proxies[0].away();
    assert_eq!(volume.getattr(attr.ino, None), Err(FsError::Unreachable));
    assert_eq!(volume.getattr(attr.ino, None), Err(FsError::Unreachable));
    served.proxies[0].lead_to(upstream);
    let begun = std::time::Instant::now();
    while volume.getattr(attr.ino, None).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is not found again");
        std::thread::sleep(Duration::from_millis(10));
    }
    write_all(&volume, opened.handle, 0, b"back");
    volume.release(opened.handle).unwrap();
}

#[test]
fn files_that_nobody_wrote_come_and_go_without_their_data_servers() {
    let mut served = Served::new(Shape::striped());
    let attached = served.attach();
    let volume = volume(&attached);
    for position in 1..served.proxies.len() {
        served.stop(position);
    }
    let begun = std::time::Instant::now();
    for name in ["closed before it is removed", "removed before it is closed"] {
        let (attr, opened) = create(&volume, Ino::ROOT, name);
        if name.starts_with("closed") {
            volume.release(opened.handle).unwrap();
            assert_eq!(volume.getattr(attr.ino, None).unwrap().size, 0);
            let again = volume.open(me(), attr.ino, OpenFlags::READ_ONLY).unwrap();
            volume.release(again.handle).unwrap();
        }
        volume.unlink(me(), Ino::ROOT, OsStr::new(name)).unwrap();
        if name.starts_with("removed") {
            volume.release(opened.handle).unwrap();
        }
        volume.forget(attr.ino, 1);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "somebody was asked: {:?}", begun.elapsed());
}

#[test]
fn small_files_go_without_the_data_servers_that_have_nothing_of_them() {
    let layout = LayoutChoice { first_server: Some(1), ..Shape::striped().layout };
    let mut served = Served::new(Shape { layout, ..Shape::striped() });
    let attached = served.attach();
    let volume = volume(&attached);
    let small = ["one", "other"].map(|name| {
        let (attr, opened) = create(&volume, Ino::ROOT, name);
        write_all(&volume, opened.handle, 0, b"ab");
        volume.release(opened.handle).unwrap();
        assert_eq!(volume.getattr(attr.ino, None).unwrap().size, 2);
        (attr, name)
    });
    assert_eq!(substripe_files(&served, 1), 2);
    (2..served.proxies.len()).for_each(|position| served.stop(position));
    let begun = std::time::Instant::now();
    for (attr, name) in small {
        volume.unlink(me(), Ino::ROOT, OsStr::new(name)).unwrap();
        volume.forget(attr.ino, 1);
    }
    // Whoever waits for an absent server with the first does not come to the second.
    while substripe_files(&served, 1) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "content stays: somebody else is waited for");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn substripe_files(served: &Served, position: usize) -> usize {
    let data = served.directory.path().join(format!("fragment{position}/ns/c1/data"));
    let buckets = std::fs::read_dir(data).unwrap();
    buckets.map(|bucket| std::fs::read_dir(bucket.unwrap().path()).unwrap().count()).sum()
}
