//! Receipts of released batches that the public log is to have.
//!
//! A receipt is written in the transaction that releases its batch. It gets its number when it is
//! first to be sent, and is sent until the log has it. Its rows stay until the task is forgotten,
//! because the next receipt gets the next number.

use rusqlite::{Connection, OptionalExtension, Row, params};
use sotto_protocol::Moment;
use sotto_protocol::receipt::Released;
use sotto_protocol::recipe::windows::Span;
use sotto_wire::{BatchId, EntryId, TaskId};

use super::db::Db;
use crate::{OwedReceipt, OwedReceipts, Result};

/// Those that are to be sent at the time `?1`. One that has a number was due before.
const DUE: &str = "is_sent = 0 AND (due <= ?1 OR number IS NOT NULL)";

/// Adds a receipt, without a number.
pub(super) fn owe(conn: &Connection, task_id: &TaskId, released: &Released) -> Result<()> {
    let Released { recipe, span, count, batch, due } = released;
    conn.prepare_cached(
        "INSERT INTO receipts (task_id, recipe, start, until, count, batch_id, due, is_sent)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)",
    )?
    .execute(params![
        task_id.as_bytes(),
        recipe.as_bytes(),
        span.start as i64,
        span.end as i64,
        *count as i64,
        batch.as_ref().map(BatchId::as_bytes),
        due.0 as i64,
    ])?;
    Ok(())
}

/// Deletes the receipts of a forgotten task, once all are sent.
pub(super) fn forget_sent(conn: &Connection, task_id: &TaskId) -> Result<()> {
    conn.prepare_cached(
        "DELETE FROM receipts WHERE task_id = ?1
         AND task_id IN (SELECT task_id FROM tombstones)
         AND NOT EXISTS (SELECT 1 FROM receipts WHERE task_id = ?1 AND is_sent = 0)",
    )?
    .execute(params![task_id.as_bytes()])?;
    Ok(())
}

impl Db {
    pub(super) fn next_receipts(&mut self, now: Moment) -> Result<OwedReceipts> {
        let now = i64::try_from(now.0).unwrap_or(i64::MAX);
        let tx = Self::begin(&mut self.conn)?;
        let count: i64 = tx
            .prepare_cached(&format!("SELECT COUNT(*) FROM receipts WHERE {DUE}"))?
            .query_row(params![now], |row| row.get(0))?;
        let tasks: Vec<[u8; 32]> = tx
            .prepare_cached(&format!("SELECT DISTINCT task_id FROM receipts WHERE {DUE}"))?
            .query_map(params![now], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut next = Vec::with_capacity(tasks.len());
        for task_id in tasks {
            next.extend(next_of(&tx, &TaskId::new(task_id), now)?);
        }
        tx.commit()?;
        Ok(OwedReceipts { count: count as u64, next })
    }

    pub(super) fn receipt_sent(&mut self, task_id: &TaskId, number: u64) -> Result<()> {
        let tx = Self::begin(&mut self.conn)?;
        tx.prepare_cached("UPDATE receipts SET is_sent = 1 WHERE task_id = ?1 AND number = ?2")?
            .execute(params![task_id.as_bytes(), number as i64])?;
        forget_sent(&tx, task_id)?;
        Ok(tx.commit()?)
    }
}

/// The next receipt of a task, which has its number from now on.
fn next_of(conn: &Connection, task_id: &TaskId, now: i64) -> Result<Option<OwedReceipt>> {
    let row = conn
        .prepare_cached(&format!(
            "SELECT receipt, number, recipe, start, until, count, batch_id, due FROM receipts
             WHERE {DUE} AND task_id = ?2 ORDER BY number IS NULL, due, receipt LIMIT 1"
        ))?
        .query_row(params![now, task_id.as_bytes()], read)
        .optional()?;
    let Some((receipt, number, released)) = row else { return Ok(None) };
    let number = match number {
        Some(number) => number,
        None => conn
            .prepare_cached(
                "UPDATE receipts SET number = 1 +
                 (SELECT IFNULL(MAX(number), 0) FROM receipts WHERE task_id = ?1)
                 WHERE receipt = ?2 RETURNING number",
            )?
            .query_row(params![task_id.as_bytes(), receipt], |row| row.get(0))?,
    };
    Ok(Some(OwedReceipt { task_id: *task_id, number: number as u64, released }))
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Option<i64>, Released)> {
    let integer = |index| row.get::<_, i64>(index).map(|value| value as u64);
    let released = Released {
        recipe: EntryId::new(row.get(2)?),
        span: Span { start: integer(3)?, end: integer(4)? },
        count: integer(5)?,
        batch: row.get::<_, Option<[u8; 32]>>(6)?.map(BatchId::new),
        due: Moment(integer(7)?),
    };
    Ok((row.get(0)?, row.get(1)?, released))
}
