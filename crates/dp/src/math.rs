//! Special functions and searches. Everything goes through the crate `libm`, whose results are the
//! same on every platform, so that a device and an author compute the same epsilon.

pub(crate) mod binomial;
pub(crate) mod normal;
pub(crate) mod search;

pub(crate) use libm::{exp, expm1, log as ln, log1p, sqrt};

/// `ln(e^a + e^b)` without overflow.
pub(crate) fn ln_add(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY { large } else { large + log1p(exp(small - large)) }
}

/// `ln(1 - q + q e^l)`: the loss of a mechanism that runs with probability `q`, from its own loss
/// `l`.
pub(crate) fn ln_sampled(q: f64, l: f64) -> f64 {
    if l > 700.0 {
        // e^l overflows; (1 - q) e^-l is lost against q.
        return l + ln(q + (1.0 - q) * exp(-l));
    }
    if l < -1.0 && q > 0.5 {
        // 1 - q is exact, and may be all that is left.
        return ln((1.0 - q) + q * exp(l));
    }
    log1p(q * expm1(l))
}

/// A bound moved up by a relative `margin` (towards more epsilon, whatever the sign).
pub(crate) fn up(x: f64, margin: f64) -> f64 {
    x + x.abs() * margin
}

/// A bound moved down by a relative `margin`.
pub(crate) fn down(x: f64, margin: f64) -> f64 {
    x - x.abs() * margin
}
