//! The accountant's only error type: which parameter is wrong, and what would be right.

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter is out of range (NaN and infinities are out of every range).
    #[error("{name} is {value}: it must be {range}")]
    OutOfRange {
        /// The parameter, as events and flags spell it.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What would be accepted.
        range: &'static str,
    },
    /// No theorem that we know of covers this event under this adjacency.
    #[error("no accounting for {what}: {hint}")]
    Unsupported {
        /// What was requested.
        what: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The mechanism does not answer queries of this kind.
    #[error("{mechanism} answers {queries} only")]
    NotAnswered {
        /// What it is called.
        mechanism: &'static str,
        /// What it does answer.
        queries: &'static str,
    },
    /// No value of the calibrated parameter meets the target.
    #[error("no {name} meets the target: {hint}")]
    Unreachable {
        /// The parameter that was to be found.
        name: &'static str,
        /// Why not.
        hint: &'static str,
    },
}

/// A parameter that must be finite and above zero.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, Error> {
    in_range(name, value, value > 0.0 && value.is_finite(), "a finite number above 0")
}

/// A parameter that must be finite and not negative.
pub(crate) fn non_negative(name: &'static str, value: f64) -> Result<f64, Error> {
    in_range(name, value, value >= 0.0 && value.is_finite(), "a finite number, 0 or more")
}

/// A probability that may be 0 or 1: a sampling rate.
pub(crate) fn rate(name: &'static str, value: f64) -> Result<f64, Error> {
    in_range(name, value, (0.0..=1.0).contains(&value), "between 0 and 1")
}

/// A target delta: above 0, below 1.
pub(crate) fn delta(value: f64) -> Result<f64, Error> {
    in_range("delta", value, value > 0.0 && value < 1.0, "above 0 and below 1")
}

/// A count that must be at least one.
pub(crate) fn at_least_one(name: &'static str, value: u64) -> Result<u64, Error> {
    in_range(name, value as f64, value >= 1, "a whole number, 1 or more").map(|_| value)
}

/// The order of a Rényi divergence: a finite number above 1.
pub(crate) fn order(value: f64) -> Result<f64, Error> {
    in_range("order", value, value > 1.0 && value.is_finite(), "a finite number above 1")
}

/// The number of symbols of k-ary randomized response.
pub(crate) fn symbols(k: u64) -> Result<f64, Error> {
    in_range("k", k as f64, k >= 2, "a whole number, 2 or more")
}

/// The value, if the condition `holds` for it.
pub(crate) fn in_range(
    name: &'static str,
    value: f64,
    holds: bool,
    range: &'static str,
) -> Result<f64, Error> {
    if holds { Ok(value) } else { Err(Error::OutOfRange { name, value, range }) }
}

/// The error for an event without accounting.
pub(crate) const fn unsupported(what: &'static str, hint: &'static str) -> Error {
    Error::Unsupported { what, hint }
}

/// A count that must not exceed `most`, which is 2^40.
pub(crate) fn at_most(name: &'static str, value: u64, most: u64) -> Result<u64, Error> {
    in_range(name, value as f64, value <= most, "at most 2^40 (about 1e12)").map(|_| value)
}
