//! Checks that every mechanism is complete: if a part is missing, a test here says which.

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::Value;
use sotto_dp::mechanism::{Collected, Mechanism};
use sotto_dp::recipe::Law;
use sotto_protocol::recipe::{mechanism, rates, recipe_vdaf};
use sotto_testing::arbitrary;
use sotto_wire::Recipe;
use sotto_wire::recipe::{Noise, RECIPE_SCHEMA};

use super::describe::changes;
use super::explain::sections;
use super::{testing, words};

/// The page that describes each kind and its parameters.
const PAGE: &str = include_str!("../../../../docs/recipe-format.md");

/// A recipe with each kind of mechanism, with the query and the randomizer of an arbitrary recipe.
fn recipes() -> Vec<Recipe> {
    let base = testing::recipe();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let all: Vec<Recipe> = (0..500)
        .map(|_| {
            let Recipe { query, randomizer, noise, .. } = arbitrary::recipe(&mut rng);
            Recipe { query, randomizer, noise, ..base.clone() }
        })
        .collect();
    let of_kind = |kind: &&str| {
        let is_of_kind = |recipe: &&Recipe| {
            mechanism(recipe).is_ok_and(|found| found.kind() == *kind)
                && recipe_vdaf(recipe).is_ok()
        };
        let mut recipe = all
            .iter()
            .find(is_of_kind)
            .unwrap_or_else(|| panic!("sotto_testing::arbitrary makes no recipe with {kind}"))
            .clone();
        recipe.aggregation.vdaf = recipe_vdaf(&recipe).unwrap();
        recipe
    };
    Mechanism::KINDS.iter().map(of_kind).collect()
}

/// The kind of the randomizer, or that of the noise.
fn kind(recipe: &Recipe) -> &'static str {
    match recipe.noise {
        None => recipe.randomizer.kind(),
        Some(Noise::ServerGaussian { .. }) => "server_gaussian",
    }
}

#[test]
fn every_mechanism_has_its_bytes_its_schema_and_its_page() {
    let schema: Value = serde_json::from_str(RECIPE_SCHEMA).unwrap();
    let listed = |group: &str| schema["properties"][group]["oneOf"].as_array().unwrap().iter();
    let listed: BTreeSet<_> = listed("randomizer")
        .chain(listed("noise"))
        .filter_map(|one| one["properties"]["kind"]["const"].as_str())
        .collect();
    assert_eq!(listed, Mechanism::KINDS.iter().copied().collect(), "the schema of recipes");
    for recipe in recipes() {
        let kind = kind(&recipe);
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
        let sections = sections(&recipe, None, "somebody", None).unwrap();
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
            let new = Recipe {
                randomizer: new.randomizer,
                noise: new.noise,
                query: new.query.clone(),
                ..old.clone()
            };
            let found = changes(old, &new);
            let described = found.iter().any(|change| change.field.starts_with("randomizer"));
            assert_eq!(described, kind(old) != kind(&new), "{found:?}");
        }
        let tree = serde_json::to_value(old).unwrap();
        for group in ["randomizer", "noise"] {
            let fields = tree[group].as_object().into_iter().flat_map(|fields| fields.keys());
            for name in fields.filter(|name| *name != "kind") {
                let value = tree[group][name].as_u64().unwrap();
                let with = |other: u64| {
                    let mut tree = tree.clone();
                    tree[group][name] = other.into();
                    serde_json::from_value::<Recipe>(tree).unwrap()
                };
                // The value may be at either end of its range.
                let mut near = [value + 2, value.saturating_sub(2)].map(with).into_iter();
                let new = near.find(|recipe| recipe.check().is_ok()).unwrap();
                let found = changes(old, &new);
                let field = format!("{group}.{name}");
                assert!(found.len() == 1 && found[0].field == field, "{field}: {found:?}");
            }
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
        let sampling = rates(&recipe);
        let collected = Collected { sums: &sums, reports: 0, sampling, level: 0.95 };
        let found = mechanism.estimates(&collected).unwrap();
        let vectors = recipe.query.vectors().map(|vectors| vectors.sent());
        let buckets = recipe.query.buckets().or(vectors).map_or(1, |buckets| buckets as usize);
        assert_eq!(found.len(), buckets, "{kind}");
        // Without noise, or with noise on the sum alone, a report is the exact value; the part of one
        // device in a noise that all add protects nothing by itself.
        let exact = matches!(
            mechanism.law(),
            Law::Exact | Law::ServerGaussian { .. } | Law::DistributedGaussian { .. }
        );
        assert_eq!(exact, mechanism.event().is_none(), "{kind}");
    }
}
