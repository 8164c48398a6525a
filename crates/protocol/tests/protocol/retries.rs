//! A retry sends the same bytes as before.

use sotto_protocol::leader::aggregate::{
    JobInput, consume_aggregation_job_resp, produce_aggregation_job_init_req,
};
use sotto_protocol::{RequestKind, request_digest};
use sotto_testing::aggregators::{Craft, LEADER_KEY, Parties, assert_same_books, corrupted, unit};
use sotto_testing::keys::keyring;
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{BatchMode, Encode};

#[test]
fn the_same_job_gives_the_same_bytes_also_after_a_key_was_added() {
    for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
        let mut parties = Parties::new(&VdafConfig::histogram(8), mode);
        let mut reports: Vec<_> = (0..5)
            .map(|i| parties.report(&Measurement::Histogram(i), unit(-i64::from(i))))
            .collect();
        // A report that the leader drops: it is dropped again.
        let mut spoiled = Craft::new(&mut parties, &Measurement::Histogram(0)).seal(&mut parties);
        spoiled.leader_encrypted_input_share = corrupted(&spoiled.leader_encrypted_input_share);
        reports.insert(2, spoiled.to_bytes());

        let first = parties.produce(&reports);
        assert_eq!(first.sent().collect::<Vec<_>>(), [0, 1, 3, 4, 5]);
        assert_eq!(
            first.digest,
            request_digest(
                parties.leader.task.id(),
                RequestKind::AggregationJobInit,
                &first.request
            )
        );

        let again = parties.produce(&reports);
        assert_eq!(again.request, first.request);

        // The new key is preferred; the old one is kept while reports name it.
        parties.leader_keys = keyring(&[77, LEADER_KEY]);
        let rotated = parties.produce(&reports);
        assert_eq!(rotated.request, first.request);
        assert_eq!(rotated.digest, first.digest);

        // The answer to the first request is valid for the last.
        let helper = parties.answer(&first.request);
        let outcome = consume_aggregation_job_resp(rotated, &helper.response).unwrap();
        assert_eq!(assert_same_books(&outcome.buckets, &helper.buckets), 5);
    }
}

#[test]
fn a_job_without_a_batch_id_does_not_fit_a_leader_selected_task() {
    for (mode, batch_id) in [
        (BatchMode::LeaderSelected, None),
        (BatchMode::TimeInterval, Some(sotto_testing::aggregators::BATCH)),
    ] {
        let mut parties = Parties::new(&VdafConfig::count(), mode);
        let report = parties.reports(1).remove(0);
        let job = JobInput { reports: &[&report], now: sotto_testing::aggregators::NOW, batch_id };
        let produced =
            produce_aggregation_job_init_req(&parties.leader, &parties.leader_keys, &job);
        assert!(produced.is_err());
    }
}

/// The helper computes the same answer from the same request: it may race with itself.
#[test]
fn the_helper_is_deterministic_too() {
    let mut parties = Parties::new(&VdafConfig::sum(10), BatchMode::TimeInterval);
    let reports: Vec<_> = (0..3).map(|i| parties.report(&Measurement::Sum(i), unit(0))).collect();
    let request = parties.produce(&reports).request;
    assert_eq!(parties.answer(&request).response, parties.answer(&request).response);
}
