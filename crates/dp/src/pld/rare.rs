//! Rare large losses, beside a composed law of all others.
//!
//! The sum of the rare losses of all releases is 0 with nearly all of its probability. What is left
//! is computed by itself, so that its error is relative to that small rest:
//! `(s + v)^t - s^t = s^t (e^(t ln(1 + v/s)) - 1)` at each frequency, `v` being the spectrum of the
//! rare losses and `s` the probability of none. With it,
//!
//! ```text
//! delta(epsilon) = s^t D(epsilon) + sum over j of m_j D(epsilon - l_j),
//! ```
//!
//! where `D` is the delta of everything else. No term is negative, and no tilt has to suit both.

use super::convolve::window;
use super::fft::{Complex, Fft};
use super::law::Law;
use super::plan::RareLosses;
use super::tail::{Tail, solve_lower, solve_upper};
use crate::math::{exp, expm1, ln, log1p, sqrt};

/// The part of delta that is spent on sums of rare losses beyond the window.
const OUTSIDE: f64 = 1e-6;

/// The law of the sum of the rare losses.
pub(super) struct Rare {
    step: f64,
    first: i64,
    /// Probabilities, except that of no rare loss at all.
    mass: Vec<f64>,
    /// A bound on the sum of their errors.
    error: f64,
    /// The probability of no rare loss.
    none: f64,
}

impl Rare {
    /// Composes rare losses on lattices of one step. `None` if the window would be too long.
    pub(super) fn compose(parts: &[RareLosses], delta: f64) -> Option<Self> {
        let laws: Vec<(Law, u64)> = parts
            .iter()
            .map(|part| Some((Law::new(&part.lattice, 0.0)?, part.times)))
            .collect::<Option<_>>()?;
        let laws: Vec<(&Law, u64)> = laws.iter().map(|(law, times)| (law, *times)).collect();
        let step = laws.first()?.0.step;
        let (first, length) = window(&laws, ln(OUTSIDE * delta))?;
        let fft = Fft::new(length);
        let length = fft.length();
        let mut exponent = vec![Complex::default(); length / 2 + 1];
        let (mut ln_none, mut expected) = (0.0, 0.0);
        let mut ring = vec![0.0; length];
        for (law, times) in &laws {
            ring.fill(0.0);
            for (j, m) in (law.first..).zip(&law.mass) {
                ring[j.rem_euclid(length as i64) as usize] += m / law.still;
            }
            let times = *times as f64;
            ln_none += times * ln(law.still) + law.ln_scale * times;
            expected += times * ring.iter().sum::<f64>();
            for (sum, v) in exponent.iter_mut().zip(fft.forward(&ring)) {
                let (re, im) = v.ln_one_plus();
                *sum = Complex { re: sum.re + times * re, im: sum.im + times * im };
            }
        }
        let none = exp(ln_none);
        let spectrum: Vec<_> = exponent.iter().map(|e| e.exp_minus_one()).collect();
        let norm: f64 = spectrum.iter().map(|v| v.square_norm()).sum();
        // Each exponent is off by a few errors of the transform, relative to the expected number of
        // rare losses; its exponential grows by at most e^expected.
        let each = 4.0 * fft.relative_error() * expected * exp(expected);
        let error = none * (each * sqrt(length as f64) + fft.relative_error() * sqrt(2.0 * norm))
            + 4.0 * OUTSIDE * delta;
        let mut mass = fft.inverse(&spectrum);
        mass.rotate_left(first.rem_euclid(length as i64) as usize);
        for m in &mut mass {
            *m = none * m.max(0.0);
        }
        Some(Self { step, first, mass, error, none })
    }

    /// The smallest epsilon whose delta is at most `delta`; the `bodies` are the same law of all
    /// other losses at several tilts.
    pub(super) fn epsilon(&self, bodies: &[Tail], delta: f64) -> Option<f64> {
        if !(delta > 0.0) {
            return Some(f64::INFINITY);
        }
        let body = |x: f64| {
            let least = bodies.iter().map(|body| body.ln_delta(x)).fold(0.0, f64::min);
            exp(least)
        };
        // Far below the body, D is at most the chord from (0, 1): it is convex in e^x.
        let edge = bodies.iter().map(Tail::bottom).fold(0.0, f64::min);
        let slope = (1.0 - body(edge)) * exp(-edge);
        let loss = |j: usize| (self.first + j as i64) as f64 * self.step;
        let (all, shrunk) = suffix_sums(&self.mass, loss);
        let excess = |epsilon: f64| {
            let far = ((epsilon - edge) / self.step).ceil() as i64 - self.first;
            let far = far.clamp(0, self.mass.len() as i64) as usize;
            let near: f64 = (0..far)
                .filter(|j| self.mass[*j] > 0.0)
                .map(|j| self.mass[j] * body(epsilon - loss(j)))
                .sum();
            let beyond = (all[far] - slope * exp(epsilon) * shrunk[far]).max(0.0);
            let total = self.none * body(epsilon) + near + beyond + self.error;
            ln(total / delta)
        };
        let top = bodies[0].top() + self.step * (self.first + self.mass.len() as i64) as f64;
        solve_upper(excess, top.max(self.step))
    }
}

/// At most one rare loss, for the lower end.
///
/// The law of `t` steps is exactly the mixture, over the number of rare losses among them, of the
/// laws of that many rare losses and of the other steps' losses. The cases of two or more rare
/// losses are left out. Where there is one, `t - 1` other steps are left. Where there is none, one
/// of the `t` other steps is replaced by a single outcome of the same two masses, `p` under P and
/// `q` under Q, which lowers delta (post-processing): it multiplies delta by `p` and adds `ln q/p`
/// to epsilon. If there are several kinds of steps, the same is done to one step of each.
pub(super) struct Once {
    step: f64,
    first: i64,
    /// The expected numbers of rare losses.
    mass: Vec<f64>,
    /// The product of the masses of one step of each kind under P, and what they add to epsilon.
    one: (f64, f64),
    /// The logarithms of the masses of all other steps, under P and under Q.
    all: (f64, f64),
}

impl Once {
    /// From the rare losses, and the logarithms of the masses of all steps but one of each kind.
    pub(super) fn of(parts: &[RareLosses], all: (f64, f64)) -> Option<Self> {
        let lattices = || parts.iter().map(|part| &part.lattice);
        let step = lattices().next()?.step;
        let first = lattices().map(|lattice| lattice.first).min()?;
        let last = lattices().map(|lattice| lattice.first + lattice.mass.len() as i64).max()?;
        let mut mass = vec![0.0; (last - first) as usize];
        let mut one = (0.0, 0.0);
        for RareLosses { lattice, times, still_q, offset } in parts {
            let (p, q, times) = (ln(lattice.still), ln(*still_q), *times as f64);
            one = (one.0 + p, one.1 + (q - offset - p).max(0.0));
            for (j, m) in ((lattice.first - first) as usize..).zip(&lattice.mass) {
                mass[j] += times * m;
            }
        }
        // The masses of steps are trusted to 2e-14 each.
        Some(Self { step, first, mass, one: (exp(one.0) * (1.0 - 1e-12), one.1), all })
    }

    /// An epsilon whose delta is above `delta`, near the largest; the `bodies` are the law of all
    /// steps but one of each kind, at several tilts.
    pub(super) fn epsilon(&self, bodies: &[Tail], delta: f64) -> Option<f64> {
        // Delta is at least the difference of the masses.
        let (p, q) = (exp(self.all.0), exp(self.all.1));
        let body = |x: f64| {
            let most = bodies.iter().map(|body| body.ln_delta(x)).fold(f64::MIN, f64::max);
            exp(most).max(p - q * exp(x)).max(0.0)
        };
        let edge = bodies.iter().map(Tail::bottom).fold(0.0, f64::min);
        let loss = |j: usize| (self.first + j as i64) as f64 * self.step;
        let (all, shrunk) = suffix_sums(&self.mass, loss);
        let excess = |epsilon: f64| {
            let epsilon = epsilon + self.one.1;
            let far = ((epsilon - edge) / self.step).ceil() as i64 - self.first;
            let far = far.clamp(0, self.mass.len() as i64) as usize;
            let near: f64 = (0..far).map(|j| self.mass[j] * body(epsilon - loss(j))).sum();
            let beyond = (p * all[far] - q * exp(epsilon) * shrunk[far]).max(0.0);
            ln(self.one.0 * (body(epsilon) + near + beyond) / delta)
        };
        let top = bodies[0].top() + loss(self.mass.len());
        solve_lower(excess, 0.0, top)
    }
}

/// For each point, the sum of the masses from there on, and of the masses times `e^-loss`.
fn suffix_sums(mass: &[f64], loss: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
    let (mut all, mut shrunk) = (vec![0.0; mass.len() + 1], vec![0.0; mass.len() + 1]);
    for j in (0..mass.len()).rev() {
        all[j] = all[j + 1] + mass[j];
        shrunk[j] = shrunk[j + 1] + mass[j] * exp(-loss(j));
    }
    (all, shrunk)
}

impl Complex {
    /// `ln(1 + self)`, as its real and imaginary part.
    fn ln_one_plus(self) -> (f64, f64) {
        (0.5 * log1p(2.0 * self.re + self.square_norm()), libm::atan2(self.im, 1.0 + self.re))
    }

    /// `e^self - 1`, precise where that is small.
    fn exp_minus_one(self) -> Self {
        let half = libm::sin(0.5 * self.im);
        let grown = expm1(self.re);
        // e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y/2)
        let re = grown * libm::cos(self.im) - 2.0 * half * half;
        Self { re, im: (grown + 1.0) * libm::sin(self.im) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::lattice::Lattice;

    /// The law of the sum, by its definition, for two kinds of rare losses.
    #[test]
    fn the_sum_is_within_its_error() {
        let kinds = [(vec![2e-3, 0.0, 1e-3], 5u64), (vec![1e-4, 3e-4], 2)];
        let mut sum = std::collections::BTreeMap::from([(0usize, 1.0)]);
        let mut parts = Vec::new();
        for (mass, times) in kinds {
            let still = 1.0 - mass.iter().sum::<f64>();
            for _ in 0..times {
                let mut next = std::collections::BTreeMap::new();
                for (at, p) in &sum {
                    *next.entry(*at).or_insert(0.0) += p * still;
                    for (j, m) in mass.iter().enumerate() {
                        *next.entry(at + 3 + j).or_insert(0.0) += p * m;
                    }
                }
                sum = next;
            }
            let lattice = Lattice { step: 0.1, first: 3, mass, still, infinite: 0.0 };
            parts.push(RareLosses { lattice, times, still_q: still, offset: 0.0 });
        }
        let rare = Rare::compose(&parts, 1e-9).expect("short");
        assert!((rare.none - sum[&0]).abs() < 1e-15);
        sum.insert(0, 0.0);
        let mut distance = 0.0;
        for (j, m) in rare.mass.iter().enumerate() {
            let expected = sum.remove(&((rare.first + j as i64) as usize)).unwrap_or(0.0);
            distance += (m - expected).abs();
        }
        distance += sum.values().sum::<f64>();
        assert!(distance <= rare.error && rare.error < 1e-13, "{distance:e} {:e}", rare.error);
    }
}
