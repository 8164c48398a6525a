//! Laws of positive sums on a geometric grid, and their convolution.
//!
//! A law has its mass on the points `e^(k width)`. The sum of two points lies in a cell whose
//! position relative to the larger of the two depends only on their distance, so a convolution is a
//! table and a loop. All terms are positive: every mass keeps its *relative* precision, in both
//! tails, however small it is.
//!
//! Sums in a cell go back to the grid with their mean kept: to the cell's two ends (a
//! mean-preserving *spread*: every convex expectation grows) or in groups with their neighbours (a
//! *merge*: each group becomes its mean, every convex expectation shrinks). Sums of many terms are
//! narrow, so the grid becomes finer along the way.

use crate::math::{exp, expm1, ln, log1p};

/// The direction of rounding to the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Convex expectations grow.
    Upper,
    /// Convex expectations shrink.
    Lower,
}

/// What may be cut off a law: too little to matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Mass at the bottom.
    pub(super) low: f64,
    /// `E(S - top)_+`.
    pub(super) cut: f64,
    /// The most points of a law.
    pub(super) points: usize,
}

/// A law on the points `e^(k width)`.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub(super) width: f64,
    /// `mass[j]` is at `e^((first + j) width)`.
    pub(super) first: i64,
    pub(super) mass: Vec<f64>,
    /// The probability that some term was moved up to the lowest point of its grid.
    pub(super) low: f64,
    /// By how much that raised the mean.
    pub(super) lift: f64,
    /// By how much moving large values down lowered the mean.
    pub(super) cut: f64,
}

/// Masses in the cells between the points.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) width: f64,
    /// Cell `j` lies between the points `first + j` and `first + j + 1`.
    pub(super) first: i64,
    pub(super) total: Vec<f64>,
    /// The part of a cell's mass that would be at its upper end if the mean is kept and the rest is
    /// at the lower end.
    pub(super) upper: Vec<f64>,
}

/// The position of the sum of two points whose logarithms differ by `ln_ratio`: the number of grid
/// points above the larger one, and the fraction of the way to the next.
fn place(ln_ratio: f64, width: f64) -> (i64, f64) {
    let above = log1p(exp(-ln_ratio)) / width;
    let whole = above.floor();
    (whole as i64, (expm1((above - whole) * width) / expm1(width)).clamp(0.0, 1.0))
}

impl Law {
    /// `ln` of point `j`.
    pub(super) fn ln_point(&self, j: usize) -> f64 {
        (self.first + j as i64) as f64 * self.width
    }

    /// The law of the sum of two independent values of this law, on a grid of half the width if
    /// that fits.
    pub(super) fn doubled(&self, end: End, budget: Budget) -> Self {
        let width = 0.5 * self.width;
        let mut cells = Cells::for_sums(self, self, width);
        // Even and odd cells separately, so that the inner loop runs over neighbours.
        let half = cells.total.len() / 2 + 1;
        let mut phases = [(); 2].map(|()| (vec![0.0; half], vec![0.0; half]));
        for d in 0..self.mass.len() {
            let (whole, part) = place(d as f64 * self.width, width);
            let twice = if d == 0 { 1.0 } else { 2.0 };
            let start = (2 * (self.first + d as i64) + whole - cells.first).max(0) as usize;
            let (totals, uppers) = &mut phases[start % 2];
            let start = (start / 2).min(half);
            let pairs = self.mass.iter().zip(&self.mass[d..]);
            let places = totals[start..].iter_mut().zip(&mut uppers[start..]);
            for ((a, b), (total, upper)) in pairs.zip(places) {
                let p = twice * a * b;
                *total += p;
                *upper += p * part;
            }
        }
        for (phase, (totals, uppers)) in phases.iter().enumerate() {
            let places = cells.total.iter_mut().zip(&mut cells.upper).skip(phase).step_by(2);
            for ((total, upper), (t, u)) in places.zip(totals.iter().zip(uppers)) {
                (*total, *upper) = (*t, *u);
            }
        }
        cells.law(end, [self, self], budget)
    }

    /// The law of the sum of two independent values. The widths differ by a power of two.
    pub(super) fn plus(&self, other: &Self, end: End, budget: Budget) -> Self {
        let (fine, coarse) = if self.width <= other.width { (self, other) } else { (other, self) };
        let stride = (coarse.width / fine.width).round() as i64;
        let mut cells = Cells::for_sums(fine, coarse, fine.width);
        let (rows, columns) = (fine.mass.len() as i64, coarse.mass.len() as i64);
        // Pairs with the same distance d = (index in fine) - stride (index in coarse), together.
        let lowest = fine.first - stride * (coarse.first + columns - 1);
        let highest = fine.first + rows - 1 - stride * coarse.first;
        for d in lowest..=highest {
            let from = -(d - fine.first).div_euclid(stride) - coarse.first;
            let from = from.max(0);
            let to = (fine.first + rows - 1 - d).div_euclid(stride) - coarse.first;
            let to = to.min(columns - 1);
            if from > to {
                continue;
            }
            let (whole, part) = place(d.abs() as f64 * fine.width, fine.width);
            let anchor = stride * (coarse.first + from);
            let start = (anchor + d.max(0) + whole - cells.first).max(0) as usize;
            let start = start.min(cells.total.len());
            let row = (anchor + d - fine.first) as usize;
            let step = stride as usize;
            let a = fine.mass[row..].iter().step_by(step);
            let pairs = a.zip(&coarse.mass[from as usize..=to as usize]);
            let totals = cells.total[start..].iter_mut().step_by(step);
            let places = totals.zip(cells.upper[start..].iter_mut().step_by(step));
            for ((a, b), (total, upper)) in pairs.zip(places) {
                let p = a * b;
                *total += p;
                *upper += p * part;
            }
        }
        cells.law(end, [fine, coarse], budget)
    }

    /// Without the ends that hold almost no mass.
    fn trimmed(mut self, budget: Budget) -> Self {
        let growth = expm1(self.width);
        // From the top: how much is at or above point j, and E(S - point j)_+.
        let (mut above, mut excess) = (0.0, 0.0);
        let mut last = self.mass.len() - 1;
        while last > 0 {
            let more = above + self.mass[last];
            let next = excess + more * growth * exp(self.ln_point(last - 1));
            if next.is_nan() || next > budget.cut {
                break;
            }
            (above, excess) = (more, next);
            last -= 1;
        }
        self.mass.truncate(last + 1);
        self.mass[last] += above;
        self.cut += excess;
        let (mut below, mut bottom) = (0.0, 0);
        while bottom < last && below + self.mass[bottom] <= budget.low {
            below += self.mass[bottom];
            bottom += 1;
        }
        self.low += below;
        self.lift += below * exp(self.ln_point(bottom));
        self.mass[bottom] += below;
        self.mass.drain(..bottom);
        self.first += bottom as i64;
        self
    }
}

impl Cells {
    /// Room for the sums of two laws.
    fn for_sums(a: &Law, b: &Law, width: f64) -> Self {
        let sum = |a: f64, b: f64| (a.max(b) + log1p(exp(-(a - b).abs()))) / width;
        let bottom = sum(a.ln_point(0), b.ln_point(0)).floor() as i64 - 2;
        let top = sum(a.ln_point(a.mass.len() - 1), b.ln_point(b.mass.len() - 1));
        let length = (top.ceil() as i64 + 4 - bottom).max(1) as usize;
        Self { width, first: bottom, total: vec![0.0; length], upper: vec![0.0; length] }
    }

    /// Back on the grid, coarser if there are too many points; `of` are the laws that were added.
    fn law(self, end: End, of: [&Law; 2], budget: Budget) -> Law {
        let mut cells = self;
        let mut law = cells.rounded(end).trimmed(budget);
        while law.mass.len() > budget.points {
            cells = cells.coarser();
            law = cells.rounded(end).trimmed(budget);
        }
        for part in of {
            law.low += part.low;
            law.lift += part.lift;
            law.cut += part.cut;
        }
        law
    }

    /// The same masses and means in cells of twice the width.
    fn coarser(&self) -> Self {
        let first = self.first.div_euclid(2);
        let shift = (self.first - 2 * first) as usize;
        let length = (self.total.len() + shift).div_ceil(2);
        let (mut total, mut upper) = (vec![0.0; length], vec![0.0; length]);
        // What the point in the middle of a cell has of its upper end.
        let middle = 1.0 / (2.0 + expm1(self.width));
        for (j, (t, u)) in self.total.iter().zip(&self.upper).enumerate() {
            let cell = (j + shift) / 2;
            let below = (t - u).max(0.0);
            total[cell] += t;
            upper[cell] +=
                if (j + shift).is_multiple_of(2) { u * middle } else { below * middle + u };
        }
        Self { width: 2.0 * self.width, first, total, upper }
    }

    /// Rounds to the grid.
    pub(super) fn rounded(&self, end: End) -> Law {
        match end {
            End::Upper => self.spread(),
            End::Lower => self.merged(),
        }
    }

    fn with(&self, mass: Vec<f64>, cut: f64) -> Law {
        Law { width: self.width, first: self.first, mass, low: 0.0, lift: 0.0, cut }
    }

    fn spread(&self) -> Law {
        let mut mass = vec![0.0; self.total.len() + 1];
        for (j, (total, upper)) in self.total.iter().zip(&self.upper).enumerate() {
            let upper = upper.min(*total);
            mass[j] += total - upper;
            mass[j + 1] += upper;
        }
        self.with(mass, 0.0)
    }

    /// Point by point, from above: a group takes cells, the last one in part, until its mean is the
    /// point. (From above, because large values plus much smaller ones lie just above a point:
    /// little is then needed to pull them down.)
    fn merged(&self) -> Law {
        let mut mass = vec![0.0; self.total.len() + 1];
        let growth = expm1(self.width);
        let (mut point, mut surplus) = (self.total.len(), 0.0);
        for (j, (total, upper)) in self.total.iter().zip(&self.upper).enumerate().rev() {
            let mut left = *total;
            let part = if left > 0.0 { (upper / left).min(1.0) } else { 0.0 };
            while left > 0.0 {
                // How far the cell's mean is above the point, relative to the point.
                let above = (j as f64 - point as f64) * self.width;
                let excess = expm1(above) + exp(above) * growth * part;
                if surplus + left * excess >= 0.0 || point == 0 {
                    mass[point] += left;
                    surplus += left * excess;
                    left = 0.0;
                } else {
                    let taken = (-surplus / excess).clamp(0.0, left);
                    mass[point] += taken;
                    left -= taken;
                    surplus = 0.0;
                    point -= 1;
                }
            }
        }
        // The lowest group may lack mass below: it moves down to its point.
        let cut = surplus.max(0.0) * exp((self.first + point as i64) as f64 * self.width);
        self.with(mass, cut)
    }
}

/// The expectations of `(L - e^epsilon)_+` and `(1 - e^epsilon L)_+`, where `L` is the mean of the
/// terms.
#[derive(Debug)]
pub(super) struct Sticks {
    pub(super) law: Law,
    pub(super) terms: f64,
    ln_terms: f64,
    /// For each point `y` (of the mean): the mass at it or above, and `E(L - y)_+`.
    above: Vec<(f64, f64)>,
    /// The mass at it or below, and `E(y - L)_+`.
    below: Vec<(f64, f64)>,
}

impl Sticks {
    pub(super) fn new(law: Law, terms: f64) -> Self {
        let ln_terms = ln(terms);
        let length = law.mass.len();
        let growth = expm1(law.width);
        let gap = |j: usize| growth * exp(law.ln_point(j) - ln_terms);
        let (mut above, mut below) = (vec![(0.0, 0.0); length], Vec::with_capacity(length));
        let (mut mass, mut sum) = (0.0, 0.0);
        for j in (0..length).rev() {
            sum += mass * gap(j);
            mass += law.mass[j];
            above[j] = (mass, sum);
        }
        (mass, sum) = (0.0, 0.0);
        for j in 0..length {
            if j > 0 {
                sum += mass * gap(j - 1);
            }
            mass += law.mass[j];
            below.push((mass, sum));
        }
        Self { law, terms, ln_terms, above, below }
    }

    /// The position of `ln y` on the grid.
    fn position(&self, ln_y: f64) -> f64 {
        (ln_y + self.ln_terms) / self.law.width - self.law.first as f64
    }

    /// `E(L - e^epsilon)_+`.
    pub(super) fn forward(&self, epsilon: f64) -> f64 {
        let j = self.position(epsilon).ceil().max(0.0);
        let Some((mass, sum)) = self.above.get(j as usize) else { return 0.0 };
        let gap = self.law.ln_point(j as usize) - self.ln_terms - epsilon;
        sum + mass * exp(epsilon) * expm1(gap).max(0.0)
    }

    /// `E(1 - e^epsilon L)_+`.
    pub(super) fn backward(&self, epsilon: f64) -> f64 {
        let j = self.position(-epsilon).floor();
        if j.is_nan() || j < 0.0 {
            return 0.0;
        }
        let j = (j as usize).min(self.below.len() - 1);
        let (mass, sum) = self.below[j];
        let gap = self.law.ln_point(j) - self.ln_terms + epsilon;
        sum * exp(epsilon) + mass * (-expm1(gap)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { low: 0.0, cut: 0.0, points: 400 };

    fn law() -> Law {
        let mass: Vec<f64> =
            (0..150).map(|j| exp(-0.002 * f64::from((j - 60) * (j - 60)))).collect();
        let total: f64 = mass.iter().sum();
        let mass = mass.into_iter().map(|m| m / total).collect();
        Law { width: 0.04, first: -70, mass, low: 0.0, lift: 0.0, cut: 0.0 }
    }

    fn mean(law: &Law, f: impl Fn(f64) -> f64) -> f64 {
        law.mass.iter().enumerate().map(|(j, m)| m * f(exp(law.ln_point(j)))).sum()
    }

    #[test]
    fn sums_keep_their_mean_and_move_in_convex_order() {
        let one = law();
        let first = mean(&one, |x| x);
        for end in [End::Upper, End::Lower] {
            let two = one.doubled(end, BUDGET);
            let three = two.plus(&one, end, BUDGET);
            let narrow = Budget { points: 120, ..BUDGET };
            let four = two.doubled(end, narrow);
            assert!(two.width < one.width && four.mass.len() <= 120);
            for (law, n) in [(&two, 2.0), (&three, 3.0), (&four, 4.0)] {
                assert!((mean(law, |_| 1.0) - 1.0).abs() < 1e-13, "{end:?} {n}");
                let lost = n * first - mean(law, |x| x);
                assert!((lost - law.cut).abs() < 1e-12, "{end:?} {n}: {lost} {}", law.cut);
            }
            // For the square, the true value is known.
            let square = mean(&one, |x| x * x);
            let truth = 3.0 * square + 6.0 * first * first;
            let found = mean(&three, |x| x * x);
            let off = found / truth - 1.0;
            let right = if end == End::Upper { off > 0.0 } else { off < 0.0 };
            assert!(right && off.abs() < 1e-2, "{end:?} {off}");
        }
    }

    #[test]
    fn trimming_is_paid_for() {
        let one = law();
        let budget = Budget { low: 1e-3, cut: 1e-3, points: 400 };
        let cut = one.clone().trimmed(budget);
        assert!(cut.mass.len() < one.mass.len());
        assert!(cut.low > 0.0 && cut.low <= 1e-3 && cut.cut > 0.0 && cut.cut <= 1e-3);
        let moved = mean(&cut, |x| x) - mean(&one, |x| x);
        assert!(moved <= cut.lift && moved >= -cut.cut - 1e-15);
        let excess = |law: &Law| mean(law, |x| (x - 1.3).max(0.0));
        assert!(excess(&one) <= excess(&cut) + cut.cut + 1e-15);
    }

    #[test]
    fn sticks_are_sums() {
        let sticks = Sticks::new(law(), 3.0);
        for epsilon in [-2.0, 0.0, 0.01, 0.4, 1.7, 9.0] {
            let a = exp(epsilon);
            let forward = mean(&sticks.law, |x| (x / 3.0 - a).max(0.0));
            let backward = mean(&sticks.law, |x| (1.0 - a * x / 3.0).max(0.0));
            assert!((sticks.forward(epsilon) - forward).abs() < 1e-13 * (1.0 + forward));
            assert!((sticks.backward(epsilon) - backward).abs() < 1e-13 * (1.0 + backward));
        }
    }
}
