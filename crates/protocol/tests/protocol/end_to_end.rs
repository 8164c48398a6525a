//! Every VDAF in both batch modes, from measurement to result.

use std::collections::BTreeMap;

use sotto_protocol::helper;
use sotto_protocol::leader::aggregate::{
    JobInput, JobLimits, consume_aggregation_job_resp, form_jobs, produce_aggregation_job_init_req,
};
use sotto_protocol::leader::collect::{
    consume_collection_job_req, produce_aggregate_share_req, produce_collection_job_resp,
};
use sotto_protocol::leader::upload::{consume_upload_req, produce_upload_errors};
use sotto_protocol::{Bucket, BucketAggregate, BucketAggregates, collector};
use sotto_testing::aggregators::{
    BATCH, COLLECTOR_KEY, NOW, Parties, assert_same_books, interval, unit,
};
use sotto_testing::keys::{keypair, rng};
use sotto_vdaf::{AggregateResult, Measurement, VdafConfig};
use sotto_wire::{BatchMode, BatchSelector, Decode, Query, Report, ReportIdChecksum};

/// Seven measurements for each VDAF, and their sum.
fn cases() -> Vec<(VdafConfig, Vec<Measurement>, AggregateResult)> {
    use AggregateResult::{Scalar, Vector};
    let bits = |bits: [u8; 4]| Measurement::MultihotCountVec(bits.map(|bit| bit == 1).to_vec());
    vec![
        (
            VdafConfig::count(),
            [true, false, true, true, false, true, true].map(Measurement::Count).to_vec(),
            Scalar(5),
        ),
        (
            VdafConfig::sum(100),
            [0, 100, 1, 99, 50, 7, 3].map(Measurement::Sum).to_vec(),
            Scalar(260),
        ),
        (
            VdafConfig::sum_vec(3, 10),
            (0..7).map(|i| Measurement::SumVec(vec![i, 10, 10 - i])).collect(),
            Vector(vec![21, 70, 49]),
        ),
        (
            VdafConfig::histogram(5),
            [0, 4, 4, 2, 4, 0, 1].map(Measurement::Histogram).to_vec(),
            Vector(vec![2, 1, 1, 0, 3]),
        ),
        (
            VdafConfig::multihot_count_vec(4, 2),
            vec![
                bits([0, 0, 0, 0]),
                bits([1, 1, 0, 0]),
                bits([0, 1, 1, 0]),
                bits([0, 1, 0, 0]),
                bits([1, 0, 0, 1]),
                bits([0, 0, 1, 1]),
                bits([0, 1, 0, 1]),
            ],
            Vector(vec![2, 4, 2, 3]),
        ),
        (
            VdafConfig::l1_bound_sum(3, 20),
            (0..7).map(|i| Measurement::L1BoundSum(vec![i, 2 * i, 2])).collect(),
            Vector(vec![21, 42, 14]),
        ),
    ]
}

#[test]
fn every_vdaf_in_time_interval_mode() {
    for (vdaf, measurements, expected) in cases() {
        run(&vdaf, BatchMode::TimeInterval, &measurements, &expected);
    }
}

#[test]
fn every_vdaf_in_leader_selected_mode() {
    for (vdaf, measurements, expected) in cases() {
        run(&vdaf, BatchMode::LeaderSelected, &measurements, &expected);
    }
}

#[test]
fn every_bucket_sums_its_own_reports() {
    let mut parties = Parties::new(&VdafConfig::histogram(7), BatchMode::TimeInterval);
    let reports: Vec<_> = (0..7u32)
        .zip(OFFSETS)
        .map(|(index, offset)| parties.report(&Measurement::Histogram(index), unit(offset)))
        .collect();
    let (leader, helper) = parties.aggregate(&reports);
    assert_eq!(assert_same_books(&leader.buckets, &helper.buckets), 7);
    for (bucket, ours) in &leader.buckets {
        let theirs = &helper.buckets[bucket];
        let result = parties.leader.task.vdaf().unshard(&ours.share, &theirs.share, ours.count);
        let inside = OFFSETS.map(|offset| i128::from(*bucket == Bucket::Time(unit(offset))));
        assert_eq!(result.unwrap().as_slice(), inside, "{bucket:?}");
        assert_eq!(i128::from(ours.count), inside.iter().sum());
        assert_eq!((ours.first, ours.last), (theirs.first, theirs.last));
        let Bucket::Time(time) = *bucket else { panic!("not a bucket of time") };
        assert_eq!((ours.first, ours.last), (time, time));
    }
}

#[test]
fn a_batch_knows_its_reports_and_their_times() {
    let mut parties = Parties::new(&VdafConfig::count(), BatchMode::LeaderSelected);
    let reports: Vec<_> = [-1, 3, -2, 0, -4, 1]
        .map(|offset| parties.report(&Measurement::Count(true), unit(offset)))
        .to_vec();
    let checksum = |reports: &[Vec<u8>]| {
        let mut checksum = ReportIdChecksum::default();
        for report in reports {
            checksum.add(&Report::from_bytes(report).unwrap().report_metadata.report_id);
        }
        checksum
    };
    let [mut first, second] = [&reports[..4], &reports[4..]].map(|job| {
        let (outcome, _) = parties.aggregate(job);
        outcome.buckets[&Bucket::Batch(BATCH)].clone()
    });
    assert_eq!((first.count, first.checksum), (4, checksum(&reports[..4])));
    assert_eq!((first.first, first.last), (unit(-2), unit(3)));
    assert_eq!((second.count, second.checksum), (2, checksum(&reports[4..])));
    assert_eq!((second.first, second.last), (unit(-4), unit(1)));
    first.merge(&second).unwrap();
    assert_eq!((first.count, first.checksum), (6, checksum(&reports)));
    assert_eq!((first.first, first.last), (unit(-4), unit(3)));
}

/// Timestamps out of order, over three buckets.
const OFFSETS: [i64; 7] = [-1, 0, -7, 0, -1, -7, 0];

fn run(
    vdaf: &VdafConfig,
    mode: BatchMode,
    measurements: &[Measurement],
    expected: &AggregateResult,
) {
    let mut parties = Parties::new(vdaf, mode);
    let reports: Vec<Vec<u8>> = measurements
        .iter()
        .zip(OFFSETS)
        .map(|(measurement, offset)| parties.report(measurement, unit(offset)))
        .collect();

    // Upload in one request.
    let body = reports.concat();
    let verdicts = consume_upload_req(&parties.leader, &parties.leader_keys, &body, NOW).unwrap();
    let stored: Vec<&[u8]> = verdicts.iter().map(|v| v.outcome.as_ref().unwrap().raw).collect();
    assert_eq!(stored, reports, "{vdaf:?}");
    assert_eq!(produce_upload_errors(None), None);

    // Aggregate in jobs of three.
    let (leader, helper) = aggregate(&parties, &stored);
    assert_eq!(assert_same_books(&leader, &helper), 7, "{vdaf:?}");
    assert_eq!(leader.len(), if mode == BatchMode::TimeInterval { 3 } else { 1 });

    // Collect.
    let (query, selector) = match mode {
        BatchMode::TimeInterval => {
            let whole = interval(-10, 20);
            (Query::TimeInterval(whole), BatchSelector::TimeInterval(whole))
        }
        BatchMode::LeaderSelected => (Query::LeaderSelected, BatchSelector::LeaderSelected(BATCH)),
    };
    let collected = collect(&mut parties, query, selector, &merged(leader), &merged(helper));
    assert_eq!(collected.report_count, 7);
    assert_eq!(collected.interval, interval(-7, 8), "the smallest that covers all timestamps");
    assert_eq!(&collected.result, expected, "{vdaf:?} {mode:?}");
}

fn aggregate(parties: &Parties, stored: &[&[u8]]) -> (BucketAggregates, BucketAggregates) {
    let task_id = *parties.leader.task.id();
    let records = stored.iter().map(|report| (task_id, *report));
    let limits = JobLimits { max_job_reports: 3, max_job_bytes: usize::MAX };
    let formed = form_jobs(records, |_| Some(&parties.leader), limits, NOW, &mut rng(1)).unwrap();
    assert!(formed.rejections.is_empty());
    assert_eq!(formed.jobs.iter().map(|job| job.reports.len()).collect::<Vec<_>>(), [3, 3, 1]);

    let (mut leader, mut helper) = (BTreeMap::new(), BTreeMap::new());
    for job in formed.jobs {
        let reports: Vec<_> = job.reports.iter().map(|report| stored[report.record]).collect();
        let input = JobInput { reports: &reports, now: job.now, batch_id: parties.batch_id() };
        let produced =
            produce_aggregation_job_init_req(&parties.leader, &parties.leader_keys, &input)
                .unwrap();
        let answer = parties.answer(&produced.request);
        let outcome = consume_aggregation_job_resp(produced, &answer.response).unwrap();
        assert_eq!(outcome.rejections.total(), 0);
        assert_eq!(answer.rejections.total(), 0);
        assert_eq!(answer.reports.len(), reports.len());
        add(&mut leader, outcome.buckets);
        add(&mut helper, answer.buckets);
    }
    (leader, helper)
}

fn add(sums: &mut BucketAggregates, buckets: BucketAggregates) {
    for (bucket, aggregate) in buckets {
        match sums.get_mut(&bucket) {
            Some(sum) => sum.merge(&aggregate).unwrap(),
            None => drop(sums.insert(bucket, aggregate)),
        }
    }
}

fn merged(buckets: BucketAggregates) -> BucketAggregate {
    buckets
        .into_values()
        .reduce(|mut sum, other| {
            sum.merge(&other).unwrap();
            sum
        })
        .unwrap()
}

fn collect(
    parties: &mut Parties,
    query: Query,
    selector: BatchSelector,
    leader: &BucketAggregate,
    helper: &BucketAggregate,
) -> collector::Collection {
    let task = &parties.leader.task;
    let request = collector::produce_collection_job_req(task, &query).unwrap();
    assert_eq!(consume_collection_job_req(&parties.leader, &request), Ok(query));
    let share_request =
        produce_aggregate_share_req(&parties.leader, &request, &selector, leader).unwrap();
    let parsed = helper::parse_aggregate_share_req(&parties.helper, &share_request, NOW).unwrap();
    assert_eq!(parsed.selector(), selector);
    let share = helper::consume_aggregate_share_req(
        &parties.helper,
        &parsed,
        Some(helper),
        false,
        &mut parties.rng,
    )
    .unwrap();
    let response = produce_collection_job_resp(
        &parties.leader,
        &request,
        &selector,
        leader,
        &share,
        &mut parties.rng,
    )
    .unwrap();
    let key = keypair(COLLECTOR_KEY);
    collector::consume_collection_job_resp(task, &key, &request, &response).unwrap()
}
