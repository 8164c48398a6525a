//! Batch buckets: shares, counts and checksums, and the states of leader-selected batches.
//!
//! One row per bucket: the embedded store has one writer, so there is no contention for the row.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sotto_protocol::{Bucket, BucketAggregate};
use sotto_vdaf::AggregateShare;
use sotto_wire::{BatchId, BatchSelector, Interval, ReportIdChecksum, Time};

use super::ranges::{self, Standing, spans};
use crate::{Result, StoreError};

/// The state of a leader-selected batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchState {
    Open = 0,
    Closed = 1,
    Collected = 2,
}

/// A bucket's name as a database value.
pub(super) fn key(bucket: &Bucket) -> Value {
    match bucket {
        Bucket::Time(time) => Value::Integer(time.as_units() as i64),
        Bucket::Batch(batch_id) => Value::Blob(batch_id.as_bytes().to_vec()),
    }
}

/// The key ranges, ends included, of the buckets in a batch.
pub(super) fn key_ranges(selector: &BatchSelector) -> Vec<(Value, Value)> {
    match selector {
        BatchSelector::TimeInterval(interval) => spans(*interval)
            .map(|(first, last)| (Value::Integer(first), Value::Integer(last)))
            .collect(),
        BatchSelector::LeaderSelected(batch_id) => {
            let key = key(&Bucket::Batch(*batch_id));
            vec![(key.clone(), key)]
        }
    }
}

/// Whether nothing can be added to a bucket any longer.
pub(super) fn is_collected(conn: &Connection, task: i64, bucket: &Bucket) -> Result<bool> {
    match bucket {
        Bucket::Time(time) => Ok(ranges::standing(conn, task, *time)? == Standing::Collected),
        Bucket::Batch(batch_id) => {
            Ok(batch_state(conn, task, batch_id)? == Some(BatchState::Collected))
        }
    }
}

/// Adds to a bucket.
pub(super) fn add(
    conn: &Connection,
    task: i64,
    bucket: &Bucket,
    added: &BucketAggregate,
) -> Result<()> {
    let key = key(bucket);
    let stored = conn
        .prepare_cached(
            "SELECT count, checksum, first, last, share, row FROM buckets
             WHERE task = ?1 AND bucket = ?2",
        )?
        .query_row(params![task, key], |row| Ok((read(row), row.get::<_, i64>(5)?)))
        .optional()?;
    let Some((aggregate, row)) = stored else {
        conn.prepare_cached(
            "INSERT INTO buckets (task, bucket, count, checksum, first, last, share)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            task,
            key,
            added.count as i64,
            added.checksum.as_bytes(),
            added.first.as_units() as i64,
            added.last.as_units() as i64,
            added.share.to_store_bytes(),
        ])?;
        return Ok(());
    };
    let mut aggregate = aggregate?;
    aggregate.merge(added).map_err(|fault| StoreError::Backend(fault.to_string()))?;
    conn.prepare_cached(
        "UPDATE buckets SET count = ?2, checksum = ?3, first = ?4, last = ?5, share = ?6
         WHERE row = ?1",
    )?
    .execute(params![
        row,
        aggregate.count as i64,
        aggregate.checksum.as_bytes(),
        aggregate.first.as_units() as i64,
        aggregate.last.as_units() as i64,
        aggregate.share.to_store_bytes(),
    ])?;
    Ok(())
}

/// How many reports are in an interval.
pub(super) fn count(conn: &Connection, task: i64, interval: Interval) -> Result<u64> {
    let mut statement = conn.prepare_cached(
        "SELECT COALESCE(SUM(count), 0) FROM buckets WHERE task = ?1 AND bucket BETWEEN ?2 AND ?3",
    )?;
    let mut count = 0;
    for (first, last) in spans(interval) {
        count +=
            statement.query_row(params![task, first, last], |row| row.get::<_, i64>(0))? as u64;
    }
    Ok(count)
}

/// A batch, merged over its buckets; `None` if it has none.
pub(super) fn load(
    conn: &Connection,
    task: i64,
    selector: &BatchSelector,
) -> Result<Option<BucketAggregate>> {
    let mut statement = conn.prepare_cached(
        "SELECT count, checksum, first, last, share FROM buckets
         WHERE task = ?1 AND bucket BETWEEN ?2 AND ?3",
    )?;
    let mut merged: Option<BucketAggregate> = None;
    for (first, last) in key_ranges(selector) {
        let mut rows = statement.query(params![task, first, last])?;
        while let Some(row) = rows.next()? {
            let aggregate = read(row)?;
            match &mut merged {
                Some(merged) => merged
                    .merge(&aggregate)
                    .map_err(|fault| StoreError::Backend(fault.to_string()))?,
                None => merged = Some(aggregate),
            }
        }
    }
    Ok(merged)
}

/// Marks a batch collected permanently and deletes its shares.
pub(super) fn collect(conn: &Connection, task: i64, selector: &BatchSelector) -> Result<()> {
    match selector {
        BatchSelector::TimeInterval(interval) => ranges::collect(conn, task, *interval)?,
        BatchSelector::LeaderSelected(batch_id) => {
            set_batch_state(conn, task, batch_id, BatchState::Collected)?;
        }
    }
    let mut statement =
        conn.prepare_cached("DELETE FROM buckets WHERE task = ?1 AND bucket BETWEEN ?2 AND ?3")?;
    for (first, last) in key_ranges(selector) {
        statement.execute(params![task, first, last])?;
    }
    Ok(())
}

/// The batch that new jobs of this window of a leader-selected task go to.
pub(super) fn open_batch(conn: &Connection, task: i64, window: u64) -> Result<Option<BatchId>> {
    let mut statement = conn.prepare_cached(
        "SELECT batch_id FROM batches
         WHERE task = ?1 AND state = ?2 AND (window = ?3 OR window IS NULL)",
    )?;
    let found = statement
        .query_row(params![task, BatchState::Open as i64, window as i64], |row| row.get(0))
        .optional()?;
    Ok(found.map(BatchId::new))
}

/// The open batch of the earliest window that has enough reports.
pub(super) fn ready_batch(conn: &Connection, task: i64, min: u64) -> Result<Option<BatchId>> {
    let mut statement = conn.prepare_cached(
        "SELECT batch_id FROM batches JOIN buckets
         ON buckets.task = batches.task AND bucket = batch_id
         WHERE batches.task = ?1 AND state = ?2 AND count >= ?3
         ORDER BY window < 0, window LIMIT 1",
    )?;
    let min = i64::try_from(min).unwrap_or(i64::MAX);
    let found = statement
        .query_row(params![task, BatchState::Open as i64, min], |row| row.get(0))
        .optional()?;
    Ok(found.map(BatchId::new))
}

/// Opens a new batch of this window.
pub(super) fn open_new_batch(
    conn: &Connection,
    task: i64,
    window: u64,
    batch_id: &BatchId,
) -> Result<()> {
    if batch_state(conn, task, batch_id)?.is_some() {
        return Err(StoreError::Backend("the id of the new batch is not fresh".into()));
    }
    let state = BatchState::Open as i64;
    conn.prepare_cached("INSERT INTO batches VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        task,
        batch_id.as_bytes(),
        state,
        window as i64
    ])?;
    Ok(())
}

pub(super) fn batch_state(
    conn: &Connection,
    task: i64,
    batch_id: &BatchId,
) -> Result<Option<BatchState>> {
    let mut statement =
        conn.prepare_cached("SELECT state FROM batches WHERE task = ?1 AND batch_id = ?2")?;
    let state: Option<i64> =
        statement.query_row(params![task, batch_id.as_bytes()], |row| row.get(0)).optional()?;
    state
        .map(|state| match state {
            0 => Ok(BatchState::Open),
            1 => Ok(BatchState::Closed),
            2 => Ok(BatchState::Collected),
            _ => Err(StoreError::Backend(format!("batch state {state} is unknown"))),
        })
        .transpose()
}

pub(super) fn set_batch_state(
    conn: &Connection,
    task: i64,
    batch_id: &BatchId,
    state: BatchState,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO batches (task, batch_id, state) VALUES (?1, ?2, ?3)
         ON CONFLICT (task, batch_id) DO UPDATE SET state = excluded.state",
    )?
    .execute(params![task, batch_id.as_bytes(), state as i64])?;
    Ok(())
}

/// Reads count, checksum, first, last, share.
fn read(row: &Row<'_>) -> Result<BucketAggregate> {
    let share = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
    let share = AggregateShare::from_store_bytes(share)
        .map_err(|error| StoreError::Backend(error.to_string()))?;
    Ok(BucketAggregate {
        share,
        count: row.get::<_, i64>(0)? as u64,
        checksum: ReportIdChecksum::from(row.get::<_, [u8; 32]>(1)?),
        first: Time::new(row.get::<_, i64>(2)? as u64),
        last: Time::new(row.get::<_, i64>(3)? as u64),
    })
}
