//! What the metadata server says on its own account: the thread that listens to it.
//!
//! Order of events for a change that others make: the note that answers under way are not to be kept; what is shown of
//! the file is handed over; the observer is told, who forgets what is shown; the server gets its answer and makes the change.

use super::connection::{Broken, Connection};
use super::home::Home;
use super::locks;
use forebay_wire::message::{CallbackRequest, Changed, ConnectionKind, MetadataRequest, Reply};
use forebay_wire::{Ino, WaitId};
use std::ffi::OsStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Pause before the connection is made again, so that a server that ends each one is not kept busy.
const PAUSE: Duration = Duration::from_millis(100);

/// Is told what must not be shown any more without asking. Called from a thread of the attachment, one call at a time;
/// the server waits for its return.
pub trait Notices: Send + Sync {
    /// Attributes of an object are about to change.
    fn attributes_changed(&self, ino: Ino);
    /// Content of a file is about to change.
    fn content_changed(&self, ino: Ino);
    /// A name of a directory is about to stand for something else, or for nothing.
    fn name_changed(&self, parent: Ino, name: &OsStr);
}

/// The observer, once there is one.
#[derive(Default)]
pub(crate) struct Observer {
    notices: RwLock<Option<Arc<dyn Notices>>>,
}

impl Observer {
    pub(crate) fn set(&self, notices: Arc<dyn Notices>) {
        *self.notices.write().unwrap_or_else(PoisonError::into_inner) = Some(notices);
    }

    fn get(&self) -> Option<Arc<dyn Notices>> {
        self.notices.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Listens until the session closes.
pub(crate) fn listen(home: &Home, observer: &Observer) {
    while !home.session.is_closed() {
        if let Ok(mut connection) =
            Connection::open(&home.session, home.session.description.home, ConnectionKind::Callback)
        {
            // Another life of the session: whoever asks something next claims what is held. Nobody may, for long.
            if home.held.life() != Some(connection.terms.life()) {
                let _ = home.ask(&MetadataRequest::Counts);
            }
            // However it ends, it ends.
            let _ = serve(&mut connection, home, observer);
            home.validity.all_announced();
        }
        home.session.pause(PAUSE);
    }
}

fn serve(connection: &mut Connection, home: &Home, observer: &Observer) -> Result<(), Broken> {
    loop {
        let header = connection.hear()?;
        let reply = match CallbackRequest::decode(header.kind, connection.request_body()) {
            Ok(request) => {
                carry_out(request, home, observer)?;
                Reply::Done
            }
            Err(forebay_wire::message::DecodeError::UnknownKind { kind }) => Reply::Unsupported { kind },
            Err(error) => return Err(error.into()),
        };
        connection.answer(&header, &reply)?;
    }
}

/// An error ends the connection, and the next one begins with the same message.
fn carry_out(request: CallbackRequest, home: &Home, observer: &Observer) -> Result<(), Broken> {
    match request {
        CallbackRequest::Invalidate { items } => {
            for item in &items {
                let (Changed::Attributes(ino) | Changed::Entry(ino, _) | Changed::Content(ino)) = item;
                home.validity.announced(*ino);
                home.showings.await_earlier(*ino);
            }
            if let Some(notices) = observer.get() {
                let to_tell = items.iter().filter(|item| may_be_shown(home, item));
                to_tell.for_each(|item| tell(&*notices, item));
            }
        }
        CallbackRequest::LockGranted { wait } => answer(home, wait, Ok(())),
        CallbackRequest::LockFailed { wait, error } => answer(home, wait, Err(error)),
        CallbackRequest::ReturnLocks { ino, number } => {
            locks::recalled(home, ino, number)
                .map_err(|_| Broken::from(std::io::Error::other("locks are not returned")))?;
        }
    }
    Ok(())
}

/// Whether somebody may show what changes. The place of a directory is kept for as long as the directory is known, and not only as long
/// as it may be shown.
fn may_be_shown(home: &Home, item: &Changed) -> bool {
    let Changed::Entry(parent, name) = item else { return true };
    home.validity.shows_names_of(*parent) || home.held.may_be_directory(*parent, name)
}

fn answer(home: &Home, wait: WaitId, answer: forebay_wire::Result<()>) {
    home.waiting.answer(wait, answer);
}

fn tell(notices: &dyn Notices, item: &Changed) {
    match item {
        Changed::Attributes(ino) => notices.attributes_changed(*ino),
        Changed::Entry(parent, name) => notices.name_changed(*parent, name.as_os_str()),
        Changed::Content(ino) => notices.content_changed(*ino),
    }
}
