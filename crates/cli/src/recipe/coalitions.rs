//! `sotto recipe coalitions`: what each party, and each pair of parties, learns.

#[cfg(test)]
mod tests;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use sotto_dp::number::up;
use sotto_protocol::recipe::coalitions::{Allowed, Coalition, Limit, Remaining, coalitions};
use sotto_wire::Recipe;

use super::words::grouped;
use crate::output::{Outcome, Output};
use crate::recipe_file::RecipeArgs;
use crate::vocabulary;

#[derive(Debug, Args)]
#[command(
    after_help = "An epsilon bounds what a coalition learns about the value of one device. Every \
    row tolerates dishonest devices: at most half of the minimum batch, in total. Without --trust \
    two attesters and hybrid keys are assumed."
)]
pub(super) struct CoalitionsArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Print the table in Markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// One row.
#[derive(Debug, Serialize)]
struct Row {
    parties: Vec<&'static str>,
    learns: Vec<&'static str>,
    /// `None`: no bound.
    #[serde(serialize_with = "vocabulary::epsilon_or_inf")]
    epsilon: Option<f64>,
    #[serde(serialize_with = "vocabulary::epsilon_or_inf")]
    epsilon_with_result: Option<f64>,
    #[serde(rename = "reason")]
    because: &'static str,
    shown_by: Vec<&'static str>,
}

impl CoalitionsArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let (loaded, trust) = self.recipe.load()?;
        let allowed = trust.as_ref().map_or_else(Allowed::default, |trust| Allowed {
            one_attester: trust.has_one_attester(),
            x25519: !trust.settings().require_post_quantum,
        });
        let rows = rows(&loaded.recipe, loaded.audience, allowed)?;
        if output.json() {
            let recipe = &loaded.recipe;
            let id = loaded.id_known().then(|| recipe.id());
            output.value(&json!({ "recipe_id": id, "name": recipe.name, "coalitions": rows }))?;
        } else if self.markdown {
            output.line(markdown(&rows).trim_end())?;
        } else {
            print(&loaded.recipe, &rows, output)?;
        }
        Ok(Outcome::Yes)
    }
}

fn rows(recipe: &Recipe, audience: Option<u64>, allowed: Allowed) -> Result<Vec<Row>> {
    let remaining = Remaining::of(recipe, audience)?;
    let row = |found: Coalition| {
        let mut shown_by: Vec<_> = found.facts.iter().map(|fact| fact.shown_by).collect();
        shown_by.sort_unstable();
        shown_by.dedup();
        Row {
            parties: found.parties.iter().map(|party| party.name()).collect(),
            learns: found.facts.iter().map(|fact| fact.learns).collect(),
            epsilon: remaining.epsilon(found.limit),
            epsilon_with_result: remaining.epsilon(found.limit_with_result),
            because: because(found.limit_with_result),
            shown_by,
        }
    };
    Ok(coalitions(recipe, allowed).into_iter().map(row).collect())
}

fn because(limit: Limit) -> &'static str {
    match limit {
        Limit::Nothing => "no value is seen",
        Limit::Claim => "the recipe's claim holds",
        Limit::SampleKnown => "the sample is known, so sampling does not help",
        Limit::RandomizerAlone => "only the randomizer protects the value",
    }
}

fn epsilon(epsilon: Option<f64>) -> String {
    epsilon.map_or_else(|| "no bound".to_owned(), up)
}

fn print(recipe: &Recipe, rows: &[Row], output: &Output) -> Result<()> {
    output.title(&format!("recipe {}", recipe.name))?;
    output.prose(format!(
        "Every row tolerates up to {} dishonest devices in total. The row of leader and helper \
         does not rely on the stated population. `sotto recipe check` says how much less they learn if \
         half of it is honest and the relay hides senders.",
        grouped(recipe.aggregation.min_batch / 2)
    ))?;
    for row in rows {
        output.heading(&row.parties.join(" and "))?;
        for learns in &row.learns {
            output.entry("  learns    ", learns)?;
        }
        let (alone, result) = (epsilon(row.epsilon), epsilon(row.epsilon_with_result));
        let words = format!("{alone}; with the result {result}: {}", row.because);
        output.entry("  epsilon   ", words)?;
        output.entry("  shown by  ", row.shown_by.join(", "))?;
    }
    Ok(())
}

/// The table of the threat model.
fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| Parties | Learn | Epsilon | With the result | Why | Shown by |\n|---|---|---:|---:|---|---|\n",
    );
    for row in rows {
        let shown_by: Vec<String> = row
            .shown_by
            .iter()
            .map(|test| if *test == "design" { "design".to_owned() } else { format!("`{test}`") })
            .collect();
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            row.parties.join(", "),
            row.learns.join("; "),
            epsilon(row.epsilon),
            epsilon(row.epsilon_with_result),
            row.because,
            shown_by.join(", ")
        ));
    }
    text
}
