//! An ordinary user (uid 65534): directories as fragments, FUSE through the mount helper.
//!
//! The parts run in a process of that user, which is this program again, in a mount namespace of its own, in which
//! `/dev/fuse` has the mode that udev gives it (0666): machines without udev keep it closed.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use crate::{leaks, role_program, roles};
use forebay_agent::{Serving, Unmounted};
use forebay_model::units::{Bytes, MIB};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

const NOBODY: u32 = 65534;
/// Opens the device within the namespace and becomes the user.
const NAMESPACE: &str = r#"set -e
mount -t tmpfs none "$1"
mknod "$1/fuse" c 10 229
chmod 666 "$1/fuse"
mount --bind "$1/fuse" /dev/fuse
umount -l "$1"
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@""#;

/// Runs a part as the ordinary user in a scene of theirs.
fn run(part: &str) {
    let scene = Scene::new();
    let root = scene.root().to_str().unwrap();
    // The build directory may be closed to others.
    fs::copy(std::env::current_exe().unwrap(), scene.path("life")).unwrap();
    chown(scene.root(), Some(NOBODY), Some(NOBODY)).unwrap();
    let program = role_program::script(scene.root(), &scene.path("life"), roles::WORDS);
    let device = scene.path("device");
    fs::create_dir(&device).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", NAMESPACE, "sh"])
        .arg(&device)
        .arg(program)
        .args(["ordinary", root, part])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("part {part} done")), "{said}");
    scene.assert_nothing_lives();
}

/// What the process does.
pub fn play(root: &Path, part: &str) -> ExitCode {
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    let scene = Scene::visit(root);
    match part {
        "life" => life(&scene),
        "size" => size(&scene),
        "staging" => staging(&scene),
        "crash" => crash(&scene),
        "closed" => closed(&scene),
        other => panic!("unknown part {other}"),
    }
    println!("part {part} done");
    ExitCode::SUCCESS
}

#[test]
fn lives_and_leaves_nothing() {
    run("life");
}

fn life(scene: &Scene) {
    let agent = scene.agent();
    let missing = agent.capabilities().missing();
    assert!(
        missing.iter().any(|(name, lack)| name.contains("images") && lack.to_string() == "not run as root")
    );
    let serving = agent.create_instance(&scene.description(3, 40 * MIB), None).unwrap();
    assert_eq!(serving, Serving::Fuse { passthrough: false });
    assert_eq!(serving.not_enforced(), [""; 0]);
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let mut second = agent.attach(INSTANCE).unwrap();
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let meta = fs::metadata(&mount).unwrap();
    assert_eq!((meta.permissions().mode() & 0o7777, meta.uid()), (0o755, NOBODY));
    fs::write(mount.join("result"), "42").unwrap();
    second.mount(CONFIGURATION).unwrap();
    assert_eq!(attachment.unmount(CONFIGURATION).unwrap(), Unmounted::Shared);
    attachment.detach().unwrap();
    let open = File::open(mount.join("result")).unwrap();
    crate::assert_held_by_me(&second.unmount(CONFIGURATION).unwrap());
    drop(open);
    second.detach().unwrap();
    scene.assert_nothing_lives();
    let mut again = agent.attach(INSTANCE).unwrap();
    assert_eq!(fs::read_to_string(again.mount(CONFIGURATION).unwrap().join("result")).unwrap(), "42");
    again.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    assert_eq!(agent.instances().unwrap(), []);
    assert!(!scene.path("pool0/fragment").exists() && !mount.exists());
}

#[test]
fn the_size_is_counted_and_shown() {
    run("size");
}

fn size(scene: &Scene) {
    let (agent, mut attachment) = scene.attached(2, 20 * MIB, None);
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let space = rustix::fs::statvfs(&mount).unwrap();
    let free = space.f_bavail * space.f_frsize;
    assert!((38 * MIB..=40 * MIB).contains(&free), "{free}");
    let mut file = File::create(mount.join("large")).unwrap();
    let mut written = 0;
    let refused = loop {
        match file.write_all(&[1; 1 << 20]) {
            Ok(()) => written += MIB,
            Err(error) => break error,
        }
        assert!(written < 80 * MIB, "no limit");
    };
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!((36 * MIB..=40 * MIB).contains(&written), "{written}");
    let usage = attachment.usage().unwrap();
    assert_eq!(usage.capacity, Bytes(40 * MIB));
    assert!(usage.bytes_written.unwrap().0 >= written, "{usage:?}");
    drop(file);
    attachment.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
}

#[test]
fn staged_data_is_right_in_both_directions() {
    run("staging");
}

fn staging(scene: &Scene) {
    let (agent, mut attachment) = scene.attached(3, 40 * MIB, None);
    crate::scene_stage(scene, &mut attachment);
    attachment.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
}

#[test]
fn killed_and_cleaned() {
    run("crash");
}

fn crash(scene: &Scene) {
    let mut role = roles::start(scene, &["steps", scene.root().to_str().unwrap(), "fuse", "write"]);
    role.wait_for("write");
    role.kill();
    let agent = scene.agent();
    agent.clean_stale(INSTANCE).unwrap();
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let mount = attachment.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(mount.join("data")).unwrap(), "written before the crash");
    // The process is killed too: the mount is dead and removed through the helper.
    let text = fs::read_to_string(agent.directory(INSTANCE).join("process")).unwrap();
    let pid = rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    attachment.detach().unwrap_err();
    assert!(
        !leaks::of(scene.root()).iter().any(|leak| leak.starts_with("mount")),
        "{:?}",
        leaks::of(scene.root())
    );
    agent.destroy_instance(INSTANCE).unwrap();
    assert_eq!(agent.instances().unwrap(), []);
}

#[test]
fn a_tree_closed_by_its_owner_is_removed_all_the_same() {
    run("closed");
}

fn closed(scene: &Scene) {
    let (agent, mut attachment) = scene.attached(1, 20 * MIB, Some(Serving::PlainDirectory));
    let path = attachment.mount(CONFIGURATION).unwrap();
    fs::create_dir_all(path.join("a/b")).unwrap();
    fs::write(path.join("a/b/c"), "x").unwrap();
    for closed in ["a/b", "a"] {
        fs::set_permissions(path.join(closed), fs::Permissions::from_mode(0o500)).unwrap();
    }
    attachment.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    assert!(!scene.path("pool0/fragment").exists());
}
