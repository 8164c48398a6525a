//! The pairs of noise: plain, over a Poisson sample, over a subset of fixed size.

use super::event::{Context, Pairs, is_noise};
use super::mixture::{Group, Mixture};
use super::pair::{Atoms, Laplace, Pair, Sampled};
use super::refusals::{NESTED, NO_PAIR, POISSON_REPLACE, SAMPLED, WITHOUT_REPLACEMENT};
use super::sides::{Glued, LaplaceShifts, Shifts};
use super::symmetric::Symmetric;
use crate::error::in_range;
use crate::math::{down, ln, ln_sampled, normal, sqrt, up};
use crate::{Adjacency, Error, Event, Shape, closed, discrete};

/// From this sigma on, discrete Gaussian noise is bounded by continuous noise on either side: the
/// ends are then within 4e-5 of each other, and no list of outcomes is needed.
pub(super) const SMOOTH: f64 = 256.0;

/// The largest distance between two discrete Gaussians, in sigmas: the loss is 2,048 there.
const APART: f64 = 64.0;

/// (probability, rate): how often a device takes part, where that is seen.
pub(super) type Rates = Vec<(f64, f64)>;

/// Gaussian noise that bounds the noise of an event, in units of a contribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// At least as bad.
    pub(super) sigma: f64,
    /// At most as bad, if any is known.
    more: Option<f64>,
}

impl Bound {
    /// Continuous Gaussian noise.
    pub(super) fn exact(sigma: f64) -> Self {
        Self { sigma: down(sigma, 4.0 * f64::EPSILON), more: Some(sigma) }
    }

    /// Of Gaussian noise of any kind.
    ///
    /// A discrete Gaussian of a large sigma is bounded on the other side too: whoever adds
    /// continuous noise `N(0, 4)` to it gets, at every point, the density of `N(0, sigma^2 + 4)` but
    /// for a factor `1 +- 1e-33` (Poisson summation), and adding noise is post-processing.
    pub(super) fn of(event: &Event) -> Result<Self, Error> {
        let at_least = |sigma: f64| Self { more: None, ..Self::exact(sigma) };
        match event {
            Event::Gaussian { sigma, sensitivity } => Ok(Self::exact(sigma / sensitivity)),
            Event::DistributedDiscreteGaussian { sigma, parties, sensitivity, .. } => {
                Ok(at_least(discrete::as_gaussian(*sigma, *parties)? / sensitivity))
            }
            Event::DiscreteGaussian { sigma, sensitivity } => {
                let unit = *sensitivity as f64;
                let more = up(sqrt(sigma * sigma + 4.0) / unit, 1e-14);
                let more = (*sigma >= SMOOTH).then_some(more);
                Ok(Self { more, ..at_least(discrete::as_gaussian(*sigma, 1)? / unit) })
            }
            _ => Err(NO_PAIR),
        }
    }

    /// Whether both bounds are the same.
    fn is_exact(&self) -> bool {
        self.more.is_some_and(|more| more <= self.sigma * (1.0 + 1e-14))
    }

    /// Against absence, over a Poisson sample.
    fn sampled(self, rate: f64, distance: f64) -> Pairs {
        let pairs = |sigma: f64| {
            // In units of the distance.
            let sigma = down(sigma / distance, 2.0 * f64::EPSILON);
            [false, true].map(|reversed| -> Box<dyn Pair> {
                Box::new(Mixture::sampled_gaussian(rate, sigma, 1.0, reversed))
            })
        };
        let lower = self.more.filter(|_| !self.is_exact()).map(pairs);
        Pairs { upper: pairs(self.sigma), lower, outside: 0.0, attained: self.more.is_some() }
    }
}

impl Context {
    /// The distance of two contributions that are whole numbers.
    pub(super) fn whole_distance(&self, sensitivity: u64) -> Result<u64, Error> {
        match (self.adjacency, self.shape) {
            (Adjacency::AddRemove | Adjacency::ZeroOut, _) | (_, Shape::Number) => Ok(sensitivity),
            (Adjacency::Replace, Shape::Vector) => Ok(sensitivity.saturating_mul(2)),
            (Adjacency::Replace, Shape::OneHot) => Err(NO_PAIR),
        }
    }

    /// Plain noise.
    pub(super) fn noise(&self, event: &Event) -> Result<Pairs, Error> {
        match event {
            Event::DiscreteGaussian { sigma, sensitivity } if *sigma < SMOOTH => {
                let distance = self.whole_distance(*sensitivity)?;
                let atoms = self.discrete(*sigma, distance)?;
                let finite = atoms.finite();
                let lower: [Box<dyn Pair>; 2] = [Box::new(finite.clone()), Box::new(finite)];
                Ok(Pairs { lower: Some(lower), ..Pairs::exact(atoms.clone(), atoms) })
            }
            Event::Laplace { scale, sensitivity } => {
                // In L1 two contributions are 2 apart, whatever their shape.
                let distance = if self.adjacency == Adjacency::Replace { 2.0 } else { 1.0 };
                let pair = Laplace { ratio: distance * laplace(*scale, *sensitivity) };
                Ok(Pairs::exact(pair, pair))
            }
            _ => {
                self.check_shape(event)?;
                Ok(Bound::of(event)?.sampled(1.0, self.shape.distance(self.adjacency)))
            }
        }
    }

    /// A whole number has no one-hot form.
    fn check_shape(&self, event: &Event) -> Result<(), Error> {
        match event {
            Event::DiscreteGaussian { sensitivity, .. } => {
                self.whole_distance(*sensitivity).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Over a Poisson sample.
    pub(super) fn poisson(&self, rate: f64, of: &Event) -> Result<Pairs, Error> {
        if rate == 1.0 {
            return self.pairs(of);
        }
        if self.adjacency == Adjacency::Replace {
            return self.poisson_replaced(rate, of);
        }
        match of {
            Event::RandomAllocation { .. } => self.allocated_once(of, rate),
            Event::DiscreteGaussian { sigma, sensitivity } if *sigma < SMOOTH => {
                let atoms = self.discrete(*sigma, *sensitivity)?;
                let finite = sampled(rate, atoms.finite());
                // Reversed, the atoms leave out the mass of the other law: the same, by symmetry.
                let outside = atoms.infinite();
                Ok(Pairs { lower: Some(finite.upper), outside, ..sampled(rate, atoms) })
            }
            Event::Gaussian { .. }
            | Event::DiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian { .. } => Ok(Bound::of(of)?.sampled(rate, 1.0)),
            Event::Laplace { scale, sensitivity } => {
                Ok(sampled(rate, Laplace { ratio: laplace(*scale, *sensitivity) }))
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

    /// Over a Poisson sample, one value against another. Absence is 1 away from either, the other
    /// value the replacement distance.
    fn poisson_replaced(&self, rate: f64, of: &Event) -> Result<Pairs, Error> {
        match of {
            // A number may be 0, which is the same as absence, and no two are farther apart.
            _ if self.shape == Shape::Number && is_noise(of) => {
                let absent = Self { adjacency: Adjacency::AddRemove, ..*self };
                let mirrored = || -> Result<Box<dyn Pair>, Error> {
                    let [joins, _] = absent.poisson(rate, of)?.upper;
                    Ok(Box::new(Symmetric { curves: vec![joins] }))
                };
                let real = absent.poisson(rate, of)?;
                let lower = real.lower.or(Some(real.upper));
                Ok(Pairs { upper: [mirrored()?, mirrored()?], lower, ..real })
            }
            Event::DiscreteGaussian { sigma, sensitivity } if *sigma < SMOOTH => {
                self.whole_distance(*sensitivity)?;
                let (atoms, outside) = self.discrete_replaced(rate, *sigma, *sensitivity)?;
                Ok(Pairs { outside, ..Pairs::exact(atoms.clone(), atoms) })
            }
            Event::Gaussian { .. }
            | Event::DiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian { .. } => {
                self.check_shape(of)?;
                let bound = Bound::of(of)?;
                let b = 1.0 - self.shape.replacement_distance();
                let pair = |sigma: f64| {
                    let side = Shifts { sigma, a: 1.0, b, groups: vec![(1.0, rate)] };
                    Glued { up: side.clone(), down: Some(side) }
                };
                // Vectors x, 0 and -x lie on a line; one-hot vectors do not.
                let attained = bound.more.is_some() && self.shape == Shape::Vector;
                let upper = pair(bound.sigma);
                let lower = bound.more.filter(|_| !bound.is_exact()).map(|more| {
                    let boxed = || -> Box<dyn Pair> { Box::new(pair(more)) };
                    [boxed(), boxed()]
                });
                Ok(Pairs { lower, attained, ..Pairs::exact(upper.clone(), upper) })
            }
            Event::Laplace { scale, sensitivity } => {
                let side = LaplaceShifts { rate, ratio: laplace(*scale, *sensitivity) };
                let pair = Glued { up: side, down: Some(side) };
                Ok(Pairs::exact(pair.clone(), pair))
            }
            _ => Err(POISSON_REPLACE),
        }
    }

    /// Over a uniform subset of fixed size that holds a device with probability `rate`.
    pub(super) fn subset(&self, rate: f64, of: &Event) -> Result<Pairs, Error> {
        self.check_shape(of)?;
        let rates = vec![(1.0, rate)];
        self.taken((rates.clone(), rates), Bound::of(of)?, self.shape)
    }

    /// A device takes part with one of these rates, which is seen, and if it does not, another one
    /// takes its place: of any value, at most the replacement distance away from this one's.
    /// `rates` are for the upper and for the lower end.
    pub(super) fn taken(
        &self,
        (rates, fewer): (Rates, Rates),
        bound: Bound,
        shape: Shape,
    ) -> Result<Pairs, Error> {
        let distance = shape.replacement_distance();
        let side = |a: f64, b: f64| Shifts { sigma: bound.sigma, a, b, groups: rates.clone() };
        let glued = |up: &Shifts, down: &Shifts| -> Box<dyn Pair> {
            Box::new(Glued { up: up.clone(), down: Some(down.clone()) })
        };
        // Real cases, for the lower end: all others hold the same value.
        let sigma = bound.more.unwrap_or(bound.sigma);
        let mixture = |distance: f64, reversed: bool| -> Box<dyn Pair> {
            let group = |&(base, rate): &(f64, f64)| Group {
                base,
                stay: (1.0 - rate) * base,
                gap: rate * base,
                moved: rate * base,
                distance,
            };
            Box::new(Mixture { sigma, groups: fewer.iter().map(group).collect(), reversed })
        };
        let known = bound.more.is_some();
        let (upper, lower, attained) = match self.adjacency {
            Adjacency::Replace => {
                let value = side(distance, 0.0);
                let upper = [glued(&value, &value), glued(&value, &value)];
                (upper, [mixture(distance, false), mixture(distance, true)], known)
            }
            Adjacency::ZeroOut => {
                // A value is `distance` away from that of the others and 1 from zero; zero is 1
                // away from both.
                let (value, zero) = (side(distance, distance - 1.0), side(1.0, 0.0));
                let upper = [glued(&value, &zero), glued(&zero, &value)];
                let attack = Shifts { sigma, groups: fewer.clone(), ..value };
                let lower: Box<dyn Pair> = Box::new(Glued { up: attack, down: None });
                (upper, [lower, mixture(1.0, false)], known && shape != Shape::OneHot)
            }
            Adjacency::AddRemove => return Err(WITHOUT_REPLACEMENT),
        };
        Ok(Pairs { upper, lower: Some(lower), outside: 0.0, attained })
    }

    /// The masses of `-radius ..= radius`, and a bound on what lies outside, also if the law is
    /// moved by `distance`.
    fn masses(&self, sigma: f64, distance: u64) -> Result<(i64, Vec<f64>, f64), Error> {
        let reach = sqrt(-2.0 * ln(self.outside().max(1e-290))) + 2.0;
        let range = "at most 64 sigma for this accountant; the Renyi one takes any";
        in_range("sensitivity", distance as f64, distance as f64 <= APART * sigma, range)?;
        let radius = (sigma * reach).ceil() as u64 + distance + 1;
        // A tail from m on is not above the normal one from m - 1 on (Canonne, Kamath, Steinke
        // 2020).
        let beyond = up(2.0 * normal::upper_tail((radius - distance) as f64 / sigma), 1e-9);
        Ok((radius as i64, discrete::masses(sigma, radius)?, beyond))
    }

    /// One coordinate that moves by `distance`. (For several coordinates no direction is known to be
    /// the worst: those are bounded by continuous noise.)
    pub(super) fn discrete(&self, sigma: f64, distance: u64) -> Result<Atoms, Error> {
        let (radius, masses, beyond) = self.masses(sigma, distance)?;
        let scale = 0.5 * distance as f64 / (sigma * sigma);
        // P around 0, Q around `distance`: the loss at x is (distance - 2 x) distance / 2 sigma^2.
        let loss = |x: i64| (distance as f64 - 2.0 * x as f64) * scale;
        Ok(Atoms::new((-radius..=radius).map(loss).zip(masses).collect(), beyond))
    }

    /// One coordinate over a Poisson sample: a contribution of `unit` against one of `-unit`, and
    /// the mass that is left out. The two ratios of [`super::sides`] are comonotone, and grow with
    /// the distance.
    fn discrete_replaced(&self, rate: f64, sigma: f64, unit: u64) -> Result<(Atoms, f64), Error> {
        let (radius, masses, beyond) = self.masses(sigma, unit)?;
        let (shift, scale) = (unit as i64, 0.5 * unit as f64 / (sigma * sigma));
        let mass = |x: i64| masses.get((x + radius) as usize).copied().unwrap_or(0.0);
        let moved = |x: i64| ln_sampled(rate, (2.0 * x as f64 - unit as f64) * scale);
        let atom = |x: i64| (moved(x) - moved(-x), (1.0 - rate) * mass(x) + rate * mass(x - shift));
        Ok((Atoms::new((-radius..=radius).map(atom).collect(), 0.0), 2.0 * beyond))
    }
}

/// The pure epsilon of Laplace noise for one contribution, rounded up.
pub(super) fn laplace(scale: f64, sensitivity: f64) -> f64 {
    up(sensitivity / scale, 4.0 * f64::EPSILON)
}

fn sampled<P: Pair + Clone + 'static>(rate: f64, of: P) -> Pairs {
    Pairs::exact(
        Sampled { rate, of: of.clone(), reversed: false },
        Sampled { rate, of, reversed: true },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much noise there is, and however large a contribution, the list of outcomes is short.
    #[test]
    fn discrete_noise_has_few_outcomes() {
        let context = |adjacency, delta| Context {
            adjacency,
            shape: Shape::Vector,
            delta,
            total: 1 << 40,
            kinds: 12,
        };
        for sigma in [0.3, 2.0, 60.0, 255.9, 256.0, 9e4, 1e12] {
            for sensitivity in [1, 10, 1_000_000, 1 << 50] {
                let noise = Event::DiscreteGaussian { sigma, sensitivity };
                for adjacency in [Adjacency::AddRemove, Adjacency::Replace] {
                    let context = context(adjacency, 1e-280);
                    let both = [context.noise(&noise), context.poisson(0.1, &noise)];
                    for pairs in both.into_iter().flatten() {
                        let outcomes = pairs.upper[0].outcomes();
                        let most = if sigma < SMOOTH { 60_000 } else { 0 };
                        assert!(outcomes <= most, "{sigma} {sensitivity}: {outcomes}");
                        assert!(sigma >= SMOOTH || outcomes > 0);
                    }
                }
            }
        }
    }
}
