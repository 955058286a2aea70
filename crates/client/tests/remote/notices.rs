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
