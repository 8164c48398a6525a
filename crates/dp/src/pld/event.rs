//! From events to pairs: which dominating pair stands for which event, under which adjacency.

use super::counts::{
    self, CountSeen, Grouping, count_only, count_seen_zero_out, truncated_poisson,
};
use super::mixture::Mixture;
use super::pair::{Atoms, Laplace, Pair, Sampled};
use super::refusals::{
    COUNT_SEEN, MANY_COUNTS, MANY_LEAVES, NESTED, NO_PAIR, POISSON_REPLACE, RESPONSE, SAMPLED,
    SHUFFLE, TRUNCATED, WITHOUT_REPLACEMENT,
};
use crate::error::in_range;
use crate::math::{down, exp, normal, sqrt, up};
use crate::{Adjacency, Bracket, Error, Event, Shape, closed, discrete, shuffle};

/// The pairs of one event: in either direction, at least and at most as bad.
pub(crate) struct Pairs {
    /// The device leaves, the device joins; for symmetric pairs both are the same.
    pub(crate) upper: [Box<dyn Pair>; 2],
    /// The same for the lower end, if it differs; `None` if the upper pairs are exact.
    pub(crate) lower: Option<[Box<dyn Pair>; 2]>,
    /// Mass that the pairs leave out, to be added to delta.
    pub(crate) outside: f64,
    /// False if the pairs bound the event but no attack is known to reach them: there is no lower
    /// end.
    pub(crate) attained: bool,
}

impl Pairs {
    /// The pair of one direction, for the upper or the lower end.
    pub(crate) fn end(&self, direction: usize, lower: bool) -> &dyn Pair {
        match &self.lower {
            Some(pairs) if lower => &*pairs[direction],
            _ => &*self.upper[direction],
        }
    }

    pub(super) fn exact(forward: impl Pair + 'static, reverse: impl Pair + 'static) -> Self {
        let upper: [Box<dyn Pair>; 2] = [Box::new(forward), Box::new(reverse)];
        Self { upper, lower: None, outside: 0.0, attained: true }
    }

    /// Anything that is `epsilon`-DP except for `delta`, which is subtracted first: what is left is
    /// pure, and never worse than the sum of its epsilons.
    fn black_box(epsilon: f64, delta: f64) -> Self {
        let atoms = Atoms::black_box(epsilon);
        Self { outside: delta, attained: false, ..Self::exact(atoms.clone(), atoms) }
    }
}

/// A release, and how often it occurs.
pub(crate) type Leaf<'a> = (&'a Event, u64);

/// The releases of a tree of compositions.
pub(crate) fn leaves(event: &Event) -> Result<Vec<Leaf<'_>>, Error> {
    let mut found = Vec::new();
    collect(event, 1, &mut found)?;
    Ok(found)
}

fn collect<'a>(event: &'a Event, times: u64, found: &mut Vec<Leaf<'a>>) -> Result<(), Error> {
    match event {
        Event::Composed { of } => of.iter().try_for_each(|part| collect(part, times, found)),
        Event::Repeated { times: more, of } => {
            let product = times.saturating_mul(*more);
            in_range("times", *more as f64, product <= MOST_TIMES, "at most 2^40 in all")?;
            collect(of, product, found)
        }
        leaf => {
            // The same release twice is one release with twice the count.
            let full = found.len() >= MOST_LEAVES;
            match found.iter_mut().find(|(known, _)| *known == leaf) {
                Some((_, so_far)) => *so_far = so_far.saturating_add(times),
                None if full => return Err(MANY_LEAVES),
                None => found.push((leaf, times)),
            }
            let total = found.iter().fold(0u64, |sum, (_, times)| sum.saturating_add(*times));
            in_range("times", total as f64, total <= MOST_TIMES, "at most 2^40 in all").map(|_| ())
        }
    }
}

const MOST_TIMES: u64 = 1 << 40;

/// The most different releases that are composed by their loss distributions.
const MOST_LEAVES: usize = 2_048;

/// More different counts than this are not examined one by one.
const MOST_COUNTS: u64 = 1 << 22;

/// The same for the count alone, whose counts are not grouped.
const MOST_ATOMS: u64 = 1 << 18;

/// The adjacency and shape, and how much of delta pays for what must be cut off or counted as a
/// black box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) adjacency: Adjacency,
    pub(crate) shape: Shape,
    pub(crate) delta: f64,
    /// The total number of releases.
    pub(crate) total: u64,
}

impl Context {
    /// The mass that one release may leave out.
    pub(super) fn outside(&self) -> f64 {
        (1e-7 * self.delta / self.total as f64).max(1e-300)
    }

    /// The delta at which one release is a black box.
    fn box_delta(&self) -> f64 {
        if self.total == 1 { self.delta } else { 0.25 * self.delta / self.total as f64 }
    }

    fn unit_distance(&self) -> f64 {
        self.shape.distance(self.adjacency)
    }

    /// The epsilon of a release that has a specific bound, if it is the only release, and the
    /// method as text.
    pub(crate) fn single(&self, leaf: &Event) -> Result<Option<(Bracket, &'static str)>, Error> {
        let found = match leaf {
            Event::DiscreteGaussian { sigma, sensitivity }
                if self.adjacency != Adjacency::Replace =>
            {
                (discrete::epsilon(*sigma, *sensitivity, self.delta)?, super::EXACT)
            }
            Event::Shuffled { .. } => (self.black_box(leaf)?.0, "shuffle bound"),
            Event::PoissonSampled { rate, of } if self.adjacency == Adjacency::Replace => {
                let Event::Shuffled { .. } = of.unwrapped() else { return Ok(None) };
                let bound = self.without_replacement(*rate, of.unwrapped(), self.delta)?;
                (bound.0, "amplification by sampling")
            }
            Event::RandomAllocation { .. } => return self.allocated_alone(leaf),
            Event::SampledWithoutReplacement { .. } => {
                (self.black_box(leaf)?.0, "amplification by sampling")
            }
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    /// The dominating pairs of one release, or of several that it stands for.
    pub(crate) fn parts(&self, leaf: &Event) -> Result<Vec<(Pairs, u64)>, Error> {
        match leaf {
            Event::RandomAllocation { .. } => self.allocated(leaf, 1.0),
            _ => Ok(vec![(self.pairs(leaf)?, 1)]),
        }
    }

    /// The dominating pairs of one release.
    pub(crate) fn pairs(&self, leaf: &Event) -> Result<Pairs, Error> {
        match leaf {
            Event::Gaussian { sigma, sensitivity } => {
                Ok(self.gaussian(1.0, *sigma, *sensitivity * self.unit_distance()))
            }
            Event::DiscreteGaussian { sigma, sensitivity } => {
                let atoms = self.discrete(*sigma, *sensitivity)?;
                let finite = atoms.finite();
                let mut pairs = Pairs::exact(atoms.clone(), atoms);
                pairs.lower = Some([Box::new(finite.clone()), Box::new(finite)]);
                Ok(pairs)
            }
            Event::Laplace { scale, sensitivity } => {
                let pair = self.laplace(*scale, *sensitivity);
                Ok(Pairs::exact(pair, pair))
            }
            Event::RandomizedResponse { epsilon0, k } => {
                self.only(Adjacency::Replace, RESPONSE)?;
                let atoms = Atoms::randomized_response(*epsilon0, *k);
                Ok(Pairs::exact(atoms.clone(), atoms))
            }
            Event::PureDp { epsilon } => Ok(Pairs::black_box(*epsilon, 0.0)),
            Event::ApproximateDp { epsilon, delta } => Ok(Pairs::black_box(*epsilon, *delta)),
            Event::PoissonSampled { rate, of } => self.poisson(*rate, of.unwrapped()),
            Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape } => {
                self.count_seen((*rate, *population, *dummy_rate), *sigma, *shape)
            }
            Event::CountOnly { rate, population } => Ok(self.count_only(*rate, *population)),
            Event::TruncatedPoisson { rate, population, max_batch, sigma, shape } => {
                self.truncated((*rate, *population, *max_batch), *sigma, *shape)
            }
            Event::RandomAllocation { .. } => self.allocated_once(leaf, 1.0),
            Event::Shuffled { .. } | Event::SampledWithoutReplacement { .. } => {
                let (epsilon, delta) = self.black_box(leaf)?;
                Ok(Pairs::black_box(epsilon.upper, delta))
            }
            Event::Zcdp { .. } | Event::DistributedDiscreteGaussian { .. } => Err(NO_PAIR),
            Event::Composed { .. } | Event::Repeated { .. } => Err(NESTED),
        }
    }

    fn only(&self, adjacency: Adjacency, otherwise: Error) -> Result<(), Error> {
        if self.adjacency == adjacency { Ok(()) } else { Err(otherwise) }
    }

    fn gaussian(&self, rate: f64, sigma: f64, distance: f64) -> Pairs {
        // In units of the distance, with the noise rounded down.
        let sigma = down(sigma / distance, 4.0 * f64::EPSILON);
        Pairs::exact(
            Mixture::sampled_gaussian(rate, sigma, 1.0, false),
            Mixture::sampled_gaussian(rate, sigma, 1.0, true),
        )
    }

    /// One coordinate. (Vectors of several coordinates are not covered: no direction is known to be
    /// the worst.)
    pub(super) fn discrete(&self, sigma: f64, sensitivity: u64) -> Result<Atoms, Error> {
        let distance = match (self.adjacency, self.shape) {
            (Adjacency::AddRemove | Adjacency::ZeroOut, _) => sensitivity,
            (Adjacency::Replace, Shape::Vector) => sensitivity.saturating_mul(2),
            (Adjacency::Replace, Shape::OneHot) => return Err(NO_PAIR),
        };
        let reach = sqrt(-2.0 * crate::math::ln(self.outside().max(1e-290))) + 2.0;
        let radius = (sigma * reach).ceil() + distance as f64 + 1.0;
        let range = "below 1e5 for this accountant; the Renyi one takes any";
        in_range("sigma", sigma, radius < 4e6, range)?;
        let radius = radius as u64;
        let masses = discrete::masses(sigma, radius)?;
        let scale = 0.5 * distance as f64 / (sigma * sigma);
        // P around 0, Q around `distance`: the loss at x is (distance - 2 x) distance / 2 sigma^2.
        let loss = |x: i64| (distance as f64 - 2.0 * x as f64) * scale;
        let radius = radius as i64;
        let atoms: Vec<_> = (-radius..=radius).map(loss).zip(masses).collect();
        // A tail from m on is not above the normal one from m - 1 on (Canonne, Kamath, Steinke
        // 2020).
        let beyond = 2.0 * normal::upper_tail(radius as f64 / sigma);
        Ok(Atoms::new(atoms, up(beyond, 1e-9)))
    }

    pub(super) fn laplace(&self, scale: f64, sensitivity: f64) -> Laplace {
        // In L1 two contributions are 2 apart, whatever their shape.
        let distance = if self.adjacency == Adjacency::Replace { 2.0 } else { 1.0 };
        Laplace { ratio: up(sensitivity * distance / scale, 4.0 * f64::EPSILON) }
    }

    fn poisson(&self, rate: f64, of: &Event) -> Result<Pairs, Error> {
        if self.adjacency == Adjacency::Replace {
            // The value is included with probability q. If it is not, another value takes its
            // place, so the two mixtures share all but q and the whole is (ln(1 + q (e^eps - 1)), q
            // delta) (Balle, Barthe, Gaboardi 2018).
            return match of {
                Event::Shuffled { .. } => {
                    let delta = self.box_delta();
                    let (epsilon, delta) = self.without_replacement(rate, of, delta)?;
                    Ok(Pairs::black_box(epsilon.upper, delta))
                }
                _ => Err(POISSON_REPLACE),
            };
        }
        if rate == 1.0 && !matches!(of, Event::Gaussian { .. }) {
            return self.pairs(of);
        }
        match of {
            Event::RandomAllocation { .. } => self.allocated_once(of, rate),
            Event::Gaussian { sigma, sensitivity } => Ok(self.gaussian(rate, *sigma, *sensitivity)),
            Event::DiscreteGaussian { sigma, sensitivity } => {
                let atoms = self.discrete(*sigma, *sensitivity)?;
                let finite = sampled(rate, atoms.finite(), atoms.finite());
                // Reversed, the atoms leave out the mass of the other law: the same, by symmetry.
                let outside = atoms.infinite();
                let mut pairs = sampled(rate, atoms.clone(), atoms);
                (pairs.lower, pairs.outside) = (Some(finite.upper), outside);
                Ok(pairs)
            }
            Event::Laplace { scale, sensitivity } => {
                let pair = self.laplace(*scale, *sensitivity);
                Ok(sampled(rate, pair, pair))
            }
            Event::PureDp { .. } | Event::ApproximateDp { .. }
                if self.adjacency == Adjacency::AddRemove =>
            {
                let (epsilon, delta) = match of {
                    Event::PureDp { epsilon } => (*epsilon, 0.0),
                    Event::ApproximateDp { epsilon, delta } => (*epsilon, *delta),
                    _ => return Err(NESTED),
                };
                let (epsilon, delta) = closed::sampled(epsilon, delta, rate)?;
                Ok(Pairs::black_box(epsilon, delta))
            }
            _ => Err(SAMPLED),
        }
    }

    fn count_seen(
        &self,
        (rate, others, dummy_rate): (f64, u64, f64),
        sigma: f64,
        shape: Shape,
    ) -> Result<Pairs, Error> {
        let outside = self.outside();
        match self.adjacency {
            Adjacency::AddRemove => {}
            Adjacency::ZeroOut if dummy_rate == 0.0 => {
                if counts::width(others, rate, 0.0, outside) > MOST_COUNTS {
                    return Err(MANY_COUNTS);
                }
                let pair = |reversed| count_seen_zero_out(rate, others, sigma, outside, reversed);
                let upper: [Box<dyn Pair>; 2] = [Box::new(pair(false)), Box::new(pair(true))];
                return Ok(Pairs { upper, lower: None, outside, attained: false });
            }
            Adjacency::ZeroOut | Adjacency::Replace => return Err(COUNT_SEEN),
        }
        let distance = shape.replacement_distance();
        // With fewer others the view reveals at least as much: the rest is post-processing.
        let (all, mut others) = (others, others.min(1 << 52));
        while counts::width(others, rate, dummy_rate, outside) > MOST_COUNTS {
            others /= 4;
        }
        // A composition evaluates every group for every cell of its lattice. With dummies a group
        // is slow, and only a bound.
        let (tolerance, most_groups) = match (self.total, dummy_rate > 0.0) {
            (1, false) => (2e-6, 1 << 20),
            (1, true) => (5e-5, 1 << 20),
            _ => (1e-4, 256),
        };
        let model = CountSeen { rate, others, dummy_rate, sigma, distance, tolerance, most_groups };
        let pair = |grouping, reversed| -> Box<dyn Pair> {
            Box::new(model.pair(outside, grouping, reversed))
        };
        Ok(Pairs {
            upper: [pair(Grouping::Pessimistic, false), pair(Grouping::Pessimistic, true)],
            lower: Some([pair(Grouping::Optimistic, false), pair(Grouping::Optimistic, true)]),
            outside,
            // A dummy's distance is bounded, but not attained together with the other one.
            attained: dummy_rate == 0.0 && others == all,
        })
    }

    fn count_only(&self, rate: f64, others: u64) -> Pairs {
        if self.adjacency != Adjacency::AddRemove {
            // The device is there in both cases, and sends with the same probability.
            let same = Atoms::new(vec![(0.0, 1.0)], 0.0);
            return Pairs::exact(same.clone(), same);
        }
        let outside = self.outside();
        // With fewer others the count reveals at least as much.
        let (all, mut others) = (others, others.min(1 << 52));
        while counts::width(others, rate, 0.0, outside) > MOST_ATOMS {
            others /= 4;
        }
        let pair = |reversed| count_only(rate, others, outside, reversed);
        let mut pairs = Pairs::exact(pair(false), pair(true));
        pairs.lower = Some([Box::new(pair(false)), Box::new(pair(true))]);
        Pairs { outside, attained: others == all, ..pairs }
    }

    fn truncated(
        &self,
        (rate, others, most): (f64, u64, u64),
        sigma: f64,
        shape: Shape,
    ) -> Result<Pairs, Error> {
        self.only(Adjacency::AddRemove, TRUNCATED)?;
        let replacement = shape.replacement_distance();
        let pair = |reversed| truncated_poisson((rate, others, most), sigma, replacement, reversed);
        // If all others hold the zero vector, only whether the device is taken matters.
        let fewer = crate::math::binomial::lower_tail(others, rate, most).min(1.0);
        let taken = most as f64 / (others as f64 + 1.0);
        let attack = down(rate * (fewer + (1.0 - fewer) * taken.min(1.0)), 1e-9).max(0.0);
        let lower = |reversed| Mixture::sampled_gaussian(attack, sigma, 1.0, reversed);
        let mut pairs = Pairs::exact(pair(false), pair(true));
        pairs.lower = Some([Box::new(lower(false)), Box::new(lower(true))]);
        // Tails of the binomial are accurate to 1e-12: far less than this.
        pairs.outside = self.outside();
        Ok(pairs)
    }

    /// The (epsilon, delta) of a release that has no pair.
    fn black_box(&self, leaf: &Event) -> Result<(Bracket, f64), Error> {
        let delta = self.box_delta();
        let epsilon = match leaf {
            Event::Shuffled { n, of } => {
                self.only(Adjacency::Replace, SHUFFLE)?;
                match of.unwrapped() {
                    Event::PureDp { epsilon } => shuffle::generic_epsilon(*epsilon, *n, delta)?,
                    Event::RandomizedResponse { epsilon0, k } => {
                        shuffle::krr_epsilon(*epsilon0, *k, *n, delta)?
                    }
                    _ => return Err(SHUFFLE),
                }
            }
            Event::SampledWithoutReplacement { population, sample, of } => {
                self.only(Adjacency::Replace, WITHOUT_REPLACEMENT)?;
                let rate = up(*sample as f64 / *population as f64, f64::EPSILON).min(1.0);
                return self.without_replacement(rate, of.unwrapped(), delta);
            }
            _ => return Err(NO_PAIR),
        };
        Ok((epsilon, delta))
    }

    /// A fixed-size sample under replacement: `(ln(1 + q (e^eps - 1)), q delta)` for each (eps,
    /// delta) of what is done with it (Balle, Barthe, Gaboardi 2018), so its own delta may be
    /// `delta / q`.
    fn without_replacement(
        &self,
        rate: f64,
        of: &Event,
        delta: f64,
    ) -> Result<(Bracket, f64), Error> {
        let own = delta / rate;
        if own >= 1.0 {
            return Ok((Bracket { lower: 0.0, upper: 0.0 }, delta));
        }
        let epsilon = match of {
            Event::Gaussian { sigma, sensitivity } => {
                closed::gaussian_epsilon(sigma / (sensitivity * self.unit_distance()), own)?.upper
            }
            Event::Laplace { scale, sensitivity } => {
                closed::laplace_epsilon(*scale, 2.0 * sensitivity, own)?
            }
            Event::PureDp { epsilon } => *epsilon,
            Event::Shuffled { .. } => {
                let inner = Self { delta: own, total: 1, ..*self };
                inner.black_box(of)?.0.upper
            }
            _ => return Err(WITHOUT_REPLACEMENT),
        };
        let upper = up(crate::math::ln_sampled(rate, epsilon), 1e-13);
        Ok((Bracket { lower: 0.0, upper }, delta))
    }
}

fn sampled<P: Pair + 'static>(rate: f64, forward: P, reverse: P) -> Pairs {
    Pairs::exact(
        Sampled { rate, of: forward, reversed: false },
        Sampled { rate, of: reverse, reversed: true },
    )
}

/// The noise of a composition of plain Gaussian releases, as one release: `1 / sigma^2` adds up.
/// `None` if there is anything else among them.
pub(crate) fn plain_gaussian(
    leaves: &[Leaf<'_>],
    adjacency: Adjacency,
    shape: Shape,
) -> Option<f64> {
    let mut sum = 0.0;
    for (leaf, times) in leaves {
        let plain = match leaf {
            Event::PoissonSampled { rate, of }
                if *rate == 1.0 && adjacency != Adjacency::Replace =>
            {
                of.unwrapped()
            }
            other => other.unwrapped(),
        };
        let Event::Gaussian { sigma, sensitivity } = plain else { return None };
        let ratio = sensitivity * shape.distance(adjacency) / sigma;
        sum += *times as f64 * ratio * ratio;
    }
    let sigma = 1.0 / sqrt(sum);
    (sigma.is_finite() && sigma > 0.0).then_some(sigma)
}

/// Two add/remove steps in a row make a replacement: `(e1 + e2, d1 + e^e1 d2)`.
pub(crate) fn share_of_replacement(delta: f64, epsilon: f64) -> f64 {
    delta / (1.0 + exp(epsilon))
}
