//! How a new recipe protects answers: a randomizer on the device, or noise of the aggregators, and
//! the claim.

use anyhow::{Result, anyhow, ensure};
use sotto_dp::published;
use sotto_protocol::recipe::{judgement_to_claim, show_micro as show, suggested_randomizer};
use sotto_wire::limits::{MAX_SIGMA_MICRO, MIN_SIGMA_MICRO};
use sotto_wire::recipe::{
    Accountant, Adjacency, Noise, Privacy, Query, Randomizer, parse_epsilon, parse_probability,
};
use sotto_wire::{Recipe, RecipeDraft};

use super::{Inquiry, Neighbours, NewArgs, RandomizerName};
use crate::output::WithHint;
use crate::recipe_file;

/// A randomizer's epsilon is searched in steps of 0.01, up to 8: above, it protects nobody.
const HUNDREDTH_MICRO: u64 = 10_000;
const MOST_HUNDREDTHS: u64 = 800;

/// What protects answers. The claim has not been computed yet.
pub(super) struct Protection {
    pub(super) randomizer: Randomizer,
    pub(super) noise: Option<Noise>,
    pub(super) privacy: Privacy,
}

impl NewArgs {
    /// A randomizer where there is one for the query, and noise of the aggregators elsewhere, or if
    /// the author wants it.
    pub(super) fn privacy(&self, query: &Query, ask: &mut Inquiry<'_>) -> Result<Protection> {
        if self.insecure_exact {
            let privacy = Privacy::InsecureUnbounded;
            return Ok(Protection { randomizer: Randomizer::None, noise: None, privacy });
        }
        let presence = self.adjacency == Neighbours::AddRemove;
        let brings_noise = self.device_sigma.is_some() || query.vectors().is_some();
        let randomizes = suggested_randomizer(query, 1).is_some();
        if presence && self.sigma.is_none() && randomizes && !brings_noise {
            return Err(anyhow!("--adjacency add-remove needs noise of the aggregators")).hint(
                "give --sigma, and the certified audience: --predicate, --certified, --audience",
            );
        }
        let on_device = self.randomizer.is_some() || brings_noise || randomizes;
        let with_noise = self.sigma.is_some() || !on_device;
        let (randomizer, noise) = match with_noise {
            true => (Randomizer::None, Some(self.noise(ask)?)),
            false => (self.randomizer(query, ask)?, None),
        };
        let question = "Delta of the claim";
        let delta =
            ask.value("--delta", question, self.delta.as_deref(), Some("1e-9"), |text| {
                let delta = parse_probability(text).map_err(|reason| anyhow!(reason))?;
                ensure!(!delta.is_zero() && !delta.is_one(), "it must be above 0 and below 1");
                Ok(delta)
            })?;
        let privacy = Privacy::Claim {
            epsilon_micro: 1,
            delta,
            adjacency: match self.adjacency {
                Neighbours::Replace => Adjacency::Replace,
                Neighbours::AddRemove => Adjacency::AddRemove,
            },
            accountant: Accountant::Best,
            rounds: 1,
        };
        Ok(Protection { randomizer, noise, privacy })
    }

    fn randomizer(&self, query: &Query, ask: &mut Inquiry<'_>) -> Result<Randomizer> {
        if self.device_sigma.is_some() || query.vectors().is_some() {
            return self.device_noise(query, ask);
        }
        let question = "Epsilon of the randomizer on the device";
        // With --epsilon it is computed once everything else is known.
        let given = self.epsilon0.as_deref().or(self.epsilon.as_ref().map(|_| "4"));
        let epsilon0 = ask.value("--epsilon0", question, given, Some("4"), |text| {
            let micro = parse_epsilon(text).map_err(|reason| anyhow!(reason))?;
            ensure!(micro > 0, "it must be above 0");
            Ok(micro)
        })?;
        chosen(self.randomizer, query, epsilon0)
            .ok_or_else(|| anyhow!("this --randomizer does not answer {}", query.kind()))
            .hint("leave it out, or give --sigma")
    }

    fn device_noise(&self, query: &Query, ask: &mut Inquiry<'_>) -> Result<Randomizer> {
        let question =
            "Sigma of the noise of all devices of the smallest batch, in units of the clip";
        // With --epsilon it is computed once everything else is known.
        let given = self.device_sigma.as_deref().or(self.epsilon.as_ref().map(|_| "1"));
        let sigma_micro = ask.value("--device-sigma", question, given, None, |text| {
            parse_epsilon(text).map_err(|reason| anyhow!(reason))
        })?;
        let randomizer = Randomizer::Gaussian { sigma_micro };
        randomizer.check(query)?;
        Ok(randomizer)
    }

    fn noise(&self, ask: &mut Inquiry<'_>) -> Result<Noise> {
        let question =
            "Sigma of the noise that each aggregator adds, in units of the sum (or of the clip)";
        let given = self.sigma.as_deref().or(self.epsilon.as_ref().map(|_| "1"));
        let sigma_micro = ask.value("--sigma", question, given, None, |text| {
            let micro = parse_epsilon(text).map_err(|reason| anyhow!(reason))?;
            ensure!(micro >= MIN_SIGMA_MICRO, "it must be at least {}", show(MIN_SIGMA_MICRO));
            ensure!(micro <= MAX_SIGMA_MICRO, "it must be at most {}", show(MAX_SIGMA_MICRO));
            Ok(micro)
        })?;
        Ok(Noise::ServerGaussian { sigma_micro })
    }
}

/// The randomizer of this name, or the usual one, with this local epsilon under replacement; `None`
/// if it does not answer such a query.
fn chosen(name: Option<RandomizerName>, query: &Query, epsilon_micro: u64) -> Option<Randomizer> {
    let Some(name) = name else { return suggested_randomizer(query, epsilon_micro) };
    // Under deletion, which is half, and for each bucket that a device may be in.
    let most = if let Query::MultiHistogram { most, .. } = query { (*most).max(1) } else { 1 };
    let halved = (epsilon_micro / 2 / u64::from(most)).max(1);
    let found = match name {
        RandomizerName::RandomizedResponse => Randomizer::RandomizedResponse { epsilon_micro },
        RandomizerName::Rappor => Randomizer::Rappor { epsilon_micro: halved },
        RandomizerName::ProjectiveGeometry => {
            Randomizer::ProjectiveGeometry { epsilon_micro: halved }
        }
    };
    found.queries().contains(&query.kind()).then_some(found)
}

/// Gives the randomizer the largest epsilon, in hundredths, or the noise the smallest sigma, in tenths
/// of a percent, with which the claim is at most `target`.
pub(super) fn calibrate(
    draft: &mut RecipeDraft,
    name: Option<RandomizerName>,
    audience: Option<u64>,
    target: u64,
) -> Result<()> {
    ensure!(target > 0, "it must be above 0");
    let mut recipe = recipe_file::with_stand_ins(draft.clone())?;
    if draft.noise.is_some() || matches!(draft.randomizer, Randomizer::Gaussian { .. }) {
        return calibrate_noise(draft, &mut recipe, audience, target);
    }
    let mut meets = |hundredths: u64| -> Result<bool> {
        let found = chosen(name, &recipe.query, hundredths * HUNDREDTH_MICRO);
        let randomizer = found.ok_or_else(|| anyhow!("no randomizer answers it"))?;
        (recipe.randomizer, draft.randomizer) = (randomizer, randomizer);
        claims(&recipe, audience, target)
    };
    let (mut best, mut above) = (0, MOST_HUNDREDTHS + 1);
    while best + 1 < above {
        let middle = best.midpoint(above);
        if meets(middle)? { best = middle } else { above = middle }
    }
    if best == 0 {
        return Err(anyhow!("no randomizer reaches it with so few answers"))
            .hint("raise --epsilon, --min-batch or --population, or lower --rate");
    }
    meets(best).map(drop)
}

fn calibrate_noise(
    draft: &mut RecipeDraft,
    recipe: &mut Recipe,
    audience: Option<u64>,
    target: u64,
) -> Result<()> {
    let of_devices = draft.noise.is_none();
    let mut meets = |sigma_micro: u64| -> Result<bool> {
        match of_devices {
            true => draft.randomizer = Randomizer::Gaussian { sigma_micro },
            false => draft.noise = Some(Noise::ServerGaussian { sigma_micro }),
        }
        (recipe.randomizer, recipe.noise) = (draft.randomizer, draft.noise);
        claims(recipe, audience, target)
    };
    // Upwards, since noise that is far too large does not fit into the units of vectors.
    let (mut below, mut enough) = (MIN_SIGMA_MICRO - 1, MIN_SIGMA_MICRO);
    while !meets(enough)? {
        if enough >= MAX_SIGMA_MICRO {
            return Err(anyhow!("no noise reaches it")).hint("raise --epsilon");
        }
        (below, enough) = (enough, enough.saturating_mul(2).min(MAX_SIGMA_MICRO));
    }
    while enough - below > (enough / 1_000).max(1) {
        // The geometric mean: the range has nine orders of magnitude.
        let middle = ((below as f64 * enough as f64).sqrt() as u64).clamp(below + 1, enough - 1);
        if meets(middle)? { enough = middle } else { below = middle }
    }
    meets(enough).map(drop)
}

/// Whether the recipe may claim this epsilon.
fn claims(recipe: &Recipe, audience: Option<u64>, target: u64) -> Result<bool> {
    // Noise that is too small or too large for a mechanism reaches nothing.
    let Ok(judged) = judgement_to_claim(recipe, audience) else { return Ok(false) };
    let judged = judged.map_or(f64::INFINITY, |judged| judged.epsilon);
    Ok(judged.is_finite() && published(judged)? <= target)
}
