//! The accounting of an instance for who owns it: what was read and written, what is used, how far its limits are.
//!
//! The file servers count, and this crate does not speak their language: whoever starts the service says how they are asked
//! ([`Accountant`]). It is done on a thread that may wait, a few at a time, and holds nothing up: a server that is away is
//! an error for who asked. The token goes no further than to the accountant.

use super::conversation::Shared;
use super::respond::{Problem, json_of};
use crate::cluster::view::{self, Sight};
use forebay_model::ids::InstanceId;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// What is asked, and how one proves that one may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What is looked at.
    pub sight: Sight,
    /// The token of the instance's clients.
    pub token: String,
}

/// Asks file servers; the answer, or why there is none.
pub type Accountant = Arc<dyn Fn(&Account) -> Result<Value, String> + Send + Sync>;

/// Tells the accounting of an instance to who may know it.
pub(super) async fn tell(
    shared: &Shared,
    uid: u32,
    instance: InstanceId,
) -> Result<Response<super::respond::Body>, Problem> {
    let accountant = shared.accountant.clone().ok_or_else(|| {
        let text = "this controller does not ask file servers for their accounting";
        Problem::new(StatusCode::NOT_IMPLEMENTED, "not_offered", text)
    })?;
    let sight = shared.commands.read(false, move |state, _| view::sight(state, uid, instance)).await??;
    let account = Account { token: shared.secrets.of(instance).token, sight };
    let _turn = shared.limits.accounts.acquire().await;
    let (id, name) = (account.sight.instance, account.sight.label.clone());
    let asked = tokio::task::spawn_blocking(move || accountant(&account)).await;
    let failed = |text: String| Problem::new(StatusCode::CONFLICT, "failed", text);
    let told = asked.map_err(|_| failed("the file servers could not be asked".into()))?.map_err(failed)?;
    Ok(json_of(&json!({ "id": id, "name": name, "account": told })))
}
