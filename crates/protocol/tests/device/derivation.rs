//! The task of an arbitrary recipe follows from the recipe alone.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::recipe::{check_mapping, derive_task, derive_vdaf, mechanism, recipe_vdaf};
use sotto_testing::arbitrary;
use sotto_wire::recipe::{
    AttributeType, Noise, Query, Randomizer, Recipe, RecipeVdaf, VectorQuery,
};
use sotto_wire::{BatchMode, TaskExtension, taskprov};

/// A change and what it changes.
type Named = (&'static str, fn(&mut Recipe));

/// Changes that leave a recipe valid: one for each field that the task is derived from, and some
/// that only the id reflects.
const CHANGES: [Named; 12] = [
    ("leader url", |recipe| recipe.parties.leader.url.push('x')),
    ("helper url", |recipe| recipe.parties.helper.url.push('x')),
    ("min batch", |recipe| recipe.aggregation.min_batch ^= 1 << 9),
    ("batch mode", |recipe| {
        recipe.aggregation.batch_mode = match recipe.aggregation.batch_mode {
            BatchMode::TimeInterval => BatchMode::LeaderSelected,
            _ => BatchMode::TimeInterval,
        };
    }),
    ("opens", |recipe| recipe.when.opens += recipe.when.window_s),
    ("closes", |recipe| recipe.when.closes += recipe.when.window_s),
    ("query", |recipe| {
        recipe.query = match recipe.query {
            Query::Count { .. } => Query::Sum { max: 9, mapping: "3".to_owned(), fallback: 1 },
            _ => Query::Count { mapping: "true".to_owned(), fallback: false },
        };
        recipe.randomizer = Randomizer::None;
        recipe.sampling.default_rate = None;
    }),
    ("name", |recipe| recipe.name.push('x')),
    ("purpose", |recipe| recipe.purpose = format!("{}x", &recipe.purpose[..1])),
    ("population", |recipe| recipe.who.population ^= 1 << 20),
    ("operator", |recipe| recipe.parties.leader.operator = "somebody.else".parse().unwrap()),
    ("author", |recipe| recipe.author.name = "somebody.else".parse().unwrap()),
];

/// The clip in units of the sum.
fn units(vectors: &VectorQuery) -> u64 {
    (u128::from(vectors.clip_micro) * (1 << vectors.fraction_bits) / 1_000_000) as u64
}

#[test]
fn a_task_follows_from_its_recipe_and_changes_with_it() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let (mut derived, mut noisy, mut changed) = (0, 0, [0; CHANGES.len()]);
    for _ in 0..400 {
        let mut recipe = arbitrary::recipe(&mut rng);
        // A mechanism refuses parameters that it cannot keep.
        recipe.aggregation.min_batch %= 1 << 20;
        recipe.aggregation.min_batch += 1;
        let Ok(follows) = recipe_vdaf(&recipe) else { continue };
        recipe.aggregation.vdaf = follows;
        recipe.check().unwrap();
        // Sums of numbers so large that they may wrap around have no task.
        let Ok(task) = derive_task(&recipe) else { continue };
        derived += 1;
        let configuration = task.configuration();
        assert_eq!(configuration.task_info(), recipe.id().as_bytes());
        assert_eq!(task.id(), &taskprov::task_id(task.encoded_configuration()));
        assert_eq!(configuration.min_batch_size(), recipe.aggregation.min_batch);
        assert_eq!(configuration.batch_mode(), recipe.aggregation.batch_mode);
        assert_eq!(
            configuration.vdaf_type().value(),
            derive_vdaf(&mechanism(&recipe).unwrap()).vdaf_type()
        );
        // What is not known to an aggregator must not be served: noise cannot be left out.
        let noise = recipe.noise.map(|Noise::ServerGaussian { sigma_micro }| {
            // That of vectors is in units of the clip.
            sigma_micro * recipe.query.vectors().map_or(1, units)
        });
        let extension = noise.map(|sigma_micro| TaskExtension::ServerNoise { sigma_micro });
        assert_eq!(configuration.extensions().as_slice().get(1), extension.as_ref());
        assert_eq!(task.noise().is_some(), noise.is_some());
        noisy += usize::from(noise.is_some());
        let read = Recipe::parse(&recipe.to_json()).unwrap();
        let again = derive_task(&read).unwrap();
        assert_eq!(again.encoded_configuration(), task.encoded_configuration());
        for (number, (field, change)) in CHANGES.iter().enumerate() {
            let mut other = recipe.clone();
            change(&mut other);
            let Ok(follows) = recipe_vdaf(&other) else { continue };
            other.aggregation.vdaf = follows;
            if other == recipe || other.check().is_err() {
                continue;
            }
            let Ok(other) = derive_task(&other) else { continue };
            assert_ne!(other.id(), task.id(), "{field}");
            changed[number] += 1;
        }
        let mut wrong = recipe.clone();
        wrong.aggregation.vdaf = match recipe.query {
            Query::Count { .. } => {
                let query = Query::Sum { max: 3, mapping: String::new(), fallback: 0 };
                recipe_vdaf(&Recipe { query, ..recipe.clone() }).unwrap()
            }
            _ => RecipeVdaf::Prio3Count,
        };
        assert!(derive_task(&wrong).is_err(), "only the VDAF that we compute");
    }
    assert!(derived > 250 && noisy > 40, "{derived}, {noisy}");
    assert!(changed.iter().all(|count| *count > 50), "{changed:?}");
}

/// A constant that is counted nowhere would be the fallback on every device that gets there.
#[test]
fn constants_of_a_mapping_must_be_counted_somewhere() {
    let attributes = [("n".parse().unwrap(), AttributeType::Int)].into();
    let labels = ["walk", "bike"].map(str::to_owned).to_vec();
    let histogram = |labels: &Option<Vec<String>>, mapping: &str| Query::Histogram {
        buckets: 2,
        labels: labels.clone(),
        mapping: mapping.to_owned(),
        fallback: 0,
    };
    let sum = |mapping: &str| Query::Sum { max: 9, mapping: mapping.to_owned(), fallback: 0 };
    let labelled = Some(labels);
    for good in [
        histogram(&None, "n < 3 ? 0 : 1"),
        histogram(&None, "n"),
        histogram(&labelled, "n < 3 ? 'walk' : 'bike'"),
        sum("n < 3 ? 9 : n"),
    ] {
        check_mapping(&good, &attributes).unwrap();
    }
    for (bad, part) in [
        (histogram(&None, "n < 3 ? 0 : 2"), "it can give 2"),
        (histogram(&None, "n < 3 ? 0 : -1"), "write a bucket from 0 to 1"),
        (histogram(&labelled, "n < 3 ? 'walk' : 'bikes'"), "its label: \"walk\", \"bike\""),
        (sum("n < 3 ? 10 : n"), "write a number from 0 to 9"),
        (histogram(&None, "m < 3 ? 0 : 1"), "declared are: n"),
    ] {
        let reason = check_mapping(&bad, &attributes).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }
}
