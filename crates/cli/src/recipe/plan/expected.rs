//! The errors to expect of a recipe, in words and as JSON.

use serde::Serialize;
use sotto_dp::mechanism::Spread;
use sotto_dp::number::up_short;
use sotto_protocol::plan::{Answers, Bucket, Errors, errors};
use sotto_wire::recipe::{Query, Recipe};

use crate::recipe::series;
use crate::recipe::words::grouped;

/// The expected error of one number of the result.
#[derive(Clone, Debug, Serialize)]
pub(in crate::recipe) struct Expected {
    /// Which one.
    pub(super) label: &'static str,
    /// What it is in truth, if that is assumed.
    #[serde(rename = "assumed", skip_serializing_if = "Option::is_none")]
    pub(super) truth: Option<f64>,
    pub(super) stderr: f64,
    pub(super) noise_stderr: f64,
}

/// The errors to expect of a recipe; none of a training, of which nobody looks at single numbers.
pub(in crate::recipe) fn of(recipe: &Recipe, audience: Option<u64>) -> Vec<Expected> {
    if recipe.series.as_ref().is_some_and(|series| series.training.is_some()) {
        return Vec::new();
    }
    let asked = audience.map_or(recipe.who.population, |some| some.min(recipe.who.population));
    let devices = series::in_round(asked, recipe.series.as_ref());
    let answers = Answers::usual(&recipe.query, None);
    let found = errors(recipe, devices, &answers);
    found.map(|found| rows(&recipe.query, devices, &answers, &found)).unwrap_or_default()
}

/// The same of errors that are known.
pub(super) fn rows(
    query: &Query,
    devices: u64,
    answers: &Answers,
    errors: &Errors,
) -> Vec<Expected> {
    let truth = |bucket| Some(answers.truth(query, bucket, devices));
    let row = |label, truth, spread: Spread| Expected {
        label,
        truth,
        stderr: spread.total,
        noise_stderr: spread.noise,
    };
    let one = |label, truth| vec![row(label, truth, errors.average)];
    match query {
        Query::Count { .. } => one("count", truth(Bucket::Average)),
        Query::Sum { .. } => one("sum", truth(Bucket::Average)),
        Query::Mean { .. } => one("mean", truth(Bucket::Average)),
        Query::VectorSum(_) | Query::VectorMean(_) => one("each number", None),
        _ => {
            let mut rows = vec![
                row("average bucket", truth(Bucket::Average), errors.average),
                row("largest bucket", truth(Bucket::Largest), errors.largest),
                row("rarest bucket", truth(Bucket::Rarest), errors.rarest),
            ];
            let held = answers.defaults * devices as f64;
            rows.extend(errors.rest.map(|rest| row("default", Some(held), rest)));
            rows
        }
    }
}

impl Expected {
    /// `+-529 of 4,975 (10.6 %), of which the noise is +-186`.
    pub(in crate::recipe) fn words(&self) -> String {
        let of = match self.truth {
            Some(truth) if truth > 0.0 => {
                format!(" of {} ({} %)", number(truth), up_short(100.0 * self.stderr / truth))
            }
            _ => String::new(),
        };
        format!(
            "+-{}{of}, of which the noise alone is +-{}",
            number(self.stderr),
            number(self.noise_stderr)
        )
    }

    /// Which number it is.
    pub(in crate::recipe) fn label(&self) -> &'static str {
        self.label
    }

    /// If the noise is larger than what it is on.
    pub(in crate::recipe) fn warning(&self) -> Option<String> {
        let truth = self.truth.filter(|truth| self.noise_stderr > *truth)?;
        Some(format!(
            "the noise of +-{} is larger than the {} itself, about {}: `sotto plan` shows what another \
             epsilon, rate or protection would give",
            number(self.noise_stderr),
            self.label,
            number(truth)
        ))
    }
}

/// A number for people: three digits, or whole.
pub(in crate::recipe) fn number(value: f64) -> String {
    if (1_000.0..1e15).contains(&value) { grouped(value.round() as u64) } else { up_short(value) }
}
