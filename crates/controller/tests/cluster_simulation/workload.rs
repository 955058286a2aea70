//! The workload manager of the simulation: takes jobs through the verbs, as Slurm does, with all its bad habits.

use crate::dice::Dice;
use forebay_controller::cluster::effect::Answer;
use forebay_controller::cluster::refusal::Refusal;
use forebay_controller::cluster::request::*;
use forebay_controller::request::{AccessRequest, StageDirection, StageKind};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;

/// An answer is waited for so long.
const PATIENCE_S: i64 = 90;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `setup` or `create_persistent`.
    Setup,
    DataIn,
    PreRun,
    /// So many more seconds. A persistent instance: until the end of the simulation.
    Running(i64),
    PostRun,
    DataOut,
    Teardown,
    Ended,
}

pub struct Job {
    pub token: String,
    pub setup: Option<Setup>,
    pub create: Option<CreatePersistent>,
    pub hosts: Vec<String>,
    pub phase: Phase,
    pub hurry: bool,
    /// Begins again after teardown.
    again: bool,
    pub outstanding: Vec<(RequestId, i64)>,
    wait_until: i64,
    pub failures: u32,
}

/// What a job wants of the world.
#[allow(clippy::large_enum_variant)] // one at a time is alive
pub enum Wish {
    Nothing,
    Send(Request),
    /// The senders of all outstanding requests die.
    GiveUp,
}

impl Job {
    pub fn batch(number: u64, dice: &mut Dice, hosts: &[String], persistent: &[String]) -> Job {
        let token = number.to_string();
        let mut setup = random_setup(&token, number, dice);
        if !persistent.is_empty() && dice.once_in(4) {
            let name = persistent[dice.roll(persistent.len() as u64) as usize].clone();
            if dice.once_in(2) {
                setup.stages.push(stage(&token, 9, StageDirection::Out, Some(name.clone())));
            }
            setup.attach.push(name);
        }
        let count = 1 + dice.roll(4);
        let hosts = (0..count).map(|_| hosts[dice.roll(hosts.len() as u64) as usize].clone()).collect();
        Job::new(token, Some(setup), None, hosts)
    }

    pub fn persistent(name: &str, dice: &mut Dice) -> Job {
        let owner = 1000 + dice.roll(5) as u32;
        let space = space(1 + dice.roll(5), AccessMode::Striped);
        let create =
            CreatePersistent { name: name.to_owned(), creator: "CLI".into(), owner, group: 100, space };
        Job::new(name.to_owned(), None, Some(create), Vec::new())
    }

    fn new(token: String, setup: Option<Setup>, create: Option<CreatePersistent>, hosts: Vec<String>) -> Job {
        let (phase, hurry, again, outstanding) = (Phase::Setup, false, false, Vec::new());
        Job { token, setup, create, hosts, phase, hurry, again, outstanding, wait_until: 0, failures: 0 }
    }

    pub fn is_persistent(&self) -> bool {
        self.create.is_some()
    }

    /// Whether the job's results in its own space (or in this persistent instance) are to be staged out.
    pub fn stages_out(&self, persistent: Option<&str>) -> bool {
        let stages = self.setup.iter().flat_map(|setup| &setup.stages);
        stages
            .into_iter()
            .any(|stage| stage.direction == StageDirection::Out && stage.persistent.as_deref() == persistent)
    }

    /// Looks after the job. `calm`: users have patience and nothing is cancelled.
    pub fn act(&mut self, now: i64, dice: &mut Dice, calm: bool) -> Wish {
        if self.phase == Phase::Ended {
            return Wish::Nothing;
        }
        if !calm && !self.is_persistent() && dice.once_in(150) {
            return self.cancel(dice);
        }
        if let Some((_, sent)) = self.outstanding.first() {
            let patience_ended = now - sent > PATIENCE_S || (!calm && dice.once_in(200));
            return match patience_ended {
                true => Wish::GiveUp,
                // The same again, while the first one runs.
                false if self.outstanding.len() < 3 && dice.once_in(40) => self.request(),
                false => Wish::Nothing,
            };
        }
        if now < self.wait_until {
            return Wish::Nothing;
        }
        match &mut self.phase {
            Phase::Running(left) => {
                *left -= 1;
                if *left <= 0 {
                    self.phase = if self.create.is_some() { Phase::Teardown } else { Phase::PostRun };
                }
                Wish::Nothing
            }
            _ => self.request(),
        }
    }

    fn cancel(&mut self, dice: &mut Dice) -> Wish {
        let hurried = dice.once_in(3);
        match self.phase {
            Phase::Setup | Phase::DataIn | Phase::PreRun => {
                (self.phase, self.hurry, self.again) = (Phase::Teardown, true, false);
            }
            Phase::Running(_) | Phase::PostRun | Phase::DataOut if hurried => {
                (self.phase, self.hurry, self.again) = (Phase::Teardown, true, false);
            }
            // Of an orphan the manager knows nothing: plain teardown, whatever is still owed.
            Phase::Running(_) if dice.once_in(3) => {
                (self.phase, self.hurry, self.again) = (Phase::Teardown, false, false);
            }
            Phase::Running(_) => self.phase = Phase::PostRun,
            _ => return Wish::Nothing,
        }
        Wish::GiveUp
    }

    fn request(&self) -> Wish {
        let token = self.token.clone();
        Wish::Send(match (self.phase, &self.setup, &self.create) {
            (Phase::Setup, Some(setup), _) => Request::Setup(setup.clone()),
            (Phase::Setup, _, Some(create)) => Request::CreatePersistent(create.clone()),
            (Phase::DataIn, ..) => Request::DataIn { token },
            (Phase::PreRun, ..) => Request::PreRun { token, hosts: self.hosts.clone() },
            (Phase::PostRun, ..) => Request::PostRun { token },
            (Phase::DataOut, ..) => Request::DataOut { token },
            (Phase::Teardown, ..) => Request::Teardown { token, hurry: self.hurry },
            _ => return Wish::Nothing,
        })
    }

    /// An answer came. The other requests of the same phase are given up by the caller when the phase changes.
    pub fn answered(&mut self, answer: &Result<Answer, Refusal>, now: i64, dice: &mut Dice) {
        match answer {
            Ok(_) => self.succeeded(dice),
            Err(refusal) => self.refused(refusal, now, dice),
        }
    }

    fn succeeded(&mut self, dice: &mut Dice) {
        self.phase = match self.phase {
            Phase::Setup if self.is_persistent() => Phase::Running(i64::MAX),
            Phase::Setup => Phase::DataIn,
            Phase::DataIn => Phase::PreRun,
            Phase::PreRun => Phase::Running(1 + dice.roll(20) as i64),
            Phase::PostRun => Phase::DataOut,
            Phase::DataOut => Phase::Teardown,
            Phase::Teardown => return self.ended(),
            other => other,
        };
    }

    fn ended(&mut self) {
        self.phase = if self.again { Phase::Setup } else { Phase::Ended };
        (self.again, self.hurry) = (false, false);
    }

    fn refused(&mut self, refusal: &Refusal, now: i64, dice: &mut Dice) {
        self.failures += 1;
        self.wait_until = now + 2 + dice.roll(20) as i64;
        match (self.phase, refusal) {
            (Phase::Teardown, Refusal::NoToken { .. }) => self.ended(),
            (Phase::Setup, Refusal::NoPersistent { .. }) if self.failures > 40 => self.phase = Phase::Ended,
            (Phase::Setup, Refusal::NoSpace { .. } | Refusal::NoPersistent { .. }) => {}
            (Phase::Setup | Phase::DataIn | Phase::PreRun, _) if !self.is_persistent() => {
                // Held or requeued: torn down, then from the beginning.
                (self.phase, self.hurry, self.again) = (Phase::Teardown, true, self.failures < 8);
            }
            // Its owner destroys what cannot be made, or lost a part meanwhile.
            (Phase::Setup, _) if self.failures > 3 => {
                (self.phase, self.again) = (Phase::Teardown, self.failures < 8);
            }
            // The flag TeardownFailure.
            (Phase::DataOut, _) if dice.once_in(3) => self.phase = Phase::Teardown,
            // Somebody decides to give the data up.
            (Phase::Teardown | Phase::DataOut, _) if self.failures > 60 => {
                (self.phase, self.hurry) = (Phase::Teardown, true);
            }
            _ => {}
        }
    }
}

fn random_setup(token: &str, number: u64, dice: &mut Dice) -> Setup {
    let mode = if dice.once_in(4) { AccessMode::Private } else { AccessMode::Striped };
    let space = (!dice.once_in(8)).then(|| space(1 + dice.roll(9), mode));
    let mut stages = Vec::new();
    if space.is_some() && mode == AccessMode::Striped {
        let ins = (0..dice.roll(3)).map(|n| stage(token, n, StageDirection::In, None));
        let mut all: Vec<Stage> = ins.collect();
        all.extend((0..dice.roll(3)).map(|n| stage(token, n, StageDirection::Out, None)));
        stages = all;
    }
    let owner = 1000 + (number % 7) as u32;
    let (attach, swap, creator) = (Vec::new(), false, "SLURM".to_owned());
    Setup { token: token.to_owned(), creator, owner, group: 100, space, attach, stages, swap }
}

fn stage(token: &str, number: u64, direction: StageDirection, persistent: Option<String>) -> Stage {
    let pfs = format!("/pfs/{token}/{number}").into_bytes();
    let (kind, instance_path) = (StageKind::Directory, b"results".to_vec());
    Stage { direction, kind, persistent, pfs, instance_path, tolerate_errors: false }
}

pub fn space(granules: u64, mode: AccessMode) -> Space {
    let access = vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }];
    let capacity = Capacity::Bytes(Bytes(granules * crate::world::GRANULARITY - 7));
    let kind = ConfigurationType::Scratch;
    Space {
        capacity,
        pool: None,
        strategy: Strategy::Bandwidth,
        kind,
        access,
        write_window: None,
        policies: None,
    }
}
