//! Batch buckets: shares, counts and checksums, each in several rows, so that those who add to a
//! bucket rarely wait for each other. They are merged when the batch is read.

use std::collections::HashMap;

use sotto_protocol::{BucketAggregate, BucketAggregates};
use sotto_vdaf::AggregateShare;
use sotto_wire::{BatchSelector, ReportIdChecksum, Time};
use tokio_postgres::Row;

use super::Verdict;
use super::connect::Failure;
use super::pipeline::{Pipeline, params};
use super::values::{array, bucket_key, bucket_keys, ordered, span, unordered};

/// The rows of one shard, locked, for the task with a number.
pub(super) const LOCK: &str = "
    SELECT count, checksum, first, last, share, bucket FROM buckets
    WHERE task = $1 AND bucket = ANY($2) AND shard = $3 ORDER BY bucket FOR UPDATE";

/// The same, for the task of a job.
pub(super) const LOCK_OF_JOB: &str = "
    SELECT count, checksum, first, last, share, bucket FROM buckets
    WHERE task = (SELECT task FROM jobs WHERE job = $1) AND bucket = ANY($2) AND shard = $3
    ORDER BY bucket FOR UPDATE";

/// The tag and the length of the shares that a bucket has: all of them must fit together.
pub(super) const SHAPES: &str = "
    SELECT DISTINCT bucket, substr(share, 1, 1), octet_length(share) FROM buckets
    WHERE task = $1 AND bucket = ANY($2)";

/// The same, for the task of a job.
pub(super) const SHAPES_OF_JOB: &str = "
    SELECT DISTINCT bucket, substr(share, 1, 1), octet_length(share) FROM buckets
    WHERE task = (SELECT task FROM jobs WHERE job = $1) AND bucket = ANY($2)";

/// All rows of a batch.
pub(super) const LOAD: &str = "
    SELECT count, checksum, first, last, share FROM buckets
    WHERE task = $1 AND bucket BETWEEN $2 AND $3";

const INSERT: &str = "INSERT INTO buckets VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const UPDATE: &str = "
    UPDATE buckets SET count = $4, checksum = $5, first = $6, last = $7, share = $8
    WHERE task = $1 AND bucket = $2 AND shard = $3";

/// The locked rows of a shard.
pub(super) struct Shards {
    rows: HashMap<Vec<u8>, BucketAggregate>,
    /// Of all shards: tag and length of the share.
    shapes: HashMap<Vec<u8>, (Vec<u8>, i32)>,
}

impl Shards {
    pub(super) fn read(rows: &[Row], shapes: &[Row]) -> Verdict<Self> {
        let rows = rows.iter().map(|row| Ok((row.try_get(5)?, read(row)?)));
        let shapes =
            shapes.iter().map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?))));
        Ok(Self { rows: rows.collect::<Verdict<_>>()?, shapes: shapes.collect::<Verdict<_>>()? })
    }

    /// Adds to the shard. A row that did not exist when it was locked is made: if another
    /// transaction made it meanwhile, this one fails and is repeated.
    pub(super) async fn add(
        mut self,
        pipeline: &mut Pipeline<'_>,
        task: i64,
        shard: i16,
        added: &BucketAggregates,
    ) -> Verdict<()> {
        for (bucket, aggregate) in added {
            let key = bucket_key(bucket);
            let stored = self.rows.remove(&key);
            let sql = if stored.is_some() { UPDATE } else { INSERT };
            let mut sum = aggregate.clone();
            if let Some(stored) = stored {
                sum.merge(&stored).map_err(|fault| Failure::broken(fault.to_string()))?;
            }
            let share = sum.share.to_store_bytes();
            let fits = |(tag, length): &(Vec<u8>, i32)| {
                share.starts_with(tag) && usize::try_from(*length) == Ok(share.len())
            };
            if !self.shapes.get(&key).is_none_or(fits) {
                return Err(Failure::broken("aggregate shares do not fit together".into()));
            }
            let values = params![
                task,
                key,
                shard,
                sum.count as i64,
                sum.checksum.as_bytes().to_vec(),
                ordered(sum.first.as_units()),
                ordered(sum.last.as_units()),
                share,
            ];
            pipeline.add(sql, values).await?;
        }
        Ok(())
    }
}

/// The sum of rows; `None` of none.
pub(super) fn merge(rows: &[Row]) -> Verdict<Option<BucketAggregate>> {
    let mut merged: Option<BucketAggregate> = None;
    for row in rows {
        let aggregate = read(row)?;
        match &mut merged {
            Some(merged) => {
                merged.merge(&aggregate).map_err(|fault| Failure::broken(fault.to_string()))?;
            }
            None => merged = Some(aggregate),
        }
    }
    Ok(merged)
}

/// Asks for all rows of a batch.
pub(super) async fn load(
    pipeline: &mut Pipeline<'_>,
    task: i64,
    selector: &BatchSelector,
) -> Verdict<usize> {
    let (first, last) = bucket_keys(selector);
    pipeline.add(LOAD, params![task, first, last]).await
}

/// Asks for a row if any part of a batch is collected.
pub(super) async fn find_collected(
    pipeline: &mut Pipeline<'_>,
    task: i64,
    selector: &BatchSelector,
) -> Verdict<usize> {
    match selector {
        BatchSelector::TimeInterval(interval) => {
            let (first, last) = span(*interval);
            let sql = "SELECT FROM ranges WHERE task = $1 AND is_collected
                       AND first <= $3 AND last >= $2 LIMIT 1";
            pipeline.add(sql, params![task, first, last]).await
        }
        BatchSelector::LeaderSelected(batch_id) => {
            let sql = "SELECT FROM batches WHERE task = $1 AND batch_id = $2 AND state = 2";
            pipeline.add(sql, params![task, batch_id.as_bytes().to_vec()]).await
        }
    }
}

/// Marks a batch collected permanently, deletes its shares, and those ids whose scope is one of its
/// buckets, though these bit by bit: until then they do no harm, because the batch rejects reports
/// before their ids are looked up.
pub(super) async fn collect(
    pipeline: &mut Pipeline<'_>,
    task: i64,
    selector: &BatchSelector,
) -> Verdict<()> {
    match selector {
        BatchSelector::TimeInterval(interval) if interval.is_empty() => return Ok(()),
        BatchSelector::TimeInterval(interval) => {
            let (first, last) = span(*interval);
            let sql = "DELETE FROM ranges WHERE task = $1 AND NOT is_collected
                       AND first >= $2 AND last <= $3";
            pipeline.add(sql, params![task, first, last]).await?;
            // Neighbours become one range.
            let sql = "WITH old AS (
                           DELETE FROM ranges WHERE task = $1 AND is_collected
                           AND (last = $4 OR first = $5) RETURNING first, last)
                       INSERT INTO ranges SELECT $1::bigint, true, LEAST($2::bigint, min(old.first)),
                                                 GREATEST($3::bigint, max(old.last)), 0 FROM old";
            let (before, after) = (first.checked_sub(1), last.checked_add(1));
            pipeline.add(sql, params![task, first, last, before, after]).await?;
            let sql = "INSERT INTO purges (task, first, last) VALUES ($1, $2, $3)";
            pipeline.add(sql, params![task, first, last]).await?;
        }
        BatchSelector::LeaderSelected(batch_id) => {
            let sql = "INSERT INTO batches VALUES ($1, $2, 2, NULL)
                       ON CONFLICT (task, batch_id) DO UPDATE SET state = 2";
            pipeline.add(sql, params![task, batch_id.as_bytes().to_vec()]).await?;
        }
    }
    let (first, last) = bucket_keys(selector);
    let sql = "DELETE FROM buckets WHERE task = $1 AND bucket BETWEEN $2 AND $3";
    pipeline.add(sql, params![task, first, last]).await?;
    Ok(())
}

/// Reads count, checksum, first, last, share.
fn read(row: &Row) -> Verdict<BucketAggregate> {
    let share = AggregateShare::from_store_bytes(row.try_get(4)?)
        .map_err(|error| Failure::broken(error.to_string()))?;
    Ok(BucketAggregate {
        share,
        count: row.try_get::<_, i64>(0)? as u64,
        checksum: ReportIdChecksum::from(array::<32>(row.try_get(1)?)?),
        first: Time::new(unordered(row.try_get(2)?)),
        last: Time::new(unordered(row.try_get(3)?)),
    })
}
