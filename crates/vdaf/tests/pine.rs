//! PINE as a task sees it. What every VDAF has to do is in `prio3`.

use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use sotto_vdaf::{AggregateResult, Measurement, Vdaf, VdafConfig, VerifyError};

use crate::prio3::exchange::{Aggregators, Fate, PARAMS, TestReport, rng};

fn unaltered(_message: &mut Vec<u8>) {}

/// A vector without zeros whose norm is just below `bound`.
fn dense(rng: &mut ChaCha20Rng, dimension: usize, bound: i64) -> Vec<i64> {
    let raw: Vec<f64> = (0..dimension).map(|_| f64::from(rng.next_u32() as i32) + 0.5).collect();
    let norm = raw.iter().map(|value| value * value).sum::<f64>().sqrt();
    // Towards zero, so that the norm does not grow.
    raw.iter().map(|value| (value / norm * bound as f64) as i64).collect()
}

fn sum(vectors: &[Vec<i64>]) -> AggregateResult {
    let add = |at: usize| vectors.iter().map(|vector| i128::from(vector[at])).sum();
    AggregateResult::Vector((0..vectors[0].len()).map(add).collect())
}

/// Runs the vectors through two aggregators, and returns the change of the sum.
fn aggregated(vdaf: &dyn Vdaf, vectors: &[Vec<i64>], rng: &mut ChaCha20Rng) -> AggregateResult {
    let reports: Vec<_> = vectors
        .iter()
        .map(|vector| TestReport::new(vdaf, &Measurement::Vector(vector.clone()), rng))
        .collect();
    let for_leader: Vec<_> = reports.iter().map(TestReport::for_leader).collect();
    let pending = vdaf.leader_init(&PARAMS, &for_leader);
    let for_helper: Vec<_> = (0..reports.len())
        .map(|index| reports[index].for_helper(pending.outbound(index).unwrap()))
        .collect();
    let (mut leader, mut helper) = ([vdaf.zero_share()], [vdaf.zero_share()]);
    let answers = vdaf.helper_verify(&PARAMS, &for_helper, &mut helper);
    let inbound: Vec<_> = answers.iter().map(|answer| Some(answer.as_deref().unwrap())).collect();
    assert!(pending.finish(&inbound, &mut leader).iter().all(Result::is_ok));
    vdaf.unshard(&leader[0], &helper[0], vectors.len() as u64).unwrap()
}

#[test]
fn both_fields_give_the_sums_of_the_integers() {
    let mut rng = rng(1);
    for (dimension, bound) in [(1, 1), (3, 7), (64, 1 << 15), (201, 1 << 26)] {
        let mut vectors: Vec<_> = (0..3).map(|_| dense(&mut rng, dimension, bound)).collect();
        vectors.push(vec![0; dimension]);
        for sign in [-1, 1] {
            let mut at_the_bound = vec![0; dimension];
            at_the_bound[dimension / 2] = sign * bound;
            vectors.push(at_the_bound);
        }
        for build in [VdafConfig::pine64, VdafConfig::pine128] {
            let vdaf = build(dimension as u32, bound as u64).build().unwrap();
            assert_eq!(aggregated(&*vdaf, &vectors, &mut rng), sum(&vectors), "{vdaf:?}");
        }
    }
    let (vdaf, most) = (VdafConfig::pine128(2, 1 << 58).build().unwrap(), 1 << 58);
    let vectors = [vec![-most, 0], vec![-most, 0], vec![0, most], vec![0, most]];
    assert_eq!(aggregated(&*vdaf, &vectors, &mut rng), sum(&vectors));
}

#[test]
fn sizes() {
    let sizes = |config: VdafConfig| {
        let sizes = config.build().unwrap().sizes();
        assert_eq!((sizes.public_share, sizes.helper_share, sizes.helper_message), (128, 96, 69));
        (sizes.leader_share, sizes.leader_message, sizes.aggregate_share)
    };
    let bound = 1 << 15;
    assert_eq!(sizes(VdafConfig::pine64(1_000, bound)), (29_344, 1_565, 8_000));
    assert_eq!(sizes(VdafConfig::pine64(10_000, bound)), (102_864, 2_573, 80_000));
    assert_eq!(sizes(VdafConfig::pine64(100_000, bound)), (827_808, 4_445, 800_000));
    assert_eq!(sizes(VdafConfig::pine64(1_000_000, bound)), (8_044_416, 16_957, 8_000_000));
    assert_eq!(sizes(VdafConfig::pine128(10_000, bound)).0, 202_448);
}

/// Half of the field is for negative sums.
#[test]
fn sums_that_may_wrap_are_refused() {
    let vdaf = VdafConfig::pine64(2, 1 << 26).build().unwrap();
    let most = vdaf.max_reports();
    // Half of the modulus, 2^63 - 2^31, over the bound.
    assert_eq!(most, (1 << 37) - 32);
    let zero = vdaf.zero_share();
    assert!(vdaf.unshard(&zero, &zero, most).is_ok());
    assert!(vdaf.unshard(&zero, &zero, most + 1).is_err());
    // What aggregators add as noise has a sign too.
    let mut share = vdaf.zero_share();
    let mut noise = [i64::MAX / 4, i64::MIN / 4].into_iter();
    share.add_each(|| noise.next().unwrap());
    let result = vdaf.unshard(&share, &zero, 1).unwrap();
    assert_eq!(result.as_slice(), [i128::from(i64::MAX / 4), i128::from(i64::MIN / 4)]);
}

/// The dot products of a vector of zeros are zero whatever the signs. So its proofs also hold if the
/// aggregators disagree about the first stage, and only the comparison of parts is left.
#[test]
fn a_lie_about_a_part_is_noticed_before_anyone_accepts() {
    for config in [VdafConfig::pine64(5, 10), VdafConfig::pine128(5, 10)] {
        let mut aggregators = Aggregators::new(&config);
        let zeros = Measurement::Vector(vec![0; 5]);
        let honest = TestReport::new(&*aggregators.vdaf, &zeros, &mut rng(2));
        let error = VerifyError::JointRandomness;
        // The parts of the first stage, then those of the second; the leader's first.
        for (part, fate) in [
            (0, Fate::RejectedByLeaderFirst(error)),
            (1, Fate::RejectedByHelper(error)),
            (2, Fate::RejectedByLeaderFirst(error)),
        ] {
            let mut report = honest.clone();
            report.shares.public_share[32 * part] ^= 1;
            assert_eq!(aggregators.run(&report, unaltered, unaltered), fate, "part {part}");
        }
        // With another joint randomness the proofs would not hold either.
        let mut report = honest.clone();
        report.shares.public_share[32 * 3] ^= 1;
        let fate = aggregators.run(&report, unaltered, unaltered);
        assert!(matches!(fate, Fate::RejectedByHelper(_)), "{fate:?}");
        assert_eq!(aggregators.run(&honest, unaltered, unaltered), Fate::Accepted);
    }
}

#[test]
fn malformed_reports_leave_their_neighbours_alone() {
    let vdaf = VdafConfig::pine64(3, 10).build().unwrap();
    let mut rng = rng(3);
    let mut reports: Vec<_> = (0..5)
        .map(|at| TestReport::new(&*vdaf, &Measurement::Vector(vec![at, -1, 5]), &mut rng))
        .collect();
    reports[1].shares.helper.pop();
    // Outside of the field.
    reports[2].shares.leader[..8].fill(0xff);
    reports[3].shares.public_share[40] ^= 1;
    let for_leader: Vec<_> = reports.iter().map(TestReport::for_leader).collect();
    let pending = vdaf.leader_init(&PARAMS, &for_leader);
    assert_eq!(pending.outbound(2), Err(VerifyError::InputShare));
    let for_helper: Vec<_> = (0..5)
        .map(|index| reports[index].for_helper(pending.outbound(index).unwrap_or(b"")))
        .collect();
    let (mut leader, mut helper) = ([vdaf.zero_share()], [vdaf.zero_share()]);
    let answers = vdaf.helper_verify(&PARAMS, &for_helper, &mut helper);
    let errors: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().copied()).collect();
    let (input, peer, joint) =
        (VerifyError::InputShare, VerifyError::PeerMessage, VerifyError::JointRandomness);
    assert_eq!(errors, [None, Some(input), Some(peer), Some(joint), None]);
    let inbound: Vec<_> = answers.iter().map(|answer| answer.as_deref().ok()).collect();
    let finished = pending.finish(&inbound, &mut leader);
    assert_eq!(finished.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    let result = vdaf.unshard(&leader[0], &helper[0], 2).unwrap();
    assert_eq!(result.as_slice(), [4, -2, 10]);
}

fn honest_reports_are_accepted(count: u64, seed: u64) {
    let mut rng = rng(seed);
    let vdaf = VdafConfig::pine64(40, 1 << 15).build().unwrap();
    for _ in 0..count / 10 {
        let vectors: Vec<_> = (0..10).map(|_| dense(&mut rng, 40, 1 << 15)).collect();
        assert_eq!(aggregated(&*vdaf, &vectors, &mut rng), sum(&vectors));
    }
}

/// Never falsely red: an honest report fails with a probability below 2^-50.
#[test]
fn a_few_honest_reports_are_accepted() {
    honest_reports_are_accepted(40, 4);
}

#[test]
#[ignore = "a campaign of a minute"]
fn twenty_thousand_honest_reports_are_accepted() {
    honest_reports_are_accepted(20_000, 5);
}

/// The processor time of this thread, which other processes do not change much.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Prints what one report costs: `cargo test --release -p sotto-vdaf -- --ignored --nocapture cost`.
#[test]
#[ignore = "only for its output, on Linux"]
fn cost_of_a_report() {
    for (build, dimension) in [VdafConfig::pine64, VdafConfig::pine128]
        .into_iter()
        .flat_map(|build| [1_000, 10_000, 100_000, 1_000_000].map(|dimension| (build, dimension)))
    {
        let vdaf = build(dimension as u32, 1 << 15).build().unwrap();
        let measurement = Measurement::Vector(dense(&mut rng(6), dimension, 1 << 15));
        let mut times = [Duration::MAX; 3];
        for round in 0..5 {
            let mut rng = rng(round);
            let start = processor_time();
            let report = TestReport::new(&*vdaf, &measurement, &mut rng);
            let sharded = processor_time();
            let pending = vdaf.leader_init(&PARAMS, &[report.for_leader()]);
            let outbound = pending.outbound(0).unwrap();
            let led = processor_time();
            let mut sum = [vdaf.zero_share()];
            let answers = vdaf.helper_verify(&PARAMS, &[report.for_helper(outbound)], &mut sum);
            assert!(answers[0].is_ok());
            let new = [sharded - start, led - sharded, processor_time() - led];
            times = std::array::from_fn(|at| times[at].min(new[at]));
        }
        let [shard, leader, helper] = times;
        println!(
            "{} d={dimension}: shard {shard:.2?}, leader {leader:.2?}, helper {helper:.2?}",
            vdaf.config().name()
        );
    }
}
