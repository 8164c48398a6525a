//! The experiments of a story: the same devices and the same claim, with one mechanism after the
//! other.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::plan::Protection;
use sotto_wire::RecipeDraft;
use sotto_wire::recipe::{Privacy, Probability, Query};

use super::data::Name;
use super::devices::Devices;
use super::experiment::{Experiment, protected};
use crate::output::{Output, WithHint};
use crate::recipe_file;

/// The end of every recipe, which is replaced.
const END: &str = include_str!("../../data/stories/end.toml");

/// How a story hides answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MechanismName {
    /// Each bit of a list is flipped with some probability.
    Rappor,
    /// One of many groups of values.
    ProjectiveGeometry,
    /// The value, or another one.
    RandomizedResponse,
    /// Gaussian noise of which each device adds its part.
    Gaussian,
    /// Gaussian noise that each of the two servers adds.
    Servers,
}

/// What a story may be told.
#[derive(Debug)]
pub(super) struct Terms<'a> {
    pub(super) output: &'a Output,
    pub(super) data: Option<&'a Path>,
    pub(super) population: u64,
    pub(super) rate: Probability,
    pub(super) buckets: u32,
    /// The claim, in millionths.
    pub(super) epsilon_micro: u64,
    pub(super) delta: Probability,
    pub(super) mechanisms: &'a [MechanismName],
}

/// The devices of a story, and its experiments.
pub(super) fn experiments(name: Name, terms: &Terms<'_>) -> Result<(Devices, Vec<Experiment>)> {
    let found = name.read(terms.data)?;
    let sparse = name == Name::Flights;
    let found = if sparse { found } else { found.top(terms.buckets as usize) };
    let counts = found.among(terms.population);
    let labels: Vec<String> = found.0.into_iter().map(|(value, _)| value).collect();
    let kinds = labels.iter().zip(counts).map(|(label, count)| {
        let attributes = [("value", Value::String(label.clone())), ("ticket", Value::Bool(true))];
        let attributes = attributes.into_iter().filter(|(name, _)| sparse || *name == "value");
        (attributes.map(|(name, value)| (name.to_owned(), value)).collect::<Attributes>(), count)
    });
    let kinds: Vec<_> = kinds.collect();
    let default = kinds.first().map_or(0, |(_, count)| *count);
    let devices = Devices { kinds, labels: labels.clone() };
    let mut draft = draft(name, labels, terms)?;
    let usual: &[MechanismName] = match sparse {
        true => &[MechanismName::Rappor, MechanismName::Servers],
        false => &[
            MechanismName::Rappor,
            MechanismName::ProjectiveGeometry,
            MechanismName::Gaussian,
            MechanismName::Servers,
        ],
    };
    let mechanisms = if terms.mechanisms.is_empty() { usual } else { terms.mechanisms };
    // The others hold the default of a sparse histogram.
    let needles = terms.population - default;
    let rates = match sparse {
        true => vec![
            ("all alike", terms.rate, None),
            importance(terms.rate, needles, terms.population)?,
        ],
        false => vec![("", terms.rate, None)],
    };
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for (sampling, rate, default_rate) in rates {
        (draft.sampling.rate, draft.sampling.default_rate) = (rate, default_rate);
        let held = [(default_rate.unwrap_or(rate), default), (rate, needles)];
        let held = if sparse { &held[..] } else { &[(rate, terms.population)] };
        let expected: f64 = held.iter().map(|(rate, count)| rate.to_f64() * *count as f64).sum();
        let min_batch = (expected - 4.0 * expected.sqrt()).floor();
        if min_batch < 1.0 {
            return Err(anyhow!("about {expected:.0} devices take part, too few for a batch"))
                .hint("raise --population or --rate");
        }
        draft.min_batch = min_batch as u64;
        let recipe = recipe_file::with_stand_ins(draft.clone())?;
        let certified = recipe.who.targeting.is_some().then_some(terms.population);
        for mechanism in mechanisms {
            let found = protected(&recipe, mechanism.protection(), terms.epsilon_micro, certified);
            let found = found
                .and_then(|recipe| Experiment::new(sampling, RecipeDraft::from(recipe), &devices));
            match found {
                Ok(experiment) => all.push(experiment),
                Err(reason) => failed.push(reason.context(named(mechanism.text(), sampling))),
            }
        }
    }
    if all.is_empty() {
        return Err(failed.into_iter().next().unwrap_or_else(|| anyhow!("no mechanism is named")));
    }
    for reason in failed {
        terms.output.remark(format!("without {reason:#}"));
    }
    Ok((devices, all))
}

/// The name of an experiment.
pub(super) fn named(mechanism: &str, sampling: &str) -> String {
    match sampling {
        "" => mechanism.to_owned(),
        sampling => format!("{mechanism}, {sampling}"),
    }
}

/// The rates by which a half of the reports are from devices without the default value, as the paper
/// has it: `M/2N` for the default and `M/(2 gamma N)` for the others, at most 1.
fn importance(
    rate: Probability,
    needles: u64,
    population: u64,
) -> Result<(&'static str, Probability, Option<Probability>)> {
    let half = Probability::reduced(rate.num(), 2 * rate.den())?;
    ensure!(needles > 0, "all devices have the default value");
    let num = u128::from(rate.num()) * u128::from(population);
    let den = 2 * u128::from(rate.den()) * u128::from(needles);
    // In thousandths, so that people can read it.
    let thousandths = (num * 1_000 / den).clamp(1, 1_000);
    let higher = Probability::reduced(u64::try_from(thousandths)?, 1_000)?;
    Ok(("importance sampling", higher, Some(half)))
}

fn draft(name: Name, labels: Vec<String>, terms: &Terms<'_>) -> Result<RecipeDraft> {
    let text = match name {
        Name::Flights => include_str!("../../data/fleet/flights.toml"),
        Name::Words | Name::Names => include_str!("../../data/fleet/histogram.toml"),
    };
    let mut draft = RecipeDraft::from_toml(&format!("{text}{END}"))?;
    let count = u32::try_from(labels.len())?;
    match &mut draft.query {
        Query::Histogram { buckets, labels: names, fallback, .. } => {
            (*buckets, *names, *fallback) = (count, Some(labels), count.saturating_sub(1));
        }
        Query::SparseHistogram { buckets, labels: names, .. } => {
            (*buckets, *names) = (count, Some(labels));
        }
        _ => {}
    }
    draft.name = format!("fleet-{}", name.text());
    draft.who.population = terms.population;
    if let Privacy::Claim { epsilon_micro, delta, .. } = &mut draft.privacy {
        (*epsilon_micro, *delta) = (terms.epsilon_micro, terms.delta);
    }
    Ok(draft)
}

impl MechanismName {
    fn protection(self) -> Protection {
        match self {
            Self::Rappor => Protection::Rappor,
            Self::ProjectiveGeometry => Protection::ProjectiveGeometry,
            Self::RandomizedResponse => Protection::RandomizedResponse,
            Self::Gaussian => Protection::Gaussian,
            Self::Servers => Protection::ServerGaussian,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Rappor => "RAPPOR",
            Self::ProjectiveGeometry => "projective geometry response",
            Self::RandomizedResponse => "randomized response",
            Self::Gaussian => "Gaussian noise of the devices",
            Self::Servers => "noise of the servers",
        }
    }
}
