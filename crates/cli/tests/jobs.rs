//! `forebay run` as its users meet it: statuses, the script's environment, staging, what is left behind; as root and as a user
//! without privileges, over every way of serving.

#[macro_use]
mod place;

use place::{NOBODY, Place, ROOT, entries, shown};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs a script of the test's own. `@PFS@` and `%j` work in it.
fn run(place: &Place, options: &[&str], text: &str) -> Output {
    let text = text.replace("@PFS@", place.path("pfs").to_str().unwrap());
    place.write("job.sh", text.as_bytes());
    place
        .program("forebay")
        .arg("run")
        .args(options)
        .arg(place.path("job.sh"))
        .args(["--quiet", "two words", "--help"])
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn environment_and_status(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#SBATCH -J env_job\n#DW jobdw capacity=20MiB access_mode=striped,private type=scratch\n\
        echo \"$DW_JOB_STRIPED|$DW_JOB_PRIVATE|$SLURM_JOB_ID|$SLURM_JOBID|$SLURM_JOB_NAME|$SLURM_JOB_NUM_NODES|$SLURM_SUBMIT_DIR|$#|$2|$PWD\"\n\
        test \"$DW_JOB_STRIPED\" != \"$DW_JOB_PRIVATE\" && touch \"$DW_JOB_STRIPED\"a && test ! -e \"$DW_JOB_PRIVATE\"a\n\
        echo left $?; read -r line || echo no input; exit 7\n";
    let output = run(&place, &[], script);
    assert_eq!(output.status.code(), Some(7), "{}", shown(&output));
    let line = text(&output).lines().next().unwrap().to_string();
    let fields: Vec<&str> = line.split('|').collect();
    assert!(fields[0].ends_with("_striped_scratch/") && fields[1].ends_with("_private_scratch/"), "{line}");
    assert!(fields[2] == fields[3] && fields[2].parse::<u64>().is_ok(), "{line}");
    let home = place.path("home").to_str().unwrap().to_string();
    assert_eq!(fields[4..], ["env_job", "1", &home, "3", "two words", &home], "{line}");
    assert!(text(&output).contains("left 0\nno input\n"), "{}", shown(&output));
    assert!(shown(&output).contains("exit status 7"), "the summary: {}", shown(&output));
    place.assert_nothing_is_left();
}

fn a_signal_is_128_and_its_number(uid: u32) {
    let place = Place::new(uid);
    let output = run(
        &place,
        &[],
        "#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\nkill -9 $$\n",
    );
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    place.assert_nothing_is_left();
}

/// A path that is a link is followed by everything that scripts do with a mount point.
fn the_path_is_below_mounts_in_every_way_of_serving(uid: u32) {
    for options in [&[][..], &["--serve", "fuse"], &["--serve", "directory"]] {
        let place = Place::new(uid);
        let script = "#!/bin/sh\n#DW jobdw capacity=20MiB access_mode=striped type=scratch\n\
            #DW stage_out type=directory source=$DW_JOB_STRIPED/sub destination=@PFS@/out\n\
            echo \"$DW_JOB_STRIPED\"\nset -e\nmkdir ${DW_JOB_STRIPED}sub\n\
            cd -P \"$DW_JOB_STRIPED\" && echo here > a && cd \"$DW_JOB_STRIPED\" && mv a sub/b\n\
            find $DW_JOB_STRIPED -name b | wc -l; ls $(realpath \"$DW_JOB_STRIPED\")\n";
        let output = run(&place, options, script);
        assert!(output.status.success(), "{options:?}: {}", shown(&output));
        let all = text(&output);
        let lines: Vec<&str> = all.lines().collect();
        let mounts = place.path("state/mounts").canonicalize().unwrap();
        assert!(
            lines[0].starts_with(mounts.to_str().unwrap()) && lines[0].ends_with('/'),
            "{options:?} {all}"
        );
        assert_eq!(lines[1..], ["1", "sub"], "{options:?}");
        assert_eq!(fs::read_to_string(place.path("pfs/out/b")).unwrap(), "here\n");
        assert_eq!(entries(&mounts), [""; 0], "{options:?}");
        place.assert_nothing_is_left();
    }
}

/// The reading end of a pipe that nobody reads any more.
fn nobody_listens() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn a_reader_that_is_gone_stops_nothing(uid: u32) {
    let place = Place::new(uid);
    let script = format!(
        "#!/bin/sh\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/r destination={}/r\necho x > $DW_JOB_STRIPED/r\nexit 5\n",
        place.path("pfs").display()
    );
    place.write("job.sh", script.as_bytes());
    let status = |arguments: &[&str], out: std::process::Stdio, err: std::process::Stdio| {
        let mut command = place.program("forebay");
        let status =
            command.args(arguments).current_dir(place.directory.path()).stdout(out).stderr(err).status();
        status.unwrap().code()
    };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    assert_eq!(status(&["run", "job.sh"], nobody_listens(), nobody_listens()), Some(5));
    assert!(place.path("pfs/r").exists());
    assert_eq!(status(&["run", "job.sh"], full(), full()), Some(5));
    place.assert_nothing_is_left();
    for question in
        [&["recover", "--list"][..], &["config"], &["check", "job.sh"], &["run", "--dry-run", "job.sh"]]
    {
        let null = std::process::Stdio::null;
        assert_eq!(status(question, nobody_listens(), null()), Some(0), "{question:?}");
        assert_eq!(status(question, full(), null()), Some(70), "{question:?}: the answer is not there");
    }
}

fn a_script_runs_where_files_may_not_be_run(uid: u32) {
    let place = Place::new(uid);
    let state = place.path("noexec");
    fs::create_dir(&state).unwrap();
    let flags = rustix::mount::MountFlags::NOEXEC;
    rustix::mount::mount("none", &state, "tmpfs", flags, Some(c"size=200m,mode=1777")).unwrap();
    let script = "#!/bin/sh -u\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\necho \"$2\" $-\n";
    place.write("job.sh", script.as_bytes());
    let mut command = place.program("forebay");
    command.env("FOREBAY_STATE_DIR", state.join("s")).args(["run", "--serve", "directory"]);
    let output = command.arg(place.path("job.sh")).args(["one", "two words"]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(text(&output), "two words u\n");
    assert!(place.mounts().iter().all(|mount| Path::new(mount) == state), "{:?}", place.mounts());
}

fn a_disk_that_cannot_be_written_is_named(uid: u32) {
    let place = Place::new(uid);
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let (none, size) = (rustix::mount::MountFlags::empty(), Some(c"size=64m,mode=1777"));
    rustix::mount::mount("none", &disk, "tmpfs", none, size).unwrap();
    place.write("job.sh", b"#!/bin/sh\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n");
    let run = |state: &str| {
        let mut command = place.program("forebay");
        command.env("FOREBAY_STATE_DIR", disk.join(state)).args(["run", "--quiet", "--serve", "directory"]);
        command.arg(place.path("job.sh")).output().unwrap()
    };
    let usual = run("used");
    assert!(usual.status.success(), "{}", shown(&usual));
    let filled =
        place.command("dd").arg("if=/dev/zero").arg(format!("of={}/fill", disk.display())).output().unwrap();
    assert!(shown(&filled).contains("No space"), "{}", shown(&filled));
    let full = run("new");
    assert!(full.status.code() == Some(70) && shown(&full).contains("its disk is full"), "{}", shown(&full));
    rustix::mount::mount_remount(&disk, rustix::mount::MountFlags::RDONLY, "").unwrap();
    let closed = run("used");
    assert!(closed.status.code() == Some(70) && shown(&closed).contains("read-only"), "{}", shown(&closed));
}

fn odd_limits_are_survived(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/sh\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\nulimit -f\n";
    place.write("job.sh", script.as_bytes());
    let under = |limit: &str| {
        let line = format!("{limit}; exec forebay run --quiet {}", place.path("job.sh").display());
        place.command("/bin/sh").args(["-c", &line]).output().unwrap()
    };
    if uid == ROOT {
        // Others could not use the directories that they make.
        let masked = under("umask 777");
        assert!(masked.status.success(), "{}", shown(&masked));
    }
    let limited = under("ulimit -f 100");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&limited.status), None, "{}", shown(&limited));
    place.assert_nothing_is_left();
}

/// A tree with everything a copy can lose.
fn difficult_tree(place: &Place) {
    let of = |name: &str| place.path("pfs").join(name);
    fs::create_dir_all(of("in/sub/empty")).unwrap();
    fs::write(of("in/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(of("in/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::hard_link(of("in/run.sh"), of("in/sub/same")).unwrap();
    symlink("../run.sh", of("in/sub/link")).unwrap();
    symlink("/nowhere", of("in/dangling")).unwrap();
    let sparse = fs::File::create(of("in/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 40 << 20).unwrap();
    fs::write(of("in/with blank \u{e9}"), vec![7_u8; 3_000_000]).unwrap();
    let status = std::process::Command::new("chown")
        .arg("-hR")
        .arg(format!("{0}:{0}", place.uid))
        .arg(of("in"))
        .status();
    assert!(status.unwrap().success());
}

/// `find` says everything about a tree that must survive staging.
fn listing(place: &Place, directory: &str) -> String {
    let script = "find . -printf '%P %y %m %n %l %T@ ' \\( -type f -printf '%s' -o -true \\) -printf '\\n' | sort; \
        find . -type f -print0 | sort -z | xargs -0 cksum";
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(place.path("pfs").join(directory))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    text(&output)
}

fn staged_out_as_staged_in(uid: u32, options: &[&str]) {
    let place = Place::new(uid);
    difficult_tree(&place);
    let script = "#!/bin/bash\n#DW jobdw capacity=200MiB access_mode=striped type=scratch\n\
        #DW stage_in type=directory source=@PFS@/in destination=$DW_JOB_STRIPED/data\n\
        #DW stage_out type=directory source=$DW_JOB_STRIPED/data destination=@PFS@/out-%j\n\
        test -x $DW_JOB_STRIPED/data/run.sh && readlink $DW_JOB_STRIPED/data/sub/link; du -k $DW_JOB_STRIPED/data/sparse | cut -f1\n";
    let output = run(&place, options, script);
    assert!(output.status.success(), "{options:?}: {}", shown(&output));
    let lines: Vec<String> = text(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "../run.sh");
    assert!(lines[1].parse::<u64>().unwrap() < 20_000, "the hole was filled: {lines:?}");
    let out = entries(&place.path("pfs")).into_iter().find(|path| path.contains("/out-")).unwrap();
    let out = out.rsplit('/').next().unwrap().to_string();
    assert_eq!(listing(&place, &out), listing(&place, "in"), "{options:?}");
    place.assert_nothing_is_left();
}

fn every_way_of_serving(uid: u32) {
    let ways: &[&[&str]] = if uid == ROOT {
        &[
            &[],
            &["--nodes", "4"],
            &["--serve", "direct"],
            &["--serve", "passthrough"],
            &["--serve", "fuse"],
            &["--serve", "directory"],
        ]
    } else {
        &[&[], &["--nodes", "4"], &["--serve", "fuse"], &["--serve", "directory"]]
    };
    for options in ways {
        staged_out_as_staged_in(uid, options);
    }
}

fn the_size_is_hard(uid: u32) {
    const SIZE_MIB: u64 = 256;
    for options in [&[][..], &["--nodes", "4"], &["--serve", "fuse"]] {
        let place = Place::new(uid);
        // Twice the size is offered and no more, so that a missing limit cannot fill the disk.
        let script = "#!/bin/bash\n#DW jobdw capacity=256MiB access_mode=striped type=scratch\n\
            df --output=size,avail -B1 $DW_JOB_STRIPED | tail -1\n\
            dd if=/dev/zero of=$DW_JOB_STRIPED/full bs=1M count=512 2>&1 | grep -o 'No space left on device' | head -1\n\
            stat -c %s $DW_JOB_STRIPED/full; rm $DW_JOB_STRIPED/full; echo again > $DW_JOB_STRIPED/b && cat $DW_JOB_STRIPED/b\n";
        let output = run(&place, options, script);
        let all = text(&output);
        let lines: Vec<&str> = all.lines().collect();
        let is_full = lines.len() == 4 && lines[1] == "No space left on device" && lines[3] == "again";
        assert!(is_full, "{options:?} {}", shown(&output));
        let sizes: Vec<u64> = lines[0].split_whitespace().map(|word| word.parse().unwrap()).collect();
        let written: u64 = lines[2].parse().unwrap();
        // At least what was promised, and little more (the overhead of four small XFS images shows in the total).
        let near = |bytes: u64| (SIZE_MIB << 20..(SIZE_MIB << 20) * 12 / 10).contains(&bytes);
        let nearly = |bytes: u64| near(bytes + (SIZE_MIB << 20) / 50);
        assert!(near(sizes[0]) && nearly(sizes[1]) && nearly(written), "{options:?} {sizes:?} {written}");
        place.assert_nothing_is_left();
    }
}

/// A pool out of which nothing can be used is the reason, not its size.
fn a_missing_directory_of_the_pool_is_named_once(uid: u32) {
    let place = Place::new(uid);
    let missing = place.path("missing").to_str().unwrap().to_owned();
    let script = "#!/bin/sh\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\necho ran\n";
    let output = run(&place, &["--pool-dir", &missing], script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{}", shown(&output));
    assert!(said.contains(&missing) && said.contains("No such file or directory"), "{said}");
    assert_eq!(said.lines().count(), 1, "nothing about its size: {said}");
    let create = ["create-persistent", "kept", "--capacity", "1MiB", "--pool-dir", &missing];
    let output = place.program("forebay").args(create).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&missing) && said.lines().count() == 1, "{said}");
    place.assert_nothing_is_left();
}

/// A name is shown, and not obeyed.
fn control_characters_of_names_do_not_reach_the_terminal(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/sh\n#SBATCH -J \u{1b}[31mred\u{7}\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/r destination=@PFS@/missing/r\necho precious > $DW_JOB_STRIPED/r\n";
    let output = run(&place, &[], script);
    let listed = place.program("forebay").args(["recover", "--list"]).output().unwrap();
    for text in [&output.stderr, &listed.stdout] {
        let text = String::from_utf8_lossy(text);
        assert!(text.contains("(\\u001b[31mred\\u0007)"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
    let token = String::from_utf8_lossy(&listed.stdout).split(' ').nth(1).unwrap().to_owned();
    let given_up = place.program("forebay").args(["recover", "--discard", &token]).output().unwrap();
    assert!(given_up.status.success(), "{}", shown(&given_up));
    place.assert_nothing_is_left();
}

fn a_missing_source_keeps_the_script_from_running(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n\
        #DW stage_in type=file source=@PFS@/data/file.dta destination=$DW_JOB_STRIPED/x\necho ran\n";
    let output = run(&place, &[], script);
    assert_eq!(output.status.code(), Some(74), "{}", shown(&output));
    let all = shown(&output);
    assert!(!all.contains("ran\n") && all.contains("file.dta") && all.contains("file.dat"), "{all}");
    place.assert_nothing_is_left();
}

fn a_failed_stage_out_keeps_the_data(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/r destination=@PFS@/missing/r\necho precious > $DW_JOB_STRIPED/r\n";
    let output = run(&place, &[], script);
    let all = shown(&output);
    assert_eq!(output.status.code(), Some(75), "{all}");
    let token = all.split("forebay recover ").nth(1).unwrap().split('`').next().unwrap().to_string();
    assert!(all.contains("missing") && token.parse::<u64>().is_ok(), "{all}");
    assert!(place.mounts().is_empty(), "{:?}", place.mounts());

    let again = place.program("forebay").arg("recover").output().unwrap();
    assert_eq!(again.status.code(), Some(75), "the cause is still there: {}", shown(&again));
    place.make_directory("pfs/missing");
    let finished = place.program("forebay").arg("recover").output().unwrap();
    assert!(finished.status.success(), "{}", shown(&finished));
    assert_eq!(fs::read_to_string(place.path("pfs/missing/r")).unwrap(), "precious\n");
    place.assert_nothing_is_left();
}

fn what_is_kept_can_be_discarded(uid: u32) {
    let place = Place::new(uid);
    let script =
        "#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\necho $SLURM_JOB_ID\n";
    let output = run(&place, &["--keep"], script);
    assert!(output.status.success(), "{}", shown(&output));
    let token = text(&output).trim().to_string();
    let listed = place.program("forebay").args(["recover", "--list"]).output().unwrap();
    assert!(text(&listed).contains(&token), "{}", shown(&listed));
    let others = place.program("forebay").arg("recover").output().unwrap();
    assert!(
        others.status.success() && place.dwstat("sessions").contains(&token),
        "only by name: {}",
        shown(&others)
    );
    let discarded = place.program("forebay").args(["recover", "--discard", &token]).output().unwrap();
    assert!(discarded.status.success(), "{}", shown(&discarded));
    place.assert_nothing_is_left();
}

fn processes_left_behind_are_ended(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/log destination=@PFS@/log\n\
        (cd $DW_JOB_STRIPED; while true; do echo x >> log; sleep 0.01; done) & until test -s $DW_JOB_STRIPED/log; do sleep 0.01; done\n";
    let output = run(&place, &[], script);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(shown(&output).contains("left processes running"), "{}", shown(&output));
    assert!(place.path("pfs/log").exists());
    place.assert_nothing_is_left();
}

fn several_runs_share_the_pool(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=32MiB access_mode=striped type=scratch\n\
        echo $SLURM_JOB_ID > $DW_JOB_STRIPED/id; sleep 0.2; cat $DW_JOB_STRIPED/id; test $(ls $DW_JOB_STRIPED | wc -l) = 1\n";
    place.write("job.sh", script.as_bytes());
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = place.program("forebay");
            command
                .arg("run")
                .arg(place.path("job.sh"))
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut ids: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", shown(&output));
            text(&output)
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6, "every job has a number and a space of its own");
    place.assert_nothing_is_left();
}

fn too_much_is_refused_with_a_way_out(uid: u32) {
    let place = Place::new(uid);
    let script = "#!/bin/bash\n#DW jobdw capacity=900TiB access_mode=striped type=scratch\necho ran\n";
    let output = run(&place, &[], script);
    let all = shown(&output);
    assert_eq!(output.status.code(), Some(69), "{all}");
    assert!(
        !all.contains("ran\n") && all.contains("free in wlm_pool") && all.contains("--capacity"),
        "{all}"
    );
    let output = run(&place, &["--capacity", "10MiB"], script);
    assert!(output.status.success(), "{}", shown(&output));
    place.assert_nothing_is_left();
}

fn lists_are_staged(uid: u32) {
    let place = Place::new(uid);
    let pfs = place.path("pfs").to_str().unwrap().to_string();
    place.write(
        "pfs/in.list",
        format!("{pfs}/data/file.dat $DW_JOB_STRIPED/a/f\n{pfs}/data/note.txt $DW_JOB_STRIPED/n\n")
            .as_bytes(),
    );
    place.write("pfs/out.list", format!("$DW_JOB_STRIPED/n {pfs}/n.out\n").as_bytes());
    let script = "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n#DW stage_in type=list source=@PFS@/in.list\n\
        #DW stage_out type=list source=@PFS@/out.list\ncmp $DW_JOB_STRIPED/a/f @PFS@/data/file.dat\n";
    let output = run(&place, &["--nodes", "2"], script);
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(
        fs::read(place.path("pfs/n.out")).unwrap(),
        fs::read(place.path("pfs/data/note.txt")).unwrap()
    );
    place.assert_nothing_is_left();
}

fn refusals_run_nothing(uid: u32) {
    let place = Place::new(uid);
    let cases = [
        ("#DW jobdw capacity=3.5TB access_mode=striped type=scratch", 65, "3500GB"),
        ("#DW jobdw capacity=1GB access_mode=striped type=scrath", 65, "scratch"),
        ("#DW jobdw capacity=1GB access_mode=striped type=cache pfs=/tmp", 65, "stage_in"),
        ("#DW jobdw capacity=1GB access_mode=striped type=scratch\n#DW swap 1GB", 65, "swap"),
        ("#DW jobdw capacity=1MiB access_mode=striped type=scratch pool=dev_pool", 69, "wlm_pool"),
        ("#DW persistentdw name=nothere", 69, "nothere"),
        ("#DW stage_in type=file source=/etc/hostname destination=$DW_JOB_STRIPED/x", 65, "jobdw"),
    ];
    for (lines, status, hint) in cases {
        let output = run(&place, &[], &format!("#!/bin/bash\n{lines}\necho ran\n"));
        let all = shown(&output);
        assert_eq!(output.status.code(), Some(status), "{lines}: {all}");
        assert!(all.contains(hint) && !all.contains("ran\n"), "{lines}: {all}");
    }
    place.assert_nothing_is_left();
}

/// What is given to `command` on standard input, and what becomes of it.
fn fed(place: &Place, words: &[&str], input: &[u8]) -> Output {
    let mut command = place.program("forebay");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read may be gone already: then the rest is told by its output.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn a_shell_reads_what_it_is_fed(uid: u32) {
    let place = Place::new(uid);
    let request = ["shell", "--quiet", "--bb", "capacity=1MiB access=striped type=scratch"];
    let output = fed(&place, &request, b"echo in $DW_JOB_STRIPED\nexit 4\n");
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    assert!(text(&output).trim_end().ends_with("_striped_scratch/"), "{}", shown(&output));
    let output = fed(&place, &[&request[..], &["--", "cat"]].concat(), b"through a pipe");
    assert_eq!(
        (output.status.code(), text(&output).as_str()),
        (Some(0), "through a pipe"),
        "{}",
        shown(&output)
    );
    place.assert_nothing_is_left();
}

/// As `sbatch` does with `-`.
fn a_script_comes_through_a_pipe(uid: u32) {
    let place = Place::new(uid);
    let script = b"#!/bin/bash\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\n\
        echo $SLURM_JOB_NAME $1 $DW_JOB_STRIPED; read -r line || exit 6\n";
    let output = fed(&place, &["run", "--quiet", "-", "word"], script);
    assert_eq!(output.status.code(), Some(6), "the script itself reads nothing: {}", shown(&output));
    assert!(text(&output).starts_with("stdin word /"), "{}", shown(&output));
    let output = fed(&place, &["check", "-"], script);
    assert!(output.status.success() && text(&output).contains("capacity=1MiB"), "{}", shown(&output));
    place.assert_nothing_is_left();
}

fn a_program_is_no_script(uid: u32) {
    let place = Place::new(uid);
    let output = place.program("forebay").args(["run", "/bin/true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    let told = "\"/bin/true\" is a program and not a script";
    assert!(shown(&output).contains(told) && shown(&output).contains("forebay shell"), "{}", shown(&output));
    let script = "#!/bin/sh\ntail -c 5 \"$0\" | tr -d '\\0'; exit 0\n\0\0\0ab";
    let output = run(&place, &[], script);
    assert_eq!((output.status.code(), text(&output)), (Some(0), "ab".into()), "{}", shown(&output));
    place.assert_nothing_is_left();
}

fn a_command_that_is_not_there_is_named(uid: u32) {
    let place = Place::new(uid);
    let output = place.program("forebay").args(["shell", "--", "nosuchcommand"]).output().unwrap();
    assert_eq!(output.status.code(), Some(71), "{}", shown(&output));
    assert!(shown(&output).contains("cannot start \"nosuchcommand\": "), "{}", shown(&output));
    place.assert_nothing_is_left();
}

fn a_name_that_is_taken_is_told(uid: u32) {
    let place = Place::new(uid);
    let make = || {
        place.program("forebay").args(["create-persistent", "kept", "--capacity", "1MiB"]).output().unwrap()
    };
    assert!(make().status.success());
    let output = make();
    assert_eq!(output.status.code(), Some(69), "{}", shown(&output));
    let told = "there is a persistent instance kept already: choose another name, or use it with #DW persistentdw name=kept";
    assert!(shown(&output).contains(told), "{}", shown(&output));
    assert!(place.program("forebay").args(["destroy-persistent", "kept"]).status().unwrap().success());
    place.assert_nothing_is_left();
}

/// Files that their owner may not use would stay for ever. Root may use all.
fn a_mask_that_shuts_the_owner_out_is_refused(uid: u32) {
    let place = Place::new(uid);
    place.write("job.sh", b"#!/bin/sh\n#DW jobdw capacity=1MiB access_mode=striped type=scratch\numask\n");
    let masked = |mask: &str| {
        let line = format!("umask {mask}; exec forebay run --quiet '{}'", place.path("job.sh").display());
        place.command("sh").args(["-c", &line]).output().unwrap()
    };
    for mask in ["0277", "0777"] {
        let output = masked(mask);
        if uid == ROOT {
            assert!(output.status.success(), "{mask}: {}", shown(&output));
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{mask}: {}", shown(&output));
        assert!(shown(&output).contains(&format!("the umask {mask} ")), "{}", shown(&output));
        assert!(!place.path("state").exists(), "{mask}");
    }
    let output = masked("0077");
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), "0077\n"), "{}", shown(&output));
    place.assert_nothing_is_left();
}

as_root_and_as_nobody! {
    a_script_comes_through_a_pipe: piped_as_root, piped_as_nobody;
    a_program_is_no_script: program_as_root, program_as_nobody;
    a_command_that_is_not_there_is_named: missing_command_as_root, missing_command_as_nobody;
    a_name_that_is_taken_is_told: taken_as_root, taken_as_nobody;
    a_mask_that_shuts_the_owner_out_is_refused: mask_as_root, mask_as_nobody;
    a_shell_reads_what_it_is_fed: fed_shell_as_root, fed_shell_as_nobody;
    environment_and_status: environment_as_root, environment_as_nobody;
    a_signal_is_128_and_its_number: signal_as_root, signal_as_nobody;
    the_path_is_below_mounts_in_every_way_of_serving: path_as_root, path_as_nobody;
    a_reader_that_is_gone_stops_nothing: reader_as_root, reader_as_nobody;
    a_script_runs_where_files_may_not_be_run: noexec_as_root, noexec_as_nobody;
    a_disk_that_cannot_be_written_is_named: disk_as_root, disk_as_nobody;
    odd_limits_are_survived: limits_as_root, limits_as_nobody;
    every_way_of_serving: every_way_as_root, every_way_as_nobody;
    the_size_is_hard: size_as_root, size_as_nobody;
    a_missing_directory_of_the_pool_is_named_once: missing_directory_as_root, missing_directory_as_nobody;
    control_characters_of_names_do_not_reach_the_terminal: control_characters_as_root, control_characters_as_nobody;
    a_missing_source_keeps_the_script_from_running: missing_source_as_root, missing_source_as_nobody;
    a_failed_stage_out_keeps_the_data: failed_stage_out_as_root, failed_stage_out_as_nobody;
    what_is_kept_can_be_discarded: kept_as_root, kept_as_nobody;
    processes_left_behind_are_ended: leftovers_as_root, leftovers_as_nobody;
    several_runs_share_the_pool: several_as_root, several_as_nobody;
    too_much_is_refused_with_a_way_out: too_much_as_root, too_much_as_nobody;
    lists_are_staged: lists_as_root, lists_as_nobody;
    refusals_run_nothing: refusals_as_root, refusals_as_nobody;
}
