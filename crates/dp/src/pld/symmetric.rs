//! Neighbours of which neither is the first: a device holds one value or another.
//!
//! Of such a pair of inputs it is known that the divergence *in both directions* is at most that of
//! some pairs, the *curves*, at every epsilon from 0 on. Below 0 the divergence of one direction is
//! that of the other: `H_a(P, Q) = 1 - a + a H_(1/a)(Q, P)`. So the law of the loss that has the
//! largest of the curves above 0 and its mirror image below dominates, in both directions. (The
//! pair of a curve itself does not: below 0 it has its own other direction, which may be smaller.)

use super::pair::{Cell, Pair};

/// The pair whose divergence is the largest of the curves' from epsilon 0 on, and mirrored below.
#[derive(Debug)]
pub(crate) struct Symmetric {
    pub(crate) curves: Vec<Box<dyn Pair>>,
}

impl Symmetric {
    /// The cells of losses between neighbouring `points` (increasing, not negative), and above the
    /// last; then the mass of all of them together, under P and under Q.
    fn above(&self, points: &[f64]) -> (Vec<Cell>, Cell) {
        // For each curve the cells between the points, and all that lies above each point.
        let curves: Vec<_> = self
            .curves
            .iter()
            .map(|curve| {
                let cells = curve.cells(points).split_off(1);
                let mut tails = cells.clone();
                for j in (1..tails.len()).rev() {
                    let more = tails[j];
                    tails[j - 1].add(&more);
                }
                (cells, tails)
            })
            .collect();
        // The curve with the largest divergence at each point.
        let largest = |j: usize| {
            let ratio = points.get(j).map_or(0.0, |point| crate::math::exp(*point));
            let stick = |tail: &Cell| tail.p - if tail.q > 0.0 { ratio * tail.q } else { 0.0 };
            let at = |i: &usize| stick(&curves[*i].1[j]);
            (0..curves.len()).max_by(|a, b| at(a).total_cmp(&at(b))).unwrap_or(0)
        };
        let chosen: Vec<usize> = (0..points.len()).map(largest).collect();
        let cell = |j: usize| {
            let (cells, tails) = &curves[chosen[j]];
            match chosen.get(j + 1) {
                Some(next) if *next != chosen[j] => {
                    let (from, to) = (tails[j], curves[*next].1[j + 1]);
                    let less = |a: f64, b: f64| (a - b).max(0.0);
                    Cell { p: less(from.p, to.p), q: less(from.q, to.q), tail: from.p.max(from.q) }
                }
                _ => cells[j],
            }
        };
        let all = chosen.first().map_or(Cell::default(), |first| curves[*first].1[0]);
        ((0..points.len()).map(cell).collect(), all)
    }
}

impl Pair for Symmetric {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mut points: Vec<f64> = bounds.iter().map(|b| b.abs()).chain([0.0]).collect();
        points.sort_by(f64::total_cmp);
        points.dedup();
        let (above, all) = self.above(&points);
        let mut cells = vec![Cell::default(); bounds.len() + 1];
        // The cell whose upper end is the first bound that is not below `loss`.
        let place = |loss: f64| bounds.partition_point(|bound| *bound < loss);
        for (j, cell) in above.into_iter().enumerate() {
            let end = points.get(j + 1).copied().unwrap_or(f64::INFINITY);
            cells[place(end)].add(&cell);
            cells[place(-points[j])].add(&Cell { p: cell.q, q: cell.p, ..cell });
        }
        let rest = (1.0 - all.p - all.q).max(0.0);
        cells[place(0.0)].add(&Cell { p: rest, q: rest, tail: rest });
        cells
    }

    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        self.curves.iter().map(|curve| curve.hockey_stick(epsilon)).fold((0.0, 0.0), larger)
    }

    fn total_variation(&self) -> f64 {
        self.curves.iter().map(|curve| curve.total_variation()).fold(0.0, f64::max)
    }

    fn largest_loss(&self) -> f64 {
        self.curves.iter().map(|curve| curve.largest_loss()).fold(0.0, f64::max)
    }

    fn work(&self) -> f64 {
        // Points on both sides, put in order.
        4.0 + 2.0 * self.curves.iter().map(|curve| curve.work()).sum::<f64>()
    }

    fn sketch(&self, outside: f64) -> Vec<(f64, f64)> {
        let mut picture = Vec::new();
        let share = 1.0 / self.curves.len().max(1) as f64;
        let mut rest = 1.0;
        for (loss, p) in self.curves.iter().flat_map(|curve| curve.sketch(outside)) {
            let q = p * crate::math::exp(-loss);
            if loss > 0.0 {
                picture.extend([(loss, share * p), (-loss, share * q)]);
                rest -= share * (p + q);
            }
        }
        picture.push((0.0, rest.max(0.0)));
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::mixture::Mixture;

    fn sampled(rate: f64, distance: f64) -> Box<dyn Pair> {
        Box::new(Mixture::sampled_gaussian(rate, 1.0, distance, false))
    }

    /// The divergence that cells stand for, at each of their bounds.
    fn sticks(cells: &[Cell], bounds: &[f64]) -> Vec<f64> {
        let at = |j: usize| {
            let above = cells[j + 1..].iter().fold((0.0, 0.0), |s, c| (s.0 + c.p, s.1 + c.q));
            above.0 - bounds[j].exp() * above.1
        };
        (0..bounds.len()).map(at).collect()
    }

    #[test]
    fn it_is_the_largest_curve_above_zero_and_its_mirror_image_below() {
        let curves = vec![sampled(0.3, 1.0), sampled(0.1, 2.0)];
        let bounds: Vec<f64> = (-40..=40).map(|j| 0.1 * f64::from(j) + 0.013).collect();
        let alone: Vec<_> = curves.iter().map(|c| sticks(&c.cells(&bounds), &bounds)).collect();
        let mirrored: Vec<f64> = bounds.iter().rev().map(|b| -b).collect();
        let far: Vec<_> = curves.iter().map(|c| sticks(&c.cells(&mirrored), &mirrored)).collect();
        let both = Symmetric { curves };
        let cells = both.cells(&bounds);
        let total = cells.iter().fold((0.0, 0.0), |s, c| (s.0 + c.p, s.1 + c.q));
        assert!((total.0 - 1.0f64).abs() < 1e-13 && (total.1 - 1.0f64).abs() < 1e-13, "{total:?}");
        let found = sticks(&cells, &bounds);
        let mut switched = [false; 2];
        for (j, bound) in bounds.iter().enumerate() {
            let expected = if *bound >= 0.0 {
                switched[usize::from(alone[1][j] > alone[0][j])] = true;
                alone[0][j].max(alone[1][j])
            } else {
                let back = far[0][bounds.len() - 1 - j].max(far[1][bounds.len() - 1 - j]);
                1.0 - bound.exp() + bound.exp() * back
            };
            assert!((found[j] - expected).abs() < 1e-13, "{bound}: {} {expected}", found[j]);
        }
        // Each of the two is the largest somewhere.
        assert_eq!(switched, [true, true]);
    }
}
