//! An empirical audit: the mechanisms as they are implemented, with coins, dummies, noise and count,
//! run on two neighbouring populations. No event may be likelier than the claim allows.
//!
//! A claim says: for each delta, `P(E) <= e^epsilon Q(E) + delta` for every event E, both ways. Half of
//! the runs choose the event, the other half measures it. Its lower confidence bound must not be
//! above delta. The slack is 4.5 standard deviations and a little: a claim that just holds is
//! rejected once in 100,000 comparisons.
//!
//! Each of five broken mechanisms must be rejected: an audit that sees nothing is worth nothing.
//!
//! `SOTTO_CASES=200000` runs as many as a campaign does.

use std::collections::HashMap;

use rand_chacha::ChaCha20Rng;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Mechanism, Rates, Value};
use sotto_dp::recipe::{Law, Terms, judge};
use sotto_dp::{Adjacency, relay};

use super::simulated::*;

const DELTAS: [f64; 5] = [0.001, 0.01, 0.05, 0.15, 0.4];

fn runs() -> u32 {
    std::env::var("SOTTO_CASES").ok().and_then(|runs| runs.parse().ok()).unwrap_or(16_000)
}

/// What somebody sees: how many messages there were, and a number that depends on the sum.
type View = (u64, i128);

/// How far the lower bound on `P(E) - e^epsilon Q(E)` is above delta, for the best event of the best
/// claim `(epsilon, delta)`. Above 0 the claims are wrong.
fn excess(
    claims: &[(f64, f64)],
    one: impl Fn(&mut ChaCha20Rng) -> View,
    other: impl Fn(&mut ChaCha20Rng) -> View,
    seed: u64,
) -> f64 {
    let (half, mut rng) = (runs() / 2, rng(seed));
    let mut frequencies = |run: &dyn Fn(&mut ChaCha20Rng) -> View| {
        let mut found: HashMap<View, f64> = HashMap::new();
        for _ in 0..half {
            *found.entry(run(&mut rng)).or_default() += 1.0 / f64::from(half);
        }
        found
    };
    let [p, q, p_again, q_again] =
        [frequencies(&one), frequencies(&other), frequencies(&one), frequencies(&other)];
    let mut most = f64::NEG_INFINITY;
    for ((p, q), (p_again, q_again)) in
        [((&p, &q), (&p_again, &q_again)), ((&q, &p), (&q_again, &p_again))]
    {
        for (epsilon, delta) in claims.iter().filter(|claim| claim.0.is_finite()) {
            // What was never seen in the other case may be only rare.
            let rare = 1.0 / f64::from(half);
            let chosen = |view: &View| {
                p[view] > epsilon.exp() * (q.get(view).copied().unwrap_or(0.0) + rare)
            };
            let event: Vec<&View> = p.keys().filter(|view| chosen(view)).collect();
            let of = |law: &HashMap<View, f64>| -> f64 {
                event.iter().map(|view| law.get(view).copied().unwrap_or(0.0)).sum()
            };
            let slack = |x: f64| {
                let (z, n) = (4.5, f64::from(half));
                z * (x * (1.0 - x).max(0.0) / n).sqrt() + z * z / n
            };
            let (more, less) = (of(p_again), of(q_again));
            let bound = more - slack(more) - epsilon.exp() * (less + slack(less));
            most = most.max(bound - delta);
        }
    }
    most
}

/// What the rule for recipes claims.
fn claims(terms: &Terms, certified: Option<u64>) -> Vec<(f64, f64)> {
    DELTAS.map(|delta| (judge(terms, certified, delta).unwrap().epsilon, delta)).to_vec()
}

fn terms(law: Law, rate: f64, dummy_rate: f64, min_batch: u64) -> Terms {
    Terms { dummy_rate, ..Terms::new(law, rate, min_batch, 1) }
}

/// One round: the count is seen, the sum if there are enough messages. All devices are honest here;
/// the rule allows for as many dishonest ones, so half of the minimum batch is enough.
struct Round {
    mechanism: Mechanism,
    rates: Rates,
    min_batch: u64,
    /// The weights of the sums in the view.
    weights: Vec<f64>,
}

impl Round {
    fn new(mechanism: Mechanism, rates: Rates, min_batch: u64, symbols: (u32, u32)) -> Self {
        let mut weights = vec![0.0; mechanism.encoding().numbers() as usize];
        (weights[symbols.0 as usize], weights[symbols.1 as usize]) = (1.0, -1.0);
        if let Mechanism::ProjectiveGeometry(geometry) = &mechanism {
            weights = geometry.incident_sums(&weights);
        }
        Self { mechanism, rates, min_batch, weights }
    }

    /// One server is dishonest: it knows its own noise, so only the other's counts.
    fn view(&self, population: &[Group], rng: &mut ChaCha20Rng) -> View {
        let batch = collect_with(&self.mechanism, population, &self.rates, 1, rng);
        if batch.reports < self.min_batch.div_ceil(2) {
            return (batch.reports, i128::MAX);
        }
        let sum = self.weights.iter().zip(&batch.sums).map(|(w, sum)| *w as i128 * sum).sum();
        (batch.reports, sum)
    }

    /// The audit of two populations that differ in the first group.
    fn excess(
        &self,
        claims: &[(f64, f64)],
        device: [&[Group]; 2],
        others: &[Group],
        seed: u64,
    ) -> f64 {
        let [one, other] = device.map(|device| [device, others].concat());
        excess(claims, |rng| self.view(&one, rng), |rng| self.view(&other, rng), seed)
    }
}

fn shown(symbol: u32, devices: u64) -> Group {
    group(Value::OneHot(symbol), devices)
}

fn noisy(sigma_micro: u64, adjacency: Adjacency) -> Mechanism {
    ServerNoise::new(labels(3, 1), sigma_micro, adjacency).unwrap().into()
}

/// Every mechanism, alone and in a crowd, sampled and with dummies.
#[test]
fn no_mechanism_reveals_more_than_it_claims() {
    let local: [(Mechanism, f64); 4] = [
        (RandomizedResponse::new(1_500_000, 3).unwrap().into(), 0.0),
        (rappor(800_000, one_hot(3)), 0.3),
        (rappor(3_000_000, one_hot(40)), 0.2),
        (projective(1_200_000, 5), 0.0),
    ];
    let replaced = noisy(1_500_000, Adjacency::Replace);
    let cases = local.into_iter().chain([(replaced, 0.3)]);
    for (seed, (mechanism, dummy_rate)) in (200..).zip(cases) {
        // (other devices, rate, minimum batch)
        for (others, rate, min_batch) in [(0, 1.0, 1), (7, 1.0, 8), (14, 0.5, 10)] {
            let dummy_rate = if rate < 1.0 { dummy_rate } else { 0.0 };
            let rates = Rates { dummy_rate, ..Rates::all(rate) };
            let claims = claims(&terms(mechanism.law(), rate, dummy_rate, min_batch), None);
            let round = Round::new(mechanism, rates, min_batch, (0, 1));
            let device = [&[shown(0, 1)][..], &[shown(1, 1)]];
            let found = round.excess(&claims, device, &[shown(2, others)], seed);
            println!("{} among {others}: {found} {claims:?}", mechanism.kind());
            assert!(found <= 0.0, "{} among {others}: {found}", mechanism.kind());
        }
    }
}

/// Presence: with devices that are certified, and a device that is there or not.
#[test]
fn presence_is_hidden_as_claimed() {
    for (seed, (sigma, rate, dummy_rate)) in
        (220..).zip([(2_000_000, 0.5, 0.0), (1_000_000, 0.4, 0.4)])
    {
        let mechanism = noisy(sigma, Adjacency::AddRemove);
        // Of 81 certified devices, half of the others are honest.
        let claims = claims(&terms(mechanism.law(), rate, dummy_rate, 20), Some(81));
        let rates = Rates { dummy_rate, ..Rates::all(rate) };
        let round = Round::new(mechanism, rates, 20, (0, 1));
        let device = [&[shown(0, 1)][..], &[]];
        let found = round.excess(&claims, device, &[shown(2, 40)], seed);
        println!("{sigma}: {found} {claims:?}");
        assert!(found <= 0.0, "{sigma}: {found}");
    }
}

/// What a relay learns from seeing that a device sends something, if rates depend on the value.
#[test]
fn a_relay_learns_what_is_claimed() {
    let exact = noisy(1_000_000_000, Adjacency::Replace);
    let rates = Rates { rate: 0.6, default_rate: 0.2, dummy_rate: 0.3, default: None };
    let sends = |group: Group| {
        move |rng: &mut ChaCha20Rng| {
            let batch = collect(&exact, std::slice::from_ref(&group), &rates, rng);
            (batch.reports, 0)
        }
    };
    let (one, other) = (shown(0, 1), by_default(Value::Labels(Vec::new()), 1));
    let epsilon = |delta| relay::epsilon_of_sending((0.2, 0.6), 0.3, 0.0, delta).unwrap();
    let claims: Vec<_> = [0.0, 0.05, 0.2].map(|delta| (epsilon(delta), delta)).to_vec();
    let found = excess(&claims, sends(one.clone()), sends(other.clone()), 230);
    assert!(found <= 0.0, "{found}");
    // Without the dummies it would be more.
    let lies: Vec<_> = claims.iter().map(|(epsilon, delta)| (0.5 * epsilon, *delta)).collect();
    assert!(excess(&lies, sends(one), sends(other), 231) > 0.0);
}

/// Each of these is sold with the claims of the right one.
#[test]
fn five_broken_mechanisms_are_caught() {
    let device = [&[shown(0, 1)][..], &[shown(1, 1)]];
    let others = [shown(2, 7)];
    let everybody = Rates::all(1.0);
    let sold = noisy(3_000_000, Adjacency::Replace);
    let of_noise = claims(&terms(sold.law(), 1.0, 0.0, 8), None);
    let caught = |what: &str, found: f64| {
        println!("{what}: {found}");
        assert!(found > 0.0, "{what} was not noticed: {found}");
    };

    let half = Round::new(noisy(1_500_000, Adjacency::Replace), everybody, 8, (0, 1));
    caught("half the noise", half.excess(&of_noise, device, &others, 240));

    // Flips that happen half as often.
    let (right, wrong) = (rappor(1_000_000, one_hot(3)), rappor(1_860_000, one_hot(3)));
    let of_coin = claims(&terms(right.law(), 1.0, 0.0, 1), None);
    let biased = Round::new(wrong, everybody, 1, (0, 1));
    caught("a biased coin", biased.excess(&of_coin, device, &[], 241));

    // Devices with one value take part more often, and nobody said so.
    let sampled = claims(&terms(sold.law(), 0.1, 0.0, 8), None);
    let leaking = Rates { rate: 0.9, default_rate: 0.1, ..everybody };
    let round = Round::new(sold, leaking, 8, (0, 1));
    let usual = by_default(Value::OneHot(1), 1);
    let rest = [by_default(Value::OneHot(2), 7)];
    let device_sends = [&[shown(0, 1)][..], std::slice::from_ref(&usual)];
    caught("a count that leaks", round.excess(&sampled, device_sends, &rest, 242));

    // The same sum with new noise for everybody who asks: two of them add up what they got.
    let round = Round::new(sold, everybody, 8, (0, 1));
    let twice = |device: &[Group]| {
        let (population, round) = ([device, &others].concat(), &round);
        move |rng: &mut ChaCha20Rng| {
            let (first, second) = (round.view(&population, rng), round.view(&population, rng));
            (first.0, first.1 + second.1)
        }
    };
    let found = excess(&of_noise, twice(device[0]), twice(device[1]), 243);
    caught("noise drawn twice", found);

    // Noise on a coarser grid than the values: an even number. One of the sums shows it.
    let mut fine = Round::new(noisy(1_500_000, Adjacency::Replace), everybody, 8, (0, 1));
    fine.weights[1] = 0.0;
    let coarse = |device: &[Group]| {
        let population = [device, &others].concat();
        let fine = &fine;
        move |rng: &mut ChaCha20Rng| {
            let truth = collect_with(&fine.mechanism, &population, &everybody, 0, rng);
            let (reports, sum) = fine.view(&population, rng);
            let exact = truth.sums[0];
            (reports, exact + 2 * (sum - exact))
        }
    };
    caught(
        "a rounding that is not exact",
        excess(&of_noise, coarse(device[0]), coarse(device[1]), 244),
    );
}
