//! Receipts of released batches that the public log is to have.
//!
//! A receipt is written in the transaction that releases its batch. It gets its number when it is
//! first to be sent, and is sent until the log has it. Its rows stay until the task is forgotten,
//! because the next receipt gets the next number.

use deadpool_postgres::Client;
use sotto_protocol::Moment;
use sotto_protocol::receipt::Released;
use sotto_protocol::recipe::windows::Span;
use sotto_wire::{BatchId, EntryId, TaskId};
use tokio_postgres::Row;

use super::pipeline::{Pipeline, params};
use super::values::array;
use super::{Done, Verdict, tasks};
use crate::{OwedReceipt, OwedReceipts};

/// Adds a receipt, without a number.
pub(super) async fn owe(
    pipeline: &mut Pipeline<'_>,
    task_id: &TaskId,
    released: &Released,
) -> Verdict<()> {
    let Released { recipe, span, count, batch, due } = released;
    let sql = "INSERT INTO receipts (task_id, recipe, start, until, count, batch_id, due, is_sent)
               VALUES ($1, $2, $3, $4, $5, $6, $7, false)";
    let values = params![
        task_id.as_bytes().to_vec(),
        recipe.as_bytes().to_vec(),
        span.start as i64,
        span.end as i64,
        *count as i64,
        batch.as_ref().map(|batch_id| batch_id.as_bytes().to_vec()),
        due.0 as i64,
    ];
    pipeline.add(sql, values).await.map(drop)
}

/// Deletes the receipts of a forgotten task, once all are sent.
pub(super) const FORGET_SENT: &str = "
    DELETE FROM receipts WHERE task_id = $1 AND task_id IN (SELECT task_id FROM tombstones)
    AND NOT EXISTS (SELECT FROM receipts AS owed WHERE owed.task_id = $1 AND NOT owed.is_sent)";

/// The next of each task. One that has a number was due before.
const NEXT: &str = "
    SELECT DISTINCT ON (task_id)
           task_id, receipt, number, recipe, start, until, count, batch_id, due
    FROM receipts WHERE NOT is_sent AND (due <= $1 OR number IS NOT NULL)
    ORDER BY task_id, number IS NULL, due, receipt";

const HOW_MANY: &str = "
    SELECT count(*) FROM receipts WHERE NOT is_sent AND (due <= $1 OR number IS NOT NULL)";

/// If two processes number receipts of a task at once, one fails and is repeated.
const NUMBER: &str = "
    UPDATE receipts SET number = 1 + (
        SELECT COALESCE(max(number), 0) FROM receipts WHERE task_id = $1)
    WHERE receipt = $2 AND number IS NULL RETURNING number";

pub(super) async fn next(client: &Client, now: Moment) -> Verdict<Done<OwedReceipts>> {
    let now = i64::try_from(now.0).unwrap_or(i64::MAX);
    let mut pipeline = Pipeline::begin(client);
    let count = pipeline.add(HOW_MANY, params![now]).await?;
    let next = pipeline.add(NEXT, params![now]).await?;
    let answers = pipeline.run().await?;
    let count: i64 = answers.of(count).first().map_or(Ok(0), |row| row.try_get(0))?;
    let (mut owed, mut numbers) = (Vec::new(), Vec::new());
    let mut pipeline = Pipeline::new(client);
    for row in answers.of(next) {
        let task_id = tasks::task_id(row.try_get(0)?)?;
        let (receipt, number): (i64, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
        numbers.push(match number {
            Some(_) => None,
            None => {
                let values = params![task_id.as_bytes().to_vec(), receipt];
                Some(pipeline.add(NUMBER, values).await?)
            }
        });
        let number = number.unwrap_or(0) as u64;
        owed.push(OwedReceipt { task_id, number, released: read(row)? });
    }
    let answers = pipeline.commit().await?;
    for (owed, given) in owed.iter_mut().zip(numbers) {
        if let Some(given) = given {
            let row = answers.of(given).first().ok_or(super::connect::Failure::Stale)?;
            owed.number = row.try_get::<_, i64>(0)? as u64;
        }
    }
    Ok(Done::Committed(OwedReceipts { count: count as u64, next: owed }))
}

pub(super) async fn sent(client: &Client, task_id: TaskId, number: u64) -> Verdict<Done<()>> {
    let id = task_id.as_bytes().to_vec();
    let mut pipeline = Pipeline::begin(client);
    let sql = "UPDATE receipts SET is_sent = true WHERE task_id = $1 AND number = $2";
    pipeline.add(sql, params![id.clone(), number as i64]).await?;
    pipeline.add(FORGET_SENT, params![id]).await?;
    pipeline.commit().await?;
    Ok(Done::Committed(()))
}

fn read(row: &Row) -> Verdict<Released> {
    let batch: Option<&[u8]> = row.try_get(7)?;
    let number = |index| -> Verdict<u64> { Ok(row.try_get::<_, i64>(index)? as u64) };
    Ok(Released {
        recipe: EntryId::new(array(row.try_get(3)?)?),
        span: Span { start: number(4)?, end: number(5)? },
        count: number(6)?,
        batch: batch
            .map(|bytes| Ok::<_, super::Failure>(BatchId::new(array(bytes)?)))
            .transpose()?,
        due: Moment(number(8)?),
    })
}
