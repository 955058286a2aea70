//! Holds `docs/openapi.json` against the code: the routes, and the forms of everything that is sent and answered.

use super::tests::samples;
use super::*;
use crate::cluster::effect::*;
use crate::cluster::event::{AgentMessage, Copied, HeldFragment, Registering};
use crate::cluster::row::{StageId, StageOutcome, StageRow, TaskId};
use crate::cluster::view::Shown;
use crate::registry::Snapshot;
use crate::request::{AccessRequest, StageDirection, StageKind, WindowRequest};
use forebay_model::ids::*;
use forebay_model::limits::{InstancePolicies, Policy};
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap()
}

/// Why a value does not fit a schema.
fn misfit(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{name}"));
        return misfit(document, schema, value);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|choice| misfit(document, choice, value).is_none()).count();
        return (fits != 1).then(|| format!("{value} fits {fits} of {} choices", choices.len()));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return Some(format!("{value} is none of {}", schema["enum"]));
    }
    let wrong = || Some(format!("{value} is no {}", schema["type"]));
    match schema["type"].as_str().expect("a type") {
        "string" if value.is_string() => None,
        "boolean" if value.is_boolean() => None,
        "null" if value.is_null() => None,
        "integer" if value.is_i64() || value.is_u64() => {
            let below = |limit: &Value| limit.as_i64().is_some_and(|l| value.as_i64().is_some_and(|v| v < l));
            let above = |limit: &Value| limit.as_i64().is_some_and(|l| value.as_i64().is_none_or(|v| v > l));
            (below(&schema["minimum"]) || above(&schema["maximum"]))
                .then(|| format!("{value} is out of range"))
        }
        "array" => match value.as_array() {
            Some(items) => items.iter().find_map(|item| misfit(document, &schema["items"], item)),
            None => wrong(),
        },
        "object" => match value.as_object() {
            Some(members) => misfit_members(document, schema, members),
            None => wrong(),
        },
        _ => wrong(),
    }
}

fn misfit_members(
    document: &Value,
    schema: &Value,
    members: &serde_json::Map<String, Value>,
) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| !members.contains_key(*name)) {
        return Some(format!("{missing} is missing"));
    }
    members.iter().find_map(|(name, value)| match schema["properties"].get(name) {
        Some(schema) => misfit(document, schema, value).map(|why| format!("{name}: {why}")),
        None if schema["additionalProperties"] == json!(true) => None,
        None => Some(format!("{name} is not described")),
    })
}

fn check(document: &Value, schema: &Value, value: &Value, what: &str) {
    if let Some(why) = misfit(document, schema, value) {
        panic!("{what}: {why}");
    }
}

fn check_named(name: &str, value: &impl serde::Serialize) {
    let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
    check(&document(), &schema, &serde_json::to_value(value).unwrap(), name);
}

#[test]
fn the_document_has_exactly_the_routes() {
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let routes: BTreeSet<_> =
        ROUTES.iter().map(|route| (route.path.to_owned(), route.method.name().to_owned())).collect();
    assert_eq!(described, routes);
    assert_eq!(routes.len(), ROUTES.len(), "a route is there twice");
}

#[test]
fn every_request_fits_its_description_and_nothing_less_is_required() {
    let document = document();
    for request in samples() {
        let form = form_of(&request);
        let parsed = parse(form.method.name(), &form.target).unwrap();
        let operation = &document["paths"][parsed.route.path][form.method.name().to_lowercase()];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(form.body.is_some(), !schema.is_null(), "{}", form.target);
        let Some(body) = form.body else { continue };
        check(&document, schema, &body, &form.target);
        let Operation::Ask(name) = parsed.route.operation else { panic!("{}", form.target) };
        // What the description requires, the code requires, and the other way round.
        for member in body.as_object().unwrap().keys() {
            let mut less = body.clone();
            less.as_object_mut().unwrap().remove(member);
            let understood = parsed.request(name, less.to_string().as_bytes());
            let described = misfit(&document, schema, &less);
            assert_eq!(understood.is_err(), described.is_some(), "{} without {member}", form.target);
        }
        let mut more = body.clone();
        more["no_such_member"] = json!(1);
        assert!(misfit(&document, schema, &more).is_some(), "{}", form.target);
        let understood = parsed.request(name, more.to_string().as_bytes());
        assert!(understood.is_err(), "{} takes anything", form.target);
    }
}

#[test]
fn every_query_parameter_is_described() {
    let document = document();
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.name().to_lowercase()];
        let target = route.path.replace("{id}", "1").replace("{node}", "n").replace("{instance}", "1");
        let described = operation["parameters"].as_array().into_iter().flatten();
        for parameter in described.filter(|parameter| parameter["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let known = parse(route.method.name(), &format!("{target}?{name}=1"));
            assert!(known.is_ok(), "{target} does not take {name}");
        }
        for name in ["tables", "form", "incarnation", "after", "wait", "hurry"] {
            let described = operation["parameters"].as_array().into_iter().flatten();
            let described = described.into_iter().any(|parameter| parameter["name"] == name);
            let known = parse(route.method.name(), &format!("{target}?{name}=1")).is_ok();
            assert_eq!(known, described, "{target} and {name}");
        }
    }
}

pub(super) fn snapshot() -> Snapshot {
    let (state, session, instance) = (ObjectState::GOOD, SessionId(1), InstanceId(2));
    let (configuration, fragment) = (ConfigurationId(3), FragmentId(4));
    Snapshot {
        pools: vec![Pool {
            name: "p".into(),
            granularity: Bytes(1),
            quantity: Granules(2),
            free: Granules(1),
        }],
        nodes: vec![Node {
            name: "n".into(),
            pool: None,
            online: true,
            drain: false,
            granularity: Bytes(1),
            capacity: Bytes(1),
            instances: 1,
            activations: 0,
        }],
        sessions: vec![Session {
            id: session,
            state,
            token: "1".into(),
            creator: "SLURM".into(),
            owner: 1,
            created: 5,
            expiration: 0,
            nodes: 1,
        }],
        instances: vec![Instance {
            id: instance,
            state,
            session,
            bytes: Bytes(1),
            nodes: 1,
            created: 5,
            expiration: 0,
            intact: true,
            label: "l".into(),
            public: false,
            configurations: 1,
            limits: Some(InstanceLimits { write_window_length: 1, write_window_multiplier: 2 }),
        }],
        configurations: vec![Configuration {
            id: configuration,
            state,
            instance,
            kind: ConfigurationType::Scratch,
            access_mode: AccessMode::Striped,
            backing_path: None,
            activations: 0,
        }],
        fragments: vec![Fragment { id: fragment, state, instance, capacity: Bytes(1), node: "n".into() }],
        namespaces: vec![Namespace { id: NamespaceId(5), state, configuration, fragment, span: 1 }],
        registrations: vec![Registration {
            id: RegistrationId(6),
            state,
            session,
            configuration,
            wait: true,
        }],
        activations: vec![Activation {
            id: ActivationId(7),
            state,
            session,
            configuration,
            nodes: 1,
            mount: "/m".into(),
        }],
    }
}

fn stage_row(outcome: StageOutcome) -> StageRow {
    StageRow {
        id: StageId(1),
        session: SessionId(1),
        configuration: ConfigurationId(1),
        direction: StageDirection::In,
        kind: StageKind::Directory,
        pfs: b"/p".to_vec(),
        instance_path: b"\xff".to_vec(),
        tolerate_errors: false,
        live: false,
        wanted: true,
        outcome,
    }
}

#[test]
fn every_answer_fits_its_description() {
    check_named("Snapshot", &snapshot());
    check_named("SnapshotRows", &rows::Rows(&snapshot(), &Shown::ALL));
    let failed = StageOutcome::Failed { text: "no".into() };
    let outcomes = [StageOutcome::Pending, StageOutcome::Done { files: 1, bytes: Bytes(2) }, failed];
    check_named("Stages", &json!({ "stages": outcomes.map(stage_row) }));
    let accepted = Answer::Accepted { kind: ObjectKind::Stage, id: 1 };
    let paths = Answer::Paths(vec![("A".into(), "/a".into())]);
    for answer in [Answer::Done, Answer::Size(Bytes(1)), paths, accepted] {
        check_named("Answer", &json!({ "answer": answer }));
    }
    check_named("Refused", &Refused { refusal: "no".into(), text: "no".into() });
    check_named("Secrets", &Secrets { token: "t".into(), seal: "s".into() });
    check_named("Secrets", &json!({ "credential": "MUNGE:" }));
}

#[test]
fn what_agents_say_and_hear_fits_its_description() {
    let task = TaskId(1);
    let held =
        HeldFragment { fragment: FragmentId(1), instance: InstanceId(1), bytes: Bytes(1), serving: true };
    let messages = [
        AgentMessage::Register(Registering {
            fragments: vec![held],
            mounts: vec![ActivationId(1)],
            address: Some("n:1".into()),
            ..Registering::default()
        }),
        AgentMessage::Heartbeat { list: 1, bytes_written: Bytes(1) },
        AgentMessage::Done { task, copied: Some(Copied { files: 1, bytes: Bytes(1), skipped: 0 }) },
        AgentMessage::Failed { task, text: "no".into(), again: false },
    ];
    for message in messages {
        check_named("Saying", &Saying { incarnation: 1, message });
    }
    check_named("List", &list());
}

fn list() -> List {
    let mode = AccessMode::Private;
    let access = AccessRequest { mode, max_file_size: None, max_files: Some(1), client_cache: false };
    let (instance, fragment, bytes) = (InstanceId(1), FragmentId(1), Bytes(1));
    let (activation, configuration, layout) = (ActivationId(1), ConfigurationId(1), FileLayout::default());
    let parts = vec![Part { fragment, node: "n".into(), address: Some("n:1".into()), socket: None }];
    let (kind, home) = (ConfigurationType::Scratch, Some(0));
    let target = Target {
        configuration,
        instance,
        access,
        namespace: NamespaceId(1),
        metadata: fragment,
        fragments: parts.clone(),
        layout,
    };
    let stage = Box::new(stage_row(StageOutcome::Pending));
    let work = [
        Work::MakeFragment { fragment, instance, bytes, owner: 1 },
        Work::Serve {
            fragment,
            instance,
            bytes,
            owner: 1,
            group: 2,
            fragments: parts,
            configurations: vec![Use { configuration, kind, access, home, layout }],
            write_window: Some(WindowRequest { length_s: 86_400, multiplier: 10 }),
            policies: InstancePolicies { write_window: Policy::Log, ..InstancePolicies::default() },
        },
        Work::RemoveFragment { fragment },
        Work::Mount { activation, path: "/m".into(), target: target.clone() },
        Work::Unmount { activation },
        Work::Stage {
            stage,
            uid: 1,
            gid: 1,
            target: target.clone(),
            persistent: Some("p".into()),
            others: vec![Named { persistent: None, target }],
        },
    ];
    let orders = work.into_iter().map(|work| Order { task: TaskId(1), cancel: false, work }).collect();
    List { node: "n".into(), incarnation: 1, number: 1, orders }
}
