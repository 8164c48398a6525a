//! Vectors of whole numbers: a vector of a device, rounded to fixed point, with a norm (L2) that is
//! at most a bound *after* rounding.
//!
//! What one device can move the sum by is then exactly the bound: nothing is added for rounding. A
//! vector whose rounded norm is above the bound is made a little shorter and rounded again.

use crate::math::sqrt;

/// Of how many bits the fraction of a fixed-point number has at most.
pub const MOST_FRACTION_BITS: u32 = 40;

/// How often a vector is made shorter before its numbers are cut off instead of rounded.
const PASSES: u32 = 16;

/// Above this, numbers are made smaller before they are squared.
const HUGE: f64 = 1e100;

/// The vector in units of `2^-fraction_bits`, its norm at most `norm_bound` of these units.
///
/// A vector of another length, or with a number that is not finite, counts as the zero vector. A
/// longer vector is made as long as the bound. Numbers are rounded to the nearest, ties to even.
pub fn clip(vector: &[f64], length: u32, fraction_bits: u32, norm_bound: u64) -> Vec<i64> {
    if vector.len() != length as usize || vector.iter().any(|number| !number.is_finite()) {
        return vec![0; length as usize];
    }
    let unit = (1_u64 << fraction_bits.min(MOST_FRACTION_BITS)) as f64;
    rounded(vector, unit, norm_bound)
}

/// The vector, or if it is too long the nearest one in its direction that is not.
pub(super) fn shortened(vector: Vec<i64>, norm_bound: u64) -> Vec<i64> {
    if is_within(&vector, norm_bound) {
        return vector;
    }
    let numbers: Vec<f64> = vector.iter().map(|number| *number as f64).collect();
    rounded(&numbers, 1.0, norm_bound)
}

/// Whether the norm is at most `norm_bound`.
pub fn is_within(vector: &[i64], norm_bound: u64) -> bool {
    square(vector) <= u128::from(norm_bound) * u128::from(norm_bound)
}

/// The sum of the squares; the largest number if it is not one.
fn square(vector: &[i64]) -> u128 {
    vector.iter().fold(0, |sum: u128, number| {
        let size = u128::from(number.unsigned_abs());
        sum.saturating_add(size * size)
    })
}

/// Finite numbers times `unit`, rounded, at most so long.
fn rounded(vector: &[f64], unit: f64, norm_bound: u64) -> Vec<i64> {
    let largest = vector.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
    // A vector with huge numbers is too long, and stays so.
    let smaller = if largest > HUGE { HUGE / largest } else { 1.0 };
    let squares = vector.iter().map(|number| (number * smaller) * (number * smaller));
    let norm = sqrt(squares.sum::<f64>());
    let bound = norm_bound as f64 / unit;
    let mut factor = smaller * unit * if norm > bound { bound / norm } else { 1.0 };
    for pass in 1..=PASSES {
        let scaled = vector.iter().map(|number| (number * factor).round_ties_even());
        let found: Vec<i64> = scaled.map(|number| number as i64).collect();
        if is_within(&found, norm_bound) {
            return found;
        }
        // Rounding added to the norm. It does so again, so each pass aims half a unit lower.
        let aim = (norm_bound as f64 - 0.5 * f64::from(pass)).max(0.0);
        factor *= aim / sqrt(square(&found) as f64);
    }
    // No number grows by being cut off; what is multiplied covers the rounding of the norm.
    let cut = |number: &f64| (number * factor * (1.0 - 1e-6)) as i64;
    let found: Vec<i64> = vector.iter().map(cut).collect();
    if is_within(&found, norm_bound) { found } else { vec![0; vector.len()] }
}
