//! The kinds of events and their fields. Mistakes are found here, before any other code reads them.

use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use sotto_dp::number::exact;
use sotto_dp::{Error, Event};

use crate::toml_text::edit_distance;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Whole,
    YesNo,
    Shape,
    Event,
    Events,
}

use Kind::{Number, Whole};

/// A field: its name, its kind, and whether it is required.
type Field = (&'static str, Kind, bool);

const OF: Field = ("of", Kind::Event, true);
const RATE: Field = ("rate", Number, true);
const POPULATION: Field = ("population", Whole, true);
const SIGMA: Field = ("sigma", Number, true);
const SENSITIVITY: Field = ("sensitivity", Number, false);
const SHAPE: Field = ("shape", Kind::Shape, false);

const EVENTS: &[(&str, &[Field])] = &[
    ("gaussian", &[SIGMA, SENSITIVITY]),
    ("discrete_gaussian", &[SIGMA, ("sensitivity", Whole, false)]),
    (
        "distributed_discrete_gaussian",
        &[SIGMA, ("parties", Whole, true), ("dimension", Whole, false), SENSITIVITY],
    ),
    ("laplace", &[("scale", Number, true), SENSITIVITY]),
    ("randomized_response", &[("epsilon0", Number, true), ("k", Whole, true)]),
    ("rappor", &[("epsilon0", Number, true), ("k", Whole, true)]),
    (
        "projective_geometry",
        &[("epsilon0", Number, true), ("order", Whole, true), ("dimension", Whole, true)],
    ),
    ("pure_dp", &[("epsilon", Number, true)]),
    ("approximate_dp", &[("epsilon", Number, true), ("delta", Number, true)]),
    ("zcdp", &[("rho", Number, true)]),
    ("poisson_sampled", &[RATE, OF]),
    ("sampled_without_replacement", &[POPULATION, ("sample", Whole, true), OF]),
    ("truncated_poisson", &[RATE, POPULATION, ("max_batch", Whole, true), SIGMA, SHAPE]),
    ("sampled_count_seen", &[RATE, POPULATION, ("dummy_rate", Number, false), SIGMA, SHAPE]),
    (
        "importance_sampled",
        &[
            ("default_rate", Number, true),
            RATE,
            POPULATION,
            ("defaults", Whole, false),
            ("dummy_rate", Number, false),
            SIGMA,
            SHAPE,
        ],
    ),
    ("count_only", &[RATE, POPULATION]),
    ("shuffled", &[("n", Whole, true), OF]),
    ("summed", &[("n", Whole, true), OF]),
    (
        "random_allocation",
        &[
            ("slots", Whole, true),
            ("selected", Whole, false),
            ("donation", Kind::YesNo, false),
            ("population", Whole, false),
            SHAPE,
            OF,
        ],
    ),
    ("composed", &[("of", Kind::Events, true)]),
    ("repeated", &[("times", Whole, true), OF]),
];

/// Finds the first mistake and says where it is. Inner events are checked before those around them.
pub(super) fn check(value: &Value, path: &str) -> Result<()> {
    let Some(object) = value.as_object() else {
        return Err(anyhow!("{path} must be an event: an object with the field `event`"));
    };
    let name = match object.get("event") {
        None => return Err(anyhow!("{path}.event is missing: it says which event this is")),
        Some(Value::String(name)) => name,
        Some(_) => return Err(anyhow!("{path}.event must be a string")),
    };
    let Some((_, fields)) = EVENTS.iter().find(|(known, _)| known == name) else {
        return Err(anyhow!("{path}.event: there is no event `{name}`{}", meant(name)));
    };
    let known = |key: &str| key == "event" || fields.iter().any(|(name, ..)| *name == key);
    if let Some(key) = object.keys().find(|key| !known(key)) {
        let names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
        let names = names.join(", ");
        return Err(anyhow!("{path}.{key}: {name} has no such field, it has {names}"));
    }
    let own = object.iter().filter(|(name, _)| *name != "of");
    let mut alone: Map<String, Value> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
    for (field, kind, required) in *fields {
        let path = format!("{path}.{field}");
        match object.get(*field) {
            None if *required => return Err(anyhow!("{path} is missing: {name} needs it")),
            None => {}
            Some(value) => {
                check_kind(value, *kind, &path)?;
                // The inner event has already been checked, so a valid one stands in for it.
                match kind {
                    Kind::Event => alone.insert("of".to_owned(), inner()),
                    Kind::Events => alone.insert("of".to_owned(), json!([])),
                    _ => None,
                };
            }
        }
    }
    let event: Event =
        serde_json::from_value(Value::Object(alone)).map_err(|error| anyhow!("{path}: {error}"))?;
    event.check().map_err(|error| match error {
        Error::OutOfRange { name, value, range } => {
            anyhow!("{path}.{name} is {}: it must be {range}", exact(value))
        }
        other => anyhow!("{path}: {other}"),
    })
}

fn check_kind(value: &Value, kind: Kind, path: &str) -> Result<()> {
    let wrong = |what: &str| Err(anyhow!("{path} must be {what}"));
    match (kind, value) {
        (Kind::Number, Value::Number(_)) => Ok(()),
        (Kind::Number, _) => wrong("a number"),
        (Kind::Whole, value) if value.is_u64() => Ok(()),
        (Kind::Whole, Value::Number(_)) => {
            wrong(&format!("a whole number of at most {}, in plain digits", u64::MAX))
        }
        (Kind::Whole, _) => wrong("a whole number"),
        (Kind::YesNo, Value::Bool(_)) => Ok(()),
        (Kind::YesNo, _) => wrong("true or false"),
        (Kind::Shape, Value::String(shape))
            if ["one-hot", "vector", "number"].contains(&shape.as_str()) =>
        {
            Ok(())
        }
        (Kind::Shape, _) => wrong("\"one-hot\", \"vector\" or \"number\""),
        (Kind::Event, value) => check(value, path),
        (Kind::Events, Value::Array(parts)) => {
            let mut parts = parts.iter().enumerate();
            parts.try_for_each(|(index, part)| check(part, &format!("{path}[{index}]")))
        }
        (Kind::Events, _) => wrong("a list of events"),
    }
}

/// An event that is allowed everywhere.
fn inner() -> Value {
    json!({ "event": "pure_dp", "epsilon": 1.0 })
}

/// Sets `shape` on every event that has a shape but does not set it. Returns the number of these.
pub(super) fn fill_shape(value: &mut Value, shape: &str) -> u64 {
    let Some(object) = value.as_object_mut() else { return 0 };
    let name = object.get("event").and_then(Value::as_str).unwrap_or_default();
    let fields = EVENTS.iter().find(|(known, _)| *known == name).map_or(&[][..], |known| known.1);
    // An allocation has a shape only if its counts are seen.
    let shaped = name != "random_allocation" || object.contains_key("population");
    if fields.contains(&SHAPE) && shaped && !object.contains_key("shape") {
        object.insert("shape".to_owned(), shape.into());
        return 1;
    }
    match object.get_mut("of") {
        Some(Value::Array(parts)) => parts.iter_mut().map(|part| fill_shape(part, shape)).sum(),
        Some(part) => fill_shape(part, shape),
        None => 0,
    }
}

/// `; did you mean ...?`, or a list of all kinds.
fn meant(name: &str) -> String {
    let name = name.to_lowercase().replace(['-', ' '], "_");
    let far = |known: &str| {
        let begins = name.len() >= 3 && (known.starts_with(&name) || name.starts_with(known));
        match begins {
            true => 0,
            // Names of very different lengths are far apart.
            false if name.len() > 64 => name.len(),
            false => edit_distance(&name, known),
        }
    };
    let near = EVENTS.iter().map(|(known, _)| *known).min_by_key(|known| far(known));
    match near {
        Some(known) if far(known) <= 3.min(name.len() / 3) => {
            format!("; did you mean `{known}`?")
        }
        _ => {
            let all: Vec<&str> = EVENTS.iter().map(|(known, _)| *known).collect();
            format!("; there are {}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of this kind with the required fields only.
    fn least(name: &str, fields: &[Field]) -> Value {
        let mut event = json!({ "event": name });
        for (field, kind, required) in fields {
            if *required {
                event[*field] = match kind {
                    Kind::Number => json!(0.5),
                    Kind::Whole => json!(2),
                    Kind::YesNo => json!(true),
                    Kind::Shape => json!("vector"),
                    Kind::Event => inner(),
                    Kind::Events => json!([inner()]),
                };
            }
        }
        event
    }

    #[test]
    fn the_table_is_that_of_the_accountant() {
        for (name, fields) in EVENTS {
            let event = least(name, fields);
            check(&event, "$").unwrap();
            serde_json::from_value::<Event>(event.clone()).unwrap();
            for (field, kind, required) in *fields {
                let mut without = event.clone();
                without.as_object_mut().unwrap().remove(*field);
                let read = serde_json::from_value::<Event>(without);
                assert_eq!(read.is_err(), *required, "{name} {field}");
                let mut wrong = event.clone();
                wrong[*field] = json!([[]]);
                assert!(check(&wrong, "$").is_err(), "{name} {field} {kind:?}");
            }
        }
        // Every kind is covered.
        let all = serde_json::from_value::<Event>(json!({ "event": "" })).unwrap_err().to_string();
        assert_eq!(all.matches('`').count(), 2 * (EVENTS.len() + 1), "{all}");
    }

    #[test]
    fn near_names_are_offered() {
        for (name, known) in [
            ("gauss", "gaussian"),
            ("Gaussian", "gaussian"),
            ("gausian", "gaussian"),
            ("poisson", "poisson_sampled"),
            ("pure-dp", "pure_dp"),
            ("repeat", "repeated"),
        ] {
            assert_eq!(meant(name), format!("; did you mean `{known}`?"));
        }
        for name in ["", "x", "banana", &"g".repeat(1000)] {
            assert!(meant(name).starts_with("; there are gaussian, "), "{name}");
        }
        assert_eq!((edit_distance("kitten", "sitting"), edit_distance("", "abc")), (3, 3));
    }
}
