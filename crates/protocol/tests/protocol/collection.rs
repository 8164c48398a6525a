//! Collecting: what the leader, the helper and the collector reject.

use sotto_protocol::collector::{
    CollectorError, consume_collection_job_resp, produce_collection_job_req,
};
use sotto_protocol::helper::{consume_aggregate_share_req, parse_aggregate_share_req};
use sotto_protocol::leader::collect::{
    consume_collection_job_req, produce_aggregate_share_req, produce_collection_job_resp,
};
use sotto_protocol::{BucketAggregate, Failure};
use sotto_testing::aggregators::{BATCH, COLLECTOR_KEY, NOW, Parties, interval, parameters, unit};
use sotto_testing::keys::{keypair, rng};
use sotto_vdaf::{AggregateResult, VdafConfig};
use sotto_wire::{
    AggParam, AggregateShareReq, BatchId, BatchMode, BatchSelector, CollectionJobExtension,
    CollectionJobExtensions, CollectionJobReq, CollectionJobResp, Decode, Encode, ProblemType,
    Query, ReportId, TaskConfiguration,
};

fn extensions(types: &[u16]) -> CollectionJobExtensions {
    let list =
        types.iter().map(|t| CollectionJobExtension { extension_type: *t, data: vec![] }).collect();
    CollectionJobExtensions::new(list).unwrap()
}

fn timed_request() -> CollectionJobReq {
    CollectionJobReq::new(Query::TimeInterval(interval(-10, 20)))
}

#[test]
fn the_leader_refuses_illegal_collection_requests() {
    use ProblemType::{
        BatchInvalid, InvalidAggregationParameter, InvalidExtension, InvalidMessage,
        UnsupportedExtension,
    };
    let parties = Parties::count();
    let refuse = |body: &[u8]| {
        let abort = consume_collection_job_req(&parties.leader, body).unwrap_err();
        assert_eq!(abort.task_id, Some(*parties.leader.task.id()));
        abort.problem
    };
    let good = timed_request();
    assert!(consume_collection_job_req(&parties.leader, &good.to_bytes()).is_ok());

    let other_mode = CollectionJobReq::new(Query::LeaderSelected);
    assert_eq!(refuse(&other_mode.to_bytes()), InvalidMessage);
    let agg_param = CollectionJobReq { agg_param: AggParam::new(vec![1]).unwrap(), ..good.clone() };
    assert_eq!(refuse(&agg_param.to_bytes()), InvalidAggregationParameter);
    let empty = CollectionJobReq::new(Query::TimeInterval(interval(0, 0)));
    assert_eq!(refuse(&empty.to_bytes()), BatchInvalid);
    let unknown = CollectionJobReq { extensions: extensions(&[1]), ..good.clone() };
    assert_eq!(refuse(&unknown.to_bytes()), UnsupportedExtension);

    let bytes = good.to_bytes();
    assert_eq!(refuse(&bytes[..bytes.len() - 1]), InvalidMessage);
    assert_eq!(refuse(&[&bytes[..], &[0]].concat()), InvalidMessage);
    assert_eq!(refuse(b""), InvalidMessage);
    let mut unknown_mode = bytes.clone();
    unknown_mode[0] = 3;
    assert_eq!(refuse(&unknown_mode), InvalidMessage);
    let mut unsorted = bytes[..bytes.len() - 2].to_vec();
    unsorted.extend_from_slice(&[0, 8, 0, 2, 0, 0, 0, 1, 0, 0]);
    assert_eq!(refuse(&unsorted), InvalidExtension);
}

/// A batch of `count` reports, as both aggregators hold it.
fn batch(parties: &mut Parties, count: usize) -> (BucketAggregate, BucketAggregate) {
    let reports = parties.reports(count);
    let (leader, helper) = parties.aggregate(&reports);
    let only = |buckets: sotto_protocol::BucketAggregates| buckets.into_values().next().unwrap();
    (only(leader.buckets), only(helper.buckets))
}

fn share_request(parties: &Parties, leader: &BucketAggregate) -> AggregateShareReq {
    let (request, selector) = match parties.mode() {
        BatchMode::TimeInterval => {
            (timed_request(), BatchSelector::TimeInterval(interval(-10, 20)))
        }
        BatchMode::LeaderSelected => {
            (CollectionJobReq::new(Query::LeaderSelected), BatchSelector::LeaderSelected(BATCH))
        }
    };
    let bytes =
        produce_aggregate_share_req(&parties.leader, &request.to_bytes(), &selector, leader)
            .unwrap();
    AggregateShareReq::from_bytes(&bytes).unwrap()
}

/// The problem with which the helper rejects a request, or `None`.
fn refusal(
    parties: &Parties,
    request: &AggregateShareReq,
    batch: Option<&BucketAggregate>,
    collected: bool,
) -> Option<ProblemType> {
    let parsed = match parse_aggregate_share_req(&parties.helper, &request.to_bytes(), NOW) {
        Ok(parsed) => parsed,
        Err(abort) => {
            assert_eq!(abort.task_id, Some(*parties.helper.task.id()));
            return Some(abort.problem);
        }
    };
    assert_eq!(parsed.report_count(), request.report_count);
    assert_eq!(parsed.checksum(), request.checksum);
    match consume_aggregate_share_req(&parties.helper, &parsed, batch, collected, &mut rng(8)) {
        Ok(_) => None,
        Err(Failure::Abort(abort)) => Some(abort.problem),
        Err(Failure::Fault(fault)) => panic!("{fault}"),
    }
}

#[test]
fn the_helper_refuses_illegal_share_requests() {
    use ProblemType::{
        BatchInvalid, BatchMismatch, BatchOverlap, InvalidAggregationParameter, InvalidBatchSize,
        InvalidMessage, UnsupportedExtension,
    };
    let mut parties = Parties::count();
    let (leader, helper) = batch(&mut parties, 3);
    let good = share_request(&parties, &leader);
    let refuse = |request: &AggregateShareReq| refusal(&parties, request, Some(&helper), false);
    assert_eq!(refuse(&good), None);

    let selected = BatchSelector::LeaderSelected(BatchId::new([1; 32]));
    let request = AggregateShareReq { batch_selector: selected, ..good.clone() };
    assert_eq!(refuse(&request), Some(InvalidMessage), "another batch mode");
    let collection_job_req = CollectionJobReq::new(Query::LeaderSelected);
    let request = AggregateShareReq { collection_job_req, ..good.clone() };
    assert_eq!(refuse(&request), Some(InvalidMessage), "a query of another batch mode");
    for (start, units) in [(-11, 20), (-10, 21), (0, 0)] {
        let batch_selector = BatchSelector::TimeInterval(interval(start, units));
        let request = AggregateShareReq { batch_selector, ..good.clone() };
        assert_eq!(refuse(&request), Some(BatchInvalid), "{start} {units}");
    }
    let collection_job_req =
        CollectionJobReq { agg_param: AggParam::new(vec![1]).unwrap(), ..timed_request() };
    let request = AggregateShareReq { collection_job_req, ..good.clone() };
    assert_eq!(refuse(&request), Some(InvalidAggregationParameter));
    let collection_job_req = CollectionJobReq { extensions: extensions(&[9]), ..timed_request() };
    let request = AggregateShareReq { collection_job_req, ..good.clone() };
    assert_eq!(refuse(&request), Some(UnsupportedExtension));
    let request = AggregateShareReq { report_count: 4, ..good.clone() };
    assert_eq!(refuse(&request), Some(BatchMismatch), "count");
    let mut request = good.clone();
    request.checksum.add(&ReportId::new([0; 16]));
    assert_eq!(refuse(&request), Some(BatchMismatch), "checksum");

    assert_eq!(refusal(&parties, &good, Some(&helper), true), Some(BatchOverlap));
    assert_eq!(refusal(&parties, &good, None, false), Some(InvalidBatchSize));
    // `collected` comes first: its shares are deleted, so the batch is empty too.
    assert_eq!(refusal(&parties, &good, None, true), Some(BatchOverlap));
    let body = good.to_bytes();
    for body in [&body[..body.len() - 1], &[&body[..], &[0]].concat()] {
        let abort = parse_aggregate_share_req(&parties.helper, body, NOW).unwrap_err();
        assert_eq!(abort.problem, InvalidMessage);
    }
}

/// Below the minimum nothing that depends on the count leaves: the answer is the same for a right
/// and a wrong guess.
#[test]
fn the_helper_enforces_the_minimum_by_its_own_count() {
    for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
        let mut parties = Parties::new(&VdafConfig::count(), mode);
        let (leader, _) = batch(&mut parties, 3);
        let (_, small) = batch(&mut parties, 2);
        let mut request = share_request(&parties, &leader);
        for (report_count, checksum) in [(2, small.checksum), (3, leader.checksum)] {
            request.report_count = report_count;
            request.checksum = checksum;
            let refused = refusal(&parties, &request, Some(&small), false);
            assert_eq!(refused, Some(ProblemType::InvalidBatchSize));
        }
    }
}

#[test]
fn the_leader_speaks_of_no_batch_below_the_minimum() {
    let mut parties = Parties::count();
    let (small, helper) = batch(&mut parties, 2);
    let request = timed_request().to_bytes();
    let selector = BatchSelector::TimeInterval(interval(-10, 20));
    assert!(produce_aggregate_share_req(&parties.leader, &request, &selector, &small).is_err());
    let share = helper.share.encode();
    let response = produce_collection_job_resp(
        &parties.leader,
        &request,
        &selector,
        &small,
        &share,
        &mut rng(1),
    );
    assert!(response.is_err());
}

#[test]
fn the_leader_does_not_pass_on_what_is_no_share_or_reports_from_elsewhere() {
    let mut parties = Parties::count();
    let (leader, helper) = batch(&mut parties, 3);
    let request = timed_request().to_bytes();
    let body = share_request(&parties, &leader).to_bytes();
    let parsed = parse_aggregate_share_req(&parties.helper, &body, NOW).unwrap();
    let share =
        consume_aggregate_share_req(&parties.helper, &parsed, Some(&helper), false, &mut rng(8))
            .unwrap();
    let respond = |selector: (i64, u64), share: &[u8]| {
        let selector = BatchSelector::TimeInterval(interval(selector.0, selector.1));
        let rng = &mut rng(1);
        produce_collection_job_resp(&parties.leader, &request, &selector, &leader, share, rng)
    };
    assert!(respond((-10, 20), &share).is_ok());
    assert!(respond((-10, 20), &share[1..]).is_err());
    assert!(respond((-10, 20), &[&share[..], &[0]].concat()).is_err());
    assert!(respond((1, 5), &share).is_err(), "the reports are not in this interval");
}

/// A finished collection: the collector's request and the leader's response.
fn collected(parties: &mut Parties) -> (Vec<u8>, Vec<u8>) {
    let (leader, helper) = batch(parties, 3);
    let share_request = share_request(parties, &leader);
    let request = share_request.collection_job_req.to_bytes();
    let parsed =
        parse_aggregate_share_req(&parties.helper, &share_request.to_bytes(), NOW).unwrap();
    let share =
        consume_aggregate_share_req(&parties.helper, &parsed, Some(&helper), false, &mut rng(8))
            .unwrap();
    let response = produce_collection_job_resp(
        &parties.leader,
        &request,
        &parsed.selector(),
        &leader,
        &share,
        &mut rng(9),
    )
    .unwrap();
    (request, response)
}

#[test]
fn the_collector_refuses_what_an_honest_leader_does_not_send() {
    let mut parties = Parties::count();
    let (request, response) = collected(&mut parties);
    let key = keypair(COLLECTOR_KEY);
    let task = &parties.leader.task;
    let collection = consume_collection_job_resp(task, &key, &request, &response).unwrap();
    assert_eq!((collection.report_count, collection.interval), (3, interval(0, 1)));
    assert_eq!(collection.result, AggregateResult::Scalar(3));

    let consume = |alter: &dyn Fn(&mut CollectionJobResp<'_>)| {
        let mut altered = CollectionJobResp::from_bytes(&response).unwrap();
        alter(&mut altered);
        consume_collection_job_resp(task, &key, &request, &altered.to_bytes()).unwrap_err()
    };
    assert!(matches!(
        consume(&|r| r.report_count = 2),
        CollectorError::BatchTooSmall { report_count: 2, minimum: 3 }
    ));
    let outside = consume(&|r| r.interval = interval(-11, 1));
    assert!(matches!(outside, CollectorError::OutsideQuery));
    let swapped = consume(&|r| {
        std::mem::swap(&mut r.leader_encrypted_agg_share, &mut r.helper_encrypted_agg_share);
    });
    assert!(matches!(swapped, CollectorError::Hpke { .. }), "shares are bound to their senders");

    let other_request = CollectionJobReq::new(Query::TimeInterval(interval(-10, 21))).to_bytes();
    let other_key = keypair(99);
    for (key, request, response) in [
        (&other_key, &request[..], &response[..]),
        (&key, &other_request, &response),
        (&key, &request, &response[..response.len() - 1]),
    ] {
        assert!(consume_collection_job_resp(task, key, request, response).is_err());
    }
}

/// The minimum batch size is in the AAD: a collector that was told another one cannot open the
/// shares.
#[test]
fn shares_are_bound_to_the_task_configuration() {
    let mut parties = Parties::count();
    let (request, response) = collected(&mut parties);
    let mut other = parameters(&VdafConfig::count(), BatchMode::TimeInterval);
    other.min_batch_size = 2;
    let other = sotto_protocol::Task::new(
        *parties.leader.task.id(),
        TaskConfiguration::new(other).unwrap(),
    )
    .unwrap();
    let error = consume_collection_job_resp(&other, &keypair(COLLECTOR_KEY), &request, &response)
        .unwrap_err();
    assert!(matches!(error, CollectorError::Hpke { .. }));
    assert_eq!(error.to_string(), "the leader's share: the HPKE ciphertext does not open");
}

#[test]
fn the_collector_asks_only_for_batches_of_its_task() {
    let parties = Parties::count();
    let task = &parties.leader.task;
    let ask = |query| produce_collection_job_req(task, &query);
    assert!(matches!(ask(Query::LeaderSelected), Err(CollectorError::BatchMode)));
    let empty = Query::TimeInterval(interval(0, 0));
    assert!(matches!(ask(empty), Err(CollectorError::EmptyInterval)));
    let query = Query::TimeInterval(interval(0, 1));
    assert_eq!(ask(query).unwrap(), CollectionJobReq::new(query).to_bytes());
    assert_eq!(unit(0), interval(0, 1).start());
}
