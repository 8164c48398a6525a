//! The helper's batches: collected once, and closed permanently.

use futures_executor::block_on;
use sotto_protocol::Rejection;
use sotto_store::Committed;
use sotto_wire::{BatchSelector, ReportIdChecksum, TaskId};

use super::bench::{Bench, on_every_store};
use super::driver::{digest, run};
use super::helper::commit_of;
use super::reports::{
    Report, assert_holds, batch_id, batch_task, interval, interval_task, report, reports,
};

on_every_store!(
    a_batch_is_collected_once,
    another_count_or_checksum_is_a_conflict,
    an_empty_batch_is_no_batch,
    a_batch_that_changed_since_it_was_loaded_is_a_conflict,
    nothing_enters_a_collected_interval,
    nothing_enters_a_collected_batch,
    overlapping_intervals_are_not_collected,
    responses_of_a_collected_batch_are_gone,
    a_share_that_is_forgotten_is_not_made_again,
    the_share_is_given_to_one_of_many_threads,
);

/// What the leader claims about these reports.
fn expected(reports: &[Report]) -> (u64, [u8; 32]) {
    let mut checksum = ReportIdChecksum::default();
    reports.iter().for_each(|report| checksum.add(&report.id));
    (reports.len() as u64, *checksum.as_bytes())
}

fn times(start: u64, duration: u64) -> BatchSelector {
    BatchSelector::TimeInterval(interval(start, duration))
}

impl Bench {
    fn collect_batch(
        &mut self,
        task_id: TaskId,
        selector: BatchSelector,
        expected: (u64, [u8; 32]),
        request: &str,
    ) -> Committed {
        let response = format!("share for {request}").into_bytes();
        let store = self.store();
        let collected =
            run(store.collect_batch(task_id, selector, expected, digest(request), response.into()));
        self.restart();
        collected
    }
}

fn a_batch_is_collected_once(bench: &mut Bench) {
    let task = interval_task(1);
    let all = [report(task, 0, 10), report(task, 1, 12), report(task, 2, 19)];
    bench.commit(task, "job", commit_of(&all, None, "response"));
    bench.commit(task, "other", commit_of(&[report(task, 3, 20)], None, "response"));
    let batch = run(bench.store().batch(task, times(10, 10)));
    assert_holds(&batch.aggregate.unwrap(), &all);
    let collected = bench.collect_batch(task, times(10, 10), expected(&all), "one");
    assert_eq!(collected, Committed::Done);
    for _ in 0..2 {
        let again = bench.collect_batch(task, times(10, 10), expected(&all), "one");
        assert_eq!(again, Committed::Already(b"share for one".to_vec()));
        let response = run(bench.store().response(task, digest("one")));
        assert_eq!(response, Some(b"share for one".to_vec()));
        let other = bench.collect_batch(task, times(10, 10), expected(&all), "two");
        assert_eq!(other, Committed::Conflict);
        let batch = run(bench.store().batch(task, times(10, 10)));
        assert!(batch.collected && batch.aggregate.is_none());
    }
    let rest = run(bench.store().batch(task, times(20, 10)));
    assert!(!rest.collected);
    assert_holds(&rest.aggregate.unwrap(), &[report(task, 3, 20)]);
    assert_eq!(bench.counters(task).aggregated, 4);
}

fn another_count_or_checksum_is_a_conflict(bench: &mut Bench) {
    for (task, batch, selector) in [
        (interval_task(1), None, times(10, 1)),
        (batch_task(1), Some(batch_id(1)), BatchSelector::LeaderSelected(batch_id(1))),
    ] {
        let all = reports(task, 0..3, 10);
        bench.commit(task, "job", commit_of(&all, batch, "response"));
        let (count, checksum) = expected(&all);
        for wrong in [
            (count + 1, checksum),
            (count - 1, checksum),
            (count, expected(&all[..2]).1),
            expected(&all[..2]),
            expected(&[]),
        ] {
            let refused = bench.collect_batch(task, selector, wrong, "wrong");
            assert_eq!(refused, Committed::Conflict);
            assert_eq!(run(bench.store().response(task, digest("wrong"))), None);
        }
        let batch = run(bench.store().batch(task, selector));
        assert!(!batch.collected);
        assert_holds(&batch.aggregate.unwrap(), &all);
        let collected = bench.collect_batch(task, selector, (count, checksum), "right");
        assert_eq!(collected, Committed::Done);
    }
}

fn an_empty_batch_is_no_batch(bench: &mut Bench) {
    for (task, selector) in [
        (interval_task(1), times(10, 10)),
        (batch_task(1), BatchSelector::LeaderSelected(batch_id(1))),
    ] {
        let batch = run(bench.store().batch(task, selector));
        assert!(batch.aggregate.is_none() && !batch.collected);
        let refused = bench.collect_batch(task, selector, (1, [0; 32]), "empty");
        assert_eq!(refused, Committed::Conflict);
        assert!(!run(bench.store().batch(task, selector)).collected);
    }
}

fn a_batch_that_changed_since_it_was_loaded_is_a_conflict(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    bench.commit(task, "one", commit_of(&all[..2], None, "response"));
    let loaded = expected(&all[..2]);
    bench.commit(task, "two", commit_of(&all[2..], None, "response"));
    assert_eq!(bench.collect_batch(task, times(10, 1), loaded, "share"), Committed::Conflict);
    let loaded = expected(&all);
    assert_eq!(bench.collect_batch(task, times(10, 1), loaded, "share"), Committed::Done);
}

fn nothing_enters_a_collected_interval(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..2, 15);
    bench.commit(task, "job", commit_of(&all, None, "response"));
    bench.collect_batch(task, times(10, 10), expected(&all), "share");
    // The bucket that had reports, empty ones at both ends, and open ones outside.
    let late: Vec<_> = [(5, 15), (6, 10), (7, 19), (8, 9), (9, 20)]
        .map(|(cell, time)| report(task, cell, time))
        .into();
    let collected = Some(Rejection::BatchCollected);
    let verdicts = bench.spent(&late, None);
    assert_eq!(verdicts, [collected, collected, collected, None, None]);
    for (index, verdict) in verdicts.iter().enumerate() {
        let commit = commit_of(&late[index..=index], None, "late");
        let committed = bench.commit(task, &format!("late {index}"), commit);
        let is_open = verdict.is_none();
        assert_eq!(committed, if is_open { Committed::Done } else { Committed::Conflict });
    }
    // One late report invalidates the whole job.
    let mixed = [report(task, 10, 30), report(task, 11, 15)];
    assert_eq!(bench.commit(task, "mixed", commit_of(&mixed, None, "")), Committed::Conflict);
    assert!(run(bench.store().batch(task, times(30, 1))).aggregate.is_none());
    assert_eq!(bench.counters(task).aggregated, 4);
}

fn nothing_enters_a_collected_batch(bench: &mut Bench) {
    let task = batch_task(1);
    let all = reports(task, 0..3, 15);
    let (first, second) = (batch_id(1), batch_id(2));
    bench.commit(task, "job", commit_of(&all, Some(first), "response"));
    let selector = BatchSelector::LeaderSelected(first);
    assert_eq!(bench.collect_batch(task, selector, expected(&all), "share"), Committed::Done);
    let late = [report(task, 5, 15)];
    let verdicts = bench.spent(&late, Some(first));
    assert_eq!(verdicts, [Some(Rejection::BatchCollected)]);
    let commit = commit_of(&late, Some(first), "late");
    assert_eq!(bench.commit(task, "late", commit), Committed::Conflict);
    // The ids of a collected batch stay spent for the next one.
    let verdicts = bench.spent(&all, Some(second));
    assert_eq!(verdicts, [Some(Rejection::ReportReplayed); 3]);
    let commit = commit_of(&late, Some(second), "late");
    assert_eq!(bench.commit(task, "late", commit), Committed::Done);
}

fn overlapping_intervals_are_not_collected(bench: &mut Bench) {
    let task = interval_task(1);
    let all: Vec<_> = (0..6).map(|cell| report(task, cell, 10 + u64::from(cell))).collect();
    bench.commit(task, "job", commit_of(&all, None, "response"));
    let inner = bench.collect_batch(task, times(12, 2), expected(&all[2..4]), "inner");
    assert_eq!(inner, Committed::Done);
    for (start, duration, held) in
        [(10, 6, [&all[..2], &all[4..]].concat()), (11, 2, all[1..2].to_vec())]
    {
        let batch = run(bench.store().batch(task, times(start, duration)));
        assert!(batch.collected, "part of it was");
        let refused = bench.collect_batch(task, times(start, duration), expected(&held), "overlap");
        assert_eq!(refused, Committed::Conflict);
    }
    for (start, held, request) in [(10, &all[..2], "before"), (14, &all[4..], "after")] {
        let collected = bench.collect_batch(task, times(start, 2), expected(held), request);
        assert_eq!(collected, Committed::Done);
    }
}

/// Neither with the same request nor with another one: a second share would have other noise.
fn a_share_that_is_forgotten_is_not_made_again(bench: &mut Bench) {
    for (task, batch, selector) in [
        (interval_task(1), None, times(10, 1)),
        (batch_task(1), Some(batch_id(1)), BatchSelector::LeaderSelected(batch_id(1))),
    ] {
        let all = reports(task, 0..3, 10);
        bench.commit(task, "job", commit_of(&all, batch, "response"));
        let collected = bench.collect_batch(task, selector, expected(&all), "share");
        assert_eq!(collected, Committed::Done);
        run(bench.store().forget_response(task, digest("share")));
        bench.restart();
        assert_eq!(run(bench.store().response(task, digest("share"))), None);
        for request in ["share", "other"] {
            let again = bench.collect_batch(task, selector, expected(&all), request);
            assert_eq!(again, Committed::Conflict);
        }
        let batch = run(bench.store().batch(task, selector));
        assert!(batch.collected && batch.aggregate.is_none());
    }
}

fn responses_of_a_collected_batch_are_gone(bench: &mut Bench) {
    let task = interval_task(1);
    let (inside, outside) = (reports(task, 0..2, 10), reports(task, 2..4, 11));
    bench.commit(task, "inside", commit_of(&inside, None, "response"));
    bench.commit(task, "outside", commit_of(&outside, None, "response"));
    bench.collect_batch(task, times(10, 1), expected(&inside), "share");
    assert_eq!(run(bench.store().response(task, digest("inside"))), None);
    assert!(run(bench.store().response(task, digest("outside"))).is_some());
    assert!(run(bench.store().response(task, digest("share"))).is_some());
    // A late retry of the job finds no stored response, and must add nothing.
    let retry = commit_of(&inside, None, "response");
    assert_eq!(bench.commit(task, "inside", retry), Committed::Conflict);
    assert_eq!(bench.counters(task).aggregated, 4);
}

fn the_share_is_given_to_one_of_many_threads(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    bench.commit(task, "job", commit_of(&all, None, "response"));
    let done = std::thread::scope(|scope| {
        let collect = |thread: u8| {
            let response = vec![thread];
            // Half of them use the same request name.
            let request = digest(&format!("request {}", thread / 2 * (thread % 2)));
            let store = bench.store();
            block_on(store.collect_batch(
                task,
                times(10, 1),
                expected(&all),
                request,
                response.into(),
            ))
        };
        let threads: Vec<_> =
            (0..8).map(|thread| scope.spawn(move || collect(thread).unwrap())).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.filter(|answer| *answer == Committed::Done).count()
    });
    assert_eq!(done, 1);
}
