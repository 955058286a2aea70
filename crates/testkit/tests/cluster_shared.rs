//! Several nodes work in one namespace at the same time: 4 servers, 3 clients, hosts of their own.
//!
//! What a completed operation of one node has done is seen by all others; locks hold between nodes; and whatever holds on
//! one machine holds on a mount over the network, which the suites judge.

mod deployed;

use deployed::{Deployment, LIMIT, SUITE_LIMIT, Shape};
use forebay_testkit::cluster::Storage;
use forebay_testkit::random::seed_from_environment;
use forebay_testkit::xfs_image::SMALLEST_BYTES;
use forebay_testkit::{Identity, Random, process, wait_until};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The checks of the whole suite must be at least this many, or something has been left out.
const FEWEST_CHECKS: u64 = 15_000;
/// Operations of each random run.
const OPERATIONS: &str = "2000";
/// Seed of the random runs; a run of all tests says something about the change at hand and nothing else.
const SEED: u64 = 1;

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

#[test]
fn what_one_node_writes_all_others_read() {
    let deployment = Deployment::start(Shape::default());
    let path = |client| deployment.file(client, "file");
    let first = bytes(1, 1_000_003);
    // Somebody looked for it before it was there.
    assert_eq!(fs::metadata(path(1)).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(path(0), &first).unwrap();
    let held: Vec<File> = (0..3).map(|client| File::open(path(client)).unwrap()).collect();
    for client in 0..3 {
        assert!(fs::read(path(client)).unwrap() == first, "client {client}");
    }
    // Over what others have read already, in the middle and beyond the end.
    let writer = OpenOptions::new().write(true).open(path(1)).unwrap();
    let second = bytes(2, 300_000);
    for offset in [400_000, 1_200_000] {
        writer.write_all_at(&second, offset).unwrap();
        for (client, file) in held.iter().enumerate() {
            let mut found = vec![0; second.len()];
            file.read_exact_at(&mut found, offset).unwrap();
            assert!(found == second, "client {client} at {offset}");
            let length = fs::metadata(path(client)).unwrap().len();
            assert_eq!(length, (offset + 300_000).max(1_000_003), "client {client} at {offset}");
            assert_eq!(file.metadata().unwrap().len(), length);
        }
    }
    drop(writer);
    // Cut on one, seen on all; what was there does not come back.
    OpenOptions::new().write(true).open(path(2)).unwrap().set_len(500_000).unwrap();
    OpenOptions::new().write(true).open(path(0)).unwrap().set_len(600_000).unwrap();
    for client in 0..3 {
        let found = fs::read(path(client)).unwrap();
        assert_eq!(found.len(), 600_000, "client {client}");
        assert!(found[500_000..].iter().all(|byte| *byte == 0), "client {client}");
        assert!(found[400_000..500_000] == second[..100_000], "client {client}");
    }
    drop(held);
    deployment.finish();
}

#[test]
fn names_and_attributes_are_the_same_everywhere_at_once() {
    let deployment = Deployment::start(Shape::default());
    let at = |client: usize, name: &str| deployment.file(client, name);
    for round in 0..20 {
        let (actor, viewers) = (round % 3, [(round + 1) % 3, (round + 2) % 3]);
        let (old, new, directory) = (format!("old{round}"), format!("new{round}"), format!("dir{round}"));
        let see = |name: &str| viewers.map(|viewer| fs::symlink_metadata(at(viewer, name)));
        assert!(see(&old).iter().all(Result::is_err));
        fs::write(at(actor, &old), format!("{round}")).unwrap();
        let lengths = see(&old).map(|seen| seen.map(|seen| seen.len()).map_err(|error| error.kind()));
        let length = round.to_string().len() as u64;
        assert_eq!(lengths, [Ok(length), Ok(length)], "round {round}");
        fs::rename(at(actor, &old), at(actor, &new)).unwrap();
        assert!(see(&old).iter().all(Result::is_err), "round {round}");
        assert!(see(&new).iter().all(Result::is_ok), "round {round}");
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o640);
        fs::set_permissions(at(actor, &new), mode).unwrap();
        assert!(see(&new).iter().all(|seen| seen.as_ref().unwrap().mode() & 0o777 == 0o640), "round {round}");
        std::os::unix::fs::chown(at(actor, &new), Some(1000 + round as u32), None).unwrap();
        assert!(see(&new).iter().all(|seen| seen.as_ref().unwrap().uid() == 1000 + round as u32));
        fs::create_dir(at(actor, &directory)).unwrap();
        fs::hard_link(at(actor, &new), at(actor, &directory).join("link")).unwrap();
        assert!(see(&new).iter().all(|seen| seen.as_ref().unwrap().nlink() == 2), "round {round}");
        for viewer in viewers {
            let listed: Vec<_> =
                fs::read_dir(at(viewer, &directory)).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(listed, ["link"]);
        }
        fs::remove_file(at(viewers[0], &directory).join("link")).unwrap();
        fs::remove_dir(at(viewers[1], &directory)).unwrap();
        assert!(fs::symlink_metadata(at(actor, &directory)).is_err(), "round {round}");
        assert_eq!(fs::symlink_metadata(at(actor, &new)).unwrap().nlink(), 1, "round {round}");
    }
    deployment.finish();
}

/// A kernel that knows the directory at its old place gives that up in time: in a rename of its own it could not.
#[test]
fn a_directory_that_another_node_moved_is_where_it_is_now() {
    let deployment = Deployment::start(Shape::default());
    let at = |client: usize, name: &str| deployment.file(client, name);
    for round in 0..10 {
        let name = |name: &str| format!("{round}/{name}");
        fs::create_dir_all(at(1, &name("from/moved"))).unwrap();
        fs::create_dir(at(1, &name("to"))).unwrap();
        // Just made by another, so that nobody is granted anything that he would be told of.
        assert!(fs::symlink_metadata(at(0, &name("from/moved"))).unwrap().is_dir());
        fs::rename(at(1, &name("from/moved")), at(1, &name("to/moved"))).unwrap();
        let into_itself = fs::rename(at(0, &name("to")), at(0, &name("to/moved")));
        assert_eq!(into_itself.unwrap_err().kind(), ErrorKind::InvalidInput, "round {round}");
    }
    deployment.finish();
}

#[test]
fn appends_of_three_nodes_are_all_there_and_whole() {
    const LINES: usize = 200;
    let deployment = Deployment::start(Shape::default());
    let append = |client: usize| {
        let path = deployment.file(client, "log");
        move || {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o644).open(path).unwrap();
            for number in 0..LINES {
                // Longer than a stripe now and then, so that a line lies on two servers.
                let line =
                    format!("{client} {number} {}\n", "x".repeat(if number % 50 == 0 { 70_000 } else { 10 }));
                assert_eq!(file.write(line.as_bytes()).unwrap(), line.len());
            }
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|client| drop(scope.spawn(append(client))));
    });
    for client in 0..3 {
        let text = fs::read_to_string(deployment.file(client, "log")).unwrap();
        let mut seen: Vec<(usize, usize)> = text
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                assert!(
                    words.len() == 3 && words[2].bytes().all(|byte| byte == b'x'),
                    "{}",
                    &line[..line.len().min(80)]
                );
                (words[0].parse().unwrap(), words[1].parse().unwrap())
            })
            .collect();
        for writer in 0..3 {
            let own: Vec<_> =
                seen.iter().filter(|(node, _)| *node == writer).map(|(_, number)| *number).collect();
            assert!(
                own.is_sorted() && own.len() == LINES,
                "lines of {writer} seen by {client}: {}",
                own.len()
            );
        }
        seen.dedup();
        assert_eq!(seen.len(), 3 * LINES);
    }
    deployment.finish();
}

#[test]
fn a_file_removed_by_one_node_lives_until_another_closes_it() {
    let deployment = Deployment::start(Shape { metered: Some(16 << 20), ..Shape::default() });
    let free = || rustix::fs::statvfs(deployment.seen(2)).unwrap().f_bavail;
    let data = bytes(3, 3_000_000);
    let before = free();
    fs::write(deployment.file(0, "file"), &data).unwrap();
    let open = OpenOptions::new().read(true).write(true).open(deployment.file(1, "file")).unwrap();
    fs::remove_file(deployment.file(0, "file")).unwrap();
    assert_eq!(fs::metadata(deployment.file(1, "file")).unwrap_err().kind(), ErrorKind::NotFound);
    let mut found = vec![0; data.len()];
    open.read_exact_at(&mut found, 0).unwrap();
    assert!(found == data);
    open.write_all_at(b"still", 2_999_999).unwrap();
    assert_eq!((open.metadata().unwrap().nlink(), open.metadata().unwrap().len()), (0, 3_000_004));
    assert!(free() < before);
    drop(open);
    wait_until("the space of the removed file", LIMIT, || free() >= before).unwrap();
    deployment.finish();
}

#[test]
fn a_whole_file_lock_holds_between_nodes() {
    let deployment = Deployment::start(Shape::default());
    let root = Identity::root();
    deployment.shell(0, &root, "touch lock");
    let mut holder = deployment
        .shell_in_background(0, "flock lock -c 'touch held; while test ! -e release; do sleep 0.02; done'");
    let held = deployment.file(1, "held");
    wait_until("the first holder", LIMIT, || held.exists()).unwrap();
    for client in [1, 2] {
        let tried = deployment.shell(
            client,
            &root,
            "flock -n lock true && echo got || echo refused; flock -sn lock true && echo got || echo refused",
        );
        assert_eq!(tried, "refused\nrefused\n", "client {client}");
    }
    let mut waiter = deployment.shell_in_background(1, "flock lock touch waited");
    fs::write(deployment.file(2, "release"), "").unwrap();
    assert!(holder.ends_within(LIMIT).is_some_and(|status| status.success()));
    assert!(waiter.ends_within(LIMIT).is_some_and(|status| status.success()));
    assert!(deployment.file(0, "waited").exists());
    // Shared ones do not hinder each other.
    let shared = "flock -s lock flock -sn lock echo both";
    assert_eq!(deployment.shell(0, &root, shared), "both\n");
    deployment.finish();
}

/// Python's own names for what fcntl does; every step awaits a file that another step makes.
const RANGES: &str = r#"
import fcntl, os, sys, time
def await_file(name):
    end = time.monotonic() + 60
    while not os.path.exists(name):
        assert time.monotonic() < end, name
        time.sleep(0.01)
def mark(name):
    open(name, "w").close()
f = os.open("ranges", os.O_RDWR | os.O_CREAT, 0o644)
"#;

#[test]
fn locks_on_ranges_hold_between_nodes() {
    let deployment = Deployment::start(Shape::default());
    let python = |client: usize, text: &str| {
        let script = format!("python3 - << 'END'\n{RANGES}{text}\nEND");
        deployment.shell_in_background(client, &script)
    };
    let mut holder = python(
        0,
        r#"
fcntl.lockf(f, fcntl.LOCK_EX, 100, 1000)
mark("locked")
await_file("tried")
fcntl.lockf(f, fcntl.LOCK_UN, 50, 1000)
mark("half")
await_file("waiting")
fcntl.lockf(f, fcntl.LOCK_UN)
"#,
    );
    let mut other = python(
        1,
        r#"
await_file("locked")
def refused(length, start, kind=fcntl.LOCK_EX):
    try:
        fcntl.lockf(f, kind | fcntl.LOCK_NB, length, start)
        return False
    except OSError:
        return True
assert not refused(1000, 0)
assert refused(1, 1000) and refused(1, 1099) and refused(1, 1050, fcntl.LOCK_SH)
assert not refused(100, 1100)
mark("tried")
await_file("half")
assert not refused(50, 1000)
assert refused(1, 1050)
mark("waiting")
fcntl.lockf(f, fcntl.LOCK_EX, 100, 1000)
"#,
    );
    assert!(holder.ends_within(LIMIT).is_some_and(|status| status.success()));
    assert!(other.ends_within(LIMIT).is_some_and(|status| status.success()));
    deployment.finish();
}

#[test]
fn a_counter_under_a_lock_loses_nothing() {
    let deployment = Deployment::start(Shape::default());
    deployment.shell(0, &Identity::root(), "echo 0 > counter");
    let count = "for n in $(seq 40); do flock lock -c 'echo $(( $(cat counter) + 1 )) > counter'; done";
    let mut running: Vec<_> = (0..3).map(|client| deployment.shell_in_background(client, count)).collect();
    assert!(running.iter_mut().all(|guard| guard.ends_within(LIMIT).is_some_and(|status| status.success())));
    assert_eq!(deployment.shell(1, &Identity::root(), "cat counter"), "120\n");
    deployment.finish();
}

fn directory_of(deployment: &Deployment, client: usize, eyes: &Identity) -> std::path::PathBuf {
    let under = deployment.file(client, "under");
    fs::create_dir(&under).unwrap();
    std::os::unix::fs::chown(&under, Some(eyes.uid), Some(eyes.gid)).unwrap();
    deployment.mount_point(client).join("under")
}

/// Groups of the suite's cases: all but `many`, which has a test of its own.
const GROUPS: [&str; 18] = [
    "capacity",
    "data",
    "directories",
    "links",
    "locks",
    "maps",
    "modes",
    "nodes",
    "opening",
    "paths",
    "permissions",
    "reading_directories",
    "removing",
    "renaming",
    "space",
    "times",
    "truncating",
    "xattrs",
];

/// Longest that a group with large numbers may take: 100,000 names are made and removed one by one, which takes long on a
/// busy machine.
const MANY_LIMIT: Duration = Duration::from_secs(2400);

/// Judges a mount by groups of cases.
fn judge_posix(deployment: &Deployment, groups: &[&str], cost: &str, eyes: &Identity) -> u64 {
    let limit = if cost == "many" { MANY_LIMIT } else { SUITE_LIMIT };
    let under = directory_of(deployment, 0, eyes);
    let (mut checks, mut failed) = (0, Vec::new());
    for group in groups {
        let mut command = Command::new(deployment.suite());
        command.arg("posix").arg(&under).args(["--only", &format!("posix::{group}::"), "--costs", cost]);
        let ended = deployment.client(0).run(eyes.apply(command.current_dir("/")), limit);
        let said = ended.unwrap_or_else(|error| panic!("{error}")).output;
        println!("{group}: {said}");
        checks += checks_in(&said);
        let names = said.lines().filter_map(|line| line.strip_prefix("FAILED forebay_testkit::posix::"));
        failed.extend(names.filter_map(|line| Some(line.split(' ').next()?.to_owned())));
    }
    assert!(failed.is_empty(), "{failed:?} failed");
    checks
}

/// The number before ` checks` in the last line.
fn checks_in(said: &str) -> u64 {
    let last = said.lines().rfind(|line| line.contains(" checks, ")).unwrap_or_default();
    last.split(' ').nth(2).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[test]
fn posix_suite_as_root() {
    let deployment = Deployment::start(Shape { clients: 1, ..Shape::default() });
    let checks = judge_posix(&deployment, &GROUPS, "small", &Identity::root());
    assert!(checks > FEWEST_CHECKS, "only {checks} checks");
    deployment.finish();
}

#[test]
fn posix_suite_as_user_with_requests_over_the_device() {
    let deployment = Deployment::start(Shape { clients: 1, io_uring: false, ..Shape::default() });
    let checks = judge_posix(&deployment, &GROUPS, "small", &Identity::nobody());
    assert!(checks > FEWEST_CHECKS, "only {checks} checks");
    deployment.finish();
}

/// With descriptors of the servers' own files, on the file system that fragments have.
#[test]
fn posix_suite_beside_the_servers() {
    let storage = Storage::Xfs { bytes: 1 << 30 };
    let deployment =
        Deployment::start(Shape { clients: 1, storage, short_circuit: true, ..Shape::default() });
    let checks = judge_posix(&deployment, &GROUPS, "small", &Identity::nobody());
    assert!(checks > FEWEST_CHECKS, "only {checks} checks");
    deployment.finish();
}

/// Large numbers of names and of open files.
#[test]
fn posix_suite_of_many() {
    let deployment = Deployment::start(Shape { clients: 1, ..Shape::default() });
    let checks = judge_posix(&deployment, &["many"], "many", &Identity::root());
    assert!(checks > FEWEST_CHECKS, "only {checks} checks");
    deployment.finish();
}

/// What a suite that fills the file system up may write. More would be the machine's own disk.
const FILLS_UP_MAX: u64 = 4 << 30;

#[test]
fn posix_suite_on_full_fragments() {
    let storage = Storage::Xfs { bytes: SMALLEST_BYTES };
    let deployment = Deployment::start(Shape { clients: 1, storage, ..Shape::default() });
    let space = rustix::fs::statvfs(deployment.seen(0)).unwrap();
    assert!(space.f_blocks * space.f_frsize < FILLS_UP_MAX, "not the file system that was made");
    let checks = judge_posix(&deployment, &["capacity"], "fills-up", &Identity::root());
    assert!(checks > 50, "only {checks} checks");
    deployment.finish();
}

#[test]
fn random_operations_on_one_file() {
    let deployment = Deployment::start(Shape { clients: 1, ..Shape::default() });
    let file = deployment.mount_point(0).join("file");
    let seed = seed_from_environment().unwrap_or(SEED).to_string();
    let said = deployment.judge(
        0,
        &Identity::root(),
        &[&"single-file", &file, &"--operations", &OPERATIONS, &"--seed", &seed],
    );
    println!("{said}");
    deployment.finish();
}

/// The oracle is a directory on XFS, as everywhere in these suites.
fn oracle(deployment: &Deployment) -> forebay_testkit::XfsImage {
    forebay_testkit::XfsImage::create(deployment.cluster().directory(), "oracle", SMALLEST_BYTES).unwrap()
}

#[test]
fn random_operations_through_three_mounts_in_turns() {
    let mut deployment =
        Deployment::start(Shape { storage: Storage::Xfs { bytes: 1 << 30 }, ..Shape::default() });
    let oracle = oracle(&deployment);
    let beside = oracle.path().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::create_dir(deployment.file(0, "under")).unwrap();
    let under = |deployment: &Deployment, client| deployment.file(client, "under");
    let seed = seed_from_environment().unwrap_or(SEED).to_string();
    let mut command = Command::new(deployment.suite());
    command.arg("namespace").args([&under(&deployment, 0), &beside]);
    for client in [1, 2] {
        command.arg("--through").arg(under(&deployment, client));
    }
    command.args(["--operations", OPERATIONS, "--seed", &seed]);
    let judged = process::run(&mut command, SUITE_LIMIT).and_then(process::Finished::success);
    println!("{}", judged.unwrap_or_else(|error| panic!("{error}")).output);
    // All of it is there after everybody has gone and come back.
    (0..3).for_each(|client| deployment.unmount(client));
    (0..4).for_each(|server| deployment.stop_server(server));
    (0..4).for_each(|server| deployment.start_server(server));
    deployment.mount(1, &Identity::root());
    let compare = |under: &Path| {
        let mut command = Command::new(deployment.suite());
        command.arg("compare").args([under, &beside]);
        process::run(&mut command, SUITE_LIMIT).and_then(process::Finished::success).unwrap();
    };
    compare(&under(&deployment, 1));
    drop(oracle);
    deployment.finish();
}

#[test]
fn a_user_mounts_for_himself() {
    let mut deployment = Deployment::serve(Shape { clients: 2, ..Shape::default() });
    let nobody = Identity::nobody();
    // The tree is root's, who gives the user a directory.
    deployment.mount(1, &Identity::root());
    directory_of(&deployment, 1, &nobody);
    // His own copy of the token: the servers' is root's.
    let token = deployment.client(0).directory().join("token");
    fs::copy(deployment.token_file(), &token).unwrap();
    std::os::unix::fs::chown(&token, Some(nobody.uid), Some(nobody.gid)).unwrap();
    fs::write(deployment.instance_file(), deployment.description(&token)).unwrap();
    deployment.mount(0, &nobody);
    let said = deployment.shell(0, &nobody, "cd under; echo mine > file; cat file; stat -c %u file");
    assert_eq!(said, "mine\n65534\n");
    assert_eq!(fs::read_to_string(deployment.file(1, "under/file")).unwrap(), "mine\n");
    let refused = deployment.shell(0, &nobody, "touch elsewhere 2> /dev/null && echo made || echo refused");
    assert_eq!(refused, "refused\n");
    deployment.finish();
}
