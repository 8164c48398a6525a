//! Gaussian noise around a secret: the sampled Gaussian, alone or together with other observations.
//!
//! There are two measures over (group, x), where a group is whatever the adversary sees besides the
//! noisy value `x` (the count, or that nothing was released): the *base*, `base N(0, s^2)` in each
//! group, and the *mixed* one, `stay N(0, s^2) + moved N(D, s^2) + dummy N(D', s^2)`. In each group
//! their ratio grows with `x`, so the losses below a bound are those with `x` below a threshold.

use super::pair::{Cell, Pair, swapped};
use crate::math::{exp, expm1, ln, log1p, normal, sqrt};

/// Something that the adversary may see besides the noisy value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Probability without the device.
    pub(crate) base: f64,
    /// `base - stay`, where `stay` is the probability that the device is present and changes
    /// nothing. Stored as the difference, which is small and must not be lost.
    pub(crate) gap: f64,
    /// Probability that the device moves the value by `distance`.
    pub(crate) moved: f64,
    pub(crate) distance: f64,
    /// Probability that the device moves the value by `dummy_distance`.
    pub(crate) dummy: f64,
    pub(crate) dummy_distance: f64,
}

/// The pair, in one of its two directions.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    pub(crate) sigma: f64,
    pub(crate) groups: Vec<Group>,
    /// False: mixed against base (the device leaves). True: base against mixed (the device joins).
    pub(crate) reversed: bool,
}

impl Mixture {
    /// The Poisson-sampled Gaussian: `(1-q) N(0, s^2) + q N(D, s^2)` against `N(0, s^2)`.
    pub(crate) fn sampled_gaussian(rate: f64, sigma: f64, distance: f64, reversed: bool) -> Self {
        let group =
            Group { base: 1.0, gap: rate, moved: rate, distance, dummy: 0.0, dummy_distance: 0.0 };
        Self { sigma, groups: vec![group], reversed }
    }

    /// A few groups that represent all: the first and the last of each run of neighbours, with half
    /// of the run's mass each.
    fn representatives(&self) -> Vec<Group> {
        let run = self.groups.len().div_ceil(16);
        if run == 1 {
            return self.groups.clone();
        }
        let mut chosen = Vec::new();
        for groups in self.groups.chunks(run) {
            let total: f64 = groups.iter().map(|group| group.base).sum();
            for group in groups.first().into_iter().chain(groups.last()) {
                let scale = 0.5 * total / group.base;
                if scale.is_finite() {
                    chosen.push(Group {
                        base: group.base * scale,
                        gap: group.gap * scale,
                        moved: group.moved * scale,
                        dummy: group.dummy * scale,
                        ..*group
                    });
                }
            }
        }
        chosen
    }

    fn forward_cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        let growth: Vec<f64> = bounds.iter().map(|b| expm1(*b)).collect();
        for group in &self.groups {
            let mut below = Tails::at(f64::NEG_INFINITY, group, self.sigma);
            for (j, cell) in cells.iter_mut().enumerate() {
                let x = match growth.get(j) {
                    Some(g) => group.threshold(*g, self.sigma),
                    None => f64::INFINITY,
                };
                let above = Tails::at(x, group, self.sigma);
                if x > f64::NEG_INFINITY {
                    group.add(cell, &below, &above);
                }
                below = above;
            }
        }
        cells
    }
}

impl Group {
    /// The `x` at which the ratio of mixed to base is `1 + growth`.
    fn threshold(&self, growth: f64, sigma: f64) -> f64 {
        let rest = self.base * growth + self.gap;
        if !(rest > 0.0) {
            return f64::NEG_INFINITY;
        }
        if self.moved <= 0.0 && self.dummy <= 0.0 {
            // The ratio does not depend on x, and is below the bound.
            return f64::INFINITY;
        }
        let alone = |mass: f64, d: f64| 0.5 * d + sigma * sigma / d * ln(rest / mass);
        if self.dummy <= 0.0 {
            return alone(self.moved, self.distance);
        }
        if self.moved <= 0.0 {
            return alone(self.dummy, self.dummy_distance);
        }
        // Both terms grow with x, so the root lies below the root of either term alone. Newton on
        // the logarithm of the sum, which is convex and increasing, converges from above.
        let mut x = alone(self.moved, self.distance).min(alone(self.dummy, self.dummy_distance));
        let square = sigma * sigma;
        let target = ln(rest);
        for _ in 0..60 {
            let a = ln(self.moved) + (x - 0.5 * self.distance) * self.distance / square;
            let b = ln(self.dummy) + (x - 0.5 * self.dummy_distance) * self.dummy_distance / square;
            let sum = crate::math::ln_add(a, b);
            let slope =
                (exp(a - sum) * self.distance + exp(b - sum) * self.dummy_distance) / square;
            let step = (sum - target) / slope;
            x -= step;
            if step.abs() <= 1e-15 * (x.abs() + sigma) {
                break;
            }
        }
        x
    }

    /// Adds this group's masses between two thresholds to a cell of (mixed, base).
    fn add(&self, cell: &mut Cell, from: &Tails, to: &Tails) {
        let (still, still_tail) = between(from.still, to.still);
        let (moved, moved_tail) = between(from.moved, to.moved);
        let stay = self.base - self.gap;
        cell.q += self.base * still;
        cell.p += stay * still + self.moved * moved;
        cell.tail += self.base * still_tail + self.moved * moved_tail;
        if self.dummy > 0.0 {
            let (dummy, dummy_tail) = between(from.dummy, to.dummy);
            cell.p += self.dummy * dummy;
            cell.tail += self.dummy * dummy_tail;
        }
    }

    /// `ln` of the ratio of mixed to base at `x`.
    fn loss(&self, x: f64, sigma: f64) -> f64 {
        let square = sigma * sigma;
        let term = |mass: f64, d: f64| {
            if mass > 0.0 {
                ln(mass / self.base) + (x - 0.5 * d) * d / square
            } else {
                f64::NEG_INFINITY
            }
        };
        let moves = crate::math::ln_add(
            term(self.moved, self.distance),
            term(self.dummy, self.dummy_distance),
        );
        if moves > 30.0 {
            return moves + log1p((1.0 - self.gap / self.base) * exp(-moves));
        }
        log1p(exp(moves) - self.gap / self.base)
    }
}

/// The smaller tail of a normal law at a point, and on which side it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    mass: f64,
    upper: bool,
}

pub(super) fn tail(z: f64) -> Tail {
    Tail { mass: normal::upper_tail(z.abs()), upper: z > 0.0 }
}

/// The mass between two points, and the size of the numbers that were subtracted.
pub(super) fn between(from: Tail, to: Tail) -> (f64, f64) {
    match (from.upper, to.upper) {
        (true, true) => ((from.mass - to.mass).max(0.0), from.mass),
        (false, false) => ((to.mass - from.mass).max(0.0), to.mass),
        (false, true) => (1.0 - from.mass - to.mass, 1.0),
        (true, false) => (0.0, 0.0),
    }
}

/// The three components' tails at one threshold.
#[derive(Clone, Copy, Debug)]
struct Tails {
    still: Tail,
    moved: Tail,
    dummy: Tail,
}

impl Tails {
    fn at(x: f64, group: &Group, sigma: f64) -> Self {
        let still = tail(x / sigma);
        let moved = if group.moved > 0.0 { tail((x - group.distance) / sigma) } else { still };
        let dummy =
            if group.dummy > 0.0 { tail((x - group.dummy_distance) / sigma) } else { still };
        Self { still, moved, dummy }
    }
}

impl Pair for Mixture {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        if !self.reversed {
            return self.forward_cells(bounds);
        }
        let negated: Vec<f64> = bounds.iter().rev().map(|b| -b).collect();
        swapped(self.forward_cells(&negated))
    }

    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let bound = if self.reversed { -epsilon } else { epsilon };
        let ratio = exp(epsilon);
        let (mut sum, mut error) = (0.0, 0.0);
        for group in &self.groups {
            let x = group.threshold(expm1(bound), self.sigma);
            let cut = Tails::at(x, group, self.sigma);
            let (from, to) = if self.reversed {
                (Tails::at(f64::NEG_INFINITY, group, self.sigma), cut)
            } else {
                (cut, Tails::at(f64::INFINITY, group, self.sigma))
            };
            let mut cell = Cell::default();
            group.add(&mut cell, &from, &to);
            let (p, q) = if self.reversed { (cell.q, cell.p) } else { (cell.p, cell.q) };
            let theirs = if q > 0.0 { ratio * q } else { 0.0 };
            if !theirs.is_finite() {
                // Out of floating-point range: between nothing and all of it.
                error += p;
                continue;
            }
            sum += (p - theirs).max(0.0);
            // A threshold rounded by an ulp moves a tail at z by about z^2 ulps.
            let z = (x.abs().min(40.0 * self.sigma) + group.distance) / self.sigma;
            error += f64::EPSILON * (8.0 + z * z) * (p + theirs);
        }
        ((sum - error).max(0.0), sum + error)
    }

    fn total_variation(&self) -> f64 {
        self.groups.iter().map(|group| group.moved + group.dummy).sum()
    }

    fn largest_loss(&self) -> f64 {
        // Reversed, the loss is largest where the mixed measure has only the staying part.
        let largest = |group: &Group| match (self.reversed, group.moved + group.dummy > 0.0) {
            (false, true) => f64::INFINITY,
            (false, false) => log1p(-group.gap / group.base),
            (true, _) => -log1p(-group.gap / group.base),
        };
        // NaN is not a bound; `max` would ignore it.
        let bounds = self.groups.iter().map(largest);
        bounds.map(|l| if l.is_nan() { f64::INFINITY } else { l }).fold(0.0, f64::max)
    }

    fn work(&self) -> f64 {
        let work = |group: &Group| if group.dummy > 0.0 { 4.0 } else { 1.0 };
        self.groups.iter().map(work).sum()
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        let reach = sqrt(-2.0 * ln(outside.max(1e-300))) + 1.0;
        let points = (1_500 / self.groups.len().max(1)).clamp(32, 96);
        let mut picture = Vec::new();
        for group in &self.representatives() {
            if group.base <= 0.0 {
                continue;
            }
            let high = group.distance.max(group.dummy_distance) / self.sigma + reach;
            let width = (high + reach) / points as f64;
            let mut below = Tails::at(f64::NEG_INFINITY, group, self.sigma);
            for j in 0..points {
                let z = -reach + width * (j as f64 + 1.0);
                let above = Tails::at(z * self.sigma, group, self.sigma);
                let mut cell = Cell::default();
                group.add(&mut cell, &below, &above);
                let loss = group.loss((z - 0.5 * width) * self.sigma, self.sigma);
                picture.push(if self.reversed { (-loss, cell.q) } else { (loss, cell.p) });
                below = above;
            }
        }
        picture
    }
}
