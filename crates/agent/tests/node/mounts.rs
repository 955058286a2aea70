//! Mounts that somebody uses, that died, and that are somebody else's.

use crate::leaks;
use crate::scene::*;
use crate::stuck::Stuck;
use forebay_agent::daemon::{AgentConfig, Holding, StorageKind, TaskError};
use forebay_model::ids::ActivationId;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ACTIVATION: ActivationId = ActivationId(1);

/// A process that works in the mount.
fn holder(directory: &str) -> Child {
    let mut command = Command::new("sh");
    // It does not end when it is asked to.
    command.args(["-c", "trap '' TERM; while :; do sleep 1; done"]).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// A process that has mapped a file of the mount, and nothing else of it.
fn mapper(directory: &str) -> Child {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut libraries = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let library = libraries.find(|path| path.contains("libgcc_s") || path.contains("libm")).expect("one");
    let mapped = Path::new(directory).join("mapped.so");
    fs::copy(library, &mapped).unwrap();
    let child = Command::new("sleep").arg("1000").env("LD_PRELOAD", &mapped).spawn().unwrap();
    let of_it = |what| fs::read_to_string(format!("/proc/{}/{what}", child.id())).unwrap_or_default();
    // While it is loaded it needs the mount: once that is dead a look at a page not seen before ends a process.
    let sleeps = format!("{} ", libc::SYS_clock_nanosleep);
    wait_until("it is mapped, and all loaded", || {
        of_it("maps").contains("mapped.so") && of_it("syscall").starts_with(&sleeps)
    });
    child
}

/// Whether they have ended; then they have.
fn ended(processes: Vec<Child>) -> Vec<bool> {
    let end = |mut one: Child| {
        let is_ended = one.try_wait().unwrap().is_some();
        let _ = one.kill();
        one.wait().unwrap();
        is_ended
    };
    processes.into_iter().map(end).collect()
}

#[test]
fn all_who_use_a_mount_are_ended_however_many_and_by_whatever_they_do() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
    let mut users: Vec<Child> = (0..70).map(|_| holder(&point)).collect();
    users.push(mapper(&point));
    node.unmount(ACTIVATION).unwrap();
    assert_eq!(ended(users), [true; 71]);
    assert!(!Path::new(&point).exists());
    scene.tear_down(INSTANCE);
}

#[test]
fn who_uses_a_mount_at_its_end_is_ended() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
    let mut holder = holder(&point);
    node.unmount(ACTIVATION).unwrap();
    let is_ended = holder.try_wait().unwrap().is_some();
    let _ = holder.kill();
    holder.wait().unwrap();
    assert!(is_ended, "it goes on");
    assert!(!Path::new(&point).exists());
    assert!(leaks::with(&scene.path("state2"), "mount").is_empty(), "its process has ended");
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

/// The kernel lets nobody end who waits for an answer of a mount, not even by a kill.
#[test]
fn who_waits_for_a_process_that_cannot_end_is_ended_too() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
    let mut stuck = Stuck::instead_of_mount(&scene, "state2", &point);
    node.unmount(ACTIVATION).unwrap();
    wait_until("it has ended", || stuck.waiting.try_wait().unwrap().is_some());
    assert!(!Path::new(&point).exists());
    scene.tear_down(INSTANCE);
}

#[test]
fn or_left_where_that_is_configured() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let config = AgentConfig { holders: Holding::Leave, ..scene.config(2) };
    let (node, point) = (scene.node_with(config), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    let mut holder = holder(&point);
    node.unmount(ACTIVATION).unwrap();
    assert!(holder.try_wait().unwrap().is_none(), "it goes on");
    assert!(!Path::new(&point).exists(), "the path is free");
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    fs::write(Path::new(&point).join("file"), "x").unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    node.unmount(ACTIVATION).unwrap();
    wait_until("the processes end", || leaks::with(&scene.path("state2"), "mount").is_empty());
    scene.tear_down(INSTANCE);
}

#[test]
fn a_mount_whose_process_died_is_not_held_and_made_again() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    fs::write(Path::new(&point).join("file"), "x").unwrap();
    leaks::kill_with(&scene.path("state2"), "mount");
    let held = node.held_mounts().unwrap();
    assert!(held.is_empty(), "{held:?} by {:?}", leaks::with(&scene.path("state2"), "mount"));
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    assert_eq!(fs::read_to_string(Path::new(&point).join("file")).unwrap(), "x");
    leaks::kill_with(&scene.path("state2"), "mount");
    node.unmount(ACTIVATION).unwrap();
    assert!(!Path::new(&point).exists());
    scene.tear_down(INSTANCE);
}

/// With the mount still at its path, and after another one has taken its place.
#[test]
fn who_is_in_a_dead_mount_is_ended_too() {
    for again in [false, true] {
        let scene = Scene::new(StorageKind::Directory);
        scene.set_up(INSTANCE);
        let (node, point) = (scene.node(2), scene.mount_point("1"));
        let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
        node.mount(ACTIVATION, &point, &target, &token).unwrap();
        let mut inside = holder(&point);
        let file = fs::File::create(Path::new(&point).join("open")).unwrap();
        let mut reader = Command::new("sh");
        reader.args(["-c", "trap '' TERM; while :; do sleep 1; done"]).stdin(Stdio::from(file));
        let reader = reader.spawn().unwrap();
        let mut mapper = mapper(&point);
        // One that has nothing to do with it.
        let other = holder("/");
        leaks::kill_with(&scene.path("state2"), "mount");
        if again {
            node.mount(ACTIVATION, &point, &target, &token).unwrap();
            fs::write(Path::new(&point).join("file"), "x").unwrap();
            for one in [&mut inside, &mut mapper] {
                assert_eq!(one.try_wait().unwrap(), None, "the activation has not ended");
            }
        }
        node.unmount(ACTIVATION).unwrap();
        let all = ended(vec![inside, reader, mapper, other]);
        assert_eq!(all, [true, true, true, false], "mounted again: {again}");
        assert!(!Path::new(&point).exists());
        scene.tear_down(INSTANCE);
    }
}

/// The kernel gives the number of a mount that nobody keeps to the next one.
#[test]
fn who_is_in_a_mount_of_others_that_is_gone_goes_on() {
    const OTHERS: usize = 16;
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    let inside = |place: &str| Command::new("sleep").arg("1000").current_dir(place).spawn().unwrap();
    let leaves = inside(&point);
    leaks::kill_with(&scene.path("state2"), "mount");
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    ended(vec![leaves]);
    let other = |number| {
        let place = scene.path(&format!("other{number}"));
        fs::create_dir(&place).unwrap();
        let is_done = |command: &mut Command| command.arg(&place).status().unwrap().success();
        assert!(is_done(Command::new("mount").args(["-t", "tmpfs", "none"])));
        let one = inside(place.to_str().unwrap());
        assert!(is_done(Command::new("umount").arg("--lazy")));
        one
    };
    let others: Vec<Child> = (0..OTHERS).map(other).collect();
    node.unmount(ACTIVATION).unwrap();
    assert_eq!(ended(others), [false; OTHERS]);
    scene.tear_down(INSTANCE);
}

#[test]
fn or_left_in_it() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let config = AgentConfig { holders: Holding::Leave, ..scene.config(2) };
    let (node, point) = (scene.node_with(config), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    let mut holder = holder(&point);
    leaks::kill_with(&scene.path("state2"), "mount");
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    node.unmount(ACTIVATION).unwrap();
    let is_left = holder.try_wait().unwrap().is_none();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(is_left);
    scene.tear_down(INSTANCE);
}

#[test]
fn a_log_that_grows_too_large_is_turned_while_its_process_runs() {
    use std::io::{Read, Write};
    const LARGE: usize = (1 << 20) + 1;
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let server = scene.path("state0/server");
    let complain = |word: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(server.join("control")).unwrap();
        writeln!(stream, "{{\"{word}\"}}").unwrap();
        let _ = stream.read(&mut [0]);
    };
    let words = |name: &str| fs::read_to_string(server.join(name)).unwrap_or_default();
    complain("first");
    wait_until("it is said", || words("log").contains("control: "));
    for turn in 1..7 {
        let mut log = fs::OpenOptions::new().append(true).open(server.join("log")).unwrap();
        log.write_all(format!("{turn}{}\n", "x".repeat(LARGE)).as_bytes()).unwrap();
        wait_until("it is turned", || {
            fs::metadata(server.join("log")).is_ok_and(|log| log.len() < LARGE as u64)
        });
        complain("more");
        wait_until("the new one is written", || words("log").contains("control: "));
    }
    let mut names: Vec<String> = fs::read_dir(&server)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.starts_with("log"));
    names.sort();
    assert_eq!(names, ["log", "log.1", "log.2", "log.3", "log.4"]);
    assert!(words("log.1").contains("6xxx") && words("log.4").contains("3xxx"));
    scene.tear_down(INSTANCE);
}

#[test]
fn a_mount_follows_its_servers_to_other_addresses() {
    use std::os::unix::fs::FileExt;
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let token = secrets(INSTANCE).token;
    node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &token).unwrap();
    let file = fs::File::create(Path::new(&point).join("file")).unwrap();
    const PIECE: u64 = 300_000;
    let write = |number: u64| file.write_all_at(&vec![number as u8; PIECE as usize], number * PIECE).unwrap();
    (0..10).for_each(write);
    for number in STORAGE {
        leaks::kill_with(&scene.path(&format!("state{number}")), "file-server");
    }
    scene.move_servers();
    std::thread::scope(|scope| {
        // It waits for its servers.
        let writer = scope.spawn(|| (10..20).for_each(write));
        STORAGE.iter().for_each(|number| scene.serve(INSTANCE, *number));
        node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &token).unwrap();
        writer.join().unwrap();
    });
    file.sync_all().unwrap();
    let read = fs::read(Path::new(&point).join("file")).unwrap();
    assert!((0..20).all(|number| {
        read[(number * PIECE) as usize..][..PIECE as usize].iter().all(|b| *b == number as u8)
    }));
    assert_eq!(leaks::with(&scene.path("state2"), "mount").len(), 1);
    node.unmount(ACTIVATION).unwrap();
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

/// Whoever can exchange a directory on the way chooses what is covered.
#[test]
fn nothing_is_mounted_where_others_could_exchange_the_place() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let node = scene.node(2);
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    let theirs = scene.path("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(OWNER.0), None).unwrap();
    let linked = scene.path("linked");
    std::os::unix::fs::symlink(&theirs, &linked).unwrap();
    for place in [theirs.join("here"), theirs.join("deep/here"), linked.join("here"), theirs.clone()] {
        let error = node.mount(ACTIVATION, place.to_str().unwrap(), &target, &token).unwrap_err();
        assert!(error.sentence().contains("is refused: it belongs to user"), "{place:?}: {error}");
        node.unmount(ACTIVATION).unwrap();
        assert!(!place.exists() || place == theirs, "{place:?}");
    }
    assert!(theirs.is_dir(), "it was there before");
    scene.tear_down(INSTANCE);
}

#[test]
fn what_stands_at_the_path_is_neither_hidden_nor_removed() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    fs::create_dir_all(&point).unwrap();
    let file = Path::new(&point).join("thesis.tex");
    fs::write(&file, "years of work").unwrap();
    let error = node.mount(ACTIVATION, &point, &target, &token).unwrap_err();
    assert!(error.sentence().contains("it is not an empty directory"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    assert!(file.exists());
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&point).status().unwrap().success());
    let error = node.mount(ACTIVATION, &point, &target, &token).unwrap_err();
    assert!(matches!(error, TaskError::Foreign { .. }) && error.to_string().contains("tmpfs"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    assert!(Command::new("umount").arg(&point).status().unwrap().success(), "it was still there");
    let wrong = node.mount(ACTIVATION, "relative", &target, &token).unwrap_err();
    assert!(matches!(wrong, TaskError::BadOrder { .. }), "{wrong}");
    let error = node.mount(ACTIVATION, &point, &target, &wrong_token()).unwrap_err();
    assert!(error.sentence().contains("the token is not the one of the instance"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    scene.tear_down(INSTANCE);
}
