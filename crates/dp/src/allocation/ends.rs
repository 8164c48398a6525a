//! The likelihood ratio of a schedule of slots, rounded up and down in convex order, as a pair.

use super::law::{Budget, End, Law};
use super::schedule::{MOST_SLOTS, Schedule};
use super::slot::{Ratio, Slot, TRIM};
use super::sticks::Sticks;
use crate::math::search::crossing;
use crate::math::{exp, expm1, ln, log1p, sqrt};

/// Roughly how many products one end may take; this sets the most points.
const WORK: f64 = 1.6e7;

/// The same for more slots than [`MANY`], where errors add up for longer.
const MORE_WORK: f64 = 6e7;

/// See [`MORE_WORK`].
const MANY: u64 = 1 << 14;

/// The points of a law, and as many more for each convolution: errors add up.
const POINTS: (f64, f64) = (500.0, 40.0);

/// No law needs more points.
const MOST_POINTS: f64 = 2_400.0;

/// `ln(largest value * slots / delta)` and its inverse must stay below this. Products of masses
/// that underflow, at most 1e-308, then lose less than 1e-30 of what trimming does, for ten million
/// of them at the largest value.
const FARTHEST: f64 = 600.0;

/// The largest `sigma sqrt(slots)`: above it, the spread of the mean is lost in the rounding of the
/// grid.
const NARROWEST: f64 = 1e9;

/// Error of the logarithm of a sum: four roundings for each of at most 60 convolutions, and the
/// rounding of logarithms up to [`FARTHEST`].
const VALUE_TRUST: f64 = 1e-12;

/// The relative precision to which the trimmed mass is known.
const TRIM_TRUST: f64 = 1e-2;

/// One end of the law of the ratio `L` of a schedule.
#[derive(Debug)]
pub(crate) struct Mean {
    sticks: Sticks,
    end: End,
    /// Relative error of its masses.
    trust: f64,
    /// `L = 1 - moved + scale S`.
    pub(super) moved: f64,
    pub(super) scale: f64,
}

impl Mean {
    /// The law of a schedule of releases; `None` for one slot, and where the noise is too small or
    /// too large for the grid. Parts of the law that matter less than `delta` are rounded away.
    pub(super) fn of(slot: &Slot, schedule: Schedule, delta: f64, end: End) -> Option<Self> {
        if schedule.slots == 1 {
            return None;
        }
        if schedule.slots > MOST_SLOTS && schedule.decay != 0.0 && end == End::Upper {
            // A donation is never worse than random allocation.
            return Self::of(slot, Schedule { decay: 0.0, ..schedule }, delta, end);
        }
        let narrowest = NARROWEST / sqrt(schedule.slots.min(MOST_SLOTS) as f64);
        match (slot, end) {
            (Slot::Gaussian { sigma }, End::Upper) if *sigma > narrowest => {
                // More noise is post-processing: less noise still gives a valid upper end.
                Self::new(&Slot::Gaussian { sigma: narrowest }, schedule, delta, end)
            }
            (Slot::Gaussian { sigma }, End::Lower) if *sigma > narrowest => None,
            _ => Self::new(slot, schedule, delta, end),
        }
    }

    /// The same for any ratio.
    pub(super) fn new(slot: &impl Ratio, schedule: Schedule, delta: f64, end: End) -> Option<Self> {
        let (terms, schedule) = schedule.terms(end)?;
        let count = terms as f64;
        let range = slot.range(count, delta);
        let reach = range.1.max(-range.0) - ln(delta) + ln(count);
        if reach.is_nan() || reach >= FARTHEST || range.0 >= range.1 {
            return None;
        }
        let rounds = terms.ilog2() + 2 * (terms.count_ones() - 1);
        let work = if terms > MANY { MORE_WORK } else { WORK };
        let rounds = f64::from(rounds.max(1));
        let points = (POINTS.0 + POINTS.1 * rounds).min(sqrt(2.0 * work / rounds));
        let points = points.min(MOST_POINTS).floor();
        let law = slot.law(range, points, end);
        let law = sum(law, (terms, schedule.decay), delta, end, (1.1 * points) as usize);
        // A term's mass is off by its own error; each convolution adds the rounding of sums of
        // `points` positive terms, and doubles the earlier error.
        let each = slot.trust(range) + f64::EPSILON * 2.0 * points;
        Some(Self {
            sticks: Sticks::new(law),
            end,
            trust: expm1(count * each),
            moved: schedule.moved(terms),
            scale: schedule.most(),
        })
    }

    /// A bound (from this end's side) on `E(scale S - x)_+`.
    pub(super) fn excess(&self, x: f64) -> f64 {
        if !(x > 0.0) {
            return self.excess(f64::MIN_POSITIVE) - x;
        }
        let value = self.scale * self.sticks.forward(ln(x / self.scale));
        match self.end {
            // Large values that were moved down are missing.
            End::Upper => value * (1.0 + self.trust) + self.cut(),
            End::Lower => value * (1.0 - self.trust),
        }
    }

    /// The same for `E(x - scale S)_+`.
    pub(super) fn lack(&self, x: f64) -> f64 {
        if !(x > 0.0) {
            return 0.0;
        }
        let value = self.scale * self.sticks.backward(ln(x / self.scale));
        value * if self.end == End::Upper { 1.0 + self.trust } else { 1.0 - self.trust }
    }

    /// What moving large values down cost.
    fn cut(&self) -> f64 {
        self.sticks.law.cut * (1.0 + TRIM_TRUST) * self.scale
    }

    /// The divergence of the schedule from absence, `E(L - e^epsilon)_+`.
    pub(super) fn forward(&self, epsilon: f64) -> f64 {
        self.excess(expm1(epsilon) + self.moved)
    }

    /// The divergence of absence from the schedule, `E(1 - e^epsilon L)_+`.
    pub(super) fn backward(&self, epsilon: f64) -> f64 {
        exp(epsilon) * self.lack(below_ratio(self.moved, epsilon))
    }

    /// The epsilon at which `divergence` (decreasing) is `delta`, on this end's side, not above
    /// `most`.
    pub(super) fn epsilon(&self, delta: f64, most: f64) -> f64 {
        let goal = ln(delta);
        let excess = |epsilon: f64| {
            let value = self.forward(epsilon).max(self.backward(epsilon));
            if value > 0.0 { ln(value) - goal } else { f64::MIN }
        };
        let first = excess(0.0);
        if most <= 0.0 || first <= 0.0 {
            return 0.0;
        }
        let (mut end, mut last) = (most, excess(most));
        if most == f64::INFINITY {
            (end, last) = (1.0, excess(1.0));
            while last > 0.0 && end < 2.0 * FARTHEST {
                end *= 2.0;
                last = excess(end);
            }
        }
        let (low, high) = if last > 0.0 {
            (end, most)
        } else {
            let most = end;
            let found = crossing(excess, (0.0, first), (most, last), 1e-11, 1e-15);
            (found.low, found.high)
        };
        match self.end {
            End::Upper => (high + self.loss_trust(high)).min(most),
            End::Lower => (low - self.loss_trust(low)).max(0.0),
        }
    }

    /// The error of a loss of this size: only the part `scale S` of the ratio has one.
    pub(super) fn loss_trust(&self, loss: f64) -> f64 {
        VALUE_TRUST * (self.moved + expm1(loss.abs())).min(1.0)
    }

    /// The pair of one direction of the ratio `1 - moved + scale S`, where both may differ from the
    /// schedule's own: (loss, mass under the first law), in the order of the points, and the mass
    /// of an infinite loss.
    pub(super) fn atoms(
        &self,
        (moved, scale): (f64, f64),
        reversed: bool,
    ) -> (Vec<(f64, f64)>, f64) {
        let law = &self.sticks.law;
        let (sign, towards) = (if reversed { -1.0 } else { 1.0 }, self.side());
        let trust = 1.0 + towards * self.trust;
        let point = |(j, q): (usize, &f64)| {
            let part = scale * exp(law.ln_point(j));
            let near = part - moved;
            let ratio = 1.0 - moved + part;
            let loss = if near.abs() < 0.5 { log1p(near) } else { ln(ratio) };
            let mass = q * trust * if reversed { 1.0 } else { ratio };
            (sign * loss + towards * self.loss_trust(loss), mass)
        };
        let mut atoms: Vec<_> = law.mass.iter().enumerate().map(point).collect();
        let mut infinite = 0.0;
        if law.zero > 0.0 {
            // Without any Y the ratio is that of a device that took no part.
            let (stay, mass) = (1.0 - moved, law.zero * trust);
            match (stay > 0.0, reversed) {
                (true, false) => atoms.insert(0, (log1p(-moved), mass * stay)),
                (true, true) => atoms.insert(0, (-log1p(-moved), mass)),
                (false, true) => infinite += mass,
                (false, false) => {}
            }
        }
        if self.end == End::Upper && !reversed {
            infinite += self.cut() * scale / self.scale;
        }
        (atoms, infinite)
    }

    /// One direction of the ratio `1 - rate + factor L`, for a schedule in which everyone takes
    /// part; as [`Mean::atoms`].
    pub(super) fn with_factor(
        &self,
        rate: f64,
        factor: f64,
        reversed: bool,
    ) -> (Vec<(f64, f64)>, f64) {
        self.atoms((rate, factor * self.scale), reversed)
    }

    /// The direction in which this end's errors are moved.
    pub(super) fn side(&self) -> f64 {
        if self.end == End::Upper { 1.0 } else { -1.0 }
    }
}

/// `e^-epsilon - (1 - moved)`, in the order that loses nothing.
pub(super) fn below_ratio(moved: f64, epsilon: f64) -> f64 {
    if epsilon > 0.5 { exp(-epsilon) - (1.0 - moved) } else { expm1(-epsilon) + moved }
}

/// The law of the sum of the first `terms` values of `law`, each multiplied by `e^decay` once more
/// than the one before: by doubling, and adding where a bit is set.
fn sum(law: Law, (all, decay): (u64, f64), delta: f64, end: End, points: usize) -> Law {
    // Each trimming costs at most TRIM delta in the whole sum, in which a law of n terms is found
    // slots/n times.
    let budget = |terms: u64| {
        let (terms, all) = (terms as f64, all as f64);
        Budget { low: TRIM * delta * terms / all, cut: TRIM * delta * terms, points }
    };
    let (mut power, mut terms) = (law, 1u64);
    let mut result: Option<(Law, u64)> = None;
    loop {
        let shift = terms as f64 * decay;
        if all & terms != 0 {
            result = Some(match result {
                None => (power.clone(), terms),
                Some((rest, n)) => {
                    let sum = power.plus(&rest.scaled(shift), end, budget(n + terms));
                    (sum, n + terms)
                }
            });
        }
        if all / 2 < terms {
            break;
        }
        power = power.doubled(shift, end, budget(2 * terms));
        terms *= 2;
    }
    result.map_or(power, |(law, _)| law)
}

#[cfg(test)]
mod tests {
    use super::super::slot::{Counted, Outcomes};
    use super::*;

    fn total(mean: &Mean) -> (f64, f64) {
        let law = &mean.sticks.law;
        let points = law.mass.iter().enumerate();
        let first: f64 = points.map(|(j, q)| q * exp(law.ln_point(j))).sum();
        (law.zero + law.mass.iter().sum::<f64>(), mean.scale * first)
    }

    /// An upper end keeps all mass, and accounts for what its mean lacks. A lower end may lose mass,
    /// and its mean must not be too large.
    #[test]
    fn the_ends_keep_their_means() {
        let schedules = [
            Schedule::uniform(2),
            Schedule::uniform(100).sampled(0.1),
            Schedule::donation(2).sampled(0.3),
            Schedule::donation(77),
        ];
        let atoms = Outcomes {
            atoms: vec![(-0.5, 0.6), (0.0, 0.3), (0.75, 0.1)],
            unit: 0.25,
            zero: 0.0,
            alone: 0.0,
        };
        let own: f64 = atoms.atoms.iter().map(|(loss, q)| q * exp(*loss)).sum();
        let atoms = Outcomes { alone: (1.0 - own).max(0.0), ..atoms };
        let slots = [
            Slot::Gaussian { sigma: 0.7 },
            Slot::Gaussian { sigma: 40.0 },
            Slot::Laplace { ratio: 0.256 },
            Slot::Laplace { ratio: 5.0 },
            Slot::Atoms(atoms),
        ];
        for (slot, schedule) in slots.iter().flat_map(|slot| schedules.map(|s| (slot, s))) {
            for (end, delta) in
                [(End::Upper, 1e-3), (End::Upper, 1e-9), (End::Lower, 1e-3), (End::Lower, 1e-9)]
            {
                let mean = Mean::of(slot, schedule, delta, end).expect("on the grid");
                let (mass, first) = total(&mean);
                let case = format!(
                    "{slot:?} {schedule:?} {end:?} {delta:e}: {mass} {first} {}",
                    mean.moved
                );
                let error = 1e-12 + mean.trust;
                if end == End::Upper {
                    assert!((mass - 1.0).abs() < error, "{case}");
                    let cut = mean.cut();
                    assert!(
                        first <= mean.moved + error && first + cut >= mean.moved - error,
                        "{case}"
                    );
                } else {
                    assert!(mass <= 1.0 + error && first <= mean.moved + error, "{case}");
                    assert!(mass > 0.9, "{case}");
                }
            }
        }
    }

    #[test]
    fn counted_slots_keep_their_mean() {
        for (total_count, slots) in
            [(1, 1), (1, 5), (3, 2), (40, 7), (100_000, 50), (1 << 40, 1_000)]
        {
            let slot = Slot::Gaussian { sigma: 1.5 };
            let counted = Counted { slot: &slot, total: total_count, slots };
            let mean = Mean::new(&counted, Schedule::uniform(slots), 1e-7, End::Upper)
                .expect("on the grid");
            let (mass, first) = total(&mean);
            let case = format!("{total_count} {slots}: {mass} {first} {}", mean.cut());
            assert!((mass - 1.0).abs() < 1e-9, "{case}");
            assert!(first <= 1.0 + 1e-9 && first + mean.cut() >= 1.0 - 1e-9, "{case}");
            assert!(mean.cut() < 1e-9, "{case}");
        }
    }
}
