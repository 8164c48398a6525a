//! `sotto account donation`: one contribution at a secret time, in one of many slots.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use sotto_dp::{Adjacency, Bracket, Count, allocation};

use super::flags::{at_least, delta, explain, positive, whole};
use super::number::{down, exact, up};
use super::report::{Detail, Report};

#[derive(Debug, Args)]
#[command(
    after_help = "Each slot releases a sum with the Gaussian noise that gives --epsilon at --delta. The \
    formula is the paper's, the other bounds are numeric, and the best of all is the answer. All hold at \
    twice --delta.\n\n\
    Example: sotto account donation --epsilon 1 --delta 1e-8 --slots 100"
)]
pub(super) struct DonationArgs {
    /// What holds for one slot.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: f64,
    /// The probability with which that may fail.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: f64,
    /// How many slots there are to choose from.
    #[arg(long, value_name = "M", value_parser = whole, allow_negative_numbers = true)]
    slots: u64,
}

impl DonationArgs {
    pub(super) fn report(self) -> Result<Report> {
        let (epsilon, delta) = (positive("--epsilon", self.epsilon)?, delta(self.delta)?);
        let slots = at_least("--slots", self.slots, 1)?;
        let found = allocation::donation(epsilon, delta, slots).map_err(explain)?;
        let allocated = found.random_allocation;
        // What the paper states is more than its formula needs.
        let stated = format!("{} (the paper's)", up(found.formula_delta));
        let details = vec![
            Detail::whole("slots", slots),
            Detail::text("slot_epsilon", epsilon.into(), exact(epsilon)),
            Detail::text("slot_delta", delta.into(), exact(delta)),
            Detail::text("formula", found.formula.into(), up(found.formula)),
            Detail::text("formula_delta", found.formula_delta.into(), stated),
            Detail::text("poisson", found.poisson.upper.into(), bracket(found.poisson)),
            Detail::text(
                "random_allocation",
                json!(allocated.map(|bound| bound.upper)),
                allocated.map_or("too many slots for it".to_owned(), bracket),
            ),
            Detail::text("best", found.best.upper.into(), bracket(found.best)),
            Detail::text("participation", found.participation.into(), down(found.participation)),
        ];
        let share = 100.0 * found.participation;
        let note = format!(
            "Of the willing devices {share:.1} % find a slot, the others stay silent. Nobody may see \
             who took part, nor how many: this is the paper's model. What a slot asks must not depend \
             on the results of earlier ones; if it does, poisson and formula still hold."
        );
        Ok(Report {
            epsilon: found.best.upper,
            epsilon_lower: Some(found.best.lower),
            delta: found.delta,
            sigma: Some(found.sigma),
            adjacency: Adjacency::AddRemove,
            accountant: "best",
            method: found.method.to_owned(),
            honest: None,
            count: Some(Count::Hidden),
            computed: &["epsilon", "delta", "sigma"],
            details,
            notes: vec![note],
        })
    }
}

fn bracket(bound: Bracket) -> String {
    format!("{} .. {} (certified)", down(bound.lower), up(bound.upper))
}
