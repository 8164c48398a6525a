//! Flags that several questions share, and error messages in the terms of the command line.

use anyhow::{Result, anyhow};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use sotto_dp::account::Accountant;
use sotto_dp::number::exact;
use sotto_dp::{Adjacency, Count, Error, Shape, shuffle};
use sotto_wire::recipe::parse_probability;

use crate::output::hinted;

/// Covers a few roundings: of a square root, a product and a quotient.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A parser of serde's names for the values of `T`, each with its explanation.
fn choice<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    values: impl IntoIterator<Item = PossibleValue>,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values);
    names.try_map(|name| serde_json::from_value::<T>(name.into()))
}

fn value(name: &'static str, explanation: &'static str) -> PossibleValue {
    PossibleValue::new(name).help(explanation)
}

const ADD_REMOVE: &str = "A device is present or absent";
const REPLACE: &str = "A device holds one value or another";

pub(super) fn adjacency() -> impl TypedValueParser<Value = Adjacency> {
    choice([
        value("add-remove", ADD_REMOVE),
        value("replace", REPLACE),
        value("zero-out", "A device contributes its value or the zero vector"),
    ])
}

/// The other adjacencies are accepted here, so that they can be refused with a reason.
pub(super) fn only_replace() -> impl TypedValueParser<Value = Adjacency> {
    let others = ["add-remove", "zero-out"].map(|name| PossibleValue::new(name).hide(true));
    choice([value("replace", REPLACE)].into_iter().chain(others))
}

/// The same for [`Adjacency::AddRemove`].
pub(super) fn only_add_remove() -> impl TypedValueParser<Value = Adjacency> {
    let others = ["replace", "zero-out"].map(|name| PossibleValue::new(name).hide(true));
    choice([value("add-remove", ADD_REMOVE)].into_iter().chain(others))
}

pub(super) fn count() -> impl TypedValueParser<Value = Count> {
    choice([
        value("hidden", "Only the sum is seen: the paper's model"),
        value("seen", "The number of devices is seen too, as it is by aggregators"),
    ])
}

pub(super) fn shape() -> impl TypedValueParser<Value = Shape> {
    choice([
        value("one-hot", "One coordinate is 1: two contributions are sqrt 2 apart"),
        value("vector", "Any vector of norm 1: two contributions are 2 apart"),
        value("number", "A number from 0 to 1: two contributions are 1 apart"),
    ])
}

pub(super) fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::OneHot => "one-hot",
        Shape::Vector => "vector",
        Shape::Number => "number",
    }
}

pub(super) fn accountant() -> impl TypedValueParser<Value = Accountant> {
    choice([
        value("rdp", "Renyi divergences"),
        value("pld", "The privacy loss distribution"),
        value("best", "The smallest of all bounds that hold"),
    ])
}

/// The guarantee. A part of it may be left out, to be computed.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Guarantee {
    /// The privacy loss: probabilities change by a factor of e^epsilon at most.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// The additive slack in that bound: roughly, the probability that it fails.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: Option<f64>,
}

impl Guarantee {
    /// Epsilon and delta, as far as they are given.
    pub(super) fn checked(self) -> Result<(Option<f64>, Option<f64>)> {
        let epsilon = self.epsilon.map(|value| non_negative("--epsilon", value)).transpose()?;
        Ok((epsilon, self.delta.map(delta).transpose()?))
    }
}

/// The honest fraction of the other devices.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Honest {
    /// The fraction of devices that add their noise and keep their reports secret; Sotto judges
    /// recipes with 0.5.
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    honest: f64,
}

impl Honest {
    pub(super) fn fraction(self) -> Result<f64> {
        within(
            "--honest",
            self.honest,
            self.honest > 0.0 && self.honest <= 1.0,
            "above 0 and at most 1",
        )
    }

    /// The noise that the honest devices add, rounded down. Variances add up, so it is `sigma
    /// sqrt(F)`.
    pub(super) fn noise(self, sigma: f64) -> f64 {
        if self.honest >= 1.0 { sigma } else { sigma * self.honest.sqrt() * (1.0 - ROUNDING) }
    }

    /// How much noise all devices must add so that the honest ones add `sigma`, rounded up.
    pub(super) fn noise_of_all(self, sigma: f64) -> f64 {
        if self.honest >= 1.0 { sigma } else { sigma / self.honest.sqrt() * (1.0 + 2.0 * ROUNDING) }
    }

    /// The number of honest reports out of `n`, including the device's own.
    pub(super) fn crowd(self, n: u64) -> u64 {
        shuffle::honest_crowd(n, self.honest)
    }

    /// How many of `population` other devices are honest.
    pub(super) fn others(self, population: u64) -> u64 {
        self.crowd(population.saturating_add(1)).saturating_sub(1).min(population)
    }

    /// The note about malicious devices, if there are any.
    pub(super) fn note(self, of_what: &str) -> Option<String> {
        let part = exact(self.honest);
        (self.honest < 1.0).then(|| {
            format!(
                "Only a fraction of {part} of {of_what} is relied on: the rest may be malicious."
            )
        })
    }
}

/// `1 device`, `2 devices`.
pub(super) fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `numerator / denominator`, rounded down.
pub(super) fn quotient_down(numerator: f64, denominator: f64) -> f64 {
    if denominator == 1.0 { numerator } else { numerator / denominator * (1.0 - ROUNDING) }
}

/// `a b`, rounded up.
pub(super) fn product_up(a: f64, b: f64) -> f64 {
    if b == 1.0 { a } else { a * b * (1.0 + ROUNDING) }
}

/// Parses a whole number. Also accepts the form 1e6.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    if let Ok(number) = digits.parse() {
        return Ok(number);
    }
    match digits.parse::<f64>() {
        // Above 2^53 the floating-point number may not be the one that was written.
        Ok(number)
            if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) =>
        {
            Ok(number as u64)
        }
        Ok(number) if number > 9_007_199_254_740_992.0 && digits.contains(['e', 'E', '.']) => {
            Err("with an exponent, it must be at most 9007199254740992 (2^53)".to_owned())
        }
        Ok(number) if number > 9_007_199_254_740_992.0 => {
            Err(format!("it must be at most {}", u64::MAX))
        }
        _ => Err("it must be a whole number, 1 or more".to_owned()),
    }
}

pub(super) fn positive(flag: &str, value: f64) -> Result<f64> {
    within(flag, value, value > 0.0 && value.is_finite(), "a finite number above 0")
}

pub(super) fn non_negative(flag: &str, value: f64) -> Result<f64> {
    within(flag, value, value >= 0.0 && value.is_finite(), "a finite number, 0 or more")
}

pub(super) fn delta(value: f64) -> Result<f64> {
    within("--delta", value, value > 0.0 && value < 1.0, "above 0 and below 1")
}

/// A rate as people write it: 0.02, 2% or 1/50. Its range is checked later.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) => Ok(rate),
        Err(_) => parse_probability(text).map(|rate| rate.to_f64()),
    }
}

pub(super) fn rate(value: f64) -> Result<f64> {
    within("--rate", value, (0.0..=1.0).contains(&value), "between 0 and 1")
}

pub(super) fn at_least(flag: &str, value: u64, least: u64) -> Result<u64> {
    if value >= least {
        return Ok(value);
    }
    Err(anyhow!("{flag} is {value}: it must be a whole number, {least} or more"))
}

fn within(flag: &str, value: f64, holds: bool, range: &str) -> Result<f64> {
    if holds { Ok(value) } else { Err(anyhow!("{flag} is {}: it must be {range}", exact(value))) }
}

/// The error if not exactly one parameter was left out. `given` says for each flag whether it was
/// given.
pub(super) fn not_one_left_out(given: &[(&str, bool)]) -> anyhow::Error {
    let list = |wanted: bool| -> Vec<&str> {
        given.iter().filter(|(_, there)| *there == wanted).map(|(flag, _)| *flag).collect()
    };
    match list(false).as_slice() {
        [] if given.len() == 2 => hinted(
            anyhow!("{} are both given: nothing is left to compute", enumeration(&list(true))),
            "leave out the one that you want to know",
        ),
        [] => hinted(
            anyhow!("{} are all given: nothing is left to compute", enumeration(&list(true))),
            "leave out the one that you want to know",
        ),
        [wanted, others @ ..] => hinted(
            anyhow!("{} are missing: only one can be computed", enumeration(&list(false))),
            format!("to compute {wanted}, give {}", enumeration(others)),
        ),
    }
}

fn enumeration(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// An error of the accountant in the terms of the command line.
pub(super) fn explain(error: Error) -> anyhow::Error {
    explain_as(flag, error)
}

/// The same for events, where all parameters but epsilon and delta are fields.
pub(super) fn explain_event(error: Error) -> anyhow::Error {
    let name = |name: &str| match name {
        "epsilon" | "delta" => flag(name),
        field => format!("the field {field}"),
    };
    explain_as(name, error)
}

fn explain_as(flag: impl Fn(&str) -> String, error: Error) -> anyhow::Error {
    match error {
        Error::OutOfRange { name, value, range } => {
            let range = range.replace("2^40", "1099511627776 (2^40)");
            anyhow!("{} is {}: it must be {range}", flag(name), exact(value))
        }
        Error::Unsupported { what, hint } => {
            let hint = hint.replace("the accountant ", "--accountant ");
            let hint = hint.replace("use adjacency ", "give --adjacency ");
            hinted(anyhow!("no accounting for {what}"), hint)
        }
        Error::Unreachable { name, hint } => {
            hinted(anyhow!("no {} meets the target", flag(name)), hint)
        }
        error @ Error::NotAnswered { .. } => error.into(),
    }
}

/// The names of the accountant's parameters on the command line.
fn flag(name: &str) -> String {
    match name {
        "times" | "steps" => "--steps".to_owned(),
        "sigma" | "epsilon" | "delta" | "rate" | "n" | "epsilon0" | "k" | "population"
        | "slots" | "sensitivity" => format!("--{name}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_an_exponent() {
        assert_eq!(whole("2500"), Ok(2500));
        assert_eq!(whole("1e6"), Ok(1_000_000));
        assert_eq!(whole("1_000"), Ok(1000));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        for bad in ["-1", "1.5", "1e300", "nan", "many", ""] {
            assert!(whole(bad).is_err(), "{bad}");
        }
        // For numbers that are too large, the error names the limit.
        assert!(whole("1e20").unwrap_err().contains("9007199254740992"));
        assert!(whole("18446744073709551616").unwrap_err().contains("18446744073709551615"));
    }

    #[test]
    fn the_honest_part_is_never_overstated() {
        let half = Honest { honest: 0.5 };
        assert!(half.noise(2.0) < 2.0_f64.sqrt());
        assert!(half.noise(2.0) > 1.4);
        for sigma in [1e-9, 0.7764, 1.0, 5.1, 1e9] {
            assert!(half.noise(half.noise_of_all(sigma)) >= sigma);
        }
        assert_eq!(half.others(1001), 500);
        assert_eq!(half.crowd(10_001), 5001);
        let all = Honest { honest: 1.0 };
        assert_eq!((all.noise(5.1), all.others(7), all.crowd(7)), (5.1, 7, 7));
    }

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        let message = |given: &[(&str, bool)]| not_one_left_out(given).to_string();
        assert_eq!(
            message(&[("--a", true), ("--b", true)]),
            "--a and --b are both given: nothing is left to compute"
        );
        assert_eq!(
            message(&[("--a", false), ("--b", false), ("--c", true)]),
            "--a and --b are missing: only one can be computed"
        );
    }
}
