//! Reads files of events, and describes them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use serde_json::Value;
use serde_json::error::Category;
use sotto_dp::{Adjacency, Event, Shape};

use super::super::flags::{Honest, shape_name};
use super::super::report::View;
use super::{dp_accounting, fields, json};
use crate::output::hinted;

/// Longer files are refused.
const LONGEST: u64 = 16 << 20;

/// The contents of a file.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) event: Event,
    /// How many events took the shape of `--shape`.
    pub(super) shaped: u64,
}

/// How a file describes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Sotto's own events.
    Sotto,
    /// The named tuples of Google's Python library dp-accounting.
    DpAccounting,
}

/// Reads a file of events; `-` is stdin. Events without a shape get `shape`.
pub(super) fn read(path: &Path, format: Format, shape: Option<Shape>) -> Result<Written> {
    if path == Path::new("-") {
        let text = text(std::io::stdin().lock()).context("--events: cannot read stdin")?;
        return parse(&text, format, shape).context("--events: stdin cannot be used");
    }
    let name = path.display();
    let text = File::open(path)
        .map_err(anyhow::Error::from)
        .and_then(text)
        .with_context(|| format!("--events: cannot read {name}"))?;
    parse(&text, format, shape).with_context(|| format!("--events: {name} cannot be used"))
}

/// The events in another format.
pub(super) fn written(event: &Event, format: Format) -> Result<Value> {
    match format {
        Format::Sotto => Ok(serde_json::to_value(event)?),
        Format::DpAccounting => dp_accounting::write(event, "$"),
    }
}

fn text(source: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(anyhow!("it is longer than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("it is not UTF-8"))
}

fn parse(text: &str, format: Format, shape: Option<Shape>) -> Result<Written> {
    let mut value: Value = json::parse(text).map_err(|error| match error.classify() {
        Category::Data => anyhow!("{error}"),
        _ => anyhow!("not JSON: {error}"),
    })?;
    if format == Format::DpAccounting {
        return Ok(Written { event: dp_accounting::read(&value, "$")?, shaped: 0 });
    }
    if dp_accounting::is_one(&value) {
        return Err(hinted(anyhow!("$ is a DpEvent"), "give --format dp-accounting"));
    }
    fields::check(&value, "$")?;
    let shaped = shape.map_or(0, |shape| fields::fill_shape(&mut value, shape_name(shape)));
    // All errors that can name their field were found above.
    Ok(Written { event: serde_json::from_value(value)?, shaped })
}

/// The events if only a part of the other devices is honest.
pub(super) fn honest_part(event: Event, honest: Honest) -> Result<Event> {
    if honest.fraction()? >= 1.0 {
        return Ok(event);
    }
    let boxed = |of: Box<Event>| honest_part(*of, honest).map(Box::new);
    Ok(match event {
        Event::Gaussian { sigma, sensitivity } => {
            Event::Gaussian { sigma: honest.noise(sigma), sensitivity }
        }
        Event::DistributedDiscreteGaussian { sigma, parties, dimension, sensitivity } => {
            let parties = left("distributed_discrete_gaussian", honest.others(parties))?;
            Event::DistributedDiscreteGaussian { sigma, parties, dimension, sensitivity }
        }
        // Malicious devices can fill the batch, so that honest contributions replace each other.
        Event::TruncatedPoisson { .. } => return Err(no_part("truncated_poisson")),
        Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape } => {
            let population = left("sampled_count_seen", honest.others(population))?;
            let sigma = honest.noise(sigma);
            Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape }
        }
        Event::ImportanceSampled {
            default_rate,
            rate,
            population,
            defaults,
            dummy_rate,
            sigma,
            shape,
        } => {
            let population = left("importance_sampled", honest.others(population))?;
            let (defaults, sigma) = (honest.others(defaults), honest.noise(sigma));
            Event::ImportanceSampled {
                default_rate,
                rate,
                population,
                defaults,
                dummy_rate,
                sigma,
                shape,
            }
        }
        Event::CountOnly { rate, population } => {
            Event::CountOnly { rate, population: honest.others(population) }
        }
        // The device's own noise, which does not depend on others.
        local @ (Event::RandomizedResponse { .. }
        | Event::Rappor { .. }
        | Event::ProjectiveGeometry { .. }) => local,
        Event::Shuffled { n, of } => Event::Shuffled { n: honest.crowd(n), of },
        Event::Summed { n, of } => Event::Summed { n: honest.crowd(n), of },
        Event::PoissonSampled { rate, of } => Event::PoissonSampled { rate, of: boxed(of)? },
        Event::SampledWithoutReplacement { .. } => {
            return Err(no_part("sampled_without_replacement"));
        }
        Event::RandomAllocation { slots, selected, donation, population, shape, of } => {
            let population = population
                .map(|population| left("random_allocation", honest.others(population)))
                .transpose()?;
            let of = boxed(of)?;
            Event::RandomAllocation { slots, selected, donation, population, shape, of }
        }
        Event::Composed { of } => {
            let of = of.into_iter().map(|part| honest_part(part, honest));
            Event::Composed { of: of.collect::<Result<_>>()? }
        }
        Event::Repeated { times, of } => Event::Repeated { times, of: boxed(of)? },
        Event::DiscreteGaussian { .. } => return Err(no_part("discrete_gaussian")),
        Event::Laplace { .. } => return Err(no_part("laplace")),
        Event::PureDp { .. } => return Err(no_part("pure_dp")),
        Event::ApproximateDp { .. } => return Err(no_part("approximate_dp")),
        Event::Zcdp { .. } => return Err(no_part("zcdp")),
    })
}

fn left(name: &str, others: u64) -> Result<u64> {
    if others > 0 { Ok(others) } else { Err(anyhow!("--honest leaves nobody in the {name} event")) }
}

fn no_part(name: &str) -> anyhow::Error {
    let hint = "leave --honest out, and describe the events of the honest part alone";
    hinted(anyhow!("--honest has no meaning for the event {name}"), hint)
}

/// How many events the file has, and how many releases they stand for.
pub(super) fn size(event: &Event) -> (u64, u64) {
    match event {
        Event::Composed { of } => of
            .iter()
            .map(size)
            .fold((0, 0), |sum, part| (sum.0 + part.0, u64::saturating_add(sum.1, part.1))),
        Event::Repeated { times, of } => {
            let (entries, releases) = size(of);
            (entries, releases.saturating_mul(*times))
        }
        _ => (1, 1),
    }
}

/// What the releases reveal about the number of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Plain sums that rely on a hidden number.
    pub(super) plain: bool,
    /// Sums over samples that rely on a hidden number.
    pub(super) sampled: bool,
    /// Sums for which the number is seen.
    pub(super) seen: bool,
}

impl Counts {
    pub(super) fn of(event: &Event, adjacency: Adjacency) -> Self {
        let mut found = Self::default();
        found.add(event, adjacency);
        found
    }

    fn add(&mut self, event: &Event, adjacency: Adjacency) {
        match event {
            Event::Gaussian { .. }
            | Event::DiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian { .. }
            | Event::Laplace { .. } => self.plain |= adjacency == Adjacency::AddRemove,
            Event::PoissonSampled { of, .. } if seen_in_slots(of) => self.seen = true,
            event if seen_in_slots(event) => self.seen = true,
            // Under replacement the reports of all slots are shuffled, and their number is no
            // secret.
            Event::RandomAllocation { .. } if adjacency == Adjacency::Replace => {}
            // A leader that stops early is accounted for by its sums alone.
            Event::PoissonSampled { .. }
            | Event::TruncatedPoisson { .. }
            | Event::RandomAllocation { .. } => self.sampled = true,
            Event::SampledCountSeen { .. }
            | Event::ImportanceSampled { .. }
            | Event::CountOnly { .. } => self.seen = true,
            Event::Repeated { of, .. } => self.add(of, adjacency),
            Event::Composed { of } => of.iter().for_each(|part| self.add(part, adjacency)),
            // Devices that toss a coin before they take part in a shuffle.
            Event::Shuffled { of, .. } => {
                self.seen |= matches!(**of, Event::PoissonSampled { .. });
            }
            Event::RandomizedResponse { .. }
            | Event::Rappor { .. }
            | Event::ProjectiveGeometry { .. }
            | Event::PureDp { .. }
            | Event::ApproximateDp { .. }
            | Event::Zcdp { .. }
            | Event::SampledWithoutReplacement { .. }
            | Event::Summed { .. } => {}
        }
    }

    pub(super) fn view(self) -> Option<View> {
        match (self.plain || self.sampled, self.seen) {
            (false, false) => None,
            (true, false) => Some(View::Hidden),
            (false, true) => Some(View::Seen),
            (true, true) => Some(View::Mixed),
        }
    }

    /// The part of the sentence about it.
    pub(super) fn notes(self) -> impl Iterator<Item = String> {
        let plain = "The number of devices in a plain sum must be hidden: if it is seen, use --adjacency \
                     replace.";
        let sampled = "Where devices are sampled, nobody may see how many were: this is the paper's \
                       model. If it is seen, describe the sum as sampled_count_seen, or give \
                       random_allocation a population.";
        [(self.plain, plain), (self.sampled, sampled)]
            .into_iter()
            .filter(|(there, _)| *there)
            .map(|(_, note)| note.to_owned())
    }
}

/// Whether this is an allocation to slots whose counts are seen.
fn seen_in_slots(event: &Event) -> bool {
    matches!(event, Event::RandomAllocation { population: Some(_), .. })
}

/// Whether devices are sampled anywhere.
pub(super) fn sampled(event: &Event) -> bool {
    match event {
        Event::PoissonSampled { .. }
        | Event::SampledWithoutReplacement { .. }
        | Event::TruncatedPoisson { .. }
        | Event::SampledCountSeen { .. }
        | Event::ImportanceSampled { .. }
        | Event::CountOnly { .. }
        | Event::RandomAllocation { .. } => true,
        Event::Repeated { of, .. } | Event::Shuffled { of, .. } => sampled(of),
        Event::Composed { of } => of.iter().any(sampled),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        parse(text, Format::Sotto, None).unwrap().event
    }

    #[test]
    fn mistakes_are_found_where_they_are() {
        let place = |text: &str| parse(text, Format::Sotto, None).unwrap_err().to_string();
        for (text, part) in [
            ("{", "not JSON: EOF while parsing"),
            ("[]", "$ must be an event"),
            ("{}", "$.event is missing"),
            (r#"{"event":3}"#, "$.event must be a string"),
            (r#"{"event":"gauss","sigma":1}"#, "$.event: there is no event `gauss`; did you mean"),
            (r#"{"event":"gaussian"}"#, "$.sigma is missing: gaussian needs it"),
            (r#"{"event":"gaussian","sigma":"5"}"#, "$.sigma must be a number"),
            (r#"{"event":"gaussian","sigma":-1}"#, "$.sigma is -1: it must be a finite"),
            (r#"{"event":"gaussian","sigma":5,"sigma":9}"#, "$.sigma is written twice"),
            (
                r#"{"event":"composed","of":[{"event":"zcdp","rho":1},7]}"#,
                "$.of[1] must be an event",
            ),
            (
                r#"{"event":"composed","of":[
                {"event":"poisson_sampled","rate":2,"of":{"event":"gaussian","sigma":1}}]}"#,
                "$.of[0].rate is 2",
            ),
            (
                r#"{"event":"repeated","times":3,"of":{"event":"gaussian","sigma":1,"tau":2}}"#,
                "$.of.tau: gaussian has no such field, it has sigma, sensitivity",
            ),
            (r#"{"event":"repeated","times":0,"of":{"event":"zcdp","rho":1}}"#, "$.times is 0"),
            (
                r#"{"event":"repeated","times":1e3,"of":{"event":"zcdp","rho":1}}"#,
                "$.times must be a whole number of at most 18446744073709551615",
            ),
            (r#"{"event":"composed"}"#, "$.of is missing"),
            (r#"{"event":"composed","of":{"event":"zcdp","rho":1}}"#, "$.of must be a list"),
            (
                r#"{"event":"truncated_poisson","rate":1,"population":9,"max_batch":3,"sigma":1,
                "shape":"round"}"#,
                "$.shape must be \"one-hot\", \"vector\" or \"number\"",
            ),
        ] {
            assert!(place(text).starts_with(part), "{text}: {}", place(text));
        }
    }

    #[test]
    fn long_files_are_refused() {
        assert!(text(&b"{}"[..]).is_ok());
        let error = text(std::io::repeat(b' ')).unwrap_err().to_string();
        assert_eq!(error, "it is longer than 16 MiB");
    }

    #[test]
    fn events_are_counted() {
        let mut parts = String::from(
            r#"{"event":"repeated","times":40,"of":
            {"event":"poisson_sampled","rate":0.5,"of":{"event":"gaussian","sigma":2}}},
            {"event":"zcdp","rho":1}"#,
        );
        let composed = |parts: &str| event(&format!(r#"{{"event":"composed","of":[{parts}]}}"#));
        let view = |event: &Event| Counts::of(event, Adjacency::AddRemove).view();
        let both = composed(&parts);
        assert_eq!((size(&both), view(&both)), ((2, 41), Some(View::Hidden)));
        assert!(sampled(&both));
        parts.push_str(r#",{"event":"sampled_count_seen","rate":0.5,"population":9,"sigma":2}"#);
        assert_eq!(view(&composed(&parts)), Some(View::Mixed));
        let zcdp = Event::Zcdp { rho: 1.0 };
        assert!(view(&zcdp).is_none() && !sampled(&zcdp));
        let gaussian = Event::Gaussian { sigma: 1.0, sensitivity: 1.0 };
        assert_eq!(view(&gaussian), Some(View::Hidden));
        assert_eq!(Counts::of(&gaussian, Adjacency::Replace).view(), None);
    }

    #[test]
    fn shapes_are_filled_in_where_they_are_open() {
        let text = r#"{"event":"composed","of":[
            {"event":"sampled_count_seen","rate":0.5,"population":9,"sigma":2},
            {"event":"sampled_count_seen","rate":0.5,"population":9,"sigma":2,"shape":"vector"},
            {"event":"gaussian","sigma":1}]}"#;
        let written = parse(text, Format::Sotto, Some(Shape::OneHot)).unwrap();
        assert_eq!(written.shaped, 1);
        let back = serde_json::to_string(&written.event).unwrap();
        assert_eq!((back.matches("one-hot").count(), back.matches("vector").count()), (1, 1));
        assert_eq!(parse(text, Format::Sotto, None).unwrap().shaped, 0);
    }
}
