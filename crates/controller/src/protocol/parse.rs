//! A method, a path and a body as what is to be done. Input is judged here as far as its form goes; the core judges the
//! rest.

use super::routes::{Method, Operation, ROUTES, Route};
use crate::cluster::Request;
use crate::cluster::request::ObjectId;
use crate::cluster::row::StageId;
use forebay_model::ids::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Most parameters of a query.
const MAX_PARAMETERS: usize = 16;

/// Why something cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// No such path.
    #[error("there is no {path:?} here: docs/openapi.json lists what there is")]
    NoPath {
        /// What was asked for.
        path: String,
    },
    /// Another method is needed.
    #[error("{path} does not take {method}: it takes {allowed}")]
    NoMethod {
        /// The path.
        path: &'static str,
        /// What was used.
        method: String,
        /// What it takes, as the header `Allow` says it.
        allowed: String,
    },
    /// A part of the path or query is wrong.
    #[error("{name}={value:?} in the address is not {expected}")]
    Parameter {
        /// Which.
        name: String,
        /// What it is.
        value: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// The body is not what this route takes.
    #[error("the body does not fit: {reason}")]
    Body {
        /// Why.
        reason: String,
    },
}

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its route.
    pub route: &'static Route,
    values: BTreeMap<String, String>,
}

/// Finds the route of a method and a target.
///
/// # Errors
/// [`BadRequest::NoPath`], [`BadRequest::NoMethod`], [`BadRequest::Parameter`].
pub fn parse(method: &str, target: &str) -> Result<Parsed, BadRequest> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let matching = || ROUTES.iter().filter_map(|route| Some((route, match_path(route.path, path)?)));
    let (some, _) =
        matching().next().ok_or_else(|| BadRequest::NoPath { path: path.chars().take(200).collect() })?;
    let allowed: Vec<&str> = matching().flat_map(|(route, _)| names(route.method)).copied().collect();
    let (route, mut values) =
        matching().find(|(route, _)| names(route.method).contains(&method)).ok_or_else(|| {
            let method = method.chars().take(20).collect();
            BadRequest::NoMethod { path: some.path, method, allowed: allowed.join(", ") }
        })?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMETERS) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (unescaped(name)?, unescaped(value)?);
        if !takes(route, &name) || values.contains_key(&name) {
            return Err(BadRequest::Parameter { name, value, expected: "a parameter of this address" });
        }
        values.insert(name, value);
    }
    Ok(Parsed { route, values })
}

/// What a client may call a method: who asks for the head of an answer is answered as if it asked for all, and HTTP leaves the body out.
fn names(method: Method) -> &'static [&'static str] {
    match method {
        Method::Get => &["GET", "HEAD"],
        Method::Post => &["POST"],
        Method::Patch => &["PATCH"],
        Method::Delete => &["DELETE"],
    }
}

/// The parameters that the query of a route may have.
fn takes(route: &Route, name: &str) -> bool {
    let allowed: &[&str] = match route.operation {
        Operation::Snapshot => &["tables", "form"],
        Operation::Orders => &["incarnation", "after", "wait"],
        Operation::Ask("remove_session") => &["hurry"],
        _ => &[],
    };
    allowed.contains(&name)
}

fn match_path(pattern: &str, path: &str) -> Option<BTreeMap<String, String>> {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    let mut values = BTreeMap::new();
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return Some(values),
            (Some(want), Some(is)) => match want.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => drop(values.insert(name.to_owned(), unescaped(is).ok()?)),
                None if want == is => {}
                None => return None,
            },
            _ => return None,
        }
    }
}

fn unescaped(text: &str) -> Result<String, BadRequest> {
    let bad = || BadRequest::Parameter {
        name: "text".into(),
        value: text.chars().take(200).collect(),
        expected: "percent-encoded UTF-8",
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok()).ok_or_else(bad)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl Parsed {
    /// A parameter of path or query.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// A parameter that is a number; `missing` where there is none.
    ///
    /// # Errors
    /// [`BadRequest::Parameter`].
    pub fn number(&self, name: &str, missing: Option<u64>) -> Result<u64, BadRequest> {
        match (self.values.get(name), missing) {
            (None, Some(missing)) => Ok(missing),
            (value, _) => {
                let value = value.cloned().unwrap_or_default();
                value.parse().map_err(|_| BadRequest::Parameter {
                    name: name.into(),
                    value,
                    expected: "a number",
                })
            }
        }
    }

    fn flag(&self, name: &str) -> Result<bool, BadRequest> {
        match self.text(name) {
            "" | "false" => Ok(false),
            "true" => Ok(true),
            value => Err(BadRequest::Parameter {
                name: name.into(),
                value: value.into(),
                expected: "true or false",
            }),
        }
    }

    /// The request of the core that a route with this name and body asks for.
    ///
    /// # Errors
    /// [`BadRequest::Body`], [`BadRequest::Parameter`].
    pub fn request(&self, name: &'static str, body: &[u8]) -> Result<Request, BadRequest> {
        let id = || self.number("id", None);
        let hurry = self.flag("hurry")?;
        let remove = |object| Ok(Request::Remove { object, hurry });
        let node = || self.text("node").to_owned();
        if matches!(self.route.method, Method::Delete) && !body.is_empty() {
            return Err(BadRequest::Body { reason: "there must be none".into() });
        }
        match name {
            "remove_session" => remove(ObjectId::Session(SessionId(id()?))),
            "remove_activation" => remove(ObjectId::Activation(ActivationId(id()?))),
            "remove_registration" => remove(ObjectId::Registration(RegistrationId(id()?))),
            "stage_terminate" => Ok(Request::StageTerminate { stage: StageId(id()?) }),
            "forget_node" => Ok(Request::ForgetNode { node: node() }),
            "retry" => {
                if !members(body)?.is_empty() {
                    return Err(BadRequest::Body { reason: "it takes no members".into() });
                }
                Ok(Request::Retry { session: SessionId(id()?) })
            }
            "no_wait" => no_wait(RegistrationId(id()?), body),
            "change_instance" => {
                let change = serde_json::from_slice(body).map_err(unfit)?;
                Ok(Request::ChangeInstance { instance: InstanceId(id()?), change })
            }
            "change_configuration" => {
                let change = serde_json::from_slice(body).map_err(unfit)?;
                Ok(Request::ChangeConfiguration { configuration: ConfigurationId(id()?), change })
            }
            "change_node" => change_node(node(), body),
            _ => tagged(name, body),
        }
    }
}

/// The request with this name and these members.
fn tagged(name: &str, body: &[u8]) -> Result<Request, BadRequest> {
    let mut members = members(body)?;
    members.insert("request".into(), name.into());
    let request = Request::deserialize(Value::Object(members)).map_err(unfit)?;
    Ok(request)
}

fn members(body: &[u8]) -> Result<Map<String, Value>, BadRequest> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(unfit)
}

fn unfit(error: serde_json::Error) -> BadRequest {
    BadRequest::Body { reason: error.to_string() }
}

fn no_wait(registration: RegistrationId, body: &[u8]) -> Result<Request, BadRequest> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Change {
        wait: bool,
    }
    let Change { wait } = serde_json::from_slice(body).map_err(unfit)?;
    if wait {
        return Err(BadRequest::Body { reason: "wait can only be set to false".into() });
    }
    Ok(Request::NoWait { registration })
}

fn change_node(node: String, body: &[u8]) -> Result<Request, BadRequest> {
    let members = members(body)?;
    let mut members = members.into_iter();
    let bad = |reason: &str| Err(BadRequest::Body { reason: reason.into() });
    let request = match members.next() {
        Some((name, Value::Bool(drain))) if name == "drain" => Request::Drain { node, drain },
        Some((name, Value::Null)) if name == "pool" => Request::AssignNode { node, pool: None },
        Some((name, Value::String(pool))) if name == "pool" => Request::AssignNode { node, pool: Some(pool) },
        _ => return bad("it takes drain (true or false) or pool (a name or null)"),
    };
    if members.next().is_some() {
        return bad("it takes one change at a time");
    }
    Ok(request)
}
