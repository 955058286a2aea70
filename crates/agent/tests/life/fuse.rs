//! DWFS through FUSE, as root.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use crate::{leaks, roles};
use forebay_agent::{Agent, AgentError, Attachment, Serving, StageError, StageTask, Unmounted};
use forebay_model::ids::ConfigurationId;
use forebay_model::units::{Bytes, MIB};
use forebay_stager::{CancelToken, Direction, StageOptions};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

const PLAIN: Serving = Serving::Fuse { passthrough: false };
const PASSTHROUGH: Serving = Serving::Fuse { passthrough: true };

fn attached(scene: &Scene, fragments: u64) -> (Agent, Attachment) {
    let wanted = if fragments == 1 { Some(PASSTHROUGH) } else { None };
    scene.attached(fragments, 40 * MIB, wanted)
}

#[test]
fn lives_and_leaves_nothing() {
    for fragments in [1, 3] {
        let scene = Scene::new();
        let (agent, mut attachment) = attached(&scene, fragments);
        assert_eq!(attachment.serving(), PASSTHROUGH, "the fastest way for {fragments} fragments");
        let mount = attachment.mount(CONFIGURATION).unwrap();
        fs::create_dir(mount.join("sub")).unwrap();
        fs::write(mount.join("sub/result"), "42").unwrap();
        assert_eq!(attachment.unmount(CONFIGURATION).unwrap(), Unmounted::Clean);
        assert!(!mount.exists());
        attachment.detach().unwrap();
        scene.assert_nothing_lives();
        let mut again = agent.attach(INSTANCE).unwrap();
        let mount = again.mount(CONFIGURATION).unwrap();
        assert_eq!(fs::read_to_string(mount.join("sub/result")).unwrap(), "42");
        assert!(matches!(agent.destroy_instance(INSTANCE), Err(AgentError::InUse { .. })));
        again.detach().unwrap();
        agent.destroy_instance(INSTANCE).unwrap();
        scene.assert_nothing_is_left();
    }
}

#[test]
fn staged_data_is_right_in_both_directions() {
    for fragments in [1, 3] {
        let scene = Scene::new();
        let (_agent, mut attachment) = attached(&scene, fragments);
        crate::scene_stage(&scene, &mut attachment);
    }
}

#[test]
fn the_size_is_hard_and_shown() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(2, 30 * MIB, Some(PLAIN));
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let space = rustix::fs::statvfs(&mount).unwrap();
    assert!(space.f_bavail * space.f_frsize >= 60 * MIB);
    assert!(space.f_bavail * space.f_frsize <= 90 * MIB);
    let mut file = File::create(mount.join("large")).unwrap();
    let piece = vec![1; MIB as usize];
    let mut written = 0;
    let refused = loop {
        match file.write_all(&piece) {
            Ok(()) => written += MIB,
            Err(error) => break error,
        }
        assert!(written < 120 * MIB, "no limit");
    };
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!(written >= 56 * MIB, "only {written} fitted");
    let full = attachment.usage().unwrap();
    assert_eq!(full.capacity, Bytes(60 * MIB));
    assert!(full.used.0 > 50 * MIB, "{full:?}");
    assert!(full.bytes_written.unwrap().0 >= written, "{full:?}");
    assert_eq!(full.files_created, Some(1));
}

#[test]
fn two_attachments_share_one_process_and_the_last_one_ends_it() {
    let scene = Scene::new();
    let (agent, mut first) = attached(&scene, 2);
    let mut second = agent.attach(INSTANCE).unwrap();
    let processes = leaks::of(scene.root()).iter().filter(|leak| leak.starts_with("process")).count();
    assert_eq!(processes, 1, "{:?}", leaks::of(scene.root()));
    let mount = first.mount(CONFIGURATION).unwrap();
    assert_eq!(second.mount(CONFIGURATION).unwrap(), mount);
    fs::write(mount.join("shared"), "x").unwrap();
    assert_eq!(first.unmount(CONFIGURATION).unwrap(), Unmounted::Shared);
    first.detach().unwrap();
    assert_eq!(fs::read_to_string(mount.join("shared")).unwrap(), "x", "the second one still uses it");
    second.detach().unwrap();
    scene.assert_nothing_lives();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn two_configurations_are_two_trees_over_one_space() {
    let scene = Scene::new();
    let agent = scene.agent();
    let mut description = scene.description(2, 40 * MIB);
    let mut other = description.configurations[0].clone();
    (other.id, other.mount, other.max_file_size) =
        (ConfigurationId(8), scene.path("mounts/private"), Some(Bytes(MIB)));
    description.configurations.push(other);
    agent.create_instance(&description, None).unwrap();
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let striped = attachment.mount(CONFIGURATION).unwrap();
    let private = attachment.mount(ConfigurationId(8)).unwrap();
    fs::write(striped.join("a"), vec![1; 2 << 20]).unwrap();
    assert!(!private.join("a").exists());
    let refused = fs::write(private.join("b"), vec![1; 2 << 20]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    assert!(matches!(attachment.mount(ConfigurationId(9)), Err(AgentError::UnknownConfiguration { .. })));
    attachment.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn a_busy_mount_leaves_the_tree_and_names_its_users() {
    let scene = Scene::new();
    let (agent, mut attachment) = attached(&scene, 2);
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let mut open = File::create(mount.join("open")).unwrap();
    open.write_all(b"before").unwrap();
    crate::assert_held_by_me(&attachment.unmount(CONFIGURATION).unwrap());
    assert!(!mount.join("open").exists());
    open.write_all(b" and after").unwrap();
    attachment.detach().unwrap();
    drop(open);
    let mut again = agent.attach(INSTANCE).unwrap();
    let mount = again.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(mount.join("open")).unwrap(), "before and after");
    again.detach().unwrap();
    scene.assert_nothing_lives();
}

/// The instance process of a scene.
fn instance_process(scene: &Scene) -> i32 {
    let text = fs::read_to_string(scene.agent().directory(INSTANCE).join("process")).unwrap();
    text.trim().parse().unwrap()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn killed_under_load_the_error_says_so_and_the_data_is_there() {
    let scene = Scene::new();
    let (agent, mut attachment) = attached(&scene, 3);
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = Vec::new();
            for number in 0u32.. {
                let content = vec![number as u8; 300_000];
                if fs::write(mount.join(format!("{}", number % 20)), &content).is_err() {
                    break;
                }
                written.push((number % 20, content[0]));
                if number == 5 {
                    stop.store(true, Ordering::Release);
                }
            }
            written
        });
        while !stop.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        kill(instance_process(&scene));
        writer.join().unwrap()
    });
    assert!(written.len() > 5);
    // What it would have said, had it not been killed.
    let log = scene.agent().directory(INSTANCE).join("log");
    let mut words = fs::OpenOptions::new().append(true).open(log).unwrap();
    words.write_all(b"the last words\n").unwrap();
    let error = attachment.usage().unwrap_err();
    assert!(matches!(&error, AgentError::ProcessDied { .. }), "{error}");
    let text = error.to_string();
    assert!(text.ends_with("it said: the last words"), "{text}");
    assert!(!text.contains(scene.root().to_str().unwrap()), "no path that goes with the instance: {text}");
    assert!(matches!(attachment.unmount(CONFIGURATION), Err(AgentError::ProcessDied { .. })));
    attachment.detach().unwrap_err();
    scene.assert_nothing_lives();

    let mut again = agent.attach(INSTANCE).unwrap();
    let mount = again.mount(CONFIGURATION).unwrap();
    let latest: std::collections::BTreeMap<u32, u8> = written.into_iter().collect();
    let torn = latest.iter().filter(|(name, byte)| {
        let content = fs::read(mount.join(name.to_string())).unwrap();
        content.len() != 300_000 || content.iter().any(|found| found != *byte)
    });
    // At most the one file that was being written when the process was killed is not as it was last reported.
    assert!(torn.count() <= 1);
    again.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn killed_while_staging_the_staging_fails_and_nothing_hangs() {
    let scene = Scene::new();
    let (agent, attachment) = attached(&scene, 2);
    fs::create_dir(scene.path("pfs")).unwrap();
    for number in 0..40 {
        fs::write(scene.path(&format!("pfs/{number}")), vec![number; 1 << 20]).unwrap();
    }
    // Slow enough to be met in the middle.
    let options = StageOptions {
        bytes_per_second_max: Some(4 << 20),
        progress_interval_ms: 10,
        ..StageOptions::default()
    };
    let task = StageTask::directory(CONFIGURATION, Direction::In, &scene.path("pfs"), b"", options);
    let killed = AtomicBool::new(false);
    let progress = |snapshot: forebay_stager::StageProgress| {
        if snapshot.bytes_done > 0 && !killed.swap(true, Ordering::AcqRel) {
            kill(instance_process(&scene));
        }
    };
    let failed = attachment.stage(&task, &progress, &CancelToken::new()).unwrap_err();
    assert!(matches!(failed, StageError::Agent(AgentError::ProcessDied { .. })), "{failed}");
    attachment.detach().unwrap_err();
    let again = agent.attach(INSTANCE).unwrap();
    let options = StageOptions::default();
    let task = StageTask::directory(CONFIGURATION, Direction::In, &scene.path("pfs"), b"", options);
    again.stage(&task, &|_| (), &CancelToken::new()).unwrap();
    again.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_lives();
}

#[test]
fn a_running_staging_can_be_stopped() {
    let scene = Scene::new();
    let (_agent, attachment) = attached(&scene, 2);
    fs::create_dir(scene.path("pfs")).unwrap();
    fs::write(scene.path("pfs/large"), vec![7; 30 << 20]).unwrap();
    let options = StageOptions {
        bytes_per_second_max: Some(1 << 20),
        progress_interval_ms: 10,
        ..StageOptions::default()
    };
    let task = StageTask::file(CONFIGURATION, Direction::In, &scene.path("pfs/large"), b"", options);
    let cancel = CancelToken::new();
    let progress = |_| cancel.cancel();
    let stopped = attachment.stage(&task, &progress, &cancel).unwrap_err();
    let StageError::Failed(failure) = stopped else { panic!("{stopped}") };
    assert!(failure.is_cancelled());
    attachment.usage().unwrap();
    attachment.detach().unwrap();
    scene.assert_nothing_lives();
}

#[test]
fn an_instance_process_without_attachments_ends_by_itself() {
    let scene = Scene::new();
    let mut role = roles::start(&scene, &["steps", scene.root().to_str().unwrap(), "fuse", "write"]);
    role.wait_for("write");
    let process = instance_process(&scene);
    role.kill();
    let begin = std::time::Instant::now();
    while std::path::Path::new(&format!("/proc/{process}/fd")).read_dir().is_ok_and(|fds| fds.count() > 0) {
        assert!(begin.elapsed().as_secs() < 60, "the process goes on");
        std::thread::yield_now();
    }
    // It has unmounted what it served; the rest is for the clean-up.
    assert!(
        !leaks::of(scene.root()).iter().any(|leak| leak.contains("mounts/striped")),
        "{:?}",
        leaks::of(scene.root())
    );
    scene.agent().clean_stale(INSTANCE).unwrap();
    scene.assert_nothing_lives();
    scene.agent().destroy_instance(INSTANCE).unwrap();
}

#[test]
fn a_program_that_is_no_instance_process_is_reported() {
    let scene = Scene::new();
    let agent = scene.agent().with_program("/bin/false".into());
    agent.create_instance(&scene.description(2, 40 * MIB), None).unwrap();
    let Err(error) = agent.attach(INSTANCE) else { panic!("attached without a process") };
    assert!(matches!(error, AgentError::ProcessDied { .. }), "{error}");
    scene.assert_nothing_lives();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}
