//! The rules of the format that need only the recipe itself, with a readable reason for each error.

use std::collections::BTreeMap;

use super::{
    AttributeName, AttributeType, FORMAT_VERSION, Parties, Privacy, Recipe, RecipeVdaf, When,
    series, tokens,
};
use crate::limits::{
    MAX_ATTRIBUTES, MAX_BUCKETS, MAX_DIMENSION, MAX_ENDPOINT_LEN, MAX_EXPRESSION_LEN, MAX_INTEGER,
    MAX_PURPOSE_CHARS, MAX_RECIPE_LIFE_S, MAX_RECIPE_NAME_LEN, MAX_WINDOW_S, MIN_BUCKETS,
};
use crate::{FormatError, KeyName};

impl Recipe {
    /// Every rule except the total length.
    pub(super) fn check_fields(&self) -> Result<(), FormatError> {
        range("version", self.version, FORMAT_VERSION, FORMAT_VERSION)?;
        name("name", &self.name)?;
        purpose(&self.purpose)?;
        visible("author.name", self.author.name.as_str())?;
        attributes(&self.attributes)?;
        at_least_one("who.population", self.who.population)?;
        if let Some(targeting) = &self.who.targeting {
            expression("who.targeting.predicate", &targeting.predicate)?;
        }
        when(&self.when)?;
        self.sampling.check(&self.query, &self.randomizer)?;
        self.query.check()?;
        self.randomizer.check(&self.query)?;
        self.noise.as_ref().map_or(Ok(()), |noise| noise.check(&self.randomizer))?;
        self.aggregation.vdaf.check()?;
        at_least_one("aggregation.min_batch", self.aggregation.min_batch)?;
        privacy(&self.privacy)?;
        parties(&self.parties)?;
        series::check(self)?;
        tokens::check(&self.parties, self.when.closes)
    }
}

/// An integer that every JSON parser reads exactly.
pub(super) fn integer(field: &str, value: u64) -> Result<(), FormatError> {
    range(field, value, 0, MAX_INTEGER)
}

/// As [`integer`], and not 0.
pub(super) fn at_least_one(field: &str, value: u64) -> Result<(), FormatError> {
    range(field, value, 1, MAX_INTEGER)
}

/// An integer from `low` to `high`.
pub(super) fn range(field: &str, value: u64, low: u64, high: u64) -> Result<(), FormatError> {
    if let Some(name) = field.strip_suffix("_micro") {
        return decimal(name, value, low, high);
    }
    match (low..=high).contains(&value) {
        true => Ok(()),
        false if low == high => refuse(format!("{field} must be {low}, not {value}")),
        false if high == MAX_INTEGER && low == 0 => refuse(format!("{field} must be below 2^53")),
        false if high == MAX_INTEGER => {
            refuse(format!("{field} must be at least {low} and below 2^53, not {value}"))
        }
        false => refuse(format!("{field} must be from {low} to {high}, not {value}")),
    }
}

/// The same for millionths, which people write as decimals.
fn decimal(name: &str, value: u64, low: u64, high: u64) -> Result<(), FormatError> {
    let [value_text, low_text, high_text] = [value, low, high].map(show_micro);
    match (low..=high).contains(&value) {
        true => Ok(()),
        false if value == 0 && low == 1 => refuse(format!("{name} must be above 0")),
        false if high == MAX_INTEGER => {
            refuse(format!("{name} must be from {low_text} to 2^53 millionths, not {value_text}"))
        }
        false => refuse(format!("{name} must be from {low_text} to {high_text}, not {value_text}")),
    }
}

fn show_micro(micro: u64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An expression is only text of bounded length here; it is checked where it is compiled.
pub(super) fn expression(field: &str, source: &str) -> Result<(), FormatError> {
    if source.trim().is_empty() {
        return refuse(format!("{field} must not be empty"));
    }
    if source.len() > MAX_EXPRESSION_LEN {
        return refuse(format!("{field} has more than {MAX_EXPRESSION_LEN} bytes"));
    }
    visible(field, &source.replace('\n', ""))
}

/// A set of attributes of bounded size.
pub(super) fn attributes(
    attributes: &BTreeMap<AttributeName, AttributeType>,
) -> Result<(), FormatError> {
    range("the number of attributes", attributes.len() as u64, 0, MAX_ATTRIBUTES as u64)
}

/// The error with this reason.
pub(super) fn refuse<T>(reason: impl Into<String>) -> Result<T, FormatError> {
    Err(FormatError::new(reason.into()))
}

/// A name that an author chooses.
pub(super) fn name(field: &str, name: &str) -> Result<(), FormatError> {
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let allowed = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'));
    if !begins || !allowed || name.len() > MAX_RECIPE_NAME_LEN {
        return refuse(format!(
            "{field} must be at most {MAX_RECIPE_NAME_LEN} of a-z, 0-9, dot and hyphen, and begin with a letter or digit"
        ));
    }
    Ok(())
}

fn purpose(purpose: &str) -> Result<(), FormatError> {
    if purpose.trim().is_empty() {
        return refuse("purpose must not be empty");
    }
    if purpose.chars().count() > MAX_PURPOSE_CHARS {
        return refuse(format!("purpose has more than {MAX_PURPOSE_CHARS} characters"));
    }
    visible("purpose", purpose)
}

/// Rejects characters that control a display instead of being shown: a person would read something
/// other than what was signed.
pub(super) fn visible(field: &str, text: &str) -> Result<(), FormatError> {
    match text.chars().find(|&c| steers_display(c)) {
        Some(c) => refuse(format!("{field} contains the control character U+{:04X}", u32::from(c))),
        None => Ok(()),
    }
}

/// Controls, line and paragraph separators, and characters that reorder their neighbours or have no
/// width. The two joiners (U+200C, U+200D) are allowed: scripts and emoji need them.
fn steers_display(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

fn when(when: &When) -> Result<(), FormatError> {
    integer("when.opens", when.opens)?;
    integer("when.closes", when.closes)?;
    if when.opens >= when.closes {
        return refuse("when.opens must be earlier than when.closes");
    }
    if when.closes - when.opens > MAX_RECIPE_LIFE_S {
        return refuse(format!(
            "when.closes must be at most {} days after when.opens",
            MAX_RECIPE_LIFE_S / 86_400
        ));
    }
    range("when.window_s", when.window_s, 1, MAX_WINDOW_S)?;
    range("when.max_window_s", when.max_window_s, when.window_s, MAX_RECIPE_LIFE_S)?;
    for (field, seconds) in [
        ("when.opens", when.opens),
        ("when.closes", when.closes),
        ("when.max_window_s", when.max_window_s),
    ] {
        if !seconds.is_multiple_of(when.window_s) {
            return refuse(format!("{field} must be a multiple of when.window_s"));
        }
    }
    Ok(())
}

impl RecipeVdaf {
    /// Only bounds. Whether the VDAF follows from the recipe is checked where it is derived.
    pub fn check(&self) -> Result<(), FormatError> {
        match *self {
            Self::Prio3Count => Ok(()),
            Self::Prio3Sum { max_measurement } => {
                at_least_one("aggregation.vdaf.max_measurement", max_measurement)
            }
            Self::Prio3Histogram { length, chunk_length } => lengths(length, chunk_length),
            Self::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
                lengths(length, chunk_length)?;
                range("aggregation.vdaf.max_weight", max_weight, 1, u64::from(length))
            }
            Self::Pine64 { dimension, norm_bound, chunk_length, chunk_length_norm_equality } => {
                range("aggregation.vdaf.dimension", dimension.into(), 1, MAX_DIMENSION)?;
                at_least_one("aggregation.vdaf.norm_bound", norm_bound)?;
                let chunk = "aggregation.vdaf.chunk_length";
                range(chunk, chunk_length.into(), 1, MAX_DIMENSION)?;
                let chunk = "aggregation.vdaf.chunk_length_norm_equality";
                range(chunk, chunk_length_norm_equality.into(), 1, MAX_DIMENSION)
            }
        }
    }
}

fn lengths(length: u32, chunk_length: u32) -> Result<(), FormatError> {
    let length = u64::from(length);
    range("aggregation.vdaf.length", length, MIN_BUCKETS, MAX_BUCKETS)?;
    range("aggregation.vdaf.chunk_length", u64::from(chunk_length), 1, length)
}

fn privacy(privacy: &Privacy) -> Result<(), FormatError> {
    let Privacy::Claim { epsilon_micro, delta, .. } = privacy else { return Ok(()) };
    at_least_one("privacy.epsilon_micro", *epsilon_micro)?;
    if delta.is_zero() || delta.is_one() {
        return refuse("privacy.delta must be above 0 and below 1");
    }
    Ok(())
}

fn parties(parties: &Parties) -> Result<(), FormatError> {
    url("parties.leader.url", &parties.leader.url)?;
    url("parties.helper.url", &parties.helper.url)?;
    visible("parties.leader.operator", parties.leader.operator.as_str())?;
    visible("parties.helper.operator", parties.helper.operator.as_str())?;
    visible("parties.log", &parties.log)?;
    if parties.leader.operator == parties.helper.operator {
        return refuse("parties.leader.operator and parties.helper.operator must differ");
    }
    if address(&parties.leader.url) == address(&parties.helper.url) {
        return refuse("parties.leader.url and parties.helper.url must differ");
    }
    parties.collector_config()?;
    match parties.log.parse::<KeyName>() {
        Ok(_) => Ok(()),
        Err(error) => refuse(format!("parties.log is not the origin of a log: {error}")),
    }
}

/// `http` or `https`, a host, and perhaps a path; nothing that a request would extend, send as a
/// password or drop. `field` names the URL in the error.
pub fn url(field: &str, url: &str) -> Result<(), FormatError> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return refuse(format!("{field} must begin with https:// or http://"));
    };
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]!$&'()*+,;=%".contains(&byte);
    if rest.is_empty() || rest.starts_with('/') || !rest.bytes().all(allowed) {
        return refuse(format!(
            "{field} must have a host and no user, query, fragment or character outside of ASCII"
        ));
    }
    if url.len() > MAX_ENDPOINT_LEN {
        return refuse(format!("{field} has more than {MAX_ENDPOINT_LEN} bytes"));
    }
    Ok(())
}

/// A URL in a normal form, so that two spellings of one address compare equal.
fn address(url: &str) -> String {
    url.trim_end_matches('/').to_ascii_lowercase()
}
