//! Agents under a controller: two that give space, one that mounts; real jobs, and every part killed in the middle of them.

use crate::roles;
use crate::scene::*;
use crate::staging::{assert_same, many_files};
use crate::{leaks, scene};
use forebay_agent::daemon::{Agent, Stop, StorageKind};
use forebay_controller::client::{Address, Client, ClientError};
use forebay_controller::cluster::Answer;
use forebay_controller::cluster::request::{CreatePersistent, ObjectId, Request, Setup, Space, Stage};
use forebay_controller::request::{StageDirection, StageKind};
use forebay_controller::service::{Config, Service};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::{ActivationId, InstanceId, SessionId};
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

const SOCKET: &str = "controller.sock";
const COMPUTE: u64 = 2;

/// The role of an agent.
pub fn play_agent(scene: &Scene, number: u64) {
    let address = Address::Unix(scene.path(SOCKET));
    let agent = Agent::open(scene.node(number), Client::open(address), Stop::default()).unwrap();
    agent.run().unwrap();
}

struct Cluster {
    // Dropped in this order.
    agents: Vec<Option<Child>>,
    service: Option<Service>,
    scene: Scene,
}

impl Cluster {
    fn new(kind: StorageKind) -> Cluster {
        let scene = Scene::new(kind);
        let mut cluster = Cluster { agents: vec![None, None, None], service: None, scene };
        cluster.start_controller();
        (0..=COMPUTE).for_each(|number| cluster.start(number));
        wait_until("all agents are known", || {
            let nodes = cluster.client().snapshot().unwrap().nodes;
            nodes.iter().filter(|node| node.online).count() == 3
        });
        cluster
    }

    fn start_controller(&mut self) {
        let at = |name: &str| self.scene.path(name).display().to_string();
        let text = format!(
            "socket = '{}'\nstate = '{}'\nregistry = 'test'\noperators = [77]\nworkload_managers = [64030]\n\
             mount_root = '{}'\nlost_after_s = 30\n[[pool]]\nname = 'pool'\ngranularity = '{SIZE}'\n",
            at(SOCKET),
            at("controller"),
            at("mnt/batch"),
        );
        let config = Config::parse(&text, Path::new("test")).unwrap();
        self.service = Some(Service::start(&config).unwrap());
    }

    fn client(&self) -> Client {
        Client::open(Address::Unix(self.scene.path(SOCKET)))
    }

    fn start(&mut self, number: u64) {
        let root = self.scene.root();
        let words = ["agent", root.to_str().unwrap(), &number.to_string()];
        self.agents[number as usize] = Some(roles::start_silently(root, &words));
    }

    /// As a crash would.
    fn kill(&mut self, number: u64) {
        let mut agent = self.agents[number as usize].take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    fn ask(&self, request: Request) -> Answer {
        self.client().ask(&request).unwrap()
    }

    fn setup(&self, token: &str, mode: AccessMode, stages: Vec<Stage>) -> Request {
        let space = Space {
            capacity: Capacity::Bytes(Bytes(2 * SIZE)),
            pool: None,
            strategy: Strategy::default(),
            kind: ConfigurationType::Scratch,
            access: vec![scene::access(mode)],
            write_window: None,
            policies: None,
        };
        Request::Setup(Setup {
            token: token.into(),
            creator: "SLURM".into(),
            owner: OWNER.0,
            group: OWNER.1,
            space: Some(space),
            attach: Vec::new(),
            stages,
            swap: false,
        })
    }

    /// A directory of the owner on the parallel file system.
    fn pfs(&self, name: &str) -> PathBuf {
        let path = self.scene.path("pfs").join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(self.scene.path("pfs"), fs::Permissions::from_mode(0o755)).unwrap();
        chown(&path, Some(OWNER.0), Some(OWNER.1)).unwrap();
        path
    }

    fn mount(&self, token: &str) -> PathBuf {
        self.scene.path("mnt/batch").join(format!("{token}_striped_scratch"))
    }

    fn assert_nothing_is_left(&self) {
        assert!(self.client().snapshot().unwrap().fragments.is_empty());
        self.scene.assert_disks_are_empty();
        for number in 0..=COMPUTE {
            let state = self.scene.path(&format!("state{number}"));
            for role in ["mount", "stage"] {
                assert!(leaks::with(&state, role).is_empty(), "a {role} of node{number}");
            }
        }
        for number in STORAGE {
            assert_eq!(self.scene.of_instances(number), [""; 0], "no secret is left on node{number}");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for number in 0..=COMPUTE {
                let log = roles::log(self.scene.root());
                if number == 0 {
                    eprintln!("{log}");
                }
                let server = self.scene.path(&format!("state{number}/server/log"));
                eprintln!("node{number}: {}", fs::read_to_string(server).unwrap_or_default());
            }
        }
        for agent in self.agents.iter_mut().flatten() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn stage(direction: StageDirection, kind: StageKind, pfs: &Path, inside: &str) -> Stage {
    Stage {
        direction,
        kind,
        persistent: None,
        pfs: pfs.to_str().unwrap().as_bytes().to_vec(),
        instance_path: inside.as_bytes().to_vec(),
        tolerate_errors: false,
    }
}

fn verb(verb: &str, token: &str) -> Request {
    let token = token.to_owned();
    match verb {
        "data_in" => Request::DataIn { token },
        "pre_run" => Request::PreRun { token, hosts: vec![format!("node{COMPUTE}")] },
        "post_run" => Request::PostRun { token },
        "data_out" => Request::DataOut { token },
        "teardown" => Request::Teardown { token, hurry: false },
        "hurry" => Request::Teardown { token, hurry: true },
        other => panic!("{other}"),
    }
}

fn content() -> Vec<u8> {
    (0..5_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// What the script of a job does: its input to its output, and what that took apart from waiting.
fn work(mount: &Path) {
    let input = fs::read(mount.join("in/file")).unwrap();
    assert!(input == content());
    fs::create_dir_all(mount.join("out")).unwrap();
    fs::write(mount.join("out/result"), &input).unwrap();
}

#[test]
fn a_job_from_setup_to_teardown() {
    for kind in [IMAGE, StorageKind::Directory] {
        let cluster = Cluster::new(kind.clone());
        let (source, back) = (cluster.pfs("source"), cluster.pfs("back"));
        fs::write(source.join("file"), content()).unwrap();
        let stages = vec![
            stage(StageDirection::In, StageKind::Directory, &source, "in"),
            stage(StageDirection::Out, StageKind::Directory, &back, "out"),
        ];
        let begin = Instant::now();
        assert_eq!(cluster.ask(cluster.setup("1", AccessMode::Striped, stages)), Answer::Done);
        let setup = begin.elapsed();
        cluster.ask(verb("data_in", "1"));
        let begin = Instant::now();
        cluster.ask(verb("pre_run", "1"));
        let pre_run = begin.elapsed();
        let root = fs::metadata(cluster.mount("1")).unwrap();
        assert_eq!((root.uid(), root.gid()), OWNER);
        work(&cluster.mount("1"));
        let begin = Instant::now();
        cluster.ask(verb("post_run", "1"));
        let post_run = begin.elapsed();
        assert!(!cluster.mount("1").exists());
        cluster.ask(verb("data_out", "1"));
        let begin = Instant::now();
        cluster.ask(verb("teardown", "1"));
        let teardown = begin.elapsed();
        println!(
            "{kind:?}: setup {setup:?}, pre_run {pre_run:?}, post_run {post_run:?}, teardown {teardown:?}"
        );
        assert!(fs::read(back.join("result")).unwrap() == content());
        assert_eq!(fs::metadata(back.join("result")).unwrap().uid(), OWNER.0);
        cluster.assert_nothing_is_left();
    }
}

#[test]
fn a_private_tree_belongs_to_the_jobs_user() {
    let cluster = Cluster::new(StorageKind::Directory);
    cluster.ask(cluster.setup("1", AccessMode::Private, Vec::new()));
    cluster.ask(verb("pre_run", "1"));
    let point = cluster.scene.path("mnt/batch/1_private_scratch");
    assert_eq!(fs::metadata(&point).unwrap().uid(), OWNER.0);
    fs::write(point.join("file"), content()).unwrap();
    assert!(fs::read(point.join("file")).unwrap() == content());
    cluster.ask(verb("post_run", "1"));
    cluster.ask(verb("teardown", "1"));
    cluster.assert_nothing_is_left();
}

#[test]
fn a_living_job_survives_every_part_that_is_killed() {
    let mut cluster = Cluster::new(IMAGE);
    let (source, back) = (cluster.pfs("source"), cluster.pfs("back"));
    fs::write(source.join("file"), content()).unwrap();
    let stages = vec![
        stage(StageDirection::In, StageKind::Directory, &source, "in"),
        stage(StageDirection::Out, StageKind::Directory, &back, "out"),
    ];
    cluster.ask(cluster.setup("1", AccessMode::Striped, stages));
    cluster.ask(verb("data_in", "1"));
    cluster.ask(verb("pre_run", "1"));
    let open = fs::File::create(cluster.mount("1").join("open")).unwrap();
    // The agents: everything goes on without them, and their successors take nothing away.
    (0..=COMPUTE).for_each(|number| cluster.kill(number));
    use std::os::unix::fs::FileExt;
    open.write_all_at(&content(), 0).unwrap();
    let server = fs::read(cluster.scene.path("state0/server/lock")).unwrap();
    (0..=COMPUTE).for_each(|number| cluster.start(number));
    wait_until("they have registered", || {
        let read =
            |number: u64| fs::read_to_string(cluster.scene.path(&format!("state{number}/incarnation")));
        (0..=COMPUTE).all(|number| read(number).is_ok_and(|text| text.trim() == "2"))
    });
    assert_eq!(fs::read(cluster.scene.path("state0/server/lock")).unwrap(), server, "the same file server");
    // A file server: its agent starts it again.
    leaks::kill_with(&cluster.scene.path("state1"), "file-server");
    let mut bytes = vec![0; content().len()];
    open.sync_all().unwrap();
    fs::File::open(cluster.mount("1").join("open")).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content());
    drop(open);
    // The controller.
    cluster.service.take().unwrap().stop().unwrap();
    work(&cluster.mount("1"));
    cluster.start_controller();
    cluster.ask(verb("post_run", "1"));
    cluster.ask(verb("data_out", "1"));
    cluster.ask(verb("teardown", "1"));
    assert!(fs::read(back.join("result")).unwrap() == content());
    cluster.assert_nothing_is_left();
}

#[test]
fn a_storage_node_that_was_started_anew_serves_what_it_served() {
    let mut cluster = Cluster::new(IMAGE);
    cluster.ask(cluster.setup("1", AccessMode::Striped, Vec::new()));
    cluster.ask(verb("pre_run", "1"));
    fs::write(cluster.mount("1").join("file"), content()).unwrap();
    // On the disk, as after an fsync: the rest is lost with a machine.
    fs::File::open(cluster.mount("1").join("file")).unwrap().sync_all().unwrap();
    for number in STORAGE {
        cluster.kill(number);
        leaks::kill_with(&cluster.scene.path(&format!("state{number}")), "file-server");
        let unmounted = leaks::unmount(&cluster.scene.disk(number));
        assert_eq!(unmounted, 1, "the image of node{number}");
    }
    STORAGE.iter().for_each(|number| cluster.start(*number));
    assert!(fs::read(cluster.mount("1").join("file")).unwrap() == content(), "who waited goes on");
    cluster.ask(verb("post_run", "1"));
    cluster.ask(verb("teardown", "1"));
    cluster.assert_nothing_is_left();
}

#[test]
fn a_client_node_that_was_started_anew_keeps_no_secrets() {
    let mut cluster = Cluster::new(StorageKind::Directory);
    cluster.ask(cluster.setup("1", AccessMode::Striped, Vec::new()));
    cluster.ask(verb("pre_run", "1"));
    let state = cluster.scene.path(&format!("state{COMPUTE}"));
    let count = || fs::read_dir(state.join("mounts")).unwrap().count();
    assert_eq!(count(), 1);
    cluster.kill(COMPUTE);
    leaks::kill_with(&state, "mount");
    assert_eq!(leaks::unmount(&cluster.scene.path("mnt")), 1, "the dead mount");
    // The job ends without it.
    let client = cluster.client();
    let ending = std::thread::spawn(move || client.ask(&verb("hurry", "1")));
    wait_until("it is being torn down", || {
        let activations = cluster.client().snapshot().unwrap().activations;
        activations.is_empty()
            || activations.iter().all(|row| row.state.goal == forebay_model::state::Goal::Destroy)
    });
    cluster.start(COMPUTE);
    ending.join().unwrap().unwrap();
    wait_until("it is swept", || count() == 0);
    cluster.assert_nothing_is_left();
}

#[test]
fn agents_that_are_killed_all_the_time_finish_their_jobs() {
    let mut cluster = Cluster::new(StorageKind::Directory);
    let (source, back) = (cluster.pfs("source"), cluster.pfs("back"));
    fs::write(source.join("file"), content()).unwrap();
    let client = cluster.client();
    let mount = cluster.mount("1");
    let stages = vec![
        stage(StageDirection::In, StageKind::Directory, &source, "in"),
        stage(StageDirection::Out, StageKind::Directory, &back, "out"),
    ];
    let setup = cluster.setup("1", AccessMode::Striped, stages);
    let job = std::thread::spawn(move || {
        let ask = |request| client.ask(&request).unwrap();
        ask(setup);
        ask(verb("data_in", "1"));
        ask(verb("pre_run", "1"));
        work(&mount);
        ask(verb("post_run", "1"));
        ask(verb("data_out", "1"));
        ask(verb("teardown", "1"));
    });
    // Each lives longer than the one before, so that every step is cut off somewhere and all come to an end.
    let mut life = Duration::from_millis(30);
    for number in (0..=COMPUTE).cycle() {
        if job.is_finished() {
            break;
        }
        std::thread::sleep(life);
        cluster.kill(number);
        cluster.start(number);
        life = life * 11 / 10;
    }
    job.join().unwrap();
    assert!(fs::read(back.join("result")).unwrap() == content());
    cluster.assert_nothing_is_left();
}

/// Everything on the storage node that copies dies in the middle, both ways.
#[test]
fn a_staging_goes_on_on_a_node_that_was_started_anew() {
    let mut cluster = Cluster::new(StorageKind::Directory);
    let (source, back) = (cluster.pfs("source"), cluster.pfs("back"));
    many_files(&source);
    let stages = vec![
        stage(StageDirection::In, StageKind::Directory, &source, "in"),
        stage(StageDirection::Out, StageKind::Directory, &back, "in"),
    ];
    cluster.ask(cluster.setup("1", AccessMode::Striped, stages));
    for step in ["data_in", "data_out"] {
        let client = cluster.client();
        let staging = std::thread::spawn(move || client.ask(&verb(step, "1")));
        let mut copying = None;
        wait_within(Duration::from_secs(180), "files are finished", || {
            copying = STORAGE.into_iter().find(|number| finished(&cluster, *number) > 0);
            copying.is_some() || staging.is_finished()
        });
        let node = copying.expect("it was not too fast");
        cluster.kill(node);
        for role in ["stage", "file-server"] {
            leaks::kill_with(&cluster.scene.path(&format!("state{node}")), role);
        }
        let before = finished(&cluster, node);
        cluster.start(node);
        // What was finished is not forgotten.
        wait_within(Duration::from_secs(180), "it goes on", || {
            finished(&cluster, node) > before || staging.is_finished()
        });
        assert_eq!(staging.join().unwrap().unwrap(), Answer::Done);
    }
    assert_same(&source, &back);
    cluster.ask(verb("teardown", "1"));
    let journals =
        |number: &u64| fs::read_dir(cluster.scene.path(&format!("state{number}/journals"))).unwrap();
    wait_until("the journals are gone", || STORAGE.iter().all(|number| journals(number).count() == 0));
    cluster.assert_nothing_is_left();
}

/// Files that a staging of a node has finished, as its journal says.
fn finished(cluster: &Cluster, number: u64) -> usize {
    let journals = fs::read_dir(cluster.scene.path(&format!("state{number}/journals")));
    let texts =
        journals.into_iter().flatten().flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.map(|text| text.lines().count().saturating_sub(1)).sum()
}

#[test]
fn a_staging_that_hangs_is_broken_off_with_its_job() {
    let mut cluster = Cluster::new(StorageKind::Directory);
    let source = cluster.pfs("source");
    let fifo = source.join("list");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let stages = vec![stage(StageDirection::In, StageKind::List, &fifo, "")];
    cluster.ask(cluster.setup("1", AccessMode::Striped, stages));
    let client = cluster.client();
    let waiting = std::thread::spawn(move || client.ask(&verb("data_in", "1")));
    let running = |cluster: &Cluster| {
        STORAGE.iter().flat_map(|n| leaks::with(&cluster.scene.path(&format!("state{n}")), "stage")).collect()
    };
    wait_until("it runs", || Vec::len(&running(&cluster)) == 1);
    let process: Vec<u32> = running(&cluster);
    STORAGE.iter().for_each(|number| cluster.kill(*number));
    STORAGE.iter().for_each(|number| cluster.start(*number));
    wait_until("they have registered", || cluster.scene.path("state0/incarnation").exists());
    assert_eq!(running(&cluster), process, "the new agent found the old process");
    cluster.ask(verb("hurry", "1"));
    assert!(matches!(waiting.join().unwrap(), Err(ClientError::Refused { .. })));
    cluster.assert_nothing_is_left();
}

#[test]
fn what_fails_is_said_in_a_sentence() {
    let cluster = Cluster::new(StorageKind::Directory);
    let missing = cluster.pfs("source").join("missing");
    let stages = vec![stage(StageDirection::In, StageKind::File, &missing, "x")];
    cluster.ask(cluster.setup("1", AccessMode::Striped, stages));
    let Err(ClientError::Refused { text, .. }) = cluster.client().ask(&verb("data_in", "1")) else {
        panic!("what is not there was staged");
    };
    assert!(text.contains(missing.to_str().unwrap()) && text.contains("does not exist"), "{text}");
    cluster.ask(verb("hurry", "1"));
    cluster.assert_nothing_is_left();
}

/// The controller tells mounts of the new addresses that the agents register with.
#[test]
fn a_job_goes_on_when_its_file_servers_move() {
    let mut cluster = Cluster::new(StorageKind::Directory);
    let back = cluster.pfs("back");
    let stages = vec![stage(StageDirection::Out, StageKind::Directory, &back, "out")];
    cluster.ask(cluster.setup("1", AccessMode::Striped, stages));
    cluster.ask(verb("pre_run", "1"));
    fs::create_dir(cluster.mount("1").join("out")).unwrap();
    let open = fs::File::create(cluster.mount("1").join("out/result")).unwrap();
    use std::os::unix::fs::FileExt;
    let (half, content) = (content().len() / 2, content());
    open.write_all_at(&content[..half], 0).unwrap();
    for number in STORAGE {
        cluster.kill(number);
        leaks::kill_with(&cluster.scene.path(&format!("state{number}")), "file-server");
    }
    cluster.scene.move_servers();
    let writer = std::thread::spawn({
        let content = content.clone();
        move || open.write_all_at(&content[half..], half as u64).and_then(|()| open.sync_all())
    });
    STORAGE.iter().for_each(|number| cluster.start(*number));
    writer.join().unwrap().unwrap();
    cluster.ask(verb("post_run", "1"));
    cluster.ask(verb("data_out", "1"));
    cluster.ask(verb("teardown", "1"));
    assert!(fs::read(back.join("result")).unwrap() == content);
    cluster.assert_nothing_is_left();
}

/// Lists name the job's own space and a persistent instance; one of them lies in the latter, where the job wrote it.
#[test]
fn a_job_stages_from_and_into_a_persistent_instance() {
    let cluster = Cluster::new(StorageKind::Directory);
    let (source, back) = (cluster.pfs("source"), cluster.pfs("back"));
    let Request::Setup(Setup { space, .. }) = cluster.setup("0", AccessMode::Striped, Vec::new()) else {
        unreachable!()
    };
    cluster.ask(Request::CreatePersistent(CreatePersistent {
        name: "mine".into(),
        creator: "CLI".into(),
        owner: OWNER.0,
        group: OWNER.1,
        space: space.unwrap(),
    }));
    for name in ["a", "b", "c"] {
        fs::write(source.join(name), name).unwrap();
    }
    let (from, to, list) = (source.display(), back.display(), source.join("list"));
    fs::write(&list, format!("{from}/a $DW_JOB_STRIPED/a\n{from}/b $DW_PERSISTENT_STRIPED_mine/b\n"))
        .unwrap();
    let persistent = |stage: Stage| Stage { persistent: Some("mine".into()), ..stage };
    let mut inside = persistent(stage(StageDirection::Out, StageKind::List, Path::new("/"), "lists/out"));
    inside.pfs.clear();
    let stages = vec![
        stage(StageDirection::In, StageKind::List, &list, ""),
        persistent(stage(StageDirection::In, StageKind::File, &source.join("c"), "c")),
        inside,
    ];
    let setup = |attach: &[&str], stages: &[Stage]| {
        let Request::Setup(setup) = cluster.setup("1", AccessMode::Striped, stages.to_vec()) else {
            unreachable!()
        };
        Request::Setup(Setup { attach: attach.iter().map(ToString::to_string).collect(), ..setup })
    };
    let refused = |request: &Request| match cluster.client().ask(request) {
        Err(ClientError::Refused { text, .. }) => text,
        other => panic!("{other:?}"),
    };
    let text = refused(&setup(&[], &stages));
    assert!(
        text.contains("$DW_PERSISTENT_STRIPED_mine") && text.contains("#DW persistentdw name=mine"),
        "{text}"
    );
    cluster.ask(setup(&["mine"], &stages));
    cluster.ask(verb("data_in", "1"));
    cluster.ask(verb("pre_run", "1"));
    let own = cluster.mount("1");
    let mine = cluster.scene.path("mnt/batch/mine_1_striped_scratch");
    assert_eq!(fs::read_to_string(own.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(mine.join("b")).unwrap(), "b");
    assert_eq!(fs::read_to_string(mine.join("c")).unwrap(), "c");
    fs::create_dir(mine.join("lists")).unwrap();
    let lines = format!("$DW_JOB_STRIPED/a {to}/a\n$DW_PERSISTENT_STRIPED_mine/b {to}/b\n");
    fs::write(mine.join("lists/out"), lines).unwrap();
    cluster.ask(verb("post_run", "1"));
    cluster.ask(verb("data_out", "1"));
    cluster.ask(verb("teardown", "1"));
    assert_eq!(fs::read_to_string(back.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(back.join("b")).unwrap(), "b");
    cluster.ask(verb("teardown", "mine"));
    cluster.assert_nothing_is_left();
}

/// File servers run and learn of what is made later, while what they know is in use.
#[test]
fn a_new_configuration_is_mounted_while_another_one_is_in_use() {
    let cluster = Cluster::new(StorageKind::Directory);
    let accepted = |request: Request| match cluster.ask(request) {
        Answer::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    };
    let hosts = vec![format!("node{COMPUTE}")];
    let (owner, group) = OWNER;
    let session = SessionId(accepted(Request::CreateSession {
        token: "byhand".into(),
        owner,
        group,
        hosts,
        creator: None,
    }));
    let space = Space {
        capacity: Capacity::Bytes(Bytes(2 * SIZE)),
        pool: None,
        strategy: Strategy::default(),
        kind: ConfigurationType::Scratch,
        access: vec![scene::access(AccessMode::Striped)],
        write_window: None,
        policies: None,
    };
    let label = "space".to_owned();
    let instance = InstanceId(accepted(Request::CreateInstance { session, label, space }));
    // The newest configuration.
    let mounted = |mount: Option<String>| {
        let seen = cluster.client().snapshot().unwrap();
        let configuration = seen.configurations.iter().map(|row| row.id).max().unwrap();
        let activation = ActivationId(accepted(Request::CreateActivation { session, configuration, mount }));
        let mut path = PathBuf::new();
        wait_until("it is mounted", || {
            let seen = cluster.client().snapshot().unwrap().activations;
            let row = seen.into_iter().find(|row| row.id == activation).unwrap();
            path = row.mount.into();
            row.state.actualized
        });
        path
    };
    let first = mounted(None);
    let mut open = fs::File::create(first.join("open")).unwrap();
    open.write_all(b"before ").unwrap();
    let (kind, access) = (ConfigurationType::Scratch, scene::access(AccessMode::Private));
    accepted(Request::CreateConfiguration { instance, kind, access });
    // At a place that an operator chose.
    let chosen = cluster.scene.path("chosen");
    let second = mounted(chosen.to_str().map(str::to_owned));
    assert_eq!(second, chosen);
    fs::write(second.join("own"), "second").unwrap();
    open.write_all(b"after").unwrap();
    open.sync_all().unwrap();
    assert_eq!(fs::read_to_string(first.join("open")).unwrap(), "before after");
    assert!(!first.join("own").exists() && !second.join("open").exists(), "each has its own names");
    drop(open);
    let object = ObjectId::Session(session);
    cluster.ask(Request::Remove { object, hurry: true });
    wait_until("all is gone", || cluster.client().snapshot().unwrap().fragments.is_empty());
    assert!(!chosen.exists(), "its mount point goes with it");
    cluster.assert_nothing_is_left();
}

#[test]
fn two_agents_do_not_share_a_directory() {
    let cluster = Cluster::new(StorageKind::Directory);
    let client = Client::open(Address::Unix(cluster.scene.path(SOCKET)));
    let second = Agent::open(cluster.scene.node(0), client, Stop::default());
    let error = second.err().expect("one is enough").to_string();
    assert!(error.contains("another agent runs with"), "{error}");
}
