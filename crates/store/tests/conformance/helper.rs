//! The helper's aggregation jobs: one commit and one response, however often and by whichever
//! caller it is requested.

use futures_executor::block_on;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::{Bucket, Rejection, ReplayScope};
use sotto_store::{Committed, StoreError};
use sotto_wire::{BatchId, BatchSelector, ReportId, TaskId};

use super::bench::{Bench, on_every_store};
use super::driver::{digest, rejected, run};
use super::reports::{
    Report, aggregates, assert_holds, batch_id, batch_task, interval, interval_task,
    misshapen_share, replay_scope, report, reports,
};

on_every_store!(
    a_commit_is_answered_again,
    spent_ids_are_told,
    a_time_narrows_what_is_spent,
    in_leader_selected_tasks_an_id_is_spent_for_all_batches,
    a_spent_id_is_a_conflict,
    an_id_twice_in_one_commit_is_not_counted_twice,
    a_share_of_another_shape_changes_nothing,
    a_commit_must_account_for_its_reports,
    a_forgotten_response_leaves_its_ids_spent,
    the_same_request_from_many_threads_is_committed_once,
    jobs_that_share_a_report_do_not_both_commit,
    tasks_are_apart,
);

/// A commit that counts these reports.
pub(crate) fn commit_of(
    reports: &[Report],
    batch_id: Option<BatchId>,
    response: &str,
) -> HelperOutcome {
    let scope = reports.first().map(|report| replay_scope(&report.task_id));
    HelperOutcome {
        scope: scope.unwrap_or(ReplayScope::Bucket),
        reports: names(reports, batch_id),
        buckets: aggregates(reports, batch_id),
        rejections: Default::default(),
        response: response.into(),
    }
}

pub(crate) fn names(reports: &[Report], batch_id: Option<BatchId>) -> Vec<(Bucket, ReportId)> {
    reports.iter().map(|report| (report.bucket(batch_id), report.id)).collect()
}

impl Bench {
    /// Commits a job at the helper under a request with this name.
    pub(crate) fn commit(
        &mut self,
        task_id: TaskId,
        request: &str,
        commit: HelperOutcome,
    ) -> Committed {
        let committed = run(self.store().commit_helper_job(task_id, digest(request), commit));
        self.restart();
        committed
    }

    pub(crate) fn spent(
        &self,
        reports: &[Report],
        batch_id: Option<BatchId>,
    ) -> Vec<Option<Rejection>> {
        let task_id = reports[0].task_id;
        let scope = replay_scope(&task_id);
        run(self.store().spent_reports(task_id, scope, names(reports, batch_id)))
    }
}

pub(crate) const REPLAYED: Option<Rejection> = Some(Rejection::ReportReplayed);

fn a_commit_is_answered_again(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    assert_eq!(run(bench.store().response(task, digest("one"))), None);
    let mut commit = commit_of(&all, None, "response");
    commit.rejections = rejected(Rejection::VdafVerifyError, 2);
    assert_eq!(bench.commit(task, "one", commit.clone()), Committed::Done);
    for _ in 0..2 {
        let response = run(bench.store().response(task, digest("one")));
        assert_eq!(response, Some(b"response".to_vec()));
        // The first response stands, even if a second computation gives another.
        commit.response = b"other".to_vec();
        let again = bench.commit(task, "one", commit.clone());
        assert_eq!(again, Committed::Already(b"response".to_vec()));
    }
    assert_eq!(bench.counters(task).aggregated, 3);
    assert_eq!(bench.counters(task).rejections, rejected(Rejection::VdafVerifyError, 2));
    let batch = run(bench.store().batch(task, BatchSelector::TimeInterval(interval(10, 1))));
    assert_holds(&batch.aggregate.unwrap(), &all);
    assert!(!batch.collected);
}

fn spent_ids_are_told(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..5, 10);
    assert_eq!(bench.spent(&all, None), [None; 5]);
    bench.commit(task, "one", commit_of(&[all[3], all[1]], None, "response"));
    assert_eq!(bench.spent(&all, None), [None, REPLAYED, None, REPLAYED, None]);
    let reversed: Vec<_> = all.iter().rev().copied().collect();
    assert_eq!(bench.spent(&reversed, None), [None, REPLAYED, None, REPLAYED, None]);
    assert_eq!(run(bench.store().spent_reports(task, ReplayScope::Bucket, Vec::new())), []);
}

fn a_time_narrows_what_is_spent(bench: &mut Bench) {
    let task = interval_task(1);
    let (first, second) = (report(task, 0, 10), report(task, 1, 11).with_id_of(0));
    bench.commit(task, "one", commit_of(&[first], None, "response"));
    assert_eq!(bench.spent(&[first, second], None), [REPLAYED, None]);
    assert_eq!(bench.commit(task, "two", commit_of(&[second], None, "")), Committed::Done);
}

fn in_leader_selected_tasks_an_id_is_spent_for_all_batches(bench: &mut Bench) {
    let task = batch_task(1);
    let first = report(task, 0, 10);
    bench.commit(task, "one", commit_of(&[first], Some(batch_id(1)), "response"));
    let elsewhere = [report(task, 1, 11).with_id_of(0)];
    for batch in [batch_id(1), batch_id(2)] {
        assert_eq!(bench.spent(&elsewhere, Some(batch)), [REPLAYED]);
        let commit = commit_of(&elsewhere, Some(batch), "other");
        assert_eq!(bench.commit(task, "two", commit), Committed::Conflict);
    }
    assert_eq!(bench.counters(task).aggregated, 1);
}

fn a_spent_id_is_a_conflict(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..4, 10);
    bench.commit(task, "one", commit_of(&all[..2], None, "response"));
    let mut late = commit_of(&all[1..], None, "late");
    late.rejections = rejected(Rejection::InvalidMessage, 1);
    assert_eq!(bench.commit(task, "two", late), Committed::Conflict);
    // Nothing of it stays, not even the ids that were free.
    assert_eq!(run(bench.store().response(task, digest("two"))), None);
    assert_eq!(bench.spent(&all, None), [REPLAYED, REPLAYED, None, None]);
    assert_eq!(bench.counters(task).aggregated, 2);
    assert_eq!(bench.counters(task).rejections.total(), 0);
    assert_eq!(bench.commit(task, "two", commit_of(&all[2..], None, "late")), Committed::Done);
    let batch = run(bench.store().batch(task, BatchSelector::TimeInterval(interval(0, 100))));
    assert_holds(&batch.aggregate.unwrap(), &all);
}

fn an_id_twice_in_one_commit_is_not_counted_twice(bench: &mut Bench) {
    let task = interval_task(1);
    let twice = [report(task, 0, 10); 2];
    let refused = block_on(bench.store().commit_helper_job(
        task,
        digest("one"),
        commit_of(&twice, None, "response"),
    ));
    assert!(!matches!(refused, Ok(Committed::Done)), "{refused:?}");
    bench.restart();
    assert_eq!(bench.counters(task), Default::default());
    assert_eq!(bench.spent(&twice[..1], None), [None]);
}

fn a_share_of_another_shape_changes_nothing(bench: &mut Bench) {
    let task = interval_task(1);
    let all = [report(task, 0, 11), report(task, 1, 10), report(task, 2, 11)];
    bench.commit(task, "one", commit_of(&all[..1], None, "response"));
    let mut misfit = commit_of(&all[1..], None, "misfit");
    let bucket = misfit.buckets.get_mut(&all[2].bucket(None)).unwrap();
    bucket.share = misshapen_share();
    let refused = block_on(bench.store().commit_helper_job(task, digest("two"), misfit));
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    bench.restart();
    assert_eq!(bench.spent(&all, None), [REPLAYED, None, None]);
    assert_eq!(bench.counters(task).aggregated, 1);
    assert_eq!(bench.commit(task, "two", commit_of(&all[1..], None, "fit")), Committed::Done);
    let batch = run(bench.store().batch(task, BatchSelector::TimeInterval(interval(10, 2))));
    assert_holds(&batch.aggregate.unwrap(), &all);
}

fn a_commit_must_account_for_its_reports(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..3, 10);
    let mut wrong = commit_of(&all, None, "response");
    wrong.reports.pop();
    let refused = block_on(bench.store().commit_helper_job(task, digest("one"), wrong));
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    bench.restart();
    assert_eq!(bench.counters(task), Default::default());
    assert_eq!(bench.spent(&all, None), [None; 3]);
    // A job whose reports were all rejected is also answered and remembered.
    let mut empty = commit_of(&[], None, "empty");
    empty.rejections = rejected(Rejection::HpkeDecryptError, 3);
    assert_eq!(bench.commit(task, "one", empty.clone()), Committed::Done);
    assert_eq!(bench.commit(task, "one", empty), Committed::Already(b"empty".to_vec()));
    assert_eq!(bench.counters(task).rejections, rejected(Rejection::HpkeDecryptError, 3));
}

fn a_forgotten_response_leaves_its_ids_spent(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..2, 10);
    bench.commit(task, "one", commit_of(&all, None, "response"));
    bench.commit(task, "two", commit_of(&reports(task, 2..3, 10), None, "kept"));
    for _ in 0..2 {
        run(bench.store().forget_response(task, digest("one")));
        bench.restart();
        assert_eq!(run(bench.store().response(task, digest("one"))), None);
    }
    assert_eq!(run(bench.store().response(task, digest("two"))), Some(b"kept".to_vec()));
    assert_eq!(bench.spent(&all, None), [REPLAYED; 2]);
    let again = bench.commit(task, "one", commit_of(&all, None, "response"));
    assert_eq!(again, Committed::Conflict);
    assert_eq!(bench.counters(task).aggregated, 3);
    run(bench.store().forget_response(task, digest("unknown")));
    run(bench.store().forget_response(interval_task(9), digest("one")));
}

fn the_same_request_from_many_threads_is_committed_once(bench: &mut Bench) {
    let task = interval_task(1);
    let all = reports(task, 0..5, 10);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let commit = |thread: usize| {
            // Each thread computed its own response; only one may be returned.
            let commit = commit_of(&all, None, &format!("response {thread}"));
            run(bench.store().commit_helper_job(task, digest("one"), commit))
        };
        let threads: Vec<_> =
            (0..8).map(|thread| scope.spawn(move || (thread, commit(thread)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let is_done = |(_, answer): &&(usize, Committed)| *answer == Committed::Done;
    let winners: Vec<usize> = answers.iter().filter(is_done).map(|(thread, _)| *thread).collect();
    let [winner] = winners[..] else { panic!("{winners:?} committed") };
    let response = format!("response {winner}").into_bytes();
    for (thread, answer) in answers {
        assert!(thread == winner || answer == Committed::Already(response.clone()));
    }
    bench.restart();
    assert_eq!(run(bench.store().response(task, digest("one"))), Some(response));
    assert_eq!(bench.counters(task).aggregated, 5);
    let batch = run(bench.store().batch(task, BatchSelector::TimeInterval(interval(10, 1))));
    assert_holds(&batch.aggregate.unwrap(), &all);
}

fn jobs_that_share_a_report_do_not_both_commit(bench: &mut Bench) {
    let task = batch_task(1);
    let shared = report(task, 0, 10);
    let done = std::thread::scope(|scope| {
        let commit = |cell: u8| {
            let reports = [report(task, cell, 10), shared];
            let commit = commit_of(&reports, Some(batch_id(1)), "response");
            let request = digest(&format!("request {cell}"));
            run(bench.store().commit_helper_job(task, request, commit))
        };
        let threads: Vec<_> = (1..9).map(|cell| scope.spawn(move || commit(cell))).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.filter(|answer| *answer == Committed::Done).count()
    });
    assert_eq!(done, 1);
    bench.restart();
    assert_eq!(bench.counters(task).aggregated, 2);
}

fn tasks_are_apart(bench: &mut Bench) {
    for task in [interval_task(1), interval_task(2)] {
        let all = reports(task, 0..3, 10);
        assert_eq!(bench.commit(task, "one", commit_of(&all, None, "response")), Committed::Done);
        let batch = run(bench.store().batch(task, BatchSelector::TimeInterval(interval(10, 1))));
        assert_holds(&batch.aggregate.unwrap(), &all);
    }
}
