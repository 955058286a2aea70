//! Capacity of metered fragments and limits of a configuration.

mod support;

use forebay_model::units::Bytes;
use forebay_server::local::Limits;
use forebay_wire::*;
use proptest::prelude::*;
use std::ffi::OsStr;
use support::*;

const CAPACITY: u64 = 1 << 20;

/// Writes until the instance is full and returns how much was written.
fn fill(i: &Instance, handle: forebay_client::Handle, step: usize) -> u64 {
    let data = pattern(9, step);
    let mut done = 0;
    loop {
        match i.volume.write(handle, done, &data, false) {
            Ok(written) => done += written as u64,
            Err(error) => {
                assert_eq!(error, FsError::NoSpace);
                return done;
            }
        }
        assert!(done <= 100 * CAPACITY, "never full");
    }
}

/// Bytes of all content files, counted as the meter does.
fn allocated(i: &Instance) -> u64 {
    let mut sum = 0;
    let mut open = vec![i.directory.path().to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let meta = std::fs::symlink_metadata(entry.path()).unwrap();
            let own = ["lock", "state.json", "fragment.json", "traffic.json"];
            if meta.is_dir() {
                open.push(entry.path());
            } else if !own.iter().any(|name| entry.file_name() == *name) {
                use std::os::unix::fs::MetadataExt;
                sum += (meta.blocks() * 512).min(meta.size().div_ceil(4096) * 4096);
            }
        }
    }
    sum
}

fn cut(volume: &forebay_client::Volume, ino: Ino) {
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    volume.setattr(me(), ino, None, &cut).unwrap();
}

fn shapes() -> [Shape; 2] {
    [Shape::inline().metered(CAPACITY), Shape::striped().metered(CAPACITY / 4)]
}

#[test]
fn a_full_instance_is_full_rewrites_and_empties() {
    for shape in shapes() {
        for step in [1000, 4096, 100_000] {
            let i = Instance::new(shape.clone());
            let (_, opened) = i.create("f");
            let done = fill(&i, opened.handle, step);
            assert_eq!(done, CAPACITY, "in steps of {step}");
            assert_eq!(i.used(), CAPACITY);
            // What is allocated can be written again, whole and in part.
            let again = pattern(11, done as usize);
            assert_eq!(i.volume.write(opened.handle, 0, &again, false), Ok(done as usize));
            assert_eq!(read_all(&i.volume, opened.handle), again);
            assert_eq!(i.volume.write(opened.handle, done, b"x", false), Err(FsError::NoSpace));
            let more = i.create("g").1;
            assert_eq!(i.volume.write(more.handle, 0, b"x", false), Err(FsError::NoSpace));
            assert_eq!(
                i.volume.fallocate(more.handle, 0, 4096, FallocateMode::ALLOCATE),
                Err(FsError::NoSpace)
            );
            let punch = FallocateMode::PUNCH_HOLE.with(FallocateMode::KEEP_SIZE);
            i.volume.fallocate(opened.handle, 0, 4 * 4096, punch).unwrap();
            assert_eq!(i.used(), CAPACITY - 4 * 4096);
            assert_eq!(i.volume.write(opened.handle, 0, &[1; 5 * 4096], false), Ok(5 * 4096));
            i.volume.unlink(me(), Ino::ROOT, OsStr::new("f")).unwrap();
            assert_eq!(i.used(), CAPACITY, "an open file keeps its space");
            i.volume.release(opened.handle).unwrap();
            i.volume.release(more.handle).unwrap();
            i.volume.unlink(me(), Ino::ROOT, OsStr::new("g")).unwrap();
            assert_eq!(i.used(), 0);
            assert_eq!(allocated(&i), 0);
        }
    }
}

#[test]
fn a_write_that_does_not_fit_is_done_in_part() {
    for shape in shapes() {
        let i = Instance::new(shape);
        let (attr, opened) = i.create("f");
        let data = pattern(5, 3 * CAPACITY as usize);
        assert_eq!(i.volume.write(opened.handle, 0, &data, false), Ok(CAPACITY as usize));
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, CAPACITY);
        assert_eq!(read_all(&i.volume, opened.handle), data[..CAPACITY as usize]);
    }
}

/// Else the next one would leave a hole where the rest would have been.
#[test]
fn an_append_that_does_not_fit_gives_the_rest_of_its_place_back() {
    for shape in shapes() {
        let i = Instance::new(shape);
        let (_, other) = i.create("other");
        write_all(&i.volume, other.handle, 0, &pattern(1, CAPACITY as usize / 2));
        let (attr, opened) = i.create("f");
        let data = pattern(5, 3 * CAPACITY as usize);
        let mut end = 0;
        loop {
            match i.volume.append(opened.handle, &data, false) {
                Ok((offset, done)) => {
                    assert_eq!(offset, end, "after a short one");
                    end += done as u64;
                }
                Err(error) => break assert_eq!(error, FsError::NoSpace),
            }
        }
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, end);
        cut(&i.volume, i.volume.lookup(me(), Ino::ROOT, OsStr::new("other")).unwrap().ino);
        assert_eq!(i.volume.append(opened.handle, b"more", false), Ok((end, 4)), "after one that failed");
    }
}

#[test]
fn what_is_allocated_ahead_can_be_written_when_the_instance_is_full() {
    for shape in shapes() {
        let i = Instance::new(shape);
        let (_, opened) = i.create("f");
        i.volume.fallocate(opened.handle, 0, CAPACITY, FallocateMode::ALLOCATE).unwrap();
        assert_eq!(i.used(), CAPACITY);
        let data = pattern(6, CAPACITY as usize);
        assert_eq!(i.volume.write(opened.handle, 0, &data, false), Ok(data.len()));
        assert_eq!(read_all(&i.volume, opened.handle), data);
    }
}

#[test]
fn a_refused_allocation_changes_nothing() {
    for shape in shapes() {
        let i = Instance::new(shape);
        let (attr, opened) = i.create("f");
        write_all(&i.volume, opened.handle, 0, &[1; 10_000]);
        let used = i.used();
        let refused = i.volume.fallocate(opened.handle, 0, 2 * CAPACITY, FallocateMode::ALLOCATE);
        assert_eq!(refused, Err(FsError::NoSpace));
        assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, 10_000);
        assert_eq!(read_all(&i.volume, opened.handle), [1; 10_000]);
        assert!(i.used() <= used.next_multiple_of(4096) + 4096 * 16, "{} was {used}", i.used());
    }
}

#[test]
fn space_is_known_after_a_clean_and_an_unclean_end() {
    for shape in shapes() {
        let mut i = Instance::new(shape);
        i.write_file("f", &pattern(1, 300_000));
        let (_, opened) = i.create("holes");
        write_all(&i.volume, opened.handle, 500_000, &[1; 5000]);
        i.volume.release(opened.handle).unwrap();
        let used = i.used();
        assert_eq!(used, allocated(&i));
        i = i.reopen();
        assert_eq!(i.used(), used);
        i = i.reopen_uncleanly();
        assert_eq!(i.used(), used);
        assert_eq!(i.read_file("f"), pattern(1, 300_000));
    }
}

#[test]
fn two_namespaces_share_the_space() {
    let shape = Shape::inline().metered(CAPACITY);
    let i = Instance::new(shape.clone());
    let spec = forebay_server::local::NamespaceSpec {
        name: "c2".into(),
        layout: shape.layout,
        limits: shape.limits,
    };
    let services = i.fragments.namespace(&spec).unwrap();
    assert!(i.fragments.namespace(&spec).is_err_and(|error| error == FsError::Busy));
    let other = forebay_client::Volume::new(services.metadata, services.data);
    let (_, opened) = i.create("f");
    write_all(&i.volume, opened.handle, 0, &pattern(1, CAPACITY as usize / 2));
    let (_, second) = create(&other, Ino::ROOT, "f");
    let data = pattern(2, CAPACITY as usize);
    assert_eq!(other.write(second.handle, 0, &data, false), Ok(data.len() / 2));
    assert_eq!(other.statfs().unwrap().blocks_free, 0);
}

#[test]
fn writers_at_the_limit_never_pass_it() {
    for shape in shapes() {
        let i = Instance::new(shape);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let i = &i;
                scope.spawn(move || {
                    let (_, opened) = i.create(&format!("f{thread}"));
                    let data = pattern(thread, 10_000);
                    for n in 0..60 {
                        match i.volume.write(opened.handle, n * 10_000, &data, false) {
                            Ok(_) => {}
                            Err(error) => assert_eq!(error, FsError::NoSpace),
                        }
                        assert!(i.used() <= CAPACITY);
                    }
                    i.volume.release(opened.handle).unwrap();
                });
            }
        });
        assert_eq!(i.used(), allocated(&i));
        // Four writers of 600,000 bytes cannot all have been served; stripes leave less than a block for each.
        assert!(i.used() > CAPACITY - 64 * 4096, "{}", i.used());
    }
}

#[test]
fn limits_are_kept() {
    let limits = Limits { max_file_size: Some(Bytes(10_000)), max_files: Some(3), ..Limits::default() };
    for shape in [Shape::inline(), Shape::striped()] {
        let mut i = Instance::new(Shape { limits, ..shape });
        let (attr, opened) = i.create("f");
        assert!(opened.backing.is_none(), "the kernel would not keep the limit");
        assert_eq!(i.volume.write(opened.handle, 9000, &[1; 5000], false), Ok(1000));
        assert_eq!(i.volume.write(opened.handle, 10_000, &[1], false), Err(FsError::FileTooLarge));
        let grow = SetAttr { size: Some(10_001), ..SetAttr::default() };
        assert_eq!(i.volume.setattr(me(), attr.ino, None, &grow), Err(FsError::FileTooLarge));
        let allocate = i.volume.fallocate(opened.handle, 0, 10_001, FallocateMode::ALLOCATE);
        assert_eq!(allocate, Err(FsError::FileTooLarge));
        i.volume.release(opened.handle).unwrap();
        i.write_file("g", b"");
        // The count is of files created, it survives, and what fails does not count.
        i.volume.unlink(me(), Ino::ROOT, OsStr::new("g")).unwrap();
        i = i.reopen();
        assert_eq!(i.volume.counters().files_created, 2);
        let again = i.volume.mknod(me(), Ino::ROOT, OsStr::new("f"), 0o100_644, 0);
        assert_eq!(again, Err(FsError::Exists));
        i.write_file("h", b"");
        let flags = OpenFlags::READ_WRITE;
        let fourth = i.volume.create(me(), Ino::ROOT, OsStr::new("i"), 0o644, flags);
        assert_eq!(fourth.err(), Some(FsError::TooManyFiles));
        i.volume.mkdir(me(), Ino::ROOT, OsStr::new("d"), 0o755).unwrap();
    }
}

#[test]
fn a_replaced_file_gives_its_space_when_it_is_needed() {
    for shape in shapes() {
        let i = Instance::new(shape);
        let data = pattern(1, CAPACITY as usize * 3 / 4);
        i.write_file("f", &data);
        i.write_file("next", b"");
        // The number of the old file is still held when its space is asked for.
        let (from, to) = (OsStr::new("next"), OsStr::new("f"));
        i.volume.rename(me(), Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).unwrap();
        let (_, opened) = i.create("g");
        assert_eq!(i.volume.write(opened.handle, 0, &data, false), Ok(data.len()));
        assert_eq!(read_all(&i.volume, opened.handle), data);
    }
}

/// One step in the life of a full instance.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64),
    Cut(u64),
    Punch(u64, u64),
    Allocate(u64, u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0u64..150_000, 1u64..60_000);
    let step = prop_oneof![
        6 => range().prop_map(|(offset, len)| Step::Write(offset, len)),
        1 => (0u64..150_000).prop_map(Step::Cut),
        2 => range().prop_map(|(offset, len)| Step::Punch(offset, len)),
        1 => range().prop_map(|(offset, len)| Step::Allocate(offset, len)),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a vector of bytes, with an instance that holds less than the file wants: never above the capacity,
    /// never wrong, and a write of what is stored never fails.
    #[test]
    fn a_small_instance_is_a_vector_of_bytes(steps in steps(), striped in any::<bool>()) {
        const SMALL: u64 = 96 << 10;
        let shape = if striped { Shape::striped().metered(SMALL / 4) } else { Shape::inline().metered(SMALL) };
        let mut i = Instance::new(shape);
        i.write_file("f", b"");
        let mut model: Vec<u8> = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            let attr = i.volume.lookup(me(), Ino::ROOT, OsStr::new("f")).unwrap();
            let h = i.volume.open(me(), attr.ino, OpenFlags::READ_WRITE).unwrap().handle;
            match step {
                Step::Write(offset, len) => {
                    let data = pattern(n as u64, len as usize);
                    let written = match i.volume.write(h, offset, &data, false) {
                        Ok(written) => written,
                        Err(error) => {
                            prop_assert_eq!(error, FsError::NoSpace);
                            0
                        }
                    };
                    if written > 0 {
                        let end = offset as usize + written;
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].copy_from_slice(&data[..written]);
                        // The same place again needs no space.
                        prop_assert_eq!(i.volume.write(h, offset, &data[..written], false), Ok(written));
                    }
                }
                Step::Cut(size) => {
                    let cut = SetAttr { size: Some(size), ..SetAttr::default() };
                    i.volume.setattr(me(), attr.ino, Some(h), &cut).unwrap();
                    model.resize(size as usize, 0);
                }
                Step::Punch(offset, len) => {
                    let mode = FallocateMode::PUNCH_HOLE.with(FallocateMode::KEEP_SIZE);
                    i.volume.fallocate(h, offset, len, mode).unwrap();
                    let end = model.len().min((offset + len) as usize);
                    let start = end.min(offset as usize);
                    model[start..end].fill(0);
                }
                Step::Allocate(offset, len) => {
                    match i.volume.fallocate(h, offset, len, FallocateMode::ALLOCATE) {
                        Ok(()) => model.resize(model.len().max((offset + len) as usize), 0),
                        Err(error) => prop_assert_eq!(error, FsError::NoSpace),
                    }
                }
                Step::Reopen => {}
            }
            prop_assert!(i.used() <= SMALL);
            prop_assert_eq!(read_all(&i.volume, h), &model[..]);
            prop_assert_eq!(i.volume.getattr(attr.ino, None).unwrap().size, model.len() as u64);
            i.volume.release(h).unwrap();
            i.volume.forget(attr.ino, 1);
            if matches!(step, Step::Reopen) {
                let used = i.used();
                i = if n % 2 == 0 { i.reopen() } else { i.reopen_uncleanly() };
                prop_assert_eq!(i.used(), used);
            }
        }
        i.volume.unlink(me(), Ino::ROOT, OsStr::new("f")).unwrap();
        prop_assert_eq!(i.used(), 0);
    }
}

#[test]
fn all_of_it_without_privilege() {
    again_without_privilege("");
}
