//! shard -> leader_init -> helper_verify -> finish -> merge -> unshard.

use std::convert::Infallible;

use rand_chacha::rand_core::{TryCryptoRng, TryRng};
use sotto_vdaf::{AggregateShare, Sizes, UnshardError, Vdaf, VdafConfig};

use crate::prio3::exchange::{CTX, Case, PARAMS, TestReport, cases, rng};

/// Verifies all reports as one batch; each goes to its bucket.
fn aggregate(
    vdaf: &dyn Vdaf,
    reports: &[TestReport],
    buckets: usize,
) -> (Vec<AggregateShare>, Vec<AggregateShare>) {
    let mut leader = vec![vdaf.zero_share(); buckets];
    let mut helper = vec![vdaf.zero_share(); buckets];
    let for_leader: Vec<_> = reports.iter().map(TestReport::for_leader).collect();
    let pending = vdaf.leader_init(&PARAMS, &for_leader);
    assert_eq!(pending.len(), reports.len());
    let for_helper: Vec<_> = reports
        .iter()
        .enumerate()
        .map(|(index, report)| report.for_helper(pending.outbound(index).unwrap()))
        .collect();
    let answers = vdaf.helper_verify(&PARAMS, &for_helper, &mut helper);
    let inbound: Vec<_> = answers.iter().map(|answer| Some(answer.as_deref().unwrap())).collect();
    let finished = pending.finish(&inbound, &mut leader);
    assert!(finished.iter().all(Result::is_ok));
    (leader, helper)
}

#[test]
fn every_vdaf_gives_the_exact_result() {
    for (seed, Case { config, measurements, result }) in (0..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let mut rng = rng(seed);
        let reports: Vec<_> =
            measurements.iter().map(|m| TestReport::new(&*vdaf, m, &mut rng)).collect();
        let (leader, helper) = aggregate(&*vdaf, &reports, 1);
        let count = reports.len() as u64;
        assert_eq!(vdaf.unshard(&leader[0], &helper[0], count).unwrap(), result, "{config:?}");
    }
}

#[test]
fn several_buckets_at_once_and_merged_later() {
    for (seed, Case { config, measurements, result }) in (100..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let mut rng = rng(seed);
        let mut reports: Vec<_> =
            measurements.iter().map(|m| TestReport::new(&*vdaf, m, &mut rng)).collect();
        for (index, report) in reports.iter_mut().enumerate() {
            report.bucket = reports_bucket(index);
        }
        let (leader, helper) = aggregate(&*vdaf, &reports, 4);

        // Bucket 3 got nothing; bucket 1 got exactly the report with index 1.
        assert_eq!(leader[3], vdaf.zero_share());
        let (alone, _) = aggregate(&*vdaf, &[TestReport { bucket: 0, ..reports[1].clone() }], 1);
        assert_eq!(leader[1], alone[0]);

        let merged = |shares: &[AggregateShare]| {
            let mut sum = vdaf.zero_share();
            for share in shares {
                // Through the store and over the wire.
                let stored = AggregateShare::from_store_bytes(&share.to_store_bytes()).unwrap();
                sum.merge(&vdaf.decode_aggregate_share(&stored.encode()).unwrap()).unwrap();
            }
            sum
        };
        let unsharded = vdaf.unshard(&merged(&leader), &merged(&helper), reports.len() as u64);
        assert_eq!(unsharded.unwrap(), result, "{config:?}");
    }
}

fn reports_bucket(index: usize) -> usize {
    [0, 1, 2, 0][index % 4]
}

#[test]
fn sizes_are_exact() {
    for (seed, Case { config, measurements, .. }) in (200..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let report = TestReport::new(&*vdaf, &measurements[0], &mut rng(seed));
        let pending = vdaf.leader_init(&PARAMS, &[report.for_leader()]);
        let outbound = pending.outbound(0).unwrap();
        let mut helper = [vdaf.zero_share()];
        let answers = vdaf.helper_verify(&PARAMS, &[report.for_helper(outbound)], &mut helper);
        let seen = Sizes {
            public_share: report.shares.public_share.len(),
            leader_share: report.shares.leader.len(),
            helper_share: report.shares.helper.len(),
            leader_message: outbound.len(),
            helper_message: answers[0].as_ref().unwrap().len(),
            aggregate_share: helper[0].encode().len(),
        };
        assert_eq!(vdaf.sizes(), seen, "{config:?}");
    }
}

#[test]
fn sizes_of_common_tasks() {
    let sizes = |config: VdafConfig| {
        let s = config.build().unwrap().sizes();
        let messages = (s.leader_message, s.helper_message, s.aggregate_share);
        (s.public_share, s.leader_share, s.helper_share, messages)
    };
    assert_eq!(sizes(VdafConfig::count()), (0, 48, 32, (37, 5, 8)));
    assert_eq!(sizes(VdafConfig::sum(255)), (0, 320, 32, (29, 5, 8)));
    assert_eq!(sizes(VdafConfig::histogram(256)), (64, 5200, 64, (645, 37, 4096)));
    assert_eq!(sizes(VdafConfig::sum_vec(1000, 1)), (64, 18096, 64, (1125, 37, 16000)));
    assert_eq!(sizes(VdafConfig::sum_vec(1000, 255)), (64, 134128, 64, (2085, 37, 16000)));
    let multihot = VdafConfig::multihot_count_vec(1000, 50);
    assert_eq!(sizes(multihot), (64, 18192, 64, (1125, 37, 16000)));
    assert_eq!(sizes(VdafConfig::l1_bound_sum(1000, 255)), (64, 134288, 64, (2117, 37, 16000)));
}

/// Numbers that are added to both shares are added to the result, whatever their sign.
#[test]
fn noise_in_the_shares_is_noise_in_the_result() {
    let noise = [-40_i64, 3, -1, 0, 1_000_000_000_000, -1_000_000_000_000];
    for (seed, Case { config, measurements, result }) in (300..).zip(cases()) {
        let vdaf = config.build().unwrap();
        let mut rng = rng(seed);
        let reports: Vec<_> =
            measurements.iter().map(|m| TestReport::new(&*vdaf, m, &mut rng)).collect();
        let (leader, helper) = aggregate(&*vdaf, &reports, 1);
        let added = |share: &AggregateShare, skip: usize| {
            let mut numbers = noise.iter().cycle().skip(skip);
            let mut share = share.clone();
            share.add_each(|| *numbers.next().unwrap());
            // What is sent is a share of the same VDAF.
            vdaf.decode_aggregate_share(&share.encode()).unwrap()
        };
        let unsharded =
            vdaf.unshard(&added(&leader[0], 0), &added(&helper[0], 1), reports.len() as u64);
        let numbers = noise.iter().cycle().zip(noise.iter().cycle().skip(1));
        let expected: Vec<i128> = result
            .as_slice()
            .iter()
            .zip(numbers)
            .map(|(sum, (ours, theirs))| sum + i128::from(*ours) + i128::from(*theirs))
            .collect();
        assert_eq!(unsharded.unwrap().as_slice(), expected, "{config:?}");
    }
}

/// Half of what the field has beside the sums is for noise above them, half for noise below 0.
#[test]
fn the_numbers_beside_the_sums_are_halved() {
    for (config, count) in
        [(VdafConfig::sum(1_000), 9), (VdafConfig::sum_vec(1, u64::MAX), 1 << 62)]
    {
        let vdaf = config.build().unwrap();
        let read = |number: i128| {
            let mut share = vdaf.zero_share();
            // Numbers beyond 64 bits in several steps.
            let (steps, rest) = (number / (1 << 62), number % (1 << 62));
            share.add_each(|| rest as i64);
            if steps != 0 {
                let mut step = vdaf.zero_share();
                step.add_each(|| (steps.signum() << 62) as i64);
                let mut left = steps.unsigned_abs();
                while left > 0 {
                    if left % 2 == 1 {
                        share.merge(&step).unwrap();
                    }
                    let twice = step.clone();
                    step.merge(&twice).unwrap();
                    left /= 2;
                }
            }
            vdaf.unshard(&share, &vdaf.zero_share(), count).unwrap().as_slice()[0]
        };
        let most = match config {
            VdafConfig::Prio3Sum { .. } => 9_000,
            _ => i128::from(u64::MAX) << 62,
        };
        let room = match config {
            // The field of 64 bits, without its 9,001 sums.
            VdafConfig::Prio3Sum { .. } => (0xffff_ffff_0000_0000_i128 - most) / 2,
            // As far as 128 bits with a sign go.
            _ => i128::MAX - most,
        };
        for number in [0, 1, -1, most, most + 1, most + room, 1 - room] {
            assert_eq!(read(number), number, "{config:?}");
        }
    }
}

/// Counts what is drawn.
struct CountingRng {
    calls: usize,
    bytes: usize,
}

impl TryRng for CountingRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("not by words")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("not by words")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.calls += 1;
        self.bytes += bytes.len();
        bytes.fill(7);
        Ok(())
    }
}

impl TryCryptoRng for CountingRng {}

#[test]
fn sharding_draws_exactly_its_randomness_from_the_rng() {
    for Case { config, measurements, .. } in cases() {
        let vdaf = config.build().unwrap();
        let mut rng = CountingRng { calls: 0, bytes: 0 };
        let first = vdaf.shard(CTX, &measurements[0], &[0; 16], &mut rng).unwrap();
        // The helper's share and the prover's seed; two blinds per stage of joint randomness.
        let expected = 64 + vdaf.sizes().public_share;
        assert_eq!((rng.calls, rng.bytes), (1, expected), "{config:?}");
        let again = vdaf.shard(CTX, &measurements[0], &[0; 16], &mut rng).unwrap();
        assert_eq!(first.leader, again.leader, "all randomness comes from the argument");
        assert_eq!(first.helper, again.helper);
        assert_eq!(first.public_share, again.public_share);
    }
}

#[test]
fn a_sum_that_may_wrap_is_refused() {
    // Two thirds of the field: one measurement fits, two do not.
    let config = VdafConfig::sum(u64::MAX / 3 * 2);
    let vdaf = config.build().unwrap();
    let zero = vdaf.zero_share();
    assert_eq!(vdaf.max_reports(), 1);
    assert!(vdaf.unshard(&zero, &zero, 1).is_ok());
    assert!(matches!(vdaf.unshard(&zero, &zero, 2), Err(UnshardError::MayWrap { count: 2, .. })));

    let vdaf = VdafConfig::count().build().unwrap();
    let zero = vdaf.zero_share();
    assert!(vdaf.unshard(&zero, &zero, u64::from(u32::MAX)).is_ok());
    assert!(vdaf.unshard(&zero, &zero, u64::MAX).is_err());
    // One report less than the field has elements.
    let most = vdaf.max_reports();
    assert_eq!(most, 0xffff_ffff_0000_0000);
    assert!(vdaf.unshard(&zero, &zero, most).is_ok());
    assert!(vdaf.unshard(&zero, &zero, most + 1).is_err());

    // The large field holds more than can be counted, until measurements are large too.
    assert_eq!(VdafConfig::histogram(4).build().unwrap().max_reports(), u64::MAX);
    assert!(VdafConfig::sum_vec(1, u64::MAX).build().unwrap().max_reports() >= 1 << 63);
}
