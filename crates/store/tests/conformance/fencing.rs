//! Leases: they expire by the store's clock, and every verb rejects them once a newer one was
//! granted.

use std::time::Duration;

use futures_executor::block_on;
use sotto_store::{CollectionState, Lease, LeasedJob, StoreError, Turn};
use sotto_wire::Query;

use super::bench::{Bench, LEASE, Store, on_every_store};
use super::driver::{counted, digest, run};
use super::reports::{assert_holds, interval, interval_task, report, reports};

on_every_store!(
    a_stale_lease_on_a_job_is_refused_by_every_verb,
    a_stale_lease_on_a_collection_is_refused_by_every_verb,
    leases_of_the_two_kinds_do_not_mix,
    a_lease_that_ran_out_counts_until_somebody_else_has_one,
    fences_grow,
    one_of_many_workers_gets_the_job,
);

/// Fails unless each verb on jobs rejects the lease.
#[track_caller]
fn assert_fenced_job(store: &dyn Store, job: &LeasedJob, lease: Lease) {
    let fenced = Err(StoreError::Fenced);
    assert_eq!(block_on(store.mark_sent(lease, digest("stale"))), fenced);
    assert_eq!(block_on(store.commit_job(lease, counted(job))), fenced);
    assert_eq!(block_on(store.release(lease, Duration::ZERO)), fenced);
    assert_eq!(block_on(store.abandon_job(lease)), fenced);
}

/// Fails unless each verb on collection jobs rejects the lease.
#[track_caller]
fn assert_fenced_collection(store: &dyn Store, lease: Lease) {
    let fenced = Err(StoreError::Fenced);
    assert_eq!(block_on(store.mark_sent(lease, digest("stale"))), fenced);
    assert_eq!(block_on(store.close_batch(lease, 1)).map(drop), fenced);
    assert_eq!(block_on(store.finish_collection(lease, b"stale".to_vec().into())), fenced);
    assert_eq!(block_on(store.fail_collection(lease, "stale".into(), "stale".into())), fenced);
    assert_eq!(block_on(store.release(lease, Duration::ZERO)), fenced);
}

fn a_stale_lease_on_a_job_is_refused_by_every_verb(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..3, 10));
    bench.form();
    let stale = bench.lease_job();
    bench.restart();
    let current = bench.lease_job();
    assert_eq!(current.lease.job, stale.lease.job);
    assert_fenced_job(&**bench.store(), &current, stale.lease);
    assert!(bench.try_lease_job().is_none(), "a stale release must not free the job");
    bench.restart();
    let last = bench.lease_job();
    assert_eq!(last.request_digest, None);
    assert_fenced_job(&**bench.store(), &last, stale.lease);
    assert_fenced_job(&**bench.store(), &last, current.lease);
    let unknown = Lease { job: last.lease.job + 1_000, fence: last.lease.fence };
    assert_fenced_job(&**bench.store(), &last, unknown);
    run(bench.store().commit_job(last.lease, counted(&last)));
    assert_fenced_job(&**bench.store(), &last, last.lease);
    assert_eq!(bench.counters(task).aggregated, 3);
}

fn a_stale_lease_on_a_collection_is_refused_by_every_verb(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..3, 10));
    let id = bench.create(task, Query::TimeInterval(interval(10, 1)));
    let stale = bench.lease_collection();
    bench.restart();
    let current = bench.lease_collection();
    assert_fenced_collection(&**bench.store(), stale.lease);
    assert!(run(bench.store().lease_collection(LEASE, Turn::default())).is_none());
    // The stale close changed nothing.
    assert_eq!(bench.offer(&[report(task, 3, 10)]), [Ok(())]);
    bench.form();
    bench.work();
    bench.drained();
    let last = bench.lease_collection();
    assert_eq!(last.request_digest, None);
    assert_fenced_collection(&**bench.store(), current.lease);
    assert_eq!(run(bench.store().collection(task, id)), Some(CollectionState::Pending));
    run(bench.store().finish_collection(last.lease, b"done".to_vec().into()));
    assert_fenced_collection(&**bench.store(), last.lease);
    bench.restart();
    let state = run(bench.store().collection(task, id));
    assert_eq!(state, Some(CollectionState::Finished(b"done".to_vec())));
}

fn leases_of_the_two_kinds_do_not_mix(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..3, 10));
    bench.form();
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    let job = bench.lease_job();
    let collection = bench.lease_collection();
    let fenced = Err(StoreError::Fenced);
    let store = bench.store();
    assert_ne!(job.lease, collection.lease);
    assert_eq!(block_on(store.close_batch(job.lease, 1)).map(drop), fenced);
    assert_eq!(block_on(store.finish_collection(job.lease, Vec::new().into())), fenced);
    assert_eq!(block_on(store.commit_job(collection.lease, counted(&job))), fenced);
    assert_eq!(block_on(store.abandon_job(collection.lease)), fenced);
    run(store.commit_job(job.lease, counted(&job)));
    assert!(run(store.lease_collection(LEASE, Turn::default())).is_none());
}

fn a_lease_that_ran_out_counts_until_somebody_else_has_one(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    bench.accept(&all);
    bench.form();
    let job = bench.lease_job();
    bench.advance(LEASE * 2);
    run(bench.store().commit_job(job.lease, counted(&job)));
    bench.restart();
    let (.., aggregate) = bench.collect(task, Query::TimeInterval(interval(10, 1)));
    assert_holds(&aggregate, &all);
}

fn fences_grow(bench: &mut Bench) {
    let task = interval_task(1);
    bench.accept(&reports(task, 0..2, 10));
    bench.form();
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    let mut last = 0;
    for round in 0..6 {
        for fence in [bench.lease_job().lease.fence, bench.lease_collection().lease.fence] {
            assert!(fence > last, "a fence did not grow");
            last = fence;
        }
        if round % 2 == 0 { bench.restart() } else { bench.advance(LEASE) }
    }
}

fn one_of_many_workers_gets_the_job(bench: &mut Bench) {
    bench.accept(&reports(interval_task(1), 0..3, 10));
    bench.form();
    let leased = std::thread::scope(|scope| {
        let lease = || run(bench.store().lease_job(LEASE, Turn::default())).is_some();
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(lease)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).filter(|got| *got).count()
    });
    assert_eq!(leased, 1);
}
