//! Collection jobs: their ids, when they may exist, and how they end.

use std::time::Duration;

use futures_executor::block_on;
use sotto_store::{
    Closing, CollectionCreated, CollectionDeleted, CollectionState, StoreError, Turn,
};
use sotto_wire::{CollectionJobId, JobState, Query};

use super::bench::{Bench, LEASE, on_every_store};
use super::driver::{digest, request, run};
use super::reports::{batch_task, interval, interval_task, reports};

on_every_store!(
    the_same_request_finds_its_job,
    a_deleted_job_makes_room_for_a_new_one,
    a_repeated_deletion_spares_the_next_job,
    a_job_that_closes_its_batch_cannot_be_deleted,
    intervals_of_unfinished_jobs_do_not_overlap,
    collected_intervals_are_not_collected_again,
    collections_are_leased_oldest_first_and_once,
    tasks_take_turns_with_their_collections,
    a_collection_request_stays_the_same,
    a_finished_collection_stays_finished,
    an_unknown_collection_is_nothing,
    jobs_are_listed_and_a_result_is_not_cancelled,
    unfinished_collections_are_load,
);

fn query(start: u64, duration: u64) -> Query {
    Query::TimeInterval(interval(start, duration))
}

fn delete(bench: &mut Bench, id: CollectionJobId) -> CollectionDeleted {
    let deleted = run(bench.store().delete_collection(interval_task(1), id));
    bench.restart();
    deleted
}

fn the_same_request_finds_its_job(bench: &mut Bench) {
    for (task, query) in [(interval_task(1), query(10, 5)), (batch_task(1), Query::LeaderSelected)]
    {
        let id = bench.create(task, query);
        for _ in 0..3 {
            assert_eq!(bench.try_create(task, query), CollectionCreated::Existing(id));
        }
        assert_eq!(run(bench.store().collection(task, id)), Some(CollectionState::Pending));
    }
    // Each task has its own jobs.
    let other = bench.create(batch_task(2), Query::LeaderSelected);
    assert_eq!(run(bench.store().collection(batch_task(1), other)), None);
}

fn a_deleted_job_makes_room_for_a_new_one(bench: &mut Bench) {
    let task = interval_task(1);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = bench.create(task, query(10, 5));
        assert!(!ids.contains(&id), "an id was given twice");
        ids.push(id);
        assert_eq!(delete(bench, id), CollectionDeleted::Deleted);
        assert_eq!(run(bench.store().collection(task, id)), None);
        assert!(run(bench.store().lease_collection(LEASE, Turn::default())).is_none());
    }
    bench.create(task, query(12, 1));
}

fn a_repeated_deletion_spares_the_next_job(bench: &mut Bench) {
    let task = interval_task(1);
    let first = bench.create(task, query(10, 5));
    assert_eq!(delete(bench, first), CollectionDeleted::Deleted);
    let second = bench.create(task, query(10, 5));
    for _ in 0..2 {
        assert_eq!(delete(bench, first), CollectionDeleted::Deleted);
        assert_eq!(run(bench.store().collection(task, second)), Some(CollectionState::Pending));
        assert_eq!(bench.try_create(task, query(10, 5)), CollectionCreated::Existing(second));
    }
}

fn jobs_are_listed_and_a_result_is_not_cancelled(bench: &mut Bench) {
    let task = interval_task(1);
    let cancel = |bench: &mut Bench, id| {
        let cancelled = run(bench.store().cancel_collection(task, id));
        bench.restart();
        cancelled
    };
    assert_eq!(run(bench.store().collections(task)), []);
    bench.aggregate(&reports(task, 0..2, 12));
    let first = bench.create(task, query(10, 5));
    let second = bench.create(task, query(20, 5));
    bench.create(interval_task(2), query(10, 5));
    let pending = |id, start| (id, Some(interval(start, 5)), JobState::Pending);
    assert_eq!(run(bench.store().collections(task)), [pending(second, 20), pending(first, 10)]);
    assert_eq!(cancel(bench, second), CollectionDeleted::Deleted);
    assert_eq!(cancel(bench, second), CollectionDeleted::Deleted);
    // Nothing tells that a batch is complete before it is released.
    bench.drained();
    assert_eq!(run(bench.store().collections(task)), [pending(first, 10)]);
    assert_eq!(cancel(bench, first), CollectionDeleted::UnderWay);
    bench.finish("done");
    let finished = (first, Some(interval(10, 5)), JobState::Finished);
    assert_eq!(cancel(bench, first), CollectionDeleted::Finished);
    assert_eq!(run(bench.store().collections(task)), [finished]);
    let batch = bench.create(batch_task(1), Query::LeaderSelected);
    assert_eq!(run(bench.store().collections(batch_task(1))), [(batch, None, JobState::Pending)]);
}

fn a_job_that_closes_its_batch_cannot_be_deleted(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 12));
    let id = bench.create(task, query(10, 5));
    assert!(matches!(bench.close(3), Closing::TooFew));
    // Not closed, so it may be deleted; after that its worker's calls are rejected.
    let worker = bench.lease_collection();
    assert_eq!(run(bench.store().delete_collection(task, id)), CollectionDeleted::Deleted);
    let late = block_on(bench.store().close_batch(worker.lease, 1));
    assert_eq!(late.map(drop), Err(StoreError::Fenced));
    bench.restart();
    let id = bench.create(task, query(10, 5));
    bench.drained();
    for _ in 0..2 {
        assert_eq!(delete(bench, id), CollectionDeleted::UnderWay);
        assert_eq!(run(bench.store().collection(task, id)), Some(CollectionState::Pending));
    }
    bench.finish("done");
    for _ in 0..2 {
        assert_eq!(delete(bench, id), CollectionDeleted::Deleted);
        assert_eq!(run(bench.store().collection(task, id)), None);
    }
}

fn intervals_of_unfinished_jobs_do_not_overlap(bench: &mut Bench) {
    let task = interval_task(1);
    let id = bench.create(task, query(10, 5));
    for (start, duration) in [(10, 4), (9, 2), (14, 1), (14, 100), (0, 100), (11, 2)] {
        let other = bench.try_create(task, query(start, duration));
        assert_eq!(other, CollectionCreated::Overlap, "{start} + {duration}");
    }
    bench.create(task, query(5, 5));
    bench.create(task, query(15, 5));
    bench.create(interval_task(2), query(12, 5));
    delete(bench, id);
    assert_eq!(bench.try_create(task, query(10, 6)), CollectionCreated::Overlap);
    bench.create(task, query(11, 4));
}

fn collected_intervals_are_not_collected_again(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 12));
    let (id, ..) = bench.collect(task, query(10, 5));
    assert_eq!(bench.try_create(task, query(10, 5)), CollectionCreated::Existing(id));
    delete(bench, id);
    for (start, duration) in [(10, 5), (12, 1), (14, 1), (10, 1), (0, 100), (14, 2)] {
        let other = bench.try_create(task, query(start, duration));
        assert_eq!(other, CollectionCreated::Overlap, "{start} + {duration}");
    }
    bench.create(task, query(15, 5));
    bench.create(task, query(9, 1));
    bench.create(interval_task(2), query(10, 5));
}

fn collections_are_leased_oldest_first_and_once(bench: &mut Bench) {
    let task = interval_task(1);
    let ids = [40, 10, 30].map(|start| bench.create(task, query(start, 5)));
    let leased = |bench: &Bench| {
        let jobs =
            std::iter::from_fn(|| run(bench.store().lease_collection(LEASE, Turn::default())));
        jobs.map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(leased(bench), ids);
    bench.advance(LEASE - Duration::from_millis(1));
    assert_eq!(leased(bench), []);
    bench.advance(Duration::from_millis(1));
    let first = bench.lease_collection();
    assert_eq!((first.id, first.task_id), (ids[0], task));
    assert_eq!(first.request, request(&query(40, 5)));
    run(bench.store().release(first.lease, Duration::from_secs(3)));
    assert_eq!(leased(bench), ids[1..]);
    bench.advance(Duration::from_secs(3));
    assert_eq!(leased(bench), ids[..1]);
    bench.restart();
    assert_eq!(leased(bench), ids);
}

fn tasks_take_turns_with_their_collections(bench: &mut Bench) {
    let tasks = [1, 2].map(interval_task);
    for (task, start) in [(tasks[0], 1), (tasks[0], 2), (tasks[1], 1)] {
        bench.create(task, query(start, 1));
    }
    let mut turns = Vec::new();
    let lease = |turn| run(bench.store().lease_collection(LEASE, turn));
    while let Some(job) = lease(Turn { after: turns.last().copied(), ..Turn::default() }) {
        turns.push(job.task_id);
    }
    assert_eq!(turns, [tasks[0], tasks[1], tasks[0]]);
}

fn a_collection_request_stays_the_same(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 12));
    bench.create(task, query(10, 5));
    bench.drained();
    let job = bench.lease_collection();
    assert_eq!(job.request_digest, None);
    run(bench.store().mark_sent(job.lease, digest("one")));
    run(bench.store().mark_sent(job.lease, digest("one")));
    let other = block_on(bench.store().mark_sent(job.lease, digest("two")));
    assert_eq!(other, Err(StoreError::RequestDiffers));
    bench.restart();
    let job = bench.lease_collection();
    assert_eq!(job.request_digest, Some(digest("one")));
    let other = block_on(bench.store().mark_sent(job.lease, digest("two")));
    assert_eq!(other, Err(StoreError::RequestDiffers));
    run(bench.store().mark_sent(job.lease, digest("one")));
}

fn a_finished_collection_stays_finished(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 12));
    let id = bench.create(task, query(10, 5));
    bench.drained();
    let job = bench.lease_collection();
    run(bench.store().finish_collection(job.lease, b"one".to_vec().into()));
    let finished = Some(CollectionState::Finished(b"one".to_vec()));
    for _ in 0..2 {
        let again = block_on(bench.store().finish_collection(job.lease, b"two".to_vec().into()));
        assert_eq!(again, Err(StoreError::Fenced));
        let failed = block_on(bench.store().fail_collection(job.lease, "p".into(), "d".into()));
        assert_eq!(failed, Err(StoreError::Fenced));
        assert_eq!(run(bench.store().collection(task, id)), finished);
        assert_eq!(bench.try_create(task, query(10, 5)), CollectionCreated::Existing(id));
        assert!(run(bench.store().lease_collection(LEASE, Turn::default())).is_none());
        bench.restart();
    }
}

fn an_unknown_collection_is_nothing(bench: &mut Bench) {
    let unknown = CollectionJobId::new([7; 32]);
    assert_eq!(run(bench.store().collection(interval_task(1), unknown)), None);
    assert_eq!(delete(bench, unknown), CollectionDeleted::Deleted);
    bench.create(interval_task(1), query(10, 5));
    assert_eq!(run(bench.store().collection(interval_task(1), unknown)), None);
    assert_eq!(delete(bench, unknown), CollectionDeleted::Deleted);
}

fn unfinished_collections_are_load(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 12));
    assert_eq!(bench.load().collections, 0);
    let id = bench.create(task, query(10, 5));
    assert_eq!(bench.load().collections, 1);
    bench.drained();
    assert_eq!(bench.load().collections, 1);
    let second = bench.create(task, query(20, 5));
    assert_eq!(bench.load().collections, 2);
    delete(bench, second);
    bench.finish("done");
    assert_eq!(bench.load().collections, 0);
    delete(bench, id);
    assert_eq!(bench.load().collections, 0);
}
