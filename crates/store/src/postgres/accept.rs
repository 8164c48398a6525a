//! Accepting reports: one task gathers what all callers bring and commits it as one segment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use sotto_protocol::Rejection;
use sotto_wire::{TaskId, Time};
use tokio::sync::mpsc;

use super::connect::Failure;
use super::pipeline::{Pipeline, params};
use super::seal::{SEAL_LEN, seal_body};
use super::segments::{self, PART_BYTES, PLACES, Record, encoded_len, in_each_place, place_of};
use super::values::interval_of;
use super::{Inner, Verdict, lock, repeat, stopped};
use crate::intervals::IntervalSet;
use crate::{NewReport, Result, StoreError};

/// How many reports a segment has at most.
const SEGMENT_RECORDS: usize = 512;

/// How long a process relies on what it knows of the backlog, to which others add.
const KNOWN: Duration = Duration::from_secs(1);

type Verdicts = Vec<std::result::Result<(), Rejection>>;

struct Offer {
    reports: Vec<NewReport>,
    answer: oneshot::Sender<Result<Verdicts>>,
}

/// The way to the task that writes segments.
pub(super) struct Accepting(mpsc::UnboundedSender<Offer>);

impl Accepting {
    pub(super) fn start(inner: &Arc<Inner>) -> Self {
        // Callers wait for their answers, so they bound what is in the channel.
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(Arc::downgrade(inner), receiver));
        Self(sender)
    }

    pub(super) async fn offer(&self, reports: Vec<NewReport>) -> Result<Verdicts> {
        let (answer, verdicts) = oneshot::channel();
        self.0.send(Offer { reports, answer }).map_err(|_| stopped())?;
        verdicts.await.unwrap_or_else(|_| Err(stopped()))
    }
}

async fn run(inner: Weak<Inner>, mut offers: mpsc::UnboundedReceiver<Offer>) {
    let mut writer = Writer::default();
    while let Some(first) = offers.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let mut gathered = vec![first];
        let (mut records, mut bytes) = size(&gathered[0]);
        while records < SEGMENT_RECORDS
            && bytes < inner.segment_bytes
            && let Ok(next) = offers.try_recv()
        {
            let (more_records, more_bytes) = size(&next);
            (records, bytes) = (records + more_records, bytes + more_bytes);
            gathered.push(next);
        }
        let done = writer.accept(&inner, &gathered).await;
        let mut verdicts = done.map(Vec::into_iter);
        for offer in gathered {
            let own = match &mut verdicts {
                Ok(all) => Ok(all.by_ref().take(offer.reports.len()).collect()),
                Err(error) => Err(error.clone()),
            };
            drop(offer.answer.send(own));
        }
    }
}

fn size(offer: &Offer) -> (usize, usize) {
    let bytes = offer.reports.iter().map(|report| encoded_len(&report.report)).sum();
    (offer.reports.len(), bytes)
}

/// What the writing task knows.
#[derive(Default)]
struct Writer {
    tasks: HashMap<TaskId, Known>,
    /// What waited when it was last read, and what this process has added since.
    waiting: Option<(Instant, u64)>,
}

/// A task as it was when it was last read.
struct Known {
    task: i64,
    closings: i64,
    closed: IntervalSet,
}

const INSERT: [&str; PLACES] = in_each_place!(
    "WITH gate AS MATERIALIZED (
         SELECT tasks.task FROM tasks JOIN unnest($1::bigint[], $2::bigint[]) AS known (task, closings)
         ON tasks.task = known.task AND tasks.closings = known.closings
         ORDER BY tasks.task FOR SHARE OF tasks
     ), body AS (
         INSERT INTO ",
    " SELECT $3::bigint, parts.number, parts.part
         FROM unnest($4::bytea[]) WITH ORDINALITY AS parts (part, number)
         WHERE (SELECT count(*) FROM gate) = cardinality($1)
         ON CONFLICT DO NOTHING
     ), segment AS (
         INSERT INTO segments
         SELECT $3::bigint, $5::bigint, now_ms($6), $7::smallint, $8::bytea, $9::integer, 0,
                $9, $10::bigint, $10, $1, $11::bytea
         WHERE (SELECT count(*) FROM gate) = cardinality($1)
         ON CONFLICT DO NOTHING
     )
     SELECT (SELECT count(*) FROM gate) = cardinality($1)"
);

impl Writer {
    /// Judges all reports, and stores those that are not refused.
    async fn accept(&mut self, inner: &Inner, offers: &[Offer]) -> Result<Verdicts> {
        let bytes: usize = offers.iter().map(|offer| size(offer).1).sum();
        self.make_room(inner, bytes as u64).await?;
        let mut is_fresh = false;
        // Tasks change rarely: closed, forgotten.
        for _ in 0..16 {
            let unknown: HashSet<TaskId> = offers
                .iter()
                .flat_map(|offer| &offer.reports)
                .map(|report| report.task_id)
                .filter(|task_id| !self.tasks.contains_key(task_id))
                .collect();
            if !unknown.is_empty() {
                let found = repeat(inner, || read_tasks(inner, &unknown)).await?;
                self.tasks.extend(found);
            }
            let verdicts: Verdicts = offers
                .iter()
                .flat_map(|offer| &offer.reports)
                .map(|report| self.judge(report))
                .collect();
            if verdicts.iter().any(Result::is_err) && !is_fresh {
                // What was closed may have been forgotten since.
                self.tasks.clear();
                is_fresh = true;
                continue;
            }
            let accepted: Vec<&NewReport> = offers
                .iter()
                .flat_map(|offer| &offer.reports)
                .zip(&verdicts)
                .filter_map(|(report, verdict)| verdict.is_ok().then_some(report))
                .collect();
            if accepted.is_empty() || self.store(inner, &accepted).await? {
                return Ok(verdicts);
            }
            self.tasks.clear();
        }
        Err(StoreError::Backend("the tasks of the reports keep changing".into()))
    }

    fn judge(&self, report: &NewReport) -> std::result::Result<(), Rejection> {
        let known = self.tasks.get(&report.task_id);
        let is_closed = |time: Time| known.is_some_and(|known| known.closed.contains(time));
        match report.bucket {
            Some(time) if is_closed(time) => Err(Rejection::BatchCollected),
            _ => Ok(()),
        }
    }

    /// Fails if the backlog is full.
    async fn make_room(&mut self, inner: &Inner, bytes: u64) -> Result<()> {
        let is_known = self.waiting.is_some_and(|(read, waiting)| {
            read.elapsed() < KNOWN && waiting.saturating_add(bytes) <= inner.max_backlog_bytes
        });
        if !is_known {
            let load = async || inner.load(&inner.client().await?).await;
            let load = repeat(inner, load).await?;
            self.waiting = Some((Instant::now(), load.backlog_bytes));
        }
        match &mut self.waiting {
            Some((_, waiting)) if waiting.saturating_add(bytes) <= inner.max_backlog_bytes => {
                *waiting += bytes;
                Ok(())
            }
            _ => Err(StoreError::Full),
        }
    }

    /// Stores a segment. Returns false if a task is no longer as this process knows it.
    async fn store(&mut self, inner: &Inner, reports: &[&NewReport]) -> Result<bool> {
        let tasks: BTreeMap<i64, i64> = reports
            .iter()
            .filter_map(|report| self.tasks.get(&report.task_id))
            .map(|known| (known.task, known.closings))
            .collect();
        let records = reports.iter().filter_map(|report| {
            let task = self.tasks.get(&report.task_id)?.task;
            Some(Record { task, report: Bytes::clone(&report.report) })
        });
        let records: Vec<Record> = records.collect();
        let mut configs: Vec<u8> =
            reports.iter().map(|report| report.hpke_config_id.value()).collect();
        configs.sort_unstable();
        configs.dedup();
        let segment = repeat(inner, || next_number(inner)).await?;
        let key = inner.fresh_body_key();
        let mut body = segments::encode(&records, SEAL_LEN);
        let bytes = body.len() as i64;
        let new = Segment {
            number: segment,
            key: inner.seal(&segment.to_be_bytes(), &*key).map_err(Failure::into_store)?,
            parts: {
                seal_body(&key, segment, &mut body).map_err(Failure::into_store)?;
                // Shared with each repetition.
                Bytes::from(body)
            },
            records: records.len() as i32,
            bytes,
            configs,
            tasks,
        };
        let is_stored = repeat(inner, || new.insert(inner)).await?;
        if is_stored {
            lock(&inner.cache).put(segment, &Arc::new(records));
        }
        Ok(is_stored)
    }
}

/// The number of a new segment. It is known before the segment is stored, so that storing it can be
/// repeated.
async fn next_number(inner: &Inner) -> Verdict<i64> {
    let client = inner.client().await?;
    let mut pipeline = Pipeline::new(&client);
    let next = pipeline.add("SELECT nextval('segment_numbers')", Vec::new()).await?;
    let answers = pipeline.run().await?;
    answers.of(next).first().map_or(Err(Failure::Stale), |row| Ok(row.try_get(0)?))
}

/// A segment that is to be stored.
struct Segment {
    number: i64,
    key: Vec<u8>,
    parts: Bytes,
    records: i32,
    bytes: i64,
    configs: Vec<u8>,
    /// With the number of closings that this process knows.
    tasks: BTreeMap<i64, i64>,
}

impl Segment {
    /// Storing it again changes nothing.
    async fn insert(&self, inner: &Inner) -> Verdict<bool> {
        let place = place_of(self.number);
        let parts: Vec<Vec<u8>> = self.parts.chunks(PART_BYTES).map(<[u8]>::to_vec).collect();
        let (tasks, closings): (Vec<i64>, Vec<i64>) = self.tasks.iter().unzip();
        let client = inner.client().await?;
        let mut pipeline = Pipeline::new(&client);
        let sql = INSERT.get(place).copied().unwrap_or(INSERT[0]);
        let values = params![
            tasks,
            closings,
            self.number,
            parts,
            inner.writer,
            inner.now_ms(),
            place as i16,
            self.key.clone(),
            self.records,
            self.bytes,
            self.configs.clone(),
        ];
        let inserted = pipeline.add(sql, values).await?;
        let answers = pipeline.run().await?;
        Ok(answers.of(inserted).first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
    }
}

/// Reads tasks and what is closed in them. Makes those that there are not.
async fn read_tasks(inner: &Inner, wanted: &HashSet<TaskId>) -> Verdict<HashMap<TaskId, Known>> {
    let client = inner.client().await?;
    let ids: Vec<Vec<u8>> = wanted.iter().map(|task_id| task_id.as_bytes().to_vec()).collect();
    let mut pipeline = Pipeline::begin(&client);
    pipeline.add(super::tasks::ENSURE, params![ids.clone()]).await?;
    let sql = "SELECT task_id, task, closings FROM tasks WHERE task_id = ANY($1)";
    let tasks = pipeline.add(sql, params![ids.clone()]).await?;
    let sql = "SELECT task_id, first, last FROM ranges JOIN tasks USING (task)
               WHERE task_id = ANY($1)";
    let ranges = pipeline.add(sql, params![ids]).await?;
    let answers = pipeline.commit().await?;
    let mut found = HashMap::new();
    for row in answers.of(tasks) {
        let known = Known {
            task: row.try_get(1)?,
            closings: row.try_get(2)?,
            closed: IntervalSet::default(),
        };
        found.insert(super::tasks::task_id(row.try_get(0)?)?, known);
    }
    for row in answers.of(ranges) {
        let known = found.get_mut(&super::tasks::task_id(row.try_get(0)?)?);
        if let (Some(known), Some(interval)) =
            (known, interval_of(row.try_get(1)?, row.try_get(2)?))
        {
            known.closed.insert(interval);
        }
    }
    Ok(found)
}
