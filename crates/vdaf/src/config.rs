//! The aggregation function and its parameters.
//!
//! The binary form is DAP's `vdaf_type` and `vdaf_configuration` (DAP, section "VDAF
//! Configuration"; Prio3L1BoundSum from its own draft). The readable form is a JSON or TOML table
//! `{"type": "Prio3Histogram", "length": 256}`.
//!
//! A [`VdafConfig`] may hold any numbers; only [`VdafConfig::build`] checks them.

mod integer;
mod serialization;

use std::sync::Arc;

use prio::field::{Field64, Field128, FieldElementWithInteger};
use prio::flp::FlpError;
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::{Count, Histogram, L1BoundSum, MultihotCountVec, Sum, SumVec};
use prio::vdaf::prio3::optimal_chunk_length;

use crate::pine::{self, Parameters, PineField};
use crate::prio3::{Circuit, Prio3Adapter};
use crate::{Instructions, Vdaf};

pub(crate) use integer::integer_from_json;

/// The longest encoded measurement, in field elements, that a task may have.
///
/// It bounds memory and time per report: at the limit a leader share has 4.3 MB, and verifying one
/// report takes 45 ms and about another 20 MB. A histogram of 262,144 buckets, or 16-bit values in
/// 16,384 positions, reaches it.
pub const MAX_ENCODED_LENGTH: u64 = 1 << 18;

/// The most elements that a vector of PINE may have.
///
/// Its reports are large by their purpose, the parameters of a model, so the limit is its own: at
/// 2^20 elements of Field64 a leader share has 8.4 MB. See `docs/decisions/0038-pine.md`.
pub const MAX_DIMENSION: u32 = 1 << 20;

/// A chunk length may be this many times the optimal one.
const MAX_CHUNK_FACTOR: u64 = 4;

/// A VDAF and its parameters.
///
/// `chunk_length` trades proof size against message size. Outside [optimal, 4 x optimal] it makes
/// reports far too expensive (a histogram of 256 buckets with chunk length 2 takes fifty times as
/// long to verify), so the constructors and the readable form compute it, and
/// [`build`](Self::build) rejects other values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VdafConfig {
    /// How many measurements are true.
    Prio3Count,
    /// The sum of integers.
    Prio3Sum {
        /// Largest measurement.
        max_measurement: u64,
    },
    /// The sum of vectors of integers.
    Prio3SumVec {
        /// Elements per vector.
        length: u32,
        /// Largest element.
        max_measurement: u64,
        /// Elements per proof chunk.
        chunk_length: u32,
    },
    /// How many measurements fall into each bucket.
    Prio3Histogram {
        /// Number of buckets.
        length: u32,
        /// Elements per proof chunk.
        chunk_length: u32,
    },
    /// The sum of vectors of booleans, with at most `max_weight` true.
    Prio3MultihotCountVec {
        /// Elements per vector.
        length: u32,
        /// Elements per proof chunk.
        chunk_length: u32,
        /// Largest number of true elements.
        max_weight: u64,
    },
    /// The sum of vectors of integers whose elements add up to at most `max_value`.
    Prio3L1BoundSum {
        /// Elements per vector.
        length: u32,
        /// Largest sum of a vector's elements.
        max_value: u64,
        /// Elements per proof chunk.
        chunk_length: u32,
    },
    /// PINE: the sum of vectors of signed integers whose L2 norm is at most `norm_bound`.
    Pine {
        /// The field of the shares.
        field: PineField,
        /// Elements per vector.
        dimension: u32,
        /// The largest L2 norm. An integer, as the elements are: fractions are scaled beforehand.
        norm_bound: u64,
        /// Elements per chunk of the proof of bits and wraparound checks.
        chunk_length: u32,
        /// Elements per chunk of the proof of the squared norm.
        chunk_length_norm_equality: u32,
    },
}

/// Why a configuration is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not a VDAF that is implemented here.
    #[error("unknown VDAF type 0x{0:08x}")]
    UnknownType(u32),
    /// The configuration bytes do not have the length that the type requires.
    #[error("{name}: a configuration of {actual} bytes, expected {expected}")]
    Length {
        /// Name of the VDAF.
        name: &'static str,
        /// Bytes given.
        actual: usize,
        /// Bytes of this VDAF's configuration.
        expected: usize,
    },
    /// A parameter is outside its range.
    #[error("{name}: {parameter} must be in 1..={max}, not {actual}")]
    Parameter {
        /// Name of the VDAF.
        name: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// Value given.
        actual: u64,
        /// Largest value.
        max: u64,
    },
    /// A measurement would be too long.
    #[error(
        "{name}: a measurement would be encoded in {actual} field elements, more than the limit of \
         {MAX_ENCODED_LENGTH}; use fewer elements or smaller values"
    )]
    TooLong {
        /// Name of the VDAF.
        name: &'static str,
        /// Field elements per measurement.
        actual: u64,
    },
    /// The chunk length would make verification or messages needlessly expensive.
    #[error(
        "{name}: {parameter} {actual} is outside {optimal}..={max}; a smaller one makes \
         verification many times slower, a larger one makes messages longer; leave it out to get \
         {optimal}"
    )]
    ChunkLength {
        /// Name of the VDAF.
        name: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// Value given.
        actual: u32,
        /// The best value, and the smallest accepted.
        optimal: u32,
        /// The largest accepted.
        max: u64,
    },
    /// A client could get an invalid measurement accepted too easily.
    #[error(
        "{name}: an invalid measurement would be accepted with probability 2^-{bits}, more than \
         2^-{least}"
    )]
    Soundness {
        /// Name of the VDAF.
        name: &'static str,
        /// Minus the binary logarithm of that probability, rounded down.
        bits: u32,
        /// The least number of bits that is accepted.
        least: u32,
    },
    /// The implementation rejects parameters that passed the checks above.
    #[error("{0}")]
    Refused(String),
}

impl VdafConfig {
    /// Prio3Count.
    pub fn count() -> Self {
        Self::Prio3Count
    }

    /// Prio3Sum of integers up to `max_measurement`.
    pub fn sum(max_measurement: u64) -> Self {
        Self::Prio3Sum { max_measurement }
    }

    /// Prio3SumVec with the optimal chunk length.
    pub fn sum_vec(length: u32, max_measurement: u64) -> Self {
        Self::Prio3SumVec { length, max_measurement, chunk_length: 0 }.with_optimal_chunk_length()
    }

    /// Prio3Histogram with the optimal chunk length.
    pub fn histogram(length: u32) -> Self {
        Self::Prio3Histogram { length, chunk_length: 0 }.with_optimal_chunk_length()
    }

    /// Prio3MultihotCountVec with the optimal chunk length.
    pub fn multihot_count_vec(length: u32, max_weight: u64) -> Self {
        Self::Prio3MultihotCountVec { length, chunk_length: 0, max_weight }
            .with_optimal_chunk_length()
    }

    /// Prio3L1BoundSum with the optimal chunk length.
    pub fn l1_bound_sum(length: u32, max_value: u64) -> Self {
        Self::Prio3L1BoundSum { length, max_value, chunk_length: 0 }.with_optimal_chunk_length()
    }

    /// PINE over Field64: vectors of `dimension` signed integers of L2 norm up to `norm_bound`
    /// (at most 2^26), with the chunk lengths that make the shortest reports.
    pub fn pine64(dimension: u32, norm_bound: u64) -> Self {
        Self::pine(PineField::Field64, dimension, norm_bound)
    }

    /// As [`pine64`](Self::pine64) over Field128: norms up to 2^63, and reports twice as long.
    pub fn pine128(dimension: u32, norm_bound: u64) -> Self {
        Self::pine(PineField::Field128, dimension, norm_bound)
    }

    fn pine(field: PineField, dimension: u32, norm_bound: u64) -> Self {
        let (chunk_length, chunk_length_norm_equality) =
            pine::optimal_chunk_lengths(dimension.min(MAX_DIMENSION), norm_bound);
        Self::Pine { field, dimension, norm_bound, chunk_length, chunk_length_norm_equality }
    }

    /// Its name in its specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prio3Count => "Prio3Count",
            Self::Prio3Sum { .. } => "Prio3Sum",
            Self::Prio3SumVec { .. } => "Prio3SumVec",
            Self::Prio3Histogram { .. } => "Prio3Histogram",
            Self::Prio3MultihotCountVec { .. } => "Prio3MultihotCountVec",
            Self::Prio3L1BoundSum { .. } => "Prio3L1BoundSum",
            Self::Pine { field, .. } => field.vdaf_name(),
        }
    }

    /// The algorithm identifier: DAP's `vdaf_type`.
    pub fn vdaf_type(&self) -> u32 {
        match self {
            Self::Prio3Count => 1,
            Self::Prio3Sum { .. } => 2,
            Self::Prio3SumVec { .. } => 3,
            Self::Prio3Histogram { .. } => 4,
            Self::Prio3MultihotCountVec { .. } => 5,
            Self::Prio3L1BoundSum { .. } => 7,
            Self::Pine { field, .. } => field.vdaf_type(),
        }
    }

    /// The parameters as bytes: DAP's `vdaf_configuration`.
    pub fn encode_configuration(&self) -> Vec<u8> {
        match *self {
            Self::Prio3Count => Vec::new(),
            Self::Prio3Sum { max_measurement } => max_measurement.to_be_bytes().to_vec(),
            Self::Prio3SumVec { length, max_measurement: max, chunk_length }
            | Self::Prio3L1BoundSum { length, max_value: max, chunk_length } => {
                [&length.to_be_bytes()[..], &max.to_be_bytes(), &chunk_length.to_be_bytes()]
                    .concat()
            }
            Self::Prio3Histogram { length, chunk_length } => {
                [length.to_be_bytes(), chunk_length.to_be_bytes()].concat()
            }
            Self::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
                [&length.to_be_bytes()[..], &chunk_length.to_be_bytes(), &max_weight.to_be_bytes()]
                    .concat()
            }
            Self::Pine {
                field: _,
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => [
                &dimension.to_be_bytes()[..],
                &norm_bound.to_be_bytes(),
                &chunk_length.to_be_bytes(),
                &chunk_length_norm_equality.to_be_bytes(),
            ]
            .concat(),
        }
    }

    /// Reads the output of [`encode_configuration`](Self::encode_configuration).
    pub fn decode(vdaf_type: u32, configuration: &[u8]) -> Result<Self, ConfigError> {
        let (name, expected) = match vdaf_type {
            1 => ("Prio3Count", 0),
            2 => ("Prio3Sum", 8),
            3 => ("Prio3SumVec", 16),
            4 => ("Prio3Histogram", 8),
            5 => ("Prio3MultihotCountVec", 16),
            7 => ("Prio3L1BoundSum", 16),
            _ => match PineField::from_vdaf_type(vdaf_type) {
                Some(field) => (field.vdaf_name(), 20),
                None => return Err(ConfigError::UnknownType(vdaf_type)),
            },
        };
        if configuration.len() != expected {
            return Err(ConfigError::Length { name, actual: configuration.len(), expected });
        }
        let u32_at = |at: usize| be_integer(configuration, at, 4) as u32;
        let u64_at = |at: usize| be_integer(configuration, at, 8);
        Ok(match vdaf_type {
            1 => Self::Prio3Count,
            2 => Self::Prio3Sum { max_measurement: u64_at(0) },
            3 => Self::Prio3SumVec {
                length: u32_at(0),
                max_measurement: u64_at(4),
                chunk_length: u32_at(12),
            },
            4 => Self::Prio3Histogram { length: u32_at(0), chunk_length: u32_at(4) },
            5 => Self::Prio3MultihotCountVec {
                length: u32_at(0),
                chunk_length: u32_at(4),
                max_weight: u64_at(8),
            },
            7 => Self::Prio3L1BoundSum {
                length: u32_at(0),
                max_value: u64_at(4),
                chunk_length: u32_at(12),
            },
            _ => Self::Pine {
                field: PineField::from_vdaf_type(vdaf_type)
                    .ok_or(ConfigError::UnknownType(vdaf_type))?,
                dimension: u32_at(0),
                norm_bound: u64_at(4),
                chunk_length: u32_at(12),
                chunk_length_norm_equality: u32_at(16),
            },
        })
    }

    /// Checks the parameters and creates the aggregation function for two aggregators.
    ///
    /// Rejects parameters of zero, measurements longer than [`MAX_ENCODED_LENGTH`] (PINE:
    /// [`MAX_DIMENSION`]), and chunk lengths outside [optimal, 4 x optimal].
    pub fn build(&self) -> Result<Arc<dyn Vdaf>, ConfigError> {
        self.build_with(Instructions::best())
    }

    /// As [`build`](Self::build), with these instructions of the processor instead of the best
    /// ones: for benchmarks. They change the speed of PINE over Field64, and nothing else.
    pub fn build_with(&self, instructions: Instructions) -> Result<Arc<dyn Vdaf>, ConfigError> {
        self.check_parameters()?;
        self.check_chunk_lengths()?;
        match self.pine_parameters() {
            Some((field, parameters)) => {
                parameters.check_soundness(field)?;
                pine::build(self.clone(), field, parameters, instructions)
            }
            None => self.with_circuit(Adapt(self))?,
        }
    }

    /// The parameters of PINE, if this is PINE, with the checks that tasks use.
    fn pine_parameters(&self) -> Option<(PineField, Parameters)> {
        match *self {
            Self::Pine {
                field,
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            } => Some((
                field,
                Parameters {
                    chunk_length: chunk_length as usize,
                    chunk_length_norm_equality: chunk_length_norm_equality as usize,
                    ..Parameters::new(field, dimension as usize, norm_bound)
                },
            )),
            _ => None,
        }
    }

    /// Checks the parameters, except the chunk length, and creates the circuit.
    pub(crate) fn with_circuit<U: UseCircuit>(&self, user: U) -> Result<U::Output, ConfigError> {
        type Gadget = ParallelSum<Field128, Mul>;
        self.check_parameters()?;
        let refused = |e: FlpError| ConfigError::Refused(e.to_string());
        Ok(match *self {
            Self::Prio3Count => user.use_circuit(Count::<Field64>::new()),
            Self::Prio3Sum { max_measurement } => {
                user.use_circuit(Sum::<Field64>::new(max_measurement).map_err(refused)?)
            }
            Self::Prio3SumVec { length, max_measurement: max, chunk_length } => user.use_circuit(
                SumVec::<_, Gadget>::new(max.into(), length as usize, chunk_length as usize)
                    .map_err(refused)?,
            ),
            Self::Prio3Histogram { length, chunk_length } => user.use_circuit(
                Histogram::<Field128, Gadget>::new(length as usize, chunk_length as usize)
                    .map_err(refused)?,
            ),
            Self::Prio3MultihotCountVec { length, chunk_length, max_weight } => user.use_circuit(
                MultihotCountVec::<Field128, Gadget>::new(
                    length as usize,
                    max_weight as usize,
                    chunk_length as usize,
                )
                .map_err(refused)?,
            ),
            Self::Prio3L1BoundSum { length, max_value: max, chunk_length } => user.use_circuit(
                L1BoundSum::<_, Gadget>::new(max.into(), length as usize, chunk_length as usize)
                    .map_err(refused)?,
            ),
            Self::Pine { .. } => {
                return Err(ConfigError::Refused("PINE has more than one circuit".into()));
            }
        })
    }

    /// Checks everything except the rule on chunk lengths.
    pub(crate) fn check_parameters(&self) -> Result<(), ConfigError> {
        let in_range = |parameter, actual: u64, max: u64| match actual {
            1.. if actual <= max => Ok(()),
            _ => Err(ConfigError::Parameter { name: self.name(), parameter, actual, max }),
        };
        if let Some(length) = self.length() {
            in_range("length", length.into(), MAX_ENCODED_LENGTH)?;
        }
        match *self {
            Self::Prio3Count | Self::Prio3Histogram { .. } => {}
            Self::Prio3Sum { max_measurement } => {
                in_range("max_measurement", max_measurement, Field64::modulus() - 1)?;
            }
            Self::Prio3SumVec { max_measurement, .. } => {
                in_range("max_measurement", max_measurement, u64::MAX)?;
            }
            Self::Prio3MultihotCountVec { max_weight, length, .. } => {
                in_range("max_weight", max_weight, length.into())?;
            }
            Self::Prio3L1BoundSum { max_value, .. } => {
                in_range("max_value", max_value, u64::MAX)?;
            }
            Self::Pine { field, dimension, norm_bound, .. } => {
                in_range("dimension", dimension.into(), MAX_DIMENSION.into())?;
                return in_range("norm_bound", norm_bound, field.max_norm_bound());
            }
        }
        let actual = self.encoded_length();
        if actual > MAX_ENCODED_LENGTH {
            return Err(ConfigError::TooLong { name: self.name(), actual });
        }
        if let Some(chunk_length) = self.chunk_length() {
            in_range("chunk_length", chunk_length.into(), MAX_CHUNK_FACTOR * MAX_ENCODED_LENGTH)?;
        }
        Ok(())
    }

    /// The largest value that one measurement can add to one element of the result.
    pub(crate) fn max_element(&self) -> u64 {
        match *self {
            Self::Prio3Sum { max_measurement } | Self::Prio3SumVec { max_measurement, .. } => {
                max_measurement
            }
            Self::Prio3L1BoundSum { max_value, .. } => max_value,
            Self::Pine { norm_bound, .. } => norm_bound,
            Self::Prio3Count | Self::Prio3Histogram { .. } | Self::Prio3MultihotCountVec { .. } => {
                1
            }
        }
    }

    fn check_chunk_lengths(&self) -> Result<(), ConfigError> {
        let rest = match *self {
            Self::Pine { dimension, norm_bound, chunk_length_norm_equality: actual, .. } => {
                let (_, optimal) = pine::optimal_chunk_lengths(dimension, norm_bound);
                Some(("chunk_length_norm_equality", actual, optimal))
            }
            _ => None,
        };
        let first =
            self.chunk_length().map(|actual| ("chunk_length", actual, self.optimal_chunk_length()));
        for (parameter, actual, optimal) in first.into_iter().chain(rest) {
            let max = MAX_CHUNK_FACTOR * u64::from(optimal);
            if actual < optimal || u64::from(actual) > max {
                let name = self.name();
                return Err(ConfigError::ChunkLength { name, parameter, actual, optimal, max });
            }
        }
        Ok(())
    }

    fn length(&self) -> Option<u32> {
        match *self {
            Self::Prio3Count | Self::Prio3Sum { .. } | Self::Pine { .. } => None,
            Self::Prio3SumVec { length, .. }
            | Self::Prio3Histogram { length, .. }
            | Self::Prio3MultihotCountVec { length, .. }
            | Self::Prio3L1BoundSum { length, .. } => Some(length),
        }
    }

    fn chunk_length(&self) -> Option<u32> {
        match *self {
            Self::Prio3Count | Self::Prio3Sum { .. } => None,
            Self::Prio3SumVec { chunk_length, .. }
            | Self::Prio3Histogram { chunk_length, .. }
            | Self::Prio3MultihotCountVec { chunk_length, .. }
            | Self::Prio3L1BoundSum { chunk_length, .. }
            | Self::Pine { chunk_length, .. } => Some(chunk_length),
        }
    }

    /// Field elements per encoded measurement. (PINE has its own limit, and needs no proof of all.)
    fn encoded_length(&self) -> u64 {
        match *self {
            Self::Prio3Count => 1,
            Self::Prio3Sum { max_measurement } => bits(max_measurement),
            Self::Prio3SumVec { length, max_measurement, .. } => {
                u64::from(length) * bits(max_measurement)
            }
            Self::Prio3Histogram { length, .. } => length.into(),
            Self::Prio3MultihotCountVec { length, max_weight, .. } => {
                u64::from(length) + bits(max_weight)
            }
            Self::Prio3L1BoundSum { length, max_value, .. } => {
                (u64::from(length) + 1) * bits(max_value)
            }
            Self::Pine { dimension, .. } => dimension.into(),
        }
    }

    fn optimal_chunk_length(&self) -> u32 {
        if let Self::Pine { dimension, norm_bound, .. } = *self {
            return pine::optimal_chunk_lengths(dimension, norm_bound).0;
        }
        // Longer measurements are rejected anyway; the bound keeps the arithmetic in range.
        optimal_chunk_length(self.encoded_length().min(MAX_ENCODED_LENGTH) as usize) as u32
    }

    fn with_optimal_chunk_length(mut self) -> Self {
        let optimal = self.optimal_chunk_length();
        if let Some(chunk_length) = self.chunk_length_mut() {
            *chunk_length = optimal;
        }
        self
    }

    fn chunk_length_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Prio3Count | Self::Prio3Sum { .. } => None,
            Self::Prio3SumVec { chunk_length, .. }
            | Self::Prio3Histogram { chunk_length, .. }
            | Self::Prio3MultihotCountVec { chunk_length, .. }
            | Self::Prio3L1BoundSum { chunk_length, .. }
            | Self::Pine { chunk_length, .. } => Some(chunk_length),
        }
    }
}

/// What [`VdafConfig::with_circuit`] does with a circuit of any kind.
pub(crate) trait UseCircuit {
    type Output;
    fn use_circuit<T: Circuit>(self, circuit: T) -> Self::Output;
}

struct Adapt<'a>(&'a VdafConfig);

impl UseCircuit for Adapt<'_> {
    type Output = Result<Arc<dyn Vdaf>, ConfigError>;

    fn use_circuit<T: Circuit>(self, circuit: T) -> Self::Output {
        match Prio3Adapter::new(self.0.clone(), circuit) {
            Ok(adapter) => Ok(Arc::new(adapter)),
            Err(e) => Err(ConfigError::Refused(e.to_string())),
        }
    }
}

/// Bits needed to write `value`.
fn bits(value: u64) -> u64 {
    u64::from(u64::BITS - value.leading_zeros())
}

/// The big-endian integer of `length` bytes at `at`. The caller has checked that it is in range.
fn be_integer(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes.iter().skip(at).take(length).fold(0, |acc, byte| acc << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
