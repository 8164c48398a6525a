//! The least noise, or the largest epsilon of a randomizer, with which a claim holds.

use anyhow::{Result, anyhow};
use sotto_protocol::recipe::judgement_to_claim;
use sotto_wire::RecipeDraft;
use sotto_wire::limits::{MAX_SIGMA_MICRO, MIN_SIGMA_MICRO};
use sotto_wire::recipe::{Noise, Randomizer};

use crate::output::WithHint;
use crate::recipe_file;

/// The epsilon of a randomizer is searched in steps of 0.01, up to 12: from there on the noise of
/// sampling is all that is left.
const HUNDREDTH_MICRO: u64 = 10_000;
const MOST_HUNDREDTHS: u64 = 1_200;

/// The largest epsilon of this randomizer with which the claim is at most `target`, in millionths.
pub(super) fn randomize(
    draft: &mut RecipeDraft,
    randomizer: fn(u64) -> Randomizer,
    target: u64,
) -> Result<()> {
    let (mut best, mut above) = (0, MOST_HUNDREDTHS + 1);
    while best + 1 < above {
        let middle = best.midpoint(above);
        draft.randomizer = randomizer(middle * HUNDREDTH_MICRO);
        if claims(draft, target)? { best = middle } else { above = middle }
    }
    if best == 0 {
        return Err(anyhow!("no epsilon of the randomizer is small enough for the claim"))
            .hint("raise --epsilon or --population");
    }
    draft.randomizer = randomizer(best * HUNDREDTH_MICRO);
    Ok(())
}

/// The least sigma, to a tenth of a percent, of the noise of the devices, or of the servers if the
/// draft has any.
pub(super) fn add_noise(draft: &mut RecipeDraft, target: u64) -> Result<()> {
    let of_devices = draft.noise.is_none();
    let mut meets = |sigma_micro: u64| -> Result<bool> {
        match of_devices {
            true => draft.randomizer = Randomizer::Gaussian { sigma_micro },
            false => draft.noise = Some(Noise::ServerGaussian { sigma_micro }),
        }
        claims(draft, target)
    };
    // Upwards, since noise that is far too large does not fit into the units of vectors.
    let (mut below, mut enough) = (MIN_SIGMA_MICRO - 1, MIN_SIGMA_MICRO);
    while !meets(enough)? {
        if enough >= MAX_SIGMA_MICRO {
            return Err(anyhow!("no noise is enough for the claim"))
                .hint("raise --epsilon or --population");
        }
        (below, enough) = (enough, enough.saturating_mul(2).min(MAX_SIGMA_MICRO));
    }
    while enough - below > (enough / 1_000).max(1) {
        let middle = ((below as f64 * enough as f64).sqrt() as u64).clamp(below + 1, enough - 1);
        if meets(middle)? { enough = middle } else { below = middle }
    }
    meets(enough).map(drop)
}

/// Whether the recipe may claim this epsilon, if its audience is certified.
fn claims(draft: &RecipeDraft, target: u64) -> Result<bool> {
    let recipe = recipe_file::with_stand_ins(draft.clone());
    let certified = draft.who.targeting.is_some().then_some(draft.who.population);
    // Noise that is too small or too large for a mechanism reaches nothing.
    let Ok(recipe) = recipe else { return Ok(false) };
    let Ok(judged) = judgement_to_claim(&recipe, certified) else { return Ok(false) };
    let epsilon = judged.map_or(f64::INFINITY, |judged| judged.epsilon);
    Ok(epsilon.is_finite() && sotto_dp::published(epsilon)? <= target)
}
