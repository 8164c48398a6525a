//! Answers of the helper that the leader does not count.

use sotto_protocol::leader::aggregate::consume_aggregation_job_resp;
use sotto_protocol::{BadResponse, Rejection, Rejections};
use sotto_testing::aggregators::{Parties, assert_same_books, unit};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{
    AggregationJobResp, BatchMode, Decode, Encode, Payload, ReportError, ReportId, VerifyRespKind,
};

/// Three reports of a VDAF with joint randomness, so that the helper's message carries information.
fn three_reports() -> (Parties, Vec<Vec<u8>>) {
    let mut parties = Parties::new(&VdafConfig::histogram(4), BatchMode::TimeInterval);
    let reports = (0..3).map(|i| parties.report(&Measurement::Histogram(i), unit(0))).collect();
    (parties, reports)
}

type Alter = fn(&mut AggregationJobResp<'_>);

#[test]
fn an_answer_about_other_reports_counts_nothing() {
    let cases: [(&str, Alter); 6] = [
        ("swapped", |r| r.verify_resps.swap(0, 1)),
        ("first missing", |r| drop(r.verify_resps.remove(0))),
        ("last missing", |r| drop(r.verify_resps.pop())),
        ("one twice", |r| r.verify_resps.push(r.verify_resps[2].clone())),
        ("another id", |r| r.verify_resps[1].report_id = ReportId::new([0; 16])),
        ("none", |r| r.verify_resps.clear()),
    ];
    for (name, alter) in cases {
        assert_eq!(altered(alter), Err(BadResponse::OtherReports), "{name}");
    }
}

#[test]
fn an_answer_that_does_not_finish_counts_nothing() {
    assert_eq!(altered(|_| {}), Ok(3));
    let finish: Alter = |r| r.verify_resps[2].kind = VerifyRespKind::Finish;
    assert_eq!(altered(finish), Err(BadResponse::Finished));
    let messages: [Alter; 3] = [
        |r| set_message(r, |message| message[5] ^= 1),
        |r| set_message(r, |message| message.truncate(4)),
        |r| set_message(r, |message| message.push(0)),
    ];
    for alter in messages {
        assert!(matches!(altered(alter), Err(BadResponse::Verify(_))));
    }
}

fn set_message(response: &mut AggregationJobResp<'_>, alter: fn(&mut Vec<u8>)) {
    let VerifyRespKind::Continue(payload) = response.verify_resps[1].kind.clone() else {
        panic!("not accepted");
    };
    let mut message = payload.into_vec();
    alter(&mut message);
    response.verify_resps[1].kind = VerifyRespKind::Continue(Payload::new(message).unwrap());
}

/// How many reports the leader counts after the helper's answer was altered.
fn altered(alter: Alter) -> Result<u64, BadResponse> {
    let (parties, reports) = three_reports();
    let job = parties.produce(&reports);
    let response = parties.answer(&job.request).response;
    let mut response = AggregationJobResp::from_bytes(&response).unwrap();
    alter(&mut response);
    let outcome = consume_aggregation_job_resp(job, &response.to_bytes())?;
    Ok(outcome.buckets.values().map(|aggregate| aggregate.count).sum())
}

#[test]
fn an_answer_that_does_not_decode_counts_nothing() {
    let (parties, reports) = three_reports();
    let response = parties.answer(&parties.produce(&reports).request).response;
    for bytes in [&response[..response.len() - 1], &[&response[..], &[0]].concat()] {
        let result = consume_aggregation_job_resp(parties.produce(&reports), bytes);
        assert!(matches!(result, Err(BadResponse::Malformed(_))));
    }
}

#[test]
fn the_helpers_verdict_stands() {
    let errors = [
        (ReportError::BatchCollected, Rejection::BatchCollected),
        (ReportError::ReportReplayed, Rejection::ReportReplayed),
        (ReportError::HpkeUnknownConfigId, Rejection::HpkeDecryptError),
        (ReportError::Reserved, Rejection::ReportDropped),
        (ReportError::VdafVerifyError, Rejection::VdafVerifyError),
        (ReportError::UnknownVerificationKeyId, Rejection::UnknownVerificationKeyId),
    ];
    for (error, reason) in errors {
        let (parties, reports) = three_reports();
        let job = parties.produce(&reports);
        let helper = parties.answer(&job.request);
        let mut response = AggregationJobResp::from_bytes(&helper.response).unwrap();
        response.verify_resps[1].kind = VerifyRespKind::Reject(error);
        let outcome = consume_aggregation_job_resp(job, &response.to_bytes()).unwrap();
        let mut rejections = Rejections::default();
        rejections.add(reason);
        assert_eq!(outcome.rejections, rejections);
        assert!(outcome.requeue.is_empty());

        // The result is what the other two alone give.
        let (two, _) = parties.aggregate(&[reports[0].clone(), reports[2].clone()]);
        assert_eq!(assert_same_books(&outcome.buckets, &two.buckets), 2);
        for (ours, alone) in outcome.buckets.values().zip(two.buckets.values()) {
            assert_eq!(ours.share, alone.share);
        }
    }
}

#[test]
fn too_early_at_the_helper_is_tried_again() {
    let (parties, reports) = three_reports();
    let job = parties.produce(&reports);
    let helper = parties.answer(&job.request);
    let mut response = AggregationJobResp::from_bytes(&helper.response).unwrap();
    for index in [0, 2] {
        response.verify_resps[index].kind = VerifyRespKind::Reject(ReportError::ReportTooEarly);
    }
    let outcome = consume_aggregation_job_resp(job, &response.to_bytes()).unwrap();
    assert_eq!(outcome.requeue, [0, 2]);
    assert_eq!(outcome.rejections.total(), 0);
    assert_eq!(outcome.buckets.values().map(|a| a.count).sum::<u64>(), 1);
}
