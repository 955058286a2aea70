//! The file server of a storage node: one process for all its instances.
//!
//! Order of events at the start: the directory is claimed and the sockets listen ([`ServerNode`]) - the control socket listens - it is
//! ready - every instance that has a file is served. One that cannot be is noted, and does not keep the others away; the agent asks
//! for it again. SIGTERM ends it cleanly; the terminal's signals are not for it.
//!
//! The agent's side: [`ensure`] starts the process if none lives, and again if it was started with other addresses.

use super::config::{AgentConfig, StorageConfig};
use super::control::{self, Answer, Request};
use super::error::TaskError;
use super::log_file;
use super::state::{self, State};
use super::tail::Tail;
use super::worker::{self, Role, note, say_ready};
use crate::error::AgentError;
use crate::node::{Endpoint, EndpointError, InstanceConfig, KeepAwake, ServerConfig, ServerNode};
use crate::process::lifelock;
use crate::state_directory::remove_file;
use forebay_model::ids::InstanceId;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take to close its fragments.
const END_WAIT: Duration = Duration::from_secs(60);
/// How long who connects may take to say what he wants.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// Instances that are opened at the same time at the start.
const OPENERS: usize = 8;

/// How the process is to listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listening {
    listen: String,
    socket: PathBuf,
    grace_s: u64,
    #[serde(default)]
    keep_awake: KeepAwake,
}

/// Makes sure that a server lives which listens as configured.
pub(super) fn ensure(
    state: &State,
    storage: &StorageConfig,
    keep_awake: KeepAwake,
    program: &Path,
) -> Result<(), TaskError> {
    let listening = Listening {
        listen: storage.listen.to_string(),
        socket: storage.socket.clone(),
        grace_s: storage.grace.as_secs(),
        keep_awake,
    };
    if is_living(state)? {
        // A record that cannot be read was not written by this version.
        if state::read::<Listening>(&state.server_config()).ok().flatten().as_ref() == Some(&listening) {
            return Ok(());
        }
        end(state)?;
    }
    if let Some(parent) = storage.socket.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|error| AgentError::system("make directory", parent, error))?;
    }
    state::write(&state.server_config(), &listening)?;
    worker::start(program, Role::FileServer, state.root(), &state.server_log())
}

/// Whether a server lives.
pub(super) fn is_living(state: &State) -> Result<bool, AgentError> {
    Ok(lifelock::living(&state.server_lock())?.is_some())
}

/// Whether a node's file server lives. For who looks at a node from outside.
///
/// # Errors
/// The agent's directory cannot be looked at, as by an ordinary user.
pub fn lives(config: &AgentConfig) -> Result<bool, AgentError> {
    let state = State::of(&config.state);
    let lock = state.server_lock();
    match lock.try_exists() {
        Ok(true) => is_living(&state),
        Ok(false) => Ok(false),
        Err(error) => Err(AgentError::system("look at", &lock, error)),
    }
}

/// Ends the server; its clients wait for the next one.
pub(super) fn end(state: &State) -> Result<(), TaskError> {
    let lock = state.server_lock();
    lifelock::signal(&lock, Signal::TERM)?;
    if lifelock::wait_for_end(&lock, END_WAIT)? {
        return Ok(());
    }
    lifelock::signal(&lock, Signal::KILL)?;
    if lifelock::wait_for_end(&lock, END_WAIT)? {
        return Ok(());
    }
    let said = Tail::since(&state.server_log(), 0);
    Err(TaskError::Silent { what: "the end of the file server".into(), waited: END_WAIT * 2, said })
}

/// What a server serves; nothing if none lives.
pub(super) fn served(state: &State) -> Result<Vec<InstanceId>, TaskError> {
    if !is_living(state)? {
        return Ok(Vec::new());
    }
    match control::ask(state, Request::List)? {
        Answer::Served(instances) => Ok(instances),
        _ => Ok(Vec::new()),
    }
}

/// Asks the server, which has to live, for something about an instance.
pub(super) fn ask(state: &State, request: Request) -> Result<(), TaskError> {
    match control::ask(state, request)? {
        Answer::Refused(reason) => {
            let request = match request {
                Request::Serve(id) => format!("serve instance {id}"),
                Request::End(id) => format!("end instance {id}"),
                Request::List => "say what it serves".into(),
            };
            Err(TaskError::Refused { request, reason })
        }
        _ => Ok(()),
    }
}

/// The process.
pub(super) fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let state = State::of(root);
    log_file::keep(state.server_log())?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    // Modes are what callers say; a mask would change them.
    rustix::process::umask(rustix::fs::Mode::empty());
    let node = Arc::new(ServerNode::start(&config(&state)?)?);
    let control = state.control();
    // The directory is claimed: whatever is there was left by a killed process.
    remove_file(&control)?;
    let listener = UnixListener::bind(&control)?;
    let serving = (node.clone(), state.clone());
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || accept(&listener, &serving.0, &serving.1))?;
    say_ready();
    serve_all(&node, &state)?;
    signals.forever().find(|signal| *signal == SIGTERM);
    for (instance, error) in node.end_all() {
        note(format_args!("instance {instance} was not closed ({error}): its next start walks all files"));
    }
    Ok(())
}

fn config(state: &State) -> Result<ServerConfig, Box<dyn Error>> {
    let path = state.server_config();
    let listening: Listening = state::read(&path)?.ok_or_else(|| format!("{path:?} is not there"))?;
    Ok(ServerConfig {
        source: path,
        listen: vec![listening.listen.parse::<Endpoint>().map_err(|error: EndpointError| error.to_string())?],
        socket: Some(listening.socket),
        state: state.server(),
        grace: Duration::from_secs(listening.grace_s),
        keep_awake: listening.keep_awake,
        instances: Vec::new(),
    })
}

fn serve_all(node: &ServerNode, state: &State) -> Result<(), AgentError> {
    let instances = state.served()?;
    for group in instances.chunks(OPENERS) {
        std::thread::scope(|scope| {
            for &id in group {
                scope.spawn(move || {
                    if let Err(error) = serve(node, state, id) {
                        note(format_args!("instance {id}: {error}"));
                    }
                });
            }
        });
    }
    Ok(())
}

fn serve(node: &ServerNode, state: &State, id: InstanceId) -> Result<(), crate::node::NodeError> {
    node.serve(&InstanceConfig::read(&state.instance(id))?)
}

fn accept(listener: &UnixListener, node: &Arc<ServerNode>, state: &State) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Want of descriptors, usually.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let (node, state) = (node.clone(), state.clone());
        let answer = move || {
            if let Err(error) = converse(stream, &node, &state) {
                note(format_args!("control: {error}"));
            }
        };
        // Whoever asked hears nothing and asks again.
        let _ = std::thread::Builder::new().name("request".into()).spawn(answer);
    }
}

fn converse(mut stream: UnixStream, node: &ServerNode, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_WAIT))?;
    let answer = match control::receive::<Request>(&stream)? {
        Request::Serve(id) => match serve(node, state, id) {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Refused(error.to_string()),
        },
        Request::End(id) => {
            if let Some(Err(error)) = node.end(id) {
                note(format_args!("instance {id} was not closed cleanly: {error}"));
            }
            Answer::Done
        }
        Request::List => Answer::Served(node.instances()),
    };
    control::send(&mut stream, &answer)
}
