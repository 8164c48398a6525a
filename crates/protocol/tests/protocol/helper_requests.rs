//! Requests that the helper rejects as a whole.

use sotto_protocol::helper::{
    consume_aggregation_job_continue_req, consume_aggregation_job_init_req,
    parse_aggregation_job_init_req,
};
use sotto_protocol::leader::aggregate::consume_aggregation_job_resp;
use sotto_protocol::{Rejection, Rejections};
use sotto_testing::aggregators::{BATCH, NOW, Parties, unit};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{
    AggParam, AggregationJobContinueReq, AggregationJobExtension, AggregationJobExtensions,
    AggregationJobInitReq, AggregationJobResp, BatchMode, Decode, Encode, Payload, ProblemType,
    ReportError, ReportId, VerifyContinue, VerifyRespKind,
};

fn leader_selected() -> Parties {
    Parties::new(&VdafConfig::count(), BatchMode::LeaderSelected)
}

fn unknown_extension() -> AggregationJobExtension {
    AggregationJobExtension::Unknown { extension_type: 2, data: vec![1] }
}

type Alter = fn(&mut AggregationJobInitReq<'_>);

#[test]
fn each_reason_to_refuse_a_request() {
    use ProblemType::{InvalidAggregationParameter, InvalidMessage, UnsupportedExtension};
    let cases: [(&str, BatchMode, Alter, ProblemType); 7] = [
        (
            "unknown extension",
            BatchMode::TimeInterval,
            |r| set_extensions(r, vec![unknown_extension()]),
            UnsupportedExtension,
        ),
        (
            "unknown extension beside the batch id",
            BatchMode::LeaderSelected,
            |r| {
                let batch = AggregationJobExtension::LeaderSelectedBatchId(BATCH);
                set_extensions(r, vec![batch, unknown_extension()]);
            },
            UnsupportedExtension,
        ),
        (
            "batch id in a time-interval task",
            BatchMode::TimeInterval,
            |r| set_extensions(r, vec![AggregationJobExtension::LeaderSelectedBatchId(BATCH)]),
            InvalidMessage,
        ),
        (
            "no batch id in a leader-selected task",
            BatchMode::LeaderSelected,
            |r| set_extensions(r, vec![]),
            InvalidMessage,
        ),
        (
            "aggregation parameter",
            BatchMode::TimeInterval,
            |r| r.agg_param = AggParam::new(vec![0]).unwrap(),
            InvalidAggregationParameter,
        ),
        (
            "an id twice",
            BatchMode::LeaderSelected,
            |r| r.verify_inits.push(r.verify_inits[0].clone()),
            InvalidMessage,
        ),
        (
            "an id twice, with two timestamps",
            BatchMode::TimeInterval,
            |r| {
                let mut again = r.verify_inits[0].clone();
                again.report_share.report_metadata.time = unit(-1);
                r.verify_inits.push(again);
            },
            InvalidMessage,
        ),
    ];
    for (name, mode, alter, problem) in cases {
        let mut parties = Parties::new(&VdafConfig::count(), mode);
        let job = parties.job(2);
        let mut request = AggregationJobInitReq::from_bytes(&job.request).unwrap();
        assert!(parse_aggregation_job_init_req(&parties.helper, &job.request).is_ok(), "{name}");
        alter(&mut request);
        let abort =
            parse_aggregation_job_init_req(&parties.helper, &request.to_bytes()).unwrap_err();
        assert_eq!(abort.problem, problem, "{name}: {abort}");
        assert_eq!(abort.task_id, Some(*parties.helper.task.id()), "{name}");
    }
}

fn set_extensions(request: &mut AggregationJobInitReq<'_>, list: Vec<AggregationJobExtension>) {
    request.extensions = AggregationJobExtensions::new(list).unwrap();
}

#[test]
fn bytes_too_few_too_many_or_out_of_order_are_refused() {
    let mut parties = leader_selected();
    let job = parties.job(1);
    let request = job.request;
    // The header: key id, aggregation parameter, list of one extension of 32 bytes.
    assert_eq!(request[..11], [0, 0, 0, 0, 0, 0, 36, 0, 1, 0, 32]);
    let mut unsorted = request[..7].to_vec();
    unsorted[6] = 72;
    unsorted.extend_from_slice(&request[7..43]);
    unsorted.extend_from_slice(&request[7..]);
    for body in [
        &request[..request.len() - 1],
        &[&request[..], &[0]].concat(),
        &request[..5],
        b"",
        &unsorted,
    ] {
        let abort = parse_aggregation_job_init_req(&parties.helper, body).unwrap_err();
        assert_eq!(abort.problem, ProblemType::InvalidMessage, "{abort}");
    }
}

#[test]
fn accumulators_of_one_job_are_bounded() {
    // 262,144 elements of 16 bytes are 4 MiB per bucket: sixteen buckets fit, seventeen do not.
    let vdaf = VdafConfig::histogram(1 << 18);
    let parties = Parties::new(&vdaf, BatchMode::TimeInterval);
    let mut small = Parties::count();
    for (buckets, fits) in [(16, true), (17, false)] {
        let reports: Vec<_> =
            (0..buckets).map(|i| small.report(&Measurement::Count(true), unit(-i))).collect();
        // The request of another task: the check comes before any report is examined.
        let request = small.produce(&reports).request;
        let parsed = parse_aggregation_job_init_req(&parties.helper, &request);
        assert_eq!(parsed.is_ok(), fits, "{buckets}");
    }
}

#[test]
fn continuations_are_refused() {
    let parties = Parties::count();
    let refuse = |body: &[u8], known| {
        consume_aggregation_job_continue_req(&parties.helper, body, known).problem
    };
    let request = |step| {
        let payload = Payload::new(vec![1]).unwrap();
        let verify_continue = VerifyContinue { report_id: ReportId::new([1; 16]), payload };
        AggregationJobContinueReq { step, verify_continues: vec![verify_continue] }.to_bytes()
    };
    assert_eq!(refuse(&request(1), false), ProblemType::UnrecognizedAggregationJob);
    assert_eq!(refuse(&request(0), true), ProblemType::InvalidMessage);
    assert_eq!(refuse(&request(1), true), ProblemType::StepMismatch);
    assert_eq!(refuse(&request(2), true), ProblemType::StepMismatch);
    assert_eq!(refuse(&request(1)[..5], true), ProblemType::InvalidMessage);
}

/// The leader may have another key: it learns for each report that the key is not known, and
/// nothing is spent.
#[test]
fn an_unknown_verification_key_rejects_every_report_and_not_the_request() {
    for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
        let mut parties = Parties::new(&VdafConfig::count(), mode);
        let reports = parties.reports(3);
        let job = parties.produce(&reports);
        let mut request = AggregationJobInitReq::from_bytes(&job.request).unwrap();
        request.verification_key_id = 1;
        let bytes = request.to_bytes();
        let helper = parties.answer(&bytes);
        assert!(helper.reports.is_empty() && helper.buckets.is_empty());
        let mut expected = Rejections::default();
        expected.add_many(Rejection::UnknownVerificationKeyId, 3);
        assert_eq!(helper.rejections, expected);
        let error = ReportError::UnknownVerificationKeyId;
        let resp = AggregationJobResp::from_bytes(&helper.response).unwrap();
        assert!(resp.verify_resps.iter().all(|resp| resp.kind == VerifyRespKind::Reject(error)));
        assert_eq!(error.value(), 12);
        // Even for a spent report the answer is about the key: its verdict must not depend on ids.
        let parsed = parse_aggregation_job_init_req(&parties.helper, &bytes).unwrap();
        let spent = [Some(Rejection::ReportReplayed); 3];
        let keys = &parties.helper_keys;
        let again =
            consume_aggregation_job_init_req(&parties.helper, keys, parsed, &spent, NOW).unwrap();
        assert_eq!(again.response, helper.response);
        // The leader counts them under this reason, and retries none.
        let outcome = consume_aggregation_job_resp(job, &helper.response).unwrap();
        assert_eq!(outcome.rejections, expected);
        assert!(outcome.buckets.is_empty() && outcome.requeue.is_empty());
        // The same reports under the known key are counted.
        assert_eq!(parties.aggregate(&reports).1.reports.len(), 3);
    }
}
