//! The tables of the registry and their versions.
//!
//! A version is the number of migrations applied; it stands in `user_version`, and `application_id` tells a registry
//! from other databases. A migration runs in the transaction that raises the version: a crash leaves the old version.
//!
//! What is counted is never stored twice: free granules are those of the node less those of its fragments, so no crash
//! and no error path can leak any.

/// "FBay" as a big-endian number.
pub const APPLICATION_ID: i64 = 0x4642_6179;

/// Each entry leads from the version that is its index to the next one. Entries are never changed once released.
pub const MIGRATIONS: [&str; 2] = [VERSION_1, VERSION_2];

const VERSION_2: &str = "
ALTER TABLE instances ADD COLUMN write_window_length INTEGER;      -- seconds; both or neither
ALTER TABLE instances ADD COLUMN write_window_multiplier INTEGER;
";

const VERSION_1: &str = "
CREATE TABLE numbers (             -- the next id of each kind; ids are never used twice
    kind TEXT PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO numbers VALUES
    ('token', 100001), ('session', 20001), ('configuration', 50001), ('fragment', 1500001), ('namespace', 60001),
    ('registration', 70001), ('activation', 80001), ('stage', 1);

CREATE TABLE pools (
    name TEXT PRIMARY KEY,
    granularity INTEGER NOT NULL CHECK (granularity > 0),
    is_default INTEGER NOT NULL,
    offered INTEGER NOT NULL,      -- 0: gone from the configuration, but fragments are left
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
    name TEXT PRIMARY KEY,
    pool TEXT NOT NULL REFERENCES pools(name),
    position INTEGER NOT NULL,
    directory BLOB NOT NULL,
    capacity INTEGER NOT NULL,     -- bytes
    granularity INTEGER NOT NULL,  -- bytes
    online INTEGER NOT NULL,
    drain INTEGER NOT NULL,        -- an operator said so
    offered INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE wear (                -- outlives the node's row: a disk stays worn while it is not offered
    node TEXT PRIMARY KEY,
    bytes_written INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    token TEXT NOT NULL UNIQUE,
    creator TEXT NOT NULL,
    owner INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expiration INTEGER NOT NULL,
    nodes INTEGER NOT NULL
) STRICT;

CREATE TABLE instances (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions(id),
    pool TEXT NOT NULL REFERENCES pools(name),
    granularity INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expiration INTEGER NOT NULL,
    intact INTEGER NOT NULL,
    label TEXT NOT NULL UNIQUE,
    persistent INTEGER NOT NULL,
    process TEXT NOT NULL          -- who makes or destroys it
) STRICT;
CREATE INDEX instances_of_session ON instances(session);

CREATE TABLE fragments (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    instance INTEGER NOT NULL REFERENCES instances(id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    node TEXT NOT NULL REFERENCES nodes(name),
    directory BLOB NOT NULL,
    granules INTEGER NOT NULL CHECK (granules > 0)
) STRICT;
CREATE INDEX fragments_of_instance ON fragments(instance);
CREATE INDEX fragments_of_node ON fragments(node);

CREATE TABLE configurations (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    instance INTEGER NOT NULL REFERENCES instances(id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    max_file_size INTEGER,
    max_files INTEGER,
    client_cache INTEGER NOT NULL,
    backing_path TEXT
) STRICT;
CREATE INDEX configurations_of_instance ON configurations(instance);

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    configuration INTEGER NOT NULL REFERENCES configurations(id) ON DELETE CASCADE,
    fragment INTEGER NOT NULL REFERENCES fragments(id) ON DELETE CASCADE,
    span INTEGER NOT NULL
) STRICT;
CREATE INDEX namespaces_of_configuration ON namespaces(configuration);
CREATE INDEX namespaces_of_fragment ON namespaces(fragment);

CREATE TABLE registrations (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    configuration INTEGER NOT NULL REFERENCES configurations(id) ON DELETE CASCADE,
    wait INTEGER NOT NULL,
    UNIQUE (session, configuration)
) STRICT;
CREATE INDEX registrations_of_configuration ON registrations(configuration);

CREATE TABLE activations (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    configuration INTEGER NOT NULL REFERENCES configurations(id) ON DELETE CASCADE,
    nodes INTEGER NOT NULL,
    mount BLOB NOT NULL,
    UNIQUE (session, configuration)
) STRICT;
CREATE INDEX activations_of_configuration ON activations(configuration);

CREATE TABLE jobs (
    session INTEGER PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE,
    phase TEXT NOT NULL,
    process TEXT NOT NULL,
    script_group TEXT,
    script BLOB NOT NULL,
    args BLOB NOT NULL,            -- every argument followed by a NUL
    working_directory BLOB NOT NULL,
    submit_directory BLOB NOT NULL,
    name TEXT NOT NULL,
    keep INTEGER NOT NULL,
    script_status INTEGER,
    script_signal INTEGER,
    failure_phase TEXT,
    failure_cause TEXT
) STRICT;

CREATE TABLE stages (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    direction TEXT NOT NULL,
    kind TEXT NOT NULL,
    persistent TEXT,               -- the name of the target; NULL is the job's own allocation
    pfs BLOB NOT NULL,
    instance_path BLOB NOT NULL,
    tolerate_errors INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    result TEXT NOT NULL,
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    elapsed_ms INTEGER NOT NULL DEFAULT 0,
    failure TEXT
) STRICT;
CREATE INDEX stages_of_session ON stages(session);
";
