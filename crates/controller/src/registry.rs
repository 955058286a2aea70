//! The durable record of pools, sessions, instances, configurations, fragments, namespaces, registrations, activations,
//! stagings and jobs: one SQLite file.
//!
//! Who calls it: any process of the file's owner, several at once; a [`Registry`] is `Send` but not `Sync`, so each
//! thread opens its own or they share one behind a mutex.
//!
//! Order of events: every change is one `BEGIN IMMEDIATE` transaction, synced to the disk before the method returns
//! (`synchronous=FULL` on a write-ahead log; where the file system cannot hold one, `synchronous=EXTRA` on a rollback
//! journal). A crash before the commit leaves nothing of the change, a crash after it all of it; what was answered
//! "created" survives a power cut. Readers work on a snapshot and wait for no writer.
//!
//! Numbers: an instance has the number of the session that it was made for, because site scripts compare the two.

mod activation;
mod column;
mod instance;
mod job;
mod number;
mod offer;
mod persistent;
mod schema;
mod setup;
mod snapshot;
mod space;
#[cfg(test)]
mod tests;
mod token;

pub use job::Orphans;
pub use offer::{KeptNode, OfferOutcome};
pub use snapshot::Snapshot;

use crate::error::{DiskState, RegistryError};
use forebay_model::ids::*;
use rusqlite::{Connection, OpenFlags, Params, Row, Transaction, TransactionBehavior};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a change waits for other processes' changes, each of which takes milliseconds.
pub const BUSY_TIMEOUT_MS: u64 = 10_000;

/// Longest token and longest name of a pool, node or persistent instance, in characters.
pub const MAX_WORD: usize = 128;

/// The registry of one state directory.
pub struct Registry {
    connection: Connection,
}

/// Names one object of the `dwstat` tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectRef {
    /// A session.
    Session(SessionId),
    /// An instance.
    Instance(InstanceId),
    /// A fragment.
    Fragment(FragmentId),
    /// A configuration.
    Configuration(ConfigurationId),
    /// A namespace.
    Namespace(NamespaceId),
    /// A registration.
    Registration(RegistrationId),
    /// An activation.
    Activation(ActivationId),
}

impl Registry {
    /// Opens the registry for reading and changing. A missing file is made (readable by its owner only; its directory
    /// must exist), an older format is brought up to date.
    ///
    /// # Errors
    /// [`RegistryError::TooNew`], [`RegistryError::Foreign`], [`RegistryError::Reach`], [`RegistryError::Open`],
    /// [`RegistryError::Busy`]; an existing file is unchanged then.
    pub fn open(path: &Path) -> Result<Registry, RegistryError> {
        make_file(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let registry = Registry { connection };
        if !registry.view(|_| registry.is_current(path))? {
            registry.use_log().map_err(|error| named(error, path))?;
            registry.migrate(path)?;
        }
        registry.sync_commits()?;
        Ok(registry)
    }

    /// Opens the registry for [`Registry::snapshot`] and the other reading methods. `None`: nothing was ever recorded
    /// there. Makes and migrates nothing.
    ///
    /// # Errors
    /// As [`Registry::open`]; [`RegistryError::TooOld`] when only `open` could read it.
    pub fn open_for_reading(path: &Path) -> Result<Option<Registry>, RegistryError> {
        // A directory that may not be entered is no proof that nothing was recorded.
        if !path.try_exists().map_err(|source| RegistryError::Reach { path: path.to_owned(), source })? {
            return Ok(None);
        }
        let registry = Registry { connection: connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)? };
        if registry.view(|_| registry.is_current(path))? {
            return Ok(Some(registry));
        }
        match registry.version()? {
            0 => Ok(None),
            found => {
                let known = schema::MIGRATIONS.len() as i64;
                Err(RegistryError::TooOld { path: path.to_owned(), found, known })
            }
        }
    }

    /// Whether the format is the one of this program. A fresh file and an older format are not, and no error.
    /// Called within a transaction: the parts of the answer belong together.
    fn is_current(&self, path: &Path) -> Result<bool, RegistryError> {
        let application: i64 = self.pragma("application_id").map_err(|error| named(error, path))?;
        let (found, known) = (self.version()?, schema::MIGRATIONS.len() as i64);
        let tables: i64 =
            self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let is_fresh = application == 0 && found == 0 && tables == 0;
        if !is_fresh && (application != schema::APPLICATION_ID || found < 1) {
            return Err(RegistryError::Foreign { path: path.to_owned() });
        }
        if found > known {
            return Err(RegistryError::TooNew { path: path.to_owned(), found, known });
        }
        Ok(found == known)
    }

    fn version(&self) -> Result<i64, RegistryError> {
        Ok(self.pragma("user_version")?)
    }

    fn pragma<T: rusqlite::types::FromSql>(&self, name: &str) -> rusqlite::Result<T> {
        self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
    }

    /// Switches the file to a write-ahead log. SQLite does not wait for other openers here, so this does.
    fn use_log(&self) -> rusqlite::Result<()> {
        let give_up = Instant::now() + Duration::from_millis(BUSY_TIMEOUT_MS);
        loop {
            match self.connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
                Err(error) if is_busy(&error) && Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                // Another answer than "wal" is a file system without shared memory; see `sync_commits`.
                other => return other.map(drop),
            }
        }
    }

    /// Makes a commit mean "on the disk", in the way that the journal needs.
    fn sync_commits(&self) -> Result<(), RegistryError> {
        let mode: String = self.pragma("journal_mode")?;
        let level = if mode == "wal" { "FULL" } else { "EXTRA" };
        Ok(self.connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?)
    }

    fn migrate(&self, path: &Path) -> Result<(), RegistryError> {
        self.sync_commits()?;
        self.change(|tx| {
            // Another process may have been here since the version was read.
            if self.is_current(path)? {
                return Ok(());
            }
            let found = usize::try_from(self.version()?).unwrap_or(0);
            for migration in schema::MIGRATIONS.iter().skip(found) {
                tx.execute_batch(migration)?;
            }
            let known = schema::MIGRATIONS.len();
            let application = schema::APPLICATION_ID;
            tx.execute_batch(&format!(
                "PRAGMA user_version = {known}; PRAGMA application_id = {application}"
            ))?;
            Ok(())
        })
    }

    /// Carries out one change: all of it or, when `work` fails, nothing.
    fn change<T, E: From<RegistryError>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction(TransactionBehavior::Immediate, work)
    }

    /// Reads a consistent state; waits for nobody.
    fn view<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        self.transaction(TransactionBehavior::Deferred, work)
    }

    fn transaction<T, E: From<RegistryError>>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let tx = Transaction::new_unchecked(&self.connection, behavior).map_err(RegistryError::from)?;
        let result = work(&tx)?;
        tx.commit().map_err(RegistryError::from)?;
        Ok(result)
    }
}

/// Whether dwstat can show it in one column and it can name a directory entry.
fn is_word(text: &str) -> bool {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    !text.is_empty() && text.chars().count() <= MAX_WORD && !text.contains(bad)
}

/// Makes an empty file with the right mode where there is none, and makes its name durable.
fn make_file(path: &Path) -> Result<(), RegistryError> {
    let fail = |source| RegistryError::Reach { path: path.to_owned(), source };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(fail(error)),
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(fail)
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, RegistryError> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| named(error, path))?;
    connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch("PRAGMA foreign_keys = ON")?;
    Ok(connection)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// Errors of the first look at a file say which file.
fn named(source: rusqlite::Error, path: &Path) -> RegistryError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => RegistryError::Foreign { path },
        _ if is_busy(&source) => source.into(),
        _ => RegistryError::Open { disk: DiskState::of(&path), path, source },
    }
}

/// All rows of a query, each read by `read`.
fn rows<T>(
    connection: &Connection,
    query: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, RegistryError>,
) -> Result<Vec<T>, RegistryError> {
    let mut statement = connection.prepare_cached(query)?;
    let mut found = statement.query(params)?;
    let mut values = Vec::new();
    while let Some(row) = found.next()? {
        values.push(read(row)?);
    }
    Ok(values)
}
