//! A database that fails in the middle of a verb: nothing of the verb remains in the files or in
//! memory, and the verb succeeds when it is repeated.

use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use rusqlite::Connection;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::{
    FormedBatch, FormedJob, FormedJobs, FormedReport, LeaderOutcome,
};
use sotto_protocol::{Bucket, BucketAggregate, BucketAggregates, Moment, ReplayScope};
use sotto_vdaf::{AggregateShare, VdafConfig};
use sotto_wire::{
    BatchSelector, HpkeConfigId, Interval, Query, ReportId, ReportIdChecksum, TaskId, Time,
};
use tempfile::TempDir;

use crate::{
    Closing, Committed, Fixed, HelperStore, LeaderStore, LeasedJob, NewReport, Result,
    SqliteOptions, SqliteStore, StoreError, TaskStore, Turn,
};

const TASK: TaskId = TaskId::new([1; 32]);
const TIME: Time = Time::new(10);
const LEASE: Duration = Duration::from_secs(60);

struct Fixture {
    store: SqliteStore,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteOptions { segment_bytes: 1_000, ..SqliteOptions::default() };
        Self { store: SqliteStore::open(dir.path(), options).unwrap(), dir }
    }

    /// Runs a verb while changes of this kind fail: it must fail. Then runs it again without the
    /// fault.
    #[track_caller]
    fn twice<T>(&self, change: &str, verb: impl AsyncFn(&SqliteStore) -> Result<T>) -> T {
        let conn = Connection::open(self.dir.path().join("sotto.sqlite")).unwrap();
        let trigger =
            format!("CREATE TRIGGER fault BEFORE {change} BEGIN SELECT RAISE(ABORT, 'fault'); END");
        conn.execute_batch(&trigger).unwrap();
        let failed = block_on(verb(&self.store)).err();
        assert!(
            matches!(&failed, Some(StoreError::Backend(why)) if why.contains("fault")),
            "{change}: {failed:?}"
        );
        conn.execute_batch("DROP TRIGGER fault").unwrap();
        block_on(verb(&self.store)).unwrap()
    }

    /// How many of these reports are accepted.
    async fn accept(&self, numbers: std::ops::Range<u8>) -> usize {
        let report = |number| NewReport {
            task_id: TASK,
            bucket: Some(TIME),
            hpke_config_id: HpkeConfigId::new(1),
            report: vec![number; 100].into(),
        };
        let verdicts = self.store.accept_reports(numbers.map(report).collect()).await.unwrap();
        verdicts.iter().filter(|verdict| verdict.is_ok()).count()
    }

    fn lease(&self) -> LeasedJob {
        block_on(self.store.lease_job(LEASE, Turn::default())).unwrap().unwrap()
    }

    fn aggregated(&self) -> u64 {
        block_on(self.store.counters(TASK)).unwrap().aggregated
    }
}

async fn fix(store: &SqliteStore) -> Result<Fixed> {
    let backlog = store.backlog(usize::MAX, usize::MAX, Arc::new(|_| true)).await?;
    let report = |(index, record): (usize, &crate::Record)| FormedReport {
        record: index,
        report_id: ReportId::new([record.report[0]; 16]),
        time: TIME,
    };
    let reports = backlog.records.iter().enumerate().map(report).collect();
    let (now, batch, scope) = (Moment(0), FormedBatch::TimeInterval, ReplayScope::Bucket);
    let job = FormedJob { task_id: TASK, now, batch, scope, reports };
    let formed = FormedJobs { jobs: vec![job], rejections: Vec::new() };
    store.fix_jobs(backlog.stretch.unwrap(), formed).await
}

fn buckets(count: u64) -> BucketAggregates {
    let share = VdafConfig::count().build().unwrap().zero_share();
    let checksum = ReportIdChecksum::default();
    let aggregate = BucketAggregate { share, count, checksum, first: TIME, last: TIME };
    [(Bucket::Time(TIME), aggregate)].into()
}

#[test]
fn a_failed_fixing_reserves_nothing_and_takes_nothing() {
    for change in ["INSERT ON jobs", "UPDATE ON store", "INSERT ON report_ids"] {
        let fixture = Fixture::new();
        block_on(fixture.accept(0..12));
        let fixed = fixture.twice(change, fix);
        assert_eq!(fixed, Fixed::Committed { jobs: 1, rejections: Default::default() });
        assert_eq!(fixture.lease().records.len(), 12);
    }
}

#[test]
fn a_failed_commit_leaves_the_job_with_its_holder() {
    for change in ["DELETE ON jobs", "INSERT ON buckets", "INSERT ON requeued"] {
        let fixture = Fixture::new();
        block_on(fixture.accept(0..12));
        block_on(fix(&fixture.store)).unwrap();
        let job = fixture.lease();
        let commit =
            LeaderOutcome { buckets: buckets(10), requeue: vec![3, 4], ..LeaderOutcome::default() };
        fixture.twice(change, async |store| store.commit_job(job.lease, commit.clone()).await);
        assert_eq!(fixture.aggregated(), 10);
        let load = block_on(fixture.store.load()).unwrap();
        assert!(load.jobs == 0 && load.segment_bytes > 0);
    }
}

#[test]
fn a_failed_closing_refuses_nobody() {
    let fixture = Fixture::new();
    block_on(fixture.accept(0..3));
    block_on(fix(&fixture.store)).unwrap();
    let job = fixture.lease();
    let commit = LeaderOutcome { buckets: buckets(3), ..LeaderOutcome::default() };
    block_on(fixture.store.commit_job(job.lease, commit)).unwrap();
    let query = Query::TimeInterval(Interval::bucket(TIME).unwrap());
    let create =
        async |store: &SqliteStore| store.create_collection(TASK, b"request".to_vec(), query).await;
    fixture.twice("INSERT ON collections", create);
    let lease =
        block_on(fixture.store.lease_collection(LEASE, Turn::default())).unwrap().unwrap().lease;
    let close = async |store: &SqliteStore| {
        let closing = store.close_batch(lease, 1).await;
        // What is rejected now was rejected permanently.
        assert_eq!(fixture.accept(50..53).await, if closing.is_ok() { 0 } else { 3 });
        closing
    };
    assert!(matches!(fixture.twice("INSERT ON ranges", close), Closing::Draining));
    block_on(fix(&fixture.store)).unwrap();
    let job = fixture.lease();
    assert_eq!(job.records.len(), 3);
    let commit = LeaderOutcome { buckets: buckets(3), ..LeaderOutcome::default() };
    block_on(fixture.store.commit_job(job.lease, commit)).unwrap();
    let drained = block_on(fixture.store.close_batch(lease, 1)).unwrap();
    assert!(matches!(drained, Closing::Drained { aggregate, .. } if aggregate.count == 6));
    let finish = async |store: &SqliteStore| {
        store.finish_collection(lease, b"response".to_vec().into()).await
    };
    fixture.twice("UPDATE ON collections", finish);
}

#[test]
fn a_collected_share_is_in_no_file() {
    let fixture = Fixture::new();
    let pattern = *b"a distinctive share, thirty-two.";
    let is_on_disk = || {
        std::fs::read_dir(fixture.dir.path()).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            path.is_file() && std::fs::read(path).unwrap().windows(32).any(|w| w == pattern)
        })
    };
    let mut commit = HelperOutcome {
        scope: ReplayScope::Bucket,
        reports: vec![(Bucket::Time(TIME), ReportId::new([0; 16]))],
        buckets: buckets(1),
        rejections: Default::default(),
        response: Vec::new(),
    };
    for aggregate in commit.buckets.values_mut() {
        let mut bytes = aggregate.share.to_store_bytes();
        bytes.truncate(1);
        bytes.extend_from_slice(&pattern);
        aggregate.share = AggregateShare::from_store_bytes(&bytes).unwrap();
    }
    block_on(fixture.store.commit_helper_job(TASK, [7; 32], commit)).unwrap();
    assert!(is_on_disk());
    let batch = BatchSelector::TimeInterval(Interval::bucket(TIME).unwrap());
    let collected =
        fixture.store.collect_batch(TASK, batch, (1, [0; 32]), [8; 32], Vec::new().into());
    assert_eq!(block_on(collected), Ok(Committed::Done));
    assert!(!is_on_disk());
}

#[test]
fn a_failed_helper_commit_spends_nothing() {
    for change in ["INSERT ON responses", "INSERT ON buckets", "INSERT ON response_buckets"] {
        let fixture = Fixture::new();
        let commit = HelperOutcome {
            scope: ReplayScope::Bucket,
            reports: (0..5).map(|n| (Bucket::Time(TIME), ReportId::new([n; 16]))).collect(),
            buckets: buckets(5),
            rejections: Default::default(),
            response: b"response".to_vec(),
        };
        let verb = async |store: &SqliteStore| {
            store.commit_helper_job(TASK, [7; 32], commit.clone()).await
        };
        assert_eq!(fixture.twice(change, verb), Committed::Done);
        assert_eq!(fixture.aggregated(), 5);
    }
}
