//! The time after a server started anew, in which only those who were there before may take up what they had.
//!
//! The ids of the sessions stand in a file beside the fragment, one a line after a first line that says what it is. A
//! session is written down before it gets anything, and taken out when it has ended. Order of events of each change:
//! the new list is written beside the old one, synced, and renamed over it. A crash leaves the old or the new list; a
//! session too many makes the others wait for the grace time, one too few cannot be, since it has nothing yet.
//!
//! After a start the sessions in the file are *awaited*. Each is expected to take up its objects, open files and locks
//! and then to say so. Until all have, or the grace time is over, [`Recovery::wait`] holds back what could take it away
//! from them: new locks, and removing names.
//!
//! Any thread may call.

use forebay_wire::FsError;
use forebay_wire::message::SessionId;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const FIRST_LINE: &str = "forebay sessions 1";
/// Sessions awaited, at most: a longer file is damaged.
const SESSIONS_MAX: usize = 65_536;

/// Why the list of sessions could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// The system refused.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// What was done for the sessions is not known.
    #[error("{}: what was done for clients cannot be read or written down: {cause}", path.display())]
    Deeds {
        /// The directory.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// What was under way when the server ended could not be settled.
    #[error("what was under way when the server ended last cannot be settled: {0}")]
    Unsettled(FsError),
    /// It holds something else.
    #[error("{}: line {line} is no list of sessions; move the file away to start without", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
    },
}

#[derive(Debug)]
struct State {
    /// Who was there before the start and has not taken up all.
    awaited: BTreeSet<SessionId>,
    /// Who is written down.
    listed: BTreeSet<SessionId>,
    /// Who is there now, awaited or not.
    here: BTreeSet<SessionId>,
    is_abandoned: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Recovery {
    path: Option<PathBuf>,
    /// When nobody is awaited any more.
    over_at: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

impl Recovery {
    /// Awaits the sessions of the file, if there is one, until `over_at`. Without a path nobody is written down.
    pub(crate) fn begin(path: Option<PathBuf>, over_at: Instant) -> Result<Recovery, SessionsError> {
        let awaited = path.as_deref().map(read).transpose()?.unwrap_or_default();
        let state = State { listed: awaited.clone(), awaited, here: BTreeSet::new(), is_abandoned: false };
        Ok(Recovery { path, over_at, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is written down.
    pub(crate) fn listed(&self) -> BTreeSet<SessionId> {
        self.lock().listed.clone()
    }

    /// This session was there before the start, and has not taken up all it had.
    pub(crate) fn is_awaited(&self, session: SessionId) -> bool {
        Instant::now() < self.over_at && self.lock().awaited.contains(&session)
    }

    /// A session begins: it is written down before it gets anything.
    pub(crate) fn began(&self, session: SessionId) -> Result<(), SessionsError> {
        let mut state = self.lock();
        if state.listed.insert(session)
            && let Err(error) = self.write(&state)
        {
            state.listed.remove(&session);
            return Err(error);
        }
        state.here.insert(session);
        Ok(())
    }

    /// A session has taken up all that it had.
    pub(crate) fn is_back(&self, session: SessionId) {
        self.lock().awaited.remove(&session);
        self.changed.notify_all();
    }

    /// A session ended.
    pub(crate) fn ended(&self, session: SessionId) -> Result<(), SessionsError> {
        let mut state = self.lock();
        state.awaited.remove(&session);
        state.listed.remove(&session);
        state.here.remove(&session);
        self.changed.notify_all();
        self.write(&state)
    }

    /// Waits until nobody is awaited any more; `false` when the server ends before.
    #[must_use]
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        while !state.awaited.is_empty() && !state.is_abandoned {
            let left = self.over_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.give_up(&mut state);
            } else {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.awaited.is_empty()
    }

    /// The server ends: those who are awaited are awaited by the next one.
    pub(crate) fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.changed.notify_all();
    }

    /// Nobody is awaited any more.
    pub(crate) fn is_over(&self) -> bool {
        let mut state = self.lock();
        if !state.awaited.is_empty() && Instant::now() >= self.over_at {
            self.give_up(&mut state);
        }
        state.awaited.is_empty()
    }

    /// Those who did not come in time, or not take it up, have lost what they had. Who is there stays written down: he is given
    /// things from now on.
    fn give_up(&self, state: &mut State) {
        let lost = std::mem::take(&mut state.awaited);
        let State { listed, here, .. } = state;
        listed.retain(|session| !lost.contains(session) || here.contains(session));
        self.changed.notify_all();
        // If it stays in the file, the next start awaits them once more; nothing worse.
        let _ = self.write(state);
    }

    fn write(&self, state: &State) -> Result<(), SessionsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |cause| SessionsError::Io { path: path.clone(), cause };
        let mut text = format!("{FIRST_LINE}\n");
        for session in &state.listed {
            session.0.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes all"));
            text.push('\n');
        }
        replace(path, text.as_bytes()).map_err(failed)
    }
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = std::fs::File::create(&next)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&next, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn read(path: &Path) -> Result<BTreeSet<SessionId>, SessionsError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(cause) => return Err(SessionsError::Io { path: path.to_owned(), cause }),
    };
    let damaged = |line| SessionsError::Damaged { path: path.to_owned(), line };
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(damaged(1));
    }
    let mut sessions = BTreeSet::new();
    for (number, line) in lines.enumerate() {
        let id = parse_id(line).filter(|_| number < SESSIONS_MAX).ok_or_else(|| damaged(number + 2))?;
        sessions.insert(id);
    }
    Ok(sessions)
}

fn parse_id(line: &str) -> Option<SessionId> {
    let mut id = [0; 16];
    if line.len() != 2 * id.len() || !line.is_ascii() {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&line[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(SessionId(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    fn id(number: u8) -> SessionId {
        SessionId([number; 16])
    }

    fn start(path: &Path, grace: Duration) -> Recovery {
        Recovery::begin(Some(path.to_owned()), Instant::now() + grace).unwrap()
    }

    #[test]
    fn who_is_there_stays_written_down_though_it_took_nothing_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        let first = start(&path, LONG);
        first.began(id(1)).unwrap();
        first.began(id(2)).unwrap();
        let second = start(&path, Duration::ZERO);
        second.began(id(1)).unwrap();
        assert!(second.is_over());
        let third = start(&path, LONG);
        assert!(third.is_awaited(id(1)) && !third.is_awaited(id(2)));
    }

    #[test]
    fn those_who_were_there_are_awaited_until_they_are_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        let first = start(&path, LONG);
        assert!(first.is_over());
        first.began(id(1)).unwrap();
        first.began(id(2)).unwrap();
        first.began(id(3)).unwrap();
        first.ended(id(3)).unwrap();
        let second = start(&path, LONG);
        assert!(second.is_awaited(id(1)) && second.is_awaited(id(2)) && !second.is_awaited(id(3)));
        second.began(id(1)).unwrap();
        second.is_back(id(1));
        assert!(!second.is_over());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.wait());
            second.ended(id(2)).unwrap();
            assert!(waiting.join().unwrap());
        });
        assert!(second.is_over());
    }

    #[test]
    fn those_who_do_not_come_are_given_up_for_good() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        start(&path, LONG).began(id(1)).unwrap();
        let second = start(&path, Duration::ZERO);
        assert!(second.wait());
        assert!(second.is_over() && start(&path, LONG).is_over());
    }

    #[test]
    fn a_server_that_ends_leaves_them_to_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        start(&path, LONG).began(id(1)).unwrap();
        let second = start(&path, LONG);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.wait());
            second.abandon();
            assert!(!waiting.join().unwrap());
        });
        assert!(start(&path, LONG).is_awaited(id(1)));
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        for text in ["", "forebay sessions 2\n", "forebay sessions 1\n0011\n", "forebay sessions 1\n\u{e9}\n"]
        {
            std::fs::write(&path, text).unwrap();
            let error = Recovery::begin(Some(path.clone()), Instant::now()).unwrap_err();
            assert!(matches!(error, SessionsError::Damaged { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
