//! The convolution of tilted laws, by Fourier transform on a finite window, with a bound on the
//! total error.

use super::fft::{Complex, Fft};
use super::law::Law;
use crate::math::{exp, sqrt};

/// The (tilted) mass that a window may leave out on each side.
const LN_OUTSIDE: f64 = -30.0;

/// The same for the careful transform.
const LN_OUTSIDE_WITH_CARE: f64 = -34.0;

/// The mass of a law that the careful transform leaves to the usual one.
const WINGS: f64 = 1.0 / 128.0;

/// The longest transform: about 15 MB of work space.
const MAX_LENGTH: usize = 1 << 19;

impl Law {
    /// The law of the sum of `times` independent losses of each of the `parts`, which share a step.
    /// `None` if the window would be too long to compute.
    pub(crate) fn compose(parts: &[(&Self, u64)], care: Care) -> Option<Self> {
        let window = Window::around(parts, care.ln_outside())?;
        let fft = Fft::new(window.length);
        let length = fft.length();
        let mut product = vec![Complex::ONE; length / 2 + 1];
        let mut noise = Noise::new(&fft);
        let mut ring = vec![0.0; length];
        for (law, times) in parts {
            ring.fill(0.0);
            let mut position = law.first.rem_euclid(length as i64) as usize;
            for m in &law.mass {
                ring[position] += m;
                position = if position + 1 == length { 0 } else { position + 1 };
            }
            let spectrum = fft.forward(&ring);
            noise.factor(law, *times, &spectrum, care);
            if care == Care::Direct && law.still == 0.0 {
                law.multiply_directly(*times, &fft, (&spectrum, &mut ring), &mut product);
            } else if law.still > 0.5 {
                let rest = 1.0 - law.still;
                for (p, v) in product.iter_mut().zip(&spectrum) {
                    *p = p.times(Complex { re: v.re - rest, im: v.im }.power_of_one_plus(*times));
                }
            } else {
                let vanishing = vanishing(*times);
                for (p, v) in product.iter_mut().zip(&spectrum) {
                    let value = Complex { re: v.re + law.still, im: v.im };
                    *p = if value.square_norm() < vanishing {
                        Complex::default()
                    } else {
                        p.times(value.power(*times))
                    };
                }
            }
        }
        // Values that were treated as 0 are below e^-50, at every frequency.
        let vanished = length as f64 * exp(-50.0);
        let error = noise.total(&product)
            + vanished
            // Mass that wraps around is missing at one point and surplus at another, on either
            // side.
            + 4.0 * exp(care.ln_outside())
            + parts.iter().map(|(law, times)| grown(law.error, *times)).sum::<f64>();
        let mut mass = fft.inverse(&product);
        mass.rotate_left(window.first.rem_euclid(length as i64) as usize);
        for m in &mut mass {
            *m = m.max(0.0);
        }
        let step = parts.first()?.0.step;
        let ln_scale = parts.iter().map(|(law, times)| law.ln_scale * *times as f64).sum();
        Some(Self { step, first: window.first, mass, still: 0.0, ln_scale, error }.trimmed())
    }

    /// Multiplies `product` by the power of this law's spectrum. Each value that matters is computed
    /// again: the core of the law is summed around its centre, and what is outside is transformed,
    /// with an error relative to its own mass. For compositions with so many repetitions that the
    /// transform's own error would show.
    fn multiply_directly(
        &self,
        times: u64,
        fft: &Fft,
        (spectrum, ring): (&[Complex], &mut Vec<f64>),
        product: &mut [Complex],
    ) {
        let vanishing = vanishing(times);
        let core = self.core();
        let mut position = self.first.rem_euclid(ring.len() as i64) as usize;
        for j in 0..self.mass.len() {
            if core.contains(&j) {
                ring[position] -= self.mass[j];
            }
            position = if position + 1 == ring.len() { 0 } else { position + 1 };
        }
        let outside: f64 = ring.iter().sum();
        let wings = fft.forward(ring);
        let first = self.first + core.start as i64;
        let masses = &self.mass[core];
        let sum: f64 = masses.iter().zip(first..).map(|(m, i)| m * i as f64).sum();
        let centre = (sum / masses.iter().sum::<f64>()).round() as i64;
        for (k, ((p, v), wing)) in product.iter_mut().zip(spectrum).zip(&wings).enumerate() {
            *p = if v.square_norm() < vanishing {
                Complex::default()
            } else {
                let around = fft.direct(masses, first - centre, k);
                // The wings, turned to the same centre, and without their sum, like the core.
                let back = fft.turn(-i128::from(centre), k);
                let wing = wing.times(back);
                let around = Complex { re: around.re + wing.re - outside, im: around.im + wing.im };
                let turn = fft.turn(i128::from(centre) * i128::from(times), k);
                p.times(around.power_of_one_plus(times)).times(turn)
            };
        }
    }

    /// The shortest range, about, that has all of the mass but for [`WINGS`].
    fn core(&self) -> std::ops::Range<usize> {
        let (mut first, mut last) = (0, self.mass.len() - 1);
        let mut left = WINGS;
        while first < last {
            let least = self.mass[first].min(self.mass[last]);
            if least > left {
                break;
            }
            left -= least;
            if self.mass[first] <= self.mass[last] {
                first += 1;
            } else {
                last -= 1;
            }
        }
        first..last + 1
    }

    /// Without the ends that hold almost no mass.
    fn trimmed(mut self) -> Self {
        let mut dropped = 0.0;
        let limit = 1e-18;
        while let Some(last) = self.mass.last() {
            if dropped + last > limit || self.mass.len() == 1 {
                break;
            }
            dropped += last;
            self.mass.pop();
        }
        let mut cut = 0;
        for m in &self.mass {
            if dropped + m > 2.0 * limit || cut + 1 == self.mass.len() {
                break;
            }
            dropped += m;
            cut += 1;
        }
        self.mass.drain(..cut);
        self.first += cut as i64;
        self.error += dropped;
        self
    }
}

/// How a composition's spectrum is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Care {
    /// By the transform.
    Usual,
    /// The transform only tells which frequencies matter; those are summed directly.
    Direct,
}

impl Care {
    fn ln_outside(self) -> f64 {
        match self {
            Self::Usual => LN_OUTSIDE,
            Self::Direct => LN_OUTSIDE_WITH_CARE,
        }
    }
}

/// Squares of moduli below this vanish in the power: most frequencies of a long composition do.
fn vanishing(times: u64) -> f64 {
    exp(-100.0 / times as f64)
}

/// The error after `times` convolutions of a law that is `error` away from a law of mass 1.
fn grown(error: f64, times: u64) -> f64 {
    libm::expm1(times as f64 * libm::log1p(error))
}

/// A bound on the rounding error of a product of spectra.
///
/// Each spectrum value is off by at most `e`, where `e` is the transform's error times the law's
/// mass. So a product of `n` of them, with moduli not above 1, is off by `n e` times its own
/// modulus over that of its smallest factor, or, where that one is below 1/16, by `n e` times the
/// decay of its other powers. By Parseval the errors of all values of the inverse transform
/// together are at most the Euclidean norm over the frequencies; the inverse's own rounding is
/// relative to that norm too, because each of its levels is unitary up to a factor.
struct Noise<'a> {
    fft: &'a Fft,
    /// The sum of `n e`.
    errors: f64,
    /// For each frequency, the square of the smallest modulus of a factor.
    least: Vec<f64>,
    /// The smallest decay of a small factor's other powers.
    decay: f64,
}

/// Squares of moduli below this belong to small factors.
const SMALL: f64 = 1.0 / 256.0;

impl<'a> Noise<'a> {
    fn new(fft: &'a Fft) -> Self {
        Self { fft, errors: 0.0, least: vec![1.0; fft.length() / 2 + 1], decay: 0.0 }
    }

    fn factor(&mut self, law: &Law, times: u64, spectrum: &[Complex], care: Care) {
        let ulps = 8.0 * f64::EPSILON;
        let each = match care {
            Care::Usual => self.fft.relative_error() + ulps,
            Care::Direct if law.still == 0.0 => {
                Fft::DIRECT_ERROR + 2.0 * WINGS * self.fft.relative_error()
            }
            Care::Direct => self.fft.relative_error() + ulps,
        };
        if law.still > 0.5 {
            // All moduli are near 1.
            let jumps = 1.0 - law.still;
            let worst = 1.0 / (law.still - jumps).max(1e-3);
            self.errors += worst * times as f64 * jumps * (self.fft.relative_error() + ulps) + ulps;
            return;
        }
        self.errors += times as f64 * each + ulps;
        let decay = if times > 20 { 0.0 } else { libm::pow(1.0 / 16.0, times as f64 - 1.0) };
        self.decay = self.decay.max(decay);
        for (value, least) in spectrum.iter().zip(&mut self.least) {
            let factor = Complex { re: value.re + law.still, im: value.im };
            *least = least.min(factor.square_norm());
        }
    }

    fn total(&self, product: &[Complex]) -> f64 {
        let (mut errors, mut norm) = (0.0, 0.0);
        for (value, least) in product.iter().zip(&self.least) {
            let square = value.square_norm();
            errors += if *least < SMALL { self.decay * self.decay } else { square / least };
            norm += square;
        }
        self.errors * 1.01 * sqrt(2.0 * errors) + self.fft.relative_error() * sqrt(2.0 * norm)
    }
}

/// The first point and the length of a composition's window, which leaves out at most `e^ln_outside`
/// of the mass on each side.
pub(super) fn window(parts: &[(&Law, u64)], ln_outside: f64) -> Option<(i64, usize)> {
    Window::around(parts, ln_outside).map(|window| (window.first, window.length))
}

/// The range of a composed law, up to a stated mass on each side.
struct Window {
    first: i64,
    length: usize,
}

impl Window {
    fn around(parts: &[(&Law, u64)], ln_outside: f64) -> Option<Self> {
        let step = parts.first()?.0.step;
        let moments: Vec<_> = parts.iter().map(|(law, _)| law.moments()).collect();
        let times = parts.iter().map(|(_, times)| *times as f64);
        let mean: f64 = moments.iter().zip(times.clone()).map(|((m, _), t)| m * t).sum();
        let variance: f64 = moments.iter().zip(times).map(|((_, v), t)| v * t).sum();
        let radius = |sign: f64| {
            // Chernoff: (sum of cumulants + ln 1/outside) / s, at the best s of a short search.
            let bound = |s: f64| {
                let total: f64 = parts
                    .iter()
                    .zip(&moments)
                    .map(|((law, times), (m, _))| *times as f64 * law.cumulant(sign * s, *m))
                    .sum();
                (total - ln_outside) / s
            };
            let mut s = sqrt(-2.0 * ln_outside / variance.max(step * step));
            let mut best = bound(s);
            // Walk while it improves: in long strides, then in short ones while those still gain.
            for (factor, gain) in [(4.0, 1.0), (0.25, 1.0), (1.4, 0.98), (0.7, 0.98)] {
                for _ in 0..40 {
                    let next = bound(s * factor);
                    let goes_on = next < gain * best;
                    if next < best {
                        (s, best) = (s * factor, next);
                    }
                    if !goes_on {
                        break;
                    }
                }
            }
            best
        };
        // A sum cannot leave the range of its parts.
        let (mut least, mut most) = (0.0, 0.0);
        for (law, times) in parts {
            let (low, high) = law.ends();
            least += low * *times as f64;
            most += high * *times as f64;
        }
        let low = (mean - radius(-1.0)).max(least);
        let high = (mean + radius(1.0)).min(most);
        let first = (low / step).floor();
        let length = (high / step).ceil() - first + 1.0;
        if !(length <= MAX_LENGTH as f64 && first.abs() < 9e15) {
            return None;
        }
        Some(Self { first: first as i64, length: length as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::tests::law;
    use super::*;

    /// The mass at each index, by plain convolution.
    fn convolved(law: &Law, times: u32) -> std::collections::BTreeMap<i64, f64> {
        let mut sum = std::collections::BTreeMap::from([(0, 1.0)]);
        for _ in 0..times {
            let mut next = std::collections::BTreeMap::new();
            for (at, p) in &sum {
                *next.entry(*at).or_insert(0.0) += p * law.still;
                for (j, m) in law.mass.iter().enumerate() {
                    *next.entry(at + law.first + j as i64).or_insert(0.0) += p * m;
                }
            }
            sum = next;
        }
        sum
    }

    #[test]
    fn composition_is_convolution_within_the_stated_error() {
        let laws = [
            law(-2, &[0.1, 0.0, 0.5, 0.3, 0.1], 0.0),
            law(-1, &[1e-3, 0.0, 2e-3, 1e-6], 1.0),
            law(5, &[0.2, 0.8], 0.0),
        ];
        for law in &laws {
            for times in [1, 2, 7, 30] {
                for care in [Care::Usual, Care::Direct] {
                    let found = Law::compose(&[(law, u64::from(times))], care).expect("short");
                    let mut expected = convolved(law, times);
                    for (j, m) in found.mass.iter().enumerate() {
                        let here = expected.remove(&(found.first + j as i64)).unwrap_or(0.0);
                        expected.insert(i64::MAX - j as i64, (m - here).abs());
                    }
                    // What remains: differences, and mass that the composed law lacks.
                    let distance: f64 = expected.values().sum();
                    assert!(
                        distance <= found.error,
                        "{times} {care:?}: {distance:e} {:e}",
                        found.error
                    );
                    assert!(found.error < 1e-11, "{:e}", found.error);
                }
            }
        }
    }
}
