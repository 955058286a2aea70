//! What a client may show without asking, until it is told.

use super::instance::{Served, volume};
use super::support::*;
use forebay_client::remote::Notices;
use forebay_wire::*;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Notices for Heard {
    fn attributes_changed(&self, ino: Ino) {
        self.0.lock().unwrap().push(format!("attributes {}", ino.0));
    }

    fn content_changed(&self, ino: Ino) {
        self.0.lock().unwrap().push(format!("content {}", ino.0));
    }

    fn name_changed(&self, parent: Ino, name: &OsStr) {
        self.0.lock().unwrap().push(format!("name {} {}", parent.0, name.display()));
    }
}

#[test]
fn who_may_show_something_is_told_before_others_change_it() {
    let served = Served::new(Shape::inline());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let heard = Arc::new(Heard::default());
    there.set_notices(heard.clone());
    let made = a.mknod(me(), Ino::ROOT, OsStr::new("file"), 0o100_644, 0).unwrap();
    // Just changed by somebody else nothing may be kept; that it may be after a while has to come.
    let begun = std::time::Instant::now();
    while b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap().valid_ms == 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "nothing may ever be kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let change = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    a.setattr(me(), made.ino, None, &change).unwrap();
    let told = std::mem::take(&mut *heard.0.lock().unwrap());
    assert!(told.contains(&format!("attributes {}", made.ino.0)), "{told:?}");
    let seen = b.getattr(made.ino, None).unwrap();
    assert_eq!((seen.mode, seen.valid_ms), (0o600, 0), "just changed");
}

#[test]
fn names_that_others_make_in_a_new_directory_are_found() {
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let name = OsStr::new("name");
    let mut granted = 0;
    for round in 0.. {
        let at = format!("directory {round}");
        let directory = a.mkdir(me(), Ino::ROOT, OsStr::new(&at), 0o755).unwrap();
        granted += u32::from(directory.valid_ms > 0);
        assert_eq!(a.lookup(me(), directory.ino, name), Err(FsError::NotFound));
        let seen = b.lookup(me(), Ino::ROOT, OsStr::new(&at)).unwrap();
        let made = match round % 3 {
            0 => b.mknod(me(), seen.ino, name, 0o100_644, 0).unwrap(),
            1 => a.mknod(me(), seen.ino, name, 0o100_644, 0).unwrap(),
            _ => {
                let (attr, _) = create(&a, Ino::ROOT, "elsewhere");
                a.rename(me(), Ino::ROOT, OsStr::new("elsewhere"), seen.ino, name, RenameMode::Replace)
                    .unwrap();
                attr
            }
        };
        assert_eq!(a.lookup(me(), directory.ino, name).map(|found| found.ino), Ok(made.ino), "round {round}");
        assert_eq!(b.lookup(me(), directory.ino, name).map(|found| found.ino), Ok(made.ino), "round {round}");
        if round >= 30 && granted > 5 {
            break;
        }
        assert!(round < 1000, "directories are hardly ever granted");
    }
}

#[test]
fn names_that_others_make_in_a_directory_that_was_listed_are_found() {
    /// More than are looked for in vain before the directory is listed.
    const MISSES: u32 = 12;
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let directory = a.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap().ino;
    assert_eq!(b.lookup(me(), Ino::ROOT, OsStr::new("directory")).unwrap().ino, directory);
    // The grant that it was made with ends: nothing is known of it any more.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for round in 0..6 {
        for miss in 0..MISSES {
            let at = format!("not there {miss}");
            assert_eq!(a.lookup(me(), directory, OsStr::new(&at)), Err(FsError::NotFound));
        }
        let (own, at) = (format!("own {round}"), format!("of another {round}"));
        let (own, at) = (OsStr::new(&own), OsStr::new(&at));
        let made = a.mknod(me(), directory, own, 0o100_644, 0).unwrap();
        assert_eq!(a.lookup(me(), directory, own).map(|found| found.ino), Ok(made.ino));
        a.unlink(me(), directory, own).unwrap();
        assert_eq!(a.lookup(me(), directory, own), Err(FsError::NotFound));
        let made = match round {
            0..3 => a.mknod(me(), directory, at, 0o100_644, 0).unwrap(),
            _ => b.mknod(me(), directory, at, 0o100_644, 0).unwrap(),
        };
        assert_eq!(a.lookup(me(), directory, at).map(|found| found.ino), Ok(made.ino), "round {round}");
    }
}

#[test]
fn what_is_looked_up_before_it_is_asked_for_is_shown_as_it_is_then() {
    const FILES: usize = 60;
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let directory = a.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap().ino;
    let name = |number: usize| format!("file {number:03}");
    let make = |number: usize| {
        let (attr, opened) = create(&a, directory, &name(number));
        a.release(opened.handle).unwrap();
        attr.ino
    };
    let files: Vec<Ino> = (0..FILES).map(make).collect();
    b.lookup(me(), Ino::ROOT, OsStr::new("directory")).unwrap();
    let look = |number: usize| a.lookup(me(), directory, OsStr::new(&name(number)));
    let chmod = |volume: &forebay_client::Volume, number: usize, mode| {
        let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
        volume.setattr(me(), files[number], None, &change).unwrap();
    };
    // So far that the names up to the end are asked for.
    assert!((0..40).all(|number| look(number).is_ok()));
    chmod(&a, 45, 0o601);
    assert_eq!(look(45).unwrap().mode, 0o601, "changed here");
    b.lookup(me(), directory, OsStr::new(&name(46))).unwrap();
    chmod(&b, 46, 0o602);
    assert_eq!(look(46).unwrap().mode, 0o602, "changed by another");
    let opened = a.open(me(), files[47], OpenFlags::READ_WRITE).unwrap();
    assert_eq!(a.write(opened.handle, 0, b"written", false).unwrap(), 7);
    assert_eq!(look(47).unwrap().size, 7, "open for writing");
    let opened_too = a.open(me(), files[48], OpenFlags::READ_WRITE).unwrap();
    a.write(opened_too.handle, 0, b"written too", false).unwrap();
    a.release(opened_too.handle).unwrap();
    assert_eq!(look(48).unwrap().size, 11, "written and closed");
    a.unlink(me(), directory, OsStr::new(&name(49))).unwrap();
    assert_eq!(look(49), Err(FsError::NotFound), "removed");
    a.rename(me(), directory, OsStr::new(&name(50)), directory, OsStr::new(&name(51)), RenameMode::Replace)
        .unwrap();
    assert_eq!(look(50), Err(FsError::NotFound), "moved away");
    assert_eq!(look(51).unwrap().ino, files[50], "moved there");
    b.unlink(me(), directory, OsStr::new(&name(52))).unwrap();
    assert_eq!(look(52), Err(FsError::NotFound), "removed by another");
    a.release(opened.handle).unwrap();
}

/// A kernel that is making a name in a directory cannot forget another one there meanwhile: two that make their first names at the same
/// time would both wait for the end of what they were granted.
#[test]
fn who_shows_no_name_of_a_directory_is_not_told_of_its_names() {
    let served = Served::new(Shape::striped());
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let heard = Arc::new(Heard::default());
    here.set_notices(heard.clone());
    let directory = a.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap().ino;
    b.lookup(me(), Ino::ROOT, OsStr::new("directory")).unwrap();
    for round in 0..3 {
        let (own, other) = (format!("own {round}"), format!("other {round}"));
        assert_eq!(a.lookup(me(), directory, OsStr::new(&own)), Err(FsError::NotFound));
        b.mknod(me(), directory, OsStr::new(&other), 0o100_644, 0).unwrap();
        assert!(a.lookup(me(), directory, OsStr::new(&other)).is_ok());
    }
    let told = std::mem::take(&mut *heard.0.lock().unwrap());
    assert!(told.contains(&format!("attributes {}", directory.0)), "{told:?}");
    assert!(!told.iter().any(|told| told.starts_with("name")), "{told:?}");
}
