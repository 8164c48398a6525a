//! Rounds of a series: a token is spent once in all of them, whatever becomes of the round in which
//! it was spent, until the series is forgotten.

use std::sync::Barrier;

use sotto_protocol::{Rejection, Rejections};
use sotto_store::{Committed, REQUEUE_PAUSE};
use sotto_wire::{BatchMode, BatchSelector, Query, ReportIdChecksum, TaskId, Time};

use super::bench::{Bench, on_every_store};
use super::driver::{Verdict, decoded, digest, rejected, run};
use super::helper::{REPLAYED, commit_of};
use super::reports::{
    Report, assert_holds, batch_id, batch_mode, interval, interval_task, report, reports,
    round_task, series_of, token_task,
};

on_every_store!(
    a_token_of_one_round_is_refused_in_the_next,
    it_stays_refused_after_the_round_was_collected,
    it_stays_refused_after_the_round_was_forgotten,
    a_job_keeps_its_series_until_it_is_done,
    the_helper_refuses_it_in_the_next_round,
    the_helper_refuses_it_after_the_round_was_collected_and_forgotten,
    the_helper_commits_one_of_two_concurrent_rounds,
    two_jobs_of_concurrent_rounds_share_no_id,
    series_and_plain_tasks_are_apart,
    a_forgotten_series_forgets_its_ids_and_no_round,
);

/// Of a leader-selected series and of one of time intervals.
const SERIES: [u8; 2] = [1, 2];

fn replayed(count: u64) -> Rejections {
    rejected(Rejection::ReportReplayed, count)
}

/// The same token in another round, at another time.
fn again(report: Report, round: TaskId) -> Report {
    Report { task_id: round, time: Time::new(20), ..report }
}

fn query(round: &TaskId) -> Query {
    match batch_mode(round) {
        BatchMode::LeaderSelected => Query::LeaderSelected,
        _ => Query::TimeInterval(interval(10, 1)),
    }
}

fn a_token_of_one_round_is_refused_in_the_next(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let spent = report(first, 0, 10);
        bench.aggregate(&[spent]);
        let fresh = report(second, 1, 20);
        bench.accept(&[again(spent, second), fresh]);
        assert_eq!(bench.form(), (1, replayed(1)));
        assert_eq!(decoded(&bench.lease_job().records), [fresh]);
        bench.restart();
        bench.work();
        // Nor twice in one round.
        bench.accept(&[again(fresh, second)]);
        assert_eq!(bench.form(), (0, replayed(1)));
        assert_eq!(bench.counters(second).aggregated, 1);
        bench.assert_no_reports();
    }
}

fn it_stays_refused_after_the_round_was_collected(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let spent = reports(first, 0..3, 10);
        bench.aggregate(&spent);
        let (.., aggregate) = bench.collect(first, query(&first));
        assert_holds(&aggregate, &spent);
        // Allows a purge to happen, if there were one.
        bench.aggregate(&reports(first, 10..12, 12));
        let copies: Vec<_> = spent.iter().map(|report| again(*report, second)).collect();
        bench.accept(&copies);
        assert_eq!(bench.form(), (0, replayed(3)));
    }
}

fn it_stays_refused_after_the_round_was_forgotten(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let spent = report(first, 0, 10);
        bench.aggregate(&[spent]);
        run(bench.store().forget_task(first));
        bench.restart();
        bench.aggregate(&[report(second, 1, 20)]);
        bench.accept(&[again(spent, second)]);
        assert_eq!(bench.form(), (0, replayed(1)));
    }
}

/// What a job stores of its scope: a report that is tried again, or that spent nothing, gives its id
/// back to the series.
fn a_job_keeps_its_series_until_it_is_done(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let (later, junk) = (report(first, 0, 10), report(first, 1, 10));
        bench.accept(&[later, junk]);
        assert_eq!(bench.form(), (1, Rejections::default()));
        bench.restart();
        bench.accept(&[again(later, second), again(junk, second)]);
        assert_eq!(bench.form(), (0, replayed(2)), "both ids are taken while it runs");
        bench.work_with(|report| match report.cell {
            0 => Verdict::Requeue,
            _ => Verdict::Release(Rejection::TokenMissing),
        });
        // Both ids are free again. The report that is tried again and its copy compete for one.
        bench.advance(REQUEUE_PAUSE);
        bench.accept(&[again(later, second), again(junk, second)]);
        assert_eq!(bench.form().1, replayed(1));
        bench.work();
        let counted = [first, second].map(|round| bench.counters(round).aggregated);
        assert_eq!(counted.iter().sum::<u64>(), 2, "{counted:?}");
        bench.assert_no_reports();
    }
}

fn the_helper_refuses_it_in_the_next_round(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let batch = (batch_mode(&first) == BatchMode::LeaderSelected).then(|| batch_id(1));
        let (spent, fresh) = (report(first, 0, 10), report(second, 1, 20));
        let commit = commit_of(&[spent], batch, "first");
        assert_eq!(bench.commit(first, "one", commit), Committed::Done);
        let copy = again(spent, second);
        // The store has never seen the second round.
        assert_eq!(bench.spent(&[copy, fresh], batch), [REPLAYED, None]);
        let commit = commit_of(&[copy, fresh], batch, "both");
        assert_eq!(bench.commit(second, "two", commit), Committed::Conflict);
        let commit = commit_of(&[fresh], batch, "fresh");
        assert_eq!(bench.commit(second, "two", commit), Committed::Done);
        assert_eq!(bench.spent(&[again(fresh, first)], batch), [REPLAYED]);
        assert_eq!((bench.counters(first).aggregated, bench.counters(second).aggregated), (1, 1));
    }
}

fn the_helper_refuses_it_after_the_round_was_collected_and_forgotten(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let batch = (batch_mode(&first) == BatchMode::LeaderSelected).then(|| batch_id(1));
        let spent = report(first, 0, 10);
        assert_eq!(
            bench.commit(first, "one", commit_of(&[spent], batch, "first")),
            Committed::Done
        );
        let selector = match batch {
            Some(batch_id) => BatchSelector::LeaderSelected(batch_id),
            None => BatchSelector::TimeInterval(interval(10, 1)),
        };
        let mut checksum = ReportIdChecksum::default();
        checksum.add(&spent.id);
        let expected = (1, *checksum.as_bytes());
        let release = b"share".to_vec().into();
        let collected =
            bench.store().collect_batch(first, selector, expected, digest("share"), release);
        assert_eq!(run(collected), Committed::Done);
        bench.restart();
        let copy = again(spent, second);
        assert_eq!(bench.spent(&[copy], batch), [REPLAYED]);
        run(bench.store().forget_task(first));
        bench.restart();
        assert_eq!(bench.spent(&[copy], batch), [REPLAYED]);
        let commit = commit_of(&[copy], batch, "copy");
        assert_eq!(bench.commit(second, "two", commit), Committed::Conflict);
    }
}

fn the_helper_commits_one_of_two_concurrent_rounds(bench: &mut Bench) {
    for series in SERIES {
        let batch = (series % 2 == 0).then(|| batch_id(1));
        let rounds = [1, 2, 3, 4].map(|number| round_task(series, number));
        let start = Barrier::new(rounds.len());
        let store = bench.store();
        let committed: Vec<_> = std::thread::scope(|scope| {
            let commit = |round| {
                let start = &start;
                let own = report(round, round.as_bytes()[31], 20);
                let outcome = commit_of(&[again(report(round, 0, 10), round), own], batch, "r");
                scope.spawn(move || {
                    start.wait();
                    run(store.commit_helper_job(round, digest("request"), outcome))
                })
            };
            let all: Vec<_> = rounds.into_iter().map(commit).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let done = committed.iter().filter(|committed| **committed == Committed::Done).count();
        assert_eq!(done, 1, "{committed:?}");
        let aggregated = rounds.map(|round| bench.counters(round).aggregated);
        assert_eq!(aggregated.iter().sum::<u64>(), 2, "{aggregated:?}");
        bench.restart();
    }
}

fn two_jobs_of_concurrent_rounds_share_no_id(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let kept = reports(first, 0..3, 20);
        let others = reports(second, 2..5, 20);
        bench.accept(&[&kept[..], &others[..]].concat());
        assert_eq!(bench.form(), (2, replayed(1)));
        bench.work();
        let counted = [first, second].map(|round| bench.counters(round).aggregated);
        assert_eq!(counted.iter().sum::<u64>(), 5, "{counted:?}");
        bench.assert_no_reports();
    }
}

fn series_and_plain_tasks_are_apart(bench: &mut Bench) {
    let tasks = [round_task(1, 1), round_task(2, 1), round_task(3, 1), token_task(1)];
    for task in tasks.into_iter().chain([interval_task(1)]) {
        bench.aggregate(&[report(task, 0, 10)]);
        assert_eq!(bench.counters(task).aggregated, 1);
    }
    // A plain task forgets as before.
    bench.collect(interval_task(1), Query::TimeInterval(interval(10, 1)));
    bench.aggregate(&[report(interval_task(1), 0, 11)]);
}

fn a_forgotten_series_forgets_its_ids_and_no_round(bench: &mut Bench) {
    for series in SERIES {
        let (first, second) = (round_task(series, 1), round_task(series, 2));
        let spent = report(first, 0, 10);
        bench.aggregate(&[spent]);
        run(bench.store().forget_task(series_of(&first)));
        bench.restart();
        assert!(run(bench.store().forgotten_tasks()).contains(&series_of(&first)));
        assert_eq!(bench.counters(first).aggregated, 1);
        let batch = (batch_mode(&first) == BatchMode::LeaderSelected).then(|| batch_id(1));
        assert_eq!(bench.spent(&[again(spent, second)], batch), [None]);
    }
}
