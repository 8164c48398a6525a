//! Goes through the verbs as a leader does. The store is restarted after every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_executor::block_on;
use sotto_protocol::leader::aggregate::{
    FormedBatch, FormedJob, FormedJobs, FormedReport, LeaderOutcome,
};
use sotto_protocol::{BucketAggregate, Digest, Moment, Rejection, Rejections};
use sotto_store::{
    Backlog, Closing, CollectionCreated, CollectionState, Counters, Fixed, LeasedCollection,
    LeasedJob, Load, Record, Result, TaskFilter, Turn,
};
use sotto_wire::{BatchId, BatchMode, BatchSelector, CollectionJobId, Query, TaskId};

use super::bench::{Bench, LEASE};
use super::reports::{Report, aggregates, batch_mode, replay_scope};

/// The clock that the driver fixes jobs with.
pub(crate) const NOW: Moment = Moment(1_700_000_000);

/// The worker's verdict on one report of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Count,
    Reject(Rejection),
    /// Rejected before the helper was told about it: its id is free again.
    Release(Rejection),
    Requeue,
}

/// Waits for a verb that must succeed.
#[track_caller]
pub(crate) fn run<T>(verb: impl Future<Output = Result<T>>) -> T {
    block_on(verb).unwrap()
}

/// The digest of a request that these words stand for.
pub(crate) fn digest(words: &str) -> Digest {
    let mut digest = [0; 32];
    digest[..words.len()].copy_from_slice(words.as_bytes());
    digest
}

/// Rejections with one reason.
pub(crate) fn rejected(reason: Rejection, count: u64) -> Rejections {
    let mut rejections = Rejections::default();
    rejections.add_many(reason, count);
    rejections
}

/// The commit of a job in which each report gets a verdict.
pub(crate) fn judged(job: &LeasedJob, judge: impl Fn(&Report) -> Verdict) -> LeaderOutcome {
    let mut commit = LeaderOutcome::default();
    let mut counted = Vec::new();
    for (index, record) in job.records.iter().enumerate() {
        let report = Report::decode(record);
        match judge(&report) {
            Verdict::Count => counted.push(report),
            Verdict::Reject(reason) => commit.rejections.add(reason),
            Verdict::Release(reason) => {
                commit.rejections.add(reason);
                commit.unspent.push(index);
            }
            Verdict::Requeue => commit.requeue.push(index),
        }
    }
    commit.buckets = aggregates(&counted, job.batch_id);
    commit
}

/// The commit of a job in which every report is counted.
pub(crate) fn counted(job: &LeasedJob) -> LeaderOutcome {
    judged(job, |_| Verdict::Count)
}

/// The reports of a job, in order.
pub(crate) fn decoded(records: &[Record]) -> Vec<Report> {
    records.iter().map(Report::decode).collect()
}

/// One job per task with all of its records, in order.
pub(crate) fn jobs_of(records: &[Record], if_none_open: BatchId) -> FormedJobs {
    jobs_without(records, usize::MAX, if_none_open)
}

/// As [`jobs_of`], without one of the records.
pub(crate) fn jobs_without(
    records: &[Record],
    refused: usize,
    if_none_open: BatchId,
) -> FormedJobs {
    let mut by_task: BTreeMap<TaskId, Vec<FormedReport>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate().filter(|(index, _)| *index != refused) {
        let Report { id, time, .. } = Report::decode(record);
        let report = FormedReport { record: index, report_id: id, time };
        by_task.entry(record.task_id).or_default().push(report);
    }
    let job = |(task_id, reports)| {
        let batch = match batch_mode(&task_id) {
            BatchMode::TimeInterval => FormedBatch::TimeInterval,
            BatchMode::LeaderSelected => FormedBatch::LeaderSelected { window: 0, if_none_open },
        };
        FormedJob { task_id, now: NOW, batch, scope: replay_scope(&task_id), reports }
    };
    FormedJobs { jobs: by_task.into_iter().map(job).collect(), rejections: Vec::new() }
}

/// Only rejections.
pub(crate) fn only_refused(rejections: Vec<(TaskId, Rejection)>) -> FormedJobs {
    FormedJobs { jobs: Vec::new(), rejections }
}

/// Serves all tasks except this one.
pub(crate) fn all_but(unserved: TaskId) -> TaskFilter {
    Arc::new(move |task_id| *task_id != unserved)
}

impl Bench {
    /// Uploads reports; returns the store's verdict on each.
    pub(crate) fn offer(&mut self, reports: &[Report]) -> Vec<Result<(), Rejection>> {
        let uploads = reports.iter().map(Report::upload).collect();
        let verdicts = run(self.store().accept_reports(uploads));
        assert_eq!(verdicts.len(), reports.len());
        self.restart();
        verdicts
    }

    /// Uploads reports that must be accepted.
    #[track_caller]
    pub(crate) fn accept(&mut self, reports: &[Report]) {
        let verdicts = self.offer(reports);
        assert!(verdicts.iter().all(Result::is_ok), "refused: {verdicts:?}");
    }

    /// The beginning of the backlog of all tasks.
    pub(crate) fn backlog(&self, max_reports: usize) -> Backlog {
        run(self.store().backlog(max_reports, usize::MAX, Arc::new(|_| true)))
    }

    /// Takes the whole backlog into jobs. Returns how many, and what was rejected.
    pub(crate) fn form(&mut self) -> (usize, Rejections) {
        self.form_with(usize::MAX, BatchId::new(self.fresh_bytes()))
    }

    /// As [`Self::form`], with at most this many reports at a time, and the id of a batch to open.
    pub(crate) fn form_with(&mut self, at_once: usize, new_batch: BatchId) -> (usize, Rejections) {
        self.form_served(at_once, new_batch, &(Arc::new(|_: &_| true) as TaskFilter))
    }

    /// As [`Self::form_with`], for the tasks that are served.
    pub(crate) fn form_served(
        &mut self,
        at_once: usize,
        new_batch: BatchId,
        is_served: &TaskFilter,
    ) -> (usize, Rejections) {
        let mut formed = (0, Rejections::default());
        for _ in 0..1_000 {
            let backlog = run(self.store().backlog(at_once, usize::MAX, Arc::clone(is_served)));
            let Some(stretch) = backlog.stretch else { return formed };
            let jobs = jobs_of(&backlog.records, new_batch);
            match run(self.store().fix_jobs(stretch, jobs)) {
                Fixed::Committed { jobs, rejections } => {
                    formed.0 += jobs;
                    rejections.iter().for_each(|(why, count)| formed.1.add_many(why, count));
                }
                Fixed::Moved => panic!("nobody else moves the backlog"),
            }
            self.restart();
        }
        panic!("the backlog has no end");
    }

    pub(crate) fn try_lease_job(&self) -> Option<LeasedJob> {
        run(self.store().lease_job(LEASE, Turn::default()))
    }

    #[track_caller]
    pub(crate) fn lease_job(&self) -> LeasedJob {
        self.try_lease_job().expect("no job is due")
    }

    /// Completes all jobs; returns how many there were.
    pub(crate) fn work(&mut self) -> usize {
        self.work_with(|_| Verdict::Count)
    }

    pub(crate) fn work_with(&mut self, judge: impl Fn(&Report) -> Verdict) -> usize {
        let mut jobs = 0;
        while let Some(job) = self.try_lease_job() {
            let request = digest(&format!("job {}", job.lease.job));
            run(self.store().mark_sent(job.lease, request));
            self.restart();
            let again = self.lease_job();
            assert_eq!(again.lease.job, job.lease.job, "not the oldest first");
            assert_eq!(again.request_digest, Some(request));
            assert_eq!(decoded(&again.records), decoded(&job.records));
            run(self.store().commit_job(again.lease, judged(&again, &judge)));
            self.restart();
            jobs += 1;
        }
        jobs
    }

    /// Accepts reports and counts them; all must be countable.
    #[track_caller]
    pub(crate) fn aggregate(&mut self, reports: &[Report]) {
        self.accept(reports);
        let (_, refused) = self.form();
        assert_eq!(refused, Rejections::default());
        self.work();
    }

    /// Asks for a collection that must be new.
    #[track_caller]
    pub(crate) fn create(&mut self, task_id: TaskId, query: Query) -> CollectionJobId {
        match self.try_create(task_id, query) {
            CollectionCreated::Created(id) => id,
            other => panic!("not created: {other:?}"),
        }
    }

    pub(crate) fn try_create(&mut self, task_id: TaskId, query: Query) -> CollectionCreated {
        let created = run(self.store().create_collection(task_id, request(&query), query));
        self.restart();
        created
    }

    #[track_caller]
    pub(crate) fn lease_collection(&self) -> LeasedCollection {
        run(self.store().lease_collection(LEASE, Turn::default())).expect("no collection is due")
    }

    /// One attempt by a worker to close the batch of the only collection job.
    pub(crate) fn close(&mut self, min_batch_size: u64) -> Closing {
        let job = self.lease_collection();
        let closing = run(self.store().close_batch(job.lease, min_batch_size));
        self.restart();
        closing
    }

    /// The drained batch of the only collection job.
    #[track_caller]
    pub(crate) fn drained(&mut self) -> (BatchSelector, BucketAggregate) {
        match self.close(1) {
            Closing::Drained { selector, aggregate } => (selector, aggregate),
            other => panic!("not drained: {other:?}"),
        }
    }

    /// Finishes the only collection job, whose batch is drained.
    #[track_caller]
    pub(crate) fn finish(&mut self, response: &str) {
        let job = self.lease_collection();
        run(self.store().mark_sent(job.lease, digest(response)));
        self.restart();
        let job = self.lease_collection();
        assert_eq!(job.request_digest, Some(digest(response)));
        run(self.store().finish_collection(job.lease, response.as_bytes().to_vec().into()));
        self.restart();
        let state = run(self.store().collection(job.task_id, job.id));
        assert_eq!(state, Some(CollectionState::Finished(response.into())));
    }

    /// Collects a batch from start to finish.
    #[track_caller]
    pub(crate) fn collect(
        &mut self,
        task_id: TaskId,
        query: Query,
    ) -> (CollectionJobId, BatchSelector, BucketAggregate) {
        let id = self.create(task_id, query);
        let (selector, aggregate) = self.drained();
        self.finish("collected");
        (id, selector, aggregate)
    }

    pub(crate) fn counters(&self, task_id: TaskId) -> Counters {
        run(self.store().counters(task_id))
    }

    pub(crate) fn load(&self) -> Load {
        run(self.store().load())
    }

    /// Fails if any report remains in the store.
    #[track_caller]
    pub(crate) fn assert_no_reports(&self) {
        let load = self.load();
        assert_eq!((load.backlog_bytes, load.segment_bytes, load.jobs), (0, 0, 0));
    }
}

/// The collector's request for a query. The store must treat the bytes as opaque.
pub(crate) fn request(query: &Query) -> Vec<u8> {
    format!("{query:?}").into_bytes()
}
