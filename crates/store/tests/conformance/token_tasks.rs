//! Tasks with tokens: a report id comes from a token, so it is spent once in the whole task,
//! whatever the timestamp, and stays spent until the task is forgotten.

use sotto_protocol::{Rejection, Rejections};
use sotto_store::{Committed, REQUEUE_PAUSE};
use sotto_wire::{BatchSelector, Query, ReportIdChecksum};

use super::bench::{Bench, on_every_store};
use super::driver::{Verdict, decoded, digest, rejected, run};
use super::helper::{REPLAYED, commit_of};
use super::reports::{Report, assert_holds, interval, report, reports, token_task};

on_every_store!(
    an_id_is_taken_in_all_buckets,
    of_one_job_the_first_copy_stays_whatever_its_time,
    a_copy_in_a_closed_bucket_does_not_take_the_id,
    ids_outlive_the_collected_bucket,
    ids_outlive_the_bucket_of_time_zero,
    a_requeued_report_releases_its_id_in_all_buckets,
    a_report_that_spent_nothing_releases_its_id,
    an_abandoned_job_keeps_its_ids,
    the_helper_spends_in_all_buckets,
    the_helper_keeps_ids_after_the_collection,
    a_forgotten_task_forgets_its_ids,
);

fn replayed(count: u64) -> Rejections {
    rejected(Rejection::ReportReplayed, count)
}

fn an_id_is_taken_in_all_buckets(bench: &mut Bench) {
    let task = token_task(1);
    let first = report(task, 0, 10);
    bench.aggregate(&[first]);
    for time in [9, 10, 11, u64::MAX] {
        bench.accept(&[report(task, 1, time).with_id_of(0)]);
        assert_eq!(bench.form(), (0, replayed(1)), "time {time}");
    }
    assert_eq!(bench.counters(task).aggregated, 1);
    bench.assert_no_reports();
}

fn of_one_job_the_first_copy_stays_whatever_its_time(bench: &mut Bench) {
    let task = token_task(1);
    let first = report(task, 5, 10).with_id_of(40);
    let other = report(task, 6, 10).with_id_of(30);
    let earlier = report(task, 7, 9).with_id_of(40);
    let later = report(task, 8, 11).with_id_of(40);
    bench.accept(&[first, other, earlier, later]);
    assert_eq!(bench.form(), (1, replayed(2)));
    assert_eq!(decoded(&bench.lease_job().records), [first, other]);
    bench.restart();
    bench.work();
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(9, 3)));
    assert_holds(&aggregate, &[first, other]);
}

fn a_copy_in_a_closed_bucket_does_not_take_the_id(bench: &mut Bench) {
    let task = token_task(1);
    bench.aggregate(&reports(task, 0..2, 10));
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    bench.drained();
    let late = report(task, 2, 10);
    assert_eq!(bench.offer(&[late]), [Err(Rejection::BatchCollected)]);
    bench.accept(&[Report { time: report(task, 2, 11).time, ..late }]);
    assert_eq!(bench.form(), (1, Rejections::default()));
}

fn ids_outlive_the_collected_bucket(bench: &mut Bench) {
    let task = token_task(1);
    bench.aggregate(&reports(task, 0..3, 10));
    bench.collect(task, Query::TimeInterval(interval(10, 1)));
    // Allows a purge to happen, if there were one.
    bench.aggregate(&reports(task, 10..12, 12));
    bench.accept(&reports(task, 0..4, 11));
    assert_eq!(bench.form(), (1, replayed(3)));
    assert_eq!(decoded(&bench.lease_job().records), [report(task, 3, 11)]);
}

/// No timestamp has the same key as the whole task.
fn ids_outlive_the_bucket_of_time_zero(bench: &mut Bench) {
    let task = token_task(1);
    let all = [report(task, 0, 0), report(task, 1, 5), report(task, 2, 7)];
    bench.aggregate(&all);
    bench.collect(task, Query::TimeInterval(interval(0, 6)));
    bench.restart();
    bench.aggregate(&[report(task, 9, 8)]);
    let copies = all.map(|report| Report { time: sotto_wire::Time::new(9), ..report });
    bench.accept(&copies);
    assert_eq!(bench.form(), (0, replayed(3)));
}

fn a_requeued_report_releases_its_id_in_all_buckets(bench: &mut Bench) {
    let task = token_task(1);
    let early = report(task, 0, 10);
    bench.accept(&[early]);
    bench.form();
    bench.work_with(|_| Verdict::Requeue);
    bench.advance(REQUEUE_PAUSE);
    bench.accept(&[report(task, 1, 11).with_id_of(0)]);
    assert_eq!(bench.form(), (1, replayed(1)));
    assert_eq!(bench.work(), 1);
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 2)));
    assert_holds(&aggregate, &[early]);
    bench.accept(&[report(task, 2, 20).with_id_of(0)]);
    assert_eq!(bench.form(), (0, replayed(1)));
}

/// Junk leaves nothing behind, and does not block the report whose id it used; reports rejected for
/// other reasons keep their ids.
fn a_report_that_spent_nothing_releases_its_id(bench: &mut Bench) {
    let task = token_task(1);
    let junk = [report(task, 0, 10), report(task, 1, 11)];
    let (refused, counted) = (report(task, 2, 10), report(task, 3, 11));
    bench.accept(&[junk[0], refused, junk[1], counted]);
    bench.form();
    let while_it_runs = [report(task, 4, 12).with_id_of(0)];
    bench.accept(&while_it_runs);
    assert_eq!(bench.form(), (0, replayed(1)));
    bench.work_with(|report| match report.cell {
        0 | 1 => Verdict::Release(Rejection::TokenMissing),
        2 => Verdict::Reject(Rejection::VdafVerifyError),
        _ => Verdict::Count,
    });
    let mut expected = replayed(1);
    expected.add_many(Rejection::TokenMissing, 2);
    expected.add(Rejection::VdafVerifyError);
    assert_eq!(bench.counters(task).rejections, expected);
    bench.assert_no_reports();
    let all = [junk[0], junk[1], refused, counted];
    assert_eq!(bench.spent(&all, None), [None, None, REPLAYED, REPLAYED]);

    let victims = [report(task, 5, 12).with_id_of(0), report(task, 6, 13).with_id_of(1)];
    let copies = [report(task, 7, 12).with_id_of(2), report(task, 8, 12).with_id_of(3)];
    bench.accept(&[victims[0], copies[0], copies[1], victims[1]]);
    assert_eq!(bench.form(), (1, replayed(2)));
    bench.work();
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 4)));
    assert_holds(&aggregate, &[counted, victims[0], victims[1]]);
    assert_eq!(bench.spent(&victims, None), [Some(Rejection::BatchCollected); 2]);
    bench.accept(&[report(task, 9, 20).with_id_of(0)]);
    assert_eq!(bench.form(), (0, replayed(1)));
}

fn an_abandoned_job_keeps_its_ids(bench: &mut Bench) {
    let task = token_task(1);
    bench.accept(&[report(task, 0, 10)]);
    bench.form();
    run(bench.store().abandon_job(bench.lease_job().lease));
    bench.restart();
    bench.accept(&[report(task, 1, 11).with_id_of(0)]);
    assert_eq!(bench.form(), (0, replayed(1)));
}

fn the_helper_spends_in_all_buckets(bench: &mut Bench) {
    let task = token_task(1);
    let first = report(task, 0, 10);
    let (elsewhere, free) = (report(task, 1, 11).with_id_of(0), report(task, 2, 11));
    assert_eq!(bench.commit(task, "one", commit_of(&[first], None, "")), Committed::Done);
    assert_eq!(bench.spent(&[free, elsewhere, first], None), [None, REPLAYED, REPLAYED]);
    let both = commit_of(&[free, elsewhere], None, "");
    assert_eq!(bench.commit(task, "two", both), Committed::Conflict);
    // Nothing of it stays.
    assert_eq!(bench.spent(&[free], None), [None]);
    let twice = [report(task, 3, 12), report(task, 4, 13).with_id_of(3)];
    assert_eq!(bench.commit(task, "twice", commit_of(&twice, None, "")), Committed::Conflict);
    assert_eq!(bench.commit(task, "two", commit_of(&[free], None, "")), Committed::Done);
    assert_eq!(bench.counters(task).aggregated, 2);
}

fn the_helper_keeps_ids_after_the_collection(bench: &mut Bench) {
    let task = token_task(1);
    let all = [report(task, 0, 0), report(task, 1, 1)];
    bench.commit(task, "one", commit_of(&all, None, ""));
    let mut checksum = ReportIdChecksum::default();
    all.iter().for_each(|report| checksum.add(&report.id));
    let selector = BatchSelector::TimeInterval(interval(0, 2));
    let expected = (2, *checksum.as_bytes());
    let share =
        bench.store().collect_batch(task, selector, expected, digest("s"), Vec::new().into());
    assert_eq!(run(share), Committed::Done);
    bench.restart();
    // Allows a purge to happen, if there were one.
    bench.commit(task, "two", commit_of(&[report(task, 9, 5)], None, ""));
    let copies = all.map(|report| Report { time: sotto_wire::Time::new(6), ..report });
    assert_eq!(bench.spent(&copies, None), [REPLAYED, REPLAYED]);
    assert_eq!(bench.commit(task, "three", commit_of(&copies, None, "")), Committed::Conflict);
}

fn a_forgotten_task_forgets_its_ids(bench: &mut Bench) {
    let task = token_task(1);
    let other = token_task(2);
    bench.aggregate(&[report(task, 0, 10), report(other, 1, 10)]);
    run(bench.store().forget_task(task));
    bench.restart();
    bench.aggregate(&[report(task, 0, 11)]);
    bench.accept(&[report(other, 2, 11).with_id_of(1)]);
    assert_eq!(bench.form(), (0, replayed(1)));
}
