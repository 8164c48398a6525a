//! `sotto account compose`: several releases, described in a file.

mod events;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use sotto_dp::account::Question;
use sotto_dp::{Adjacency, Count, Shape};

use super::flags::{
    AccountantName, AdjacencyName, Honest, ShapeName, delta, explain, non_negative,
    not_one_left_out,
};
use super::report::{Detail, Report, accountant};

#[derive(Debug, Args)]
#[command(after_help = "Give one of --epsilon and --delta.\n\nExample of a file:\n  \
    {\"event\":\"composed\",\"of\":[\n    {\"event\":\"repeated\",\"times\":2500,\"of\":\n      \
    {\"event\":\"poisson_sampled\",\"rate\":0.02,\n      \
    \"of\":{\"event\":\"gaussian\",\"sigma\":5.1}}}]}\n\nEvents and their fields:\n  \
    gaussian sigma sensitivity=1                    discrete_gaussian sigma sensitivity=1\n  \
    distributed_discrete_gaussian sigma parties dimension=1 sensitivity=1\n  \
    laplace scale sensitivity=1                     randomized_response epsilon0 k\n  \
    pure_dp epsilon                                 approximate_dp epsilon delta\n  \
    zcdp rho                                        poisson_sampled rate of\n  \
    sampled_without_replacement population sample of\n  \
    truncated_poisson rate population max_batch sigma shape=vector\n  \
    sampled_count_seen rate population sigma dummy_rate=0 shape=vector\n  \
    shuffled n of                                   random_allocation slots of\n  \
    composed of                                     repeated times of")]
pub(super) struct ComposeArgs {
    /// The events, as JSON; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
    /// The privacy loss: odds change by a factor of e^epsilon at most.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// The probability with which that may fail.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// How to count.
    #[arg(long, value_enum, default_value_t = AccountantName::Best)]
    accountant: AccountantName,
    /// Which inputs are neighbours.
    #[arg(long, value_enum, default_value_t = AdjacencyName::AddRemove)]
    adjacency: AdjacencyName,
    /// How far apart two contributions are, where that matters [default: vector].
    #[arg(long, value_enum)]
    shape: Option<ShapeName>,
    #[command(flatten)]
    honest: Honest,
}

impl ComposeArgs {
    pub(super) fn report(self) -> Result<Report> {
        let honest = self.honest.fraction()?;
        let epsilon = self.epsilon.map(|value| non_negative("--epsilon", value)).transpose()?;
        let given = self.delta.map(delta).transpose()?;
        let written = events::read(&self.events)?;
        let event = events::honest_part(written, self.honest)?;
        let question = Question {
            event: &event,
            adjacency: self.adjacency.into(),
            shape: self.shape.map_or(Shape::default(), Shape::from),
            accountant: self.accountant.into(),
        };
        let (computed, delta): (&[&str], f64) = match (given, epsilon) {
            (Some(delta), None) => (&["epsilon"], delta),
            (None, Some(epsilon)) => (&["delta"], question.delta(epsilon).map_err(explain)?),
            (delta, epsilon) => {
                let given = [("--epsilon", epsilon.is_some()), ("--delta", delta.is_some())];
                return Err(not_one_left_out(&given));
            }
        };
        // Of a delta of 1 nobody has to ask.
        let answer = question.epsilon(delta.min(1.0 - f64::EPSILON)).map_err(explain)?;
        let epsilon = epsilon.unwrap_or(answer.epsilon.upper);
        let (kinds, releases) = events::size(&event);
        let text = format!("{releases} releases of {kinds} kinds");
        let count = events::count(&event);
        let mut notes: Vec<String> =
            self.honest.note("the noise and the crowds").into_iter().collect();
        if count == Some(Count::Hidden) {
            let note = "Where devices are sampled, nobody may see how many took part: this is the \
                        paper's model.";
            notes.push(note.to_owned());
        }
        Ok(Report {
            epsilon,
            epsilon_lower: Some(answer.epsilon.lower.min(epsilon)),
            delta,
            sigma: None,
            adjacency: Adjacency::from(self.adjacency),
            accountant: accountant(&answer),
            method: answer.method.to_owned(),
            honest: Some(honest),
            count,
            computed,
            details: vec![Detail::text("events", json!(releases), text)],
            notes,
        })
    }
}
