//! Files of events: reading them, with the place of each mistake, and what can be said of them.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};
use sotto_dp::{Count, Error, Event};

use super::super::flags::{Honest, hinted};
use super::super::number::exact;

/// Reads a file of events; `-` is stdin.
pub(super) fn read(path: &Path) -> Result<Event> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("--events: cannot read stdin")?;
        return parse(&text).context("--events: stdin cannot be used");
    }
    let name = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("--events: cannot read {name}"))?;
    parse(&text).with_context(|| format!("--events: {name} cannot be used"))
}

fn parse(text: &str) -> Result<Event> {
    let value: Value = serde_json::from_str(text).map_err(|error| anyhow!("not JSON: {error}"))?;
    check(&value, "$")?;
    // Nothing is left to find, or the place of it would have been named.
    Ok(serde_json::from_value(value)?)
}

/// Finds the innermost event that is wrong and says where it is.
fn check(value: &Value, place: &str) -> Result<()> {
    let Some(object) = value.as_object() else {
        return Err(anyhow!("at {place}: not an event, which is an object with the field `event`"));
    };
    let mut alone: Map<String, Value> = object
        .iter()
        .filter(|(name, _)| *name != "of")
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    // In place of what is within, which has been checked by then, something that is right.
    match object.get("of") {
        Some(Value::Array(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                check(part, &format!("{place}.of[{index}]"))?;
            }
            alone.insert("of".to_owned(), json!([]));
        }
        Some(part @ Value::Object(_)) => {
            check(part, &format!("{place}.of"))?;
            alone.insert("of".to_owned(), json!({ "event": "pure_dp", "epsilon": 1.0 }));
        }
        Some(other) => {
            alone.insert("of".to_owned(), other.clone());
        }
        None => {}
    }
    let event: Event = serde_json::from_value(Value::Object(alone))
        .map_err(|error| anyhow!("at {place}: {error}"))?;
    event.check().map_err(|error| match error {
        Error::OutOfRange { name, value, range } => {
            anyhow!("at {place}.{name}: it is {} and must be {range}", exact(value))
        }
        other => anyhow!("at {place}: {other}"),
    })
}

/// The events as they are when only a part of the others is honest.
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
        Event::TruncatedPoisson { rate, population, max_batch, sigma, shape } => {
            let population = left("truncated_poisson", honest.others(population))?;
            Event::TruncatedPoisson {
                rate,
                population,
                max_batch,
                sigma: honest.noise(sigma),
                shape,
            }
        }
        Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape } => {
            let population = left("sampled_count_seen", honest.others(population))?;
            let sigma = honest.noise(sigma);
            Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape }
        }
        // The device's own noise, which nobody else can spoil.
        local @ Event::RandomizedResponse { .. } => local,
        Event::Shuffled { n, of } => Event::Shuffled { n: honest.crowd(n), of },
        Event::PoissonSampled { rate, of } => Event::PoissonSampled { rate, of: boxed(of)? },
        Event::SampledWithoutReplacement { .. } => {
            return Err(no_part("sampled_without_replacement"));
        }
        Event::RandomAllocation { slots, of } => Event::RandomAllocation { slots, of: boxed(of)? },
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
    let hint = "leave --honest out, and write down what holds with the honest part alone";
    hinted(anyhow!("--honest has no meaning for the event {name}"), hint)
}

/// How many kinds of release there are, and how many releases.
pub(super) fn size(event: &Event) -> (u64, u64) {
    match event {
        Event::Composed { of } => of
            .iter()
            .map(size)
            .fold((0, 0), |sum, part| (sum.0 + part.0, u64::saturating_add(sum.1, part.1))),
        Event::Repeated { times, of } => {
            let (kinds, releases) = size(of);
            (kinds, releases.saturating_mul(*times))
        }
        _ => (1, 1),
    }
}

/// What the events say of the count: hidden if any of them relies on that.
pub(super) fn count(event: &Event) -> Option<Count> {
    match event {
        Event::PoissonSampled { .. } | Event::RandomAllocation { .. } => Some(Count::Hidden),
        Event::SampledCountSeen { .. } | Event::TruncatedPoisson { .. } => Some(Count::Seen),
        Event::Repeated { of, .. } => count(of),
        Event::Composed { of } => of
            .iter()
            .filter_map(count)
            .reduce(|sum, part| if sum == part { sum } else { Count::Hidden }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_found_where_they_are() {
        let place = |text: &str| parse(text).unwrap_err().to_string();
        for (text, part) in [
            ("{", "not JSON: EOF while parsing"),
            ("[]", "at $: not an event"),
            (r#"{"event":"gauss","sigma":1}"#, "at $: unknown variant `gauss`"),
            (r#"{"event":"gaussian"}"#, "at $: missing field `sigma`"),
            (r#"{"event":"gaussian","sigma":-1}"#, "at $.sigma: it is -1 and must be a finite"),
            (
                r#"{"event":"composed","of":[{"event":"zcdp","rho":1},7]}"#,
                "at $.of[1]: not an event",
            ),
            (
                r#"{"event":"composed","of":[
                {"event":"poisson_sampled","rate":2,"of":{"event":"gaussian","sigma":1}}]}"#,
                "at $.of[0].rate: it is 2",
            ),
            (
                r#"{"event":"repeated","times":3,"of":{"event":"gaussian","sigma":1,"tau":2}}"#,
                "at $.of: unknown field `tau`",
            ),
            (
                r#"{"event":"repeated","times":0,"of":{"event":"zcdp","rho":1}}"#,
                "at $.times: it is 0",
            ),
            (r#"{"event":"composed"}"#, "at $: missing field `of`"),
            (r#"{"event":"composed","of":{"event":"zcdp","rho":1}}"#, "at $: invalid type"),
        ] {
            assert!(place(text).starts_with(part), "{text}: {}", place(text));
        }
    }

    #[test]
    fn events_are_counted() {
        let event = parse(
            r#"{"event":"composed","of":[{"event":"repeated","times":40,"of":
            {"event":"poisson_sampled","rate":0.5,"of":{"event":"gaussian","sigma":2}}},
            {"event":"zcdp","rho":1}]}"#,
        )
        .unwrap();
        assert_eq!(size(&event), (2, 41));
        assert_eq!(count(&event), Some(Count::Hidden));
        assert_eq!(count(&Event::Zcdp { rho: 1.0 }), None);
    }
}
