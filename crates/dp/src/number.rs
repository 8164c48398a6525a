//! Numbers for people: few digits, rounded to the safe side.

/// How many digits of a computed number are shown.
const DIGITS: usize = 6;

/// A decimal this close (relatively) counts as the number itself: only the last bits differ.
const SAME: f64 = 1e-14;

/// A computed number that must not look smaller than it is: epsilon, delta, sigma.
pub fn up(value: f64) -> String {
    rounded(value, DIGITS, |shown| shown < value * (1.0 - SAME))
}

/// The same with three digits, for sentences.
pub fn up_short(value: f64) -> String {
    rounded(value, 3, |shown| shown < value * (1.0 - SAME))
}

/// A computed number that must not look larger than it is: a lower end, the largest rate.
pub fn down(value: f64) -> String {
    rounded(value, DIGITS, |shown| shown > value * (1.0 + SAME))
}

/// A given number, in all its digits.
pub fn exact(value: f64) -> String {
    scientific(&format!("{value:e}")).unwrap_or_else(|| value.to_string())
}

/// The nearest decimal, or its neighbour if that is on the `wrong` side.
fn rounded(value: f64, digits: usize, wrong: impl Fn(f64) -> bool) -> String {
    let nearest = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = parts(&nearest).filter(|_| value > 0.0) else {
        return exact(value);
    };
    let shown = nearest.parse().unwrap_or(value);
    let (mantissa, exponent) = if !wrong(shown) {
        (mantissa, exponent)
    } else if shown < value {
        (mantissa + 1, exponent)
    } else if nearest.starts_with(&format!("1.{:0<1$}e", "", digits - 1)) {
        // Below a power of ten the digits are finer.
        (10 * mantissa - 1, exponent - 1)
    } else {
        (mantissa - 1, exponent)
    };
    scientific(&format!("{mantissa}e{exponent}")).unwrap_or(nearest)
}

/// `1.25e-3` as (125, -5).
fn parts(text: &str) -> Option<(i64, i32)> {
    let (mantissa, exponent) = text.split_once('e')?;
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent = exponent.parse::<i32>().ok()? - i32::try_from(decimals).ok()?;
    Some((mantissa.replace('.', "").parse().ok()?, exponent))
}

/// `125e-5` as `0.00125`; far from 1 with an exponent, as `1.25e-9`.
fn scientific(text: &str) -> Option<String> {
    let (mantissa, exponent) = parts(text)?;
    let sign = if mantissa < 0 { "-" } else { "" };
    let all = mantissa.unsigned_abs().to_string();
    let digits = all.trim_end_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    // The exponent of the first digit.
    let first = exponent + i32::try_from(all.len()).ok()? - 1;
    let (head, tail) = digits.split_at(1);
    Some(match first {
        -4..0 => format!("{sign}0.{}{digits}", "0".repeat(usize::try_from(-first - 1).ok()?)),
        0..7 => {
            let whole = usize::try_from(first).ok()? + 1;
            let padded = format!("{digits:0<whole$}");
            let (whole, fraction) = padded.split_at(whole);
            let dot = if fraction.is_empty() { "" } else { "." };
            format!("{sign}{whole}{dot}{fraction}")
        }
        _ if tail.is_empty() => format!("{sign}{head}e{first}"),
        _ => format!("{sign}{head}.{tail}e{first}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_numbers_keep_their_digits() {
        for (value, text) in [
            (1e-8, "1e-8"),
            (5.1, "5.1"),
            (0.02, "0.02"),
            (-0.5, "-0.5"),
            (1e6, "1000000"),
            (2.5e7, "2.5e7"),
            (1.25e-9, "1.25e-9"),
            (0.00012, "0.00012"),
            (120.5, "120.5"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(exact(value), text);
        }
    }

    #[test]
    fn computed_numbers_are_rounded_to_the_safe_side() {
        assert_eq!((up(1.000_063_85), down(1.000_063_85)), ("1.00007".into(), "1.00006".into()));
        assert_eq!((up(0.999_999_9), down(0.999_999_9)), ("1".into(), "0.999999".into()));
        assert_eq!((up(1.0), down(1.0)), ("1".into(), "1".into()));
        assert_eq!((up(1.000_000_1), down(1.000_000_1)), ("1.00001".into(), "1".into()));
        assert_eq!((up(1.001_751e-8), up_short(1.835_1)), ("1.00176e-8".into(), "1.84".into()));
        assert_eq!((up(102.288_362), down(0.0)), ("102.289".into(), "0".into()));
        assert_eq!(
            (up(2e-10_f64.next_up()), down(0.3_f64.next_down())),
            ("2e-10".into(), "0.3".into())
        );
        assert_eq!((up(5e-324), up(f64::INFINITY)), ("4.94066e-324".into(), "inf".into()));
        // Never on the wrong side, and never a digit too far.
        for step in 1..2_000_i32 {
            let value = 1.37_f64.powi(step % 150 - 75) * f64::from(step);
            let (low, high): (f64, f64) =
                (down(value).parse().unwrap(), up(value).parse().unwrap());
            assert!(low <= value * (1.0 + SAME) && value * (1.0 - SAME) <= high, "{value}");
            assert!(high - low <= 1.1e-5 * value, "{value}: {low} {high}");
        }
    }
}
