//! From a pair of distributions to a law of the loss on a lattice: one that is at least as bad, and
//! one that is at most as bad.

use super::pair::{Cell, Nothing, Pair};
use crate::math::{exp, expm1, ln};

/// The most points of a lattice.
const MOST_POINTS: f64 = 1_048_576.0;

/// P-masses of the loss on the multiples of `step`, and the P-mass of an infinite loss.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    pub(crate) step: f64,
    /// `mass[j]` belongs to the loss `(first + j) * step`.
    pub(crate) first: i64,
    pub(crate) mass: Vec<f64>,
    /// P-mass at the loss 0, in addition to what `mass` has there.
    pub(crate) still: f64,
    pub(crate) infinite: f64,
}

/// The cells of a pair between consecutive points of a lattice.
#[derive(Debug)]
pub(crate) struct Cells {
    step: f64,
    /// The loss of the lattice's point 0.
    origin: f64,
    first: i64,
    /// Below `first`, then one for each gap, then above the last point.
    cells: Vec<Cell>,
}

impl Cells {
    /// Cuts the losses of `pair` at the points `origin + i step` from about `low` to about `high`.
    /// `None` if those are not finite, or too many.
    pub(crate) fn cut(
        pair: &dyn Pair,
        step: f64,
        origin: f64,
        low: f64,
        high: f64,
    ) -> Option<Self> {
        let first = ((low - origin) / step).floor();
        let last = ((high - origin) / step).ceil().max(first + 1.0);
        if !(last - first < MOST_POINTS && first.abs() < 1e15) {
            return None;
        }
        let (first, last) = (first as i64, last as i64);
        let bounds: Vec<f64> = (first..=last).map(|i| origin + i as f64 * step).collect();
        Some(Self { step, origin, first, cells: pair.cells(&bounds) })
    }

    /// The same without the losses between `from` and `to`, which need not be points of the
    /// lattice.
    pub(crate) fn cut_without(
        pair: &dyn Pair,
        (step, origin): (f64, f64),
        (low, high): (f64, f64),
        (from, to): (f64, f64),
    ) -> Option<Self> {
        let mut whole = Self::cut(&Nothing, step, origin, low, high)?;
        let points = (0..whole.cells.len() - 1).map(|j| (whole.loss(j), true));
        let mut bounds: Vec<(f64, bool)> = points.chain([(from, false), (to, false)]).collect();
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pieces = pair.cells(&bounds.iter().map(|bound| bound.0).collect::<Vec<_>>());
        let mut gap = 0;
        for (j, piece) in pieces.iter().enumerate() {
            let left = j.checked_sub(1).map(|before| bounds[before]);
            if left.is_some_and(|(_, on_lattice)| on_lattice) {
                gap += 1;
            }
            let inside = left.is_some_and(|(loss, _)| loss >= from)
                && bounds.get(j).is_some_and(|(loss, _)| *loss <= to);
            if !inside {
                whole.cells[gap].add(piece);
            }
        }
        Some(whole)
    }

    /// Drops what lies below the first and above the last point. Returns the masses of the rest
    /// under P and Q, and its ends.
    pub(crate) fn keep_inside(&mut self) -> (f64, f64, (f64, f64)) {
        let last = self.cells.len() - 1;
        self.cells[0] = Cell::default();
        self.cells[last] = Cell::default();
        let p = self.cells.iter().map(|cell| cell.p).sum();
        let q = self.cells.iter().map(|cell| cell.q).sum();
        (p, q, (self.loss(0), self.loss(last - 1)))
    }

    /// Drops what lies above the last point.
    pub(crate) fn keep_below(&mut self) {
        if let Some(last) = self.cells.last_mut() {
            *last = Cell::default();
        }
    }

    /// At least as bad: connect-the-dots (Doroshenko et al. 2022). The likelihood ratio inside a
    /// cell goes to the cell's two ends with its mean kept, which is a mean-preserving spread and
    /// so raises every hockey-stick divergence. Below the first end the ratio goes to 0 and to that
    /// end; above the last to that end and to infinity.
    pub(crate) fn pessimistic(&self) -> Lattice {
        let gaps = self.cells.len() - 2;
        let mut mass = vec![0.0; gaps + 1];
        // 1 - e^-step, by which the upper end's share is divided.
        let width = -expm1(-self.step);
        let growth = exp(self.step);
        let mut ratio = 0.0;
        mass[0] += self.cells[0].p;
        for (j, cell) in self.cells[1..=gaps].iter().enumerate() {
            ratio = if j % 32 == 0 { exp(self.loss(j)) } else { ratio * growth };
            let above = cell.above(ratio, width);
            mass[j] += cell.p - above;
            mass[j + 1] += above;
        }
        let (finite, infinite) = self.cells[gaps + 1].at_least(exp(self.loss(gaps)));
        mass[gaps] += finite;
        Lattice { step: self.step, first: self.first, mass, still: 0.0, infinite }
    }

    fn loss(&self, j: usize) -> f64 {
        self.origin + (self.first + j as i64) as f64 * self.step
    }

    /// At most as bad, on every `factor`-th point (losses are counted from the origin). Each cell
    /// is one outcome. Neighbouring cells, split where needed, are merged until their mean ratio
    /// lies on the lattice: merging outcomes is post-processing. What is below the first end is
    /// dropped, which lowers delta too.
    pub(crate) fn optimistic(&self, factor: i64) -> Lattice {
        let step = self.step * factor as f64;
        let first = self.first.div_euclid(factor) - 1;
        let last = (self.first + self.cells.len() as i64).div_euclid(factor) + 1;
        let mut mass = vec![0.0; (last - first + 1) as usize];
        let mut beyond = 0.0;
        let mut cell_index = 0;
        // Q-mass that the open group has above what its ratio allows, relative to the ratio.
        let mut surplus = 0.0;
        for cell in self.cells.iter().skip(1).filter(|cell| cell.p > 0.0) {
            if cell.q <= 0.0 {
                // A ratio that overflows or is infinite: the last point is below it.
                beyond += cell.p;
                continue;
            }
            let mut left = 1.0;
            while left > 0.0 {
                let ratio = exp(self.origin + (first + cell_index as i64) as f64 * step);
                let (p, q) = (cell.p * left, cell.q * left * ratio);
                if q - p + surplus >= 0.0 || cell_index + 1 == mass.len() {
                    mass[cell_index] += p;
                    surplus += q - p;
                    left = 0.0;
                } else {
                    let part = (surplus / (p - q)).clamp(0.0, 1.0);
                    mass[cell_index] += p * part;
                    left *= 1.0 - part;
                    surplus = 0.0;
                    cell_index += 1;
                }
            }
        }
        // A last group that never reached its ratio moves down to the point that its own ratio
        // reaches.
        if surplus > 0.0 && cell_index > 0 {
            let p = mass[cell_index];
            let own = (first + cell_index as i64) as f64 * step + ln(p / (p + surplus));
            let target = (own / step).floor() as i64 - first;
            mass[cell_index] = 0.0;
            if target >= 0 && (target as usize) < mass.len() {
                mass[target as usize] += p;
            }
        }
        if let Some(last) = mass.last_mut() {
            *last += beyond;
        }
        Lattice { step, first, mass, still: 0.0, infinite: 0.0 }
    }
}

impl Lattice {
    /// The masses divided by `total`: the law given that the loss is on the lattice.
    pub(crate) fn divided(mut self, total: f64) -> Self {
        for m in &mut self.mass {
            *m /= total;
        }
        self
    }

    /// The finite mass under P, and under Q if losses are counted from the origin.
    pub(crate) fn masses(&self) -> (f64, f64) {
        let masses = self.mass.iter().enumerate();
        let q: f64 = masses.filter(|(_, p)| **p > 0.0).map(|(j, p)| p * exp(-self.loss(j))).sum();
        (self.still + self.mass.iter().sum::<f64>(), self.still + q)
    }

    pub(crate) fn loss(&self, j: usize) -> f64 {
        (self.first + j as i64) as f64 * self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::mixture::Mixture;
    use crate::pld::pair::{Atoms, Laplace, Sampled};

    fn delta(lattice: &Lattice, epsilon: f64) -> f64 {
        let term = |(j, p): (usize, &f64)| p * -expm1(epsilon - lattice.loss(j)).min(0.0);
        lattice.infinite + lattice.mass.iter().enumerate().map(term).sum::<f64>()
    }

    #[test]
    fn the_two_lattices_enclose_every_pair() {
        let pairs: [Box<dyn Pair>; 7] = [
            Box::new(Mixture::sampled_gaussian(0.1, 0.8, 1.0, false)),
            Box::new(Mixture::sampled_gaussian(0.1, 0.8, 1.0, true)),
            Box::new(Mixture::sampled_gaussian(1.0, 2.0, 1.0, false)),
            Box::new(Laplace { ratio: 1.3 }),
            Box::new(Sampled { rate: 0.2, of: Laplace { ratio: 2.0 }, reversed: true }),
            Box::new(Atoms::randomized_response(1.5, 4)),
            Box::new(Atoms::black_box(0.7)),
        ];
        for pair in &pairs {
            for step in [0.01, 0.07] {
                let cells = Cells::cut(&**pair, step, 0.0, -3.0, 6.0).expect("short");
                let (up, down) = (cells.pessimistic(), cells.optimistic(4));
                for j in 0..80 {
                    let epsilon = -1.0 + 0.083 * f64::from(j);
                    let (low, high) = pair.hockey_stick(epsilon);
                    assert!(delta(&up, epsilon) >= low - 1e-14, "{pair:?} {step} {epsilon}");
                    assert!(delta(&down, epsilon) <= high + 1e-14, "{pair:?} {step} {epsilon}");
                }
            }
        }
    }

    #[test]
    fn finer_lattices_are_closer() {
        let pair = Mixture::sampled_gaussian(0.1, 0.8, 1.0, false);
        let truth = pair.hockey_stick(1.03).1;
        // 1.03 lies on neither lattice: there the upper one would be exact.
        let gaps = |step: f64| {
            let cells = Cells::cut(&pair, step, 0.0, -0.2, 8.0).expect("short");
            let (up, down) = (delta(&cells.pessimistic(), 1.03), delta(&cells.optimistic(4), 1.03));
            (up / truth - 1.0, 1.0 - down / truth)
        };
        let (fine, coarse) = (gaps(0.005), gaps(0.02));
        assert!(fine.0 < 0.3 * coarse.0 && fine.1 < 0.3 * coarse.1, "{fine:?} {coarse:?}");
    }

    #[test]
    fn cutting_something_out_leaves_the_rest() {
        let pair = Mixture::sampled_gaussian(0.3, 1.0, 1.0, false);
        let whole = Cells::cut(&pair, 0.1, 0.0, -1.0, 4.0).expect("short");
        let mut inside = Cells::cut(&pair, 0.05, 0.0, -0.2, 0.3).expect("short");
        let (p, q, ends) = inside.keep_inside();
        let rest = Cells::cut_without(&pair, (0.1, 0.013), (-1.0, 4.0), ends).expect("short");
        let sum =
            |cells: &Cells| cells.cells.iter().fold((0.0, 0.0), |s, c| (s.0 + c.p, s.1 + c.q));
        let ((p0, q0), (p1, q1)) = (sum(&whole), sum(&rest));
        assert!((p0 - p - p1).abs() < 1e-14 && (q0 - q - q1).abs() < 1e-14);
    }
}
