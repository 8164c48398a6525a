//! `sotto recipe show`.

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use sotto_crypto::blind_rsa::TokenKey;
use sotto_crypto::hpke::Suite;
use sotto_protocol::recipe::mechanism;
use sotto_wire::{Recipe, Role};

use super::series;
use super::words::{self, grouped};
use crate::output::{Outcome, Output};
use crate::recipe_file::{Loaded, RecipeArgs};
use crate::time_text::show_seconds;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Print only the canonical form (RFC 8785), whose SHA-256 is the recipe's id.
    #[arg(long, conflicts_with = "json")]
    canonical: bool,
}

impl ShowArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let (loaded, _) = self.recipe.load()?;
        let recipe = &loaded.recipe;
        if self.canonical {
            ensure!(
                loaded.id_known(),
                "the recipe has no author, no parties or no token keys yet, so it has no id"
            );
            output.line(String::from_utf8(recipe.to_json())?)?;
            return Ok(Outcome::Yes);
        }
        if output.json() {
            let mut value: Value = serde_json::from_slice(&recipe.to_json())?;
            without_stand_ins(&mut value, &loaded);
            let author = loaded.author_known.then_some(&recipe.author);
            output.value(&json!({
                "recipe_id": loaded.id_known().then(|| recipe.id()),
                "author": author.map(|author| author.name.to_string()),
                "author_key": author.map(|author| author.verifier().to_string()),
                "signed": loaded.entry.is_some(),
                "index": loaded.index,
                "recipe": value,
            }))?;
            return Ok(Outcome::Yes);
        }
        let row = |name: &str, value: &str| output.entry(format!("{name:<14} "), value);
        row("recipe", &recipe.name)?;
        row("purpose", &recipe.purpose)?;
        if loaded.id_known() {
            row("id", &recipe.id().to_string())?;
        }
        if loaded.author_known {
            let signed = if loaded.entry.is_some() { "signature verified" } else { "not signed" };
            row("author", &format!("{} ({signed})", recipe.author.verifier()))?;
        } else {
            row("author", "none yet: the recipe is signed when it is published")?;
        }
        if let Some(index) = loaded.index {
            row("log index", &index.to_string())?;
        }
        rows(recipe, &row)?;
        if !loaded.parties_known {
            row("parties", "none yet: fill in [parties] before you publish it")?;
            return Ok(Outcome::Yes);
        }
        party_rows(recipe, &row)?;
        token_rows(&loaded, &row)?;
        if let Some(warning) = words::token_warning(&recipe.parties.tokens) {
            output.warning(warning);
        }
        Ok(Outcome::Yes)
    }
}

/// Removes the placeholders for what is not known yet.
fn without_stand_ins(value: &mut Value, loaded: &Loaded) {
    if !loaded.author_known
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("author");
    }
    if !loaded.parties_known
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("parties");
        return;
    }
    if !loaded.token_keys_known
        && let Some(tokens) = value["parties"]["tokens"].as_object_mut()
    {
        for key in tokens.values_mut().filter_map(Value::as_object_mut) {
            key.retain(|name, _| name == "issuer");
        }
    }
}

fn token_rows(loaded: &Loaded, row: &dyn Fn(&str, &str) -> Result<()>) -> Result<()> {
    let tokens = &loaded.recipe.parties.tokens;
    row("tokens", &words::tokens(tokens))?;
    if !loaded.token_keys_known {
        return row("token keys", "none yet: `sotto recipe tokens` requests them from the issuers");
    }
    for (role, name) in [(Role::Leader, "leader"), (Role::Helper, "helper")] {
        if let Some(key) = tokens.key(role) {
            let key_of = |spki: Vec<u8>| TokenKey::parse_spki(&spki).ok();
            let origin = key.spki().ok().and_then(key_of).map(|key| origin(&loaded.recipe, &key));
            let origin = origin.unwrap_or_else(|| "not a token key".to_owned());
            row("token key", &format!("{name}: {origin} until {}", words::moment(key.expires)))?;
        }
    }
    Ok(())
}

/// The name by which the issuer knows the key and counts. In a series each participation has its own.
fn origin(recipe: &Recipe, key: &TokenKey) -> String {
    match (recipe.token_number(), recipe.participations()) {
        (Some(number), _) => key.participation_name(number),
        (None, None) => key.origin_name(),
        (None, Some(most)) => {
            let first = key.participation_name(0);
            let others = if most > 1 { format!(" and {} more", most - 1) } else { String::new() };
            first + &others
        }
    }
}

fn rows(recipe: &Recipe, row: &dyn Fn(&str, &str) -> Result<()>) -> Result<()> {
    let attributes: Vec<String> =
        recipe.attributes.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
    row(
        "reads",
        &if attributes.is_empty() { "nothing".to_owned() } else { attributes.join(", ") },
    )?;
    series::rows(recipe, row)?;
    row("population", &grouped(recipe.who.population))?;
    match &recipe.who.targeting {
        None => row("asks", "all devices")?,
        Some(targeting) => {
            row("asks", &format!("devices with {}", targeting.predicate))?;
            row("", &format!("counted by the result {}", targeting.certified))?;
        }
    }
    let when = recipe.open_times();
    row("open", &format!("{} to {}", words::moment(when.opens), words::moment(when.closes)))?;
    row("time precision", &show_seconds(when.window_s))?;
    row("release over", &format!("at most {}", show_seconds(when.max_window_s)))?;
    row("answers", &words::answers(&recipe.sampling))?;
    if !recipe.sampling.dummy_rate.is_zero() {
        row("dummies", &format!("{} of the others", words::one_in(recipe.sampling.dummy_rate)))?;
    }
    row("measures", &words::query(&recipe.query))?;
    row("mapping", recipe.query.mapping())?;
    row("fallback", &words::fallback(&recipe.query))?;
    row("randomizer", &words::mechanism(&mechanism(recipe)?))?;
    row("min batch", &grouped(recipe.aggregation.min_batch))?;
    row("batch mode", words::batch_mode(recipe.aggregation.batch_mode))?;
    row("vdaf", &words::vdaf(&recipe.aggregation.vdaf))?;
    row("claims", &words::privacy(&recipe.privacy))
}

fn party_rows(recipe: &Recipe, row: &dyn Fn(&str, &str) -> Result<()>) -> Result<()> {
    let parties = &recipe.parties;
    row("leader", &format!("{} at {}", parties.leader.operator, parties.leader.url))?;
    row("helper", &format!("{} at {}", parties.helper.operator, parties.helper.url))?;
    let config = parties.collector_config()?;
    let suite = match Suite::of(&config) {
        Some(Suite::Hybrid) => "hybrid",
        Some(Suite::X25519) => "X25519",
        None => "of an unknown suite",
    };
    row("collector key", &format!("id {}, {suite} (--json prints it)", config.id().value()))?;
    row("log", &parties.log)
}

#[cfg(test)]
mod tests {
    use sotto_testing::keys::token_key;
    use sotto_wire::recipe::{Participation, Round};

    use super::origin;
    use crate::recipe::new::testing;

    #[test]
    fn each_participation_in_a_series_has_an_origin_of_its_own() {
        let (key, mut header) = (token_key(1), testing::header());
        let key = key.token_key();
        assert_eq!(origin(&testing::recipe(), key), key.origin_name());
        assert_eq!(origin(&header, key), format!("{} and 29 more", key.participation_name(0)));
        let round = header.with_round(Round { index: 7, model: None }).unwrap();
        assert_eq!(origin(&round, key), key.participation_name(7));
        header.series.as_mut().unwrap().participation = Participation::Donation {};
        assert_eq!(origin(&header, key), key.participation_name(0));
        let round = header.with_round(Round { index: 7, model: None }).unwrap();
        assert_eq!(origin(&round, key), key.participation_name(0));
    }
}
