//! The device.

use sotto_protocol::HpkeKeyring;
use sotto_protocol::client::{
    ClientError, consume_hpke_config_list, is_cover, produce_cover, produce_report,
};
use sotto_protocol::leader::aggregate::consume_aggregation_job_resp;
use sotto_protocol::leader::upload::consume_upload_req;
use sotto_protocol::token::ReportTokens;
use sotto_testing::aggregators::{HELPER_KEY, LEADER_KEY, NOW, Parties, assert_same_books, unit};
use sotto_testing::keys::{keypair, keypair_from, rng};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{
    BatchMode, Decode, Encode, HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeConfigList, HpkeKdfId,
    HpkeKemId, Report, ReportId,
};

fn unsupported(id: u8) -> HpkeConfig {
    HpkeConfig::new(
        HpkeConfigId::new(id),
        HpkeKemId::P256_HKDF_SHA256,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        vec![4; 65],
    )
    .unwrap()
}

#[test]
fn the_first_supported_key_is_taken() {
    let list = |configs| HpkeConfigList::new(configs).unwrap().to_bytes();
    let (first, second) = (keypair(10).config().clone(), keypair(11).config().clone());
    let bytes = list(vec![unsupported(1), first.clone(), second]);
    assert_eq!(consume_hpke_config_list(&bytes).unwrap(), first);
    let hybrid = keypair_from(12, 12).config().clone();
    let bytes = list(vec![unsupported(1), keypair(10).config().clone(), hybrid.clone()]);
    assert_eq!(consume_hpke_config_list(&bytes).unwrap(), hybrid, "better than the first");
    let none = consume_hpke_config_list(&list(vec![unsupported(1)]));
    assert!(matches!(none, Err(ClientError::NoSupportedHpkeConfig)));
    for bad in [&bytes[1..], &[0, 0], b""] {
        assert!(matches!(consume_hpke_config_list(bad), Err(ClientError::Decode(_))));
    }
}

#[test]
fn a_report_is_fresh_and_has_nothing_public_but_its_time() {
    let mut parties = Parties::count();
    let (a, b) = (parties.reports(1).remove(0), parties.reports(1).remove(0));
    let (a, b) = (Report::from_bytes(&a).unwrap(), Report::from_bytes(&b).unwrap());
    assert_ne!(a.report_metadata.report_id, b.report_metadata.report_id);
    assert_eq!(a.report_metadata.time, unit(0));
    assert!(a.report_metadata.public_extensions.is_empty());
    assert_eq!(a.leader_encrypted_input_share.config_id().value(), LEADER_KEY);
    assert_eq!(a.helper_encrypted_input_share.config_id().value(), HELPER_KEY);
}

#[test]
fn what_the_task_does_not_allow_is_not_made() {
    let parties = Parties::count_in_interval();
    let make = |measurement: &Measurement, offset| {
        let (leader, helper) = (keypair(LEADER_KEY), keypair(HELPER_KEY));
        produce_report(
            &parties.leader.task,
            leader.config(),
            helper.config(),
            measurement,
            unit(offset),
            None,
            &mut rng(0),
        )
    };
    assert!(make(&Measurement::Count(true), -5).is_ok());
    for offset in [-6, 5] {
        let made = make(&Measurement::Count(true), offset);
        assert!(matches!(made, Err(ClientError::OutsideTaskInterval)));
    }
    assert!(matches!(make(&Measurement::Sum(1), 0), Err(ClientError::Shard(_))));
}

#[test]
fn an_unsupported_key_is_not_sealed_to() {
    let parties = Parties::count();
    let leader = keypair(LEADER_KEY);
    let made = produce_report(
        &parties.leader.task,
        leader.config(),
        &unsupported(1),
        &Measurement::Count(true),
        unit(0),
        None,
        &mut rng(0),
    );
    assert!(matches!(made, Err(ClientError::Hpke(_))));
}

/// Old devices and new ones with one pair of servers: each aggregator holds a key of each suite.
#[test]
fn reports_of_both_suites_are_counted_together() {
    let mut parties = Parties::count();
    let hybrid = [keypair_from(21, 21), keypair_from(22, 22)];
    let old = [keypair(LEADER_KEY), keypair(HELPER_KEY)];
    parties.leader_keys = HpkeKeyring::new(&[keypair_from(21, 21), keypair(LEADER_KEY)]).unwrap();
    parties.helper_keys = HpkeKeyring::new(&[keypair_from(22, 22), keypair(HELPER_KEY)]).unwrap();
    let mut reports = Vec::new();
    for (leader, helper) in
        [(&hybrid[0], &hybrid[1]), (&old[0], &old[1]), (&hybrid[0], &old[1]), (&old[0], &hybrid[1])]
    {
        let report = produce_report(
            &parties.leader.task,
            leader.config(),
            helper.config(),
            &Measurement::Count(true),
            unit(0),
            None,
            &mut parties.rng,
        );
        reports.push(report.unwrap());
    }
    let lengths: Vec<_> = reports.iter().map(Vec::len).collect();
    let base = lengths[1];
    assert_eq!(lengths, [base + 2 * 1088, base, base + 1088, base + 1088]);
    for report in &reports {
        let verdicts = consume_upload_req(&parties.leader, &parties.leader_keys, report, NOW);
        assert!(verdicts.unwrap().iter().all(|verdict| verdict.outcome.is_ok()));
    }
    let job = parties.produce(&reports);
    let helper = parties.answer(&job.request);
    let outcome = consume_aggregation_job_resp(job, &helper.response).unwrap();
    assert_eq!(assert_same_books(&outcome.buckets, &helper.buckets), 4);
}

/// For every VDAF, suite and number of tokens.
#[test]
fn cover_is_as_long_as_a_report() {
    let vdafs = [
        (VdafConfig::count(), Measurement::Count(true)),
        (VdafConfig::sum(1_000), Measurement::Sum(7)),
        (VdafConfig::sum_vec(50, 3), Measurement::SumVec(vec![1; 50])),
        (VdafConfig::histogram(20), Measurement::Histogram(3)),
        (VdafConfig::multihot_count_vec(9, 2), Measurement::MultihotCountVec(vec![false; 9])),
        (VdafConfig::l1_bound_sum(9, 5), Measurement::L1BoundSum(vec![0; 9])),
    ];
    let token = |helper| ReportTokens {
        report_id: ReportId::new([1; ReportId::LEN]),
        leader: vec![1; 354],
        helper,
    };
    let tokens = [None, Some(token(None)), Some(token(Some(vec![2; 354])))];
    let keys = [keypair(10).config().clone(), keypair_from(12, 12).config().clone()];
    for (vdaf, measurement) in vdafs {
        let parties = Parties::new(&vdaf, BatchMode::TimeInterval);
        let task = &parties.leader.task;
        for (leader, helper) in keys.iter().flat_map(|one| keys.iter().map(move |two| (one, two))) {
            for tokens in tokens.iter().map(Option::as_ref) {
                let rng = &mut rng(1);
                let report =
                    produce_report(task, leader, helper, &measurement, unit(0), tokens, rng);
                let report = report.unwrap();
                let cover = produce_cover(task, leader, helper, tokens).unwrap();
                assert_eq!(cover.len(), report.len(), "{vdaf:?}");
                assert!(is_cover(&cover) && !is_cover(&report));
            }
        }
    }
}
