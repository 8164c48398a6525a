//! What one lying device can move, for each kind of query and each mechanism.
//!
//! Each report that a device can choose is sharded, sealed, verified by both aggregators and summed.
//! What it adds to the sums gives what it adds to the estimates. A report that says a little more is
//! refused. The table that comes out is in `docs/threat-model.md`.

use sotto_dp::Adjacency;
use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::gaussian::{Gaussian, Noise};
use sotto_dp::mechanism::projective_geometry::ProjectiveGeometry;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::rappor::Rappor;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Collected, Encoding, Mechanism, Rates, mean, vector_mean};
use sotto_protocol::Rejection;
use sotto_protocol::recipe::derive_vdaf;
use sotto_testing::aggregators::{Craft, Parties, assert_same_books};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{BatchMode, Encode};

/// Buckets of every histogram.
const LENGTH: u32 = 50;
const LARGEST: u64 = 20;
const DEFAULT: usize = 0;
/// Coordinates of every vector.
const DIMENSION: u32 = 64;
/// Honest devices in the batch, at least.
const HONEST: u64 = 1_000;

/// What is measured of a kind of query, beside its rows.
#[derive(Clone, Copy)]
enum Statistic {
    None,
    Mean,
    /// Where the median is, counted in devices.
    Rank,
    /// How many devices have the default value, [`DEFAULT`]. It is in no other measure.
    Default,
}

struct Case {
    kind: &'static str,
    words: &'static str,
    mechanisms: Vec<Mechanism>,
    rates: Rates,
    statistic: Statistic,
}

fn cases() -> Vec<Case> {
    let (bit, number) = (Encoding::Bit, Encoding::Number { max: LARGEST });
    let one_hot = Encoding::OneHot { length: LENGTH };
    let labels = |most| Encoding::Labels { length: LENGTH, most };
    // Noise of the aggregators does not change what a report says.
    let plain = |encoding| {
        let servers = ServerNoise::new(encoding, 5_000_000, Adjacency::Replace).unwrap();
        vec![Exact::of(encoding).into(), servers.into()]
    };
    let response = || vec![RandomizedResponse::of(4_000_000, one_hot).unwrap().into()];
    let rappor = |encoding| vec![Rappor::of(2_000_000, encoding).unwrap().into()];
    let geometry = || vec![ProjectiveGeometry::of(2_000_000, one_hot).unwrap().into()];
    let all = Rates::all(1.0);
    let needles =
        Rates { default_rate: 0.01, rate: 0.5, dummy_rate: 0.0, default: Some(DEFAULT as u32) };
    let case = |kind, words, mechanisms, rates, statistic| Case {
        kind,
        words,
        mechanisms,
        rates,
        statistic,
    };
    let vector = Encoding::Vector { length: DIMENSION, norm_bound: 1 << 15 };
    // Sigma 6 of the clip for 1,000 devices.
    let noise = Noise {
        sigma_micro: 6_000_000,
        contributions: HONEST,
        most_contributions: 1 << 40,
        rounds: 1,
        epsilon_micro: 1_000_000,
        delta: 1e-6,
        adjacency: Adjacency::Replace,
    };
    let vectors = Gaussian::vectors(DIMENSION, 1 << 15, &noise).unwrap().into();
    let gaussian = Gaussian::symbols(one_hot, 1 << 20, &noise).unwrap().into();
    let sums = "`vector_sum`, `vector_mean`";
    let none = "`none`, with noise of the aggregators or without";
    let buckets = "`histogram`, `quantiles`";
    vec![
        case("`count`", none, plain(bit), all, Statistic::None),
        case("`sum`, `mean`", none, plain(number), all, Statistic::Mean),
        case(buckets, none, plain(one_hot), all, Statistic::Rank),
        case(buckets, "`randomized_response`, 4", response(), all, Statistic::Rank),
        case(buckets, "`rappor`, 2", rappor(one_hot), all, Statistic::Rank),
        case(buckets, "`projective_geometry`, 2", geometry(), all, Statistic::Rank),
        case("`multi_histogram`, up to 2", none, plain(labels(2)), all, Statistic::None),
        case("`multi_histogram`, up to 2", "`rappor`, 2", rappor(labels(2)), all, Statistic::None),
        case("`sparse_histogram`", none, plain(labels(1)), needles, Statistic::Default),
        case("`sparse_histogram`", "`rappor`, 2", rappor(one_hot), needles, Statistic::Default),
        case(
            "`sparse_histogram`",
            "`projective_geometry`, 2",
            geometry(),
            needles,
            Statistic::Default,
        ),
        case("`histogram`", "`gaussian`, 6", vec![gaussian], all, Statistic::None),
        case(sums, none, plain(vector), all, Statistic::Mean),
        case(sums, "`gaussian`, 6", vec![vectors], all, Statistic::Mean),
    ]
}

/// Every report that a device can choose, up to the order of buckets.
fn choices(encoding: Encoding) -> Vec<Measurement> {
    match encoding {
        Encoding::Bit => [false, true].map(Measurement::Count).into(),
        Encoding::Number { max } => [0, 1, max].map(Measurement::Sum).into(),
        Encoding::OneHot { length } => (0..length).map(Measurement::Histogram).collect(),
        Encoding::Vector { length, norm_bound } => {
            let bound = norm_bound as i64;
            let along = |sign: i64| {
                (0..length).map(move |at| if at == 0 { sign * bound } else { 0 }).collect()
            };
            // As long as it may be in all directions at once.
            let part = (norm_bound as f64 / f64::from(length).sqrt()) as i64;
            let spread = vec![part; length as usize];
            [along(1), along(-1), spread].map(Measurement::Vector).into()
        }
        Encoding::Labels { length, most } => {
            // Without the bucket of the default, where there is one, and with it.
            let set = |weight| (0..length).map(|bucket| (1..=weight).contains(&bucket)).collect();
            let low = |weight| (0..length).map(|bucket| bucket < weight).collect();
            let sets = (0..=most.min(length - 1)).map(set).chain((0..=most).map(low));
            sets.map(Measurement::MultihotCountVec).collect()
        }
    }
}

fn words(measurement: &Measurement, encoding: Encoding) -> String {
    match measurement {
        Measurement::Count(_) => "yes".to_owned(),
        Measurement::Sum(number) => format!("the number {number}"),
        Measurement::Histogram(_) if encoding.numbers() == LENGTH => "one bucket".to_owned(),
        Measurement::Histogram(_) => format!("one of {} points", encoding.numbers()),
        Measurement::MultihotCountVec(bits) => {
            let set = bits.iter().filter(|bit| **bit).count();
            match set {
                0 => "no bucket".to_owned(),
                1 => "one bucket".to_owned(),
                _ => format!("{set} of {} buckets", bits.len()),
            }
        }
        Measurement::Vector(_) => "the longest vector, along one axis".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Pushes a report through both aggregators: what it adds to the sums, or why it is refused.
fn verified(parties: &mut Parties, craft: &Craft) -> Result<Vec<i128>, Rejection> {
    let report = craft.seal(parties).to_bytes();
    let (leader, helper) = parties.aggregate(&[report]);
    if let Some((reason, count)) = leader.rejections.iter().next() {
        assert_eq!((count, leader.buckets.len(), helper.buckets.len()), (1, 0, 0));
        return Err(reason);
    }
    assert_eq!(assert_same_books(&leader.buckets, &helper.buckets), 1);
    let share =
        |buckets: sotto_protocol::BucketAggregates| buckets.into_values().next().unwrap().share;
    let (leader, helper) = (share(leader.buckets), share(helper.buckets));
    let sum = parties.leader.task.vdaf().unshard(&leader, &helper, 1).unwrap();
    Ok(sum.as_slice().to_vec())
}

/// What a report moves.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    /// The estimate that moves most.
    most: f64,
    /// All estimates together: the root of the sum of squares.
    all: f64,
    statistic: f64,
}

fn moved(case: &Case, mechanism: &Mechanism, rates: Rates, added: &[i128]) -> Moved {
    let length = added.len() as u64;
    let reports = HONEST.div_ceil(length) * length;
    let honest = match mechanism.encoding() {
        // The mean of zeros moves most.
        Encoding::Bit | Encoding::Number { .. } | Encoding::Vector { .. } => 0,
        Encoding::OneHot { .. } | Encoding::Labels { .. } => i128::from(reports / length),
    };
    let before = vec![honest; added.len()];
    let after: Vec<i128> = added.iter().map(|more| honest + more).collect();
    let batch = |sums, reports| Collected { sums, reports, sampling: rates, level: 0.95 };
    let (before, after) = (batch(&before, reports), batch(&after, reports + 1));
    let estimates = |batch| mechanism.estimates(batch).unwrap();
    let mut moves: Vec<f64> = estimates(&before)
        .iter()
        .zip(estimates(&after))
        .map(|(before, after)| after.value - before.value)
        .collect();
    let default = match case.statistic {
        Statistic::Default => std::mem::take(&mut moves[DEFAULT]),
        _ => 0.0,
    };
    // Vectors in units of the clip.
    let unit = mechanism.clip().map_or(1.0, |clip| clip as f64);
    moves.iter_mut().for_each(|by| *by /= unit);
    let value = |batch| match mechanism.clip() {
        Some(_) => vector_mean(mechanism, batch).unwrap().numbers[0].value.abs() / unit,
        None => mean(mechanism, batch).unwrap().mean.value,
    };
    let (below, above) = moves.split_at(moves.len() / 2);
    let statistic = match case.statistic {
        Statistic::None => 0.0,
        Statistic::Default => default.abs(),
        Statistic::Mean => value(&after) - value(&before),
        // Half of the devices are below the median: F - N/2 (`mechanism/quantiles.rs`).
        Statistic::Rank => 0.5 * (below.iter().sum::<f64>() - above.iter().sum::<f64>()).abs(),
    };
    Moved {
        most: moves.iter().fold(0.0, |most, by| by.abs().max(most)),
        all: moves.iter().map(|by| by * by).sum::<f64>().sqrt(),
        statistic,
    }
}

/// The worst of all reports, by each measure; and the one that moves all estimates most.
fn worst(case: &Case, mechanism: &Mechanism) -> (Moved, Measurement) {
    let vdaf = derive_vdaf(mechanism);
    let mut parties = Parties::new(&vdaf, BatchMode::TimeInterval);
    let (mut worst, mut report) = (Moved::default(), None);
    for measurement in choices(mechanism.encoding()) {
        let craft = Craft::new(&mut parties, &measurement);
        let added = verified(&mut parties, &craft).expect("a valid report is accepted");
        let moved_ = moved(case, mechanism, case.rates, &added);
        if case.rates == Rates::all(1.0) {
            // Whatever is sampled counts for so many others.
            let sampled = moved(case, mechanism, Rates::all(0.1), &added);
            assert!((sampled.all / moved_.all - 10.0).abs() < 1e-6 || moved_.all < 1e-9);
        }
        if moved_.all > worst.all + 1e-9 {
            report = Some(measurement);
        }
        worst.most = worst.most.max(moved_.most);
        worst.all = worst.all.max(moved_.all);
        worst.statistic = worst.statistic.max(moved_.statistic);
    }
    let report = report.unwrap();
    refuse_more(&mut parties, &vdaf, &report);
    (worst, report)
}

/// What says more than valid reports is refused: this report with more in its first number, and
/// one of one bucket more than allowed, with an honest proof for that bound.
fn refuse_more(parties: &mut Parties, vdaf: &VdafConfig, report: &Measurement) {
    let mut craft = Craft::new(parties, report);
    // The leader's share begins with its part of the first number, in little-endian order. No carry
    // leaves the first bytes.
    let byte = craft.leader_share.iter_mut().find(|byte| **byte < 255).unwrap();
    *byte += 1;
    assert_eq!(verified(parties, &craft), Err(Rejection::VdafVerifyError), "{vdaf:?}");
    if let VdafConfig::Pine { dimension, norm_bound, .. } = *vdaf {
        let larger = VdafConfig::pine64(dimension, norm_bound + norm_bound / 1_000);
        let mut longer = vec![0; dimension as usize];
        longer[0] = (norm_bound + norm_bound / 1_000) as i64;
        let mut others = Parties::new(&larger, BatchMode::TimeInterval);
        let craft = Craft::new(&mut others, &Measurement::Vector(longer));
        verified(&mut others, &craft).expect("it is valid where the bound is larger");
        let refused = verified(parties, &craft).unwrap_err();
        if larger.build().unwrap().sizes() == vdaf.build().unwrap().sizes() {
            assert_eq!(refused, Rejection::VdafVerifyError, "{vdaf:?}");
        }
        return;
    }
    // (No encoding says a larger number: the weights of its bits add up to the largest.)
    let VdafConfig::Prio3MultihotCountVec { length, max_weight, .. } = *vdaf else { return };
    if max_weight == u64::from(length) {
        return;
    }
    let larger = VdafConfig::multihot_count_vec(length, max_weight + 1);
    let bits = (0..length).map(|bucket| u64::from(bucket) <= max_weight).collect();
    let more = Measurement::MultihotCountVec(bits);
    let mut others = Parties::new(&larger, BatchMode::TimeInterval);
    let craft = Craft::new(&mut others, &more);
    verified(&mut others, &craft).expect("it is valid where the bound is larger");
    let refused = verified(parties, &craft).unwrap_err();
    // Else its shares have another length.
    if larger.build().unwrap().sizes() == vdaf.build().unwrap().sizes() {
        assert_eq!(refused, Rejection::VdafVerifyError, "{vdaf:?}");
    }
}

#[test]
fn the_table_in_the_documentation_says_what_one_device_can_move() {
    let mut table = String::from(
        "| Kind | Randomizer | Worst report | One row | All rows | Statistic |\n\
         |---|---|---|---|---|---|\n",
    );
    for case in cases() {
        let found: Vec<_> = case.mechanisms.iter().map(|one| worst(&case, one)).collect();
        let (moved, report) = &found[0];
        for (other, _) in &found {
            assert!((other.all - moved.all).abs() < 1e-9, "{}", case.kind);
        }
        let words = words(report, case.mechanisms[0].encoding());
        let statistic = match case.statistic {
            Statistic::None => String::new(),
            Statistic::Mean => format!("the mean of 1,000: {:.3}", moved.statistic),
            Statistic::Default => format!("the default: {:.0}", moved.statistic),
            Statistic::Rank => format!("the rank of the median: {:.1}", moved.statistic),
        };
        table += &format!(
            "| {} | {} | {words} | {:.2} | {:.2} | {statistic} |\n",
            case.kind, case.words, moved.most, moved.all
        );
    }
    let page = include_str!("../../../../docs/threat-model.md");
    assert!(page.contains(&table), "docs/threat-model.md lacks this table:\n{table}");
}
