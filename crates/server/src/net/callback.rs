//! The callback connection of a session: messages from its outbox, one at a time, each answered before the next.
//!
//! It is also noticed here when the client is gone: while there is nothing to say the thread waits in the outbox, so a
//! second thread reads the connection. It finds answers, which it passes on, and the end.

use super::frame::{FrameLimits, Inbox, send};
use super::outbox::Ticket;
use super::session::Session;
use super::stream::Stream;
use forebay_wire::message::Reply;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Serves the connection until one side ends it, or the session has a newer one.
pub(crate) fn serve(stream: &mut Stream, inbox: &mut Inbox, session: &Session) {
    let Ok(mut reading) = stream.try_clone() else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            hear(&mut reading, inbox, session);
            is_over.store(true, SeqCst);
            session.outbox.wake();
        });
        say(stream, session, &is_over);
        // The other thread returns from its read.
        stream.shut_down();
    });
}

/// The number of a message is its ticket.
fn say(stream: &mut Stream, session: &Session, is_over: &AtomicBool) {
    let outbox = &session.outbox;
    let taker = outbox.take_over();
    let enough = || is_over.load(SeqCst);
    while let Some((ticket, message)) = outbox.next(taker, enough) {
        let sent = send(stream, message.kind(), ticket.0, |body| message.encode(body), &[]);
        if sent.is_err() || !outbox.is_answered(taker, ticket, enough) {
            break;
        }
    }
    outbox.leave(taker);
}

fn hear(stream: &mut Stream, inbox: &mut Inbox, session: &Session) {
    while let Ok(Some(header)) = inbox.receive(stream, FrameLimits::STRANGER) {
        let is_done = matches!(Reply::decode(header.kind, inbox.body()), Ok(Reply::Done));
        if !is_done || !session.outbox.answered(Ticket(header.request)) {
            return;
        }
    }
}
