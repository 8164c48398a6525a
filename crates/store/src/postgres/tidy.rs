//! What is done now and then: bodies and ids that nobody needs are deleted, and numbers below which
//! nothing lives are learned.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use deadpool_postgres::Client;
use tokio_postgres::error::SqlState;

use super::pipeline::{Pipeline, params};
use super::segments::{PLACES, in_each_place};
use super::{Inner, Verdict, lock};

/// How often a process looks.
const EVERY: Duration = Duration::from_secs(2);

/// How many ids one transaction deletes.
const PURGE_STEP: i64 = 4_096;

/// Runs until the store is gone.
pub(super) async fn run(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(failure) = tidy(&inner).await {
            tracing::warn!(reason = %failure, "the store could not be tidied; will retry");
        }
    }
}

pub(super) async fn tidy(inner: &Inner) -> Verdict<()> {
    let client = inner.client().await?;
    empty_bodies(&client).await?;
    while purge_step(&client).await? {}
    Ok(())
}

/// Whether a table of bodies has rows, and whether any is needed.
const ARE_DEAD: [&str; PLACES] = in_each_place!(
    "SELECT EXISTS (SELECT FROM ",
    ") AND NOT EXISTS (SELECT FROM segments WHERE place = $1)"
);
const EMPTY: [&str; PLACES] = in_each_place!("TRUNCATE ", "");
/// Nobody waits for anybody: whoever reads or writes the table now is not disturbed.
const LOCK: [&str; PLACES] =
    in_each_place!("BEGIN; LOCK TABLE ", " IN ACCESS EXCLUSIVE MODE NOWAIT");

/// Empties the tables of bodies without live segments.
async fn empty_bodies(client: &Client) -> Verdict<()> {
    for (place, ((dead, lock), empty)) in (0_i16..).zip(ARE_DEAD.iter().zip(LOCK).zip(EMPTY)) {
        if !are_dead(client, dead, place).await? {
            continue;
        }
        let locked = client.batch_execute(lock).await;
        let emptied = match &locked {
            // Under the lock nobody is adding a segment.
            Ok(()) if are_dead(client, dead, place).await? => client.batch_execute(empty).await,
            _ => Ok(()),
        };
        client
            .batch_execute(if emptied.is_ok() && locked.is_ok() { "COMMIT" } else { "ROLLBACK" })
            .await?;
        emptied?;
        match locked {
            Err(error) if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(())
}

async fn are_dead(client: &Client, sql: &str, place: i16) -> Verdict<bool> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query_one(&statement, &[&place]).await?.try_get(0)?)
}

/// Deletes some ids that are no longer needed. Returns whether there are more.
async fn purge_step(client: &Client) -> Verdict<bool> {
    let sql = "
        WITH next AS (
            SELECT purge, task, first, last FROM purges ORDER BY purge LIMIT 1
            FOR UPDATE SKIP LOCKED
        ), chosen AS (
            SELECT report_ids.task, scope, report_id FROM report_ids, next
            WHERE report_ids.task = next.task AND scope BETWEEN first AND last LIMIT $1
        ), gone AS (
            DELETE FROM report_ids USING chosen
            WHERE report_ids.task = chosen.task AND report_ids.scope = chosen.scope
            AND report_ids.report_id = chosen.report_id RETURNING 1
        ), done AS (
            DELETE FROM purges USING next WHERE purges.purge = next.purge
            AND (SELECT count(*) FROM chosen) < $1
        )
        SELECT EXISTS (SELECT FROM next), (SELECT count(*) FROM gone)";
    let mut pipeline = Pipeline::new(client);
    let purged = pipeline.add(sql, params![PURGE_STEP]).await?;
    let answers = pipeline.run().await?;
    Ok(answers.of(purged).first().map_or(Ok(false), |row| row.try_get(0))?)
}

/// Numbers below which no segment and no job lives. Rows that were deleted stay in the indices as
/// long as anybody holds an old snapshot; searches begin behind them.
///
/// A transaction that began earlier may still commit a number below the smallest one that lives. So a
/// floor is well below it, is used only for a while, and is then found again from the beginning.
#[derive(Default)]
pub(super) struct Floors {
    segment: Floor,
    job: Floor,
}

#[derive(Default)]
struct Floor {
    number: AtomicI64,
    found: Mutex<Option<Instant>>,
}

/// How far below the smallest number that lives the floor is: more than all processes together have
/// in flight.
const BELOW: i64 = 4_096;

/// How long a floor is used.
const USED: Duration = Duration::from_secs(30);

impl Floors {
    pub(super) async fn segment(&self, client: &Client) -> Verdict<i64> {
        let sql = "SELECT COALESCE((SELECT segment FROM segments ORDER BY segment LIMIT 1), 0)";
        self.segment.find(client, sql).await
    }

    pub(super) async fn job(&self, client: &Client) -> Verdict<i64> {
        let sql = "SELECT COALESCE((SELECT job FROM jobs ORDER BY job LIMIT 1), 0)";
        self.job.find(client, sql).await
    }
}

impl Floor {
    async fn find(&self, client: &Client, sql: &str) -> Verdict<i64> {
        if lock(&self.found).is_none_or(|found| found.elapsed() > USED) {
            let statement = client.prepare_cached(sql).await?;
            let number: i64 = client.query_one(&statement, &[]).await?.try_get(0)?;
            self.number.store(number.saturating_sub(BELOW), Ordering::Relaxed);
            *lock(&self.found) = Some(Instant::now());
        }
        Ok(self.number.load(Ordering::Relaxed))
    }
}
