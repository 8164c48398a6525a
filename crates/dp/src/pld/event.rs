//! From events to pairs: which dominating pair stands for which event, under which adjacency.

use super::counts::{self, Grouping, count_only, truncated_poisson};
use super::mixture::Mixture;
use super::pair::{Atoms, Pair};
use super::refusals::{
    MANY_LEAVES, NESTED, NO_PAIR, RESPONSE, SHUFFLE, SUMMED, TRUNCATED, WITHOUT_REPLACEMENT,
};
use super::seen::{self, Seen};
use crate::error::in_range;
use crate::math::{down, ln_sampled, sqrt, up};
use crate::shuffle::{self, Randomizer};
use crate::{Adjacency, Bracket, Error, Event, Shape, closed, discrete};

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
    pub(super) fn black_box(epsilon: f64, delta: f64) -> Self {
        let atoms = Atoms::black_box(epsilon);
        Self { outside: delta, attained: false, ..Self::exact(atoms.clone(), atoms) }
    }
}

/// A release, and how often it occurs.
pub(crate) type Leaf<'a> = (&'a Event, u64);

/// The releases of a tree of compositions, without those in which nobody takes part.
pub(crate) fn leaves(event: &Event) -> Result<Vec<Leaf<'_>>, Error> {
    let mut found = Vec::new();
    collect(event, 1, &mut found)?;
    found.retain(|(leaf, _)| !is_silent(leaf));
    Ok(found)
}

/// Whether nobody ever takes part.
fn is_silent(event: &Event) -> bool {
    match event {
        Event::SampledCountSeen { rate, dummy_rate, .. }
        | Event::ImportanceSampled { rate, dummy_rate, .. } => *rate == 0.0 && *dummy_rate == 0.0,
        Event::PoissonSampled { rate, .. }
        | Event::TruncatedPoisson { rate, .. }
        | Event::CountOnly { rate, .. } => *rate == 0.0,
        _ => false,
    }
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
            let cost: usize = found.iter().map(|(known, _)| cost(known)).sum();
            let full = cost + self::cost(leaf) > MOST_LEAVES;
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

/// The most different releases that are composed by their loss distributions, in units of
/// [`cost`]: about a second.
const MOST_LEAVES: usize = 512;

/// What a release costs, in units of the simplest ones: some two milliseconds.
fn cost(event: &Event) -> usize {
    match event {
        Event::RandomAllocation { .. } => 16,
        Event::ImportanceSampled { .. } => 32,
        Event::SampledCountSeen { dummy_rate, .. } if *dummy_rate > 0.0 => 32,
        Event::CountOnly { .. } => 4,
        Event::Shuffled { .. } => 16,
        Event::Summed { .. } => 64,
        Event::PoissonSampled { of, .. } | Event::SampledWithoutReplacement { of, .. } => {
            cost(of.unwrapped())
        }
        _ => 1,
    }
}

/// More different counts than this are not examined one by one, for the count alone.
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
    /// The number of different ones.
    pub(crate) kinds: u64,
}

impl Context {
    /// The mass that one release may leave out.
    pub(super) fn outside(&self) -> f64 {
        (1e-7 * self.delta / self.total as f64).max(1e-300)
    }

    /// How many groups of counts a release in a composition may have.
    pub(super) fn groups(&self, most: u64) -> u64 {
        (4 * most / self.kinds).clamp(32, most)
    }

    /// The delta at which one release is a black box.
    fn box_delta(&self) -> f64 {
        if self.total == 1 { self.delta } else { 0.25 * self.delta / self.total as f64 }
    }

    /// The epsilon of a release that has a specific bound, if it is the only release, and the
    /// method as text.
    pub(crate) fn single(&self, leaf: &Event) -> Result<Option<(Bracket, &'static str)>, Error> {
        if let Some(crowd) = self.hidden_in(leaf)? {
            return Ok(Some((crowd.epsilon(self.delta), "shuffle bound")));
        }
        let found = match leaf {
            Event::DiscreteGaussian { sigma, sensitivity } => {
                let distance = self.whole_distance(*sensitivity)?;
                (discrete::epsilon(*sigma, distance, self.delta)?, super::EXACT)
            }
            Event::RandomAllocation { .. } => return self.allocated_alone(leaf),
            Event::SampledWithoutReplacement { population, sample, of } if !is_noise(of) => {
                let rate = subset_rate(*population, *sample);
                let (upper, _) = self.claim_of_a_subset(rate, of.unwrapped())?;
                (Bracket { lower: 0.0, upper }, "amplification by sampling")
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
        if let Some(crowd) = self.hidden_in(leaf)? {
            return Ok(crowd.pairs(self.outside()));
        }
        match leaf {
            Event::Gaussian { .. }
            | Event::DiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian { .. }
            | Event::Laplace { .. } => self.noise(leaf),
            Event::RandomizedResponse { epsilon0, k } => {
                self.only(Adjacency::Replace, RESPONSE)?;
                let atoms = Atoms::randomized_response(*epsilon0, *k);
                Ok(Pairs::exact(atoms.clone(), atoms))
            }
            Event::Rappor { .. } | Event::ProjectiveGeometry { .. } => {
                self.only(Adjacency::Replace, RESPONSE)?;
                let randomizer = Randomizer::of(leaf).ok_or(NO_PAIR)?;
                let (atoms, real) = (randomizer.alone(), randomizer.rounded_down().alone());
                let mut pairs = Pairs::exact(atoms.clone(), atoms);
                pairs.lower = Some([Box::new(real.clone()), Box::new(real)]);
                Ok(pairs)
            }
            Event::PureDp { epsilon } => Ok(Pairs::black_box(*epsilon, 0.0)),
            Event::ApproximateDp { epsilon, delta } => Ok(Pairs::black_box(*epsilon, *delta)),
            Event::PoissonSampled { rate, of } => self.poisson(*rate, of.unwrapped()),
            Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape } => {
                let seen = Seen {
                    default_rate: *rate,
                    rate: *rate,
                    dummy_rate: *dummy_rate,
                    others: *population,
                    defaults: 0,
                    sigma: *sigma,
                    shape: *shape,
                };
                seen::pairs(&seen, self)
            }
            Event::ImportanceSampled {
                default_rate,
                rate,
                population,
                defaults,
                dummy_rate,
                sigma,
                shape,
            } => {
                let seen = Seen {
                    default_rate: *default_rate,
                    rate: *rate,
                    dummy_rate: *dummy_rate,
                    others: *population,
                    defaults: *defaults,
                    sigma: *sigma,
                    shape: *shape,
                };
                seen::pairs(&seen, self)
            }
            Event::CountOnly { rate, population } => Ok(self.count_only(*rate, *population)),
            Event::TruncatedPoisson { rate, population, max_batch, sigma, shape } => {
                self.truncated((*rate, *population, *max_batch), *sigma, *shape)
            }
            Event::SampledWithoutReplacement { population, sample, of } => {
                let rate = subset_rate(*population, *sample);
                if is_noise(of) {
                    return self.subset(rate, of.unwrapped());
                }
                let (epsilon, delta) = self.claim_of_a_subset(rate, of.unwrapped())?;
                Ok(Pairs::black_box(epsilon, delta))
            }
            Event::RandomAllocation { .. } => self.allocated_once(leaf, 1.0),
            Event::Shuffled { .. } | Event::Summed { .. } => Err(SHUFFLE),
            Event::Zcdp { .. } => Err(NO_PAIR),
            Event::Composed { .. } | Event::Repeated { .. } => Err(NESTED),
        }
    }

    fn only(&self, adjacency: Adjacency, otherwise: Error) -> Result<(), Error> {
        if self.adjacency == adjacency { Ok(()) } else { Err(otherwise) }
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
        while counts::width(others, rate, outside) > MOST_ATOMS {
            others /= 4;
        }
        let most = if self.total == 1 { MOST_ATOMS } else { 2_048 };
        let pair = |grouping, reversed| -> Box<dyn Pair> {
            Box::new(count_only((rate, others), outside, most, grouping, reversed))
        };
        Pairs {
            upper: [pair(Grouping::Pessimistic, false), pair(Grouping::Pessimistic, true)],
            lower: Some([pair(Grouping::Optimistic, false), pair(Grouping::Optimistic, true)]),
            outside,
            attained: others == all,
        }
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

    /// The crowd in which a report is hidden, if the release is one; an error if it is one of which
    /// nothing is known.
    fn hidden_in(&self, leaf: &Event) -> Result<Option<Crowd>, Error> {
        let (of, share) = match leaf {
            Event::Shuffled { .. } | Event::Summed { .. } => (leaf, 1.0),
            // The value is included with probability q. If it is not, another takes its place.
            Event::PoissonSampled { rate, of } if self.adjacency == Adjacency::Replace => {
                (of.unwrapped(), *rate)
            }
            Event::SampledWithoutReplacement { population, sample, of } => {
                (of.unwrapped(), subset_rate(*population, *sample))
            }
            _ => return Ok(None),
        };
        let (Event::Shuffled { n, of: local } | Event::Summed { n, of: local }) = of else {
            return Ok(None);
        };
        self.only(Adjacency::Replace, SHUFFLE)?;
        let (local, rate) = match local.unwrapped() {
            Event::PoissonSampled { rate, of } => (of.unwrapped(), *rate),
            local => (local, 1.0),
        };
        let randomizer = Randomizer::of(local).ok_or(SHUFFLE)?;
        let summed = matches!(of, Event::Summed { .. });
        let rappor = matches!(randomizer, Randomizer::Rappor { .. });
        if summed && !(rappor && rate == 1.0) {
            return Err(SUMMED);
        }
        let crowd = shuffle::Crowd { reports: *n, rate, share };
        Ok(Some(Crowd { summed, randomizer, crowd }))
    }

    /// A claim over a subset of fixed size, as a black box: `(ln(1 + q (e^eps - 1)), q delta)` for each
    /// (eps, delta) of what is done with it (Balle, Barthe, Gaboardi 2018), so its own delta may be
    /// `delta / q`.
    fn claim_of_a_subset(&self, rate: f64, of: &Event) -> Result<(f64, f64), Error> {
        self.only(Adjacency::Replace, WITHOUT_REPLACEMENT)?;
        let delta = self.box_delta();
        let own = delta / rate;
        if own >= 1.0 {
            return Ok((0.0, delta));
        }
        let epsilon = match of {
            Event::Laplace { scale, sensitivity } => {
                closed::laplace_epsilon(*scale, 2.0 * sensitivity, own)?
            }
            Event::PureDp { epsilon } => *epsilon,
            _ => return Err(WITHOUT_REPLACEMENT),
        };
        Ok((up(ln_sampled(rate, epsilon), 1e-13), delta))
    }
}

/// A report in a crowd.
struct Crowd {
    /// Whether only the sum of the reports is seen.
    summed: bool,
    randomizer: Randomizer,
    crowd: shuffle::Crowd,
}

impl Crowd {
    fn epsilon(&self, delta: f64) -> Bracket {
        if self.crowd.share <= 0.0 {
            return Bracket { lower: 0.0, upper: 0.0 };
        }
        shuffle::epsilon(self.randomizer, self.summed, &self.crowd, delta)
    }

    fn pairs(&self, outside: f64) -> Pairs {
        let shuffle::Composed { upper, outside, lower } =
            shuffle::composed(self.randomizer, self.summed, &self.crowd, outside);
        let both = |atoms: &Atoms| -> [Box<dyn Pair>; 2] {
            [Box::new(atoms.clone()), Box::new(atoms.clone())]
        };
        let attained = lower.is_some();
        Pairs { upper: both(&upper), lower: lower.as_ref().map(both), outside, attained }
    }
}

/// Whether this is noise that has a pair when it is added to a subset of fixed size.
pub(super) fn is_noise(event: &Event) -> bool {
    let event = event.unwrapped();
    matches!(
        event,
        Event::Gaussian { .. }
            | Event::DiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian { .. }
    )
}

fn subset_rate(population: u64, sample: u64) -> f64 {
    up(sample as f64 / population as f64, f64::EPSILON).min(1.0)
}

/// The noise of a composition of plain Gaussian releases, as one release: `1 / sigma^2` adds up; and
/// whether it is that noise exactly, and not only one that is at least as bad. `None` if there is
/// anything else among them.
pub(crate) fn plain_gaussian(
    leaves: &[Leaf<'_>],
    adjacency: Adjacency,
    shape: Shape,
) -> Option<(f64, bool)> {
    let (mut sum, mut exact) = (0.0, true);
    for (leaf, times) in leaves {
        let plain = match leaf {
            Event::PoissonSampled { rate, of } if *rate == 1.0 => of.unwrapped(),
            other => other.unwrapped(),
        };
        let (sigma, sensitivity) = match plain {
            Event::Gaussian { sigma, sensitivity } => (*sigma, *sensitivity),
            Event::DistributedDiscreteGaussian { sigma, parties, sensitivity, .. } => {
                exact = false;
                (discrete::as_gaussian(*sigma, *parties).ok()?, *sensitivity)
            }
            _ => return None,
        };
        let ratio = sensitivity * shape.distance(adjacency) / sigma;
        sum += *times as f64 * ratio * ratio;
    }
    let sigma = 1.0 / sqrt(sum);
    (sigma.is_finite() && sigma > 0.0).then_some((sigma, exact))
}
