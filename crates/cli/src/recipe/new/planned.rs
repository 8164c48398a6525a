//! What the author of a recipe does not say is planned: who answers, the minimum batch, and how
//! answers are protected.

use anyhow::{Context, Result, anyhow, ensure};
use sotto_protocol::plan::{Aim, Answers, Bucket, Plan, Protection, Traffic, Wish, proposed};
use sotto_wire::RecipeDraft;
use sotto_wire::recipe::{Probability, Query, Recipe, Sampling, parse_epsilon};

use super::draft::{AIM, whole};
use super::{Inquiry, Neighbours, NewArgs, RandomizerName, series};
use crate::output::WithHint;

/// The largest epsilon of a randomizer alone, in millionths: above, it protects nobody.
pub(in crate::recipe) const MOST_LOCAL_MICRO: u64 = 8_000_000;

/// Devices accept no smaller batch, by default: twice the 500 dishonest devices of trust files.
pub(in crate::recipe) const LEAST_BATCH: u64 = 1_000;

/// What an epsilon of a recipe is at most, if its author says nothing: half of what a device has for
/// four weeks.
const USUAL_MICRO: u64 = 1_000_000;

/// What the author wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::recipe) enum Wanted {
    /// This epsilon at most, in millionths.
    Epsilon(u64),
    /// This error at most.
    Error(f64),
    /// This error at most, as a part of the truth.
    Part(f64),
    /// Nothing in particular.
    Anything,
}

/// A plan for a recipe, and its alternatives.
pub(in crate::recipe) struct Planning<'a> {
    pub(in crate::recipe) wish: Wish<'a>,
    pub(in crate::recipe) aim: Aim,
    /// The best of each protection that reaches the aim, the best of all first.
    pub(in crate::recipe) plans: Vec<Plan>,
}

impl NewArgs {
    /// The budget or the accuracy.
    pub(super) fn wanted(&self, ask: &mut Inquiry<'_>) -> Result<Wanted> {
        match (&self.epsilon, &self.error) {
            (Some(text), _) => return wanted(text).context("--epsilon cannot be used"),
            (_, Some(text)) => return accepted(text).context("--error cannot be used"),
            _ => {}
        }
        let question = "The largest epsilon (like 0.5), or the error that you accept for an average \
                        bucket (like +-500 or +-5%)?";
        ask.value("--epsilon", question, None, Some("at most 1"), |text| match text {
            "at most 1" => Ok(Wanted::Anything),
            text => match text.trim_start_matches("+-") {
                error if error != text => accepted(error),
                text => wanted(text),
            },
        })
    }

    /// The question of this recipe, with what limits its plan.
    pub(in crate::recipe) fn wish<'a>(&self, recipe: &'a Recipe) -> Result<Wish<'a>> {
        let in_round = |devices| series::in_round(devices, recipe.series.as_ref());
        let certified = self.audience.map(in_round);
        let devices = in_round(recipe.who.population);
        let devices = certified.map_or(devices, |certified| certified.min(devices));
        let chosen = self.rate.is_some() || self.default_rate.is_some() || self.donation;
        let traffic = Traffic {
            fixed: chosen.then_some(recipe.sampling),
            most_reports: self.reports.unwrap_or(AIM),
            most_rate: Probability::ONE,
            others: Sampling { default_rate: None, ..recipe.sampling },
        };
        let min_batch = self.min_batch.as_deref().map(whole).transpose();
        let min_batch = min_batch.context("--min-batch cannot be used")?;
        Ok(Wish {
            recipe,
            devices,
            certified,
            answers: Answers::usual(&recipe.query, None),
            traffic,
            min_batch,
            least_batch: if min_batch.is_some() { 1 } else { LEAST_BATCH },
            most_local_micro: MOST_LOCAL_MICRO,
        })
    }

    /// The plan for this recipe.
    pub(super) fn planning<'a>(&self, recipe: &'a Recipe, wanted: Wanted) -> Result<Planning<'a>> {
        let (wish, protections) = (self.wish(recipe)?, self.protections(&recipe.query)?);
        let found = Planning::new(wish, &protections, wanted)?;
        if !found.plans.is_empty() {
            return Ok(found);
        }
        // Fewer than devices accept by default: others may.
        let wish = Wish { least_batch: 1, ..found.wish };
        Planning::new(wish, &protections, wanted)
    }

    /// Which protections the author allows.
    pub(in crate::recipe) fn protections(&self, query: &Query) -> Result<Vec<Protection>> {
        if self.adjacency == Neighbours::AddRemove && self.audience.is_none() {
            return Err(anyhow!("--adjacency add-remove needs noise and a certified audience"))
                .hint("give --predicate, --certified and --audience");
        }
        let chosen = match self.randomizer {
            Some(RandomizerName::RandomizedResponse) => Some(Protection::RandomizedResponse),
            Some(RandomizerName::Rappor) => Some(Protection::Rappor),
            Some(RandomizerName::ProjectiveGeometry) => Some(Protection::ProjectiveGeometry),
            None => None,
        };
        if let Some(chosen) = chosen {
            ensure!(chosen.answers(query), "this --randomizer does not answer {}", query.kind());
            return Ok(vec![chosen]);
        }
        let present = |one: &Protection| match self.adjacency {
            Neighbours::Replace => true,
            Neighbours::AddRemove => !one.is_randomizer(),
        };
        Ok(Protection::ALL.into_iter().filter(present).collect())
    }
}

impl<'a> Planning<'a> {
    /// The plans with these protections.
    pub(in crate::recipe) fn new(
        wish: Wish<'a>,
        protections: &[Protection],
        wanted: Wanted,
    ) -> Result<Self> {
        let aim = match wanted {
            Wanted::Epsilon(micro) => Aim::Budget(micro),
            Wanted::Anything => Aim::Sparing(USUAL_MICRO),
            Wanted::Error(error) => Aim::Error(error),
            Wanted::Part(part) => {
                let query = &wish.recipe.query;
                let truth = wish.answers.truth(query, Bucket::Average, wish.devices);
                ensure!(truth > 0.0, "percents of a vector mean nothing: give a number");
                Aim::Error(part * truth)
            }
        };
        let plans = wish.plans(protections, aim);
        Ok(Self { wish, aim, plans })
    }

    /// The one to propose.
    pub(in crate::recipe) fn proposed(&self) -> Result<&Plan> {
        let hint = match self.aim {
            Aim::Error(_) => {
                "accept a larger error, or let more devices answer (--reports, --rate)"
            }
            _ => {
                "raise the epsilon, let more devices answer (--reports, --rate), or ask more of them"
            }
        };
        let what = match self.aim {
            Aim::Error(_) => "no protection reaches this error with so few answers",
            _ => "no protection reaches this epsilon with so few answers",
        };
        proposed(&self.plans, self.aim).ok_or_else(|| anyhow!(what)).hint(hint)
    }
}

/// Writes what was planned into a draft.
pub(in crate::recipe) fn apply(plan: &Plan, draft: &mut RecipeDraft) {
    let Recipe { sampling, randomizer, noise, aggregation, .. } = &plan.recipe;
    (draft.sampling, draft.randomizer, draft.noise) = (*sampling, *randomizer, *noise);
    draft.min_batch = aggregation.min_batch;
}

fn wanted(text: &str) -> Result<Wanted> {
    let micro = parse_epsilon(text).map_err(|reason| anyhow!(reason))?;
    // Rounded up. A plan may not exceed what was asked for.
    let exceeds = text.trim().parse::<f64>().is_ok_and(|asked| micro as f64 / 1e6 > asked);
    let micro = micro - u64::from(exceeds);
    ensure!(micro > 0, "it must be at least 0.000001");
    Ok(Wanted::Epsilon(micro))
}

/// An error: `500` or `5%`.
pub(in crate::recipe) fn accepted(text: &str) -> Result<Wanted> {
    let (number, is_part) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let number: f64 =
        number.trim().replace(',', "").parse().map_err(|_| anyhow!("write it as 500 or as 5%"))?;
    ensure!(number.is_finite() && number > 0.0, "it must be above 0");
    Ok(if is_part { Wanted::Part(number / 100.0) } else { Wanted::Error(number) })
}
