//! The registry of a cluster: the rows of the core, one by one, in an embedded transactional database.
//!
//! Order of events: all changes of a group of steps are one transaction, synced to the disk before [`Rows::store`]
//! returns. A crash before the commit leaves none of them, a crash after it all. [`Rows`] is what another database would
//! have to do. One process at a time has a state directory ([`lock_directory`]); the driver's thread owns the rows.

use crate::cluster::row::{Change, Key, Row};
use crate::custody::{self, CustodyError};
use rusqlite::{Connection, OpenFlags, params};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// "FBcl" as a big-endian number.
const APPLICATION_ID: i64 = 0x4642_636c;
const VERSION: i64 = 1;
const LOCK_FILE: &str = "lock";
/// Statements that are kept prepared: put and delete.
const STATEMENTS: usize = 8;

const SCHEMA: &str = "
CREATE TABLE rows (
    key TEXT PRIMARY KEY,          -- the row's key as JSON
    row TEXT NOT NULL              -- the row as JSON
) STRICT, WITHOUT ROWID;
CREATE TABLE about (
    registry TEXT NOT NULL         -- its name, by which agents know whose fragments they hold
) STRICT;
";

/// Why the registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Others could change or read what it keeps.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// A file or directory cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("another controller has the state directory {}: end it first", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The database failed.
    #[error("the registry {} failed: {source}; look at its disk", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// It is another program's, or another version's.
    #[error("{} is no registry of this version of the controller: {found}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// The configuration has another name for it.
    #[error("the registry {} is called {stored}, and the configuration calls it {configured}: agents would not know their fragments", path.display())]
    OtherName {
        /// The file.
        path: PathBuf,
        /// As it is.
        stored: String,
        /// As it was to be.
        configured: String,
    },
    /// A row cannot be read.
    #[error("the registry {} is damaged: row {key} cannot be read ({reason})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Why.
        reason: String,
    },
}

/// Where rows are kept.
pub trait Rows: Send {
    /// Every row.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load(&mut self) -> Result<Vec<Row>, StoreError>;

    /// Writes all of these changes or none. When it returns they survive a power cut.
    ///
    /// # Errors
    /// [`StoreError`]: whether they are written is not known.
    fn store(&mut self, changes: &[Change]) -> Result<(), StoreError>;
}

/// Rows in an SQLite file.
pub struct SqliteRows {
    connection: Connection,
    path: PathBuf,
}

impl SqliteRows {
    /// Opens the file, or makes it for a registry of this name.
    ///
    /// # Errors
    /// [`StoreError`]; an existing file is unchanged then.
    pub fn open(path: &Path, registry: &str) -> Result<SqliteRows, StoreError> {
        make_file(path)?;
        custody::unchangeable(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|source| StoreError::Database { path: path.to_owned(), source })?;
        let rows = SqliteRows { connection, path: path.to_owned() };
        rows.prepare(registry)?;
        Ok(rows)
    }

    fn prepare(&self, registry: &str) -> Result<(), StoreError> {
        let application = self.pragma("application_id")?;
        let tables: i64 =
            self.database(
                self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)),
            )?;
        if application == 0 && tables == 0 {
            self.database(self.make(registry))?;
        }
        let (application, version) = (self.pragma("application_id")?, self.pragma("user_version")?);
        if (application, version) != (APPLICATION_ID, VERSION) {
            let found = format!("application {application}, format {version}, not {VERSION}");
            return Err(StoreError::Foreign { path: self.path.clone(), found });
        }
        let stored: String =
            self.database(self.connection.query_row("SELECT registry FROM about", [], |row| row.get(0)))?;
        if stored != registry {
            let (path, configured) = (self.path.clone(), registry.to_owned());
            return Err(StoreError::OtherName { path, stored, configured });
        }
        self.connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Another answer than "wal" is a file system without shared memory; its journal needs one sync more.
        let mode: String =
            self.database(self.connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))?;
        let level = if mode == "wal" { "FULL" } else { "EXTRA" };
        self.database(self.connection.execute_batch(&format!("PRAGMA synchronous = {level}")))
    }

    fn make(&self, registry: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch("PRAGMA synchronous = EXTRA")?;
        let tx = self.connection.unchecked_transaction()?;
        tx.execute_batch(SCHEMA)?;
        tx.execute("INSERT INTO about VALUES (?1)", params![registry])?;
        tx.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}"
        ))?;
        tx.commit()
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        self.database(self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)))
    }

    fn database<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                StoreError::Foreign { path: self.path.clone(), found: "no database".into() }
            }
            _ => StoreError::Database { path: self.path.clone(), source },
        })
    }

    fn damaged(&self, key: &str) -> impl FnOnce(serde_json::Error) -> StoreError {
        let (path, key) = (self.path.clone(), key.to_owned());
        move |error| StoreError::Damaged { path, key, reason: error.to_string() }
    }

    fn write(&self, changes: &[Change]) -> rusqlite::Result<()> {
        let tx = self.connection.unchecked_transaction()?;
        {
            let mut put = tx.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?;
            let mut delete = tx.prepare_cached("DELETE FROM rows WHERE key = ?1")?;
            for change in changes {
                match change {
                    Change::Put(row) => put.execute(params![name(&row.key()), text(row)])?,
                    Change::Delete(key) => delete.execute(params![name(key)])?,
                };
            }
        }
        tx.commit()
    }
}

/// Keys and rows are plain values with names as their only map keys: their JSON always exists.
fn name(key: &Key) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

fn text(row: &Row) -> String {
    serde_json::to_string(row).unwrap_or_default()
}

impl Rows for SqliteRows {
    fn load(&mut self) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let mut statement = self.database(self.connection.prepare("SELECT key, row FROM rows"))?;
        let mut found = self.database(statement.query([]))?;
        while let Some(one) = self.database(found.next())? {
            let key = self.database(one.get_ref(0))?.as_str().unwrap_or_default().to_owned();
            let text = self.database(one.get_ref(1))?.as_str().unwrap_or_default();
            let row: Row = serde_json::from_str(text).map_err(self.damaged(&key))?;
            if name(&row.key()) != key {
                let reason = format!("it holds {}", name(&row.key()));
                return Err(StoreError::Damaged { path: self.path.clone(), key, reason });
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn store(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.database(self.write(changes))
    }
}

/// Makes the state directory, readable by its owner only, and holds it until the file is dropped. One that others may write
/// to is refused.
///
/// # Errors
/// [`StoreError::InUse`], [`StoreError::Custody`], [`StoreError::File`].
pub fn lock_directory(path: &Path) -> Result<File, StoreError> {
    let fail = |source| StoreError::File { path: path.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
    custody::unchangeable(path)?;
    let file = path.join(LOCK_FILE);
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// Makes an empty file with the right mode where there is none, and makes its name durable.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let fail = |source| StoreError::File { path: path.to_owned(), source };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => sync_parent(path).map_err(fail),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(fail(error)),
    }
}

/// Makes the name of a new file durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
