//! `samples.json` was written by the library itself, with its own epsilons. It read every object
//! back as the same event, with `json.loads(..., object_hook=lambda o: namedtuple("E", o)(**o))` and
//! `DpEvent.from_named_tuple`.

use sotto_dp::Adjacency;
use sotto_dp::account::{Accountant, Question};

use super::*;
use crate::output::hint_of;

struct Sample {
    name: String,
    object: Value,
    list: Value,
    adjacency: Adjacency,
    delta: f64,
    /// The library's epsilon.
    epsilon: f64,
}

fn samples() -> Vec<Sample> {
    let file: Value = serde_json::from_str(include_str!("samples.json")).unwrap();
    let sample = |case: &Value| Sample {
        name: case["name"].as_str().unwrap().to_owned(),
        object: case["object"].clone(),
        list: case["list"].clone(),
        adjacency: serde_json::from_value(case["adjacency"].clone()).unwrap(),
        delta: case["delta"].as_f64().unwrap(),
        epsilon: case["epsilon"].as_f64().unwrap_or(f64::INFINITY),
    };
    file["cases"].as_array().unwrap().iter().map(sample).collect()
}

/// The same numbers, but for rounding.
fn close(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|it| close(value, it)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| close(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-14 * one.abs()
        }
        _ => one == other,
    }
}

#[test]
fn samples_of_the_library_come_back_as_they_were() {
    for sample in samples() {
        let name = &sample.name;
        let event = read(&sample.object, "$").unwrap();
        assert_eq!(read(&sample.list, "$").unwrap(), event, "{name}");
        let back = write(&event, "$").unwrap();
        // An empty composition is a NoOpDpEvent.
        let text = sample.object.to_string();
        let empty = r#"{"class_name":"ComposedDpEvent","events":[],"#;
        let expected = text.replace(empty, r#"{"class_name":"NoOpDpEvent","#);
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert!(close(&back, &expected), "{name}: {back}\n{expected}");
        let again = read(&back, "$").unwrap();
        assert!(close(&json!(again), &json!(event)), "{name}");
    }
}

/// The table in docs/privacy-accounting.md.
#[test]
fn epsilons_agree_with_the_library() {
    for Sample { name, object, adjacency, delta, epsilon: theirs, .. } in samples() {
        let event = read(&object, "$").unwrap();
        let epsilon = |event: &Event| {
            let (shape, accountant) = (Shape::Vector, Accountant::Best);
            Question { event, adjacency, shape, accountant }.epsilon(delta).unwrap().epsilon
        };
        let ours = epsilon(&event);
        if name == "without_replacement" {
            // The library does not double the distance here, and uses RDP. With twice the noise our
            // distance is theirs, and our bound lower.
            let twice = object.to_string().replace("2.0", "4.0");
            let twice = epsilon(&read(&serde_json::from_str(&twice).unwrap(), "$").unwrap());
            assert!(twice.upper < theirs, "{twice:?} {theirs}");
            assert!(ours.lower > twice.upper, "{ours:?} {twice:?}");
            continue;
        }
        let same = theirs == ours.upper || (0.995..1.000_1).contains(&(ours.upper / theirs));
        assert!(same && ours.lower <= theirs, "{name}: {ours:?} {theirs}");
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    let module = r#""module_name":"dp_accounting.dp_event","class_name""#;
    let object = |class: &str, fields: &str| format!(r#"{{{module}:"{class}"{fields}}}"#);
    let gaussian =
        |noise: &str| object("GaussianDpEvent", &format!(r#","noise_multiplier":{noise}"#));
    let list = |rest: &str| format!(r#"["dp_accounting.dp_event",{rest}]"#);
    for (text, part) in [
        ("7".to_owned(), "$ must be a DpEvent"),
        ("[]".to_owned(), "$ must be a DpEvent"),
        ("{}".to_owned(), "$ must be a DpEvent"),
        (r#"{"event":"gaussian","sigma":1}"#.to_owned(), "$ must be a DpEvent"),
        (r#"["os","GaussianDpEvent",1]"#.to_owned(), "$.module_name is \"os\": it must be"),
        (list(r#""GaussDpEvent",1"#), "$.class_name: GaussDpEvent is not counted here"),
        (list(r#""GaussianDpEvent""#), "$: GaussianDpEvent has 1 values after its name, not 0"),
        (list(r#""GaussianDpEvent",1,2"#), "$: GaussianDpEvent has 1 values after its name, not 2"),
        (list(r#""GaussianDpEvent","1""#), "$.noise_multiplier must be a number"),
        (object("GaussianDpEvent", ""), "$.noise_multiplier is missing: GaussianDpEvent needs it"),
        (object("GaussianDpEvent", r#","sigma":1"#), "$.sigma: GaussianDpEvent has no such field"),
        (gaussian("-1"), "$.noise_multiplier is -1: it must be a finite number above 0"),
        (
            list(&format!(r#""PoissonSampledDpEvent",2,{}"#, gaussian("1"))),
            "$.sampling_probability is 2",
        ),
        (
            list(&format!(r#""SelfComposedDpEvent",{},1.5"#, gaussian("1"))),
            "$.count must be a whole number",
        ),
        (
            list(&format!(r#""SelfComposedDpEvent",{},0"#, gaussian("1"))),
            "$.count is 0: it must be",
        ),
        (
            list(&format!(r#""ComposedDpEvent",[{},{}]"#, gaussian("1"), gaussian("null"))),
            "$.events[1].noise_multiplier must be a number",
        ),
        (list(&format!(r#""ComposedDpEvent",{}"#, gaussian("1"))), "$.events must be a list"),
        (
            list(r#""RandomizedResponseDpEvent",1.1,3"#),
            "$.noise_parameter is 1.1: it must be between",
        ),
        (list(r#""RandomizedResponseDpEvent",0.5,0"#), "$.num_buckets must be at least 1"),
        (list(r#""ZCDpEvent",1,0.5"#), "$.xi: only a xi of 0 is counted"),
        (
            list(r#""TruncatedSubsampledGaussianDpEvent",1,0.1,5,1"#),
            "$.dataset_size must be at least 2",
        ),
    ] {
        let value: Value = serde_json::from_str(&text).unwrap();
        let error = read(&value, "$").unwrap_err().to_string();
        assert!(error.starts_with(part), "{text}: {error}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| {
        let (open, close) = (r#"["dp_accounting.dp_event","SelfComposedDpEvent","#, ",1]");
        let inner = r#"["dp_accounting.dp_event","GaussianDpEvent",1]"#;
        super::super::json::parse(&format!("{}{inner}{}", open.repeat(depth), close.repeat(depth)))
    };
    read(&nested(100).unwrap(), "$").unwrap();
    assert!(nested(200).unwrap_err().to_string().starts_with("recursion limit exceeded"));
    assert!(nested(100_000).is_err());
}

#[test]
fn what_cannot_be_counted_is_refused_by_name() {
    for (name, _) in OTHERS {
        let error = read(&json!([MODULE, name]), "$").unwrap_err();
        assert_eq!(error.to_string(), format!("$.class_name: {name} is not counted here"));
        assert!(hint_of(&error).is_some());
        assert!(CLASSES.iter().all(|(known, _)| known != name));
    }
    for text in [
        r#"{"event":"discrete_gaussian","sigma":5}"#,
        r#"{"event":"distributed_discrete_gaussian","sigma":5,"parties":9}"#,
        r#"{"event":"sampled_count_seen","rate":0.1,"population":9,"sigma":5}"#,
        r#"{"event":"count_only","rate":0.1,"population":9}"#,
        r#"{"event":"shuffled","n":9,"of":{"event":"pure_dp","epsilon":1}}"#,
    ] {
        let event: Event = serde_json::from_str(text).unwrap();
        let name = json!(event)["event"].as_str().unwrap().to_owned();
        let error = write(&Event::Composed { of: vec![event] }, "$").unwrap_err();
        assert_eq!(error.to_string(), format!("$.of[0]: dp-accounting has no event like {name}"));
        assert!(hint_of(&error).is_some_and(|hint| hint.contains("approximate_dp")));
    }
}

#[test]
fn the_edges_are_those_of_the_library() {
    let class = |name: &str, values: &[Value]| {
        let list = [&[json!(MODULE), json!(name)], values].concat();
        read(&Value::Array(list), "$").unwrap()
    };
    let nothing = Event::Composed { of: Vec::new() };
    for noiseless in ["GaussianDpEvent", "LaplaceDpEvent"] {
        assert_eq!(class(noiseless, &[json!(0)]), ANYTHING);
    }
    assert_eq!(class("RandomizedResponseDpEvent", &[json!(0), json!(2)]), ANYTHING);
    assert_eq!(class("RandomizedResponseDpEvent", &[json!(1e-320), json!(2)]), ANYTHING);
    assert_eq!(class("RandomizedResponseDpEvent", &[json!(1.0), json!(2)]), nothing);
    assert_eq!(class("RandomizedResponseDpEvent", &[json!(0), json!(1)]), nothing);
    assert_eq!(
        class("EpsilonDeltaDpEvent", &[json!(0.5), json!(0)]),
        Event::PureDp { epsilon: 0.5 }
    );
    assert_eq!(
        class("EpsilonDeltaDpEvent", &[json!(0.5), json!(1e-7)]),
        Event::ApproximateDp { epsilon: 0.5, delta: 1e-7 }
    );
    let gaussian = json!([MODULE, "GaussianDpEvent", 2]);
    let allocated = class("RandomAllocationDpEvent", &[gaussian, json!(2), json!(10)]);
    let of = Box::new(Event::Gaussian { sigma: 2.0, sensitivity: 1.0 });
    let ours = |donation| Event::RandomAllocation {
        slots: 10,
        selected: 2,
        donation,
        population: None,
        shape: Shape::Vector,
        of: of.clone(),
    };
    assert_eq!(allocated, ours(false));
    assert_eq!(read(&write(&allocated, "$").unwrap(), "$").unwrap(), allocated);
    assert!(write(&ours(true), "$").is_err());
    // Noise is written in units of the sensitivity, and never as more than it is.
    let wide = Event::Gaussian { sigma: 1.0, sensitivity: 3.0 };
    let noise = write(&wide, "$").unwrap()["noise_multiplier"].as_f64().unwrap();
    assert!(noise < 1.0 / 3.0 && noise > 0.333_333_333_333);
    // A response that is written and read is never cheaper.
    for (epsilon0, k) in [(0.001, 2), (1.0, 10), (12.0, 100)] {
        let written = write(&Event::RandomizedResponse { epsilon0, k }, "$").unwrap();
        let Event::RandomizedResponse { epsilon0: back, .. } = read(&written, "$").unwrap() else {
            panic!("{written}");
        };
        assert!(back >= epsilon0 && back < epsilon0 * (1.0 + 1e-9), "{epsilon0} {back}");
    }
}
