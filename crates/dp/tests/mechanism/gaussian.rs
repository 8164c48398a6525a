//! Noise that devices bring: it adds up to the claimed law, no honest report is too long, and the claim
//! depends on noise and norm alone.

use sotto_dp::mechanism::gaussian::{Gaussian, Noise};
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::vector::{clip, is_within};
use sotto_dp::mechanism::{Encoding, Method, Value};
use sotto_dp::recipe::{Law, Terms, judge};
use sotto_dp::{Adjacency, Error};

use super::clipping::{normal, squares};
use super::simulated::*;

/// How many cases are tried: the slice that every run has, or what `SOTTO_CASES` asks for.
fn cases(slice: u64) -> u64 {
    std::env::var("SOTTO_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(slice)
}

/// Noise `sigma` of 1,000 contributions.
pub(super) fn of(sigma: f64) -> Noise {
    Noise {
        sigma_micro: (sigma * 1e6) as u64,
        contributions: 1_000,
        most_contributions: 4_000,
        rounds: 1,
        epsilon_micro: 1_000_000,
        delta: 1e-8,
        adjacency: Adjacency::Replace,
    }
}

/// `rho^2 = 1 + d s^2 + 2 s sqrt((d s^2 + 2) t) + 2 s^2 t`, and the figures that were expected of it.
#[test]
fn rho_is_the_formula() {
    for (batch, sigma, length, expected) in [
        (1_000, 1.0, 1_000, 1.62),
        (1_000, 1.0, 100_000, 10.2),
        (10_000, 1.0, 10_000, 1.48),
        (50_000, 1.0, 1_000_000, 4.6),
        (1_000, 5.1, 10_000, 17.0),
        (50_000, 5.1, 1_000, 1.39),
    ] {
        let noise = Noise { contributions: batch, most_contributions: batch, ..of(sigma) };
        let found = Gaussian::vectors(length, 1 << 20, &noise).unwrap();
        let t = (100.0 * batch as f64 / 1e-8).ln() + (1.0 + 1f64.exp()).ln();
        let (d, s) = (f64::from(length), sigma / (batch as f64).sqrt());
        let noise = d * s * s;
        let formula = (1.0 + noise + 2.0 * s * ((noise + 2.0) * t).sqrt() + 2.0 * s * s * t).sqrt();
        assert!(found.rho() >= formula && found.rho() < formula * (1.0 + 1e-4), "{found:?}");
        // Those are for t = 27.7, and this t is 35 to 39.
        assert!(found.rho() > 0.99 * expected && found.rho() < 1.07 * expected, "{}", found.rho());
        let Encoding::Vector { length: sent, norm_bound } = found.encoding() else { panic!() };
        assert_eq!((sent, found.clip()), (length, Some(1 << 20)));
        assert!((norm_bound as f64 - found.rho() * f64::from(1 << 20)).abs() < 1e-6);
        assert!((found.redrawn() / (-t).exp() - 1.0).abs() < 1e-5);
        let compared = found.compared(batch);
        assert!((compared.devices.error / sigma - 1.0).abs() < 1e-4, "{compared:?}");
        assert!((compared.servers.error / sigma - 1.0).abs() < 1e-4 && compared.servers.rho == 1.0);
        assert_eq!(compared.is_rho_large(), expected > 2.0);
        assert!((found.compared(4 * batch).devices.error / sigma - 2.0).abs() < 1e-4);
    }
}

#[test]
fn parameters_that_do_not_make_sense_are_refused() {
    let refused = |length, norm_bound, noise: Noise| {
        let Err(Error::OutOfRange { name, .. }) = Gaussian::vectors(length, norm_bound, &noise)
        else {
            panic!("{noise:?}")
        };
        name
    };
    let good = of(1.0);
    assert!(Gaussian::vectors(100, 127, &good).is_ok());
    // 126/sqrt 1000 is 3.98.
    assert_eq!(refused(100, 126, good), "the noise of one device");
    let message = Gaussian::vectors(100, 126, &good).unwrap_err().to_string();
    assert!(message.contains("at least 4 units: use more fraction bits"), "{message}");
    assert_eq!(refused(0, 1_000, good), "the length");
    assert_eq!(refused(100, 0, good), "the largest norm");
    assert_eq!(refused(100, (1 << 50) + 1, good), "the largest norm");
    assert_eq!(refused(100, 1 << 40, good), "the noise of one device");
    let little = Noise { sigma_micro: 1, ..good };
    assert_eq!(refused(100, 1 << 50, little), "the largest norm with noise");
    assert_eq!(refused(100, 1_000, Noise { sigma_micro: 0, ..good }), "sigma");
    assert_eq!(refused(100, 1_000, Noise { contributions: 0, ..good }), "contributions");
    assert_eq!(refused(100, 1_000, Noise { rounds: 0, ..good }), "rounds");
    let few = Noise { most_contributions: 999, ..good };
    assert_eq!(refused(100, 1_000, few), "most_contributions");
    for delta in [0.0, 1.0, -1.0, f64::NAN] {
        assert_eq!(refused(100, 1_000, Noise { delta, ..good }), "delta");
    }
    let zero_out = Noise { adjacency: Adjacency::ZeroOut, ..good };
    assert!(Gaussian::vectors(100, 1_000, &zero_out).is_err());
    assert!(Gaussian::symbols(Encoding::Bit, 1_000, &good).is_err());
    assert!(Gaussian::symbols(one_hot(5), 1_000, &good).is_ok());
}

/// The noise of 1,000 devices: whole numbers that add up to the claimed law. 400 sums: the chi-square
/// statistic of 20 classes of equal probability, above 55 with probability 2e-5; the variance within
/// 4.5 of its standard deviations.
#[test]
fn the_noise_of_a_thousand_devices_adds_up_to_the_law() {
    const LENGTH: u32 = 400;
    let mechanism = Gaussian::vectors(LENGTH, 500, &of(1.0)).unwrap();
    let claimed = mechanism.added_variance(1_000).unwrap();
    // Never less than the recipe says: sigma times the bound.
    assert!((500.0 * 500.0..500.01 * 500.01).contains(&claimed), "{claimed}");
    let mut rng = rng(3);
    let mut sums = vec![0_i64; LENGTH as usize];
    let mut exact = vec![0_i64; LENGTH as usize];
    for device in 0..1_000 {
        let mut value = vec![0; LENGTH as usize];
        value[device % 7] = 300;
        value[device % 11 + 7] = -400;
        exact.iter_mut().zip(&value).for_each(|(sum, number)| *sum += number);
        let Value::Vector(sent) = mechanism.randomize(Value::Vector(value), &mut rng) else {
            panic!()
        };
        sums.iter_mut().zip(&sent).for_each(|(sum, number)| *sum += number);
    }
    let noise: Vec<f64> =
        sums.iter().zip(&exact).map(|(sum, exact)| (sum - exact) as f64).collect();
    let squares: f64 = noise.iter().map(|x| x * x).sum();
    let off = (squares / claimed - f64::from(LENGTH)) / (2.0 * f64::from(LENGTH)).sqrt();
    assert!(off.abs() < 4.5, "the variance is off by {off} standard deviations");
    // Classes by the quantiles of the normal law, which at a standard deviation of 500 is the law.
    let ends: [f64; 9] = [
        0.125_661, 0.253_347, 0.385_320, 0.524_401, 0.674_490, 0.841_621, 1.036_433, 1.281_552,
        1.644_854,
    ];
    let mut counts = [0_u32; 20];
    for number in &noise {
        let z = number / claimed.sqrt();
        let class = ends.iter().filter(|end| z.abs() > **end).count();
        counts[if z < 0.0 { 9 - class } else { 10 + class }] += 1;
    }
    let expected = f64::from(LENGTH) / 20.0;
    let statistic: f64 =
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    assert!(statistic < 55.0, "{statistic}: {counts:?}");
}

/// One device: each number is a discrete Gaussian of its own.
#[test]
fn the_noise_of_one_device_is_discrete_gaussian() {
    let noise = Noise { contributions: 1, most_contributions: 1, ..of(0.5) };
    let mechanism = Gaussian::vectors(20_000, 10, &noise).unwrap();
    let mut rng = rng(4);
    let Some(Value::Vector(sent)) = mechanism.dummy(&mut rng) else { panic!() };
    let sigma = mechanism.added_variance(1).unwrap().sqrt();
    assert!((5.0..5.001).contains(&sigma));
    let weight = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
    let total: f64 = (-60..=60).map(weight).sum();
    // 25 classes, above 70 with probability 3e-6.
    let mut statistic = 0.0;
    for x in -12..=12 {
        let expected = 20_000.0 * weight(x) / total;
        let found = sent.iter().filter(|number| **number == x).count() as f64;
        statistic += (found - expected).powi(2) / expected;
    }
    assert!(statistic < 70.0, "{statistic}");
}

/// How long honest reports come out before any is drawn again, of what is accepted, and how many are
/// too long.
fn longest(reports: u64, seed: u64) -> (f64, u64) {
    let length = 650;
    // The noise of one report is twice as long as the value.
    let noise = Noise { contributions: 3_000, most_contributions: 4_000, ..of(3.197) };
    let bound = 1 << 14;
    let mechanism = Gaussian::vectors(length, bound, &noise).unwrap();
    let Encoding::Vector { norm_bound, .. } = mechanism.encoding() else { panic!() };
    let mut rng = rng(seed);
    // The longest value is the likeliest to be too long, in whatever direction.
    let direction: Vec<f64> = (0..length).map(|_| normal(&mut rng)).collect();
    let value = clip(&direction, length, 40, bound);
    assert!(squares(&value) as f64 > 0.999 * (bound as f64).powi(2));
    let (mut most, mut above) = (0.0_f64, 0);
    let one = mechanism.noise();
    for _ in 0..reports {
        let sent: Vec<i64> = value.iter().map(|number| number + one.sample(&mut rng)).collect();
        above += u64::from(!is_within(&sent, norm_bound));
        most = most.max((squares(&sent) as f64).sqrt() / norm_bound as f64);
    }
    (most, above)
}

/// A slice of the campaign. A report is above the bound with probability 1e-15.
#[test]
fn no_honest_report_is_longer_than_rho() {
    let (most, above) = longest(3_000, 5);
    assert!(above == 0 && most < 1.0 && most > 0.8, "{most} {above}");
}

/// `SOTTO_CASES` reports, 600,000 if it does not say.
#[test]
#[ignore = "minutes"]
fn no_honest_report_of_many_is_longer_than_rho() {
    let reports = cases(600_000);
    let (most, above) = longest(reports, 6);
    println!("{reports} reports: {above} above rho, the longest {most:.4} of it");
    assert!(above == 0, "{above}");
}

/// Where the bound is tight, what is sent is drawn again until it fits.
#[test]
fn what_is_sent_is_never_longer_than_rho() {
    // e^-t is large, by a claim that nobody could make: 1 of 200 may be too long.
    let noise =
        Noise { contributions: 1, most_contributions: 1, epsilon_micro: 0, delta: 0.99, ..of(8.0) };
    let mechanism = Gaussian::vectors(40, 2, &noise).unwrap();
    let Encoding::Vector { norm_bound, .. } = mechanism.encoding() else { panic!() };
    let mut rng = rng(7);
    let mut value = vec![0; 40];
    value[3] = -2;
    let (one, mut drawn_again) = (mechanism.noise(), 0);
    for _ in 0..4_000 {
        let first: Vec<i64> = value.iter().map(|number| number + one.sample(&mut rng)).collect();
        drawn_again += u32::from(!is_within(&first, norm_bound));
        let sent = mechanism.randomize(Value::Vector(value.clone()), &mut rng);
        let Value::Vector(sent) = sent else { panic!() };
        assert!(is_within(&sent, norm_bound));
    }
    // At most as often as is charged: 20 times, and 45 with probability 1e-6.
    assert!((1..45).contains(&drawn_again), "{drawn_again}");
    assert!((mechanism.redrawn() - 0.99 / 200.0).abs() < 1e-6);
}

/// The law does not depend on the length, nor on whether a vector was projected: what counts is the
/// norm. Half of the batch is honest: the epsilon is not below that of half of the noise, and hardly
/// above.
#[test]
fn epsilon_depends_on_noise_and_norm_alone() {
    for adjacency in [Adjacency::AddRemove, Adjacency::Replace] {
        let noise = Noise { adjacency, ..of(4.0) };
        let epsilon = |law: Law| {
            judge(&Terms::new(law, 0.02, 1_000, 1), Some(1 << 40), 1e-8).unwrap().epsilon
        };
        let long = Gaussian::vectors(1_000_000, 1 << 15, &noise).unwrap().law();
        let short = Gaussian::vectors(10_000, 1 << 15, &noise).unwrap().law();
        let coarse = Gaussian::vectors(10_000, 1 << 10, &noise).unwrap().law();
        let [long, short, coarse] = [long, short, coarse].map(epsilon);
        assert!((long / short - 1.0).abs() < 1e-4, "{long} {short}");
        // The same guarantee in coarser units: the rounding of the noise, up, is seen.
        assert!((coarse / short - 1.0).abs() < 1e-3, "{coarse} {short}");
        let server = Encoding::Vector { length: 10_000, norm_bound: 1 << 15 };
        let half = 1e6 * 4.0 * f64::from(1 << 15) / 2f64.sqrt();
        let server = ServerNoise::new(server, half as u64, adjacency).unwrap().law();
        let server = epsilon(server);
        assert!((short / server - 1.0).abs() < 2e-3, "{short} {server}");
    }
    // Two symbols are sqrt 2 apart, two vectors 2.
    let epsilon = |law: Law| judge(&Terms::new(law, 1.0, 1_000, 1), None, 1e-8).unwrap().epsilon;
    let symbols = Gaussian::symbols(one_hot(50), 1 << 15, &of(4.0)).unwrap();
    let vectors = Gaussian::vectors(50, 1 << 15, &of(4.0)).unwrap();
    let ratio = epsilon(vectors.law()) / epsilon(symbols.law());
    assert!((1.4..1.7).contains(&ratio), "{ratio}");
}
