//! Closing a time interval: what was accepted before is added, what comes later is not.

use std::time::Duration;

use futures_executor::block_on;
use sotto_protocol::Rejection;
use sotto_store::{Closing, StoreError, Turn};
use sotto_wire::{BatchSelector, Query};

use super::bench::{Bench, on_every_store};
use super::driver::{counted, digest, rejected, request, run};
use super::reports::{assert_holds, batch_id, interval, interval_task, report, reports};

on_every_store!(
    a_batch_stays_open_while_it_has_too_few,
    only_committed_reports_count_as_enough,
    a_closing_batch_drains_the_backlog,
    a_closing_batch_waits_for_its_jobs,
    other_intervals_do_not_hold_up_a_drain,
    empty_buckets_of_an_interval_close_too,
    a_drained_batch_stays_the_same,
    an_undrained_batch_is_not_finished,
    nothing_enters_a_collected_bucket,
    neighbouring_intervals_are_collected_apart,
    a_failed_collection_leaves_its_batch_closed,
    uploads_race_with_a_closing,
);

/// Ten buckets from time 10 on.
fn ten() -> Query {
    Query::TimeInterval(interval(10, 10))
}

fn a_batch_stays_open_while_it_has_too_few(bench: &mut Bench) {
    let task = interval_task(1);
    bench.create(task, ten());
    assert!(matches!(bench.close(1), Closing::TooFew));
    bench.aggregate(&reports(task, 0..4, 12));
    assert!(matches!(bench.close(5), Closing::TooFew));
    bench.aggregate(&reports(task, 4..5, 13));
    // Reports outside the interval do not count.
    bench.aggregate(&[report(task, 6, 9), report(task, 7, 20)]);
    assert!(matches!(bench.close(6), Closing::TooFew));
    let Closing::Drained { selector, aggregate } = bench.close(5) else { panic!("not drained") };
    assert_eq!(selector, BatchSelector::TimeInterval(interval(10, 10)));
    let mut expected = reports(task, 0..4, 12);
    expected.push(report(task, 4, 13));
    assert_holds(&aggregate, &expected);
}

fn only_committed_reports_count_as_enough(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 10));
    bench.accept(&reports(task, 2..5, 10));
    bench.create(task, ten());
    assert!(matches!(bench.close(5), Closing::TooFew));
    bench.form();
    assert!(matches!(bench.close(5), Closing::TooFew));
    // Still open.
    bench.accept(&reports(task, 5..6, 10));
    bench.form();
    bench.work();
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &reports(task, 0..6, 10));
}

fn a_closing_batch_drains_the_backlog(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..6, 15);
    bench.aggregate(&all[..2]);
    bench.accept(&all[2..]);
    bench.create(task, ten());
    assert!(matches!(bench.close(2), Closing::Draining));
    let late = report(task, 9, 15);
    assert_eq!(bench.offer(&[late]), [Err(Rejection::BatchCollected)]);
    // Acknowledged before the closing, so never rejected because of it.
    assert_eq!(bench.form_with(2, batch_id(1)), (2, Default::default()));
    assert!(matches!(bench.close(2), Closing::Draining));
    assert_eq!(bench.offer(&[late]), [Err(Rejection::BatchCollected)]);
    bench.work();
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &all);
    bench.finish("done");
    assert_eq!(bench.offer(&[late]), [Err(Rejection::BatchCollected)]);
    assert_eq!(bench.counters(task).aggregated, 6);
    assert_eq!(bench.counters(task).rejections.total(), 0);
    bench.assert_no_reports();
}

fn a_closing_batch_waits_for_its_jobs(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..5, 15);
    bench.aggregate(&all[..2]);
    bench.accept(&all[2..]);
    bench.form_with(1, batch_id(1));
    bench.create(task, ten());
    for left in (0..3).rev() {
        assert!(matches!(bench.close(2), Closing::Draining));
        let job = bench.lease_job();
        run(bench.store().commit_job(job.lease, counted(&job)));
        bench.restart();
        assert_eq!(bench.load().jobs, left);
    }
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &all);
}

fn other_intervals_do_not_hold_up_a_drain(bench: &mut Bench) {
    let (task, other) = (interval_task(1), interval_task(2));
    let inside = reports(task, 0..2, 15);
    bench.aggregate(&inside);
    bench.accept(&[report(task, 5, 9), report(task, 6, 20), report(other, 7, 15)]);
    bench.form();
    bench.create(task, ten());
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &inside);
    // Later arrivals do not either.
    bench.accept(&[report(task, 8, 9), report(other, 9, 15)]);
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &inside);
    bench.finish("done");
    bench.form();
    bench.work();
    let (.., before) = bench.collect(task, Query::TimeInterval(interval(0, 10)));
    assert_holds(&before, &[report(task, 5, 9), report(task, 8, 9)]);
    assert_eq!(bench.counters(other).aggregated, 2);
}

fn empty_buckets_of_an_interval_close_too(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 15));
    bench.create(task, ten());
    bench.drained();
    let offers =
        [report(task, 3, 10), report(task, 4, 19), report(task, 5, 9), report(task, 6, 20)];
    let refused = Err(Rejection::BatchCollected);
    assert_eq!(bench.offer(&offers), [refused, refused, Ok(()), Ok(())]);
    bench.finish("done");
    let offers =
        [report(task, 3, 10), report(task, 4, 19), report(task, 7, 9), report(task, 8, 20)];
    assert_eq!(bench.offer(&offers), [refused, refused, Ok(()), Ok(())]);
    // Another task has its own buckets for the same times.
    bench.accept(&[report(interval_task(2), 9, 15)]);
}

fn a_drained_batch_stays_the_same(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 15);
    bench.aggregate(&all);
    bench.create(task, ten());
    for round in 0..4 {
        let (selector, aggregate) = bench.drained();
        assert_eq!(selector, BatchSelector::TimeInterval(interval(10, 10)));
        assert_holds(&aggregate, &all);
        assert_eq!(bench.offer(&[report(task, 10 + round, 15)]), [Err(Rejection::BatchCollected)]);
        bench.accept(&[report(task, 20 + round, 30)]);
        bench.form();
        bench.work();
    }
}

fn an_undrained_batch_is_not_finished(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 15);
    bench.aggregate(&all[..1]);
    bench.create(task, ten());
    let finish = |bench: &Bench| {
        let job = bench.lease_collection();
        let early = block_on(bench.store().finish_collection(job.lease, b"early".to_vec().into()));
        assert!(matches!(early, Err(StoreError::Backend(_))), "{early:?}");
        run(bench.store().release(job.lease, Duration::ZERO));
    };
    finish(bench);
    bench.accept(&all[1..]);
    bench.form();
    assert!(matches!(bench.close(1), Closing::Draining));
    finish(bench);
    bench.restart();
    bench.work();
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &all);
    bench.finish("done");
}

fn nothing_enters_a_collected_bucket(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..3, 15));
    bench.collect(task, ten());
    assert_eq!(
        bench.offer(&[report(task, 4, 15), report(task, 5, 11)]),
        [Err(Rejection::BatchCollected); 2]
    );
    // A report that gets past the upload's check is struck when jobs are fixed.
    let mut upload = report(task, 6, 15).upload();
    upload.bucket = None;
    run(bench.store().accept_reports(vec![upload]));
    bench.restart();
    let refused = rejected(Rejection::BatchCollected, 1);
    assert_eq!(bench.form(), (0, refused.clone()));
    assert_eq!(bench.counters(task).aggregated, 3);
    assert_eq!(bench.counters(task).rejections, refused);
    bench.assert_no_reports();
}

fn neighbouring_intervals_are_collected_apart(bench: &mut Bench) {
    let task = interval_task(1);
    let all: Vec<_> = (0..12).map(|cell| report(task, cell, 10 + u64::from(cell))).collect();
    bench.aggregate(&all);
    for (start, len) in [(4, 4), (0, 4), (8, 4)] {
        let query = Query::TimeInterval(interval(10 + start, len));
        let (.., aggregate) = bench.collect(task, query);
        let first = usize::try_from(start).unwrap();
        assert_holds(&aggregate, &all[first..first + 4]);
    }
    let offers: Vec<_> = (9..23).map(|time| report(task, 30, time)).collect();
    let verdicts = bench.offer(&offers);
    assert_eq!(verdicts.iter().filter(|verdict| verdict.is_ok()).count(), 2);
    assert!(verdicts[0].is_ok() && verdicts[13].is_ok());
}

fn a_failed_collection_leaves_its_batch_closed(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 15);
    bench.aggregate(&all);
    let id = bench.create(task, ten());
    bench.drained();
    let job = bench.lease_collection();
    run(bench.store().mark_sent(job.lease, digest("request")));
    run(bench.store().fail_collection(job.lease, "urn:problem".into(), "why".into()));
    bench.restart();
    let failed = sotto_store::CollectionState::Failed {
        problem: "urn:problem".into(),
        detail: "why".into(),
    };
    assert_eq!(run(bench.store().collection(task, id)), Some(failed));
    assert!(run(bench.store().lease_collection(Duration::ZERO, Turn::default())).is_none());
    assert_eq!(bench.load().collections, 0);
    assert_eq!(bench.offer(&[report(task, 5, 15)]), [Err(Rejection::BatchCollected)]);
    assert_eq!(bench.offer(&[report(task, 6, 10)]), [Err(Rejection::BatchCollected)]);
    // Nothing was collected: the collector may delete the job and ask again.
    run(bench.store().delete_collection(task, id));
    bench.restart();
    let wider = Query::TimeInterval(interval(5, 20));
    assert_ne!(request(&wider), request(&ten()));
    let (.., aggregate) = bench.collect(task, wider);
    assert_holds(&aggregate, &all);
}

fn uploads_race_with_a_closing(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..1, 15));
    bench.create(task, ten());
    let job = bench.lease_collection();
    let accepted = std::thread::scope(|scope| {
        let uploaders: Vec<_> = (0..3u8)
            .map(|thread| {
                let store = bench.store();
                scope.spawn(move || {
                    let upload = |cell: u8| {
                        let report = report(task, 1 + thread * 20 + cell, 15);
                        let verdicts = run(store.accept_reports(vec![report.upload()]));
                        verdicts[0].is_ok().then_some(report)
                    };
                    (0..20u8).filter_map(upload).collect::<Vec<_>>()
                })
            })
            .collect();
        let closing = run(bench.store().close_batch(job.lease, 1));
        assert!(!matches!(closing, Closing::TooFew));
        uploaders.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    bench.restart();
    // Every report that was acknowledged is counted, however close it was.
    assert_eq!(bench.form().1, Default::default());
    bench.work();
    let (_, aggregate) = bench.drained();
    let mut expected = reports(task, 0..1, 15);
    expected.extend(accepted);
    assert_holds(&aggregate, &expected);
}
