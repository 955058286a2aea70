//! A request of the core as a method, a path and a body.

use super::routes::Method;
use crate::cluster::Request;
use crate::cluster::request::ObjectId;
use serde_json::{Value, json};

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Method.
    pub method: Method,
    /// Path with the query.
    pub target: String,
    /// Body.
    pub body: Option<Value>,
    /// Sending it twice has the effect of sending it once.
    pub repeatable: bool,
}

/// The form of a request.
pub fn form_of(request: &Request) -> Form {
    let (target, body) = match request {
        Request::Remove { object, hurry } => return removal(*object, *hurry),
        Request::StageTerminate { stage } => return delete(format!("/v1/stages/{}", stage.0)),
        Request::ForgetNode { node } => return delete(format!("/v1/nodes/{}", escaped(node))),
        Request::NoWait { registration } => {
            return patch(format!("/v1/registrations/{registration}"), json!({ "wait": false }));
        }
        Request::ChangeInstance { instance, change } => {
            return patch(format!("/v1/instances/{instance}"), json!(change));
        }
        Request::ChangeConfiguration { configuration, change } => {
            return patch(format!("/v1/configurations/{configuration}"), json!(change));
        }
        Request::AssignNode { node, pool } => return patch_node(node, json!({ "pool": pool })),
        Request::Drain { node, drain } => return patch_node(node, json!({ "drain": drain })),
        Request::Retry { session } => (format!("/v1/sessions/{session}/retry"), json!({})),
        Request::CreateSession { .. } => ("/v1/sessions".into(), parameters(request)),
        Request::CreateInstance { .. } => ("/v1/instances".into(), parameters(request)),
        Request::CreateConfiguration { .. } => ("/v1/configurations".into(), parameters(request)),
        Request::CreateActivation { .. } => ("/v1/activations".into(), parameters(request)),
        Request::Stage { .. } => ("/v1/stages".into(), parameters(request)),
        Request::CreatePool { .. } => ("/v1/pools".into(), parameters(request)),
        Request::Setup(_)
        | Request::DataIn { .. }
        | Request::RealSize { .. }
        | Request::Paths { .. }
        | Request::PreRun { .. }
        | Request::PostRun { .. }
        | Request::DataOut { .. }
        | Request::Teardown { .. }
        | Request::CreatePersistent(_) => (format!("/v1/wlm/{}", request.name()), parameters(request)),
    };
    Form { method: Method::Post, target, body: Some(body), repeatable: is_repeatable(request) }
}

/// Whether asking again makes nothing twice. What is made by hand gets a new number each time.
fn is_repeatable(request: &Request) -> bool {
    !matches!(
        request,
        Request::CreateInstance { .. } | Request::CreateConfiguration { .. } | Request::Stage { .. }
    )
}

/// The members of a request, without its name.
fn parameters(request: &Request) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.remove("request");
    }
    value
}

fn removal(object: ObjectId, hurry: bool) -> Form {
    let (table, id) = match object {
        ObjectId::Session(id) => ("sessions", id.0),
        ObjectId::Activation(id) => ("activations", id.0),
        ObjectId::Registration(id) => ("registrations", id.0),
    };
    delete(format!("/v1/{table}/{id}{}", if hurry { "?hurry=true" } else { "" }))
}

fn delete(target: String) -> Form {
    Form { method: Method::Delete, target, body: None, repeatable: true }
}

fn patch(target: String, body: Value) -> Form {
    Form { method: Method::Patch, target, body: Some(body), repeatable: true }
}

fn patch_node(node: &str, body: Value) -> Form {
    patch(format!("/v1/nodes/{}", escaped(node)), body)
}

/// A name as one part of a path.
pub(crate) fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(one).collect()
}
