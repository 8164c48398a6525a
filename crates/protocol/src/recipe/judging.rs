//! The privacy that a recipe gives, by the rules of `sotto_dp::recipe`, and whether its claim holds.

use std::cmp::Ordering;

use sotto_dp::filter::Charge;
use sotto_dp::mechanism::{self as mechanisms, Colluding};
use sotto_dp::recipe::{Judgement, Law, Terms, judge};
use sotto_dp::relay::{epsilon_of_sending, rate_among_senders};
use sotto_dp::{Adjacency, Error, published};
use sotto_wire::recipe::{Participation, Privacy, Probability, Recipe, Sampling};

use super::mechanism::{claimed_adjacency, mechanism};
use super::{asked, show_micro};
use crate::admission::{Check, Silence};

/// More than anybody should claim, in millionths.
const LARGE_CLAIM: u64 = 100_000_000;

/// Covers the arithmetic with a few probabilities. Relative.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

/// What a recipe with a claim costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The device's own judgement, which is at most the claim.
    pub judgement: Judgement,
    /// The same in micro-units, rounded up.
    pub epsilon_micro: u64,
    /// What the ledger is charged, under replacement.
    pub charge: Charge,
}

/// Whether the claim depends on how large the certified audience is, since the number of reports
/// tells something in a small one: whether a device is there, if the claim protects presence, or
/// what it holds, if the rate depends on that.
pub fn needs_audience(recipe: &Recipe) -> bool {
    let counted =
        claimed_adjacency(&recipe.privacy) == Adjacency::AddRemove || two_rates(recipe).is_some();
    recipe.who.targeting.is_some() && counted
}

/// The rate of the default value, if all others have a higher one.
pub(super) fn two_rates(recipe: &Recipe) -> Option<Probability> {
    recipe.sampling.default_rate.filter(|least| *least != recipe.sampling.rate)
}

/// The judgement of a recipe whose claim is still to be made: whatever it claims so far, it may
/// claim this.
///
/// A mechanism may depend on the claim: the larger it is, the longer may noise make a vector, and
/// the less is charged for what is longer. What is found with a large claim also holds with the
/// claim that is found ([`sotto_dp::mechanism::gaussian`]).
pub fn judgement_to_claim(
    recipe: &Recipe,
    certified: Option<u64>,
) -> Result<Option<Judgement>, Error> {
    let mut open = recipe.clone();
    if let Privacy::Claim { epsilon_micro, .. } = &mut open.privacy {
        *epsilon_micro = LARGE_CLAIM;
    }
    judgement_of(&open, certified)
}

/// The judgement of a recipe of which nobody has certified an audience.
pub fn judgement(recipe: &Recipe) -> Result<Option<Judgement>, Error> {
    judgement_of(recipe, None)
}

/// Judges the recipe by the device's rules: half of the other devices are honest, the count is
/// seen, the worst population, and whoever sees the result may know who sent something: a relay
/// does. Returns `None` if the recipe claims nothing.
///
/// Among those who sent something, the rate is higher than among all, unless everybody sends cover.
/// The larger epsilon counts. `certified` is the number of devices in a certified audience.
pub fn judgement_of(recipe: &Recipe, certified: Option<u64>) -> Result<Option<Judgement>, Error> {
    let unseen = judgement_of_unseen(recipe, certified)?;
    let Sampling { rate, dummy_rate, cover, .. } = &recipe.sampling;
    if cover.is_one() {
        return Ok(unseen);
    }
    // Tails: a dummy, or else cover.
    let [dummy_low, dummy_high] = ends(dummy_rate);
    let covered = (1.0 - dummy_high) * at_most(cover) * (1.0 - ROUNDINGS);
    let instead = ((dummy_low + covered) * (1.0 - ROUNDINGS)).clamp(0.0, 1.0);
    let most = (dummy_high + (1.0 - dummy_low) * at_least(cover)) * (1.0 + ROUNDINGS);
    let least = at_most(&recipe.sampling.least_rate());
    let among = rate_among_senders(least, most.clamp(0.0, 1.0))? * (1.0 - 2.0 * ROUNDINGS);
    // Of those who sent something and did not take part, these sent a dummy.
    let dummy_rates = match dummy_rate.is_zero() {
        true => [0.0; 2],
        false => {
            let part = dummy_rate.to_f64();
            let part = part / (part + (1.0 - part) * cover.to_f64());
            [part * (1.0 - ROUNDINGS), (part * (1.0 + ROUNDINGS)).min(1.0)]
        }
    };
    let senders = View {
        rate: rate_among_senders(at_least(rate), instead)?,
        default_rate: two_rates(recipe).map(|_| among),
        dummy_rates,
        senders: (least + (1.0 - least) * instead) * (1.0 - ROUNDINGS),
    };
    let Some(mut seen) = senders.judge(recipe, certified)? else { return Ok(None) };
    // Who sends says something too, if the rate depends on the value: in each round.
    if let (Privacy::Claim { rounds, .. }, Some(_)) = (&recipe.privacy, two_rates(recipe)) {
        let sending = *rounds as f64 * sending_epsilon(recipe, true)?;
        seen.epsilon = (seen.epsilon + sending) * (1.0 + ROUNDINGS);
    }
    seen.local_epsilon = unseen.and_then(|unseen| unseen.local_epsilon);
    Ok(unseen.into_iter().chain([seen]).max_by(larger))
}

/// The same, against somebody who does not see who sends something.
pub fn judgement_of_unseen(
    recipe: &Recipe,
    certified: Option<u64>,
) -> Result<Option<Judgement>, Error> {
    let Sampling { rate, dummy_rate, .. } = &recipe.sampling;
    let everybody = View {
        rate: at_least(rate),
        default_rate: two_rates(recipe).as_ref().map(at_most),
        dummy_rates: ends(dummy_rate),
        senders: 1.0,
    };
    everybody.judge(recipe, certified)
}

/// The probabilities of a recipe, as somebody knows them.
///
/// With a higher rate, and with a lower one for the default value, epsilon is not smaller: a device
/// with a rate between the two is a mixture of those that have them, and so are the others.
/// Dummies can make epsilon larger or smaller, so both numbers around their rate are judged.
struct View {
    rate: f64,
    default_rate: Option<f64>,
    dummy_rates: [f64; 2],
    senders: f64,
}

impl View {
    fn judge(&self, recipe: &Recipe, certified: Option<u64>) -> Result<Option<Judgement>, Error> {
        let Privacy::Claim { delta, rounds, .. } = &recipe.privacy else { return Ok(None) };
        let law = mechanism(recipe)?.law();
        let participation = recipe.series.as_ref().map(|series| series.participation);
        // Whoever knows the secret rounds of all devices still does not know who takes part in
        // them: in one round, a device that is in it does with the rate of the recipe.
        let rounds = match participation {
            Some(Participation::Donation {}) => 1,
            _ => *rounds,
        };
        let plain = Terms::new(law, self.rate, recipe.aggregation.min_batch, rounds);
        let (default_rate, senders) = (self.default_rate, self.senders);
        let judged = |dummy_rate: f64| {
            let terms = Terms { default_rate, dummy_rate, senders, ..plain };
            judge(&terms, certified, at_most(delta))
        };
        let [low, high] = self.dummy_rates;
        let found = judged(low)?;
        let worst = match low == high {
            true => found,
            false => [found, judged(high)?].into_iter().max_by(larger).unwrap_or(found),
        };
        // The randomizer alone: of all reports.
        let of_all = |each: f64| match most_reports(recipe) {
            1 => each,
            reports => each * reports as f64 * (1.0 + ROUNDINGS),
        };
        Ok(Some(Judgement { local_epsilon: worst.local_epsilon.map(of_all), ..worst }))
    }
}

/// How many reports a device sends at most, in all rounds.
fn most_reports(recipe: &Recipe) -> u64 {
    recipe.series.as_ref().map_or(1, |series| series.most_reports())
}

/// By epsilon.
fn larger(one: &Judgement, other: &Judgement) -> Ordering {
    one.epsilon.total_cmp(&other.epsilon)
}

/// What remains of a recipe's claim if both aggregators collude; `None` if nothing does. If the
/// rate depends on the answer, the number of reports says something about it. `certified` is the
/// number of devices in a certified audience: no others can hide a device.
pub fn colluding(recipe: &Recipe, certified: Option<u64>) -> Result<Option<Colluding>, Error> {
    let Privacy::Claim { delta, .. } = &recipe.privacy else { return Ok(None) };
    // Of a series together they see all rounds: nothing is proved then.
    if two_rates(recipe).is_some() || recipe.series.is_some() {
        return Ok(None);
    }
    let (population, rate) = (asked(recipe.who.population, certified), &recipe.sampling.rate);
    let (rate_low, rate_high) = (at_most(rate), at_least(rate));
    let sampling = mechanisms::Sampling { population, rate_low, rate_high };
    mechanism(recipe)?.colluding(&sampling, at_most(delta))
}

/// What the relay learns about the answer from whether a device sends something. It is 0 unless the
/// rate depends on the answer. `covered` says whether devices send cover at all.
pub fn sending_epsilon(recipe: &Recipe, covered: bool) -> Result<f64, Error> {
    let Sampling { rate, default_rate, dummy_rate, cover } = &recipe.sampling;
    let Some(default_rate) = default_rate else { return Ok(0.0) };
    let cover = if covered { at_most(cover) } else { 0.0 };
    let [dummy_rate, _] = ends(dummy_rate);
    epsilon_of_sending((at_most(default_rate), at_least(rate)), dummy_rate, cover, 0.0)
}

/// What the device is charged, if the claim is not below what it computes itself.
pub(super) fn price(recipe: &Recipe, certified: Option<u64>) -> Result<Option<Cost>, Silence> {
    let refuse = |reason: String| Silence::new(Check::Claim, reason);
    let judged = judgement_of(recipe, certified).map_err(|error| refuse(error.to_string()))?;
    let (Some(judgement), Privacy::Claim { epsilon_micro: claimed, .. }) =
        (judged, &recipe.privacy)
    else {
        return Ok(None);
    };
    let neighbours = claimed_adjacency(&recipe.privacy);
    if judgement.adjacency != neighbours && judgement.epsilon.is_finite() {
        let holds = judgement.adjacency;
        return Err(refuse(format!(
            "the claim is for {neighbours} neighbours, but the guarantee holds for {holds} ones"
        )));
    }
    let epsilon_micro = published(judgement.epsilon)
        .map_err(|_| refuse(no_epsilon(recipe, &judgement, certified)))?;
    if epsilon_micro > *claimed {
        // With too small a claim more is computed than is needed ([`judgement_to_claim`]).
        let needed = judgement_to_claim(recipe, certified).ok().flatten();
        let needed = needed.and_then(|needed| published(needed.epsilon).ok());
        return Err(refuse(format!(
            "it claims epsilon {}, but its parameters imply {}: claim that, or more",
            show_micro(*claimed),
            show_micro(needed.map_or(epsilon_micro, |needed| needed.min(epsilon_micro)))
        )));
    }
    let charge = Charge::replacing(judgement.epsilon, judgement.delta, judgement.adjacency)
        .map_err(|error| refuse(error.to_string()))?;
    Ok(Some(Cost { judgement, epsilon_micro, charge }))
}

/// Why no epsilon holds, and what to do.
fn no_epsilon(recipe: &Recipe, judgement: &Judgement, certified: Option<u64>) -> String {
    let exact = mechanism(recipe).is_ok_and(|mechanism| mechanism.law() == Law::Exact);
    let present = judgement.adjacency == Adjacency::AddRemove;
    let counted = present || two_rates(recipe).is_some();
    let hint = match certified {
        _ if exact => "values are exact: add a randomizer, or [noise]",
        None if present => {
            "the number of reports shows whether a device is there. Claim adjacency \"replace\", or \
             ask an audience whose size a logged result certifies ([who.targeting])"
        }
        None if counted => {
            "the number of reports shows whether a device has the default value. Give all devices \
             one rate (sampling.rate), or ask an audience whose size a logged result certifies \
             ([who.targeting])"
        }
        Some(_) if counted => {
            "the number of reports shows too much about a device. The certified audience is too \
             small to hide it"
        }
        _ => "the noise is too small, or the batch",
    };
    format!("its parameters imply no finite epsilon: {hint}")
}

/// Numbers around a probability; both are the probability if it is exact.
fn ends(probability: &Probability) -> [f64; 2] {
    match probability.den().is_power_of_two() {
        true => [probability.to_f64(); 2],
        false => [at_most(probability), at_least(probability)],
    }
}

/// A probability as a number that is not below it.
fn at_least(probability: &Probability) -> f64 {
    probability.to_f64().next_up().min(1.0)
}

/// A probability as a number that is not above it.
fn at_most(probability: &Probability) -> f64 {
    if probability.is_one() { 1.0 } else { probability.to_f64().next_down().max(0.0) }
}
