//! Reports of tasks that are not served: they hold back no others, are not lost, and are counted
//! once their task is served again.

use std::sync::Arc;

use sotto_protocol::Rejection;
use sotto_store::{Closing, TaskFilter};
use sotto_wire::{Query, TaskId};

use super::bench::{Bench, on_every_store};
use super::driver::{all_but, decoded, rejected, run};
use super::reports::{
    Report, assert_holds, batch_id, batch_task, interval, interval_task, report, reports,
};

on_every_store!(
    reports_of_a_task_that_is_not_served_hold_back_nobody,
    they_are_offered_again_once_their_task_is_served,
    they_are_read_in_pieces,
    they_go_with_their_task,
    a_task_that_is_forgotten_between_reading_and_fixing_stays_forgotten,
    they_still_enter_a_closing_bucket,
    a_copy_is_refused_whichever_comes_second,
);

/// Copies of two tasks, alternating.
fn by_turns(first: TaskId, second: TaskId, cells: std::ops::Range<u8>) -> Vec<Report> {
    cells.flat_map(|cell| [first, second].map(|task| report(task, cell, 10).padded(90))).collect()
}

fn of(all: &[Report], task: TaskId) -> Vec<Report> {
    all.iter().copied().filter(|report| report.task_id == task).collect()
}

fn reports_of_a_task_that_is_not_served_hold_back_nobody(bench: &mut Bench) {
    for (gone, task) in [(interval_task(1), interval_task(2)), (batch_task(1), interval_task(3))] {
        let all = by_turns(gone, task, 0..6);
        bench.accept(&all);
        let is_served = all_but(gone);
        let backlog = run(bench.store().backlog(4, usize::MAX, Arc::clone(&is_served)));
        assert_eq!(decoded(&backlog.records), of(&all, task)[..4]);
        assert_eq!(backlog.unserved, [gone]);
        assert_eq!(bench.form_served(usize::MAX, batch_id(1), &is_served).0, 1);
        bench.work();
        assert_eq!(bench.counters(task).aggregated, 6);
        assert_eq!(bench.counters(gone), Default::default());
        // Nothing is left to take, and the others keep waiting.
        let backlog = run(bench.store().backlog(usize::MAX, usize::MAX, is_served));
        assert!(backlog.stretch.is_none() && backlog.records.is_empty());
        assert_eq!(backlog.unserved, [gone]);
        assert!(bench.load().backlog_bytes > 0);
        bench.form_with(usize::MAX, batch_id(2));
        bench.work();
        assert_eq!(bench.counters(gone).aggregated, 6);
        bench.assert_no_reports();
    }
}

fn they_are_offered_again_once_their_task_is_served(bench: &mut Bench) {
    let (gone, task) = (interval_task(1), interval_task(2));
    let all = by_turns(gone, task, 0..5);
    for upload in all.chunks(3) {
        bench.accept(upload);
        bench.form_served(2, batch_id(1), &all_but(gone));
    }
    bench.work();
    let late = [report(gone, 7, 10), report(task, 7, 10)];
    bench.accept(&late);
    // The old ones first, in order.
    let backlog = bench.backlog(usize::MAX);
    assert_eq!(decoded(&backlog.records), of(&all, gone));
    assert_eq!(backlog.unserved, []);
    bench.form();
    bench.work();
    for task in [gone, task] {
        assert_eq!(bench.counters(task).aggregated, 6);
        let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 1)));
        assert_holds(&aggregate, &[of(&all, task), of(&late, task)].concat());
    }
    bench.assert_no_reports();
}

fn they_are_read_in_pieces(bench: &mut Bench) {
    let (gone, other) = (interval_task(1), interval_task(2));
    bench.accept(&by_turns(gone, other, 0..6));
    let nobody: TaskFilter = Arc::new(|_| false);
    assert_eq!(bench.form_served(3, batch_id(1), &nobody), (0, Default::default()));
    let backlog = run(bench.store().backlog(3, usize::MAX, Arc::clone(&nobody)));
    assert_eq!((backlog.stretch.is_none(), backlog.unserved.len()), (true, 2));
    assert_eq!(bench.form_served(4, batch_id(1), &all_but(gone)).0, 2);
    assert_eq!(bench.form_served(1, batch_id(1), &all_but(other)).0, 6);
    assert_eq!(bench.work(), 8);
    assert_eq!((bench.counters(gone).aggregated, bench.counters(other).aggregated), (6, 6));
    bench.assert_no_reports();
}

fn they_go_with_their_task(bench: &mut Bench) {
    let (gone, task) = (interval_task(1), interval_task(2));
    bench.accept(&by_turns(gone, task, 0..6));
    bench.form_served(usize::MAX, batch_id(1), &all_but(gone));
    run(bench.store().forget_task(gone));
    bench.restart();
    let backlog = run(bench.store().backlog(usize::MAX, usize::MAX, all_but(gone)));
    assert!(backlog.stretch.is_none() && backlog.unserved.is_empty());
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 6);
    assert_eq!(bench.counters(gone), Default::default());
    bench.assert_no_reports();
}

fn a_task_that_is_forgotten_between_reading_and_fixing_stays_forgotten(bench: &mut Bench) {
    let (gone, task) = (interval_task(1), interval_task(2));
    bench.accept(&by_turns(gone, task, 0..3));
    let backlog = run(bench.store().backlog(usize::MAX, usize::MAX, all_but(gone)));
    run(bench.store().forget_task(gone));
    run(bench.store().fix_jobs(backlog.stretch.unwrap(), Default::default()));
    bench.restart();
    let backlog = run(bench.store().backlog(usize::MAX, usize::MAX, all_but(gone)));
    assert!(backlog.stretch.is_none() && backlog.unserved.is_empty());
    bench.assert_no_reports();
}

fn they_still_enter_a_closing_bucket(bench: &mut Bench) {
    let (task, other) = (interval_task(1), interval_task(2));
    let all = reports(task, 0..4, 10);
    bench.aggregate(&all[..2]);
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    bench.accept(&all[2..]);
    assert!(matches!(bench.close(2), Closing::Draining));
    // The task is unserved for a while, and others continue.
    bench.accept(&reports(other, 0..2, 10));
    assert_eq!(bench.form_served(usize::MAX, batch_id(1), &all_but(task)).0, 1);
    bench.work();
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.form();
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.work();
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &all);
}

fn a_copy_is_refused_whichever_comes_second(bench: &mut Bench) {
    let task = interval_task(1);
    let report = report(task, 0, 10);
    bench.accept(&[report]);
    bench.form_served(usize::MAX, batch_id(1), &all_but(task));
    bench.accept(&[report]);
    assert_eq!(bench.form(), (1, rejected(Rejection::ReportReplayed, 1)));
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 1);
    bench.assert_no_reports();
}
