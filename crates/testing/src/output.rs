//! Whether what a command prints with `--json` is what its schema describes.

use serde_json::{Value, json};

/// The schema that `sotto schema` prints.
const SCHEMA: &str = include_str!("../../cli/schema/output-v1.schema.json");

/// The JSON that a command printed. It must fit the definition of the command that it names, or the
/// one of errors; the reason says where it does not.
pub fn read(printed: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(printed).map_err(|error| error.to_string())?;
    let name = match (value.get("error"), value["command"].as_str()) {
        (Some(_), _) => "output-error".to_owned(),
        (None, Some(command)) => format!("output-{}", command.replace(' ', "-")),
        (None, None) => return Err(format!("no command is named: {value:#}")),
    };
    let mut schema: Value = serde_json::from_str(SCHEMA).map_err(|error| error.to_string())?;
    schema["anyOf"] = json!([true]);
    schema["$ref"] = format!("#/$defs/{name}").into();
    let schema = jsonschema::draft202012::options().should_validate_formats(true).build(&schema);
    let schema = schema.map_err(|error| format!("{name}: {error}"))?;
    let faults = schema.iter_errors(&value);
    let faults: Vec<String> =
        faults.map(|fault| format!("{fault} at {:?}", fault.instance_path().as_str())).collect();
    if faults.is_empty() { Ok(value) } else { Err(format!("{}\n{value:#}", faults.join("\n"))) }
}
