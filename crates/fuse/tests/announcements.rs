//! Changes made through the volume beside the mount are seen at once when they are announced.

mod support;

use forebay_client::Volume;
use forebay_fuse::{CachePolicy, MountOptions, Mounted, mount};
use forebay_model::layout::LayoutChoice;
use forebay_server::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, SpaceRule};
use forebay_wire::{Caller, Ino, OpenFlags, RenameMode, SetAttr};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const ROOT: Caller = Caller { uid: 0, gid: 0, pid: 0 };
const SOMEBODY: u32 = 5001;

fn mounted(cache: CachePolicy) -> (TempDir, Arc<Volume>, Mounted) {
    support::isolation::enter();
    let directory = tempfile::tempdir().unwrap();
    let (root, point) = (directory.path().join("fragment"), directory.path().join("mnt"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&point).unwrap();
    let fragments = Fragments::open(&[FragmentSpec { root, space: SpaceRule::Hard }]).unwrap();
    let spec =
        NamespaceSpec { name: "c1".into(), layout: LayoutChoice::default(), limits: Limits::default() };
    let services = fragments.namespace(&spec).unwrap();
    let volume = Arc::new(Volume::new(services.metadata, services.data));
    let change = SetAttr { uid: Some(SOMEBODY), gid: Some(SOMEBODY), ..SetAttr::default() };
    volume.setattr(ROOT, Ino::ROOT, None, &change).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let options = MountOptions { cache, allow_other: true, ..MountOptions::named("announcements") };
    let mounted = mount(Arc::clone(&volume), &point, &options).unwrap();
    (directory, volume, mounted)
}

fn put(volume: &Volume, name: &str, text: &[u8]) -> Ino {
    let (attr, opened) =
        volume.create(ROOT, Ino::ROOT, OsStr::new(name), 0o644, OpenFlags::READ_WRITE).unwrap();
    assert_eq!(volume.write(opened.handle, 0, text, false).unwrap(), text.len());
    volume.release(opened.handle).unwrap();
    attr.ino
}

#[test]
fn announced_changes_are_seen_at_once() {
    let (_directory, volume, mounted) = mounted(CachePolicy::SoleOwner);
    let path = |name: &str| mounted.mountpoint().join(name);
    let ino = put(&volume, "file", b"one");
    assert_eq!(fs::read(path("file")).unwrap(), b"one");
    assert_eq!(fs::metadata(path("file")).unwrap().len(), 3);

    put(&volume, "file", b"longer than before");
    mounted.kernel_cache().changed(ino).unwrap();
    assert_eq!(fs::metadata(path("file")).unwrap().len(), 18);
    assert_eq!(fs::read(path("file")).unwrap(), b"longer than before");

    put(&volume, "new", b"new");
    volume
        .rename(ROOT, Ino::ROOT, OsStr::new("new"), Ino::ROOT, OsStr::new("file"), RenameMode::Replace)
        .unwrap();
    mounted.kernel_cache().name_changed(Ino::ROOT, OsStr::new("file")).unwrap();
    assert_eq!(fs::read(path("file")).unwrap(), b"new");
    assert_eq!(fs::metadata(path("file")).unwrap().len(), 3);
}

#[test]
fn nothing_needs_announcing_when_the_kernel_keeps_nothing() {
    let (_directory, volume, mounted) = mounted(CachePolicy::Revalidate);
    let path = |name: &str| mounted.mountpoint().join(name);
    put(&volume, "file", b"one");
    assert_eq!(fs::metadata(path("file")).unwrap().len(), 3);
    put(&volume, "file", b"longer than before");
    assert_eq!(fs::metadata(path("file")).unwrap().len(), 18);
    put(&volume, "new", b"new");
    volume
        .rename(ROOT, Ino::ROOT, OsStr::new("new"), Ino::ROOT, OsStr::new("file"), RenameMode::Replace)
        .unwrap();
    assert_eq!(fs::read(path("file")).unwrap(), b"new");
}

/// Announces without a pause that the root changed, for as long as `work` takes.
fn while_the_root_is_announced<T>(mounted: &Mounted, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let announcing = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                mounted.kernel_cache().attributes_changed(Ino::ROOT).unwrap();
            }
        });
        let done = std::panic::catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        announcing.join().unwrap();
        done.unwrap()
    })
}

#[test]
fn the_first_who_comes_finds_the_root_with_its_permissions_whatever_is_announced() {
    for _ in 0..20 {
        let (_directory, _volume, mounted) = mounted(CachePolicy::AsAnswered);
        let mut touch = Command::new("touch");
        touch.arg(mounted.mountpoint().join("file")).uid(SOMEBODY).gid(SOMEBODY);
        let made = while_the_root_is_announced(&mounted, || touch.output().unwrap());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}
