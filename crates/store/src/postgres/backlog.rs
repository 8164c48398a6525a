//! Reading the backlog. Nothing is taken here.
//!
//! A process reads its own segments, which it still has in memory. Those of others it leaves to
//! them for a while: without this, all would read the same reports, and all but one in vain.

use std::collections::{BTreeSet, HashMap, HashSet};

use deadpool_postgres::Client;
use sotto_wire::TaskId;

use super::pipeline::{Pipeline, params};
use super::segments::Sealed;
use super::{Inner, Verdict, tasks};
use crate::{Backlog, Record, Stretch, TaskFilter};

/// How long the segments of another process are left to it.
const OTHERS_MS: i64 = 2_000;

/// How many segments, or rows of records set aside, one call considers.
const MAX_ROWS: i64 = 256;

/// A part of the backlog: what [`Stretch`] holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// From segments or, if there were any, from what was set aside.
    pub(super) taken: Vec<Taken>,
    /// Where the records are that were offered, in order.
    pub(super) records: Vec<Place>,
    /// The numbers of their tasks.
    pub(super) numbers: HashMap<TaskId, i64>,
    /// Records that are to be set aside: the number of the task, and where they are.
    pub(super) left: Vec<(i64, Place)>,
}

/// What a stretch takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Taken {
    /// The records of a segment from one index to another.
    Segment { segment: i64, from: i32, to: i32, bytes: i64 },
    /// The first records of a row of the table `requeued` that has so many.
    Requeued { number: i64, of: i32, first: i32, bytes: i64 },
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: i64,
    pub(super) index: i32,
    pub(super) bytes: i64,
}

/// The limits of a call.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_reports: usize,
    pub(super) max_bytes: usize,
}

impl Limits {
    fn is_reached(&self, reports: usize, bytes: i64) -> bool {
        reports >= self.max_reports.max(1) || (reports > 0 && bytes as usize >= self.max_bytes)
    }
}

const WAITING: &str = "
    SELECT requeued.task, task_id, bool_or(due_ms <= now_ms($1)) FROM requeued
    JOIN tasks USING (task) GROUP BY requeued.task, task_id";

const SEGMENTS: &str = "
    SELECT segment, place, key, taken, records,
           (SELECT array_agg(tasks.task) FROM tasks WHERE task = ANY(segments.tasks)),
           (SELECT array_agg(tasks.task_id) FROM tasks WHERE task = ANY(segments.tasks))
    FROM segments
    WHERE segment >= $1 AND taken < records
    AND (writer = $2 OR accepted_ms <= now_ms($3) - $4::bigint)
    ORDER BY segment LIMIT $5";

const REQUEUED: &str = "
    SELECT number, task, task_id, segment, records, bytes FROM requeued JOIN tasks USING (task)
    WHERE task = ANY($1) AND due_ms <= now_ms($2) ORDER BY number LIMIT $3";

pub(super) async fn backlog(
    inner: &Inner,
    client: &Client,
    limits: Limits,
    is_served: &TaskFilter,
) -> Verdict<Backlog> {
    let mut pipeline = Pipeline::new(client);
    let waiting = pipeline.add(WAITING, params![inner.now_ms()]).await?;
    let floor = inner.floors.segment(client).await?;
    let values = params![floor, inner.writer, inner.now_ms(), OTHERS_MS, MAX_ROWS];
    let segments = pipeline.add(SEGMENTS, values).await?;
    let answers = pipeline.run().await?;
    let (mut due, mut unserved) = (Vec::new(), BTreeSet::new());
    for row in answers.of(waiting) {
        let task_id = tasks::task_id(row.try_get(1)?)?;
        if !is_served(&task_id) {
            unserved.insert(task_id);
        } else if row.try_get(2)? {
            due.push(row.try_get::<_, i64>(0)?);
        }
    }
    let mut read = match due.is_empty() {
        true => Reading::default(),
        false => requeued(inner, client, limits, due).await?,
    };
    if read.part.taken.is_empty() {
        read = Reading::default();
        let mut found = Vec::new();
        for row in answers.of(segments) {
            let numbers: Option<Vec<i64>> = row.try_get(5)?;
            let ids: Option<Vec<Vec<u8>>> = row.try_get(6)?;
            let ids: Vec<TaskId> = ids
                .unwrap_or_default()
                .iter()
                .map(|bytes| tasks::task_id(bytes))
                .collect::<Verdict<_>>()?;
            let names: HashMap<i64, TaskId> =
                numbers.unwrap_or_default().into_iter().zip(ids).collect();
            found.push((Sealed::of(row)?, row.try_get("taken")?, names));
        }
        unserved.extend(new(inner, client, limits, found, is_served, &mut read).await?);
    }
    let Reading { part, records, .. } = read;
    let stretch = (!part.taken.is_empty()).then(|| Stretch::new(part));
    Ok(Backlog { stretch, records, unserved: unserved.into_iter().collect() })
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    part: Part,
    records: Vec<Record>,
    bytes: i64,
}

impl Reading {
    fn offer(&mut self, task: i64, task_id: TaskId, place: Place, report: bytes::Bytes) {
        self.bytes += place.bytes;
        self.part.numbers.insert(task_id, task);
        self.part.records.push(place);
        self.records.push(Record { task_id, report });
    }
}

/// Records that were set aside, and are due.
async fn requeued(
    inner: &Inner,
    client: &Client,
    limits: Limits,
    due: Vec<i64>,
) -> Verdict<Reading> {
    let mut pipeline = Pipeline::new(client);
    let rows = pipeline.add(REQUEUED, params![due, inner.now_ms(), MAX_ROWS]).await?;
    let answers = pipeline.run().await?;
    let mut reading = Reading::default();
    // Segment by segment: what was set aside may be spread over many.
    for row in answers.of(rows) {
        if limits.is_reached(reading.records.len(), reading.bytes) {
            break;
        }
        let (number, task): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let task_id = tasks::task_id(row.try_get(2)?)?;
        let (segment, indices): (i64, Vec<i32>) = (row.try_get(3)?, row.try_get(4)?);
        let bodies = inner.bodies(client, &HashSet::from([segment])).await?;
        // Another process took it meanwhile.
        let Some(body) = bodies.get(&segment) else { continue };
        let (mut first, before) = (0, reading.bytes);
        for index in &indices {
            if limits.is_reached(reading.records.len(), reading.bytes) {
                break;
            }
            let Some(record) = usize::try_from(*index).ok().and_then(|index| body.get(index))
            else {
                break;
            };
            let bytes = super::segments::encoded_len(&record.report) as i64;
            let place = Place { segment, index: *index, bytes };
            reading.offer(task, task_id, place, record.report.clone());
            first += 1;
        }
        let (of, bytes) = (indices.len() as i32, reading.bytes - before);
        reading.part.taken.push(Taken::Requeued { number, of, first, bytes });
    }
    Ok(reading)
}

/// Records that were not read before. Returns the tasks of those that are left.
async fn new(
    inner: &Inner,
    client: &Client,
    limits: Limits,
    found: Vec<(Sealed, i32, HashMap<i64, TaskId>)>,
    is_served: &TaskFilter,
    reading: &mut Reading,
) -> Verdict<BTreeSet<TaskId>> {
    let mut unserved = BTreeSet::new();
    for (sealed, taken, names) in found {
        if limits.is_reached(reading.records.len(), reading.bytes) {
            break;
        }
        let segment = sealed.segment;
        let bodies = inner.read(client, &[sealed]).await?;
        let Some(body) = bodies.get(&segment) else { continue };
        let (mut to, mut taken_bytes) = (taken, 0);
        for (index, record) in body.iter().enumerate().skip(usize::try_from(taken).unwrap_or(0)) {
            if limits.is_reached(reading.records.len(), reading.bytes) {
                break;
            }
            let bytes = super::segments::encoded_len(&record.report) as i64;
            let place = Place { segment, index: index as i32, bytes };
            match names.get(&record.task) {
                Some(task_id) if is_served(task_id) => {
                    reading.offer(record.task, *task_id, place, record.report.clone());
                }
                Some(task_id) => {
                    unserved.insert(*task_id);
                    reading.part.left.push((record.task, place));
                    reading.bytes += bytes;
                }
                // Its task was forgotten.
                None => {}
            }
            to = index as i32 + 1;
            taken_bytes += bytes;
        }
        let taken = Taken::Segment { segment, from: taken, to, bytes: taken_bytes };
        reading.part.taken.push(taken);
    }
    Ok(unserved)
}
