//! Leader-selected batches: one open per window, filled by jobs, taken by byte-identical requests.

use futures_executor::block_on;
use sotto_protocol::leader::aggregate::FormedBatch;
use sotto_store::{Closing, CollectionCreated, CollectionDeleted, CollectionState, StoreError};
use sotto_wire::{BatchSelector, Query};

use super::bench::{Bench, on_every_store};
use super::driver::{counted, jobs_of, run};
use super::reports::{Report, assert_holds, batch_id, batch_task, report, reports};

on_every_store!(
    jobs_share_the_open_batch,
    a_request_waits_for_a_batch_that_is_large_enough,
    new_jobs_go_to_a_new_batch_once_closing,
    the_backlog_does_not_hold_up_a_drain,
    successive_requests_take_successive_batches,
    a_collected_batch_takes_no_jobs,
    tasks_have_their_own_batches,
    a_failed_batch_is_not_taken_again,
    each_window_has_its_own_open_batch,
);

const ANY: Query = Query::LeaderSelected;

/// Accepts reports and counts them, in a batch of this number if none is open.
fn aggregate(bench: &mut Bench, reports: &[Report], batch: u8) {
    bench.accept(reports);
    bench.form_with(usize::MAX, batch_id(batch));
    bench.work();
}

fn jobs_share_the_open_batch(bench: &mut Bench) {
    let task = batch_task(1);
    for cell in 0..3 {
        bench.accept(&[report(task, cell, 10 + u64::from(cell))]);
        bench.form_with(usize::MAX, batch_id(cell));
        assert_eq!(bench.lease_job().batch_id, Some(batch_id(0)));
        bench.restart();
        bench.work();
    }
    let (_, selector, aggregate) = bench.collect(task, ANY);
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(0)));
    let expected: Vec<_> = (0..3).map(|cell| report(task, cell, 10 + u64::from(cell))).collect();
    assert_holds(&aggregate, &expected);
    bench.assert_no_reports();
}

fn a_request_waits_for_a_batch_that_is_large_enough(bench: &mut Bench) {
    let task = batch_task(1);
    bench.create(task, ANY);
    assert!(matches!(bench.close(1), Closing::TooFew));
    bench.accept(&reports(task, 0..3, 10));
    bench.form_with(usize::MAX, batch_id(1));
    assert!(matches!(bench.close(1), Closing::TooFew));
    bench.work();
    assert!(matches!(bench.close(4), Closing::TooFew));
    aggregate(bench, &reports(task, 3..4, 10), 2);
    let Closing::Drained { selector, aggregate } = bench.close(4) else { panic!("not drained") };
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(1)));
    assert_holds(&aggregate, &reports(task, 0..4, 10));
}

fn new_jobs_go_to_a_new_batch_once_closing(bench: &mut Bench) {
    let task = batch_task(1);
    aggregate(bench, &reports(task, 0..2, 10), 1);
    bench.accept(&reports(task, 2..4, 10));
    bench.form_with(usize::MAX, batch_id(2));
    bench.create(task, ANY);
    assert!(matches!(bench.close(2), Closing::Draining));
    // Uploads continue, into the next batch.
    bench.accept(&reports(task, 4..6, 10));
    bench.form_with(usize::MAX, batch_id(3));
    assert!(matches!(bench.close(2), Closing::Draining));
    let old = bench.lease_job();
    assert_eq!(old.batch_id, Some(batch_id(1)));
    let new = bench.lease_job();
    assert_eq!(new.batch_id, Some(batch_id(3)));
    run(bench.store().commit_job(new.lease, counted(&new)));
    bench.restart();
    assert!(matches!(bench.close(2), Closing::Draining));
    bench.work();
    for _ in 0..2 {
        let (selector, aggregate) = bench.drained();
        assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(1)));
        assert_holds(&aggregate, &reports(task, 0..4, 10));
        bench.accept(&[report(task, 8 + u8::try_from(bench.load().jobs).unwrap(), 10)]);
        bench.form();
    }
}

fn the_backlog_does_not_hold_up_a_drain(bench: &mut Bench) {
    let task = batch_task(1);
    aggregate(bench, &reports(task, 0..2, 10), 1);
    bench.accept(&reports(task, 2..4, 10));
    bench.create(task, ANY);
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &reports(task, 0..2, 10));
    bench.finish("done");
    bench.form_with(usize::MAX, batch_id(2));
    assert_eq!(bench.lease_job().batch_id, Some(batch_id(2)));
    bench.restart();
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 4);
}

fn successive_requests_take_successive_batches(bench: &mut Bench) {
    let task = batch_task(1);
    let mut ids = Vec::new();
    for round in 0..3 {
        let cells = round * 5..round * 5 + 5;
        aggregate(bench, &reports(task, cells.clone(), 10), round + 1);
        let id = bench.create(task, ANY);
        assert!(!ids.contains(&id), "an id was given twice");
        // A retried deletion of an earlier job does not affect this one.
        for earlier in &ids {
            let deleted = run(bench.store().delete_collection(task, *earlier));
            assert_eq!(deleted, CollectionDeleted::Deleted);
        }
        let (selector, aggregate) = bench.drained();
        assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(round + 1)));
        assert_holds(&aggregate, &reports(task, cells, 10));
        let under_way = run(bench.store().delete_collection(task, id));
        assert_eq!(under_way, CollectionDeleted::UnderWay);
        let response = format!("response {round}");
        bench.finish(&response);
        // Without the deletion, it is the same batch again.
        assert_eq!(bench.try_create(task, ANY), CollectionCreated::Existing(id));
        let state = run(bench.store().collection(task, id));
        assert_eq!(state, Some(CollectionState::Finished(response.into_bytes())));
        run(bench.store().delete_collection(task, id));
        bench.restart();
        ids.push(id);
    }
    bench.create(task, ANY);
    assert!(matches!(bench.close(1), Closing::TooFew));
    assert_eq!(bench.counters(task).aggregated, 15);
}

fn a_collected_batch_takes_no_jobs(bench: &mut Bench) {
    let task = batch_task(1);
    aggregate(bench, &reports(task, 0..2, 10), 1);
    bench.collect(task, ANY);
    bench.accept(&reports(task, 2..3, 10));
    let backlog = bench.backlog(usize::MAX);
    let jobs = jobs_of(&backlog.records, batch_id(1));
    // An id that is not fresh is the caller's error, and nothing is taken.
    let stale = block_on(bench.store().fix_jobs(backlog.stretch.unwrap(), jobs));
    assert!(matches!(stale, Err(StoreError::Backend(_))), "{stale:?}");
    assert_eq!(bench.form_with(usize::MAX, batch_id(2)).0, 1);
    assert_eq!(bench.lease_job().batch_id, Some(batch_id(2)));
}

fn tasks_have_their_own_batches(bench: &mut Bench) {
    let (task, other) = (batch_task(1), batch_task(2));
    aggregate(bench, &reports(task, 0..2, 10), 1);
    aggregate(bench, &reports(other, 0..3, 10), 2);
    let (_, selector, aggregate) = bench.collect(other, ANY);
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(2)));
    assert_holds(&aggregate, &reports(other, 0..3, 10));
    let (_, selector, aggregate) = bench.collect(task, ANY);
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(1)));
    assert_holds(&aggregate, &reports(task, 0..2, 10));
}

fn a_failed_batch_is_not_taken_again(bench: &mut Bench) {
    let task = batch_task(1);
    aggregate(bench, &reports(task, 0..2, 10), 1);
    let id = bench.create(task, ANY);
    bench.drained();
    let job = bench.lease_collection();
    run(bench.store().fail_collection(job.lease, "urn:problem".into(), "why".into()));
    bench.restart();
    assert_eq!(bench.try_create(task, ANY), CollectionCreated::Existing(id));
    run(bench.store().delete_collection(task, id));
    aggregate(bench, &reports(task, 2..4, 10), 2);
    let (_, selector, aggregate) = bench.collect(task, ANY);
    assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(2)));
    assert_holds(&aggregate, &reports(task, 2..4, 10));
}

/// A late report does not enter the batch of another window, and waits for its own.
fn each_window_has_its_own_open_batch(bench: &mut Bench) {
    let task = batch_task(1);
    let add = |bench: &mut Bench, at: u64, reports: &[Report], batch: u8, expected: u8| {
        bench.accept(reports);
        let backlog = bench.backlog(usize::MAX);
        let mut formed = jobs_of(&backlog.records, batch_id(batch));
        for job in &mut formed.jobs {
            job.batch = FormedBatch::LeaderSelected { window: at, if_none_open: batch_id(batch) };
        }
        run(bench.store().fix_jobs(backlog.stretch.unwrap(), formed));
        bench.restart();
        assert_eq!(bench.lease_job().batch_id, Some(batch_id(expected)));
        bench.restart();
        bench.work();
    };
    add(bench, 7, &reports(task, 0..2, 70), 1, 1);
    add(bench, 0, &reports(task, 2..3, 10), 2, 2);
    add(bench, 7, &reports(task, 3..5, 70), 3, 1);
    add(bench, u64::MAX, &reports(task, 5..7, 90), 4, 4);
    let collect = |bench: &mut Bench, min: u64, batch: u8, expected: &[Report]| {
        let id = bench.create(task, ANY);
        let Closing::Drained { selector, aggregate } = bench.close(min) else { panic!("{min}") };
        assert_eq!(selector, BatchSelector::LeaderSelected(batch_id(batch)));
        assert_holds(&aggregate, expected);
        bench.finish("done");
        run(bench.store().delete_collection(task, id));
    };
    let on_time = [reports(task, 0..2, 70), reports(task, 3..5, 70)].concat();
    collect(bench, 2, 1, &on_time);
    collect(bench, 1, 2, &reports(task, 2..3, 10));
    collect(bench, 1, 4, &reports(task, 5..7, 90));
}
