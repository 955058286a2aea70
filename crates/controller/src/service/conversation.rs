//! One request: who asks, what is asked, and the answer.
//!
//! Order: the credential is judged before anything of the body is read, the body is read within the limits, the credential
//! is compared with the whole request, and only then the request is looked at. Who is refused is logged with uid and
//! reason. When the connection ends, the future of the request is dropped, and with it what it waited for.

use super::account::{self, Accountant};
use super::driver::{Commands, Hearing, Polled};
use super::events::{Events, line};
use super::limits::*;
use super::metrics::{self, Figures};
use super::respond::{Body, Problem, Tables, json_of, json_text, log, nothing, problem, text};
use super::secrets::SecretStore;
use super::spent::Spent;
use crate::cluster::view::{self, Shown};
use crate::cluster::{Caller, Settings, State};
use crate::munge::Munge;
use crate::protocol::{MAX_POLL_S, MUNGE_SCHEME, Operation, Parsed, ROWS_FORM, Saying, digest, parse, rows};
use forebay_model::ids::InstanceId;
use http_body_util::{BodyExt, Channel, Either, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode, header};
use serde_json::json;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::block_in_place;
use tokio::time::timeout;

/// What all conversations use.
pub(super) struct Shared {
    pub commands: Commands,
    pub events: Events,
    pub settings: Settings,
    pub secrets: SecretStore,
    pub munge: Munge,
    pub accountant: Option<Accountant>,
    pub limits: Limits,
    pub spent: Spent,
}

/// The other side of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// A process here, of this user as the kernel says.
    Local { uid: u32 },
    /// Somebody on the network.
    Remote { ip: IpAddr },
}

/// Who asks.
struct Asker {
    uid: u32,
    /// The digest that the credential was made for; `None` over the Unix socket.
    digest: Option<Vec<u8>>,
}

/// A quiet watcher's connection is tried so often.
const WATCH_BEAT: Duration = Duration::from_secs(15);
const ROOT: u32 = 0;

/// Answers a request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut asker = None;
    let what = format!("{} {}", request.method(), request.uri().path());
    let outcome = converse(&shared, peer, request, &mut asker).await;
    Ok(outcome.unwrap_or_else(|refused| {
        // The core logs what it refuses itself.
        if refused.logged {
            let from = match peer {
                Peer::Remote { ip } => format!(" (from {ip})"),
                Peer::Local { .. } => String::new(),
            };
            log(asker, &format!("{what} refused: {}{from}", refused.problem.text()));
        }
        problem(&refused.problem)
    }))
}

/// Why a request is not carried out, and whether it is still to be logged.
struct Refused {
    problem: Problem,
    logged: bool,
}

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Refused {
        Refused { problem: problem.into(), logged: true }
    }
}

async fn converse(
    shared: &Arc<Shared>,
    peer: Peer,
    request: Request<Incoming>,
    known: &mut Option<u32>,
) -> Result<Response<Body>, Refused> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let parsed = parse(parts.method.as_str(), &target);
    if parsed.as_ref().is_ok_and(|parsed| parsed.route.operation == Operation::Metrics) {
        return figures(shared).await;
    }
    let asker = authenticate(shared, peer, &parts.headers).await?;
    *known = Some(asker.uid);
    let privileged = shared.settings.is_workload_manager(asker.uid);
    let _place = match shared.limits.requests.enter(asker.uid) {
        None if !privileged => {
            let text = format!("uid {} has {MAX_REQUESTS_OF_USER} requests waiting already", asker.uid);
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", text).into());
        }
        place => place,
    };
    let body = read_body(shared, body, privileged).await?;
    if let Some(stated) = &asker.digest
        && *stated != digest(parts.method.as_str(), &target, &body).as_bytes()
    {
        let text = "the credential belongs to another request";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "credential", text).into());
    }
    carry_out(shared, peer, asker.uid, &parsed?, body).await
}

/// Finds out who asks.
async fn authenticate(shared: &Arc<Shared>, peer: Peer, headers: &HeaderMap) -> Result<Asker, Problem> {
    if let Peer::Local { uid } = peer {
        return Ok(Asker { uid, digest: None });
    }
    let unproven = |text: &str| Problem::new(StatusCode::UNAUTHORIZED, "credential", text);
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let credential = value.and_then(|value| value.strip_prefix(MUNGE_SCHEME)).map(str::trim);
    let credential = credential
        .ok_or_else(|| unproven("there is no credential: Authorization: MUNGE and one are needed"))?
        .to_owned();
    let _turn = shared.limits.credentials.acquire().await;
    let (munge, text) = (shared.munge.clone(), credential.clone());
    let decoded = tokio::task::spawn_blocking(move || munge.decode(&text)).await;
    let decoded = decoded.map_err(|_| unproven("the credential could not be looked at"))??;
    // Only what munged believed is remembered, so that strangers cannot fill the memory.
    if !shared.spent.is_new(&credential) {
        return Err(unproven("the credential was used before"));
    }
    Ok(Asker { uid: decoded.uid, digest: Some(decoded.payload) })
}

/// Reads a body of a size that was stated, within the time and the memory for it.
async fn read_body(shared: &Shared, body: Incoming, privileged: bool) -> Result<Bytes, Problem> {
    let (most, budget) = match privileged {
        true => (MAX_BODY, &shared.limits.bodies),
        false => (MAX_USER_BODY, &shared.limits.user_bodies),
    };
    let hint = body.size_hint();
    let Some(size) = hint.exact() else {
        return Err(Problem::new(
            StatusCode::LENGTH_REQUIRED,
            "no_length",
            "the body needs a Content-Length",
        ));
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > most {
        let text = format!("the body has {size} bytes: at most {most} are allowed");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text));
    }
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body did not come in time");
    let read = async {
        let _memory = budget.acquire_many(size as u32).await;
        Limited::new(body, most).collect().await.map(|whole| whole.to_bytes())
    };
    let read = timeout(BODY_TIME, read).await.map_err(late)?;
    read.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad_request", error))
}

async fn carry_out(
    shared: &Arc<Shared>,
    peer: Peer,
    uid: u32,
    parsed: &Parsed,
    body: Bytes,
) -> Result<Response<Body>, Refused> {
    match parsed.route.operation {
        Operation::Metrics => figures(shared).await,
        Operation::Snapshot => {
            let tables = tables_of(parsed.text("tables"))?;
            show(shared, uid, tables, form_of(parsed.text("form"))?).await
        }
        Operation::Table(table) => show(shared, uid, vec![table], TableForm::Objects).await,
        Operation::Stages => {
            let first = shared.settings.is_workload_manager(uid);
            let stages = shared.commands.read(first, move |state, _| view::stages(state, uid)).await?;
            Ok(block_in_place(|| json_of(&json!({ "stages": stages }))))
        }
        Operation::Account => Ok(account::tell(shared, uid, InstanceId(parsed.number("id", None)?)).await?),
        Operation::Events => Ok(watch(Arc::clone(shared), uid)),
        Operation::Ask(name) => {
            let request = parsed.request(name, &body)?;
            drop(body);
            match shared.commands.ask(Caller { uid }, request).await? {
                Ok(answer) => Ok(json_of(&json!({ "answer": answer }))),
                Err(refusal) => Err(Refused { problem: refusal.into(), logged: false }),
            }
        }
        Operation::Tell => {
            check_agent(uid)?;
            tell(shared, parsed, &body).await
        }
        Operation::Orders => {
            check_agent(uid)?;
            orders(shared, parsed).await
        }
        Operation::Secrets => {
            check_agent(uid)?;
            secrets(shared, peer, parsed).await
        }
    }
}

fn tables_of(names: &str) -> Result<Vec<Shown>, Problem> {
    if names.is_empty() {
        return Ok(Shown::ALL.to_vec());
    }
    let mut tables = Vec::new();
    for name in names.split(',') {
        let table = Shown::named(name).filter(|table| !tables.contains(table)).ok_or_else(|| {
            let name: String = name.chars().take(100).collect();
            let known = Shown::ALL.map(Shown::name).join(", ");
            let text = format!("tables={name:?} is no table, or is there twice: there are {known}");
            Problem::new(StatusCode::BAD_REQUEST, "bad_request", text)
        })?;
        tables.push(table);
    }
    Ok(tables)
}

/// How the objects of a table are written.
#[derive(Clone, Copy)]
enum TableForm {
    /// With the names of their members.
    Objects,
    /// As lists of values.
    Rows,
}

fn form_of(name: &str) -> Result<TableForm, Problem> {
    match name {
        "" => Ok(TableForm::Objects),
        ROWS_FORM => Ok(TableForm::Rows),
        other => {
            let other: String = other.chars().take(100).collect();
            let text = format!("form={other:?} is not known: {ROWS_FORM} is possible");
            Err(Problem::new(StatusCode::BAD_REQUEST, "bad_request", text))
        }
    }
}

async fn show(
    shared: &Shared,
    uid: u32,
    tables: Vec<Shown>,
    form: TableForm,
) -> Result<Response<Body>, Refused> {
    let first = shared.settings.is_workload_manager(uid);
    match form {
        TableForm::Objects => {
            let wanted = tables.clone();
            let seen = shared.commands.read(first, move |state, _| view::select(state, uid, &wanted)).await?;
            // Megabytes of text: the other connections of this thread go elsewhere meanwhile.
            Ok(block_in_place(|| json_of(&Tables(&seen, &tables))))
        }
        // Written while it is looked at: a copy of everything would take longer than the text.
        TableForm::Rows => {
            let look = move |state: &State, _: &Figures| rows::write(state, uid, &tables);
            Ok(json_text(shared.commands.read(first, look).await?))
        }
    }
}

async fn figures(shared: &Shared) -> Result<Response<Body>, Refused> {
    let Ok(_turn) = shared.limits.scrapes.try_acquire() else {
        let text = "figures are being made for others";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", text).into());
    };
    let page = shared.commands.read(false, metrics::render).await?;
    Ok(text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page))
}

/// Agents are root on their nodes.
fn check_agent(uid: u32) -> Result<(), Problem> {
    if uid == ROOT {
        return Ok(());
    }
    let text = format!("uid {uid} may not speak for a node: agents run as root");
    Err(Problem::new(StatusCode::FORBIDDEN, "not_allowed", text))
}

async fn tell(shared: &Shared, parsed: &Parsed, body: &[u8]) -> Result<Response<Body>, Refused> {
    let saying: Saying = serde_json::from_slice(body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad_request", error))?;
    let node = parsed.text("node").to_owned();
    match shared.commands.tell(node, saying.incarnation, saying.message).await? {
        Hearing::Heard => Ok(nothing()),
        Hearing::Register => Err(please_register()),
        Hearing::NotAdmitted(reason) => {
            let problem = Problem::new(StatusCode::FORBIDDEN, "not_admitted", reason);
            Err(Refused { problem, logged: false })
        }
    }
}

fn please_register() -> Refused {
    let text = "the agent has to register";
    let problem = Problem::new(StatusCode::CONFLICT, crate::client::REGISTER, text);
    Refused { problem, logged: false }
}

async fn orders(shared: &Shared, parsed: &Parsed) -> Result<Response<Body>, Refused> {
    let incarnation = parsed.number("incarnation", None)?;
    let after = parsed.number("after", Some(0))?;
    let wait = Duration::from_secs(parsed.number("wait", Some(MAX_POLL_S))?.min(MAX_POLL_S));
    let poll = shared.commands.poll(parsed.text("node").to_owned(), incarnation, after);
    match timeout(wait, poll).await {
        Err(_) => Ok(nothing()),
        Ok(polled) => match polled? {
            None => Ok(nothing()),
            Some(Polled::List(list)) => Ok(json_of(&list)),
            Some(Polled::Register) => Err(please_register()),
        },
    }
}

/// The secrets of an instance, for a node that has to do with it. Over the network they are sealed for root.
async fn secrets(shared: &Shared, peer: Peer, parsed: &Parsed) -> Result<Response<Body>, Refused> {
    let (node, instance) = (parsed.text("node").to_owned(), InstanceId(parsed.number("instance", None)?));
    let asked = node.clone();
    let concerned =
        shared.commands.read(true, move |state, _| view::is_concerned(state, &asked, instance)).await?;
    if !concerned {
        let node: String = node.chars().take(100).collect();
        let text = format!("node {node:?} has nothing to do with instance {instance}");
        return Err(Problem::new(StatusCode::FORBIDDEN, "not_allowed", text).into());
    }
    let mut secrets = shared.secrets.of(instance);
    let asked = node.clone();
    // Who only mounts could do with the seal what no client may do: speak as a server to the other servers.
    if !shared.commands.read(true, move |state, _| state.is_served_by(instance, &asked)).await? {
        secrets.seal.clear();
    }
    if matches!(peer, Peer::Local { .. }) {
        return Ok(json_of(&secrets));
    }
    let payload = serde_json::to_vec(&secrets).unwrap_or_default();
    let munge = shared.munge.clone();
    let sealed = tokio::task::spawn_blocking(move || munge.encode(&payload, Some(ROOT))).await;
    let defect = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", "no credential was made");
    let credential = sealed.map_err(defect)??;
    Ok(json_of(&json!({ "credential": credential })))
}

/// Tells what happens until the other side is gone.
fn watch(shared: Arc<Shared>, uid: u32) -> Response<Body> {
    const WAITING_LINES: usize = 16;
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(WAITING_LINES);
    let mut heard = shared.events.listen();
    let place = shared.limits.requests.enter(uid);
    tokio::spawn(async move {
        let _place = place;
        loop {
            let line = match timeout(WATCH_BEAT, heard.recv()).await {
                Err(_) => ": still here\n\n".to_owned(),
                Ok(Err(RecvError::Closed)) => return,
                Ok(Err(RecvError::Lagged(lost))) => format!("event: lost\ndata: {{\"lost\":{lost}}}\n\n"),
                Ok(Ok(told)) if told.is_for(uid, &shared.settings) => line(&told.notice),
                Ok(Ok(_)) => continue,
            };
            if sender.send_data(Bytes::from(line)).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Either::Right(body));
    let kind = header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
