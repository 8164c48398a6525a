//! A complete recipe, and the ways to change one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, Parties, Privacy, Query,
    Randomizer, RecipeVdaf, Sampling, Tokens, When, Who,
};
use sotto_wire::{BatchMode, Probability, PublicKey, Recipe, Signer};

/// A recipe with a histogram, labels, and some characters that need care.
pub(crate) fn histogram() -> Recipe {
    Recipe {
        version: 1,
        name: "emoji-2026-11".to_owned(),
        purpose: "Which emoji people use most, \"😀\" or others.".to_owned(),
        author: Signer {
            name: "keyboard.example/author".parse().unwrap(),
            key: PublicKey::new([5; 32]),
        },
        attributes: BTreeMap::from([
            ("age".parse().unwrap(), AttributeType::Int),
            ("emoji".parse().unwrap(), AttributeType::String),
        ]),
        series: None,
        who: Who { population: 1_000_000, targeting: None },
        when: When {
            opens: 1_795_132_800,
            closes: 1_795_737_600,
            window_s: 3_600,
            max_window_s: 604_800,
        },
        sampling: Sampling::new(Probability::new(1, 50).unwrap()),
        query: Query::Histogram {
            buckets: 3,
            labels: Some(vec!["none".to_owned(), "smile".to_owned(), "other".to_owned()]),
            mapping: "emoji == 'a &&\nb' ? 0 : age > 17 ? 1 : 2".to_owned(),
            fallback: 0,
        },
        randomizer: Randomizer::RandomizedResponse { epsilon_micro: 4_000_000 },
        noise: None,
        aggregation: Aggregation {
            vdaf: RecipeVdaf::Prio3Histogram { length: 3, chunk_length: 1 },
            min_batch: 10_000,
            batch_mode: BatchMode::TimeInterval,
        },
        privacy: Privacy::Claim {
            epsilon_micro: 50_000,
            delta: Probability::new(1, 1_000_000_000).unwrap(),
            adjacency: Adjacency::Replace,
            accountant: Accountant::Best,
            rounds: 1,
        },
        parties: Parties {
            leader: Aggregator {
                operator: "leader.example".parse().unwrap(),
                url: "https://leader.example/".to_owned(),
            },
            helper: Aggregator {
                operator: "helper.example".parse().unwrap(),
                url: "https://helper.example/dap".to_owned(),
            },
            collector_hpke_config: "AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"
                .to_owned(),
            log: "log.example".to_owned(),
            tokens: Tokens::InsecureNone,
        },
    }
}

/// The canonical encoding of a value: what an author with another encoder would sign.
pub(crate) fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).unwrap()
}

/// A changed value and what was changed.
pub(crate) struct Mutant {
    pub(crate) path: String,
    pub(crate) mutant: Value,
}

/// Each leaf with other values of its type.
pub(crate) fn leaf_mutants(tree: &Value) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    walk(tree, "", &mut |path, value, put| {
        for other in other_values(value) {
            mutants.push(Mutant { path: path.to_owned(), mutant: put(other) });
        }
    });
    mutants
}

/// Unknown fields, missing fields, values of another type, and lists of another length.
pub(crate) fn shape_mutants(tree: &Value) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    walk(tree, "", &mut |path, value, put| {
        let mut add = |what: String, other: Value| {
            let path = format!("{path}{what}");
            mutants.push(Mutant { path, mutant: put(other) });
        };
        for other in [json!(null), json!(0.5), json!(-1), json!(9_007_199_254_740_992_u64)] {
            add(format!("={other}"), other);
        }
        match value {
            Value::Object(fields) => {
                add("=[]".to_owned(), json!([]));
                let mut more = fields.clone();
                more.insert("zzz_unknown".to_owned(), json!(1));
                add(".zzz_unknown".to_owned(), Value::Object(more));
                for field in fields.keys() {
                    let mut fewer = fields.clone();
                    fewer.remove(field);
                    add(format!(".{field}[removed]"), Value::Object(fewer));
                }
            }
            Value::Array(items) => {
                if let Some(first) = items.first() {
                    let longer = [&items[..], std::slice::from_ref(first)].concat();
                    add("[longer]".to_owned(), Value::Array(longer));
                    add("[shorter]".to_owned(), Value::Array(items[1..].to_vec()));
                }
                add("={}".to_owned(), json!({}));
            }
            Value::String(_) => add("=1".to_owned(), json!(1)),
            Value::Number(number) => add("=text".to_owned(), json!(number.to_string())),
            Value::Bool(_) | Value::Null => add("=text".to_owned(), json!("true")),
        }
    });
    mutants
}

type Put<'a> = &'a dyn Fn(Value) -> Value;

/// Calls `visit` with the path and value of each node, and a function that replaces the value.
fn walk(tree: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value, Put<'_>)) {
    walk_below(tree, path, visit, &|value| value);
}

fn walk_below(
    node: &Value,
    path: &str,
    visit: &mut dyn FnMut(&str, &Value, Put<'_>),
    put: Put<'_>,
) {
    visit(path, node, put);
    match node {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk_below(value, &below, visit, &|other| {
                    let mut fields: Map<String, Value> = fields.clone();
                    fields.insert(name.clone(), other);
                    put(Value::Object(fields))
                });
            }
        }
        Value::Array(items) => {
            // The elements of long lists are alike in the middle.
            for (index, value) in items.iter().enumerate().take(3) {
                walk_below(value, &format!("{path}[{index}]"), visit, &|other| {
                    let mut items = items.clone();
                    items[index] = other;
                    put(Value::Array(items))
                });
            }
        }
        _ => {}
    }
}

/// Other values of the same type: near ones, extreme ones, and the words that the format knows.
fn other_values(value: &Value) -> Vec<Value> {
    let mut others = match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => {
            let Some(number) = number.as_u64() else {
                return vec![json!(0), json!(number.as_i64().unwrap() - 1)];
            };
            let near = [number.saturating_sub(1), number + 1, number * 2, number / 2];
            let far = [0, 1, 2, 7, 86_400, 604_800, 1 << 32, (1 << 53) - 1, 1 << 53, u64::MAX];
            near.into_iter().chain(far).map(|other| json!(other)).collect()
        }
        Value::String(text) => {
            let words = [
                "count",
                "sum",
                "mean",
                "histogram",
                "quantiles",
                "multi_histogram",
                "sparse_histogram",
                "nearest",
                "vector_sum",
                "vector_mean",
                "none",
                "randomized_response",
                "rappor",
                "projective_geometry",
                "gaussian",
                "server_gaussian",
                "claim",
                "insecure_unbounded",
                "replace",
                "add_remove",
                "time_interval",
                "leader_selected",
                "Prio3Count",
                "Prio3Sum",
                "Prio3Histogram",
                "Prio3MultihotCountVec",
                "Pine64",
                "bool",
                "int",
                "string",
                "strings",
                "vector(64)",
                "vector(1)",
                "vector(064)",
                "vector(2000000)",
                "best",
                "each_round",
                "donation",
                "softmax",
                "mlp",
                "custom",
                "update",
                "",
                " ",
                "AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI",
            ];
            let mut others: Vec<_> = words.map(|word| json!(word)).into();
            others.push(json!(format!("{text}x")));
            others.push(json!(format!("{text} ")));
            others.push(json!(format!("{text}\n")));
            others.push(json!(format!("{text}\u{202e}")));
            others.push(json!(text.to_uppercase()));
            others.push(json!(text.repeat(100)));
            // The same length with one digit changed, for ids and keys.
            others.push(json!(format!("0{}", text.get(1..).unwrap_or_default())));
            others.push(json!(format!("1{}", text.get(1..).unwrap_or_default())));
            others.push(json!(format!("A{}", text.get(1..).unwrap_or_default())));
            others
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    };
    others.retain(|other| other != value);
    others
}
