//! Values of a recipe as text for people.

use sotto_dp::mechanism::Mechanism;
use sotto_dp::number::up_short;
use sotto_protocol::Moment;
use sotto_protocol::recipe::show_micro;
use sotto_wire::recipe::{
    Adjacency, Compression, Privacy, Probability, Query, RecipeVdaf, Sampling, Tokens, VectorQuery,
};
use sotto_wire::{BatchMode, Recipe};

use crate::time_text::{show_moment, show_seconds};

/// `20,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 in 50`; `all` for certainty.
pub(crate) fn one_in(probability: Probability) -> String {
    match probability.is_one() {
        true => "all".to_owned(),
        false => format!("{} in {}", grouped(probability.num()), grouped(probability.den())),
    }
}

/// `1 in 50`, `all` or `none`.
pub(crate) fn share(probability: Probability) -> String {
    if probability.is_zero() { "none".to_owned() } else { one_in(probability) }
}

/// `1e-9`, or a simple fraction.
pub(crate) fn delta(delta: Probability) -> String {
    let den = delta.den();
    let exponent = den.checked_ilog10().filter(|exponent| den == 10_u64.pow(*exponent));
    match exponent {
        Some(exponent) if delta.num() < 10 && exponent > 0 => {
            format!("{}e-{exponent}", delta.num())
        }
        _ if delta.num() > 0 && den <= 100 => delta.to_string(),
        _ => up_short(delta.to_f64()),
    }
}

/// `1 in 50 devices`, or the two rates of importance sampling.
pub(crate) fn answers(sampling: &Sampling) -> String {
    let others = one_in(sampling.rate);
    match sampling.default_rate {
        None => format!("{others} devices"),
        Some(default) => {
            format!("{} devices with the default answer, {others} others", one_in(default))
        }
    }
}

/// How sure somebody who starts at 50 in 100 can become: `at most 51 in 100 sure`, or `almost certain`.
/// Rounded up.
pub(crate) fn certainty(epsilon: f64) -> String {
    let percent = 100.0 / (1.0 + libm::exp(-epsilon));
    match percent {
        percent if percent <= 99.0 => format!("at most {} in 100 sure", percent.ceil()),
        percent if percent < 99.9 => {
            format!("at most {:.1} in 100 sure", (percent * 10.0).ceil() / 10.0)
        }
        _ => "almost certain".to_owned(),
    }
}

/// `2026-11-20T00:00:00Z`.
pub(crate) fn moment(posix_seconds: u64) -> String {
    show_moment(Moment(posix_seconds))
}

/// `histogram of 3 buckets (walk, bike, train)`.
pub(crate) fn query(query: &Query) -> String {
    match query {
        Query::Count { .. } => "count".to_owned(),
        Query::Sum { max, .. } => format!("sum of numbers from 0 to {}", grouped(*max)),
        Query::Mean { max, .. } => format!("mean of numbers from 0 to {}", grouped(*max)),
        Query::Histogram { buckets, .. } => {
            format!("histogram of {buckets} buckets{}", names(query))
        }
        Query::Quantiles { quantiles, .. } => {
            let quantiles: Vec<_> = quantiles.iter().map(Probability::to_string).collect();
            let buckets = query.buckets().unwrap_or_default();
            format!("quantiles {} over {buckets} ranges{}", quantiles.join(", "), names(query))
        }
        Query::MultiHistogram { buckets, most, .. } => {
            format!("histogram of up to {most} of {buckets} buckets per device{}", names(query))
        }
        Query::SparseHistogram { buckets, default, .. } => {
            let default = bucket(query, *default);
            format!("histogram of {buckets} buckets{}, nearly all in {default}", names(query))
        }
        Query::Nearest { candidates, .. } => {
            let length = grouped(query.candidate_dimension().unwrap_or_default().into());
            let count = grouped(candidates.len() as u64);
            format!("closest of {count} published vectors of {length} numbers{}", names(query))
        }
        Query::VectorSum(vectors) => format!("sum of {}", self::vectors(vectors)),
        Query::VectorMean(vectors) => format!("mean of {}", self::vectors(vectors)),
    }
}

/// `vectors of 64 numbers, norm at most 1, 15 fraction bits`.
fn vectors(vectors: &VectorQuery) -> String {
    let VectorQuery { dimension, clip_micro, fraction_bits, compression, .. } = vectors;
    let (length, clip) = (grouped((*dimension).into()), show_micro(*clip_micro));
    let text =
        format!("vectors of {length} numbers, norm at most {clip}, {fraction_bits} fraction bits");
    match compression {
        None => text,
        Some(Compression { dimension, seed }) => {
            format!("{text}, sent as {} numbers (seed {seed})", grouped((*dimension).into()))
        }
    }
}

/// The first names of the buckets, if they have other names than their numbers.
fn names(query: &Query) -> String {
    let buckets = query.buckets().unwrap_or_default();
    if query.labels().is_none() && !matches!(query, Query::Quantiles { .. }) {
        return String::new();
    }
    let shown: Vec<_> = (0..buckets.min(8)).filter_map(|one| query.bucket_name(one)).collect();
    let more = if u64::from(buckets) > shown.len() as u64 { ", ..." } else { "" };
    format!(" ({}{more})", shown.join(", "))
}

/// The mechanism's name and parameters, like `NAME, local epsilon 4`.
pub(crate) fn mechanism(mechanism: &Mechanism) -> String {
    let words = mechanism.words();
    let parameters = words.parameters.iter();
    let shown = parameters.map(|one| format!(", {} {}", one.name, show_micro(one.micro)));
    words.name.to_owned() + &shown.collect::<String>()
}

/// `epsilon 0.4 at delta 1e-9`.
pub(crate) fn privacy(privacy: &Privacy) -> String {
    match privacy {
        Privacy::InsecureUnbounded => "none (insecure_unbounded)".to_owned(),
        Privacy::Claim { epsilon_micro, delta, .. } => {
            format!("epsilon {} at delta {}", show_micro(*epsilon_micro), self::delta(*delta))
        }
    }
}

/// Which data sets are neighbours.
pub(crate) fn adjacency(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::Replace => "replace",
        Adjacency::AddRemove => "add-remove",
    }
}

/// Who checks that each device contributes once.
pub(crate) fn tokens(tokens: &Tokens) -> String {
    match tokens {
        Tokens::RateLimited { leader, helper } => {
            let (leader, helper) = (&leader.issuer, &helper.issuer);
            format!("the leader checks a token of {leader}, the helper one of {helper}")
        }
        Tokens::InsecureLeaderOnly { leader } => {
            format!("only the leader checks a token, of {} (insecure_leader_only)", leader.issuer)
        }
        Tokens::InsecureNone => "nobody checks any (insecure_none)".to_owned(),
    }
}

/// A warning for the author if an aggregator does not check tokens, or one issuer signs for both.
pub(crate) fn token_warning(tokens: &Tokens) -> Option<&'static str> {
    match tokens {
        Tokens::RateLimited { leader, helper } if leader.issuer == helper.issuer => Some(
            "one issuer signs the tokens of both aggregators: a dishonest one can fill a batch with \
             invented devices and single out one device. Only devices that allow \
             insecure_single_attester answer",
        ),
        Tokens::RateLimited { .. } => None,
        Tokens::InsecureLeaderOnly { .. } => Some(
            "the helper checks no tokens: a dishonest leader can fill a batch with its own reports and \
             single out one device. Only devices that allow insecure_no_tokens answer",
        ),
        Tokens::InsecureNone => Some(
            "nobody checks tokens: anyone can send any number of reports, decide the totals, and fill \
             a batch to single out one device. Only devices that allow insecure_no_tokens answer",
        ),
    }
}

/// When an aggregator releases a batch.
pub(crate) fn release_rules(recipe: &Recipe) -> Vec<String> {
    let (min_batch, tokens) = (grouped(recipe.aggregation.min_batch), &recipe.parties.tokens);
    let of_devices = match tokens.is_insecure() {
        true => "reports, which may all come from one device",
        false => "reports, each with a token that no other report had",
    };
    let rate = match recipe.who.targeting {
        Some(_) => {
            "of at most twice the reports that the certified audience would send in that time"
        }
        None => {
            "however many reports there are: the population is the author's estimate, not certified"
        }
    };
    vec![
        format!("of at least {min_batch} {of_devices}"),
        format!("that covers at most {}", show_seconds(recipe.when.max_window_s)),
        rate.to_owned(),
    ]
}

/// How batches are formed.
pub(crate) fn batch_mode(mode: BatchMode) -> &'static str {
    match mode {
        BatchMode::TimeInterval => "time interval",
        BatchMode::LeaderSelected => "leader selected",
    }
}

/// `Prio3Histogram of length 3, chunk length 2`.
pub(crate) fn vdaf(vdaf: &RecipeVdaf) -> String {
    match vdaf {
        RecipeVdaf::Prio3Count => "Prio3Count".to_owned(),
        RecipeVdaf::Prio3Sum { max_measurement } => format!("Prio3Sum up to {max_measurement}"),
        RecipeVdaf::Prio3Histogram { length, chunk_length } => {
            format!("Prio3Histogram of length {length}, chunk length {chunk_length}")
        }
        RecipeVdaf::Prio3MultihotCountVec { length, chunk_length, max_weight } => format!(
            "Prio3MultihotCountVec of length {length} and weight {max_weight}, chunk length \
             {chunk_length}"
        ),
        RecipeVdaf::Pine64 { dimension, norm_bound, chunk_length, chunk_length_norm_equality } => {
            format!(
                "Pine64 of dimension {dimension} and norm {norm_bound}, chunk lengths \
                 {chunk_length} and {chunk_length_norm_equality}"
            )
        }
    }
}

/// A query's fallback as text.
pub(crate) fn fallback(query: &Query) -> String {
    match query {
        Query::Count { fallback, .. } => fallback.to_string(),
        Query::Sum { fallback, .. } | Query::Mean { fallback, .. } => grouped(*fallback),
        Query::Histogram { fallback, .. } | Query::Nearest { fallback, .. } => {
            bucket(query, *fallback)
        }
        Query::Quantiles { fallback, .. } => fallback.to_string(),
        Query::MultiHistogram { fallback, .. } => buckets(query, fallback),
        Query::SparseHistogram { default, .. } => bucket(query, *default),
        Query::VectorSum(_) | Query::VectorMean(_) => "the zero vector".to_owned(),
    }
}

/// `bucket 2 (train)`.
pub(crate) fn bucket(query: &Query, number: u32) -> String {
    match query.bucket_name(number) {
        Some(name) if name != number.to_string() => format!("bucket {number} ({name})"),
        _ => format!("bucket {number}"),
    }
}

/// `bucket 2 (train), bucket 5 (bus)`, or `no bucket`.
pub(crate) fn buckets(query: &Query, numbers: &[u32]) -> String {
    let buckets: Vec<_> = numbers.iter().map(|number| bucket(query, *number)).collect();
    if buckets.is_empty() { "no bucket".to_owned() } else { buckets.join(", ") }
}

/// One line:
/// `histogram of 12 buckets, epsilon 0.8 at delta 1e-9, batches of at least 5,000`.
pub(crate) fn summary(recipe: &Recipe) -> String {
    format!(
        "{}, {}, batches of at least {}",
        query(&recipe.query),
        privacy(&recipe.privacy),
        grouped(recipe.aggregation.min_batch)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (20_000, "20,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(one_in(Probability::new(1, 5_000).unwrap()), "1 in 5,000");
        assert_eq!(one_in(Probability::ONE), "all");
        assert_eq!(share(Probability::ZERO), "none");
        for ((num, den), text) in
            [((1, 1_000_000_000), "1e-9"), ((3, 100), "3e-2"), ((1, 3), "1/3")]
        {
            assert_eq!(delta(Probability::new(num, den).unwrap()), text);
        }
    }
}
