//! Sums of positive terms whose logarithms span more than a double can hold.

use crate::math::{exp, ln, log1p};

/// A running sum `sum * e^scale`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSum {
    scale: f64,
    sum: f64,
}

/// A term this much (in logarithm) above the scale moves the scale; `e^100` times 2^53 terms is far
/// from overflow.
const RESCALE: f64 = 100.0;

impl LogSum {
    pub(super) fn new() -> Self {
        Self { scale: f64::NEG_INFINITY, sum: 0.0 }
    }

    /// Adds `mantissa * e^scale`.
    pub(super) fn add(&mut self, mantissa: f64, scale: f64) {
        if scale == f64::NEG_INFINITY || mantissa == 0.0 {
            return;
        }
        let above = scale - self.scale;
        if above > RESCALE {
            self.sum = self.sum * exp(-above) + mantissa;
            self.scale = scale;
        } else {
            self.sum += mantissa * exp(above);
        }
    }

    /// The logarithm of the sum.
    pub(super) fn ln(&self) -> f64 {
        if self.sum == 0.0 { f64::NEG_INFINITY } else { self.scale + ln(self.sum) }
    }

    /// Whether a term `e^scale` is below `part` of the sum.
    pub(super) fn dwarfs(&self, scale: f64, part: f64) -> bool {
        scale == f64::NEG_INFINITY || (self.sum > 0.0 && exp(scale - self.scale) <= part * self.sum)
    }
}

/// `ln(1 + e^x)`: a moment's logarithm from the logarithm of its excess over 1.
pub(super) fn ln_one_plus_exp(x: f64) -> f64 {
    if x > 40.0 { x + exp(-x) } else { log1p(exp(x)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_any_size_add_up() {
        let mut sum = LogSum::new();
        assert_eq!(sum.ln(), f64::NEG_INFINITY);
        for scale in [-2000.0, 5000.0, -700.0, 5000.0, 5001.0] {
            sum.add(1.0, scale);
        }
        let expected = 5000.0 + ln(2.0 + exp(1.0));
        assert!((sum.ln() - expected).abs() < 1e-12);
        assert!(sum.dwarfs(4900.0, 1e-17) && !sum.dwarfs(4999.0, 1e-17));
    }

    #[test]
    fn the_logarithm_of_one_plus_is_smooth() {
        for x in [-50.0, -1.0, 0.0, 1.0, 39.999_999, 40.000_001, 800.0] {
            let direct = if x < 700.0 { log1p(exp(x)) } else { x };
            assert!((ln_one_plus_exp(x) - direct).abs() <= 1e-15 * direct.abs());
        }
    }
}
