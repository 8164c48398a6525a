//! Floating-point numbers as text of their bits: 16 hexadecimal digits for each. For `serde(with)`.

use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Hexadecimal digits of a number.
const DIGITS: usize = 16;

/// Writes the numbers.
pub fn serialize<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(numbers.len() * DIGITS);
    for number in numbers {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{:0DIGITS$x}", number.to_bits());
    }
    serializer.serialize_str(&text)
}

/// Reads the numbers. Those that are not finite are refused.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let (numbers, rest) = text.as_bytes().as_chunks::<DIGITS>();
    if !rest.is_empty() {
        return Err(D::Error::custom("a number has 16 hexadecimal digits"));
    }
    numbers
        .iter()
        .map(|digits| number(digits).ok_or_else(|| D::Error::custom("not a finite number")))
        .collect()
}

fn number(digits: &[u8]) -> Option<f64> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let bits = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(f64::from_bits(bits)).filter(|number| number.is_finite())
}
