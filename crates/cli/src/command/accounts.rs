//! How the controller asks file servers for their accounting: as a client that looks and goes away.

use forebay_agent::account::InstanceAccount;
use forebay_agent::node::{Cache, InstanceFile, ServerAddress, private_name, status_with};
use forebay_controller::cluster::view::Tree;
use forebay_controller::service::{Account, Accountant};
use forebay_wire::Secret;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a server that is away is waited for: somebody sits there and looks.
const WAIT: Duration = Duration::from_secs(10);

/// Who asks them.
pub fn accountant() -> Accountant {
    Arc::new(|account| {
        ask(account).and_then(|told| serde_json::to_value(told).map_err(|error| error.to_string()))
    })
}

/// Asks for every tree; what is told of the fragments is the same each time.
fn ask(account: &Account) -> Result<InstanceAccount, String> {
    let token = Secret::new(account.token.as_bytes()).map_err(|error| error.to_string())?;
    let mut whole = InstanceAccount::default();
    for tree in &account.sight.trees {
        let one = status_with(&file(account, tree)?, token.clone()).map_err(|error| error.to_string())?;
        let created: Vec<Option<u64>> =
            whole.fragments.iter().map(|fragment| fragment.files_created).collect();
        whole.namespaces.extend(one.namespaces);
        whole.fragments = one.fragments;
        // Each tells of the files of its own tree only.
        for (fragment, before) in whole.fragments.iter_mut().zip(created) {
            fragment.files_created = fragment.files_created.zip(before).map(|(now, before)| now + before);
        }
    }
    Ok(whole)
}

fn file(account: &Account, tree: &Tree) -> Result<InstanceFile, String> {
    let sight = &account.sight;
    let server = |address: &String| {
        let address = address.parse().map_err(|error| format!("{address} is no address: {error}"))?;
        Ok(ServerAddress { address, socket: None })
    };
    let shared = format!("c{}", tree.configuration);
    Ok(InstanceFile {
        source: PathBuf::new(),
        id: sight.instance,
        name: format!("I{}", sight.instance),
        servers: sight.servers.iter().map(server).collect::<Result<_, String>>()?,
        namespace: tree.private.map_or(shared.clone(), |id| private_name(&shared, id.0, tree.home)),
        home: tree.home,
        token_file: PathBuf::new(),
        cache: Cache::None,
        final_wait: WAIT,
    })
}

/// The accounting that a controller told.
pub fn told(value: Value) -> Result<(u64, String, InstanceAccount), serde_json::Error> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Told {
        id: u64,
        name: String,
        account: InstanceAccount,
    }
    serde_json::from_value(value).map(|Told { id, name, account }| (id, name, account))
}
