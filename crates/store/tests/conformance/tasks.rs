//! Tasks: remembered, counted, forgotten.

use futures_executor::block_on;
use sotto_protocol::Rejection;
use sotto_store::{
    Closing, CollectionCreated, Committed, LogCheckpoint, StoreError, StoredTask, Turn,
};
use sotto_wire::{BatchSelector, Query};

use super::bench::{Bench, LEASE, on_every_store};
use super::driver::{counted, decoded, digest, rejected, run};
use super::helper::commit_of;
use super::reports::{
    assert_holds, batch_id, batch_task, interval, interval_task, report, reports,
};

on_every_store!(
    a_task_is_remembered_until_it_is_forgotten,
    a_log_is_remembered_by_its_newest_checkpoint,
    an_unknown_task_has_counted_nothing,
    counters_add_up,
    a_forgotten_leader_task_leaves_nothing,
    a_forgotten_task_spares_the_others,
    a_job_of_a_forgotten_task_is_fenced,
    a_forgotten_task_may_begin_again,
    a_forgotten_task_leaves_a_tombstone,
    a_forgotten_helper_task_leaves_nothing,
);

fn a_task_is_remembered_until_it_is_forgotten(bench: &mut Bench) {
    let tasks = |bench: &Bench| {
        let mut tasks = run(bench.store().tasks());
        tasks.sort();
        tasks
    };
    assert_eq!(tasks(bench), []);
    let first = (interval_task(1), StoredTask::Announced(vec![1; 200]));
    let second = (batch_task(2), StoredTask::Recipe { json: vec![2; 100], audience: Some(7) });
    for (task_id, task) in [&second, &first, &first] {
        run(bench.store().put_task(*task_id, task.clone()));
        bench.restart();
    }
    // Tasks that were only used are not among them.
    bench.aggregate(&[report(interval_task(3), 0, 10), report(interval_task(1), 0, 10)]);
    assert_eq!(tasks(bench), [first.clone(), second.clone()]);
    run(bench.store().forget_task(first.0));
    bench.restart();
    assert_eq!(tasks(bench), std::slice::from_ref(&second));
    // A task has only one kind: the last that was stored.
    for task in [StoredTask::Announced(vec![3; 10]), second.1] {
        run(bench.store().put_task(second.0, task.clone()));
        bench.restart();
        assert_eq!(tasks(bench), [(second.0, task)]);
    }
    run(bench.store().forget_task(second.0));
    bench.restart();
    assert_eq!(tasks(bench), []);
}

fn a_forgotten_task_leaves_a_tombstone(bench: &mut Bench) {
    assert_eq!(run(bench.store().forgotten_tasks()), []);
    bench.aggregate(&[report(interval_task(1), 0, 10), report(interval_task(2), 1, 10)]);
    // The second was never seen.
    for task in [interval_task(1), batch_task(3), interval_task(1)] {
        run(bench.store().forget_task(task));
        bench.restart();
    }
    // Whatever happens to it later.
    run(bench.store().put_task(interval_task(1), StoredTask::Announced(vec![1; 200])));
    bench.accept(&[report(interval_task(2), 2, 10)]);
    bench.form();
    bench.restart();
    let mut forgotten = run(bench.store().forgotten_tasks());
    forgotten.sort();
    let mut expected = [interval_task(1), batch_task(3)];
    expected.sort();
    assert_eq!(forgotten, expected);
}

fn a_log_is_remembered_by_its_newest_checkpoint(bench: &mut Bench) {
    let checkpoint = |origin: &str, size: u64| LogCheckpoint {
        origin: origin.to_owned(),
        size,
        root: [size as u8; 32],
    };
    let seen = |bench: &Bench, origin: &str| run(bench.store().log_checkpoint(origin.to_owned()));
    assert_eq!(seen(bench, "log.example"), None);
    for size in [1, 7, u64::MAX] {
        run(bench.store().put_log_checkpoint(checkpoint("log.example", size)));
        bench.restart();
        assert_eq!(seen(bench, "log.example"), Some(checkpoint("log.example", size)));
    }
    run(bench.store().put_log_checkpoint(checkpoint("other.example", 3)));
    assert_eq!(seen(bench, "other.example"), Some(checkpoint("other.example", 3)));
    assert_eq!(seen(bench, "log.example"), Some(checkpoint("log.example", u64::MAX)));
}

fn an_unknown_task_has_counted_nothing(bench: &mut Bench) {
    assert_eq!(bench.counters(interval_task(1)), Default::default());
    run(bench.store().forget_task(interval_task(1)));
    bench.restart();
    assert_eq!(bench.counters(interval_task(1)), Default::default());
}

fn counters_add_up(bench: &mut Bench) {
    let (task, other) = (interval_task(1), batch_task(1));
    for round in 0..3 {
        bench.accept(&[report(task, round, 10), report(task, 0, 10), report(other, round, 10)]);
        bench.form();
        bench.work();
    }
    // Each round has one more copy of the first report; the first round copies the report itself.
    assert_eq!(bench.counters(task).aggregated, 3);
    assert_eq!(bench.counters(task).rejections, rejected(Rejection::ReportReplayed, 3));
    assert_eq!(bench.counters(other).aggregated, 3);
    bench.collect(task, Query::TimeInterval(interval(10, 1)));
    assert_eq!(bench.counters(task).aggregated, 3, "collected reports still count");
}

/// Puts something of every kind into a task: a backlog, a job, buckets, a collection in progress.
fn fill(bench: &mut Bench, task: sotto_wire::TaskId, query: Query) {
    run(bench.store().put_task(task, StoredTask::Recipe { json: vec![1; 100], audience: None }));
    bench.aggregate(&reports(task, 0..4, 10));
    bench.accept(&reports(task, 4..6, 10));
    bench.form();
    bench.create(task, query);
    bench.close(1);
    bench.accept(&reports(task, 6..9, 30));
}

fn a_forgotten_leader_task_leaves_nothing(bench: &mut Bench) {
    let queries = [Query::TimeInterval(interval(10, 1)), Query::LeaderSelected];
    for (task, query) in [interval_task(1), batch_task(1)].into_iter().zip(queries) {
        fill(bench, task, query);
        for _ in 0..2 {
            run(bench.store().forget_task(task));
            bench.restart();
        }
        assert_eq!(bench.counters(task), Default::default());
        assert!(bench.try_lease_job().is_none());
        assert!(run(bench.store().lease_collection(LEASE, Turn::default())).is_none());
        let load = bench.load();
        assert_eq!((load.jobs, load.collections), (0, 0));
        // The stretch of its records still has to be taken, but contains none.
        let backlog = bench.backlog(usize::MAX);
        assert_eq!(decoded(&backlog.records), []);
        assert_eq!(bench.form(), (0, Default::default()));
        bench.assert_no_reports();
        assert_eq!(run(bench.store().live_hpke_configs()), []);
    }
}

fn a_forgotten_task_spares_the_others(bench: &mut Bench) {
    let (task, other) = (interval_task(1), interval_task(2));
    let both = |cells: std::ops::Range<u8>, time| {
        cells
            .flat_map(|cell| [task, other].map(|task| report(task, cell, time)))
            .collect::<Vec<_>>()
    };
    bench.aggregate(&both(0..4, 10));
    bench.accept(&both(4..6, 10));
    assert_eq!(bench.form(), (2, Default::default()));
    bench.create(other, Query::TimeInterval(interval(10, 1)));
    assert!(matches!(bench.close(4), Closing::Draining));
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    bench.accept(&both(6..9, 30));
    run(bench.store().forget_task(task));
    bench.restart();
    assert_eq!(bench.form(), (1, Default::default()));
    assert_eq!(bench.work(), 2);
    assert_eq!(bench.counters(other).aggregated, 9);
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &reports(other, 0..6, 10));
    bench.finish("done");
    let late = bench.offer(&[report(other, 20, 10), report(task, 20, 10)]);
    assert_eq!(late, [Err(Rejection::BatchCollected), Ok(())]);
}

fn a_job_of_a_forgotten_task_is_fenced(bench: &mut Bench) {
    let task = interval_task(1);
    bench.aggregate(&reports(task, 0..2, 10));
    bench.accept(&reports(task, 2..4, 20));
    bench.form();
    bench.create(task, Query::TimeInterval(interval(10, 1)));
    let job = bench.lease_job();
    let collection = bench.lease_collection();
    run(bench.store().forget_task(task));
    let fenced = Err(StoreError::Fenced);
    assert_eq!(block_on(bench.store().commit_job(job.lease, counted(&job))), fenced);
    assert_eq!(block_on(bench.store().close_batch(collection.lease, 1)).map(drop), fenced);
    assert_eq!(bench.counters(task), Default::default());
    bench.assert_no_reports();
}

fn a_forgotten_task_may_begin_again(bench: &mut Bench) {
    let task = interval_task(1);
    let query = Query::TimeInterval(interval(10, 1));
    bench.aggregate(&reports(task, 0..4, 10));
    let (id, ..) = bench.collect(task, query);
    run(bench.store().delete_collection(task, id));
    bench.accept(&reports(task, 4..8, 20));
    run(bench.store().forget_task(task));
    bench.restart();
    // Ids, closed buckets and ordinals are gone, and so is the backlog.
    let again = [reports(task, 0..4, 10), reports(task, 4..6, 20)].concat();
    bench.accept(&again);
    let backlog = bench.backlog(usize::MAX);
    assert_eq!(decoded(&backlog.records), again);
    assert_eq!(bench.form(), (1, Default::default()));
    bench.work();
    assert_eq!(bench.counters(task).aggregated, 6);
    assert_eq!(bench.try_create(task, query), CollectionCreated::Created(id));
    let (_, aggregate) = bench.drained();
    assert_holds(&aggregate, &reports(task, 0..4, 10));
    bench.assert_no_reports();
}

fn a_forgotten_helper_task_leaves_nothing(bench: &mut Bench) {
    let task = batch_task(1);
    let selector = BatchSelector::LeaderSelected(batch_id(1));
    let all = reports(task, 0..3, 10);
    let commit = commit_of(&all, Some(batch_id(1)), "response");
    for _ in 0..2 {
        assert_eq!(bench.commit(task, "job", commit.clone()), Committed::Done);
        run(bench.store().forget_task(task));
        bench.restart();
        assert_eq!(run(bench.store().response(task, digest("job"))), None);
        let batch = run(bench.store().batch(task, selector));
        assert!(batch.aggregate.is_none() && !batch.collected);
        assert_eq!(bench.counters(task), Default::default());
    }
}
