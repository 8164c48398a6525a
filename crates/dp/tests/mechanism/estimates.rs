//! Estimates: unbiased, with honest errors and intervals that hold as often as they say.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_dp::Error;
use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Collected, Encoding, Estimate, Method, Rates};

const COLLECTIONS: u32 = 2_500;
const LEVEL: f64 = 0.95;

/// Five standard deviations of a frequency of 0.95 in 2,500 trials: a false alarm in 1.7 million.
const SLACK: f64 = 0.0218;

/// Exact values.
fn exact(length: u32) -> Exact {
    Exact::of(Encoding::OneHot { length })
}

/// Estimates where every device takes part with probability `rate`.
fn estimates(
    method: &dyn Method,
    sums: &[u128],
    reports: u64,
    rate: f64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    let sums: Vec<i128> = sums.iter().map(|sum| *sum as i128).collect();
    method.estimates(&Collected { sums: &sums, reports, sampling: Rates::all(rate), level })
}

/// One collection: of the devices that hold each symbol, how many take part, and what is counted.
fn collect(
    population: &[u32],
    rate: f64,
    response: Option<&RandomizedResponse>,
    rng: &mut ChaCha20Rng,
) -> (Vec<u64>, Vec<u128>) {
    let (mut taking_part, mut counts) = (vec![0; population.len()], vec![0; population.len()]);
    for (symbol, devices) in population.iter().enumerate() {
        for _ in 0..*devices {
            if (rng.next_u64() >> 11) as f64 / (53_f64).exp2() < rate {
                taking_part[symbol] += 1;
                let reported = response
                    .map_or(symbol, |response| response.respond(symbol as u32, rng) as usize);
                counts[reported] += 1;
            }
        }
    }
    (taking_part, counts)
}

/// What came of many collections, for one symbol.
#[derive(Clone, Copy, Default)]
struct Record {
    sum: f64,
    squares: f64,
    /// Sums of the variances that were claimed, and of the squared errors that the noise made.
    noise_claimed: f64,
    total_claimed: f64,
    noise_squares: f64,
    noise_held: u32,
    total_held: u32,
    negative: u32,
}

impl Record {
    fn add(&mut self, found: &Estimate, taking_part: f64, truth: f64) {
        self.sum += found.value;
        self.squares += (found.value - truth).powi(2);
        self.noise_squares += (found.value - taking_part).powi(2);
        self.noise_claimed += found.noise_error.powi(2);
        self.total_claimed += found.total_error.powi(2);
        self.noise_held +=
            u32::from(found.noise_low <= taking_part && taking_part <= found.noise_high);
        self.total_held += u32::from(found.total_low <= truth && truth <= found.total_high);
        self.negative += u32::from(found.value < 0.0);
    }
}

fn run(
    population: &[u32],
    rate: f64,
    response: Option<&RandomizedResponse>,
    seed: u64,
) -> Vec<Record> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut records = vec![Record::default(); population.len()];
    for _ in 0..COLLECTIONS {
        let (taking_part, counts) = collect(population, rate, response, &mut rng);
        let reports = counts.iter().sum::<u128>() as u64;
        let found = match response {
            Some(response) => estimates(response, &counts, reports, rate, LEVEL).unwrap(),
            None => {
                estimates(&exact(population.len() as u32), &counts, reports, rate, LEVEL).unwrap()
            }
        };
        for (symbol, record) in records.iter_mut().enumerate() {
            let truth = f64::from(population[symbol]);
            record.add(&found[symbol], taking_part[symbol] as f64 / rate, truth);
        }
    }
    records
}

/// Three collections of different kinds: 15 symbols in all, five checks each, so 75 chances of a
/// false alarm, each below one in a million.
#[test]
fn randomized_response_is_unbiased_and_its_intervals_hold() {
    for (population, rate, micro, seed) in [
        (vec![1_500, 900, 450, 150, 0], 0.3, 1_000_000, 1),
        (vec![400, 800], 0.5, 500_000, 2),
        (vec![700, 500, 300, 200, 100, 50, 20, 0], 0.8, 3_000_000, 3),
    ] {
        let response = RandomizedResponse::new(micro, population.len() as u64).unwrap();
        for (symbol, record) in run(&population, rate, Some(&response), seed).iter().enumerate() {
            let trials = f64::from(COLLECTIONS);
            let at = format!("seed {seed}, symbol {symbol}");
            let error = (record.squares / trials).sqrt();
            let bias = record.sum / trials - f64::from(population[symbol]);
            assert!(bias.abs() < 5.0 * error / trials.sqrt(), "{at}: bias {bias}, error {error}");
            // A variance from 2,500 trials of a nearly normal law is known to 2.8 %: five times
            // that.
            for (found, claimed) in [
                (record.squares, record.total_claimed),
                (record.noise_squares, record.noise_claimed),
            ] {
                assert!((found / claimed - 1.0).abs() < 0.14, "{at}: {found} against {claimed}");
            }
            for held in [record.noise_held, record.total_held] {
                let frequency = f64::from(held) / trials;
                // Of few reports, an exact interval cannot miss a truth of 0 from above.
                let most = if population[symbol] > 0 { LEVEL } else { 0.5 * (1.0 + LEVEL) };
                let holds = frequency > LEVEL - SLACK && frequency < most + SLACK;
                assert!(holds, "{at}: held in {frequency}");
            }
        }
    }
}

/// What nobody holds is estimated below zero as often as above.
#[test]
fn negative_estimates_stay_negative() {
    let response = RandomizedResponse::new(1_000_000, 3).unwrap();
    let record = run(&[600, 600, 0], 0.5, Some(&response), 4)[2];
    let frequency = f64::from(record.negative) / f64::from(COLLECTIONS);
    // Five standard deviations, and a little for a law that is not quite symmetric.
    assert!((frequency - 0.5).abs() < 0.05 + 0.02, "{frequency}");
}

#[test]
fn without_noise_only_sampling_is_uncertain() {
    let population = [4_000, 1_000, 300, 0];
    for (symbol, record) in run(&population, 0.1, None, 5).iter().enumerate() {
        let trials = f64::from(COLLECTIONS);
        assert_eq!(record.noise_held, COLLECTIONS, "the count of those who took part is known");
        assert_eq!(record.noise_claimed, 0.0);
        if population[symbol] == 0 {
            assert_eq!((record.sum, record.total_held), (0.0, COLLECTIONS));
            continue;
        }
        let error = (record.squares / trials).sqrt();
        let bias = record.sum / trials - f64::from(population[symbol]);
        assert!(bias.abs() < 5.0 * error / trials.sqrt(), "{symbol}: bias {bias}");
        assert!((record.squares / record.total_claimed - 1.0).abs() < 0.14, "{symbol}");
        let frequency = f64::from(record.total_held) / trials;
        assert!((frequency - LEVEL).abs() < SLACK, "{symbol}: held in {frequency}");
    }
}

/// Where a count is expected to be 2, `value +- 1.96 errors` would miss the truth in one case of
/// seven: at zero it is a point.
#[test]
fn intervals_of_small_counts_hold() {
    let record = run(&[20, 1_000], 0.1, None, 6)[0];
    assert!(f64::from(record.total_held) / f64::from(COLLECTIONS) > LEVEL - SLACK);
}

#[test]
fn by_hand() {
    let z = 1.959_963_984_540_054_f64;
    let close = |found: f64, expected: f64| {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found}, {expected}");
    };
    let found = estimates(&exact(2), &[0, 30], 30, 0.25, LEVEL).unwrap();
    // None of 12 holders takes part with probability 0.75^12 = 0.032, of 13 with 0.024.
    assert_eq!((found[0].total_low, found[0].total_high), (0.0, 12.0));
    close(found[1].value, 120.0);
    close(found[1].total_error, (30.0_f64 * 0.75).sqrt() / 0.25);
    assert_eq!((found[1].noise_low, found[1].noise_high), (120.0, 120.0));

    // k = 2: p = e/(1 + e), d = p - s = tanh(1/2), and the noise has the variance m p s/d^2
    // whatever the truth is.
    let response = RandomizedResponse::new(1_000_000, 2).unwrap();
    let found = estimates(&response, &[7_000, 3_000], 10_000, 0.5, LEVEL).unwrap();
    let (keep, gap) = (1.0 / (1.0 + (-1.0_f64).exp()), 0.5_f64.tanh());
    let taken = (7_000.0 - 10_000.0 * (1.0 - keep)) / gap;
    let noise = (10_000.0 * keep * (1.0 - keep)).sqrt() / gap;
    close(found[0].value, taken / 0.5);
    close(found[0].value + found[1].value, 20_000.0);
    close(found[0].noise_error, noise / 0.5);
    close(found[0].noise_low, (taken - z * noise) / 0.5);
    close(found[0].noise_high, (taken + z * noise) / 0.5);
    close(found[0].total_error, (noise * noise + 0.5 * taken).sqrt() / 0.5);
    // The score interval: at its ends the estimate is z standard deviations away.
    for end in [found[0].total_low, found[0].total_high] {
        let there = 0.5 * end;
        close((taken - there).powi(2), z * z * (noise * noise + 0.5 * there));
    }
}

/// `P(Bin(n, p) = k)`.
fn binomial(n: u64, p: f64, k: u64) -> f64 {
    if k > n {
        return 0.0;
    }
    if p <= 0.0 || p >= 1.0 {
        return f64::from(u8::from(k == if p <= 0.0 { 0 } else { n }));
    }
    let (size, hits) = (n as f64, k as f64);
    let choose =
        libm::lgamma(size + 1.0) - libm::lgamma(hits + 1.0) - libm::lgamma(size - hits + 1.0);
    (choose + hits * p.ln() + (size - hits) * (-p).ln_1p()).exp()
}

/// The likely values of a binomial variable, with their probabilities.
fn likely(n: u64, p: f64) -> Vec<(u64, f64)> {
    let (mean, spread) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    let first = (mean - 6.0 * spread - 12.0).max(0.0) as u64;
    let last = ((mean + 6.0 * spread + 12.0) as u64).min(n);
    (first..=last).map(|k| (k, binomial(n, p, k))).filter(|(_, mass)| *mass > 1e-8).collect()
}

/// Where few lies, or few holders among the participants, are expected, down to one event: the exact
/// probability that an interval holds the truth, by enumeration of everything that may be counted.
#[test]
fn intervals_of_few_events_hold() {
    let mut least = 1.0f64;
    for (micro, symbols) in [(12_000_000, 10), (4_000_000, 100), (8_000_000, 3), (1_000_000, 2)] {
        let response = RandomizedResponse::new(micro, symbols).unwrap();
        let keep = response.keep_probability().unwrap();
        let lie = (1.0 - keep) / (symbols - 1) as f64;
        for lies in [1.0, 2.0, 4.5, 10.0, 28.0, 80.0, 250.0] {
            let reports = (lies / (1.0 - keep)).round().clamp(3.0, 60_000.0) as u64;
            for holders in [0, reports / 10, reports / 2, reports] {
                let mut held = 0.0;
                let mut law = std::collections::BTreeMap::new();
                for (shown, a) in likely(holders, keep) {
                    for (lied, b) in likely(reports - holders, lie) {
                        *law.entry(shown + lied).or_insert(0.0) += a * b;
                    }
                }
                for (count, mass) in law {
                    let mut counts = vec![0_u128; symbols as usize];
                    (counts[0], counts[1]) = (count.into(), (reports - count).into());
                    let found = estimates(&response, &counts, reports, 1.0, LEVEL).unwrap()[0];
                    let truth = holders as f64;
                    let holds = found.noise_low <= truth && truth <= found.noise_high;
                    assert!(found.noise_low <= found.value && found.value <= found.noise_high);
                    // Everybody takes part: nothing else is uncertain.
                    assert_eq!(
                        (found.total_low, found.total_high),
                        (found.noise_low, found.noise_high)
                    );
                    held += if holds { mass } else { 0.0 };
                }
                assert!(held >= 0.94, "{micro} {symbols} {reports} {holders}: {held}");
                least = least.min(held);
            }
        }
    }
    println!("held with probability {least} or more");
}

#[test]
fn intervals_of_few_participants_hold() {
    let mut least = 1.0f64;
    for rate in [0.01, 0.1, 0.5, 0.9] {
        for expected in [1.0_f64, 2.0, 5.0, 12.0, 40.0, 130.0, 400.0] {
            let holders = (expected / rate).round();
            let mut held = 0.0;
            for (count, mass) in likely(holders as u64, rate) {
                let reports = count + 50;
                let counts = [u128::from(count), 50];
                let found = estimates(&exact(2), &counts, reports, rate, LEVEL).unwrap()[0];
                let holds = found.total_low <= holders && holders <= found.total_high;
                held += if holds { mass } else { 0.0 };
            }
            assert!(held >= 0.94, "{rate} {holders}: {held}");
            least = least.min(held);
        }
    }
    println!("held with probability {least} or more");
}

/// Few lies and few participants together.
#[test]
fn intervals_of_few_lies_among_few_participants_hold() {
    for (micro, symbols, population, holders, rate) in [
        (8_000_000, 10, 20_000_u64, 30_u64, 0.1),
        (5_000_000, 3, 400, 40, 0.3),
        (6_000_000, 4, 3_000, 2_000, 0.05),
    ] {
        let response = RandomizedResponse::new(micro, symbols).unwrap();
        let keep = response.keep_probability().unwrap();
        let lie = (1.0 - keep) / (symbols - 1) as f64;
        let others = likely(population - holders, rate);
        // A few numbers of other participants stand for all.
        let mut law = std::collections::BTreeMap::new();
        for (others, a) in others.iter().step_by((others.len() / 4).max(1)) {
            for (taking_part, b) in likely(holders, rate) {
                for (shown, c) in likely(taking_part, keep) {
                    for (lied, d) in likely(*others, lie) {
                        let seen = (shown + lied, others + taking_part);
                        *law.entry(seen).or_insert(0.0) += a * b * c * d;
                    }
                }
            }
        }
        let total: f64 = law.values().sum();
        let (mut held, mut all) = (0.0, 0.0);
        for ((count, reports), mass) in law.into_iter().filter(|(_, mass)| *mass > 1e-3 * total) {
            let mut counts = vec![0_u128; symbols as usize];
            (counts[0], counts[1]) = (count.into(), (reports - count).into());
            let found = estimates(&response, &counts, reports, rate, LEVEL).unwrap()[0];
            let truth = holders as f64;
            all += mass;
            held += if found.total_low <= truth && truth <= found.total_high { mass } else { 0.0 };
        }
        assert!(all > 0.8 * total, "{} left out", 1.0 - all / total);
        let held = held / all;
        println!("{micro} {symbols} {population} {holders} {rate}: {held}");
        assert!(held >= 0.94, "{micro} {symbols} {population} {holders} {rate}: {held}");
    }
}

#[test]
fn sums() {
    let tens = Exact::of(Encoding::Number { max: 10 });
    let found = estimates(&tens, &[1_000], 100, 0.2, LEVEL).unwrap()[0];
    assert_eq!((found.value, found.noise_error), (5_000.0, 0.0));
    assert!((found.total_error - (1_000.0_f64 * 10.0 * 0.8).sqrt() / 0.2).abs() < 1e-9);
    assert!(found.total_low < 5_000.0 && 5_000.0 < found.total_high);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let response = RandomizedResponse::new(1_000_000, 3).unwrap();
    let bad = [f64::NAN, f64::INFINITY, -0.1, 0.0];
    for rate in bad.into_iter().chain([1.1]) {
        assert!(estimates(&response, &[1, 2, 3], 6, rate, LEVEL).is_err(), "{rate}");
        assert!(estimates(&exact(3), &[1, 2, 3], 6, rate, LEVEL).is_err(), "{rate}");
        let bits = Exact::of(Encoding::Bit);
        assert!(estimates(&bits, &[6], 6, rate, LEVEL).is_err(), "{rate}");
    }
    for level in bad.into_iter().chain([1.0]) {
        assert!(estimates(&response, &[1, 2, 3], 6, 0.5, level).is_err(), "{level}");
    }
    assert!(estimates(&response, &[1, 2], 3, 0.5, LEVEL).is_err());
    assert!(estimates(&response, &[1, 2, 3], 7, 0.5, LEVEL).is_err());
    assert!(estimates(&response, &[u64::MAX.into(), 2, 0], 1, 0.5, LEVEL).is_err());
    assert!(estimates(&exact(3), &[], 0, 0.5, LEVEL).is_err());
    let nothing = Exact::of(Encoding::Number { max: 0 });
    assert!(estimates(&nothing, &[6], 6, 0.5, LEVEL).is_err());
}

/// Whatever the parameters and counts are, the answer is a number and lies in its intervals.
#[test]
fn no_parameters_break_it() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for micro in [1, 1_000, 1_000_000, 20_000_000, 70_000_000, u64::MAX] {
        for symbols in [2_u64, 3, 10, 1_000] {
            let response = RandomizedResponse::new(micro, symbols).unwrap();
            for scale in [1, 2, 1_000, 1 << 40] {
                let counts: Vec<_> =
                    (0..symbols).map(|_| u128::from(rng.next_u64() % scale)).collect();
                for rate in [1e-9, 0.02, 1.0] {
                    let reports = counts.iter().sum::<u128>() as u64;
                    for found in estimates(&response, &counts, reports, rate, LEVEL).unwrap() {
                        assert!(found.value.is_finite() && found.total_error.is_finite());
                        assert!(found.noise_low <= found.value && found.value <= found.noise_high);
                        assert!(found.total_low <= found.value && found.value <= found.total_high);
                        assert!(
                            found.noise_error <= found.total_error * (1.0 + 1e-9)
                                || found.value < 0.0
                        );
                    }
                }
            }
        }
    }
}
