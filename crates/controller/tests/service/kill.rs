//! What was answered is there after the controller was killed, and one that cannot store does not go on.

use crate::agent::Agent;
use crate::place::{GRANULE, await_it, job, setup};
use crate::process::Controller;
use forebay_controller::client::{Address, Client, ClientError};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

fn config(directory: &Path) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    format!(
        "socket = '{}'\nstate = '{}'\n[[pool]]\nname = 'wlm_pool'\ngranularity = '16MiB'\n",
        at("c.sock"),
        at("state")
    )
}

fn client(directory: &Path) -> Client {
    Client::open(Address::Unix(directory.join("c.sock")))
}

/// Sets jobs up and tears every third one down, until the controller is gone; notes what was answered.
fn bother(client: &Client, tokens: std::ops::Range<u32>, answered: &Mutex<Vec<(String, bool)>>) {
    for token in tokens.map(|token| token.to_string()) {
        if client.ask(&setup(&token)).is_err() {
            return;
        }
        answered.lock().unwrap().push((token.clone(), true));
        if token.parse::<u32>().unwrap() % 3 == 0 {
            if client.ask(&job("teardown", &token)).is_err() {
                return;
            }
            answered.lock().unwrap().push((token, false));
        }
    }
}

#[test]
fn what_was_answered_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = Some(Controller::start(directory.path(), &config(directory.path())));
    let patient = client(directory.path());
    let hasty = patient.clone().with_patience(Duration::ZERO);
    let _agents: Vec<Agent> =
        (1..=3).map(|n| Agent::start(patient.clone(), format!("s{n}"), 4096 * GRANULE)).collect();
    await_it("the agents are there", || patient.snapshot().unwrap().pools[0].quantity.0 == 3 * 4096);
    let answered: Mutex<Vec<(String, bool)>> = Mutex::default();
    for round in 0..5_u32 {
        let seen = answered.lock().unwrap().len();
        std::thread::scope(|scope| {
            for user in 0..4 {
                let first = 10_000 * round + 1_000 * user + 1;
                let (hasty, answered) = (&hasty, &answered);
                scope.spawn(move || bother(hasty, first..first + 1_000, answered));
            }
            await_it("some are answered", || answered.lock().unwrap().len() >= seen + 5 + 7 * round as usize);
            running.take().unwrap().kill();
        });
        running = Some(Controller::start(directory.path(), &config(directory.path())));
        check(&patient, &answered.lock().unwrap());
    }
}

/// Every job is as the last answer about it said, unless a request was on its way when the kill came.
fn check(client: &Client, answered: &[(String, bool)]) {
    let seen = client.snapshot().unwrap();
    let mut last = std::collections::BTreeMap::new();
    last.extend(answered.iter().map(|(token, there)| (token.as_str(), *there)));
    for (token, there) in last {
        let session = seen.sessions.iter().find(|session| session.token == token);
        let leaving_unanswered = token.parse::<u32>().unwrap() % 3 == 0;
        match session {
            None => assert!(!there || leaving_unanswered, "job {token} was answered and is lost"),
            Some(_) => assert!(there, "job {token} was torn down and is there again"),
        }
    }
    // Granules are exactly those of the fragments.
    let taken: u64 = seen.fragments.iter().map(|fragment| fragment.capacity.0 / GRANULE).sum();
    await_it("the agents are back", || client.snapshot().unwrap().nodes.iter().all(|node| node.online));
    let pool = &seen.pools[0];
    if seen.nodes.iter().all(|node| node.online) {
        assert_eq!(pool.quantity.0 - pool.free.0, taken);
    }
}

#[test]
fn a_controller_that_cannot_store_ends_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = SmallDisk::mount(&disk);
    let text = config(directory.path()).replace(
        &directory.path().join("state").display().to_string(),
        &disk.join("state").display().to_string(),
    );
    let mut controller = Controller::start(directory.path(), &text);
    let client = client(directory.path()).with_patience(Duration::ZERO);
    let agent = Agent::start(client.clone(), "s1".into(), 4096 * GRANULE);
    await_it("the agent is there", || client.snapshot().unwrap().pools[0].quantity.0 == 4096);
    let mut made = Vec::new();
    let refused = (1..100_000_u32).map(|token| token.to_string()).find_map(|token| {
        let answer = client.ask(&setup(&token));
        if answer.is_ok() {
            made.push(token);
        }
        answer.err()
    });
    assert!(matches!(refused, Some(ClientError::Unreachable { .. })), "{refused:?}");
    assert!(!controller.wait().success());
    assert!(controller.log().contains("full"), "{}", controller.log());
    drop(agent);
    // With space again everything that was answered is there.
    mount.grow();
    let _again = Controller::start(directory.path(), &text);
    let tokens: Vec<String> =
        client.snapshot().unwrap().sessions.into_iter().map(|session| session.token).collect();
    assert!(!made.is_empty() && made.iter().all(|token| tokens.contains(token)));
}

/// A tmpfs of a few hundred KiB.
struct SmallDisk<'p>(&'p Path);

impl SmallDisk<'_> {
    fn mount(path: &Path) -> SmallDisk<'_> {
        let size = Some(c"size=1M");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", path, "tmpfs", flags, size).unwrap();
        SmallDisk(path)
    }

    fn grow(&self) {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount_remount(self.0, flags, c"size=64M").unwrap();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
