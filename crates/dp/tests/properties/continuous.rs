//! Gaussian and Laplace noise, sampled or not, once and several times.

use super::brute::{self, Step, normal};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally};

fn gaussian(sigma: f64) -> Event {
    Event::Gaussian { sigma, sensitivity: 1.0 }
}

fn sampled(rate: f64, of: Event) -> Event {
    Event::PoissonSampled { rate, of: Box::new(of) }
}

fn either(step: Step, epsilon: f64) -> f64 {
    step.leaves(epsilon).max(step.comes(epsilon))
}

/// The sampled Gaussian by quadrature, both directions.
fn quadrature(rate: f64, sigma: f64, epsilon: f64) -> f64 {
    let densities = |x: f64| {
        let q = normal(x, sigma);
        ((1.0 - rate) * q + rate * normal(x - 1.0, sigma), q)
    };
    brute::both_ways(densities, epsilon, &[-11.0 * sigma, 1.0 + 11.0 * sigma], 0.5 * sigma)
}

/// The oracles agree with each other and with finer grids, to 1e-10 (a tenth of the slack).
#[test]
fn the_oracles_agree() {
    let mut stream = Stream::new(1);
    for _ in 0..40 {
        let (rate, sigma) = (stream.spread(1e-3, 1.0), stream.between(0.4, 4.0));
        let step = Step::sampled(rate, sigma);
        let epsilon = stream.spread(0.05, 3.0) * rate / sigma;
        let (a, b) = (quadrature(rate, sigma, epsilon), either(step, epsilon));
        assert!((a - b).abs() <= 1e-10 * b + 1e-21, "{rate} {sigma} {epsilon}: {a:e} {b:e}");
        let other = Step::sampled(stream.spread(1e-2, 1.0), stream.between(0.5, 4.0));
        for leaves in [true, false] {
            let (a, b) = (
                brute::composed(&[step, other], 2.0 * epsilon, leaves, 1.0),
                brute::composed(&[other, step], 2.0 * epsilon, leaves, 0.6),
            );
            assert!(
                (a - b).abs() <= 1e-10 * b + 1e-21,
                "{step:?} {other:?} {epsilon}: {a:e} {b:e}"
            );
        }
    }
}

#[test]
fn one_sampled_gaussian() {
    let (mut stream, mut tally) = (Stream::new(2), Tally::default());
    for case in 0..320 {
        let rate = if case % 16 == 0 { 1.0 } else { stream.spread(1e-4, 1.0) };
        let (sigma, delta) = (stream.spread(0.3, 12.0), stream.spread(1e-12, 0.05));
        let event = sampled(rate, gaussian(sigma));
        let adjacency = if case % 2 == 0 { Adjacency::AddRemove } else { Adjacency::ZeroOut };
        let found = tally
            .check((&event, adjacency, Shape::Vector), delta, |epsilon| {
                quadrature(rate, sigma, epsilon)
            })
            .unwrap();
        // One step is exact.
        assert!(
            found.upper - found.lower <= 1e-6 * found.upper + 1e-9,
            "{event:?} {delta:e}: {found:?}"
        );
    }
    tally.done(320);
}

#[test]
fn two_sampled_gaussians() {
    let (mut stream, mut tally) = (Stream::new(3), Tally::default());
    for case in 0..160 {
        let delta = stream.spread(1e-10, 0.02);
        let a = (stream.spread(1e-3, 1.0), stream.between(0.45, 5.0));
        let b =
            if case % 3 == 0 { a } else { (stream.spread(1e-3, 1.0), stream.between(0.45, 5.0)) };
        let steps = [Step::sampled(a.0, a.1), Step::sampled(b.0, b.1)];
        let event =
            Event::Composed { of: vec![sampled(a.0, gaussian(a.1)), sampled(b.0, gaussian(b.1))] };
        let truth = |epsilon: f64| {
            let way = |leaves| brute::composed(&steps, epsilon, leaves, 1.0);
            way(true).max(way(false))
        };
        tally.check((&event, Adjacency::AddRemove, Shape::Vector), delta, truth);
    }
    tally.done(160);
}

#[test]
fn three_sampled_gaussians() {
    let (mut stream, mut tally) = (Stream::new(4), Tally::default());
    for _ in 0..8 {
        let delta = stream.spread(1e-7, 0.02);
        let (rate, sigma) = (stream.spread(3e-3, 1.0), stream.between(0.6, 4.0));
        let other = (stream.spread(3e-3, 1.0), stream.between(0.6, 4.0));
        let steps = [
            Step::sampled(rate, sigma),
            Step::sampled(rate, sigma),
            Step::sampled(other.0, other.1),
        ];
        let twice = Event::Repeated { times: 2, of: Box::new(sampled(rate, gaussian(sigma))) };
        let event = Event::Composed { of: vec![twice, sampled(other.0, gaussian(other.1))] };
        let truth = |epsilon: f64| {
            let way = |leaves| brute::composed(&steps, epsilon, leaves, 1.0);
            way(true).max(way(false))
        };
        tally.check((&event, Adjacency::AddRemove, Shape::Vector), delta, truth);
    }
    tally.done(8);
}

#[test]
fn one_laplace() {
    let (mut stream, mut tally) = (Stream::new(5), Tally::default());
    for case in 0..160 {
        let (scale, sensitivity) = (stream.spread(0.3, 8.0), stream.between(0.5, 2.0));
        let delta = stream.spread(1e-10, 0.1);
        let rate = if case % 4 == 0 { 1.0 } else { stream.spread(1e-3, 1.0) };
        let laplace = Event::Laplace { scale, sensitivity };
        let (event, adjacency, distance) = match case % 4 {
            0 => (laplace, Adjacency::Replace, 2.0 * sensitivity),
            1 => (sampled(rate, laplace), Adjacency::ZeroOut, sensitivity),
            _ => (sampled(rate, laplace), Adjacency::AddRemove, sensitivity),
        };
        let density = |x: f64| (-(x.abs()) / scale).exp() / (2.0 * scale);
        let densities =
            |x: f64| ((1.0 - rate) * density(x) + rate * density(x - distance), density(x));
        let reach = 60.0 * scale;
        let breaks = [-reach, 0.0, distance, distance + reach];
        let truth = |epsilon: f64| brute::both_ways(densities, epsilon, &breaks, scale);
        tally.check((&event, adjacency, Shape::Vector), delta, truth);
    }
    tally.done(160);
}
