//! Life cycles, crashes and limits of instances, with real loop devices, mounts and processes.
//!
//! Run as root; the parts for ordinary users run this program again as uid 65534. Roles other than that of a test (the
//! instance process, a process to be killed, an ordinary user) are played by this program too: see [`roles`].

mod crash;
mod direct;
mod fuse;
mod leaks;
mod ordinary;
mod plain;
mod role_program;
mod roles;
mod scene;

use forebay_agent::{Attachment, StageTask, Unmounted};
use forebay_stager::{CancelToken, Direction, StageOptions};
use scene::{CONFIGURATION, Scene};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

/// The mount was in use, and this process is named.
fn assert_held_by_me(unmounted: &Unmounted) {
    let Unmounted::Lazy { holders } = unmounted else { panic!("{unmounted:?}") };
    assert_eq!(holders.processes, [std::process::id()], "{holders:?}");
}

/// Stages a tree in, looks at it through the mount, changes it there, stages it out and compares.
fn scene_stage(scene: &Scene, attachment: &mut Attachment) {
    let (source, back) = (scene.path("pfs/source"), scene.path("pfs/back"));
    fs::create_dir_all(source.join("sub/empty")).unwrap();
    let large: Vec<u8> = (0..5_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(source.join("large"), &large).unwrap();
    fs::write(source.join("changing"), "old").unwrap();
    fs::write(source.join("sub/script.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(source.join("sub/script.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("sub/script.sh", source.join("link")).unwrap();
    fs::hard_link(source.join("large"), source.join("sub/same")).unwrap();
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 3 << 20).unwrap();

    let stage = |attachment: &Attachment, direction, pfs: &std::path::Path, inside: &[u8]| {
        let task = StageTask::directory(CONFIGURATION, direction, pfs, inside, StageOptions::default());
        attachment.stage(&task, &|_| (), &CancelToken::new()).unwrap()
    };
    let report = stage(attachment, Direction::In, &source, b"in/here");
    assert_eq!((report.files, report.hard_links, report.symlinks), (4, 1, 1), "{report:?}");
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let here = mount.join("in/here");
    assert!(fs::read(here.join("large")).unwrap() == large, "the mount shows what was staged");
    assert_eq!(fs::metadata(here.join("link")).unwrap().permissions().mode() & 0o7777, 0o750);
    fs::write(here.join("result"), "made by the job").unwrap();
    // Changed beside a living mount, whose kernel remembers names, attributes and pages: it must show it at once.
    fs::write(source.join("late"), "late").unwrap();
    assert!(!here.join("late").exists());
    assert_eq!(fs::read_to_string(here.join("changing")).unwrap(), "old");
    fs::write(source.join("changing"), "new and longer").unwrap();
    stage(attachment, Direction::In, &source, b"in/here");
    assert_eq!(fs::metadata(here.join("changing")).unwrap().len(), 14);
    assert_eq!(fs::read_to_string(here.join("changing")).unwrap(), "new and longer");
    assert_eq!(fs::read_to_string(here.join("late")).unwrap(), "late");

    stage(attachment, Direction::Out, &back, b"in/here");
    assert!(fs::read(back.join("large")).unwrap() == large);
    assert_eq!(fs::read_to_string(back.join("result")).unwrap(), "made by the job");
    assert_eq!(fs::read_link(back.join("link")).unwrap().to_str(), Some("sub/script.sh"));
    assert!(back.join("sub/empty").is_dir());
    let mut sparse = vec![0; 3 << 20];
    sparse.extend_from_slice(b"end");
    assert!(fs::read(back.join("sparse")).unwrap() == sparse);
}
