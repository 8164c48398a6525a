//! The randomizer of a recipe: its kind and parameters in their written form. Their meaning is in
//! `sotto_dp::mechanism`, where each kind has a file.

use serde::{Deserialize, Serialize};

use super::Query;
use super::check::at_least_one;
use crate::FormatError;

/// What the device does to its measurement before sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Randomizer {
    /// Nothing: the measurement is exact.
    None,
    /// One of k values, where the true one has the largest probability.
    RandomizedResponse {
        /// The local epsilon, in millionths.
        epsilon_micro: u64,
    },
}

impl Randomizer {
    /// The field `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RandomizedResponse { .. } => "randomized_response",
        }
    }

    /// The rules of the format: the ranges of the parameters, and the queries that they apply to.
    pub fn check(&self, query: &Query) -> Result<(), FormatError> {
        match self {
            Self::None => Ok(()),
            Self::RandomizedResponse { epsilon_micro } => {
                at_least_one("randomizer.epsilon_micro", *epsilon_micro)?;
                match query {
                    Query::Histogram { .. } => Ok(()),
                    Query::Count { .. } | Query::Sum { .. } => Err(FormatError::new(format!(
                        "randomizer.kind {} needs query.kind histogram",
                        self.kind()
                    ))),
                }
            }
        }
    }
}
