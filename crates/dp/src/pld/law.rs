//! Laws of the privacy loss on a lattice, exponentially tilted.
//!
//! **Tilting.** Only losses near and above the wanted epsilon matter for delta, and there the law
//! may have mass 1e-12 or less, far below what a Fourier transform resolves next to the bulk. So
//! every mass is kept multiplied by `e^(tilt * loss)` and renormalized: convolution commutes with
//! that, the tilted bulk lies near epsilon, and delta comes out with *relative* precision however
//! small it is.
//!
//! **Certified error.** A law carries a bound on the distance (sum of absolute differences, in
//! tilted masses) between it and the law that exact arithmetic on an unbounded line would give:
//! transform rounding, mass that wraps around the finite window (Chernoff), mass that was cut off.

use super::lattice::Lattice;
use crate::math::{exp, ln};

/// A tilted law on the multiples of `step`.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    pub(crate) step: f64,
    /// `mass[j]` belongs to the loss `(first + j) * step`.
    pub(crate) first: i64,
    pub(crate) mass: Vec<f64>,
    /// Mass at the loss 0, kept separately: it is nearly all of the mass if the rest are rare
    /// jumps, whose transform then has an error relative to them alone.
    pub(crate) still: f64,
    /// The true mass at the loss `l` is `mass * exp(ln_scale - tilt * l)`.
    pub(crate) ln_scale: f64,
    /// The certified error (see the module documentation), relative to a law of total mass 1.
    pub(crate) error: f64,
}

/// `exp(start + j * slope)` for `j` below `length`, by products that restart every 32 terms.
fn geometric(length: usize, start: f64, slope: f64) -> Vec<f64> {
    // With a steep slope the products would lose what underflows at the start of a run.
    let run = if slope.abs() > 4.0 { 1 } else { 32 };
    let ratio = exp(slope);
    let mut terms = Vec::with_capacity(length);
    let mut term = 0.0;
    for j in 0..length {
        term = if j % run == 0 { exp(start + slope * j as f64) } else { term * ratio };
        terms.push(term);
    }
    terms
}

impl Law {
    /// The tilted form of `lattice`. `None` if no mass is left.
    pub(crate) fn new(lattice: &Lattice, tilt: f64) -> Option<Self> {
        // The tilted mode: factors relative to it cannot overflow where there is mass.
        let weight = |(j, p): (usize, &f64)| {
            if *p > 0.0 { ln(*p) + tilt * lattice.loss(j) } else { f64::NEG_INFINITY }
        };
        let stride = (lattice.mass.len() / 256).max(1);
        let mode = lattice
            .mass
            .iter()
            .enumerate()
            .step_by(stride)
            .max_by(|a, b| weight(*a).total_cmp(&weight(*b)))
            .map(|(j, _)| lattice.loss(j))?;
        let factors =
            geometric(lattice.mass.len(), tilt * (lattice.loss(0) - mode), tilt * lattice.step);
        let mass: Vec<f64> = lattice
            .mass
            .iter()
            .zip(&factors)
            .map(|(p, f)| if *p > 0.0 { p * f } else { 0.0 })
            .collect();
        let still = if lattice.still > 0.0 { lattice.still * exp(-tilt * mode) } else { 0.0 };
        let (step, first) = (lattice.step, lattice.first);
        Self { step, first, mass, still, ln_scale: tilt * mode, error: 0.0 }.normalized()
    }

    fn normalized(mut self) -> Option<Self> {
        let total = self.still + self.mass.iter().sum::<f64>();
        if !(total > 0.0 && total.is_finite()) {
            return None;
        }
        for m in &mut self.mass {
            *m /= total;
        }
        self.still /= total;
        self.ln_scale += ln(total);
        self.error /= total;
        Some(self)
    }

    pub(crate) fn loss(&self, j: usize) -> f64 {
        (self.first + j as i64) as f64 * self.step
    }

    /// The smallest and the largest loss.
    pub(super) fn ends(&self) -> (f64, f64) {
        let (low, high) = (self.loss(0), self.loss(self.mass.len() - 1));
        if self.still > 0.0 { (low.min(0.0), high.max(0.0)) } else { (low, high) }
    }

    /// Mean and variance of the tilted law.
    pub(crate) fn moments(&self) -> (f64, f64) {
        let origin = -self.first as f64;
        let (mut m1, mut m2) = (self.still * origin, self.still * origin * origin);
        for (j, m) in self.mass.iter().enumerate() {
            let x = j as f64;
            m1 += m * x;
            m2 += m * x * x;
        }
        ((self.first as f64 + m1) * self.step, ((m2 - m1 * m1).max(0.0)) * self.step * self.step)
    }

    /// `ln E exp(s (loss - centre))` of the tilted law.
    pub(super) fn cumulant(&self, s: f64, centre: f64) -> f64 {
        // Anchored at the end that grows, so that nothing overflows.
        let (low, high) = self.ends();
        let anchor = if s > 0.0 { high } else { low };
        let factors = geometric(self.mass.len(), s * (self.loss(0) - anchor), s * self.step);
        let sum = self.mass.iter().zip(&factors).map(|(m, f)| m * f).sum::<f64>()
            + if self.still > 0.0 { self.still * exp(-s * anchor) } else { 0.0 };
        // Where everything underflows, use an upper bound.
        ln(if sum > 1e-300 { sum } else { 1e-300 }) + s * (anchor - centre)
    }

    /// The law on the multiples of `factor * step` that is *at least* as bad: each loss is split
    /// between its two neighbours on the coarse lattice so that the likelihood ratio keeps its mean
    /// under Q (a mean-preserving spread of the ratio: connect-the-dots).
    pub(crate) fn spread(&self, factor: usize, tilt: f64) -> Option<Self> {
        if factor == 1 {
            return Some(self.clone());
        }
        let coarse = self.step * factor as f64;
        let weights: Vec<(f64, f64)> = (0..factor)
            .map(|r| {
                let above = self.step * r as f64;
                let up = libm::expm1(-above) / libm::expm1(-coarse);
                ((1.0 - up) * exp(-tilt * above), up * exp(tilt * (coarse - above)))
            })
            .collect();
        let first = self.first.div_euclid(factor as i64);
        let mut residue = self.first.rem_euclid(factor as i64) as usize;
        let mut mass = vec![0.0; self.mass.len() / factor + 3];
        let mut cell = 0;
        for m in &self.mass {
            let (down, up) = weights[residue];
            mass[cell] += m * down;
            mass[cell + 1] += m * up;
            residue += 1;
            if residue == factor {
                residue = 0;
                cell += 1;
            }
        }
        // A tilted mass grows by at most this factor when it moves, and so does the error.
        let growth = weights.iter().map(|(d, u)| d + u).fold(1.0, f64::max);
        let (still, ln_scale, error) = (self.still, self.ln_scale, self.error * growth);
        Self { step: coarse, first, mass, still, ln_scale, error }.normalized()
    }

    /// The law on the multiples of `factor * step` that is *at most* as bad: neighbouring losses
    /// are merged into groups whose mean likelihood ratio lies on the coarse lattice (merging
    /// outcomes is post-processing).
    pub(crate) fn merge(&self, factor: usize, tilt: f64) -> Option<Self> {
        if factor == 1 {
            return Some(self.clone());
        }
        let coarse = self.step * factor as f64;
        let first = self.first.div_euclid(factor as i64);
        let mut mass = vec![0.0; self.mass.len() / factor + 3];
        // Of the mass at `next`, the part that no group has taken yet.
        let (mut next, mut left) = (0, 1.0);
        for cell in 0..mass.len() {
            let centre = (first + cell as i64) as f64 * coarse;
            let mut sum = 0.0;
            // The group's surplus of Q-mass (relative to the centre's ratio).
            let mut surplus = 0.0;
            while next < self.mass.len() {
                let offset = self.loss(next) - centre;
                let p = self.mass[next] * left * exp(-tilt * offset);
                let excess = p * libm::expm1(-offset);
                if offset <= 0.0 || surplus + excess > 0.0 {
                    // Below the centre, or not enough to balance what is below: take all of it.
                    sum += p;
                    surplus += excess;
                    (next, left) = (next + 1, 1.0);
                } else {
                    let part = if excess < 0.0 { (surplus / -excess).clamp(0.0, 1.0) } else { 0.0 };
                    sum += p * part;
                    left *= 1.0 - part;
                    surplus = 0.0;
                    break;
                }
            }
            if surplus <= 0.0 {
                mass[cell] += sum;
            } else if cell > 0 {
                // The last group never reached its ratio. All of it lies above the previous centre.
                mass[cell - 1] += sum * exp(-tilt * coarse);
            }
        }
        let growth = exp(tilt * coarse);
        let (still, ln_scale, error) = (self.still, self.ln_scale, self.error * growth);
        Self { step: coarse, first, mass, still, ln_scale, error }.normalized()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A law of mass 1 on a lattice of tenths, in proportion to `mass` and `still`.
    pub(in crate::pld) fn law(first: i64, mass: &[f64], still: f64) -> Law {
        let total: f64 = still + mass.iter().sum::<f64>();
        let mass = mass.iter().map(|m| m / total).collect();
        Law { step: 0.1, first, mass, still: still / total, ln_scale: 0.0, error: 0.0 }
    }

    /// Delta at `epsilon` of a law that was tilted by `tilt`.
    fn delta(law: &Law, tilt: f64, epsilon: f64) -> f64 {
        let term = |(j, m): (usize, &f64)| {
            let l = law.loss(j);
            m * exp(law.ln_scale - tilt * l) * -libm::expm1(epsilon - l).min(0.0)
        };
        law.mass.iter().enumerate().map(term).sum()
    }

    #[test]
    fn spreading_raises_every_delta_and_merging_lowers_it() {
        let mass: Vec<f64> = (0..81).map(|j| exp(-0.01 * f64::from((j - 40) * (j - 40)))).collect();
        for tilt in [0.01, 3.0] {
            // Masses of a tilted law; what matters is how they move.
            let fine = law(-37, &mass, 0.0);
            for factor in [2, 4, 8] {
                let (up, down) = (fine.spread(factor, tilt), fine.merge(factor, tilt));
                let (up, down) = (up.expect("mass"), down.expect("mass"));
                for j in 0..60 {
                    let epsilon = -3.0 + 0.11 * f64::from(j);
                    let truth = delta(&fine, tilt, epsilon);
                    assert!(
                        delta(&up, tilt, epsilon) >= truth * (1.0 - 1e-12),
                        "{factor} {epsilon}"
                    );
                    assert!(
                        delta(&down, tilt, epsilon) <= truth * (1.0 + 1e-12),
                        "{factor} {epsilon}"
                    );
                }
            }
        }
    }
}
