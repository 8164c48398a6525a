//! Example contributions: the mapping applied to made-up attributes.

use rand_core::CryptoRng;
use serde::Serialize;
use sotto_dp::mechanism::Value as Answer;
use sotto_dp::uniform::uniform_below;
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::recipe::Assessment;
use sotto_wire::recipe::{AttributeType, Query};

use super::words;

/// How many examples are shown.
const SHOWN: usize = 4;

/// How many made-up devices are tried to find them.
const TRIED: usize = 24;

/// How many coordinates of a vector are shown.
const SHOWN_COORDINATES: usize = 3;

/// Whole numbers that fall into different ranges of most mappings.
const NUMBERS: [i64; 8] = [0, 1, 3, 8, 20, 45, 120, 1_000];

/// A text that nothing compares with.
const OTHER: &str = "something else";

/// A made-up device and what it would contribute, before randomization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Example {
    /// The attributes, like `minutes = 20`.
    pub(super) attributes: String,
    /// The contribution, like `bucket 2 (train)`.
    pub(super) measurement: String,
}

/// A few made-up devices with different contributions, and one that lacks every attribute.
pub(super) fn examples(assessment: &Assessment) -> Vec<Example> {
    let recipe = assessment.recipe();
    let texts = texts(recipe.query.mapping(), &recipe.query);
    let mut found: Vec<Example> = Vec::new();
    for attempt in 0..TRIED {
        let mut attributes = Attributes::new();
        for (index, name) in assessment.mapping().attributes().iter().enumerate() {
            let kind = recipe.attributes.get(name.as_str());
            if let Some(value) = kind.and_then(|kind| made_up(*kind, attempt + index, &texts)) {
                attributes.insert(name.clone(), value);
            }
        }
        let measurement = shown(&recipe.query, &assessment.answer(&attributes));
        if !found.iter().any(|example| example.measurement == measurement) {
            found.push(Example { attributes: listed(&attributes), measurement });
        }
        if found.len() == SHOWN || assessment.mapping().attributes().is_empty() {
            break;
        }
    }
    if !assessment.mapping().attributes().is_empty() {
        let measurement = shown(&recipe.query, &assessment.answer(&Attributes::new()));
        let attributes = "a device without these attributes".to_owned();
        found.push(Example { attributes, measurement });
    }
    found
}

/// One more made-up device, with every attribute that the recipe declares.
pub(crate) fn made_up_device(assessment: &Assessment, rng: &mut dyn CryptoRng) -> Attributes {
    let recipe = assessment.recipe();
    let mapping = recipe.query.mapping();
    let predicate = recipe.who.targeting.as_ref().map(|targeting| targeting.predicate.as_str());
    // An attribute that only the predicate reads has none of the values of the mapping.
    let reads = |name: &str| {
        let by_predicate =
            assessment.predicate().is_some_and(|found| found.attributes().contains(name));
        (assessment.mapping().attributes().contains(name), by_predicate)
    };
    let mut pick = |count: usize| uniform_below(count as u64, rng) as usize;
    let mut value = |name: &str, kind: &AttributeType| {
        let (by_mapping, by_predicate) = reads(name);
        let predicate = predicate.filter(|_| by_predicate);
        let mapping = Some(mapping).filter(|_| by_mapping || !by_predicate);
        let (texts, numbers) = compared([mapping, predicate], &recipe.query);
        match kind {
            AttributeType::Bool => Value::Bool(pick(2) == 0),
            AttributeType::Int => Value::Int(numbers[pick(numbers.len())]),
            AttributeType::String => Value::String(texts[pick(texts.len())].clone()),
            AttributeType::Strings => {
                let chosen = texts.iter().filter(|_| pick(3) == 0);
                Value::List(chosen.cloned().map(Value::String).collect())
            }
            AttributeType::Vector(length) => {
                // A wave with its own height and place.
                let (height, place) = ((1 + pick(9)) as f64 / 10.0, pick(*length as usize));
                wave(*length, height, place)
            }
        }
    };
    recipe
        .attributes
        .iter()
        .map(|(name, kind)| (name.to_string(), value(name.as_str(), kind)))
        .collect()
}

/// Texts and numbers that the mapping and the predicate may compare with.
fn compared(sources: [Option<&str>; 2], query: &Query) -> (Vec<String>, Vec<i64>) {
    let [mapping, predicate] = sources;
    let mut found = predicate.map(quoted).unwrap_or_default();
    found.extend(match mapping {
        Some(mapping) => texts(mapping, query),
        None => vec![OTHER.to_owned()],
    });
    // Numbers around those that are compared with, so that every branch is taken.
    let digits = |source: &str| -> Vec<i64> {
        let numbers = source.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|digits| digits.parse().ok()).collect()
    };
    let near = sources
        .into_iter()
        .flatten()
        .flat_map(digits)
        .flat_map(|number: i64| [number.saturating_sub(1), number, number.saturating_add(1)]);
    (found, NUMBERS.into_iter().chain(near).collect())
}

fn made_up(kind: AttributeType, number: usize, texts: &[String]) -> Option<Value> {
    Some(match kind {
        AttributeType::Bool => Value::Bool(number.is_multiple_of(2)),
        AttributeType::Int => Value::Int(*NUMBERS.get(number % NUMBERS.len())?),
        AttributeType::String => Value::String(texts.get(number % texts.len().max(1))?.clone()),
        AttributeType::Strings => {
            let texts = texts.iter().skip(number).step_by(2).take(3);
            Value::List(texts.cloned().map(Value::String).collect())
        }
        AttributeType::Vector(length) => {
            wave(length, NUMBERS[number % NUMBERS.len()] as f64, number)
        }
    })
}

/// A vector with one smooth hill.
fn wave(length: u32, height: f64, place: usize) -> Value {
    let width = (f64::from(length) / 8.0).max(1.0);
    let hill = |at: u32| {
        let far = (f64::from(at) - place as f64) / width;
        height / (1.0 + far * far)
    };
    Value::Vector((0..length).map(hill).collect::<Vec<f64>>().into())
}

/// Texts that the mapping may compare with: those that it quotes, and the labels.
fn texts(mapping: &str, query: &Query) -> Vec<String> {
    let mut texts = quoted(mapping);
    texts.extend(query.labels().unwrap_or_default().iter().cloned());
    texts.push(OTHER.to_owned());
    texts
}

/// The texts in quotes.
fn quoted(source: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for quote in ['"', '\''] {
        let quoted = source.split(quote).skip(1).step_by(2).map(str::to_owned);
        texts.extend(quoted.filter(|text| !text.contains(['"', '\'', '\\'])));
    }
    texts
}

fn listed(attributes: &Attributes) -> String {
    let one = |(name, value): (&String, &Value)| format!("{name} = {}", written(value));
    match attributes.is_empty() {
        true => "any device".to_owned(),
        false => attributes.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// A value as a device's file of attributes spells it.
fn written(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(value) => format!("{value:?}"),
        Value::List(values) => {
            format!("[{}]", values.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::Vector(vector) => {
            let first = vector.as_slice().iter().take(SHOWN_COORDINATES);
            let first: Vec<String> = first.map(|number| format!("{number:.3}")).collect();
            let more = if vector.as_slice().len() > SHOWN_COORDINATES { ", ..." } else { "" };
            format!("[{}{more}]", first.join(", "))
        }
    }
}

/// The answer in words.
fn shown(query: &Query, answer: &Answer) -> String {
    match answer {
        Answer::Bit(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Answer::Number(number) => words::grouped(*number),
        Answer::OneHot(bucket) => words::bucket(query, *bucket),
        Answer::Labels(buckets) => words::buckets(query, buckets),
        Answer::Vector(numbers) => {
            let unit = 2f64.powi(-(query.vectors().map_or(0, |one| one.fraction_bits) as i32));
            let norm = numbers.iter().map(|one| (*one as f64 * unit).powi(2)).sum::<f64>().sqrt();
            match numbers.iter().all(|number| *number == 0) {
                true => "the zero vector".to_owned(),
                false => format!("a vector of {} numbers, norm {norm:.4}", numbers.len()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::new::testing;

    #[test]
    fn examples_differ_and_end_with_the_fallback() {
        let assessment = Assessment::new(testing::recipe()).unwrap();
        let found = examples(&assessment);
        let shown: Vec<&str> = found.iter().map(|example| example.measurement.as_str()).collect();
        assert_eq!(
            shown,
            ["bucket 0 (short)", "bucket 1 (middle)", "bucket 2 (long)", "bucket 0 (short)"]
        );
        assert_eq!(found[0].attributes, "minutes = 0");
        assert_eq!(found[3].attributes, "a device without these attributes");
    }

    #[test]
    fn texts_come_from_the_mapping_and_the_labels() {
        let query = testing::recipe().query;
        let found = texts("mode == \"bike\" ? 1 : mode == 'bus' ? 2 : 0", &query);
        assert_eq!(found, ["bike", "bus", "short", "middle", "long", "something else"]);
    }
}
