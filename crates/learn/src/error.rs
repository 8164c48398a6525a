//! The crate's only error type.

/// Why a setting, a data set or a model was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting is out of range (NaN and infinities are out of every range).
    #[error("{name} is {value}: it must be {range}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What would be accepted.
        range: &'static str,
    },
    /// Something has another length than what it belongs to.
    #[error("{name}: {found} where {expected} are needed")]
    Length {
        /// What it is.
        name: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Bytes or a text that are not what they should be.
    #[error("not {format}: {reason}")]
    Malformed {
        /// What they should be.
        format: &'static str,
        /// Why they are not.
        reason: &'static str,
    },
    /// A parameter of the mechanism is wrong.
    #[error(transparent)]
    Mechanism(#[from] sotto_dp::Error),
}

/// A setting that must be finite and above zero.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, Error> {
    in_range(name, value, value > 0.0 && value.is_finite(), "a finite number above 0")
}

/// A setting that must be from 0 to below 1.
pub(crate) fn below_one(name: &'static str, value: f64) -> Result<f64, Error> {
    in_range(name, value, (0.0..1.0).contains(&value), "from 0 to below 1")
}

pub(crate) fn in_range(
    name: &'static str,
    value: f64,
    holds: bool,
    range: &'static str,
) -> Result<f64, Error> {
    if holds { Ok(value) } else { Err(Error::OutOfRange { name, value, range }) }
}

pub(crate) fn length(name: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, expected }) }
}
