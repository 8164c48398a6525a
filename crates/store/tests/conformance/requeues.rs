//! Reports that the helper found too early: they return to the backlog, release their ids, and are
//! counted once later.

use std::time::Duration;

use sotto_protocol::Rejection;
use sotto_store::{Closing, Fixed, REQUEUE_PAUSE};
use sotto_wire::{BatchSelector, Query};

use super::bench::{Bench, on_every_store};
use super::driver::{Verdict, decoded, jobs_of, judged, rejected, run};
use super::reports::{
    Report, assert_holds, batch_id, batch_task, interval, interval_task, report, reports,
};

on_every_store!(
    a_requeued_report_is_counted_once_later,
    requeued_reports_wait_for_their_pause_and_go_first,
    requeued_reports_are_read_in_pieces,
    a_report_may_be_requeued_again_and_again,
    a_copy_may_overtake_a_requeued_report,
    a_requeued_report_still_enters_a_closing_bucket,
    in_leader_selected_tasks_a_requeued_report_goes_to_the_open_batch,
    requeued_reports_of_a_forgotten_task_are_gone,
);

/// Accepts reports and requeues those in these cells.
fn requeue(bench: &mut Bench, all: &[Report], cells: &[u8]) {
    bench.accept(all);
    bench.form();
    let verdict = |report: &Report| {
        if cells.contains(&report.cell) { Verdict::Requeue } else { Verdict::Count }
    };
    bench.work_with(verdict);
}

fn a_requeued_report_is_counted_once_later(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..6, 10);
    requeue(bench, &all, &[1, 4]);
    assert_eq!(bench.counters(task).aggregated, 4);
    assert_eq!(bench.counters(task).rejections.total(), 0);
    let load = bench.load();
    assert!(load.backlog_bytes > 0 && load.segment_bytes >= load.backlog_bytes);
    bench.advance(REQUEUE_PAUSE);
    let backlog = bench.backlog(usize::MAX);
    assert_eq!(decoded(&backlog.records), [all[1], all[4]]);
    assert_eq!(bench.form(), (1, Default::default()));
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.counters(task).aggregated, 6);
    bench.assert_no_reports();
    // Its id is taken again.
    bench.accept(&[all[1]]);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 1)));
    assert_holds(&aggregate, &all);
}

fn requeued_reports_wait_for_their_pause_and_go_first(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    bench.accept(&all[..2]);
    bench.form();
    bench.accept(&all[2..]);
    let job = bench.lease_job();
    run(bench.store().commit_job(job.lease, judged(&job, |_| Verdict::Requeue)));
    let first = |bench: &Bench| decoded(&bench.backlog(1).records);
    bench.advance(REQUEUE_PAUSE - Duration::from_millis(1));
    assert_eq!(first(bench), all[2..]);
    bench.advance(Duration::from_millis(1));
    assert_eq!(first(bench), all[..1]);
    bench.form();
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 3);
    bench.assert_no_reports();
}

fn requeued_reports_are_read_in_pieces(bench: &mut Bench) {
    let task = interval_task(1);
    requeue(bench, &reports(task, 0..9, 10), &[0, 2, 4, 6, 8]);
    bench.accept(&reports(task, 10..12, 10));
    bench.advance(REQUEUE_PAUSE);
    assert_eq!(bench.form_with(2, batch_id(1)), (4, Default::default()));
    let mut cells = Vec::new();
    while let Some(job) = bench.try_lease_job() {
        cells.push(decoded(&job.records).iter().map(|report| report.cell).collect::<Vec<_>>());
    }
    assert_eq!(cells, [vec![0, 2], vec![4, 6], vec![8], vec![10, 11]]);
    bench.restart();
    assert_eq!(bench.work(), 4);
    assert_eq!(bench.counters(task).aggregated, 11);
    bench.assert_no_reports();
}

fn a_report_may_be_requeued_again_and_again(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    requeue(bench, &all, &[0, 1, 2]);
    for _ in 0..3 {
        bench.advance(REQUEUE_PAUSE);
        assert_eq!(bench.form(), (1, Default::default()));
        assert_eq!(bench.work_with(|_| Verdict::Requeue), 1);
        assert_eq!(bench.counters(task), Default::default());
    }
    bench.advance(REQUEUE_PAUSE);
    bench.form();
    bench.work();
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 1)));
    assert_holds(&aggregate, &all);
    bench.assert_no_reports();
}

fn a_copy_may_overtake_a_requeued_report(bench: &mut Bench) {
    let task = interval_task(1);
    let report = report(task, 0, 10);
    bench.accept(&[report]);
    bench.form();
    bench.accept(&[report]);
    let backlog = bench.backlog(usize::MAX);
    let jobs = jobs_of(&backlog.records, batch_id(1));
    let job = bench.lease_job();
    run(bench.store().commit_job(job.lease, judged(&job, |_| Verdict::Requeue)));
    // Its id is free, so the copy takes it; the requeued report comes second.
    let taken = run(bench.store().fix_jobs(backlog.stretch.unwrap(), jobs));
    assert!(matches!(taken, Fixed::Committed { jobs: 1, .. }), "{taken:?}");
    bench.restart();
    bench.advance(REQUEUE_PAUSE);
    assert_eq!(bench.form(), (0, rejected(Rejection::ReportReplayed, 1)));
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 1);
    bench.assert_no_reports();
}

fn a_requeued_report_still_enters_a_closing_bucket(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..4, 10);
    bench.aggregate(&all[..2]);
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    bench.accept(&all[2..]);
    bench.form();
    assert!(matches!(bench.close(2), Closing::Draining));
    // The helper's clock is behind, while the bucket is closing.
    bench.work_with(|report| if report.cell == 3 { Verdict::Requeue } else { Verdict::Count });
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.advance(REQUEUE_PAUSE);
    assert_eq!(bench.form(), (1, Default::default()));
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.work();
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &all);
}

fn in_leader_selected_tasks_a_requeued_report_goes_to_the_open_batch(bench: &mut Bench) {
    let task = batch_task(1);
    let all = reports(task, 0..4, 10);
    bench.accept(&all[..2]);
    bench.form_with(usize::MAX, batch_id(1));
    bench.work();
    bench.accept(&all[2..]);
    bench.form_with(usize::MAX, batch_id(2));
    bench.create(task, Query::LeaderSelected);
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.work_with(|report| if report.cell == 3 { Verdict::Requeue } else { Verdict::Count });
    // The batch does not wait for it.
    let (selector, aggregate) = bench.drained();
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(1)));
    assert_holds(&aggregate, &all[..3]);
    bench.advance(REQUEUE_PAUSE);
    assert_eq!(bench.form_with(usize::MAX, batch_id(3)).0, 1);
    let job = bench.lease_job();
    assert_eq!(job.batch_id, Some(batch_id(3)));
    assert_eq!(decoded(&job.records), all[3..]);
    bench.restart();
    bench.work();
    bench.finish("first");
    assert_eq!(bench.counters(task).aggregated, 4);
    bench.assert_no_reports();
}

fn requeued_reports_of_a_forgotten_task_are_gone(bench: &mut Bench) {
    let (task, other) = (interval_task(1), interval_task(2));
    let both = [reports(task, 0..4, 10), reports(other, 4..8, 10)].concat();
    requeue(bench, &both, &[0, 1, 2, 3, 6]);
    run(bench.store().forget_task(task));
    bench.restart();
    bench.advance(REQUEUE_PAUSE);
    assert_eq!(bench.form(), (1, Default::default()));
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.counters(other).aggregated, 4);
    assert_eq!(bench.counters(task), Default::default());
    bench.assert_no_reports();
}
