//! Many names, many open files, few descriptors, many threads.

mod support;

use forebay_server::local::raise_descriptor_limit;
use forebay_wire::*;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use support::*;

/// Names in the large directory; `FOREBAY_TEST_NAMES` sets another number, as `make soak` does.
fn many() -> usize {
    let given = std::env::var("FOREBAY_TEST_NAMES").ok();
    given.map_or(100_000, |text| text.parse().expect("FOREBAY_TEST_NAMES is a number"))
}

/// Says what a stretch of work took, for the runs with many more names than usual.
struct Account {
    begun: std::time::Instant,
    processor: (f64, f64),
}

impl Account {
    fn begin() -> Account {
        Account { begun: std::time::Instant::now(), processor: processor_time() }
    }

    fn tell(&mut self, what: &str) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
        let (ours, kernel) = processor_time();
        let (before, kernel_before) = std::mem::replace(&mut self.processor, (ours, kernel));
        println!(
            "{what}: {:.1} s ({:.1} s of the processor in the code, {:.1} s in the kernel), resident {memory}",
            self.begun.elapsed().as_secs_f64(),
            ours - before,
            kernel - kernel_before,
        );
        self.begun = std::time::Instant::now();
    }
}

/// Seconds of this process so far, outside of the kernel and in it.
fn processor_time() -> (f64, f64) {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The fields after the name, which may hold blanks; the first of them is the third of all.
    let mut fields = text.rsplit(") ").next().unwrap().split(' ').skip(11);
    let mut seconds = || fields.next().unwrap().parse::<f64>().unwrap() / TICKS_PER_SECOND;
    (seconds(), seconds())
}

fn list(i: &Instance, handle: forebay_client::Handle, at_a_time: usize) -> Vec<OsString> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let (mut taken, from) = (0, cookie);
        let mut take = |entry: DirEntry<'_>| {
            if taken == at_a_time {
                return false;
            }
            taken += 1;
            names.push(entry.name.to_owned());
            cookie = entry.next_cookie;
            true
        };
        i.volume.readdir(handle, from, &mut take).unwrap();
        if taken == 0 {
            names.retain(|name| name != "." && name != "..");
            return names;
        }
    }
}

#[test]
fn a_directory_with_very_many_names() {
    let many = many();
    let mut account = Account::begin();
    let i = Instance::new(Shape::striped());
    let v = &i.volume;
    let d = v.mkdir(me(), Ino::ROOT, OsStr::new("d"), 0o755).unwrap();
    for n in 0..many {
        let attr = v.mknod(me(), d.ino, OsStr::new(&format!("name{n}")), 0o100_644, 0).unwrap();
        if n % 2 == 0 {
            // The others stay known, as to a kernel with much memory.
            v.forget(attr.ino, 1);
        }
    }
    let handle = v.opendir(me(), d.ino).unwrap();
    account.tell(&format!("made {many} names"));
    let names = list(&i, handle, 57);
    assert_eq!(names.len(), many);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), many);
    drop(names);
    account.tell("listed, 57 at a time");
    // Removed while it is listed, as rm -r does: all names that stay are seen once.
    let mut seen = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let (mut batch, from) = (Vec::new(), cookie);
        let mut take = |entry: DirEntry<'_>| {
            if batch.len() == 1000 {
                return false;
            }
            batch.push(entry.name.to_owned());
            cookie = entry.next_cookie;
            true
        };
        v.readdir(handle, from, &mut take).unwrap();
        if batch.is_empty() {
            break;
        }
        for name in batch.iter().filter(|name| *name != "." && *name != "..") {
            assert!(seen.insert(name.clone()), "{name:?} twice");
            if name.as_bytes().last() != Some(&b'7') {
                v.unlink(me(), d.ino, name).unwrap();
            }
        }
    }
    assert_eq!(seen.len(), many);
    assert_eq!(list(&i, handle, 1000).len(), many / 10);
    v.releasedir(handle).unwrap();
    account.tell("listed and removed nine of ten");
}

#[test]
fn positions_in_a_directory_stay_valid() {
    let i = Instance::new(Shape::inline());
    for n in 0..500 {
        i.write_file(&format!("name{n}"), b"");
    }
    let handle = i.volume.opendir(me(), Ino::ROOT).unwrap();
    let mut positions = Vec::new();
    i.volume
        .readdir(handle, 0, &mut |entry| {
            positions.push((entry.next_cookie, entry.name.to_owned()));
            true
        })
        .unwrap();
    for at in [400, 3, 77, 0, 498, 250] {
        let mut next = None;
        i.volume
            .readdir(handle, positions[at].0, &mut |entry| {
                next = Some(entry.name.to_owned());
                false
            })
            .unwrap();
        assert_eq!(next.as_ref(), Some(&positions[at + 1].1));
    }
}

#[test]
fn ten_thousand_open_files() {
    const FILES: usize = 10_000;
    let limit = raise_descriptor_limit().unwrap();
    assert!(limit >= 20_000, "this test needs a limit of 20,000 open files, it is {limit}");
    // As if the limit were just that: what other tests of this process need comes on top.
    let now = rustix::process::Rlimit { current: Some(20_000.min(limit)), maximum: Some(limit) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, now).unwrap();
    let i = Instance::new(Shape::striped());
    let mut open = Vec::new();
    for n in 0..FILES {
        let (_, opened) = i.create(&format!("f{n}"));
        write_all(&i.volume, opened.handle, 4090, &pattern(n as u64, 100));
        open.push(opened.handle);
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(descriptors < 19_000, "{descriptors}");
    for (n, handle) in open.iter().enumerate().rev() {
        let mut data = [0; 100];
        assert_eq!(i.volume.read(*handle, 4090, &mut data), Ok(100));
        assert_eq!(data[..], pattern(n as u64, 100), "file {n}");
        write_all(&i.volume, *handle, 0, &data);
    }
    for (n, handle) in open.into_iter().enumerate() {
        if n % 500 == 0 {
            i.volume.fsync(handle, true).unwrap();
        }
        i.volume.release(handle).unwrap();
    }
}

#[test]
fn deep_trees_do_not_use_up_descriptors() {
    const DEPTH: usize = 3000;
    let i = Instance::new(Shape::inline());
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut numbers = vec![Ino::ROOT];
    for _ in 0..DEPTH {
        let parent = *numbers.last().unwrap();
        numbers.push(i.volume.mkdir(me(), parent, OsStr::new("d"), 0o755).unwrap().ino);
    }
    // From the bottom up, so that the descriptors of what is above are long gone.
    for ino in numbers.iter().step_by(97).rev() {
        assert_eq!(i.volume.getattr(*ino, None).unwrap().ino, *ino);
        create(&i.volume, *ino, "f");
    }
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < before + 2000, "{before} {after}");
}

#[test]
fn threads_do_not_disturb_each_other() {
    for shape in [Shape::inline(), Shape::striped(), Shape::striped().metered(1 << 30)] {
        let i = Instance::new(shape);
        let (_, shared) = i.create("shared");
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let i = &i;
                scope.spawn(move || {
                    let mine = format!("mine{thread}");
                    for n in 0..50 {
                        let data = pattern(thread * 1000 + n, 3000);
                        write_all(&i.volume, shared.handle, (n * 8 + thread) * 3000, &data);
                        i.write_file(&mine, &data);
                        let to = format!("theirs{}", (thread + n) % 8);
                        let (from, to) = (OsStr::new(&mine), OsStr::new(&to));
                        i.volume.rename(me(), Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).unwrap();
                        let found = i.volume.lookup(me(), Ino::ROOT, to);
                        if let Ok(attr) = found {
                            if let Ok(opened) = i.volume.open(me(), attr.ino, OpenFlags::READ_ONLY) {
                                assert_eq!(read_all(&i.volume, opened.handle).len(), 3000);
                                i.volume.release(opened.handle).unwrap();
                            }
                            i.volume.forget(attr.ino, 1);
                        }
                    }
                });
            }
        });
        let data = read_all(&i.volume, shared.handle);
        for thread in 0..8u64 {
            for n in 0..50u64 {
                let at = ((n * 8 + thread) * 3000) as usize;
                assert_eq!(data[at..at + 3000], pattern(thread * 1000 + n, 3000));
            }
        }
    }
}

#[test]
fn threads_without_privilege() {
    again_without_privilege("threads");
}
