//! Our messages and sums are those of `prio`'s ping-pong topology, byte for byte.

use prio::codec::{Encode, ParameterizedDecode};
use prio::field::NttFriendlyFieldElement;
use prio::flp::Type;
use prio::topology::ping_pong::{PingPongState, PingPongTopology};
use prio::vdaf::prio3::{Prio3, Prio3InputShare, Prio3PublicShare};
use prio::vdaf::xof::XofTurboShake128;
use prio::vdaf::{Aggregatable, Aggregator};
use sotto_vdaf::{Measurement, VdafConfig};

use crate::prio3::exchange::{CTX, PARAMS, TestReport, VERIFY_KEY, rng};

fn compare<T: Type>(
    config: VdafConfig,
    plain: &Prio3<T, XofTurboShake128, 32>,
    measurements: Vec<Measurement>,
) where
    T::Field: NttFriendlyFieldElement,
{
    let vdaf = config.build().unwrap();
    let mut rng = rng(5);
    let (mut leader_sum, mut helper_sum) = ([vdaf.zero_share()], [vdaf.zero_share()]);
    let mut plain_leader_sum = plain.aggregate_init(&());
    let mut plain_helper_sum = plain.aggregate_init(&());

    for measurement in &measurements {
        let report = TestReport::new(&*vdaf, measurement, &mut rng);
        let public_share =
            Prio3PublicShare::get_decoded_with_param(plain, &report.shares.public_share).unwrap();
        let decode = |id, bytes: &[u8]| {
            Prio3InputShare::get_decoded_with_param(&(plain, id), bytes).unwrap()
        };
        let leader_share = decode(0, &report.shares.leader);
        let helper_share = decode(1, &report.shares.helper);
        let nonce = &report.nonce;

        let plain_leader = plain
            .leader_initialized(&VERIFY_KEY, CTX, &(), nonce, &public_share, &leader_share)
            .unwrap();
        let pending = vdaf.leader_init(&PARAMS, &[report.for_leader()]);
        let outbound = pending.outbound(0).unwrap();
        assert_eq!(outbound, plain_leader.message.get_encoded().unwrap(), "{config:?}");

        let state = plain
            .helper_initialized(
                &VERIFY_KEY,
                CTX,
                &(),
                nonce,
                &public_share,
                &helper_share,
                &plain_leader.message,
            )
            .unwrap()
            .evaluate(CTX, plain)
            .unwrap();
        let PingPongState::FinishedWithOutbound { output_share, message } = state else {
            panic!("more than one round");
        };
        plain_helper_sum.accumulate(&output_share).unwrap();
        let answers = vdaf.helper_verify(&PARAMS, &[report.for_helper(outbound)], &mut helper_sum);
        let answer = answers[0].as_deref().unwrap();
        assert_eq!(answer, message.get_encoded().unwrap(), "{config:?}");

        let state = plain
            .leader_continued(CTX, &(), plain_leader.verifier_state, &message)
            .unwrap()
            .evaluate(CTX, plain)
            .unwrap();
        let PingPongState::Finished { output_share } = state else {
            panic!("more than one round");
        };
        plain_leader_sum.accumulate(&output_share).unwrap();
        assert_eq!(pending.finish(&[Some(answer)], &mut leader_sum), [Ok(())]);
    }
    assert_eq!(leader_sum[0].encode(), plain_leader_sum.get_encoded().unwrap(), "{config:?}");
    assert_eq!(helper_sum[0].encode(), plain_helper_sum.get_encoded().unwrap(), "{config:?}");
}

fn chunk_length(config: &VdafConfig) -> usize {
    serde_json::to_value(config).unwrap()["chunk_length"].as_u64().unwrap() as usize
}

#[test]
fn count_and_sum() {
    let plain = Prio3::new_count(2).unwrap();
    compare(VdafConfig::count(), &plain, [true, false].map(Measurement::Count).into());
    let plain = Prio3::new_sum(2, 1337).unwrap();
    compare(VdafConfig::sum(1337), &plain, [0, 1337, 5].map(Measurement::Sum).into());
}

#[test]
fn sum_vec() {
    let config = VdafConfig::sum_vec(100, 9);
    let plain = Prio3::new_sum_vec(2, 9, 100, chunk_length(&config)).unwrap();
    let vectors = [vec![9; 100], vec![0; 100], (0..100).map(|i| i % 10).collect()];
    compare(config, &plain, vectors.map(Measurement::SumVec).into());
}

#[test]
fn histogram() {
    let config = VdafConfig::histogram(256);
    let plain = Prio3::new_histogram(2, 256, chunk_length(&config)).unwrap();
    compare(config, &plain, [0, 255, 17].map(Measurement::Histogram).into());
}

#[test]
fn multihot_count_vec() {
    let config = VdafConfig::multihot_count_vec(50, 10);
    let plain = Prio3::new_multihot_count_vec(2, 50, 10, chunk_length(&config)).unwrap();
    let vectors = [vec![false; 50], (0..50).map(|i| i % 5 == 0).collect()];
    compare(config, &plain, vectors.map(Measurement::MultihotCountVec).into());
}

#[test]
fn l1_bound_sum() {
    let config = VdafConfig::l1_bound_sum(20, 77);
    let plain = Prio3::new_l1_bound_sum(2, 77, 20, chunk_length(&config)).unwrap();
    let vectors = [vec![0; 20], vec![3; 20], [vec![77], vec![0; 19]].concat()];
    compare(config, &plain, vectors.map(Measurement::L1BoundSum).into());
}
