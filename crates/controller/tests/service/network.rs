//! Over TCP a MUNGE credential says who asks, once, for one request.

use crate::agent::Agent;
use crate::place::{GRANULE, await_it, pre_run, setup};
use crate::process::{Controller, Munged};
use crate::raw::{Raw, as_user, exchange, request, tcp};
use forebay_controller::client::{Address, Client, ClientError};
use forebay_controller::munge::MungeError;
use forebay_controller::protocol::digest;
use forebay_model::ids::InstanceId;
use std::process::{Command, Stdio};
use std::time::Duration;

const ALICE: u32 = 1000;
const BOB: u32 = 2000;

struct Net {
    munged: Munged,
    controller: Controller,
    _directory: tempfile::TempDir,
}

impl Net {
    fn new() -> Net {
        let munged = Munged::start();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let config = format!(
            "listen = ['127.0.0.1:0']\nsocket = '{}'\nstate = '{}'\nworkload_managers = [64030]\n[munge]\nsocket = '{}'\n\
             [[pool]]\nname = 'wlm_pool'\ngranularity = '16MiB'\n",
            at("c.sock"),
            at("state"),
            munged.socket().display(),
        );
        let controller = Controller::start(directory.path(), &config);
        Net { munged, controller, _directory: directory }
    }

    fn address(&self) -> &str {
        &self.controller.addresses[0]
    }

    fn client(&self) -> Client {
        Client::open(self.address().parse::<Address>().unwrap()).with_munge(self.munged.munge())
    }

    fn credential(&self, method: &str, target: &str, body: &str) -> String {
        self.munged.munge().encode(digest(method, target, body.as_bytes()).as_bytes(), None).unwrap()
    }

    fn send(&self, target: &str, credential: &str) -> Raw {
        let header = format!("Authorization: MUNGE {credential}\r\n");
        exchange(tcp(self.address()), &request("GET", target, &header, ""))
    }
}

#[test]
fn a_cluster_works_over_the_network() {
    let net = Net::new();
    let client = net.client();
    let _agents = [
        Agent::start(client.clone(), "s1".into(), 4 * GRANULE),
        Agent::start(client.clone(), "s2".into(), 4 * GRANULE),
    ];
    await_it("the agents are there", || client.snapshot().unwrap().pools[0].quantity.0 == 8);
    // Users do not ask for what is the workload manager's.
    let refused = as_user(ALICE, || client.ask(&setup("1")));
    assert!(matches!(refused, Err(ClientError::Refused { kind, .. }) if kind == "not_allowed"));
    as_user(64030, || client.ask(&setup("1"))).unwrap();
    // Users see what is theirs.
    assert_eq!(as_user(ALICE, || client.snapshot()).unwrap().sessions.len(), 1);
    assert_eq!(as_user(BOB, || client.snapshot()).unwrap().sessions.len(), 0);
    // Only root gets secrets, sealed, and only for a node that has to do with the instance.
    let secrets = client.secrets("s1", InstanceId(1)).unwrap();
    assert_eq!(secrets, client.secrets("s2", InstanceId(1)).unwrap());
    for (uid, node) in [(0, "c9"), (ALICE, "s1"), (64030, "s1")] {
        let refused = as_user(uid, || client.secrets(node, InstanceId(1)));
        assert!(matches!(refused, Err(ClientError::Refused { kind, .. }) if kind == "not_allowed"), "{node}");
    }
    let target = "/v1/agents/s1/secrets/1";
    let sealed = net.send(target, &net.credential("GET", target, ""));
    assert!(sealed.body.contains("MUNGE:") && !sealed.body.contains(&secrets.token), "{sealed:?}");
    let sealed: serde_json::Value = serde_json::from_str(&sealed.body).unwrap();
    let credential = sealed["credential"].as_str().unwrap();
    assert_eq!(as_user(ALICE, || net.munged.munge().decode(credential)), Err(MungeError::Unauthorized));
    let log = net.controller.log();
    assert!(log.contains("uid 1000: setup refused"), "{log}");
    assert!(log.contains("uid 1000: GET /v1/agents/s1/secrets/1 refused"), "{log}");
    assert!(!log.contains(&secrets.token) && !log.contains(&secrets.seal));
}

#[test]
fn a_node_that_only_mounts_is_not_given_what_servers_know() {
    let net = Net::new();
    let client = net.client();
    let start = |name: &str, capacity| Agent::start(client.clone(), name.into(), capacity);
    let _agents = [start("s1", 4 * GRANULE), start("c1", 0), start("c2", 0)];
    await_it("the agents are there", || client.snapshot().unwrap().nodes.len() == 3);
    client.ask(&setup("1")).unwrap();
    let refused = client.secrets("c1", InstanceId(1));
    assert!(matches!(refused, Err(ClientError::Refused { kind, .. }) if kind == "not_allowed"), "not yet");
    client.ask(&pre_run("1", &["c1"])).unwrap();
    let (serving, mounting) =
        (client.secrets("s1", InstanceId(1)).unwrap(), client.secrets("c1", InstanceId(1)));
    let mounting = mounting.unwrap();
    assert_eq!((serving.token.len(), serving.seal.len()), (64, 64));
    assert_eq!((mounting.token == serving.token, mounting.seal.as_str()), (true, ""));
    let refused = client.secrets("c2", InstanceId(1));
    assert!(matches!(refused, Err(ClientError::Refused { kind, .. }) if kind == "not_allowed"));
}

#[test]
fn a_credential_serves_once_for_one_request_and_only_if_it_is_ours() {
    let net = Net::new();
    let target = "/v1/pools";
    let good = net.credential("GET", target, "");
    assert_eq!(net.send(target, &good).status, 200);
    let replayed = net.send(target, &good);
    assert_eq!((replayed.status, replayed.kind().as_str()), (401, "credential"));
    assert!(replayed.body.contains("used before"), "{}", replayed.body);
    // Another path, another method, another body.
    for (method, of, body) in
        [("GET", "/v1/sessions", ""), ("POST", target, ""), ("GET", target, "{}"), ("GET", "/v1/pools?", "")]
    {
        let other = net.send(target, &net.credential(method, of, body));
        assert_eq!(other.status, 401);
        assert!(other.body.contains("another request"), "{}", other.body);
    }
    let stranger = Munged::start();
    let payload = digest("GET", target, b"");
    let forged = net.send(target, &stranger.munge().encode(payload.as_bytes(), None).unwrap());
    assert_eq!(forged.status, 401);
    assert!(forged.body.contains("munge.key"), "{}", forged.body);
    for nonsense in ["", "MUNGE:AwQDAAC:", "x", &"A".repeat(40_000)] {
        assert_eq!(net.send(target, nonsense).status, 401, "{nonsense:.9}");
    }
    let none = exchange(tcp(net.address()), &request("GET", target, "", ""));
    assert_eq!((none.status, none.kind().as_str()), (401, "credential"));
    assert!(none.head.contains("\r\nwww-authenticate: munge\r\n"), "{none:?}");
    let basic =
        exchange(tcp(net.address()), &request("GET", target, "Authorization: Basic cm9vdDo=\r\n", ""));
    assert_eq!(basic.status, 401);
    let log = net.controller.log();
    for reason in ["used before", "belongs to another request", "not valid", "no credential"] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    assert!(log.contains("uid 0: GET /v1/pools refused") && log.contains("127.0.0.1"), "{log}");
    // A body that was changed on its way.
    let credential = net.credential("POST", "/v1/wlm/teardown", r#"{"token":"1","hurry":false}"#);
    let header = format!("Authorization: MUNGE {credential}\r\n");
    let changed = request("POST", "/v1/wlm/teardown", &header, r#"{"token":"2","hurry":false}"#);
    assert_eq!(exchange(tcp(net.address()), &changed).status, 401);
}

#[test]
fn a_credential_that_is_too_old_is_refused() {
    let net = Net::new();
    let target = "/v1/pools";
    let made = Command::new("munge")
        .args(["--ttl=1", "--string", &digest("GET", target, b"")])
        .arg(format!("--socket={}", net.munged.socket().display()))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let credential = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    // Nothing but time makes it old; munged counts whole seconds.
    std::thread::sleep(Duration::from_millis(2_100));
    let old = net.send(target, &credential);
    assert_eq!(old.status, 401);
    assert!(old.body.contains("too old"), "{}", old.body);
}

/// Clocks that differ: the credential is a real one, with the right key, of a machine with another time.
#[test]
fn a_credential_of_another_time_is_refused_and_logged() {
    const HOUR_S: i64 = 3600;
    let net = Net::new();
    let target = "/v1/pools";
    for (ahead_s, words) in [(HOUR_S, "is from the future"), (-HOUR_S, "is too old")] {
        let elsewhere = net.munged.elsewhere(ahead_s);
        let credential = elsewhere.munge().encode(digest("GET", target, b"").as_bytes(), None).unwrap();
        let refused = net.send(target, &credential);
        assert_eq!((refused.status, refused.kind().as_str()), (401, "credential"), "{}", refused.body);
        assert!(refused.body.contains(words), "{}", refused.body);
        let log = net.controller.log();
        let line = log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains("GET /v1/pools refused") && line.contains("from 127.0.0.1"), "{line}");
    }
    // A minute is no other time: clocks are never the same.
    let near = net.munged.elsewhere(60);
    let credential = near.munge().encode(digest("GET", target, b"").as_bytes(), None).unwrap();
    assert_eq!(net.send(target, &credential).status, 200);
}

#[test]
fn without_munged_nothing_is_believed_and_everything_goes_on_with_it() {
    let net = Net::new();
    let client = net.client();
    client.snapshot().unwrap();
    let Net { munged, controller, _directory } = net;
    let credential = munged.munge().encode(digest("GET", "/v1/pools", b"").as_bytes(), None).unwrap();
    drop(munged);
    let header = format!("Authorization: MUNGE {credential}\r\n");
    let answer = exchange(tcp(&controller.addresses[0]), &request("GET", "/v1/pools", &header, ""));
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("munged does not answer"), "{}", answer.body);
    let error = client.with_patience(Duration::ZERO).snapshot().unwrap_err();
    assert!(matches!(error, ClientError::Munge(MungeError::NoDaemon { .. })), "{error}");
    let figures = exchange(tcp(&controller.addresses[0]), &request("GET", "/metrics", "", ""));
    assert_eq!(figures.status, 200, "figures need no credential");
}

#[test]
fn a_controller_for_the_network_does_not_start_without_munged() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let config = format!(
        "listen = ['127.0.0.1:0']\nsocket = '{}'\nstate = '{}'\n[munge]\nsocket = '{}'\n",
        at("c.sock"),
        at("state"),
        at("no-munged"),
    );
    let config = forebay_controller::service::Config::parse(&config, std::path::Path::new("test")).unwrap();
    let error = forebay_controller::service::Service::start(&config).err().unwrap().to_string();
    assert!(error.contains("munged does not answer") && error.contains("no-munged"), "{error}");
}
