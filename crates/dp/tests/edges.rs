//! The edges of the parameter space, where shortcuts end and numbers run out.

use sotto_dp::{Accountant, Adjacency, Bracket, Error, Event, Question, Shape};

fn ask(event: &Event, adjacency: Adjacency, delta: f64) -> Result<Bracket, Error> {
    let question =
        Question { event, adjacency, shape: Shape::Vector, accountant: Accountant::Best };
    question.epsilon(delta).map(|answer| answer.epsilon)
}

fn sampled(rate: f64, sigma: f64) -> Event {
    Event::PoissonSampled { rate, of: Box::new(Event::Gaussian { sigma, sensitivity: 1.0 }) }
}

fn repeated(times: u64, of: Event) -> Event {
    Event::Repeated { times, of: Box::new(of) }
}

#[test]
fn more_releases_than_can_be_counted_are_not_fewer() {
    let noise = Event::Gaussian { sigma: 1e6, sensitivity: 1.0 };
    let once = repeated(1 << 40, noise);
    let twice = Event::Composed { of: vec![once.clone(), once.clone()] };
    let (one, two) =
        (ask(&once, Adjacency::AddRemove, 1e-6), ask(&twice, Adjacency::AddRemove, 1e-6));
    assert!(two.unwrap().upper > 1.3 * one.unwrap().upper);
}

#[test]
fn no_population_is_too_large_for_the_count() {
    for population in [1 << 53, (1 << 60) + 200, u64::MAX] {
        for times in [1, 10] {
            let seen = |rate: f64, dummy_rate: f64, sigma: f64| {
                let shape = Shape::Vector;
                let of = Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape };
                ask(&repeated(times, of), Adjacency::AddRemove, 1e-12).unwrap()
            };
            assert_eq!(seen(1.0, 0.0, 3.0).upper, f64::INFINITY, "{population}");
            assert_eq!(seen(0.5, 1.0, 3.0).upper, f64::INFINITY, "{population}");
            assert!(seen(1e-9, 0.0, 0.3).upper > 21.0, "{population}");
        }
    }
}

#[test]
fn the_count_alone_at_its_ends() {
    let ask = |rate: f64, population: u64, times: u64| {
        let event = repeated(times, Event::CountOnly { rate, population });
        ask(&event, Adjacency::AddRemove, 1e-9).unwrap()
    };
    for times in [1, 10] {
        for population in [0, 1, 1_000, 1 << 40, u64::MAX] {
            assert!(ask(0.0, population, times).upper < 1e-12, "{population}");
            assert_eq!(ask(1.0, population, times).upper, f64::INFINITY, "{population}");
        }
        // Nobody else is there.
        assert_eq!(ask(0.01, 0, times).upper, f64::INFINITY);
        // Hidden in a crowd; more than can be examined are not worse than those.
        let (large, larger) = (ask(0.01, 1 << 40, times), ask(0.01, u64::MAX, times));
        assert!(large.upper > 0.0 && large.upper < 1e-3 && larger.upper <= large.upper);
    }
    // So rare that delta covers it.
    assert_eq!(ask(1e-10, 0, 1).upper, 0.0);
}

#[test]
fn a_few_black_boxes_cost_at_most_their_sum() {
    let shuffle = Event::Shuffled { n: 10_000, of: Box::new(Event::PureDp { epsilon: 4.0 }) };
    let allocation = Event::RandomAllocation {
        slots: 10,
        selected: 1,
        donation: false,
        population: None,
        shape: Shape::Vector,
        of: Box::new(Event::Gaussian { sigma: 5.0, sensitivity: 1.0 }),
    };
    for (event, adjacency) in [(shuffle, Adjacency::Replace), (allocation, Adjacency::AddRemove)] {
        for times in [2u32, 3, 10, 30] {
            let each = ask(&event, adjacency, 1e-8 / (8.0 * f64::from(times))).unwrap().upper;
            let all =
                ask(&repeated(u64::from(times), event.clone()), adjacency, 1e-8).unwrap().upper;
            assert!(all <= each * f64::from(times), "{times}: {all} {each}");
        }
    }
}

#[test]
fn a_schedule_of_noise_is_counted_as_well_as_a_repetition() {
    let parts = (0..300).map(|i| sampled(0.02, 5.1 * (1.0 + 1e-9 * f64::from(i)))).collect();
    let schedule = ask(&Event::Composed { of: parts }, Adjacency::AddRemove, 1e-6).unwrap();
    let same = ask(&repeated(300, sampled(0.02, 5.1)), Adjacency::AddRemove, 1e-6).unwrap();
    assert!(schedule.upper < 1.001 * same.upper, "{schedule:?} {same:?}");
    assert!(same.lower < schedule.upper, "{schedule:?} {same:?}");
}

#[test]
fn rare_and_large_losses_are_not_overlooked() {
    // Few steps of little noise: nearly all of delta comes from one large loss.
    for (rate, sigma, times, delta) in
        [(2.24e-4, 0.153, 27, 3.1e-12), (1e-3, 0.1, 100, 1e-9), (1e-5, 0.2, 1_000, 1e-10)]
    {
        let one = ask(&sampled(rate, sigma), Adjacency::AddRemove, delta).unwrap();
        let all = ask(&repeated(times, sampled(rate, sigma)), Adjacency::AddRemove, delta).unwrap();
        assert!(all.upper >= one.lower, "{rate} {sigma} {times}: {all:?} {one:?}");
        assert!(all.lower <= all.upper);
    }
}

fn by_pld(event: &Event) -> Result<Bracket, Error> {
    let (adjacency, shape) = (Adjacency::AddRemove, Shape::Vector);
    let question = Question { event, adjacency, shape, accountant: Accountant::Pld };
    question.epsilon(1e-8).map(|answer| answer.epsilon)
}

/// What would take long is refused, with a reason, or counted in another way.
#[test]
fn there_is_a_limit_for_every_resource() {
    // Large noise needs no list of its outcomes.
    let discrete = |sigma: f64, i: u32| Event::DiscreteGaussian {
        sigma: sigma * (1.0 + 5e-4 * f64::from(i)),
        sensitivity: 1,
    };
    let large = Event::Composed { of: (0..12).map(|i| discrete(9e4, i)).collect() };
    let found = by_pld(&large).unwrap();
    assert!(found.lower > 0.999 * found.upper && found.upper < 1.2e-4, "{found:?}");
    // The lists of some would be long.
    let refused = |event: Event, reason: &str| {
        let error = by_pld(&event).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        event
    };
    let small = Event::Composed { of: (0..400).map(|i| discrete(200.0, i)).collect() };
    let small = refused(small, "so many outcomes");
    assert!(ask(&small, Adjacency::AddRemove, 1e-8).unwrap().upper < 2.0);
    // Different events, of which each costs some time.
    let claims = |count: u32| {
        let claim = |i: u32| Event::PureDp { epsilon: 1e-3 * (1.0 + 1e-6 * f64::from(i)) };
        Event::Composed { of: (0..count).map(claim).collect() }
    };
    assert!(by_pld(&claims(512)).unwrap().upper < 0.6);
    let many = refused(claims(513), "so many different events");
    assert!(ask(&many, Adjacency::AddRemove, 1e-8).unwrap().upper < 0.6);
    let seen = |i: u32| Event::SampledCountSeen {
        rate: 0.02,
        population: 2_000 + u64::from(i),
        dummy_rate: 0.0,
        sigma: 5.0,
        shape: Shape::Vector,
    };
    refused(
        Event::Composed { of: (0..100).map(seen).collect() },
        "so many different events with the count seen",
    );
}

/// A sum of `v - 2` with Laplace noise of scale 1/2, where `v` is 0 or 1: whether it is 0 or 1 costs
/// epsilon 2. But a device that is not sampled adds 0, which is farther away from either.
#[test]
fn a_claim_about_two_values_says_nothing_about_absence() {
    let (rate, epsilon) = (0.1_f64, 2.0_f64);
    let at = |distance: f64| 1.0 - rate + rate * (2.0 * distance).exp();
    let truth = (at(2.0) / at(1.0)).ln();
    assert!((1.3559..1.356).contains(&truth), "{truth}");
    let event = Event::PoissonSampled { rate, of: Box::new(Event::PureDp { epsilon }) };
    let of = |adjacency, accountant| {
        Question { event: &event, adjacency, shape: Shape::Vector, accountant }.epsilon(1e-9)
    };
    let present = of(Adjacency::AddRemove, Accountant::Best).unwrap().epsilon.upper;
    assert!((0.49..0.5).contains(&present), "{present}");
    for adjacency in [Adjacency::ZeroOut, Adjacency::Replace] {
        assert!(matches!(of(adjacency, Accountant::Pld), Err(Error::Unsupported { .. })));
        // The Renyi accountant knows a bound that does not need absence.
        assert!(of(adjacency, Accountant::Best).unwrap().epsilon.upper > truth, "{adjacency}");
    }
}

#[test]
fn where_nobody_takes_part_nothing_is_told() {
    let shape = Shape::Vector;
    let poisson = sampled;
    let sampled = |dummy_rate: f64| Event::SampledCountSeen {
        rate: 0.0,
        population: 5,
        dummy_rate,
        sigma: 1.0,
        shape,
    };
    let truncated =
        Event::TruncatedPoisson { rate: 0.0, population: 5, max_batch: 2, sigma: 1.0, shape };
    for times in [1, 5] {
        for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::Replace] {
            for event in [sampled(0.0), truncated.clone(), poisson(0.0, 1.0)] {
                let found = ask(&repeated(times, event), adjacency, 1e-9).unwrap();
                assert_eq!(found, Bracket { lower: 0.0, upper: 0.0 }, "{times} {adjacency}");
            }
        }
        // Something else beside it counts as if it were alone.
        let beside = Event::Composed { of: vec![sampled(0.0), poisson(0.1, 2.0)] };
        let alone = ask(&poisson(0.1, 2.0), Adjacency::AddRemove, 1e-9).unwrap();
        assert_eq!(ask(&beside, Adjacency::AddRemove, 1e-9).unwrap(), alone);
        // Dummies are sent.
        let dummies = ask(&repeated(times, sampled(0.5)), Adjacency::AddRemove, 1e-9).unwrap();
        assert!(dummies.upper > 0.0, "{dummies:?}");
        // As close to 0 as possible.
        let rare = Event::SampledCountSeen {
            rate: 1e-300,
            population: 5,
            dummy_rate: 0.0,
            sigma: 1.0,
            shape,
        };
        assert_eq!(ask(&repeated(times, rare), Adjacency::AddRemove, 1e-9).unwrap().upper, 0.0);
    }
}

#[test]
fn nothing_is_told_below_delta() {
    let event = repeated(10, sampled(1e-9, 0.5));
    assert_eq!(
        ask(&event, Adjacency::AddRemove, 1e-7).unwrap(),
        Bracket { lower: 0.0, upper: 0.0 }
    );
}

#[test]
fn what_one_cannot_count_the_other_explains() {
    let event = Event::DistributedDiscreteGaussian {
        sigma: 0.2,
        parties: 10,
        dimension: 1,
        sensitivity: 1.0,
    };
    let refused = ask(&event, Adjacency::AddRemove, 1e-6).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { name: "sigma", .. }), "{refused}");
}

/// A device with a value that always sends cannot be the one that was silent, whatever the rounding.
#[test]
fn a_rate_of_one_with_dummies_hides_no_default() {
    for (default_rate, dummy_rate) in [(0.9, 0.8), (0.5, 0.3), (0.01, 0.3), (0.3, 0.999)] {
        for (population, sigma, delta) in [(13, 1.0, 1e-2), (13, 1.0, 1e-8), (1_000, 50.0, 1e-4)] {
            let event = Event::ImportanceSampled {
                default_rate,
                rate: 1.0,
                population,
                defaults: 0,
                dummy_rate,
                sigma,
                shape: Shape::OneHot,
            };
            // With the default value the others' number alone is seen with this probability.
            if (1.0 - default_rate) * (1.0 - dummy_rate) <= delta {
                continue;
            }
            for times in [1, 3] {
                let event = repeated(times, event.clone());
                for adjacency in [Adjacency::Replace, Adjacency::ZeroOut] {
                    let found = ask(&event, adjacency, delta).unwrap();
                    assert_eq!(found.upper, f64::INFINITY, "{event:?} {adjacency:?}");
                }
            }
        }
    }
    // A rate that is nearly 1: the truth is from a computation with 60 digits.
    let event = Event::ImportanceSampled {
        default_rate: 0.01,
        rate: 1.0 - 1e-14,
        population: 1,
        defaults: 0,
        dummy_rate: 0.1,
        sigma: 50.0,
        shape: Shape::Vector,
    };
    for adjacency in [Adjacency::Replace, Adjacency::ZeroOut] {
        let found = ask(&event, adjacency, 1e-3).unwrap();
        assert!(found.upper >= 32.225_680_1, "{found:?}");
    }
}
