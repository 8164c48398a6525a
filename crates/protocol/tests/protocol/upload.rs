//! The leader's verdicts on arriving reports.

use sotto_protocol::leader::upload::{consume_upload_req, produce_upload_errors};
use sotto_protocol::{MAX_CLOCK_SKEW_S, Moment, Rejection, client};
use sotto_testing::aggregators::{
    Craft, LEADER_KEY, NOW, PRECISION_S, Parties, extension_types, under_key, unit,
};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::token::TOKEN_LEN;
use sotto_wire::{
    BatchMode, Encode, HpkeCiphertext, ProblemType, PublicShare, Report, ReportError, ReportId,
    Time,
};

fn verdict(parties: &Parties, report: &Report<'_>) -> Result<Option<Time>, Rejection> {
    let body = report.to_bytes();
    let mut verdicts =
        consume_upload_req(&parties.leader, &parties.leader_keys, &body, NOW).unwrap();
    assert_eq!(verdicts.len(), 1);
    let verdict = verdicts.remove(0);
    assert_eq!(verdict.report_id, report.report_metadata.report_id);
    verdict.outcome.map(|accepted| {
        assert_eq!(accepted.raw, body);
        assert_eq!(accepted.hpke_config_id.value(), LEADER_KEY);
        accepted.bucket
    })
}

fn honest(parties: &mut Parties) -> Craft {
    Craft::new(parties, &Measurement::Count(true))
}

/// The ciphertext with its parts truncated or extended.
fn resized(ciphertext: &HpkeCiphertext<'_>, enc: usize, payload: usize) -> HpkeCiphertext<'static> {
    let part = |bytes: &[u8], len| {
        let mut bytes = bytes.to_vec();
        bytes.resize(len, 0);
        bytes
    };
    HpkeCiphertext::new(
        ciphertext.config_id(),
        part(ciphertext.enc(), enc),
        part(ciphertext.payload(), payload),
    )
    .unwrap()
}

#[test]
fn a_report_is_accepted_into_its_bucket() {
    let mut parties = Parties::count_in_interval();
    let report = honest(&mut parties).seal(&mut parties);
    assert_eq!(verdict(&parties, &report), Ok(Some(unit(0))));
    let mut parties = Parties::new(&VdafConfig::count(), BatchMode::LeaderSelected);
    let report = honest(&mut parties).seal(&mut parties);
    assert_eq!(verdict(&parties, &report), Ok(None));
}

/// A way to spoil a report, before it is sealed or after.
type Spoil = (&'static str, fn(&mut Craft), fn(&mut Report<'static>), Rejection);

#[test]
fn each_reason_to_refuse_a_report() {
    let unsealed: fn(&mut Craft) = |_| {};
    let sealed: fn(&mut Report<'static>) = |_| {};
    let wrong_sizes: [fn(&mut Report<'static>); 8] = [
        |r| r.public_share = PublicShare::new(vec![0; 32]).unwrap(),
        |r| resize_leader(r, 31, 0),
        |r| resize_leader(r, 33, 0),
        |r| resize_leader(r, 32, -1),
        |r| resize_leader(r, 32, 2049),
        |r| resize_helper(r, 32, -1),
        |r| resize_helper(r, 32, 2049),
        |r| resize_helper(r, 2049, 0),
    ];
    let mut cases: Vec<Spoil> = vec![
        (
            "unknown HPKE key",
            unsealed,
            |r| {
                let ciphertext = under_key(&r.leader_encrypted_input_share, 200);
                r.leader_encrypted_input_share = ciphertext;
            },
            Rejection::OutdatedConfig,
        ),
        ("before the task", |c| c.time = unit(-6), sealed, Rejection::TaskNotStarted),
        ("after the task", |c| c.time = unit(5), sealed, Rejection::TaskExpired),
        ("too early", |c| c.time = unit(4), sealed, Rejection::ReportTooEarly),
        (
            "unknown public extension",
            |c| c.public_extensions = extension_types(&[1]),
            sealed,
            Rejection::InvalidMessage,
        ),
        (
            "public extension twice",
            |c| c.public_extensions = extension_types(&[1, 1]),
            sealed,
            Rejection::InvalidMessage,
        ),
        (
            "unsorted public extensions",
            |c| c.public_extensions = extension_types(&[2, 1]),
            sealed,
            Rejection::InvalidMessage,
        ),
        (
            "public extensions cut off",
            |c| c.public_extensions = vec![0, 1, 0],
            sealed,
            Rejection::InvalidMessage,
        ),
    ];
    for spoil in wrong_sizes {
        cases.push(("wrong size", unsealed, spoil, Rejection::InvalidMessage));
    }
    for (index, (name, before, after, expected)) in cases.into_iter().enumerate() {
        let mut parties = Parties::count_in_interval();
        let mut craft = honest(&mut parties);
        before(&mut craft);
        let mut report = craft.seal(&mut parties);
        after(&mut report);
        assert_eq!(verdict(&parties, &report), Err(expected), "{index}: {name}");
    }
}

fn resize_leader(report: &mut Report<'static>, enc: usize, by: isize) {
    let ciphertext = &report.leader_encrypted_input_share;
    let len = ciphertext.payload().len().checked_add_signed(by).unwrap();
    report.leader_encrypted_input_share = resized(ciphertext, enc, len);
}

fn resize_helper(report: &mut Report<'static>, enc: usize, by: isize) {
    let ciphertext = &report.helper_encrypted_input_share;
    let len = ciphertext.payload().len().checked_add_signed(by).unwrap();
    report.helper_encrypted_input_share = resized(ciphertext, enc, len);
}

#[test]
fn private_extensions_leave_room_in_the_sealed_shares() {
    let mut parties = Parties::count();
    let mut craft = honest(&mut parties);
    // A token with its type and length.
    let room = 4 + TOKEN_LEN;
    craft.leader_extensions = vec![0; room];
    craft.helper_extensions = vec![0; room];
    let report = craft.seal(&mut parties);
    assert_eq!(verdict(&parties, &report), Ok(Some(unit(0))));
    for (leader, helper) in [(room + 1, room), (room, room + 1)] {
        craft.leader_extensions = vec![0; leader];
        craft.helper_extensions = vec![0; helper];
        let report = craft.seal(&mut parties);
        assert_eq!(verdict(&parties, &report), Err(Rejection::InvalidMessage));
    }
}

#[test]
fn the_clock_may_lag_by_the_allowance_and_no_more() {
    let mut parties = Parties::count();
    let body = parties.report(&Measurement::Count(true), unit(10));
    let start = NOW.0 + 10 * PRECISION_S;
    for (now, expected) in [
        (start - MAX_CLOCK_SKEW_S, Ok(())),
        (start - MAX_CLOCK_SKEW_S - 1, Err(Rejection::ReportTooEarly)),
        (start + 1_000_000_000, Ok(())),
    ] {
        let verdicts =
            consume_upload_req(&parties.leader, &parties.leader_keys, &body, Moment(now)).unwrap();
        assert_eq!(verdicts[0].outcome.as_ref().map(drop).map_err(|r| *r), expected, "{now}");
    }
}

#[test]
fn the_last_time_there_is_does_not_overflow() {
    let mut parties = Parties::count();
    let mut craft = honest(&mut parties);
    craft.time = Time::new(u64::MAX);
    let report = craft.seal(&mut parties);
    assert_eq!(verdict(&parties, &report), Err(Rejection::ReportTooEarly));
}

#[test]
fn a_replay_inside_one_upload_is_refused_and_the_first_kept() {
    let mut parties = Parties::count();
    let reports = parties.reports(2);
    let body = [&reports[0][..], &reports[1], &reports[0]].concat();
    let verdicts = consume_upload_req(&parties.leader, &parties.leader_keys, &body, NOW).unwrap();
    assert!(verdicts[0].outcome.is_ok());
    assert!(verdicts[1].outcome.is_ok());
    assert_eq!(verdicts[2].outcome.as_ref().unwrap_err(), &Rejection::ReportReplayed);
    assert_eq!(verdicts[2].report_id, verdicts[0].report_id);
}

#[test]
fn an_empty_upload_is_fine() {
    let parties = Parties::count();
    let verdicts = consume_upload_req(&parties.leader, &parties.leader_keys, b"", NOW).unwrap();
    assert!(verdicts.is_empty());
    assert_eq!(produce_upload_errors([]), None);
    assert!(client::consume_upload_errors(b"").unwrap().is_empty());
}

#[test]
fn a_body_that_does_not_decode_is_refused_as_a_whole() {
    let mut parties = Parties::count();
    let report = parties.reports(1).remove(0);
    for body in [&report[..report.len() - 1], &[&report[..], &[0]].concat()] {
        let abort =
            consume_upload_req(&parties.leader, &parties.leader_keys, body, NOW).unwrap_err();
        assert_eq!(abort.problem, ProblemType::InvalidMessage);
        assert_eq!(abort.task_id, Some(*parties.leader.task.id()));
    }
}

#[test]
fn upload_errors_list_failures_in_order_with_the_codes_of_dap() {
    let ids: Vec<_> = (0..12).map(|i| ReportId::new([i; 16])).collect();
    let failures: Vec<_> = ids.iter().copied().zip(Rejection::ALL).collect();
    let body = produce_upload_errors(failures).unwrap();
    let errors = client::consume_upload_errors(&body).unwrap();
    use ReportError::*;
    let expected = [
        BatchCollected,
        ReportReplayed,
        ReportDropped,
        HpkeDecryptError,
        VdafVerifyError,
        ReportDropped, // task_expired, in uploads
        InvalidMessage,
        ReportTooEarly,
        ReportDropped, // task_not_started, in uploads
        OutdatedConfig,
        UnknownVerificationKeyId, // never in uploads
        ReportDropped,            // job_abandoned
    ];
    assert_eq!(errors, ids.into_iter().zip(expected).collect::<Vec<_>>());
    assert!(client::consume_upload_errors(&body[1..]).is_err());
}
