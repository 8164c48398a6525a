//! The recipe format: round trips, ids, the schema, and what must be rejected.

pub(crate) mod cases;

use std::collections::BTreeSet;
use std::iter::repeat_with;

use cases::{Mutant, canonical, histogram, leaf_mutants, shape_mutants};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use sotto_testing::arbitrary;
use sotto_wire::recipe::{
    KEY_SET_SCHEMA, Model, POPULATION_RESULT_SCHEMA, RECEIPT_SCHEMA, RECIPE_SCHEMA,
};
use sotto_wire::{
    EntryId, FormatError, HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId, KeySet,
    PopulationResult, Receipt, Recipe,
};

fn schema(text: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

fn value(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

#[test]
fn arbitrary_recipes_come_back_from_toml_and_json_and_fit_the_schema() {
    let schema = schema(RECIPE_SCHEMA);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut ids = BTreeSet::new();
    for _ in 0..2_000 {
        let recipe = arbitrary::recipe(&mut rng);
        recipe.check().unwrap();
        let toml = recipe.to_toml();
        let from_toml = Recipe::from_toml(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        let json = from_toml.to_json();
        let parsed = Recipe::parse(&json).unwrap();
        assert_eq!(parsed, recipe);
        assert_eq!(parsed.id(), recipe.id());
        assert_eq!(parsed.id(), EntryId::of(&json));
        let value = value(&json);
        if let Some(error) = schema.iter_errors(&value).next() {
            panic!("{error} at {}\n{value:#}", error.instance_path());
        }
        ids.insert(parsed.id());
    }
    assert_eq!(ids.len(), 2_000);
}

#[test]
fn arbitrary_key_sets_results_and_receipts_come_back_and_fit_their_schemas() {
    let (key_sets, results) = (schema(KEY_SET_SCHEMA), schema(POPULATION_RESULT_SCHEMA));
    let receipts = schema(RECEIPT_SCHEMA);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    for _ in 0..1_000 {
        let key_set = arbitrary::key_set(&mut rng);
        key_set.check().unwrap();
        assert_eq!(KeySet::parse(&key_set.to_json()), Ok(key_set.clone()));
        assert_eq!(key_set.id(), EntryId::of(&key_set.to_json()));
        assert!(key_sets.is_valid(&value(&key_set.to_json())));
        assert_eq!(key_set.configs().unwrap().len(), key_set.hpke_configs.len());
        let gateway = key_set.gateway_configs.as_ref().map_or(0, Vec::len);
        assert_eq!(key_set.gateway_keys().unwrap().len(), gateway);
        let encapsulation = key_set.encapsulation_configs.as_ref().map_or(0, Vec::len);
        assert_eq!(key_set.encapsulation_keys().unwrap().len(), encapsulation);

        let result = arbitrary::population_result(&mut rng);
        result.check().unwrap();
        assert_eq!(PopulationResult::parse(&result.to_json()), Ok(result.clone()));
        assert_eq!(result.id(), EntryId::of(&result.to_json()));
        assert!(results.is_valid(&value(&result.to_json())));

        let receipt = arbitrary::receipt(&mut rng);
        receipt.check().unwrap();
        assert_eq!(Receipt::parse(&receipt.to_json()), Ok(receipt.clone()));
        assert_eq!(receipt.id(), EntryId::of(&receipt.to_json()));
        assert!(receipts.is_valid(&value(&receipt.to_json())));
    }
}

/// Mutates each leaf of a value, adds and removes fields, and compares parser and schema. Returns
/// the paths of the leaves that could be changed into something valid.
fn mutate_all<T: PartialEq + std::fmt::Debug>(
    original: &[u8],
    schema: &jsonschema::Validator,
    parse: fn(&[u8]) -> Result<T, FormatError>,
    id: fn(&T) -> EntryId,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let before = parse(original).unwrap();
    let tree = value(original);
    let (mut leaves, mut changed) = (BTreeSet::new(), BTreeSet::new());
    for Mutant { path, mutant } in leaf_mutants(&tree) {
        leaves.insert(path.clone());
        let json = canonical(&mutant);
        let Ok(after) = parse(&json) else { continue };
        assert_ne!(after, before, "{path}");
        assert_ne!(id(&after), id(&before), "{path}");
        assert_eq!(id(&after), EntryId::of(&json), "{path}");
        // The schema accepts what the parser accepts.
        assert!(schema.is_valid(&mutant), "{path}: {mutant:#}");
        changed.insert(path);
    }
    for Mutant { path, mutant } in shape_mutants(&tree) {
        match parse(&canonical(&mutant)) {
            Ok(after) => {
                assert_ne!(id(&after), id(&before), "{path}");
                assert!(schema.is_valid(&mutant), "{path}: {mutant:#}");
            }
            Err(_) if path.ends_with("[longer]") || path.ends_with("[shorter]") => {}
            // -1 is a boundary, but not one that is above the last one.
            Err(_) if path.starts_with("query.boundaries[") && path.ends_with("]=-1") => {}
            // A vote is one more number of a vector, which a schema does not count.
            Err(_) if path == "series.training.vote_weight_micro[removed]" => {}
            // A schema must detect unknown and missing fields, and values of another type.
            Err(_) => assert!(!schema.is_valid(&mutant), "{path}: {mutant:#}"),
        }
    }
    (leaves, changed)
}

#[test]
fn every_field_of_a_recipe_changes_its_id() {
    let schema = schema(RECIPE_SCHEMA);
    let (mut leaves, mut changed) = (BTreeSet::new(), BTreeSet::new());
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let mut recipes: Vec<_> = (0..80).map(|_| arbitrary::recipe(&mut rng)).collect();
    // The sizes of its model change nothing else.
    let evaluates = |recipe: &Recipe| {
        let training = recipe.series.as_ref().and_then(|series| series.training.as_ref());
        training.is_some_and(|it| it.is_evaluation() && matches!(it.model, Model::Softmax { .. }))
    };
    recipes.extend(repeat_with(|| arbitrary::recipe(&mut rng)).find(evaluates));
    recipes.push(histogram());
    for recipe in &recipes {
        let (seen, accepted) = mutate_all(&recipe.to_json(), &schema, Recipe::parse, Recipe::id);
        leaves.extend(seen.into_iter().map(|path| generic(&path)));
        changed.extend(accepted.into_iter().map(|path| generic(&path)));
    }
    // Some have one value only. Others change with another field: a kind with its whole group, below,
    // the rounds of a claim with those of its series, the length of a round with the times, and the
    // size of a model with the dimension of its updates (recipe_series.rs). No evaluation of a model of kind `mlp` is among these recipes.
    let alone = [
        "aggregation.vdaf.type",
        "noise.kind",
        "parties.tokens.kind",
        "privacy.accountant",
        "privacy.kind",
        "privacy.rounds",
        "series.length_s",
        "series.training.model.hidden",
        "series.training.model.kind",
        "version",
    ];
    let unchanged: Vec<_> = leaves.difference(&changed).collect();
    assert_eq!(unchanged, alone, "no valid change of these was tried");
    assert!(leaves.len() > 30, "{leaves:?}");
}

#[test]
fn every_group_of_a_recipe_changes_its_id() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut replaced = BTreeSet::new();
    for _ in 0..200 {
        let [one, other] = [(); 2].map(|()| arbitrary::recipe(&mut rng));
        let (tree, donor) = (value(&one.to_json()), value(&other.to_json()));
        for (group, content) in donor.as_object().unwrap() {
            let mut mutant = tree.clone();
            mutant[group] = content.clone();
            let Ok(after) = Recipe::parse(&canonical(&mutant)) else { continue };
            assert_eq!(after.id() == one.id(), tree[group] == *content, "{group}");
            replaced.insert(group.clone());
        }
    }
    assert_eq!(replaced.len(), 15, "{replaced:?}");
}

#[test]
fn every_field_of_key_sets_results_and_receipts_changes_their_ids() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for _ in 0..20 {
        let key_set = arbitrary::key_set(&mut rng).to_json();
        mutate_all(&key_set, &schema(KEY_SET_SCHEMA), KeySet::parse, KeySet::id);
        let result = arbitrary::population_result(&mut rng).to_json();
        let schema = schema(POPULATION_RESULT_SCHEMA);
        mutate_all(&result, &schema, PopulationResult::parse, PopulationResult::id);
        let receipt = arbitrary::receipt(&mut rng).to_json();
        let schema = self::schema(RECEIPT_SCHEMA);
        mutate_all(&receipt, &schema, Receipt::parse, Receipt::id);
    }
}

#[test]
fn the_keys_of_a_gateway_or_an_issuer_may_stand_alone_but_nothing_may_stand_for_none() {
    for kind in ["gateway_configs", "encapsulation_configs"] {
        keys_may_stand_alone(kind);
    }
}

fn keys_may_stand_alone(kind: &str) {
    let schema = schema(KEY_SET_SCHEMA);
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let own = std::iter::repeat_with(|| arbitrary::key_set(&mut rng))
        .find(|set| set.gateway_configs.is_none() && set.encapsulation_configs.is_none())
        .unwrap();
    let tree = value(&own.to_json());
    let keys = &tree["hpke_configs"];
    let twice = json!([keys[0], keys[0]]);
    let many: Vec<_> = (0..17).map(|_| keys[0].clone()).collect();
    for (why, others, own, accepted) in [
        ("both", Some(keys.clone()), keys.clone(), true),
        ("these alone", Some(keys.clone()), json!([]), true),
        ("an aggregator's alone", None, keys.clone(), true),
        ("none", None, json!([]), false),
        ("an empty list", Some(json!([])), keys.clone(), false),
        ("two empty lists", Some(json!([])), json!([]), false),
        ("null", Some(json!(null)), keys.clone(), false),
        ("one id twice", Some(twice), keys.clone(), false),
        ("too many", Some(json!(many)), keys.clone(), false),
        ("no configuration", Some(json!(["AAAA"])), keys.clone(), false),
    ] {
        let mut tree = tree.clone();
        tree["hpke_configs"] = own;
        let fields = tree.as_object_mut().unwrap();
        match others {
            Some(others) => fields.insert(kind.to_owned(), others),
            None => fields.remove(kind),
        };
        assert_eq!(KeySet::parse(&canonical(&tree)).is_ok(), accepted, "{kind}: {why}");
        assert_eq!(schema.is_valid(&tree), accepted, "{kind}: {why}");
    }
}

#[test]
fn no_two_keys_of_a_kind_have_one_id() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let set = arbitrary::key_set(&mut rng);
    // A schema cannot detect this.
    let config = |key| {
        let (id, kem) = (HpkeConfigId::new(3), HpkeKemId::X25519_HKDF_SHA256);
        let (kdf, aead) = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
        KeySet::config_text(&HpkeConfig::new(id, kem, kdf, aead, vec![key; 32]).unwrap())
    };
    let one_id = vec![config(1), config(2)];
    let gateway = KeySet { gateway_configs: Some(one_id.clone()), ..set.clone() };
    assert!(gateway.check().unwrap_err().to_string().contains("two gateway_configs"));
    let issuer = KeySet { encapsulation_configs: Some(one_id.clone()), ..set.clone() };
    assert!(issuer.check().unwrap_err().to_string().contains("two encapsulation_configs"));
    let own = KeySet { hpke_configs: one_id.clone(), ..set.clone() };
    assert!(own.check().unwrap_err().to_string().contains("two hpke_configs"));
    // The same id in both lists is not a conflict: the lists are used in different places.
    let [one, other] = [&one_id[..1], &one_id[1..]].map(<[String]>::to_vec);
    let both = KeySet { hpke_configs: one, gateway_configs: Some(other), ..set };
    assert_eq!(both.check(), Ok(()));
}

/// The path without the names chosen by the author and the positions in lists.
fn generic(path: &str) -> String {
    let path = path.split('[').next().unwrap();
    if path.starts_with("attributes.") { "attributes.*".to_owned() } else { path.to_owned() }
}

#[test]
fn an_unknown_field_is_an_error_at_every_level() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut levels = BTreeSet::new();
    for _ in 0..60 {
        let tree = value(&arbitrary::recipe(&mut rng).to_json());
        for Mutant { path, mutant } in shape_mutants(&tree) {
            let Some(level) = path.strip_suffix(".zzz_unknown") else { continue };
            if level == "attributes" {
                continue;
            }
            assert!(Recipe::parse(&canonical(&mutant)).is_err(), "{path}");
            levels.insert(level.to_owned());
        }
    }
    for level in [
        "",
        "author",
        "who",
        "who.targeting",
        "when",
        "sampling",
        "query",
        "randomizer",
        "noise",
        "aggregation",
        "aggregation.vdaf",
        "privacy",
        "parties",
        "parties.leader",
        "parties.helper",
        "parties.tokens",
        "parties.tokens.leader",
        "parties.tokens.helper",
        "series",
        "series.participation",
        "series.training",
        "series.training.model",
        "series.round",
    ] {
        assert!(levels.contains(level), "{level:?} was not tried");
    }
}

/// Bytes that a lenient parser would read as the recipe. One recipe under two ids would be answered
/// twice.
#[test]
fn only_the_canonical_bytes_are_a_recipe() {
    let json = String::from_utf8(histogram().to_json()).unwrap();
    assert!(Recipe::parse(json.as_bytes()).is_ok());
    let spaced = serde_json::to_string_pretty(&value(json.as_bytes())).unwrap();
    let replaced = |from: &str, to: &str| {
        assert_eq!(json.matches(from).count(), 1, "{from}");
        json.replace(from, to)
    };
    for (why, text) in [
        ("spaces", spaced),
        ("a space at the end", format!("{json} ")),
        ("a newline at the end", format!("{json}\n")),
        ("a byte order mark", format!("\u{feff}{json}")),
        ("a second value", format!("{json}{json}")),
        ("a repeated field", replaced("\"version\":1", "\"version\":1,\"version\":1")),
        (
            "a repeated field with another value",
            replaced("\"version\":1", "\"version\":2,\"version\":1"),
        ),
        ("a repeated attribute", replaced("\"age\":\"int\"", "\"age\":\"int\",\"age\":\"int\"")),
        (
            "an attribute with two types",
            replaced("\"age\":\"int\"", "\"age\":\"bool\",\"age\":\"int\""),
        ),
        (
            "a repeated tag",
            replaced("\"kind\":\"histogram\"", "\"kind\":\"histogram\",\"kind\":\"histogram\""),
        ),
        ("a repeated field behind a tag", replaced("\"buckets\":3", "\"buckets\":3,\"buckets\":3")),
        (
            "a field that the variant lacks",
            replaced("\"kind\":\"claim\"", "\"kind\":\"claim\",\"x\":1"),
        ),
        (
            "null for absent",
            replaced("\"population\":1000000", "\"population\":1000000,\"targeting\":null"),
        ),
        ("a float", replaced("\"population\":1000000", "\"population\":1000000.0")),
        ("an exponent", replaced("\"population\":1000000", "\"population\":1e6")),
        ("a leading zero", replaced("\"population\":1000000", "\"population\":01000000")),
        ("a plus", replaced("\"population\":1000000", "\"population\":+1000000")),
        ("text for a number", replaced("\"population\":1000000", "\"population\":\"1000000\"")),
        ("minus zero", replaced("\"fallback\":0", "\"fallback\":-0")),
        ("minus one", replaced("\"fallback\":0", "\"fallback\":-1")),
        ("2^53", replaced("\"population\":1000000", "\"population\":9007199254740992")),
        ("2^53 + 1", replaced("\"population\":1000000", "\"population\":9007199254740993")),
        ("2^64", replaced("\"population\":1000000", "\"population\":18446744073709551616")),
        (
            "a default that is written",
            replaced("\"rate\":[1,50]", "\"dummy_rate\":[0,1],\"rate\":[1,50]"),
        ),
        ("a rate twice", replaced("\"rate\":[1,50]", "\"other_rate\":[1,50],\"rate\":[1,50]")),
        ("no rate", replaced("\"rate\":[1,50]", "")),
        ("one of two rates", replaced("\"rate\":[1,50]", "\"other_rate\":[1,50]")),
        ("null for no noise", replaced("\"parties\":", "\"noise\":null,\"parties\":")),
        ("a fraction that can be reduced", replaced("\"rate\":[1,50]", "\"rate\":[2,100]")),
        ("a fraction with three numbers", replaced("\"rate\":[1,50]", "\"rate\":[1,50,1]")),
        ("an escape that is not needed", replaced("Which emoji", "\\u0057hich emoji")),
        ("an escaped slash", replaced("https://leader.example/", "https:\\/\\/leader.example\\/")),
        ("an escape in a name", replaced("\"version\"", "\"\\u0076ersion\"")),
        ("an upper-case escape", replaced("a &&\\nb", "a &&\\u000Ab")),
        ("a raw control character", replaced("a &&\\nb", "a &&\nb")),
        ("half a surrogate pair", replaced("Which emoji", "\\ud83dhich emoji")),
        (
            "a surrogate pair in the wrong order",
            replaced("Which emoji", "\\ude00\\ud83dhich emoji"),
        ),
        ("an escaped surrogate pair", replaced("😀", "\\ud83d\\ude00")),
        ("a line separator", replaced("Which emoji", "Which\u{2028}emoji")),
        ("an escaped line separator", replaced("Which emoji", "Which\\u2028emoji")),
        ("a character that turns the text round", replaced("Which emoji", "Which\u{202e}emoji")),
        ("padding", replaced("BQUFBQU\"", "BQUFBQU=\"")),
        ("trailing bits", replaced("BQUFBQU\"", "BQUFBQV\"")),
        ("a comment", format!("/* */{json}")),
        ("another order", reordered(&json)),
        ("nothing", String::new()),
        ("no object", "[]".to_owned()),
        ("null", "null".to_owned()),
    ] {
        assert!(Recipe::parse(text.as_bytes()).is_err(), "{why}: {text}");
    }
    let mut bad_utf8 = json.into_bytes();
    let at = bad_utf8.iter().position(|&byte| byte == b'W').unwrap();
    bad_utf8[at] = 0xff;
    assert!(Recipe::parse(&bad_utf8).is_err());
}

/// The first two fields swapped.
fn reordered(json: &str) -> String {
    let rest = json.strip_prefix("{\"aggregation\":").unwrap();
    let (aggregation, rest) = rest.split_once(",\"attributes\":").unwrap();
    let (attributes, rest) = rest.split_once(",\"author\":").unwrap();
    format!("{{\"attributes\":{attributes},\"aggregation\":{aggregation},\"author\":{rest}")
}

/// Deep nesting is rejected before it can exhaust the stack.
#[test]
fn nests_and_giants_are_refused() {
    for open in ["[", "{\"a\":", "{\"query\":{\"kind\":"] {
        let nest = open.repeat(60_000 / open.len());
        assert!(Recipe::parse(nest.as_bytes()).is_err());
    }
    let mut recipe = histogram();
    let sotto_wire::recipe::Query::Histogram { buckets, labels, .. } = &mut recipe.query else {
        unreachable!()
    };
    *buckets = 2_000;
    *labels = Some((0..2_000).map(|index| format!("{index:050}")).collect());
    let reason = recipe.check().unwrap_err().to_string();
    assert!(reason.contains("fit into an entry"), "{reason}");
    assert!(Recipe::parse(&recipe.to_json()).is_err());
}

/// The example of the documentation, whose JSON and id come from another implementation.
#[test]
fn the_documented_example_holds() {
    let page = include_str!("../../../docs/recipe-format.md");
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("\n```").unwrap().0
    };
    let recipe = Recipe::from_toml(block("toml")).unwrap();
    assert_eq!(String::from_utf8(recipe.to_json()).unwrap(), block("json"));
    assert_eq!(recipe.id().to_string(), block("text"));
}
