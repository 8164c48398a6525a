//! `sotto account compose`: several releases, described in a file.

mod dp_accounting;
mod events;
mod fields;
mod json;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Shape};

use self::events::Format;
use super::flags::{
    self, Guarantee, Honest, adjacency, counted, explain_event, not_one_left_out, shape, shape_name,
};
use super::report::{Among, Detail, Report, accountant};
use crate::output::WithHint;

#[derive(Debug, Args)]
#[command(after_help = "Give one of --epsilon and --delta.\n\nExample:\n  \
    echo '{\"event\":\"composed\",\"of\":[\n    {\"event\":\"repeated\",\"times\":2500,\"of\":\n      \
    {\"event\":\"poisson_sampled\",\"rate\":0.02,\n      \
    \"of\":{\"event\":\"gaussian\",\"sigma\":5.1}}}]}' > events.json\n  \
    sotto account compose --events events.json --delta 1e-8\n\nEvents and their fields:\n  \
    gaussian sigma sensitivity=1          laplace scale sensitivity=1\n  \
    discrete_gaussian sigma sensitivity=1\n  \
    distributed_discrete_gaussian sigma parties dimension=1 sensitivity=1\n  \
    randomized_response epsilon0 k        rappor epsilon0 k\n  \
    projective_geometry epsilon0 order dimension\n  \
    pure_dp epsilon                       approximate_dp epsilon delta\n  \
    zcdp rho                              poisson_sampled rate of\n  \
    sampled_without_replacement population sample of\n  \
    truncated_poisson rate population max_batch sigma shape=vector\n  \
    sampled_count_seen rate population sigma dummy_rate=0 shape=vector\n  \
    importance_sampled default_rate rate population sigma defaults=0\n    \
    dummy_rate=0 shape=vector\n  \
    count_only rate population            shuffled n of\n  \
    random_allocation slots of selected=1 donation=false population\n    \
    shape=vector\n  \
    summed n of                           composed of\n  \
    repeated times of\n\n\
    docs/privacy-accounting.md has the units, the ranges and the rules for nesting.\n\n\
    Events of dp-accounting, as json.dumps(event.to_named_tuple()) writes them:\n  \
    echo '[\"dp_accounting.dp_event\",\"GaussianDpEvent\",5.1]' |\n    \
    sotto account compose --events - --format dp-accounting --delta 1e-8")]
pub(super) struct ComposeArgs {
    /// The events, as JSON; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
    /// The format of the events.
    #[arg(long, value_name = "FORMAT", default_value = "sotto")]
    format: Format,
    /// Print the events in this format, and count nothing.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["epsilon", "delta", "accountant",
        "adjacency", "shape", "honest"])]
    to: Option<Format>,
    #[command(flatten)]
    guarantee: Guarantee,
    /// The method of accounting.
    #[arg(long, value_parser = flags::accountant(), default_value = "best")]
    accountant: Accountant,
    /// Which inputs are neighbours.
    #[arg(long, value_parser = adjacency(), default_value = "add-remove")]
    adjacency: Adjacency,
    /// The distance between two contributions: for --adjacency replace, and for events that have a
    /// shape but do not set it [default: vector].
    #[arg(long, value_parser = shape())]
    shape: Option<Shape>,
    #[command(flatten)]
    honest: Honest,
}

impl ComposeArgs {
    /// The events in the format that was asked for, if one was.
    pub(super) fn converted(&self) -> Result<Option<Value>> {
        let Some(format) = self.to else { return Ok(None) };
        let event = events::read(&self.events, self.format, None)?.event;
        events::written(&event, format).map(Some)
    }

    pub(super) fn report(self) -> Result<Report> {
        let honest = self.honest.fraction()?;
        let (epsilon, given) = self.guarantee.checked()?;
        let adjacency = self.adjacency;
        let written = events::read(&self.events, self.format, self.shape)?;
        if self.shape.is_some() && written.shaped == 0 && adjacency != Adjacency::Replace {
            return Err(anyhow!("--shape has no meaning: no event leaves its shape unset"))
                .hint("leave it out, or give --adjacency replace");
        }
        let event = events::honest_part(written.event, self.honest)?;
        let question = Question {
            event: &event,
            adjacency,
            shape: self.shape.unwrap_or_default(),
            accountant: self.accountant,
        };
        let (computed, delta): (&[&str], f64) = match (given, epsilon) {
            (Some(delta), None) => (&["epsilon"], delta),
            (None, Some(epsilon)) => (&["delta"], question.delta(epsilon).map_err(explain_event)?),
            (delta, epsilon) => {
                let given = [("--epsilon", epsilon.is_some()), ("--delta", delta.is_some())];
                return Err(not_one_left_out(&given));
            }
        };
        // A delta of 1 needs no computation.
        let answer = question.epsilon(delta.min(1.0 - f64::EPSILON)).map_err(explain_event)?;
        let epsilon = epsilon.unwrap_or(answer.epsilon.upper);
        let (entries, releases) = events::size(&event);
        let text = format!("{releases} from {}", counted(entries, "event"));
        let mut details = vec![Detail::text("releases", json!(releases), text)];
        if adjacency == Adjacency::Replace || self.shape.is_some() {
            let shape = shape_name(self.shape.unwrap_or_default());
            details.push(Detail::text("shape", shape.into(), shape));
        }
        let counts = events::Counts::of(&event, adjacency);
        let note = self.honest.note("the noise and the crowds");
        Ok(Report {
            epsilon,
            epsilon_lower: Some(answer.epsilon.lower.min(epsilon)),
            reached: None,
            delta,
            sigma: None,
            adjacency,
            among: if events::sampled(&event) { Among::Sampled } else { Among::All },
            accountant: accountant(&answer),
            method: answer.method.to_owned(),
            honest: Some(honest),
            count: counts.view(),
            computed,
            details,
            notes: note.into_iter().chain(counts.notes()).collect(),
            advice: None,
        })
    }
}
