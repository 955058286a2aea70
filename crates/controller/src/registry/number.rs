//! New ids, never used twice.
//!
//! Users look objects up with `dwstat sessions | grep $SLURM_JOBID` and `dwstat instances | grep $sessID`: a new id must
//! not stand by chance within the lines of other objects. So an id whose digits do is passed over. That is best effort:
//! a user may choose the token `2`, and the dates in every line hold that anyway.
//!
//! Runs within the caller's transaction; a rollback gives the number back, so nobody has seen it.

use crate::error::RegistryError;
use rusqlite::Transaction;

/// How many clashing numbers are passed over before one is taken as it is.
const TRIES: u32 = 10_000;

/// Numbers shorter than this stand in dates and sizes anyway.
const SHORTEST_LOOKED_FOR: usize = 5;

/// Takes the next number of a kind.
pub fn next(tx: &Transaction<'_>, kind: &'static str) -> Result<u64, RegistryError> {
    let taken = tx
        .prepare_cached("UPDATE numbers SET next = next + 1 WHERE kind = ?1 RETURNING next - 1")?
        .query_row([kind], |row| row.get(0))?;
    Ok(taken)
}

/// A job number that stands in no session's line, nor in the line it is going to have.
pub fn token(tx: &Transaction<'_>, owner: u32) -> Result<String, RegistryError> {
    let clash = "SELECT EXISTS (SELECT 1 FROM sessions WHERE instr(id || ' ' || token || ' ' || owner, ?1))";
    let mut found = String::new();
    for _ in 0..TRIES {
        found = next(tx, "token")?.to_string();
        let clashes: bool = tx.prepare_cached(clash)?.query_row([&found], |row| row.get(0))?;
        if !clashes && !owner.to_string().contains(&found) {
            break;
        }
    }
    Ok(found)
}

/// A session number that stands in no instance's line, and in whose session's line no other token stands.
pub fn session(tx: &Transaction<'_>) -> Result<u64, RegistryError> {
    let clash = "SELECT EXISTS (SELECT 1 FROM instances WHERE instr(id || ' ' || label, ?1))
        OR EXISTS (SELECT 1 FROM fragments WHERE instr(id || ' ' || node, ?1))
        OR EXISTS (SELECT 1 FROM sessions WHERE length(token) >= ?2 AND instr(?1, token))";
    pass_over(tx, "session", clash)
}

/// A fragment number in which no instance's number stands.
pub fn fragment(tx: &Transaction<'_>) -> Result<u64, RegistryError> {
    pass_over(
        tx,
        "fragment",
        "SELECT EXISTS (SELECT 1 FROM instances WHERE length(id) >= ?2 AND instr(?1, id))",
    )
}

fn pass_over(tx: &Transaction<'_>, kind: &'static str, clash: &str) -> Result<u64, RegistryError> {
    let mut found = 0;
    for _ in 0..TRIES {
        found = next(tx, kind)?;
        let clashes: bool = tx
            .prepare_cached(clash)?
            .query_row((found.to_string(), SHORTEST_LOOKED_FOR), |row| row.get(0))?;
        if !clashes {
            break;
        }
    }
    Ok(found)
}
