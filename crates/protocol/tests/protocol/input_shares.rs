//! Each reason for which an aggregator rejects its share of a report, at the leader and at the
//! helper.

use std::sync::Arc;

use sotto_protocol::leader::aggregate::{
    JobInput, consume_aggregation_job_resp, produce_aggregation_job_init_req,
};
use sotto_protocol::token::{TokenRefusal, VerifyToken};
use sotto_protocol::{Moment, Rejection, Rejections};
use sotto_testing::aggregators::{
    Craft, NOW, PRECISION_S, Parties, assert_same_books, corrupted, extension_types, under_key,
    unit,
};
use sotto_testing::keys::keyring;
use sotto_vdaf::Measurement;
use sotto_wire::token::TOKEN_EXTENSION;
use sotto_wire::{
    AggregationJobInitReq, AggregationJobResp, Decode, Encode, PublicShare, Report, ReportError,
    ReportId, ReportShare, VerifyInit, VerifyRespKind,
};

/// Whose share is spoiled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Leader,
    Helper,
    Both,
}

struct Case {
    name: &'static str,
    at: At,
    before: fn(&mut Craft),
    after: fn(&mut Report<'static>),
    reason: Rejection,
}

fn before(name: &'static str, at: At, before: fn(&mut Craft), reason: Rejection) -> Case {
    Case { name, at, before, after: |_| {}, reason }
}

fn after(name: &'static str, at: At, after: fn(&mut Report<'static>), reason: Rejection) -> Case {
    Case { name, at, before: |_| {}, after, reason }
}

fn cases() -> Vec<Case> {
    use At::{Both, Helper, Leader};
    use Rejection::{
        HpkeDecryptError, InvalidMessage, ReportTooEarly, TaskExpired, TaskNotStarted,
        VdafVerifyError,
    };
    let corrupt_leader: fn(&mut Report<'static>) =
        |r| r.leader_encrypted_input_share = corrupted(&r.leader_encrypted_input_share);
    let corrupt_helper: fn(&mut Report<'static>) =
        |r| r.helper_encrypted_input_share = corrupted(&r.helper_encrypted_input_share);
    let unknown_key: fn(&mut Report<'static>) =
        |r| r.helper_encrypted_input_share = under_key(&r.helper_encrypted_input_share, 9);
    vec![
        after("corrupted", Leader, corrupt_leader, HpkeDecryptError),
        after("corrupted", Helper, corrupt_helper, HpkeDecryptError),
        after("unknown key id", Helper, unknown_key, HpkeDecryptError),
        after("moved in time", Both, |r| r.report_metadata.time = unit(-1), HpkeDecryptError),
        after(
            "another public share",
            Both,
            |r| r.public_share = PublicShare::new(vec![1]).unwrap(),
            HpkeDecryptError,
        ),
        before("too early", Both, |c| c.time = unit(4), ReportTooEarly),
        before("before the task", Both, |c| c.time = unit(-6), TaskNotStarted),
        before("after the task", Both, |c| c.time = unit(5), TaskExpired),
        before("trailing byte", Leader, |c| c.leader_trailing = vec![0], InvalidMessage),
        before("trailing byte", Helper, |c| c.helper_trailing = vec![0], InvalidMessage),
        before("short share", Leader, |c| c.leader_share.truncate(1), InvalidMessage),
        before("short share", Helper, |c| c.helper_share.truncate(1), InvalidMessage),
        before("long share", Leader, |c| c.leader_share.push(0), InvalidMessage),
        before("long share", Helper, |c| c.helper_share.push(0), InvalidMessage),
        before("empty share", Helper, |c| c.helper_share.clear(), InvalidMessage),
        before("long public share", Both, |c| c.public_share.push(0), InvalidMessage),
        before(
            "public extension",
            Both,
            |c| c.public_extensions = extension_types(&[1]),
            InvalidMessage,
        ),
        before(
            "private extension",
            Leader,
            |c| c.leader_extensions = extension_types(&[1]),
            InvalidMessage,
        ),
        before(
            "private extension",
            Helper,
            |c| c.helper_extensions = extension_types(&[1]),
            InvalidMessage,
        ),
        before(
            "private extension twice",
            Helper,
            |c| c.helper_extensions = extension_types(&[1, 1]),
            InvalidMessage,
        ),
        before(
            "unsorted private extensions",
            Leader,
            |c| c.leader_extensions = extension_types(&[2, 1]),
            InvalidMessage,
        ),
        before(
            "one extension in both lists",
            Both,
            |c| {
                c.public_extensions = extension_types(&[1]);
                c.leader_extensions = extension_types(&[1]);
                c.helper_extensions = extension_types(&[1]);
            },
            InvalidMessage,
        ),
        before("invalid measurement", Helper, |c| c.helper_share[0] ^= 1, VdafVerifyError),
        before(
            "element outside the field",
            Leader,
            |c| c.leader_share[..8].fill(0xff),
            VdafVerifyError,
        ),
    ]
}

/// Long after the task's interval, so that its end is not also in the future.
const LATER: Moment = Moment(NOW.0 + 100 * PRECISION_S);

impl Case {
    fn now(&self) -> Moment {
        if self.reason == Rejection::TaskExpired { LATER } else { NOW }
    }

    fn report(&self, parties: &mut Parties) -> Report<'static> {
        let craft = Craft::new(parties, &Measurement::Count(true));
        self.spoil(craft, parties)
    }

    fn spoil(&self, mut craft: Craft, parties: &mut Parties) -> Report<'static> {
        (self.before)(&mut craft);
        let mut report = craft.seal(parties);
        (self.after)(&mut report);
        report
    }
}

#[test]
fn each_reason_at_the_leader() {
    for case in cases().into_iter().filter(|case| case.at != At::Helper) {
        let mut parties = Parties::count_in_interval();
        let good = parties.reports(1).remove(0);
        let report = case.report(&mut parties);
        let job = parties.produce_at(&[report.to_bytes(), good], case.now());
        assert_eq!(job.rejected(), [(0, case.reason)], "{}", case.name);
        assert_eq!(job.sent().collect::<Vec<_>>(), [1], "{}", case.name);
        let helper = parties.answer(&job.request);
        let outcome = consume_aggregation_job_resp(job, &helper.response).unwrap();
        assert_eq!(assert_same_books(&outcome.buckets, &helper.buckets), 1, "{}", case.name);

        let mut rejections = Rejections::default();
        if case.reason == Rejection::ReportTooEarly {
            assert_eq!(outcome.requeue, [0], "{}", case.name);
        } else {
            rejections.add(case.reason);
            assert!(outcome.requeue.is_empty(), "{}", case.name);
        }
        assert_eq!(outcome.rejections, rejections, "{}", case.name);
        assert!(outcome.unspent.is_empty(), "{}", case.name);
    }
}

/// Accepts the bytes of an id as a token for the report with that id.
#[derive(Debug)]
struct IdsForTokens;

impl VerifyToken for IdsForTokens {
    fn verify(&self, token: &[u8], _: Moment) -> Result<ReportId, TokenRefusal> {
        token.try_into().map(ReportId::new).map_err(|_| TokenRefusal::Malformed)
    }
}

/// A report whose leader's share holds a valid token.
fn with_token(parties: &mut Parties) -> Craft {
    let mut craft = Craft::new(parties, &Measurement::Count(true));
    let token = craft.report_id.as_bytes();
    let len = u16::try_from(token.len()).unwrap();
    craft.leader_extensions =
        [&TOKEN_EXTENSION.to_be_bytes()[..], &len.to_be_bytes(), token].concat();
    craft
}

/// A report that is rejected before its token was found valid has spent nothing. A report that the
/// VDAF or the helper rejects after that has spent it, and a report that is too early is to be
/// retried.
#[test]
fn what_the_leader_refuses_before_a_good_token_is_unspent() {
    let missing = Rejection::TokenMissing;
    let no_token = before("no token", At::Leader, |c| c.leader_extensions.clear(), missing);
    for case in cases().into_iter().chain([no_token]) {
        let mut parties = Parties::count_in_interval();
        parties.leader.tokens = Some(Arc::new(IdsForTokens));
        let good = with_token(&mut parties).seal(&mut parties).to_bytes();
        let craft = with_token(&mut parties);
        let report = case.spoil(craft, &mut parties);
        let job = parties.produce_at(&[good, report.to_bytes()], case.now());
        let rejected = if case.at == At::Helper { vec![] } else { vec![(1, case.reason)] };
        assert_eq!(job.rejected(), rejected, "{}", case.name);
        let helper = parties.answer_at(&job.request, case.now());
        let outcome = consume_aggregation_job_resp(job, &helper.response).unwrap();
        let is_unspent = case.at != At::Helper
            && ![Rejection::VdafVerifyError, Rejection::ReportTooEarly].contains(&case.reason);
        let unspent = if is_unspent { vec![1] } else { vec![] };
        assert_eq!(outcome.unspent, unspent, "{}", case.name);
        assert_eq!(assert_same_books(&outcome.buckets, &helper.buckets), 1, "{}", case.name);
    }
}

/// Includes what an honest leader would not have sent: the helper relies on nobody.
#[test]
fn each_reason_at_the_helper() {
    for case in cases().into_iter().filter(|case| case.at != At::Leader) {
        let mut parties = Parties::count_in_interval();
        let good = parties.job(1).request;
        let mut request = AggregationJobInitReq::from_bytes(&good).unwrap();
        let Report { report_metadata, public_share, helper_encrypted_input_share, .. } =
            case.report(&mut parties);
        let report_share = ReportShare {
            report_metadata,
            public_share,
            encrypted_input_share: helper_encrypted_input_share,
        };
        // The leader's message from another report: only the VDAF examines it.
        let payload = request.verify_inits[0].payload.clone();
        request.verify_inits.push(VerifyInit { report_share, payload });

        let helper = parties.answer_at(&request.to_bytes(), case.now());
        let mut rejections = Rejections::default();
        rejections.add(case.reason);
        assert_eq!(helper.rejections, rejections, "{}", case.name);
        let answers = answer_kinds(&helper.response);
        assert_eq!(answers, [None, Some(case.reason.into())], "{}", case.name);
        assert_eq!(helper.reports.len(), 1, "{}", case.name);
        assert_eq!(helper.buckets.values().map(|a| a.count).sum::<u64>(), 1, "{}", case.name);
    }
}

#[test]
fn what_only_the_helper_refuses_is_dropped_by_both() {
    for case in cases().into_iter().filter(|case| case.at == At::Helper) {
        let mut parties = Parties::count_in_interval();
        let good = parties.reports(1).remove(0);
        let report = case.report(&mut parties).to_bytes();
        let (leader, helper) = parties.aggregate(&[good, report]);
        assert_eq!(assert_same_books(&leader.buckets, &helper.buckets), 1, "{}", case.name);
        assert_eq!(leader.rejections, helper.rejections, "{}", case.name);
        assert_eq!(leader.rejections.iter().collect::<Vec<_>>(), [(case.reason, 1)]);
    }
}

/// What the leader would reject itself, at a helper whose leader does not: another clock, another
/// key.
#[test]
fn the_helper_judges_by_its_own_clock_and_keys() {
    let mut parties = Parties::count_in_interval();
    let mut craft = Craft::new(&mut parties, &Measurement::Count(true));
    craft.time = unit(4);
    let early = craft.seal(&mut parties).to_bytes();
    let job = parties.produce_at(&[early], LATER);
    assert!(job.rejected().is_empty());
    let helper = parties.answer(&job.request);
    assert_eq!(answer_kinds(&helper.response), [Some(ReportError::ReportTooEarly)]);
    assert!(helper.buckets.is_empty());
    let outcome = consume_aggregation_job_resp(job, &helper.response).unwrap();
    assert_eq!(outcome.requeue, [0], "too early is the one reason to try again");
    assert_eq!(outcome.rejections.total(), 0);

    let report = parties.reports(1);
    let job = parties.produce(&report);
    parties.helper_keys = keyring(&[7, 8]);
    let helper = parties.answer(&job.request);
    assert_eq!(answer_kinds(&helper.response), [Some(ReportError::HpkeDecryptError)]);
}

#[test]
fn what_the_store_refuses_is_not_opened() {
    let mut parties = Parties::count();
    let job = parties.job(3);
    let parsed =
        sotto_protocol::helper::parse_aggregation_job_init_req(&parties.helper, &job.request)
            .unwrap();
    let spent = [Some(Rejection::ReportReplayed), None, Some(Rejection::BatchCollected)];
    // Keys that open nothing: had the two been opened, they would be decryption errors.
    let outcome = sotto_protocol::helper::consume_aggregation_job_init_req(
        &parties.helper,
        &keyring(&[9]),
        parsed,
        &spent,
        NOW,
    )
    .unwrap();
    use ReportError::{BatchCollected, HpkeDecryptError, ReportReplayed};
    assert_eq!(
        answer_kinds(&outcome.response),
        [Some(ReportReplayed), Some(HpkeDecryptError), Some(BatchCollected)]
    );
    assert!(outcome.reports.is_empty() && outcome.buckets.is_empty());
}

#[test]
fn a_store_that_judged_another_number_of_reports_is_a_fault() {
    let mut parties = Parties::count();
    let job = parties.job(2);
    for spent in [&[None][..], &[None, None, None]] {
        let parsed =
            sotto_protocol::helper::parse_aggregation_job_init_req(&parties.helper, &job.request)
                .unwrap();
        let keys = &parties.helper_keys;
        assert!(
            sotto_protocol::helper::consume_aggregation_job_init_req(
                &parties.helper,
                keys,
                parsed,
                spent,
                NOW
            )
            .is_err()
        );
    }
}

#[test]
fn a_job_of_which_nothing_is_left_needs_no_helper() {
    let mut parties = Parties::count();
    let mut report = Craft::new(&mut parties, &Measurement::Count(true)).seal(&mut parties);
    report.leader_encrypted_input_share = corrupted(&report.leader_encrypted_input_share);
    let job = parties.produce(&[report.to_bytes(), vec![1, 2, 3]]);
    assert!(job.is_empty());
    let outcome = consume_aggregation_job_resp(job, b"").unwrap();
    assert!(outcome.buckets.is_empty());
    let mut rejections = Rejections::default();
    rejections.add(Rejection::HpkeDecryptError);
    rejections.add(Rejection::InvalidMessage);
    assert_eq!(outcome.rejections, rejections);
}

/// Losing a key must not turn acknowledged reports into rejected ones.
#[test]
fn a_stored_report_whose_key_is_gone_is_the_leaders_fault() {
    let mut parties = Parties::count();
    let reports = parties.reports(2);
    let reports: Vec<&[u8]> = reports.iter().map(Vec::as_slice).collect();
    let job = JobInput { reports: &reports, now: NOW, batch_id: None };
    assert!(produce_aggregation_job_init_req(&parties.leader, &keyring(&[9]), &job).is_err());
}

/// The helper's verdicts: `None` for `continue`.
fn answer_kinds(response: &[u8]) -> Vec<Option<ReportError>> {
    let response = AggregationJobResp::from_bytes(response).unwrap();
    let answers = response.verify_resps.iter();
    answers
        .map(|answer| match &answer.kind {
            VerifyRespKind::Continue(_) => None,
            VerifyRespKind::Reject(error) => Some(*error),
            VerifyRespKind::Finish => panic!("the helper of Prio3 never answers `finish`"),
        })
        .collect()
}
