//! The binomial law, by Loader's saddle-point form: no cancellation, whatever the size of `n`.

use std::f64::consts::PI;

use super::{exp, ln, log1p, sqrt};

/// `P(Bin(n, p) = k)`; relative error about 1e-14 plus one part in 1e15 of the exponent.
pub(crate) fn pmf(n: u64, k: u64, p: f64) -> f64 {
    exp(ln_pmf(n, k, p))
}

/// `ln P(Bin(n, p) = k)`; minus infinity where that is impossible.
pub(crate) fn ln_pmf(n: u64, k: u64, p: f64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    let q = 1.0 - p;
    if p == 0.0 {
        return if k == 0 { 0.0 } else { f64::NEG_INFINITY };
    }
    if q == 0.0 {
        return if k == n { 0.0 } else { f64::NEG_INFINITY };
    }
    let size = n as f64;
    if k == 0 {
        return size * log1p(-p);
    }
    if k == n {
        return size * ln(p);
    }
    let (hits, misses) = (k as f64, (n - k) as f64);
    stirling_error(size)
        - stirling_error(hits)
        - stirling_error(misses)
        - deviance(hits, size * p)
        - deviance(misses, size * q)
        + 0.5 * ln(size / (2.0 * PI * hits * misses))
}

/// `ln Gamma(n + 1) - (n ln n - n + ln(2 pi n)/2)`: what Stirling's formula leaves out.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        return libm::lgamma(n + 1.0) - (n * ln(n) - n + 0.5 * ln(2.0 * PI * n));
    }
    let square = n * n;
    (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square)
            / square)
        / n
}

/// `x ln(x/m) + m - x`, accurate where `x` is near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * ln(x / m) + m - x;
    }
    let v = (x - m) / (x + m);
    let mut sum = (x - m) * v;
    let mut term = 2.0 * x * v;
    for j in 1..1000 {
        term *= v * v;
        let next = sum + term / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

/// `P(Bin(n, p) < k)`, to about 1e-12 relative.
pub(crate) fn lower_tail(n: u64, p: f64, k: u64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    if k > n {
        return 1.0;
    }
    if (k as f64) > n as f64 * p + 1.0 {
        return (1.0 - upper_tail(n, p, k)).max(0.0);
    }
    // Downwards from the largest term, each smaller than the one before.
    let mut term = pmf(n, k - 1, p);
    let mut sum = 0.0;
    for j in (0..k).rev() {
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
        term *= j as f64 / ((n - j + 1) as f64) * ((1.0 - p) / p);
    }
    sum
}

/// `P(Bin(n, p) >= k)`, to about 1e-12 relative.
pub(crate) fn upper_tail(n: u64, p: f64, k: u64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n {
        return 0.0;
    }
    if (k as f64) < n as f64 * p {
        return (1.0 - lower_tail(n, p, k)).max(0.0);
    }
    let mut term = pmf(n, k, p);
    let mut sum = 0.0;
    for j in k..=n {
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
        term *= (n - j) as f64 / ((j + 1) as f64) * (p / (1.0 - p));
    }
    sum
}

/// How far from its mean a binomial must be examined: all counts outside `first..=last` together
/// have probability at most `outside` (Bernstein's inequality, both sides).
pub(crate) fn bulk(n: u64, p: f64, outside: f64) -> (u64, u64) {
    let size = n as f64;
    let mean = size * p;
    let t = ln(2.0 / outside);
    let radius = sqrt(2.0 * mean * (1.0 - p) * t + t * t / 9.0) + t / 3.0;
    let first = (mean - radius).max(0.0) as u64;
    let last = ((mean + radius).ceil() as u64).min(n);
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_are_exact() {
        for n in 1..=30u64 {
            for p in [0.01, 0.3, 0.5, 0.99] {
                let mut exact = libm::pow(1.0 - p, n as f64);
                for k in 0..=n {
                    assert!((pmf(n, k, p) / exact - 1.0).abs() < 1e-13, "{n} {k} {p}");
                    exact *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
                }
            }
        }
    }

    #[test]
    fn large_ones_sum_to_one_over_their_bulk() {
        for (n, p) in [(1_000_000, 0.01), (10_000_000, 0.5), (1_000_000_000, 1e-5)] {
            let (first, last) = bulk(n, p, 1e-13);
            let sum: f64 = (first..=last).map(|k| pmf(n, k, p)).sum();
            assert!((sum - 1.0).abs() < 1e-11, "{n} {p} {sum}");
        }
    }

    #[test]
    fn tails_add_up_and_agree_with_sums() {
        for (n, p) in [(40u64, 0.3), (1000, 0.02), (7, 0.9)] {
            for k in 0..=n + 1 {
                let below: f64 = (0..k).map(|j| pmf(n, j, p)).sum();
                assert!(
                    (lower_tail(n, p, k) - below).abs() <= 1e-12 * below + 1e-16,
                    "{n} {p} {k}"
                );
                let above: f64 = (k..=n).map(|j| pmf(n, j, p)).sum();
                assert!(
                    (upper_tail(n, p, k) - above).abs() <= 1e-12 * above + 1e-15,
                    "{n} {p} {k}"
                );
            }
        }
    }

    #[test]
    fn the_ratio_of_neighbours_is_right() {
        let (n, k, p) = (10_000_000u64, 5_003_000u64, 0.5);
        let ratio = exp(ln_pmf(n, k, p) - ln_pmf(n, k - 1, p));
        let expected = (n - k + 1) as f64 / k as f64;
        assert!((ratio / expected - 1.0).abs() < 1e-12);
    }
}
