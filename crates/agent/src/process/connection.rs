//! The attachment's side of the socket.
//!
//! A connection serves one caller at a time; attachments keep it behind a lock and open another one for each staging.
//! The end of the stream means that the process has died.

use super::log_tail::LogTail;
use super::protocol::{Answer, Figures, Line, Request, VERSION, send};
use super::socket;
use crate::account::InstanceAccount;
use crate::error::AgentError;
use crate::mounting::Departure;
use crate::stage::{StageError, StageTask};
use crate::state_directory::StateDirectory;
use forebay_model::ids::ConfigurationId;
use forebay_stager::{CancelToken, StageProgress, StageReport};
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest wait for an answer. Unmounting may have to write back gigabytes to a slow disk.
const ANSWER_WAIT: Duration = Duration::from_secs(240);
/// Longest wait for a new process to be ready; after a crash it looks through its fragments first.
const READY_WAIT: Duration = Duration::from_secs(240);
/// How often a running staging looks whether it should stop.
const CANCEL_LOOK: Duration = Duration::from_millis(100);

/// An open connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Connection {
    state: StateDirectory,
    stream: BufReader<UnixStream>,
    line: Line,
}

impl Connection {
    /// Connects to a living process and waits until it is ready.
    pub fn open(state: &StateDirectory) -> Result<Connection, AgentError> {
        let stream = socket::connect(state).map_err(|_| died(state))?;
        let mut connection =
            Connection { state: state.clone(), stream: BufReader::new(stream), line: Line::default() };
        match connection.ask(&Request::Hello { version: VERSION }, READY_WAIT)? {
            Answer::Ready { version: VERSION } => Ok(connection),
            other => Err(connection.unexpected(&other)),
        }
    }

    /// Mounts a configuration.
    pub fn mount(&mut self, configuration: ConfigurationId) -> Result<(), AgentError> {
        match self.ask(&Request::Mount { configuration }, ANSWER_WAIT)? {
            Answer::Mounted => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Unmounts it.
    pub fn unmount(&mut self, configuration: ConfigurationId) -> Result<Departure, AgentError> {
        match self.ask(&Request::Unmount { configuration }, ANSWER_WAIT)? {
            Answer::Unmounted { busy: None } => Ok(Departure::Clean),
            Answer::Unmounted { busy: Some(holders) } => Ok(Departure::Lazy { holders }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Present figures.
    pub fn figures(&mut self) -> Result<Figures, AgentError> {
        match self.ask(&Request::Figures, ANSWER_WAIT)? {
            Answer::Figures(figures) => Ok(figures),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The accounting.
    pub fn account(&mut self) -> Result<InstanceAccount, AgentError> {
        match self.ask(&Request::Account, ANSWER_WAIT)? {
            Answer::Account(account) => Ok(account),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends the process; it has unmounted and closed everything when this returns, and is gone very soon. With `discard`
    /// the data is about to be removed and not written back.
    pub fn end(&mut self, discard: bool) -> Result<(), AgentError> {
        match self.ask(&Request::End { discard }, ANSWER_WAIT)? {
            Answer::Ended => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Stages data on this connection.
    pub fn stage(
        &mut self,
        task: &StageTask,
        progress: &(dyn Fn(StageProgress) + Sync),
        cancel: &CancelToken,
    ) -> Result<StageReport, StageError> {
        let request = Request::Stage(Box::new(task.clone()));
        self.say(&request)?;
        let mut told = false;
        loop {
            if cancel.is_cancelled() && !told {
                self.say(&Request::Cancel)?;
                told = true;
            }
            match self.hear(CANCEL_LOOK)? {
                None => {}
                Some(Answer::Progress(snapshot)) => progress(snapshot),
                Some(Answer::Staged(report)) => return Ok(report),
                Some(Answer::StageFailed(failure)) => return Err(StageError::Failed(failure)),
                Some(Answer::Refused { reason }) => return Err(self.refused(&request, reason).into()),
                Some(other) => return Err(self.unexpected(&other).into()),
            }
        }
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer, AgentError> {
        self.say(request)?;
        let begin = Instant::now();
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let (instance, said) = (self.state.instance(), LogTail::of(&self.state));
                return Err(AgentError::ProcessSilent { instance, said, waited: begin.elapsed() });
            }
            match self.hear(left)? {
                None => {}
                Some(Answer::Refused { reason }) => return Err(self.refused(request, reason)),
                Some(answer) => return Ok(answer),
            }
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), AgentError> {
        let sent = send(self.stream.get_mut(), request);
        sent.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => self.refused(request, error.to_string()),
            _ => died(&self.state),
        })
    }

    /// The next answer; `None` if there was none in time.
    fn hear(&mut self, limit: Duration) -> Result<Option<Answer>, AgentError> {
        let failed = |error| AgentError::system("set up", socket::path(&self.state), error);
        self.stream.get_ref().set_read_timeout(Some(limit)).map_err(failed)?;
        match self.line.receive(&mut self.stream) {
            Ok(Some(answer)) => Ok(Some(answer)),
            Ok(None) => Err(died(&self.state)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let instance = self.state.instance();
                Err(AgentError::ProcessProtocol { instance, answer: error.to_string() })
            }
            Err(_) => Err(died(&self.state)),
        }
    }

    fn refused(&self, request: &Request, reason: String) -> AgentError {
        AgentError::ProcessRefused { instance: self.state.instance(), request: request.name(), reason }
    }

    fn unexpected(&self, answer: &Answer) -> AgentError {
        let mut answer = format!("{answer:?}");
        answer.truncate(200);
        AgentError::ProcessProtocol { instance: self.state.instance(), answer }
    }
}

fn died(state: &StateDirectory) -> AgentError {
    AgentError::ProcessDied { instance: state.instance(), said: LogTail::of(state) }
}
