//! The bound for every local randomizer.

use super::closed::closed_form_epsilon;
use super::halves::Pair;
use super::search::{FINE, Side, root};
use super::{NEGLIGIBLE, OUTSIDE, amplifies, instance, local_delta, precise, weights};
use crate::error::{self, Error};
use crate::math::{exp, expm1};
use crate::notion::Bracket;

/// The largest standard deviation of the number of clones; larger crowds are cut.
const DEVIATION: f64 = 32_768.0;

/// An upper bound on the delta at `epsilon` of `n` shuffled reports of any local randomizer that is
/// `epsilon0`-DP under *replacement* (never pass it a deletion epsilon).
///
/// Feldman, McMillan, Talwar 2023: the output is a post-processing of `(A + D, C - A + 1 - D)`
/// against `(A + 1 - D, C - A + D)`, `C ~ Bin(n - 1, 2/(e^epsilon0 + 1))`, `A ~ Bin(C, 1/2)`,
/// `D ~ Bern(e^epsilon0/(e^epsilon0 + 1))`. The divergence of that pair is summed over the bulk of
/// `C`; the rest and all rounding are added. Parameters out of range get the trivial answer 1.
pub fn generic_delta(epsilon0: f64, n: u64, epsilon: f64) -> f64 {
    let valid = epsilon0 >= 0.0 && epsilon0.is_finite() && epsilon >= 0.0 && n > 0;
    if !valid {
        return 1.0;
    }
    if epsilon >= epsilon0 {
        return 0.0;
    }
    let local = local_delta(epsilon0, epsilon);
    if !amplifies(epsilon0, n) {
        return local;
    }
    precise(|outside| pair(epsilon0, n, outside).estimate(epsilon).upper(), OUTSIDE).min(local)
}

/// The epsilon at `delta` of `n` shuffled reports of any local randomizer that is `epsilon0`-DP
/// under *replacement* (never pass it a deletion epsilon). For one report alone, and for any crowd
/// that does not help, it is `epsilon0`.
///
/// `upper` holds for all such randomizers and all inputs of the others (see [`generic_delta`]).
/// `lower` is attained by binary or ternary randomized response, with certain inputs of the others.
/// Crowds beyond some billions are cut, which only raises `upper`; their `lower` is 0.
///
/// # Errors
///
/// [`Error::OutOfRange`], naming the parameter.
pub fn generic_epsilon(epsilon0: f64, n: u64, delta: f64) -> Result<Bracket, Error> {
    error::non_negative("epsilon0", epsilon0)?;
    error::at_least_one("n", n)?;
    error::delta(delta)?;
    let upper = upper_end(epsilon0, n, delta);
    let binary = instance::lower_end(epsilon0, 2, n, delta);
    let ternary = instance::lower_end(epsilon0, 3, n, delta);
    let lower = binary.max(ternary);
    Ok(Bracket { lower, upper })
}

/// The upper end alone, for checked parameters.
pub(super) fn upper_end(epsilon0: f64, n: u64, delta: f64) -> f64 {
    if !amplifies(epsilon0, n) {
        return epsilon0;
    }
    let pair = pair(epsilon0, n, OUTSIDE * delta);
    let found = root(|x| pair.estimate(x), delta, epsilon0, pair.guess(delta), Side::Upper, FINE);
    // For crowds that are cut, the closed form, where it holds, may be better.
    closed_form_epsilon(epsilon0, n, delta).map_or(found, |closed| found.min(closed))
}

fn pair(epsilon0: f64, n: u64, outside: f64) -> Pair {
    let rho = 2.0 / (exp(epsilon0) + 1.0);
    let rest = 0.5 * expm1(epsilon0) * rho;
    let crowd = weights::crowd(n, rho, rest, DEVIATION);
    Pair::new(epsilon0, crowd, (rho, rest), 0.0, outside.max(NEGLIGIBLE))
}
