//! Mounting, unmounting, unmounting while in use, and what a killed server leaves; as root and as an ordinary user.

mod support;

use forebay_fuse::unmount_stale;
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use support::{Place, Server, USERS, User, is_mounted, numbers, until};

fn again(place: Place) -> Server {
    let fragment = place.make("f0");
    place.serve(&[fragment], &[])
}

#[test]
fn what_was_written_is_there_after_a_clean_end() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        assert!(server.sh("grep \" $PWD fuse.dwfs \" /proc/self/mounts").starts_with("dwfs_mount "));
        server.sh("echo hello > a; mkdir d; mv a d/b; ln d/b c; ln -s d/b s");
        let server = again(server.stop());
        assert_eq!(server.sh("cat d/b c s"), "hello\nhello\nhello\n", "{user:?}");
        server.stop();
    }
}

#[test]
fn an_unmount_from_outside_ends_the_server() {
    for user in USERS {
        let mut server = Server::start(user, 1, &[]);
        let unmount = if user == User::Root { "umount" } else { "fusermount3" };
        let options: &[&str] = if user == User::Root { &[] } else { &["-u"] };
        let status = user.command(unmount).args(options).arg(server.mountpoint()).status().unwrap();
        assert!(status.success());
        assert!(server.wait().success());
    }
}

#[test]
fn a_mount_in_use_frees_its_path_and_serves_what_is_open() {
    for user in USERS {
        let mut server = Server::start(user, 1, &[]);
        let mut job = server.converse(
            "exec 3<>file; echo early >&3; echo ready; read answer; echo late >&3; cat <file 2>/dev/null; echo done",
        );
        assert_eq!(job.hear(), "ready");
        server.signal(Signal::TERM);
        let path = server.mountpoint();
        until("the path is free", || !is_mounted(&path));
        job.say("go on");
        // It still stands in the directory, so the name works too.
        assert_eq!((job.hear(), job.hear()), ("early".into(), "late".into()));
        assert_eq!(job.hear(), "done");
        job.end();
        assert!(server.wait().success(), "ends when the last user is gone");
    }
}

#[test]
fn a_killed_server_leaves_a_mount_that_can_be_removed() {
    let server = Server::start(User::Root, 1, &[]);
    server.sh("echo kept > file");
    let place = server.kill();
    let path = place.mountpoint();
    let refused = std::fs::read_dir(&path).unwrap_err().raw_os_error();
    assert!(
        [Some(libc::ENOTCONN), Some(libc::ECONNABORTED), Some(libc::ECANCELED)].contains(&refused),
        "{refused:?}"
    );
    assert!(unmount_stale(&path).unwrap(), "a dead mount is there");
    assert!(!is_mounted(&path));
    assert!(!unmount_stale(&path).unwrap(), "nothing is left to remove");
    assert_eq!(again(place).sh("cat file"), "kept\n");
}

#[test]
fn the_next_server_clears_the_remains_of_the_killed_one() {
    for user in USERS {
        let server = Server::start(user, 1, &[]);
        server.sh("echo kept > file");
        let server = again(server.kill());
        assert_eq!(server.sh("cat file"), "kept\n", "{user:?}");
        let entries = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let path = server.mountpoint();
        assert_eq!(entries.lines().filter(|line| line.contains(path.to_str().unwrap())).count(), 1);
        server.stop();
    }
}

#[test]
fn living_and_foreign_mounts_stay() {
    let server = Server::start(User::Root, 1, &[]);
    assert!(!unmount_stale(&server.mountpoint()).unwrap());
    server.sh("echo alive > file; cat file");

    let place = Place::new(User::Root);
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place.mountpoint()).status().unwrap();
    assert!(mount.success());
    assert!(!unmount_stale(&place.mountpoint()).unwrap());
    assert!(is_mounted(&place.mountpoint()));

    assert!(!unmount_stale(&place.mountpoint().join("absent/deeper")).unwrap());
}

/// As a container or a service does that is started meanwhile.
#[test]
fn a_copy_of_the_mount_in_another_namespace_holds_nobody_up() {
    for user in USERS {
        let mut server = Server::start(user, 1, &[]);
        // It ends with its standard input, so also when this test fails.
        let mut copy = Command::new("unshare")
            .args(["--mount", "sh", "-c", "echo copied; read -r line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(copy.stdout.take().unwrap()).read_line(&mut line).unwrap();
        server.signal(Signal::TERM);
        until("the server told that it goes on", || server.log().contains("still in use"));
        drop(copy.stdin.take());
        copy.wait().unwrap();
        assert!(server.wait().success());
        assert!(!is_mounted(&server.mountpoint()), "{user:?}");
    }
}

#[test]
fn a_mount_of_somebody_else_on_the_same_path_is_not_removed() {
    let mut server = Server::start(User::Root, 1, &[]);
    let path = server.mountpoint();
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&path).status().unwrap();
    assert!(mount.success());
    server.signal(Signal::TERM);
    until("the server looked", || server.log().contains("still in use"));
    let unmount = Command::new("umount").arg(&path).status().unwrap();
    assert!(unmount.success(), "the foreign mount was still there");
    let unmount = Command::new("umount").arg(&path).status().unwrap();
    assert!(unmount.success(), "and ours below it");
    assert!(server.wait().success());
}

/// The kernel gives the numbers of a mount to the next one. Who mounts again at once, before the first server has ended, must
/// not lose the new mount to it.
#[test]
fn a_server_that_ends_late_leaves_its_successor_alone() {
    for user in USERS {
        // Another test may take the numbers first: then all is done again.
        until("the numbers of a mount were used again", || {
            let mut first = Server::start(user, 1, &[]);
            let before = numbers(&first.mountpoint());
            first.signal(Signal::STOP);
            let place = first.give_place();
            // umount(8) would ask the server about the mount point.
            rustix::mount::unmount(place.mountpoint(), UnmountFlags::NOFOLLOW).unwrap();
            let fragment = place.make("successor");
            let second = place.serve(&[fragment], &[]);
            let after = numbers(&second.mountpoint());
            first.signal(Signal::CONT);
            assert!(first.wait().success());
            assert_eq!(numbers(&second.mountpoint()), after, "{user:?}: the first one took it away");
            second.sh("echo served > file");
            second.stop();
            before == after
        });
    }
}

/// Root can cut a connection that hangs. What the server then leaves would be a dead mount.
#[test]
fn a_server_whose_connection_is_cut_takes_its_mount_away() {
    for user in USERS {
        let mut server = Server::start(user, 1, &[]);
        let (_, device) = numbers(&server.mountpoint()).unwrap();
        let control = tempfile::tempdir().unwrap();
        let fusectl = |program: &str, arguments: &[&str]| {
            assert!(Command::new(program).args(arguments).arg(control.path()).status().unwrap().success());
        };
        fusectl("mount", &["-t", "fusectl", "none"]);
        let abort = control.path().join(device.strip_prefix("0:").unwrap()).join("abort");
        let aborted = std::fs::write(abort, "1");
        fusectl("umount", &[]);
        aborted.unwrap();
        server.wait();
        assert!(!is_mounted(&server.mountpoint()), "{user:?}");
    }
}

#[test]
fn refusals_name_the_path_and_the_reason() {
    let place = Place::new(User::Nobody);
    let fragment = place.make("f0");
    std::os::unix::fs::chown(place.mountpoint(), Some(0), Some(0)).unwrap();
    let said = place.refused(&[fragment], &[]);
    assert!(said.contains("will not mount on") && said.contains("no write access"), "{said}");

    let other = Place::new(User::Nobody);
    if !std::fs::read_to_string("/etc/fuse.conf")
        .unwrap_or_default()
        .lines()
        .any(|l| l.trim() == "user_allow_other")
    {
        let said = other.refused(&[other.make("f0")], &["--allow-other"]);
        assert!(said.contains("user_allow_other"), "{said}");
    }

    std::fs::remove_dir(other.mountpoint()).unwrap();
    let said = other.refused(&[other.make("f1")], &[]);
    assert!(said.contains("cannot mount on") && said.contains("No such file"), "{said}");
    std::fs::write(other.mountpoint(), "").unwrap();
    let said = other.refused(&[other.make("f2")], &[]);
    assert!(said.contains("cannot mount on") && said.to_lowercase().contains("not a directory"), "{said}");
}

#[test]
fn other_users_come_in_only_when_let_in() {
    let look = |server: &Server| {
        let mut command = User::Nobody.command("ls");
        command.arg(server.mountpoint()).output().unwrap().status.success()
    };
    let closed = Server::start(User::Root, 1, &[]);
    assert!(!look(&closed));
    let open = Server::start(User::Root, 1, &["--allow-other"]);
    open.sh("chmod 755 .");
    assert!(look(&open));
}
