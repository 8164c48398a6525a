//! Random allocation with the number of contributions to each slot seen.
//!
//! Each of `n` other devices takes part with probability `r`, and then in one of `m` slots. Without
//! the device a vector of counts `k` of total `K` has its multinomial probability `M(k)`. The device
//! in slot `i` makes that `M(k - e_i)`, and `(r/m) M(k - e_i)/M(k) = (1-r) k_i/(n + 1 - K)`. Given
//! the counts, the others are then where they would be without the device, but for a random one of
//! slot `i`, which is exchanged for it: its sum moves by at most the replacement distance. (The
//! divergence is jointly convex: reveal where the others are, and let each sum move by all of that
//! distance.) So with the ratios `Y_i` at that distance the ratio of the whole is
//!
//! ```text
//! R = (1-r) (1 + K/(n + 1 - K) U),   U = (k_1 Y_1 + ... + k_m Y_m)/K.
//! ```
//!
//! **Upper end.** Given the total, the counts are multinomial, hence negatively associated, and so
//! are the `k_i Y_i`. So independent counts of the same law Bin(K, 1/m) make `U` larger in convex
//! order (Shao 2000). With a smaller `K` that one is larger again: `k_i/K` is a mean of `K` coins.
//! So all totals share the law of the smallest one that occurs.
//!
//! **Lower end.** `E[U | Y] = (Y_1 + ... + Y_m)/m`: the allocation itself. And all others may hold
//! the value that is farthest from the device's: then `R` is attained.

use std::rc::Rc;

use super::ends::{Mean, below_ratio};
use super::law::End;
use super::one_way::sketch;
use super::slot::Counted;
use super::{Schedule, Slot};
use crate::math::{binomial, exp, expm1};
use crate::pld::counts::Counts;
use crate::pld::pair::{Cell, Pair};

/// A bound on the relative error of a count's probability.
const TRUST: f64 = 1e-11;

/// The number of representative points of a sketch.
const SKETCH: (usize, usize) = (24, 64);

/// Devices that take part with probability `rate`, in one of `slots`.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    /// One release, at the replacement distance.
    pub(crate) slot: Slot,
    pub(crate) slots: u64,
    pub(crate) rate: f64,
    /// How many others there are.
    pub(crate) others: u64,
}

impl Crowd {
    /// The two directions, at least and at most as bad, but for counts of total mass `outside`.
    /// `None` where the noise is too small or too large for the grid. `groups` is how many groups
    /// of totals there may be.
    pub(crate) fn pairs(
        &self,
        (delta, outside): (f64, f64),
        groups: u64,
    ) -> Option<[[Box<dyn Pair>; 2]; 2]> {
        let (first, last) = binomial::bulk(self.others, self.rate, outside);
        // With the device the total may be one higher.
        let last = (last + 1).min(self.others + 1);
        let counts = Counts { others: self.others, sending: self.rate, first, last };
        let stride = (last - first).div_ceil(groups).max(1);
        let schedule = Schedule::uniform(self.slots);
        let counted = Counted { slot: &self.slot, total: first.max(1), slots: self.slots };
        let upper = Mean::new(&counted, schedule, delta, End::Upper)?;
        let lower = Mean::new(&self.slot, schedule, delta, End::Lower)?;
        let end = |mean: Mean, groups: Vec<(f64, f64)>| {
            let (mean, groups) = (Rc::new(mean), Rc::new(groups));
            [false, true].map(|reversed| -> Box<dyn Pair> {
                let (mean, groups) = (Rc::clone(&mean), Rc::clone(&groups));
                Box::new(CountsSeen { mean, rate: self.rate, groups, reversed })
            })
        };
        Some([end(upper, counts.spread(stride)), end(lower, counts.merged(stride))])
    }
}

/// The pair: a group of totals, and `U`.
#[derive(Debug)]
struct CountsSeen {
    mean: Rc<Mean>,
    rate: f64,
    /// For each group the probability without the device, and the same with one other fewer.
    groups: Rc<Vec<(f64, f64)>>,
    reversed: bool,
}

impl CountsSeen {
    /// For each group that is possible without the device its probability, and the factor of `U`.
    fn groups(&self) -> impl Iterator<Item = (f64, f64)> {
        let trust = 1.0 + self.mean.side() * TRUST;
        let possible = self.groups.iter().filter(|group| group.0 > 0.0);
        possible.map(move |(base, fewer)| (trust * base, self.rate * (fewer / base)))
    }

    /// The probability with the device of counts that only it makes possible.
    fn alone(&self) -> f64 {
        let impossible = self.groups.iter().filter(|group| group.0 <= 0.0);
        impossible.map(|group| self.rate * group.1).sum::<f64>() * (1.0 + self.mean.side() * TRUST)
    }
}

impl Pair for CountsSeen {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        for (base, factor) in self.groups() {
            let (mut atoms, infinite) = self.mean.with_factor(self.rate, factor, self.reversed);
            if self.reversed {
                atoms.reverse();
            }
            let mut at = 0;
            for (loss, p) in atoms {
                while at < bounds.len() && loss > bounds[at] {
                    at += 1;
                }
                cells[at].p += base * p;
                cells[at].q += base * p * exp(-loss);
            }
            cells[bounds.len()].p += base * infinite;
        }
        if !self.reversed {
            cells[bounds.len()].p += self.alone();
        }
        for cell in &mut cells {
            cell.tail = cell.p;
        }
        cells
    }

    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let epsilon = epsilon - self.mean.side() * self.mean.loss_trust(epsilon);
        let (above, below) = (expm1(epsilon) + self.rate, below_ratio(self.rate, epsilon));
        let value = |factor: f64| match (factor > 0.0, self.reversed) {
            (true, false) => factor * self.mean.excess(above / factor),
            (true, true) => exp(epsilon) * factor * self.mean.lack(below / factor),
            (false, false) => (-above).max(0.0),
            (false, true) => exp(epsilon) * below.max(0.0),
        };
        let sum: f64 = self.groups().map(|(base, factor)| base * value(factor)).sum();
        let value = sum + if self.reversed { 0.0 } else { self.alone() };
        (value, value)
    }

    fn total_variation(&self) -> f64 {
        self.rate
    }

    fn work(&self) -> f64 {
        self.groups.len() as f64
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64)> {
        let groups: Vec<_> = self.groups().collect();
        let run = groups.len().div_ceil(SKETCH.0).max(1);
        let mut picture = Vec::new();
        for run in groups.chunks(run) {
            let total: f64 = run.iter().map(|group| group.0).sum();
            let (_, factor) = run[run.len() / 2];
            let (atoms, _) = self.mean.with_factor(self.rate, factor, self.reversed);
            let points = sketch(&atoms, SKETCH.1);
            picture.extend(points.into_iter().map(|(loss, mass)| (loss, total * mass)));
        }
        picture
    }
}
