//! Laws of positive sums on a geometric grid, and their convolution.
//!
//! A law has its mass on the points `e^(origin + k width)`, and perhaps some at 0. The sum of two
//! points lies in a cell whose position relative to the first depends only on their ratio, so a
//! convolution is a table and a loop. All terms are positive: every mass keeps its *relative*
//! precision, in both tails, however small it is.
//!
//! Sums in a cell go back to the grid with their mean kept: to the cell's two ends (a
//! mean-preserving *spread*: every convex expectation grows) or in groups with their neighbours (a
//! *merge*: each group becomes its mean, every convex expectation shrinks). Sums of many terms are
//! narrow, so the grid becomes finer along the way.

use crate::math::{exp, expm1, log1p};

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

/// As much mass at 0, times what may be cut off at the bottom, is worth its own points.
const MUCH: f64 = 100.0;

/// A law on the points `e^(origin + k width)` and 0.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub(super) width: f64,
    pub(super) origin: f64,
    /// `mass[j]` is at `e^(origin + (first + j) width)`.
    pub(super) first: i64,
    pub(super) mass: Vec<f64>,
    /// The mass at 0.
    pub(super) zero: f64,
    /// By how much moving large values down lowered the mean, or leaving out infinite ones. Only an
    /// upper end does that.
    pub(super) cut: f64,
}

/// Masses in the cells between the points.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) width: f64,
    pub(super) origin: f64,
    /// Cell `j` lies between the points `first + j` and `first + j + 1`.
    pub(super) first: i64,
    pub(super) total: Vec<f64>,
    /// The part of a cell's mass that would be at its upper end if the mean is kept and the rest is
    /// at the lower end.
    pub(super) upper: Vec<f64>,
    /// The mass at 0.
    pub(super) zero: f64,
}

/// A position on the grid: the point below, and the fraction of the way to the next.
fn place(at: f64, width: f64, growth: f64) -> (i64, f64) {
    let whole = at.floor();
    (whole as i64, (expm1((at - whole) * width) / growth).clamp(0.0, 1.0))
}

/// `ln(1 + e^x)`.
fn ln_one_more(x: f64) -> f64 {
    x.max(0.0) + log1p(exp(-x.abs()))
}

impl Law {
    /// `ln` of point `j`.
    pub(super) fn ln_point(&self, j: usize) -> f64 {
        self.origin + (self.first + j as i64) as f64 * self.width
    }

    /// The law of `e^shift` times the value.
    pub(super) fn scaled(&self, shift: f64) -> Self {
        Self { origin: self.origin + shift, cut: self.cut * exp(shift), ..self.clone() }
    }

    /// The law of `X + e^shift X'` for independent values of this law, on a grid of half the width
    /// if that fits.
    pub(super) fn doubled(&self, shift: f64, end: End, budget: Budget) -> Self {
        if shift == 0.0 {
            return Cells::sums(self, self, 2, budget).law(end, [self, self], budget);
        }
        let other = self.scaled(shift);
        Cells::sums(self, &other, 2, budget).law(end, [self, &other], budget)
    }

    /// The law of the sum of two independent values. The widths differ by a power of two.
    pub(super) fn plus(&self, other: &Self, end: End, budget: Budget) -> Self {
        let (fine, coarse) = if self.width <= other.width { (self, other) } else { (other, self) };
        Cells::sums(fine, coarse, 1, budget).law(end, [fine, coarse], budget)
    }

    /// Without the ends that hold almost no mass.
    fn trimmed(mut self, end: End, budget: Budget) -> Self {
        let growth = expm1(self.width);
        // From the top: how much is above point `last`, and E(S - point)_+.
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
        let (mut below, mut bottom) = (0.0, 0);
        while bottom < last && below + self.mass[bottom] <= budget.low {
            below += self.mass[bottom];
            bottom += 1;
        }
        let point = self.ln_point(bottom);
        // E(point - S)_+ over the point.
        let lack: f64 = (0..bottom).map(|j| -self.mass[j] * expm1(self.ln_point(j) - point)).sum();
        self.mass.truncate(last + 1);
        self.mass.drain(..bottom);
        self.first += bottom as i64;
        self.fold_ends((below, lack), (above, excess), end);
        self
    }

    /// Moves mass from beyond the ends to them. `below` has a mass and `E(bottom - S)_+` over the
    /// bottom, `above` a mass and `E(S - top)_+`.
    ///
    /// Upper end: what is below goes to 0 and to the bottom with its mean kept, what is above moves
    /// down, at a cost. Lower end: a merge with neighbours.
    pub(super) fn fold_ends(&mut self, below: (f64, f64), above: (f64, f64), end: End) {
        let last = self.mass.len() - 1;
        if end == End::Upper {
            let zero = below.1.min(below.0);
            self.zero += zero;
            self.mass[0] += below.0 - zero;
            self.mass[last] += above.0;
            self.cut += above.1;
            return;
        }
        let top = exp(self.ln_point(last));
        self.absorb(0, below.0, below.1, 1..=last);
        self.absorb(last, above.0, above.1 / top, (0..last).rev());
    }

    /// Adds a mass to the point `to`, and as much of the mass of the other points, one after the
    /// other, as moves the mean of all that to the point; `off` is how far it is away, relative to
    /// the point. If there is not enough, the mass is left out, which lowers both divergences.
    fn absorb(&mut self, to: usize, mass: f64, off: f64, others: impl Iterator<Item = usize>) {
        if !(mass > 0.0) {
            return;
        }
        let (mut sum, mut left) = (mass, off);
        let mut taken = Vec::new();
        for j in others {
            let away = expm1((j as f64 - to as f64) * self.width).abs();
            let part = self.mass[j].min(left / away);
            taken.push((j, part));
            sum += part;
            left -= part * away;
            if part < self.mass[j] || left <= 0.0 {
                for (j, part) in taken {
                    self.mass[j] -= part;
                }
                self.mass[to] += sum;
                return;
            }
        }
    }
}

/// Masses by residue modulo `step`: those with the same residue are neighbours.
struct Phases {
    step: usize,
    lanes: Vec<Vec<f64>>,
}

impl Phases {
    fn zeros(step: usize, length: usize) -> Self {
        Self { step, lanes: vec![vec![0.0; length / step + 1]; step] }
    }

    fn of(values: &[f64], step: usize) -> Self {
        let lane = |r: usize| values.iter().skip(r).step_by(step).copied().collect();
        Self { step, lanes: (0..step).map(lane).collect() }
    }

    /// From `start` on, every `step`-th value.
    fn lane(&self, start: usize) -> &[f64] {
        self.lanes[start % self.step].get(start / self.step..).unwrap_or_default()
    }

    fn lane_mut(&mut self, start: usize) -> &mut [f64] {
        self.lanes[start % self.step].get_mut(start / self.step..).unwrap_or_default()
    }

    fn joined(&self, length: usize) -> Vec<f64> {
        let mut values = vec![0.0; length];
        for (r, lane) in self.lanes.iter().enumerate() {
            for (value, mass) in values.iter_mut().skip(r).step_by(self.step).zip(lane) {
                *value = *mass;
            }
        }
        values
    }
}

impl Cells {
    /// The sums of two independent values, in cells of the finer width divided by `parts`.
    fn sums(fine: &Law, coarse: &Law, parts: usize, budget: Budget) -> Self {
        // If the two laws are the same, half of the products are enough.
        let twins = std::ptr::eq(fine, coarse);
        let stride = (coarse.width / fine.width).round().max(1.0) as i64;
        let mut cells = Self::for_sums(fine, coarse, fine.width / parts as f64, budget);
        let growth = expm1(cells.width);
        let step = stride as usize * parts;
        let rows_by_stride = Phases::of(&fine.mass, stride as usize);
        let length = cells.total.len();
        let (mut totals, mut uppers) = (Phases::zeros(step, length), Phases::zeros(step, length));
        let (rows, columns) = (fine.mass.len() as i64, coarse.mass.len() as i64);
        // Pairs with the same distance d = (index in fine) - stride (index in coarse), together:
        // the sum's position relative to the fine point depends on d alone.
        let lowest = fine.first - stride * (coarse.first + columns - 1);
        let highest = fine.first + rows - 1 - stride * coarse.first;
        for d in if twins { 0 } else { lowest }..=highest {
            let from = (-(d - fine.first).div_euclid(stride) - coarse.first).max(0);
            let to = (fine.first + rows - 1 - d).div_euclid(stride) - coarse.first;
            let to = to.min(columns - 1);
            if from > to {
                continue;
            }
            let ln_ratio = coarse.origin - fine.origin - d as f64 * fine.width;
            let (whole, part) = place(ln_one_more(ln_ratio) / cells.width, cells.width, growth);
            let twice = if twins && d > 0 { 2.0 } else { 1.0 };
            let row = stride * (coarse.first + from) + d;
            let start = (row * parts as i64 + whole - cells.first).max(0) as usize;
            let a = rows_by_stride.lane((row - fine.first) as usize);
            let pairs = a.iter().zip(&coarse.mass[from as usize..=to as usize]);
            let places = totals.lane_mut(start).iter_mut().zip(uppers.lane_mut(start));
            for ((a, b), (total, upper)) in pairs.zip(places) {
                let p = twice * a * b;
                *total += p;
                *upper += p * part;
            }
        }
        cells.total = totals.joined(length);
        cells.upper = uppers.joined(length);
        cells.zero = fine.zero * coarse.zero;
        cells.add_points(fine, coarse.zero);
        cells.add_points(coarse, fine.zero);
        cells
    }

    /// Adds the points of a law, times `factor`: the other term is 0. What is below the cells goes
    /// to their bottom and to 0, with its mean kept. (A lower end has no mass at 0.)
    fn add_points(&mut self, law: &Law, factor: f64) {
        if factor == 0.0 {
            return;
        }
        // Its points are a whole number of cells apart, so all have the same place in theirs.
        let step = (law.width / self.width).round() as i64;
        let at = (law.ln_point(0) - self.origin) / self.width;
        let (whole, part) = place(at, self.width, expm1(self.width));
        for (j, mass) in law.mass.iter().enumerate() {
            let cell = whole + step * j as i64 - self.first;
            if cell < 0 {
                let bottom = self.origin + self.first as f64 * self.width;
                let kept = exp(law.ln_point(j) - bottom).min(1.0);
                self.zero += mass * factor * (1.0 - kept);
                self.total[0] += mass * factor * kept;
                continue;
            }
            let cell = (cell as usize).min(self.total.len() - 1);
            self.total[cell] += mass * factor;
            self.upper[cell] += mass * factor * part;
        }
    }

    /// Room for the sums of two laws, on the grid of the first; and for a point plus 0, if there is
    /// much mass at 0.
    fn for_sums(a: &Law, b: &Law, width: f64, budget: Budget) -> Self {
        let at = |ln_value: f64| (ln_value - a.origin) / width;
        let sum = |x: f64, y: f64| x + ln_one_more(y - x);
        let (low_a, low_b) = (a.ln_point(0), b.ln_point(0));
        let mut low = sum(low_a, low_b);
        let alone = low_a.min(low_b);
        if a.zero.max(b.zero) > MUCH * budget.low && at(low) - at(alone) < budget.points as f64 {
            low = alone;
        }
        let bottom = at(low).floor() as i64 - 2;
        let top = at(sum(a.ln_point(a.mass.len() - 1), b.ln_point(b.mass.len() - 1)));
        let length = (top.ceil() as i64 + 4 - bottom).max(1) as usize;
        let (total, upper) = (vec![0.0; length], vec![0.0; length]);
        Self { width, origin: a.origin, first: bottom, total, upper, zero: 0.0 }
    }

    /// Back on the grid, coarser if there are too many points; `of` are the laws that were added.
    fn law(self, end: End, of: [&Law; 2], budget: Budget) -> Law {
        let mut cells = self;
        let mut law = cells.rounded(end).trimmed(end, budget);
        while law.mass.len() > budget.points {
            cells = cells.coarser();
            law = cells.rounded(end).trimmed(end, budget);
        }
        for part in of {
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
        let width = 2.0 * self.width;
        Self { width, origin: self.origin, first, total, upper, zero: self.zero }
    }

    /// Rounds to the grid.
    pub(super) fn rounded(&self, end: End) -> Law {
        match end {
            End::Upper => self.spread(),
            End::Lower => self.merged(),
        }
    }

    fn with(&self, mass: Vec<f64>) -> Law {
        let Self { width, origin, first, zero, .. } = *self;
        Law { width, origin, first, mass, zero, cut: 0.0 }
    }

    fn spread(&self) -> Law {
        let mut mass = vec![0.0; self.total.len() + 1];
        for (j, (total, upper)) in self.total.iter().zip(&self.upper).enumerate() {
            let upper = upper.min(*total);
            mass[j] += total - upper;
            mass[j + 1] += upper;
        }
        self.with(mass)
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
        let mut law = self.with(mass);
        if surplus > 0.0 {
            // The lowest group lacks mass below: it becomes part of the one above, which is filled
            // up from further above.
            let group = std::mem::take(&mut law.mass[point]);
            let to = (point + 1).min(self.total.len());
            let lack = group - (group + surplus) * exp(-self.width);
            law.mass.drain(..to);
            law.first += to as i64;
            law.fold_ends((group, lack), (0.0, 0.0), End::Lower);
        }
        law
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const BUDGET: Budget = Budget { low: 0.0, cut: 0.0, points: 400 };

    pub(in crate::allocation) fn law() -> Law {
        let mass: Vec<f64> =
            (0..150).map(|j| exp(-0.002 * f64::from((j - 60) * (j - 60)))).collect();
        let total: f64 = mass.iter().sum();
        let mass = mass.into_iter().map(|m| 0.99 * m / total).collect();
        Law { width: 0.04, origin: 0.013, first: -70, mass, zero: 0.01, cut: 0.0 }
    }

    pub(in crate::allocation) fn mean(law: &Law, f: impl Fn(f64) -> f64) -> f64 {
        let points = law.mass.iter().enumerate().map(|(j, m)| m * f(exp(law.ln_point(j))));
        points.sum::<f64>() + law.zero * f(0.0)
    }

    #[test]
    fn sums_keep_their_mean_and_move_in_convex_order() {
        let one = law();
        let (first, square) = (mean(&one, |x| x), mean(&one, |x| x * x));
        for (end, shift) in
            [(End::Upper, 0.0), (End::Lower, 0.0), (End::Upper, -0.3), (End::Lower, -0.3)]
        {
            let r = exp(shift);
            let two = one.doubled(shift, end, BUDGET);
            let three = one.plus(&two.scaled(shift), end, BUDGET);
            let narrow = Budget { points: 120, ..BUDGET };
            let four = two.doubled(2.0 * shift, end, narrow);
            assert!(two.width < one.width && four.mass.len() <= 120);
            let weights = [1.0, r, r * r, r * r * r];
            for (law, n) in [(&two, 2), (&three, 3), (&four, 4)] {
                let sum: f64 = weights[..n].iter().sum();
                assert!((mean(law, |_| 1.0) - 1.0).abs() < 1e-13, "{end:?} {n}");
                let lost = sum * first - mean(law, |x| x);
                assert!((lost - law.cut).abs() < 1e-12, "{end:?} {n}: {lost} {}", law.cut);
                // For the square, the true value is known.
                let squares: f64 = weights[..n].iter().map(|w| w * w).sum();
                let truth = squares * (square - first * first) + sum * sum * first * first;
                let off = mean(law, |x| x * x) / truth - 1.0;
                let right = if end == End::Upper { off > 0.0 } else { off < 0.0 };
                assert!(right && off.abs() < 2e-2, "{end:?} {shift} {n} {off}");
            }
        }
    }

    #[test]
    fn trimming_keeps_the_order() {
        let one = law();
        let budget = Budget { low: 1e-3, cut: 1e-3, points: 400 };
        let up = one.clone().trimmed(End::Upper, budget);
        let down = one.clone().trimmed(End::Lower, budget);
        assert!(up.mass.len() < one.mass.len() && down.mass.len() < one.mass.len());
        assert!(up.cut > 0.0 && up.cut <= 1e-3 && down.cut == 0.0);
        assert!((mean(&up, |x| x) + up.cut - mean(&one, |x| x)).abs() < 1e-14);
        assert!((mean(&down, |x| x) - mean(&one, |x| x)).abs() < 1e-14);
        for at in [0.02, 0.05, 0.3, 1.0, 1.3, 8.0, 15.0, 20.0] {
            let excess = |law: &Law| mean(law, |x| (x - at).max(0.0));
            let lack = |law: &Law| mean(law, |x| (at - x).max(0.0));
            assert!(excess(&down) <= excess(&one) + 1e-15, "{at}");
            assert!(lack(&down) <= lack(&one) + 1e-15, "{at}");
            assert!(excess(&one) <= excess(&up) + up.cut + 1e-15, "{at}");
            assert!(lack(&one) <= lack(&up) + 1e-15, "{at}");
        }
    }
}
