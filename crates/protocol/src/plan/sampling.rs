//! Which rates are tried.

use sotto_dp::crowd::safe_min_batch;
use sotto_wire::recipe::{Probability, Query, Sampling};

use super::{Protection, Wish};
use crate::recipe::windows::{least_share, sending_rate};

/// How often the rate is halved at most.
const HALVINGS: u32 = 8;

/// With importance sampling, how many times as likely as the default value others answer.
const RATIOS: [u64; 2] = [4, 16];

/// How many devices may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The probabilities, if they are not to be chosen.
    pub fixed: Option<Sampling>,
    /// The most answers that are expected.
    pub most_reports: u64,
    /// The largest probability of an answer that devices accept.
    pub most_rate: Probability,
    /// Dummies and cover of what is chosen.
    pub others: Sampling,
}

impl Traffic {
    /// What is tried: the largest rates first, each half of the one before. Several of about the same
    /// cost stand together.
    pub(super) fn samplings(&self, wish: &Wish<'_>, protection: Protection) -> Vec<Vec<Sampling>> {
        if let Some(fixed) = self.fixed {
            return vec![vec![fixed]];
        }
        let halved = |halvings: u32| {
            let reports = self.most_reports >> halvings;
            let mut found: Vec<Sampling> = self.single(wish.devices, reports).into_iter().collect();
            if halvings > 0 && self.single(wish.devices, 2 * reports) == found.first().copied() {
                // More than all cannot answer.
                return None;
            }
            // The count then says something about values, and only certified devices hide it.
            let known = wish.certified.is_some();
            let sparse = matches!(wish.recipe.query, Query::SparseHistogram { .. });
            let weighted = matches!(protection, Protection::Rappor | Protection::ServerGaussian);
            if sparse && known && weighted {
                found.extend(RATIOS.iter().filter_map(|ratio| self.two(wish, reports, *ratio)));
            }
            found.retain(|sampling| wish.batch(sampling).is_some());
            (!found.is_empty()).then_some(found)
        };
        (0..HALVINGS).filter_map(halved).collect()
    }

    /// One rate for about so many answers. It is one over a whole number, or in hundredths: people
    /// read it.
    fn single(&self, devices: u64, reports: u64) -> Option<Sampling> {
        let rate = readable(devices, reports)?.min(self.most_rate);
        Some(Sampling { rate, default_rate: None, ..self.others })
    }

    /// Two rates for about so many answers.
    fn two(&self, wish: &Wish<'_>, reports: u64, ratio: u64) -> Option<Sampling> {
        let weight = wish.answers.defaults + (1.0 - wish.answers.defaults) * ratio as f64;
        let least = readable(wish.devices, (reports as f64 / weight) as u64)?;
        let most = Probability::reduced(least.num().checked_mul(ratio)?, least.den()).ok()?;
        let rate = most.min(self.most_rate);
        (rate > least).then_some(Sampling { rate, default_rate: Some(least), ..self.others })
    }
}

/// About `reports` of `devices`, not more.
fn readable(devices: u64, reports: u64) -> Option<Probability> {
    if reports == 0 || devices == 0 {
        return None;
    }
    if reports >= devices {
        return Some(Probability::ONE);
    }
    let den = devices.div_ceil(reports);
    if den <= 5 && !devices.is_multiple_of(reports) {
        let hundredths = u128::from(reports) * 100 / u128::from(devices);
        return Probability::reduced(u64::try_from(hundredths).ok()?, 100).ok();
    }
    Probability::new(1, den).ok()
}

impl Wish<'_> {
    /// The minimum batch that is reached almost surely, or the one that is wanted; `None` if devices
    /// do not accept so small a one.
    pub(super) fn batch(&self, sampling: &Sampling) -> Option<u64> {
        let asked = self.certified.map_or(self.devices, |some| some.min(self.devices));
        let rate = sending_rate(sampling, sampling.least_rate());
        let expected = asked as f64 * rate * least_share(&self.recipe.answer_times());
        let batch = self.min_batch.unwrap_or_else(|| safe_min_batch(expected));
        (batch >= self.least_batch).then_some(batch)
    }
}
