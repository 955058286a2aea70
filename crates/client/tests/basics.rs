//! Each operation once, inline and striped.

mod support;

use forebay_wire::*;
use std::ffi::OsStr;
use std::path::Path;
use support::*;

fn on_all(test: impl Fn(&Instance)) {
    test(&Instance::new(Shape::inline()));
    test(&Instance::new(Shape::striped()));
    test(&Instance::new(Shape::inline().metered(64 << 20)));
    test(&Instance::new(Shape::striped().metered(64 << 20)));
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn what_is_written_is_read() {
    on_all(|i| {
        let data = pattern(1, 100_000);
        let ino = i.write_file("f", &data);
        assert_eq!(i.read_file("f"), data);
        let attr = i.volume.getattr(ino, None).unwrap();
        assert_eq!(attr.size, 100_000);
        assert!(attr.blocks * 512 >= 100_000, "{attr:?}");
        assert_eq!((attr.mode, attr.kind, attr.nlink), (0o644, FileKind::Regular, 1));
    });
}

#[test]
fn a_file_grows_byte_by_byte() {
    on_all(|i| {
        let data = pattern(1, 200);
        let (attr, opened) = i.create("f");
        for (at, byte) in data.iter().enumerate() {
            write_all(&i.volume, opened.handle, at as u64, &[*byte]);
            assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, at as u64 + 1);
        }
        assert_eq!(read_all(&i.volume, opened.handle), data);
    });
}

#[test]
fn holes_read_as_zeros_and_are_found() {
    on_all(|i| {
        let (_, opened) = i.create("f");
        write_all(&i.volume, opened.handle, 1_000_000, b"end");
        write_all(&i.volume, opened.handle, 40_960, &[7; 4096]);
        let data = read_all(&i.volume, opened.handle);
        assert_eq!(data.len(), 1_000_003);
        assert!(data[..40_960].iter().all(|b| *b == 0) && data[40_960..45_056].iter().all(|b| *b == 7));
        assert_eq!(&data[1_000_000..], b"end");
        let seek = |offset, what| i.volume.seek(opened.handle, offset, what);
        assert_eq!(seek(0, SeekWhat::Data), Ok(40_960));
        assert_eq!(seek(40_960, SeekWhat::Hole), Ok(45_056));
        assert_eq!(seek(45_056, SeekWhat::Data), Ok(999_424));
        assert_eq!(seek(999_424, SeekWhat::Hole), Ok(1_000_003));
        assert_eq!(seek(1_000_003, SeekWhat::Hole), Err(FsError::NoData));
        assert_eq!(seek(1_000_003, SeekWhat::Data), Err(FsError::NoData));
    });
}

#[test]
fn a_cut_file_grows_with_zeros() {
    on_all(|i| {
        let ino = i.write_file("f", &pattern(2, 70_000));
        for size in [10_001, 60_000] {
            let change = SetAttr { size: Some(size), ..SetAttr::default() };
            assert_eq!(i.volume.setattr(me(), ino, None, &change).unwrap().size, size);
        }
        let data = i.read_file("f");
        assert_eq!(data[..10_001], pattern(2, 70_000)[..10_001]);
        assert!(data[10_001..].iter().all(|b| *b == 0));
        assert_eq!(data.len(), 60_000);
    });
}

#[test]
fn punching_and_zeroing_give_zeros() {
    on_all(|i| {
        let (_, opened) = i.create("f");
        write_all(&i.volume, opened.handle, 0, &[1; 100_000]);
        let punch = FallocateMode::PUNCH_HOLE.with(FallocateMode::KEEP_SIZE);
        i.volume.fallocate(opened.handle, 5000, 30_000, punch).unwrap();
        i.volume.fallocate(opened.handle, 50_000, 70_000, FallocateMode::ZERO_RANGE).unwrap();
        i.volume.fallocate(opened.handle, 130_000, 70_000, FallocateMode::ALLOCATE).unwrap();
        let data = read_all(&i.volume, opened.handle);
        let expected = |at: usize| u8::from(at < 5000 || (35_000..50_000).contains(&at));
        assert_eq!(data.len(), 200_000);
        assert!(data.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
    });
}

#[test]
fn an_open_file_without_a_name_lives_until_it_is_closed() {
    on_all(|i| {
        let data = pattern(3, 50_000);
        let (attr, opened) = i.create("f");
        write_all(&i.volume, opened.handle, 0, &data);
        i.volume.unlink(me(), Ino::ROOT, name("f")).unwrap();
        assert_eq!(i.volume.lookup(me(), Ino::ROOT, name("f")), Err(FsError::NotFound));
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().nlink, 0);
        assert_eq!(read_all(&i.volume, opened.handle), data);
        write_all(&i.volume, opened.handle, 50_000, &data);
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, 100_000);
        i.volume.release(opened.handle).unwrap();
        assert_eq!(i.substripe_files(), 0);
        // Somebody still holds the number: it is answered until it is forgotten.
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().nlink, 0);
        i.volume.forget(attr.ino, 1);
        assert_eq!(i.volume.getattr(attr.ino, None), Err(FsError::Stale));
        assert_eq!(i.volume.read(opened.handle, 0, &mut [0; 4]), Err(FsError::BadHandle));
    });
}

#[test]
fn numbers_survive_renames_of_what_is_above() {
    on_all(|i| {
        let v = &i.volume;
        let a = v.mkdir(me(), Ino::ROOT, name("a"), 0o755).unwrap();
        let b = v.mkdir(me(), a.ino, name("b"), 0o755).unwrap();
        let f = create(v, b.ino, "f").0;
        v.rename(me(), Ino::ROOT, name("a"), Ino::ROOT, name("c"), RenameMode::Replace).unwrap();
        assert_eq!(v.getattr(f.ino, None).unwrap().ino, f.ino);
        assert_eq!(v.lookup(me(), b.ino, name("f")).unwrap().ino, f.ino);
        let top = create(v, Ino::ROOT, "top").0;
        v.rename(me(), Ino::ROOT, name("top"), b.ino, name("f"), RenameMode::Exchange).unwrap();
        assert_eq!(v.lookup(me(), b.ino, name("f")).unwrap().ino, top.ino);
        assert_eq!(v.lookup(me(), Ino::ROOT, name("top")).unwrap().ino, f.ino);
        assert_eq!(
            v.rename(me(), Ino::ROOT, name("top"), b.ino, name("f"), RenameMode::NoReplace),
            Err(FsError::Exists)
        );
        v.rename(me(), Ino::ROOT, name("top"), b.ino, name("f"), RenameMode::Replace).unwrap();
        assert_eq!(v.getattr(top.ino, None).unwrap().nlink, 0);
        assert_eq!(v.rmdir(me(), a.ino, name("b")), Err(FsError::NotEmpty));
    });
}

#[test]
fn links_share_an_object() {
    on_all(|i| {
        let v = &i.volume;
        let ino = i.write_file("one", b"shared");
        let two = v.link(me(), ino, Ino::ROOT, name("two")).unwrap();
        assert_eq!((two.ino, two.nlink), (ino, 2));
        v.unlink(me(), Ino::ROOT, name("one")).unwrap();
        assert_eq!(v.getattr(ino, None).unwrap().nlink, 1);
        assert_eq!(i.read_file("two"), b"shared");
        let s = v.symlink(me(), Ino::ROOT, name("s"), Path::new("some/where")).unwrap();
        assert_eq!(v.readlink(s.ino).unwrap(), b"some/where");
        let fifo = v.mknod(me(), Ino::ROOT, name("p"), 0o010_640, 0).unwrap();
        assert_eq!((fifo.kind, fifo.mode), (FileKind::Fifo, 0o640));
    });
}

#[test]
fn every_mode_can_be_set_and_seen() {
    on_all(|i| {
        let ino = i.write_file("f", &pattern(4, 20_000));
        let d = i.volume.mkdir(me(), Ino::ROOT, name("d"), 0o755).unwrap();
        for ino in [ino, d.ino] {
            for mode in [0, 0o444, 0o1644, 0o200, 0o1000, 0o755, 0o4755, 0o000] {
                let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
                assert_eq!(i.volume.setattr(me(), ino, None, &change).unwrap().mode, mode, "{mode:o}");
                assert_eq!(i.volume.getattr(ino, None).unwrap().mode, mode);
            }
        }
        for mode in [0, 0o400, 0o1755, 0o644] {
            let file = format!("new{mode:o}");
            let (attr, opened) =
                i.volume.create(me(), Ino::ROOT, name(&file), mode, OpenFlags::READ_WRITE).unwrap();
            assert_eq!(attr.mode, mode);
            write_all(&i.volume, opened.handle, 0, &pattern(5, 9000));
            i.volume.release(opened.handle).unwrap();
            i.volume.forget(attr.ino, 1);
            let attr = i.volume.lookup(me(), Ino::ROOT, name(&file)).unwrap();
            assert_eq!((attr.mode, attr.size), (mode, 9000));
            assert!(attr.blocks > 0);
            let made = i.volume.mkdir(me(), Ino::ROOT, name(&(file + "d")), mode).unwrap();
            assert_eq!(made.mode, mode);
        }
    });
}

#[test]
fn times_are_those_of_the_last_change() {
    on_all(|i| {
        let (attr, opened) = i.create("f");
        let at = Timestamp { secs: 1000, nanos: 5 };
        let old =
            SetAttr { mtime: Some(SetTime::At(at)), atime: Some(SetTime::At(at)), ..SetAttr::default() };
        write_all(&i.volume, opened.handle, 0, &[1; 10_000]);
        let set = i.volume.setattr(me(), attr.ino, None, &old).unwrap();
        assert_eq!((set.mtime, set.atime), (at, at));
        let before = i.volume.getattr(attr.ino, None).unwrap();
        assert_eq!(before.mtime, at);
        write_all(&i.volume, opened.handle, 0, &[2; 10]);
        let after = i.volume.getattr(attr.ino, None).unwrap();
        assert!(after.mtime > attr.mtime && after.ctime >= before.ctime, "{after:?}");
        i.volume.setattr(me(), attr.ino, None, &old).unwrap();
        i.volume.read(opened.handle, 0, &mut [0; 10]).unwrap();
        i.volume.release(opened.handle).unwrap();
        let closed = i.volume.getattr(attr.ino, None).unwrap();
        assert_eq!(closed.mtime, at);
        assert!(closed.atime > at);
    });
}

#[test]
fn attributes_are_kept_and_internal_ones_hidden() {
    on_all(|i| {
        let v = &i.volume;
        let ino = i.write_file("f", b"x");
        v.setxattr(me(), ino, name("user.colour"), b"blue", XattrMode::Create).unwrap();
        assert_eq!(
            v.setxattr(me(), ino, name("user.colour"), b"red", XattrMode::Create),
            Err(FsError::Exists)
        );
        assert_eq!(v.setxattr(me(), ino, name("user.x"), b"", XattrMode::Replace), Err(FsError::NoAttribute));
        assert_eq!(v.getxattr(me(), ino, name("user.colour")).unwrap(), b"blue");
        assert_eq!(v.listxattr(me(), ino).unwrap(), b"user.colour\0");
        assert_eq!(v.getxattr(me(), ino, name("user.dwfs.stub")), Err(FsError::NoAttribute));
        let hidden = v.setxattr(me(), ino, name("user.dwfs.stub"), b"1", XattrMode::Any);
        assert_eq!(hidden, Err(FsError::NotPermitted));
        assert_eq!(v.getxattr(me(), ino, name("security.capability")), Err(FsError::NoAttribute));
        v.removexattr(me(), ino, name("user.colour")).unwrap();
        assert_eq!(v.listxattr(me(), ino).unwrap(), b"");
    });
}

#[test]
fn copies_are_equal() {
    on_all(|i| {
        let data = pattern(6, 300_000);
        i.write_file("from", &data);
        let from = i.volume.lookup(me(), Ino::ROOT, name("from")).unwrap();
        let source = i.volume.open(me(), from.ino, OpenFlags::READ_ONLY).unwrap();
        let (_, target) = i.create("to");
        let mut done = 0;
        while done < data.len() as u64 {
            let copied =
                i.volume.copy_range(source.handle, done, target.handle, done, u64::MAX >> 1).unwrap();
            assert!(copied > 0);
            done += copied;
        }
        assert_eq!(read_all(&i.volume, target.handle), data);
        assert_eq!(i.volume.copy_range(source.handle, done, target.handle, done, 1), Ok(0));
    });
}

#[test]
fn handles_have_the_rights_they_were_opened_with() {
    on_all(|i| {
        let ino = i.write_file("f", b"data");
        let read = i.volume.open(me(), ino, OpenFlags::READ_ONLY).unwrap();
        let write = i.volume.open(me(), ino, OpenFlags::WRITE_ONLY).unwrap();
        assert_eq!(i.volume.write(read.handle, 0, b"x", false), Err(FsError::BadHandle));
        assert_eq!(i.volume.read(write.handle, 0, &mut [0]), Err(FsError::BadHandle));
        let cut = i.volume.open(me(), ino, OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE)).unwrap();
        assert_eq!(read_all(&i.volume, cut.handle), b"");
        assert_eq!(i.volume.open(me(), Ino::ROOT, OpenFlags::READ_ONLY).err(), Some(FsError::IsDirectory));
    });
}

#[test]
fn impossible_names_are_refused() {
    on_all(|i| {
        let long = "n".repeat(256);
        assert_eq!(i.volume.lookup(me(), Ino::ROOT, name(&long)), Err(FsError::NameTooLong));
        for bad in ["", ".", "..", "a/b", "a\0b"] {
            let made = i.volume.mkdir(me(), Ino::ROOT, name(bad), 0o755);
            assert_eq!(made, Err(FsError::InvalidArgument), "{bad:?}");
        }
        create(&i.volume, Ino::ROOT, &"n".repeat(255));
    });
}

#[test]
fn a_write_by_a_user_takes_the_set_id_bits() {
    on_all(|i| {
        let (attr, opened) = i.create("f");
        let change = SetAttr { mode: Some(0o6755), ..SetAttr::default() };
        i.volume.setattr(me(), attr.ino, None, &change).unwrap();
        i.volume.write(opened.handle, 0, b"x", true).unwrap();
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().mode, 0o755);
    });
}

#[test]
fn a_read_marks_the_access_time_only() {
    on_all(|i| {
        let ino = i.write_file("f", &[1; 10_000]);
        let at = Timestamp { secs: 1000, nanos: 5 };
        let old =
            SetAttr { mtime: Some(SetTime::At(at)), atime: Some(SetTime::At(at)), ..SetAttr::default() };
        let set = i.volume.setattr(me(), ino, None, &old).unwrap();
        // Longer than a tick of the system's clock, so that a wrong mark would show.
        std::thread::sleep(std::time::Duration::from_millis(20));
        i.read_file("f");
        let read = i.volume.getattr(ino, None).unwrap();
        assert_eq!((read.mtime, read.ctime), (set.mtime, set.ctime));
        assert!(read.atime > at);
    });
}

#[test]
fn objects_without_a_name_are_still_themselves() {
    on_all(|i| {
        let v = &i.volume;
        let fifo = v.mknod(me(), Ino::ROOT, name("p"), 0o010_600, 0).unwrap();
        let d = v.mkdir(me(), Ino::ROOT, name("d"), 0o755).unwrap();
        let f = i.write_file("f", b"data");
        v.unlink(me(), Ino::ROOT, name("p")).unwrap();
        v.rmdir(me(), Ino::ROOT, name("d")).unwrap();
        v.unlink(me(), Ino::ROOT, name("f")).unwrap();
        assert_eq!(i.substripe_files(), 0);
        // Nobody gets a number that is still held.
        for n in 0..20 {
            let (attr, opened) = i.create(&format!("new{n}"));
            assert!(![fifo.ino, d.ino, f].contains(&attr.ino));
            v.release(opened.handle).unwrap();
        }
        for ino in [fifo.ino, d.ino, f] {
            let change = SetAttr { mode: Some(0o640), ..SetAttr::default() };
            assert_eq!(v.setattr(me(), ino, None, &change).unwrap().mode, 0o640);
            let change = SetAttr { atime: Some(SetTime::Now), gid: Some(me().gid), ..SetAttr::default() };
            v.setattr(me(), ino, None, &change).unwrap();
            let attr = v.getattr(ino, None).unwrap();
            assert_eq!((attr.mode, attr.nlink), (0o640, 0));
            v.forget(ino, 1);
            assert_eq!(v.getattr(ino, None), Err(FsError::Stale));
        }
    });
}

#[test]
fn a_replaced_file_can_be_opened_by_who_found_it_before() {
    on_all(|i| {
        let v = &i.volume;
        let data = pattern(1, 50_000);
        let old = i.write_file("f", &data);
        i.write_file("next", b"new");
        v.rename(me(), Ino::ROOT, name("next"), Ino::ROOT, name("f"), RenameMode::Replace).unwrap();
        let opened = v.open(me(), old, OpenFlags::READ_ONLY).unwrap();
        assert_eq!(read_all(v, opened.handle), data);
        assert_eq!(v.getattr(old, None).unwrap().nlink, 0);
        v.release(opened.handle).unwrap();
        assert_eq!(i.read_file("f"), b"new");
        v.forget(old, 1);
        assert_eq!(v.open(me(), old, OpenFlags::READ_ONLY).err(), Some(FsError::Stale));
        // Three bytes are left of all that.
        assert!(i.substripe_files() <= 1);
    });
}

fn set(i: &Instance, ino: Ino, part: &str, value: &str) -> Result<()> {
    i.volume.setxattr(me(), ino, name(&format!("user.dwfs.{part}")), value.as_bytes(), XattrMode::Any)
}

fn get(i: &Instance, ino: Ino, part: &str) -> Result<String> {
    let value = i.volume.getxattr(me(), ino, name(&format!("user.dwfs.{part}")))?;
    Ok(String::from_utf8(value).unwrap())
}

#[test]
fn a_layout_is_read_set_and_inherited() {
    on_all(|i| {
        let servers = i.shape.fragments.to_string();
        let (attr, opened) = i.create("f");
        assert_eq!(get(i, attr.ino, "stripe_count"), Ok(servers.clone()));
        set(i, attr.ino, "stripe_size", "65536").unwrap();
        set(i, attr.ino, "substripes", "2").unwrap();
        assert_eq!(get(i, attr.ino, "stripe_size").unwrap(), "65536");
        assert_eq!(get(i, attr.ino, "substripes").unwrap(), "2");
        // A handle that was open before writes where the content goes now.
        let data = pattern(1, 300_000);
        write_all(&i.volume, opened.handle, 0, &data);
        assert_eq!(i.substripe_files(), (2 * i.shape.fragments).min(5));
        assert_eq!(read_all(&i.volume, opened.handle), data);
        assert_eq!(set(i, attr.ino, "stripe_size", "4096"), Err(FsError::NotEmpty));
        assert_eq!(read_all(&i.volume, opened.handle), data);
        for (part, value) in [
            ("stripe_size", "1000"),
            ("stripe_size", "0"),
            ("stripe_size", "-1"),
            ("stripe_size", ""),
            ("stripe_count", "5"),
            ("stripe_count", "0"),
            ("substripes", "65"),
            ("first_server", "4"),
        ] {
            let empty = i.create(&format!("{part}{value}")).0;
            assert_eq!(set(i, empty.ino, part, value), Err(FsError::InvalidArgument), "{part} {value}");
        }
        let d = i.volume.mkdir(me(), Ino::ROOT, name("d"), 0o755).unwrap();
        set(i, d.ino, "stripe_size", "1048576").unwrap();
        set(i, d.ino, "stripe_count", "1").unwrap();
        assert_eq!(i.volume.getattr(d.ino, None).unwrap().mode, 0o755);
        let new = create(&i.volume, d.ino, "new").0;
        assert_eq!(get(i, new.ino, "stripe_size").unwrap(), "1048576");
        assert_eq!(get(i, new.ino, "stripe_count").unwrap(), "1");
        let below = i.volume.mkdir(me(), d.ino, name("below"), 0o755).unwrap();
        assert_eq!(get(i, below.ino, "stripe_count"), Ok(servers.clone()));
        i.volume.removexattr(me(), d.ino, name("user.dwfs.stripe_count")).unwrap();
        assert_eq!(get(i, d.ino, "stripe_count"), Ok(servers));
        assert_eq!(i.volume.listxattr(me(), d.ino).unwrap(), b"");
    });
}

#[test]
fn all_of_it_without_privilege() {
    again_without_privilege("");
}
