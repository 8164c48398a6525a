//! The count seen, where the exchanged message may hold the value opposite to the device's.
//!
//! At each count there are two masses: `b`, where the device sends nothing, and `before`, where it
//! sends something. Without the device the noisy sum has the law
//! `b ((1-p) N(0, s^2) + p N(-1, s^2))`; with it, `1 - t` times that, and
//! `before (d N(0, s^2) + q N(1, s^2))`, `t = q + d`. The ratio of the two grows with `x`.

use super::mixture::{Tail, between, tail};
use super::pair::{Cell, Pair, swapped};
use crate::math::{exp, expm1, ln, log1p, sqrt};

/// The pair, in one of its two directions.
#[derive(Debug)]
pub(crate) struct Opposed {
    pub(crate) sigma: f64,
    /// (b, before) for each count.
    pub(crate) masses: Vec<(f64, f64)>,
    /// The probability that the exchanged message holds a value.
    pub(crate) part: f64,
    /// The probability that the device sends its value, and that it sends a dummy.
    pub(crate) rate: f64,
    pub(crate) dummies: f64,
    /// False: with against without the device.
    pub(crate) reversed: bool,
}

/// The tails at a point of the laws around -1, 0 and 1.
type Tails = [Tail; 3];

fn tails(x: f64, sigma: f64) -> Tails {
    [-1.0, 0.0, 1.0].map(|centre| tail((x - centre) / sigma))
}

impl Opposed {
    fn sending(&self) -> f64 {
        self.rate + self.dummies
    }

    /// The `x` at which the ratio of with to without is `1 + growth`.
    fn threshold(&self, (b, before): (f64, f64), growth: f64) -> f64 {
        let rest = b * (growth + self.sending());
        if !(rest > 0.0) {
            return f64::NEG_INFINITY;
        }
        if !(before > 0.0 && self.rate > 0.0) {
            return f64::INFINITY;
        }
        // up y^2 + flat y - down = 0 for y = e^(x/s^2), of which one root is positive.
        let square = self.sigma * self.sigma;
        let shrunk = exp(-0.5 / square);
        let up = before * self.rate * shrunk;
        let down = rest * self.part * shrunk;
        let flat = before * self.dummies - rest * (1.0 - self.part);
        let root = sqrt(flat * flat + 4.0 * up * down);
        let y = if flat > 0.0 { 2.0 * down / (root + flat) } else { (root - flat) / (2.0 * up) };
        square * ln(y)
    }

    /// `ln` of the ratio of with to without at `x`.
    fn loss(&self, (b, before): (f64, f64), x: f64) -> f64 {
        // ln(a + c e^y), without overflow.
        let ln_sum =
            |a: f64, c: f64, y: f64| if y > 600.0 { ln(c) + y } else { ln(a + c * exp(y)) };
        let square = self.sigma * self.sigma;
        let moves = ln(before / b) + ln_sum(self.dummies, self.rate, (x - 0.5) / square)
            - ln_sum(1.0 - self.part, self.part, -(x + 0.5) / square);
        if moves > 30.0 { moves } else { log1p(exp(moves) - self.sending()) }
    }

    /// The masses of one count between two points: (with, without).
    fn cell(&self, (b, before): (f64, f64), from: &Tails, to: &Tails) -> Cell {
        let both = [0, 1, 2].map(|j| between(from[j], to[j]));
        let (mass, tail) = (both.map(|one| one.0), both.map(|one| one.1));
        let without = |m: &[f64; 3]| b * ((1.0 - self.part) * m[1] + self.part * m[0]);
        let sent = |m: &[f64; 3]| before * (self.dummies * m[1] + self.rate * m[2]);
        Cell {
            p: (1.0 - self.sending()) * without(&mass) + sent(&mass),
            q: without(&mass),
            tail: without(&tail) + sent(&tail),
        }
    }

    fn forward_cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        let growth: Vec<f64> = bounds.iter().map(|b| expm1(*b)).collect();
        for masses in &self.masses {
            let mut below = tails(f64::NEG_INFINITY, self.sigma);
            for (j, cell) in cells.iter_mut().enumerate() {
                let x = growth.get(j).map_or(f64::INFINITY, |g| self.threshold(*masses, *g));
                let above = tails(x, self.sigma);
                if x > f64::NEG_INFINITY {
                    cell.add(&self.cell(*masses, &below, &above));
                }
                below = above;
            }
        }
        cells
    }
}

impl Pair for Opposed {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        if !self.reversed {
            return self.forward_cells(bounds);
        }
        let negated: Vec<f64> = bounds.iter().rev().map(|b| -b).collect();
        swapped(self.forward_cells(&negated))
    }

    fn total_variation(&self) -> f64 {
        self.sending()
    }

    fn largest_loss(&self) -> f64 {
        if self.reversed { -log1p(-self.sending()) } else { f64::INFINITY }
    }

    fn work(&self) -> f64 {
        2.0 * self.masses.len() as f64
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        const POINTS: u32 = 48;
        let reach = sqrt(-2.0 * ln(outside.max(1e-300))) * self.sigma + 1.0;
        let width = 2.0 * reach / f64::from(POINTS);
        let mut picture = Vec::new();
        // The first and the last of each run of counts, with half of the run's mass each.
        for counts in self.masses.chunks(self.masses.len().div_ceil(24)) {
            let total: f64 = counts.iter().map(|masses| masses.0).sum();
            for (b, before) in counts.first().into_iter().chain(counts.last()) {
                let scale = 0.5 * total / b;
                if !scale.is_finite() {
                    continue;
                }
                let masses = (b * scale, before * scale);
                let mut below = tails(f64::NEG_INFINITY, self.sigma);
                for j in 1..=POINTS {
                    let x = -reach + width * f64::from(j);
                    let above = tails(x, self.sigma);
                    let Cell { p, q, .. } = self.cell(masses, &below, &above);
                    let loss = self.loss((*b, *before), x - 0.5 * width);
                    picture.push(if self.reversed { (-loss, q) } else { (loss, p) });
                    below = above;
                }
            }
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The divergence by a fine sum, at several epsilons and in both directions.
    #[test]
    fn the_divergence_is_that_of_the_densities() {
        let masses = vec![(0.5, 0.2), (0.3, 0.4), (0.2, 0.35), (0.0, 0.05)];
        let (sigma, part, rate, dummies) = (1.3, 0.4, 0.25, 0.3);
        let density = |x: f64, centre: f64| {
            let z = (x - centre) / sigma;
            (-0.5 * z * z).exp() / (sigma * (2.0 * std::f64::consts::PI).sqrt())
        };
        for reversed in [false, true] {
            let pair = Opposed { sigma, masses: masses.clone(), part, rate, dummies, reversed };
            for epsilon in [0.0, 0.1, 0.5, 1.0, 2.0f64] {
                let mut sum = 0.0;
                let step = 5e-4;
                for (b, before) in &masses {
                    for j in -28_000..28_000 {
                        let x = (f64::from(j) + 0.5) * step;
                        let without =
                            b * ((1.0 - part) * density(x, 0.0) + part * density(x, -1.0));
                        let sent = dummies * density(x, 0.0) + rate * density(x, 1.0);
                        let with = (1.0 - rate - dummies) * without + before * sent;
                        let (p, q) = if reversed { (without, with) } else { (with, without) };
                        sum += step * (p - epsilon.exp() * q).max(0.0);
                    }
                }
                let (low, high) = pair.hockey_stick(epsilon);
                assert!((low - sum).abs() < 1e-6, "{reversed} {epsilon}: {low} {sum}");
                assert!(high >= low && high < low + 1e-12, "{low} {high}");
            }
            let total = pair.cells(&[]).into_iter().fold((0.0, 0.0), |s, c| (s.0 + c.p, s.1 + c.q));
            assert!((total.0 - 1.0f64).abs() < 1e-13 && (total.1 - 1.0f64).abs() < 1e-13);
        }
    }
}
