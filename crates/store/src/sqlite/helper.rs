//! The helper's commits, and what it looks up before them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension, params};
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::{Bucket, Digest, Rejection, ReplayScope};
use sotto_wire::{BatchSelector, ReportId, ReportIdChecksum, TaskId};

use super::db::Db;
use super::tasks::{Ids, Scope};
use super::{buckets, ranges, receipts, tasks};
use crate::outcome::{aggregated, check_helper};
use crate::{Batch, Committed, Release, Result};

/// The stored response to a request. For the reading connection.
pub(super) fn response(
    conn: &Connection,
    task_id: &TaskId,
    digest: &Digest,
) -> Result<Option<Vec<u8>>> {
    match tasks::number(conn, task_id)? {
        Some(task) => stored_response(conn, task, digest),
        None => Ok(None),
    }
}

/// The reason why each report could not be committed now. For the reading connection.
pub(super) fn spent_reports(
    conn: &Connection,
    task_id: &TaskId,
    scope: ReplayScope,
    reports: &[(Bucket, ReportId)],
) -> Result<Vec<Option<Rejection>>> {
    let mut verdicts = vec![None; reports.len()];
    // One consistent view of the database for all, in key order.
    let tx = conn.unchecked_transaction()?;
    let task = tasks::number(&tx, task_id)?;
    let Some(ids) = Ids::find(&tx, task, scope)? else { return Ok(verdicts) };
    let mut order: Vec<usize> = (0..reports.len()).collect();
    order.sort_unstable_by_key(|index| key(ids, &reports[*index]));
    let mut collected: HashMap<Bucket, bool> = HashMap::new();
    for index in order {
        let (bucket, report_id) = &reports[index];
        let is_collected = match collected.entry(*bucket) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(match task {
                Some(task) => buckets::is_collected(&tx, task, bucket)?,
                None => false,
            }),
        };
        verdicts[index] = if is_collected {
            Some(Rejection::BatchCollected)
        } else if tasks::is_taken(&tx, ids, bucket, report_id)? {
            Some(Rejection::ReportReplayed)
        } else {
            None
        };
    }
    Ok(verdicts)
}

/// The batch that a selector names. For the reading connection.
pub(super) fn batch(
    conn: &Connection,
    task_id: &TaskId,
    selector: &BatchSelector,
) -> Result<Batch> {
    let Some(task) = tasks::number(conn, task_id)? else { return Ok(Batch::default()) };
    let tx = conn.unchecked_transaction()?;
    Ok(Batch {
        aggregate: buckets::load(&tx, task, selector)?,
        collected: is_any_collected(&tx, task, selector)?,
    })
}

impl Db {
    pub(super) fn commit_helper_job(
        &mut self,
        task_id: &TaskId,
        digest: &Digest,
        outcome: &HelperOutcome,
    ) -> Result<Committed> {
        check_helper(outcome)?;
        let tx = Self::begin(&mut self.conn)?;
        let task = tasks::ensure(&tx, task_id)?;
        if let Some(response) = stored_response(&tx, task, digest)? {
            return Ok(Committed::Already(response));
        }
        for bucket in outcome.buckets.keys() {
            if buckets::is_collected(&tx, task, bucket)? {
                return Ok(Committed::Conflict);
            }
        }
        let ids = Ids::ensure(&tx, task, outcome.scope)?;
        let mut reports: Vec<_> = outcome.reports.iter().collect();
        reports.sort_unstable_by_key(|report| key(ids, report));
        for (bucket, report_id) in reports {
            if !tasks::take_id(&tx, ids, bucket, report_id)? {
                return Ok(Committed::Conflict);
            }
        }
        for (bucket, aggregate) in &outcome.buckets {
            buckets::add(&tx, task, bucket, aggregate)?;
        }
        tasks::count_aggregated(&tx, task, aggregated(&outcome.buckets))?;
        tasks::count_rejections(&tx, task, &outcome.rejections)?;
        let response = store_response(&tx, task, digest, &outcome.response)?;
        let mut statement =
            tx.prepare_cached("INSERT INTO response_buckets VALUES (?1, ?2, ?3)")?;
        for bucket in outcome.buckets.keys() {
            statement.execute(params![task, buckets::key(bucket), response])?;
        }
        drop(statement);
        tx.commit()?;
        Ok(Committed::Done)
    }

    pub(super) fn forget_response(&mut self, task_id: &TaskId, digest: &Digest) -> Result<()> {
        let tx = Self::begin(&mut self.conn)?;
        if let Some(task) = tasks::number(&tx, task_id)? {
            tx.prepare_cached(
                "DELETE FROM response_buckets WHERE response =
                 (SELECT response FROM responses WHERE task = ?1 AND digest = ?2)",
            )?
            .execute(params![task, digest])?;
            tx.prepare_cached("DELETE FROM responses WHERE task = ?1 AND digest = ?2")?
                .execute(params![task, digest])?;
        }
        Ok(tx.commit()?)
    }

    pub(super) fn collect_batch(
        &mut self,
        task_id: &TaskId,
        selector: &BatchSelector,
        expected: (u64, [u8; 32]),
        digest: &Digest,
        release: &Release,
    ) -> Result<Committed> {
        let tx = Self::begin(&mut self.conn)?;
        let task = tasks::ensure(&tx, task_id)?;
        if let Some(response) = stored_response(&tx, task, digest)? {
            return Ok(Committed::Already(response));
        }
        let aggregate = buckets::load(&tx, task, selector)?;
        let held = aggregate.map_or((0, ReportIdChecksum::default()), |a| (a.count, a.checksum));
        if is_any_collected(&tx, task, selector)? || (held.0, *held.1.as_bytes()) != expected {
            return Ok(Committed::Conflict);
        }
        forget_responses_of(&tx, task, selector)?;
        buckets::collect(&tx, task, selector)?;
        if let BatchSelector::TimeInterval(interval) = selector {
            tasks::schedule_purge_of(&tx, task, *interval)?;
        }
        store_response(&tx, task, digest, &release.response)?;
        if let Some(released) = &release.receipt {
            receipts::owe(&tx, task_id, released)?;
        }
        tx.commit()?;
        self.purge();
        Ok(Committed::Done)
    }
}

/// The key of a report's id. Neighbouring keys share pages.
fn key(ids: Ids, (bucket, report_id): &(Bucket, ReportId)) -> (Scope, ReportId) {
    (ids.scope(bucket), *report_id)
}

/// Deletes the responses of all jobs that touched a batch. The leader asks for a batch only after
/// it has committed each of them, so it never asks for these responses again.
fn forget_responses_of(conn: &Connection, task: i64, selector: &BatchSelector) -> Result<()> {
    for (first, last) in buckets::key_ranges(selector) {
        let responses: Vec<i64> = conn
            .prepare_cached(
                "SELECT DISTINCT response FROM response_buckets
                 WHERE task = ?1 AND bucket BETWEEN ?2 AND ?3",
            )?
            .query_map(params![task, first, last], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for response in responses {
            conn.prepare_cached("DELETE FROM response_buckets WHERE response = ?1")?
                .execute(params![response])?;
            conn.prepare_cached("DELETE FROM responses WHERE response = ?1")?
                .execute(params![response])?;
        }
    }
    Ok(())
}

fn is_any_collected(conn: &Connection, task: i64, selector: &BatchSelector) -> Result<bool> {
    match selector {
        BatchSelector::TimeInterval(interval) => ranges::is_any_collected(conn, task, *interval),
        BatchSelector::LeaderSelected(id) => buckets::is_collected(conn, task, &Bucket::Batch(*id)),
    }
}

fn stored_response(conn: &Connection, task: i64, digest: &Digest) -> Result<Option<Vec<u8>>> {
    let mut statement =
        conn.prepare_cached("SELECT body FROM responses WHERE task = ?1 AND digest = ?2")?;
    Ok(statement.query_row(params![task, digest], |row| row.get(0)).optional()?)
}

fn store_response(conn: &Connection, task: i64, digest: &Digest, body: &[u8]) -> Result<i64> {
    conn.prepare_cached("INSERT INTO responses (task, digest, body) VALUES (?1, ?2, ?3)")?
        .execute(params![task, digest, body])?;
    Ok(conn.last_insert_rowid())
}
