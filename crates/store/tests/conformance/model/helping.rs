//! The helper's steps, on its own tasks.

use std::collections::{HashMap, HashSet};

use sotto_protocol::{Bucket, Digest, ReplayScope};
use sotto_store::Committed;
use sotto_wire::{BatchSelector, ReportIdChecksum, TaskId, Time};

use super::super::driver::{digest, run};
use super::super::helper::commit_of;
use super::super::reports::{
    Report, assert_holds, batch_id, batch_mode, batch_task, interval, interval_task, replay_scope,
    report, token_task,
};
use super::Walk;
use super::oracle::is_in;

/// The expected state of all the helper's tasks.
#[derive(Default)]
pub(super) struct Helping {
    responses: HashMap<(TaskId, Digest), (Vec<u8>, Vec<Bucket>)>,
    spent: HashSet<(TaskId, Option<Time>, u8)>,
    counted: Vec<(TaskId, Bucket, Report)>,
    collected: Vec<(TaskId, BatchSelector)>,
    requests: u64,
}

impl Walk {
    pub(super) fn help(&mut self) {
        let task_id = [interval_task(8), batch_task(8), token_task(8)][self.below(3)];
        match self.below(10) {
            0..6 => self.commit_helper_job(task_id),
            6..7 => self.forget_response(task_id),
            _ => self.collect_batch(task_id),
        }
    }

    /// A request with a new name, or with one that may have been used.
    fn some_request(&mut self) -> Digest {
        if self.helping.requests == 0 || self.chance(70) {
            self.helping.requests += 1;
        }
        let number = 1 + self.rng_below(self.helping.requests);
        digest(&format!("request {number}"))
    }

    fn commit_helper_job(&mut self, task_id: TaskId) {
        let request = self.some_request();
        let is_timed = batch_mode(&task_id) == sotto_wire::BatchMode::TimeInterval;
        let batch = (!is_timed).then(|| batch_id(u8::try_from(self.rng_below(3)).unwrap()));
        let mut reports: Vec<Report> = Vec::new();
        for _ in 0..1 + self.rng_below(3) {
            let cell = u8::try_from(self.rng_below(40)).unwrap();
            let report = report(task_id, cell, self.rng_below(6));
            if reports.iter().all(|other| other.cell != cell) {
                reports.push(report);
            }
        }
        let response = format!("response {}", self.trace.len());
        let is_narrow = replay_scope(&task_id) == ReplayScope::Bucket;
        let scope = |report: &Report| (task_id, is_narrow.then_some(report.time), report.cell);
        let facts = &self.helping;
        let is_collected = |bucket: &Bucket| {
            facts.collected.iter().any(|(task, batch)| *task == task_id && is_in(bucket, batch))
        };
        let is_late = |report: &Report| is_collected(&report.bucket(batch));
        let is_spent = |report: &Report| is_late(report) || facts.spent.contains(&scope(report));
        let stored = facts.responses.get(&(task_id, request)).map(|(body, _)| body.clone());
        let expected = match stored {
            Some(body) => Committed::Already(body),
            None if reports.iter().any(is_spent) => Committed::Conflict,
            None => Committed::Done,
        };
        let told = self.bench.spent(&reports, batch);
        let expected_spent: Vec<bool> = reports.iter().map(is_spent).collect();
        assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), expected_spent);
        let commit = commit_of(&reports, batch, &response);
        let committed = run(self.bench.store().commit_helper_job(task_id, request, commit));
        assert_eq!(committed, expected);
        if committed == Committed::Done {
            let buckets = reports.iter().map(|report| report.bucket(batch)).collect();
            self.helping.responses.insert((task_id, request), (response.into(), buckets));
            self.helping.spent.extend(reports.iter().map(scope));
            let counted = reports.iter().map(|report| (task_id, report.bucket(batch), *report));
            self.helping.counted.extend(counted);
        }
        self.note(committed);
    }

    fn forget_response(&mut self, task_id: TaskId) {
        let request = self.some_request();
        run(self.bench.store().forget_response(task_id, request));
        self.helping.responses.remove(&(task_id, request));
    }

    fn collect_batch(&mut self, task_id: TaskId) {
        let selector = match batch_mode(&task_id) {
            sotto_wire::BatchMode::TimeInterval => {
                BatchSelector::TimeInterval(interval(self.rng_below(6), 1 + self.rng_below(2)))
            }
            sotto_wire::BatchMode::LeaderSelected => {
                BatchSelector::LeaderSelected(batch_id(u8::try_from(self.rng_below(3)).unwrap()))
            }
        };
        let facts = &self.helping;
        let held = facts
            .counted
            .iter()
            .filter(|(task, bucket, _)| *task == task_id && is_in(bucket, &selector));
        let held: Vec<Report> = held.map(|(.., report)| *report).collect();
        let was_collected = facts.collected.iter().any(|(task, other)| match (other, selector) {
            (BatchSelector::TimeInterval(a), BatchSelector::TimeInterval(b)) => {
                *task == task_id && a.overlaps(&b)
            }
            _ => *task == task_id && *other == selector,
        });
        let batch = run(self.bench.store().batch(task_id, selector));
        assert_eq!(batch.collected, was_collected);
        match batch.aggregate {
            Some(aggregate) => assert_holds(&aggregate, &held),
            None => assert_eq!(held, []),
        }
        if held.is_empty() {
            return;
        }
        let mut checksum = ReportIdChecksum::default();
        held.iter().for_each(|report| checksum.add(&report.id));
        let is_wrong = self.chance(20);
        let count = held.len() as u64 + u64::from(is_wrong);
        let request = self.some_request();
        let stored = self.helping.responses.get(&(task_id, request)).map(|(body, _)| body.clone());
        let expected = match stored {
            Some(body) => Committed::Already(body),
            None if is_wrong || was_collected => Committed::Conflict,
            None => Committed::Done,
        };
        let claim = (count, *checksum.as_bytes());
        let store = self.bench.store();
        let response = b"share".to_vec();
        let collected =
            run(store.collect_batch(task_id, selector, claim, request, response.into()));
        assert_eq!(collected, expected);
        if collected == Committed::Done {
            let facts = &mut self.helping;
            facts.collected.push((task_id, selector));
            facts.counted.retain(|(task, bucket, _)| *task != task_id || !is_in(bucket, &selector));
            facts.responses.retain(|(task, _), (_, buckets)| {
                *task != task_id || !buckets.iter().any(|bucket| is_in(bucket, &selector))
            });
            facts.responses.insert((task_id, request), (b"share".to_vec(), Vec::new()));
        }
        self.note(collected);
    }

    fn rng_below(&mut self, bound: u64) -> u64 {
        self.below(usize::try_from(bound).unwrap()) as u64
    }
}
