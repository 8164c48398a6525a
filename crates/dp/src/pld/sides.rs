//! Pairs for neighbours that are both there: a device holds one value or another, or a value or
//! zero. It takes part with probability `r`, in secret, in either case.
//!
//! **One direction.** The outcome is `P = (1-r) M0 + r M1` or `Q = (1-r) M0 + r M1'`: `M0` is what
//! is released without the device, `M1` and `M1'` with one or the other value. For `alpha >= 1`,
//! with `A = 1 + (alpha - 1)/r` and `beta = alpha/A`,
//!
//! ```text
//! H_alpha(P, Q) = r H_A(M1, (1-beta) M0 + beta M1') = r E (1 - A ((1-beta) X + beta Y))_+
//! ```
//!
//! where `X` and `Y` are the ratios of `M0` and `M1'` to `M1`, under `M1` (the advanced joint
//! convexity of Balle, Barthe, Gaboardi 2018). That is the mean of a convex function of a sum of two
//! variables. Of all joint laws the comonotone one is largest in convex order, and each of the two
//! grows in convex order with the distance that it stands for. So for Gaussian noise, if `M0` is at
//! most `d` and `M1'` at most `d'` away from `M1`, the worst case has one dimension, with both on
//! the same side of `M1`. That is a [`Shifts`]: `N(0)` against `N(a)` or `N(b)`, `a = d`,
//! `b = d - d'`.
//!
//! **Both directions at once.** A composition needs one pair whose divergence is large enough for
//! every `alpha > 0`, and `H_alpha(P, Q) = 1 - alpha + alpha H_{1/alpha}(Q, P)`. The worst cases of
//! the two directions differ. [`Glued`] takes the positive losses from one and the negative losses
//! from the other, and puts what is left of both laws at the loss 0. Its divergence is the bound
//! of either side, where that side matters. What is left is not negative, and the same for both
//! laws, because both sides have the same total variation distance; see the tests.

use super::mixture::{between, tail};
use super::pair::{Cell, Pair};
use crate::math::{exp, expm1, ln, ln_add, ln_sampled, log1p, normal, sqrt, up};

/// The outcomes with a positive loss of a pair.
pub(crate) trait Side: std::fmt::Debug {
    /// The masses of the losses in `(b0, b1]`, ..., `(b_last, inf]`, for increasing `bounds` that
    /// are not negative.
    fn cells(&self, bounds: &[f64]) -> Vec<Cell>;

    /// A bound on the loss.
    fn largest_loss(&self) -> f64;

    /// A rough picture of the losses under P, as in [`Pair::sketch`]: (loss, P-mass, Q-mass).
    fn sketch(&self, outside: f64) -> Vec<(f64, f64, f64)>;

    /// The total mass of the whole pair, and a bound on its total variation distance.
    fn total(&self) -> (f64, f64);

    /// The cost of one cell.
    fn work(&self) -> f64;
}

/// Positive losses from one side, negative ones from the other (whose P is this Q), and the rest at
/// the loss 0. Without a second side the rest is one outcome: for a lower end.
#[derive(Clone, Debug)]
pub(crate) struct Glued<S> {
    pub(crate) up: S,
    pub(crate) down: Option<S>,
}

impl<S: Side> Glued<S> {
    /// What is on neither side. Its two masses are the same if there are two sides.
    fn rest(&self, up: &[Cell], down: &[Cell]) -> Cell {
        let total = self.up.total().0;
        let sum = |cells: &[Cell], mass: fn(&Cell) -> f64| cells.iter().map(mass).sum::<f64>();
        let p = total - sum(up, |c| c.p) - sum(down, |c| c.q);
        let q = total - sum(up, |c| c.q) - sum(down, |c| c.p);
        Cell { p: p.max(0.0), q: q.max(0.0), tail: total }
    }
}

impl<S: Side> Pair for Glued<S> {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let split = bounds.partition_point(|b| *b < 0.0);
        let (negative, positive) = bounds.split_at(split);
        let from_zero = |rest: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
            std::iter::once(0.0).chain(rest).collect()
        };
        let up = self.up.cells(&from_zero(&mut positive.iter().copied()));
        let down = match &self.down {
            Some(side) => side.cells(&from_zero(&mut negative.iter().rev().map(|b| -b))),
            None => vec![Cell::default(); split + 1],
        };
        let rest = self.rest(&up, &down);
        let turned = |cell: &Cell| Cell { p: cell.q, q: cell.p, tail: cell.tail };
        let mut cells: Vec<Cell> = down.iter().rev().map(turned).collect();
        let mut at = split;
        if self.down.is_none() {
            // One outcome, of a loss below 0.
            at = negative.partition_point(|b| *b < ln(rest.p / rest.q));
        }
        cells.extend(up.iter().skip(1));
        cells[split].add(&up[0]);
        cells[at].add(&rest);
        cells
    }

    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let above = self.up.cells(&[epsilon.max(0.0)]).pop().unwrap_or_default();
        let theirs = if above.q > 0.0 { exp(epsilon) * above.q } else { 0.0 };
        if !(theirs.is_finite() && epsilon >= 0.0) {
            return (0.0, if epsilon >= 0.0 { above.p } else { 1.0 });
        }
        let error = f64::EPSILON * (64.0 * (above.p + above.tail) + 16.0 * theirs);
        ((above.p - theirs - error).max(0.0), (above.p - theirs + error).max(0.0))
    }

    fn total_variation(&self) -> f64 {
        self.up.total().1
    }

    fn largest_loss(&self) -> f64 {
        self.up.largest_loss()
    }

    fn work(&self) -> f64 {
        self.up.work() + self.down.as_ref().map_or(0.0, Side::work)
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        let up = self.up.sketch(outside);
        let down = self.down.as_ref().map_or_else(Vec::new, |side| side.sketch(outside));
        let sum = |mass: fn(&(f64, f64, f64)) -> f64, of: &[(f64, f64, f64)]| {
            of.iter().map(mass).sum::<f64>()
        };
        let total = self.up.total().0;
        let p = total - sum(|s| s.1, &up) - sum(|s| s.2, &down);
        let q = total - sum(|s| s.2, &up) - sum(|s| s.1, &down);
        let rest = if self.down.is_some() { 0.0 } else { ln(p / q) };
        let mut picture: Vec<_> = up.iter().map(|s| (s.0, s.1)).collect();
        picture.extend(down.iter().map(|s| (-s.0, s.2)));
        picture.push((rest, p.max(0.0)));
        picture
    }
}

/// Gaussian noise: `(1-r) N(0, s^2) + r N(a, s^2)` against `(1-r) N(0, s^2) + r N(b, s^2)`, `a > 0`
/// and `a > b`, mixed over rates that are seen. Its positive losses are those above `(a + b)/2`, and
/// grow from there on.
#[derive(Clone, Debug)]
pub(crate) struct Shifts {
    pub(crate) sigma: f64,
    pub(crate) a: f64,
    pub(crate) b: f64,
    /// (probability of the group, rate).
    pub(crate) groups: Vec<(f64, f64)>,
}

/// `ln(e^l - 1)`.
fn ln_expm1(l: f64) -> f64 {
    if l > 30.0 { l + log1p(-exp(-l)) } else { ln(expm1(l)) }
}

impl Shifts {
    /// The point from which on the loss is above `loss`, not below `start`.
    fn threshold(&self, rate: f64, loss: f64, start: f64) -> f64 {
        let Self { sigma, a, b, .. } = *self;
        let square = sigma * sigma;
        if b == 0.0 {
            let own = if loss > 700.0 { loss - ln(rate) } else { log1p(expm1(loss) / rate) };
            return 0.5 * a + square / a * own;
        }
        // e^A = K + e^(loss + B), where A and B are the losses of N(a) and N(b) against N(0). The
        // difference of the logarithms is concave and grows, so Newton's method converges from the
        // left. Each term alone gives a point on the left.
        let still = ln(1.0 - rate) - ln(rate) + ln_expm1(loss);
        let mut x = (0.5 * (a + b) + square * loss / (a - b)).max(start);
        if still > f64::NEG_INFINITY {
            x = x.max(0.5 * a + square / a * still);
        }
        for _ in 0..60 {
            let moved = loss + (x - 0.5 * b) * b / square;
            let sum = ln_add(still, moved);
            let excess = (x - 0.5 * a) * a / square - sum;
            let step = -excess * square / (a - b * exp(moved - sum));
            x += step;
            if !(step > 1e-15 * (x.abs() + sigma)) {
                break;
            }
        }
        x
    }

    fn tails(&self, x: f64) -> [super::mixture::Tail; 3] {
        [0.0, self.a, self.b].map(|centre| tail((x - centre) / self.sigma))
    }

    /// The loss at `x`.
    fn loss(&self, rate: f64, x: f64) -> f64 {
        let own = |d: f64| (x - 0.5 * d) * d / (self.sigma * self.sigma);
        let at = |d: f64| if rate < 1.0 { ln_sampled(rate, own(d)) } else { own(d) };
        at(self.a) - at(self.b)
    }
}

impl Side for Shifts {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len()];
        for &(mass, rate) in self.groups.iter().filter(|(mass, rate)| *mass > 0.0 && *rate > 0.0) {
            let mut x = 0.5 * (self.a + self.b);
            if bounds[0] > 0.0 {
                x = self.threshold(rate, bounds[0], x);
            }
            let mut from = self.tails(x);
            for (j, cell) in cells.iter_mut().enumerate() {
                x = match bounds.get(j + 1) {
                    Some(bound) if *bound > 0.0 => self.threshold(rate, *bound, x),
                    Some(_) => x,
                    None => f64::INFINITY,
                };
                let to = self.tails(x);
                let [still, p, q] = [0, 1, 2].map(|i| between(from[i], to[i]));
                cell.p += mass * ((1.0 - rate) * still.0 + rate * p.0);
                cell.q += mass * ((1.0 - rate) * still.0 + rate * q.0);
                cell.tail += mass * ((1.0 - rate) * still.1 + rate * p.1);
                from = to;
            }
        }
        cells
    }

    fn largest_loss(&self) -> f64 {
        f64::INFINITY
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64, f64)> {
        let reach = sqrt(-2.0 * ln(outside.max(1e-300))) + 1.0;
        let run = self.groups.len().div_ceil(16).max(1);
        let points = (1_500 * run / self.groups.len().max(1)).clamp(32, 96);
        let mut picture = Vec::new();
        for groups in self.groups.chunks(run) {
            let mass: f64 = groups.iter().map(|group| group.0).sum();
            let rate = groups.iter().map(|group| group.0 * group.1).sum::<f64>() / mass;
            if !(rate > 0.0) {
                continue;
            }
            let low = 0.5 * (self.a + self.b);
            let width = (self.a + reach * self.sigma - low) / points as f64;
            let mut from = self.tails(low);
            for j in 0..points {
                let x = low + width * (j as f64 + 1.0);
                let to = self.tails(x);
                let [still, p, q] = [0, 1, 2].map(|i| between(from[i], to[i]).0);
                let loss = self.loss(rate, x - 0.5 * width);
                let at = |moved: f64| mass * ((1.0 - rate) * still + rate * moved);
                picture.push((loss, at(p), at(q)));
                from = to;
            }
        }
        picture
    }

    fn total(&self) -> (f64, f64) {
        let total = self.groups.iter().map(|group| group.0).sum();
        // N(a) against N(b), as often as the device takes part.
        let apart = 1.0 - 2.0 * normal::upper_tail(0.5 * (self.a - self.b) / self.sigma);
        let taken: f64 = self.groups.iter().map(|(mass, rate)| mass * rate).sum();
        (total, up(taken * apart, 1e-12))
    }

    fn work(&self) -> f64 {
        // Newton's method takes two or three steps from one bound to the next.
        self.groups.len() as f64 * if self.b == 0.0 { 1.0 } else { 3.0 }
    }
}

/// Laplace noise: `(1-r) L(0) + r L(1)` against `(1-r) L(0) + r L(-1)`, in units of a contribution.
/// The worst case for vectors too: the two ratios of the module documentation are at most those of
/// the one-dimensional shifts by 1 and 2, in convex order, and those are comonotone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaplaceShifts {
    pub(crate) rate: f64,
    /// The norm of a contribution over the scale.
    pub(crate) ratio: f64,
}

impl LaplaceShifts {
    /// Where the loss is `loss`: between 0 and 1, and 1 from the largest loss on.
    fn threshold(&self, loss: f64) -> f64 {
        let Self { rate, ratio } = *self;
        if loss >= self.largest_loss() {
            return 1.0;
        }
        // Between 0 and 1: e^(2 y ratio) = 1 + (e^loss - 1) (1 + (1-r)/r e^ratio).
        let growth = expm1(loss) * (1.0 + (1.0 - rate) / rate * exp(ratio));
        (0.5 * log1p(growth) / ratio).clamp(0.0, 1.0)
    }

    /// The masses between two points, both between 0 and 1.
    fn between(&self, from: f64, to: f64) -> Cell {
        let Self { rate, ratio } = *self;
        let gap = -expm1(-(to - from) * ratio);
        let still = (1.0 - rate) * 0.5 * exp(-from * ratio) * gap;
        let p = still + rate * 0.5 * exp(-(1.0 - to) * ratio) * gap;
        let q = still + rate * 0.5 * exp(-(1.0 + from) * ratio) * gap;
        Cell { p, q, tail: p }
    }
}

impl Side for LaplaceShifts {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let Self { rate, ratio } = *self;
        let at: Vec<f64> = bounds.iter().map(|bound| self.threshold(*bound)).collect();
        let mut cells: Vec<Cell> = at.windows(2).map(|x| self.between(x[0], x[1])).collect();
        cells.push(self.between(at[at.len() - 1], 1.0));
        // From 1 on the loss is the largest one.
        let still = (1.0 - rate) * 0.5 * exp(-ratio);
        let (p, q) = (still + 0.5 * rate, still + 0.5 * rate * exp(-2.0 * ratio));
        let largest = self.largest_loss();
        let last = bounds.partition_point(|bound| *bound < largest);
        if last > 0 {
            cells[last - 1].add(&Cell { p, q, tail: p });
        }
        cells
    }

    fn largest_loss(&self) -> f64 {
        ln_sampled(self.rate, self.ratio) - ln_sampled(self.rate, -self.ratio)
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64, f64)> {
        const POINTS: u32 = 64;
        let largest = self.largest_loss();
        let bounds: Vec<f64> =
            (0..=POINTS).map(|j| largest * f64::from(j) / f64::from(POINTS)).collect();
        let cells = self.cells(&bounds);
        let middle = 0.5 * largest / f64::from(POINTS);
        bounds.iter().zip(cells).map(|(l, cell)| (l + middle, cell.p, cell.q)).collect()
    }

    fn total(&self) -> (f64, f64) {
        (1.0, self.rate)
    }

    fn work(&self) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shifts(a: f64, b: f64, sigma: f64) -> Shifts {
        Shifts { sigma, a, b, groups: vec![(0.25, 0.01), (0.5, 0.3), (0.25, 1.0)] }
    }

    /// What is on neither side has the same mass under both laws, and both laws are whole.
    #[test]
    fn the_sides_fit_together() {
        let root = std::f64::consts::SQRT_2;
        for sigma in [0.3, 1.0, 4.0] {
            for (up, down) in [
                ((2.0, 0.0), (2.0, 0.0)),
                ((1.0, -1.0), (1.0, -1.0)),
                ((1.0, 1.0 - root), (1.0, 1.0 - root)),
                ((2.0, 1.0), (1.0, 0.0)),
                ((root, root - 1.0), (1.0, 0.0)),
            ] {
                let [up, down] = [up, down].map(|(a, b)| shifts(a, b, sigma));
                let (above, below) = (up.cells(&[0.0]), down.cells(&[0.0]));
                let pair = Glued { up, down: Some(down) };
                let rest = pair.rest(&above, &below);
                assert!(rest.p >= 0.0 && (rest.p - rest.q).abs() < 1e-14, "{pair:?} {rest:?}");
                let cells = pair.cells(&[-3.0, -0.5, -0.1, 0.0, 0.2, 1.0]);
                let (p, q) = cells.iter().fold((0.0, 0.0), |sum, c| (sum.0 + c.p, sum.1 + c.q));
                assert!((p - 1.0).abs() < 1e-13 && (q - 1.0).abs() < 1e-13, "{p} {q}");
            }
        }
        let side = LaplaceShifts { rate: 0.2, ratio: 1.3 };
        let pair = Glued { up: side, down: Some(side) };
        assert!(pair.rest(&side.cells(&[0.0]), &side.cells(&[0.0])).p < 1e-15);
    }

    /// The threshold is where the loss is what it should be.
    #[test]
    fn thresholds_invert_the_loss() {
        for (a, b) in [(2.0, 0.0), (1.0, -1.0), (2.0, 1.0), (1.0, -0.4), (1.4, 0.4)] {
            for sigma in [0.1, 1.0, 30.0] {
                let side = shifts(a, b, sigma);
                for rate in [1e-9, 1e-3, 0.5, 1.0] {
                    for loss in [1e-12, 1e-4, 0.3, 8.0, 300.0] {
                        let x = side.threshold(rate, loss, f64::MIN);
                        let found = side.loss(rate, x);
                        // A point is known to an ulp or two, and the loss grows with it.
                        let error = 1e-15 * (x.abs() + sigma) * (a - b) / (sigma * sigma);
                        let close = (found - loss).abs() <= 1e-9 * loss + 4.0 * error;
                        assert!(close, "{a} {b} {sigma} {rate}: {loss} {found} at {x}");
                    }
                }
            }
        }
    }
}
