//! `sotto account donation`: one contribution at a secret time, in one of many slots.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use sotto_dp::number::{down, exact, up};
use sotto_dp::{Adjacency, allocation};

use super::flags::{at_least, delta, explain, parse_rate, positive, rate, whole};
use super::report::{Among, Detail, Report, View, bracket};
use crate::vocabulary::Epsilon;

#[derive(Debug, Args)]
#[command(
    override_usage = "sotto account donation [OPTIONS] --epsilon <EPSILON>\n         \
    --delta <DELTA> --slots <M>",
    after_help = "Each slot releases a sum with the Gaussian noise that gives --epsilon at --delta. A \
    device tosses a coin of probability 1/M before each slot and takes the first for which it comes up \
    heads. The answer is that of the exact law. The paper's formula, Poisson sampling and one of the \
    slots for certain are shown for comparison. All hold at twice --delta, except for the paper's formula, which has a delta of its own.\n\n\
    Example:\n  sotto account donation --epsilon 1 --delta 1e-8 --slots 100"
)]
pub(super) struct DonationArgs {
    /// The epsilon that holds for one slot.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: f64,
    /// The delta that holds for one slot.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: f64,
    /// The number of slots to choose from.
    #[arg(long, value_name = "M", value_parser = whole, allow_negative_numbers = true)]
    slots: u64,
    /// The probability that a device takes part in the series at all: one coin before all slots.
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = parse_rate, allow_negative_numbers = true)]
    rate: f64,
}

impl DonationArgs {
    pub(super) fn report(self) -> Result<Report> {
        let (epsilon, delta) = (positive("--epsilon", self.epsilon)?, delta(self.delta)?);
        let slots = at_least("--slots", self.slots, 1)?;
        let rate = positive("--rate", rate(self.rate)?)?;
        let found = allocation::donation(epsilon, delta, slots, rate).map_err(explain)?;
        let allocated = found.random_allocation;
        // The paper states a larger delta than its formula needs.
        let stated = format!("{} (the paper's)", up(found.formula_delta));
        let details = vec![
            Detail::whole("slots", slots),
            Detail::text("rate", rate.into(), exact(rate)),
            Detail::text("slot_epsilon", epsilon.into(), exact(epsilon)),
            Detail::text("slot_delta", delta.into(), exact(delta)),
            Detail::text("formula", json!(Epsilon(found.formula)), up(found.formula)),
            Detail::text("formula_delta", found.formula_delta.into(), stated),
            Detail::text("poisson", json!(Epsilon(found.poisson.upper)), bracket(found.poisson)),
            Detail::silent("poisson_lower", known(found.poisson.lower)),
            Detail::text("random_allocation", json!(Epsilon(allocated.upper)), bracket(allocated)),
            Detail::silent("random_allocation_lower", known(allocated.lower)),
            Detail::text("participation", found.participation.into(), down(found.participation)),
        ];
        let share = 100.0 * found.participation;
        let note = format!(
            "{share:.1} % of the devices find a slot, and the others stay silent. Nobody may see who found \
             which slot, or how many did: this is the paper's model. What a slot asks may depend \
             on the results of earlier ones."
        );
        Ok(Report {
            epsilon: found.best.upper,
            epsilon_lower: Some(found.best.lower).filter(|lower| *lower > 0.0),
            reached: None,
            delta: found.delta,
            sigma: Some(found.sigma),
            adjacency: Adjacency::AddRemove,
            among: Among::Willing,
            accountant: "best",
            method: found.method.to_owned(),
            honest: None,
            count: Some(View::Hidden),
            computed: &["epsilon", "delta", "sigma"],
            details,
            notes: vec![note],
            advice: None,
        })
    }
}

/// A lower end; `null` if none is known.
fn known(lower: f64) -> Value {
    if lower > 0.0 { json!(Epsilon(lower)) } else { Value::Null }
}
