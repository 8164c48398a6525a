//! How a new recipe protects answers, if its author says how: a randomizer on the device, or noise of
//! the aggregators. What the author does not say is planned ([`super::planned`]).

use anyhow::{Context, Result, anyhow, ensure};
use sotto_protocol::recipe::{show_micro as show, suggested_randomizer};
use sotto_wire::limits::{MAX_SIGMA_MICRO, MIN_SIGMA_MICRO};
use sotto_wire::recipe::{
    Accountant, Adjacency, Noise, Privacy, Query, Randomizer, parse_epsilon, parse_probability,
};

use super::{Neighbours, NewArgs, RandomizerName};
use crate::output::WithHint;

/// What protects answers. The claim has not been computed yet.
pub(super) struct Protection {
    pub(super) randomizer: Randomizer,
    pub(super) noise: Option<Noise>,
    pub(super) privacy: Privacy,
}

impl NewArgs {
    /// Whether the author says how answers are protected; otherwise it is planned.
    pub(super) fn is_protected(&self) -> bool {
        let given = [&self.sigma, &self.epsilon0, &self.device_sigma];
        self.insecure_exact || given.into_iter().any(Option::is_some)
    }

    /// What the author says; if nothing, what stands for it until it is planned.
    pub(super) fn privacy(&self, query: &Query) -> Result<Protection> {
        let noise = |sigma_micro| Some(Noise::ServerGaussian { sigma_micro });
        if self.insecure_exact {
            let privacy = Privacy::InsecureUnbounded;
            return Ok(Protection { randomizer: Randomizer::None, noise: None, privacy });
        }
        let (randomizer, noise) = match (&self.sigma, &self.device_sigma, &self.epsilon0) {
            (Some(sigma), ..) => (Randomizer::None, noise(server_sigma(sigma)?)),
            (_, Some(sigma), _) => (device_noise(sigma, query)?, None),
            (.., Some(epsilon0)) => (self.randomizer(epsilon0, query)?, None),
            _ => (Randomizer::None, noise(1_000_000)),
        };
        Ok(Protection { randomizer, noise, privacy: self.claim()? })
    }

    /// What is claimed, without its epsilon.
    fn claim(&self) -> Result<Privacy> {
        let delta = parse_probability(self.delta.as_deref().unwrap_or("1e-9"));
        let delta = delta.map_err(|reason| anyhow!(reason)).context("--delta cannot be used")?;
        let holds = !delta.is_zero() && !delta.is_one();
        ensure!(holds, "--delta cannot be used: it must be above 0 and below 1");
        Ok(Privacy::Claim {
            epsilon_micro: 1,
            delta,
            adjacency: match self.adjacency {
                Neighbours::Replace => Adjacency::Replace,
                Neighbours::AddRemove => Adjacency::AddRemove,
            },
            accountant: Accountant::Best,
            rounds: 1,
        })
    }

    fn randomizer(&self, epsilon0: &str, query: &Query) -> Result<Randomizer> {
        if self.adjacency == Neighbours::AddRemove {
            return Err(anyhow!("--adjacency add-remove needs noise of the aggregators")).hint(
                "give --sigma, and the certified audience: --predicate, --certified, --audience",
            );
        }
        let epsilon0 = micro("--epsilon0", epsilon0)?;
        ensure!(epsilon0 > 0, "--epsilon0 cannot be used: it must be above 0");
        chosen(self.randomizer, query, epsilon0)
            .ok_or_else(|| anyhow!("this --randomizer does not answer {}", query.kind()))
            .hint("leave it out, or give --sigma")
    }
}

fn micro(option: &str, text: &str) -> Result<u64> {
    let parsed = parse_epsilon(text).map_err(|reason| anyhow!(reason));
    parsed.with_context(|| format!("{option} cannot be used"))
}

fn device_noise(sigma: &str, query: &Query) -> Result<Randomizer> {
    let randomizer = Randomizer::Gaussian { sigma_micro: micro("--device-sigma", sigma)? };
    randomizer.check(query)?;
    Ok(randomizer)
}

fn server_sigma(sigma: &str) -> Result<u64> {
    let sigma = micro("--sigma", sigma)?;
    for (holds, range, limit) in [
        (sigma >= MIN_SIGMA_MICRO, "at least", MIN_SIGMA_MICRO),
        (sigma <= MAX_SIGMA_MICRO, "at most", MAX_SIGMA_MICRO),
    ] {
        ensure!(holds, "--sigma cannot be used: it must be {range} {}", show(limit));
    }
    Ok(sigma)
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
