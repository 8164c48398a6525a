//! Reports that one aggregator would accept and the other then reject.
//!
//! If all encoded elements of a measurement are one, then the range check, a sum of products
//! (r x)(x - 1), is zero whatever the joint randomness r, and so are the wires (x - 1) with a wire
//! seed of zero: the zero proof is valid even if the aggregators use different joint randomness. A
//! client can therefore lie about a joint-randomness part in the public share, and the proof still
//! verifies. Only the comparison of joint-randomness seeds at the end notices, and only at the
//! aggregator whose peer's part is a lie: too late if that is the leader.

use prio::codec::{Encode, ParameterizedDecode};
use prio::field::{Field128, FieldElement};
use prio::flp::Type;
use prio::topology::ping_pong::{PingPongMessage, PingPongState, PingPongTopology};
use prio::vdaf::Vdaf as _;
use prio::vdaf::prio3::{Prio3, Prio3InputShare, Prio3PublicShare};
use prio::vdaf::xof::{IntoFieldVec, Xof, XofTurboShake128};
use sotto_vdaf::{Measurement, VdafConfig, VerifyError};

use crate::prio3::exchange::{Aggregators, CTX, Fate, TestReport, VERIFY_KEY, rng};

type PlainPrio3<T> = Prio3<T, XofTurboShake128, 32>;

/// A configuration whose chunks divide the encoded measurement, the measurement of only ones, and
/// the same VDAF as `prio` has it.
fn for_each_vdaf(mut attack: impl Attack) {
    let config = VdafConfig::sum_vec(12, 1);
    let chunk = chunk_length(&config);
    let plain = Prio3::new_sum_vec(2, 1, 12, chunk).unwrap();
    attack.run(config, Measurement::SumVec(vec![1; 12]), plain);

    let config = VdafConfig::sum_vec(4, 100);
    let chunk = chunk_length(&config);
    let plain = Prio3::new_sum_vec(2, 100, 4, chunk).unwrap();
    attack.run(config, Measurement::SumVec(vec![100; 4]), plain);

    let config = VdafConfig::histogram(1);
    let plain = Prio3::new_histogram(2, 1, chunk_length(&config)).unwrap();
    attack.run(config, Measurement::Histogram(0), plain);

    let config = VdafConfig::Prio3MultihotCountVec { length: 7, chunk_length: 5, max_weight: 7 };
    let plain = Prio3::new_multihot_count_vec(2, 7, 7, 5).unwrap();
    attack.run(config, Measurement::MultihotCountVec(vec![true; 7]), plain);

    let config = VdafConfig::l1_bound_sum(1, 40);
    let plain = Prio3::new_l1_bound_sum(2, 40, 1, chunk_length(&config)).unwrap();
    attack.run(config, Measurement::L1BoundSum(vec![40]), plain);
}

trait Attack {
    fn run<T: Type<Field = Field128>>(
        &mut self,
        config: VdafConfig,
        measurement: Measurement,
        plain: PlainPrio3<T>,
    );
}

fn chunk_length(config: &VdafConfig) -> usize {
    serde_json::to_value(config).unwrap()["chunk_length"].as_u64().unwrap() as usize
}

/// The report with a proof of zeros: the leader's proof share is the helper's, negated.
fn with_zero_proof<T: Type<Field = Field128>>(
    report: &TestReport,
    plain: &PlainPrio3<T>,
) -> TestReport {
    let decoded = Prio3InputShare::get_decoded_with_param(&(plain, 0), &report.shares.leader);
    let Prio3InputShare::Leader { measurement_share, mut proofs_share, joint_rand_blind } =
        decoded.unwrap()
    else {
        panic!("not a leader's share");
    };
    let seed: &[u8; 32] = report.shares.helper.first_chunk().unwrap();
    let [a, b, c, d] = plain.algorithm_id().to_be_bytes();
    let tag = [18, 0, a, b, c, d, 0, 2];
    let helper: Vec<Field128> = XofTurboShake128::seed_stream(seed, &[&tag, CTX], &[&[1, 1]])
        .into_field_vec(proofs_share.len());
    for (leader, helper) in proofs_share.iter_mut().zip(helper) {
        *leader = Field128::zero() - helper;
    }
    let mut altered = report.clone();
    let share = Prio3InputShare::Leader { measurement_share, proofs_share, joint_rand_blind };
    *altered.shares.leader = share.get_encoded().unwrap();
    altered
}

/// The fate of a report with `prio` alone, as the ping-pong topology has it.
fn plain_fate<T: Type<Field = Field128>>(report: &TestReport, plain: &PlainPrio3<T>) -> Fate {
    let public_share =
        Prio3PublicShare::get_decoded_with_param(plain, &report.shares.public_share).unwrap();
    let decode =
        |id, bytes: &[u8]| Prio3InputShare::get_decoded_with_param(&(plain, id), bytes).unwrap();
    let leader_share = decode(0, &report.shares.leader);
    let helper_share = decode(1, &report.shares.helper);
    let nonce = &report.nonce;
    let leader = plain
        .leader_initialized(&VERIFY_KEY, CTX, &(), nonce, &public_share, &leader_share)
        .unwrap();
    let helper = plain
        .helper_initialized(
            &VERIFY_KEY,
            CTX,
            &(),
            nonce,
            &public_share,
            &helper_share,
            &leader.message,
        )
        .and_then(|continuation| continuation.evaluate(CTX, plain));
    let message: PingPongMessage = match helper {
        Ok(PingPongState::FinishedWithOutbound { message, .. }) => message,
        Ok(_) => panic!("more than one round"),
        Err(_) => return Fate::RejectedByHelper(VerifyError::JointRandomness),
    };
    let finished = plain
        .leader_continued(CTX, &(), leader.verifier_state, &message)
        .and_then(|continuation| continuation.evaluate(CTX, plain));
    match finished {
        Ok(_) => Fate::Accepted,
        Err(_) => Fate::RejectedByLeaderLast(VerifyError::JointRandomness),
    }
}

fn unaltered(_message: &mut Vec<u8>) {}

struct WrongHelperPart;

impl Attack for WrongHelperPart {
    fn run<T: Type<Field = Field128>>(
        &mut self,
        config: VdafConfig,
        measurement: Measurement,
        plain: PlainPrio3<T>,
    ) {
        let mut aggregators = Aggregators::new(&config);
        let report = TestReport::new(&*aggregators.vdaf, &measurement, &mut rng(1));
        let mut report = with_zero_proof(&report, &plain);
        // Up to here the report is unusual, but consistent.
        assert_eq!(plain_fate(&report, &plain), Fate::Accepted, "{config:?}");
        assert_eq!(aggregators.run(&report, unaltered, unaltered), Fate::Accepted, "{config:?}");

        report.shares.public_share[32] ^= 1;
        let mismatch = VerifyError::JointRandomness;
        assert_eq!(
            plain_fate(&report, &plain),
            Fate::RejectedByLeaderLast(mismatch),
            "{config:?}: without our check this report splits the aggregators"
        );
        assert_eq!(
            aggregators.run(&report, unaltered, unaltered),
            Fate::RejectedByHelper(mismatch),
            "{config:?}"
        );
    }
}

#[test]
fn the_helper_notices_a_wrong_helper_part() {
    for_each_vdaf(WrongHelperPart);
}

struct WrongLeaderPart;

impl Attack for WrongLeaderPart {
    fn run<T: Type<Field = Field128>>(
        &mut self,
        config: VdafConfig,
        measurement: Measurement,
        plain: PlainPrio3<T>,
    ) {
        let mut aggregators = Aggregators::new(&config);
        let report = TestReport::new(&*aggregators.vdaf, &measurement, &mut rng(2));
        let mut report = with_zero_proof(&report, &plain);
        report.shares.public_share[0] ^= 1;
        let mismatch = VerifyError::JointRandomness;
        assert_eq!(plain_fate(&report, &plain), Fate::RejectedByHelper(mismatch), "{config:?}");
        assert_eq!(
            aggregators.run(&report, unaltered, unaltered),
            Fate::RejectedByLeaderFirst(mismatch),
            "{config:?}: the leader must notice before it speaks"
        );
    }
}

#[test]
fn the_leader_notices_a_wrong_leader_part_before_it_speaks() {
    for_each_vdaf(WrongLeaderPart);
}

struct BothPartsWrong;

impl Attack for BothPartsWrong {
    fn run<T: Type<Field = Field128>>(
        &mut self,
        config: VdafConfig,
        measurement: Measurement,
        plain: PlainPrio3<T>,
    ) {
        let mut aggregators = Aggregators::new(&config);
        let report = TestReport::new(&*aggregators.vdaf, &measurement, &mut rng(3));
        let mut report = with_zero_proof(&report, &plain);
        report.shares.public_share.rotate_left(32);
        let fate = aggregators.run(&report, unaltered, unaltered);
        assert_eq!(fate, Fate::RejectedByLeaderFirst(VerifyError::JointRandomness), "{config:?}");
    }
}

#[test]
fn swapped_parts_are_noticed() {
    for_each_vdaf(BothPartsWrong);
}

struct AnyWrongByte;

impl Attack for AnyWrongByte {
    fn run<T: Type<Field = Field128>>(
        &mut self,
        config: VdafConfig,
        measurement: Measurement,
        plain: PlainPrio3<T>,
    ) {
        let mut aggregators = Aggregators::new(&config);
        let report = TestReport::new(&*aggregators.vdaf, &measurement, &mut rng(4));
        let report = with_zero_proof(&report, &plain);
        for index in 0..report.shares.public_share.len() {
            let mut report = report.clone();
            report.shares.public_share[index] ^= 0x80;
            let expected = match index {
                0..32 => Fate::RejectedByLeaderFirst(VerifyError::JointRandomness),
                _ => Fate::RejectedByHelper(VerifyError::JointRandomness),
            };
            assert_eq!(aggregators.run(&report, unaltered, unaltered), expected, "{config:?}");
        }
        // A blind that does not belong to the public share.
        let mut report = report.clone();
        report.shares.helper[40] ^= 1;
        let expected = Fate::RejectedByHelper(VerifyError::JointRandomness);
        assert_eq!(aggregators.run(&report, unaltered, unaltered), expected, "{config:?}");
    }
}

#[test]
fn every_byte_of_both_parts_is_compared() {
    for_each_vdaf(AnyWrongByte);
}
