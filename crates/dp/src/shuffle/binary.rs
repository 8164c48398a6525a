//! One noisy bit for each device, of which only the sum is seen: the worst inputs of the others.
//!
//! Each device sends its bit, flipped with probability `p = 1/(e^epsilon0 + 1)`; `t = (1-p)/p`. Of
//! `N` others, `A` hold 0 and `B` hold 1. The number of ones among them is
//! `X = Bin(A, p) + Bin(B, 1-p)`, and the device adds its own: `P1 = X + Bern(1-p)` if it holds 1,
//! `P0 = X + Bern(p)` if it holds 0. This is binary randomized response; and it is one column of a
//! sum of RAPPOR reports.
//!
//! **The profile.** `h(e) = sum over c of (P1(c) - e P0(c))_+` for `e >= 1`. `X` is log-concave, so
//! the ratio `P1/P0` grows with `c` and the sum is over a tail. For `e < 1` use
//! `h(e) = 1 - e + e h'(1/e)`, with `h'` the profile of `P0` against `P1`, which is that of `A` and
//! `B` exchanged. So the worst over all inputs is a symmetric pair of laws, and `h` at `e >= 1`
//! describes it.
//!
//! **All inputs.** `X` has the same variance for all `A + B = N`, but another skewness. The profile
//! is largest at `A = 0`, except for effects of the lattice of the size of one device more or less;
//! this is not used. What is used: with fewer others a device is not hidden better, since their bits
//! can be added afterwards. So for all `A` from `A1` to `A2` the profile is at most that of
//! `(A1, N - A2)`, and the maximum over some hundred such blocks bounds all inputs. It costs half a
//! block: a part in 500 of epsilon.
//!
//! **The law of one block.** If the tables of the two binomials are short, their convolution, a sum
//! of positive terms. If not: `h(e) = alpha E(r(X) - rho)_+` with `r(c) = P(X = c-1)/P(X = c)`,
//! `alpha = 1 - p - e p`, `rho = (e (1-p) - p)/alpha`. Removing one of the ones that were sent by
//! holders of 0, chosen at random, shows that `r(X)` is the mean, given `X`, of
//! `r_A = t a/(A - a + 1)`, `a ~ Bin(A, p)`; the same for the holders of 1, with
//! `r_B = (B - z)/(t (z + 1))`, `z ~ Bin(B, p)` of whom sent 0. (Except where all of `A`, or all of
//! `B`, sent 1, which is improbable here.) So `r(X)` is the mean given `X` of
//! `(B/N) r_B + (A/N) r_A`, and by Jensen's inequality
//! `h(e) <= alpha E((B/N) r_B + (A/N) r_A - rho)_+`. Both are independent and may be spread over few
//! nodes, so that large crowds take no longer than small ones. With these weights the two sides have
//! the same variance to first order.
//!
//! **The lattice.** `h` is convex. The maximum is computed at `e = e^(i step)`; the chords between
//! these points lie above it, and are the profile of a pair with finitely many losses.

use super::weights::{self, Weights};
use crate::math::{exp, expm1, ln, ln_sampled, log1p, sqrt, up};
use crate::pld::pair::Atoms;

/// Blocks of inputs; half as many for crowds whose tables are not convolved.
const BLOCKS: u64 = 256;

/// Points of the profile.
const POINTS: usize = 256;

/// The largest product of the lengths of two tables that are convolved.
const CONVOLVED: usize = 262_144;

/// The most nodes of each ratio otherwise.
const NODES: usize = 128;

/// Covers the roundings of the profile, of its differences and of the weights. Relative.
const MARGIN: f64 = 1e-9;

/// The largest standard deviation of a count; larger crowds are cut.
const DEVIATION: f64 = 4_096.0;

/// The profile of the worst inputs.
#[derive(Debug)]
pub(crate) struct Worst {
    epsilon0: f64,
    step: f64,
    /// At `e^(i step)`.
    profile: Vec<f64>,
    /// To be added to delta.
    outside: f64,
}

impl Worst {
    /// The worst of all inputs of `others` devices; about `outside` of the mass is left out.
    pub(crate) fn new(epsilon0: f64, others: u64, outside: f64) -> Self {
        let flips = Flips::new(epsilon0);
        let others = weights::crowd(others, flips.p, 1.0 - flips.p, DEVIATION);
        let outside = (outside * 0.1).max(1e-290);
        let blocks = if flips.convolves(others / 2, others / 2, outside) { 1 } else { 2 };
        let blocks = (BLOCKS / blocks).min(others + 1);
        // The holders of 0 are `from..to`.
        let block = |j: u64| {
            let edge =
                |j: u64| (u128::from(j) * u128::from(others + 1) / u128::from(blocks)) as u64;
            let (from, to) = (edge(j), edge(j + 1));
            Block { zeros: from, ones: others + 1 - to }
        };
        let first = flips.convolved(block(0), outside);
        // Beyond this loss hardly anything is left.
        let range = if first.at(exp(epsilon0 * (1.0 - 1e-9))) > outside {
            epsilon0
        } else {
            let (mut low, mut high) = (0.0, epsilon0);
            while high - low > 0.01 * high {
                let middle = 0.5 * (low + high);
                *(if first.at(exp(middle)) > outside { &mut low } else { &mut high }) = middle;
            }
            high
        };
        let step = range / (POINTS - 1) as f64;
        let ratios: Vec<f64> = (0..POINTS).map(|i| exp(i as f64 * step)).collect();
        let mut profile = vec![0.0; POINTS];
        for j in 0..blocks {
            let found = flips.profile(block(j), &ratios, outside);
            for (most, h) in profile.iter_mut().zip(found) {
                *most = f64::max(*most, h);
            }
        }
        for h in &mut profile {
            *h = up(*h, MARGIN);
        }
        Self { epsilon0, step, profile, outside: 8.0 * outside }
    }

    /// The delta at `epsilon`.
    pub(crate) fn delta(&self, epsilon: f64) -> f64 {
        let last = self.profile.len() - 1;
        let i = (epsilon / self.step).max(0.0);
        let found = if i >= last as f64 {
            self.profile[last]
        } else {
            let i = i as usize;
            let (low, high) = (exp(i as f64 * self.step), exp((i + 1) as f64 * self.step));
            let part = ((exp(epsilon) - low) / (high - low)).clamp(0.0, 1.0);
            self.profile[i] + (self.profile[i + 1] - self.profile[i]) * part
        };
        found + self.outside + 1e-15 * self.profile[0]
    }

    /// The epsilon at `delta` if the device is one of the crowd with probability `share`, and if
    /// not, another takes its place.
    ///
    /// If that other one holds what the device is compared with, the laws are
    /// `(1 - r) P0 + r P1` and `P0`, and `H(e) = r h(1 + (e - 1)/r)`; if it holds what the device
    /// holds, the same with the roles exchanged, which is less for `e >= 1`.
    pub(crate) fn epsilon(&self, share: f64, delta: f64) -> f64 {
        let target = delta / share;
        let fits = |epsilon: f64| self.delta(epsilon) <= target;
        let end = self.step * (self.profile.len() - 1) as f64;
        let found = if !fits(end) {
            self.epsilon0
        } else {
            let (mut low, mut high) = (0.0, end);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                *(if fits(middle) { &mut high } else { &mut low }) = middle;
            }
            if fits(0.0) { 0.0 } else { high }
        };
        up(ln_sampled(share, found), 1e-12).min(self.epsilon0)
    }

    /// The pair on the lattice of its losses: the step, and the P-mass of `-m step, ..., m step`;
    /// the P-mass where Q has none is what is missing from 1.
    pub(crate) fn lattice(&self) -> (f64, Vec<f64>) {
        let m = self.profile.len() - 1;
        let ratio = |i: usize| exp(i as f64 * self.step);
        let slope = |i: usize| {
            if i == m {
                return 0.0;
            }
            let width = ratio(i) * expm1(self.step);
            (self.profile[i + 1] - self.profile[i]) / width
        };
        let mut mass = vec![0.0; 2 * m + 1];
        let mut sum = self.profile[m];
        for i in 1..=m {
            let q = (slope(i) - slope(i - 1)).max(0.0);
            mass[m - i] = q;
            mass[m + i] = q * ratio(i);
            sum += mass[m - i] + mass[m + i];
        }
        mass[m] = (1.0 - sum).max(0.0);
        (self.step, mass)
    }

    /// The same as outcomes.
    pub(crate) fn atoms(&self) -> Atoms {
        let (step, mass) = self.lattice();
        let m = self.profile.len() - 1;
        let atoms = mass.iter().enumerate().map(|(j, p)| ((j as f64 - m as f64) * step, *p));
        Atoms::new(atoms.collect(), self.profile[m])
    }

    /// The P-mass where Q has none.
    pub(super) fn infinite(&self) -> f64 {
        self.profile[self.profile.len() - 1]
    }

    /// To be added to the delta of each use of [`Self::atoms`].
    pub(crate) fn outside(&self) -> f64 {
        self.outside
    }
}

/// The outcomes (P1, P0), by rising ratio, if all others hold 1 (the worse crowd) or 0.
pub(super) fn extreme(epsilon0: f64, others: u64, hold_one: bool, outside: f64) -> Vec<(f64, f64)> {
    let flips = Flips::new(epsilon0);
    if weights::crowd(others, flips.p, 1.0 - flips.p, DEVIATION) < others {
        // Too large a crowd: no outcome.
        return Vec::new();
    }
    let (zeros, ones) = if hold_one { (0, others) } else { (others, 0) };
    flips.convolved(Block { zeros, ones }, outside).laws
}

/// So many others hold 0, and so many hold 1.
#[derive(Clone, Copy)]
struct Block {
    zeros: u64,
    ones: u64,
}

/// The two laws of a sum, with the tails from each count on: (P1, P0) and their sums from above.
struct Tails {
    laws: Vec<(f64, f64)>,
}

impl Tails {
    /// The profile at falling ratios.
    fn each(&self, ratios: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut rest = self.laws.iter().rev().peekable();
        let (mut first, mut second) = (0.0, 0.0);
        let of = |e: f64| {
            while let Some((p1, p0)) = rest.next_if(|(p1, p0)| *p1 > e * p0) {
                first += p1;
                second += p0;
            }
            (first - e * second).max(0.0)
        };
        ratios.map(of).collect()
    }

    fn at(&self, e: f64) -> f64 {
        self.each(std::iter::once(e))[0]
    }
}

struct Flips {
    p: f64,
    /// `(1-p)/p`.
    t: f64,
}

impl Flips {
    fn new(epsilon0: f64) -> Self {
        let t = exp(epsilon0);
        Self { p: 1.0 / (t + 1.0), t }
    }

    /// Whether the tables of the two groups are short; by a bound on their lengths.
    fn convolves(&self, zeros: u64, ones: u64, outside: f64) -> bool {
        let reach = sqrt(-2.0 * ln(outside)) + 1.0;
        let length = |n: u64| {
            let deviation = sqrt(n as f64 * self.p * (1.0 - self.p));
            ((2.0 * reach * deviation) as usize).saturating_add(16).min(n as usize + 1)
        };
        length(zeros).saturating_mul(length(ones)) <= CONVOLVED
    }

    /// The profile of a block at rising ratios.
    fn profile(&self, block: Block, ratios: &[f64], outside: f64) -> Vec<f64> {
        let Block { zeros, ones } = block;
        let short = self.convolves(zeros, ones, outside);
        // Whether all of a group may well have sent 1.
        let full =
            zeros as f64 * ln(self.p) > ln(outside) || ones as f64 * log1p(-self.p) > ln(outside);
        let mut found = if short || full {
            self.convolved(block, outside).each(ratios.iter().rev().copied())
        } else {
            self.averaged(block, ratios, outside)
        };
        found.reverse();
        found
    }

    /// The exact law.
    fn convolved(&self, block: Block, outside: f64) -> Tails {
        let (p, q) = (self.p, 1.0 - self.p);
        let sent = Weights::new(block.zeros, p, q, outside).values;
        let lost = Weights::new(block.ones, p, q, outside).values;
        let mut crowd = vec![0.0; sent.len() + lost.len() - 1];
        for (a, x) in sent.iter().enumerate() {
            for (sum, y) in crowd[a..].iter_mut().zip(lost.iter().rev()) {
                *sum += x * y;
            }
        }
        let before = std::iter::once(&0.0).chain(&crowd);
        let here = crowd.iter().chain(std::iter::once(&0.0));
        let laws = before.zip(here).map(|(b, h)| (p * h + q * b, q * h + p * b)).collect();
        Tails { laws }
    }

    /// The bound by the two groups' own ratios, at falling ratios.
    fn averaged(&self, block: Block, ratios: &[f64], outside: f64) -> Vec<f64> {
        let (p, t) = (self.p, self.t);
        let (zeros, ones) = (block.zeros as f64, block.ones as f64);
        let part = ones / (zeros + ones);
        let table = |n: u64| Weights::new(n, p, 1.0 - p, outside);
        let by_zeros = nodes(&table(block.zeros), |a| t * a / (zeros - a + 1.0), Shift::Down);
        let mut by_ones = nodes(&table(block.ones), |z| (ones - z) / (t * (z + 1.0)), Shift::Up);
        by_ones.sort_by(|x, y| y.0.total_cmp(&x.0));
        let thresholds: Vec<(f64, f64)> = ratios
            .iter()
            .rev()
            .map(|e| {
                let alpha = (1.0 - p - e * p).max(0.0);
                (alpha, (e * (1.0 - p) - p) / alpha)
            })
            .collect();
        let mut profile = vec![0.0; ratios.len()];
        for (own, mass) in by_zeros {
            let mut rest = by_ones.iter().peekable();
            let (mut sum, mut weight) = (0.0, 0.0);
            for (h, (alpha, rho)) in profile.iter_mut().zip(&thresholds) {
                // In units of the ratio of the holders of 1.
                let above = (rho - (1.0 - part) * own) / part;
                while let Some((r, m)) = rest.next_if(|(r, _)| *r > above) {
                    sum += m * r;
                    weight += m;
                }
                if weight > 0.0 {
                    *h += mass * part * alpha * (sum - above * weight);
                }
            }
        }
        profile
    }
}

/// Whose probability a ratio times the probability of a count is: `r_A(a) P(a) = P(a - 1)`, and
/// `r_B(z) P(z) = P(z + 1)`.
#[derive(Clone, Copy)]
enum Shift {
    Down,
    Up,
}

/// The ratio of a count as (ratio, mass) at few nodes: the ratios in between are split between their
/// neighbours with the mean kept.
fn nodes(table: &Weights, ratio: impl Fn(f64) -> f64, shift: Shift) -> Vec<(f64, f64)> {
    let (values, length) = (&table.values, table.values.len());
    let at = |j: usize| ratio((table.first + j as u64) as f64);
    // The ratio of entry j times its mass.
    let moment = |j: usize| match shift {
        Shift::Down if j > 0 => values[j - 1],
        Shift::Up if j + 1 < length => values[j + 1],
        _ => values[j] * at(j),
    };
    let stride = length.div_ceil(NODES);
    let mut found: Vec<(f64, f64)> = vec![(at(0), 0.0)];
    for from in (0..length).step_by(stride) {
        let (cell, to) = (from..(from + stride).min(length), (from + stride).min(length - 1));
        let mass: f64 = values[cell.clone()].iter().sum();
        let (low, high) = (at(from), at(to));
        let up = if to > from {
            (cell.map(moment).sum::<f64>() - low * mass) / (high - low)
        } else {
            0.0
        };
        if let Some(last) = found.last_mut() {
            last.1 += mass - up;
        }
        if to > from {
            found.push((high, up));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTSIDE: f64 = 1e-22;

    fn ratios(epsilon0: f64, others: u64) -> Vec<f64> {
        let flips = Flips::new(epsilon0);
        let deviation = (1.0 - 2.0 * flips.p) / sqrt(others as f64 * flips.p * (1.0 - flips.p));
        (0..30).map(|i| exp((0.25 * f64::from(i) * deviation).min(0.98 * epsilon0))).collect()
    }

    /// The bound by the ratios of the two groups is one, and a close one for large crowds.
    #[test]
    fn the_averaged_ratios_bound_the_exact_law() {
        for (epsilon0, others) in [(1.0, 8_000), (3.0, 40_000), (0.3, 9_000)] {
            let (flips, ratios) = (Flips::new(epsilon0), ratios(epsilon0, others));
            for part in [2, 3, 5, 8] {
                let zeros = others * part / 10;
                let block = Block { zeros, ones: others - zeros };
                let exact = flips.convolved(block, OUTSIDE).each(ratios.iter().rev().copied());
                let bound = flips.averaged(block, &ratios, OUTSIDE);
                for (j, (h, most)) in exact.iter().zip(&bound).enumerate() {
                    let what = format!("{epsilon0} {others} {zeros} {j}: {h:e} {most:e}");
                    assert!(*most >= h * (1.0 - 1e-12) - OUTSIDE, "{what}");
                    // Up to five deviations of the loss.
                    let close = j < 10 || *most <= 1.3 * h;
                    assert!(close, "{what}");
                }
            }
        }
    }

    /// All inputs of some dozen others, one by one.
    #[test]
    fn no_inputs_exceed_the_worst() {
        for (epsilon0, others) in [(0.5, 1), (2.0, 7), (4.0, 30), (1.0, 400)] {
            let (flips, worst) = (Flips::new(epsilon0), Worst::new(epsilon0, others, OUTSIDE));
            let mut most = vec![0.0f64; 40];
            for zeros in 0..=others {
                let tails = flips.convolved(Block { zeros, ones: others - zeros }, OUTSIDE);
                for (j, most) in most.iter_mut().enumerate() {
                    let epsilon = 0.024 * j as f64 * epsilon0;
                    let h = tails.at(exp(epsilon));
                    assert!(h <= worst.delta(epsilon), "{epsilon0} {others} {zeros} {epsilon}");
                    *most = most.max(h);
                }
            }
            // And it is not much more than the worst of them: below 3 % in delta, where that is not
            // tiny.
            for (j, most) in most.iter().enumerate().filter(|(_, most)| **most > 1e-9) {
                let found = worst.delta(0.024 * j as f64 * epsilon0);
                assert!(found <= 1.1 * most + 1e-12, "{epsilon0} {others} {j}: {found:e} {most:e}");
            }
        }
    }

    /// The masses on the lattice have the profile that they were made from.
    #[test]
    fn the_lattice_has_the_profile() {
        for (epsilon0, others) in [(2.0, 10), (4.0, 3_000)] {
            let worst = Worst::new(epsilon0, others, OUTSIDE);
            let (step, mass) = worst.lattice();
            let m = (mass.len() / 2) as f64;
            let total = mass.iter().sum::<f64>() + worst.infinite();
            assert!((total - 1.0).abs() < 2.0 * MARGIN, "{total}");
            for i in (0..worst.profile.len()).step_by(17) {
                let epsilon = i as f64 * step;
                let term =
                    |(j, p): (usize, &f64)| p * -expm1(epsilon - (j as f64 - m) * step).min(0.0);
                let found = mass.iter().enumerate().map(term).sum::<f64>() + worst.infinite();
                let expected = worst.profile[i];
                assert!((found - expected).abs() <= 1e-9 * expected + 1e-15, "{i} {found:e}");
            }
        }
    }
}
