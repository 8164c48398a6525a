//! `sotto account sample`: amplification of any guarantee by secret sampling.

use anyhow::{Result, anyhow};
use clap::Args;
use sotto_dp::number::exact;
use sotto_dp::{Adjacency, closed};

use super::flags::{delta, explain, non_negative, only_add_remove, parse_rate, rate};
use super::report::{Among, Detail, Report, View};
use crate::output::WithHint;

#[derive(Debug, Args)]
#[command(
    override_usage = "sotto account sample [OPTIONS] --epsilon <EPSILON>\n         \
    --delta <DELTA> --rate <Q>",
    after_help = "Example:\n  sotto account sample --epsilon 1 --delta 1e-8 --rate 0.02\n\n\
    This uses only the guarantee of the mechanism. `sotto account \
    sampled-gaussian` uses more, and gives a smaller epsilon."
)]
pub(super) struct SampleArgs {
    /// The epsilon that holds for the sampled devices.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: f64,
    /// The delta that holds for the sampled devices.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: f64,
    /// The probability of being sampled.
    #[arg(long, value_name = "Q", value_parser = parse_rate, allow_negative_numbers = true)]
    rate: f64,
    /// Which inputs are neighbours. This theorem supports only presence or absence: a claim about
    /// two values of a device says nothing about its absence.
    #[arg(long, value_parser = only_add_remove(), default_value = "add-remove")]
    adjacency: Adjacency,
}

impl SampleArgs {
    pub(super) fn report(self) -> Result<Report> {
        let base = (non_negative("--epsilon", self.epsilon)?, delta(self.delta)?);
        let rate = rate(self.rate)?;
        let adjacency = self.adjacency;
        if adjacency != Adjacency::AddRemove {
            return Err(anyhow!(
                "--adjacency {adjacency}: this theorem is about devices that are present or absent"
            ))
            .hint("leave it out, or describe the events for `sotto account compose`");
        }
        let (epsilon, delta) = closed::sampled(base.0, base.1, rate).map_err(explain)?;
        let note = "Nobody may see who was sampled, nor how many: this is the paper's model.";
        Ok(Report {
            epsilon,
            epsilon_lower: None,
            reached: None,
            delta,
            sigma: None,
            adjacency,
            among: Among::Sampled,
            accountant: "closed-form",
            method: "amplification by Poisson sampling".to_owned(),
            honest: None,
            count: Some(View::Hidden),
            computed: &["epsilon", "delta"],
            details: vec![
                Detail::number("rate", rate),
                Detail::text("unsampled_epsilon", base.0.into(), exact(base.0)),
                Detail::text("unsampled_delta", base.1.into(), exact(base.1)),
            ],
            notes: vec![note.to_owned()],
            advice: None,
        })
    }
}
