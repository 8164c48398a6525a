//! Checks that every mechanism is complete: if a part is missing, a test here says which.

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::Value;
use sotto_dp::mechanism::{Collected, Mechanism, Rates};
use sotto_dp::recipe::Law;
use sotto_protocol::recipe::{mechanism, recipe_vdaf};
use sotto_testing::arbitrary;
use sotto_wire::Recipe;
use sotto_wire::recipe::RECIPE_SCHEMA;

use super::describe::changes;
use super::explain::sections;
use super::{testing, words};

/// The page that describes each kind and its parameters.
const PAGE: &str = include_str!("../../../../docs/recipe-format.md");

/// A recipe with each kind of mechanism, with the query and the randomizer of an arbitrary recipe.
fn recipes() -> Vec<Recipe> {
    let base = testing::recipe();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let all: Vec<Recipe> = (0..500).map(|_| arbitrary::recipe(&mut rng)).collect();
    let of_kind = |kind: &&str| {
        let found = all.iter().find(|recipe| recipe.randomizer.kind() == *kind);
        let Recipe { query, randomizer, .. } = found
            .unwrap_or_else(|| panic!("sotto_testing::arbitrary makes no recipe with {kind}"))
            .clone();
        let mut recipe = Recipe { query, randomizer, ..base.clone() };
        recipe.aggregation.vdaf = recipe_vdaf(&recipe.query, &recipe.randomizer).unwrap();
        recipe
    };
    Mechanism::KINDS.iter().map(of_kind).collect()
}

#[test]
fn every_mechanism_has_its_bytes_its_schema_and_its_page() {
    let schema: Value = serde_json::from_str(RECIPE_SCHEMA).unwrap();
    let listed = schema["properties"]["randomizer"]["oneOf"].as_array().unwrap();
    let listed: BTreeSet<_> =
        listed.iter().filter_map(|one| one["properties"]["kind"]["const"].as_str()).collect();
    assert_eq!(listed, Mechanism::KINDS.iter().copied().collect(), "the schema of recipes");
    for recipe in recipes() {
        let kind = recipe.randomizer.kind();
        assert_eq!(mechanism(&recipe).unwrap().kind(), kind);
        assert_eq!(Recipe::parse(&recipe.to_json()).unwrap(), recipe, "JSON of {kind}");
        assert_eq!(Recipe::from_toml(&recipe.to_toml()).unwrap(), recipe, "TOML of {kind}");
        assert!(PAGE.contains(&format!("`{kind}`")), "docs/recipe-format.md has no {kind}");
    }
}

#[test]
fn every_mechanism_has_words() {
    for recipe in recipes() {
        let mechanism = mechanism(&recipe).unwrap();
        let (kind, said) = (mechanism.kind(), mechanism.words());
        assert!(!said.name.is_empty() && !said.effect.is_empty(), "{kind}: {said:?}");
        assert!(words::mechanism(&mechanism).starts_with(said.name), "{kind}: {said:?}");
        let sections = sections(&recipe, "somebody", None).unwrap();
        let told = sections.iter().any(|section| section.text.contains(&said.explanation));
        assert!(told && said.explanation.ends_with('.'), "explain: {kind}");
        for word in ["epsilon", "delta", "randomiz"] {
            assert!(!said.explanation.contains(word), "jargon about {kind}: {word}");
        }
    }
}

/// Every difference between two mechanisms is described, in both directions.
#[test]
fn every_mechanism_and_every_parameter_of_it_is_compared() {
    let recipes = recipes();
    for old in &recipes {
        for new in &recipes {
            let new =
                Recipe { randomizer: new.randomizer, query: new.query.clone(), ..old.clone() };
            let found = changes(old, &new);
            let described = found.iter().any(|change| change.field.starts_with("randomizer"));
            assert_eq!(described, old.randomizer != new.randomizer, "{found:?}");
        }
        let tree = serde_json::to_value(old).unwrap();
        let fields = tree["randomizer"].as_object().unwrap();
        for name in fields.keys().filter(|name| *name != "kind") {
            let mut tree = tree.clone();
            let value = tree["randomizer"][name].as_u64().unwrap();
            tree["randomizer"][name] = (value ^ 2).max(1).into();
            let new = serde_json::from_value(tree).unwrap();
            let found = changes(old, &new);
            let field = format!("randomizer.{name}");
            assert!(found.len() == 1 && found[0].field == field, "{field}: {found:?}");
        }
    }
}

#[test]
fn every_mechanism_has_an_estimator_and_names_its_law() {
    for recipe in recipes() {
        let mechanism = mechanism(&recipe).unwrap();
        let kind = mechanism.kind();
        let numbers = mechanism.encoding().numbers() as usize;
        let sums = vec![0; numbers];
        let sampling = Rates::all(0.5);
        let collected = Collected { sums: &sums, reports: 0, sampling, level: 0.95 };
        let found = mechanism.estimates(&collected).unwrap();
        assert_eq!(found.len(), numbers, "{kind}");
        assert_eq!(mechanism.law() == Law::Exact, mechanism.event().is_none(), "{kind}");
    }
}
