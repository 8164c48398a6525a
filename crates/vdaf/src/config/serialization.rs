//! The readable form of a configuration: `{"type": "Prio3Histogram", "length": 256}`.
//!
//! `chunk_length` may be omitted, which means the optimal one; it is always written. A field that
//! the type does not have is an error, so that a misspelt one does not go unnoticed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{PineField, VdafConfig, integer};

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Readable {
    Prio3Count {},
    Prio3Sum {
        #[serde(with = "integer")]
        max_measurement: u64,
    },
    Prio3SumVec {
        #[serde(with = "integer::u32")]
        length: u32,
        #[serde(with = "integer")]
        max_measurement: u64,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
    },
    Prio3Histogram {
        #[serde(with = "integer::u32")]
        length: u32,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
    },
    Prio3MultihotCountVec {
        #[serde(with = "integer::u32")]
        length: u32,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
        #[serde(with = "integer")]
        max_weight: u64,
    },
    Prio3L1BoundSum {
        #[serde(with = "integer::u32")]
        length: u32,
        #[serde(with = "integer")]
        max_value: u64,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
    },
    Pine64 {
        #[serde(with = "integer::u32")]
        dimension: u32,
        #[serde(with = "integer")]
        norm_bound: u64,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length_norm_equality: Option<u32>,
    },
    Pine128 {
        #[serde(with = "integer::u32")]
        dimension: u32,
        #[serde(with = "integer")]
        norm_bound: u64,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length: Option<u32>,
        #[serde(default, with = "integer::optional_u32")]
        chunk_length_norm_equality: Option<u32>,
    },
}

impl Serialize for VdafConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Readable::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VdafConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Readable::deserialize(deserializer).map(Self::from)
    }
}

impl From<&VdafConfig> for Readable {
    fn from(config: &VdafConfig) -> Self {
        match *config {
            VdafConfig::Prio3Count => Self::Prio3Count {},
            VdafConfig::Prio3Sum { max_measurement } => Self::Prio3Sum { max_measurement },
            VdafConfig::Prio3SumVec { length, max_measurement, chunk_length } => {
                Self::Prio3SumVec { length, max_measurement, chunk_length: Some(chunk_length) }
            }
            VdafConfig::Prio3Histogram { length, chunk_length } => {
                Self::Prio3Histogram { length, chunk_length: Some(chunk_length) }
            }
            VdafConfig::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
                Self::Prio3MultihotCountVec { length, chunk_length: Some(chunk_length), max_weight }
            }
            VdafConfig::Prio3L1BoundSum { length, max_value, chunk_length } => {
                Self::Prio3L1BoundSum { length, max_value, chunk_length: Some(chunk_length) }
            }
            VdafConfig::Pine {
                field: PineField::Field64,
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => Self::Pine64 {
                dimension,
                norm_bound,
                chunk_length: Some(chunk_length),
                chunk_length_norm_equality: Some(chunk_length_norm_equality),
            },
            VdafConfig::Pine {
                field: PineField::Field128,
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => Self::Pine128 {
                dimension,
                norm_bound,
                chunk_length: Some(chunk_length),
                chunk_length_norm_equality: Some(chunk_length_norm_equality),
            },
        }
    }
}

impl From<Readable> for VdafConfig {
    fn from(readable: Readable) -> Self {
        let (mut config, given) = match readable {
            Readable::Prio3Count {} => (Self::count(), None),
            Readable::Prio3Sum { max_measurement } => (Self::sum(max_measurement), None),
            Readable::Prio3SumVec { length, max_measurement, chunk_length } => {
                (Self::sum_vec(length, max_measurement), chunk_length)
            }
            Readable::Prio3Histogram { length, chunk_length } => {
                (Self::histogram(length), chunk_length)
            }
            Readable::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
                (Self::multihot_count_vec(length, max_weight), chunk_length)
            }
            Readable::Prio3L1BoundSum { length, max_value, chunk_length } => {
                (Self::l1_bound_sum(length, max_value), chunk_length)
            }
            Readable::Pine64 {
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => {
                let config = Self::pine64(dimension, norm_bound);
                (config.with_norm_chunk_length(chunk_length_norm_equality), chunk_length)
            }
            Readable::Pine128 {
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => {
                let config = Self::pine128(dimension, norm_bound);
                (config.with_norm_chunk_length(chunk_length_norm_equality), chunk_length)
            }
        };
        if let (Some(given), Some(chunk_length)) = (given, config.chunk_length_mut()) {
            *chunk_length = given;
        }
        config
    }
}

impl VdafConfig {
    /// With the second chunk length of PINE, if one is given.
    fn with_norm_chunk_length(mut self, given: Option<u32>) -> Self {
        if let (Self::Pine { chunk_length_norm_equality, .. }, Some(given)) = (&mut self, given) {
            *chunk_length_norm_equality = given;
        }
        self
    }
}
