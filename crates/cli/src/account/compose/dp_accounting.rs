//! The events of Google's Python library `dp-accounting`, in JSON.
//!
//! The library turns a `DpEvent` into nested named tuples (`to_named_tuple`) and back. In JSON a
//! named tuple is either an object with the names of its fields, or what `json.dumps` makes of it: a
//! list of the values. Both are read, the object is written. The names are those of version 0.6.0;
//! `EpsilonDeltaDpEvent` and `RandomAllocationDpEvent` are in later versions only.

mod write;

pub(super) use self::write::write;

use std::sync::LazyLock;

use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use sotto_dp::number::exact;
use sotto_dp::{Error, Event, Shape};

use crate::output::hinted;

/// The module of all events.
const MODULE: &str = "dp_accounting.dp_event";

/// Something that has no privacy: every mechanism is (0, 1)-differentially private.
const ANYTHING: Event = Event::ApproximateDp { epsilon: 0.0, delta: 1.0 };

/// A class: its name, and its fields with their names in our events, in the library's order.
type Class = (&'static str, &'static [(&'static str, &'static str)]);

const CLASSES: &[Class] = &[
    ("NoOpDpEvent", &[]),
    ("NonPrivateDpEvent", &[]),
    ("GaussianDpEvent", &[("noise_multiplier", "sigma")]),
    ("LaplaceDpEvent", &[("noise_multiplier", "scale")]),
    ("RandomizedResponseDpEvent", &[("noise_parameter", "epsilon0"), ("num_buckets", "k")]),
    ("EpsilonDeltaDpEvent", &[("epsilon", "epsilon"), ("delta", "delta")]),
    ("ZCDpEvent", &[("rho", "rho"), ("xi", "")]),
    ("PoissonSampledDpEvent", &[("sampling_probability", "rate"), ("event", "of")]),
    (
        "SampledWithoutReplacementDpEvent",
        &[("source_dataset_size", "population"), ("sample_size", "sample"), ("event", "of")],
    ),
    (
        "TruncatedSubsampledGaussianDpEvent",
        &[
            ("dataset_size", "population"),
            ("sampling_probability", "rate"),
            ("truncated_batch_size", "max_batch"),
            ("noise_multiplier", "sigma"),
        ],
    ),
    (
        "RandomAllocationDpEvent",
        &[("event", "of"), ("num_selected", "selected"), ("num_steps", "slots")],
    ),
    ("ComposedDpEvent", &[("events", "of")]),
    ("SelfComposedDpEvent", &[("event", "of"), ("count", "times")]),
];

/// Classes that are not counted here, and what to do instead.
const OTHERS: &[(&str, &str)] = &[
    (
        "DiscreteLaplaceDpEvent",
        "in a file of Sotto's own format, write `pure_dp` with epsilon = noise_parameter x sensitivity \
         (twice that under --adjacency replace)",
    ),
    (
        "DiscreteGaussianDpEvent",
        "in a file of Sotto's own format, write `discrete_gaussian`, or for vectors \
         `distributed_discrete_gaussian` with one party",
    ),
    (
        "ExponentialMechanismDpEvent",
        "in a file of Sotto's own format, write `pure_dp` with its epsilon",
    ),
    ("PermuteAndFlipDpEvent", "in a file of Sotto's own format, write `pure_dp` with its epsilon"),
    ("SampledWithReplacementDpEvent", "SampledWithoutReplacementDpEvent is counted"),
    (
        "SingleEpochTreeAggregationDpEvent",
        "write one GaussianDpEvent, its noise_multiplier divided by the root of the number of binary \
         digits of the largest step count",
    ),
    ("RepeatAndSelectDpEvent", "write its (epsilon, delta) as an EpsilonDeltaDpEvent"),
    (
        "MixtureOfGaussiansDpEvent",
        "with two sensitivities, 0 and 1, it is a PoissonSampledDpEvent of a GaussianDpEvent",
    ),
    ("UnsupportedDpEvent", "nothing is known about it"),
    ("DpEvent", "nothing is known about it"),
];

/// The event that `value` describes.
pub(super) fn read(value: &Value, path: &str) -> Result<Event> {
    let tuple = Tuple::read(value, path)?;
    let event = tuple.event()?;
    event.check().map_err(|error| match error {
        Error::OutOfRange { name, value, range } => {
            let field = tuple.class.1.iter().find(|(_, ours)| *ours == name);
            let field = field.map_or(name, |(theirs, _)| *theirs);
            anyhow!("{path}.{field} is {}: it must be {range}", exact(value))
        }
        other => anyhow!("{path}: {other}"),
    })?;
    Ok(event)
}

/// Whether this is an event of the library.
pub(super) fn is_one(value: &Value) -> bool {
    value.get("module_name").or(value.get(0)).is_some_and(|module| module == MODULE)
}

/// A named tuple of a known class with exactly its fields.
struct Tuple<'a> {
    class: &'static Class,
    path: &'a str,
    values: Vec<&'a Value>,
}

impl<'a> Tuple<'a> {
    fn read(value: &'a Value, path: &'a str) -> Result<Self> {
        match value {
            Value::Object(fields) => Self::from_object(fields, path),
            Value::Array(values) => Self::from_list(values, path),
            _ => Err(not_an_event(path)),
        }
    }

    fn from_object(fields: &'a Map<String, Value>, path: &'a str) -> Result<Self> {
        let (Some(module), Some(name)) = (fields.get("module_name"), fields.get("class_name"))
        else {
            return Err(not_an_event(path));
        };
        let class = class(module, name, path)?;
        let known = |key: &str| {
            ["module_name", "class_name"].contains(&key) || class.1.iter().any(|(it, _)| *it == key)
        };
        if let Some(key) = fields.keys().find(|key| !known(key)) {
            let names: Vec<&str> = class.1.iter().map(|(theirs, _)| *theirs).collect();
            let (name, names) = (class.0, names.join(", "));
            return Err(anyhow!("{path}.{key}: {name} has no such field, it has {names}"));
        }
        let values = class.1.iter().map(|(field, _)| match fields.get(*field) {
            Some(value) => Ok(value),
            None if *field == "xi" => Ok(&*NO_XI),
            None => Err(anyhow!("{path}.{field} is missing: {} needs it", class.0)),
        });
        Ok(Self { class, path, values: values.collect::<Result<_>>()? })
    }

    fn from_list(values: &'a [Value], path: &'a str) -> Result<Self> {
        let [module, name, values @ ..] = values else { return Err(not_an_event(path)) };
        let class = class(module, name, path)?;
        let (fields, given) = (class.1.len(), values.len());
        if given != fields {
            let name = class.0;
            return Err(anyhow!("{path}: {name} has {fields} values after its name, not {given}"));
        }
        Ok(Self { class, path, values: values.iter().collect() })
    }

    /// The value of a field, and its path.
    fn at(&self, index: usize) -> (&'a Value, String) {
        (self.values[index], format!("{}.{}", self.path, self.class.1[index].0))
    }

    fn number(&self, index: usize) -> Result<f64> {
        let (value, path) = self.at(index);
        value.as_f64().ok_or_else(|| anyhow!("{path} must be a number"))
    }

    fn whole(&self, index: usize) -> Result<u64> {
        let (value, path) = self.at(index);
        value.as_u64().ok_or_else(|| anyhow!("{path} must be a whole number, in plain digits"))
    }

    fn inner(&self, index: usize) -> Result<Box<Event>> {
        let (value, path) = self.at(index);
        read(value, &path).map(Box::new)
    }

    fn event(&self) -> Result<Event> {
        Ok(match self.class.0 {
            "NoOpDpEvent" => Event::Composed { of: Vec::new() },
            "NonPrivateDpEvent" => ANYTHING,
            "GaussianDpEvent" | "LaplaceDpEvent" if self.number(0)? == 0.0 => ANYTHING,
            "GaussianDpEvent" => Event::Gaussian { sigma: self.number(0)?, sensitivity: 1.0 },
            "LaplaceDpEvent" => Event::Laplace { scale: self.number(0)?, sensitivity: 1.0 },
            "RandomizedResponseDpEvent" => self.response()?,
            "EpsilonDeltaDpEvent" => claim(self.number(0)?, self.number(1)?),
            "ZCDpEvent" if self.number(1)? != 0.0 => {
                let error = anyhow!("{}.xi: only a xi of 0 is counted", self.path);
                return Err(hinted(
                    error,
                    "write rho + xi as rho: it holds for every order above 1",
                ));
            }
            "ZCDpEvent" => Event::Zcdp { rho: self.number(0)? },
            "PoissonSampledDpEvent" => {
                Event::PoissonSampled { rate: self.number(0)?, of: self.inner(1)? }
            }
            "SampledWithoutReplacementDpEvent" => Event::SampledWithoutReplacement {
                population: self.whole(0)?,
                sample: self.whole(1)?,
                of: self.inner(2)?,
            },
            "TruncatedSubsampledGaussianDpEvent" if self.whole(0)? < 2 => {
                return Err(anyhow!("{}.dataset_size must be at least 2", self.path));
            }
            "TruncatedSubsampledGaussianDpEvent" => Event::TruncatedPoisson {
                // The size includes the record in question.
                population: self.whole(0)? - 1,
                rate: self.number(1)?,
                max_batch: self.whole(2)?,
                sigma: self.number(3)?,
                shape: Shape::Vector,
            },
            "RandomAllocationDpEvent" => Event::RandomAllocation {
                slots: self.whole(2)?,
                selected: self.whole(1)?,
                donation: false,
                population: None,
                shape: Shape::Vector,
                of: self.inner(0)?,
            },
            "SelfComposedDpEvent" => Event::Repeated { times: self.whole(1)?, of: self.inner(0)? },
            // The last class of the table.
            _ => self.composed()?,
        })
    }

    fn composed(&self) -> Result<Event> {
        let (value, path) = self.at(0);
        let Value::Array(parts) = value else {
            return Err(anyhow!("{path} must be a list of events"));
        };
        let parts = parts.iter().enumerate().map(|(i, part)| read(part, &format!("{path}[{i}]")));
        Ok(Event::Composed { of: parts.collect::<Result<_>>()? })
    }

    /// With probability `p` the symbol is drawn anew: the true one has `1 - p + p/k`, each other one
    /// `p/k`.
    fn response(&self) -> Result<Event> {
        let (p, k) = (self.number(0)?, self.whole(1)?);
        if !(0.0..=1.0).contains(&p) {
            let path = self.at(0).1;
            return Err(anyhow!("{path} is {}: it must be between 0 and 1", exact(p)));
        }
        if k == 0 {
            return Err(anyhow!("{} must be at least 1", self.at(1).1));
        }
        if k == 1 || p == 1.0 {
            return Ok(Event::Composed { of: Vec::new() });
        }
        let epsilon0 = (k as f64 * ((1.0 - p) / p)).ln_1p() * (1.0 + ROUNDING);
        // For a p of 0, or nearly, the epsilon is infinite.
        Ok(if epsilon0.is_finite() { Event::RandomizedResponse { epsilon0, k } } else { ANYTHING })
    }
}

/// A `xi` that is left out.
static NO_XI: LazyLock<Value> = LazyLock::new(|| json!(0.0));

/// A bound on the rounding error of a few operations.
const ROUNDING: f64 = 1e-15;

fn not_an_event(path: &str) -> anyhow::Error {
    hinted(
        anyhow!(
            "{path} must be a DpEvent: an object with module_name and class_name, or a list that \
                 begins with both"
        ),
        "json.dumps(event.to_named_tuple()) writes such a list",
    )
}

fn class(module: &Value, name: &Value, path: &str) -> Result<&'static Class> {
    let (Value::String(module), Value::String(name)) = (module, name) else {
        return Err(not_an_event(path));
    };
    if module != MODULE {
        return Err(anyhow!("{path}.module_name is {module:?}: it must be {MODULE:?}"));
    }
    if let Some(class) = CLASSES.iter().find(|(known, _)| known == name) {
        return Ok(class);
    }
    let error = anyhow!("{path}.class_name: {name} is not counted here");
    Err(match OTHERS.iter().find(|(known, _)| known == name) {
        Some((_, instead)) => hinted(error, *instead),
        None => {
            let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            hinted(error, format!("there are {}", names.join(", ")))
        }
    })
}

fn claim(epsilon: f64, delta: f64) -> Event {
    if delta == 0.0 { Event::PureDp { epsilon } } else { Event::ApproximateDp { epsilon, delta } }
}

#[cfg(test)]
mod tests;
