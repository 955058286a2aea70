//! What docs/SECURITY.md promises, tried on a whole cluster: by another user, by root of a compute node, and by looking for secrets
//! wherever they could be seen.

mod site;

use forebay_controller::client::{Address, Client, ClientError};
use forebay_controller::munge::Munge;
use forebay_model::ids::InstanceId;
use forebay_testkit::cluster::{Host, HostId};
use forebay_testkit::slurm::{ALICE, BOB, BufferOptions, FragmentKind, JobId, Options, ROOT, Site, programs};
use forebay_testkit::wait_until;
use site::{
    AWAIT_FILE, STRIPED, at_home, awaits, awaits_file, buffer, completes, ends, finish, shell, signal, submit,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SERVER: HostId = HostId::Server(0);
const LIMIT: Duration = Duration::from_secs(60);

/// One storage node and so many compute nodes.
fn small_site(buffer: BufferOptions, compute_nodes: usize) -> Site {
    let options = Options { storage_nodes: 1, compute_nodes, buffer: Some(buffer), ..Options::default() };
    Site::build(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a job of Alice's that does this in its space, says that it is ready, and waits for `go`.
fn job_that_waits(site: &Site, options: &str, script: &str) -> (JobId, PathBuf) {
    let text =
        format!("{STRIPED}{AWAIT_FILE}cd $DW_JOB_STRIPED\n{script}\ntouch $HOME/ready\nawait $HOME/go\n");
    let job = submit(site, &ALICE, options, &text);
    awaits_file(site, &ALICE, "ready");
    (job, format!("/var/opt/cray/dws/mounts/batch/{job}_striped_scratch").into())
}

/// A script of Bob's must fail, and say this.
fn bob_fails(site: &Site, host: HostId, script: &str, said: &str) {
    let finished = site.run_on(host, &BOB, &format!("{{ {script}; }} 2>&1")).unwrap();
    assert!(!finished.status.success(), "he could: {script}\n{}", finished.output);
    assert!(finished.output.contains(said), "{script}: {}", finished.output);
}

#[test]
fn a_user_gets_nothing_of_anothers_running_job() {
    let site = small_site(buffer(), 1);
    let (job, path) = job_that_waits(&site, "-N1", "echo private > mine\nchmod 600 mine\nchmod 755 .");
    let (path, node) = (path.display(), HostId::Client(0));
    // It is the modes that keep him out, not that nothing is there.
    assert!(site.shell_on(node, &BOB, &format!("ls {path}")).unwrap().contains("mine"));
    for (script, said) in [
        (format!("cat {path}/mine"), "Permission denied"),
        (format!("echo x >> {path}/mine"), "Permission denied"),
        (format!("rm -f {path}/mine"), "Permission denied"),
        (format!("touch {path}/his"), "Permission denied"),
        (format!("chmod 666 {path}/mine"), "not permitted"),
        (format!("ln {path}/mine {path}/his"), "ermi"),
        (format!("umount {path}"), "must be superuser"),
        (format!("forebay umount {path}"), "forebay:"),
        ("kill -9 $(pgrep -f 'forebay agent' | head -1)".into(), "not permitted"),
    ] {
        bob_fails(&site, node, &script, said);
    }
    // What the controller would do for Slurm or for Alice it does not do for Bob, from wherever he asks.
    let session = site.shell(&ALICE, "dwcli ls sessions").unwrap().trim().to_owned();
    for host in [HostId::Control, node] {
        for (script, said) in [
            (format!("dw_wlm_cli --function teardown --token {job} --job /dev/null --hurry"), "may not"),
            (format!("dw_wlm_cli --function post_run --token {job} --job /dev/null"), "may not"),
            (format!("dw_wlm_cli --function data_out --token {job} --job /dev/null"), "may not"),
            (format!("dwcli rm session -i {session}"), "may not change session"),
            ("dwcli update node --name client0 --drain".into(), "operators"),
        ] {
            bob_fails(&site, host, &script, said);
        }
        let seen = site.shell_on(host, &BOB, "dwstat all").unwrap();
        assert!(seen.contains("did not find any of [sessions, instances, configurations,"), "{seen}");
    }
    // Set-user-id programs and devices that root put there are none.
    site.shell_on(
        node,
        &ROOT,
        &format!("cp /usr/bin/id {path}/id; chmod 4755 {path}/id; mknod -m 666 {path}/zero c 1 5"),
    )
    .unwrap();
    assert_eq!(site.shell_on(node, &BOB, &format!("{path}/id -u")).unwrap(), format!("{}\n", BOB.uid));
    bob_fails(&site, node, &format!("head -c1 {path}/zero"), "Permission denied");
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

#[test]
fn nothing_is_staged_from_or_to_where_the_user_may_not() {
    let site = small_site(buffer(), 1);
    shell(&site, &ALICE, "echo secret > secret; chmod 600 secret; mkdir -m 755 closed; chmod 755 .");
    let (alices, bobs) = (site.home(&ALICE), site.home(&BOB));
    let (alices, bobs) = (alices.display(), bobs.display());
    shell(
        &site,
        &BOB,
        &format!(
            "ln -s {alices}/secret link; mkdir tree; ln -s {alices} tree/alice; echo {alices}/secret '$DW_JOB_STRIPED/x' > list"
        ),
    );
    let stage = |line: &str| {
        format!(
            "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n#DW {line}\nfind $DW_JOB_STRIPED -type f\n"
        )
    };
    for line in [
        format!("stage_in type=file source={alices}/secret destination=$DW_JOB_STRIPED/x"),
        format!("stage_in type=file source={bobs}/link destination=$DW_JOB_STRIPED/x"),
        format!("stage_in type=file source={bobs}/../alice/secret destination=$DW_JOB_STRIPED/x"),
        format!("stage_in type=file source={bobs}/tree/alice/secret destination=$DW_JOB_STRIPED/x"),
        format!("stage_in type=list source={bobs}/list"),
    ] {
        let job = submit(&site, &BOB, "-N1", &stage(&line));
        let held = awaits(&site, job, "its failure", |job| job.reason().contains("data_in"));
        assert!(held.reason().contains("permission"), "{line}: {}", held.text());
        shell(&site, &BOB, &format!("scancel {job}"));
        ends(&site, &BOB, job, "CANCELLED");
    }
    // A link in a tree is copied as the link that it is.
    let tree = format!("stage_in type=directory source={bobs}/tree destination=$DW_JOB_STRIPED/tree");
    assert_eq!(completes(&site, &BOB, "-N1", &stage(&tree)), "");
    // `..` leads nowhere out of an instance; it is refused when it is submitted.
    for line in [
        format!("stage_in type=file source={bobs}/list destination=$DW_JOB_STRIPED/../../x"),
        format!("stage_out type=file source=$DW_JOB_STRIPED/../../../etc/shadow destination={bobs}/shadow"),
    ] {
        let refused = site.submit(&BOB, "-N1", &stage(&line)).unwrap_err().to_string();
        assert!(refused.contains(".."), "{refused}");
    }
    let out = format!("stage_out type=file source=$DW_JOB_STRIPED/f destination={alices}/closed/f");
    let job = submit(&site, &BOB, "-N1", &(stage(&out) + "echo evil > $DW_JOB_STRIPED/f\n"));
    let stuck = awaits(&site, job, "its failure", |job| job.reason().contains("data_out"));
    assert!(stuck.reason().contains("permission"), "{}", stuck.text());
    shell(&site, &BOB, &format!("scancel --hurry {job}"));
    ends(&site, &BOB, job, "COMPLETED");
    assert_eq!(fs::read_dir(at_home(&site, &ALICE, "closed")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(at_home(&site, &ALICE, "secret")).unwrap(), "secret\n");
    finish(site);
}

/// A secret and how it could be written down.
struct Secret {
    what: String,
    forms: Vec<Vec<u8>>,
}

impl Secret {
    fn text(what: &str, text: &str) -> Secret {
        Secret { what: what.into(), forms: vec![text.trim().as_bytes().to_vec()] }
    }

    fn bytes(what: &str, bytes: Vec<u8>) -> Secret {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Secret { what: what.into(), forms: vec![bytes, hex.into_bytes()] }
    }

    fn is_in(&self, content: &[u8]) -> bool {
        self.forms.iter().any(|form| content.windows(form.len()).any(|window| window == form))
    }
}

/// Where a secret may lie: for the user who owns the file alone.
fn is_a_place_for_secrets(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".token") || name.ends_with(".seal") || ["token", "secret", "munge.key"].contains(&name)
}

/// Every file below a directory, links not followed; what goes away meanwhile is left out.
fn files(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// The secrets of all instances and daemons, from where they may lie.
fn secrets_of(site: &Site) -> Vec<Secret> {
    let server = site.cluster().host(SERVER).directory().join("agent");
    let mut secrets = Vec::new();
    for path in files(&server) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if is_a_place_for_secrets(&path) {
            secrets.push(Secret::text(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(secrets.len() >= 5, "tokens and seals of two instances, and the token of the copy");
    let control = site.control().directory();
    secrets.push(Secret::bytes("the controller's", fs::read(control.join("controller/secret")).unwrap()));
    secrets.push(Secret::bytes("munge.key", fs::read(site.directory().join("etc/munge.key")).unwrap()));
    assert!(secrets.iter().all(|secret| secret.forms[0].len() >= 32));
    secrets
}

#[test]
fn secrets_lie_where_their_owner_alone_reads_them_and_nowhere_else() {
    let site = small_site(buffer(), 1);
    shell(&site, &ALICE, "mkfifo list");
    let (job, _) =
        job_that_waits(&site, "-N1", "env > $HOME/environment; cat /proc/self/environ > $HOME/own");
    // A copy goes on too: it waits for the list of its files.
    let list = at_home(&site, &ALICE, "list");
    let space = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n";
    let stage = format!("{space}#DW stage_in type=list source={}\n", list.display());
    let staged = submit(&site, &ALICE, "-N1", &stage);
    let state = site.cluster().host(SERVER).directory().join("agent");
    wait_until("the copy", LIMIT, || files(&state).iter().any(|path| path.ends_with("result.json"))).unwrap();
    let secrets = secrets_of(&site);
    shell(
        &site,
        &ROOT,
        "dwstat all > shown; scontrol show burst >> shown; for f in show_sessions show_instances show_configurations pools; do dw_wlm_cli --function $f >> shown; done",
    );

    // Processes of everybody, also those of other tests.
    for process in fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let content = fs::read(process.path().join(file)).unwrap_or_default();
            for secret in &secrets {
                assert!(!secret.is_in(&content), "{} is in {:?}/{file}", secret.what, process.path());
            }
        }
    }
    let mut seen = 0;
    let places = site.cluster().hosts().flat_map(|host| {
        ["/run", "/etc/forebay", "/etc/slurm", "/var/opt"].map(|path| host.seen(Path::new(path)).unwrap())
    });
    for path in places.chain([site.directory().to_owned()]).flat_map(|place| files(&place)) {
        if path.parent() == Some(&site.directory().join("bin")) {
            continue;
        }
        let (Ok(content), Ok(found)) = (fs::read(&path), fs::metadata(&path)) else { continue };
        for secret in secrets.iter().filter(|secret| secret.is_in(&content)) {
            assert!(is_a_place_for_secrets(&path), "{} is in {}", secret.what, path.display());
            assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
            assert_eq!(found.uid(), 0, "{}", path.display());
            let is_client = path.starts_with(site.cluster().client(0).directory());
            assert!(!is_client || !secret.what.ends_with(".seal"), "{}", path.display());
            seen += 1;
        }
    }
    // Those of the two instances at the server, of the copy, of the mount, the controller's and MUNGE's.
    assert!(seen >= 8, "{seen}");
    // The copy is Alice's own process, and yet she does not look into it: it knows the token.
    let look = "for p in $(pgrep -u alice); do cat /proc/$p/environ /proc/$p/maps || echo refused; done 2>&1";
    let looked = site.shell_on(SERVER, &ALICE, look).unwrap();
    assert!(
        looked.contains("environ: Permission denied") && looked.contains("maps: Permission denied"),
        "{looked}"
    );

    // And nobody else reads anything of what the daemons keep.
    for host in site.cluster().hosts() {
        let own = |name: &str| host.directory().join(name).display().to_string();
        let kept = [own("agent"), own("controller"), host.fragment().display().to_string()].join(" ");
        let script = format!("find {kept} -type f -readable 2>/dev/null || true");
        let readable = site.shell_on(host.id(), &BOB, &script).unwrap();
        let readable: Vec<&str> = readable.lines().filter(|path| !path.ends_with("/forebay.json")).collect();
        assert!(readable.is_empty(), "{}: {readable:?}", host.id());
    }
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    shell(&site, &ALICE, r#"echo "$HOME/own \$DW_JOB_STRIPED/own" > list"#);
    ends(&site, &ALICE, staged, "COMPLETED");
    finish(site);
}

/// What the controller answers root of a node that asks for the secrets of an instance.
fn ask_for_secrets(site: &Site, host: &Host, node: &str, instance: u64) -> Result<(String, String), String> {
    let address: Address = format!("{}:7080", site.control().address()).parse().unwrap();
    let munge = Munge::new(Some(&host.seen(Path::new("/run/munge/munge.socket.2")).unwrap()));
    let client = Client::open(address).with_munge(munge).with_patience(Duration::ZERO);
    match host.in_network(|| client.secrets(node, InstanceId(instance))).unwrap() {
        Ok(secrets) => Ok((secrets.token, secrets.seal)),
        Err(ClientError::Refused { kind, .. }) => Err(kind),
        Err(other) => panic!("{other}"),
    }
}

/// The description of the instance that an agent has mounted.
fn description_on(host: &Host) -> String {
    let all = files(&host.directory().join("agent"));
    let file = all.iter().find(|path| path.ends_with("instance.toml")).expect("something is mounted");
    fs::read_to_string(file).unwrap()
}

/// Root of a compute node mounts by hand; the end of the process, if it does not mount.
fn mount_by_hand(site: &Site, host: &Host, description: &str) -> Option<String> {
    let at = |name: &str| host.directory().join(name);
    fs::write(at("mine.toml"), description).unwrap();
    fs::create_dir_all(at("mine")).unwrap();
    let said = fs::File::create(at("mine.log")).unwrap();
    let mut command = Command::new(site.directory().join("bin/forebay"));
    command.arg("mount").arg("--instance").arg(at("mine.toml")).arg(at("mine"));
    command.current_dir("/").stdout(said.try_clone().unwrap()).stderr(said);
    let mut process = host.start(&mut command).unwrap();
    let mut ended = None;
    wait_until("the mount or its failure", LIMIT, || {
        ended = process.ended();
        ended.is_some() || host.mounted_at(&at("mine")).is_some()
    })
    .unwrap();
    if ended.is_some() {
        return Some(fs::read_to_string(at("mine.log")).unwrap());
    }
    process.signal(libc::SIGTERM);
    assert!(process.ends_within(LIMIT).is_some_and(|status| status.success()));
    None
}

#[test]
fn root_of_a_compute_node_gets_no_further_than_the_instances_of_its_jobs() {
    let site = small_site(buffer(), 2);
    let (alices, _) = job_that_waits(&site, "-N1 -w client0", "");
    let text = format!("{STRIPED}{AWAIT_FILE}touch $HOME/ready\nawait $HOME/go\n");
    let bobs = submit(&site, &BOB, "-N1 -w client1", &text);
    awaits_file(&site, &BOB, "ready");
    let (mine, other) = (site.cluster().client(0), site.cluster().client(1));
    let (own, foreign) = (description_on(mine), description_on(other));
    assert_ne!(own, foreign);

    // What it has it may use. This shows that what follows is not refused for another reason.
    assert_eq!(mount_by_hand(&site, mine, &own), None);
    // The other's place with the token that it has.
    let token = |text: &str| text.lines().find(|line| line.starts_with("token_file")).unwrap().to_owned();
    let crossed = foreign.replace(&token(&foreign), &token(&own));
    let refused = mount_by_hand(&site, mine, &crossed).expect("it has not the token");
    assert!(refused.contains("refuses"), "{refused}");
    // The controller gives it the token of its own job and nothing that servers know, and nothing of the other's.
    let number = |text: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix("id = "));
        line.expect("a number").trim().parse().unwrap()
    };
    let (token, seal) = ask_for_secrets(&site, mine, "client0", number(&own)).unwrap();
    assert_eq!((token.len(), seal.as_str()), (64, ""));
    assert_eq!(ask_for_secrets(&site, mine, "client0", number(&foreign)), Err("not_allowed".into()));
    assert_eq!(ask_for_secrets(&site, mine, "nobody", number(&own)), Err("not_allowed".into()));
    assert_eq!(
        ask_for_secrets(&site, site.cluster().host(SERVER), "server0", number(&own)).unwrap().1.len(),
        64
    );

    for (user, job) in [(&ALICE, alices), (&BOB, bobs)] {
        signal(&site, user, "go");
        ends(&site, user, job, "COMPLETED");
    }
    finish(site);
}

/// The capabilities that units may leave to a daemon, with their numbers.
const CAPABILITIES: [(&str, u32); 10] = [
    ("chown", 0),
    ("dac_override", 1),
    ("fowner", 3),
    ("fsetid", 4),
    ("kill", 5),
    ("setgid", 6),
    ("setuid", 7),
    ("sys_ptrace", 19),
    ("sys_admin", 21),
    ("mknod", 27),
];

/// The powers that a unit leaves to its daemon.
fn powers(unit: &str) -> Vec<(&'static str, u32)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(unit);
    let text = fs::read_to_string(&path).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a bounding set");
    let known = |name: &str| {
        let name = name.trim_start_matches("CAP_").to_lowercase();
        *CAPABILITIES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"))
    };
    line.split_whitespace().map(known).collect()
}

const CONTROLLER: &str = "forebay-controller.service";
const AGENT: &str = "forebay-agent.service";

/// As the kernel shows a set of them.
fn shown_set(unit: &str) -> String {
    format!("{:016x}", powers(unit).iter().fold(0u64, |set, (_, number)| set | 1 << number))
}

/// The programs of this build, where the daemons have what their units leave them.
fn confined_programs(place: &Path) -> PathBuf {
    let built = programs::built().unwrap_or_else(|error| panic!("{error}"));
    for name in ["dwstat", "dwcli", "dw_wlm_cli"] {
        fs::copy(built.join(name), place.join(name)).unwrap();
    }
    let confined = |unit: &str| {
        let names: String = powers(unit).iter().map(|(name, _)| format!(",+{name}")).collect();
        format!("exec setpriv --no-new-privs --bounding-set '-all{names}' --inh-caps '-all' \"$real\" \"$@\"")
    };
    let script = format!(
        "#!/bin/bash\nreal={}\ncase ${{1:-}} in\ncontroller) {} ;;\nagent) {} ;;\nesac\nexec \"$real\" \"$@\"\n",
        built.join("forebay").display(),
        confined(CONTROLLER),
        confined(AGENT),
    );
    fs::write(place.join("forebay"), script).unwrap();
    fs::set_permissions(place.join("forebay"), fs::Permissions::from_mode(0o755)).unwrap();
    place.to_owned()
}

/// The capabilities that every process of these programs is confined to, in the hosts of the site.
fn bounds_of(site: &Site, host: &Host) -> Vec<String> {
    let script = "for p in $(pgrep -f 'forebay.*(controller|agent|/agent/)'); do [ $p = $$ ] || grep -h CapBnd /proc/$p/status; done";
    let found = site.shell_on(host.id(), &ROOT, script).unwrap();
    found.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
}

#[test]
fn daemons_do_their_work_with_the_powers_of_their_units() {
    let place = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let programs = confined_programs(place.path());
    let site = small_site(BufferOptions { kind: FragmentKind::Image, ..BufferOptions::new(programs) }, 1);
    let home = site.home(&ALICE);
    let home = home.display();
    shell(
        &site,
        &ALICE,
        "mkdir -p in/closed; seq 1000 > in/closed/f; ln -s f in/closed/link; mkfifo in/fifo; chmod 500 in/closed",
    );
    // What uses the space when the job ends is Alice's, and is ended.
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped,private capacity=400MB\n\
         #DW stage_in type=directory source={home}/in destination=$DW_JOB_STRIPED/in\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/in destination={home}/out\n\
         set -eu\ncmp $DW_JOB_STRIPED/in/closed/f {home}/in/closed/f\nmkdir -m 700 $DW_JOB_STRIPED/own\n\
         chgrp project $DW_JOB_STRIPED/own\nchmod 2770 $DW_JOB_STRIPED/own\n[ $(stat -c %a $DW_JOB_STRIPED/own) = 2770 ]\necho x > $DW_JOB_PRIVATE/x\n\
         cd $DW_JOB_STRIPED\nsetsid sleep 1000 &\n{AWAIT_FILE}touch {home}/ready\nawait {home}/go\n"
    );
    let job = submit(&site, &ALICE, "-N1", &script);
    awaits_file(&site, &ALICE, "ready");
    let hosts = [
        (site.control(), CONTROLLER),
        (site.cluster().host(SERVER), AGENT),
        (site.cluster().client(0), AGENT),
    ];
    for (host, unit) in hosts {
        let (found, bound) = (bounds_of(&site, host), shown_set(unit));
        assert!(!found.is_empty() && found.iter().all(|set| *set == bound), "{}: {found:?}", host.id());
    }
    // Root has what is root's there too.
    let path = format!("/var/opt/cray/dws/mounts/batch/{job}_striped_scratch");
    site.shell_on(HostId::Client(0), &ROOT, &format!("mknod {path}/device c 1 3; rm {path}/device")).unwrap();
    // Who is no part of the job and uses its space is in nobody's way when it ends.
    let mut hold = site.shell_command(&ALICE, &format!("cd {path}; touch $HOME/holds; exec sleep 1000"));
    let mut holder = site.cluster().client(0).start(&mut hold).unwrap();
    awaits_file(&site, &ALICE, "holds");
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    assert!(holder.ends_within(LIMIT).is_some(), "it was not ended");
    shell(
        &site,
        &ALICE,
        "cmp out/closed/f in/closed/f; [ -p out/fifo ]; [ $(stat -c %a out/closed) = 500 ]; [ -L out/closed/link ]",
    );
    finish(site);
}
