//! The standard normal law: tails that keep their relative precision however small they are.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::{exp, ln, sqrt};

/// `P(Z > x)`; relative error about `x^2` ulps while the result is a normal number.
pub(crate) fn upper_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

/// `ln P(Z > x)`, even where the probability itself underflows.
pub(crate) fn ln_upper_tail(x: f64) -> f64 {
    if x > 5.0 { ln_density(x) + ln(mills(x)) } else { ln(upper_tail(x)) }
}

/// The density of the standard normal law.
pub(crate) fn density(x: f64) -> f64 {
    // x^2 rounded costs x^2/2 ulp in the exponent: split off the rounding error of the square.
    let square = x * x;
    let rest = libm::fma(x, x, -square);
    exp(-0.5 * square) * (1.0 - 0.5 * rest) / sqrt(2.0 * PI)
}

/// `ln` of the density.
pub(crate) fn ln_density(x: f64) -> f64 {
    -0.5 * x * x - 0.5 * ln(2.0 * PI)
}

/// Mills' ratio `P(Z > x) / density(x)`. It decreases from infinity to 0, like `1/x` for large `x`.
pub(crate) fn mills(x: f64) -> f64 {
    if x <= 5.0 {
        return 0.5 * libm::erfc(x * FRAC_1_SQRT_2) / density(x);
    }
    // Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ...)))), from the inside; at x = 5,
    // sixty levels leave an error far below one ulp.
    let levels = 12 + (1_200.0 / (x * x)) as u32;
    let mut value = x;
    for level in (1..=levels).rev() {
        value = x + f64::from(level) / value;
    }
    1.0 / value
}

/// The `x` with `ln P(Z > x) = ln_p`, for `ln_p < 0`, to about 1e-13 relative.
pub(crate) fn quantile_of_ln_upper_tail(ln_p: f64) -> f64 {
    // Newton on the convex decreasing function ln P(Z > x), from a point to the left of the root,
    // where it converges monotonically.
    let mut x = if ln_p > -0.7 { -9.0 } else { 0.0 };
    if ln_p > -1e-18 {
        return -9.0;
    }
    for _ in 0..80 {
        let step = (ln_upper_tail(x) - ln_p) * mills(x);
        x += step;
        if step.abs() <= 1e-14 * x.abs().max(1e-3) {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30-digit values of P(Z > x).
    const TAILS: [(f64, f64); 7] = [
        (0.0, 0.5),
        (1.0, 0.158_655_253_931_457_05),
        (5.0, 2.866_515_718_791_939_4e-7),
        (5.5, 1.898_956_246_588_77e-8),
        (10.0, 7.619_853_024_160_526e-24),
        (37.5, 4.605_353_009_581_9e-308),
        (-3.0, 0.998_650_101_968_369_9),
    ];

    #[test]
    fn tails_are_right_in_relative_terms() {
        for (x, expected) in TAILS {
            let found = upper_tail(x);
            assert!((found / expected - 1.0).abs() < 1e-12, "x = {x}: {found:e} {expected:e}");
            assert!((ln_upper_tail(x) - ln(expected)).abs() < 1e-11, "x = {x}");
        }
    }

    #[test]
    fn the_two_branches_meet() {
        let (below, above) = (mills(5.0), mills(5.0 + 1e-12));
        assert!((below / above - 1.0).abs() < 1e-11, "{below} {above}");
    }

    #[test]
    fn the_quantile_inverts_the_tail() {
        for x in [-8.0, -3.0, -1.0, -0.1, 0.3, 1.0, 4.9, 5.1, 12.0, 37.0, 100.0] {
            let found = quantile_of_ln_upper_tail(ln_upper_tail(x));
            // Near 1 the tail itself no longer determines its argument.
            let tolerance = if x < -5.0 { 1e-2 } else { 1e-10 };
            assert!((found - x).abs() <= tolerance * x.abs(), "{x} {found}");
        }
    }
}
