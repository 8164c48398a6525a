//! The noise of the aggregators: its kind and parameters in their written form.

use serde::{Deserialize, Serialize};

use super::Randomizer;
use super::check::{range, refuse};
use crate::FormatError;
use crate::limits::{MAX_SIGMA_MICRO, MIN_SIGMA_MICRO};

/// What each aggregator adds to its share of every sum before it releases it. Each adds all of it,
/// since the other one may be dishonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Noise {
    /// A discrete Gaussian.
    ServerGaussian {
        /// Its parameter sigma, in millionths of the unit of the sum, or of the clip of vectors.
        sigma_micro: u64,
    },
}

impl Noise {
    /// The rules of the format: the range of the parameter, and the randomizers it goes with.
    pub(super) fn check(&self, randomizer: &Randomizer) -> Result<(), FormatError> {
        let Self::ServerGaussian { sigma_micro } = self;
        range("noise.sigma_micro", *sigma_micro, MIN_SIGMA_MICRO, MAX_SIGMA_MICRO)?;
        match randomizer {
            Randomizer::None => Ok(()),
            _ => refuse(format!(
                "noise needs randomizer.kind none, not {}: use one of the two",
                randomizer.kind()
            )),
        }
    }
}
