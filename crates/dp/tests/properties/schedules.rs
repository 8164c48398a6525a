//! Several rounds: rates that change from round to round, uniform subsets, and rounds in which it
//! is known who takes part.

use sotto_dp::closed::gaussian_epsilon;
use sotto_dp::recipe::{Contribution, Law, Terms, judge};

use super::brute::{self, Step, binomial, normal};
use super::stream::Stream;
use super::{Accountant, Adjacency, Event, Question, Shape, Tally, cases};

/// The divergence of two rounds, each given by what may be seen besides the noisy value: the
/// expectation over the first one, by quadrature, of the second one's.
pub(crate) fn two_rounds(first: &[Step], second: impl Fn(f64) -> f64, leaves: bool) -> f64 {
    let mut sum = 0.0;
    for Step { base, gone, moved, distance, sigma } in first {
        if *base <= 0.0 {
            // What only the device makes possible tells everything.
            sum += if leaves { *moved } else { 0.0 };
            continue;
        }
        let inside = |x: f64| {
            let growth = ((x - 0.5 * distance) * distance / (sigma * sigma)).exp();
            let ratio = 1.0 - gone + moved / base * growth;
            let still = base * normal(x, *sigma);
            let (mass, loss) =
                if leaves { (still * ratio, ratio.ln()) } else { (still, -ratio.ln()) };
            if mass > 1e-24 { mass * second(loss) } else { 0.0 }
        };
        sum += brute::integral(inside, (-9.0 * sigma, distance + 9.0 * sigma), 1.5 * sigma, 1e-11);
    }
    sum
}

/// The divergence of one round.
fn one_round(steps: &[Step], epsilon: f64, leaves: bool) -> f64 {
    steps.iter().map(|s| if leaves { s.leaves(epsilon) } else { s.comes(epsilon) }).sum()
}

/// A round with the count seen in which the others hold the default value.
struct Calm {
    rates: (f64, f64),
    dummy_rate: f64,
    others: u64,
    sigma: f64,
}

impl Calm {
    fn draw(stream: &mut Stream) -> Self {
        let rate = stream.spread(0.02, 0.5);
        Self {
            rates: (rate * stream.between(0.2, 1.0), rate),
            dummy_rate: stream.between(0.1, 0.6),
            others: stream.whole(10, 40),
            sigma: stream.spread(1.0, 6.0),
        }
    }

    fn event(&self, one_rate: bool) -> Event {
        let Self { rates: (default_rate, rate), dummy_rate, others: population, sigma } = *self;
        let (shape, defaults) = (Shape::Vector, 0);
        if one_rate {
            return Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape };
        }
        Event::ImportanceSampled {
            default_rate,
            rate,
            population,
            defaults,
            dummy_rate,
            sigma,
            shape,
        }
    }

    fn steps(&self, one_rate: bool, adjacency: Adjacency) -> Vec<Step> {
        let (r1, q) = (self.rates.1, self.dummy_rate);
        let r0 = if one_rate { r1 } else { self.rates.0 };
        let (t0, t1) = (r0 + (1.0 - r0) * q, r1 + (1.0 - r1) * q);
        let law = binomial(self.others, t0);
        let at = |k: usize| law.get(k).copied().unwrap_or(0.0);
        let step = |k: usize| {
            let (b, before) = (at(k), if k == 0 { 0.0 } else { at(k - 1) });
            let base =
                if adjacency == Adjacency::AddRemove { b } else { (1.0 - t0) * b + t0 * before };
            let stay = (1.0 - t1) * b + (1.0 - r1) * q * before;
            if base <= 0.0 {
                let moved = t1 * before;
                return Step { base, gone: 0.0, moved, distance: 1.0, sigma: self.sigma };
            }
            let gone = (base - stay) / base;
            Step { base, gone, moved: r1 * before, distance: 1.0, sigma: self.sigma }
        };
        (0..=law.len()).map(step).filter(|s| s.base.max(s.moved) > 1e-20).collect()
    }
}

/// A round with dummies and one with rates that depend on the value, at rates of their own.
#[test]
fn rounds_with_rates_of_their_own() {
    let (mut stream, mut tally) = (Stream::new(34), Tally::default());
    for _ in 0..cases(6) {
        let (a, b) = (Calm::draw(&mut stream), Calm::draw(&mut stream));
        let delta = stream.spread(1e-7, 1e-3);
        let event = Event::Composed { of: vec![a.event(true), b.event(false)] };
        for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
            let (first, second) = (a.steps(true, adjacency), b.steps(false, adjacency));
            let way = |epsilon: f64, leaves: bool| {
                let rest = |loss: f64| one_round(&second, epsilon - loss, leaves);
                two_rounds(&first, rest, leaves)
            };
            let truth = |epsilon: f64| way(epsilon, true).max(way(epsilon, false));
            tally.check((&event, adjacency, Shape::Vector), delta, truth);
        }
    }
    tally.done(cases(6) * 2);
}

/// Two uniform subsets under replacement. In one round the others hold the one value, in the other
/// the other value: each direction then has a round of each kind.
#[test]
fn uniform_subsets_of_both_kinds() {
    let (mut stream, mut tally) = (Stream::new(35), Tally::default());
    for _ in 0..cases(12) {
        let (population, sigma) = (stream.whole(5, 400), stream.spread(1.0, 8.0));
        let sample = stream.whole(1, population);
        let shape = if stream.whole(0, 1) == 0 { Shape::OneHot } else { Shape::Vector };
        let delta = stream.spread(1e-7, 1e-2);
        let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
        let round = Event::SampledWithoutReplacement { population, sample, of };
        let event = Event::Repeated { times: 2, of: Box::new(round) };
        let rate = sample as f64 / population as f64;
        let step = Step::sampled(rate, sigma / shape.replacement_distance());
        let truth = |epsilon: f64| {
            let way = |one: bool, two: bool| {
                let rest = |loss: f64| {
                    if two { step.leaves(epsilon - loss) } else { step.comes(epsilon - loss) }
                };
                two_rounds(&[step], rest, one)
            };
            way(true, true).max(way(false, false)).max(way(true, false))
        };
        tally.check((&event, Adjacency::Replace, shape), delta, truth);
    }
    tally.done(cases(12));
}

/// If it is known who takes part in which round, nothing is amplified: `m` rounds are one release
/// of Gaussian noise at the replacement distance. A recipe whose rate is 1 is such a schedule.
#[test]
fn a_known_schedule_is_plain_noise_at_the_replacement_distance() {
    let delta = 1e-7;
    for (contribution, distance) in [
        (Contribution::Numbers { max: 3, length: 1 }, 3.0),
        (Contribution::Numbers { max: 2, length: 9 }, 6.0),
        (Contribution::Labels { most: 1 }, 2f64.sqrt()),
        (Contribution::Labels { most: 4 }, 8f64.sqrt()),
        (Contribution::Total { most: 3 }, 18f64.sqrt()),
        (Contribution::Vector { norm: 2.5, dimension: 30 }, 5.0),
    ] {
        for rounds in [1u64, 12] {
            let sigma = 40.0;
            let exact =
                gaussian_epsilon(sigma / (distance * (rounds as f64).sqrt()), delta).unwrap();
            let norm = contribution.norm();
            let of = Box::new(Event::Gaussian { sigma, sensitivity: norm });
            let event = Event::Repeated { times: rounds, of };
            let (adjacency, shape) = (Adjacency::Replace, contribution.shape());
            let question =
                Question { event: &event, adjacency, shape, accountant: Accountant::Best };
            let found = question.epsilon_upper(delta).unwrap();
            assert!((found / exact.upper - 1.0).abs() < 1e-9, "{contribution:?}: {found}");
            let law = Law::ServerGaussian { sigma, contribution, adjacency };
            let terms = Terms::new(law, 1.0, 100, rounds);
            let judged = judge(&terms, None, delta).unwrap().epsilon;
            // The whole numbers cost little: less than 1/1000 of the variance.
            assert!(judged >= exact.upper && judged < 1.01 * exact.upper, "{judged} {exact:?}");
            // With a secret sample it is far less.
            let sampled = judge(&Terms { rate: 0.01, min_batch: 20_000, ..terms }, None, delta);
            assert!(sampled.unwrap().epsilon < 0.3 * judged, "{contribution:?}");
        }
    }
}
