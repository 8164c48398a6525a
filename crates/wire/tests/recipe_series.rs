//! Recipes in rounds: headers and rounds as TOML and JSON, and every rule about them.

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use sotto_testing::arbitrary;
use sotto_wire::recipe::{
    AttributeType, Discovery, Model, Noise, Participation, Privacy, Probability, Query,
    RECIPE_SCHEMA, Randomizer, RecipeVdaf, Round, Series, Training, VectorQuery, When,
};
use sotto_wire::{EntryId, FormatError, Recipe};

use crate::recipe::cases::{canonical, histogram};

const QUARTER: u64 = 86_400 / 4;

/// Thirty rounds in which devices count.
fn header() -> Recipe {
    let mut recipe = histogram();
    let participation = Participation::EachRound {};
    recipe.series = Some(Series {
        rounds: 30,
        participation,
        length_s: None,
        training: None,
        discovery: None,
        round: None,
    });
    set_rounds(&mut recipe, 30);
    recipe
}

/// 28 rounds of a quarter of a day each: a week.
fn quarters() -> Recipe {
    let mut recipe = header();
    series(&mut recipe).rounds = 28;
    set_rounds(&mut recipe, 28);
    series(&mut recipe).length_s = Some(QUARTER);
    recipe.when.max_window_s = QUARTER;
    recipe
}

/// The same with a model that is trained.
fn training(model: Model, vote_weight_micro: Option<u64>) -> Recipe {
    let mut recipe = header();
    let training = Training {
        model,
        models: "https://models.example/commute/".to_owned(),
        steps: 3,
        batch: Some(32),
        learning_rate_micro: 500_000,
        vote_weight_micro,
        largest_loss_micro: None,
    };
    let dimension = u32::try_from(training.answer_numbers()).unwrap();
    series(&mut recipe).training = Some(training);
    recipe.attributes.insert("update".parse().unwrap(), AttributeType::Vector(dimension));
    recipe.query = Query::VectorMean(VectorQuery {
        dimension,
        clip_micro: 1_000_000,
        fraction_bits: 15,
        mapping: "update".to_owned(),
        compression: None,
    });
    recipe.randomizer = Randomizer::Gaussian { sigma_micro: 2_000_000 };
    recipe.aggregation.vdaf = RecipeVdaf::Pine64 {
        dimension,
        norm_bound: 1 << 15,
        chunk_length: 10,
        chunk_length_norm_equality: 10,
    };
    recipe
}

/// Thirty rounds in which words are looked for.
fn discovery() -> Recipe {
    let mut recipe = header();
    series(&mut recipe).discovery =
        Some(Discovery { lists: "https://lists.example/".to_owned(), list_len: 61_408 });
    recipe.query =
        Query::Histogram { buckets: 100, labels: None, mapping: "emoji".to_owned(), fallback: 0 };
    recipe.randomizer = Randomizer::None;
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: 4_000_000 });
    recipe.aggregation.vdaf = RecipeVdaf::Prio3Histogram { length: 100, chunk_length: 10 };
    recipe
}

/// The same, but for devices that say how good the model is.
fn evaluation(model: Model, vote_weight_micro: Option<u64>) -> Recipe {
    let mut recipe = training(model, vote_weight_micro);
    let terms = terms(&mut recipe);
    (terms.steps, terms.batch, terms.learning_rate_micro) = (0, None, 0);
    terms.largest_loss_micro = Some(4_000_000);
    recipe.attributes.remove("update");
    recipe.attributes.insert("evaluation".parse().unwrap(), AttributeType::Vector(2));
    (vectors(&mut recipe).dimension, vectors(&mut recipe).mapping) = (2, "evaluation".to_owned());
    recipe.randomizer = Randomizer::None;
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: 2_000_000 });
    recipe.aggregation.vdaf = RecipeVdaf::Pine64 {
        dimension: 2,
        norm_bound: 1 << 15,
        chunk_length: 2,
        chunk_length_norm_equality: 2,
    };
    recipe
}

fn softmax() -> Model {
    Model::Softmax { features: 65, classes: 10 }
}

fn mlp() -> Model {
    Model::Mlp { features: 64, hidden: 16, classes: 10 }
}

fn custom(weights: u32) -> Model {
    Model::Custom { name: "my-model".to_owned(), weights }
}

fn series(recipe: &mut Recipe) -> &mut Series {
    recipe.series.as_mut().unwrap()
}

fn set_rounds(recipe: &mut Recipe, number: u64) {
    let Privacy::Claim { rounds, .. } = &mut recipe.privacy else { panic!("no claim") };
    *rounds = number;
}

fn numbered(index: u64) -> Round {
    Round { index, model: None }
}

fn of_model(index: u64) -> Round {
    Round { index, model: Some(EntryId::new([7; 32])) }
}

/// Headers and rounds of every kind.
fn all_kinds() -> Vec<Recipe> {
    let mut donation = header();
    series(&mut donation).participation = Participation::Donation {};
    let mut whole = training(softmax(), None);
    series(&mut whole).training.as_mut().unwrap().batch = None;
    let mut packed = training(custom(1_000), Some(1));
    let Query::VectorMean(vectors) = &mut packed.query else { unreachable!() };
    vectors.compression = Some(sotto_wire::recipe::Compression { dimension: 16, seed: 7 });
    let headers = [
        header(),
        quarters(),
        donation,
        whole,
        packed,
        training(softmax(), None),
        training(mlp(), Some(100_000)),
        training(custom(1_000), None),
        discovery(),
        evaluation(softmax(), None),
        evaluation(mlp(), Some(100_000)),
    ];
    let with_rounds = |header: Recipe| {
        let trained = header.series.as_ref().unwrap().has_files();
        let round = |index| if trained { of_model(index) } else { numbered(index) };
        let last = header.series.as_ref().unwrap().rounds - 1;
        let rounds = [0, last].map(|index| header.with_round(round(index)).unwrap());
        [&[header], &rounds[..]].concat()
    };
    headers.into_iter().flat_map(with_rounds).collect()
}

fn schema() -> jsonschema::Validator {
    jsonschema::draft202012::new(&serde_json::from_str::<Value>(RECIPE_SCHEMA).unwrap()).unwrap()
}

#[test]
fn every_kind_comes_back_from_toml_and_json_and_fits_the_schema() {
    let schema = schema();
    let mut ids = BTreeSet::new();
    for recipe in all_kinds() {
        let toml = recipe.to_toml();
        assert_eq!(Recipe::from_toml(&toml), Ok(recipe.clone()), "{toml}");
        let json = recipe.to_json();
        assert_eq!(Recipe::parse(&json), Ok(recipe.clone()));
        assert_eq!(recipe.id(), EntryId::of(&json));
        let value: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(canonical(&value), json);
        assert!(schema.is_valid(&value), "{value:#}");
        ids.insert(recipe.id());
    }
    assert_eq!(ids.len(), 33);
}

#[test]
fn the_bytes_of_a_series_are_these() {
    let bytes = |recipe: &Recipe| String::from_utf8(recipe.to_json()).unwrap();
    for (recipe, part) in [
        (header(), r#""series":{"participation":{"kind":"each_round"},"rounds":30},"version""#),
        (
            header().with_round(numbered(7)).unwrap(),
            r#""series":{"participation":{"kind":"each_round"},"round":{"index":7},"rounds":30}"#,
        ),
        (
            quarters(),
            r#""series":{"length_s":21600,"participation":{"kind":"each_round"},"rounds":28}"#,
        ),
        (
            training(mlp(), Some(100_000)).with_round(of_model(0)).unwrap(),
            r#""round":{"index":0,"model":"0707070707070707070707070707070707070707070707070707070707070707"},"rounds":30,"training":{"batch":32,"learning_rate_micro":500000,"model":{"classes":10,"features":64,"hidden":16,"kind":"mlp"},"models":"https://models.example/commute/","steps":3,"vote_weight_micro":100000}}"#,
        ),
        (
            evaluation(softmax(), Some(100_000)),
            r#""rounds":30,"training":{"largest_loss_micro":4000000,"model":{"classes":10,"features":65,"kind":"softmax"},"models":"https://models.example/commute/","vote_weight_micro":100000}}"#,
        ),
    ] {
        assert!(bytes(&recipe).contains(part), "{}", bytes(&recipe));
    }
    let mut donation = header();
    series(&mut donation).participation = Participation::Donation {};
    let part = r#""series":{"participation":{"kind":"donation"},"rounds":30}"#;
    assert!(bytes(&donation).contains(part), "{}", bytes(&donation));
    // What has no series has the bytes that it had before there were any.
    assert!(!bytes(&histogram()).contains("series"));
}

/// The rounds of a claim follow from the series, and a participation that is left out is
/// `each_round`.
#[test]
fn toml_may_leave_out_what_follows() {
    let toml = header().to_toml();
    for line in ["participation = \"each_round\"\n", "\nrounds = 30\n"] {
        let (before, after) = toml.rsplit_once(line).unwrap();
        let shorter = format!("{before}\n{after}");
        assert_eq!(Recipe::from_toml(&shorter), Ok(header()), "{shorter}");
    }
}

#[test]
fn a_header_is_its_round_without_the_number_and_the_model() {
    for (header, round) in [
        (header(), numbered(3)),
        (training(softmax(), None), of_model(3)),
        (training(mlp(), Some(1)), of_model(29)),
    ] {
        let recipe = header.with_round(round.clone()).unwrap();
        assert!(header.is_header() && !recipe.is_header());
        assert_eq!((header.round(), recipe.round()), (None, Some(&round)));
        assert_eq!((header.header(), recipe.header()), (None, Some(header.clone())));
        assert_eq!((header.series_id(), recipe.series_id()), (header.id(), header.id()));
        assert_ne!(recipe.id(), header.id());
        // A round of a round is another round of the same header.
        let next = recipe.with_round(Round { index: 4, ..round.clone() }).unwrap();
        assert_eq!(next.series_id(), header.id());
        assert_ne!(next.id(), recipe.id());
        let other_model = round.model.map(|_| EntryId::new([8; 32]));
        let other = recipe.with_round(Round { model: other_model, ..round });
        assert_eq!(other.unwrap().series_id(), header.id());
        // Anything else that differs makes it a round of another series.
        let mut renamed = recipe.clone();
        renamed.name.push('x');
        assert_ne!(renamed.series_id(), header.id());
    }
    let alone = histogram();
    assert!(!alone.is_header() && alone.round().is_none() && alone.header().is_none());
    assert_eq!(alone.series_id(), alone.id());
    let refused = alone.with_round(numbered(0)).unwrap_err();
    assert_eq!(refused, FormatError::new("the recipe has no [series]".to_owned()));
}

/// The times of a round follow from its number, where rounds have a length.
#[test]
fn each_round_has_its_part_of_the_time() {
    let whole = quarters().when;
    assert_eq!(
        (quarters().answer_times(), quarters().open_times()),
        (whole.of_round(0, QUARTER), whole)
    );
    for index in [0, 1, 27] {
        let round = quarters().with_round(numbered(index)).unwrap();
        let times = round.answer_times();
        assert_eq!(
            (times.opens, times.closes - QUARTER),
            (whole.opens + index * QUARTER, times.opens)
        );
        assert_eq!(times, When { opens: times.opens, closes: times.closes, ..whole });
        assert_eq!((round.open_times(), round.when), (times, whole));
    }
    let last = quarters().with_round(numbered(27)).unwrap();
    assert_eq!(last.answer_times().closes, whole.closes);
    for recipe in [histogram(), header(), header().with_round(numbered(3)).unwrap()] {
        assert_eq!((recipe.answer_times(), recipe.open_times()), (recipe.when, recipe.when));
    }
    // Nothing overflows before the rules are checked.
    let mut endless = last;
    series(&mut endless).length_s = Some(u64::MAX);
    assert_eq!(endless.answer_times().closes, u64::MAX);
    assert!(endless.check().is_err());
}

#[test]
fn rounds_with_a_length_fill_the_time_of_the_header() {
    let cases: [(Change, &str); 7] = [
        (
            |it| series(it).length_s = Some(0),
            "series.length_s must be at least 1 and below 2^53, not 0",
        ),
        (
            |it| series(it).length_s = Some(86_400),
            "when.max_window_s must be series.length_s, 86400",
        ),
        (|it| it.when.max_window_s -= 3_600, "when.max_window_s must be series.length_s, 21600"),
        (
            |it| {
                series(it).length_s = Some(QUARTER + 1);
                it.when.max_window_s = QUARTER + 1;
            },
            "when.max_window_s must be a multiple of when.window_s",
        ),
        (|it| it.when.closes -= 3_600, "when.closes must be the end of the last round"),
        (|it| it.when.opens -= 3_600, "when.closes must be the end of the last round"),
        (
            |it| {
                series(it).rounds = 27;
                set_rounds(it, 27);
            },
            "when.closes must be the end of the last round",
        ),
    ];
    for (change, message) in cases {
        let error = refused(&quarters(), change);
        assert!(error.starts_with(message), "{error} / {message}");
    }
    for mut with_files in [training(softmax(), None), discovery()] {
        let when = with_files.when;
        series(&mut with_files).length_s = Some(when.closes - when.opens);
        let error = refused(&with_files, |_| {});
        assert!(error.starts_with("series.length_s is not for series.training"), "{error}");
    }
}

#[test]
fn the_header_of_every_arbitrary_round_keeps_the_rules() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let (mut rounds, mut headers, mut lengths) = (0, 0, 0);
    for _ in 0..1_000 {
        let recipe = arbitrary::recipe(&mut rng);
        headers += u32::from(recipe.is_header());
        let length_s = recipe.series.as_ref().and_then(|series| series.length_s);
        lengths += u32::from(length_s.is_some());
        let Some(header) = recipe.header() else { continue };
        rounds += 1;
        header.check().unwrap();
        assert!(header.is_header());
        assert_eq!(header.with_round(recipe.round().unwrap().clone()), Ok(recipe));
    }
    assert!(rounds > 100 && headers > 100, "{rounds} rounds, {headers} headers");
    assert!(lengths > 50, "{lengths} with a length");
}

/// Fields that change only together with another one.
#[test]
fn the_size_of_a_model_and_the_kinds_change_the_id() {
    let turned = Model::Softmax { features: 10, classes: 65 };
    let of = |hidden, features| Model::Mlp { features, hidden, classes: 2 };
    // The same number of weights: (features + 1) hidden + 2 (hidden + 1).
    assert_eq!(of(10, 4).weights(), of(7, 7).weights());
    let recipes = [
        training(softmax(), None),
        training(turned, None),
        training(custom(650), None),
        training(custom(651), None),
        training(custom(649), Some(1)),
        training(of(10, 4), None),
        training(of(7, 7), None),
    ];
    for recipe in &recipes {
        recipe.check().unwrap();
    }
    let ids: BTreeSet<_> = recipes.iter().map(Recipe::id).collect();
    assert_eq!(ids.len(), recipes.len());
    let mut donation = header();
    series(&mut donation).participation = Participation::Donation {};
    donation.check().unwrap();
    assert_ne!(donation.id(), header().id());
}

#[test]
fn models_are_as_large_as_their_layers() {
    for (model, weights) in [
        (softmax(), 650),
        (mlp(), 65 * 16 + 17 * 10),
        (custom(9), 9),
        (Model::Softmax { features: u32::MAX, classes: u32::MAX }, u64::from(u32::MAX).pow(2)),
    ] {
        assert_eq!(model.weights(), weights, "{model:?}");
    }
    let huge = Model::Mlp { features: u32::MAX, hidden: u32::MAX, classes: u32::MAX };
    assert_eq!(huge.weights(), u64::MAX);
    let numbers = |recipe: Recipe| {
        let training = recipe.series.unwrap().training.unwrap();
        (training.model_numbers(), training.answer_numbers())
    };
    assert_eq!(numbers(training(softmax(), None)), (650, 650));
    assert_eq!(numbers(training(softmax(), Some(1))), (651, 651));
    // An evaluation reads the same model.
    assert_eq!(numbers(evaluation(softmax(), None)), (650, 2));
    assert_eq!(numbers(evaluation(softmax(), Some(1))), (651, 2));
}

type Change = fn(&mut Recipe);

fn refused(recipe: &Recipe, change: Change) -> String {
    let mut changed = recipe.clone();
    change(&mut changed);
    let error = changed.check().unwrap_err();
    assert_eq!(
        Recipe::parse(&canonical(&serde_json::to_value(&changed).unwrap())),
        Err(error.clone())
    );
    error.to_string()
}

#[test]
fn rounds_have_their_rules() {
    let cases: [(Change, &str); 13] = [
        (|it| series(it).rounds = 0, "series.rounds must be from 1 to 256, not 0"),
        (|it| series(it).rounds = 257, "series.rounds must be from 1 to 256, not 257"),
        (
            |it| {
                series(it).participation = Participation::Donation {};
                series(it).rounds = 10_001;
            },
            "series.rounds must be from 1 to 10000, not 10001",
        ),
        (|it| series(it).rounds = 31, "privacy.rounds must be series.rounds, 31"),
        (|it| set_rounds(it, 1), "privacy.rounds must be series.rounds, 30"),
        (|it| it.series = None, "privacy.rounds must be 1, not 30"),
        (
            |it| {
                it.query = Query::SparseHistogram {
                    buckets: 3,
                    labels: None,
                    mapping: "0".to_owned(),
                    default: 0,
                };
                it.randomizer = Randomizer::None;
                it.sampling.default_rate = Some(it.sampling.rate);
            },
            "a series needs sampling.rate: importance sampling is for one round",
        ),
        (
            |it| {
                series(it).participation = Participation::Donation {};
                it.randomizer = Randomizer::Rappor { epsilon_micro: 1 };
                it.sampling.dummy_rate = Probability::new(1, 9).unwrap();
            },
            "sampling.dummy_rate must be 0 with series.participation donation",
        ),
        (
            |it| series(it).round = Some(numbered(30)),
            "series.round.index must be from 0 to 29, not 30",
        ),
        (
            |it| series(it).round = Some(numbered((1 << 53) - 1)),
            "series.round.index must be from 0 to 29, not 9007199254740991",
        ),
        (
            |it| series(it).round = Some(of_model(0)),
            "series.round.model needs [series.training] or [series.discovery]",
        ),
        (
            |it| series(it).training = training(custom(3), None).series.unwrap().training,
            "series.training needs query.kind vector_sum or vector_mean, with the mapping \"update\"",
        ),
        (
            |it| it.name.clear(),
            "name must be at most 64 of a-z, 0-9, dot and hyphen, and begin with a letter or digit",
        ),
    ];
    for (change, message) in cases {
        assert_eq!(refused(&header(), change), message);
    }
    // What is close to these, and allowed.
    let allowed: [Change; 5] = [
        |it| it.privacy = Privacy::InsecureUnbounded,
        |it| series(it).round = Some(numbered(29)),
        |it| {
            it.randomizer = Randomizer::Rappor { epsilon_micro: 1 };
            it.sampling.dummy_rate = Probability::new(1, 9).unwrap();
        },
        |it| {
            series(it).rounds = 1;
            set_rounds(it, 1);
        },
        |it| {
            series(it).rounds = 10_000;
            set_rounds(it, 10_000);
            series(it).participation = Participation::Donation {};
        },
    ];
    for (place, change) in allowed.into_iter().enumerate() {
        let mut recipe = header();
        change(&mut recipe);
        assert_eq!(recipe.check(), Ok(()), "change {place}");
    }
}

fn terms(recipe: &mut Recipe) -> &mut Training {
    series(recipe).training.as_mut().unwrap()
}

fn vectors(recipe: &mut Recipe) -> &mut VectorQuery {
    match &mut recipe.query {
        Query::VectorMean(vectors) => vectors,
        _ => panic!("no vectors"),
    }
}

#[test]
fn training_has_its_rules() {
    const NEEDS: &str =
        "series.training needs query.kind vector_sum or vector_mean, with the mapping \"update\"";
    const UPDATE: &str = "series.training needs the attribute update of type vector(650)";
    let cases: [(Change, &str); 24] = [
        (
            |it| terms(it).model = Model::Softmax { features: 0, classes: 10 },
            "series.training.model.features must be from 1 to 1048576, not 0",
        ),
        (
            |it| terms(it).model = Model::Softmax { features: 650, classes: 1 },
            "series.training.model.classes must be from 2 to 1048576, not 1",
        ),
        (
            |it| terms(it).model = Model::Mlp { features: 1, hidden: 1_048_577, classes: 2 },
            "series.training.model.hidden must be from 1 to 1048576, not 1048577",
        ),
        (
            |it| terms(it).model = custom(0),
            "series.training.model.weights must be from 1 to 1048576, not 0",
        ),
        (
            |it| terms(it).model = Model::Softmax { features: 1_025, classes: 1_024 },
            "the number of weights of series.training.model must be from 1 to 1048576, not 1049600",
        ),
        (
            |it| {
                terms(it).model = custom(1_048_576);
                terms(it).vote_weight_micro = Some(1);
            },
            "the number of weights of series.training.model must be from 1 to 1048575, not 1048576",
        ),
        (
            |it| terms(it).model = Model::Custom { name: "My model".to_owned(), weights: 650 },
            "series.training.model.name must be at most 64 of a-z, 0-9, dot and hyphen, and begin with a letter or digit",
        ),
        (
            |it| terms(it).models = "ftp://models.example/".to_owned(),
            "series.training.models must begin with https:// or http://",
        ),
        (
            |it| terms(it).models = "https://models.example/?a".to_owned(),
            "series.training.models must have a host and no user, query, fragment or character outside of ASCII",
        ),
        (|it| terms(it).steps = 0, "series.training.steps must be from 1 to 1000, not 0"),
        (|it| terms(it).steps = 1_001, "series.training.steps must be from 1 to 1000, not 1001"),
        (
            |it| terms(it).batch = Some(0),
            "series.training.batch must be at least 1 and below 2^53, not 0",
        ),
        (|it| terms(it).learning_rate_micro = 0, "series.training.learning_rate must be above 0"),
        (
            |it| terms(it).learning_rate_micro = 1 << 53,
            "series.training.learning_rate must be from 0.000001 to 2^53 millionths, not 9007199254.740992",
        ),
        (|it| terms(it).vote_weight_micro = Some(0), "series.training.vote_weight must be above 0"),
        (
            |it| terms(it).vote_weight_micro = Some(1),
            "query.dimension (the weights of the model and the vote) must be 651, not 650",
        ),
        (
            |it| terms(it).model = custom(649),
            "query.dimension (the weights of the model) must be 649, not 650",
        ),
        (
            |it| {
                vectors(it).dimension = 651;
                it.aggregation.vdaf = RecipeVdaf::Prio3Count;
            },
            "query.dimension (the weights of the model) must be 650, not 651",
        ),
        (|it| vectors(it).mapping = "emoji".to_owned(), NEEDS),
        (|it| vectors(it).mapping = "true ? update : update".to_owned(), NEEDS),
        (
            |it| {
                it.attributes.remove("update");
            },
            UPDATE,
        ),
        (
            |it| {
                it.attributes.insert("update".parse().unwrap(), AttributeType::Int);
            },
            UPDATE,
        ),
        (
            |it| {
                it.attributes.insert("update".parse().unwrap(), AttributeType::Vector(649));
            },
            UPDATE,
        ),
        (
            |it| series(it).round = Some(numbered(0)),
            "series.round.model is missing: a model is trained",
        ),
    ];
    for (change, message) in cases {
        assert_eq!(refused(&training(softmax(), None), change), message);
    }
    let allowed: [Change; 5] = [
        |it| it.query = Query::VectorSum(vectors(it).clone()),
        |it| series(it).participation = Participation::Donation {},
        |it| terms(it).batch = None,
        |it| {
            let compression = sotto_wire::recipe::Compression { dimension: 649, seed: 0 };
            vectors(it).compression = Some(compression);
        },
        |it| it.sampling.dummy_rate = Probability::new(1, 9).unwrap(),
    ];
    for (place, change) in allowed.into_iter().enumerate() {
        let mut recipe = training(softmax(), None);
        change(&mut recipe);
        assert_eq!(recipe.check(), Ok(()), "change {place}");
    }
}

#[test]
fn an_evaluation_has_its_rules() {
    const STEPS: &str = "series.training has steps, batch or learning_rate, but with largest_loss devices train nothing";
    const UNITS: &str = "query.clip, in units of 2^-query.fraction_bits and for an evaluation, must be from 2 to 4194304, not ";
    let cases: [(Change, &str); 13] = [
        (
            |it| terms(it).largest_loss_micro = Some(0),
            "series.training.largest_loss must be above 0",
        ),
        (|it| terms(it).steps = 1, STEPS),
        (|it| terms(it).batch = Some(1), STEPS),
        (|it| terms(it).learning_rate_micro = 1, STEPS),
        (
            |it| terms(it).largest_loss_micro = None,
            "series.training.steps must be from 1 to 1000, not 0",
        ),
        (
            |it| vectors(it).mapping = "update".to_owned(),
            "series.training needs query.kind vector_sum or vector_mean, with the mapping \"evaluation\"",
        ),
        (
            |it| {
                it.attributes.remove("evaluation");
            },
            "series.training needs the attribute evaluation of type vector(2)",
        ),
        (|it| vectors(it).dimension = 650, "query.dimension (of an evaluation) must be 2, not 650"),
        (
            |it| {
                let compression = sotto_wire::recipe::Compression { dimension: 1, seed: 0 };
                vectors(it).compression = Some(compression);
            },
            "query.compression is not for series.training.largest_loss",
        ),
        (
            |it| it.sampling.dummy_rate = Probability::new(1, 9).unwrap(),
            "sampling.dummy_rate must be 0 with series.training.largest_loss",
        ),
        (
            |it| terms(it).model = Model::Softmax { features: 1_025, classes: 1_024 },
            "the number of weights of series.training.model must be from 1 to 1048576, not 1049600",
        ),
        (|it| vectors(it).clip_micro = 61, "1"),
        (|it| vectors(it).clip_micro = 128_000_031, "4194305"),
    ];
    for (change, message) in cases {
        let units = message.parse::<u64>().map_or("", |_| UNITS);
        assert_eq!(refused(&evaluation(softmax(), None), change), format!("{units}{message}"));
    }
    let allowed: [Change; 4] = [
        |it| vectors(it).clip_micro = 62,
        |it| vectors(it).clip_micro = 128_000_000,
        |it| series(it).participation = Participation::Donation {},
        |it| {
            it.noise = None;
            it.randomizer = Randomizer::Gaussian { sigma_micro: 2_000_000 };
        },
    ];
    for (place, change) in allowed.into_iter().enumerate() {
        let mut recipe = evaluation(softmax(), None);
        change(&mut recipe);
        assert_eq!(recipe.check(), Ok(()), "change {place}");
    }
}

/// Rules between two fields that the schema states too.
#[test]
fn a_discovery_has_its_rules() {
    fn words(recipe: &mut Recipe) -> &mut Discovery {
        series(recipe).discovery.as_mut().unwrap()
    }
    assert_eq!(discovery().check(), Ok(()));
    let cases: [(Change, &str); 11] = [
        (
            |it| words(it).list_len = 255,
            "series.discovery.list_len must be from 256 to 4194304, not 255",
        ),
        (
            |it| words(it).list_len = 4_194_305,
            "series.discovery.list_len must be from 256 to 4194304, not 4194305",
        ),
        (|it| words(it).lists = "lists".to_owned(), "series.discovery.lists"),
        (
            |it| it.query = Query::Count { mapping: "true".to_owned(), fallback: false },
            "series.discovery needs query.kind histogram",
        ),
        (
            |it| {
                let Query::Histogram { labels, buckets, .. } = &mut it.query else { return };
                *labels = Some((0..*buckets).map(|label| label.to_string()).collect());
            },
            "query.labels is not for series.discovery: each round has candidates",
        ),
        (
            |it| {
                let Query::Histogram { buckets, .. } = &mut it.query else { return };
                *buckets = 2;
            },
            "query.buckets (of a discovery) must be from 3 to 100000, not 2",
        ),
        (
            |it| {
                let Query::Histogram { fallback, .. } = &mut it.query else { return };
                *fallback = 1;
            },
            "query.fallback (of a discovery) must be 0, not 1",
        ),
        (|it| it.noise = None, "series.discovery needs [noise], or randomizer.kind gaussian"),
        (
            |it| it.sampling.dummy_rate = Probability::new(1, 9).unwrap(),
            "sampling.dummy_rate must be 0 with series.discovery",
        ),
        (
            |it| series(it).round = Some(numbered(0)),
            "series.round.model is missing: it names the list of candidates",
        ),
        (
            |it| {
                let mut both = training(custom(3), None);
                series(&mut both).discovery = series(it).discovery.clone();
                *it = both;
            },
            "series.discovery needs query.kind histogram",
        ),
    ];
    for (change, message) in cases {
        let found = refused(&discovery(), change);
        assert!(found.starts_with(message), "{found}");
    }
}

#[test]
fn the_schema_refuses_what_does_not_go_together() {
    let schema = schema();
    let tree = |recipe: &Recipe| serde_json::to_value(recipe).unwrap();
    let (plain, trained) = (tree(&header()), tree(&training(softmax(), None)));
    assert!(schema.is_valid(&plain) && schema.is_valid(&trained));
    let model = "07".repeat(32);
    type Edit<'a> = &'a dyn Fn(&mut Value);
    let evaluated = tree(&evaluation(softmax(), None));
    assert!(schema.is_valid(&evaluated));
    let words = tree(&discovery());
    assert!(schema.is_valid(&words));
    let edits: [(&Value, Edit<'_>); 29] = [
        (&words, &|it| it["query"]["kind"] = json!("quantiles")),
        (&words, &|it| it["query"]["buckets"] = json!(2)),
        (&words, &|it| it["query"]["fallback"] = json!(1)),
        (&words, &|it| drop(it.as_object_mut().unwrap().remove("noise"))),
        (&words, &|it| it["sampling"]["dummy_rate"] = json!([1, 9])),
        (&words, &|it| it["series"]["round"] = json!({ "index": 0 })),
        (&words, &|it| it["series"]["training"] = trained["series"]["training"].clone()),
        (&plain, &|it| drop(it.as_object_mut().unwrap().remove("series"))),
        (&plain, &|it| it["series"]["round"] = json!({ "index": 0, "model": model })),
        (&plain, &|it| it["series"]["participation"] = json!({ "kind": "donation", "most": 1 })),
        (&plain, &|it| it["series"]["participation"] = json!({ "kind": "each_round", "most": 1 })),
        (&plain, &|it| it["series"]["training"] = trained["series"]["training"].clone()),
        (&plain, &|it| {
            it["sampling"] = json!({ "default_rate": [1, 9], "other_rate": [1, 2] });
            it["query"] =
                json!({ "kind": "sparse_histogram", "buckets": 3, "mapping": "0", "default": 0 });
            it["randomizer"] = json!({ "kind": "none" });
        }),
        (&trained, &|it| it["series"]["round"] = json!({ "index": 0 })),
        (&trained, &|it| it["query"]["mapping"] = json!("emoji")),
        (&trained, &|it| drop(it["attributes"].as_object_mut().unwrap().remove("update"))),
        (&trained, &|it| it["attributes"]["update"] = json!("int")),
        (&trained, &|it| it["query"] = plain["query"].clone()),
        (&trained, &|it| {
            it["series"]["participation"] = json!({ "kind": "donation" });
            it["sampling"]["dummy_rate"] = json!([1, 9]);
        }),
        (&trained, &|it| {
            drop(it["series"]["training"].as_object_mut().unwrap().remove("steps"));
        }),
        (&trained, &|it| it["series"]["training"]["steps"] = json!(0)),
        (&trained, &|it| it["series"]["training"]["largest_loss_micro"] = json!(1)),
        (&evaluated, &|it| it["series"]["training"]["steps"] = json!(1)),
        (&evaluated, &|it| it["series"]["training"]["learning_rate_micro"] = json!(1)),
        (&evaluated, &|it| it["query"]["mapping"] = json!("update")),
        (&evaluated, &|it| it["query"]["dimension"] = json!(3)),
        (&evaluated, &|it| it["query"]["compression"] = json!({ "dimension": 1, "seed": 0 })),
        (&evaluated, &|it| it["sampling"]["dummy_rate"] = json!([1, 9])),
        (&evaluated, &|it| it["attributes"]["evaluation"] = json!("vector(3)")),
    ];
    for (place, (tree, edit)) in edits.into_iter().enumerate() {
        let mut edited = tree.clone();
        edit(&mut edited);
        assert!(!schema.is_valid(&edited), "edit {place}");
        assert!(Recipe::parse(&canonical(&edited)).is_err(), "edit {place}");
    }
}

#[test]
fn errors_of_toml_name_the_key() {
    let trained = training(mlp(), Some(100_000)).with_round(of_model(3)).unwrap().to_toml();
    let donation = header().to_toml().replace("each_round", "donation");
    let plain = header().to_toml();
    for (toml, from, to, message) in [
        (
            &donation,
            "[series]\n",
            "[series]\nmost = 20\n",
            "series.most: is unknown; use one of: rounds",
        ),
        (
            &plain,
            "each_round",
            "all",
            "series.participation: \"all\" is unknown; use one of: each_round, donation",
        ),
        (&plain, "[series]\n", "[series]\nx = 1\n", "series.x: is unknown; use one of: rounds"),
        (
            &trained,
            "kind = \"mlp\"",
            "kind = \"cnn\"",
            "series.training.model.kind: \"cnn\" is unknown; use one of: softmax, mlp, custom",
        ),
        (&trained, "hidden = 16\n", "", "series.training.model.hidden: is missing"),
        (&trained, "features = 64\n", "", "series.training.model.features: is missing"),
        (&trained, "classes = 10\n", "", "series.training.model.classes: is missing"),
        (&trained, "steps = 3\n", "", "series.training.steps: is missing"),
        (
            &trained,
            "models = \"https://models.example/commute/\"\n",
            "",
            "series.training.models: is missing",
        ),
        (&trained, "learning_rate = 0.5\n", "", "series.training.learning_rate: is missing"),
        (
            &trained,
            "learning_rate = 0.5",
            "learning_rate = -1",
            "series.training.learning_rate: \"-1\" is not a number",
        ),
        (
            &trained,
            "batch = 32",
            "batch = 4294967296",
            "series.training.batch: 4294967296 is out of range",
        ),
        (&trained, "index = 3\n", "", "series.round.index: is missing"),
        (&trained, "model = \"07", "model = \"7", "series.round.model: "),
    ] {
        assert_eq!(toml.matches(from).count(), 1, "{from}\n{toml}");
        let error = Recipe::from_toml(&toml.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}
