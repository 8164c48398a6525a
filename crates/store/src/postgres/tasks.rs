//! Tasks, their counters, their report ids, and what is closed in them.

use std::collections::HashMap;

use deadpool_postgres::Client;
use sotto_protocol::{Bucket, Rejections, ReplayScope};
use sotto_wire::TaskId;
use tokio_postgres::Row;

use super::pipeline::{Pipeline, params};
use super::values::{self, AGGREGATED, ordered};
use super::{Done, Inner, Verdict, lock, receipts};
use crate::{Counters, StoredTask};

/// Makes the tasks with these ids that there are not.
pub(super) const ENSURE: &str = "
    INSERT INTO tasks (task_id) SELECT id FROM unnest($1::bytea[]) AS new (id)
    WHERE NOT EXISTS (SELECT FROM tasks WHERE task_id = id)
    ORDER BY id ON CONFLICT DO NOTHING";

/// Adds to counters of a task: reasons and numbers.
pub(super) const COUNT: &str = "
    INSERT INTO counters SELECT $1::bigint, $2::smallint, reason, count
    FROM unnest($3::smallint[], $4::bigint[]) AS new (reason, count)
    ON CONFLICT (task, shard, reason) DO UPDATE SET count = counters.count + excluded.count";

pub(super) fn task_id(bytes: &[u8]) -> Verdict<TaskId> {
    Ok(TaskId::new(values::array(bytes)?))
}

/// Among which ids those of a task's reports must be new, as the table of ids has it: negative if
/// all timestamps count together.
pub(super) fn ids_of(task: i64, scope: ReplayScope) -> i64 {
    if scope == ReplayScope::Bucket { task } else { -task }
}

/// Within these ids, the scope of one.
pub(super) fn scope_of(ids: i64, bucket: &Bucket) -> i64 {
    match bucket {
        Bucket::Time(time) if ids > 0 => ordered(time.as_units()),
        _ => 0,
    }
}

/// The task whose ids count: the series, if the scope is one.
pub(super) fn holder(task_id: TaskId, scope: ReplayScope) -> TaskId {
    match scope {
        ReplayScope::Series(series) => series,
        _ => task_id,
    }
}

impl Inner {
    /// The number of a task, which is made if there is none. It may be that of a task that was
    /// forgotten meanwhile: whoever writes checks it.
    pub(super) async fn number(&self, client: &Client, task_id: TaskId) -> Verdict<i64> {
        if let Some(number) = lock(&self.numbers).get(&task_id) {
            return Ok(*number);
        }
        let mut pipeline = Pipeline::new(client);
        let ids = vec![task_id.as_bytes().to_vec()];
        pipeline.add(ENSURE, params![ids]).await?;
        let sql = "SELECT task FROM tasks WHERE task_id = $1";
        let found = pipeline.add(sql, params![task_id.as_bytes().to_vec()]).await?;
        let answers = pipeline.run().await?;
        let row = answers.of(found).first().ok_or(super::connect::Failure::Stale)?;
        let number = row.try_get(0)?;
        lock(&self.numbers).insert(task_id, number);
        Ok(number)
    }

    /// Called when the number of a task turns out to be out of date.
    pub(super) fn forget_number(&self, task_id: &TaskId) {
        lock(&self.numbers).remove(task_id);
    }
}

pub(super) async fn put(client: &Client, task_id: TaskId, task: &StoredTask) -> Verdict<Done<()>> {
    let id = task_id.as_bytes().to_vec();
    let (configuration, recipe, audience) = match task.clone() {
        StoredTask::Announced(configuration) => (Some(configuration), None, None),
        StoredTask::Recipe { json, audience } => (None, Some(json), audience.map(|n| n as i64)),
    };
    let mut pipeline = Pipeline::begin(client);
    pipeline.add(ENSURE, params![vec![id.clone()]]).await?;
    let sql = "UPDATE tasks SET configuration = $2, recipe = $3, audience = $4 WHERE task_id = $1
               AND (configuration, recipe, audience) IS DISTINCT FROM ($2, $3, $4)";
    pipeline.add(sql, params![id, configuration, recipe, audience]).await?;
    pipeline.commit().await?;
    Ok(Done::Committed(()))
}

pub(super) fn stored(row: &Row) -> Verdict<(TaskId, StoredTask)> {
    let stored = match row.try_get::<_, Option<Vec<u8>>>(1)? {
        Some(configuration) => StoredTask::Announced(configuration),
        None => {
            let audience = row.try_get::<_, Option<i64>>(3)?.map(|audience| audience as u64);
            StoredTask::Recipe { json: row.try_get(2)?, audience }
        }
    };
    Ok((task_id(row.try_get(0)?)?, stored))
}

pub(super) const STORED: &str = "SELECT task_id, configuration, recipe, audience FROM tasks
    WHERE configuration IS NOT NULL OR recipe IS NOT NULL ORDER BY task";

/// Tables whose rows go at once with their task. Ids follow bit by bit.
const OF_TASK: [&str; 8] = [
    "DELETE FROM counters WHERE task = $1",
    "DELETE FROM buckets WHERE task = $1",
    "DELETE FROM ranges WHERE task = $1",
    "DELETE FROM batches WHERE task = $1",
    "DELETE FROM collections WHERE task = $1",
    "DELETE FROM ordinals WHERE task = $1",
    "DELETE FROM responses WHERE task = $1",
    "INSERT INTO purges (task, first, last) SELECT sign * $1::bigint, -9223372036854775808, 9223372036854775807
     FROM (VALUES (1), (-1)) AS signs (sign)",
];

/// What jobs and records set aside need of segments goes with them.
const DROP_JOBS: &str = "
    WITH gone AS (DELETE FROM jobs WHERE task = $1 RETURNING reports)
    SELECT reports FROM gone";
const DROP_REQUEUED: &str = "
    WITH gone AS (DELETE FROM requeued WHERE task = $1 RETURNING segment, cardinality(records) AS n)
    SELECT segment, sum(n)::integer FROM gone GROUP BY segment";

pub(super) async fn forget(inner: &Inner, client: &Client, task_id: TaskId) -> Verdict<Done<()>> {
    let id = task_id.as_bytes().to_vec();
    let mut pipeline = Pipeline::begin(client);
    let sql = "INSERT INTO tombstones VALUES ($1) ON CONFLICT DO NOTHING";
    pipeline.add(sql, params![id.clone()]).await?;
    let sql = "DELETE FROM tasks WHERE task_id = $1 RETURNING task";
    let gone = pipeline.add(sql, params![id.clone()]).await?;
    pipeline.add(receipts::FORGET_SENT, params![id]).await?;
    let answers = pipeline.run().await?;
    inner.forget_number(&task_id);
    let Some(row) = answers.of(gone).first() else {
        Pipeline::new(client).commit().await?;
        return Ok(Done::Committed(()));
    };
    let task: i64 = row.try_get(0)?;
    let mut pipeline = Pipeline::new(client);
    let jobs = pipeline.add(DROP_JOBS, params![task]).await?;
    let requeued = pipeline.add(DROP_REQUEUED, params![task]).await?;
    for sql in OF_TASK {
        pipeline.add(sql, params![task]).await?;
    }
    let answers = pipeline.run().await?;
    let mut dead: HashMap<i64, i32> = HashMap::new();
    for row in answers.of(jobs) {
        for entry in super::jobs::Entry::decode_all(row.try_get(0)?) {
            *dead.entry(entry.segment).or_default() += 1;
        }
    }
    for row in answers.of(requeued) {
        *dead.entry(row.try_get(0)?).or_default() += row.try_get::<_, i32>(1)?;
    }
    let mut pipeline = Pipeline::new(client);
    let deleted = super::jobs::drop_records(&mut pipeline, dead).await?;
    inner.forget_bodies(&pipeline.commit().await?, deleted)?;
    Ok(Done::Committed(()))
}

pub(super) async fn counters(client: &Client, task_id: TaskId) -> Verdict<Counters> {
    let mut pipeline = Pipeline::new(client);
    let sql = "SELECT reason, sum(count)::bigint FROM counters JOIN tasks USING (task)
               WHERE task_id = $1 GROUP BY reason";
    let found = pipeline.add(sql, params![task_id.as_bytes().to_vec()]).await?;
    let answers = pipeline.run().await?;
    let mut counters = Counters { aggregated: 0, rejections: Rejections::default() };
    for row in answers.of(found) {
        let (code, count) = (row.try_get::<_, i16>(0)?, row.try_get::<_, i64>(1)? as u64);
        match code {
            AGGREGATED => counters.aggregated = count,
            code => counters.rejections.add_many(values::reason(code)?, count),
        }
    }
    Ok(counters)
}
