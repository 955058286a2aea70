//! A process that is killed while it uses an instance, and what the next one finds.
//!
//! The child is this test program again: it works until it is killed and says on its output what has been answered.

mod support;

use forebay_wire::*;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::*;

const DIRECTORY: &str = "FOREBAY_TEST_CRASH_DIRECTORY";
const SHAPE: &str = "FOREBAY_TEST_CRASH_SHAPE";

fn shape(name: &str) -> Shape {
    match name {
        "inline" => Shape::inline().metered(256 << 20),
        _ => Shape::striped().metered(64 << 20),
    }
}

/// Killed with its test, also when that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the child does: file after file, in pieces, each piece answered before it is told; every third file is
/// removed while it is open, every fourth replaced by a rename.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let shape = shape(&std::env::var(SHAPE).unwrap());
    let fragments = open_fragments(Path::new(&directory), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    for n in 0u64.. {
        let name = format!("file{n}");
        let (attr, opened) = create(&volume, Ino::ROOT, &name);
        for piece in 0..10 {
            write_all(&volume, opened.handle, piece * 7000, &pattern(n * 10 + piece, 7000));
            println!("wrote {name} {}", (piece + 1) * 7000);
        }
        match n % 4 {
            1 => {
                volume.unlink(me(), Ino::ROOT, OsStr::new(&name)).unwrap();
                println!("removed {name}");
                // Never closed: its content is an orphan when the process dies.
            }
            2 => {
                let to = OsStr::new("replaced");
                volume
                    .rename(me(), Ino::ROOT, OsStr::new(&name), Ino::ROOT, to, RenameMode::Replace)
                    .unwrap();
                println!("replaced {n}");
                volume.release(opened.handle).unwrap();
                volume.forget(attr.ino, 1);
            }
            _ => volume.release(opened.handle).unwrap(),
        }
        assert!(n < 1000, "nobody killed the child");
    }
}

fn expected(n: u64, len: usize) -> Vec<u8> {
    let mut data: Vec<u8> = (0..10).flat_map(|piece| pattern(n * 10 + piece, 7000)).collect();
    data.truncate(len);
    data
}

fn killed_after(lines: usize, way: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(SHAPE, way)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap(),
    );
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let is_told = |line: &String| ["wrote", "remov", "repla"].iter().any(|word| line.starts_with(word));
    let told: Vec<String> = output.lines().map(|line| line.unwrap()).filter(is_told).take(lines).collect();
    assert_eq!(told.len(), lines, "the child ended by itself");
    child.0.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(9));
    check(directory, &told, way);
}

type Lines = [String];

fn check(directory: tempfile::TempDir, told: &Lines, way: &str) {
    let shape = shape(way);
    let fragments = open_fragments(directory.path(), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    let i = Instance { volume, fragments, shape, directory };
    let number = |word: &str| word.trim_start_matches("file").parse::<u64>().unwrap();
    let (mut files, mut last_replaced) = (std::collections::BTreeMap::new(), None);
    for line in told {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["wrote", name, len] => drop(files.insert(number(name), len.parse::<usize>().unwrap())),
            ["removed", name] => drop(files.remove(&number(name))),
            ["replaced", n] => {
                files.remove(&number(n));
                last_replaced = Some(number(n));
            }
            _ => panic!("{line}"),
        }
    }
    let newest = told
        .iter()
        .rev()
        .find(|line| line.starts_with("wrote"))
        .map(|line| number(line.split(' ').nth(1).unwrap()));
    let mut compared = 0;
    for (n, len) in files {
        // The child went on between its last word and its end, with the newest file and at most a few more.
        if Some(n) == newest && n % 4 != 0 && n % 4 != 3 {
            continue;
        }
        let data = i.read_file(&format!("file{n}"));
        assert!(data.len() >= len, "file{n} has {} of {len} bytes that were answered", data.len());
        assert_eq!(data, expected(n, data.len()), "file{n}");
        compared += 1;
    }
    if let Some(n) = last_replaced {
        let data = i.read_file("replaced");
        assert!((n..n + 1000).step_by(4).any(|n| data == expected(n, 70_000)), "replaced by {n}");
        compared += 1;
    }
    assert!(compared > 0, "nothing was compared");
    no_orphans(i);
}

/// All space is that of files with names; removing those leaves nothing.
fn no_orphans(i: Instance) {
    let mut names = Vec::new();
    let handle = i.volume.opendir(me(), Ino::ROOT).unwrap();
    let mut blocks = 0;
    i.volume
        .readdir(handle, 0, &mut |entry| {
            names.push(entry.name.to_owned());
            true
        })
        .unwrap();
    i.volume.releasedir(handle).unwrap();
    names.retain(|name| name != "." && name != "..");
    for name in &names {
        let attr = i.volume.lookup(me(), Ino::ROOT, name).unwrap();
        blocks += attr.blocks * 512;
        i.volume.forget(attr.ino, 1);
    }
    assert_eq!(i.used(), blocks, "space of files with names");
    let i = i.reopen();
    assert_eq!(i.used(), blocks);
    for name in &names {
        i.volume.unlink(me(), Ino::ROOT, name).unwrap();
    }
    assert_eq!(i.used(), 0);
    assert_eq!(i.substripe_files(), 0);
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    for way in ["inline", "striped"] {
        for lines in [3, 11, 25, 60, 111] {
            killed_after(lines, way);
        }
    }
}

#[test]
fn an_instance_is_open_once() {
    let shape = Shape::inline();
    let i = Instance::new(shape.clone());
    assert_eq!(open_fragments(i.directory.path(), &shape).err(), Some(FsError::Busy));
    let fragments = i.fragments.clone();
    assert_eq!(fragments.close(), Err(FsError::Busy));
}

#[test]
fn fragments_that_do_not_belong_together_are_refused() {
    let shape = Shape::striped();
    let Instance { volume, fragments, directory, .. } = Instance::new(shape.clone());
    drop(volume);
    fragments.close().unwrap();
    let of = |n: usize| directory.path().join(format!("fragment{n}"));
    let less = Shape { fragments: 3, ..shape.clone() };
    let refused =
        |shape: &Shape| matches!(open_fragments(directory.path(), shape), Err(FsError::Damaged { .. }));
    assert!(refused(&less));
    std::fs::rename(of(1), of(9)).unwrap();
    std::fs::rename(of(2), of(1)).unwrap();
    std::fs::rename(of(9), of(2)).unwrap();
    assert!(refused(&shape));
    std::fs::rename(of(1), of(9)).unwrap();
    std::fs::rename(of(2), of(1)).unwrap();
    std::fs::rename(of(9), of(2)).unwrap();
    open_fragments(directory.path(), &shape).unwrap().close().unwrap();
    std::fs::remove_file(of(3).join("fragment.json")).unwrap();
    assert!(refused(&shape));
}

/// A damaged stub must not make the walk take its content for an orphan.
#[test]
fn a_stub_that_cannot_be_read_loses_nothing() {
    let shape = Shape::striped();
    let i = Instance::new(shape.clone());
    i.write_file("f", &pattern(1, 50_000));
    let files = i.substripe_files();
    let Instance { volume, fragments, directory, .. } = i;
    drop(volume);
    drop(fragments);
    let stub = directory.path().join("fragment0/ns/c1/tree/f");
    let mut good = vec![0; 256];
    let len = rustix::fs::getxattr(&stub, "user.dwfs.stub", &mut good[..]).unwrap();
    let set = |text: &[u8]| {
        rustix::fs::setxattr(&stub, "user.dwfs.stub", text, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(b"1 nonsense");
    assert!(matches!(open_fragments(directory.path(), &shape), Err(FsError::Damaged { .. })));
    set(&good[..len]);
    let fragments = open_fragments(directory.path(), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    let i = Instance { volume, fragments, shape, directory };
    assert_eq!(i.substripe_files(), files);
    assert_eq!(i.read_file("f"), pattern(1, 50_000));
}

/// A length that grew by a write need not have reached the disk in the stub: the data says it.
#[test]
fn a_stub_that_lags_behind_its_data_is_made_longer() {
    let shape = Shape::striped();
    let i = Instance::new(shape.clone());
    let ino = i.write_file("f", &pattern(1, 16 * 4096));
    i.write_file("other", &pattern(2, 20_000));
    let Instance { volume, fragments, directory, .. } = i;
    drop(volume);
    drop(fragments);
    // As if the last of the writes had not reached the stub.
    let stub = directory.path().join("fragment0/ns/c1/tree/f");
    std::fs::File::options().write(true).open(stub).unwrap().set_len(10_000).unwrap();
    let fragments = open_fragments(directory.path(), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    let i = Instance { volume, fragments, shape, directory };
    let attr = i.volume.lookup(me(), Ino::ROOT, OsStr::new("f")).unwrap();
    assert_eq!((attr.ino, attr.size), (ino, 16 * 4096));
    assert_eq!(i.read_file("f"), pattern(1, 16 * 4096));
    assert_eq!(i.read_file("other"), pattern(2, 20_000));
}

/// A cut that was under way: what was cut reads as zeros, and what was not cut yet is there.
#[test]
fn a_cut_that_stopped_before_the_stub_leaves_zeros() {
    let shape = Shape::striped();
    let i = Instance::new(shape.clone());
    i.write_file("f", &pattern(1, 16 * 4096));
    let Instance { volume, fragments, directory, .. } = i;
    drop(volume);
    drop(fragments);
    let mut cut = 0;
    for bucket in std::fs::read_dir(directory.path().join("fragment1/ns/c1/data")).unwrap() {
        for file in std::fs::read_dir(bucket.unwrap().path()).unwrap() {
            std::fs::File::options().write(true).open(file.unwrap().path()).unwrap().set_len(0).unwrap();
            cut += 1;
        }
    }
    assert!(cut > 0);
    let fragments = open_fragments(directory.path(), &shape).unwrap();
    let volume = open_volume(&fragments, &shape);
    let i = Instance { volume, fragments, shape, directory };
    let (data, before) = (i.read_file("f"), pattern(1, 16 * 4096));
    assert_eq!(data.len(), before.len());
    let zeros = data.chunks(4096).filter(|stripe| stripe.iter().all(|byte| *byte == 0)).count();
    let same = data.chunks(4096).zip(before.chunks(4096)).filter(|(now, then)| now == then).count();
    assert_eq!((zeros, same), (4, 12));
}

/// File ids are not given away twice, whatever happens to the record.
#[test]
fn ids_are_not_used_again() {
    let shape = Shape::striped();
    let mut i = Instance::new(shape);
    let stub = |i: &Instance, name: &str| {
        let path = i.directory.path().join("fragment0/ns/c1/tree").join(name);
        let mut text = vec![0; 256];
        let len = rustix::fs::getxattr(path, "user.dwfs.stub", &mut text[..]).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    };
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..4 {
        for n in 0..5 {
            let name = format!("{round}.{n}");
            i.write_file(&name, b"x");
            let id = stub(&i, &name).split(' ').find(|word| word.starts_with("file=")).unwrap().to_owned();
            assert!(seen.insert(id), "{seen:?}");
        }
        let state = i.directory.path().join("fragment0/state.json");
        i = match round {
            0 => i.reopen(),
            1 => i.reopen_uncleanly(),
            _ => {
                let Instance { volume, fragments, shape, directory } = i;
                drop(volume);
                drop(fragments);
                std::fs::write(state, b"torn").unwrap();
                let fragments = open_fragments(directory.path(), &shape).unwrap();
                Instance { volume: open_volume(&fragments, &shape), fragments, shape, directory }
            }
        };
    }
}
