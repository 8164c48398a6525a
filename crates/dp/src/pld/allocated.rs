//! The pairs of random allocation ([`crate::allocation`]).

use super::event::{Context, Pairs};
use super::noise::{Bound, SMOOTH, laplace};
use super::pair::Pair;
use super::refusals::{ALLOCATION, SEVERAL, SLOT_COUNTS, SLOT_NOISE};
use crate::allocation::{Allocation, Crowd, Outcomes, Schedule, Slot, best_attack, nothing};
use crate::error::in_range;
use crate::math::{down, up};
use crate::{Adjacency, Bracket, Error, Event, Shape};

/// The most releases that one allocation may stand for.
const MOST_SELECTED: u64 = 1 << 40;

/// How many groups of totals there are: alone, and in a composition.
const GROUPS: (u64, u64) = (192, 64);

/// A release inside of an allocation: its ratio, the probability that the device takes part even
/// if it has the slot, and whether the ratio is attained.
struct Inner {
    slot: Slot,
    rate: f64,
    attained: bool,
}

impl Context {
    /// The epsilon of an allocation that is the only event, where there is a better way than by its
    /// pair.
    pub(super) fn allocated_alone(
        &self,
        event: &Event,
    ) -> Result<Option<(Bracket, &'static str)>, Error> {
        let Event::RandomAllocation { slots, selected: 1, donation, population: None, of, .. } =
            event
        else {
            return Ok(None);
        };
        if self.adjacency == Adjacency::Replace {
            return self.single(self.shuffled(event)?);
        }
        let inner = self.inner(of.unwrapped())?;
        if inner.rate == 0.0 {
            return Ok(None);
        }
        let schedule = schedule(*slots, *donation).sampled(inner.rate);
        let law = Allocation::new(inner.slot, schedule, self.delta);
        if !law.has_own_bound() {
            return Ok(None);
        }
        let mut found = law.epsilon(self.delta)?;
        if !inner.attained {
            found.lower = 0.0;
        }
        let method = if *donation {
            "exact law of the donation"
        } else {
            "random allocation, exact law of the sum"
        };
        Ok(Some((found, method)))
    }

    /// The pairs of an allocation to one slot, after a coin of probability `rate` for all of it.
    pub(super) fn allocated_once(&self, event: &Event, rate: f64) -> Result<Pairs, Error> {
        let mut parts = self.allocated(event, rate)?;
        match (parts.pop(), parts.is_empty()) {
            (Some((pairs, 1)), true) => Ok(pairs),
            _ => Err(SEVERAL),
        }
    }

    /// The pairs of all releases that an allocation stands for.
    pub(super) fn allocated(&self, event: &Event, rate: f64) -> Result<Vec<(Pairs, u64)>, Error> {
        let Event::RandomAllocation { slots, selected, donation, population, shape, of } = event
        else {
            return Err(ALLOCATION);
        };
        if self.adjacency == Adjacency::Replace {
            return self.parts(self.shuffled(event)?);
        }
        if *selected > 1 && (*donation || population.is_some() || rate < 1.0) {
            return Err(SEVERAL);
        }
        if let Some(others) = population {
            if *donation {
                return Err(SEVERAL);
            }
            let crowd = self.crowd((*slots, *others), rate, *shape, of.unwrapped())?;
            return Ok(vec![(self.counts_seen(crowd)?, 1)]);
        }
        let inner = self.inner(of.unwrapped())?;
        let rate = inner.rate * rate;
        if rate == 0.0 {
            let nobody = || [nothing(), nothing()];
            return Ok(vec![(pairs([nobody(), nobody()], true), 1)]);
        }
        if *selected == 1 {
            let schedule = schedule(*slots, *donation).sampled(rate);
            let law = Allocation::new(inner.slot, schedule, self.delta / self.total as f64);
            return Ok(vec![(pairs(law.pairs(), inner.attained), 1)]);
        }
        self.several(*slots, *selected, &inner)
    }

    /// `k` of `t` slots: that many blocks, composed.
    fn several(&self, t: u64, k: u64, inner: &Inner) -> Result<Vec<(Pairs, u64)>, Error> {
        let releases = self.total.saturating_mul(k);
        in_range("selected", k as f64, releases <= MOST_SELECTED, "at most 2^40 in all")?;
        let delta = self.delta / releases as f64;
        let block = |size: u64| Schedule::uniform(size).sampled(inner.rate);
        let (size, longer) = (t / k, t % k);
        if k == t {
            let law = Allocation::new(inner.slot.clone(), block(1), delta);
            return Ok(vec![(pairs(law.pairs(), inner.attained), k)]);
        }
        let upper = |size: u64| {
            let upper = Allocation::upper(&inner.slot, block(size), delta);
            pairs([upper, [nothing(), nothing()]], inner.attained)
        };
        let mut parts = vec![(upper(size), k - longer)];
        if longer > 0 {
            parts.push((upper(size + 1), longer));
        }
        if inner.attained {
            let attack = best_attack(&inner.slot, (k, t), inner.rate, self.delta);
            parts.push((pairs([[nothing(), nothing()], attack], true), 1));
        }
        Ok(parts)
    }

    /// Those whose counts are seen.
    fn crowd(
        &self,
        (slots, others): (u64, u64),
        rate: f64,
        shape: Shape,
        of: &Event,
    ) -> Result<Crowd, Error> {
        if self.adjacency != Adjacency::AddRemove || !(rate < 1.0) {
            return Err(SLOT_COUNTS);
        }
        let slot = match of {
            Event::Gaussian { sigma, sensitivity } => {
                let distance = sensitivity * shape.replacement_distance();
                Slot::Gaussian { sigma: down(sigma / distance, 1e-15) }
            }
            Event::Laplace { scale, sensitivity } => {
                // In L1 two contributions are 2 apart, whatever their shape.
                Slot::Laplace { ratio: up(2.0 * sensitivity / scale, 4.0 * f64::EPSILON) }
            }
            _ => return Err(SLOT_COUNTS),
        };
        let noise = match slot {
            Slot::Gaussian { sigma } => sigma,
            Slot::Laplace { ratio } => 1.0 / ratio,
            Slot::Atoms(_) => return Err(SLOT_COUNTS),
        };
        if !SLOT_RANGE.contains(&noise) {
            return Err(SLOT_NOISE);
        }
        Ok(Crowd { slot, slots, rate, others })
    }

    fn counts_seen(&self, mut crowd: Crowd) -> Result<Pairs, Error> {
        let (delta, outside) = (self.delta / self.total as f64, self.outside());
        // With fewer others the counts reveal at least as much: the rest is post-processing.
        let all = crowd.others;
        while super::counts::width(crowd.others, crowd.rate, outside) > MOST_TOTALS {
            crowd.others /= 4;
        }
        let groups = if self.total == 1 { GROUPS.0 } else { self.groups(GROUPS.1) };
        let both = crowd.pairs((delta, outside), groups).ok_or(SLOT_NOISE)?;
        Ok(Pairs { outside, ..pairs(both, crowd.others == all) })
    }

    /// A shuffle of the reports of all slots.
    fn shuffled<'a>(&self, event: &'a Event) -> Result<&'a Event, Error> {
        match event {
            Event::RandomAllocation {
                selected: 1, donation: false, population: None, of, ..
            } if matches!(of.unwrapped(), Event::Shuffled { .. }) => Ok(of.unwrapped()),
            _ => Err(ALLOCATION),
        }
    }

    /// What may be inside of an allocation, under add/remove or zero-out.
    fn inner(&self, of: &Event) -> Result<Inner, Error> {
        let claims = self.adjacency == Adjacency::AddRemove;
        let (slot, attained) = match of {
            Event::Gaussian { sigma, sensitivity } => {
                (Slot::Gaussian { sigma: down(sigma / sensitivity, 1e-15) }, true)
            }
            Event::Laplace { scale, sensitivity } => {
                (Slot::Laplace { ratio: laplace(*scale, *sensitivity) }, true)
            }
            Event::DiscreteGaussian { sigma, sensitivity } if *sigma < SMOOTH => {
                let atoms = self.discrete(*sigma, *sensitivity)?;
                // The law of the loss without the device is that of its negative with it.
                let points = atoms.points().iter().rev().map(|&(loss, p)| (-loss, p));
                let distance = *sensitivity as f64;
                let half = 0.5 * distance / (sigma * sigma);
                let unit = if sensitivity.is_multiple_of(2) { 2.0 * half } else { half };
                let (zero, alone) = (atoms.infinite(), atoms.infinite());
                (Slot::Atoms(Outcomes { atoms: points.collect(), unit, zero, alone }), true)
            }
            Event::DiscreteGaussian { .. } | Event::DistributedDiscreteGaussian { .. } => {
                (Slot::Gaussian { sigma: Bound::of(of)?.sigma }, false)
            }
            Event::PureDp { epsilon } if claims => {
                (Slot::Atoms(Outcomes::claim(*epsilon, 0.0)), false)
            }
            Event::ApproximateDp { epsilon, delta } if claims => {
                (Slot::Atoms(Outcomes::claim(*epsilon, *delta)), false)
            }
            Event::PoissonSampled { rate, of } => {
                let inner = self.inner(of.unwrapped())?;
                let attained = inner.attained || *rate == 0.0;
                return Ok(Inner { rate: inner.rate * rate, attained, ..inner });
            }
            _ => return Err(ALLOCATION),
        };
        Ok(Inner { slot, rate: 1.0, attained })
    }
}

/// Noise over the replacement distance, where the counts are seen.
const SLOT_RANGE: std::ops::RangeInclusive<f64> = 0.1..=1e4;

/// The most different totals that are examined one by one.
const MOST_TOTALS: u64 = 1 << 20;

fn schedule(slots: u64, donation: bool) -> Schedule {
    if donation { Schedule::donation(slots) } else { Schedule::uniform(slots) }
}

fn pairs([upper, lower]: [[Box<dyn Pair>; 2]; 2], attained: bool) -> Pairs {
    Pairs { upper, lower: Some(lower), outside: 0.0, attained }
}
