//! Fractions as integers.

/// Why a number has no fixed-point form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixedPointError {
    /// NaN, infinite or subnormal.
    #[error("NaN, infinite and subnormal numbers are refused")]
    NotNormal,
    /// The scaled number needs more than 64 bits.
    #[error("the scaled number is out of range")]
    OutOfRange,
}

/// `value` x 2^`fraction_bits`, rounded to the nearest integer, and to the even one of two.
///
/// This is PINE's encoding of a number. It refuses NaN, infinite and subnormal numbers, as PINE
/// does: whether hardware computes with subnormal numbers exactly differs between devices.
pub fn to_fixed_point(value: f64, fraction_bits: u32) -> Result<i64, FixedPointError> {
    if !value.is_normal() && value != 0.0 {
        return Err(FixedPointError::NotNormal);
    }
    // Exact: multiplying by a power of two changes only the exponent, unless it overflows.
    let scaled = value * 2f64.powi(fraction_bits.min(2000) as i32);
    let rounded = scaled.round_ties_even();
    // 2^63 is a number that f64 holds exactly.
    let limit = 2f64.powi(63);
    if rounded >= -limit && rounded < limit {
        Ok(rounded as i64)
    } else {
        Err(FixedPointError::OutOfRange)
    }
}
