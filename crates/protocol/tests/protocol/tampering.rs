//! Each byte of a small report, altered in turn: whatever the leader keeps and the helper
//! continues, both finish.

use sotto_protocol::leader::aggregate::consume_aggregation_job_resp;
use sotto_protocol::leader::upload::consume_upload_req;
use sotto_testing::aggregators::{Craft, NOW, Parties, assert_same_books, unit};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{AggregationJobInitReq, BatchMode, Decode, Encode};

/// The fates of a report whose bytes were altered.
#[derive(Debug, Default)]
struct Fates {
    refused_at_upload: usize,
    dropped_by_leader: usize,
    dropped_by_helper: usize,
    counted: usize,
}

impl Fates {
    /// Sends a report through upload and aggregation, together with an honest one.
    fn run(&mut self, parties: &Parties, honest: &[u8], report: &[u8]) {
        let Ok(verdicts) = consume_upload_req(&parties.leader, &parties.leader_keys, report, NOW)
        else {
            self.refused_at_upload += 1;
            return;
        };
        if verdicts.iter().any(|verdict| verdict.outcome.is_err()) {
            self.refused_at_upload += 1;
            return;
        }
        let job = parties.produce(&[honest.to_vec(), report.to_vec()]);
        let sent = job.sent().count();
        let helper = parties.answer(&job.request);
        // The helper has the final say: the leader never fails after it.
        let leader = consume_aggregation_job_resp(job, &helper.response).unwrap();
        let count = assert_same_books(&leader.buckets, &helper.buckets);
        match (sent, count) {
            (1, 1) => self.dropped_by_leader += 1,
            (2, 1) => self.dropped_by_helper += 1,
            (2, 2) => self.counted += 1,
            other => panic!("{other:?}"),
        }
    }
}

fn cases() -> [(VdafConfig, Measurement); 2] {
    [
        (VdafConfig::count(), Measurement::Count(true)),
        (VdafConfig::histogram(2), Measurement::Histogram(1)),
    ]
}

#[test]
fn a_report_altered_on_the_way_is_never_counted() {
    for (vdaf, measurement) in cases() {
        let mut parties = Parties::new(&vdaf, BatchMode::TimeInterval);
        let honest = parties.report(&measurement, unit(0));
        let report = parties.report(&measurement, unit(0));
        let mut fates = Fates::default();
        for index in 0..report.len() {
            for mask in [0x01, 0x80] {
                let mut altered = report.clone();
                altered[index] ^= mask;
                fates.run(&parties, &honest, &altered);
            }
        }
        // Every byte is authenticated: by the HPKE AAD, the ciphertexts, or the lengths around them.
        assert_eq!(fates.counted, 0, "{fates:?}");
        assert!(fates.refused_at_upload > 0, "{fates:?}");
        assert!(fates.dropped_by_leader > 0, "{fates:?}");
        assert!(fates.dropped_by_helper > 0, "{fates:?}");
    }
}

#[test]
fn a_share_altered_by_the_device_is_never_counted_by_one_side_alone() {
    for (vdaf, measurement) in cases() {
        let mut parties = Parties::new(&vdaf, BatchMode::TimeInterval);
        let honest = parties.report(&measurement, unit(0));
        let craft = Craft::new(&mut parties, &measurement);
        let part: [fn(&mut Craft) -> &mut Vec<u8>; 3] =
            [|c| &mut c.public_share, |c| &mut c.leader_share, |c| &mut c.helper_share];
        let mut fates = Fates::default();
        for part in part {
            for index in 0..part(&mut craft.clone()).len() {
                let mut altered = craft.clone();
                part(&mut altered)[index] ^= 1;
                let report = altered.seal(&mut parties).to_bytes();
                fates.run(&parties, &honest, &report);
            }
        }
        assert_eq!((fates.refused_at_upload, fates.counted), (0, 0), "{fates:?}");
        assert!(fates.dropped_by_helper > 0, "{fates:?}");
    }
}

/// What the helper rejects in an altered request, it rejects alone; nothing makes it panic.
#[test]
fn a_request_altered_on_the_way_counts_nothing_that_the_leader_does_not() {
    let mut parties = Parties::new(&VdafConfig::histogram(2), BatchMode::TimeInterval);
    let reports: Vec<_> =
        (0..2).map(|i| parties.report(&Measurement::Histogram(i), unit(0))).collect();
    let request = parties.produce(&reports).request;
    let mut counted = 0;
    for index in 0..request.len() {
        let mut altered = request.clone();
        altered[index] ^= 1;
        if AggregationJobInitReq::from_bytes(&altered).is_err()
            || sotto_protocol::helper::parse_aggregation_job_init_req(&parties.helper, &altered)
                .is_err()
        {
            continue;
        }
        let answer = parties.answer(&altered);
        assert!(answer.reports.len() <= 1, "byte {index} is authenticated");
        counted += answer.reports.len();
    }
    assert!(counted > 0);
}

/// An altered answer of the helper: the leader counts no report that it would not have counted, or
/// rejects the answer.
#[test]
fn an_answer_altered_on_the_way_counts_nothing_else() {
    let mut parties = Parties::new(&VdafConfig::histogram(2), BatchMode::TimeInterval);
    let reports: Vec<_> =
        (0..2).map(|i| parties.report(&Measurement::Histogram(i), unit(0))).collect();
    let answer = parties.answer(&parties.produce(&reports).request);
    for index in 0..answer.response.len() {
        let mut altered = answer.response.clone();
        altered[index] ^= 1;
        assert!(
            consume_aggregation_job_resp(parties.produce(&reports), &altered).is_err(),
            "byte {index}"
        );
    }
}
