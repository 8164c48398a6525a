//! The counting rules, applied within an open transaction.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::secret::Tag;
use super::{Known, Recorded, Row};
use crate::Result;

/// A device must have been idle for this many windows before another client key is accepted. A
/// grant counts in its own window and the next, so nothing that the old key got still counts.
const IDLE_WINDOWS: u64 = 2;

/// A request, before the issuer has answered it.
pub(super) struct Asked {
    pub(super) device: Tag,
    pub(super) client_key: Tag,
    pub(super) client_alias: Tag,
    pub(super) request: Tag,
}

/// The first window whose grants still count.
pub(super) fn first_counted(window: u64) -> u64 {
    window.saturating_sub(1)
}

/// Whether a device that last asked in window `last` may change its key, and may be forgotten.
pub(super) fn is_idle(last: u64, window: u64) -> bool {
    window.saturating_sub(last) > IDLE_WINDOWS
}

/// What is known about a request.
pub(super) fn look_up(conn: &Connection, window: u64, asked: &Asked) -> Result<Known> {
    let Some(device) = Device::find(conn, &asked.device)? else { return Ok(Known::Unknown) };
    if device.client_key != asked.client_key {
        let is_idle = is_idle(device.window, window);
        return Ok(if is_idle { Known::Unknown } else { Known::OtherKey });
    }
    let response = conn
        .prepare_cached(
            "SELECT response FROM grants WHERE device = ?1 AND request = ?2 AND window >= ?3",
        )?
        .query_row(params![device.number, asked.request, first_counted(window) as i64], |row| {
            row.get(0)
        })
        .optional()?;
    if let Some(response) = response {
        return Ok(Known::Answered(response));
    }
    // Whatever the issuer would answer, this request cannot get a token: the alias has had one, or
    // belongs to another origin.
    let is_used = conn
        .prepare_cached(
            "SELECT 1 FROM grants WHERE device = ?1 AND client_alias = ?2 AND window >= ?3",
        )?
        .exists(params![device.number, asked.client_alias, first_counted(window) as i64])?;
    Ok(if is_used { Known::Withheld } else { Known::Unknown })
}

/// Counts a grant.
pub(super) fn record(
    tx: &Transaction<'_>,
    window: u64,
    max_aliases: u64,
    row: &Row,
) -> Result<Recorded> {
    let mut device = match Device::find(tx, &row.asked.device)? {
        Some(device) if device.client_key != row.asked.client_key => {
            if !is_idle(device.window, window) {
                return Ok(Recorded::OtherKey);
            }
            Device { client_key: row.asked.client_key, ..device }
        }
        Some(device) => device,
        None => Device::register(tx, &row.asked, window)?,
    };
    device.enter(tx, window)?;
    let outcome = device.judge(tx, max_aliases, row)?;
    if outcome == Recorded::New {
        device.current += 1;
        device.grant(tx, row)?;
    }
    device.save(tx)?;
    Ok(outcome)
}

/// A row of `devices`.
struct Device {
    number: i64,
    client_key: Tag,
    window: u64,
    current: u64,
    previous: u64,
}

impl Device {
    fn find(conn: &Connection, tag: &Tag) -> Result<Option<Self>> {
        let found = conn
            .prepare_cached(
                "SELECT device, client_key, window, current, previous FROM devices WHERE tag = ?1",
            )?
            .query_row(params![tag], |row| {
                Ok(Self {
                    number: row.get(0)?,
                    client_key: row.get(1)?,
                    window: row.get::<_, i64>(2)? as u64,
                    current: row.get::<_, i64>(3)? as u64,
                    previous: row.get::<_, i64>(4)? as u64,
                })
            })
            .optional()?;
        Ok(found)
    }

    fn register(tx: &Transaction<'_>, asked: &Asked, window: u64) -> Result<Self> {
        tx.prepare_cached(
            "INSERT INTO devices (tag, client_key, window, current, previous)
             VALUES (?1, ?2, ?3, 0, 0)",
        )?
        .execute(params![asked.device, asked.client_key, window as i64])?;
        let number = tx.last_insert_rowid();
        Ok(Self { number, client_key: asked.client_key, window, current: 0, previous: 0 })
    }

    /// Moves the device to the current window. Deletes what no longer counts, so that every
    /// remaining row of the device counts.
    fn enter(&mut self, tx: &Transaction<'_>, window: u64) -> Result<()> {
        if self.window == window {
            return Ok(());
        }
        tx.prepare_cached("DELETE FROM grants WHERE device = ?1 AND window < ?2")?
            .execute(params![self.number, first_counted(window) as i64])?;
        self.previous = if window == self.window + 1 { self.current } else { 0 };
        self.current = 0;
        self.window = window;
        Ok(())
    }

    fn judge(&self, tx: &Transaction<'_>, max_aliases: u64, row: &Row) -> Result<Recorded> {
        let granted: Option<(Tag, Tag, Vec<u8>)> = tx
            .prepare_cached(
                "SELECT client_alias, request, response FROM grants
                 WHERE device = ?1 AND issuer_alias = ?2",
            )?
            .query_row(params![self.number, row.issuer_alias], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        if let Some((client_alias, request, response)) = granted {
            return Ok(if request == row.asked.request {
                Recorded::AlreadyGranted(response)
            } else if client_alias != row.asked.client_alias {
                Recorded::OtherAlias
            } else {
                Recorded::Withheld
            });
        }
        let is_used = tx
            .prepare_cached("SELECT 1 FROM grants WHERE device = ?1 AND client_alias = ?2")?
            .exists(params![self.number, row.asked.client_alias])?;
        Ok(if is_used {
            Recorded::OtherAlias
        } else if self.current + self.previous >= max_aliases {
            Recorded::Full
        } else {
            Recorded::New
        })
    }

    fn grant(&self, tx: &Transaction<'_>, row: &Row) -> Result<()> {
        tx.prepare_cached(
            "INSERT INTO grants (device, window, issuer_alias, client_alias, request, response)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            self.number,
            self.window as i64,
            row.issuer_alias,
            row.asked.client_alias,
            row.asked.request,
            row.response,
        ])?;
        Ok(())
    }

    fn save(&self, tx: &Transaction<'_>) -> Result<()> {
        tx.prepare_cached(
            "UPDATE devices SET client_key = ?2, window = ?3, current = ?4, previous = ?5
             WHERE device = ?1",
        )?
        .execute(params![
            self.number,
            self.client_key,
            self.window as i64,
            self.current as i64,
            self.previous as i64,
        ])?;
        Ok(())
    }
}
