//! Decimals and fractions as people write them, parsed exactly: no floats are involved.

use crate::recipe::Probability;

/// More digits than any value of a recipe needs.
const MAX_DIGITS: usize = 24;

/// `1/50`, `2%`, `0.02`, `2e-2` or `1`.
pub(super) fn probability(text: &str) -> Result<Probability, String> {
    let (num, den) = match text.split_once('/') {
        Some((num, den)) => (digits(num.trim(), text)?, digits(den.trim(), text)?),
        None => {
            let (mantissa, exponent) = match text.strip_suffix('%') {
                Some(percent) => {
                    decimal(percent.trim_end()).map(|(digits, at)| (digits, at - 2))?
                }
                None => decimal(text)?,
            };
            let too_fine = || format!("{text:?} has more digits than a probability can have");
            // A saturated power is not a power of ten, so it must not become a denominator.
            let power = 10u128.checked_pow(exponent.unsigned_abs()).ok_or_else(too_fine)?;
            let (num, den) = if exponent >= 0 {
                (mantissa.checked_mul(power).ok_or_else(too_fine)?, 1)
            } else {
                (mantissa, power)
            };
            reduced(num, den).ok_or_else(too_fine)?
        }
    };
    Probability::reduced(num, den).map_err(|error| error.to_string())
}

/// `1000000`, `1,000,000`, `1_000_000` or `1e6`.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let wrong = || format!("{text:?} is not a whole number: write it like 1000000 or 1e6");
    let (mantissa, exponent) = match parse_decimal(&plain) {
        Some(found) => found,
        None if is_long(&plain) => return Err(too_large(text)),
        None => return Err(wrong()),
    };
    let power = power_of_ten(exponent);
    let number = match exponent {
        0.. => mantissa.saturating_mul(power),
        _ if mantissa.is_multiple_of(power) => mantissa / power,
        _ => return Err(wrong()),
    };
    u64::try_from(number).map_err(|_| too_large(text))
}

/// A decimal in millionths, rounded up.
pub(super) fn micro(text: &str) -> Result<u64, String> {
    let (mantissa, exponent) = decimal(text)?;
    let exponent = exponent + 6;
    let scaled = if exponent >= 0 {
        mantissa.checked_mul(power_of_ten(exponent))
    } else {
        Some(mantissa.div_ceil(power_of_ten(-exponent)))
    };
    scaled.and_then(|micro| u64::try_from(micro).ok()).ok_or_else(|| too_large(text))
}

fn too_large(text: &str) -> String {
    format!("{text:?} is too large")
}

/// Whether it is a whole number with more digits than are read, like `1e30`.
fn is_long(text: &str) -> bool {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let sound = is_number(digits) && is_number(exponent) && digits.bytes().any(|byte| byte != b'0');
    sound && parse_decimal(text).is_none()
}

/// Millionths as a decimal.
pub(super) fn show_micro(micro: u64) -> String {
    let fraction = format!("{:06}", micro % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", micro / 1_000_000, if fraction.is_empty() { "0" } else { fraction })
}

fn digits(digits: &str, text: &str) -> Result<u64, String> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| digits.parse().ok())
        .flatten()
        .ok_or_else(|| format!("{text:?} is not a fraction of two whole numbers"))
}

/// `12.5e-3` as 125 and -4: digits and a power of ten.
fn decimal(text: &str) -> Result<(u128, i32), String> {
    parse_decimal(text).ok_or_else(|| {
        format!("{text:?} is not a number: give digits, optionally with a point, like 0.02")
    })
}

fn parse_decimal(text: &str) -> Option<(u128, i32)> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    let sound = !whole.is_empty()
        && (digits.len() == whole.len() || !fraction.is_empty())
        && all.bytes().all(|byte| byte.is_ascii_digit());
    let significant = all.trim_start_matches('0');
    if !sound || significant.len() > MAX_DIGITS || exponent.abs() > MAX_DIGITS as i32 {
        return None;
    }
    let mantissa = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    let exponent = exponent - i32::try_from(fraction.len()).ok()?;
    Some((mantissa, exponent))
}

/// Saturates, far above every allowed value.
fn power_of_ten(exponent: i32) -> u128 {
    10u128.saturating_pow(exponent.unsigned_abs())
}

fn reduced(num: u128, den: u128) -> Option<(u64, u64)> {
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    Some((u64::try_from(num / divisor).ok()?, u64::try_from(den / divisor).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_exact() {
        for (text, num, den) in [
            ("1/50", 1, 50),
            ("2/100", 1, 50),
            ("0.02", 1, 50),
            ("0.020", 1, 50),
            ("2e-2", 1, 50),
            ("1e-9", 1, 1_000_000_000),
            ("0.1", 1, 10),
            ("1", 1, 1),
            ("1.0", 1, 1),
            ("0", 0, 1),
            ("0.5e0", 1, 2),
            ("5%", 1, 20),
            ("0.1 %", 1, 1_000),
            ("100%", 1, 1),
        ] {
            assert_eq!(probability(text), Ok(Probability::new(num, den).unwrap()), "{text}");
        }
        for bad in [
            "",
            "1/0",
            "2/1",
            "-0.1",
            "1.",
            ".5",
            "x",
            "1/2/3",
            "1e",
            "1e-99",
            "1e99",
            "2",
            "nan",
            "inf",
            "1e-24",
            "+1",
            "%",
            "101%",
            "1/2%",
            "0.000000000000000000000000000000000000000255",
        ] {
            assert!(probability(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_are_written_as_people_do() {
        for (text, number) in [
            ("1000000", 1_000_000),
            ("1,000,000", 1_000_000),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("2.5e3", 2_500),
            ("1500e-2", 15),
            ("0", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(whole(text), Ok(number), "{text}");
        }
        for bad in ["", "many", "-1", "1.5", "1e-1", "5%", "1/2", "1e20", "18446744073709551616"] {
            assert!(whole(bad).is_err(), "{bad}");
        }
        for large in ["1e20", "1e30", "18446744073709551616", &"9".repeat(40), "1e999999999999"] {
            assert_eq!(whole(large), Err(format!("{large:?} is too large")));
        }
    }

    #[test]
    fn millionths_are_rounded_up() {
        for (text, expected) in [
            ("4", 4_000_000),
            ("4.0", 4_000_000),
            ("0.1", 100_000),
            ("0.0000001", 1),
            ("1.0000000000000000001", 1_000_001),
            ("1e-3", 1_000),
            ("2.5e3", 2_500_000_000),
            ("0", 0),
        ] {
            assert_eq!(micro(text), Ok(expected), "{text}");
        }
        for bad in ["", "-4", "4,0", "1e24", "0x4", "99999999999999999999"] {
            assert!(micro(bad).is_err(), "{bad}");
        }
        for value in [1, 10, 999_999, 1_000_000, 4_000_000, 1_234_567, (1 << 53) - 1] {
            assert_eq!(micro(&show_micro(value)), Ok(value));
        }
        assert_eq!(show_micro(4_000_000), "4.0");
        assert_eq!(show_micro(1_250_000), "1.25");
    }
}
