//! Deletes what no longer counts, a little at a time.

use rusqlite::{Connection, params};

use super::counting::{first_counted, is_idle};
use crate::Result;

/// The number of rows that one step looks at.
const STEP_ROWS: i64 = 500;

/// How far deletion has come. It starts again with every window.
#[derive(Debug, Default)]
pub(super) struct Tidying {
    /// The window that it was last started for.
    window: Option<u64>,
    grants_done: bool,
    /// The devices up to this one have been looked at; `None` when all have.
    devices_from: Option<i64>,
}

impl Tidying {
    /// Does one step. Returns whether there is more to do.
    pub(super) fn step(&mut self, conn: &mut Connection, window: u64) -> Result<bool> {
        if self.window != Some(window) {
            *self = Self { window: Some(window), grants_done: false, devices_from: Some(0) };
        }
        if !self.grants_done {
            self.grants_done = delete_grants(conn, window)?;
        } else if let Some(from) = self.devices_from {
            self.devices_from = delete_devices(conn, window, from)?;
        }
        Ok(!self.grants_done || self.devices_from.is_some())
    }
}

/// Deletes some of the grants that no longer count, oldest first. Returns whether none is left.
fn delete_grants(conn: &Connection, window: u64) -> Result<bool> {
    let deleted = conn
        .prepare_cached(
            "DELETE FROM grants WHERE window < ?1
             AND number IN (SELECT number FROM grants ORDER BY number LIMIT ?2)",
        )?
        .execute(params![first_counted(window) as i64, STEP_ROWS])?;
    Ok((deleted as i64) < STEP_ROWS)
}

/// Forgets some of the idle devices. Returns where to continue, if there are more.
fn delete_devices(conn: &mut Connection, window: u64, from: i64) -> Result<Option<i64>> {
    let tx = conn.transaction()?;
    let seen: Vec<(i64, i64)> = tx
        .prepare_cached(
            "SELECT device, window FROM devices WHERE device > ?1 ORDER BY device LIMIT ?2",
        )?
        .query_map(params![from, STEP_ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (device, last) in &seen {
        if is_idle(*last as u64, window) {
            tx.prepare_cached("DELETE FROM grants WHERE device = ?1")?.execute(params![device])?;
            tx.prepare_cached("DELETE FROM devices WHERE device = ?1")?.execute(params![device])?;
        }
    }
    tx.commit()?;
    let is_full = seen.len() as i64 == STEP_ROWS;
    Ok(seen.last().filter(|_| is_full).map(|(device, _)| *device))
}
