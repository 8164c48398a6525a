//! The helper's commits, and what it looks up before them.

use std::collections::HashSet;

use deadpool_postgres::Client;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::{Bucket, Digest, Rejection, ReplayScope};
use sotto_wire::{BatchSelector, ReportId, ReportIdChecksum, TaskId};
use tokio_postgres::Row;

use super::buckets::{self, Shards};
use super::connect::Failure;
use super::pipeline::{Pipeline, params};
use super::tasks::{COUNT, holder, ids_of, scope_of};
use super::values::{Id, bucket_key, bucket_keys, ordered, tallies};
use super::{Done, Inner, Verdict, receipts};
use crate::outcome::{aggregated, check_helper};
use crate::{Batch, Committed, Release};

const RESPONSE: &str = "SELECT body FROM responses WHERE task = $1 AND digest = $2";

/// Which of these buckets are collected.
const COLLECTED: &str = "
    SELECT time FROM unnest($2::bigint[]) AS times (time)
    WHERE EXISTS (SELECT FROM ranges WHERE task = $1 AND is_collected
                  AND first <= time AND last >= time)";
const COLLECTED_BATCHES: &str = "
    SELECT batch_id FROM batches WHERE task = $1 AND batch_id = ANY($2) AND state = 2";

const TAKE_IDS: &str = "
    WITH new AS (
        INSERT INTO report_ids
        SELECT $1::bigint, scope, id FROM unnest($2::bigint[], $3::uuid[]) AS given (scope, id)
        ORDER BY scope, id ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) FROM new";

pub(super) async fn response(
    client: &Client,
    task_id: TaskId,
    digest: Digest,
) -> Verdict<Option<Vec<u8>>> {
    let sql = "SELECT body FROM responses JOIN tasks USING (task)
               WHERE task_id = $1 AND digest = $2";
    let mut pipeline = Pipeline::new(client);
    let values = params![task_id.as_bytes().to_vec(), digest.to_vec()];
    let found = pipeline.add(sql, values).await?;
    let answers = pipeline.run().await?;
    Ok(answers.of(found).first().map(|row| row.try_get(0)).transpose()?)
}

/// Buckets of either kind that a statement looks for.
async fn find_collected(
    pipeline: &mut Pipeline<'_>,
    task: i64,
    wanted: impl Iterator<Item = &Bucket> + Clone,
) -> Verdict<[usize; 2]> {
    let times = wanted.clone().filter_map(|bucket| match bucket {
        Bucket::Time(time) => Some(ordered(time.as_units())),
        Bucket::Batch(_) => None,
    });
    let batches = wanted.filter_map(|bucket| match bucket {
        Bucket::Batch(batch_id) => Some(batch_id.as_bytes().to_vec()),
        Bucket::Time(_) => None,
    });
    let (times, batches): (HashSet<i64>, HashSet<Vec<u8>>) = (times.collect(), batches.collect());
    let times: Vec<i64> = times.into_iter().collect();
    let batches: Vec<Vec<u8>> = batches.into_iter().collect();
    Ok([
        pipeline.add(COLLECTED, params![task, times]).await?,
        pipeline.add(COLLECTED_BATCHES, params![task, batches]).await?,
    ])
}

pub(super) async fn spent_reports(
    client: &Client,
    task_id: TaskId,
    scope: ReplayScope,
    reports: &[(Bucket, ReportId)],
) -> Verdict<Vec<Option<Rejection>>> {
    let holder = holder(task_id, scope);
    let mut pipeline = Pipeline::new(client);
    let sql = "SELECT task_id = $1, task FROM tasks WHERE task_id = $1 OR task_id = $2";
    let values = params![task_id.as_bytes().to_vec(), holder.as_bytes().to_vec()];
    let found = pipeline.add(sql, values).await?;
    let answers = pipeline.run().await?;
    // 0 is no task's number.
    let (mut task, mut of_holder) = (0_i64, 0_i64);
    for row in answers.of(found) {
        let number: i64 = row.try_get(1)?;
        let is_task: bool = row.try_get(0)?;
        if is_task {
            task = number;
        }
        if !is_task || holder == task_id {
            of_holder = number;
        }
    }
    let ids = ids_of(of_holder, scope);
    let (scopes, wanted): (Vec<i64>, Vec<Id>) =
        reports.iter().map(|(bucket, id)| (scope_of(ids, bucket), Id::from(id))).unzip();
    let mut pipeline = Pipeline::new(client);
    let collected = find_collected(&mut pipeline, task, reports.iter().map(|(b, _)| b)).await?;
    let sql = "SELECT scope, report_id FROM unnest($2::bigint[], $3::uuid[]) AS given (s, id)
               JOIN report_ids ON task = $1 AND scope = s AND report_id = id";
    let spent = pipeline.add(sql, params![ids, scopes, wanted]).await?;
    let answers = pipeline.run().await?;
    let times: HashSet<i64> = set(answers.of(collected[0]))?;
    let batches: HashSet<Vec<u8>> = set(answers.of(collected[1]))?;
    let mut taken = HashSet::new();
    for row in answers.of(spent) {
        taken.insert((row.try_get::<_, i64>(0)?, row.try_get::<_, Id>(1)?));
    }
    let verdict = |(bucket, id): &(Bucket, ReportId)| {
        let is_collected = match bucket {
            Bucket::Time(time) => times.contains(&ordered(time.as_units())),
            Bucket::Batch(batch_id) => batches.contains(&batch_id.as_bytes()[..]),
        };
        match is_collected {
            true => Some(Rejection::BatchCollected),
            false => taken
                .contains(&(scope_of(ids, bucket), Id::from(id)))
                .then_some(Rejection::ReportReplayed),
        }
    };
    Ok(reports.iter().map(verdict).collect())
}

fn set<'a, T>(rows: &'a [Row]) -> Verdict<HashSet<T>>
where
    T: tokio_postgres::types::FromSql<'a> + Eq + std::hash::Hash,
{
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

pub(super) async fn commit(
    inner: &Inner,
    client: &Client,
    task_id: TaskId,
    digest: Digest,
    outcome: &HelperOutcome,
) -> Verdict<Done<Committed>> {
    check_helper(outcome)?;
    let task = inner.number(client, task_id).await?;
    let holder_id = holder(task_id, outcome.scope);
    let of_holder = inner.number(client, holder_id).await?;
    let ids = ids_of(of_holder, outcome.scope);
    let shard = inner.shard();
    let (scopes, reports): (Vec<i64>, Vec<Id>) =
        outcome.reports.iter().map(|(b, id)| (scope_of(ids, b), Id::from(id))).unzip();
    let keys: Vec<Vec<u8>> = outcome.buckets.keys().map(bucket_key).collect();
    let mut pipeline = Pipeline::begin(client);
    // Nobody collects a batch of the task, or forgets it, before this commit.
    let sql = "SELECT task FROM tasks WHERE task = ANY($1) ORDER BY task FOR SHARE";
    let alive = pipeline.add(sql, params![vec![task, of_holder]]).await?;
    let known = pipeline.add(RESPONSE, params![task, digest.to_vec()]).await?;
    let collected = find_collected(&mut pipeline, task, outcome.buckets.keys()).await?;
    let taken = pipeline.add(TAKE_IDS, params![ids, scopes, reports]).await?;
    let shards = pipeline.add(buckets::LOCK, params![task, keys.clone(), shard]).await?;
    let shapes = pipeline.add(buckets::SHAPES, params![task, keys.clone()]).await?;
    let answers = pipeline.run().await?;
    if answers.of(alive).len() < if task == of_holder { 1 } else { 2 } {
        inner.forget_number(&task_id);
        inner.forget_number(&holder_id);
        return Err(Failure::Stale);
    }
    if let Some(row) = answers.of(known).first() {
        return Ok(Done::Nothing(Committed::Already(row.try_get(0)?)));
    }
    let is_collected = collected.iter().any(|sent| !answers.of(*sent).is_empty());
    let new: i64 = answers.of(taken).first().map_or(Ok(0), |row| row.try_get(0))?;
    if is_collected || new != outcome.reports.len() as i64 {
        // The same request may have been committed while this one waited for the ids.
        let mut pipeline = Pipeline::new(client);
        let known = pipeline.add(RESPONSE, params![task, digest.to_vec()]).await?;
        let answers = pipeline.run().await?;
        return Ok(Done::Nothing(match answers.of(known).first() {
            Some(row) => Committed::Already(row.try_get(0)?),
            None => Committed::Conflict,
        }));
    }
    let shards = Shards::read(answers.of(shards), answers.of(shapes))?;
    let mut pipeline = Pipeline::new(client);
    shards.add(&mut pipeline, task, shard, &outcome.buckets).await?;
    let (reasons, counts) = tallies(aggregated(&outcome.buckets), &outcome.rejections);
    if !reasons.is_empty() {
        pipeline.add(COUNT, params![task, shard, reasons, counts]).await?;
    }
    let sql = "INSERT INTO responses VALUES ($1, $2, $3, $4)";
    let values = params![task, digest.to_vec(), keys, outcome.response.clone()];
    pipeline.add(sql, values).await?;
    pipeline.commit().await?;
    Ok(Done::Committed(Committed::Done))
}

pub(super) async fn forget_response(
    client: &Client,
    task_id: TaskId,
    digest: Digest,
) -> Verdict<()> {
    let sql = "DELETE FROM responses USING tasks WHERE responses.task = tasks.task
               AND task_id = $1 AND digest = $2";
    let mut pipeline = Pipeline::new(client);
    pipeline.add(sql, params![task_id.as_bytes().to_vec(), digest.to_vec()]).await?;
    pipeline.run().await.map(drop)
}

pub(super) async fn batch(
    client: &Client,
    task_id: TaskId,
    selector: &BatchSelector,
) -> Verdict<Batch> {
    let (first, last) = bucket_keys(selector);
    let id = task_id.as_bytes().to_vec();
    let mut pipeline = Pipeline::new(client);
    let sql = "SELECT count, checksum, buckets.first, buckets.last, share FROM buckets
               JOIN tasks USING (task) WHERE task_id = $1 AND bucket BETWEEN $2 AND $3";
    let rows = pipeline.add(sql, params![id.clone(), first, last]).await?;
    let collected = match selector {
        BatchSelector::TimeInterval(interval) => {
            let (first, last) = super::values::span(*interval);
            let sql = "SELECT FROM ranges JOIN tasks USING (task) WHERE task_id = $1
                       AND is_collected AND first <= $3 AND last >= $2 LIMIT 1";
            pipeline.add(sql, params![id, first, last]).await?
        }
        BatchSelector::LeaderSelected(batch_id) => {
            let sql = "SELECT FROM batches JOIN tasks USING (task) WHERE task_id = $1
                       AND batch_id = $2 AND state = 2";
            pipeline.add(sql, params![id, batch_id.as_bytes().to_vec()]).await?
        }
    };
    let answers = pipeline.run().await?;
    Ok(Batch {
        aggregate: buckets::merge(answers.of(rows))?,
        collected: !answers.of(collected).is_empty(),
    })
}

/// What a helper is asked to release.
pub(super) struct Collecting {
    pub(super) task_id: TaskId,
    pub(super) selector: BatchSelector,
    pub(super) expected: (u64, [u8; 32]),
    pub(super) digest: Digest,
    pub(super) release: Release,
}

pub(super) async fn collect(
    inner: &Inner,
    client: &Client,
    asked: &Collecting,
) -> Verdict<Done<Committed>> {
    let Collecting { task_id, selector, expected, digest, release } = asked;
    let task = inner.number(client, *task_id).await?;
    let mut pipeline = Pipeline::begin(client);
    let sql = "UPDATE tasks SET closings = closings + 1 WHERE task = $1 RETURNING 1";
    let alive = pipeline.add(sql, params![task]).await?;
    let known = pipeline.add(RESPONSE, params![task, digest.to_vec()]).await?;
    let rows = buckets::load(&mut pipeline, task, selector).await?;
    let collected = buckets::find_collected(&mut pipeline, task, selector).await?;
    let answers = pipeline.run().await?;
    if answers.of(alive).is_empty() {
        inner.forget_number(task_id);
        return Err(Failure::Stale);
    }
    if let Some(row) = answers.of(known).first() {
        return Ok(Done::Nothing(Committed::Already(row.try_get(0)?)));
    }
    let held = buckets::merge(answers.of(rows))?
        .map_or((0, ReportIdChecksum::default()), |batch| (batch.count, batch.checksum));
    if !answers.of(collected).is_empty() || (held.0, *held.1.as_bytes()) != *expected {
        return Ok(Done::Nothing(Committed::Conflict));
    }
    let mut pipeline = Pipeline::new(client);
    // The leader asks for a batch only after it has committed each of its jobs, so it never asks
    // for these responses again.
    let (first, last) = bucket_keys(selector);
    let sql = "DELETE FROM responses WHERE task = $1 AND EXISTS
               (SELECT FROM unnest(buckets) AS names (name) WHERE name BETWEEN $2 AND $3)";
    pipeline.add(sql, params![task, first, last]).await?;
    buckets::collect(&mut pipeline, task, selector).await?;
    let sql = "INSERT INTO responses VALUES ($1, $2, '{}', $3)";
    pipeline.add(sql, params![task, digest.to_vec(), release.response.clone()]).await?;
    if let Some(released) = &release.receipt {
        receipts::owe(&mut pipeline, task_id, released).await?;
    }
    pipeline.commit().await?;
    Ok(Done::Committed(Committed::Done))
}
