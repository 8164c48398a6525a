//! Integers that may be written as numbers or as decimal strings.
//!
//! The interoperability test API writes all VDAF integers as strings, and people write numbers.
//! JSON readers in other languages lose digits above 2^53, and TOML integers end at 2^63.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

/// Largest integer that every JSON reader keeps exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    if *value <= MAX_SAFE_INTEGER {
        serializer.serialize_u64(*value)
    } else {
        serializer.collect_str(value)
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(IntegerVisitor)
}

/// As `deserialize`, for a JSON value.
pub(crate) fn integer_from_json(value: &serde_json::Value) -> Option<u64> {
    deserialize(value).ok()
}

/// For 32-bit fields.
pub(super) mod u32 {
    use super::{Deserializer, Error, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*value)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
        super::deserialize(d)?.try_into().map_err(|_| D::Error::custom("must be below 2^32"))
    }
}

/// For 32-bit fields that may be absent.
pub(super) mod optional_u32 {
    use super::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_u32(*value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
        super::u32::deserialize(d).map(Some)
    }
}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a non-negative integer below 2^64, as a number or a decimal string")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        value.try_into().map_err(|_| E::custom("must not be negative"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u64, E> {
        // `parse` would also accept a sign.
        if !value.bytes().all(|b| b.is_ascii_digit()) {
            return Err(E::custom("must be a decimal integer"));
        }
        value.parse().map_err(|_| E::custom("must be a decimal integer below 2^64"))
    }
}
