//! Whose turn it is.
//!
//! All threads of a simulation but one wait for their turn. The one that runs may look at and change the schedule ([`with`]),
//! so there is no contention; the mutex around it is for the compiler. While a thread is in there, or in anything else of
//! ours, the C library's functions are the real ones for it.
//!
//! Order of a change of turns: the state of the one that stops is written; somebody is chosen; he is told; the other one
//! waits. Nothing of the product runs in between.

use super::faults::{Fault, Faults};
use super::network::Network;
use super::real::real;
use super::trace::Trace;
use forebay_testkit::Random;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest step in nanoseconds.
const STEP_NS_MAX: u64 = 2000;
/// A run that takes more steps never ends.
const STEPS_MAX: u64 = 40_000_000;
/// A run that takes longer never ends.
const TIME_NS_MAX: u64 = 7200 * 1_000_000_000;
/// How the program ends when nobody can ever run again.
const STUCK_STATUS: i32 = 70;
/// How it ends when something panics.
const PANIC_STATUS: i32 = 101;

/// Number of a thread.
pub(super) type Task = usize;
/// Number of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub usize);

/// Something that the scene is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A process was killed by a fault.
    Killed(Process),
    /// The power of its machine went.
    Crashed(Process),
    /// Somebody says so.
    Said(Process, String),
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Futex(usize),
    Ended(Task),
    /// Something comes to one end of a connection.
    End(usize),
    /// Anything that is polled for.
    Poll,
    Seen,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waiting { key: Key, until: Option<u64> },
    Ended,
    Killed,
}

struct Thread {
    process: Process,
    name: String,
    state: State,
    was_woken: bool,
    turn: Arc<AtomicU32>,
    /// The C library's name of it.
    native: Option<libc::pthread_t>,
}

/// See the module.
pub(super) struct Schedule {
    pub(super) dice: Random,
    pub(super) faults: Faults,
    pub(super) network: Network,
    pub(super) seen: VecDeque<Seen>,
    /// How often each kind of fault happened.
    happened: [u64; Fault::ALL.len()],
    /// Processes at which faults happen.
    pub(super) mortal: Vec<Process>,
    /// Processes whose disks may be full, and until when they are.
    pub(super) full: BTreeMap<Process, u64>,
    /// Processes whose disks fail: after so many calls that write to them or sync, and so many.
    pub(super) failing: BTreeMap<Process, (u64, u64)>,
    /// How often processes were killed, and how often the power of a machine went; that of each by the name of its process.
    pub(super) kills: u64,
    pub(super) crashes: u64,
    boots: BTreeMap<String, u64>,
    trace: Trace,
    threads: Vec<Thread>,
    processes: Vec<String>,
    running: Task,
    now: u64,
    steps: u64,
    /// A thread that may go on is interrupted once in so many steps.
    interrupts: u64,
}

static SCHEDULE: Mutex<Option<Schedule>> = Mutex::new(None);

thread_local! {
    static SELF: Cell<Option<Task>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// This thread, if it is part of a simulation and not in our own code.
pub(super) fn own() -> Option<Task> {
    if INSIDE.get() { None } else { SELF.get() }
}

/// Looks at the schedule. Not from inside.
pub(super) fn with<T>(look: impl FnOnce(&mut Schedule) -> T) -> T {
    let before = INSIDE.replace(true);
    let mut schedule = SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner);
    let looked = look(schedule.as_mut().expect("a simulation runs"));
    drop(schedule);
    INSIDE.set(before);
    looked
}

/// Does something with the real functions of the C library, as this thread.
pub(super) fn aside<T>(doing: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let done = doing();
    INSIDE.set(before);
    done
}

/// Begins a simulation; the caller is its first thread.
pub(super) fn begin(schedule: Schedule) {
    let mut place = SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(place.is_none(), "one simulation a process");
    *place = Some(schedule);
    drop(place);
    with(|schedule| {
        schedule.add_process("scene");
        schedule.add_thread(Process(0));
    });
    SELF.set(Some(0));
}

/// Ends it: the others wait for ever.
pub(super) fn end() -> super::Summary {
    let summary = with(|schedule| {
        schedule.trace.flush();
        let (events, hash) = (schedule.trace.events, schedule.trace.hash);
        super::Summary { events, hash, nanoseconds: schedule.now, faults: schedule.happened }
    });
    SELF.set(None);
    summary
}

/// A thread panics: nothing is worth anything any more.
pub(super) fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    INSIDE.set(true);
    eprintln!("{info}");
    if let Ok(mut schedule) = SCHEDULE.try_lock()
        && let Some(schedule) = schedule.as_mut()
    {
        let running = &schedule.threads[schedule.running];
        let process = &schedule.processes[running.process.0];
        eprintln!("in {process}/{} at {} ns, after {} steps", running.name, schedule.now, schedule.steps);
        schedule.trace.flush();
    }
    // Safe: nothing of this process is needed any more.
    unsafe { libc::_exit(PANIC_STATUS) }
}

/// The time.
pub(super) fn now() -> u64 {
    with(|schedule| schedule.now)
}

/// A place where others may come first.
pub(super) fn pass() {
    if own().is_none() {
        return;
    }
    let is_interrupted = with(|schedule| {
        schedule.step();
        schedule.dice.one_in(schedule.interrupts)
    });
    if is_interrupted {
        hand_over();
    }
}

/// Waits for something or a time; `true`: it was the first.
pub(super) fn wait(key: Key, until: Option<u64>) -> bool {
    with(|schedule| {
        schedule.step();
        let running = schedule.running;
        schedule.threads[running].state = State::Waiting { key, until };
        schedule.threads[running].was_woken = false;
    });
    hand_over();
    with(|schedule| schedule.threads[schedule.running].was_woken)
}

/// Lets somebody run, who may be the same again. Does not return for a thread that was killed.
pub(super) fn hand_over() {
    let (own, own_turn, next) = with(|schedule| {
        let own = schedule.running;
        let next = schedule.choose();
        schedule.running = next;
        (own, schedule.threads[own].turn.clone(), (next, schedule.threads[next].turn.clone()))
    });
    if next.0 != own {
        give_turn(&next.1);
        wait_for_turn(&own_turn);
    }
}

/// The same for a thread that ends.
pub(super) fn leave() {
    let next = with(|schedule| {
        let own = schedule.running;
        schedule.threads[own].state = State::Ended;
        schedule.note(|| "ends".to_owned());
        schedule.wake(Key::Ended(own), usize::MAX);
        schedule.running = schedule.choose();
        schedule.threads[schedule.running].turn.clone()
    });
    SELF.set(None);
    give_turn(&next);
}

/// A new thread begins here, when it is its turn.
pub(super) fn enter(task: Task, turn: &AtomicU32) {
    SELF.set(Some(task));
    wait_for_turn(turn);
    super::dispatch::enter();
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let syscall = real!(syscall(i64, usize, usize, usize, usize) -> i64);
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    // Safe: the word lives for the call, and there is no time.
    unsafe { syscall(libc::SYS_futex, word.as_ptr() as usize, operation, value as usize, 0) };
}

fn give_turn(turn: &AtomicU32) {
    turn.store(1, SeqCst);
    futex(turn, libc::FUTEX_WAKE, 1);
}

fn wait_for_turn(turn: &AtomicU32) {
    while turn.swap(0, SeqCst) == 0 {
        futex(turn, libc::FUTEX_WAIT, 0);
    }
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Schedule {
        let mut dice = Random::new(seed);
        let interrupts = 1 << dice.below(7);
        Schedule {
            dice,
            faults: Faults::default(),
            network: Network::default(),
            seen: VecDeque::new(),
            happened: [0; _],
            mortal: Vec::new(),
            full: BTreeMap::new(),
            failing: BTreeMap::new(),
            kills: 0,
            crashes: 0,
            boots: BTreeMap::new(),
            trace: Trace::new(),
            threads: Vec::new(),
            processes: Vec::new(),
            running: 0,
            now: 1_000_000_000,
            steps: 0,
            interrupts,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        let thread = &self.threads[self.running];
        let line = format!(
            "{} {}.{} {}/{} {}",
            self.now,
            thread.process.0,
            self.running,
            self.processes[thread.process.0],
            thread.name,
            text()
        );
        self.trace.add(&line);
    }

    /// A fault happened: counted, so that a run without any is seen.
    pub(super) fn happened(&mut self, fault: Fault) {
        self.note(|| format!("{fault:?}"));
        let kind = Fault::ALL.iter().position(|known| *known == fault).expect("one of all");
        self.happened[kind] += 1;
    }

    /// The running thread's process may be killed by a fault. Not that of the scene.
    pub(super) fn may_die(&self) -> bool {
        self.mortal.contains(&self.process())
    }

    fn step(&mut self) {
        self.steps += 1;
        self.now += 1 + self.dice.below(STEP_NS_MAX);
        if self.steps > STEPS_MAX || self.now > TIME_NS_MAX {
            self.give_up("it takes too long");
        }
    }

    pub(super) fn add_process(&mut self, name: &str) -> Process {
        self.processes.push(name.to_owned());
        Process(self.processes.len() - 1)
    }

    pub(super) fn add_thread(&mut self, process: Process) -> (Task, Arc<AtomicU32>) {
        let turn = Arc::<AtomicU32>::default();
        self.threads.push(Thread {
            process,
            name: String::new(),
            state: State::Ready,
            was_woken: false,
            turn: turn.clone(),
            native: None,
        });
        (self.threads.len() - 1, turn)
    }

    /// The running thread belongs to another process from now on; returns to which one it belonged.
    pub(super) fn become_process(&mut self, process: Process) -> Process {
        std::mem::replace(&mut self.threads[self.running].process, process)
    }

    pub(super) fn process(&self) -> Process {
        self.threads[self.running].process
    }

    pub(super) fn set_name(&mut self, name: &str) {
        let running = self.running;
        name.clone_into(&mut self.threads[running].name);
    }

    pub(super) fn set_native(&mut self, task: Task, native: libc::pthread_t) {
        self.threads[task].native = Some(native);
    }

    /// The thread of this name, and whether it has ended. The last one: names are used again.
    pub(super) fn by_native(&self, native: libc::pthread_t) -> Option<(Task, bool)> {
        let found = self.threads.iter().rposition(|thread| thread.native == Some(native))?;
        Some((found, self.threads[found].state == State::Ended))
    }

    /// Lets those go on who wait for something, so many of them; returns how many.
    pub(super) fn wake(&mut self, key: Key, most: usize) -> usize {
        let mut woken = 0;
        for thread in &mut self.threads {
            if woken < most && matches!(thread.state, State::Waiting { key: waited, .. } if waited == key) {
                thread.state = State::Ready;
                thread.was_woken = true;
                woken += 1;
            }
        }
        woken
    }

    pub(super) fn tell(&mut self, what: Seen) {
        self.seen.push_back(what);
        self.wake(Key::Seen, usize::MAX);
    }

    /// A process never runs again, and its connections end.
    pub(super) fn kill(&mut self, process: Process) {
        self.note(|| format!("kill {}", process.0));
        self.kills += 1;
        self.end_of(process);
    }

    /// The power of a process's machine goes: it never runs again, and the next one there is in another boot.
    pub(super) fn crash(&mut self, process: Process) {
        self.note(|| format!("crash {}", process.0));
        self.crashes += 1;
        *self.boots.entry(self.processes[process.0].clone()).or_default() += 1;
        self.end_of(process);
    }

    /// Which boot this is of the running process's machine.
    pub(super) fn boot(&self) -> String {
        let name = &self.processes[self.process().0];
        let machine =
            name.bytes().fold(0u32, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into()));
        format!("{machine:08x}-0000-4000-8000-{:012x}\n", self.boots.get(name).copied().unwrap_or(0))
    }

    fn end_of(&mut self, process: Process) {
        for thread in self.threads.iter_mut().filter(|thread| thread.process == process) {
            if thread.state != State::Ended {
                thread.state = State::Killed;
            }
        }
        let concerned = self.network.process_is_gone(process, self.now);
        concerned.into_iter().for_each(|end| {
            self.wake(Key::End(end), usize::MAX);
        });
    }

    fn choose(&mut self) -> Task {
        loop {
            let ready = self.threads.iter().filter(|thread| thread.state == State::Ready).count();
            if ready > 0 {
                let which = self.dice.below(ready as u64) as usize;
                let mut ready = (0..).zip(&self.threads).filter(|(_, thread)| thread.state == State::Ready);
                return ready.nth(which).expect("counted").0;
            }
            self.jump();
        }
    }

    /// Nobody can run: goes to the next moment that somebody waits for.
    fn jump(&mut self) {
        let untils = self.threads.iter().filter_map(|thread| match thread.state {
            State::Waiting { until, .. } => until,
            _ => None,
        });
        let Some(next) = untils.min() else { self.give_up("everybody waits for ever") };
        self.now = self.now.max(next);
        for thread in &mut self.threads {
            if matches!(thread.state, State::Waiting { until: Some(until), .. } if until <= self.now) {
                thread.state = State::Ready;
            }
        }
    }

    /// There is no way on, and nobody to whom a panic could be told.
    fn give_up(&mut self, why: &str) -> ! {
        self.trace.flush();
        eprintln!("the simulation ends after {} steps at {} ns: {why}", self.steps, self.now);
        for (task, thread) in self.threads.iter().enumerate() {
            if !matches!(thread.state, State::Ended | State::Killed) {
                let process = &self.processes[thread.process.0];
                eprintln!("  {task} {process}/{}: {:?}", thread.name, thread.state);
            }
        }
        // Safe: nothing of this process is needed any more.
        unsafe { libc::_exit(STUCK_STATUS) }
    }
}
