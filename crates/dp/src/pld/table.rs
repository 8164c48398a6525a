//! Pairs with many groups as lists of outcomes, computed once. A composition tries several tilts and
//! lattices, and a lattice is cheap to fill from a list.

use super::pair::{Atoms, Cell, Pair};
use crate::math::{exp, expm1, ln};

/// The losses of a table are this part of the width of the bulk apart ...
const BULK: f64 = 1.0 / 512.0;

/// ... and this part of their distance from it.
const TAIL: f64 = 1.0 / 128.0;

/// A table is made coarser if it needs more evaluations of single groups than this ...
const MOST_EVALUATIONS: f64 = 2.5e5;

/// ... but not coarser than this many times.
pub(super) const COARSEST: f64 = 4.0;

/// A pair that is at least, or at most, as bad as another one.
#[derive(Clone, Debug)]
pub(super) struct Table {
    atoms: Atoms,
    total_variation: f64,
    largest_loss: f64,
}

impl Table {
    /// At least as bad, by connecting the dots as in [`super::lattice`], on points that are apart
    /// `coarseness` times as far as usual. Losses above the last point, with a mass of about
    /// `outside`, are taken to be infinite.
    pub(super) fn pessimistic(pair: &dyn Pair, outside: f64, coarseness: f64) -> Self {
        let points = points(pair, outside, coarseness);
        let cells = pair.cells(&points);
        let mut mass = vec![0.0; points.len()];
        mass[0] += cells[0].p;
        for (j, cell) in cells[1..points.len()].iter().enumerate() {
            let above = cell.above(exp(points[j]), -expm1(points[j] - points[j + 1]));
            mass[j] += cell.p - above;
            mass[j + 1] += above;
        }
        let last = points.len() - 1;
        let (finite, infinite) = cells[last + 1].at_least(exp(points[last]));
        mass[last] += finite;
        Self::new(Atoms::new(points.into_iter().zip(mass).collect(), infinite), pair)
    }

    /// At most as bad: all losses between two points are one outcome.
    pub(super) fn optimistic(pair: &dyn Pair, outside: f64, coarseness: f64) -> Self {
        let points = points(pair, outside, coarseness);
        let outcome = |cell: &Cell| (ln(cell.p / cell.q), cell.p);
        let cells = pair.cells(&points);
        let atoms = cells.iter().filter(|cell| cell.p > 0.0 && cell.q > 0.0).map(outcome);
        Self::new(Atoms::new(atoms.collect(), 0.0), pair)
    }

    fn new(atoms: Atoms, pair: &dyn Pair) -> Self {
        let (total_variation, largest_loss) = (pair.total_variation(), pair.largest_loss());
        Self { atoms, total_variation, largest_loss }
    }
}

impl Pair for Table {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        self.atoms.cells(bounds)
    }

    fn total_variation(&self) -> f64 {
        self.total_variation
    }

    fn largest_loss(&self) -> f64 {
        self.largest_loss
    }

    fn outcomes(&self) -> usize {
        self.atoms.outcomes()
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        self.atoms.sketch(outside)
    }
}

/// The points of a table.
fn points(pair: &dyn Pair, outside: f64, coarseness: f64) -> Vec<f64> {
    let mut sketch = pair.sketch(outside);
    sketch.retain(|(l, p)| l.is_finite() && *p > 0.0);
    sketch.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last)) = (sketch.first(), sketch.last()) else { return vec![0.0] };
    // The loss below which this part of the mass lies.
    let total: f64 = sketch.iter().map(|point| point.1).sum();
    let quantile = |part: f64| {
        let mut sum = 0.0;
        let found = sketch.iter().find(|point| {
            sum += point.1;
            sum >= part * total
        });
        found.map_or(last.0, |point| point.0)
    };
    let (low, middle, high) = (quantile(0.01), quantile(0.5), quantile(0.99));
    let bulk = coarseness * BULK * (high - low).max(1e-300);
    let mut points = vec![first.0];
    let mut at = first.0;
    while at < last.0 {
        let tail = coarseness * TAIL * (at - middle).abs();
        at += bulk.max(tail).max(1e-15 * at.abs());
        points.push(at);
    }
    // Coarser, where the bulk is so narrow that all together would take too long.
    let excess = points.len() as f64 * pair.work() / MOST_EVALUATIONS;
    if excess > 1.0 && coarseness < COARSEST {
        return self::points(pair, outside, (coarseness * excess).min(COARSEST));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::counts::{Counts, Grouping};
    use crate::pld::mixture::{Group, Mixture};

    #[test]
    fn tables_enclose_their_pairs() {
        for (rate, others, outside) in
            [(0.02, 499, 4e-19), (0.02, 499, 1e-15), (0.3, 20, 1e-15), (1e-3, 100_000, 1e-15)]
        {
            let masses = Counts::new(others, rate, outside).grouped(1, 64, Grouping::Pessimistic);
            let group = |&(b, before): &(f64, f64)| Group {
                base: b,
                stay: (1.0 - rate) * b,
                gap: rate * b,
                moved: rate * before,
                distance: 2.0,
            };
            for reversed in [false, true] {
                let groups = masses.iter().map(group).collect();
                let pair = Mixture { sigma: 1.5, groups, reversed };
                let up = Table::pessimistic(&pair, outside, 1.0);
                let down = Table::optimistic(&pair, outside, 1.0);
                // Only the device makes the highest count possible.
                let alone = if reversed { 0.0 } else { libm::pow(rate, others as f64 + 1.0) };
                let infinite = up.atoms.infinite();
                assert!(infinite <= 1.1 * alone + 10.0 * outside, "{rate} {reversed}: {infinite}");
                for j in 0..60 {
                    let epsilon = 0.02 * f64::from(j);
                    let (low, high) = pair.hockey_stick(epsilon);
                    let text = format!("{rate} {reversed} {epsilon}: {low:e} {high:e}");
                    assert!(up.hockey_stick(epsilon).1 >= low, "{text}");
                    assert!(down.hockey_stick(epsilon).0 <= high, "{text}");
                    let close = up.hockey_stick(epsilon).1 - down.hockey_stick(epsilon).0;
                    assert!(close <= 5e-2 * high + 1e-6, "{text} {close:e}");
                }
            }
        }
    }
}
