//! Arbitrary queries, with expressions of the right type.

use rand_core::Rng;
use sotto_wire::limits::{
    MAX_BUCKETS, MAX_DIMENSION, MAX_FRACTION_BITS, MAX_INTEGER, MIN_DIMENSION,
};
use sotto_wire::recipe::{AttributeName, AttributeType, Compression, Query, VectorQuery};

use super::{Attributes, below, chance, number, pick, probability, text};

/// An arbitrary query.
pub(super) fn query(attributes: &Attributes, rng: &mut dyn Rng) -> Query {
    match below(10, rng) {
        0 => Query::Count { mapping: predicate(attributes, rng), fallback: chance(2, rng) },
        1 | 2 => {
            let max = number(1, MAX_INTEGER, rng);
            let mapping = integer(attributes, max, rng);
            let fallback = number(0, max, rng);
            match chance(2, rng) {
                true => Query::Sum { max, mapping, fallback },
                false => Query::Mean { max, mapping, fallback },
            }
        }
        3 | 4 => {
            let (buckets, labels) = buckets(rng);
            let mapping = integer(attributes, u64::from(buckets) - 1, rng);
            Query::Histogram { buckets, labels, mapping, fallback: bucket(buckets, rng) }
        }
        5 => {
            let (buckets, labels) = buckets(rng);
            let mapping = integer(attributes, u64::from(buckets) - 1, rng);
            Query::SparseHistogram { buckets, labels, mapping, default: bucket(buckets, rng) }
        }
        6 => quantiles(attributes, rng),
        8 => nearest(attributes, rng),
        7 => {
            let vectors = vectors(attributes, rng);
            if chance(2, rng) { Query::VectorSum(vectors) } else { Query::VectorMean(vectors) }
        }
        _ => {
            let (buckets, labels) = buckets(rng);
            let most = number(1, u64::from(buckets), rng) as u32;
            let mapping = several(attributes, buckets, rng);
            let chosen = number(0, u64::from(most.min(20)), rng);
            let mut fallback: Vec<_> = (0..chosen).map(|_| bucket(buckets, rng)).collect();
            fallback.sort_unstable();
            fallback.dedup();
            Query::MultiHistogram { buckets, labels, most, mapping, fallback }
        }
    }
}

fn quantiles(attributes: &Attributes, rng: &mut dyn Rng) -> Query {
    let mut boundaries: Vec<_> = (0..number(1, 50, rng)).map(|_| signed(rng)).collect();
    boundaries.sort_unstable();
    boundaries.dedup();
    let mut quantiles: Vec<_> = (0..number(1, 5, rng)).map(|_| probability(rng)).collect();
    quantiles.retain(|part| !part.is_one());
    quantiles.sort_unstable();
    quantiles.dedup();
    if quantiles.is_empty() || chance(2, rng) {
        quantiles = Query::quartiles();
    }
    let mapping = integer(attributes, MAX_INTEGER, rng);
    Query::Quantiles { boundaries, quantiles, mapping, fallback: signed(rng) }
}

/// The candidates may have another length than the attribute, as for [`vectors`].
fn nearest(attributes: &Attributes, rng: &mut dyn Rng) -> Query {
    let others = number(MIN_DIMENSION, 5, rng) - 1;
    // They differ in their first numbers. None is -1, which tests of the format write in place of any
    // number.
    let other = |rng: &mut dyn Rng| Some(signed(rng)).filter(|it| *it != -1).unwrap_or(7);
    let candidates: Vec<Vec<i64>> = (0..number(2, 4, rng) as i64)
        .map(|first| [first].into_iter().chain((0..others).map(|_| other(rng))).collect())
        .collect();
    let fallback = number(0, candidates.len() as u64, rng) as u32;
    let fraction_bits = number(0, MAX_FRACTION_BITS, rng) as u32;
    let mapping = vectors(attributes, rng).mapping;
    Query::Nearest { candidates, fraction_bits, labels: None, mapping, fallback }
}

/// The attribute may be of another type or length: `sotto-wire` does not know what a mapping says.
fn vectors(attributes: &Attributes, rng: &mut dyn Rng) -> VectorQuery {
    let vector = attributes.iter().find(|(_, kind)| matches!(kind, AttributeType::Vector(_)));
    let dimension = match vector {
        Some((_, AttributeType::Vector(dimension))) => *dimension,
        _ => number(MIN_DIMENSION, MAX_DIMENSION, rng) as u32,
    };
    let compression = chance(2, rng).then(|| Compression {
        dimension: number(1, u64::from(dimension) - 1, rng) as u32,
        seed: number(0, MAX_INTEGER, rng),
    });
    // Most are such that the norm has a chance to fit.
    let most = if chance(4, rng) { MAX_INTEGER } else { 100_000_000 };
    VectorQuery {
        dimension,
        clip_micro: number(1, most, rng),
        fraction_bits: number(0, MAX_FRACTION_BITS, rng) as u32,
        mapping: vector.map_or_else(|| "vector".to_owned(), |(name, _)| name.to_string()),
        compression,
    }
}

fn buckets(rng: &mut dyn Rng) -> (u32, Option<Vec<String>>) {
    let labelled = chance(2, rng);
    let buckets = number(2, if labelled { 200 } else { MAX_BUCKETS }, rng);
    // Numbered, so that they differ.
    let labels =
        labelled.then(|| (0..buckets).map(|index| format!("{index} {}", text(14, rng))).collect());
    (buckets as u32, labels)
}

fn bucket(buckets: u32, rng: &mut dyn Rng) -> u32 {
    number(0, u64::from(buckets) - 1, rng) as u32
}

/// From -(2^53 - 1) to 2^53 - 1.
fn signed(rng: &mut dyn Rng) -> i64 {
    let value = number(0, MAX_INTEGER, rng) as i64;
    if chance(2, rng) { -value } else { value }
}

/// An expression that gives a truth value.
pub(super) fn predicate(attributes: &Attributes, rng: &mut dyn Rng) -> String {
    let Some((name, kind)) = pick_attribute(attributes, rng) else { return "true".to_owned() };
    match kind {
        AttributeType::Bool => format!("!{name}"),
        AttributeType::Int => {
            let comparison = *pick(&["==", "!=", "<", ">=", "<=", ">"], rng);
            format!("{name} {comparison} {}", number(0, 1 << 40, rng))
        }
        AttributeType::String => {
            format!("{name} in ['{}',\n  \"{}\"]", literal(rng), literal(rng))
        }
        AttributeType::Strings => format!("'{}' in {name}", literal(rng)),
        // No operator reads a vector.
        AttributeType::Vector(_) => "true".to_owned(),
    }
}

/// An expression that gives an integer.
fn integer(attributes: &Attributes, max: u64, rng: &mut dyn Rng) -> String {
    let constant = number(0, max, rng);
    match pick_attribute(attributes, rng) {
        Some((name, AttributeType::Int)) if chance(2, rng) => format!("{name} + {constant}"),
        Some(_) => format!("{} ? {constant} : 0", predicate(attributes, rng)),
        None => constant.to_string(),
    }
}

/// An expression that gives a list of buckets.
fn several(attributes: &Attributes, buckets: u32, rng: &mut dyn Rng) -> String {
    let [one, other] = [(); 2].map(|()| bucket(buckets, rng));
    format!("{} ? [{one}, {other}] : [0]", predicate(attributes, rng))
}

fn pick_attribute<'a>(
    attributes: &'a Attributes,
    rng: &mut dyn Rng,
) -> Option<(&'a AttributeName, AttributeType)> {
    let index = below(attributes.len().max(1), rng);
    attributes.iter().nth(index).map(|(name, kind)| (name, *kind))
}

/// Text that needs no escaping inside quotes of either kind.
fn literal(rng: &mut dyn Rng) -> String {
    text(10, rng).replace(['\'', '"', '\\'], "")
}
