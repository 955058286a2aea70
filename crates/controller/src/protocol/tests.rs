//! Every request has one form, and the form is the request.

use super::*;
use crate::cluster::Request;
use crate::cluster::request::*;
use crate::cluster::row::StageId;
use crate::request::{AccessRequest, StageDirection, StageKind};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::*;
use forebay_model::limits::Policy;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;

fn space() -> Space {
    let access = AccessRequest {
        mode: AccessMode::Private,
        max_file_size: Some(Bytes(5)),
        max_files: None,
        client_cache: true,
    };
    Space {
        capacity: Capacity::Nodes(2),
        pool: Some("p".into()),
        strategy: Strategy::default(),
        kind: ConfigurationType::Scratch,
        access: vec![access],
        write_window: None,
        policies: None,
    }
}

fn stage() -> Stage {
    Stage {
        direction: StageDirection::Out,
        kind: StageKind::List,
        persistent: Some("alpha".into()),
        pfs: b"/pfs/\xff".to_vec(),
        instance_path: Vec::new(),
        tolerate_errors: true,
    }
}

/// A sample of every request. A new request has to be added by whoever adds it: the match has no other arm.
pub(super) fn samples() -> Vec<Request> {
    let token = || "1".to_owned();
    let (session, configuration) = (SessionId(7), ConfigurationId(8));
    let (kind, access) = (ConfigurationType::Scratch, space().access[0]);
    let all = vec![
        Request::Setup(Setup {
            token: token(),
            creator: "SLURM".into(),
            owner: 1,
            group: 2,
            space: Some(space()),
            attach: vec!["alpha".into()],
            stages: vec![stage()],
            swap: false,
        }),
        Request::DataIn { token: token() },
        Request::RealSize { token: token() },
        Request::Paths { token: token() },
        Request::PreRun { token: token(), hosts: vec!["c1".into()] },
        Request::PostRun { token: token() },
        Request::DataOut { token: token() },
        Request::Teardown { token: token(), hurry: true },
        Request::CreatePersistent(CreatePersistent {
            name: "alpha".into(),
            creator: "CLI".into(),
            owner: 1,
            group: 2,
            space: space(),
        }),
        Request::CreateSession {
            token: "a".into(),
            owner: 1,
            group: 2,
            hosts: vec!["c1".into()],
            creator: Some("me".into()),
        },
        Request::CreateInstance { session, label: "l".into(), space: space() },
        Request::CreateConfiguration { instance: InstanceId(3), kind, access },
        Request::CreateActivation { session, configuration, mount: None },
        Request::CreateActivation { session, configuration, mount: Some("/scratch".into()) },
        Request::Remove { object: ObjectId::Session(session), hurry: true },
        Request::Remove { object: ObjectId::Session(session), hurry: false },
        Request::Remove { object: ObjectId::Activation(ActivationId(4)), hurry: false },
        Request::Remove { object: ObjectId::Registration(RegistrationId(5)), hurry: false },
        Request::ChangeInstance {
            instance: InstanceId(3),
            change: InstanceChange {
                write_window_length_s: Some(9),
                write_window_multiplier: Some(2),
                policies: PolicyChange { file_size: Some(Policy::Both), ..PolicyChange::default() },
            },
        },
        Request::ChangeInstance { instance: InstanceId(3), change: InstanceChange::default() },
        Request::ChangeConfiguration {
            configuration,
            change: ConfigurationChange { max_file_size: Some(Bytes(5)), max_files: Some(1) },
        },
        Request::NoWait { registration: RegistrationId(5) },
        Request::Stage { session, configuration, stage: stage() },
        Request::StageTerminate { stage: StageId(6) },
        Request::CreatePool { name: "p".into(), granularity: Bytes(1) },
        Request::AssignNode { node: "s 1/%ü".into(), pool: None },
        Request::AssignNode { node: "s1".into(), pool: Some("p".into()) },
        Request::Drain { node: "s1".into(), drain: true },
        Request::ForgetNode { node: "s1".into() },
        Request::Retry { session },
    ];
    for request in &all {
        match request {
            Request::Setup(_) | Request::DataIn { .. } | Request::RealSize { .. } | Request::Paths { .. } => {
            }
            Request::PreRun { .. } | Request::PostRun { .. } | Request::DataOut { .. } => {}
            Request::Teardown { .. } | Request::CreatePersistent(_) | Request::CreateSession { .. } => {}
            Request::CreateInstance { .. } | Request::CreateConfiguration { .. } => {}
            Request::CreateActivation { .. } | Request::Remove { .. } | Request::NoWait { .. } => {}
            Request::ChangeInstance { .. } | Request::ChangeConfiguration { .. } => {}
            Request::Stage { .. } | Request::StageTerminate { .. } | Request::CreatePool { .. } => {}
            Request::AssignNode { .. } | Request::Drain { .. } | Request::ForgetNode { .. } => {}
            Request::Retry { .. } => {}
        }
    }
    all
}

fn understood(form: &Form) -> Request {
    let parsed = parse(form.method.name(), &form.target).unwrap();
    let Operation::Ask(name) = parsed.route.operation else { panic!("{}", form.target) };
    let body = form.body.as_ref().map(|body| body.to_string().into_bytes()).unwrap_or_default();
    parsed.request(name, &body).unwrap_or_else(|error| panic!("{}: {error}", form.target))
}

#[test]
fn every_form_reads_back_to_its_request() {
    let mut used = std::collections::BTreeSet::new();
    for request in samples() {
        let form = form_of(&request);
        assert_eq!(understood(&form), request);
        let route = parse(form.method.name(), &form.target).unwrap().route;
        used.insert((route.path, route.method.name()));
    }
    let asking = ROUTES.iter().filter(|route| matches!(route.operation, Operation::Ask(_)));
    let routes: std::collections::BTreeSet<_> = asking.map(|r| (r.path, r.method.name())).collect();
    assert_eq!(used, routes);
}

#[test]
fn what_is_not_understood_is_refused() {
    let kind = |method: &str, target: &str| match parse(method, target) {
        Ok(_) => "fine",
        Err(BadRequest::NoPath { .. }) => "path",
        Err(BadRequest::NoMethod { .. }) => "method",
        Err(BadRequest::Parameter { .. }) => "parameter",
        Err(BadRequest::Body { .. }) => "body",
    };
    for (method, target, expected) in [
        ("GET", "/v1/pools", "fine"),
        ("GET", "/v1/pools/", "path"),
        ("GET", "/v2/pools", "path"),
        ("GET", "/v1/../v1/pools", "path"),
        ("PUT", "/v1/pools", "method"),
        ("get", "/v1/pools", "method"),
        ("GET", "/v1/pools?tables=x", "parameter"),
        ("DELETE", "/v1/sessions/1?hurry=true&hurry=true", "parameter"),
        ("DELETE", "/v1/nodes/%zz", "path"),
        ("DELETE", "/v1/nodes/%+1", "path"),
        ("DELETE", "/v1/nodes/%ff", "path"),
        ("GET", "*", "path"),
    ] {
        assert_eq!(kind(method, target), expected, "{method} {target}");
    }
    for (method, target, name, body) in [
        ("POST", "/v1/wlm/teardown", "teardown", r#"{"token":"1"}"#),
        ("POST", "/v1/wlm/teardown", "teardown", r#"{"token":"1","hurry":true,"force":true}"#),
        ("POST", "/v1/wlm/setup", "setup", "[]"),
        ("POST", "/v1/wlm/setup", "setup", ""),
        ("PATCH", "/v1/nodes/s1", "change_node", r#"{"drain":true,"pool":null}"#),
        ("PATCH", "/v1/nodes/s1", "change_node", r#"{"drain":"yes"}"#),
        ("PATCH", "/v1/registrations/1", "no_wait", r#"{"wait":true}"#),
        ("PATCH", "/v1/instances/1", "change_instance", r#"{"capacity":1}"#),
        ("PATCH", "/v1/instances/1", "change_instance", r#"{"policies":{"file_size":"warn"}}"#),
        ("PATCH", "/v1/instances/x", "change_instance", "{}"),
        ("PATCH", "/v1/configurations/1", "change_configuration", r#"{"max_files":-1}"#),
        ("DELETE", "/v1/sessions/x", "remove_session", ""),
        ("DELETE", "/v1/sessions/1?hurry=maybe", "remove_session", ""),
        ("DELETE", "/v1/sessions/1", "remove_session", "{}"),
    ] {
        let parsed = parse(method, target).unwrap();
        assert!(parsed.request(name, body.as_bytes()).is_err(), "{method} {target} {body}");
    }
}

#[test]
fn a_digest_depends_on_every_part() {
    let all = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d"), ("b", "a", "c")];
    let digests: std::collections::BTreeSet<_> =
        all.iter().map(|(method, target, body)| digest(method, target, body.as_bytes())).collect();
    assert_eq!(digests.len(), all.len());
}
