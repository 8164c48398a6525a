//! Measurements and results, in plain numbers.

use std::fmt;

use serde_json::Value;

use crate::VdafConfig;
use crate::config::integer_from_json;
use crate::pine::squared_norm;

/// One client's measurement.
#[derive(Clone, PartialEq, Eq)]
pub enum Measurement {
    /// For Prio3Count.
    Count(bool),
    /// For Prio3Sum.
    Sum(u64),
    /// For Prio3SumVec.
    SumVec(Vec<u64>),
    /// For Prio3Histogram: the index of the bucket.
    Histogram(u32),
    /// For Prio3MultihotCountVec.
    MultihotCountVec(Vec<bool>),
    /// For Prio3L1BoundSum.
    L1BoundSum(Vec<u64>),
    /// For PINE. Fractions are scaled, clipped and noised by the caller.
    Vector(Vec<i64>),
}

/// What the collector learns. Noise that the aggregators have added may make a number negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregateResult {
    /// For Prio3Count and Prio3Sum.
    Scalar(i128),
    /// For all others: one sum per element.
    Vector(Vec<i128>),
}

/// Why a measurement does not fit a configuration. Does not quote the measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasurementError {
    /// A measurement for another VDAF, or not a measurement at all.
    #[error("not a measurement for {name}: expected {expected}")]
    Kind {
        /// Name of the VDAF.
        name: &'static str,
        /// What it expects.
        expected: &'static str,
    },
    /// A vector of the wrong length.
    #[error("a vector of {actual} elements, expected {expected}")]
    Length {
        /// Elements given.
        actual: usize,
        /// Elements of the VDAF's measurements.
        expected: usize,
    },
    /// A value, a sum of values or a norm is too large.
    #[error("{what} exceeds {max}")]
    TooLarge {
        /// Which quantity.
        what: &'static str,
        /// Its largest value.
        max: u64,
    },
}

impl Measurement {
    /// Reads a measurement for `config` from JSON and checks it. Integers and booleans may be
    /// numbers or strings, as the interoperability test API writes them.
    pub fn parse(config: &VdafConfig, value: &Value) -> Result<Self, MeasurementError> {
        let parsed = match config {
            VdafConfig::Prio3Count => boolean(value).map(Self::Count),
            VdafConfig::Prio3Sum { .. } => integer_from_json(value).map(Self::Sum),
            VdafConfig::Prio3SumVec { .. } => vector(value, integer_from_json).map(Self::SumVec),
            VdafConfig::Prio3Histogram { .. } => integer_from_json(value)
                // An index of 2^32 or more is also out of range.
                .map(|index| Self::Histogram(index.try_into().unwrap_or(u32::MAX))),
            VdafConfig::Prio3MultihotCountVec { .. } => {
                vector(value, boolean).map(Self::MultihotCountVec)
            }
            VdafConfig::Prio3L1BoundSum { .. } => {
                vector(value, integer_from_json).map(Self::L1BoundSum)
            }
            VdafConfig::Pine { .. } => vector(value, signed_integer).map(Self::Vector),
        };
        let measurement = parsed.ok_or_else(|| kind_error(config))?;
        measurement.check(config)?;
        Ok(measurement)
    }

    /// Checks that this is a valid measurement for `config`.
    pub fn check(&self, config: &VdafConfig) -> Result<(), MeasurementError> {
        match (config, self) {
            (VdafConfig::Prio3Count, Self::Count(_)) => Ok(()),
            (VdafConfig::Prio3Sum { max_measurement }, Self::Sum(value)) => {
                at_most("the measurement", *value, *max_measurement)
            }
            (VdafConfig::Prio3SumVec { length, max_measurement, .. }, Self::SumVec(values)) => {
                check_length(values.len(), *length)?;
                let largest = values.iter().copied().max().unwrap_or(0);
                at_most("an element", largest, *max_measurement)
            }
            (VdafConfig::Prio3Histogram { length, .. }, Self::Histogram(index)) => {
                at_most("the bucket index", (*index).into(), u64::from(*length).saturating_sub(1))
            }
            (
                VdafConfig::Prio3MultihotCountVec { length, max_weight, .. },
                Self::MultihotCountVec(values),
            ) => {
                check_length(values.len(), *length)?;
                let weight = values.iter().filter(|value| **value).count() as u64;
                at_most("the number of true elements", weight, *max_weight)
            }
            (VdafConfig::Prio3L1BoundSum { length, max_value, .. }, Self::L1BoundSum(values)) => {
                check_length(values.len(), *length)?;
                let sum = values.iter().fold(0u64, |sum, value| sum.saturating_add(*value));
                at_most("the sum of the elements", sum, *max_value)
            }
            (VdafConfig::Pine { dimension, norm_bound, .. }, Self::Vector(values)) => {
                check_length(values.len(), *dimension)?;
                let within = squared_norm(values)
                    .is_some_and(|norm| norm <= u128::from(*norm_bound) * u128::from(*norm_bound));
                let error = MeasurementError::TooLarge { what: "the L2 norm", max: *norm_bound };
                if within { Ok(()) } else { Err(error) }
            }
            _ => Err(kind_error(config)),
        }
    }
}

impl fmt::Debug for Measurement {
    /// Names only the kind: the value is what everything else here keeps secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count(_) => "Count(..)",
            Self::Sum(_) => "Sum(..)",
            Self::SumVec(_) => "SumVec(..)",
            Self::Histogram(_) => "Histogram(..)",
            Self::MultihotCountVec(_) => "MultihotCountVec(..)",
            Self::L1BoundSum(_) => "L1BoundSum(..)",
            Self::Vector(_) => "Vector(..)",
        })
    }
}

impl AggregateResult {
    /// The elements; a scalar has one.
    pub fn as_slice(&self) -> &[i128] {
        match self {
            Self::Scalar(value) => std::slice::from_ref(value),
            Self::Vector(values) => values,
        }
    }

    /// As JSON, with integers as numbers; those that JSON cannot hold exactly become strings.
    pub fn to_json(&self) -> Value {
        self.map_json(|value| match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => Value::from(value),
            (_, Ok(value)) => Value::from(value),
            _ => Value::from(value.to_string()),
        })
    }

    /// What [`Self::to_json`] wrote.
    pub fn from_json(value: &Value) -> Option<Self> {
        let integer = |value: &Value| match value {
            Value::String(text) => {
                text.parse().ok().filter(|value: &i128| value.to_string() == *text)
            }
            value => value.as_u64().map(i128::from).or(value.as_i64().map(i128::from)),
        };
        match value {
            Value::Array(_) => vector(value, integer).map(Self::Vector),
            value => integer(value).map(Self::Scalar),
        }
    }

    /// As JSON, with integers as decimal strings, as the interoperability test API expects.
    pub fn to_json_strings(&self) -> Value {
        self.map_json(|value| Value::from(value.to_string()))
    }

    fn map_json(&self, integer: impl Fn(i128) -> Value) -> Value {
        match self {
            Self::Scalar(value) => integer(*value),
            Self::Vector(values) => values.iter().map(|value| integer(*value)).collect(),
        }
    }
}

fn kind_error(config: &VdafConfig) -> MeasurementError {
    let expected = match config {
        VdafConfig::Prio3Count => "true, false, 1 or 0",
        VdafConfig::Prio3Sum { .. } => "an integer",
        VdafConfig::Prio3SumVec { .. } | VdafConfig::Prio3L1BoundSum { .. } => {
            "a vector of integers"
        }
        VdafConfig::Prio3Histogram { .. } => "the index of a bucket",
        VdafConfig::Prio3MultihotCountVec { .. } => "a vector of booleans",
        VdafConfig::Pine { .. } => "a vector of signed integers",
    };
    MeasurementError::Kind { name: config.name(), expected }
}

fn check_length(actual: usize, expected: u32) -> Result<(), MeasurementError> {
    let expected = expected as usize;
    if actual == expected { Ok(()) } else { Err(MeasurementError::Length { actual, expected }) }
}

fn at_most(what: &'static str, value: u64, max: u64) -> Result<(), MeasurementError> {
    if value <= max { Ok(()) } else { Err(MeasurementError::TooLarge { what, max }) }
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) if text == "true" => Some(true),
        Value::String(text) if text == "false" => Some(false),
        _ => match integer_from_json(value)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    }
}

/// An integer that may be negative, as a number or a decimal string.
fn signed_integer(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok().filter(|value: &i64| value.to_string() == *text),
        value => value.as_i64(),
    }
}

fn vector<T>(value: &Value, element: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(element).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_strings_are_read() {
        let read = |config: VdafConfig, value| Measurement::parse(&config, &value).unwrap();
        for value in [json!(true), json!(1), json!("1"), json!("true")] {
            assert_eq!(read(VdafConfig::count(), value), Measurement::Count(true));
        }
        for value in [json!(false), json!(0), json!("0"), json!("false")] {
            assert_eq!(read(VdafConfig::count(), value), Measurement::Count(false));
        }
        assert_eq!(read(VdafConfig::sum(9), json!("7")), Measurement::Sum(7));
        let vector = Measurement::SumVec(vec![1, 2]);
        assert_eq!(read(VdafConfig::sum_vec(2, 3), json!([1, "2"])), vector);
        assert_eq!(read(VdafConfig::histogram(9), json!(8)), Measurement::Histogram(8));
        let vector = Measurement::MultihotCountVec(vec![true, false]);
        assert_eq!(read(VdafConfig::multihot_count_vec(2, 1), json!([true, "0"])), vector);
        let vector = Measurement::L1BoundSum(vec![1, 2]);
        assert_eq!(read(VdafConfig::l1_bound_sum(2, 3), json!(["1", 2])), vector);
    }

    #[test]
    fn what_does_not_fit_is_refused_without_repeating_it() {
        for (config, value) in [
            (VdafConfig::count(), json!(2)),
            (VdafConfig::count(), json!(null)),
            (VdafConfig::sum(9), json!(10)),
            (VdafConfig::sum(9), json!(-1)),
            (VdafConfig::sum(9), json!(1.5)),
            (VdafConfig::sum(9), json!([1])),
            (VdafConfig::sum_vec(2, 3), json!([1])),
            (VdafConfig::sum_vec(2, 3), json!([1, 41])),
            (VdafConfig::sum_vec(2, 3), json!([1, null])),
            (VdafConfig::histogram(9), json!(9)),
            (VdafConfig::histogram(9), json!(4_294_967_296u64)),
            (VdafConfig::multihot_count_vec(2, 1), json!([true, true])),
            (VdafConfig::l1_bound_sum(2, 3), json!([2, 2])),
        ] {
            let error = Measurement::parse(&config, &value).unwrap_err().to_string();
            assert!(!error.contains("41"), "{error}");
        }
        assert_eq!(format!("{:?}", Measurement::Sum(41)), "Sum(..)");
    }

    #[test]
    fn results_as_json() {
        let large = 1i128 << 70;
        assert_eq!(AggregateResult::Scalar(3).to_json(), json!(3));
        assert_eq!(AggregateResult::Scalar(3).to_json_strings(), json!("3"));
        let vector = AggregateResult::Vector(vec![1, large]);
        assert_eq!(vector.to_json(), json!([1, "1180591620717411303424"]));
        assert_eq!(vector.to_json_strings(), json!(["1", "1180591620717411303424"]));
        let negative = AggregateResult::Vector(vec![u64::MAX.into(), -3, -large]);
        assert_eq!(negative.to_json(), json!([u64::MAX, -3, "-1180591620717411303424"]));
        assert_eq!(negative.to_json_strings()[1], json!("-3"));
        for result in [vector, negative, AggregateResult::Scalar(3), AggregateResult::Scalar(large)]
        {
            assert_eq!(AggregateResult::from_json(&result.to_json()), Some(result));
        }
        for other in [json!(1.5), json!("+3"), json!("x"), json!({}), json!([[1]])] {
            assert_eq!(AggregateResult::from_json(&other), None, "{other}");
        }
    }
}
