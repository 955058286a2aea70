//! The simulated world: a controller that crashes between any two effects, agents, a workload manager, and mail between
//! them that is lost, doubled and delivered in any order.

use crate::agent::{Agent, Deed};
use crate::dice::Dice;
use crate::workload::{Job, Phase, Wish};
use forebay_controller::cluster::effect::{Answer, List, Part};
use forebay_controller::cluster::refusal::Refusal;
use forebay_controller::cluster::row::{Change, Key, Row};
use forebay_controller::cluster::*;
use forebay_model::ids::*;
use forebay_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

pub const REGISTRY: &str = "simulation";
pub const GRANULARITY: u64 = 100;
/// The registry is compared with the state after so many steps for each node.
const CHECK_AFTER_STEPS_PER_NODE: u64 = 5;
const MANAGER_UID: u32 = 500;
const HEARTBEAT_S: i64 = 10;

/// How rough the world is. A rate of n means once in n times, 0 never.
#[derive(Clone, Copy)]
pub struct Weather {
    pub storage_nodes: u64,
    pub compute_nodes: u64,
    pub jobs: u64,
    pub at_a_time: usize,
    pub crash_rate: u64,
    pub loss_rate: u64,
    pub delay_rate: u64,
    pub failure_rate: u64,
    /// Per node and second.
    pub accident_rate: u64,
    /// The controller crashes at exactly this point, counted from the beginning.
    pub crash_at: Option<u64>,
    pub defect: Option<Defect>,
}

/// A defect that is planted to see whether the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Some changes are not stored.
    SkipsStore,
    /// One row of a step's changes is not stored now and then.
    ForgetsRow,
    /// Everything else is carried out before the changes are stored.
    StoresLast,
    /// Fragments that were ordered are not remembered after a crash.
    ForgetsPlannedFragments,
    /// Agents follow lists that are older than the newest they have.
    FollowsOldLists,
    /// Teardown is always hurried, though nobody asked for that.
    AlwaysHurries,
}

#[derive(Clone)]
enum Mail {
    ToController(Event),
    List(List),
    Ask(String),
    Answer(RequestId, Result<Answer, Refusal>),
}

pub struct World {
    pub seed: u64,
    weather: Weather,
    dice: Dice,
    pub now: i64,
    state: State,
    registry: BTreeMap<Key, Row>,
    pub agents: BTreeMap<String, Agent>,
    pub jobs: BTreeMap<String, Job>,
    submitted: u64,
    mail: Vec<Mail>,
    /// Second copies that come much later.
    late: Vec<(i64, Mail)>,
    asked: BTreeMap<RequestId, String>,
    next_request: u64,
    /// Results in an instance, with the job that wrote them.
    data: BTreeMap<InstanceId, BTreeMap<u64, String>>,
    next_result: u64,
    pfs: BTreeSet<u64>,
    given_up: BTreeSet<u64>,
    /// Instances that lost a part in an accident.
    damaged: BTreeSet<InstanceId>,
    calm: bool,
    pub points: u64,
    pub crashes: u64,
    pub steps: u64,
    pub lost_mail: u64,
    pub accidents: u64,
}

impl World {
    pub fn new(seed: u64, weather: Weather) -> World {
        let mut agents = BTreeMap::new();
        let mut dice = Dice::new(seed);
        for number in 0..weather.storage_nodes {
            let capacity = GRANULARITY * (3 + dice.roll(12)) + dice.roll(GRANULARITY);
            let name = format!("s{number:03}");
            agents.insert(name.clone(), Agent::new(name, Some("main".into()), capacity));
        }
        for number in 0..weather.compute_nodes {
            let name = format!("c{number:03}");
            agents.insert(name.clone(), Agent::new(name, None, 0));
        }
        if weather.defect == Some(Defect::FollowsOldLists) {
            agents.values_mut().for_each(|agent| agent.follows_old_lists = true);
        }
        World {
            seed,
            weather,
            dice,
            now: 1_000,
            state: State::new(settings()).unwrap(),
            registry: BTreeMap::new(),
            agents,
            jobs: BTreeMap::new(),
            submitted: 0,
            mail: Vec::new(),
            late: Vec::new(),
            asked: BTreeMap::new(),
            next_request: 0,
            data: BTreeMap::new(),
            next_result: 0,
            pfs: BTreeSet::new(),
            given_up: BTreeSet::new(),
            damaged: BTreeSet::new(),
            calm: false,
            points: 0,
            crashes: 0,
            steps: 0,
            lost_mail: 0,
            accidents: 0,
        }
    }

    /// Runs until everything has ended, and checks that nothing is left.
    pub fn run(&mut self) {
        for agent in self.agents.values_mut() {
            let (node, message) = (agent.name.clone(), agent.register());
            let incarnation = agent.incarnation;
            self.mail.push(Mail::ToController(Event::Agent { node, incarnation, message }));
        }
        let mut rounds = 0;
        while !self.is_over() {
            self.round();
            rounds += 1;
            let limit = 6_000 + 20 * self.weather.jobs as i64;
            assert!(rounds < limit, "seed {}: {}", self.seed, self.unfinished());
        }
        self.check_end();
    }

    fn is_over(&mut self) -> bool {
        let open = self.jobs.values().filter(|job| !job.is_persistent() && job.phase != Phase::Ended);
        if self.submitted < self.weather.jobs || open.count() > 0 {
            return false;
        }
        // The last ones to go are the persistent instances.
        self.calm = true;
        for job in self.jobs.values_mut().filter(|job| job.is_persistent()) {
            if matches!(job.phase, Phase::Running(_)) {
                job.phase = Phase::Teardown;
            }
        }
        let gone = self.jobs.values().all(|job| job.phase == Phase::Ended);
        gone && self.state.tables().tasks.is_empty()
            && self
                .agents
                .values()
                .all(|agent| agent.dead || (agent.disk.is_empty() && agent.mounts.is_empty()))
    }

    fn unfinished(&self) -> String {
        let jobs: Vec<String> = self
            .jobs
            .values()
            .filter(|job| job.phase != Phase::Ended)
            .map(|job| format!("{} {:?} {} failures", job.token, job.phase, job.failures))
            .collect();
        let tasks: Vec<String> = self.state.tables().tasks.values().map(|task| format!("{task:?}")).collect();
        format!("does not end: jobs {jobs:?}, tasks {tasks:?}")
    }

    fn check_end(&self) {
        let tables = self.state.tables();
        let left: Vec<Row> = tables
            .rows()
            .into_iter()
            .filter(|row| !matches!(row, Row::Counters(_) | Row::Pool(_) | Row::Node(_)))
            .collect();
        assert!(left.is_empty(), "seed {}: rows are left: {left:?}", self.seed);
        for pool in view::pools(&self.state) {
            assert_eq!(pool.free, pool.quantity, "seed {}: granules leaked", self.seed);
        }
    }

    /// A second passes.
    fn round(&mut self) {
        self.now += 1;
        self.deliver_one(Event::Tick { now: self.now });
        self.submit();
        self.agents_act();
        self.jobs_act();
        self.deliver();
    }

    fn submit(&mut self) {
        let open = self.jobs.values().filter(|job| job.phase != Phase::Ended && !job.is_persistent()).count();
        if self.submitted == 0 {
            for name in ["alpha", "beta"] {
                self.jobs.insert(name.into(), Job::persistent(name, &mut self.dice));
            }
        }
        let hosts: Vec<String> = self.agents.keys().filter(|name| name.starts_with('c')).cloned().collect();
        let persistent: Vec<String> = ["alpha", "beta"].map(str::to_owned).to_vec();
        for _ in open..self.weather.at_a_time {
            if self.submitted == self.weather.jobs {
                // From here on nothing goes wrong any more, so that all can end.
                self.calm |= open < self.weather.at_a_time / 4 + 1;
                return;
            }
            self.submitted += 1;
            let job = Job::batch(self.submitted, &mut self.dice, &hosts, &persistent);
            self.jobs.insert(job.token.clone(), job);
        }
    }

    // ---- agents

    fn agents_act(&mut self) {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for (place, name) in names.iter().enumerate() {
            if !self.calm && self.dice.once_in(self.weather.accident_rate) {
                self.accident(name);
            }
            let agent = self.agents.get_mut(name).unwrap();
            if agent.is_away(self.now) {
                continue;
            }
            if (self.now + place as i64) % HEARTBEAT_S == 0 {
                let said = agent.heartbeat();
                agent.forget_failures();
                said.into_iter().for_each(|message| self.say(name, message));
            }
            self.agent_works(name);
        }
    }

    fn say(&mut self, node: &str, message: AgentMessage) {
        let incarnation = self.agents[node].incarnation;
        self.mail.push(Mail::ToController(Event::Agent { node: node.to_owned(), incarnation, message }));
    }

    fn accident(&mut self, name: &str) {
        let kind = self.dice.roll(10);
        self.accidents += 1;
        let agent = self.agents.get_mut(name).unwrap();
        match kind {
            0..=3 => agent.restart(),
            4..=5 => agent.reboot(),
            6 => {
                agent.reboot();
                for held in std::mem::take(&mut agent.disk).into_values() {
                    self.damaged.insert(held.instance);
                }
            }
            // Out of reach: for a moment, or so long that it is taken for lost.
            7 => agent.away_until = self.now + 5 + self.dice.roll(40) as i64,
            8 => agent.away_until = self.now + 70 + self.dice.roll(200) as i64,
            _ => {
                agent.reboot();
                agent.away_until = self.now + 70 + self.dice.roll(60) as i64;
            }
        }
        if kind <= 6 {
            let message = agent.register();
            self.say(name, message);
        }
    }

    fn agent_works(&mut self, name: &str) {
        for order in self.agents[name].open_orders() {
            if self.dice.once_in(3) {
                continue;
            }
            let failures = if self.calm { 0 } else { self.weather.failure_rate };
            let agent = self.agents.get_mut(name).unwrap();
            let (message, deed) = agent.work(&order, &mut self.dice, failures);
            let message = match deed {
                Deed::None => message,
                Deed::Removed(instance) => {
                    self.check_removal(instance);
                    message
                }
                Deed::StagedOut { instance, fragments, pfs, task } => {
                    let whole = self.stage_out(instance, &fragments, &pfs);
                    let agent = self.agents.get_mut(name).unwrap();
                    Some(if whole { agent.done(task) } else { agent.failed(task) })
                }
            };
            if let Some(message) = message {
                self.say(name, message);
            }
        }
    }

    /// Copies the results of the job whose path this is; says whether all fragments were there.
    fn stage_out(&mut self, instance: InstanceId, fragments: &[Part], pfs: &[u8]) -> bool {
        let there = |Part { fragment, node, .. }: &Part| {
            let agent = self.agents.get(node);
            agent.is_some_and(|agent| !agent.is_away(self.now) && agent.disk.contains_key(fragment))
        };
        if !fragments.iter().all(there) && !self.damaged.contains(&instance) {
            return false;
        }
        let text = String::from_utf8_lossy(pfs);
        let token = text.split('/').nth(2).unwrap_or_default().to_owned();
        let results = self.data.get(&instance).into_iter().flatten();
        self.pfs.extend(results.filter(|(_, writer)| **writer == token).map(|(result, _)| *result));
        true
    }

    fn check_removal(&self, instance: InstanceId) {
        for (result, writer) in self.data.get(&instance).into_iter().flatten() {
            let saved = self.pfs.contains(result) || self.given_up.contains(result);
            assert!(
                saved || self.damaged.contains(&instance),
                "seed {}: result {result} of job {writer} in instance {instance} is destroyed",
                self.seed
            );
        }
    }

    // ---- jobs

    fn jobs_act(&mut self) {
        let tokens: Vec<String> = self.jobs.keys().cloned().collect();
        for token in tokens {
            let job = self.jobs.get_mut(&token).unwrap();
            match job.act(self.now, &mut self.dice, self.calm) {
                Wish::Nothing => self.write_results(&token),
                Wish::Send(request) => self.send(&token, request),
                Wish::GiveUp => self.give_up_requests(&token),
            }
        }
    }

    fn write_results(&mut self, token: &str) {
        let job = &self.jobs[token];
        if !matches!(job.phase, Phase::Running(_)) || job.is_persistent() {
            return;
        }
        let mut instances = BTreeSet::new();
        for agent in job.hosts.iter().filter_map(|host| self.agents.get(host)) {
            for (instance, path) in agent.mounts.values() {
                let own = path.contains(&format!("/{token}_"));
                let attached = ["alpha", "beta"]
                    .into_iter()
                    .find(|name| path.ends_with(&format!("/{name}_{token}_striped_scratch")));
                if (own && job.stages_out(None)) || (attached.is_some() && job.stages_out(attached)) {
                    instances.insert(*instance);
                }
            }
        }
        for instance in instances {
            self.data.entry(instance).or_default().insert(self.next_result, token.to_owned());
            self.next_result += 1;
        }
    }

    fn send(&mut self, token: &str, mut request: Request) {
        if let Request::Teardown { hurry, .. } = &mut request {
            if *hurry {
                let results = self.data.values().flatten();
                self.given_up
                    .extend(results.filter(|(_, writer)| *writer == token).map(|(result, _)| *result));
            }
            *hurry |= self.weather.defect == Some(Defect::AlwaysHurries);
        }
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.asked.insert(id, token.to_owned());
        self.jobs.get_mut(token).unwrap().outstanding.push((id, self.now));
        let caller = Caller { uid: MANAGER_UID };
        self.mail.push(Mail::ToController(Event::Request { id, caller, request }));
    }

    /// Their senders are gone, and what was still on its way with them.
    fn give_up_requests(&mut self, token: &str) {
        for (id, _) in std::mem::take(&mut self.jobs.get_mut(token).unwrap().outstanding) {
            self.asked.remove(&id);
            self.mail.retain(
                |mail| !matches!(mail, Mail::ToController(Event::Request { id: other, .. }) if *other == id),
            );
            self.mail.push(Mail::ToController(Event::RequestGone { id }));
        }
    }

    fn answered(&mut self, id: RequestId, answer: &Result<Answer, Refusal>) {
        let Some(token) = self.asked.remove(&id) else { return };
        let job = self.jobs.get_mut(&token).unwrap();
        job.outstanding.retain(|(other, _)| *other != id);
        let before = job.phase;
        if answer.is_ok() {
            self.check_promise(&token, before);
        }
        let job = self.jobs.get_mut(&token).unwrap();
        job.answered(answer, self.now, &mut self.dice);
        if job.phase != before {
            self.give_up_requests(&token);
        }
    }

    /// What was answered is so, as far as no accident came between.
    fn check_promise(&self, token: &str, phase: Phase) {
        let Some(session) = self.state.session_of(token).map(|session| session.id) else { return };
        let tables = self.state.tables();
        let instances = tables.instances.values().filter(|row| row.session == session);
        let instances: BTreeSet<InstanceId> = instances.map(|row| row.id).collect();
        for row in tables.fragments.values().filter(|row| instances.contains(&row.instance)) {
            let there = self.agents[&row.node].disk.contains_key(&row.id);
            let excused = phase == Phase::Teardown || self.damaged.contains(&row.instance);
            assert!(there || excused, "seed {}: job {token} was promised {row:?}", self.seed);
        }
        let accidents_happen = self.weather.accident_rate != 0;
        if phase != Phase::PreRun || instances.is_empty() || accidents_happen {
            return;
        }
        for host in &self.jobs[token].hosts {
            let mounted = self.agents[host].mounts.values().any(|(id, _)| instances.contains(id));
            assert!(mounted, "seed {}: job {token} was promised a mount on {host}", self.seed);
        }
    }

    // ---- mail

    fn deliver(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        let now = self.now;
        mail.extend(self.late.extract_if(.., |(due, _)| *due <= now).map(|(_, mail)| mail));
        self.dice.shuffle(&mut mail);
        for one in mail {
            if self.dice.once_in(self.weather.delay_rate) {
                self.mail.push(one);
                continue;
            }
            if !self.calm && self.dice.once_in(self.weather.loss_rate) {
                self.lost_mail += 1;
                continue;
            }
            self.double(&one);
            match one {
                Mail::ToController(event) => self.deliver_to_controller(event),
                Mail::List(list) => {
                    let agent = self.agents.get_mut(&list.node).unwrap();
                    if !agent.is_away(self.now) {
                        agent.take_list(list);
                    }
                }
                Mail::Ask(node) => {
                    let agent = self.agents.get_mut(&node).unwrap();
                    if !agent.is_away(self.now) {
                        let message = agent.register();
                        self.say(&node, message);
                    }
                }
                Mail::Answer(id, answer) => self.answered(id, &answer),
            }
        }
    }

    /// What goes between the controller and agents may come twice, and the second time much later.
    fn double(&mut self, mail: &Mail) {
        let is_request = matches!(mail, Mail::ToController(Event::Request { .. }) | Mail::Answer(..));
        if !is_request && self.dice.once_in(self.weather.loss_rate) {
            let due = self.now + 1 + self.dice.roll(150) as i64;
            self.late.push((due, mail.clone()));
        }
    }

    fn deliver_to_controller(&mut self, event: Event) {
        if let Event::Request { id, .. } = &event
            && !self.asked.contains_key(id)
        {
            return;
        }
        self.deliver_one(event);
    }

    // ---- the controller and its driver

    fn deliver_one(&mut self, event: Event) {
        self.steps += 1;
        let effects = step(&mut self.state, event);
        self.check_order(&effects);
        if let Err(Crash) = self.carry_out(effects) {
            self.crashes += 1;
            let rows = self.registry.values().cloned().collect();
            self.state = State::restore(settings(), rows).unwrap();
        }
        // It looks at every row, so it is done more rarely where there are more.
        let nodes = self.agents.len() as u64;
        if self.steps.is_multiple_of(CHECK_AFTER_STEPS_PER_NODE * nodes.max(20)) {
            self.check_stored();
        }
    }

    fn check_order(&self, effects: &[Effect]) {
        let late = effects.iter().skip(1).any(|effect| matches!(effect, Effect::Store(_)));
        assert!(!late, "seed {}: something goes out before it is stored", self.seed);
    }

    /// What the registry holds is what the controller knows.
    fn check_stored(&self) {
        assert!(self.state.has_right_links(), "seed {}: links are wrong", self.seed);
        let stored: Vec<&Row> = self.registry.values().collect();
        let rows: BTreeMap<Key, Row> =
            self.state.tables().rows().into_iter().map(|row| (row.key(), row)).collect();
        let known: Vec<&Row> = rows.values().collect();
        if self.weather.defect.is_none() {
            assert_eq!(stored, known, "seed {}: the registry differs from the state", self.seed);
        }
    }

    fn carry_out(&mut self, mut effects: Vec<Effect>) -> Result<(), Crash> {
        if self.weather.defect == Some(Defect::StoresLast) {
            effects.reverse();
        }
        for effect in effects {
            self.point()?;
            match effect {
                Effect::Store(changes) => self.store(changes),
                Effect::Hand(list) => self.mail.push(Mail::List(list)),
                Effect::AskToRegister { node } => self.mail.push(Mail::Ask(node)),
                Effect::Answer { request, answer } => self.mail.push(Mail::Answer(request, answer)),
                Effect::Notice(_) => {}
                Effect::Log { text, .. } => {
                    assert!(!text.contains(['\n']), "a log line with a line break: {text}");
                }
            }
        }
        self.point()
    }

    /// A crash point.
    fn point(&mut self) -> Result<(), Crash> {
        self.points += 1;
        let random = !self.calm && self.dice.once_in(self.weather.crash_rate);
        if random || self.weather.crash_at == Some(self.points) { Err(Crash) } else { Ok(()) }
    }

    fn store(&mut self, changes: Vec<Change>) {
        let defect = self.weather.defect;
        if defect == Some(Defect::SkipsStore) && self.dice.once_in(10) {
            return;
        }
        for change in changes {
            if defect == Some(Defect::ForgetsRow) && self.dice.once_in(50) {
                continue;
            }
            if defect == Some(Defect::ForgetsPlannedFragments)
                && matches!(&change, Change::Put(Row::Fragment(row)) if row.state.transitioning)
            {
                continue;
            }
            match change {
                Change::Put(row) => {
                    // As it would come back from a database.
                    let text = serde_json::to_string(&row).unwrap();
                    let row: Row = serde_json::from_str(&text).unwrap();
                    self.registry.insert(row.key(), row);
                }
                Change::Delete(key) => {
                    self.registry.remove(&key);
                }
            }
        }
    }
}

struct Crash;

fn settings() -> Settings {
    Settings {
        registry: REGISTRY.into(),
        operators: BTreeSet::new(),
        workload_managers: BTreeSet::from([MANAGER_UID]),
        mount_root: "/mnt/dw".into(),
        pools: vec![("main".into(), Bytes(GRANULARITY))],
        policies: Default::default(),
        space_by_hand: forebay_controller::cluster::SpaceByHand::Unlimited,
        lost_after_s: limits::LOST_AFTER_S,
        storage_wait_s: limits::STORAGE_WAIT_S,
    }
}
