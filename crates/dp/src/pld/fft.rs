//! The Fourier transform of real sequences, for the convolution of loss laws.
//!
//! We have our own for two reasons (`docs/decisions/0011-own-fft.md`). The certified bracket needs
//! a transform whose rounding error is bounded by a known formula. And results must not depend on
//! the platform, while the existing crates choose their instructions, and so their rounding, at run
//! time.

use std::cell::Cell;
use std::f64::consts::PI;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

impl Complex {
    pub(crate) const ONE: Self = Self { re: 1.0, im: 0.0 };

    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }

    fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    /// Multiplied by -i.
    fn turned(self) -> Self {
        Self { re: self.im, im: -self.re }
    }

    pub(crate) fn square_norm(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    /// `(1 + self)^power`, with an error of about `power |self|` ulps rather than `power`.
    pub(crate) fn power_of_one_plus(self, power: u64) -> Self {
        let power = power as f64;
        let modulus = 0.5 * power * libm::log1p(2.0 * self.re + self.square_norm());
        let angle = power * libm::atan2(self.im, 1.0 + self.re);
        let size = libm::exp(modulus);
        Self { re: size * libm::cos(angle), im: size * libm::sin(angle) }
    }

    /// By repeated squaring: at most `2 log2(power)` products, whose relative errors add up to less
    /// than `4 power` ulps.
    pub(crate) fn power(self, mut power: u64) -> Self {
        let (mut result, mut square) = (Self::ONE, self);
        while power > 1 {
            if power & 1 == 1 {
                result = result.times(square);
            }
            square = square.times(square);
            power >>= 1;
        }
        if power == 1 { result.times(square) } else { result }
    }
}

/// The transform of real sequences of one length, a power of two not below 4.
pub(crate) struct Fft {
    /// `exp(-2 pi i k / length)` for `k` below `length / 2`.
    roots: Vec<Complex>,
    length: usize,
    /// Work space, kept between transforms.
    scratch: Cell<Vec<Complex>>,
}

impl Fft {
    /// A bound on the error of each output of either transform, relative to the sum of the absolute
    /// inputs. In units of half an ulp, a level of fours adds two sums (2) and a product (2.3) with
    /// a root that is off by at most 8: less than 13 for two bits of the length; the packing of
    /// reals adds as much once.
    pub(crate) fn relative_error(&self) -> f64 {
        0.5 * f64::EPSILON * 6.5 * f64::from(self.length.ilog2() + 2)
    }

    /// Prepares the roots for `length` (rounded up to a power of two).
    pub(crate) fn new(length: usize) -> Self {
        let length = length.max(4).next_power_of_two();
        let half = length / 2;
        // Roots as products of a coarse and a fine one: few calls to sine and cosine, two roundings
        // each.
        let fine = 1usize << (half.ilog2() / 2);
        let angle = |k: usize| -2.0 * PI * (k as f64) / (length as f64);
        let root = |k: usize| Complex { re: libm::cos(angle(k)), im: libm::sin(angle(k)) };
        let small: Vec<_> = (0..fine).map(root).collect();
        let mut roots = Vec::with_capacity(half);
        for coarse in (0..half).step_by(fine) {
            let big = root(coarse);
            roots.extend(small.iter().map(|s| s.times(big)));
        }
        Self { roots, length, scratch: Cell::default() }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The first half of the spectrum of `values` (`length` of them): `length / 2 + 1` numbers.
    pub(crate) fn forward(&self, values: &[f64]) -> Vec<Complex> {
        let half = self.length / 2;
        let packed = values.chunks_exact(2).map(|v| Complex { re: v[0], im: v[1] }).collect();
        let z = self.complex(packed);
        let mut spectrum = Vec::with_capacity(half + 1);
        for k in 0..=half {
            // Both wrap around; a mask works because the length is a power of two.
            let a = z[k & (half - 1)];
            let b = z[(half - k) & (half - 1)].conjugate();
            let even = a.plus(b);
            let odd = a.minus(b).turned();
            let root = if k == half { Complex { re: -1.0, im: 0.0 } } else { self.roots[k] };
            let sum = even.plus(odd.times(root));
            spectrum.push(Complex { re: 0.5 * sum.re, im: 0.5 * sum.im });
        }
        spectrum
    }

    /// The real sequence with this half spectrum.
    pub(crate) fn inverse(&self, spectrum: &[Complex]) -> Vec<f64> {
        let half = self.length / 2;
        let mut packed = Vec::with_capacity(half);
        for k in 0..half {
            let a = spectrum[k];
            let b = spectrum[half - k].conjugate();
            let even = a.plus(b);
            // The inverse turns by the conjugate root and by +i; conjugating everything makes the
            // forward transform compute the inverse one.
            let odd = a.minus(b).times(self.roots[k].conjugate());
            packed.push(Complex { re: even.re - odd.im, im: -(even.im + odd.re) });
        }
        let z = self.complex(packed);
        let scale = 1.0 / self.length as f64;
        z.iter().flat_map(|v| [v.re * scale, -v.im * scale]).collect()
    }

    /// `exp(-2 pi i k / length)` for any `k` below `length`.
    fn root(&self, k: usize) -> Complex {
        let half = self.length / 2;
        let root = self.roots[k & (half - 1)];
        if k & half == 0 { root } else { Complex { re: -root.re, im: -root.im } }
    }

    /// One value of the spectrum, minus the sum of the `values`, whose first one is at the position
    /// `first`. It is summed directly, so that its error is [`Self::DIRECT_ERROR`] times that sum,
    /// not that of a whole transform.
    pub(crate) fn direct(&self, values: &[f64], first: i64, frequency: usize) -> Complex {
        let mask = self.length - 1;
        let mut angle =
            (first.rem_euclid(self.length as i64) as usize).wrapping_mul(frequency) & mask;
        let mut sum = Complex::default();
        for value in values {
            let root = self.root(angle);
            sum.re += value * (root.re - 1.0);
            sum.im += value * root.im;
            angle = (angle + frequency) & mask;
        }
        sum
    }

    /// A root, the rounded product of two rounded ones, is off by less than 4 half ulps; the sums
    /// are of numbers far below 1.
    pub(crate) const DIRECT_ERROR: f64 = 2.0 * f64::EPSILON;

    /// The root at `index` times `frequency`, which may be large.
    pub(crate) fn turn(&self, index: i128, frequency: usize) -> Complex {
        let turns = (index * frequency as i128).rem_euclid(self.length as i128);
        self.root(turns as usize)
    }

    /// Stockham's self-sorting transform of `length / 2` complex numbers, by fours and at most one
    /// by twos.
    fn complex(&self, mut from: Vec<Complex>) -> Vec<Complex> {
        let total = from.len();
        let mut to = self.scratch.take();
        to.resize(total, Complex::default());
        let (mut size, mut stride) = (total, 1);
        while size > 1 {
            let step = self.length / size;
            if size % 4 == 0 {
                self.by_four(&from, &mut to, size, stride, step);
                size /= 4;
                stride *= 4;
            } else {
                by_two(&from, &mut to, stride);
                size /= 2;
                stride *= 2;
            }
            std::mem::swap(&mut from, &mut to);
        }
        self.scratch.set(to);
        from
    }

    fn by_four(
        &self,
        from: &[Complex],
        to: &mut [Complex],
        size: usize,
        stride: usize,
        step: usize,
    ) {
        let quarter = size / 4;
        let (a, rest) = from.split_at(quarter * stride);
        let (b, rest) = rest.split_at(quarter * stride);
        let (c, d) = rest.split_at(quarter * stride);
        for p in 0..quarter {
            let w1 = self.roots[p * step];
            let w2 = self.roots[2 * p * step];
            let w3 = w1.times(w2);
            let range = p * stride..(p + 1) * stride;
            let out = &mut to[4 * p * stride..4 * (p + 1) * stride];
            let (o0, out) = out.split_at_mut(stride);
            let (o1, out) = out.split_at_mut(stride);
            let (o2, o3) = out.split_at_mut(stride);
            let inputs = a[range.clone()]
                .iter()
                .zip(&b[range.clone()])
                .zip(&c[range.clone()])
                .zip(&d[range]);
            let outputs = o0.iter_mut().zip(o1).zip(o2).zip(o3);
            for ((((a, b), c), d), (((o0, o1), o2), o3)) in inputs.zip(outputs) {
                let (ac, bd) = (a.plus(*c), b.plus(*d));
                let (ac_, bd_) = (a.minus(*c), b.minus(*d).turned());
                *o0 = ac.plus(bd);
                *o1 = ac_.plus(bd_).times(w1);
                *o2 = ac.minus(bd).times(w2);
                *o3 = ac_.minus(bd_).times(w3);
            }
        }
    }
}

/// The last level, when the length is not a power of four.
fn by_two(from: &[Complex], to: &mut [Complex], stride: usize) {
    let (a, b) = from.split_at(stride);
    let (o0, o1) = to.split_at_mut(stride);
    for ((a, b), (o0, o1)) in a.iter().zip(b).zip(o0.iter_mut().zip(o1)) {
        *o0 = a.plus(*b);
        *o1 = a.minus(*b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(length: usize) -> Vec<f64> {
        (0..length).map(|j| libm::sin(j as f64 * 1.7 + 0.3) + 0.1).collect()
    }

    #[test]
    fn the_spectrum_is_the_definition() {
        for length in [4usize, 8, 16, 32, 64] {
            let values = sequence(length);
            let spectrum = Fft::new(length).forward(&values);
            for (k, found) in spectrum.iter().enumerate() {
                let (mut re, mut im) = (0.0, 0.0);
                for (j, v) in values.iter().enumerate() {
                    let angle = -2.0 * PI * ((j * k) % length) as f64 / length as f64;
                    re += v * libm::cos(angle);
                    im += v * libm::sin(angle);
                }
                assert!((found.re - re).abs() < 1e-12, "{length} {k}");
                assert!((found.im - im).abs() < 1e-12, "{length} {k}");
            }
        }
    }

    #[test]
    fn the_inverse_undoes_it_within_the_stated_error() {
        for length in [4usize, 8, 1024, 2048, 65_536] {
            let values = sequence(length);
            let fft = Fft::new(length);
            let back = fft.inverse(&fft.forward(&values));
            let sum: f64 = values.iter().map(|v| v.abs()).sum();
            for (a, b) in values.iter().zip(&back) {
                assert!((a - b).abs() <= 2.0 * fft.relative_error() * sum, "{length}");
            }
        }
    }

    #[test]
    fn powers_are_powers() {
        let z = Complex { re: 0.8, im: 0.3 };
        let mut product = Complex::ONE;
        for power in 0..40 {
            let found = z.power(power);
            assert!(found.minus(product).square_norm() < 1e-28, "{power}");
            product = product.times(z);
        }
        let near = Complex { re: -1e-7, im: 2e-7 };
        let (a, b) =
            (near.power_of_one_plus(1000), Complex { re: 1.0 - 1e-7, im: 2e-7 }.power(1000));
        assert!(a.minus(b).square_norm() < 1e-24);
    }
}
