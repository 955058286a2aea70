//! Limits of a job and its accounting, as its script meets them: through the kernel, as root and as a user without privileges.

#[macro_use]
mod place;

use place::{NOBODY, Place, ROOT, shown};
use serde_json::Value;
use std::process::Output;

fn run(place: &Place, options: &[&str], text: &str) -> Output {
    place.write("job.sh", text.as_bytes());
    place.program("forebay").arg("run").args(options).arg(place.path("job.sh")).output().unwrap()
}

fn configure(place: &Place, policy: &str) {
    let directory = place.path("pool");
    let text = format!(
        "[[pool]]\nname = \"wlm_pool\"\ngranularity = \"16MiB\"\n[[pool.node]]\ndirectory = {directory:?}\n[policy]\n{policy}\n"
    );
    place.make_directory("home/.config");
    place.make_directory("home/.config/forebay");
    place.write("home/.config/forebay/forebay.toml", text.as_bytes());
}

fn json_after<'a>(output: &'a str, mark: &str) -> (Value, &'a str) {
    let text = &output[output.find(mark).unwrap() + mark.len()..];
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next().unwrap().unwrap();
    (value, &text[values.byte_offset()..])
}

const WINDOW: &str = "#!/bin/bash
#DW jobdw capacity=32MiB access_mode=striped type=scratch write_window_multiplier=2 write_window_length=3600
cd $DW_JOB_STRIPED
python3 - << 'END'
import errno, mmap, os
f = os.open('f', os.O_CREAT | os.O_RDWR)
written = 0
try:
    while written < 1 << 30: written += os.pwrite(f, b'x' * 500_000, 0)
except OSError as error: print('stopped', errno.errorcode[error.errno], written)
assert os.pread(f, 3, 0) == b'xxx'
os.unlink('f'); os.mkdir('d'); os.rename('d', 'e')
END
echo status; forebay status --json $SLURM_JOB_ID
dwstat --json instances
forebay status $SLURM_JOB_ID | grep -A3 'write window'
grep 'limit reached' $FOREBAY_STATE_DIR/instances/*/log
";

fn a_write_window_is_kept(uid: u32) {
    for (options, fragments) in [(&[][..], 1), (&["--nodes", "2"], 2)] {
        let place = Place::new(uid);
        let output = run(&place, options, WINDOW);
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!shown(&output).contains("passthrough") && !shown(&output).contains("reached directly"));
        let stopped = all
            .lines()
            .find_map(|line| line.strip_prefix("stopped EROFS "))
            .unwrap_or_else(|| panic!("{}", shown(&output)));
        let written: u64 = stopped.parse().unwrap();
        // What is written at one place goes to one fragment.
        let limit = (32 << 20) * 2 / fragments;
        assert!((limit - 500_000..=limit).contains(&written), "{}", shown(&output));
        let (told, rest) = json_after(&all, "status\n");
        let told = told["fragments"].as_array().unwrap().clone();
        assert_eq!(told.len() as u64, fragments);
        assert!(told.iter().all(|one| one["write_limit"] == limit && one["max_window_write"] == 3600));
        let counted: u64 = told.iter().map(|one| one["write_moving_avg"].as_u64().unwrap()).sum();
        assert_eq!(counted, written);
        assert!(told.iter().any(|one| one["write_high_water"] == written), "{told:?}");
        let (instances, rest) = json_after(rest, "");
        let window = serde_json::json!({"write_window_length": 3600, "write_window_multiplier": 2});
        assert_eq!(instances["instances"][0]["limits"], window);
        assert!(!rest.contains("limit reached"), "nothing is logged without a policy that says so: {rest}");
        place.assert_nothing_is_left();
    }
}

fn policies_log_or_refuse_and_log(uid: u32) {
    for (policy, refuses) in [("log", false), ("both", true)] {
        let place = Place::new(uid);
        let word = format!("{policy:?}");
        configure(&place, &format!("write_window = {word}\nfile_size = {word}\nfile_count = {word}"));
        let script = WINDOW
            .replace("access_mode=striped", "access_mode=striped(MFS=1MiB,MFC=2)")
            .replace("1 << 30", "200 << 20")
            .replace(
                "END\necho status",
                "for name in 'abc':
    try: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)); print('made', name)
    except OSError as error: print('not made', name, errno.errorcode[error.errno])
try: os.truncate('a', 2 << 20); print('long')
except OSError as error: print('not long', errno.errorcode[error.errno])
END
echo status",
            );
        let output = run(&place, &[], &script);
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(all.contains("stopped EROFS"), refuses, "{}", shown(&output));
        assert_eq!(all.contains("not made c EMFILE"), refuses, "{}", shown(&output));
        assert_eq!(all.contains("not long EFBIG"), refuses, "{}", shown(&output));
        for limit in ["write window", "file count", "file size"] {
            let line = format!("limit reached: {limit}: ");
            assert!(all.contains(&line), "{limit}: {}", shown(&output));
            let summary = String::from_utf8_lossy(&output.stderr);
            assert!(summary.contains(&line), "the log goes with the instance: {summary}");
        }
        let (told, _) = json_after(&all, "status\n");
        let namespace = &told["namespaces"][0];
        assert_eq!(
            (&namespace["file_size_limit"], &namespace["files_create_threshold"]),
            (&(1 << 20).into(), &2.into())
        );
        assert_eq!(namespace["files_create_policy"], policy);
        assert_eq!(told["fragments"][0]["write_limit_policy"], policy);
        place.assert_nothing_is_left();
    }
}

/// Sizes, offsets and counts of the accounting, by whatever way the instance is served.
fn accounting(uid: u32) {
    let ways: &[(&[&str], bool)] = if uid == ROOT {
        &[
            (&[], true),
            (&["--serve", "passthrough"], false),
            (&["--nodes", "2", "--serve", "passthrough"], false),
            (&["--serve", "fuse"], false),
        ]
    } else {
        &[(&[], false), (&["--serve", "directory"], true)]
    };
    for (options, is_direct) in ways {
        let place = Place::new(uid);
        let script = "#!/bin/bash
#DW jobdw capacity=64MiB access_mode=striped type=scratch
cd $DW_JOB_STRIPED
head -c 3000000 /dev/urandom > f; touch g
dd if=f of=/dev/null bs=1M skip=1 count=1 iflag=fullblock 2> /dev/null
echo status; forebay status --json $SLURM_JOB_ID; forebay status $SLURM_JOB_ID
";
        let output = run(&place, options, script);
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let (told, text) = json_after(&all, "status\n");
        assert!(text.contains("instance") && text.contains("fragment"), "{}", shown(&output));
        let fragments = told["fragments"].as_array().unwrap();
        let sum = |key: &str| fragments.iter().map(|one| one[key].as_u64().unwrap_or(0)).sum::<u64>();
        assert_eq!(told["server_count"], fragments.len());
        if options.contains(&"directory") {
            assert!(fragments[0]["bytes_written"].is_null(), "nobody counts: {told}");
            continue;
        }
        assert!((3_000_000..3_200_000).contains(&sum("bytes_written")), "{options:?} {told}");
        assert!((1_000_000..4_000_000).contains(&sum("bytes_read")), "{options:?} {told}");
        if !is_direct {
            let namespace = &told["namespaces"][0];
            assert_eq!((&namespace["files_created"], sum("files_created")), (&2.into(), 2), "{told}");
            if !options.contains(&"passthrough") {
                assert_eq!(namespace["bytes_written"], 3_000_000);
                assert_eq!(namespace["max_offset_written"], 3_000_000);
                assert_eq!(namespace["max_offset_read"], 2 << 20);
            }
        }
        place.assert_nothing_is_left();
    }
}

/// The persistent instance of a test.
const KEPT: &str = "kept";

/// A command of `forebay` that has to succeed; what it prints.
fn succeed(place: &Place, words: &[&str]) -> Vec<u8> {
    let output = place.program("forebay").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", shown(&output));
    output.stdout
}

/// The accounting of an instance.
fn status_of(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&succeed(place, &["status", "--json", name])).unwrap()
}

/// What was counted outlives the process that counted it.
fn counting_goes_on_from_job_to_job(uid: u32) {
    let place = Place::new(uid);
    succeed(&place, &["create-persistent", KEPT, "--capacity", "32MiB", "--serve", "fuse"]);
    let script = "#!/bin/bash
#DW persistentdw name=kept
head -c 1000000 /dev/zero > $DW_PERSISTENT_STRIPED_kept/$SLURM_JOB_ID
";
    for _ in 0..2 {
        let output = run(&place, &[], script);
        assert!(output.status.success(), "{}", shown(&output));
    }
    let told = status_of(&place, KEPT);
    let (namespace, fragment) = (&told["namespaces"][0], &told["fragments"][0]);
    assert_eq!(
        (&namespace["bytes_written"], &namespace["files_created"]),
        (&2_000_000.into(), &2.into()),
        "{told}"
    );
    assert_eq!(namespace["max_offset_written"], 1_000_000);
    assert!(fragment["bytes_written"].as_u64().unwrap() >= 2_000_000, "{told}");
    let unknown = place.program("forebay").args(["status", "nothere"]).output().unwrap();
    assert!(!unknown.status.success() && shown(&unknown).contains("nothere"), "{}", shown(&unknown));
    succeed(&place, &["destroy-persistent", KEPT]);
    place.assert_nothing_is_left();
}

/// What stagings bring in and take out is counted, also by the next process that serves the instance.
fn stagings_are_counted(uid: u32) {
    let place = Place::new(uid);
    succeed(&place, &["create-persistent", KEPT, "--capacity", "32MiB", "--serve", "fuse"]);
    let (input, result) = (place.path("input"), place.path("result"));
    std::fs::write(&input, vec![7; 500_000]).unwrap();
    let script = format!(
        "#!/bin/bash
#DW persistentdw name=kept
#DW stage_in type=file source={} destination=$DW_PERSISTENT_STRIPED_kept/input
#DW stage_out type=file source=$DW_PERSISTENT_STRIPED_kept/result destination={}
head -c 300000 $DW_PERSISTENT_STRIPED_kept/input > $DW_PERSISTENT_STRIPED_kept/result
",
        input.display(),
        result.display()
    );
    for _ in 0..2 {
        let output = run(&place, &[], &script);
        assert!(output.status.success(), "{}", shown(&output));
    }
    assert_eq!(std::fs::metadata(&result).unwrap().len(), 300_000);
    let told = status_of(&place, KEPT);
    let namespace = &told["namespaces"][0];
    assert_eq!(
        (&namespace["stage_bytes_written"], &namespace["stage_bytes_read"]),
        (&1_000_000.into(), &600_000.into()),
        "{told}"
    );
    succeed(&place, &["destroy-persistent", KEPT]);
    place.assert_nothing_is_left();
}

as_root_and_as_nobody! {
    a_write_window_is_kept: window_as_root, window_as_nobody;
    policies_log_or_refuse_and_log: policies_as_root, policies_as_nobody;
    accounting: accounting_as_root, accounting_as_nobody;
    counting_goes_on_from_job_to_job: counting_as_root, counting_as_nobody;
    stagings_are_counted: stagings_as_root, stagings_as_nobody;
}
