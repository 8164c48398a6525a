//! Expectations of a law beyond a point.

use super::law::Law;
use crate::math::{exp, expm1};

/// The expectations of `(S - x)_+` and `(x - S)_+`.
#[derive(Debug)]
pub(super) struct Sticks {
    pub(super) law: Law,
    /// For each point `y`: the mass at it or above, and `E(S - y)_+`.
    above: Vec<(f64, f64)>,
    /// The mass at it or below (0 included), and `E(y - S)_+`.
    below: Vec<(f64, f64)>,
}

impl Sticks {
    pub(super) fn new(law: Law) -> Self {
        let length = law.mass.len();
        let growth = expm1(law.width);
        let gap = |j: usize| growth * exp(law.ln_point(j));
        let (mut above, mut below) = (vec![(0.0, 0.0); length], Vec::with_capacity(length));
        let (mut mass, mut sum) = (0.0, 0.0);
        for j in (0..length).rev() {
            sum += mass * gap(j);
            mass += law.mass[j];
            above[j] = (mass, sum);
        }
        (mass, sum) = (law.zero, law.zero * exp(law.ln_point(0)));
        for j in 0..length {
            if j > 0 {
                sum += mass * gap(j - 1);
            }
            mass += law.mass[j];
            below.push((mass, sum));
        }
        Self { law, above, below }
    }

    /// The position of `x` on the grid.
    fn position(&self, ln_x: f64) -> f64 {
        (ln_x - self.law.origin) / self.law.width - self.law.first as f64
    }

    /// `E(S - x)_+`.
    pub(super) fn forward(&self, ln_x: f64) -> f64 {
        let j = self.position(ln_x).ceil().max(0.0);
        let Some((mass, sum)) = self.above.get(j as usize) else { return 0.0 };
        let gap = self.law.ln_point(j as usize) - ln_x;
        sum + mass * exp(ln_x) * expm1(gap).max(0.0)
    }

    /// `E(x - S)_+`.
    pub(super) fn backward(&self, ln_x: f64) -> f64 {
        let j = self.position(ln_x).floor();
        if j.is_nan() || j < 0.0 {
            return self.law.zero * exp(ln_x);
        }
        let j = (j as usize).min(self.below.len() - 1);
        let (mass, sum) = self.below[j];
        let gap = self.law.ln_point(j) - ln_x;
        sum + mass * exp(ln_x) * (-expm1(gap)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::tests::{law, mean};
    use super::*;

    #[test]
    fn sticks_are_sums() {
        let sticks = Sticks::new(law());
        for ln_x in [-4.0, -2.0, 0.0, 0.01, 0.4, 1.7, 9.0] {
            let a = exp(ln_x);
            let forward = mean(&sticks.law, |x| (x - a).max(0.0));
            let backward = mean(&sticks.law, |x| (a - x).max(0.0));
            assert!((sticks.forward(ln_x) - forward).abs() < 1e-13 * (1.0 + forward));
            assert!((sticks.backward(ln_x) - backward).abs() < 1e-13 * (1.0 + backward));
        }
    }
}
