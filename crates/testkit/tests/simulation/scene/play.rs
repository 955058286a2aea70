//! A whole run.
//!
//! Servers start, clients work, things go wrong; when the clients have done all, nothing goes wrong any more, everything is
//! looked at by a new client, and then by who looks at the fragments themselves.

use super::client::{self, DONE, Task, Work};
use super::kept::Memory;
use super::own::Expected;
use super::site::{SERVES, STOPPED, Site};
use super::together::Shared;
use crate::machine::{self, Faults, Process, Seen};
use forebay_client::Volume;
use forebay_client::remote::attach;
use forebay_wire::Ino;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two disturbances, in nanoseconds.
const QUIET_NS_MAX: u64 = 300_000_000;
/// Longest time that a server is away, in nanoseconds.
const AWAY_NS_MAX: u64 = 4_000_000_000;
/// How long it takes at most until nothing without a name is left after the last fault: a home that was started anew waits for those who
/// may claim something before it looks through what the other servers have.
const SWEPT_WITHIN: Duration = Duration::from_secs(30);
/// How long sessions of killed clients may last: their grace time and then some.
const SESSIONS_END_WITHIN: Duration = Duration::from_secs(60);

/// What is going to happen, as far as it is said beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub servers: usize,
    pub home: usize,
    pub clients: usize,
    /// Operations of each of a client's two threads.
    pub steps: u64,
    pub faults: Faults,
    /// So often servers are stopped or killed between, and not only at places of their own.
    pub disturbances: u64,
    /// Clients are killed.
    pub kills_clients: bool,
    /// Disks lose what was not synced, and are full: clients keep only what they synced.
    pub loses_power: bool,
}

struct Play {
    plan: Plan,
    site: Site,
    working: Vec<(usize, Process)>,
    killed_clients: u64,
    disturbances_left: u64,
    /// Servers that are away, and until when.
    away: Vec<(u64, usize)>,
}

/// Plays it, in a directory that is empty.
pub fn play(plan: Plan, directory: &Path) {
    let site = Site::new(directory, plan.servers, plan.home);
    let disturbances_left = plan.disturbances;
    let mut play =
        Play { plan, site, working: Vec::new(), killed_clients: 0, disturbances_left, away: Vec::new() };
    if plan.loses_power {
        play.site.have_disks();
    }
    (0..plan.servers).for_each(|position| play.site.start(position));
    match plan.loses_power {
        false => play.together(),
        true => play.without_power(),
    }
    play.end();
}

impl Play {
    fn work(&mut self, number: usize, work: Work) {
        let task = Task { number, map: self.site.map(), steps: self.plan.steps, work };
        self.working.push((number, client::start(task)));
    }

    /// Nothing that was answered is lost.
    fn together(&mut self) {
        let shared = Arc::<Shared>::default();
        let expected: Vec<Expected> = (0..self.plan.clients).map(|_| Expected::default()).collect();
        for (number, expected) in expected.iter().enumerate() {
            self.work(number, Work::Together { expected: expected.clone(), shared: shared.clone() });
        }
        machine::set_faults(self.plan.faults);
        self.until_all_is_done();
        machine::set_faults(Faults::default());
        self.look(|volume, killed_clients| {
            for (number, expected) in expected.iter().enumerate() {
                let directory = client::own_directory(volume, number);
                expected.compare(volume, directory);
                volume.forget(directory, 1);
            }
            shared.check(volume, killed_clients);
        });
    }

    /// Nothing that was synced is lost.
    fn without_power(&mut self) {
        let threads = 2 * self.plan.clients;
        let memories: Vec<Memory> = (0..threads).map(|_| Memory::default()).collect();
        self.look(|volume, _| {
            for number in 0..threads {
                volume.forget(client::own_directory(volume, number), 1);
            }
            client::sync_directory(volume, Ino::ROOT);
        });
        for number in 0..self.plan.clients {
            let memories = [memories[2 * number].clone(), memories[2 * number + 1].clone()];
            self.work(number, Work::Alone { memories });
        }
        machine::set_faults(self.plan.faults);
        self.until_all_is_done();
        machine::set_faults(Faults::default());
        self.wait_for_those_on_their_way();
        for position in 0..self.plan.servers {
            self.site.crash(position);
            self.comes_back(position);
        }
        self.look(|volume, _| {
            for (number, memory) in memories.iter().enumerate() {
                let directory = client::own_directory(volume, number);
                memory.compare(volume, directory);
                volume.forget(directory, 1);
            }
        });
    }

    fn until_all_is_done(&mut self) {
        while !self.working.is_empty() {
            let quiet = Duration::from_nanos(1 + machine::below(QUIET_NS_MAX));
            match machine::wait_for_seen(quiet) {
                Some(seen) => self.see(seen),
                None => self.disturb(),
            }
            self.start_those_due(machine::now());
        }
    }

    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Killed(process) => self.is_away(process),
            Seen::Crashed(process) => {
                let position = self.site.position(process).expect("a server");
                self.site.lost_power(position);
                self.comes_back(position);
            }
            Seen::Said(process, said) if said == SERVES => self.site.may_be_full(process),
            Seen::Said(process, said) if said == STOPPED => self.is_away(process),
            Seen::Said(process, said) if said == DONE => {
                self.working.retain(|(_, working)| *working != process);
            }
            Seen::Said(_, said) => panic!("somebody says {said}"),
        }
    }

    fn is_away(&mut self, process: Process) {
        let Some(position) = self.site.position(process) else { return };
        self.site.is_gone(position);
        self.comes_back(position);
    }

    fn comes_back(&mut self, position: usize) {
        self.away.push((machine::now() + machine::below(AWAY_NS_MAX), position));
    }

    fn start_those_due(&mut self, now: u64) {
        let due: Vec<usize> =
            self.away.extract_if(.., |(at, _)| *at <= now).map(|(_, position)| position).collect();
        due.into_iter().for_each(|position| self.site.start(position));
    }

    fn disturb(&mut self) {
        let position = machine::below(self.plan.servers as u64) as usize;
        let is_running = self.site.is_running(position);
        let may = is_running && self.disturbances_left > 0;
        match machine::below(8) {
            0 if may && self.plan.loses_power && machine::below(2) == 0 => {
                self.disturbances_left -= 1;
                self.site.crash(position);
                self.comes_back(position);
            }
            0 if may => {
                self.disturbances_left -= 1;
                self.site.kill(position);
                self.comes_back(position);
            }
            1 if may => {
                self.disturbances_left -= 1;
                self.site.ask_to_stop(position);
            }
            2 if self.plan.kills_clients && self.working.len() > 1 => {
                let which = machine::below(self.working.len() as u64) as usize;
                let (_, process) = self.working.swap_remove(which);
                machine::kill_client(process);
                self.killed_clients += 1;
            }
            _ => {}
        }
    }

    /// Whoever is on the way down comes to his end, and all who are away come back.
    fn wait_for_those_on_their_way(&mut self) {
        while let Some(seen) = machine::wait_for_seen(Duration::from_secs(15)) {
            self.see(seen);
        }
        self.start_those_due(u64::MAX);
    }

    /// A new client looks at everything.
    fn look(&mut self, look: impl FnOnce(&Volume, u64)) {
        machine::note(|| "look at everything".to_owned());
        self.wait_for_those_on_their_way();
        let attached = attach(&self.site.map().description()).expect("attached");
        let begun = std::time::Instant::now();
        while attached.status().expect("a status").sessions > 1 {
            assert!(begun.elapsed() < SESSIONS_END_WITHIN, "sessions of those who are gone do not end");
            std::thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(attached.status().expect("a status").open_files, 0, "files that nobody has open");
        let volume = client::volume(&attached);
        look(&volume, self.killed_clients);
        drop(volume);
        attached.close();
    }

    /// Everything ends in good order, and nothing is left.
    fn end(&mut self) {
        // What the last restart left is looked through meanwhile.
        std::thread::sleep(SWEPT_WITHIN);
        for position in 0..self.plan.servers {
            self.site.ask_to_stop(position);
            loop {
                match machine::wait_for_seen(Duration::from_secs(60)).expect("the server stops") {
                    Seen::Said(process, said)
                        if said == STOPPED && self.site.position(process) == Some(position) =>
                    {
                        break;
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(machine::open_connections(), 0, "connections are left");
        let left = machine::descriptors_below(self.site.directory());
        assert!(left.is_empty(), "descriptors are left: {left:?}");
        let wrong = self.site.check();
        assert!(wrong.is_empty(), "the fragments are not as they should be: {wrong:#?}");
    }
}
