//! What is left of a device's privacy when the aggregators fail it.
//!
//! **One aggregator or none is bad**: the claim, as the device computes it.
//!
//! **Both collude.** They put the shares together and see each randomized report, but not who sent it: the view of a
//! shuffler. With randomized response the *reports* in a batch tell no more than its histogram. But nobody holds
//! small batches back any more, so the crowd is no longer `B/2`; it is however many honest devices happened
//! to answer. For that the only figure is the recipe's population `N`, which nobody proves. So this number rests on it: with
//! at least `N/2` honest devices, each of which answers with probability `q`, the count `k` of honest reports lies
//! between `k_low` and `k_high` except with probability `eta` (Chernoff). Given `k`, the senders are a uniform subset of
//! the `n` honest devices: a shuffle of `k` reports, sampled without replacement at the rate `k/n`.
//!
//! It also takes for granted that the relay hides the senders, and that the time of a report says nothing about them.
//!
//! **Everybody else is bad**: the local epsilon of the randomizer, which needs nobody.

use anyhow::Result;
use serde::Serialize;
use sotto_dp::{closed, shuffle};
use sotto_protocol::recipe::at_least;
use sotto_wire::Recipe;
use sotto_wire::recipe::{Privacy, Query, Randomizer};

/// The part of delta that pays for improbable counts.
const IMPROBABLE: f64 = 1e-3;

/// The part of the population that is taken to be honest.
const HONEST: f64 = 0.5;

/// The guarantee that is left if both aggregators collude.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Colluding {
    /// At the recipe's delta, for replacement.
    pub(super) epsilon: f64,
    /// The honest devices that it counts with, this one included.
    pub(super) honest_devices: u64,
    /// The least honest reports that it counts with.
    pub(super) honest_reports: u64,
}

/// What is left of a recipe with a claim and randomized response if both aggregators collude.
pub(super) fn colluding(recipe: &Recipe) -> Result<Option<Colluding>> {
    let (Privacy::Claim { delta, .. }, Randomizer::RandomizedResponse { epsilon_micro }) =
        (&recipe.privacy, &recipe.randomizer)
    else {
        return Ok(None);
    };
    let Query::Histogram { buckets, .. } = &recipe.query else { return Ok(None) };
    let epsilon0 = (*epsilon_micro as f64 / 1e6).next_up();
    let delta = delta.to_f64().next_down();
    let rate = at_least(&recipe.sampling.rate);
    let honest_devices = shuffle::honest_crowd(recipe.who.population, HONEST);
    let n = honest_devices as f64;
    let exponent = -libm::log(0.5 * IMPROBABLE * delta) / n;
    let low = (n * tail(rate, 0.0, exponent)).floor();
    let high = (tail(rate, 1.0, exponent) * (1.0 + 1e-9)).min(1.0);
    let honest_reports = (low as u64).max(1);
    let own = (delta * (1.0 - IMPROBABLE) / high).min(0.5);
    let shuffled = shuffle::krr_epsilon(epsilon0, u64::from(*buckets), honest_reports, own)?.upper;
    let (sampled, _) = closed::sampled(shuffled, own, high)?;
    // A crowd that may be empty leaves the randomizer alone.
    let epsilon = if low < 1.0 { epsilon0 } else { sampled.min(epsilon0) };
    Ok(Some(Colluding { epsilon, honest_devices, honest_reports }))
}

/// The rate between `q` and `end` that is so improbable: `KL(x || q) = exponent`, rounded towards `end`.
fn tail(q: f64, end: f64, exponent: f64) -> f64 {
    let (mut near, mut far) = (q, end);
    if divergence(end, q) <= exponent {
        return end;
    }
    for _ in 0..200 {
        let middle = 0.5 * (near + far);
        *(if divergence(middle, q) < exponent { &mut near } else { &mut far }) = middle;
    }
    far
}

/// `KL(x || q)` of two coins.
fn divergence(x: f64, q: f64) -> f64 {
    let part = |x: f64, q: f64| if x <= 0.0 { 0.0 } else { x * libm::log(x / q) };
    part(x, q) + part(1.0 - x, 1.0 - q)
}

#[cfg(test)]
mod tests {
    use sotto_protocol::recipe::judgement;

    use super::*;
    use crate::recipe::new::testing;

    #[test]
    fn it_lies_between_the_sampled_crowd_and_the_randomizer_alone() {
        let recipe = testing::recipe();
        let found = colluding(&recipe).unwrap().unwrap();
        assert_eq!(found.honest_devices, 500_000);
        // 10,000 honest reports are expected; six standard deviations are 600.
        assert!((9_200..9_500).contains(&found.honest_reports), "{found:?}");
        let judged = judgement(&recipe).unwrap().unwrap();
        assert!(found.epsilon > 0.5 * judged.epsilon && found.epsilon < 2.0 * judged.epsilon);
    }

    #[test]
    fn a_small_population_leaves_the_local_epsilon() {
        let mut recipe = testing::recipe();
        recipe.who.population = 100;
        let found = colluding(&recipe).unwrap().unwrap();
        assert!((found.epsilon - 4.0).abs() < 1e-6, "{found:?}");
        recipe.randomizer = Randomizer::None;
        assert!(colluding(&recipe).unwrap().is_none());
    }

    #[test]
    fn tails_are_on_the_safe_side() {
        for (q, exponent) in [(0.02, 1e-4), (0.5, 0.01), (0.9, 1e-6)] {
            let (low, high) = (tail(q, 0.0, exponent), tail(q, 1.0, exponent));
            assert!(low < q && q < high, "{q} {low} {high}");
            assert!(divergence(low, q) >= exponent && divergence(high, q) >= exponent);
        }
        assert_eq!(tail(0.5, 0.0, 10.0), 0.0);
    }
}
