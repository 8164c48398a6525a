//! Aggregation jobs: a fixed set of reports, worked on under leases, ended once.

use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use sotto_protocol::leader::aggregate::LeaderOutcome;
use sotto_protocol::{Bucket, Rejection};
use sotto_store::{Lease, StoreError, TaskFilter, TaskJobs, Turn};
use sotto_wire::{Query, TaskId, Time};

use super::bench::{Bench, LEASE, on_every_store};
use super::driver::{NOW, Verdict, counted, decoded, digest, judged, rejected, run};
use super::reports::{
    aggregates, assert_holds, batch_id, interval, interval_task, misshapen_share, report, reports,
};

on_every_store!(
    a_job_keeps_its_set_and_its_clock,
    jobs_are_leased_oldest_first_and_once,
    tasks_take_turns,
    a_released_job_waits_for_its_pause,
    a_sent_request_stays_the_same,
    a_second_commit_changes_nothing,
    a_commit_must_account_for_each_report,
    a_share_of_another_shape_changes_nothing,
    refused_reports_are_counted,
    an_abandoned_job_is_counted,
    buckets_sum_over_jobs,
    records_die_with_their_jobs,
);

fn a_job_keeps_its_set_and_its_clock(bench: &mut Bench) {
    let all = reports(interval_task(1), [3, 1, 2], 10);
    bench.accept(&all);
    assert_eq!(bench.form().0, 1);
    for _ in 0..3 {
        let job = bench.lease_job();
        assert_eq!(decoded(&job.records), all);
        assert_eq!((job.task_id, job.now, job.batch_id), (interval_task(1), NOW, None));
        assert_eq!(job.request_digest, None);
        bench.restart();
    }
}

fn jobs_are_leased_oldest_first_and_once(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..3, 10));
    assert_eq!(bench.form_with(1, batch_id(1)).0, 3);
    let cells = |bench: &Bench| {
        let jobs = std::iter::from_fn(|| bench.try_lease_job());
        jobs.map(|job| decoded(&job.records)[0].cell).collect::<Vec<_>>()
    };
    assert_eq!(cells(bench), [0, 1, 2]);
    bench.advance(LEASE - Duration::from_millis(1));
    assert!(cells(bench).is_empty());
    bench.advance(Duration::from_millis(1));
    assert_eq!(cells(bench), [0, 1, 2]);
    bench.restart();
    assert_eq!(cells(bench), [0, 1, 2]);
}

/// One task with many jobs delays no other, and a task that is left out keeps its jobs.
fn tasks_take_turns(bench: &mut Bench) {
    let tasks = [1, 2, 3].map(interval_task);
    bench.accept(&reports(tasks[0], 0..4, 10));
    bench.accept(&reports(tasks[1], 4..6, 10));
    bench.accept(&reports(tasks[2], 6..7, 10));
    assert_eq!(bench.form_with(1, batch_id(1)).0, 7);
    let expected = [(tasks[0], 4), (tasks[1], 2), (tasks[2], 1)];
    let expected = expected.map(|(task, jobs)| (task, TaskJobs { jobs, reports: jobs }));
    assert_eq!(run(bench.store().jobs_by_task()), expected.into());
    let lease_all = |bench: &Bench, left_out: Option<TaskId>| {
        let (mut after, mut cells) = (None, Vec::new());
        let is_ready: TaskFilter = Arc::new(move |task_id| Some(*task_id) != left_out);
        loop {
            let turn = Turn { after, is_ready: Arc::clone(&is_ready) };
            let Some(job) = run(bench.store().lease_job(LEASE, turn)) else { return cells };
            after = Some(job.task_id);
            cells.push(decoded(&job.records)[0].cell);
        }
    };
    assert_eq!(lease_all(bench, Some(tasks[1])), [0, 6, 1, 2, 3]);
    assert_eq!(lease_all(bench, None), [4, 5]);
    bench.restart();
    assert_eq!(lease_all(bench, None), [0, 4, 6, 1, 5, 2, 3]);
}

fn a_released_job_waits_for_its_pause(bench: &mut Bench) {
    bench.accept(&reports(interval_task(1), 0..2, 10));
    bench.form_with(1, batch_id(1));
    let first = bench.lease_job();
    run(bench.store().release(first.lease, Duration::from_secs(5)));
    let second = bench.lease_job();
    assert_ne!(second.lease.job, first.lease.job);
    run(bench.store().release(second.lease, Duration::ZERO));
    assert_eq!(bench.lease_job().lease.job, second.lease.job);
    bench.advance(Duration::from_millis(4_999));
    assert!(bench.try_lease_job().is_none());
    bench.advance(Duration::from_millis(1));
    let again = bench.lease_job();
    assert_eq!(again.lease.job, first.lease.job);
    assert_eq!(decoded(&again.records), decoded(&first.records));
    // A repeated release must not take the job from its new holder.
    let repeated = block_on(bench.store().release(first.lease, Duration::ZERO));
    assert_eq!(repeated, Err(StoreError::Fenced));
    assert!(bench.try_lease_job().is_none());
}

fn a_sent_request_stays_the_same(bench: &mut Bench) {
    bench.accept(&[report(interval_task(1), 0, 10)]);
    bench.form();
    let job = bench.lease_job();
    run(bench.store().mark_sent(job.lease, digest("one")));
    run(bench.store().mark_sent(job.lease, digest("one")));
    for _ in 0..2 {
        let other = block_on(bench.store().mark_sent(lease_again(bench), digest("two")));
        assert_eq!(other, Err(StoreError::RequestDiffers));
        bench.restart();
    }
    let job = bench.lease_job();
    assert_eq!(job.request_digest, Some(digest("one")));
    run(bench.store().mark_sent(job.lease, digest("one")));
    run(bench.store().release(job.lease, Duration::ZERO));
    assert_eq!(bench.lease_job().request_digest, Some(digest("one")));
}

/// A lease on the only job, whoever held it before.
fn lease_again(bench: &Bench) -> Lease {
    bench.advance(LEASE);
    bench.lease_job().lease
}

fn a_second_commit_changes_nothing(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    bench.accept(&all);
    bench.form();
    let job = bench.lease_job();
    run(bench.store().commit_job(job.lease, counted(&job)));
    for _ in 0..2 {
        let again = block_on(bench.store().commit_job(job.lease, counted(&job)));
        assert_eq!(again, Err(StoreError::Fenced));
        assert_eq!(block_on(bench.store().abandon_job(job.lease)), Err(StoreError::Fenced));
        bench.restart();
    }
    assert!(bench.try_lease_job().is_none());
    assert_eq!(bench.counters(task).aggregated, 3);
    assert_eq!(bench.counters(task).rejections.total(), 0);
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 1)));
    assert_holds(&aggregate, &all);
}

fn a_commit_must_account_for_each_report(bench: &mut Bench) {
    let task = interval_task(1);
    let all = [report(task, 0, 10), report(task, 1, 11)];
    bench.accept(&all);
    bench.form();
    let job = bench.lease_job();
    let commit = |counted: &[_], rejected_count, requeue: &[usize]| LeaderOutcome {
        buckets: aggregates(counted, None),
        rejections: rejected(Rejection::VdafVerifyError, rejected_count),
        requeue: requeue.to_vec(),
        unspent: Vec::new(),
    };
    let releasing = |commit: LeaderOutcome, unspent: &[usize]| LeaderOutcome {
        unspent: unspent.to_vec(),
        ..commit
    };
    let elsewhere = report(task, 1, 12);
    let mut in_a_batch = commit(&all[..1], 1, &[]);
    in_a_batch.buckets = aggregates(&all[..1], Some(batch_id(1)));
    for wrong in [
        LeaderOutcome::default(),
        commit(&all[..1], 0, &[]),
        commit(&all, 1, &[]),
        commit(&all, 0, &[0]),
        commit(&all[..1], 0, &[2]),
        commit(&[], 0, &[1, 1]),
        commit(&[all[0], elsewhere], 0, &[]),
        in_a_batch,
        // Released and counted, released and requeued, outside the job, duplicated.
        releasing(commit(&all, 0, &[]), &[0]),
        releasing(commit(&all[..1], 1, &[]), &[0, 1]),
        releasing(commit(&[], 1, &[0]), &[0]),
        releasing(commit(&[], 2, &[]), &[2]),
        releasing(commit(&[], 2, &[]), &[0, 0]),
        // In addition to what is accounted for, not instead of it.
        releasing(commit(&all[..1], 0, &[]), &[1]),
    ] {
        let refused = block_on(bench.store().commit_job(job.lease, wrong.clone()));
        assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?} to {wrong:?}");
    }
    assert_eq!(bench.counters(task), Default::default());
    bench.restart();
    assert_eq!(bench.work(), 1);
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 2)));
    assert_holds(&aggregate, &all);
}

fn a_share_of_another_shape_changes_nothing(bench: &mut Bench) {
    let task = interval_task(1);
    let first = report(task, 0, 11);
    bench.aggregate(&[first]);
    let others = [report(task, 1, 10), report(task, 2, 11)];
    bench.accept(&others);
    bench.form();
    let job = bench.lease_job();
    let mut commit = counted(&job);
    // The bucket of time 10 comes first and would fit.
    commit.buckets.get_mut(&Bucket::Time(Time::new(11))).unwrap().share = misshapen_share();
    let refused = block_on(bench.store().commit_job(job.lease, commit));
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    assert_eq!(bench.counters(task).aggregated, 1);
    bench.restart();
    assert_eq!(bench.work(), 1);
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 2)));
    assert_holds(&aggregate, &[others[0], others[1], first]);
}

fn refused_reports_are_counted(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..5, 10));
    bench.form();
    bench.work_with(|report| match report.cell {
        1 => Verdict::Reject(Rejection::HpkeDecryptError),
        2 | 3 => Verdict::Reject(Rejection::VdafVerifyError),
        _ => Verdict::Count,
    });
    let mut expected = rejected(Rejection::VdafVerifyError, 2);
    expected.add(Rejection::HpkeDecryptError);
    assert_eq!(bench.counters(task).rejections, expected);
    assert_eq!(bench.counters(task).aggregated, 2);
    // What was rejected stays rejected.
    bench.accept(&reports(task, 0..5, 10));
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 5)));
    bench.assert_no_reports();
}

fn an_abandoned_job_is_counted(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..4, 10));
    bench.form();
    let job = bench.lease_job();
    run(bench.store().abandon_job(job.lease));
    for _ in 0..2 {
        assert_eq!(block_on(bench.store().abandon_job(job.lease)), Err(StoreError::Fenced));
        let late = block_on(bench.store().commit_job(job.lease, counted(&job)));
        assert_eq!(late, Err(StoreError::Fenced));
        bench.restart();
    }
    assert!(bench.try_lease_job().is_none());
    assert_eq!(bench.counters(task).rejections, rejected(Rejection::JobAbandoned, 4));
    assert_eq!(bench.counters(task).aggregated, 0);
    bench.assert_no_reports();
}

fn buckets_sum_over_jobs(bench: &mut Bench) {
    let task = interval_task(1);
    // The highest possible times: the database's integers are signed.
    let times = [10, 11, i64::MAX as u64, u64::MAX - 1];
    let all: Vec<_> =
        (0..24).map(|cell| report(task, cell, times[usize::from(cell) % 4])).collect();
    for some in all.chunks(5) {
        bench.accept(some);
        bench.form();
    }
    assert_eq!(bench.work(), 5);
    for (time, group) in times.iter().zip(0..) {
        let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(*time, 1)));
        let expected: Vec<_> =
            all.iter().copied().filter(|report| report.cell % 4 == group).collect();
        assert_holds(&aggregate, &expected);
    }
}

fn records_die_with_their_jobs(bench: &mut Bench) {
    let task = interval_task(1);
    let all: Vec<_> = reports(task, 0..30, 10).iter().map(|report| report.padded(90)).collect();
    for some in all.chunks(4) {
        bench.accept(some);
    }
    bench.form_with(3, batch_id(1));
    let before = bench.load();
    assert_eq!((before.backlog_bytes, before.jobs), (0, 10));
    assert!(before.segment_bytes > 30 * 90);
    for left in (0..10).rev() {
        let job = bench.lease_job();
        run(bench.store().commit_job(job.lease, judged(&job, |_| Verdict::Count)));
        assert_eq!(bench.load().jobs, left);
        bench.restart();
        assert_eq!(bench.load().jobs, left);
    }
    bench.assert_no_reports();
    assert_eq!(bench.counters(task).aggregated, 30);
}
