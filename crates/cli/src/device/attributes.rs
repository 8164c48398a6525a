//! The attributes of a device, from a file that its owner or an application writes.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use sotto_protocol::expression::{Attributes, Value};
use sotto_wire::recipe::AttributeName;
use toml::de::DeTable;

use crate::output::WithHint;
use crate::private_file;

/// What a value may be.
const VALUES: &str = "a whole number, true, false, text in quotes, or a list of texts";

/// Reads `name = value` lines of TOML: truth values, whole numbers, texts and lists of texts. Any
/// other value counts as missing: whether a device answers must not depend on its data.
pub(super) fn read(path: &Path) -> Result<Attributes> {
    Ok(load(path)?.0)
}

/// What the owner should correct, each with its line. Values are not quoted: they are personal.
pub(super) fn mistakes(path: &Path) -> Result<Vec<String>> {
    Ok(load(path)?.1)
}

fn load(path: &Path) -> Result<(Attributes, Vec<String>)> {
    let text = private_file::read(path)?;
    parse(&text).with_context(|| format!("{} cannot be used", path.display()))
}

fn parse(text: &str) -> Result<(Attributes, Vec<String>)> {
    let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    // The parser's own message quotes the line, which is personal data.
    let wrong = |error: toml::de::Error| {
        let line = line(error.span().map_or(0, |span| span.start));
        match error.message().contains("duplicate key") {
            true => anyhow!("line {line} has a name that was there before: keep one of them"),
            false => anyhow!("line {line} is not `name = value`"),
        }
    };
    let table: toml::Table =
        toml::from_str(text).map_err(wrong).hint(format!("a value is {VALUES}"))?;
    let lines = DeTable::parse(text).map_err(wrong)?;
    let (mut attributes, mut mistakes) = (Attributes::new(), Vec::new());
    for (name, value) in table {
        let key = lines.get_ref().get_key_value(name.as_str());
        let line = line(key.map_or(0, |(key, _)| key.span().start));
        if let Err(error) = name.parse::<AttributeName>() {
            mistakes.push(format!("line {line}: no recipe can read `{name}`: {error}"));
        }
        let value = match value {
            toml::Value::Boolean(value) => Some(Value::Bool(value)),
            toml::Value::Integer(value) => Some(Value::Int(value)),
            toml::Value::String(value) => Some(Value::String(value)),
            toml::Value::Array(values) => texts(values),
            _ => None,
        };
        match value {
            Some(value) => {
                attributes.insert(name, value);
            }
            None => {
                mistakes.push(format!("line {line}: `{name}` counts as missing: write {VALUES}"));
            }
        }
    }
    Ok((attributes, mistakes))
}

fn texts(values: Vec<toml::Value>) -> Option<Value> {
    let text = |value| match value {
        toml::Value::String(text) => Some(Value::String(text)),
        _ => None,
    };
    values.into_iter().map(text).collect::<Option<_>>().map(Value::List)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_types_are_read_and_others_count_as_missing() {
        let lines =
            "beta = true\nage = 41\ncountry = \"de\"\napps = [\"maps\", \"mail\"]\nno = []\n";
        let (read, mistakes) = parse(lines).unwrap();
        assert_eq!(mistakes, [""; 0]);
        assert_eq!(read["beta"], Value::Bool(true));
        assert_eq!(read["age"], Value::Int(41));
        assert_eq!(read["country"], Value::String("de".to_owned()));
        let apps = ["maps", "mail"].map(|app| Value::String(app.to_owned()));
        assert_eq!(read["apps"], Value::List(apps.into()));
        assert_eq!(read["no"], Value::List(Vec::new()));
        for other in ["height = 1.8", "[table]\na = 1", "when = 2026-11-15", "list = [1]"] {
            let (read, mistakes) = parse(other).unwrap();
            assert!(read.is_empty(), "{other}");
            assert!(mistakes[0].starts_with("line 1: `"), "{mistakes:?}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("a = 1\nmode = bus\n", "line 2 is not `name = value`"),
            ("a = 1\nmode: \"bus\"\n", "line 2 is not `name = value`"),
            ("a = 1\na = 2\n", "line 2 has a name that was there before"),
            ("a = 99999999999999999999\n", "line 1 is not `name = value`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            let hint = crate::output::hint_of(&error);
            assert_eq!(
                hint,
                Some("a value is a whole number, true, false, text in quotes, or a list of texts")
            );
        }
        let missing = "write a whole number, true, false, text in quotes, or a list of texts";
        for (text, part, write) in [
            ("a = 1\nheight = 1.8\n", "line 2: `height` counts as missing: ", missing),
            ("a = 1\nlist = [1]\n", "line 2: `list` counts as missing: ", missing),
            ("a = 1\nwhen = 2026-11-15\n", "line 2: `when` counts as missing: ", missing),
            ("a = 1\n[home]\nb = 1\n", "line 2: `home` counts as missing: ", missing),
            ("a = 1\nMinutes = 1\n", "line 2: no recipe can read `Minutes`: ", "a-z, 0-9 and _"),
        ] {
            let said = &parse(text).unwrap().1[0];
            assert!(said.contains(part) && said.contains(write), "{said}");
        }
    }

    #[test]
    fn a_mistake_is_located_without_being_quoted() {
        let error = parse("a = 1\nsecret = = 5\n").unwrap_err().to_string();
        assert_eq!(error, "line 2 is not `name = value`");
    }
}
