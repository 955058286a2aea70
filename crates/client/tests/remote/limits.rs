//! Limits and accounting, held by the servers whatever way a client takes.

use super::instance::{Served, token, volume};
use super::support::*;
use forebay_client::Volume;
use forebay_client::remote::attach;
use forebay_model::limits::{Policies, Policy, WriteWindow};
use forebay_model::units::Bytes;
use forebay_server::local::Limits;
use forebay_wire::*;
use std::ffi::OsStr;

/// Room of each fragment.
const ROOM: u64 = 1 << 20;

fn window(policy: Policy) -> WriteWindow {
    WriteWindow { length_s: 86_400, multiplier: 2, policy }
}

/// Writes over one place until it is refused; how much was written, and why no more.
fn rewrite(volume: &Volume, name: &str) -> (u64, Option<FsError>) {
    let (_, opened) = create(volume, Ino::ROOT, name);
    let (data, mut sum) = (pattern(3, 100_000), 0);
    let mut refused = None;
    // Four fragments of twice their room, and more.
    while sum < 12 * ROOM {
        match volume.write(opened.handle, 0, &data, false) {
            Ok(0) => break,
            Ok(written) => sum += written as u64,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    volume.release(opened.handle).unwrap();
    (sum, refused)
}

#[test]
fn a_write_window_is_held_by_the_servers_also_when_they_start_anew() {
    // Of hard size: there descriptors are given to write with, unless writes have to be counted.
    for shape in [Shape::striped().metered(ROOM), Shape::inline().metered(ROOM)] {
        let fragments = shape.fragments as u64;
        let mut served = Served::limited(shape, window(Policy::Error));
        let (near, far) = (attach(&served.local_description(true)).unwrap(), served.attach());
        let (sum, refused) = rewrite(&volume(&near), "near");
        assert_eq!(refused, Some(FsError::WriteWindow));
        assert!(sum <= 2 * ROOM * fragments, "{sum}");
        let full = |status: &forebay_wire::message::Status| {
            status
                .fragments
                .iter()
                .filter_map(|one| one.traffic.window)
                .any(|w| w.written + 25_000 * 4 > w.limit)
        };
        let status = far.status().unwrap();
        let counted: u64 =
            status.fragments.iter().filter_map(|one| one.traffic.window).map(|w| w.written).sum();
        assert_eq!(counted, sum);
        assert!(
            full(&status) && status.fragments.iter().all(|one| one.traffic.window.unwrap().limit == 2 * ROOM)
        );
        (0..fragments as usize).for_each(|position| served.restart(position));
        let (more, refused) = rewrite(&volume(&far), "far");
        assert_eq!(refused, Some(FsError::WriteWindow));
        assert!(sum + more <= 2 * ROOM * fragments, "{sum} {more}: a restart is no way out");
        assert!(full(&far.status().unwrap()));
    }
}

#[test]
fn nobody_writes_past_a_server_that_counts() {
    // A whole file system of its own cannot be had here; the limit follows from its size.
    let served = Served::limited(Shape::striped(), WriteWindow { multiplier: 1, ..window(Policy::Error) });
    let near = attach(&served.local_description(true)).unwrap();
    let volume = volume(&near);
    let (_, opened) = create(&volume, Ino::ROOT, "file");
    write_all(&volume, opened.handle, 0, &pattern(1, 90_000));
    write_all(&volume, opened.handle, 0, &pattern(2, 90_000));
    let status = near.status().unwrap();
    let counted = |of: fn(&FragmentAccount) -> u64| status.fragments.iter().map(of).sum::<u64>();
    assert_eq!(counted(|one| one.traffic.window.unwrap().written), 180_000);
    assert_eq!(counted(|one| one.traffic.bytes_written), 180_000);
    volume.release(opened.handle).unwrap();
}

#[test]
fn a_limit_that_is_only_logged_refuses_nothing() {
    let policies = Policies { file_size: Policy::Log, file_count: Policy::Log };
    let limits = Limits { max_file_size: Some(Bytes(1000)), max_files: Some(1), policies };
    let served = Served::limited(Shape { limits, ..Shape::striped().metered(ROOM) }, window(Policy::Log));
    let attached = served.attach();
    let volume = volume(&attached);
    assert_eq!(rewrite(&volume, "a").1, None);
    assert_eq!(rewrite(&volume, "b").1, None);
    let status = attached.status().unwrap();
    assert_eq!((status.max_file_size, status.max_files, status.files_created), (Some(1000), Some(1), 2));
    assert_eq!((status.file_size_policy, status.file_count_policy), (Policy::Log, Policy::Log));
    let is_over =
        |window: WindowAccount| window.written > window.limit && window.high_water >= window.written;
    assert!(status.fragments.iter().filter_map(|one| one.traffic.window).any(is_over));
}

#[test]
fn both_refuses() {
    let policies = Policies { file_size: Policy::Both, file_count: Policy::Both };
    let limits = Limits { max_file_size: Some(Bytes(1000)), max_files: Some(1), policies };
    let served = Served::new(Shape { limits, ..Shape::striped() });
    let attached = served.attach();
    let volume = volume(&attached);
    let (_, opened) = create(&volume, Ino::ROOT, "a");
    assert_eq!(volume.write(opened.handle, 900, &[1; 200], false), Ok(100));
    assert_eq!(volume.write(opened.handle, 1000, &[1], false), Err(FsError::FileTooLarge));
    volume.release(opened.handle).unwrap();
    let second = volume.create(me(), Ino::ROOT, OsStr::new("b"), 0o644, OpenFlags::READ_WRITE);
    assert_eq!(second.err(), Some(FsError::TooManyFiles));
}

#[test]
fn what_clients_moved_is_summed_and_kept() {
    let mut served = Served::new(Shape::striped());
    let (one, two) = (served.attach(), attach(&served.description(token())).unwrap());
    let (a, b) = (volume(&one), volume(&two));
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    write_all(&a, opened.handle, 0, &pattern(1, 90_000));
    let other =
        b.open(me(), b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap().ino, OpenFlags::READ_ONLY);
    let other = other.unwrap();
    assert_eq!(b.read(other.handle, 10_000, &mut [0; 5000]), Ok(5000));
    for _ in 0..2 {
        // A report takes the place of the one before.
        a.report().unwrap();
        b.report().unwrap();
    }
    // What stages says what it moved, and goes.
    for staged in [(70, 0), (0, 800)] {
        let (stage_bytes_read, stage_bytes_written) = staged;
        let stager = attach(&served.description(token())).unwrap();
        stager.metadata.report(Moved { stage_bytes_read, stage_bytes_written, ..Moved::default() }).unwrap();
        stager.close();
    }
    let expected = Moved {
        bytes_read: 5000,
        bytes_written: 90_000,
        max_offset_read: 15_000,
        max_offset_written: 90_000,
        stage_bytes_read: 70,
        stage_bytes_written: 800,
    };
    assert_eq!(one.status().unwrap().moved, expected);
    a.release(opened.handle).unwrap();
    b.release(other.handle).unwrap();
    // The first one leaves for good; the second comes back after the server was started anew, and tells once more.
    drop(a);
    one.close();
    assert_eq!(two.status().unwrap().moved, expected);
    served.restart(0);
    b.report().unwrap();
    assert_eq!(two.status().unwrap().moved, expected);
    let _ = attr;
    let fragments = two.status().unwrap().fragments;
    let sum = |of: fn(&TrafficAccount) -> u64| fragments.iter().map(|one| of(&one.traffic)).sum::<u64>();
    assert_eq!((sum(|t| t.bytes_written), sum(|t| t.bytes_read)), (90_000, 5000), "also over a restart");
}

/// The report takes the only connection that there is; who leaves a session behind keeps others waiting for what it was granted.
#[test]
fn who_reports_at_the_end_also_says_goodbye() {
    let served = Served::new(Shape::striped());
    let (leaving, staying) = (served.attach(), attach(&served.description(token())).unwrap());
    let volume = volume(&leaving);
    create(&volume, Ino::ROOT, "file");
    assert_eq!(staying.status().unwrap().sessions, 2);
    leaving.report_at_the_end(volume.moved());
    leaving.close();
    assert_eq!(staying.status().unwrap().sessions, 1);
}
