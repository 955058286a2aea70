//! What happens, for those who watch: each of them gets what they may see.
//!
//! The driver tells, any number of watchers listen. Who is too slow loses the oldest and is told that something was lost;
//! a watcher then reads the tables anew.

use crate::cluster::Settings;
use crate::cluster::effect::Notice;
use tokio::sync::broadcast;

/// So many notices are kept for a watcher that is slow.
const KEPT: usize = 1024;

/// A notice, and who may see it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub notice: Notice,
    pub owner: Option<u32>,
    pub public: bool,
}

impl Told {
    /// Whether this uid may see it.
    pub fn is_for(&self, uid: u32, settings: &Settings) -> bool {
        self.public || self.owner == Some(uid) || settings.is_workload_manager(uid)
    }
}

/// Where notices are told and heard.
#[derive(Clone)]
pub(super) struct Events(broadcast::Sender<Told>);

impl Events {
    pub fn new() -> Events {
        Events(broadcast::Sender::new(KEPT))
    }

    /// Tells all who listen, if anybody does.
    pub fn tell(&self, told: Told) {
        drop(self.0.send(told));
    }

    /// Hears everything from now on.
    pub fn listen(&self) -> broadcast::Receiver<Told> {
        self.0.subscribe()
    }
}

/// A notice as it goes over the wire of server-sent events.
pub(super) fn line(notice: &Notice) -> String {
    let name = match notice {
        Notice::Session { .. } => "session",
        Notice::Node { .. } => "node",
        Notice::Fragment { .. } => "fragment",
    };
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(notice).unwrap_or_default())
}
