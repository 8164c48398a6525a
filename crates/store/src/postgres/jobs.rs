//! Aggregation jobs: leasing and committing. `fixing.rs` fixes their report sets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use deadpool_postgres::Client;
use sotto_protocol::leader::aggregate::LeaderOutcome;
use sotto_protocol::{Bucket, Digest, Moment, Rejection, Rejections};
use sotto_wire::{BatchId, ReportId, TaskId, Time};

use super::buckets::{self, Shards};
use super::connect::Failure;
use super::pipeline::{Answers, Pipeline, params};
use super::tasks::{COUNT, scope_of};
use super::values::{Id, array, ordered, tallies};
use super::{Done, Inner, Verdict, lock};
use crate::clock::milliseconds;
use crate::outcome::{aggregated, check_leader};
use crate::{Lease, LeasedJob, REQUEUE_PAUSE, Record, StoreError, TaskJobs, Turn};

/// One report of a stored job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) segment: i64,
    pub(super) index: i32,
    pub(super) bytes: i64,
    pub(super) time: Time,
    pub(super) report_id: ReportId,
}

impl Entry {
    pub(super) const LEN: usize = 8 + 4 + 4 + 8 + ReportId::LEN;

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&(self.bytes as u32).to_le_bytes());
        out.extend_from_slice(&self.time.as_units().to_le_bytes());
        out.extend_from_slice(self.report_id.as_bytes());
    }

    /// All entries of a column.
    pub(super) fn decode_all(column: &[u8]) -> Vec<Self> {
        let long = |bytes: &[u8; Self::LEN], at: usize| {
            bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |x| u64::from_le_bytes(*x))
        };
        let short = |bytes: &[u8; Self::LEN], at: usize| {
            bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |x| u32::from_le_bytes(*x))
        };
        let entries = column.as_chunks::<{ Self::LEN }>().0.iter().map(|bytes| Self {
            segment: long(bytes, 0) as i64,
            index: short(bytes, 8) as i32,
            bytes: i64::from(short(bytes, 12)),
            time: Time::new(long(bytes, 16)),
            report_id: ReportId::new(bytes.last_chunk().copied().unwrap_or_default()),
        });
        entries.collect()
    }
}

/// Tasks that have a job which is free. Each is found by its index alone, whatever others have.
const FREE: &str = "
    WITH RECURSIVE present AS (
        (SELECT task FROM jobs WHERE job >= $2 ORDER BY task LIMIT 1)
        UNION ALL
        SELECT (SELECT task FROM jobs WHERE task > present.task AND job >= $2 ORDER BY task LIMIT 1)
        FROM present WHERE present.task IS NOT NULL
    )
    SELECT tasks.task, tasks.task_id FROM present JOIN tasks USING (task)
    WHERE EXISTS (SELECT FROM jobs WHERE jobs.task = present.task AND job >= $2
                  AND due_ms <= now_ms($1) AND until_ms <= now_ms($1))";

const LEASE: &str = "
    UPDATE jobs SET fence = nextval('fences'), until_ms = now_ms($1) + $3::bigint
    WHERE job = (SELECT job FROM jobs WHERE task = $4 AND job >= $2
                 AND due_ms <= now_ms($1) AND until_ms <= now_ms($1)
                 ORDER BY job LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING job, fence, now, batch_id, digest, reports";

const HELD: &str = "
    SELECT task, batch_id, ids, times, report_count, reports FROM jobs
    WHERE job = $1 AND fence = $2 AND fence <> 0 FOR UPDATE";

/// Frees ids.
pub(super) const RELEASE_IDS: &str = "
    DELETE FROM report_ids USING unnest($2::bigint[], $3::uuid[]) AS freed (scope, id)
    WHERE task = $1 AND report_ids.scope = freed.scope AND report_id = freed.id";

const REQUEUE: &str = "
    INSERT INTO requeued (task, segment, records, times, bytes, due_ms)
    VALUES ($2, $3, $4, $5, $6, now_ms($1) + $7::bigint)";

/// Who may have the next job: the tasks with a free one, in the order of their turns.
pub(super) fn in_turn(mut tasks: Vec<(i64, TaskId)>, turn: &Turn) -> Vec<(i64, TaskId)> {
    tasks.retain(|(_, task_id)| (turn.is_ready)(task_id));
    tasks.sort_by_key(|(_, task_id)| (turn.after.is_some_and(|after| *task_id <= after), *task_id));
    tasks
}

pub(super) async fn lease(
    inner: &Inner,
    client: &Client,
    duration: Duration,
    turn: &Turn,
) -> Verdict<Option<LeasedJob>> {
    let floor = inner.floors.job(client).await?;
    let mut pipeline = Pipeline::new(client);
    let free = pipeline.add(FREE, params![inner.now_ms(), floor]).await?;
    let answers = pipeline.run().await?;
    let mut tasks = Vec::new();
    for row in answers.of(free) {
        tasks.push((row.try_get(0)?, super::tasks::task_id(row.try_get(1)?)?));
    }
    for (task, task_id) in in_turn(tasks, turn) {
        let mut pipeline = Pipeline::new(client);
        let values = params![inner.now_ms(), floor, milliseconds(duration) as i64, task];
        let leased = pipeline.add(LEASE, values).await?;
        let answers = pipeline.run().await?;
        // Another worker may have been faster.
        let Some(row) = answers.of(leased).first() else { continue };
        let (job, fence): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let lease = Lease { job: job as u64, fence: fence as u64 };
        let entries = Entry::decode_all(row.try_get(5)?);
        let Some(records) = records(inner, client, task_id, &entries).await? else {
            if is_held(client, lease).await? {
                tracing::error!(job, "the records of a job cannot be read");
                return Err(Failure::broken("the records of a job are missing".into()));
            }
            // Its task was forgotten meanwhile.
            continue;
        };
        return Ok(Some(LeasedJob {
            lease,
            task_id,
            now: Moment(row.try_get::<_, i64>(2)? as u64),
            batch_id: batch_id(row.try_get(3)?)?,
            records,
            request_digest: row.try_get::<_, Option<&[u8]>>(4)?.map(array).transpose()?,
        }));
    }
    Ok(None)
}

async fn records(
    inner: &Inner,
    client: &Client,
    task_id: TaskId,
    entries: &[Entry],
) -> Verdict<Option<Vec<Record>>> {
    let segments: HashSet<i64> = entries.iter().map(|entry| entry.segment).collect();
    let bodies = inner.bodies(client, &segments).await?;
    let record = |entry: &Entry| {
        let body = bodies.get(&entry.segment)?;
        let record = body.get(usize::try_from(entry.index).ok()?)?;
        Some(Record { task_id, report: record.report.clone() })
    };
    Ok(entries.iter().map(record).collect())
}

async fn is_held(client: &Client, lease: Lease) -> Verdict<bool> {
    let sql = "SELECT FROM jobs WHERE job = $1 AND fence = $2";
    let mut pipeline = Pipeline::new(client);
    let found = pipeline.add(sql, params![lease.job as i64, lease.fence as i64]).await?;
    Ok(!pipeline.run().await?.of(found).is_empty())
}

fn batch_id(stored: Option<&[u8]>) -> Verdict<Option<BatchId>> {
    stored.map(|bytes| Ok(BatchId::new(array(bytes)?))).transpose()
}

/// For both kinds of job: their numbers come from one sequence.
pub(super) async fn mark_sent(client: &Client, lease: Lease, digest: Digest) -> Verdict<()> {
    let sql = |table| {
        format!(
            "UPDATE {table} SET digest = COALESCE(digest, $3) WHERE job = $1 AND fence = $2
             AND fence <> 0 RETURNING digest"
        )
    };
    let mut pipeline = Pipeline::new(client);
    let mut sent = Vec::new();
    for table in ["jobs", "collections"] {
        let values = params![lease.job as i64, lease.fence as i64, digest.to_vec()];
        sent.push(pipeline.add(&sql(table), values).await?);
    }
    let answers = pipeline.run().await?;
    match sent.iter().flat_map(|sent| answers.of(*sent)).next() {
        Some(row) if row.try_get::<_, &[u8]>(0)? == digest => Ok(()),
        Some(_) => Err(StoreError::RequestDiffers.into()),
        None => Err(StoreError::Fenced.into()),
    }
}

/// For both kinds of job.
pub(super) async fn release(
    inner: &Inner,
    client: &Client,
    lease: Lease,
    pause: Duration,
) -> Verdict<()> {
    let sql = |table| {
        format!(
            "UPDATE {table} SET fence = 0, until_ms = 0, due_ms = now_ms($1) + $4::bigint
             WHERE job = $2 AND fence = $3 AND fence <> 0 RETURNING 1"
        )
    };
    let mut pipeline = Pipeline::new(client);
    let mut sent = Vec::new();
    for table in ["jobs", "collections"] {
        let pause = i64::try_from(milliseconds(pause)).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let values = params![inner.now_ms(), lease.job as i64, lease.fence as i64, pause];
        sent.push(pipeline.add(&sql(table), values).await?);
    }
    let answers = pipeline.run().await?;
    match sent.iter().any(|sent| !answers.of(*sent).is_empty()) {
        true => Ok(()),
        false => Err(StoreError::Fenced.into()),
    }
}

pub(super) async fn commit(
    inner: &Inner,
    client: &Client,
    lease: Lease,
    outcome: &LeaderOutcome,
) -> Verdict<Done<()>> {
    let shard = inner.shard();
    let mut pipeline = Pipeline::begin(client);
    let held = pipeline.add(HELD, params![lease.job as i64, lease.fence as i64]).await?;
    let keys: Vec<Vec<u8>> = outcome.buckets.keys().map(values_key).collect();
    let sql = buckets::LOCK_OF_JOB;
    let shards = pipeline.add(sql, params![lease.job as i64, keys.clone(), shard]).await?;
    let sql = buckets::SHAPES_OF_JOB;
    let shapes = pipeline.add(sql, params![lease.job as i64, keys]).await?;
    let answers = pipeline.run().await?;
    let Some(row) = answers.of(held).first() else {
        return Err(StoreError::Fenced.into());
    };
    let (task, ids): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
    let batch_id = batch_id(row.try_get(1)?)?;
    let times: Vec<i64> = row.try_get(3)?;
    let count: i32 = row.try_get(4)?;
    let entries = Entry::decode_all(row.try_get(5)?);
    let is_ours = |bucket: &Bucket| match bucket {
        Bucket::Time(time) => times.contains(&ordered(time.as_units())),
        Bucket::Batch(id) => batch_id.as_ref() == Some(id),
    };
    check_leader(outcome, count as u64, is_ours)?;
    let mut pipeline = Pipeline::new(client);
    let shards = Shards::read(answers.of(shards), answers.of(shapes))?;
    shards.add(&mut pipeline, task, shard, &outcome.buckets).await?;
    let (reasons, counts) = tallies(aggregated(&outcome.buckets), &outcome.rejections);
    if !reasons.is_empty() {
        pipeline.add(COUNT, params![task, shard, reasons, counts]).await?;
    }
    let requeued = requeue(inner, &mut pipeline, task, batch_id, &entries, outcome).await?;
    let freed: Vec<&Entry> =
        outcome.requeue.iter().chain(&outcome.unspent).filter_map(|i| entries.get(*i)).collect();
    if !freed.is_empty() {
        let bucket = |entry: &Entry| batch_id.map_or(Bucket::Time(entry.time), Bucket::Batch);
        let (scopes, freed): (Vec<i64>, Vec<Id>) = freed
            .into_iter()
            .map(|entry| (scope_of(ids, &bucket(entry)), Id::from(&entry.report_id)))
            .unzip();
        pipeline.add(RELEASE_IDS, params![ids, scopes, freed]).await?;
    }
    end(inner, pipeline, lease, &entries, &requeued).await
}

fn values_key(bucket: &Bucket) -> Vec<u8> {
    super::values::bucket_key(bucket)
}

/// Sets the reports aside that are to be retried. Returns how many there are of each segment.
async fn requeue(
    inner: &Inner,
    pipeline: &mut Pipeline<'_>,
    task: i64,
    batch_id: Option<BatchId>,
    entries: &[Entry],
    outcome: &LeaderOutcome,
) -> Verdict<HashMap<i64, i32>> {
    let mut rows: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    let mut indices = outcome.requeue.clone();
    indices.sort_unstable();
    for entry in indices.iter().filter_map(|index| entries.get(*index)) {
        rows.entry(entry.segment).or_default().push(entry);
    }
    let mut requeued = HashMap::new();
    for (segment, entries) in rows {
        let indices: Vec<i32> = entries.iter().map(|entry| entry.index).collect();
        let times: Option<Vec<i64>> = batch_id
            .is_none()
            .then(|| entries.iter().map(|entry| ordered(entry.time.as_units())).collect());
        let bytes: i64 = entries.iter().map(|entry| entry.bytes).sum();
        let pause = milliseconds(REQUEUE_PAUSE) as i64;
        requeued.insert(segment, indices.len() as i32);
        let values = params![inner.now_ms(), task, segment, indices, times, bytes, pause];
        pipeline.add(REQUEUE, values).await?;
    }
    Ok(requeued)
}

pub(super) async fn abandon(inner: &Inner, client: &Client, lease: Lease) -> Verdict<Done<()>> {
    let mut pipeline = Pipeline::begin(client);
    let held = pipeline.add(HELD, params![lease.job as i64, lease.fence as i64]).await?;
    let answers = pipeline.run().await?;
    let Some(row) = answers.of(held).first() else { return Err(StoreError::Fenced.into()) };
    let task: i64 = row.try_get(0)?;
    let entries = Entry::decode_all(row.try_get(5)?);
    let mut rejections = Rejections::default();
    rejections.add_many(Rejection::JobAbandoned, entries.len() as u64);
    let (reasons, counts) = tallies(0, &rejections);
    let mut pipeline = Pipeline::new(client);
    pipeline.add(COUNT, params![task, inner.shard(), reasons, counts]).await?;
    end(inner, pipeline, lease, &entries, &HashMap::new()).await
}

/// Deletes a job, and drops its records but for those that were requeued.
async fn end(
    inner: &Inner,
    mut pipeline: Pipeline<'_>,
    lease: Lease,
    entries: &[Entry],
    requeued: &HashMap<i64, i32>,
) -> Verdict<Done<()>> {
    pipeline.add("DELETE FROM jobs WHERE job = $1", params![lease.job as i64]).await?;
    let mut dead: HashMap<i64, i32> = HashMap::new();
    for entry in entries {
        *dead.entry(entry.segment).or_default() += 1;
    }
    for (segment, count) in requeued {
        *dead.entry(*segment).or_default() -= count;
    }
    let deleted = drop_records(&mut pipeline, dead).await?;
    inner.forget_bodies(&pipeline.commit().await?, deleted)?;
    Ok(Done::Committed(()))
}

/// Counts records as dead. A segment without others is deleted, and with it the key of its body.
/// Returns the statement that returns the segments deleted.
pub(super) async fn drop_records(
    pipeline: &mut Pipeline<'_>,
    dead: HashMap<i64, i32>,
) -> Verdict<Option<usize>> {
    let mut dead: Vec<(i64, i32)> = dead.into_iter().filter(|(_, count)| *count != 0).collect();
    if dead.is_empty() {
        return Ok(None);
    }
    // Everybody locks in the same order.
    dead.sort_unstable();
    let (segments, counts): (Vec<i64>, Vec<i32>) = dead.into_iter().unzip();
    let sql = "SELECT FROM segments WHERE segment = ANY($1) ORDER BY segment FOR UPDATE";
    pipeline.add(sql, params![segments.clone()]).await?;
    let sql =
        "DELETE FROM segments USING unnest($1::bigint[], $2::integer[]) AS dead (segment, count)
               WHERE segments.segment = dead.segment AND live = dead.count
               RETURNING segments.segment";
    let deleted = pipeline.add(sql, params![segments.clone(), counts.clone()]).await?;
    let sql = "UPDATE segments SET live = live - dead.count
               FROM unnest($1::bigint[], $2::integer[]) AS dead (segment, count)
               WHERE segments.segment = dead.segment";
    pipeline.add(sql, params![segments, counts]).await?;
    Ok(Some(deleted))
}

impl Inner {
    /// Forgets the bodies of segments that a committed transaction deleted.
    pub(super) fn forget_bodies(&self, answers: &Answers, deleted: Option<usize>) -> Verdict<()> {
        let mut cache = lock(&self.cache);
        for row in deleted.into_iter().flat_map(|deleted| answers.of(deleted)) {
            cache.remove(row.try_get(0)?);
        }
        Ok(())
    }
}

pub(super) async fn by_task(client: &Client) -> Verdict<HashMap<TaskId, TaskJobs>> {
    let sql =
        "SELECT task_id, count(*), sum(report_count)::bigint FROM jobs JOIN tasks USING (task)
               GROUP BY task_id";
    let mut pipeline = Pipeline::new(client);
    let found = pipeline.add(sql, Vec::new()).await?;
    let answers = pipeline.run().await?;
    let mut tasks = HashMap::new();
    for row in answers.of(found) {
        let (jobs, reports): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let jobs = TaskJobs { jobs: jobs as u64, reports: reports as u64 };
        tasks.insert(super::tasks::task_id(row.try_get(0)?)?, jobs);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let entries: Vec<Entry> = (0..3)
            .map(|n| Entry {
                segment: i64::MAX - n,
                index: i32::MAX - n as i32,
                bytes: i64::from(u32::MAX) - n,
                time: Time::new(u64::MAX - n as u64),
                report_id: ReportId::new([n as u8; 16]),
            })
            .collect();
        let mut column = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut column));
        assert_eq!(column.len(), 3 * Entry::LEN);
        assert_eq!(Entry::decode_all(&column), entries);
    }
}
