//! Every kind of query with every mechanism that answers it, from the coins of devices to the
//! result.
//!
//! In memory, 2,000 collections of each show that the intervals hold
//! (`crates/dp/tests/mechanism/coverage.rs`). Here five of each show that the parties give the same
//! result as the coins in memory.

use sotto_dp::mechanism::Value;
use sotto_dp::mechanism::vector::clip;
use sotto_protocol::expression::Value as Attribute;
use sotto_protocol::recipe::projection;
use sotto_tests::pipeline::{Group, Pipeline, asking};
use sotto_wire::recipe::{
    Compression, Noise, Probability, Query, Randomizer, Recipe, Sampling, VectorQuery,
};

/// Collections of each kind and mechanism.
const RUNS: u64 = 5;

fn part(num: u64, den: u64) -> Probability {
    Probability::new(num, den).unwrap()
}

/// Of each kind of query: the query, and devices that answer it.
struct Kind {
    name: &'static str,
    query: Query,
    groups: Vec<Group>,
}

fn group(attribute: Attribute, value: Value, devices: u64) -> Group {
    let name = match attribute {
        Attribute::List(_) => "apps",
        Attribute::Vector(_) => "trace",
        _ => "region",
    };
    Group { attributes: [(name.to_owned(), attribute)].into(), value, rate: part(1, 2), devices }
}

fn having(apps: &[&str], labels: &[u32], devices: u64) -> Group {
    let apps = apps.iter().map(|app| Attribute::String((*app).to_owned())).collect();
    group(Attribute::List(apps), Value::Labels(labels.to_vec()), devices)
}

fn number(number: i64, value: Value, devices: u64) -> Group {
    group(Attribute::Int(number), value, devices)
}

/// Vectors of eight numbers of at most 2 together, as they are or as four.
fn vectors(compression: Option<Compression>) -> VectorQuery {
    let mapping = "trace".to_owned();
    VectorQuery { dimension: 8, clip_micro: 2_000_000, fraction_bits: 10, mapping, compression }
}

/// Devices with these numbers, and what is sent of them.
fn tracing(vectors: &VectorQuery, numbers: Vec<f64>, devices: u64) -> Group {
    let query = Query::VectorSum(vectors.clone());
    let projected = match projection(&query).unwrap() {
        None => numbers.clone(),
        Some(projection) => projection.project(&numbers),
    };
    let sent = clip(&projected, vectors.sent(), vectors.fraction_bits, 2 << 10);
    group(Attribute::Vector(numbers.into()), Value::Vector(sent), devices)
}

fn region() -> String {
    "region".to_owned()
}

fn kinds() -> Vec<Kind> {
    let numbers = || {
        // What the mapping may not give is the fallback.
        let (most, few, wrong) = (Value::Number(20), Value::Number(3), Value::Number(1));
        vec![number(20, most, 4), number(3, few, 8), number(21, wrong, 2)]
    };
    let count = Query::Count { mapping: "region == 1".to_owned(), fallback: false };
    let sum = Query::Sum { max: 20, mapping: region(), fallback: 1 };
    let mean = Query::Mean { max: 20, mapping: region(), fallback: 1 };
    let histogram = Query::Histogram { buckets: 4, labels: None, mapping: region(), fallback: 2 };
    let quantiles = Query::Quantiles {
        boundaries: vec![-5, 18],
        quantiles: Query::quartiles(),
        mapping: region(),
        fallback: 0,
    };
    let apps = Query::MultiHistogram {
        buckets: 4,
        labels: Some(["maps", "mail", "chess", "none"].map(str::to_owned).into()),
        most: 2,
        mapping: "apps".to_owned(),
        fallback: vec![3],
    };
    let nearest = Query::Nearest {
        candidates: vec![vec![2; 8], vec![-2; 8], vec![0, 0, 0, 0, 4, 4, 4, 4]],
        fraction_bits: 1,
        labels: None,
        mapping: "trace".to_owned(),
        fallback: 3,
    };
    let near = |at: Vec<f64>, bucket, devices| {
        group(Attribute::Vector(at.into()), Value::OneHot(bucket), devices)
    };
    let (plain, packed) = (vectors(None), vectors(Some(Compression { dimension: 4, seed: 3 })));
    let traces = |vectors: &VectorQuery| {
        let long = vec![1.0, -1.0, 1.0, 0.5, 0.0, 0.0, 2.0, -3.0];
        let short = (0..8).map(|at| f64::from(at) / 16.0 - 0.3).collect();
        // One of another length is the zero vector.
        let wrong = tracing(vectors, vec![1.0; 7], 2);
        vec![tracing(vectors, long, 6), tracing(vectors, short, 6), wrong]
    };
    let one_hot = |at, bucket, devices| number(at, Value::OneHot(bucket), devices);
    let kind = |name, query, groups| Kind { name, query, groups };
    vec![
        kind("count", count, vec![number(1, Value::Bit(true), 8), number(0, Value::Bit(false), 6)]),
        kind("sum", sum, numbers()),
        kind("mean", mean, numbers()),
        kind("histogram", histogram, vec![one_hot(0, 0, 8), one_hot(1, 1, 4), one_hot(9, 2, 2)]),
        kind(
            "nearest",
            nearest,
            vec![
                near(vec![0.7; 8], 0, 6),
                near(vec![-3.0; 8], 1, 4),
                near(vec![0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 1.0], 2, 2),
                // One of another length has none.
                near(vec![0.7; 7], 3, 2),
            ],
        ),
        kind("quantiles", quantiles, vec![one_hot(-9, 0, 4), one_hot(7, 1, 6), one_hot(18, 2, 4)]),
        kind(
            "apps",
            apps,
            vec![
                having(&["maps", "mail"], &[0, 1], 5),
                having(&["chess", "other"], &[2], 5),
                having(&[], &[], 4),
            ],
        ),
        kind("vectors", Query::VectorMean(plain.clone()), traces(&plain)),
        kind("packed", Query::VectorSum(packed.clone()), traces(&packed)),
    ]
}

/// Few devices have another value than the default, which is sent as no label, or as a point.
fn needles(randomizer: Randomizer, sampling: &Sampling) -> Kind {
    let named = matches!(randomizer, Randomizer::ProjectiveGeometry { .. });
    let default = if named { Value::OneHot(3) } else { Value::Labels(Vec::new()) };
    let query = Query::SparseHistogram { buckets: 4, labels: None, mapping: region(), default: 3 };
    let at = |group: Group, rate| Group { rate, ..group };
    let groups = vec![
        at(number(0, Value::OneHot(0), 2), sampling.rate),
        at(number(1, Value::OneHot(1), 3), sampling.rate),
        at(number(3, default, 10), sampling.least_rate()),
    ];
    Kind { name: "needles", query, groups }
}

/// Every recipe, and its devices.
fn questions() -> Vec<(Recipe, Vec<Group>)> {
    let epsilon_micro = 2_000_000;
    let rappor = Randomizer::Rappor { epsilon_micro };
    let geometry = Randomizer::ProjectiveGeometry { epsilon_micro };
    let response = Randomizer::RandomizedResponse { epsilon_micro };
    let noise = Some(Noise::ServerGaussian { sigma_micro: 500_000 });
    let mechanisms = [
        (Randomizer::None, None, "exact"),
        (response, None, "response"),
        (rappor, None, "rappor"),
        (geometry, None, "geometry"),
        (Randomizer::Gaussian { sigma_micro: 8_000_000 }, None, "gaussian"),
        (Randomizer::None, noise, "servers"),
    ];
    let plain = Sampling::new(part(1, 2));
    let dummies = Sampling { dummy_rate: part(1, 4), ..plain };
    let rates = Sampling { default_rate: Some(part(1, 4)), rate: part(3, 4), ..plain };
    let mut questions = Vec::new();
    for (sampling, which) in [(plain, "plain"), (dummies, "dummies"), (rates, "rates")] {
        for (randomizer, noise, mechanism) in mechanisms {
            // Dummies with two kinds. Rates depend on the answer with needles alone.
            let kinds = match which {
                "plain" => kinds(),
                "dummies" => kinds()
                    .into_iter()
                    .filter(|kind| ["histogram", "vectors"].contains(&kind.name))
                    .collect(),
                _ => Vec::new(),
            };
            for Kind { name, query, groups } in
                kinds.into_iter().chain([needles(randomizer, &sampling)])
            {
                let fits =
                    randomizer == Randomizer::None || randomizer.queries().contains(&query.kind());
                let dummies = sampling.dummy_rate.is_zero()
                    || !matches!(
                        randomizer,
                        Randomizer::RandomizedResponse { .. }
                            | Randomizer::ProjectiveGeometry { .. }
                    );
                if fits && dummies {
                    let name = format!("{name}-{mechanism}-{which}");
                    let recipe = asking(&name, query, sampling, randomizer, noise).unwrap();
                    questions.push((recipe, groups));
                }
            }
        }
    }
    questions
}

#[test]
fn the_parties_give_the_result_of_the_same_coins_in_memory() {
    let (recipes, groups): (Vec<_>, Vec<_>) = questions().into_iter().unzip();
    // Nine kinds exact and with noise, three with randomized response, four with RAPPOR, three with
    // geometry, four with noise of the devices, and needles with all but randomized response and
    // that noise; then with dummies and with two rates.
    assert_eq!(recipes.len(), 2 * 9 + 3 + 4 + 3 + 4 + 4 + 10 + 4);
    let pipeline = Pipeline::start(recipes).unwrap();
    let mut batches = Vec::new();
    for (index, groups) in groups.iter().enumerate() {
        for run in 0..RUNS {
            // Each batch has devices of its own.
            let seed = 1_000 * (RUNS * index as u64 + run);
            batches.push(pipeline.send(index, run, groups, false, seed).unwrap());
        }
    }
    // This compares.
    let results = pipeline.collect(&batches).unwrap();
    // Half of the noises of so small a sigma are 0, but not all of hundreds.
    let mut pairs = batches.iter().zip(&results);
    assert!(pairs.any(|(batch, result)| result.sums.as_slice() != batch.sums));
}
