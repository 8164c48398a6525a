//! The samplers, by drawing. `src/sampler/tests.rs` follows every path through them instead.

use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_dp::sampler::{DiscreteGaussian, Rate, binomial, discrete_laplace, geometric, successes};

fn rate(num: u64, den: u64) -> Rate {
    Rate::new(num, den).unwrap()
}

fn gaussian_mass(sigma: f64) -> impl Fn(i64) -> f64 {
    let weight = move |n: i64| (-(n as f64).powi(2) / (2.0 * sigma * sigma)).exp();
    let reach = (40.0 * sigma).ceil() as i64;
    let total: f64 = (-reach..=reach).map(weight).sum();
    move |n| weight(n) / total
}

/// The chi-square statistic over bins that expect 50 draws or more, as standard deviations above
/// its mean. By the normal approximation of its cube root, above 6 with probability 1e-9.
fn deviation(
    draws: u64,
    observed: impl Fn(i64) -> u64,
    mass: impl Fn(i64) -> f64,
    reach: i64,
) -> f64 {
    let (mut statistic, mut bins) = (0.0, -1.0);
    let (mut expects, mut has) = (0.0, 0.0);
    for value in -reach..=reach {
        expects += draws as f64 * mass(value);
        has += observed(value) as f64;
        if expects >= 50.0 {
            statistic += (has - expects) * (has - expects) / expects;
            bins += 1.0;
            (expects, has) = (0.0, 0.0);
        }
    }
    let spread = 2.0 / (9.0 * bins);
    ((statistic / bins).cbrt() - (1.0 - spread)) / f64::sqrt(spread)
}

/// Fixed seeds. Eight comparisons, each wrong with probability 1e-9.
#[test]
fn draws_follow_the_formula() {
    const DRAWS: u64 = 200_000;
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let mut compare = |name: &str,
                       reach: i64,
                       mass: &dyn Fn(i64) -> f64,
                       sample: &mut dyn FnMut(&mut ChaCha20Rng) -> i64| {
        let mut counts = BTreeMap::new();
        for _ in 0..DRAWS {
            *counts.entry(sample(&mut rng)).or_insert(0) += 1;
        }
        let off = deviation(DRAWS, |value| counts.get(&value).copied().unwrap_or(0), mass, reach);
        assert!(off.abs() < 6.0, "{name}: off by {off} standard deviations");
    };
    for (num, den) in [(1, 2), (37, 10), (20, 1), (1_000_000_007, 1_000_000)] {
        let noise = DiscreteGaussian::new(rate(num, den));
        let sigma = num as f64 / den as f64;
        let reach = (10.0 * sigma) as i64 + 5;
        compare("gaussian", reach, &gaussian_mass(sigma), &mut |rng| noise.sample(rng));
    }
    for (num, den) in [(1, 1), (1, 40)] {
        let x = num as f64 / den as f64;
        let scale = (1.0 - (-x).exp()) / (1.0 + (-x).exp());
        let mass = |n: i64| scale * (-x * n.abs() as f64).exp();
        compare("laplace", (30.0 / x) as i64, &mass, &mut |rng| {
            discrete_laplace(rate(num, den), rng)
        });
    }
    for (trials, num, den) in [(30_u64, 1, 50), (12, 3, 2)] {
        let p = -(-(num as f64) / den as f64).exp_m1();
        let mass = |n: i64| {
            let choose = (0..n).fold(1.0, |c, i| c * (trials as i64 - i) as f64 / (i + 1) as f64);
            if n < 0 {
                0.0
            } else {
                choose * p.powi(n as i32) * (1.0 - p).powi((trials as i64 - n) as i32)
            }
        };
        compare("binomial", trials as i64, &mass, &mut |rng| {
            binomial(trials, rate(num, den), rng) as i64
        });
    }
}

/// A lie in the test must show: a sigma that is 2 % too small.
#[test]
fn the_comparison_notices_a_wrong_sigma() {
    let mut rng = ChaCha20Rng::from_seed([8; 32]);
    let noise = DiscreteGaussian::new(rate(196, 10));
    let mut counts = BTreeMap::new();
    for _ in 0..200_000 {
        *counts.entry(noise.sample(&mut rng)).or_insert(0) += 1;
    }
    let off =
        deviation(200_000, |n| counts.get(&n).copied().unwrap_or(0), gaussian_mass(20.0), 205);
    assert!(off > 6.0, "{off}");
}

#[test]
fn successes_are_places_in_order() {
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let places: Vec<u64> = successes(10_000, rate(1, 55), &mut rng).collect();
    assert!(places.is_sorted_by(|a, b| a < b));
    assert!(places.iter().all(|place| *place < 10_000));
    // 180 expected, standard deviation 13.3: wrong with probability 1e-9.
    assert!((100..=260).contains(&places.len()), "{}", places.len());
    assert_eq!(successes(0, rate(1, 1), &mut rng).count(), 0);
}

#[test]
fn limits_hold() {
    assert!(Rate::new(0, 1).is_err());
    assert!(Rate::new(1, 0).is_err());
    assert!(Rate::new(Rate::LARGEST + 1, 1).is_err());
    let mut rng = ChaCha20Rng::from_seed([10; 32]);
    for (num, den) in [(Rate::LARGEST, 1), (1, Rate::LARGEST), (Rate::LARGEST, Rate::LARGEST)] {
        let noise = DiscreteGaussian::new(rate(num, den));
        let sigma = num as f64 / den as f64;
        for _ in 0..100 {
            assert!((noise.sample(&mut rng) as f64).abs() <= 12.0 * sigma + 1.0);
            discrete_laplace(rate(num, den), &mut rng);
        }
    }
}

/// Not part of the suite: `cargo test --release -p sotto-dp time_of_noise -- --ignored --nocapture`.
#[test]
#[ignore = "prints how long a draw takes"]
fn time_of_noise() {
    let mut rng = ChaCha20Rng::from_seed([11; 32]);
    for (num, den) in [(1, 1), (20, 1), (1000, 1), (1_000_000_007, 1_000_000)] {
        let noise = DiscreteGaussian::new(rate(num, den));
        let begin = std::time::Instant::now();
        let sum: i64 = (0..2_000_000).map(|_| noise.sample(&mut rng)).sum();
        let each = begin.elapsed().as_nanos() as f64 / 2e6;
        println!("sigma {num}/{den}: {each:.0} ns ({sum})");
    }
    let begin = std::time::Instant::now();
    let sum: u64 = (0..2_000_000).map(|_| geometric(rate(18_149, 1_000_000), &mut rng)).sum();
    println!("geometric: {:.0} ns ({sum})", begin.elapsed().as_nanos() as f64 / 2e6);
}
