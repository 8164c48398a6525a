//! Server noise: both aggregators draw from the exact law, each for itself, and only for a batch
//! that they release.

use std::convert::Infallible;

use rand_chacha::rand_core::{Rng, TryCryptoRng, TryRng};
use sotto_crypto::hpke;
use sotto_protocol::collector::{CollectorError, consume_collection_job_resp};
use sotto_protocol::helper::{consume_aggregate_share_req, parse_aggregate_share_req};
use sotto_protocol::leader::collect::{produce_aggregate_share_req, produce_collection_job_resp};
use sotto_protocol::{AggregatorTask, BucketAggregate, Failure, Task, TaskError};
use sotto_testing::aggregators::{
    COLLECTOR_KEY, NOW, PRECISION_S, Parties, interval, parameters, unit,
};
use sotto_testing::keys::{keypair, rng};
use sotto_vdaf::{AggregateShare, VdafConfig};
use sotto_wire::labels::aggregate_share_info;
use sotto_wire::{
    AggregateShareAad, BatchMode, BatchSelector, CollectionJobReq, CollectionJobResp, Decode,
    Encode, HpkeCiphertext, ProblemType, Query, ReportIdChecksum, TaskConfiguration, TaskExtension,
    TaskId,
};

/// The coordinates of the batch whose noise is tested.
const DRAWS: u32 = 100_000;
const SIGMA_MICRO: u64 = 1_500_000;
const SIGMA: f64 = 1.5;
/// The sum in each coordinate.
const TRUTH: i64 = 3;

fn parties(vdaf: &VdafConfig, sigma_micro: u64) -> Parties {
    let mut parameters = parameters(vdaf, BatchMode::TimeInterval);
    parameters.extensions.push(TaskExtension::ServerNoise { sigma_micro });
    Parties::with(parameters)
}

/// The halves of leader and helper of a batch of `count` reports.
fn halves(task: &Task, count: u64) -> [BucketAggregate; 2] {
    let (mut leader, mut helper) = (task.vdaf().zero_share(), task.vdaf().zero_share());
    let (mut ours, mut theirs) = (rng(77), rng(77));
    leader.add_each(|| i64::from(ours.next_u32()));
    helper.add_each(|| TRUTH - i64::from(theirs.next_u32()));
    let (checksum, first, last) = (ReportIdChecksum::default(), unit(0), unit(0));
    [leader, helper].map(|share| BucketAggregate { share, count, checksum, first, last })
}

fn request() -> Vec<u8> {
    CollectionJobReq::new(Query::TimeInterval(interval(-10, 20))).to_bytes()
}

fn selector() -> BatchSelector {
    BatchSelector::TimeInterval(interval(-10, 20))
}

/// The helper's answer to the leader. `leader` is what the leader says about the batch.
fn asked(
    parties: &Parties,
    leader: &BucketAggregate,
    helper: &BucketAggregate,
    rng: &mut impl rand_chacha::rand_core::CryptoRng,
) -> Result<Vec<u8>, Failure> {
    let body = produce_aggregate_share_req(&parties.leader, &request(), &selector(), leader)?;
    let parsed = parse_aggregate_share_req(&parties.helper, &body, NOW).unwrap();
    consume_aggregate_share_req(&parties.helper, &parsed, Some(helper), false, rng)
}

/// A whole release: the leader's answer to the collector.
fn released(
    parties: &Parties,
    [leader, helper]: &[BucketAggregate; 2],
    [leader_seed, helper_seed]: [u64; 2],
) -> Vec<u8> {
    let share = asked(parties, leader, helper, &mut rng(helper_seed)).unwrap();
    let (task, rng) = (&parties.leader, &mut rng(leader_seed));
    produce_collection_job_resp(task, &request(), &selector(), leader, &share, rng).unwrap()
}

/// The shares of leader and helper, as the collector opens them.
fn opened(parties: &Parties, response: &[u8]) -> [AggregateShare; 2] {
    let response = CollectionJobResp::from_bytes(response).unwrap();
    let open = |task: &AggregatorTask, ciphertext: &HpkeCiphertext<'_>| {
        let aad = AggregateShareAad {
            task_id: *task.task.id(),
            task_configuration: task.task.encoded_configuration(),
            collection_job_req: &request(),
        };
        let (key, info) = (keypair(COLLECTOR_KEY), aggregate_share_info(task.role));
        let plaintext = hpke::open(&key, &info, &aad.to_bytes(), ciphertext).unwrap();
        task.task.vdaf().decode_aggregate_share(&plaintext).unwrap()
    };
    [
        open(&parties.leader, &response.leader_encrypted_agg_share),
        open(&parties.helper, &response.helper_encrypted_agg_share),
    ]
}

/// What two shares hold beside the truth.
fn noise_in(task: &Task, leader: &AggregateShare, helper: &AggregateShare) -> Vec<i128> {
    let sums = task.vdaf().unshard(leader, helper, 3).unwrap();
    sums.as_slice().iter().map(|sum| sum - i128::from(TRUTH)).collect()
}

/// Chi-square of draws against the discrete Gaussian of this sigma: the numbers from -5 to 5, and
/// what is beyond on either side.
fn chi_square(draws: &[i128], sigma: f64) -> f64 {
    let weight = |n: i32| (-f64::from(n * n) / (2.0 * sigma * sigma)).exp();
    let total: f64 = (-100..=100).map(weight).sum();
    let cell = |n: i128| n.clamp(-6, 6) as i32;
    (-6..=6)
        .map(|at| {
            let weight: f64 = (-100..=100).filter(|n| cell(i128::from(*n)) == at).map(weight).sum();
            let expected = draws.len() as f64 * weight / total;
            let found = draws.iter().filter(|draw| cell(**draw) == at).count() as f64;
            (found - expected).powi(2) / expected
        })
        .sum()
}

/// A correct sampler exceeds this with a probability of 1e-6: 12 degrees of freedom.
const LIMIT: f64 = 50.9;

/// Each aggregator's noise has the exact law, and does not depend on the other's. (The seeds are
/// fixed; with others, a correct build would fail in two of a million.)
#[test]
fn each_aggregator_adds_the_exact_law_and_its_own() {
    let parties = parties(&VdafConfig::histogram(DRAWS), SIGMA_MICRO);
    let task = &parties.leader.task;
    let halves = halves(task, 3);
    assert!(noise_in(task, &halves[0].share, &halves[1].share).iter().all(|noise| *noise == 0));
    let noises = |seeds| {
        let [leader, helper] = opened(&parties, &released(&parties, &halves, seeds));
        [noise_in(task, &leader, &halves[1].share), noise_in(task, &halves[0].share, &helper)]
    };
    let [leader, helper] = noises([1, 2]);
    for noise in [&leader, &helper] {
        let found = chi_square(noise, SIGMA);
        assert!(found < LIMIT, "{found}");
        // What the test must notice: a sigma that is 2 % off.
        let other = chi_square(noise, SIGMA * 1.02);
        assert!(other > LIMIT, "{other}");
    }
    assert_ne!(leader, helper);
    let [other, same] = noises([3, 2]);
    assert_ne!(leader, other);
    assert_eq!(helper, same, "the leader has no influence on the helper's noise");
}

/// A collector and an aggregator that share everything they know are left with the noise of the
/// other one. (A correct build would fail with other seeds in two of a million.)
#[test]
fn collector_and_one_aggregator_remove_only_its_noise() {
    let parties = parties(&VdafConfig::histogram(DRAWS), SIGMA_MICRO);
    let task = &parties.leader.task;
    let halves = halves(task, 3);
    let response = released(&parties, &halves, [5, 6]);
    let key = keypair(COLLECTOR_KEY);
    let collection = consume_collection_job_resp(task, &key, &request(), &response).unwrap();
    let [leader, helper] = opened(&parties, &response);
    // What the dishonest one knows: its half of the batch, without its noise.
    let own =
        [noise_in(task, &leader, &halves[1].share), noise_in(task, &halves[0].share, &helper)];
    let total = collection.result.as_slice().iter().map(|sum| sum - i128::from(TRUTH));
    let total: Vec<i128> = total.collect();
    for removed in &own {
        let left: Vec<i128> = total.iter().zip(removed).map(|(all, own)| all - own).collect();
        let found = chi_square(&left, SIGMA);
        assert!(found < LIMIT, "{found}");
    }
    // Without such knowledge both are there: twice the variance, within eight standard errors.
    let variance = total.iter().map(|noise| (noise * noise) as f64).sum::<f64>() / f64::from(DRAWS);
    let expected = 2.0 * SIGMA * SIGMA;
    let error = expected * (2.0 / f64::from(DRAWS)).sqrt();
    assert!((variance - expected).abs() < 8.0 * error, "{variance} against {expected}");
}

/// A total below 0 is a negative number, in both fields.
#[test]
fn a_negative_total_is_a_negative_number() {
    for vdaf in [VdafConfig::count(), VdafConfig::sum(255), VdafConfig::histogram(2)] {
        let parties = parties(&vdaf, 1_000_000_000);
        let task = &parties.leader.task;
        let halves = halves(task, 3);
        let first = |seed| {
            let response = released(&parties, &halves, [seed, seed + 100]);
            let key = keypair(COLLECTOR_KEY);
            let collected = consume_collection_job_resp(task, &key, &request(), &response);
            collected.unwrap().result.as_slice()[0]
        };
        let totals: Vec<i128> = (0..20).map(first).collect();
        // Both noises together are beyond 14,000, ten times their deviation, practically never.
        assert!(totals.iter().all(|total| total.abs() < 14_000), "{totals:?}");
        assert!(totals.iter().any(|total| *total < 0) && totals.iter().any(|total| *total > 0));
    }
}

/// Randomness that must not be used.
struct NoRng;

impl TryRng for NoRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("something was drawn")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("something was drawn")
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        panic!("something was drawn")
    }
}

impl TryCryptoRng for NoRng {}

/// For a batch that is refused, nothing is drawn: below the minimum, with other reports than the
/// leader's, over too much time, or collected before.
#[test]
fn nothing_is_drawn_for_a_refused_batch() {
    let mut parties = parties(&VdafConfig::histogram(4), SIGMA_MICRO);
    let [leader, helper] = halves(&parties.leader.task, 3);
    let refused = |parties: &Parties, helper: &BucketAggregate| match asked(
        parties, &leader, helper, &mut NoRng,
    ) {
        Err(Failure::Abort(abort)) => abort.problem,
        other => panic!("{other:?}"),
    };
    let small = BucketAggregate { count: 2, ..helper.clone() };
    assert_eq!(refused(&parties, &small), ProblemType::InvalidBatchSize);
    let other = BucketAggregate { count: 4, ..helper.clone() };
    assert_eq!(refused(&parties, &other), ProblemType::BatchMismatch);

    let share = asked(&parties, &leader, &helper, &mut rng(1)).unwrap();
    let respond = |parties: &Parties, leader: &BucketAggregate, share: &[u8]| {
        let (task, rng) = (&parties.leader, &mut NoRng);
        produce_collection_job_resp(task, &request(), &selector(), leader, share, rng)
    };
    let small = BucketAggregate { count: 2, ..leader.clone() };
    assert!(respond(&parties, &small, &share).is_err());
    assert!(respond(&parties, &leader, &share[1..]).is_err());
    let long = |half: &BucketAggregate| BucketAggregate {
        first: unit(-11),
        last: unit(9),
        ..half.clone()
    };
    parties.helper.release.max_window_s = Some(20 * PRECISION_S);
    assert_eq!(refused(&parties, &long(&helper)), ProblemType::BatchInvalid);
    assert!(respond(&parties, &long(&leader), &share).is_err());
}

/// The shares of a task without noise are what was summed.
#[test]
fn without_noise_the_shares_are_exact() {
    let parties = Parties::new(&VdafConfig::histogram(100), BatchMode::TimeInterval);
    let halves = halves(&parties.leader.task, 3);
    let [leader, helper] = opened(&parties, &released(&parties, &halves, [1, 2]));
    assert_eq!([leader, helper], halves.map(|half| half.share));
    assert!(parties.leader.task.noise().is_none());
}

/// Noise needs room beside the sums, so that its sign can be read.
#[test]
fn half_of_the_field_is_left_for_the_noise() {
    let task = |sigma_micro: Option<u64>, min_batch_size| {
        let mut parameters = parameters(&VdafConfig::sum(1 << 60), BatchMode::TimeInterval);
        parameters.min_batch_size = min_batch_size;
        let noise = sigma_micro.map(|sigma_micro| TaskExtension::ServerNoise { sigma_micro });
        parameters.extensions.extend(noise);
        Task::new(TaskId::new([1; 32]), TaskConfiguration::new(parameters).unwrap())
    };
    assert_eq!(task(None, 15).unwrap().max_reports(), 15);
    assert_eq!(task(Some(SIGMA_MICRO), 7).unwrap().max_reports(), 7);
    let refused = task(Some(SIGMA_MICRO), 8).unwrap_err();
    assert_eq!(refused, TaskError::MayWrap { min_batch_size: 8, max_reports: 7 });
    for sigma_micro in [0, u64::MAX] {
        assert!(matches!(task(Some(sigma_micro), 7), Err(TaskError::Invalid(_))), "{sigma_micro}");
    }

    let parties = parties(&VdafConfig::sum(1 << 60), SIGMA_MICRO);
    let task = &parties.leader.task;
    let response = released(&parties, &halves(task, 7), [1, 2]);
    let mut more = CollectionJobResp::from_bytes(&response).unwrap();
    more.report_count = 8;
    let key = keypair(COLLECTOR_KEY);
    let refused = consume_collection_job_resp(task, &key, &request(), &more.to_bytes());
    let expected = CollectorError::BatchTooLarge { report_count: 8, most: 7 };
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
}
