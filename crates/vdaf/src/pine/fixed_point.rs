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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_neighbour() {
        for (value, bits, expected) in [
            (0.0, 15, 0),
            (-0.0, 15, 0),
            (1.0, 15, 1 << 15),
            (-1.0, 7, -128),
            (0.5, 0, 0),
            (1.5, 0, 2),
            (2.5, 0, 2),
            (-0.5, 0, 0),
            (-1.5, 0, -2),
            (-2.5, 0, -2),
            (0.75, 1, 2),
            (1.25, 1, 2),
            (0.1, 4, 2),
            (-0.1, 4, -2),
            // The largest f64 below 2^63, and -2^63 itself.
            (9_223_372_036_854_774_784.0, 0, 9_223_372_036_854_774_784),
            (-9_223_372_036_854_775_808.0, 0, i64::MIN),
        ] {
            assert_eq!(to_fixed_point(value, bits), Ok(expected), "{value} x 2^{bits}");
        }
    }

    #[test]
    fn what_has_no_exact_meaning_is_refused() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 2.0, 5e-324] {
            assert_eq!(to_fixed_point(value, 15), Err(FixedPointError::NotNormal), "{value}");
        }
        assert_eq!(to_fixed_point(f64::MIN_POSITIVE, 15), Ok(0));
        for (value, bits) in [(1.0, 63), (-1.1, 63), (1e300, 0), (1e300, 100), (1.0, u32::MAX)] {
            assert_eq!(to_fixed_point(value, bits), Err(FixedPointError::OutOfRange), "{value}");
        }
        assert_eq!(to_fixed_point(-1.0, 63), Ok(i64::MIN));
    }
}
