//! Gaussian noise around a secret: the sampled Gaussian, alone or together with other observations.
//!
//! There are two measures over (group, x), where a group is whatever the adversary sees besides the
//! noisy value `x` (the count, or that nothing was released): the *base*, `base N(0, s^2)` in each
//! group, and the *mixed* one, `stay N(0, s^2) + moved N(D, s^2)`. In each group their ratio grows
//! with `x`, so the losses below a bound are those with `x` below a threshold.

use super::pair::{Cell, Pair, swapped};
use crate::math::{exp, expm1, ln, log1p, normal, sqrt};

/// Something that the adversary may see besides the noisy value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Probability without the device.
    pub(crate) base: f64,
    /// Probability that the device is present and does not move the value.
    pub(crate) stay: f64,
    /// `base - stay`. Either of the two may be far smaller than the base, or 0, and must not be lost
    /// in a difference: so both are stored.
    pub(crate) gap: f64,
    /// Probability that the device moves the value by `distance`.
    pub(crate) moved: f64,
    pub(crate) distance: f64,
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
        let group = Group { base: 1.0, stay: 1.0 - rate, gap: rate, moved: rate, distance };
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
                        stay: group.stay * scale,
                        gap: group.gap * scale,
                        moved: group.moved * scale,
                        ..*group
                    });
                }
            }
        }
        chosen
    }

    fn forward_cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        let ratios: Vec<Ratio> = bounds.iter().map(|b| Ratio::of(*b)).collect();
        for group in &self.groups {
            let mut below = Tails::at(f64::NEG_INFINITY, group, self.sigma);
            for (j, cell) in cells.iter_mut().enumerate() {
                let x = match ratios.get(j) {
                    Some(ratio) => group.threshold(ratio, self.sigma),
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

/// A ratio of two densities, and by how much it differs from 1.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    value: f64,
    growth: f64,
}

impl Ratio {
    /// `e^loss`.
    fn of(loss: f64) -> Self {
        Self { value: exp(loss), growth: expm1(loss) }
    }
}

impl Group {
    /// `base e^loss - stay`, and the size of the numbers that were subtracted. Both forms are equal;
    /// near 0 the ratio is lost in its difference from 1.
    fn rest(&self, ratio: &Ratio) -> (f64, f64) {
        let (theirs, ours) = if ratio.growth < -0.5 {
            (self.base * ratio.value, -self.stay)
        } else {
            (self.base * ratio.growth, self.gap)
        };
        (theirs + ours, theirs.abs() + ours.abs())
    }

    /// The most that a wrong threshold loses: there is something to lose where the rest may be
    /// nothing but rounding.
    fn lost(&self, ratio: &Ratio) -> f64 {
        let (rest, size) = self.rest(ratio);
        let slack = 4.0 * f64::EPSILON * size;
        if rest.abs() < 16.0 * slack { slack } else { 0.0 }
    }

    /// The `x` at which the ratio of mixed to base is this.
    fn threshold(&self, ratio: &Ratio, sigma: f64) -> f64 {
        let (rest, _) = self.rest(ratio);
        // No mixed measure at all has the ratio 0, below which nothing is.
        let nothing = self.moved <= 0.0 && self.stay <= 0.0 && self.base > 0.0;
        if !(rest > 0.0 || nothing) {
            return f64::NEG_INFINITY;
        }
        if self.moved <= 0.0 {
            // The ratio does not depend on x, and is below the bound.
            return f64::INFINITY;
        }
        0.5 * self.distance + sigma * sigma / self.distance * ln(rest / self.moved)
    }

    /// Adds this group's masses between two thresholds to a cell of (mixed, base).
    fn add(&self, cell: &mut Cell, from: &Tails, to: &Tails) {
        let (still, still_tail) = between(from.still, to.still);
        let (moved, moved_tail) = between(from.moved, to.moved);
        cell.q += self.base * still;
        cell.p += self.stay * still + self.moved * moved;
        cell.tail += self.base * still_tail + self.moved * moved_tail;
    }

    /// `ln` of the ratio of mixed to base where the moved part is negligible.
    fn staying(&self) -> f64 {
        if self.stay < 0.5 * self.base {
            ln(self.stay / self.base)
        } else {
            log1p(-self.gap / self.base)
        }
    }

    /// `ln` of the ratio of mixed to base at `x`.
    fn loss(&self, x: f64, sigma: f64) -> f64 {
        let moves = if self.moved > 0.0 {
            let d = self.distance;
            ln(self.moved / self.base) + (x - 0.5 * d) * d / (sigma * sigma)
        } else {
            f64::NEG_INFINITY
        };
        if moves > 30.0 {
            return moves + log1p(self.stay / self.base * exp(-moves));
        }
        if self.stay < 0.5 * self.base {
            return ln(exp(moves) + self.stay / self.base);
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

/// The two components' tails at one threshold.
#[derive(Clone, Copy, Debug)]
struct Tails {
    still: Tail,
    moved: Tail,
}

impl Tails {
    fn at(x: f64, group: &Group, sigma: f64) -> Self {
        let still = tail(x / sigma);
        let moved = if group.moved > 0.0 { tail((x - group.distance) / sigma) } else { still };
        Self { still, moved }
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
        let (ratio, at) = (exp(epsilon), Ratio::of(bound));
        let (mut sum, mut error) = (0.0, 0.0);
        for group in &self.groups {
            let x = group.threshold(&at, self.sigma);
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
            let lost = group.lost(&at);
            if lost > 0.0 {
                error += if self.reversed { lost * ratio } else { lost };
            }
            // A threshold rounded by an ulp moves a tail at z by about z^2 ulps.
            let z = (x.abs().min(40.0 * self.sigma) + group.distance) / self.sigma;
            error += f64::EPSILON * (8.0 + z * z) * (p + theirs);
        }
        ((sum - error).max(0.0), sum + error)
    }

    fn total_variation(&self) -> f64 {
        self.groups.iter().map(|group| group.moved + (-group.gap).max(0.0)).sum()
    }

    fn largest_loss(&self) -> f64 {
        // Reversed, the loss is largest where the mixed measure has only the staying part; there is
        // none without the base.
        let largest = |group: &Group| match (self.reversed, group.moved > 0.0) {
            (true, _) if group.base <= 0.0 => 0.0,
            (false, true) => f64::INFINITY,
            (false, false) => group.staying(),
            (true, _) => -group.staying(),
        };
        // NaN is not a bound; `max` would ignore it.
        let bounds = self.groups.iter().map(largest);
        bounds.map(|l| if l.is_nan() { f64::INFINITY } else { l }).fold(0.0, f64::max)
    }

    fn work(&self) -> f64 {
        self.groups.len() as f64
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        let reach = sqrt(-2.0 * ln(outside.max(1e-300))) + 1.0;
        let points = (1_500 / self.groups.len().max(1)).clamp(32, 96);
        let mut picture = Vec::new();
        for group in &self.representatives() {
            if group.base <= 0.0 {
                continue;
            }
            let high = group.distance / self.sigma + reach;
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
