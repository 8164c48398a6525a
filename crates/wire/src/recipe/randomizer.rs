//! The randomizer of a recipe: its kind and parameters in their written form. Their meaning is in
//! `sotto_dp::mechanism`, where each kind has a file.

use serde::{Deserialize, Serialize};

use super::Query;
use super::check::{at_least_one, range, refuse};
use crate::FormatError;
use crate::limits::MAX_SIGMA_MICRO;

/// What the device does to its measurement before sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Randomizer {
    /// Nothing: the measurement is exact.
    None,
    /// One of k values, where the true one has the largest probability.
    RandomizedResponse {
        /// The local epsilon under replacement, in millionths.
        epsilon_micro: u64,
    },
    /// Each bit of a vector flipped with the same probability.
    Rappor {
        /// The local epsilon under deletion, in millionths.
        epsilon_micro: u64,
    },
    /// A point of a projective space, likelier one that belongs to the value.
    ProjectiveGeometry {
        /// The local epsilon under deletion, in millionths.
        epsilon_micro: u64,
    },
    /// Discrete Gaussian noise in each coordinate, of which each device of a batch adds its part.
    Gaussian {
        /// The standard deviation of the noise of the smallest batch together, in millionths of the
        /// clip.
        sigma_micro: u64,
    },
}

impl Randomizer {
    /// The field `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RandomizedResponse { .. } => "randomized_response",
            Self::Rappor { .. } => "rappor",
            Self::ProjectiveGeometry { .. } => "projective_geometry",
            Self::Gaussian { .. } => "gaussian",
        }
    }

    /// The kinds of queries that it answers; empty if it answers all.
    pub fn queries(&self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::RandomizedResponse { .. } => &["histogram", "quantiles", "nearest"],
            Self::Rappor { .. } => {
                &["histogram", "quantiles", "sparse_histogram", "multi_histogram", "nearest"]
            }
            Self::ProjectiveGeometry { .. } => {
                &["histogram", "quantiles", "sparse_histogram", "nearest"]
            }
            Self::Gaussian { .. } => &["vector_sum", "vector_mean", "histogram", "nearest"],
        }
    }

    /// The rules of the format: the ranges of the parameters, and the queries that they apply to.
    pub fn check(&self, query: &Query) -> Result<(), FormatError> {
        match self {
            Self::None => return Ok(()),
            Self::RandomizedResponse { epsilon_micro }
            | Self::Rappor { epsilon_micro }
            | Self::ProjectiveGeometry { epsilon_micro } => {
                at_least_one("randomizer.epsilon_micro", *epsilon_micro)?;
            }
            Self::Gaussian { sigma_micro } => {
                range("randomizer.sigma_micro", *sigma_micro, 1, MAX_SIGMA_MICRO)?;
            }
        }
        if self.queries().contains(&query.kind()) {
            return Ok(());
        }
        let (last, others) = self.queries().split_last().unwrap_or((&"", &[]));
        let queries = match others {
            [] => (*last).to_owned(),
            _ => format!("{} or {last}", others.join(", ")),
        };
        refuse(format!(
            "randomizer.kind {} needs query.kind {queries}, not {}",
            self.kind(),
            query.kind()
        ))
    }
}
