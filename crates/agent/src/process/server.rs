//! Connections of the instance process.
//!
//! One thread accepts, each connection has two: one reads (so that a wish to stop, or the end of the peer, is seen
//! while a staging runs), one carries requests out in order. The main thread waits until the last connection has
//! closed, takes the instance's gate so that nobody attaches meanwhile, looks again, and ends.

use super::log_tail::note;
use super::protocol::{Answer, Line, Request, VERSION, send};
use super::service::Service;
use super::socket;
use crate::lease::Gate;
use crate::state_directory::{StateDirectory, remove_file};
use forebay_stager::{CancelToken, StageProgress};
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The starter connects at once; without any connection for so long it must have died.
const FIRST_CONNECTION_WAIT: Duration = Duration::from_secs(30);
/// Most connections at the same time.
const CONNECTIONS_LIMIT: usize = 256;
/// Requests read ahead of their execution, per connection.
const READ_AHEAD: usize = 4;
/// Pause between two tries for the gate.
const GATE_PAUSE: Duration = Duration::from_millis(20);

/// The listening side.
pub(crate) struct Server {
    state: StateDirectory,
    listener: UnixListener,
}

/// What connections tell the main thread.
enum Event {
    /// A connection was opened or closed: so many there are now.
    Connections(usize),
    /// Somebody wants the service to end.
    End(LastWords),
}

/// Number of open connections, and whom to tell.
struct Count {
    open: Mutex<usize>,
    events: Sender<Event>,
}

impl Count {
    fn change(&self, change: impl FnOnce(usize) -> usize) -> usize {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = change(*open);
        // The receiver lives as long as the process.
        let _ = self.events.send(Event::Connections(*open));
        *open
    }

    fn now(&self) -> usize {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection as long as it lives, also through a panic of its thread.
struct Counted(Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.change(|open| open.saturating_sub(1));
    }
}

impl Server {
    pub fn new(state: StateDirectory, listener: UnixListener) -> Server {
        Server { state, listener }
    }

    /// Tells the starter why there is nothing to serve.
    pub fn refuse(&self, reason: &str) {
        if let Ok((mut stream, _)) = self.listener.accept() {
            let _ = send(&mut stream, &Answer::Refused { reason: reason.to_owned() });
        }
    }

    /// Serves until the last connection has closed.
    pub fn run(self, service: Service) -> std::io::Result<()> {
        let (sender, events) = channel();
        let count = Arc::new(Count { open: Mutex::new(0), events: sender });
        let service = Arc::new(service);
        let Server { state, listener } = self;
        spawn_accepting(listener, Arc::clone(&service), Arc::clone(&count))?;
        let last_words = wait_for_the_end(&state, &events, &count);
        service.end(last_words.discard);
        let removed = remove_file(&socket::path(&state));
        if let Some(mut stream) = last_words.stream {
            let _ = send(&mut stream, &Answer::Ended);
        }
        removed.map_err(std::io::Error::other)
    }
}

/// How the end came.
#[derive(Default)]
struct LastWords {
    /// The data is about to be removed.
    discard: bool,
    /// Who asked for it and waits for the answer.
    stream: Option<UnixStream>,
    /// Held until the process is gone, if nobody asked.
    _gate: Option<Gate>,
}

fn wait_for_the_end(state: &StateDirectory, events: &Receiver<Event>, count: &Count) -> LastWords {
    let mut limit = FIRST_CONNECTION_WAIT;
    loop {
        match events.recv_timeout(limit) {
            Ok(Event::End(last_words)) => return last_words,
            Ok(Event::Connections(open)) if open > 0 => limit = Duration::MAX,
            _ => {
                if let Some(gate) = gate_of_the_unused(state, count) {
                    return LastWords { _gate: gate, ..LastWords::default() };
                }
                limit = Duration::MAX;
            }
        }
    }
}

/// Waits for the gate as long as nobody is connected. Under the gate nobody can come in. Somebody who holds it may be
/// about to connect: then there is a connection, and the process goes on. `Some(None)`: the instance is gone.
fn gate_of_the_unused(state: &StateDirectory, count: &Count) -> Option<Option<Gate>> {
    while count.now() == 0 {
        match Gate::try_enter(state.path()) {
            Ok(Some(Some(gate))) if count.now() == 0 => return Some(Some(gate)),
            Ok(Some(_)) => std::thread::sleep(GATE_PAUSE),
            Ok(None) => return Some(None),
            Err(error) => {
                note(format_args!("ending without the gate: {error}"));
                return Some(None);
            }
        }
    }
    None
}

fn spawn_accepting(listener: UnixListener, service: Arc<Service>, count: Arc<Count>) -> std::io::Result<()> {
    std::thread::Builder::new().name("accept".into()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => accept(stream, &service, &count),
                Err(error) => {
                    note(format_args!("accepting a connection: {error}"));
                    std::thread::sleep(GATE_PAUSE);
                }
            }
        }
    })?;
    Ok(())
}

fn accept(mut stream: UnixStream, service: &Arc<Service>, count: &Arc<Count>) {
    if !socket::peer_is_owner(&stream) {
        let _ =
            send(&mut stream, &Answer::Refused { reason: "this instance belongs to another user".into() });
        return;
    }
    let open = count.change(|open| open + 1);
    let counted = Counted(Arc::clone(count));
    if open > CONNECTIONS_LIMIT {
        let reason = format!("more than {CONNECTIONS_LIMIT} attachments and stagings at once");
        let _ = send(&mut stream, &Answer::Refused { reason });
        return;
    }
    let service = Arc::clone(service);
    let serve = move || {
        if let Err(error) = Conversation::begin(stream, service, counted).and_then(Conversation::hold) {
            note(format_args!("connection: {error}"));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("connection".into()).spawn(serve) {
        note(format_args!("starting a thread: {error}"));
    }
}

/// One connection.
struct Conversation {
    stream: UnixStream,
    requests: Receiver<Request>,
    cancel: CancelToken,
    service: Arc<Service>,
    counted: Counted,
}

impl Conversation {
    fn begin(stream: UnixStream, service: Arc<Service>, counted: Counted) -> std::io::Result<Conversation> {
        let (sender, requests) = sync_channel(READ_AHEAD);
        let cancel = CancelToken::new();
        let (reading, stop) = (stream.try_clone()?, cancel.clone());
        std::thread::Builder::new().name("read".into()).spawn(move || read(reading, &sender, &stop))?;
        Ok(Conversation { stream, requests, cancel, service, counted })
    }

    fn hold(mut self) -> std::io::Result<()> {
        while let Ok(request) = self.requests.recv() {
            if let Request::End { discard } = request {
                let stream = Some(self.stream.try_clone()?);
                // The answer comes when everything is closed.
                let _ = self.counted.0.events.send(Event::End(LastWords { discard, stream, _gate: None }));
                continue;
            }
            let answer = self.carry_out(request);
            send(&mut self.stream, &answer)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, request: Request) -> Answer {
        let result = match request {
            Request::Hello { version: VERSION } => Ok(Answer::Ready { version: VERSION }),
            Request::Hello { version } => {
                return refused(format!("it speaks version {VERSION} of the protocol, not {version}"));
            }
            Request::Mount { configuration } => self.service.mount(configuration).map(|()| Answer::Mounted),
            Request::Unmount { configuration } => {
                self.service.unmount(configuration).map(|busy| Answer::Unmounted { busy })
            }
            Request::Figures => self.service.figures().map(Answer::Figures),
            Request::Account => self.service.account().map(Answer::Account),
            Request::Stage(task) => self.stage(&task),
            // Nothing is running: it came after the end of the staging it was meant for.
            Request::Cancel | Request::End { .. } => return refused("nothing to stop".to_owned()),
        };
        result.unwrap_or_else(|error| refused(error.to_string()))
    }

    fn stage(&self, task: &crate::stage::StageTask) -> Result<Answer, super::service::ServiceError> {
        let (writer, stop) = (Mutex::new(&self.stream), &self.cancel);
        let progress = |snapshot: StageProgress| {
            let mut stream = writer.lock().unwrap_or_else(PoisonError::into_inner);
            if send(&mut *stream, &Answer::Progress(snapshot)).is_err() {
                // Nobody listens any more.
                stop.cancel();
            }
        };
        let done = self.service.stage(task, &progress, &self.cancel)?;
        Ok(match done {
            Ok(report) => Answer::Staged(report),
            Err(failure) => Answer::StageFailed(Box::new(failure)),
        })
    }
}

fn refused(reason: String) -> Answer {
    Answer::Refused { reason }
}

/// Reads requests until the stream ends, which also stops a running staging.
fn read(stream: UnixStream, requests: &SyncSender<Request>, cancel: &CancelToken) {
    let mut stream = BufReader::new(stream);
    let mut line = Line::default();
    loop {
        match line.receive(&mut stream) {
            Ok(Some(Request::Cancel)) => cancel.cancel(),
            Ok(Some(request)) => {
                if requests.send(request).is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                note(format_args!("reading a request: {error}"));
                break;
            }
        }
    }
    cancel.cancel();
}
