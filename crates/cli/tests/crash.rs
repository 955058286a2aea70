//! Jobs that are killed or interrupted at any moment: what a script had produced is never lost, and recovery leaves nothing
//! behind.
//!
//! The script writes its result into the burst buffer and then, outside of it, the checksum of the result: from then on the
//! result exists. `forebay run` is killed with SIGKILL after a random time; after `forebay recover` (itself killed now and
//! then) either no checksum exists or the result lies staged out and matches it. The seed is printed;
//! FOREBAY_TEST_SEED repeats it.

mod place;

use forebay_controller::process::ProcessId;
use place::{NOBODY, Place, ROOT, entries, shown};
use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
    #DW stage_in type=directory source=@PFS@/data destination=$DW_JOB_STRIPED/data\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/result destination=@PFS@/result\n\
    seq 1 200000 > $DW_JOB_STRIPED/result\n\
    cksum < $DW_JOB_STRIPED/result > @PFS@/sum.new && mv @PFS@/sum.new @PFS@/sum\n\
    sleep 0.02\n";

/// Makes a registry take the word about a script's process group in a change that never ends.
const HOLD_BEFORE_THE_GROUP_IS_KNOWN: &str =
    "CREATE TRIGGER hold BEFORE UPDATE OF script_group ON jobs WHEN NEW.script_group IS NOT NULL BEGIN
     SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n);
     END";

/// How long a limit on anything awaited is.
const LIMIT: Duration = Duration::from_secs(60);

/// A small generator of numbers that look random (xorshift), so that a seed repeats a test.
struct Random(u64);

impl Random {
    fn seeded() -> Random {
        let given = std::env::var("FOREBAY_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let clock =
            || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = given.unwrap_or_else(clock) | 1;
        println!("FOREBAY_TEST_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn start(place: &Place, options: &[&str], text: &str) -> Child {
    let text = text.replace("@PFS@", place.path("pfs").to_str().unwrap());
    place.write("job.sh", text.as_bytes());
    let mut command = place.program("forebay");
    command.arg("run").args(options).arg(place.path("job.sh"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn kill(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

fn recover(place: &Place) -> Output {
    place.program("forebay").arg("recover").output().unwrap()
}

fn killed_anywhere(uid: u32, options: &[&str], rounds: u32) {
    let mut random = Random::seeded();
    let whole_ms = undisturbed_ms(uid, options);
    let mut produced = 0;
    for round in 0..rounds {
        let place = Place::new(uid);
        let mut child = start(&place, options, SCRIPT);
        // One kill in every part of the job's life, the last one after its end.
        let part_ms = (whole_ms * 6 / 5 / u64::from(rounds)).max(1);
        std::thread::sleep(Duration::from_millis(part_ms * u64::from(round) + random.below(part_ms)));
        let _ = child.kill();
        child.wait().unwrap();
        if round % 3 == 0 {
            let mut first = place.program("forebay").arg("recover").stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.below(60)));
            let _ = first.kill();
            first.wait().unwrap();
        }
        let recovered = recover(&place);
        if !recovered.status.success() {
            // The script was ended before it had a result: what there is is kept until somebody says otherwise.
            let missing = shown(&recovered).contains("the source does not exist");
            assert!(missing && !place.path("pfs/sum").exists(), "round {round}: {}", shown(&recovered));
            let discard = place.program("forebay").args(["recover", "--discard", "100001"]).output().unwrap();
            assert!(discard.status.success(), "round {round}: {}", shown(&discard));
        }
        if let Ok(sum) = fs::read_to_string(place.path("pfs/sum")) {
            produced += 1;
            let result = fs::File::open(place.path("pfs/result"));
            let result = result.unwrap_or_else(|error| panic!("round {round}: the result is lost: {error}"));
            let found = std::process::Command::new("cksum").stdin(result).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&found.stdout), sum, "round {round}");
        }
        place.assert_nothing_is_left();
    }
    // A schedule that never let a script finish would prove nothing.
    assert!(produced > 0, "no round reached the end of the script in {rounds} rounds");
}

/// How long the job takes when nobody disturbs it.
fn undisturbed_ms(uid: u32, options: &[&str]) -> u64 {
    let place = Place::new(uid);
    let begun = Instant::now();
    let output = start(&place, options, SCRIPT).wait_with_output().unwrap();
    assert!(output.status.success() && place.path("pfs/result").exists(), "{}", shown(&output));
    begun.elapsed().as_millis() as u64
}

fn wait_for(path: &std::path::Path) {
    await_some(&format!("{path:?}"), || path.exists().then_some(()));
}

fn await_some<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The script of a `forebay run`: the child that leads a group and no session (an instance process leads both).
fn script_of(forebay: &Child) -> Option<ProcessId> {
    let leads = |process: &String| {
        let stat = fs::read_to_string(format!("{process}/stat")).ok()?;
        let pid: u32 = stat.split(' ').next()?.parse().ok()?;
        let fields: Vec<u32> =
            stat.rsplit(')').next()?.split_whitespace().skip(1).take(3).flat_map(str::parse).collect();
        let [parent, group, session] = fields[..] else { return None };
        (parent == forebay.id() && group == pid && session != pid).then_some(pid)
    };
    let pid = entries(std::path::Path::new("/proc")).iter().find_map(leads)?;
    ProcessId::of(pid).unwrap()
}

/// A script that recovery could not find would write into what recovery takes away.
fn killed_before_the_script_is_written_down(options: &[&str]) {
    let place = Place::new(ROOT);
    assert!(recover(&place).status.success(), "it makes the registry");
    let registry = rusqlite::Connection::open(place.path("state/registry.sqlite")).unwrap();
    registry.execute_batch(HOLD_BEFORE_THE_GROUP_IS_KNOWN).unwrap();
    let script = "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\ntouch @PFS@/ran\n";
    let mut forebay = start(&place, options, script);
    let script = await_some("the script's process", || script_of(&forebay));
    forebay.kill().unwrap();
    forebay.wait().unwrap();
    await_some("the end of the script's process", || (!script.is_alive().unwrap()).then_some(()));
    assert!(!place.path("pfs/ran").exists(), "it ran, and nobody could have ended it");
    registry.execute_batch("DROP TRIGGER hold").unwrap();
    let recovered = recover(&place);
    assert!(recovered.status.success(), "{}", shown(&recovered));
    place.assert_nothing_is_left();
}

/// What a script leaves running writes on when the script has ended, and nobody but recovery is there to end it.
fn killed_when_the_script_left_something_running(uid: u32, options: &[&str]) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/result destination=@PFS@/result\n\
        ( while :; do echo x >> $DW_JOB_STRIPED/result; sleep 0.01; done ) > /dev/null 2>&1 &\n\
        while ! test -s $DW_JOB_STRIPED/result; do sleep 0.01; done\n\
        echo $! > @PFS@/left.new && mv @PFS@/left.new @PFS@/left\n\
        while ! test -e @PFS@/end; do sleep 0.01; done\n";
    let mut forebay = start(&place, options, script);
    wait_for(&place.path("pfs/left"));
    let left = fs::read_to_string(place.path("pfs/left")).unwrap().trim().parse().unwrap();
    let left = ProcessId::of(left).unwrap().expect("it runs");
    let script = script_of(&forebay).expect("it runs");
    // A forebay that is stopped does not end it when the script ends.
    kill(&forebay, rustix::process::Signal::STOP);
    place.write("pfs/end", b"");
    await_some("the end of the script", || (!script.is_alive().unwrap()).then_some(()));
    forebay.kill().unwrap();
    forebay.wait().unwrap();
    assert!(left.is_alive().unwrap());
    let recovered = recover(&place);
    assert!(recovered.status.success(), "{}", shown(&recovered));
    assert!(shown(&recovered).contains("left running were ended"), "{}", shown(&recovered));
    assert!(!left.is_alive().unwrap(), "it goes on");
    assert!(fs::read(place.path("pfs/result")).unwrap().starts_with(b"x\n"));
    place.assert_nothing_is_left();
}

fn an_interrupt_ends_the_script_and_stages_out(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/r destination=@PFS@/r\n\
        echo half > $DW_JOB_STRIPED/r; touch @PFS@/started; sleep 1000\n";
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let _ = fs::remove_file(place.path("pfs/started"));
        let _ = fs::remove_file(place.path("pfs/r"));
        let child = start(&place, &[], script);
        wait_for(&place.path("pfs/started"));
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        // The script is ended with SIGTERM, as Slurm does it.
        assert_eq!(output.status.code(), Some(143), "{}", shown(&output));
        assert_eq!(fs::read_to_string(place.path("pfs/r")).unwrap(), "half\n");
        place.assert_nothing_is_left();
    }
}

fn a_second_interrupt_keeps_the_data(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/r destination=@PFS@/r\n\
        trap 'touch @PFS@/trapped' TERM; echo half > $DW_JOB_STRIPED/r; touch @PFS@/started; while true; do sleep 0.01; done\n";
    let child = start(&place, &[], script);
    wait_for(&place.path("pfs/started"));
    kill(&child, rustix::process::Signal::INT);
    wait_for(&place.path("pfs/trapped"));
    kill(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", shown(&output));
    assert!(!place.path("pfs/r").exists(), "nothing was to be staged out");
    assert!(place.mounts().is_empty());
    let recovered = recover(&place);
    assert!(recovered.status.success(), "{}", shown(&recovered));
    assert_eq!(fs::read_to_string(place.path("pfs/r")).unwrap(), "half\n");
    place.assert_nothing_is_left();
}

fn the_next_command_names_the_orphan(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\ntouch @PFS@/started; sleep 1000\n";
    let mut child = start(&place, &[], script);
    wait_for(&place.path("pfs/started"));
    let running = place.program("forebay").args(["recover", "100001"]).output().unwrap();
    assert!(!running.status.success() && shown(&running).contains("is running"), "{}", shown(&running));
    child.kill().unwrap();
    child.wait().unwrap();
    let next =
        start(&place, &[], "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\ntrue\n");
    let output = next.wait_with_output().unwrap();
    assert!(output.status.success() && shown(&output).contains("100001"), "{}", shown(&output));
    let discarded = place.program("forebay").args(["recover", "--discard", "100001"]).output().unwrap();
    assert!(discarded.status.success(), "{}", shown(&discarded));
    place.assert_nothing_is_left();
}

#[test]
fn killed_anywhere_as_root() {
    killed_anywhere(ROOT, &[], 12);
}

#[test]
fn killed_anywhere_as_root_on_four_nodes() {
    killed_anywhere(ROOT, &["--nodes", "4"], 12);
}

#[test]
fn killed_anywhere_as_nobody() {
    killed_anywhere(NOBODY, &["--nodes", "2"], 12);
}

#[test]
fn killed_when_roots_script_left_something_running() {
    killed_when_the_script_left_something_running(ROOT, &[]);
}

#[test]
fn killed_when_nobodys_script_left_something_running() {
    killed_when_the_script_left_something_running(NOBODY, &["--nodes", "4"]);
}

#[test]
fn killed_before_the_script_is_written_down_on_one_node() {
    killed_before_the_script_is_written_down(&[]);
}

#[test]
fn killed_before_the_script_is_written_down_on_four_nodes() {
    killed_before_the_script_is_written_down(&["--nodes", "4"]);
}

#[test]
fn an_interrupt_as_root() {
    an_interrupt_ends_the_script_and_stages_out(ROOT);
}

#[test]
fn an_interrupt_as_nobody() {
    an_interrupt_ends_the_script_and_stages_out(NOBODY);
}

#[test]
fn a_second_interrupt_as_root() {
    a_second_interrupt_keeps_the_data(ROOT);
}

#[test]
fn a_second_interrupt_as_nobody() {
    a_second_interrupt_keeps_the_data(NOBODY);
}

#[test]
fn the_next_command_names_the_orphan_of_root() {
    the_next_command_names_the_orphan(ROOT);
}

#[test]
fn the_next_command_names_the_orphan_of_nobody() {
    the_next_command_names_the_orphan(NOBODY);
}
