//! Who takes part: the probabilities with which devices answer, send dummies and send cover.

use serde::{Deserialize, Serialize};

use super::check::refuse;
use super::{Probability, Query, Randomizer};
use crate::FormatError;

/// How many devices answer.
///
/// The format has either one `rate`, or `default_rate` and `other_rate` (importance sampling).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Sampling {
    /// The probability with which each device answers; with importance sampling, each device that
    /// does not have the default value. It is the largest probability with which any device
    /// answers.
    pub rate: Probability,
    /// Importance sampling: the probability with which a device with the default value answers, at
    /// most `rate`.
    pub default_rate: Option<Probability>,
    /// The probability with which a device that does not answer sends a dummy: a report that says
    /// nothing, randomized like the others.
    pub dummy_rate: Probability,
    /// The probability with which a device that sends neither sends cover: a request that nobody
    /// but the leader's gateway can tell from an answer.
    pub cover: Probability,
}

impl Sampling {
    /// Answers with this probability, no dummies and full cover.
    pub fn new(rate: Probability) -> Self {
        Self { rate, default_rate: None, dummy_rate: Probability::ZERO, cover: Probability::ONE }
    }

    /// The probability with which a device with the default value answers. It is the smallest
    /// probability with which any device answers.
    pub fn least_rate(&self) -> Probability {
        self.default_rate.unwrap_or(self.rate)
    }

    /// The name of the field that holds `rate`.
    pub fn rate_field(&self) -> &'static str {
        if self.default_rate.is_some() { "sampling.other_rate" } else { "sampling.rate" }
    }

    /// The rules of the format, the queries and the randomizers that it goes with included.
    pub fn check(&self, query: &Query, randomizer: &Randomizer) -> Result<(), FormatError> {
        if self.rate.is_zero() {
            return refuse(format!("{} must be above 0", self.rate_field()));
        }
        if let Some(default_rate) = self.default_rate {
            if default_rate.is_zero() {
                return refuse("sampling.default_rate must be above 0");
            }
            if default_rate > self.rate {
                return refuse("sampling.default_rate must be at most sampling.other_rate");
            }
            if !matches!(query, Query::SparseHistogram { .. }) {
                return refuse(
                    "sampling.default_rate needs query.kind sparse_histogram, which has a default",
                );
            }
        }
        match randomizer {
            Randomizer::None | Randomizer::Rappor { .. } | Randomizer::Gaussian { .. } => Ok(()),
            _ if self.dummy_rate.is_zero() => Ok(()),
            _ => refuse(format!(
                "sampling.dummy_rate must be 0 with randomizer.kind {}, whose every report names a \
                 value: use rappor, or none with [noise] (--sigma)",
                randomizer.kind()
            )),
        }
    }
}

/// The group as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<Probability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_rate: Option<Probability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_rate: Option<Probability>,
    #[serde(default = "Probability::zero", skip_serializing_if = "Probability::is_never")]
    dummy_rate: Probability,
    #[serde(default = "Probability::one", skip_serializing_if = "Probability::is_always")]
    cover: Probability,
}

impl TryFrom<Written> for Sampling {
    type Error = FormatError;

    fn try_from(written: Written) -> Result<Self, FormatError> {
        let Written { rate, default_rate, other_rate, dummy_rate, cover } = written;
        let (rate, default_rate) = match (rate, default_rate, other_rate) {
            (Some(rate), None, None) => (rate, None),
            (None, Some(default_rate), Some(other_rate)) => (other_rate, Some(default_rate)),
            _ => {
                return refuse("sampling needs rate, or default_rate and other_rate, and not both");
            }
        };
        Ok(Self { rate, default_rate, dummy_rate, cover })
    }
}

impl From<Sampling> for Written {
    fn from(sampling: Sampling) -> Self {
        let Sampling { rate, default_rate, dummy_rate, cover } = sampling;
        let (rate, other_rate) = match default_rate {
            None => (Some(rate), None),
            Some(_) => (None, Some(rate)),
        };
        Self { rate, default_rate, other_rate, dummy_rate, cover }
    }
}
