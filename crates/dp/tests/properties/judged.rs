//! The recipe rule: the judged epsilon holds for every population, under add/remove for every one
//! that is not below the certified one.

use sotto_dp::recipe::{Law, Terms, judge};
use sotto_dp::{Shape, shuffle};

use super::brute::{Step, binomial};
use super::counts::Round;
use super::stream::Stream;

/// Populations that are tried: all up to this.
const MOST: u64 = 400;

/// The divergence of what is seen with `others` other honest devices when no sum is released below
/// `least` honest contributions: every count, and the sum from there on; (the device leaves, the
/// device comes).
fn thresholded(round: &Round, least: usize, epsilon: f64) -> (f64, f64) {
    let (mut leaves, mut comes) = (0.0, 0.0);
    let ratio = epsilon.exp();
    for (k, (base, before)) in round.counts().into_iter().enumerate() {
        let sending = round.sending();
        if k < least {
            let with = (1.0 - sending) * base + sending * before;
            leaves += (with - ratio * base).max(0.0);
            comes += (base - ratio * with).max(0.0);
        } else if base.max(before) > 1e-18 {
            let (a, b) = if round.dummy_rate == 0.0 {
                let distance = round.shape.replacement_distance();
                let (gone, moved) = (sending, sending * before);
                let step = Step { base, gone, moved, distance, sigma: round.sigma };
                (step.leaves(epsilon), step.comes(epsilon))
            } else {
                round.at_count((base, before), epsilon)
            };
            (leaves, comes) = (leaves + a, comes + b);
        }
    }
    (leaves, comes)
}

/// The judged epsilon of one recipe with `honest` certified honest others holds for the populations
/// given, except for smaller ones; the largest share of delta that it takes.
fn gaussian_case(
    terms: &Terms,
    honest: u64,
    delta: f64,
    populations: impl Iterator<Item = u64>,
) -> f64 {
    let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
    let epsilon = judge(terms, Some(2 * honest + 1), delta).unwrap().epsilon;
    if !epsilon.is_finite() {
        return 0.0;
    }
    let least = terms.min_batch.div_ceil(2) as usize;
    let sigma = sigma * 0.5f64.sqrt();
    let (rate, dummy_rate) = (terms.rate, terms.dummy_rate);
    let mut worst = 0.0f64;
    for others in populations.filter(|others| *others >= honest) {
        let round = Round { rate, others, dummy_rate, sigma, shape };
        let (leaves, comes) = thresholded(&round, least, epsilon);
        let found = leaves.max(comes);
        assert!(
            found <= delta * (1.0 + 1e-9),
            "{terms:?} {honest} {delta:e}: {epsilon} at {others}: {found:e}"
        );
        worst = worst.max(found / delta);
    }
    worst
}

fn gaussian_terms(stream: &mut Stream, dummy_rate: f64) -> Terms {
    let shape = if stream.whole(0, 1) == 0 { Shape::OneHot } else { Shape::Vector };
    let law = Law::Gaussian { sigma: stream.spread(0.8, 8.0), shape };
    let (rate, min_batch) = (stream.spread(0.03, 0.9), stream.whole(2, 60));
    Terms { law, rate, dummy_rate, min_batch, rounds: 1 }
}

#[test]
fn gaussian_recipes_hold_for_every_population() {
    let mut stream = Stream::new(13);
    let (mut finite, mut near) = (0, 0);
    for _ in 0..24 {
        let (terms, delta) = (gaussian_terms(&mut stream, 0.0), stream.spread(1e-8, 1e-2));
        for honest in [0, 4, 20, MOST] {
            let worst = gaussian_case(&terms, honest, delta, 0..=MOST);
            assert!(honest > 0 || worst == 0.0, "{terms:?}: finite although nobody is certified");
            finite += u32::from(worst > 0.0);
            near += u32::from(worst > 0.01);
        }
    }
    println!("{finite} finite, {near} within a factor of 100 of delta");
    assert!(finite >= 36 && near >= 12);
}

/// Two rounds, the first among so few that nothing is released, the second among any number.
#[test]
fn gaussian_recipes_hold_if_the_population_changes() {
    let mut stream = Stream::new(18);
    let mut worst = 0.0f64;
    for _ in 0..10 {
        let (terms, delta) = (gaussian_terms(&mut stream, 0.0), stream.spread(1e-6, 1e-2));
        let Terms { rate, min_batch, .. } = terms;
        let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
        let honest = stream.whole(3, 12);
        let epsilon =
            judge(&Terms { rounds: 2, ..terms }, Some(2 * honest + 1), delta).unwrap().epsilon;
        if !epsilon.is_finite() {
            continue;
        }
        let round =
            |others| Round { rate, others, dummy_rate: 0.0, sigma: sigma * 0.5f64.sqrt(), shape };
        let least = min_batch.div_ceil(2) as usize;
        for others in (honest..=MOST).step_by(9) {
            let (mut leaves, mut comes) = (0.0, 0.0);
            for (base, before) in round(honest).counts() {
                let with = (1.0 - rate) * base + rate * before;
                let loss = (with / base).ln();
                if base > 0.0 {
                    leaves += with * thresholded(&round(others), least, epsilon - loss).0;
                    comes += base * thresholded(&round(others), least, epsilon + loss).1;
                } else {
                    leaves += with;
                }
            }
            let found = leaves.max(comes);
            assert!(found <= delta * (1.0 + 1e-9), "{terms:?} {honest} {others}: {found:e}");
            worst = worst.max(found / delta);
        }
    }
    assert!(worst > 0.01, "{worst}");
}

#[test]
fn gaussian_recipes_with_dummies_hold_for_many_populations() {
    let mut stream = Stream::new(14);
    for _ in 0..8 {
        let dummy_rate = stream.between(0.05, 0.6);
        let (terms, delta) = (gaussian_terms(&mut stream, dummy_rate), stream.spread(1e-8, 1e-2));
        // Those around the edge, where releases become likely, and some beyond.
        let sending = terms.rate + (1.0 - terms.rate) * dummy_rate;
        let edge = (0.5 * terms.min_batch as f64 / sending) as u64;
        for honest in [edge / 3, edge] {
            let populations = (0..=2 * edge + 10).step_by(1 + edge as usize / 12);
            gaussian_case(&terms, honest, delta, populations);
        }
    }
}

/// Given the count, the senders are a uniform subset: each count's shuffle is bounded by
/// `krr_delta`, sampled without replacement, `H(ln(1 + r (e^a - 1))) <= r H(a)`.
#[test]
fn randomized_response_recipes_hold_for_every_population() {
    let mut stream = Stream::new(15);
    let mut amplified = 0;
    for _ in 0..10 {
        let (epsilon0, symbols) = (stream.between(0.5, 4.0), stream.whole(2, 12));
        let law = Law::RandomizedResponse { epsilon0, k: symbols };
        let (rate, min_batch) = (stream.spread(0.05, 0.9), stream.whole(2, 120));
        let terms = Terms { law, rate, dummy_rate: 0.0, min_batch, rounds: 1 };
        let delta = stream.spread(1e-7, 1e-2);
        let epsilon = judge(&terms, None, delta).unwrap().epsilon;
        assert!(epsilon <= epsilon0 * (1.0 + 1e-9), "{terms:?}: {epsilon}");
        amplified += u32::from(epsilon < 0.9 * epsilon0);
        let least = min_batch.div_ceil(2);
        for devices in (least..=MOST).step_by(3) {
            let law = binomial(devices, rate);
            let mut sum = 0.0;
            for k in least..=devices {
                let mass = law[k as usize];
                if mass < 1e-6 * delta / MOST as f64 {
                    sum += mass;
                    continue;
                }
                let share = k as f64 / devices as f64;
                let inner = (epsilon.exp_m1() / share).ln_1p();
                sum += mass * share * shuffle::krr_delta(epsilon0, symbols, k, inner);
            }
            assert!(
                sum <= delta * (1.0 + 1e-9),
                "{terms:?} {delta:e}: {epsilon} at {devices}: {sum:e}"
            );
        }
    }
    assert!(amplified >= 5, "{amplified}");
}
