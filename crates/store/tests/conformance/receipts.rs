//! Receipts of released batches: owed with the release, numbered once, kept until they are sent.

use futures_executor::block_on;
use sotto_protocol::Moment;
use sotto_protocol::receipt::Released;
use sotto_protocol::recipe::windows::Span;
use sotto_store::{Committed, OwedReceipt, OwedReceipts, Release, StoreError};
use sotto_wire::{BatchSelector, EntryId, Query, ReportIdChecksum, TaskId};

use super::bench::{Bench, on_every_store};
use super::driver::{digest, run};
use super::helper::commit_of;
use super::reports::{Report, batch_id, batch_task, interval, interval_task, report, reports};

on_every_store!(
    a_leaders_release_owes_its_receipt,
    a_helpers_release_owes_its_receipt_once,
    a_receipt_is_not_sent_before_its_time,
    receipts_are_numbered_one_by_one_and_for_good,
    a_receipt_that_is_stuck_holds_back_no_other_task,
    receipts_outlive_their_task,
);

/// A receipt whose interval begins at this minute, due at this second.
fn released(minute: u64, due: u64) -> Released {
    Released {
        recipe: EntryId::new([minute as u8; 32]),
        span: Span { start: 60 * minute, end: 60 * (minute + 1) },
        count: 4,
        batch: (minute % 2 == 1).then(|| batch_id(minute as u8)),
        due: Moment(due),
    }
}

impl Bench {
    /// What is owed at this second, after a restart.
    fn owed(&mut self, now: u64) -> OwedReceipts {
        self.restart();
        let owed = run(self.store().next_receipts(Moment(now)));
        self.restart();
        // Asking gives a number, but the same one again.
        assert_eq!(run(self.store().next_receipts(Moment(now))), owed);
        owed
    }

    fn sent(&mut self, task_id: TaskId, number: u64) {
        run(self.store().receipt_sent(task_id, number));
        self.restart();
        run(self.store().receipt_sent(task_id, number));
    }

    /// Releases one report of a task at the helper. Its bucket is the minute of the receipt.
    fn release(&mut self, task_id: TaskId, cell: u8, receipt: Released) -> Committed {
        let report = report(task_id, cell, receipt.span.start);
        let name = format!("job {cell}");
        self.commit(task_id, &name, commit_of(&[report], None, "response"));
        self.collect_one(task_id, &report, &format!("share {cell}"), Some(receipt))
    }

    fn collect_one(
        &mut self,
        task_id: TaskId,
        report: &Report,
        request: &str,
        receipt: Option<Released>,
    ) -> Committed {
        let mut checksum = ReportIdChecksum::default();
        checksum.add(&report.id);
        let selector = BatchSelector::TimeInterval(interval(report.time.as_units(), 1));
        let release = Release { response: b"share".to_vec(), receipt };
        let expected = (1, *checksum.as_bytes());
        run(self.store().collect_batch(task_id, selector, expected, digest(request), release))
    }
}

fn one(task_id: TaskId, number: u64, released: Released) -> OwedReceipts {
    OwedReceipts { count: 1, next: vec![OwedReceipt { task_id, number, released }] }
}

fn a_leaders_release_owes_its_receipt(bench: &mut Bench) {
    let cases = [
        (interval_task(1), Query::TimeInterval(interval(10, 5)), released(2, 0)),
        (batch_task(1), Query::LeaderSelected, released(3, 0)),
    ];
    for (task, query, receipt) in cases {
        bench.aggregate(&reports(task, 0..2, 12));
        bench.create(task, query);
        let job = bench.lease_collection();
        let release = Release { response: b"response".to_vec(), receipt: Some(receipt) };
        let early = block_on(bench.store().finish_collection(job.lease, release.clone()));
        assert!(matches!(early, Err(StoreError::Backend(_))), "nothing is closed: {early:?}");
        bench.restart();
        assert_eq!(bench.owed(9), OwedReceipts::default());
        bench.drained();
        let job = bench.lease_collection();
        run(bench.store().finish_collection(job.lease, release.clone()));
        let again = block_on(bench.store().finish_collection(job.lease, release));
        assert_eq!(again, Err(StoreError::Fenced));
        assert_eq!(bench.owed(9), one(task, 1, receipt));
        bench.sent(task, 1);
        assert_eq!(bench.owed(9), OwedReceipts::default());
    }
    // Operators may not write any.
    bench.aggregate(&reports(interval_task(1), 5..7, 20));
    bench.collect(interval_task(1), Query::TimeInterval(interval(20, 1)));
    assert_eq!(bench.owed(u64::MAX), OwedReceipts::default());
}

fn a_helpers_release_owes_its_receipt_once(bench: &mut Bench) {
    let (task, receipt) = (interval_task(1), released(4, 0));
    let all = report(task, 1, receipt.span.start);
    bench.commit(task, "job", commit_of(&[all], None, "response"));
    let wrong = Report { id: report(task, 9, 0).id, ..all };
    let refused = bench.collect_one(task, &wrong, "wrong", Some(receipt));
    assert_eq!(refused, Committed::Conflict);
    assert_eq!(bench.owed(9), OwedReceipts::default());
    assert_eq!(bench.collect_one(task, &all, "one", Some(receipt)), Committed::Done);
    let again = bench.collect_one(task, &all, "one", Some(released(6, 0)));
    assert_eq!(again, Committed::Already(b"share".to_vec()));
    let other = bench.collect_one(task, &all, "two", Some(released(6, 0)));
    assert_eq!(other, Committed::Conflict);
    assert_eq!(bench.owed(9), one(task, 1, receipt));
    bench.sent(task, 1);
    assert_eq!(bench.owed(9), OwedReceipts::default());
}

fn a_receipt_is_not_sent_before_its_time(bench: &mut Bench) {
    let (task, receipt) = (interval_task(1), released(1, 100));
    assert_eq!(bench.release(task, 1, receipt), Committed::Done);
    assert_eq!(bench.owed(99), OwedReceipts::default());
    assert_eq!(bench.owed(100), one(task, 1, receipt));
    // A clock that is set back does not take it back.
    assert_eq!(bench.owed(99), one(task, 1, receipt));
}

fn receipts_are_numbered_one_by_one_and_for_good(bench: &mut Bench) {
    let task = interval_task(1);
    let (late, soon, same) = (released(1, 200), released(2, 100), released(3, 100));
    for (cell, receipt) in [late, soon, same].into_iter().enumerate() {
        bench.release(task, cell as u8, receipt);
    }
    let next = |number, released, count| OwedReceipts { count, ..one(task, number, released) };
    assert_eq!(bench.owed(150), next(1, soon, 2));
    // One that is due earlier comes too late: the other has its number.
    let first = released(4, 0);
    bench.release(task, 7, first);
    assert_eq!(bench.owed(150), next(1, soon, 3));
    run(bench.store().receipt_sent(task, 2));
    run(bench.store().receipt_sent(interval_task(2), 1));
    assert_eq!(bench.owed(150), next(1, soon, 3), "no such receipt");
    for (number, receipt, count) in [(1, soon, 4), (2, first, 3), (3, same, 2), (4, late, 1)] {
        assert_eq!(bench.owed(200), next(number, receipt, count));
        bench.sent(task, number);
    }
    assert_eq!(bench.owed(u64::MAX), OwedReceipts::default());
    bench.release(task, 9, released(5, 0));
    assert_eq!(bench.owed(0), next(5, released(5, 0), 1));
}

fn a_receipt_that_is_stuck_holds_back_no_other_task(bench: &mut Bench) {
    let (stuck, other) = (interval_task(1), interval_task(2));
    for cell in 0..2 {
        bench.release(stuck, cell, released(u64::from(cell), 0));
        bench.release(other, cell, released(u64::from(cell), 0));
    }
    for number in 1..=2 {
        let owed = bench.owed(0);
        assert_eq!(owed.count, 5 - number);
        let mut next: Vec<_> = owed.next.iter().map(|next| (next.task_id, next.number)).collect();
        next.sort();
        let mut expected = [(stuck, 1), (other, number)];
        expected.sort();
        assert_eq!(next, expected);
        bench.sent(other, number);
    }
    assert_eq!(bench.owed(0).next.len(), 1);
}

fn receipts_outlive_their_task(bench: &mut Bench) {
    let task = interval_task(1);
    for cell in 0..3 {
        bench.release(task, cell, released(u64::from(cell), u64::from(cell)));
    }
    bench.owed(9);
    bench.sent(task, 1);
    run(bench.store().forget_task(task));
    for number in 2..=3 {
        let owed = bench.owed(9);
        assert_eq!((owed.count, owed.next[0].number), (4 - number, number));
        assert_eq!(owed.next[0].released, released(number - 1, number - 1));
        bench.sent(task, number);
    }
    assert_eq!(bench.owed(u64::MAX), OwedReceipts::default());
}
