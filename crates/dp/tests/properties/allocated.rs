//! Random allocation and donation of continuous noise: nested expectations over the ratios of the
//! slots, the last one in closed form.

use super::brute::{Step, binomial, integral, normal};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally, cases};

/// The ratio of one release, with the device against without it.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Of this sigma times the distance.
    Gaussian(f64),
    /// Of this distance over the scale.
    Laplace(f64),
}

fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / 2f64.sqrt())
}

impl Noise {
    fn event(self) -> Event {
        match self {
            Self::Gaussian(sigma) => Event::Gaussian { sigma: 2.0 * sigma, sensitivity: 2.0 },
            Self::Laplace(ratio) => Event::Laplace { scale: 1.0 / ratio, sensitivity: 1.0 },
        }
    }

    /// `E(Y - k)_+`.
    fn call(self, k: f64) -> f64 {
        if k <= 0.0 {
            return 1.0 - k;
        }
        match self {
            Self::Gaussian(sigma) => {
                let z = k.ln() * sigma + 0.5 / sigma;
                upper_tail(z - 1.0 / sigma) - k * upper_tail(z)
            }
            Self::Laplace(ratio) => {
                let (l, most) = (k.ln(), ratio.exp());
                if l >= ratio {
                    0.0
                } else if l <= -ratio {
                    1.0 - k
                } else {
                    // Above k there is the largest ratio, and the density between.
                    let between =
                        0.5 * ((0.5 * ratio).exp() - (0.5 * l).exp()) * (-0.5 * ratio).exp();
                    let mass =
                        0.5 * ((-0.5 * l).exp() - (-0.5 * ratio).exp()) * (-0.5 * ratio).exp();
                    0.5 * (-ratio).exp() * (most - k) + between - k * mass
                }
            }
        }
    }

    /// `E(k - Y)_+`.
    fn put(self, k: f64) -> f64 {
        if k <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Gaussian(sigma) => {
                let z = k.ln() * sigma + 0.5 / sigma;
                k * upper_tail(-z) - upper_tail(1.0 / sigma - z)
            }
            Self::Laplace(_) => self.call(k) + k - 1.0,
        }
    }

    /// `E f(Y)`, `f` with kinks at the given values.
    fn mean(self, f: impl Fn(f64) -> f64, kinks: &[f64]) -> f64 {
        let (low, high) = match self {
            Self::Gaussian(sigma) => (-9.5, 9.5 + 1.0 / sigma),
            Self::Laplace(ratio) => (-ratio, ratio),
        };
        let place = |y: f64| match self {
            Self::Gaussian(sigma) => y.ln() * sigma + 0.5 / sigma,
            Self::Laplace(_) => y.ln(),
        };
        let mut breaks: Vec<f64> = kinks
            .iter()
            .filter(|y| **y > 0.0)
            .map(|y| place(*y))
            .filter(|x| *x > low && *x < high)
            .chain([low, high])
            .collect();
        breaks.sort_by(f64::total_cmp);
        let inside = |x: f64| match self {
            Self::Gaussian(sigma) => normal(x, 1.0) * f(((x - 0.5 / sigma) / sigma).exp()),
            Self::Laplace(ratio) => 0.25 * (-0.5 * (x + ratio)).exp() * f(x.exp()),
        };
        let sum: f64 =
            breaks.windows(2).map(|ends| integral(inside, (ends[0], ends[1]), 0.8, 1e-11)).sum();
        match self {
            Self::Gaussian(_) => sum,
            Self::Laplace(ratio) => {
                sum + 0.5 * f((-ratio).exp()) + 0.5 * (-ratio).exp() * f(ratio.exp())
            }
        }
    }
}

/// The two divergences of `constant + sum of weights Y` from 1: `E(L - a)_+` and `E(1 - a L)_+`.
fn affine(noise: Noise, constant: f64, weights: &[f64], a: f64) -> (f64, f64) {
    let [rest @ .., last] = weights else {
        return ((constant - a).max(0.0), (1.0 - a * constant).max(0.0));
    };
    if rest.is_empty() {
        let (up, down) = ((a - constant) / last, (1.0 / a - constant) / last);
        return (last * noise.call(up), a * last * noise.put(down));
    }
    let largest = match noise {
        Noise::Laplace(ratio) => ratio.exp(),
        Noise::Gaussian(_) => 0.0,
    };
    // Where what is left to the others meets the ends of their range.
    let kink = |target: f64| {
        let sum: f64 = rest[1..].iter().chain([last]).sum();
        let ends = [largest, 1.0 / largest.max(1e-300)];
        ends.map(|y| (target - constant - sum * y) / rest[0])
    };
    let (up, down) = (kink(a), kink(1.0 / a));
    let inner: Vec<f64> = rest[1..].iter().chain([last]).copied().collect();
    let forth = noise.mean(|y| affine(noise, constant + rest[0] * y, &inner, a).0, &up);
    let back = noise.mean(|y| affine(noise, constant + rest[0] * y, &inner, a).1, &down);
    (forth, back)
}

fn allocation(slots: u64, selected: u64, donation: bool, of: Event) -> Event {
    Event::RandomAllocation {
        slots,
        selected,
        donation,
        population: None,
        shape: Shape::Vector,
        of: Box::new(of),
    }
}

fn sampled(rate: f64, of: Event) -> Event {
    Event::PoissonSampled { rate, of: Box::new(of) }
}

fn adjacency(stream: &mut Stream) -> Adjacency {
    if stream.whole(0, 1) == 0 { Adjacency::AddRemove } else { Adjacency::ZeroOut }
}

fn noise(stream: &mut Stream, laplace: bool) -> Noise {
    if laplace {
        Noise::Laplace(stream.spread(0.2, 4.0))
    } else {
        Noise::Gaussian(stream.spread(0.4, 6.0))
    }
}

/// One slot of a few, or a donation; with a coin for each slot, and one for all of them.
fn one_of_few(seed: u64, laplace: bool, (slice, few): (u32, u32)) {
    let (mut stream, mut tally) = (Stream::new(seed), Tally::default());
    for case in 0..cases(slice) {
        let slots = if case % few == 0 { 3 } else { 2 };
        let (noise, delta) = (noise(&mut stream, laplace), stream.spread(1e-9, 0.02));
        let donation = stream.whole(0, 1) == 1;
        let coins =
            [(); 2].map(|()| if stream.whole(0, 2) == 0 { stream.spread(0.02, 1.0) } else { 1.0 });
        let of = if coins[0] < 1.0 { sampled(coins[0], noise.event()) } else { noise.event() };
        let event = allocation(slots, 1, donation, of);
        let event = if coins[1] < 1.0 { sampled(coins[1], event) } else { event };
        let (rate, q) = (coins[0] * coins[1], 1.0 / slots as f64);
        let weight = |i: u64| rate * q * if donation { (1.0 - q).powi(i as i32) } else { 1.0 };
        let weights: Vec<f64> = (0..slots).map(weight).collect();
        let constant = 1.0 - weights.iter().sum::<f64>();
        let truth = |epsilon: f64| {
            let (forth, back) = affine(noise, constant, &weights, epsilon.exp());
            forth.max(back)
        };
        let ask = (&event, adjacency(&mut stream), Shape::Vector);
        if let Some(found) = tally.check(ask, delta, truth) {
            assert!(found.upper <= 1.05 * found.lower + 1e-6, "{event:?} {delta:e} {found:?}");
        }
    }
    tally.done(cases(slice));
}

#[test]
fn one_of_few_gaussians() {
    one_of_few(31, false, (40, 20));
}

#[test]
fn one_of_few_laplaces() {
    one_of_few(32, true, (40, 20));
}

/// Two of three slots: given two ratios, the whole is affine in the third.
#[test]
fn two_of_three() {
    let (mut stream, mut tally) = (Stream::new(33), Tally::default());
    for case in 0..cases(6) {
        let noise = noise(&mut stream, case % 2 == 0);
        let delta = stream.spread(1e-8, 0.02);
        let event = allocation(3, 2, false, noise.event());
        let truth = |epsilon: f64| {
            let a = epsilon.exp();
            let given = |y: f64, z: f64| {
                let (constant, weight) = (y * z / 3.0, (y + z) / 3.0);
                let (up, down) = ((a - constant) / weight, (1.0 / a - constant) / weight);
                (weight * noise.call(up), a * weight * noise.put(down))
            };
            let forth = noise.mean(|y| noise.mean(|z| given(y, z).0, &[]), &[]);
            forth.max(noise.mean(|y| noise.mean(|z| given(y, z).1, &[]), &[]))
        };
        tally.check((&event, adjacency(&mut stream), Shape::Vector), delta, truth);
    }
    tally.done(cases(6));
}

/// An allocation to two slots, then one more Gaussian release: the expectation over the first of
/// the divergence of the second.
#[test]
fn an_allocation_and_a_plain_release() {
    let (mut stream, mut tally) = (Stream::new(34), Tally::default());
    for case in 0..cases(6) {
        let noise = noise(&mut stream, case % 3 == 0);
        let (sigma, delta) = (stream.spread(0.6, 5.0), stream.spread(1e-8, 0.02));
        let plain = Event::Gaussian { sigma, sensitivity: 1.0 };
        let event = Event::Composed { of: vec![allocation(2, 1, false, noise.event()), plain] };
        let step = Step::sampled(1.0, sigma);
        let truth = |epsilon: f64| {
            let mean =
                |f: &dyn Fn(f64) -> f64| noise.mean(|y| noise.mean(|z| f(0.5 * (y + z)), &[]), &[]);
            let forth = mean(&|l| l * step.leaves(epsilon - l.ln()));
            forth.max(mean(&|l| step.comes(epsilon + l.ln())))
        };
        tally.check((&event, adjacency(&mut stream), Shape::Vector), delta, truth);
    }
    tally.done(cases(6));
}

/// The second query depends on the first answer: the contribution's norm is a function of it.
#[test]
fn queries_that_depend_on_the_past() {
    let mut stream = Stream::new(35);
    for _ in 0..cases(8) {
        let (sigma, delta) = (stream.spread(0.5, 4.0), stream.spread(1e-8, 0.02));
        let (rate, above) =
            (if stream.whole(0, 1) == 0 { 1.0 } else { 0.3 }, stream.between(0.5, 2.0));
        let (first, small) = (stream.between(0.3, 1.0), stream.between(0.05, 1.0));
        let event =
            sampled(rate, allocation(2, 1, false, Event::Gaussian { sigma, sensitivity: 1.0 }));
        let ask = super::Question {
            event: &event,
            adjacency: Adjacency::AddRemove,
            shape: Shape::Vector,
            accountant: super::Accountant::Best,
        };
        let epsilon = ask.epsilon(delta).unwrap().epsilon.upper;
        let a = epsilon.exp();
        // The first contribution has the norm `first`; if the ratio then looks large, the second
        // has the norm 1, otherwise a smaller one.
        let given = |y: f64| {
            let noise = Noise::Gaussian(sigma / if y > above { 1.0 } else { small });
            affine(noise, 1.0 - rate + 0.5 * rate * y, &[0.5 * rate], a)
        };
        let outer = Noise::Gaussian(sigma / first);
        let forth = outer.mean(|y| given(y).0, &[above]);
        let back = outer.mean(|y| given(y).1, &[above]);
        assert!(forth.max(back) <= delta * (1.0 + 1e-9), "{event:?} {delta:e}: {forth:e} {back:e}");
    }
}

/// The counts of two slots seen, where all others hold the value that is farthest from the device's.
#[test]
fn counts_of_two_slots_seen() {
    let (mut stream, mut tally) = (Stream::new(36), Tally::default());
    for case in 0..cases(16) {
        let (others, rate) = (stream.whole(1, 12), stream.spread(0.01, 0.95));
        let delta = stream.spread(1e-8, 0.02);
        let shape = if stream.whole(0, 1) == 0 { Shape::OneHot } else { Shape::Vector };
        let (noise, of) = if case % 2 == 0 {
            let sigma = stream.spread(0.8, 10.0);
            (
                Noise::Gaussian(sigma / shape.replacement_distance()),
                Event::Gaussian { sigma, sensitivity: 1.0 },
            )
        } else {
            let scale = stream.spread(0.7, 10.0);
            (Noise::Laplace(2.0 / scale), Event::Laplace { scale, sensitivity: 1.0 })
        };
        let of = Box::new(of);
        let event = Event::RandomAllocation {
            slots: 2,
            selected: 1,
            donation: false,
            population: Some(others),
            shape,
            of,
        };
        let event = sampled(rate, event);
        let truth = |epsilon: f64| counts_seen(noise, others, rate, epsilon);
        tally.check((&event, Adjacency::AddRemove, shape), delta, truth);
    }
    tally.done(cases(16));
}

/// The larger divergence, summed over the counts of both slots.
fn counts_seen(noise: Noise, others: u64, rate: f64, epsilon: f64) -> f64 {
    let a = epsilon.exp();
    // Only the device makes this total possible.
    let (mut forth, mut back) = (rate.powi(others as i32 + 1), 0.0);
    for (total, base) in binomial(others, rate).into_iter().enumerate() {
        for (first, share) in binomial(total as u64, 0.5).into_iter().enumerate() {
            let factor = (1.0 - rate) / (others + 1 - total as u64) as f64;
            let weights = [first, total - first].map(|count| count as f64 * factor);
            let weights: Vec<f64> = weights.into_iter().filter(|w| *w > 0.0).collect();
            let (leaves, comes) = affine(noise, 1.0 - rate, &weights, a);
            forth += base * share * leaves;
            back += base * share * comes;
        }
    }
    forth.max(back)
}

/// The same with others that hold different values, in one dimension: all ways in which they choose,
/// on a grid of both sums.
#[test]
fn counts_seen_with_different_others() {
    let mut stream = Stream::new(37);
    let (mut least, mut most) = (f64::INFINITY, 0f64);
    for _ in 0..cases(2) {
        let rate = stream.spread(0.05, 0.9);
        // Half of them are as far from the device's value as possible.
        let values: Vec<f64> =
            (0..stream.whole(1, 3)).map(|_| stream.between(-3.0, 1.0).max(-1.0)).collect();
        let (sigma, delta) = (stream.spread(0.8, 4.0), stream.spread(1e-5, 0.02));
        let laplace = stream.whole(0, 1) == 0;
        let of = Box::new(if laplace {
            Event::Laplace { scale: sigma, sensitivity: 1.0 }
        } else {
            Event::Gaussian { sigma, sensitivity: 1.0 }
        });
        let population = Some(values.len() as u64);
        let event = Event::RandomAllocation {
            slots: 2,
            selected: 1,
            donation: false,
            population,
            shape: Shape::Vector,
            of,
        };
        let event = sampled(rate, event);
        let ask = super::Question {
            event: &event,
            adjacency: Adjacency::AddRemove,
            shape: Shape::Vector,
            accountant: super::Accountant::Best,
        };
        let epsilon = ask.epsilon(delta).unwrap().epsilon.upper;
        let density = |x: f64| {
            if laplace { 0.5 / sigma * (-x.abs() / sigma).exp() } else { normal(x, sigma) }
        };
        let reach = 4.0 + sigma * if laplace { 16.0 } else { 7.0 };
        let found = different_others(&values, rate, (reach, 0.08 * sigma), density, epsilon);
        // The grid is good to about 1e-4, with the kinks of Laplace noise to 3e-3.
        let slack = if laplace { 0.01 } else { 0.001 };
        assert!(found <= delta * (1.0 + slack), "{event:?} {values:?} {delta:e}: {found:e}");
        (least, most) = (least.min(found / delta), most.max(found / delta));
    }
    println!("{} cases, {least:.3} to {most:.3} of delta", cases(2));
}

/// Probabilities and sums.
type Sums = Vec<(f64, [f64; 2])>;

fn different_others(
    values: &[f64],
    rate: f64,
    (reach, step): (f64, f64),
    density: impl Fn(f64) -> f64,
    epsilon: f64,
) -> f64 {
    use std::collections::BTreeMap;
    // By counts: (probability, sums) with and without the device, whose value is 1.
    let mut views: BTreeMap<[u64; 2], [Sums; 2]> = BTreeMap::new();
    for code in 0..3usize.pow(values.len() as u32) {
        let (mut mass, mut counts, mut sums, mut rest) = (1.0, [0, 0], [0.0, 0.0], code);
        for value in values {
            match rest % 3 {
                2 => mass *= 1.0 - rate,
                slot => {
                    mass *= 0.5 * rate;
                    counts[slot] += 1;
                    sums[slot] += value;
                }
            }
            rest /= 3;
        }
        let view = views.entry(counts).or_default();
        view[0].push((mass * (1.0 - rate), sums));
        view[1].push((mass, sums));
        for slot in 0..2 {
            let (mut counts, mut sums) = (counts, sums);
            counts[slot] += 1;
            sums[slot] += 1.0;
            views.entry(counts).or_default()[0].push((0.5 * mass * rate, sums));
        }
    }
    let a = epsilon.exp();
    let points = (2.0 * reach / step) as i32;
    let kernel: Vec<f64> = (0..=points).map(|j| f64::from(j) * step - reach).collect();
    let (mut forth, mut back) = (0.0, 0.0);
    for [with, without] in views.values() {
        let tables = [with, without].map(|view| {
            let row = |at: f64| kernel.iter().map(|x| density(x - at)).collect::<Vec<_>>();
            view.iter().map(|(mass, sums)| (*mass, row(sums[0]), row(sums[1]))).collect::<Vec<_>>()
        });
        for i in 0..kernel.len() {
            for j in 0..kernel.len() {
                let [p, q] = [0, 1].map(|side| -> f64 {
                    tables[side].iter().map(|(mass, x, y)| mass * x[i] * y[j]).sum()
                });
                forth += (p - a * q).max(0.0) * step * step;
                back += (q - a * p).max(0.0) * step * step;
            }
        }
    }
    forth.max(back)
}
