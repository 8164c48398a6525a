//! Fast mode: equal on any number of threads, equal to the mechanism of one device after the other,
//! and as accurate as noise on the sum.

use std::num::NonZero;

use sotto_dp::Adjacency;
use sotto_dp::mechanism::{Method as _, Value, gaussian, vector};
use sotto_learn::clipping::Clipping;
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Mlp, Model, evaluate, from_bytes};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::{Plan, Progress};

use crate::parties::Digits;

const SIGMA: u64 = 2_000_000;
const CENTRAL: Noise = Noise::Central { sigma_micro: SIGMA };

fn devices(contributions: u64) -> gaussian::Noise {
    gaussian::Noise {
        sigma_micro: SIGMA,
        contributions,
        most_contributions: 2 * contributions,
        rounds: 30,
        epsilon_micro: 10_000_000,
        delta: 1e-6,
        adjacency: Adjacency::AddRemove,
    }
}

fn run<M: Model>(fast: &Fast<'_, M>, rounds: u32) -> Progress {
    let mut progress = fast.start().unwrap();
    while progress.rounds() < rounds {
        fast.round(&mut progress).unwrap();
    }
    progress
}

fn accuracy(digits: &Digits, progress: &Progress) -> f64 {
    100.0 * evaluate(&digits.model, progress.weights(), &digits.test).accuracy
}

#[test]
fn the_result_does_not_depend_on_the_threads() {
    let digits = Digits::new();
    let quantile = Clipping::Quantile { norm: 0.3, quantile: 0.5, rate: 0.5, weight: 0.2 };
    for noise in [Noise::None, CENTRAL, Noise::Devices(devices(75))] {
        let mut fast = digits.fast(0.05, noise, 1);
        fast.plan.clipping = quantile;
        fast.plan.optimizer = Optimizer::Momentum { rate: 2.0, decay: 0.9 };
        let one = run(&fast, 3);
        for threads in [2, 5, 200] {
            fast.threads = NonZero::new(threads).unwrap();
            assert_eq!(run(&fast, 3), one, "{threads} threads");
        }
    }
}

fn mixed_bits(progress: &Progress) -> u64 {
    let bits = progress.weights().iter().map(|weight| weight.to_bits());
    bits.fold(0, |sum, bits| sum.rotate_left(7).wrapping_add(bits))
}

/// A bit that differs on another platform, or after a change, changes these numbers; those of the
/// noise also if the samplers draw in another way.
#[test]
fn the_bits_are_these_on_every_platform() {
    let digits = Digits::new();
    let none = digits.fast(0.05, Noise::None, 1);
    assert_eq!(mixed_bits(&run(&none, 3)), 13_941_674_492_038_584_670);
    let model = Mlp::new(65, 8, 10).unwrap();
    let Fast { users, plan, rate, noise, coins, threads, .. } = none;
    let network = Fast { model: &model, users, plan, rate, noise, coins, threads };
    assert_eq!(mixed_bits(&run(&network, 3)), 7_405_702_050_234_700_185);
    assert_eq!(mixed_bits(&run(&digits.fast(0.05, CENTRAL, 1), 3)), 18_177_390_500_691_161_735);
    let devices = digits.fast(0.05, Noise::Devices(devices(75)), 1);
    assert_eq!(mixed_bits(&run(&devices, 3)), 11_265_223_838_000_255_168);
}

/// What a pipeline has to do to get the same sum: ask each device for its contribution, and give it
/// its stream of coins.
#[test]
fn the_sum_is_that_of_the_devices_one_by_one() {
    let digits = Digits::new();
    let noise = devices(75);
    let mut fast = digits.fast(0.05, Noise::Devices(noise), 9);
    fast.plan.training = LocalTraining { steps: 2, learning_rate: 0.5, batch: None };
    let progress = run(&fast, 2);
    let participants = fast.participants(2).unwrap();
    let mut expected = vec![0; 650];
    for device in &participants {
        let stream = *device as u64;
        let contribution = fast.plan.contribution(
            &digits.model,
            progress.weights(),
            fast.plan.clip(&progress),
            digits.users.of(*device),
            &mut fast.coins.training(2, stream),
        );
        assert!(vector::is_within(&contribution, fast.plan.norm_bound()));
        assert!(contribution.iter().any(|number| *number != 0));
        let mechanism = gaussian::Gaussian::vectors(650, fast.plan.norm_bound(), &noise).unwrap();
        let mut coins = fast.coins.noise(2, stream);
        let Value::Vector(sent) = mechanism.randomize(Value::Vector(contribution), &mut coins)
        else {
            panic!("a vector");
        };
        expected.iter_mut().zip(sent).for_each(|(sum, number)| *sum += number);
    }
    assert_eq!(fast.sum(&progress, &participants).unwrap(), expected);
    // It does not depend on who is asked first.
    let backwards: Vec<usize> = participants.iter().rev().copied().collect();
    assert_eq!(fast.sum(&progress, &backwards).unwrap(), expected);
}

#[test]
fn a_stored_training_goes_on_to_the_same_bits() {
    let digits = Digits::new();
    let mut fast = digits.fast(0.05, CENTRAL, 4);
    fast.plan.clipping = Clipping::Quantile { norm: 0.3, quantile: 0.5, rate: 0.5, weight: 0.2 };
    fast.plan.optimizer =
        Optimizer::Adam { rate: 0.1, first_decay: 0.9, second_decay: 0.99, epsilon: 1e-3 };
    let straight = run(&fast, 6);
    let text = serde_json::to_string(&run(&fast, 3)).unwrap();
    let stored: Progress = serde_json::from_str(&text).unwrap();
    let mut progress = stored.clone().checked(&fast.plan, 650).unwrap();
    while progress.rounds() < 6 {
        fast.round(&mut progress).unwrap();
    }
    assert_eq!(progress, straight);
    // The clip moved, and the plan is readable text.
    assert_ne!(fast.plan.clip(&progress), fast.plan.clip(&stored));
    let plan = serde_json::to_string(&fast.plan).unwrap();
    assert_eq!(fast.plan, serde_json::from_str(&plan).unwrap());
    assert!(stored.clone().checked(&fast.plan, 651).is_err());
    // A plan without votes has no clip, and a stored clip must be one.
    let fixed = Plan { clipping: Clipping::Fixed { clip: 0.3 }, ..fast.plan };
    assert!(stored.checked(&fixed, 650).is_err());
    let (start, end) = text.split_at(text.find("\"clip\":").unwrap());
    let broken = format!("{start}\"clip\":0.0{}", &end[end.find('}').unwrap()..]);
    let broken: Progress = serde_json::from_str(&broken).unwrap();
    assert!(broken.checked(&fast.plan, 650).is_err());
}

/// A clip that moves: the same rounds with devices that know the model as a file, in which weights
/// and clip are `f32`, and the norm that the recipe states.
#[test]
fn the_model_file_says_all_that_devices_need() {
    let digits = Digits::new();
    let mut fast = digits.fast(0.05, Noise::Devices(devices(75)), 3);
    fast.plan.clipping = Clipping::Quantile { norm: 0.3, quantile: 0.5, rate: 0.5, weight: 0.2 };
    let mut progress = fast.start().unwrap();
    let mut clips = Vec::new();
    for round in 0..4 {
        let participants = fast.participants(round).unwrap();
        let numbers = from_bytes(&fast.plan.model_file(&progress), 651).unwrap();
        let stated = fast.plan.clipping.stated();
        let (weights, clip) = stated.from_numbers(numbers, 650).unwrap();
        assert_eq!((&*weights, clip), (progress.weights(), fast.plan.clip(&progress)));
        let mechanism =
            gaussian::Gaussian::vectors(651, fast.plan.norm_bound(), &devices(75)).unwrap();
        let mut expected = vec![0; 651];
        for device in &participants {
            let mut rng = fast.coins.training(round, *device as u64);
            let examples = digits.users.of(*device);
            let update = fast.plan.training.update(&digits.model, &weights, examples, &mut rng);
            let numbers = stated.contribution(update, clip);
            let bits = fast.plan.fraction_bits;
            let exact = vector::clip(&numbers, 651, bits, fast.plan.norm_bound());
            let mut rng = fast.coins.noise(round, *device as u64);
            let Value::Vector(sent) = mechanism.randomize(Value::Vector(exact), &mut rng) else {
                panic!("a vector");
            };
            expected.iter_mut().zip(sent).for_each(|(sum, number)| *sum += number);
        }
        assert_eq!(fast.sum(&progress, &participants).unwrap(), expected);
        fast.plan.advance(&mut progress, &expected).unwrap();
        clips.push(clip);
    }
    clips.dedup();
    assert_eq!(clips.len(), 4, "it moves: {clips:?}");
}

/// Who takes part: the mean and the variance of the count, and every device alike. False alarms:
/// about 1e-8 for random seeds; the seed is fixed.
#[test]
fn devices_take_part_independently() {
    let digits = Digits::new();
    let count = digits.users.len();
    let mut fast = digits.fast(0.05, Noise::None, 5);
    let rounds = 2_000;
    let (mut total, mut squares, mut by_device) = (0.0, 0.0, vec![0_u32; count]);
    for round in 0..rounds {
        let found = fast.participants(round).unwrap();
        assert!(found.is_sorted_by(|a, b| a < b));
        found.iter().for_each(|device| by_device[*device] += 1);
        let excess = found.len() as f64 - 0.05 * count as f64;
        total += excess;
        squares += excess * excess;
    }
    let variance = 0.05 * 0.95 * count as f64;
    let rounds = f64::from(rounds);
    assert!((total / (rounds * variance).sqrt()).abs() < 6.0);
    // A sum of squares of nearly normal variables: 2 n is its variance.
    assert!(((squares / variance - rounds) / (2.0 * rounds).sqrt()).abs() < 6.0);
    let chi: f64 = by_device.iter().map(|seen| (f64::from(*seen) - 0.05 * rounds).powi(2)).sum();
    let degrees = count as f64;
    let excess = chi / (0.05 * 0.95 * rounds) - degrees;
    assert!((excess / (2.0 * degrees).sqrt()).abs() < 6.5, "{excess}");
    fast.rate = 1.0;
    assert_eq!(fast.participants(0).unwrap().len(), count);
    for bad in [0.0, 1.5, f64::NAN] {
        fast.rate = bad;
        assert!(fast.participants(0).is_err());
    }
}

/// The noise of the sum has the variance that is claimed, whoever adds it: 650 numbers of one round
/// at two places. False alarms: 1e-8 each for random seeds.
#[test]
fn the_noise_is_as_large_as_it_says() {
    let digits = Digits::new();
    let exact = digits.fast(0.05, Noise::None, 6);
    let progress = exact.start().unwrap();
    let participants = exact.participants(0).unwrap();
    let without = exact.sum(&progress, &participants).unwrap();
    let clip = exact.plan.norm_bound() as f64;
    let part = participants.len() as f64 / 75.0;
    for (noise, share) in [(CENTRAL, 1.0), (Noise::Devices(devices(75)), part)] {
        let noisy = digits.fast(0.05, noise, 6).sum(&progress, &participants).unwrap();
        let differences = noisy.iter().zip(&without).map(|(a, b)| (a - b) as f64);
        let squares: f64 = differences.map(|difference| difference * difference).sum();
        let expected = 650.0 * share * 4.0 * clip * clip;
        assert!(((squares / expected - 1.0) * (650.0_f64 / 2.0).sqrt()).abs() < 6.0, "{noise:?}");
    }
}

/// Noise of the devices costs as much accuracy as noise on the sum. A slice of the comparison of
/// `examples/digits.rs`: `SOTTO_CASES=10` for ten seeds and 30 rounds of 300 devices.
#[test]
fn noise_of_the_devices_is_as_good_as_noise_on_the_sum() {
    let cases: Option<u64> = std::env::var("SOTTO_CASES").ok().and_then(|cases| cases.parse().ok());
    let (seeds, rounds, rate) = cases.map_or((3, 15, 0.1), |cases| (cases.min(10), 30, 0.2));
    let digits = Digits::new();
    let contributions = (rate * digits.users.len() as f64).round() as u64;
    let noises = [CENTRAL, Noise::Devices(devices(contributions))];
    let [(central, central_error), (devices, devices_error)] = noises.map(|noise| {
        let found: Vec<f64> = (0..seeds)
            .map(|seed| accuracy(&digits, &run(&digits.fast(rate, noise, seed), rounds)))
            .collect();
        let mean = found.iter().sum::<f64>() / seeds as f64;
        let squares: f64 = found.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / ((seeds - 1) * seeds) as f64).sqrt())
    });
    println!(
        "{seeds} seeds: central {central:.2} +- {central_error:.2} %, devices {devices:.2} +- \
         {devices_error:.2} %"
    );
    // Guessing gives 10 %.
    assert!(central > 80.0 && devices > 80.0, "{central} {devices}");
    // With few seeds the standard errors count.
    let errors = (central_error * central_error + devices_error * devices_error).sqrt();
    let tolerance = 1.0 + if cases.is_none() { 3.0 * errors } else { 0.0 };
    assert!((central - devices).abs() < tolerance, "{central} {devices} {errors}");
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let digits = Digits::new();
    let good = digits.fast(0.05, CENTRAL, 1);
    for bits in [0, 41] {
        let mut fast = digits.fast(0.05, CENTRAL, 1);
        // At 0 bits the clip is half a unit.
        fast.plan.fraction_bits = bits;
        assert!(fast.start().is_err(), "{bits}");
    }
    let mut fast = digits.fast(0.05, CENTRAL, 1);
    fast.plan.expected = 0.0;
    assert!(fast.start().is_err());
    // Noise below four units.
    let noise = Noise::Devices(gaussian::Noise { sigma_micro: 1, ..devices(75) });
    let progress = good.start().unwrap();
    assert!(digits.fast(0.05, noise, 1).sum(&progress, &[0]).is_err());
    let mut after = progress.clone();
    assert!(good.plan.advance(&mut after, &[0; 3]).is_err());
    // Weights that are published as `f32` cannot be that large.
    fast.plan.expected = 1e-300;
    fast.plan.optimizer = Optimizer::Sgd { rate: 1e10 };
    let mut started = fast.start().unwrap();
    let before = started.clone();
    assert!(fast.plan.advance(&mut started, &[i64::MAX; 650]).is_err());
    assert_eq!((started, after), (before, progress));
    // Noise of more than 2^30 units.
    let mut fast = digits.fast(0.05, CENTRAL, 1);
    fast.plan.fraction_bits = 40;
    fast.round(&mut fast.start().unwrap()).unwrap();
}
