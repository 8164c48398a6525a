//! The same report again: wherever the copy turns up, it is rejected and counted.

use sotto_protocol::Rejection;
use sotto_wire::{Query, Time};

use super::bench::{Bench, on_every_store};
use super::driver::{decoded, rejected, run};
use super::reports::{
    Report, assert_holds, batch_id, batch_task, interval, interval_task, report, reports,
};

on_every_store!(
    inside_one_upload,
    in_two_uploads_of_one_job,
    in_two_segments,
    in_two_jobs,
    after_the_job_was_committed,
    after_the_job_was_abandoned,
    after_the_bucket_was_collected,
    the_first_copy_stays,
    an_id_at_two_times_is_two_reports,
    an_id_in_two_tasks_is_two_reports,
    in_leader_selected_tasks_an_id_is_unique_whatever_the_time,
    in_leader_selected_tasks_an_id_is_unique_across_batches,
);

#[track_caller]
fn assert_replayed(bench: &Bench, report: Report, counted: u64, replayed: u64) {
    let counters = bench.counters(report.task_id);
    assert_eq!(counters.aggregated, counted);
    assert_eq!(counters.rejections, rejected(Rejection::ReportReplayed, replayed));
    bench.assert_no_reports();
}

fn inside_one_upload(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.accept(&[report, report, report]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 2)));
    assert_eq!(decoded(&bench.lease_job().records), [report]);
    bench.restart();
    bench.work();
    assert_replayed(bench, report, 1, 2);
}

fn in_two_uploads_of_one_job(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.accept(&[report]);
    bench.accept(&[report]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 1)));
    bench.work();
    assert_replayed(bench, report, 1, 1);
}

fn in_two_segments(bench: &mut Bench) {
    let task = interval_task(1);
    let copy = report(task, 0, 10);
    bench.accept(&[copy]);
    // Longer than the segments of the durable stores under test.
    bench.accept(&[report(task, 1, 10).padded(5_000)]);
    bench.accept(&[copy]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 1)));
    bench.work();
    assert_replayed(bench, copy, 2, 1);
}

fn in_two_jobs(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.accept(&[report]);
    bench.form();
    bench.accept(&[report]);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    assert_eq!(bench.load().jobs, 1);
    bench.work();
    assert_replayed(bench, report, 1, 1);
}

fn after_the_job_was_committed(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.aggregate(&[report]);
    bench.accept(&[report]);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    assert_eq!(bench.work(), 0);
    assert_replayed(bench, report, 1, 1);
}

fn after_the_job_was_abandoned(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.accept(&[report]);
    bench.form();
    run(bench.store().abandon_job(bench.lease_job().lease));
    bench.restart();
    bench.accept(&[report]);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    assert_eq!(bench.counters(report.task_id).aggregated, 0);
    bench.assert_no_reports();
}

fn after_the_bucket_was_collected(bench: &mut Bench) {
    let report = report(interval_task(1), 0, 10);
    bench.aggregate(&[report]);
    bench.collect(report.task_id, Query::TimeInterval(interval(10, 1)));
    assert_eq!(bench.offer(&[report]), [Err(Rejection::BatchCollected)]);
    assert_replayed(bench, report, 1, 0);
}

fn the_first_copy_stays(bench: &mut Bench) {
    // Times and ids sort in the opposite order to arrival.
    let task = interval_task(1);
    let first = report(task, 5, 10).with_id_of(40);
    let others = [report(task, 6, 10).with_id_of(30), report(task, 7, 9).with_id_of(40)];
    let late = report(task, 8, 10).with_id_of(40);
    bench.accept(&[first, others[0], others[1], late]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 1)));
    assert_eq!(decoded(&bench.lease_job().records), [first, others[0], others[1]]);
    bench.restart();
    bench.work();
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(9, 2)));
    assert_holds(&aggregate, &[first, others[0], others[1]]);

    let task = batch_task(1);
    let first = report(task, 5, 10).with_id_of(40);
    let other = report(task, 6, 10).with_id_of(30);
    let late = report(task, 8, 9).with_id_of(40);
    bench.accept(&[first, other, late]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 1)));
    assert_eq!(decoded(&bench.lease_job().records), [first, other]);
}

fn an_id_at_two_times_is_two_reports(bench: &mut Bench) {
    let task = interval_task(1);
    let both = [report(task, 0, 10), report(task, 1, 11).with_id_of(0)];
    bench.aggregate(&both);
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 2)));
    assert_holds(&aggregate, &both);
}

fn an_id_in_two_tasks_is_two_reports(bench: &mut Bench) {
    for task in [interval_task(1), interval_task(2), batch_task(1), batch_task(2)] {
        bench.aggregate(&[report(task, 0, 10)]);
        assert_eq!(bench.counters(task).aggregated, 1);
    }
}

fn in_leader_selected_tasks_an_id_is_unique_whatever_the_time(bench: &mut Bench) {
    let first = report(batch_task(1), 0, 10);
    bench.aggregate(&[first]);
    bench.accept(&[Report { time: Time::new(11), ..first }]);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    assert_replayed(bench, first, 1, 1);
}

fn in_leader_selected_tasks_an_id_is_unique_across_batches(bench: &mut Bench) {
    let task = batch_task(1);
    bench.accept(&reports(task, 0..3, 10));
    bench.form_with(usize::MAX, batch_id(1));
    bench.work();
    bench.collect(task, Query::LeaderSelected);
    bench.accept(&reports(task, 1..5, 10));
    assert_eq!(
        bench.form_with(usize::MAX, batch_id(2)),
        (1, rejected(Rejection::ReportReplayed, 2))
    );
    let job = bench.lease_job();
    assert_eq!(job.batch_id, Some(batch_id(2)));
    assert_eq!(decoded(&job.records), reports(task, 3..5, 10));
    bench.restart();
    bench.work();
    assert_replayed(bench, report(task, 0, 10), 5, 2);
}
