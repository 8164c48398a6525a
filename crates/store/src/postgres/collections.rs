//! Collection jobs.

use std::time::Duration;

use deadpool_postgres::Client;
use sha2::{Digest as _, Sha256};
use sotto_wire::{BatchId, BatchSelector, CollectionJobId, Interval, JobState, Query, TaskId};
use tokio_postgres::Row;

use super::connect::Failure;
use super::jobs::in_turn;
use super::pipeline::{Pipeline, params};
use super::values::{array, interval_of, span};
use super::{Done, Inner, Verdict, buckets, receipts, tasks};
use crate::clock::milliseconds;
use crate::collection_id::collection_job_id;
use crate::{
    Closing, CollectionCreated, CollectionDeleted, CollectionState, Lease, LeasedCollection,
    ListedCollection, MAX_LISTED, Release, StoreError, Turn,
};

/// States in the database.
const CLOSING: i16 = 1;
const FINISHED: i16 = 2;
const FAILED: i16 = 3;

/// Keeps the collection jobs of a task, and its batches, as they are. It does not matter what else
/// changes in the row.
const LOCK_TASK: &str = "SELECT FROM tasks WHERE task = $1 FOR NO KEY UPDATE";

const FIND: &str = "
    SELECT job, state, request FROM collections WHERE task = $1 AND collection_id = $2 FOR UPDATE";

const HELD: &str = "
    SELECT task, state, first, last, batch_id,
           (SELECT task_id FROM tasks WHERE tasks.task = collections.task)
    FROM collections WHERE job = $1 AND fence = $2 AND fence <> 0 AND state < 2 FOR UPDATE";

/// Whether a report that was accepted before the times were closed may still be added.
const IS_INTERVAL_DRAINING: &str = "
    SELECT EXISTS (SELECT FROM jobs WHERE task = $1
                   AND EXISTS (SELECT FROM unnest(times) AS t (time) WHERE time BETWEEN $2 AND $3))
        OR EXISTS (SELECT FROM requeued WHERE task = $1 AND (times IS NULL
                   OR EXISTS (SELECT FROM unnest(times) AS t (time) WHERE time BETWEEN $2 AND $3)))
        OR EXISTS (SELECT FROM segments WHERE taken < records AND $1 = ANY(tasks)
                   AND segment <= (SELECT max(position) FROM ranges WHERE task = $1
                                   AND NOT is_collected AND first <= $3 AND last >= $2))";

/// Whether a job may still add to a batch.
const IS_BATCH_DRAINING: &str = "
    SELECT EXISTS (SELECT FROM jobs WHERE task = $1 AND batch_id = $2)";

/// The open batch of the earliest window that has enough reports.
const READY_BATCH: &str = "
    SELECT batch_id FROM batches WHERE task = $1 AND state = 0
    AND $2::bigint <= (SELECT COALESCE(sum(count), 0)::bigint FROM buckets
               WHERE buckets.task = $1 AND bucket = '\\x01'::bytea || batch_id)
    ORDER BY batch_window LIMIT 1";

pub(super) async fn create(
    inner: &Inner,
    client: &Client,
    task_id: TaskId,
    request: &[u8],
    query: Query,
) -> Verdict<Done<CollectionCreated>> {
    let task = inner.number(client, task_id).await?;
    let hash = Sha256::digest(request).to_vec();
    let interval = match query {
        Query::TimeInterval(interval) => Some(interval),
        Query::LeaderSelected => None,
    };
    let (first, last) = interval.map(span).unzip();
    let mut pipeline = Pipeline::begin(client);
    let alive = pipeline.add(LOCK_TASK, params![task]).await?;
    let sql = "SELECT deleted FROM ordinals WHERE task = $1 AND request_hash = $2";
    let ordinal = pipeline.add(sql, params![task, hash]).await?;
    let sql = "SELECT FROM ranges WHERE task = $1 AND is_collected AND first <= $3 AND last >= $2
               UNION ALL
               SELECT FROM collections WHERE task = $1 AND state < 2 AND first <= $3 AND last >= $2
               AND first <= last AND $2::bigint <= $3::bigint";
    let overlap = pipeline.add(sql, params![task, first, last]).await?;
    let answers = pipeline.run().await?;
    if answers.of(alive).is_empty() {
        inner.forget_number(&task_id);
        return Err(Failure::Stale);
    }
    let ordinal: i64 = answers.of(ordinal).first().map_or(Ok(0), |row| row.try_get(0))?;
    let id = collection_job_id(&task_id, request, ordinal as u64);
    let mut pipeline = Pipeline::new(client);
    let found = pipeline.add(FIND, params![task, id.as_bytes().to_vec()]).await?;
    if !pipeline.run().await?.of(found).is_empty() {
        return Ok(Done::Nothing(CollectionCreated::Existing(id)));
    }
    if interval.is_some() && !answers.of(overlap).is_empty() {
        return Ok(Done::Nothing(CollectionCreated::Overlap));
    }
    let mut pipeline = Pipeline::new(client);
    let sql = "INSERT INTO collections (job, task, collection_id, state, first, last, request)
               VALUES (nextval('job_numbers'), $1, $2, 0, $3, $4, $5)";
    let values = params![task, id.as_bytes().to_vec(), first, last, request.to_vec()];
    pipeline.add(sql, values).await?;
    pipeline.commit().await?;
    Ok(Done::Committed(CollectionCreated::Created(id)))
}

pub(super) async fn state(
    client: &Client,
    task_id: TaskId,
    id: CollectionJobId,
) -> Verdict<Option<CollectionState>> {
    let sql = "SELECT state, response, problem, detail FROM collections JOIN tasks USING (task)
               WHERE task_id = $1 AND collection_id = $2";
    let mut pipeline = Pipeline::new(client);
    let values = params![task_id.as_bytes().to_vec(), id.as_bytes().to_vec()];
    let found = pipeline.add(sql, values).await?;
    let answers = pipeline.run().await?;
    let Some(row) = answers.of(found).first() else { return Ok(None) };
    Ok(Some(match row.try_get(0)? {
        FINISHED => CollectionState::Finished(row.try_get(1)?),
        FAILED => CollectionState::Failed { problem: row.try_get(2)?, detail: row.try_get(3)? },
        _ => CollectionState::Pending,
    }))
}

pub(super) async fn list(client: &Client, task_id: TaskId) -> Verdict<Vec<ListedCollection>> {
    let sql = "SELECT collection_id, state, first, last FROM collections JOIN tasks USING (task)
               WHERE task_id = $1 ORDER BY job DESC LIMIT $2";
    let mut pipeline = Pipeline::new(client);
    let values = params![task_id.as_bytes().to_vec(), MAX_LISTED as i64];
    let found = pipeline.add(sql, values).await?;
    let answers = pipeline.run().await?;
    let listed = answers.of(found).iter().map(|row| {
        let state = match row.try_get(1)? {
            FINISHED => JobState::Finished,
            FAILED => JobState::Failed,
            _ => JobState::Pending,
        };
        Ok((CollectionJobId::new(array(row.try_get(0)?)?), interval(row, 2)?, state))
    });
    listed.collect()
}

/// The interval in two columns.
fn interval(row: &Row, at: usize) -> Verdict<Option<Interval>> {
    let (first, last): (Option<i64>, Option<i64>) = (row.try_get(at)?, row.try_get(at + 1)?);
    Ok(first.zip(last).and_then(|(first, last)| interval_of(first, last)))
}

pub(super) async fn delete(
    client: &Client,
    task_id: TaskId,
    id: CollectionJobId,
    keep_finished: bool,
) -> Verdict<Done<CollectionDeleted>> {
    let mut pipeline = Pipeline::begin(client);
    let sql = "SELECT task, job, state, request FROM collections JOIN tasks USING (task)
               WHERE task_id = $1 AND collection_id = $2 FOR UPDATE OF collections";
    let values = params![task_id.as_bytes().to_vec(), id.as_bytes().to_vec()];
    let found = pipeline.add(sql, values).await?;
    let answers = pipeline.run().await?;
    let Some(row) = answers.of(found).first() else {
        return Ok(Done::Nothing(CollectionDeleted::Deleted));
    };
    let (task, job, state): (i64, i64, i16) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if state == CLOSING {
        return Ok(Done::Nothing(CollectionDeleted::UnderWay));
    }
    if keep_finished && state == FINISHED {
        return Ok(Done::Nothing(CollectionDeleted::Finished));
    }
    let hash = Sha256::digest(row.try_get::<_, &[u8]>(3)?).to_vec();
    let mut pipeline = Pipeline::new(client);
    let sql = "INSERT INTO ordinals VALUES ($1, $2, 1) ON CONFLICT (task, request_hash)
               DO UPDATE SET deleted = ordinals.deleted + 1";
    pipeline.add(sql, params![task, hash]).await?;
    pipeline.add("DELETE FROM collections WHERE job = $1", params![job]).await?;
    pipeline.commit().await?;
    Ok(Done::Committed(CollectionDeleted::Deleted))
}

pub(super) async fn lease(
    inner: &Inner,
    client: &Client,
    duration: Duration,
    turn: &Turn,
) -> Verdict<Option<LeasedCollection>> {
    let sql = "SELECT DISTINCT tasks.task, task_id FROM collections JOIN tasks USING (task)
               WHERE state < 2 AND due_ms <= now_ms($1) AND until_ms <= now_ms($1)";
    let mut pipeline = Pipeline::new(client);
    let free = pipeline.add(sql, params![inner.now_ms()]).await?;
    let answers = pipeline.run().await?;
    let mut found = Vec::new();
    for row in answers.of(free) {
        found.push((row.try_get(0)?, tasks::task_id(row.try_get(1)?)?));
    }
    let sql = "UPDATE collections SET fence = nextval('fences'), until_ms = now_ms($1) + $2::bigint
               WHERE job = (SELECT job FROM collections WHERE task = $3 AND state < 2
                            AND due_ms <= now_ms($1) AND until_ms <= now_ms($1)
                            ORDER BY job LIMIT 1 FOR UPDATE SKIP LOCKED)
               RETURNING job, fence, collection_id, request, digest";
    for (task, task_id) in in_turn(found, turn) {
        let mut pipeline = Pipeline::new(client);
        let values = params![inner.now_ms(), milliseconds(duration) as i64, task];
        let leased = pipeline.add(sql, values).await?;
        let answers = pipeline.run().await?;
        let Some(row) = answers.of(leased).first() else { continue };
        let (job, fence): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        return Ok(Some(LeasedCollection {
            lease: Lease { job: job as u64, fence: fence as u64 },
            task_id,
            id: CollectionJobId::new(array(row.try_get(2)?)?),
            request: row.try_get(3)?,
            request_digest: row.try_get::<_, Option<&[u8]>>(4)?.map(array).transpose()?,
        }));
    }
    Ok(None)
}

/// A collection job that a lease is for.
struct Held {
    task: i64,
    task_id: TaskId,
    state: i16,
    interval: Option<Interval>,
    batch_id: Option<BatchId>,
}

impl Held {
    fn of(rows: &[Row]) -> Verdict<Self> {
        let row = rows.first().ok_or(StoreError::Fenced)?;
        let batch_id: Option<&[u8]> = row.try_get(4)?;
        let task_id: Option<&[u8]> = row.try_get(5)?;
        Ok(Self {
            task: row.try_get(0)?,
            task_id: tasks::task_id(task_id.ok_or(StoreError::Fenced)?)?,
            state: row.try_get(1)?,
            interval: interval(row, 2)?,
            batch_id: batch_id.map(array).transpose()?.map(BatchId::new),
        })
    }

    fn selector(&self) -> Verdict<BatchSelector> {
        match (self.interval, self.batch_id) {
            (Some(interval), _) => Ok(BatchSelector::TimeInterval(interval)),
            (None, Some(batch_id)) => Ok(BatchSelector::LeaderSelected(batch_id)),
            (None, None) => Err(Failure::broken("the batch is not closed".into())),
        }
    }
}

async fn held(pipeline: &mut Pipeline<'_>, lease: Lease) -> Verdict<usize> {
    pipeline.add(HELD, params![lease.job as i64, lease.fence as i64]).await
}

/// Asks whether a batch may still grow.
async fn is_draining(
    pipeline: &mut Pipeline<'_>,
    task: i64,
    selector: &BatchSelector,
) -> Verdict<usize> {
    match selector {
        BatchSelector::TimeInterval(interval) => {
            let (first, last) = span(*interval);
            pipeline.add(IS_INTERVAL_DRAINING, params![task, first, last]).await
        }
        BatchSelector::LeaderSelected(batch_id) => {
            let values = params![task, batch_id.as_bytes().to_vec()];
            pipeline.add(IS_BATCH_DRAINING, values).await
        }
    }
}

pub(super) async fn close(
    client: &Client,
    lease: Lease,
    min_batch_size: u64,
) -> Verdict<Done<Closing>> {
    let mut pipeline = Pipeline::begin(client);
    let sent = held(&mut pipeline, lease).await?;
    let mut held = Held::of(pipeline.run().await?.of(sent))?;
    if held.state != CLOSING {
        let is_closed = match held.interval {
            Some(interval) => {
                close_interval(client, lease, &held, interval, min_batch_size).await?
            }
            None => close_batch(client, lease, &mut held, min_batch_size).await?,
        };
        if !is_closed {
            return Ok(Done::Nothing(Closing::TooFew));
        }
    }
    let selector = held.selector()?;
    let mut pipeline = Pipeline::new(client);
    // In this order: what drains between the two is in the sum.
    let draining = is_draining(&mut pipeline, held.task, &selector).await?;
    let rows = buckets::load(&mut pipeline, held.task, &selector).await?;
    let answers = pipeline.commit().await?;
    if answers.of(draining).first().map_or(Ok(true), |row| row.try_get(0))? {
        return Ok(Done::Committed(Closing::Draining));
    }
    match buckets::merge(answers.of(rows))? {
        Some(aggregate) => Ok(Done::Committed(Closing::Drained { selector, aggregate })),
        None => Err(Failure::broken("a closed batch is empty".into())),
    }
}

/// Closes an interval that has enough reports. Whoever is accepting reports for the task commits
/// before, or sees that it was closed.
async fn close_interval(
    client: &Client,
    lease: Lease,
    held: &Held,
    interval: Interval,
    min_batch_size: u64,
) -> Verdict<bool> {
    let (first, last) = super::values::bucket_keys(&BatchSelector::TimeInterval(interval));
    let sql = "SELECT COALESCE(sum(count), 0)::bigint FROM buckets
               WHERE task = $1 AND bucket BETWEEN $2 AND $3";
    let mut pipeline = Pipeline::new(client);
    let count = pipeline.add(sql, params![held.task, first, last]).await?;
    let answers = pipeline.run().await?;
    let count: i64 = answers.of(count).first().map_or(Ok(0), |row| row.try_get(0))?;
    if (count as u64) < min_batch_size {
        return Ok(false);
    }
    let (first, last) = span(interval);
    let mut pipeline = Pipeline::new(client);
    let sql = "UPDATE tasks SET closings = closings + 1 WHERE task = $1";
    pipeline.add(sql, params![held.task]).await?;
    // If the same range was closed before, nothing has been accepted for it since.
    let sql = "INSERT INTO ranges SELECT $1::bigint, false, $2::bigint, $3::bigint,
                   (SELECT COALESCE(max(segment), 0) FROM segments)
               WHERE $2::bigint <= $3::bigint ON CONFLICT DO NOTHING";
    pipeline.add(sql, params![held.task, first, last]).await?;
    let sql = "UPDATE collections SET state = $2 WHERE job = $1";
    pipeline.add(sql, params![lease.job as i64, CLOSING]).await?;
    pipeline.run().await?;
    Ok(true)
}

/// Closes an open batch of a leader-selected task that has enough reports. Its jobs in flight are
/// still added to it; new jobs open another one.
async fn close_batch(
    client: &Client,
    lease: Lease,
    held: &mut Held,
    min_batch_size: u64,
) -> Verdict<bool> {
    let mut pipeline = Pipeline::new(client);
    pipeline.add(LOCK_TASK, params![held.task]).await?;
    let min = i64::try_from(min_batch_size).unwrap_or(i64::MAX);
    let ready = pipeline.add(READY_BATCH, params![held.task, min]).await?;
    let answers = pipeline.run().await?;
    let Some(row) = answers.of(ready).first() else { return Ok(false) };
    let batch_id = BatchId::new(array(row.try_get(0)?)?);
    let id = batch_id.as_bytes().to_vec();
    let mut pipeline = Pipeline::new(client);
    let sql = "UPDATE batches SET state = 1 WHERE task = $1 AND batch_id = $2";
    pipeline.add(sql, params![held.task, id.clone()]).await?;
    let sql = "UPDATE collections SET state = $2, batch_id = $3 WHERE job = $1";
    pipeline.add(sql, params![lease.job as i64, CLOSING, id]).await?;
    pipeline.run().await?;
    held.batch_id = Some(batch_id);
    Ok(true)
}

pub(super) async fn finish(client: &Client, lease: Lease, release: &Release) -> Verdict<Done<()>> {
    let mut pipeline = Pipeline::begin(client);
    let sent = held(&mut pipeline, lease).await?;
    let held = Held::of(pipeline.run().await?.of(sent))?;
    let selector = held.selector()?;
    let mut pipeline = Pipeline::new(client);
    pipeline.add(LOCK_TASK, params![held.task]).await?;
    let draining = is_draining(&mut pipeline, held.task, &selector).await?;
    let answers = pipeline.run().await?;
    let is_draining: bool = answers.of(draining).first().map_or(Ok(true), |row| row.try_get(0))?;
    if held.state != CLOSING || is_draining {
        return Err(Failure::broken("the batch is not drained".into()));
    }
    let mut pipeline = Pipeline::new(client);
    buckets::collect(&mut pipeline, held.task, &selector).await?;
    let sql = "UPDATE collections SET state = $2, response = $3, fence = 0 WHERE job = $1";
    let values = params![lease.job as i64, FINISHED, release.response.clone()];
    pipeline.add(sql, values).await?;
    if let Some(released) = &release.receipt {
        receipts::owe(&mut pipeline, &held.task_id, released).await?;
    }
    pipeline.commit().await?;
    Ok(Done::Committed(()))
}

pub(super) async fn fail(
    client: &Client,
    lease: Lease,
    problem: &str,
    detail: &str,
) -> Verdict<()> {
    let sql = "UPDATE collections SET state = $3, problem = $4, detail = $5, fence = 0
               WHERE job = $1 AND fence = $2 AND fence <> 0 AND state < 2 RETURNING 1";
    let mut pipeline = Pipeline::new(client);
    let values = params![
        lease.job as i64,
        lease.fence as i64,
        FAILED,
        problem.to_owned(),
        detail.to_owned()
    ];
    let failed = pipeline.add(sql, values).await?;
    match pipeline.run().await?.of(failed).is_empty() {
        false => Ok(()),
        true => Err(StoreError::Fenced.into()),
    }
}
