//! Which events are counted under which adjacency: the table in `docs/privacy-accounting.md`, "What
//! is proved for which adjacency". Everything else is refused.

use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Error, Event, Shape};

const ADJACENCIES: [Adjacency; 3] = [Adjacency::AddRemove, Adjacency::Replace, Adjacency::ZeroOut];

fn boxed(event: &Event) -> Box<Event> {
    Box::new(event.clone())
}

/// Each event, and under which of [`ADJACENCIES`] the loss distribution and the Renyi divergence
/// answer: `x` for an answer, `-` for a refusal.
fn table() -> Vec<(Event, &'static str, &'static str)> {
    let (sigma, shape) = (2.0, Shape::Vector);
    let (rate, population) = (0.1, 50);
    let gaussian = Event::Gaussian { sigma, sensitivity: 1.0 };
    let discrete = Event::DiscreteGaussian { sigma, sensitivity: 1 };
    let distributed =
        Event::DistributedDiscreteGaussian { sigma, parties: 10, dimension: 3, sensitivity: 1.0 };
    let laplace = Event::Laplace { scale: 2.0, sensitivity: 1.0 };
    let response = Event::RandomizedResponse { epsilon0: 1.0, k: 3 };
    let pure = Event::PureDp { epsilon: 1.0 };
    let approximate = Event::ApproximateDp { epsilon: 1.0, delta: 1e-9 };
    let zcdp = Event::Zcdp { rho: 0.1 };
    let several = Event::Composed { of: vec![gaussian.clone(), laplace.clone()] };
    let shuffled = Event::Shuffled { n: 100, of: boxed(&response) };
    let truncated = Event::TruncatedPoisson { rate, population, max_batch: 9, sigma, shape };
    let seen =
        |dummy_rate: f64| Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape };
    let important = Event::ImportanceSampled {
        default_rate: 0.02,
        rate,
        population,
        defaults: 10,
        dummy_rate: 0.1,
        sigma,
        shape,
    };
    let count = Event::CountOnly { rate, population };
    let allocation = |selected, donation, population, of: &Event| Event::RandomAllocation {
        slots: 5,
        selected,
        donation,
        population,
        shape,
        of: boxed(of),
    };
    let allocated = |of: &Event| allocation(1, false, None, of);
    let poisson = |of: &Event| Event::PoissonSampled { rate, of: boxed(of) };
    let subset =
        |of: &Event| Event::SampledWithoutReplacement { population: 50, sample: 10, of: boxed(of) };
    let mut table = vec![
        (response.clone(), "-x-", "-x-"),
        (zcdp.clone(), "---", "xxx"),
        (several.clone(), "xxx", "xxx"),
        (shuffled.clone(), "-x-", "---"),
        (truncated, "x--", "---"),
        (seen(0.0), "xxx", "---"),
        (seen(0.3), "xxx", "---"),
        (important, "xxx", "---"),
        (count, "xxx", "---"),
        (allocated(&pure), "x--", "---"),
        (allocated(&approximate), "x--", "---"),
        (allocated(&poisson(&approximate)), "x--", "---"),
        (allocated(&zcdp), "---", "---"),
        (allocated(&several), "---", "---"),
        (allocated(&response), "---", "---"),
        (allocated(&shuffled), "-x-", "---"),
        (allocation(2, false, None, &shuffled), "---", "---"),
        (allocation(2, false, None, &pure), "x--", "---"),
        (allocation(2, true, None, &gaussian), "---", "---"),
        (poisson(&allocation(2, false, None, &gaussian)), "---", "---"),
        (allocation(1, false, Some(50), &gaussian), "---", "---"),
        (poisson(&allocation(1, false, Some(50), &gaussian)), "x--", "---"),
        (poisson(&allocation(1, false, Some(50), &laplace)), "x--", "---"),
        (poisson(&allocation(1, false, Some(50), &discrete)), "---", "---"),
        (poisson(&allocation(1, true, Some(50), &gaussian)), "---", "---"),
        (poisson(&pure), "x--", "xxx"),
        (poisson(&approximate), "x--", "xxx"),
        (poisson(&zcdp), "---", "xxx"),
        (poisson(&several), "---", "xxx"),
        (poisson(&response), "---", "-x-"),
        (poisson(&shuffled), "-x-", "---"),
        (subset(&laplace), "-x-", "-xx"),
        (subset(&pure), "-x-", "-xx"),
        (subset(&approximate), "---", "-xx"),
        (subset(&zcdp), "---", "-xx"),
        (subset(&response), "---", "-x-"),
        (subset(&shuffled), "-x-", "---"),
        (subset(&several), "---", "-xx"),
    ];
    for noise in [&gaussian, &discrete, &distributed] {
        table.push((noise.clone(), "xxx", "xxx"));
        table.push((poisson(noise), "xxx", "xxx"));
        table.push((subset(noise), "-xx", "-xx"));
    }
    for noise in [&gaussian, &discrete, &distributed, &laplace] {
        table.push((allocated(noise), "x-x", "---"));
        table.push((allocated(&poisson(noise)), "x-x", "---"));
        table.push((poisson(&allocated(noise)), "x-x", "---"));
        table.push((allocation(1, true, None, noise), "x-x", "---"));
        table.push((allocation(2, false, None, noise), "x-x", "---"));
    }
    table.push((laplace.clone(), "xxx", "xxx"));
    table.push((poisson(&laplace), "xxx", "xxx"));
    for claim in [pure, approximate] {
        table.push((claim, "xxx", "xxx"));
    }
    table
}

#[test]
fn every_event_is_counted_or_refused_as_the_table_says() {
    for (event, pld, rdp) in table() {
        for (accountant, answers) in [(Accountant::Pld, pld), (Accountant::Rdp, rdp)] {
            let found: String = ADJACENCIES
                .iter()
                .map(|&adjacency| {
                    let question =
                        Question { event: &event, adjacency, shape: Shape::Vector, accountant };
                    match question.epsilon(1e-6) {
                        Ok(answer) => {
                            let epsilon = answer.epsilon.upper;
                            assert!(epsilon >= 0.0 && epsilon.is_finite(), "{event:?}: {epsilon}");
                            'x'
                        }
                        Err(Error::Unsupported { hint, .. }) => {
                            assert!(!hint.is_empty());
                            '-'
                        }
                        Err(other) => panic!("{event:?} {adjacency}: {other}"),
                    }
                })
                .collect();
            assert_eq!(found, answers, "{event:?} {accountant:?}");
        }
    }
}

/// What is the same mechanism under two adjacencies costs the same.
#[test]
fn zero_is_absence_only_where_the_count_is_hidden() {
    let epsilon = |event: &Event, adjacency: Adjacency| {
        let (shape, accountant) = (Shape::Vector, Accountant::Best);
        Question { event, adjacency, shape, accountant }.epsilon(1e-6).unwrap().epsilon.upper
    };
    let hidden = Event::PoissonSampled {
        rate: 0.1,
        of: Box::new(Event::Gaussian { sigma: 2.0, sensitivity: 1.0 }),
    };
    let seen = Event::SampledCountSeen {
        rate: 0.1,
        population: 10_000,
        dummy_rate: 0.0,
        sigma: 2.0,
        shape: Shape::Vector,
    };
    let [zero, absent] =
        [Adjacency::ZeroOut, Adjacency::AddRemove].map(|adjacency| epsilon(&hidden, adjacency));
    assert_eq!(zero, absent);
    assert!(epsilon(&seen, Adjacency::ZeroOut) > 2.0 * zero);
    // One value against another is the worst: it needs no zero in between.
    assert!(epsilon(&seen, Adjacency::Replace) > epsilon(&seen, Adjacency::ZeroOut));
}
