//! The Renyi divergences of events, against sums and integrals written out.

use sotto_dp::rdp::{epsilon, of_event, sampled_gaussian};
use sotto_dp::{Adjacency, Error, Event, Shape};

fn epsilon_of(event: &Event, delta: f64) -> f64 {
    epsilon(event, Adjacency::AddRemove, Shape::Vector, delta).unwrap().epsilon
}

fn rdp_of(event: &Event, adjacency: Adjacency, shape: Shape, order: f64) -> f64 {
    of_event(event, adjacency, shape, order).unwrap().rdp
}

#[test]
fn randomized_response_and_black_boxes_by_hand() {
    let (epsilon0, k, order) = (1.3f64, 5u64, 3.7f64);
    let (p, r) = (epsilon0.exp() / (epsilon0.exp() + 4.0), 1.0 / (epsilon0.exp() + 4.0));
    let moment =
        p.powf(order) * r.powf(1.0 - order) + r.powf(order) * p.powf(1.0 - order) + 3.0 * r;
    let event = Event::RandomizedResponse { epsilon0, k };
    let found = rdp_of(&event, Adjacency::Replace, Shape::Vector, order);
    assert!((found / (moment.ln() / (order - 1.0)) - 1.0).abs() < 1e-11);
    assert!(of_event(&event, Adjacency::AddRemove, Shape::Vector, order).is_err());
    // Two symbols are the worst pure mechanism.
    let binary = Event::RandomizedResponse { epsilon0, k: 2 };
    let pure = Event::PureDp { epsilon: epsilon0 };
    for order in [1.01, 2.0, 30.0, 1000.0, 1e5, f64::INFINITY] {
        let (a, b) = (
            rdp_of(&binary, Adjacency::Replace, Shape::Vector, order),
            rdp_of(&pure, Adjacency::Replace, Shape::Vector, order),
        );
        assert!((a / b - 1.0).abs() < 1e-11, "{order} {a} {b}");
    }
    // Adding up epsilons is best for few black boxes; their deltas come out of the target.
    let boxes = Event::Repeated {
        times: 3,
        of: Box::new(Event::ApproximateDp { epsilon: 0.5, delta: 1e-7 }),
    };
    let sum = epsilon_of(&boxes, 1e-6);
    assert!(sum <= 1.5 * (1.0 + 1e-9) && sum > 1.4999, "{sum}");
    let enough = epsilon(&boxes, Adjacency::AddRemove, Shape::Vector, 3e-7);
    assert!(matches!(enough, Err(Error::OutOfRange { name: "delta", .. })));
    let many = Event::Repeated { times: 400, of: Box::new(Event::PureDp { epsilon: 0.02 }) };
    assert!(epsilon_of(&many, 1e-6) < 2.2, "{}", epsilon_of(&many, 1e-6));
}

#[test]
fn distances_follow_the_adjacency() {
    let gaussian = Event::Gaussian { sigma: 3.0, sensitivity: 1.5 };
    let at = |adjacency, shape| rdp_of(&gaussian, adjacency, shape, 4.0) * 9.0 / (2.0 * 2.25);
    for (adjacency, shape, square) in [
        (Adjacency::AddRemove, Shape::OneHot, 1.0),
        (Adjacency::ZeroOut, Shape::Vector, 1.0),
        (Adjacency::Replace, Shape::OneHot, 2.0),
        (Adjacency::Replace, Shape::Vector, 4.0),
    ] {
        assert!((at(adjacency, shape) / square - 1.0).abs() < 1e-11);
    }
    let laplace = Event::Laplace { scale: 4.0, sensitivity: 1.0 };
    for shape in [Shape::OneHot, Shape::Vector] {
        assert_eq!(rdp_of(&laplace, Adjacency::Replace, shape, f64::INFINITY), 0.5);
        assert_eq!(rdp_of(&laplace, Adjacency::AddRemove, shape, f64::INFINITY), 0.25);
    }
}

/// `D_a(P || Q)` of two laws on finitely many outcomes.
fn divergence(p: &[f64], q: &[f64], order: f64) -> f64 {
    let moment: f64 = p.iter().zip(q).map(|(p, q)| q * (p / q).powf(order)).sum();
    moment.ln() / (order - 1.0)
}

#[test]
fn sampled_discrete_gaussian_is_bounded_both_ways() {
    for (rate, sigma) in [(0.1, 1.0), (0.4, 2.0), (0.02, 0.7), (0.8, 0.5)] {
        let noise: Vec<f64> =
            (-60..=60).map(|x| (-f64::from(x * x) / (2.0 * sigma * sigma)).exp()).collect();
        let total: f64 = noise.iter().sum();
        let base: Vec<f64> = noise[1..].iter().map(|x| x / total).collect();
        let mix: Vec<f64> =
            base.iter().zip(&noise).map(|(a, b)| (1.0 - rate) * a + rate * b / total).collect();
        let keep = |law: &[f64]| -> Vec<f64> {
            base.iter().zip(law).filter(|(b, _)| **b > 1e-280).map(|(_, x)| *x).collect()
        };
        let (mix, base) = (keep(&mix), keep(&base));
        let event = Event::PoissonSampled {
            rate,
            of: Box::new(Event::DiscreteGaussian { sigma, sensitivity: 1 }),
        };
        for order in [1.5, 2.0, 2.5, 3.0, 6.0] {
            let bound = rdp_of(&event, Adjacency::AddRemove, Shape::Vector, order);
            let (there, back) = (divergence(&mix, &base, order), divergence(&base, &mix, order));
            assert!(bound >= there * (1.0 - 1e-9) && bound >= back, "{rate} {sigma} {order}");
            if order == order.floor() {
                assert!(
                    (bound / there - 1.0).abs() < 1e-6,
                    "{rate} {sigma} {order} {bound} {there}"
                );
            }
        }
    }
}

#[test]
fn sampling_bounds_hold_for_randomized_response() {
    // One device of `n` is drawn and reports by randomized response; replaced neighbours, the other
    // devices' symbols being 1.
    let (epsilon0, k) = (1.1f64, 4usize);
    let (n, own) = (5u64, 1.0 / 5.0);
    let low = 1.0 / (epsilon0.exp() + k as f64 - 1.0);
    let law = |symbol: usize| -> Vec<f64> {
        (0..k).map(|x| if x == symbol { low * epsilon0.exp() } else { low }).collect()
    };
    let mixed = |symbol: usize| -> Vec<f64> {
        law(symbol).iter().zip(law(1)).map(|(a, b)| own * a + (1.0 - own) * b).collect()
    };
    let response = Event::RandomizedResponse { epsilon0, k: k as u64 };
    let event = Event::SampledWithoutReplacement {
        population: n,
        sample: 1,
        of: Box::new(response.clone()),
    };
    // Poisson: silence is seen.
    let poisson = Event::PoissonSampled { rate: own, of: Box::new(response) };
    let seen = |symbol: usize| -> Vec<f64> {
        let mut all: Vec<f64> = law(symbol).iter().map(|x| own * x).collect();
        all.push(1.0 - own);
        all
    };
    for order in [1.3, 2.0, 2.7, 5.0, 20.0] {
        let bound = rdp_of(&event, Adjacency::Replace, Shape::Vector, order);
        for (a, b) in [(0, 2), (0, 1), (1, 0)] {
            assert!(bound >= divergence(&mixed(a), &mixed(b), order), "{order}");
        }
        let bound = rdp_of(&poisson, Adjacency::Replace, Shape::Vector, order);
        let truth = divergence(&seen(0), &seen(2), order);
        assert!(bound >= truth && bound < truth * (1.0 + 1e-9), "{order} {bound} {truth}");
    }
}

#[test]
fn subsets_amplify_the_gaussian_under_replacement() {
    let gaussian = Event::Gaussian { sigma: 5.0, sensitivity: 1.0 };
    let at = |sample: u64| {
        let of = Box::new(gaussian.clone());
        let event = Event::SampledWithoutReplacement { population: 1000, sample, of };
        epsilon(&event, Adjacency::Replace, Shape::Vector, 1e-6).unwrap().epsilon
    };
    let whole = epsilon(&gaussian, Adjacency::Replace, Shape::Vector, 1e-6).unwrap().epsilon;
    assert_eq!(at(1000), whole);
    assert!(at(1) < at(10) && at(10) < at(100) && at(100) < whole && at(10) < 0.2 * whole);
    let event =
        Event::SampledWithoutReplacement { population: 1000, sample: 10, of: Box::new(gaussian) };
    assert!(matches!(
        epsilon(&event, Adjacency::AddRemove, Shape::Vector, 1e-6),
        Err(Error::Unsupported { .. })
    ));
}

#[test]
fn sampled_laplace_is_bounded_by_quadrature() {
    let (rate, scale) = (0.2, 1.5);
    for (adjacency, distance) in [(Adjacency::AddRemove, 1.0), (Adjacency::Replace, 2.0)] {
        let event = Event::PoissonSampled {
            rate,
            of: Box::new(Event::Laplace { scale, sensitivity: 1.0 }),
        };
        let density = |x: f64, centre: f64| (-(x - centre).abs() / scale).exp() / (2.0 * scale);
        for order in [1.5, 4.0, 20.0] {
            let bound = rdp_of(&event, adjacency, Shape::Vector, order);
            for flip in [false, true] {
                let moment: f64 = (-40_000..40_000)
                    .map(|i| {
                        let x = (f64::from(i) + 0.5) * 1e-3;
                        let none = density(x, 0.0);
                        let here = (1.0 - rate) * none + rate * density(x, distance / 2.0);
                        let other = if distance == 2.0 { density(x, -1.0) } else { none };
                        let there = (1.0 - rate) * none + rate * other;
                        let (p, q) = if flip { (there, here) } else { (here, there) };
                        q * (p / q).powf(order) * 1e-3
                    })
                    .sum();
                assert!(bound >= moment.ln() / (order - 1.0), "{adjacency} {order}");
            }
        }
    }
}

fn sampled(rate: f64, of: Event) -> Event {
    Event::PoissonSampled { rate, of: Box::new(of) }
}

#[test]
fn nested_sampling_is_one_coin_and_zero_out_is_add_remove() {
    let gaussian = Event::Gaussian { sigma: 1.7, sensitivity: 1.0 };
    let twice = sampled(0.2, sampled(0.3, gaussian.clone()));
    let once = sampled(0.06, gaussian.clone());
    for order in [1.5, 4.0, 33.0] {
        let at = |event: &Event, adjacency| rdp_of(event, adjacency, Shape::Vector, order);
        let ratio = at(&twice, Adjacency::AddRemove) / at(&once, Adjacency::AddRemove);
        assert!((ratio - 1.0).abs() < 1e-12);
        assert_eq!(at(&once, Adjacency::AddRemove), at(&once, Adjacency::ZeroOut));
        assert!(at(&once, Adjacency::Replace) < at(&gaussian, Adjacency::Replace));
    }
}

#[test]
fn sampled_gaussian_under_replacement_is_bounded_by_quadrature() {
    let (rate, sigma) = (0.1, 1.3);
    let event = sampled(rate, Event::Gaussian { sigma, sensitivity: 1.0 });
    let density = |x: f64, centre: f64| (-(x - centre).powi(2) / (2.0 * sigma * sigma)).exp();
    for order in [1.5, 3.0, 8.0] {
        let (mut moment, mut total) = (0.0, 0.0);
        for i in -20_000..20_000 {
            let x = f64::from(i) * 1e-3;
            let here = (1.0 - rate) * density(x, 0.0) + rate * density(x, 1.0);
            let there = (1.0 - rate) * density(x, 0.0) + rate * density(x, -1.0);
            moment += there * (here / there).powf(order);
            total += there;
        }
        let truth = (moment / total).ln() / (order - 1.0);
        assert!(rdp_of(&event, Adjacency::Replace, Shape::Vector, order) >= truth, "{order}");
    }
}

#[test]
fn distributed_noise_costs_a_little_more_than_its_total() {
    let event = |rate: f64| {
        let of = Event::DistributedDiscreteGaussian {
            sigma: 1.5,
            parties: 100,
            dimension: 20,
            sensitivity: 3.0,
        };
        if rate == 1.0 { of } else { sampled(rate, of) }
    };
    let sigma = sotto_dp::discrete::as_gaussian(1.5, 100).unwrap();
    assert!(sigma < 15.0 && sigma > 14.99);
    for order in [1.7, 2.0, 16.0] {
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-11;
        let plain = order * 9.0 / (2.0 * sigma * sigma);
        let at = |rate, adjacency| rdp_of(&event(rate), adjacency, Shape::OneHot, order);
        assert!(close(at(1.0, Adjacency::AddRemove), plain));
        assert!(close(at(1.0, Adjacency::Replace), 2.0 * plain));
        let found = at(0.1, Adjacency::AddRemove);
        assert!(close(found, sampled_gaussian(0.1, sigma / 3.0, order).unwrap()));
        assert!(at(0.1, Adjacency::Replace) < 2.0 * plain);
    }
    assert_eq!(epsilon_of(&sampled(0.0, event(1.0)), 1e-6), 0.0);
}

#[test]
fn what_has_no_renyi_bound_says_so() {
    let response = Event::RandomizedResponse { epsilon0: 1.0, k: 3 };
    let gaussian = Event::Gaussian { sigma: 1.0, sensitivity: 1.0 };
    let without = [
        Event::Shuffled { n: 100, of: Box::new(response.clone()) },
        Event::RandomAllocation {
            slots: 10,
            selected: 1,
            donation: false,
            population: None,
            shape: Shape::Vector,
            of: Box::new(gaussian),
        },
        Event::SampledCountSeen {
            rate: 0.1,
            population: 100,
            dummy_rate: 0.0,
            sigma: 1.0,
            shape: Shape::Vector,
        },
        Event::TruncatedPoisson {
            rate: 0.1,
            population: 100,
            max_batch: 20,
            sigma: 1.0,
            shape: Shape::Vector,
        },
        Event::CountOnly { rate: 0.1, population: 100 },
        response,
    ];
    for event in without {
        for event in [event.clone(), sampled(0.5, event)] {
            let found = epsilon(&event, Adjacency::AddRemove, Shape::Vector, 1e-6);
            assert!(matches!(found, Err(Error::Unsupported { .. })), "{event:?} {found:?}");
        }
    }
}
