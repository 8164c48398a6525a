//! Fixes the report sets of new aggregation jobs.
//!
//! Two round trips: the first takes the stretch and all ids, the second writes what is left of the
//! jobs. If the stretch turns out to be taken, nothing of it is kept.

use std::collections::{BTreeMap, HashMap, HashSet};

use deadpool_postgres::Client;
use sotto_protocol::leader::aggregate::{FormedBatch, FormedJob, FormedJobs};
use sotto_protocol::{Bucket, Rejection, Rejections};
use sotto_wire::{BatchId, TaskId};

use super::backlog::{Part, Place, Taken};
use super::connect::Failure;
use super::jobs::{Entry, drop_records};
use super::pipeline::{Answers, Pipeline, params};
use super::tasks::{COUNT, holder, ids_of, scope_of};
use super::values::{Id, ordered, tallies};
use super::{Done, Inner, Verdict};
use crate::{Fixed, StoreError};

const TAKE_SEGMENTS: &str = "
    UPDATE segments SET taken = part.upto, waiting_bytes = waiting_bytes - part.bytes
    FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[])
         AS part (segment, since, upto, bytes)
    WHERE segments.segment = part.segment AND taken = part.since RETURNING 1";

/// Rows of which everything is taken.
const TAKE_ROWS: &str = "
    DELETE FROM requeued USING unnest($1::bigint[], $2::integer[]) AS part (number, length)
    WHERE requeued.number = part.number AND cardinality(records) = part.length RETURNING 1";

/// A row of which only the first records are taken.
const TAKE_OF_ROW: &str = "
    UPDATE requeued SET records = records[$3 + 1:], times = times[$3 + 1:], bytes = bytes - $4
    WHERE number = $1 AND cardinality(records) = $2 RETURNING 1";

const TAKE_IDS: &str = "
    INSERT INTO report_ids SELECT $1::bigint, scope, id FROM unnest($2::bigint[], $3::uuid[]) AS new (scope, id)
    ORDER BY scope, id ON CONFLICT DO NOTHING RETURNING scope, report_id";

/// The batch that is open, and whether the id for a new one was used before.
const OPEN_BATCH: &str = "
    SELECT batch_id, state = 0 AND batch_window = $2 FROM batches
    WHERE task = $1 AND ((state = 0 AND batch_window = $2) OR batch_id = $3) FOR SHARE";

const INSERT_JOB: &str = "
    INSERT INTO jobs (job, task, now, batch_id, ids, times, report_count, reports)
    VALUES (nextval('job_numbers'), $1, $2, $3, $4, $5, $6, $7)";

const SET_ASIDE: &str = "
    INSERT INTO requeued (task, segment, records, times, bytes, due_ms)
    VALUES ($1, $2, $3, NULL, $4, 0)";

/// A job between the two round trips.
struct Planned<'a> {
    job: &'a FormedJob,
    task: i64,
    ids: i64,
    entries: Vec<Entry>,
    taken_ids: usize,
    batch: Option<usize>,
}

pub(super) async fn fix_jobs(
    inner: &Inner,
    client: &Client,
    part: &Part,
    formed: &FormedJobs,
) -> Verdict<Done<Fixed>> {
    let mut holders = HashMap::new();
    for job in &formed.jobs {
        let holder = holder(job.task_id, job.scope);
        if holder != job.task_id && !holders.contains_key(&holder) {
            holders.insert(holder, inner.number(client, holder).await?);
        }
    }
    let mut pipeline = Pipeline::begin(client);
    let taken = take(&mut pipeline, part).await?;
    let mut numbers: Vec<i64> = part.numbers.values().copied().collect();
    numbers.extend(part.left.iter().map(|(task, _)| *task));
    numbers.extend(holders.values());
    numbers.sort_unstable();
    numbers.dedup();
    let sql = "SELECT task FROM tasks WHERE task = ANY($1) ORDER BY task FOR SHARE";
    let alive = pipeline.add(sql, params![numbers.clone()]).await?;
    let sql = "SELECT task, first, last FROM ranges WHERE task = ANY($1) AND is_collected";
    let collected = pipeline.add(sql, params![numbers]).await?;
    let mut planned = Vec::new();
    for job in &formed.jobs {
        planned.extend(plan(&mut pipeline, part, job, &holders).await?);
    }
    let answers = pipeline.run().await?;
    if taken.iter().map(|statement| answers.of(*statement).len()).sum::<usize>() < part.taken.len()
    {
        return Ok(Done::Nothing(Fixed::Moved));
    }
    let alive: HashSet<i64> =
        answers.of(alive).iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for (holder, number) in &holders {
        if !alive.contains(number) {
            inner.forget_number(holder);
            return Err(Failure::Stale);
        }
    }
    let mut spans: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for row in answers.of(collected) {
        spans.entry(row.try_get(0)?).or_default().push((row.try_get(1)?, row.try_get(2)?));
    }
    let mut writing = Writing {
        pipeline: Pipeline::new(client),
        needed: HashMap::new(),
        opened: HashMap::new(),
        counts: BTreeMap::new(),
        struck: Rejections::default(),
        jobs: 0,
    };
    for planned in planned.into_iter().filter(|planned| alive.contains(&planned.task)) {
        let spans = spans.get(&planned.task).map_or(&[][..], Vec::as_slice);
        writing.job(planned, &answers, spans).await?;
    }
    for (task_id, reason) in &formed.rejections {
        if let Some(task) = part.numbers.get(task_id).filter(|task| alive.contains(task)) {
            writing.counts.entry(*task).or_default().add(*reason);
        }
    }
    writing.set_aside(part.left.iter().filter(|(task, _)| alive.contains(task))).await?;
    writing.finish(inner, part).await
}

/// Takes the stretch. Each part that is still there returns a row.
async fn take(pipeline: &mut Pipeline<'_>, part: &Part) -> Verdict<Vec<usize>> {
    let (mut segments, mut since, mut upto, mut sizes) = (vec![], vec![], vec![], vec![]);
    let (mut rows, mut lengths, mut sent) = (vec![], vec![], vec![]);
    for taken in &part.taken {
        match *taken {
            Taken::Segment { segment, from, to, bytes } => {
                segments.push(segment);
                since.push(from);
                upto.push(to);
                sizes.push(bytes);
            }
            Taken::Requeued { number, of, first, .. } if of == first => {
                rows.push(number);
                lengths.push(of);
            }
            Taken::Requeued { number, of, first, bytes } => {
                sent.push(pipeline.add(TAKE_OF_ROW, params![number, of, first, bytes]).await?);
            }
        }
    }
    if !segments.is_empty() {
        let values = params![segments, since, upto, sizes];
        sent.push(pipeline.add(TAKE_SEGMENTS, values).await?);
    }
    if !rows.is_empty() {
        sent.push(pipeline.add(TAKE_ROWS, params![rows, lengths]).await?);
    }
    Ok(sent)
}

/// Takes the ids of a job. `None` if its task was not among those of the stretch.
async fn plan<'a>(
    pipeline: &mut Pipeline<'_>,
    part: &Part,
    job: &'a FormedJob,
    holders: &HashMap<TaskId, i64>,
) -> Verdict<Option<Planned<'a>>> {
    let Some(&task) = part.numbers.get(&job.task_id) else { return Ok(None) };
    let holder = holders.get(&holder(job.task_id, job.scope)).copied().unwrap_or(task);
    let ids = ids_of(holder, job.scope);
    let entries = job.reports.iter().map(|report| {
        let place = part.records.get(report.record).copied();
        let outside = || StoreError::Backend("a record is outside the stretch".into());
        let Place { segment, index, bytes } = place.ok_or_else(outside)?;
        Ok(Entry { segment, index, bytes, time: report.time, report_id: report.report_id })
    });
    let entries: Vec<Entry> = entries.collect::<Verdict<_>>()?;
    let (scopes, report_ids): (Vec<i64>, Vec<Id>) = entries
        .iter()
        .map(|entry| (scope_of(ids, &bucket(job, entry)), Id::from(&entry.report_id)))
        .unzip();
    let taken_ids = pipeline.add(TAKE_IDS, params![ids, scopes, report_ids]).await?;
    let batch = match job.batch {
        FormedBatch::TimeInterval => None,
        FormedBatch::LeaderSelected { window, if_none_open } => {
            let values = params![task, ordered(window), if_none_open.as_bytes().to_vec()];
            Some(pipeline.add(OPEN_BATCH, values).await?)
        }
    };
    Ok(Some(Planned { job, task, ids, entries, taken_ids, batch }))
}

/// The bucket of a report before its batch is known.
fn bucket(job: &FormedJob, entry: &Entry) -> Bucket {
    match job.batch {
        FormedBatch::TimeInterval => Bucket::Time(entry.time),
        FormedBatch::LeaderSelected { if_none_open, .. } => Bucket::Batch(if_none_open),
    }
}

/// The second round trip.
struct Writing<'a> {
    pipeline: Pipeline<'a>,
    /// How many records of each segment go into jobs or are set aside.
    needed: HashMap<i64, i32>,
    /// Batches that this transaction opens.
    opened: HashMap<(i64, u64), BatchId>,
    counts: BTreeMap<i64, Rejections>,
    struck: Rejections,
    jobs: usize,
}

impl Writing<'_> {
    /// Writes a job with the reports that could be reserved.
    async fn job(
        &mut self,
        planned: Planned<'_>,
        answers: &Answers,
        collected: &[(i64, i64)],
    ) -> Verdict<()> {
        let Planned { job, task, ids, entries, taken_ids, batch } = planned;
        let mut free: HashSet<(i64, Id)> = HashSet::new();
        for row in answers.of(taken_ids) {
            free.insert((row.try_get(0)?, row.try_get(1)?));
        }
        let (mut kept, mut unused) = (Vec::new(), Vec::new());
        let mut here = Rejections::default();
        for entry in entries {
            let bucket = bucket(job, &entry);
            let id = (scope_of(ids, &bucket), Id::from(&entry.report_id));
            let is_free = free.remove(&id);
            if let Bucket::Time(time) = bucket
                && collected.iter().any(|(a, b)| (*a..=*b).contains(&ordered(time.as_units())))
            {
                here.add(Rejection::BatchCollected);
                unused.extend(is_free.then_some(id));
            } else if is_free {
                kept.push(entry);
            } else {
                here.add(Rejection::ReportReplayed);
            }
        }
        if !unused.is_empty() {
            let (scopes, unused): (Vec<i64>, Vec<Id>) = unused.into_iter().unzip();
            self.pipeline.add(super::jobs::RELEASE_IDS, params![ids, scopes, unused]).await?;
        }
        for (reason, count) in here.iter() {
            self.struck.add_many(reason, count);
            self.counts.entry(task).or_default().add_many(reason, count);
        }
        if kept.is_empty() {
            return Ok(());
        }
        let batch_id = match (job.batch, batch) {
            (FormedBatch::LeaderSelected { window, if_none_open }, Some(found)) => {
                Some(self.batch(task, window, if_none_open, answers, found).await?)
            }
            _ => None,
        };
        self.insert(job, task, ids, batch_id, &kept).await
    }

    async fn insert(
        &mut self,
        job: &FormedJob,
        task: i64,
        ids: i64,
        batch_id: Option<BatchId>,
        kept: &[Entry],
    ) -> Verdict<()> {
        let mut times: Vec<i64> = match batch_id {
            Some(_) => Vec::new(),
            None => kept.iter().map(|entry| ordered(entry.time.as_units())).collect(),
        };
        times.sort_unstable();
        times.dedup();
        let mut reports = Vec::with_capacity(kept.len() * Entry::LEN);
        for entry in kept {
            entry.encode(&mut reports);
            *self.needed.entry(entry.segment).or_default() += 1;
        }
        let batch_id = batch_id.map(|batch_id| batch_id.as_bytes().to_vec());
        let (now, count) = (job.now.0 as i64, kept.len() as i32);
        let values = params![task, now, batch_id, ids, times, count, reports];
        self.pipeline.add(INSERT_JOB, values).await?;
        self.jobs += 1;
        Ok(())
    }

    /// The batch of a job: the open one, or a new one.
    async fn batch(
        &mut self,
        task: i64,
        window: u64,
        if_none_open: BatchId,
        answers: &Answers,
        found: usize,
    ) -> Verdict<BatchId> {
        if let Some(opened) = self.opened.get(&(task, window)) {
            return Ok(*opened);
        }
        let mut is_used = false;
        for row in answers.of(found) {
            if row.try_get(1)? {
                return Ok(BatchId::new(super::values::array(row.try_get(0)?)?));
            }
            is_used = true;
        }
        if is_used {
            return Err(Failure::broken("the id of the new batch is not fresh".into()));
        }
        let sql = "INSERT INTO batches VALUES ($1, $2, 0, $3)";
        let values = params![task, if_none_open.as_bytes().to_vec(), ordered(window)];
        self.pipeline.add(sql, values).await?;
        self.opened.insert((task, window), if_none_open);
        Ok(if_none_open)
    }

    /// Gives the records of each task that is not served a row for each segment.
    async fn set_aside(&mut self, left: impl Iterator<Item = &(i64, Place)>) -> Verdict<()> {
        let mut rows: BTreeMap<(i64, i64), (Vec<i32>, i64)> = BTreeMap::new();
        for (task, place) in left {
            let (indices, bytes) = rows.entry((place.segment, *task)).or_default();
            indices.push(place.index);
            *bytes += place.bytes;
            *self.needed.entry(place.segment).or_default() += 1;
        }
        for ((segment, task), (indices, bytes)) in rows {
            self.pipeline.add(SET_ASIDE, params![task, segment, indices, bytes]).await?;
        }
        Ok(())
    }

    async fn finish(mut self, inner: &Inner, part: &Part) -> Verdict<Done<Fixed>> {
        let shard = inner.shard();
        for (task, rejections) in &self.counts {
            let (reasons, counts) = tallies(0, rejections);
            self.pipeline.add(COUNT, params![*task, shard, reasons, counts]).await?;
        }
        let mut dead: HashMap<i64, i32> = HashMap::new();
        for taken in &part.taken {
            if let Taken::Segment { segment, from, to, .. } = taken {
                *dead.entry(*segment).or_default() += to - from;
            }
        }
        if part.taken.iter().any(|taken| matches!(taken, Taken::Requeued { .. })) {
            for place in &part.records {
                *dead.entry(place.segment).or_default() += 1;
            }
        }
        for (segment, count) in self.needed {
            *dead.entry(segment).or_default() -= count;
        }
        dead.retain(|_, count| *count != 0);
        let deleted = drop_records(&mut self.pipeline, dead).await?;
        inner.forget_bodies(&self.pipeline.commit().await?, deleted)?;
        Ok(Done::Committed(Fixed::Committed { jobs: self.jobs, rejections: self.struck }))
    }
}
