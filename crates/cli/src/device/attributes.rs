//! The attributes of a device, from a file that its owner or an application writes.

use std::path::Path;

use anyhow::{Context, Result};
use sotto_protocol::expression::{Attributes, Value};

use crate::private_file;

/// Reads `name = value` lines of TOML: truth values, whole numbers and texts. Any other value
/// counts as missing: whether a device answers must not depend on its data.
pub(super) fn read(path: &Path) -> Result<Attributes> {
    let text = private_file::read(path)?;
    parse(&text).with_context(|| format!("{} cannot be used", path.display()))
}

fn parse(text: &str) -> Result<Attributes> {
    // The parser's own message quotes the line, which is personal data.
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        anyhow::anyhow!("line {} is not `name = value`", before.matches('\n').count() + 1)
    })?;
    let mut attributes = Attributes::new();
    for (name, value) in table {
        let value = match value {
            toml::Value::Boolean(value) => Value::Bool(value),
            toml::Value::Integer(value) => Value::Int(value),
            toml::Value::String(value) => Value::String(value),
            _ => continue,
        };
        attributes.insert(name, value);
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_types_are_read_and_others_count_as_missing() {
        let read = parse("beta = true\nage = 41\ncountry = \"de\"\n").unwrap();
        assert_eq!(read["beta"], Value::Bool(true));
        assert_eq!(read["age"], Value::Int(41));
        assert_eq!(read["country"], Value::String("de".to_owned()));
        for other in ["height = 1.8", "[table]\na = 1", "when = 2026-11-15", "list = [1]"] {
            assert!(parse(other).unwrap().is_empty(), "{other}");
        }
    }

    #[test]
    fn a_mistake_is_located_without_being_quoted() {
        let error = parse("a = 1\nsecret = = 5\n").unwrap_err().to_string();
        assert_eq!(error, "line 2 is not `name = value`");
    }
}
