//! The leader's steps: uploads, jobs and how they end.

use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use sotto_protocol::Rejection;
use sotto_protocol::leader::aggregate::{FormedJobs, LeaderOutcome};
use sotto_store::{Backlog, Fixed, LeasedJob, StoreError};
use sotto_wire::{BatchId, BatchSelector, TaskId, Time};

use super::super::driver::{Verdict, counted, decoded, digest, jobs_of, jobs_without, judged, run};
use super::super::reports::{CELLS, Report, assert_holds, interval, report};
use super::oracle::{JobFacts, replayed};
use super::{Power, Walk};

/// All report times are below this.
pub(super) const END: u64 = 6;

impl Walk {
    pub(super) fn some_task(&mut self) -> TaskId {
        let tasks: Vec<TaskId> = self.oracle.tasks.keys().copied().collect();
        tasks[self.below(tasks.len())]
    }

    fn some_report(&mut self) -> Report {
        let task_id = self.some_task();
        let made = self.oracle.task(task_id).made.clone();
        if made.len() == CELLS || (!made.is_empty() && self.chance(30)) {
            return made[self.below(made.len())];
        }
        let cell = u8::try_from(made.len()).unwrap();
        let time = self.rng_time();
        let padding = if self.chance(10) { 800 } else { self.below(60) };
        let mut report = report(task_id, cell, time.as_units()).padded(padding);
        if !made.is_empty() && self.chance(10) {
            // Another report with an id that was used before.
            report.id = made[self.below(made.len())].id;
        }
        self.oracle.task(task_id).made.push(report);
        report
    }

    fn rng_time(&mut self) -> Time {
        Time::new(self.below(usize::try_from(END).unwrap()) as u64)
    }

    pub(super) fn upload(&mut self) {
        let reports: Vec<Report> = (0..1 + self.below(6)).map(|_| self.some_report()).collect();
        let uploads = reports.iter().map(Report::upload).collect();
        match block_on(self.bench.store().accept_reports(uploads)) {
            Ok(verdicts) => {
                for (report, verdict) in reports.iter().zip(&verdicts) {
                    let task = self.oracle.task(report.task_id);
                    let expected = if task.is_closed(report) {
                        Err(Rejection::BatchCollected)
                    } else {
                        Ok(())
                    };
                    assert_eq!(*verdict, expected);
                    if verdict.is_ok() {
                        task.waiting.push(*report);
                        task.accepted += 1;
                    }
                }
                self.note(verdicts);
            }
            Err(error) => {
                assert_eq!(self.power, Power::Failing, "{error}");
                for report in reports {
                    self.oracle.task(report.task_id).doubtful.push(report);
                }
            }
        }
    }

    /// Reads a non-empty stretch. One task may be unserved.
    fn read(&mut self, max_reports: usize, unserved: Option<TaskId>) -> Option<Backlog> {
        loop {
            let is_served = Arc::new(move |task_id: &TaskId| Some(*task_id) != unserved);
            let store = self.bench.store();
            let backlog = run(store.backlog(max_reports, usize::MAX, is_served));
            assert!(backlog.records.iter().all(|record| Some(record.task_id) != unserved));
            if !backlog.records.is_empty() {
                self.oracle.check_waiting(&backlog.records);
                return Some(backlog);
            }
            let stretch = backlog.stretch?;
            run(self.bench.store().fix_jobs(stretch, FormedJobs::default()));
        }
    }

    pub(super) fn form(&mut self) {
        let max_reports = 1 + self.below(8);
        let unserved = if self.chance(30) { Some(self.some_task()) } else { None };
        if let Some(backlog) = self.read(max_reports, unserved) {
            self.take(backlog);
        }
    }

    fn take(&mut self, backlog: Backlog) {
        let refused = if self.chance(10) { self.below(backlog.records.len()) } else { usize::MAX };
        let new_batch = BatchId::new(self.bench.fresh_bytes());
        let mut formed = jobs_without(&backlog.records, refused, new_batch);
        let mut records = backlog.records.clone();
        if refused < records.len() {
            let record = records.remove(refused);
            formed.rejections.push((record.task_id, Rejection::TaskExpired));
            self.oracle.refuse(&Report::decode(&record), Rejection::TaskExpired);
        }
        let jobs = formed.jobs.clone();
        let stretch = backlog.stretch.clone().unwrap();
        let fixed = run(self.bench.store().fix_jobs(stretch, formed));
        let mut expected = (0, 0);
        for job in jobs {
            let reports = records.iter().filter(|record| record.task_id == job.task_id);
            let (kept, replays): (Vec<Report>, Vec<Report>) =
                reports.map(Report::decode).partition(|report| self.oracle.reserve(report));
            expected.1 += replays.len() as u64;
            if !kept.is_empty() {
                expected.0 += 1;
                // The lease will show which batch it is.
                let (task_id, batch_id, digest) = (job.task_id, None, None);
                let facts = JobFacts { task_id, batch_id, reports: kept, digest, is_held: false };
                self.oracle.jobs.push(facts);
            }
        }
        let (jobs, rejections) = (expected.0, replayed(expected.1));
        assert_eq!(fixed, Fixed::Committed { jobs, rejections });
        self.note((decoded(&backlog.records), fixed));
        self.stretch = Some(backlog);
    }

    /// A second worker that read the same stretch comes too late.
    pub(super) fn take_a_stretch_again(&mut self) {
        let Some(Backlog { stretch, records, .. }) = self.stretch.clone() else { return };
        let jobs = jobs_of(&records, BatchId::new(self.bench.fresh_bytes()));
        let again = run(self.bench.store().fix_jobs(stretch.unwrap(), jobs));
        assert_eq!(again, Fixed::Moved);
    }

    pub(super) fn lease(&mut self) {
        let leased = self.bench.try_lease_job();
        self.note(leased.as_ref().map(|job| decoded(&job.records)));
        let Some(leased) = leased else { return };
        let reports = decoded(&leased.records);
        let is_it = |job: &&mut JobFacts| {
            !job.is_held && job.task_id == leased.task_id && job.reports == reports
        };
        let job = self.oracle.jobs.iter_mut().find(is_it).expect("an unknown job");
        assert_eq!(leased.request_digest, job.digest);
        assert!(job.batch_id.is_none() || job.batch_id == leased.batch_id, "the batch changed");
        job.batch_id = leased.batch_id;
        job.is_held = true;
        self.held.push(leased);
    }

    /// Does something with a job that the worker holds.
    pub(super) fn act(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let index = self.below(self.held.len());
        match self.below(10) {
            0..3 => {
                let job = &self.held[index];
                let request = digest(&format!("job {}", job.lease.job));
                run(self.bench.store().mark_sent(job.lease, request));
                self.facts_of(index).digest = Some(request);
            }
            3 => {
                let job = self.held.swap_remove(index);
                let pause = Duration::from_millis(self.rng_time().as_units() * 300);
                run(self.bench.store().release(job.lease, pause));
                self.facts(&job).is_held = false;
                self.lost.push(job);
            }
            4 => {
                let job = self.held.swap_remove(index);
                run(self.bench.store().abandon_job(job.lease));
                self.end(&job, |_| Verdict::Reject(Rejection::JobAbandoned));
            }
            _ => {
                let job = self.held.swap_remove(index);
                self.commit(job, true);
            }
        }
    }

    fn commit(&mut self, job: LeasedJob, may_refuse: bool) {
        let seed = if may_refuse { self.below(1_000) } else { usize::MAX };
        let judge = |report: &Report| match seed.wrapping_add(usize::from(report.cell) * 7) % 10 {
            _ if seed == usize::MAX => Verdict::Count,
            0 => Verdict::Reject(Rejection::VdafVerifyError),
            1 => Verdict::Requeue,
            2 => Verdict::Release(Rejection::TokenMissing),
            _ => Verdict::Count,
        };
        run(self.bench.store().commit_job(job.lease, judged(&job, judge)));
        self.end(&job, judge);
    }

    /// Records the end of a job.
    fn end(&mut self, job: &LeasedJob, judge: impl Fn(&Report) -> Verdict) {
        let reports = decoded(&job.records);
        let same = |facts: &JobFacts| facts.is_held && facts.reports == reports;
        let index = self.oracle.jobs.iter().position(same).unwrap();
        self.oracle.jobs.swap_remove(index);
        for report in &reports {
            match judge(report) {
                Verdict::Count => self.oracle.count(report, job.batch_id),
                Verdict::Requeue => self.oracle.requeue(report),
                Verdict::Reject(reason) => self.oracle.reject(report, reason),
                Verdict::Release(reason) => {
                    self.oracle.reject(report, reason);
                    self.oracle.release(report);
                }
            }
        }
        self.lost.push(job.clone());
        let counters = run(self.bench.store().counters(job.task_id));
        assert_eq!(counters, self.oracle.task(job.task_id).counters);
        self.note(counters);
    }

    /// A worker that was away too long.
    pub(super) fn act_on_a_lost_lease(&mut self) {
        if self.lost.is_empty() {
            return;
        }
        let index = self.below(self.lost.len());
        let lost = self.lost[index].clone();
        let reports = decoded(&lost.records);
        let alive = self.oracle.jobs.iter().find(|job| job.reports == reports);
        if alive.is_some_and(|job| !job.is_held) {
            return;
        }
        let choice = self.below(6);
        let store = self.bench.store();
        let answer = match choice {
            0 => block_on(store.abandon_job(lost.lease)),
            1 => block_on(store.release(lost.lease, Duration::ZERO)),
            2 => block_on(store.mark_sent(lost.lease, digest("lost"))),
            3 => block_on(store.commit_job(lost.lease, LeaderOutcome::default())),
            _ => block_on(store.commit_job(lost.lease, counted(&lost))),
        };
        assert_eq!(answer, Err(StoreError::Fenced));
    }

    pub(super) fn forget_task(&mut self) {
        let task_id = self.some_task();
        if block_on(self.bench.store().forget_task(task_id)).is_err() {
            assert_eq!(self.power, Power::Failing);
            return;
        }
        let (gone, held) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<_>, _>(|job| job.task_id == task_id);
        self.held = held;
        self.lost.extend(gone);
        self.collections.retain(|(task, _)| *task != task_id);
        self.oracle.forget(task_id);
    }

    pub(super) fn form_all(&mut self) {
        self.bench.advance(sotto_store::REQUEUE_PAUSE);
        while let Some(backlog) = self.read(usize::MAX, None) {
            self.take(backlog);
        }
    }

    /// Completes all jobs; returns whether there were any.
    pub(super) fn work_all(&mut self) -> bool {
        let mut has_worked = false;
        loop {
            self.lease();
            let Some(job) = self.held.pop() else { break };
            self.commit(job, false);
            has_worked = true;
        }
        assert!(self.oracle.jobs.is_empty(), "a job was lost");
        has_worked
    }

    pub(super) fn check_totals(&mut self) {
        for (task_id, task) in &self.oracle.tasks {
            assert_eq!(task.waiting, [], "a report was lost");
            let counters = run(self.bench.store().counters(*task_id));
            assert_eq!(counters, task.counters);
            assert_eq!(counters.aggregated + counters.rejections.total(), task.accepted);
            let mut batches: Vec<BatchSelector> =
                vec![BatchSelector::TimeInterval(interval(0, END))];
            let named = task.counted.iter().filter_map(|(bucket, _)| match bucket {
                sotto_protocol::Bucket::Batch(id) => Some(BatchSelector::LeaderSelected(*id)),
                sotto_protocol::Bucket::Time(_) => None,
            });
            batches.extend(named);
            for selector in batches {
                let held = self.oracle.held(*task_id, &selector);
                let batch = run(self.bench.store().batch(*task_id, selector));
                match batch.aggregate {
                    Some(aggregate) => assert_holds(&aggregate, &held),
                    None => assert_eq!(held, []),
                }
            }
        }
        for (task_id, id, state) in self.collection_states() {
            assert_eq!(run(self.bench.store().collection(task_id, id)), state);
        }
    }

    fn facts_of(&mut self, index: usize) -> &mut JobFacts {
        let job = self.held[index].clone();
        self.facts(&job)
    }

    fn facts(&mut self, job: &LeasedJob) -> &mut JobFacts {
        let reports = decoded(&job.records);
        self.oracle.jobs.iter_mut().find(|job| job.is_held && job.reports == reports).unwrap()
    }
}
