//! The question of a new recipe: what devices may read, and what is measured.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use sotto_protocol::expression::{Expression, Reason};
use sotto_protocol::recipe::{check_mapping, check_words};
use sotto_wire::limits::{MAX_BUCKETS, MAX_INTEGER};
use sotto_wire::recipe::{
    AttributeName, AttributeType, Compression, Query, VectorQuery, parse_epsilon,
};

use super::draft::whole;
use super::{Inquiry, Kind, NewArgs};
use crate::output::{hinted, pointed};
use crate::recipe::certify::parse_attribute;
use crate::recipe::words::grouped;
use crate::recipe_file;

/// The bucket of devices for which the mapping has no value.
const UNKNOWN: &str = "unknown";

/// The fraction bits of candidates: fine enough for embeddings of norm 1, and short to write.
const CANDIDATE_BITS: u32 = 10;

const KINDS: &str = "histogram, count, sum, mean, quantiles, multi_histogram, sparse_histogram, \
                     nearest, vector_sum or vector_mean";

type Attributes = BTreeMap<AttributeName, AttributeType>;

impl NewArgs {
    /// The attributes and the query.
    pub(super) fn question(&self, ask: &mut Inquiry<'_>) -> Result<(Attributes, Query)> {
        let given = self.kind.and_then(|kind| kind.to_possible_value());
        let given = given.as_ref().map(|kind| kind.get_name());
        let question = format!("What is measured: {KINDS}?");
        let kind = ask.value("--kind", &question, given, Some("histogram"), |text| {
            Kind::from_str(text, true).map_err(|_| anyhow!("say {KINDS}"))
        })?;
        self.applies(kind)?;
        let without = self.without_mapping(kind, ask)?;
        let given = (!self.attribute.is_empty()).then(|| self.attribute.join(","));
        let question = "What may it read? name:type with bool, int, string, strings or vector(64), comma between";
        let attributes: Attributes =
            ask.value("--attribute", question, given.as_deref(), Some(""), |text| {
                text.split(',').filter(|one| !one.trim().is_empty()).map(parse_attribute).collect()
            })?;
        let question = match kind {
            Kind::Histogram | Kind::SparseHistogram => {
                "Mapping to the bucket, like: minutes < 15 ? 0 : 1"
            }
            Kind::Count => "Mapping to yes or no, like: minutes < 15",
            Kind::Sum | Kind::Mean | Kind::Quantiles => "Mapping to the number, like: minutes",
            Kind::MultiHistogram => "Mapping to the list of buckets, like: apps",
            Kind::Nearest | Kind::VectorSum | Kind::VectorMean => {
                "Mapping to the vector: the name of an attribute"
            }
        };
        let query = ask.value("--mapping", question, self.mapping.as_deref(), None, |text| {
            let mut query = without.clone();
            *query.mapping_mut() = text.to_owned();
            let checked = match self.is_discovery() {
                true => check_words(text, &attributes),
                false => check_mapping(&query, &attributes),
            };
            match checked {
                Ok(_) => Ok(query),
                Err(reason) => Err(wrong_mapping(reason, &query, &attributes)),
            }
        })?;
        Ok((attributes, query))
    }

    /// Refuses options that other kinds have.
    fn applies(&self, kind: Kind) -> Result<()> {
        let of_buckets =
            matches!(kind, Kind::Histogram | Kind::MultiHistogram | Kind::SparseHistogram);
        let of_candidates = kind == Kind::Nearest;
        let of_vectors = matches!(kind, Kind::VectorSum | Kind::VectorMean);
        for (option, given, is_for) in [
            ("--labels", self.labels.is_some(), of_buckets || of_candidates),
            ("--candidates", self.candidates.is_some(), of_candidates),
            ("--buckets", self.buckets.is_some(), of_buckets),
            ("--max", self.max.is_some(), matches!(kind, Kind::Sum | Kind::Mean)),
            ("--boundaries", self.boundaries.is_some(), kind == Kind::Quantiles),
            ("--most", self.most.is_some(), kind == Kind::MultiHistogram),
            ("--default-rate", self.default_rate.is_some(), kind == Kind::SparseHistogram),
            ("--dimension", self.dimension.is_some(), of_vectors),
            ("--clip", self.clip.is_some(), of_vectors),
            ("--fraction-bits", self.fraction_bits.is_some(), of_vectors || of_candidates),
            ("--compress", self.compress.is_some(), of_vectors),
        ] {
            let name = kind.to_possible_value();
            let name = name.as_ref().map_or("it", |value| value.get_name());
            ensure!(!given || is_for, "{option} does not go with --kind {name}: leave it out");
        }
        Ok(())
    }

    /// The query without its mapping.
    fn without_mapping(&self, kind: Kind, ask: &mut Inquiry<'_>) -> Result<Query> {
        let mapping = String::new();
        Ok(match kind {
            Kind::Count => Query::Count { mapping, fallback: self.fallback_bool()? },
            Kind::Sum | Kind::Mean => {
                let max =
                    ask.value("--max", "The largest number?", self.max.as_deref(), None, whole)?;
                let fallback = self.fallback_number(0, None)?;
                match kind {
                    Kind::Sum => Query::Sum { max, mapping, fallback },
                    _ => Query::Mean { max, mapping, fallback },
                }
            }
            Kind::Histogram => {
                let (labels, size) = self.buckets(ask)?;
                self.histogram(labels, size)?
            }
            Kind::Quantiles => {
                let question =
                    "Where do the ranges end? Numbers in increasing order, comma between";
                let given = self.boundaries.as_deref();
                let boundaries = ask.value("--boundaries", question, given, None, |text| {
                    text.split(',').map(|number| integer(number.trim())).collect::<Result<Vec<_>>>()
                })?;
                let fallback = self.fallback.as_deref().map_or(Ok(0), integer)?;
                Query::Quantiles { boundaries, quantiles: Query::quartiles(), mapping, fallback }
            }
            Kind::MultiHistogram => {
                let (labels, size) = self.buckets(ask)?;
                let buckets = number_of_buckets(size)?;
                let question = "How many of them may one device have?";
                let most = ask.value("--most", question, self.most.as_deref(), None, |text| {
                    u32::try_from(whole(text)?).map_err(|_| anyhow!("it is too large"))
                })?;
                let fallback = self.fallback_list(labels.as_deref())?;
                Query::MultiHistogram { buckets, labels, most, mapping, fallback }
            }
            Kind::SparseHistogram => {
                let (labels, size) = self.buckets(ask)?;
                let buckets = number_of_buckets(size)?;
                let default = bucket(self.fallback_number(0, labels.as_deref())?)?;
                Query::SparseHistogram { buckets, labels, mapping, default }
            }
            Kind::Nearest => self.nearest(ask)?,
            Kind::VectorSum => Query::VectorSum(self.vectors(ask)?),
            Kind::VectorMean => Query::VectorMean(self.vectors(ask)?),
        })
    }

    /// The candidates in a file. Devices without a vector have a bucket of their own, unless the
    /// author chose another one.
    fn nearest(&self, ask: &mut Inquiry<'_>) -> Result<Query> {
        let fraction_bits = self.fraction_bits.unwrap_or(CANDIDATE_BITS);
        let given = self.candidates.as_ref().map(|path| path.display().to_string());
        let question = "Which file has the candidates? A vector per line, commas between numbers";
        let candidates = ask.value("--candidates", question, given.as_deref(), None, |path| {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
            vectors_of(&text, fraction_bits)
        })?;
        let mut labels: Option<Vec<String>> = self
            .labels
            .as_ref()
            .map(|labels| labels.split(',').map(|label| label.trim().to_owned()).collect());
        let fallback = bucket(self.fallback_number(candidates.len() as u64, labels.as_deref())?)?;
        if self.fallback.is_none() {
            labels.iter_mut().for_each(|labels| labels.push(UNKNOWN.to_owned()));
        }
        Ok(Query::Nearest { candidates, fraction_bits, labels, mapping: String::new(), fallback })
    }

    /// Vectors, without their mapping.
    fn vectors(&self, ask: &mut Inquiry<'_>) -> Result<VectorQuery> {
        let small =
            |text: &str| u32::try_from(whole(text)?).map_err(|_| anyhow!("it is too large"));
        let given = self.dimension.as_deref();
        let question = "How many numbers has a vector?";
        let dimension = ask.value("--dimension", question, given, None, small)?;
        let question = "The largest norm (L2) of a vector? Longer ones are made shorter";
        let clip_micro =
            ask.value("--clip", question, self.clip.as_deref(), Some("1"), |text| {
                parse_epsilon(text).map_err(|reason| anyhow!(reason))
            })?;
        let usual = VectorQuery::usual_fraction_bits(dimension);
        let compression = self.compress.as_deref().map(small).transpose();
        let compression = compression.map_err(|error| error.context("--compress"))?;
        Ok(VectorQuery {
            dimension,
            clip_micro,
            fraction_bits: self.fraction_bits.unwrap_or(usual),
            mapping: String::new(),
            compression: compression.map(|dimension| Compression { dimension, seed: 1 }),
        })
    }

    /// A histogram with these buckets. Unless the author chose a fallback, devices for which the
    /// mapping has no value have a bucket of their own: they must not look like an answer.
    fn histogram(&self, mut labels: Option<Vec<String>>, mut size: u64) -> Result<Query> {
        if self.fallback.is_none() {
            match &mut labels {
                Some(labels) if labels.iter().any(|label| label == UNKNOWN) => {}
                Some(labels) => labels.push(UNKNOWN.to_owned()),
                None => size = size.saturating_add(1),
            }
        }
        size = labels.as_ref().map_or(size, |labels| labels.len() as u64);
        let own = labels.as_ref().and_then(|all| all.iter().position(|label| label == UNKNOWN));
        let own = own.map_or(size.saturating_sub(1), |index| index as u64);
        let fallback = bucket(self.fallback_number(own, labels.as_deref())?)?;
        let buckets = number_of_buckets(size)?;
        Ok(Query::Histogram { buckets, labels, mapping: String::new(), fallback })
    }

    fn buckets(&self, ask: &mut Inquiry<'_>) -> Result<(Option<Vec<String>>, u64)> {
        if let Some(buckets) = &self.buckets {
            let buckets = ask.value("--buckets", "", Some(buckets), None, whole)?;
            return Ok((None, buckets));
        }
        let question = "Names of the buckets, comma between (or how many there are)";
        ask.value("--labels", question, self.labels.as_deref(), None, |text| {
            if let Ok(number) = text.parse() {
                return Ok((None, number));
            }
            let labels: Vec<String> =
                text.split(',').map(|label| label.trim().to_owned()).collect();
            ensure!(labels.len() >= 2, "a histogram has at least two buckets");
            let count = labels.len() as u64;
            Ok((Some(labels), count))
        })
    }

    fn fallback_bool(&self) -> Result<bool> {
        match self.fallback.as_deref() {
            None => Ok(false),
            Some(text) => text.parse().map_err(|_| anyhow!("--fallback {text}: say true or false")),
        }
    }

    /// A number, or the name of a bucket.
    fn fallback_number(&self, default: u64, labels: Option<&[String]>) -> Result<u64> {
        self.fallback.as_deref().map_or(Ok(default), |text| named(text, labels))
    }

    /// The buckets of devices for which the mapping has no value, in order; none unless the author
    /// chose some.
    fn fallback_list(&self, labels: Option<&[String]>) -> Result<Vec<u32>> {
        let chosen = self.fallback.as_deref().unwrap_or_default().split(',').map(str::trim);
        let chosen = chosen.filter(|text| !text.is_empty());
        let mut buckets: Vec<u32> =
            chosen.map(|text| bucket(named(text, labels)?)).collect::<Result<_>>()?;
        buckets.sort_unstable();
        Ok(buckets)
    }
}

/// The vectors of a text, a line each, in units of `2^-fraction_bits`.
fn vectors_of(text: &str, fraction_bits: u32) -> Result<Vec<Vec<i64>>> {
    let unit = f64::from(fraction_bits).exp2();
    let number = |text: &str| {
        let number: f64 = text.trim().parse().map_err(|_| anyhow!("{text:?} is not a number"))?;
        let scaled = (number * unit).round();
        ensure!(scaled.abs() <= MAX_INTEGER as f64, "{text} is too large");
        Ok(scaled as i64)
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let vectors = lines.map(|(index, line)| {
        let numbers = line.split([',', ';']).map(number).collect::<Result<Vec<_>>>();
        numbers.with_context(|| format!("line {}", index + 1))
    });
    vectors.collect()
}

/// The number of a bucket, or that of its name.
fn named(text: &str, labels: Option<&[String]>) -> Result<u64> {
    let index = labels.and_then(|labels| labels.iter().position(|label| label == text));
    match (index, text.parse()) {
        (Some(index), _) => Ok(index as u64),
        (None, Ok(number)) => Ok(number),
        (None, Err(_)) => bail!("--fallback {text}: say a number, or one of the labels"),
    }
}

fn bucket(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| anyhow!("--fallback is too large"))
}

fn number_of_buckets(size: u64) -> Result<u32> {
    match u32::try_from(size) {
        Ok(number) if size <= MAX_BUCKETS => Ok(number),
        _ => bail!(
            "there are {} buckets, with the one for devices without an answer: at most {} are possible",
            grouped(size),
            grouped(MAX_BUCKETS)
        ),
    }
}

/// A whole number that may be negative.
fn integer(text: &str) -> Result<i64> {
    text.parse().map_err(|_| anyhow!("{text:?} is not a whole number: write it like 18 or -5"))
}

/// The error with its place, and a hint if it is about an attribute.
fn wrong_mapping(reason: String, query: &Query, attributes: &Attributes) -> anyhow::Error {
    let place = reason.split_once(':').and_then(|(place, _)| place.split_once(", "));
    let place = place.and_then(|(_, place)| recipe_file::place_in(query.mapping(), place));
    let error = pointed(anyhow!(reason), place);
    let wrong = Expression::compile(query.mapping(), attributes).err();
    let labels = query.labels().unwrap_or_default();
    match wrong.map(|wrong| wrong.reason) {
        Some(Reason::Undeclared(name)) if !labels.contains(&name) => hinted(
            error,
            match query.vectors().map(|vectors| vectors.dimension).or(query.candidate_dimension()) {
                Some(length) => {
                    format!("declare what it reads: --attribute '{name}:vector({length})'")
                }
                None => format!(
                    "declare what it reads: --attribute {name}:int, :bool, :string or :strings"
                ),
            },
        ),
        _ => error,
    }
}
