//! `dwstat` prints what DataWarp machines printed: samples from several sites and years, byte for byte.
//!
//! Where samples contradict each other the words of the newer ones are expected (`intact`, `public`, `online`), and a
//! state has five characters. Every line ends with a blank, which the samples below leave out.

use forebay_cli::dwstat::object::Object;
use forebay_cli::dwstat::{Options, render};
use forebay_controller::registry::Snapshot;
use forebay_model::capacity::format::{SizeStyle, SizeUnit};
use forebay_model::ids::*;
use forebay_model::objects::*;
use forebay_model::state::{Goal, ObjectState};
use forebay_model::units::{Bytes, GIB, Granules, MIB, TIB};
use jiff::Timestamp;
use jiff::tz::TimeZone;

fn options(objects: &[Object]) -> Options {
    Options {
        objects: objects.to_vec(),
        sizes: SizeStyle::Binary,
        cache_details: false,
        json: false,
        zone: TimeZone::UTC,
        now: 0,
    }
}

fn shown(snapshot: &Snapshot, objects: &[Object]) -> String {
    render(snapshot, &options(objects))
}

fn most() -> &'static [Object] {
    Object::named("most").unwrap()
}

/// Lines as they are printed: a blank at the end of each, except of empty ones and messages.
fn lines(text: &str) -> String {
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        message if message.starts_with("did not") => format!("{message}\n"),
        row => format!("{row} \n"),
    };
    text.trim_start_matches('\n').lines().map(line).collect()
}

fn at(date: &str) -> i64 {
    format!("{date}Z").parse::<Timestamp>().unwrap().as_second()
}

/// 397.44 GiB, in whole bytes.
const SHAHEEN: Bytes = Bytes(39_744 * GIB / 100);

fn pool(granularity: Bytes, quantity: u64, free: u64) -> Pool {
    Pool { name: "wlm_pool".into(), granularity, quantity: Granules(quantity), free: Granules(free) }
}

fn session(id: u64, token: &str, creator: &str, owner: u32, created: &str, nodes: u64) -> Session {
    Session {
        id: SessionId(id),
        state: ObjectState::GOOD,
        token: token.into(),
        creator: creator.into(),
        owner,
        created: at(created),
        expiration: 0,
        nodes,
    }
}

fn instance(id: u64, session: u64, bytes: Bytes, nodes: u64, created: &str, label: &str) -> Instance {
    Instance {
        id: InstanceId(id),
        state: ObjectState::GOOD,
        session: SessionId(session),
        bytes,
        nodes,
        created: at(created),
        expiration: 0,
        intact: true,
        label: label.into(),
        public: !label.starts_with('I'),
        configurations: 1,
        limits: None,
    }
}

fn scratch(id: u64, instance: u64, activations: u64) -> Configuration {
    Configuration {
        id: ConfigurationId(id),
        state: ObjectState::GOOD,
        instance: InstanceId(instance),
        kind: ConfigurationType::Scratch,
        access_mode: AccessMode::Striped,
        backing_path: None,
        activations,
    }
}

#[test]
fn an_idle_machine() {
    let snapshot = Snapshot { pools: vec![pool(SHAHEEN, 4010, 4010)], ..Snapshot::default() };
    let expected = "
    pool units quantity    free      gran
wlm_pool bytes  1.52PiB 1.52PiB 397.44GiB

did not find any of [sessions, instances, configurations, registrations, activations]
";
    assert_eq!(shown(&snapshot, most()), lines(expected));
}

#[test]
fn nodes() {
    let node = |number: u64, online: bool, drain: bool| Node {
        name: format!("nid{number:05}"),
        pool: Some("wlm_pool".into()),
        online,
        drain,
        granularity: Bytes(16 * MIB),
        capacity: Bytes(582 * TIB / 100),
        instances: 0,
        activations: 0,
    };
    let snapshot = Snapshot { nodes: vec![node(2, true, false)], ..Snapshot::default() };
    let expected = "
    node     pool online drain  gran capacity insts activs
nid00002 wlm_pool online  fill 16MiB  5.82TiB     0      0
";
    assert_eq!(shown(&snapshot, &[Object::Nodes]), lines(expected));
    let snapshot = Snapshot { nodes: vec![node(3, false, true)], ..Snapshot::default() };
    let expected = "
    node     pool  online drain  gran capacity insts activs
nid00003 wlm_pool offline drain 16MiB  5.82TiB     0      0
";
    assert_eq!(shown(&snapshot, &[Object::Nodes]), lines(expected));
}

/// Los Alamos, December 2016.
#[test]
fn two_jobs_of_a_test_system() {
    let date = "2016-12-05T13:42:20";
    let snapshot = Snapshot {
        // 34.88 TiB and 34.69 TiB in granules of 32 GiB.
        pools: vec![pool(Bytes(32 * GIB), 1116, 1110)],
        sessions: vec![
            session(20, "45722", "MOAB-TORQUE", 4611, date, 0),
            session(21, "45716", "MOAB-TORQUE", 4611, date, 0),
        ],
        instances: vec![
            instance(20, 20, Bytes(32 * GIB), 1, date, "I20-0"),
            instance(21, 21, Bytes(32 * GIB), 1, date, "I21-0"),
        ],
        configurations: vec![scratch(22, 20, 0), scratch(23, 21, 0)],
        ..Snapshot::default()
    };
    let expected = "
    pool units quantity     free  gran
wlm_pool bytes 34.88TiB 34.69TiB 32GiB

sess state token     creator owner             created expiration nodes
  20 CA--- 45722 MOAB-TORQUE  4611 2016-12-05T13:42:20      never     0
  21 CA--- 45716 MOAB-TORQUE  4611 2016-12-05T13:42:20      never     0

inst state sess bytes nodes             created expiration intact label  public confs
  20 CA---   20 32GiB     1 2016-12-05T13:42:20      never intact I20-0 private     1
  21 CA---   21 32GiB     1 2016-12-05T13:42:20      never intact I21-0 private     1

conf state inst    type activs
  22 CA---   20 scratch      0
  23 CA---   21 scratch      0

did not find any of [registrations, activations]
";
    assert_eq!(shown(&snapshot, most()), lines(expected));
}

/// KAUST, January 2017: a job with 40 client nodes.
#[test]
fn a_running_job() {
    let date = "2017-01-19T23:49:54";
    let snapshot = Snapshot {
        sessions: vec![session(975, "2728666", "SLURM", 137_767, date, 40)],
        instances: vec![instance(967, 975, Bytes(2 * SHAHEEN.0), 2, date, "I975-0")],
        configurations: vec![scratch(975, 967, 1)],
        registrations: vec![Registration {
            id: RegistrationId(945),
            state: ObjectState::GOOD,
            session: SessionId(975),
            configuration: ConfigurationId(975),
            wait: true,
        }],
        activations: vec![Activation {
            id: ActivationId(884),
            state: ObjectState::GOOD,
            session: SessionId(975),
            configuration: ConfigurationId(975),
            nodes: 40,
            mount: "/var/opt/cray/dws/mounts/batch/2728666/ss".into(),
        }],
        ..Snapshot::default()
    };
    let expected = "
sess state   token creator  owner             created expiration nodes
 975 CA--- 2728666   SLURM 137767 2017-01-19T23:49:54      never    40

inst state sess     bytes nodes             created expiration intact  label  public confs
 967 CA---  975 794.88GiB     2 2017-01-19T23:49:54      never intact I975-0 private     1

conf state inst    type activs
 975 CA---  967 scratch      1

reg state sess conf wait
945 CA---  975  975 true

activ state sess conf nodes                                     mount
  884 CA---  975  975    40 /var/opt/cray/dws/mounts/batch/2728666/ss
";
    assert_eq!(shown(&snapshot, &most()[1..]), lines(expected));
}

/// KAUST, January 2017: session without a job.
#[test]
fn a_persistent_instance() {
    let snapshot = Snapshot {
        sessions: vec![session(985, "george_test", "CLI", 137_767, "2017-01-20T18:01:00", 0)],
        instances: vec![instance(977, 985, Bytes(2 * SHAHEEN.0), 2, "2017-01-20T18:01:01", "george_test")],
        ..Snapshot::default()
    };
    let expected = "
sess state       token creator  owner             created expiration nodes
 985 CA--- george_test     CLI 137767 2017-01-20T18:01:00      never     0

inst state sess     bytes nodes             created expiration intact       label public confs
 977 CA---  985 794.88GiB     2 2017-01-20T18:01:01      never intact george_test public     1
";
    assert_eq!(shown(&snapshot, &[Object::Sessions, Object::Instances]), lines(expected));
}

/// A development machine, November 2017.
#[test]
fn the_newer_words() {
    let mut own = instance(1, 1, Bytes(512 * MIB), 1, "2017-11-03T23:54:03", "my_instance");
    (own.public, own.configurations) = (false, 0);
    let snapshot = Snapshot {
        sessions: vec![session(1, "my_sessio", "1000", 1000, "2017-11-03T23:45:49", 0)],
        instances: vec![own],
        ..Snapshot::default()
    };
    let sessions = "
sess state     token creator owner             created expiration nodes
   1 CA--- my_sessio    1000  1000 2017-11-03T23:45:49      never     0
";
    let instances = "
inst state sess  bytes nodes             created expiration intact       label  public confs
   1 CA---    1 512MiB     1 2017-11-03T23:54:03      never intact my_instance private     0
";
    assert_eq!(shown(&snapshot, &[Object::Sessions]), lines(sessions));
    assert_eq!(shown(&snapshot, &[Object::Instances]), lines(instances));
}

/// CUG 2018: the last column stands at the left.
#[test]
fn cache_details() {
    let cache = |id: u64, instance: u64, path: &str| Configuration {
        kind: ConfigurationType::Cache,
        backing_path: Some(path.into()),
        ..scratch(id, instance, 1)
    };
    let snapshot = Snapshot {
        configurations: vec![
            cache(1775, 1787, "/lus/snx12345"),
            cache(1776, 1788, "/lus/global"),
            cache(1777, 1789, "/lus/snx12345/alice"),
        ],
        ..Snapshot::default()
    };
    let expected = "
conf state inst  type  amode activs backing_path
1775 CA--- 1787 cache stripe      1 /lus/snx12345
1776 CA--- 1788 cache stripe      1 /lus/global
1777 CA--- 1789 cache stripe      1 /lus/snx12345/alice
";
    let details = Options { cache_details: true, ..options(&[Object::Configurations]) };
    assert_eq!(render(&snapshot, &details), lines(expected));
    let own = Configuration { access_mode: AccessMode::Private, ..scratch(5, 6, 0) };
    let snapshot = Snapshot { configurations: vec![own], ..Snapshot::default() };
    let expected = "
conf state inst    type   amode activs backing_path
   5 CA---    6 scratch private      0 -
";
    assert_eq!(render(&snapshot, &details), lines(expected));
}

/// Slurm's documentation, September 2015: an extract of a longer table, whose ids had five digits.
#[test]
fn objects_on_their_way() {
    let gone = ObjectState { goal: Goal::Destroy, actualized: false, ..ObjectState::GOOD };
    let going = ObjectState { transitioning: true, ..gone };
    let snapshot = Snapshot {
        sessions: vec![
            session(832, "783000000", "tester", 12_345, "2015-09-08T16:20:36", 20),
            Session { state: gone, ..session(903, "1875700000", "tester", 12_345, "2015-09-08T17:26:05", 0) },
            session(10_000, "1", "tester", 1, "2015-09-08T17:26:05", 0),
        ],
        configurations: vec![
            scratch(715, 753, 1),
            Configuration { state: going, ..scratch(759, 807, 0) },
            scratch(10_000, 1, 0),
        ],
        ..Snapshot::default()
    };
    let sessions = "
 sess state      token creator owner             created expiration nodes
  832 CA---  783000000  tester 12345 2015-09-08T16:20:36      never    20
  903 D---- 1875700000  tester 12345 2015-09-08T17:26:05      never     0
";
    let configurations = "
 conf state inst    type activs
  715 CA---  753 scratch      1
  759 D--T-  807 scratch      0
";
    let three = |text: String| text.split_inclusive('\n').take(3).collect::<String>();
    assert_eq!(three(shown(&snapshot, &[Object::Sessions])), lines(sessions));
    assert_eq!(three(shown(&snapshot, &[Object::Configurations])), lines(configurations));
}

/// Cori, 2020 (with five characters of state).
#[test]
fn fragments_and_namespaces() {
    let snapshot = Snapshot {
        fragments: vec![Fragment {
            id: FragmentId(1_561_356),
            state: ObjectState::GOOD,
            instance: InstanceId(19_983),
            capacity: Bytes(20_624 * MIB),
            node: "nid03345".into(),
        }],
        namespaces: vec![Namespace {
            id: NamespaceId(44_223),
            state: ObjectState::GOOD,
            configuration: ConfigurationId(6953),
            fragment: FragmentId(1_561_356),
            span: 12,
        }],
        ..Snapshot::default()
    };
    let expected = "
   frag state  inst capacity     node
1561356 CA--- 19983 20.14GiB nid03345

   ns state conf    frag span
44223 CA--- 6953 1561356   12
";
    assert_eq!(shown(&snapshot, &[Object::Fragments, Object::Namespaces]), lines(expected));
}

#[test]
fn sizes_in_every_unit() {
    // Shaheen after its granularity was changed: 368 GiB are 395.14 GB.
    let snapshot = Snapshot { pools: vec![pool(Bytes(368 * GIB), 2, 1)], ..Snapshot::default() };
    let row = |sizes: SizeStyle| {
        let text = render(&snapshot, &Options { sizes, ..options(&[Object::Pools]) });
        text.lines().nth(1).unwrap().split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(SizeStyle::Binary), "736GiB 368GiB 368GiB");
    assert_eq!(row(SizeStyle::Fixed(SizeUnit::GB)), "790.27GB 395.14GB 395.14GB");
    assert_eq!(row(SizeStyle::Fixed(SizeUnit::GiB)), "736.00GiB 368.00GiB 368.00GiB");
    assert_eq!(row(SizeStyle::Bytes), "790273982464 395136991232 395136991232");
    assert_eq!(row(SizeStyle::Si), "790.27GB 395.14GB 395.14GB");
}

#[test]
fn dates_are_local_and_may_be_absent_or_absurd() {
    let mut one = session(1, "t", "CLI", 0, "2017-01-20T18:01:00", 0);
    let date = |one: &Session, zone: &TimeZone| {
        let snapshot = Snapshot { sessions: vec![one.clone()], ..Snapshot::default() };
        let text = render(&snapshot, &Options { zone: zone.clone(), ..options(&[Object::Sessions]) });
        text.lines().nth(1).unwrap().split_whitespace().skip(5).take(2).collect::<Vec<_>>().join(" ")
    };
    let east = TimeZone::fixed(jiff::tz::offset(7));
    assert_eq!(date(&one, &east), "2017-01-21T01:01:00 never");
    one.expiration = one.created + 60;
    assert_eq!(date(&one, &TimeZone::UTC), "2017-01-20T18:01:00 2017-01-20T18:02:00");
    one.expiration = i64::MAX;
    assert_eq!(date(&one, &TimeZone::UTC), "2017-01-20T18:01:00 9223372036854775807");
}

#[test]
fn empty_tables_have_messages() {
    let nothing = Snapshot::default();
    for object in Object::ALL {
        let expected = match object {
            Object::Configurations => "no scratch, cache, swap configurations\n".to_owned(),
            other => format!("no {}\n", other.name()),
        };
        assert_eq!(shown(&nothing, &[object]), expected);
    }
    assert_eq!(
        shown(&nothing, &Object::ALL),
        "did not find any of [pools, sessions, instances, configurations, registrations, activations, fragments, \
         namespaces, nodes]\n"
    );
    assert_eq!(shown(&nothing, &[Object::Nodes, Object::Pools]), "did not find any of [nodes, pools]\n");
}

#[test]
fn json_has_the_keys_of_the_workload_manager() {
    let date = "2016-11-04T02:14:17";
    let mut alpha = instance(74, 74, Bytes(TIB), 2, date, "alpha");
    alpha.expiration = 5;
    alpha.limits = Some(InstanceLimits { write_window_length: 86_400, write_window_multiplier: 10 });
    let snapshot = Snapshot {
        pools: vec![pool(Bytes(200 * GIB), 29, 28)],
        sessions: vec![session(74, "alpha", "CLI", 1001, date, 0)],
        instances: vec![alpha],
        configurations: vec![scratch(72, 74, 0)],
        ..Snapshot::default()
    };
    let json = |objects: &[Object], now: i64| -> serde_json::Value {
        let text = render(&snapshot, &Options { json: true, now, ..options(objects) });
        assert!(text.ends_with("}\n"));
        serde_json::from_str(&text).unwrap()
    };
    let good = serde_json::json!(
        {"actualized": true, "fuse_blown": false, "goal": "create", "mixed": false, "transitioning": false});
    assert_eq!(
        json(&[Object::Pools], 0),
        serde_json::json!({"pools": [{"id": "wlm_pool", "units": "bytes", "granularity": 214_748_364_800u64,
            "quantity": 29, "free": 28}]})
    );
    assert_eq!(
        json(&[Object::Instances, Object::Fragments], 6),
        serde_json::json!({"instances": [{"id": 74, "label": "alpha", "public": true, "intact": true,
            "capacity": {"bytes": 1_099_511_627_776u64, "nodes": 2}, "created": 1_478_225_657, "expiration": 5,
            "expired": true,
            "limits": {"write_window_length": 86_400, "write_window_multiplier": 10},
            "links": {"configurations": [72], "session": 74}, "state": good}], "fragments": []})
    );
    assert_eq!(
        json(&[Object::Sessions], 6),
        serde_json::json!({"sessions": [{"id": 74, "token": "alpha", "creator": "CLI", "owner": 1001,
            "created": 1_478_225_657, "expiration": 0, "expired": false, "nodes": 0, "state": good}]})
    );
    let all = json(&Object::ALL, 0);
    assert_eq!(all.as_object().unwrap().len(), 9);
}

#[test]
fn the_document_explains_every_column() {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dwstat.md"));
    let sections: Vec<&str> = document.split("\n### ").collect();
    let state = ObjectState::GOOD;
    let date = "2017-01-20T18:01:00";
    let snapshot = Snapshot {
        pools: vec![pool(SHAHEEN, 1, 1)],
        nodes: vec![Node {
            name: "n".into(),
            pool: None,
            online: true,
            drain: false,
            granularity: Bytes(1),
            capacity: Bytes(1),
            instances: 0,
            activations: 0,
        }],
        sessions: vec![session(1, "t", "CLI", 1, date, 1)],
        instances: vec![instance(1, 1, Bytes(1), 1, date, "l")],
        configurations: vec![scratch(1, 1, 1)],
        fragments: vec![Fragment {
            id: FragmentId(1),
            state,
            instance: InstanceId(1),
            capacity: Bytes(1),
            node: "n".into(),
        }],
        namespaces: vec![Namespace {
            id: NamespaceId(1),
            state,
            configuration: ConfigurationId(1),
            fragment: FragmentId(1),
            span: 1,
        }],
        registrations: vec![Registration {
            id: RegistrationId(1),
            state,
            session: SessionId(1),
            configuration: ConfigurationId(1),
            wait: false,
        }],
        activations: vec![Activation {
            id: ActivationId(1),
            state,
            session: SessionId(1),
            configuration: ConfigurationId(1),
            nodes: 1,
            mount: "/m".into(),
        }],
    };
    for object in Object::ALL {
        let title = format!("{}\n", object.name());
        let section = sections.iter().find(|section| section.starts_with(&title)).unwrap();
        let explained: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let text = render(&snapshot, &Options { cache_details: true, ..options(&[object]) });
        let printed: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(explained, printed, "{}", object.name());
    }
}
