//! The tutorial's scripts in `examples/sc17` run under `forebay run` as they are, except for paths, sizes and names, as root
//! and as a user without any privilege; and when they have run, nothing is left behind.
//!
//! Every test has a state directory of its own below one temporary directory; its guard detaches what a failed test left
//! mounted there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const ROOT: u32 = 0;
/// An account without files, groups or a home, that exists everywhere.
const NOBODY: u32 = 65534;
const CAPACITY: &str = "64MiB";
const NAME: &str = "my_space";

/// A user's corner of the machine: programs, a parallel file system with the tutorial's data, a state directory.
struct Place {
    directory: TempDir,
    uid: u32,
}

impl Place {
    fn new(uid: u32) -> Place {
        // The suite acts as other users and mounts images.
        assert!(rustix::process::geteuid().is_root(), "run the tests as root: make test");
        let directory = tempfile::Builder::new().prefix("forebay-sc17-").tempdir().unwrap();
        let place = Place { directory, uid };
        fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for part in ["", "bin", "home", "pfs", "pfs/data"] {
            let path = place.path(part);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(uid), Some(uid)).unwrap();
        }
        for program in [env!("CARGO_BIN_EXE_forebay"), env!("CARGO_BIN_EXE_dwstat")] {
            let program = Path::new(program);
            fs::copy(program, place.path("bin").join(program.file_name().unwrap())).unwrap();
        }
        place.write("pfs/data/file.dat", &(0..3_000_000u32).map(|i| (i * 31 >> 7) as u8).collect::<Vec<_>>());
        place.write("pfs/data/note.txt", b"input of the tutorial\n");
        place
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn write(&self, relative: &str, content: &[u8]) {
        let path = self.path(relative);
        fs::write(&path, content).unwrap();
        chown(&path, Some(self.uid), Some(self.uid)).unwrap();
    }

    /// A script of the tutorial with its marks filled in.
    fn script(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sc17").join(name);
        let text = fs::read_to_string(source)
            .unwrap()
            .replace("@CAPACITY@", CAPACITY)
            .replace("@PFS@", self.path("pfs").to_str().unwrap())
            .replace("@NAME@", NAME);
        self.write(name, text.as_bytes());
        self.path(name)
    }

    /// A program of ours as this place's user, with nothing of our own environment.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("bin").join(name));
        command
            .uid(self.uid)
            .gid(self.uid)
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", self.path("bin").display()),
            )
            .env("HOME", self.path("home"))
            .env("SHELL", "/bin/bash")
            .env("FOREBAY_STATE_DIR", self.path("state"))
            .current_dir(self.path("home"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        self.program("forebay").arg("run").args(options).arg(self.script(script)).output().unwrap()
    }

    /// Runs a script that must succeed; its standard output.
    fn succeed(&self, options: &[&str], script: &str) -> String {
        let output = self.run(options, script);
        assert!(
            output.status.success(),
            "{script} as uid {}: {}\n{}",
            self.uid,
            output.status,
            shown(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn dwstat(&self, table: &str) -> String {
        let output = self.program("dwstat").arg(table).output().unwrap();
        assert!(output.status.success(), "dwstat {table}: {}", shown(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Mount points below this place.
    fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let below = format!("{}/", self.directory.path().display());
        table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .filter(|path| path.starts_with(&below))
            .map(str::to_owned)
            .collect()
    }

    /// What outlived the jobs: mounts, loop devices, instances, processes.
    fn leftovers(&self) -> Vec<String> {
        let mut found = self.mounts();
        found.extend(self.loop_devices());
        found.extend(entries(&self.path("state/instances")));
        found.extend(self.processes());
        found
    }

    fn loop_devices(&self) -> Vec<String> {
        entries(Path::new("/sys/block"))
            .into_iter()
            .filter_map(|device| fs::read_to_string(Path::new(&device).join("loop/backing_file")).ok())
            .filter(|backing| backing.starts_with(self.directory.path().to_str().unwrap()))
            .collect()
    }

    fn processes(&self) -> Vec<String> {
        let program = self.path("bin/forebay");
        entries(Path::new("/proc"))
            .into_iter()
            .filter(|process| fs::read_link(Path::new(process).join("exe")).is_ok_and(|exe| exe == program))
            .collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new(), "left behind by uid {}", self.uid);
        assert!(self.dwstat("instances").starts_with("no instances"), "{}", self.dwstat("instances"));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for mount in self.mounts() {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let Ok(listing) = fs::read_dir(directory) else { return Vec::new() };
    listing.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned())).collect()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The line after the one that is (or begins with) `title`.
fn line_after<'a>(text: &'a str, title: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(title));
    lines.nth(1).unwrap_or_else(|| panic!("no line after {title:?} in:\n{text}"))
}

/// What follows `title` in the line that begins with it.
fn value_of<'a>(text: &'a str, title: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(title));
    line.unwrap_or_else(|| panic!("no line beginning with {title:?} in:\n{text}")).trim()
}

fn cksum(path: &Path) -> String {
    let output = Command::new("cksum").arg("--").stdin(fs::File::open(path).unwrap()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn scratch(uid: u32) {
    let place = Place::new(uid);
    let text = place.succeed(&[], "scratch.sh");
    let path = line_after(&text, "*** path of the allocation:");
    assert!(path.starts_with('/') && path.ends_with('/'), "{path:?}");
    assert_eq!(line_after(&text, "*** cat "), "Hello from the burst buffer");
    assert!(!Path::new(path).join("hello.txt").exists(), "the allocation outlived its job");
    place.assert_nothing_is_left();
}

fn stage_in(uid: u32) {
    let place = Place::new(uid);
    let text = place.succeed(&[], "stage_in.sh");
    let sums: Vec<&str> = text.lines().skip_while(|line| *line != "*** checksums").skip(1).collect();
    let [file, note] = [cksum(&place.path("pfs/data/file.dat")), cksum(&place.path("pfs/data/note.txt"))];
    assert_eq!(
        sums,
        [format!("{file} file.dat"), format!("{file} data/file.dat"), format!("{note} data/note.txt")]
    );
    place.assert_nothing_is_left();
}

fn stage_out(uid: u32) {
    let place = Place::new(uid);
    place.succeed(&[], "stage_out.sh");
    assert_eq!(fs::read_to_string(place.path("pfs/hello.txt")).unwrap(), "Hello from the burst buffer\n");
    for step in 1..=3 {
        let result = fs::read_to_string(place.path(&format!("pfs/outputs/step-{step}.txt"))).unwrap();
        assert_eq!(result, format!("result of step {step}\n"));
    }
    assert_eq!(entries(&place.path("pfs/outputs")).len(), 3, "a temporary file stayed");
    place.assert_nothing_is_left();
}

fn persistent(uid: u32) {
    let place = Place::new(uid);
    place.succeed(&[], "create_persistent.sh");
    let instances = place.dwstat("instances");
    assert!(instances.lines().any(|line| line.contains(NAME) && line.contains("public")), "{instances}");

    let again = place.run(&[], "create_persistent.sh");
    assert!(
        !again.status.success() && shown(&again).contains(NAME),
        "a second one of the name: {}",
        shown(&again)
    );

    let first = place.succeed(&[], "use_persistent.sh");
    let listing: Vec<&str> = first.lines().skip_while(|line| !line.starts_with("*** ls ")).collect();
    assert!(listing.iter().any(|line| line.ends_with("file.dat") && line.contains("3000000")), "{first}");
    let second = place.succeed(&[], "use_persistent.sh");
    assert!(line_after(&second, "*** jobs that were here before:").starts_with("job "), "{second}");
    assert_eq!(place.mounts(), Vec::<String>::new(), "mounted without a job");

    place.succeed(&[], "destroy_persistent.sh");
    place.assert_nothing_is_left();
    let wrong = place.run(&[], "destroy_persistent.sh");
    assert!(
        !wrong.status.success() && shown(&wrong).contains(NAME),
        "a wrong name must be an error: {}",
        shown(&wrong)
    );
}

fn private(uid: u32) {
    let place = Place::new(uid);
    let text = place.succeed(&[], "private.sh");
    let path = line_after(&text, "*** path of this node's own tree:");
    assert!(path.starts_with('/') && path.ends_with('/'), "{path:?}");
    assert!(text.lines().last().unwrap().starts_with("scratch data of "), "{text}");
    place.assert_nothing_is_left();
}

fn dwstat(uid: u32) {
    let place = Place::new(uid);
    let text = place.succeed(&["--nodes", "4"], "dwstat.sh");
    let session: u64 = value_of(&text, "session ID is:").parse().unwrap();
    let instance = value_of(&text, "instance ID is:");
    assert!(session > 0 && instance.parse::<u64>().is_ok(), "one line for each id: {text}");
    let fragments: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("frag state"))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(fragments.len(), 4, "64 MiB over four nodes of 16 MiB granules: {text}");
    for fragment in &fragments {
        let [_, state, of, capacity, _] = fragment[..] else { panic!("five columns: {fragment:?}") };
        assert!(state.starts_with("CA--"), "{state}");
        assert_eq!((of, capacity), (instance, "16MiB"));
    }
    place.assert_nothing_is_left();
}

fn interactive(uid: u32) {
    let place = Place::new(uid);
    let conf = place.script("interactive.conf");
    let commands = "echo path $DW_JOB_STRIPED; echo kept > $DW_JOB_STRIPED/x; cat $DW_JOB_STRIPED/x; exit 7";
    let shell = place
        .program("forebay")
        .arg("shell")
        .arg("--bbf")
        .arg(conf)
        .args(["--", "bash", "-c", commands])
        .output();
    let output = shell.unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(7), "the shell's own status: {}", shown(&output));
    assert!(value_of(&text, "path ").starts_with('/'), "{text}");
    assert_eq!(text.lines().last(), Some("kept"));
    place.assert_nothing_is_left();
}

macro_rules! as_root_and_as_nobody {
    ($($flow:ident: $root:ident, $nobody:ident;)*) => {$(
        #[test]
        fn $root() {
            $flow(ROOT);
        }

        #[test]
        fn $nobody() {
            $flow(NOBODY);
        }
    )*};
}

as_root_and_as_nobody! {
    scratch: scratch_as_root, scratch_as_nobody;
    stage_in: stage_in_as_root, stage_in_as_nobody;
    stage_out: stage_out_as_root, stage_out_as_nobody;
    persistent: persistent_life_as_root, persistent_life_as_nobody;
    private: private_as_root, private_as_nobody;
    dwstat: dwstat_in_the_script_as_root, dwstat_in_the_script_as_nobody;
    interactive: interactive_as_root, interactive_as_nobody;
}
