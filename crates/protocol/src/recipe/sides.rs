//! Two ways of adding the same noise: each device its part, or each aggregator all of it.

use sotto_dp::Error;
use sotto_dp::mechanism::gaussian::{Gaussian, Side as Cost};
use sotto_dp::mechanism::{Encoding, Mechanism};
use sotto_vdaf::VdafConfig;
use sotto_wire::recipe::{Noise, Randomizer, Recipe};

use super::crowd;
use super::mechanism::{answers, derive_vdaf, gaussian, mechanism};

/// What each of two ways of adding noise costs, with the same guarantee.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides {
    /// Each device adds its part.
    pub devices: Side,
    /// Each of the two aggregators adds all that is counted.
    pub aggregators: Side,
    /// Whether the largest norm of a report with noise is so large that the author should know.
    pub is_rho_large: bool,
}

/// What one way costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Standard deviation of the noise in one number of the sum over the expected reports, in units
    /// of the sum.
    pub error: f64,
    /// The largest norm that is accepted, in units of that of an honest value.
    pub rho: f64,
    /// The same in units of the sum: what one cheating device can add.
    pub addition: f64,
    /// The VDAF.
    pub vdaf: VdafConfig,
}

/// The two ways for a recipe that has one of them and sums vectors, or a histogram as vectors;
/// `None` for others, and where devices cannot add so little noise.
pub fn sides(recipe: &Recipe) -> Result<Option<Sides>, Error> {
    let sent = answers(recipe)?;
    let found: Gaussian = match (recipe.randomizer, recipe.noise, &sent) {
        (Randomizer::Gaussian { sigma_micro }, ..) => gaussian(recipe, sent, sigma_micro)?,
        (_, Some(Noise::ServerGaussian { sigma_micro }), Encoding::Vector { .. }) => {
            // Of the noise of the devices half is counted.
            let sigma_micro = (sigma_micro as f64 * std::f64::consts::SQRT_2).ceil() as u64;
            match gaussian(recipe, sent, sigma_micro) {
                Ok(found) => found,
                Err(_) => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let compared = found.compared(crowd(recipe, None).expected_per_release as u64);
    let (clip, stated) =
        (recipe.query.vectors().map_or(1.0, |one| one.clip_micro as f64 / 1e6), mechanism(recipe)?);
    let side = |cost: Cost, vdaf| Side {
        error: cost.error * clip,
        rho: cost.rho,
        addition: cost.rho * clip,
        vdaf,
    };
    let exact: Mechanism = sotto_dp::mechanism::exact::Exact::of(sent).into();
    let devices = match stated {
        Mechanism::Gaussian(_) => derive_vdaf(&stated),
        _ => derive_vdaf(&found.into()),
    };
    Ok(Some(Sides {
        is_rho_large: compared.is_rho_large() && matches!(stated, Mechanism::Gaussian(_)),
        devices: side(compared.devices, devices),
        aggregators: side(compared.servers, derive_vdaf(&exact)),
    }))
}
