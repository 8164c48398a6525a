//! Pairs of distributions, seen through the law of their privacy loss `ln dP/dQ`.

use std::fmt;
use std::sync::Arc;

use super::tilt::thinned;
use crate::math::{exp, expm1, ln, ln_sampled, log1p};

/// What lies between two losses: its mass under P and under Q.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub(crate) p: f64,
    pub(crate) q: f64,
    /// The size of the numbers whose difference is `p`: its rounding error is a few ulps of this.
    pub(crate) tail: f64,
}

impl Cell {
    pub(crate) fn add(&mut self, other: &Self) {
        self.p += other.p;
        self.q += other.q;
        self.tail += other.tail;
    }

    /// The part of the P-mass that goes to the cell's upper end if its likelihood ratio is split
    /// between both ends with its mean kept: from the ratio at the lower end, and `1 - e^-width`.
    /// Rounding is charged to the upper end.
    pub(crate) fn above(&self, ratio: f64, width: f64) -> f64 {
        let above = (self.p - ratio * self.q + ROUNDING * (self.p + self.tail)) / width;
        if above.is_nan() { self.p } else { above.clamp(0.0, self.p) }
    }

    /// The P-mass that goes to the ratio at the lower end, and to infinity, of a cell without an
    /// upper end.
    pub(crate) fn at_least(&self, ratio: f64) -> (f64, f64) {
        let finite = if self.q > 0.0 { (ratio * self.q).min(self.p) } else { 0.0 };
        (finite, self.p - finite)
    }
}

/// How much of a cell's mass may be rounding error, relative to the tail that it was computed from.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A pair (P, Q) that dominates a mechanism in one direction.
pub(crate) trait Pair: fmt::Debug {
    /// The masses of the losses in `(-inf, b0]`, `(b0, b1]`, ..., `(b_last, inf]`, for increasing
    /// `bounds`.
    fn cells(&self, bounds: &[f64]) -> Vec<Cell>;

    /// The hockey-stick divergence `H_{e^epsilon}(P || Q)`: the delta of this pair at `epsilon`, as
    /// a lower and an upper bound.
    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let ratio = exp(epsilon);
        let above = self.cells(&[epsilon]).pop().unwrap_or_default();
        if above.p <= 0.0 {
            // Beyond the largest loss.
            return (0.0, 0.0);
        }
        // Where the product overflows or Q has no mass, all that is known is that P has no more.
        let theirs = if above.q > 0.0 { ratio * above.q } else { 0.0 };
        let error = f64::EPSILON * (64.0 * (above.p + above.tail) + 16.0 * theirs);
        let (low, high) = (above.p - theirs - error, above.p - theirs + error);
        if !error.is_finite() {
            return (0.0, above.p);
        }
        (low.max(0.0), high.max(0.0))
    }

    /// A bound on the total variation distance between the two.
    fn total_variation(&self) -> f64 {
        1.0
    }

    /// A bound on the loss of every outcome, not below 0. Infinite if there is none.
    fn largest_loss(&self) -> f64 {
        f64::INFINITY
    }

    /// The cost of one cell, relative to that of a simple pair.
    fn work(&self) -> f64 {
        1.0
    }

    /// How many outcomes it holds in memory.
    fn outcomes(&self) -> usize {
        0
    }

    /// A rough sketch of the law of the loss under P, as (loss, mass), in any order, with all but
    /// about `outside` of the mass. Used to choose grids, never to compute a bound.
    fn sketch(&self, outside: f64) -> Vec<(f64, f64)>;
}

/// No outcomes at all.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Pair for Nothing {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        vec![Cell::default(); bounds.len() + 1]
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64)> {
        Vec::new()
    }
}

/// A pair with finitely many outcomes.
#[derive(Clone, Debug)]
pub(crate) struct Atoms {
    /// (loss, P-mass), by increasing loss; the Q-mass is `p e^-loss`.
    atoms: Arc<[(f64, f64)]>,
    /// P-mass where Q has none.
    infinite: f64,
    /// No loss of the mechanism is larger, whatever those of this pair are.
    largest: f64,
}

impl Atoms {
    /// (loss, P-mass), by increasing loss.
    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.atoms
    }

    /// P-mass where Q has none.
    pub(crate) fn infinite(&self) -> f64 {
        self.infinite
    }

    /// The same without the outcomes that Q does not have.
    pub(crate) fn finite(&self) -> Self {
        Self { infinite: 0.0, ..self.clone() }
    }

    pub(crate) fn new(mut atoms: Vec<(f64, f64)>, infinite: f64) -> Self {
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { atoms: atoms.into(), infinite, largest: f64::INFINITY }
    }

    /// The same, for a mechanism whose losses are at most `largest`.
    pub(crate) fn bounded(self, largest: f64) -> Self {
        Self { largest, ..self }
    }

    /// The outcomes (P, Q) that both have.
    pub(crate) fn of_masses(masses: &[(f64, f64)]) -> Self {
        let both = masses.iter().filter(|(p, q)| *p > 0.0 && *q > 0.0);
        Self::new(both.map(|(p, q)| (ln(p / q), *p)).collect(), 0.0)
    }

    /// Any mechanism that is `epsilon`-DP: binary randomized response.
    pub(crate) fn black_box(epsilon: f64) -> Self {
        let yes = 1.0 / (1.0 + exp(-epsilon));
        let no = 1.0 / (1.0 + exp(epsilon));
        Self::new(vec![(epsilon, yes), (-epsilon, no)], 0.0)
    }

    /// k-ary randomized response on two different symbols.
    pub(crate) fn randomized_response(epsilon0: f64, k: u64) -> Self {
        let others = (k - 1) as f64;
        // Divided by e^epsilon0, so that nothing overflows.
        let shrunk = exp(-epsilon0);
        let total = 1.0 + others * shrunk;
        let rest = (others - 1.0) * shrunk / total;
        Self::new(vec![(epsilon0, 1.0 / total), (-epsilon0, shrunk / total), (0.0, rest)], 0.0)
    }
}

impl Pair for Atoms {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        let mut at = 0;
        for &(loss, p) in &*self.atoms {
            while at < bounds.len() && loss > bounds[at] {
                at += 1;
            }
            cells[at].p += p;
            cells[at].q += p * exp(-loss);
        }
        if let Some(last) = cells.last_mut() {
            last.p += self.infinite;
        }
        for cell in &mut cells {
            cell.tail = cell.p;
        }
        cells
    }

    fn largest_loss(&self) -> f64 {
        if self.infinite > 0.0 {
            self.largest
        } else {
            self.atoms.last().map_or(0.0, |atom| atom.0.min(self.largest))
        }
    }

    fn outcomes(&self) -> usize {
        self.atoms.len()
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64)> {
        thinned(self.atoms.to_vec(), SKETCHED)
    }
}

/// The most points of a sketch of atoms.
const SKETCHED: usize = 512;

/// Laplace noise around 0 against the same noise `ratio` scales away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Laplace {
    /// Distance over scale: the largest loss.
    pub(crate) ratio: f64,
}

impl Laplace {
    /// `P(loss <= l)` and `Q(loss > l)`, where `l` is a loss that occurs: the loss is `ratio` left
    /// of P's centre, `-ratio` right of Q's, and linear in between.
    fn tails(&self, l: f64) -> (f64, f64) {
        (0.5 * exp(0.5 * (l - self.ratio)), 0.5 * exp(-0.5 * (l + self.ratio)))
    }
}

impl Pair for Laplace {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(bounds.len() + 1);
        // (P below, Q below, Q above) at the previous bound; differences are taken between the
        // smaller numbers.
        let mut before = (0.0, 0.0, 1.0);
        for l in bounds.iter().copied().chain([f64::INFINITY]) {
            let here = if l < -self.ratio {
                (0.0, 0.0, 1.0)
            } else if l >= self.ratio {
                (1.0, 1.0, 0.0)
            } else {
                let (below, above) = self.tails(l);
                (below, 1.0 - above, above)
            };
            let q = if before.2 < 1.0 { before.2 - here.2 } else { here.1 };
            cells.push(Cell { p: here.0 - before.0, q, tail: here.0 });
            before = here;
        }
        cells
    }

    fn largest_loss(&self) -> f64 {
        self.ratio
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64)> {
        const POINTS: u32 = 64;
        let width = 2.0 * self.ratio / f64::from(POINTS);
        let mut picture = vec![(-self.ratio, 0.5 * exp(-self.ratio)), (self.ratio, 0.5)];
        for j in 0..POINTS {
            let l = -self.ratio + width * f64::from(j);
            let mass = 0.5 * (exp(0.5 * (l + width - self.ratio)) - exp(0.5 * (l - self.ratio)));
            picture.push((l + 0.5 * width, mass));
        }
        picture
    }
}

/// A mechanism that runs with probability `rate`, in secret: `(1-q) Q + q P` against `Q`, or the
/// reverse.
///
/// That this pair dominates the sampled mechanism when (P, Q) dominates the mechanism itself under
/// add/remove is Theorem 11 of Zhu, Dong and Wang (2022).
#[derive(Debug)]
pub(crate) struct Sampled<P> {
    pub(crate) rate: f64,
    /// P with the device against Q without it.
    pub(crate) of: P,
    /// False: mixture against `Q`. True: `Q` against the mixture.
    pub(crate) reversed: bool,
}

impl<P: Pair> Sampled<P> {
    /// The loss of the whole where the mechanism's own loss is `l`.
    fn loss(&self, l: f64) -> f64 {
        ln_sampled(self.rate, l)
    }

    /// The mechanism's own loss where the loss of the whole is `l`.
    fn own_loss(&self, l: f64) -> f64 {
        let x = expm1(l) / self.rate;
        if x <= -1.0 { f64::NEG_INFINITY } else { log1p(x) }
    }

    fn forward_cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let own: Vec<f64> = bounds.iter().map(|b| self.own_loss(*b)).collect();
        let mut cells = self.of.cells(&own);
        for cell in &mut cells {
            cell.p = (1.0 - self.rate) * cell.q + self.rate * cell.p;
            cell.tail = cell.tail.max(cell.p);
        }
        cells
    }
}

impl<P: Pair> Pair for Sampled<P> {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        if !self.reversed {
            return self.forward_cells(bounds);
        }
        let negated: Vec<f64> = bounds.iter().rev().map(|b| -b).collect();
        swapped(self.forward_cells(&negated))
    }

    fn total_variation(&self) -> f64 {
        self.rate
    }

    fn largest_loss(&self) -> f64 {
        // The mixture is at least 1 - q of the law that it is compared with.
        if self.reversed { -log1p(-self.rate) } else { self.loss(self.of.largest_loss()) }
    }

    fn outcomes(&self) -> usize {
        self.of.outcomes()
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        let own = self.of.sketch(outside);
        let mass = |l: f64, p: f64| (1.0 - self.rate) * p * exp(-l) + self.rate * p;
        if self.reversed {
            own.iter().map(|&(l, p)| (-self.loss(l), p * exp(-l))).collect()
        } else {
            own.iter().map(|&(l, p)| (self.loss(l), mass(l, p))).collect()
        }
    }
}

/// The cells of (Q, P) from those of (P, Q) at the negated bounds.
pub(crate) fn swapped(cells: Vec<Cell>) -> Vec<Cell> {
    let turn = |cell: Cell| Cell { p: cell.q, q: cell.p, tail: cell.tail };
    cells.into_iter().rev().map(turn).collect()
}
