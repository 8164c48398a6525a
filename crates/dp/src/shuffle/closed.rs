//! The closed form of Feldman, McMillan and Talwar.

use crate::error::{self, Error};
use crate::math::{expm1, ln, log1p, sqrt, up};

/// Covers the roundings of the formula.
const MARGIN: f64 = 1e-12;

/// The closed-form epsilon of `n` shuffled reports of any `epsilon0`-DP (replacement) local
/// randomizer: `ln(1 + (e^epsilon0 - 1) (4 sqrt(2 ln(4/delta)) / sqrt((e^epsilon0 + 1) n) + 4/n))`,
/// at most `epsilon0`.
///
/// Feldman, McMillan, Talwar 2023. It holds only for `epsilon0 <= ln(n / (8 ln(2/delta)) - 1)`;
/// anything else is an error. [`super::generic_epsilon`] is always at least as good and has no such
/// condition.
///
/// # Errors
///
/// [`Error::OutOfRange`], naming the parameter; `epsilon0` where the condition fails.
pub fn closed_form_epsilon(epsilon0: f64, n: u64, delta: f64) -> Result<f64, Error> {
    error::non_negative("epsilon0", epsilon0)?;
    error::at_least_one("n", n)?;
    error::delta(delta)?;
    let n = n as f64;
    let largest = ln(n / (8.0 * ln(2.0 / delta)) - 1.0);
    // NaN, which is not above anything, means that the crowd is far too small.
    let range =
        "at most ln(n / (8 ln(2/delta)) - 1) for the closed form; the exact sum has no limit";
    error::in_range("epsilon0", epsilon0, largest >= epsilon0, range)?;
    // The condition keeps e^epsilon0 below n: no overflow.
    let growth = expm1(epsilon0);
    let spread = 4.0 * sqrt(2.0 * ln(4.0 / delta)) / sqrt((growth + 2.0) * n) + 4.0 / n;
    Ok(up(log1p(growth * spread), MARGIN).min(epsilon0))
}
