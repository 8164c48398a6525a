//! Randomized response on the device: exact probabilities, at most the epsilon asked for, nothing
//! to see from outside.

use std::convert::Infallible;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng, TryCryptoRng, TryRng};
use sotto_dp::Event;
use sotto_dp::mechanism::projective_geometry::ProjectiveGeometry;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::rappor::Rappor;
use sotto_dp::mechanism::{Method, Sampling};
use sotto_dp::recipe::Law;

const ONE: u64 = 1 << 63;

/// `a b` in 256 bits: high and low half.
fn wide(a: u128, b: u128) -> (u128, u128) {
    let (mask, half) = (u128::from(u64::MAX), 64);
    let (a1, a0, b1, b0) = (a >> half, a & mask, b >> half, b & mask);
    let (middle, carry) = (a1 * b0).overflowing_add(a0 * b1);
    let (low, overflow) = (a0 * b0).overflowing_add(middle << half);
    let high = a1 * b1 + (middle >> half) + (u128::from(carry) << half) + u128::from(overflow);
    (high, low)
}

/// One in fixed point.
const FIXED: u32 = 127;

/// `a b` in fixed point, rounded down and up.
fn times(a: u128, b: u128) -> (u128, u128) {
    let (high, low) = wide(a, b);
    let down = (high << 1) | (low >> FIXED);
    (down, down + 1)
}

/// An upper bound of `e^-x` in fixed point, for `x` in millionths below 2^27. Sharp to about
/// 2^-100.
fn exp_minus_upper(micro: u64) -> u128 {
    exp_of_256_upper((1_u128 << FIXED) / 256_000_000 * u128::from(micro))
}

/// The same for `num/2^50` below 1.
fn exp_minus_upper_binary(num: u64) -> u128 {
    exp_of_256_upper(u128::from(num) << (FIXED - 50 - 8))
}

/// An upper bound of `e^-256y`, for `y` in fixed point below 1.
fn exp_of_256_upper(y: u128) -> u128 {
    // e^-y from its series and eight squarings, always rounding up.
    let (mut low, mut high) = (1_u128 << FIXED, 1_u128 << FIXED);
    let mut sum = 1_u128 << FIXED;
    for n in 1..=40_u128 {
        (low, high) = (times(low, y).0 / n, times(high, y).1 / n + 1);
        sum = if n % 2 == 1 { sum - low } else { sum + high };
    }
    (0..8).fold(sum, |power, _| times(power, power).1.min(1 << FIXED))
}

#[test]
fn the_reference_exponential() {
    for micro in [1, 1_000, 500_000, 1_000_000, 4_000_000, 30_000_000] {
        let bound = exp_minus_upper(micro) as f64 / (FIXED as f64).exp2();
        let expected = (-(micro as f64) / 1e6).exp();
        assert!((bound / expected - 1.0).abs() < 1e-14, "{micro}: {bound} against {expected}");
    }
}

/// The ratio of two likelihoods, `T (k - 1)/(2^63 - T)`, is at most `e^epsilon`, in whole numbers;
/// and it is not far below.
#[test]
fn the_local_epsilon_is_at_most_the_one_asked_for() {
    let mut cases = Vec::new();
    for symbols in [2, 3, 4, 5, 16, 17, 256, 1_000, 65_536, 1_000_003, u64::from(u32::MAX)] {
        for micro in [1, 2, 3, 10, 999, 1_000, 123_457, 500_000, 693_147, 693_148, 1_000_000] {
            cases.push((micro, symbols));
        }
        for micro in (1..100_000_000).step_by(1_234_567) {
            cases.push((micro, symbols));
        }
    }
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for _ in 0..2_000 {
        cases.push((1 + rng.next_u64() % 30_000_000, 2 + rng.next_u64() % 10_000));
    }
    for (micro, symbols) in cases {
        let response = RandomizedResponse::new(micro, symbols).unwrap();
        let keep = response.keep_threshold();
        let (lose, k) = (u128::from(ONE - keep), u128::from(symbols));
        let weight = u128::from(keep) * (k - 1);
        let (ratio, limit) = (wide(weight, exp_minus_upper(micro)), wide(lose, 1 << FIXED));
        assert!(ratio <= limit, "epsilon {micro}e-6, k = {symbols}: T = {keep}");
        assert!(u128::from(keep) * k >= u128::from(ONE), "below 1/k: {micro}, {symbols}");
        // At most 1e-9 is lost, but where one bit of 63 is worth more.
        let implied = (weight as f64).ln() - (lose as f64).ln();
        let bit = 1.0 / lose as f64 + 1.0 / keep as f64;
        let lost = micro as f64 / 1e6 - implied;
        let most = 1e-9 + 2.0 * bit;
        assert!(lost < most || lose == 1, "{micro}, {symbols}: {lost} lost");
    }
}

/// Many epsilons, small and large.
fn epsilons() -> impl Iterator<Item = u64> {
    let few = [1, 2, 3, 10, 999, 1_000, 123_457, 500_000, 693_147, 693_148, 1_000_000];
    few.into_iter().chain((1..30_000_000).step_by(123_457))
}

/// RAPPOR's ratio `(1 - p)/p` is at most `e^epsilon0`: `e^-x (1 + e^-epsilon0) <= 1`, in whole
/// numbers. And it is not far below.
#[test]
fn flips_keep_the_local_epsilon() {
    for micro in epsilons() {
        let rappor = Rappor::new(micro, 10, 1).unwrap();
        assert_eq!(rappor.flips().den(), 1 << 50);
        let kept = exp_minus_upper_binary(rappor.flips().num());
        let both = kept + times(kept, exp_minus_upper(micro)).1;
        assert!(both <= 1 << FIXED, "{micro}");
        let p = rappor.flip_probability();
        let lost = micro as f64 / 1e6 - ((1.0 - p) / p).ln();
        // One step of the numerator is worth 2^-50/p.
        let most = 1e-12 + 2e-15 / p;
        assert!((-1e-9..most).contains(&lost), "{micro}: {lost} lost");
    }
}

/// Projective geometry: against the uniform law no message is more than `e^epsilon0` times, or less
/// than `e^-epsilon0` times, as likely. In whole numbers.
#[test]
fn messages_keep_the_local_epsilon() {
    for symbols in [2, 10, 100, 1_000, 5_000] {
        for micro in epsilons().step_by(4) {
            let response = ProjectiveGeometry::new(micro, symbols).unwrap();
            let all = u128::from(response.messages());
            let own = u128::from(response.incidences().0);
            let (one, hit) = (u128::from(ONE), u128::from(response.hit_threshold()));
            let less = exp_minus_upper(micro);
            let at = format!("epsilon {micro}e-6, {symbols} symbols");
            assert!(wide(hit * all, less) <= wide(own * one, 1 << FIXED), "{at}");
            assert!(wide(one * (all - own), less) <= wide((one - hit) * all, 1 << FIXED), "{at}");
            assert!(hit * all >= one * own, "{at}: less likely than by the uniform law");
            let replaced = response.local_epsilon().unwrap();
            let ratio = (hit as f64 / own as f64) / ((one - hit) as f64 / (all - own) as f64);
            assert!(ratio.ln() <= replaced, "{at}");
            assert!(ratio.ln() > replaced - 1e-6, "{at}: {} against {replaced}", ratio.ln());
        }
    }
}

#[test]
fn a_huge_epsilon_leaves_one_chance_in_two_to_the_63() {
    for micro in [80_000_000, 1_000_000_000, u64::MAX] {
        let response = RandomizedResponse::new(micro, 1_000).unwrap();
        assert_eq!(response.keep_threshold(), ONE - 1);
    }
}

#[test]
fn parameters_out_of_range() {
    for (micro, symbols) in [(0, 2), (1, 0), (1, 1), (1, 1 << 32), (1, u64::MAX)] {
        assert!(RandomizedResponse::new(micro, symbols).is_err(), "{micro}, {symbols}");
    }
}

#[test]
fn the_event_has_no_less_epsilon() {
    let Some(Event::RandomizedResponse { epsilon0, k }) =
        RandomizedResponse::new(4_100_003, 100).unwrap().event()
    else {
        panic!("another event");
    };
    assert!((4.100003..4.100003 + 1e-14).contains(&epsilon0) && k == 100);
}

/// One label or a point has a law of its own; several labels are any randomizer of their epsilon.
#[test]
fn laws_and_epsilons_are_those_of_the_notion() {
    let one = Rappor::new(1_500_000, 20, 1).unwrap();
    let Law::Rappor { epsilon0, k: 20 } = one.law() else { panic!("{:?}", one.law()) };
    assert_eq!(one.event(), Some(Event::Rappor { epsilon0, k: 20 }));
    assert!((1.5..1.5 + 1e-12).contains(&epsilon0));
    let several = Rappor::new(1_500_000, 20, 3).unwrap();
    let Law::PureDp { epsilon0 } = several.law() else { panic!("{:?}", several.law()) };
    assert_eq!((several.local_epsilon(), epsilon0 >= 9.0), (Some(epsilon0), true));
    let points = ProjectiveGeometry::new(1_500_000, 20).unwrap();
    let (order, dimension) = points.geometry();
    let law = points.law();
    let holds = matches!(law, Law::ProjectiveGeometry { order: q, dimension: t, .. } if (q, t) == (order, dimension));
    assert!(holds, "{law:?}");
    // Both aggregators collude: a crowd helps, and several labels are no better than one.
    let sampling = Sampling { population: 100_000, rate_low: 0.5, rate_high: 0.5 };
    let colluding = |method: &dyn Method| {
        let found = method.colluding(&sampling, 1e-9).unwrap().unwrap();
        assert!(found.epsilon <= method.local_epsilon().unwrap());
        found.epsilon
    };
    assert!(colluding(&one) < 0.5 * 3.0 && colluding(&points) < 0.5 * 3.0);
    assert!(colluding(&several) >= colluding(&one));
}

/// Chi-square over the reported symbols, at a false-alarm rate of 1e-6 for each of 13 tests.
#[test]
fn reports_follow_the_law() {
    const REPORTS: u32 = 200_000;
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for (micro, symbols, values, critical) in [
        (1_000_000, 2_u32, vec![0, 1], 23.928),
        (3_000_000, 2, vec![0, 1], 23.928),
        (10, 5, vec![2], 33.377),
        (1_000_000, 5, vec![0, 1, 2, 3, 4], 33.377),
        (2_500_000, 16, vec![0, 7, 15], 56.493),
    ] {
        let response = RandomizedResponse::new(micro, u64::from(symbols)).unwrap();
        let keep = response.keep_probability().unwrap();
        let other = (1.0 - keep) / f64::from(symbols - 1);
        for value in values {
            let mut counts = vec![0_u32; symbols as usize];
            for _ in 0..REPORTS {
                counts[response.respond(value, &mut rng) as usize] += 1;
            }
            let cell = |(symbol, count): (usize, &u32)| {
                let probability = if symbol == value as usize { keep } else { other };
                let expected = f64::from(REPORTS) * probability;
                (f64::from(*count) - expected).powi(2) / expected
            };
            let statistic: f64 = counts.iter().enumerate().map(cell).sum();
            assert!(statistic < critical, "{micro}, {symbols}, {value}: {statistic}");
        }
    }
}

/// Gives the words that it was told, and counts them.
struct Script {
    words: Vec<u64>,
    drawn: usize,
}

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("whole words only");
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.drawn += 1;
        Ok(self.words[self.drawn - 1])
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        panic!("whole words only");
    }
}

impl TryCryptoRng for Script {}

/// The keep word decides exactly at the threshold; the other word gives each other symbol as often;
/// and as many words are drawn whatever the value is and whether it is kept.
#[test]
fn the_words_drawn_do_not_tell() {
    let response = RandomizedResponse::new(1_500_000, 4).unwrap();
    let keep = response.keep_threshold();
    for value in 0..4 {
        let others: Vec<u32> = (0..4).filter(|symbol| *symbol != value).collect();
        for (word, kept) in [(0, true), (2 * keep - 1, true), (2 * keep, false), (u64::MAX, false)]
        {
            for other in 0..9_u64 {
                // 0 is the one word that is rejected, so that each third of the rest is as large.
                let third = (u128::from(other % 3) << 64).div_ceil(3) as u64 + 1 + other;
                for rejected in 0..3 {
                    let mut words = vec![word];
                    words.extend(vec![0; rejected]);
                    words.extend([third, 0, 0]);
                    let mut script = Script { words, drawn: 0 };
                    let reported = response.respond(value, &mut script);
                    let expected = if kept { value } else { others[(other % 3) as usize] };
                    assert_eq!(reported, expected);
                    assert_eq!(script.drawn, 2 + rejected);
                }
            }
        }
    }
}

#[test]
fn a_value_that_is_no_symbol_counts_as_the_last_one() {
    let response = RandomizedResponse::new(2_000_000, 3).unwrap();
    for seed in 0..50 {
        let report = |value| response.respond(value, &mut ChaCha20Rng::seed_from_u64(seed));
        assert_eq!(report(2), report(3));
        assert_eq!(report(2), report(u32::MAX));
    }
}
