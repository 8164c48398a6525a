//! Every command has a definition, every key has one meaning, and the page about them is current.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};
use serde_json::{Map, Value, json};
use sotto_dp::mechanism::Mechanism;

use super::OUTPUT_SCHEMA;
use crate::cli::Cli;

/// Commands that print a document with a format of its own, or nothing. Only their errors are JSON.
const DOCUMENTS: [&str; 4] = ["completions", "man", "recipe schema", "schema"];

/// The definitions of outputs have names that begin like this; all others define keys.
const OUTPUT: &str = "output-";

fn schema() -> Value {
    serde_json::from_str(OUTPUT_SCHEMA).unwrap()
}

fn definitions() -> Map<String, Value> {
    schema()["$defs"].as_object().unwrap().clone()
}

/// The objects that a definition describes: one, or one for each way to run the command.
fn objects(definition: &Value) -> Vec<&Value> {
    match definition["anyOf"].as_array() {
        Some(modes) => modes.iter().collect(),
        None => vec![definition],
    }
}

/// Every command without subcommands.
fn commands(command: &Command, before: &[String]) -> Vec<String> {
    let inner = |sub: &Command| commands(sub, &[before, &[sub.get_name().to_owned()]].concat());
    match command.has_subcommands() {
        true => command.get_subcommands().flat_map(inner).collect(),
        false => vec![before.join(" ")],
    }
}

#[test]
fn every_command_has_a_definition() {
    let printing = commands(&Cli::command(), &[]).into_iter();
    let printing = printing.filter(|command| !DOCUMENTS.contains(&command.as_str()));
    let wanted: BTreeSet<String> = printing.chain(["version".to_owned()]).collect();
    let definitions = definitions();
    let mut defined = BTreeSet::new();
    for (name, definition) in definitions.iter().filter(|(name, _)| name.starts_with(OUTPUT)) {
        for object in objects(definition) {
            let Some(command) = object["properties"]["command"]["const"].as_str() else { continue };
            assert_eq!(*name, format!("{OUTPUT}{}", command.replace(' ', "-")));
            defined.insert(command.to_owned());
        }
    }
    assert_eq!(defined, wanted);
    let listed = schema()["anyOf"].as_array().unwrap().len();
    assert_eq!(listed, wanted.len() + 1, "all outputs and errors are listed at the top");
}

/// Calls `visit` for every object that lists its keys.
fn visit_objects(value: &Value, visit: &mut dyn FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                visit(fields);
            }
            fields.values().for_each(|value| visit_objects(value, visit));
        }
        Value::Array(values) => values.iter().for_each(|value| visit_objects(value, visit)),
        _ => {}
    }
}

#[test]
fn every_key_has_one_meaning_and_unknown_keys_are_faults() {
    let definitions = definitions();
    let mut used = BTreeSet::new();
    visit_objects(&schema(), &mut |object| {
        assert_eq!(object["additionalProperties"], false, "{object:?}");
        let keys = object["properties"].as_object().unwrap();
        for (key, form) in keys {
            used.insert(key.clone());
            let one = json!({ "$ref": format!("#/$defs/{key}") });
            assert!(*form == one || key == "command", "{key}: {form}");
            let time = definitions[key]["format"] == "date-time";
            assert_eq!(time, keys.contains_key(&format!("{key}_s")), "{key} has both forms");
        }
        for key in object["required"].as_array().unwrap() {
            assert!(keys.contains_key(key.as_str().unwrap()), "{key}");
        }
    });
    let keys = definitions.iter().filter(|(name, _)| !name.starts_with(OUTPUT));
    for (key, definition) in keys.clone() {
        assert!(definition["description"].is_string(), "{key} is not explained");
        assert!(!key.contains("micro"), "{key}: micro-units are for recipes");
        let forms = definition["type"].to_string();
        assert!(!key.ends_with("_s") || ["integer", "number"].iter().any(|n| forms.contains(n)));
    }
    assert_eq!(used, keys.map(|(key, _)| key.clone()).collect(), "keys that nobody prints");
}

/// The form of a value, in words.
fn form(definition: &Value) -> String {
    if let Some(values) = definition["enum"].as_array() {
        let shown: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return shown.join(", ");
    }
    if let Some(value) = definition.get("const") {
        return format!("`{value}`");
    }
    if let Some(forms) = definition["anyOf"].as_array() {
        return forms.iter().map(form).collect::<Vec<_>>().join(" or ");
    }
    if let Some(kinds) = definition["type"].as_array() {
        let one = |kind: &Value| {
            let mut alone = definition.clone();
            alone["type"] = kind.clone();
            form(&alone)
        };
        return kinds.iter().map(one).collect::<Vec<_>>().join(" or ");
    }
    match definition["type"].as_str().unwrap() {
        "string" if definition["format"] == "date-time" => "time".to_owned(),
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "array" => format!("list of: {}", form(&definition["items"])),
        "object" if definition["properties"].is_object() => {
            format!("object with {}", fields(definition, &[]))
        }
        other => other.to_owned(),
    }
}

/// The keys of an object; those that may be absent have a question mark.
fn fields(object: &Value, without: &[&str]) -> String {
    let required: Vec<&str> =
        object["required"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    let keys = object["properties"].as_object().unwrap().keys();
    let optional = keys.map(String::as_str).filter(|key| !required.contains(key));
    let optional = optional.map(|key| format!("`{key}`?"));
    let required = required.iter().filter(|key| !without.contains(*key));
    required.map(|key| format!("`{key}`")).chain(optional).collect::<Vec<_>>().join(", ")
}

/// The tables of `docs/json.md`.
fn tables() -> String {
    let definitions = definitions();
    let outputs: Vec<&Value> = definitions
        .iter()
        .filter(|(name, _)| name.starts_with(OUTPUT))
        .flat_map(|(_, definition)| objects(definition))
        .filter(|object| object["properties"]["command"].get("const").is_some())
        .collect();
    let name =
        |object: &Value| object["properties"]["command"]["const"].as_str().unwrap().to_owned();
    let required = |object: &Value| object["required"].as_array().unwrap().clone();
    // The keys that all questions to the accountant have are listed once.
    let is_account = |object: &&&Value| {
        let name = name(object);
        name.starts_with("account ") && name != "account recipes"
    };
    let account: Vec<_> =
        outputs.iter().filter(is_account).map(|object| required(object)).collect();
    let shared: Vec<&str> = account[0]
        .iter()
        .filter(|key| account.iter().all(|keys| keys.contains(key)))
        .map(|key| key.as_str().unwrap())
        .collect();
    let always = ["schema", "command"];
    let shown = shared.iter().filter(|key| !always.contains(key)).map(|key| format!("`{key}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let mut page = "## Commands\n\n| Command | What | Keys |\n|---|---|---|\n".to_owned();
    page += &format!("| `account` | All questions below | {shown} |\n");
    for object in outputs {
        let without = if is_account(&&object) { &shared[..] } else { &always };
        let what = object["description"].as_str().unwrap();
        page += &format!("| `{}` | {what} | {} |\n", name(object), fields(object, without));
    }
    page += "\n## Keys\n\n| Key | Form | Meaning |\n|---|---|---|\n";
    for (key, definition) in definitions.iter().filter(|(name, _)| !name.starts_with(OUTPUT)) {
        let time =
            |name: &str| definitions.get(name).is_some_and(|one| one["format"] == "date-time");
        // Beside the other form of the same time.
        if key.strip_suffix("_s").is_some_and(time) {
            continue;
        }
        let both = if time(key) { format!(", `{key}_s`") } else { String::new() };
        let meaning = definition["description"].as_str().unwrap();
        page += &format!("| `{key}`{both} | {} | {meaning} |\n", form(definition));
    }
    page
}

/// Writes the tables again with `SOTTO_BLESS=1 cargo test -p sotto the_page_about_json`. The text
/// before them is written by hand.
#[test]
fn the_page_about_json_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (text, written) = page.split_at(page.find("## Commands\n").unwrap());
    if std::env::var_os("SOTTO_BLESS").is_some() {
        return std::fs::write(path, text.to_owned() + &tables()).unwrap();
    }
    assert_eq!(written, tables(), "run: SOTTO_BLESS=1 cargo test -p sotto the_page_about_json");
}

#[test]
fn every_mechanism_is_known() {
    let names = definitions()["mechanism"]["enum"].as_array().unwrap().clone();
    for kind in Mechanism::KINDS {
        assert!(names.contains(&json!(kind)), "{kind}");
    }
}
