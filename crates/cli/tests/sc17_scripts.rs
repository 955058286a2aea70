//! The tutorial's scripts in `examples/sc17` run under `forebay run` as they are, except for paths, sizes and names, as root
//! and as a user without any privilege; and when they have run, nothing is left behind.
//!

#[macro_use]
mod place;

use place::{NAME, NOBODY, Place, ROOT, entries, shown};
use std::fs;
use std::path::Path;
use std::process::Command;

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

as_root_and_as_nobody! {
    scratch: scratch_as_root, scratch_as_nobody;
    stage_in: stage_in_as_root, stage_in_as_nobody;
    stage_out: stage_out_as_root, stage_out_as_nobody;
    persistent: persistent_life_as_root, persistent_life_as_nobody;
    private: private_as_root, private_as_nobody;
    dwstat: dwstat_in_the_script_as_root, dwstat_in_the_script_as_nobody;
    interactive: interactive_as_root, interactive_as_nobody;
}
