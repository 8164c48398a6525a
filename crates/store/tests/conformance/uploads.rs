//! Accepting reports and reading them back.

use std::sync::Arc;

use futures_executor::block_on;
use sotto_protocol::{Rejection, Rejections};
use sotto_store::{Fixed, StoreError};
use sotto_wire::HpkeConfigId;

use super::bench::{Bench, on_every_store};
use super::driver::{decoded, jobs_of, only_refused, rejected, run};
use super::reports::{Report, batch_id, batch_task, interval_task, report, reports};

on_every_store!(
    reports_come_back_in_order,
    reading_changes_nothing,
    the_backlog_is_read_in_pieces,
    an_empty_upload_is_nothing,
    a_stretch_is_taken_once,
    reports_refused_when_jobs_are_formed_are_counted_and_die,
    a_full_backlog_refuses_until_jobs_take_it,
    long_reports_come_back,
    hpke_keys_live_as_long_as_records_that_name_them,
    concurrent_uploads_are_all_kept,
);

fn mixed() -> Vec<Report> {
    let task = |cell| if cell % 3 == 0 { batch_task(1) } else { interval_task(cell % 3) };
    let padding = |cell| usize::from(cell) * 37 % 400;
    (0..40)
        .map(|cell| report(task(cell), cell, 7 + u64::from(cell % 2)).padded(padding(cell)))
        .collect()
}

fn reports_come_back_in_order(bench: &mut Bench) {
    let all = mixed();
    for upload in all.chunks(7) {
        bench.accept(upload);
    }
    let backlog = bench.backlog(usize::MAX);
    assert_eq!(decoded(&backlog.records), all);
    assert!(bench.load().backlog_bytes > 0);
    bench.form();
    let mut left = all;
    while let Some(job) = bench.try_lease_job() {
        let (taken, others): (Vec<Report>, _) =
            left.into_iter().partition(|report| report.task_id == job.task_id);
        assert_eq!(decoded(&job.records), taken);
        left = others;
    }
    assert_eq!(left, []);
}

fn reading_changes_nothing(bench: &mut Bench) {
    bench.accept(&mixed());
    let first = bench.backlog(5);
    let second = bench.backlog(5);
    assert!(first.stretch.is_some() && second.stretch.is_some());
    assert_eq!(decoded(&first.records), decoded(&second.records));
    assert_eq!(first.records.len(), 5);
}

fn the_backlog_is_read_in_pieces(bench: &mut Bench) {
    let all = mixed();
    for upload in all.chunks(9) {
        bench.accept(upload);
    }
    let mut read = Vec::new();
    loop {
        // Even a byte limit must let at least one report through.
        let (reports, bytes) = if read.len() % 2 == 0 { (3, usize::MAX) } else { (usize::MAX, 1) };
        let piece = run(bench.store().backlog(reports, bytes, Arc::new(|_| true)));
        let Some(stretch) = piece.stretch else { break };
        assert!(piece.records.len() <= 3, "more than was asked for");
        let dropped =
            piece.records.iter().map(|record| (record.task_id, Rejection::ReportDropped)).collect();
        read.extend(decoded(&piece.records));
        let fixed = run(bench.store().fix_jobs(stretch, only_refused(dropped)));
        assert_eq!(fixed, Fixed::Committed { jobs: 0, rejections: Rejections::default() });
        bench.restart();
    }
    assert_eq!(read, all);
    bench.assert_no_reports();
}

fn an_empty_upload_is_nothing(bench: &mut Bench) {
    assert_eq!(bench.offer(&[]), []);
    let backlog = bench.backlog(usize::MAX);
    assert!(backlog.stretch.is_none());
    assert_eq!(backlog.records.len(), 0);
    bench.assert_no_reports();
    assert!(bench.try_lease_job().is_none());
}

fn a_stretch_is_taken_once(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..6, 10));
    let backlog = bench.backlog(4);
    let jobs = jobs_of(&backlog.records, batch_id(1));
    let fix =
        |bench: &Bench| run(bench.store().fix_jobs(backlog.stretch.clone().unwrap(), jobs.clone()));
    assert!(matches!(fix(bench), Fixed::Committed { jobs: 1, .. }));
    assert_eq!(fix(bench), Fixed::Moved);
    bench.restart();
    assert_eq!(fix(bench), Fixed::Moved);
    assert_eq!(bench.counters(task).rejections.total(), 0);
    assert_eq!(bench.load().jobs, 1);
    let rest = bench.backlog(usize::MAX);
    assert_eq!(decoded(&rest.records), reports(task, 4..6, 10));
}

fn reports_refused_when_jobs_are_formed_are_counted_and_die(bench: &mut Bench) {
    let (task, other) = (interval_task(1), batch_task(2));
    bench.accept(&[report(task, 0, 10), report(task, 1, 10), report(other, 2, 10)]);
    let backlog = bench.backlog(usize::MAX);
    let mut formed = jobs_of(&backlog.records[..1], batch_id(1));
    formed.rejections = vec![(task, Rejection::TaskExpired), (other, Rejection::InvalidMessage)];
    run(bench.store().fix_jobs(backlog.stretch.unwrap(), formed));
    bench.restart();
    assert_eq!(bench.counters(task).rejections, rejected(Rejection::TaskExpired, 1));
    assert_eq!(bench.counters(other).rejections, rejected(Rejection::InvalidMessage, 1));
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.counters(task).aggregated, 1);
    bench.assert_no_reports();
}

fn a_full_backlog_refuses_until_jobs_take_it(bench: &mut Bench) {
    let bench = &mut bench.bounded(2_000);
    let task = interval_task(1);
    let mut accepted = Vec::new();
    for cell in 0..60 {
        let report = report(task, cell, 10).padded(100);
        match block_on(bench.store().accept_reports(vec![report.upload()])) {
            Ok(verdicts) => {
                assert_eq!(verdicts, [Ok(())]);
                accepted.push(report);
            }
            Err(error) => {
                assert_eq!(error, StoreError::Full);
                break;
            }
        }
        bench.restart();
    }
    assert!((3..40).contains(&accepted.len()), "{} reports in 2,000 bytes", accepted.len());
    let more = report(task, 61, 10).padded(100);
    let again = block_on(bench.store().accept_reports(vec![more.upload()]));
    assert_eq!(again, Err(StoreError::Full));
    bench.form();
    bench.accept(&[more]);
    accepted.push(more);
    bench.form();
    bench.work();
    assert_eq!(bench.counters(task).aggregated, accepted.len() as u64);
    bench.assert_no_reports();
}

fn long_reports_come_back(bench: &mut Bench) {
    let task = interval_task(1);
    let long = [
        report(task, 0, 1).padded(700_000),
        report(task, 1, 1),
        report(task, 2, 1).padded(300_000),
    ];
    bench.accept(&long);
    let backlog = bench.backlog(usize::MAX);
    assert_eq!(decoded(&backlog.records), long);
    bench.form();
    assert_eq!(decoded(&bench.lease_job().records), long);
    bench.restart();
    bench.work();
    bench.assert_no_reports();
}

fn hpke_keys_live_as_long_as_records_that_name_them(bench: &mut Bench) {
    let task = interval_task(1);
    let live = |bench: &Bench| run(bench.store().live_hpke_configs());
    assert_eq!(live(bench), []);
    for key in [9, 200, 255] {
        let upload = report(task, key % 50, 10).padded(300).upload_for_key(key);
        run(bench.store().accept_reports(vec![upload]));
        bench.restart();
        assert!(live(bench).contains(&HpkeConfigId::new(key)));
    }
    bench.form_with(1, batch_id(1));
    for key in [9, 200, 255] {
        assert!(live(bench).contains(&HpkeConfigId::new(key)), "key {key} is still needed");
        let job = bench.lease_job();
        run(bench.store().abandon_job(job.lease));
        bench.restart();
    }
    assert_eq!(live(bench), []);
}

fn concurrent_uploads_are_all_kept(bench: &mut Bench) {
    let task = interval_task(1);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = bench.store();
            scope.spawn(move || {
                for cell in 0..10 {
                    let report = report(task, thread * 10 + cell, 10).padded(usize::from(cell));
                    let verdicts = run(store.accept_reports(vec![report.upload()]));
                    assert_eq!(verdicts, [Ok(())]);
                }
            });
        }
    });
    bench.restart();
    let backlog = bench.backlog(usize::MAX);
    let cells: Vec<u8> = decoded(&backlog.records).iter().map(|report| report.cell).collect();
    for thread in 0..4 {
        let own: Vec<u8> = cells.iter().copied().filter(|cell| cell / 10 == thread).collect();
        let expected: Vec<u8> = (thread * 10..thread * 10 + 10).collect();
        assert_eq!(own, expected, "each caller's order is kept");
    }
}
