//! What public logs have committed to. Once an entry of a log has been seen, the log must never
//! again appear without it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{LogCheckpoint, Result};

pub(super) fn put(conn: &Connection, checkpoint: &LogCheckpoint) -> Result<()> {
    let LogCheckpoint { origin, size, root } = checkpoint;
    conn.prepare_cached("INSERT OR REPLACE INTO public_logs VALUES (?1, ?2, ?3)")?
        .execute(params![origin, *size as i64, root])?;
    Ok(())
}

pub(super) fn checkpoint(conn: &Connection, origin: String) -> Result<Option<LogCheckpoint>> {
    let found = conn
        .prepare_cached("SELECT size, root FROM public_logs WHERE origin = ?1")?
        .query_row(params![origin], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.map(|(size, root)| LogCheckpoint { origin, size: size as u64, root }))
}
