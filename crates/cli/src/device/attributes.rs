//! The attributes of a device, from a file that its owner or an application writes.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use sotto_protocol::expression::{Attributes, Value};
use sotto_wire::recipe::AttributeName;
use toml::de::DeTable;

use crate::output::WithHint;
use crate::{npy, private_file};

/// What a value may be.
const VALUES: &str =
    "a whole number, true, false, text in quotes, a list of texts, or a list of numbers";

/// The largest file of a vector that is read: a million numbers as text.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Reads `name = value` lines of TOML: truth values, whole numbers, texts, lists of texts, and
/// vectors: lists of numbers, or `{ file = "PATH" }` with an .npy file or numbers as text. Any other
/// value counts as missing: whether a device answers must not depend on its data.
pub(super) fn read(path: &Path) -> Result<Attributes> {
    Ok(load(path)?.0)
}

/// What the owner should correct, each with its line. Values are not quoted: they are personal.
pub(super) fn mistakes(path: &Path) -> Result<Vec<String>> {
    Ok(load(path)?.1)
}

fn load(path: &Path) -> Result<(Attributes, Vec<String>)> {
    let text = private_file::read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder).with_context(|| format!("{} cannot be used", path.display()))
}

fn parse(text: &str, folder: &Path) -> Result<(Attributes, Vec<String>)> {
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
            toml::Value::Array(values) => texts(&values).or_else(|| numbers(&values)),
            toml::Value::Table(table) => match from_file(&table, folder) {
                Some(Ok(vector)) => Some(vector),
                Some(Err(error)) => {
                    mistakes.push(format!("line {line}: `{name}` counts as missing: {error:#}"));
                    continue;
                }
                None => None,
            },
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

fn texts(values: &[toml::Value]) -> Option<Value> {
    let text = |value: &toml::Value| Some(Value::String(value.as_str()?.to_owned()));
    values.iter().map(text).collect::<Option<_>>().map(Value::List)
}

/// A vector in the file itself.
fn numbers(values: &[toml::Value]) -> Option<Value> {
    let number = |value: &toml::Value| {
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    };
    let numbers = values.iter().map(number).collect::<Option<Vec<_>>>();
    numbers.map(|numbers| Value::Vector(numbers.into()))
}

/// A vector in a file of its own; `None` if the table does not name one. Errors quote no numbers.
fn from_file(table: &toml::Table, folder: &Path) -> Option<Result<Value>> {
    let name = table.get("file")?.as_str().filter(|_| table.len() == 1)?;
    let path = folder.join(name);
    let read = || {
        let length = std::fs::metadata(&path)?.len();
        ensure!(length <= MOST_BYTES, "it has more than 64 MiB");
        let bytes = private_file::read_bytes(&path)?;
        let numbers = if npy::is_npy(&bytes) {
            npy::decoded(&bytes)?
        } else {
            let text = std::str::from_utf8(&bytes).ok().context("it is neither .npy nor text")?;
            let words =
                text.split([',', ';', ' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
            let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>();
            numbers.context("it has something that is not a number")?
        };
        Ok(Value::Vector(numbers.into()))
    };
    Some(read().with_context(|| format!("{} cannot be used", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_types_are_read_and_others_count_as_missing() {
        let lines =
            "beta = true\nage = 41\ncountry = \"de\"\napps = [\"maps\", \"mail\"]\nno = []\n";
        let (read, mistakes) = parse(lines, Path::new("")).unwrap();
        assert_eq!(mistakes, [""; 0]);
        assert_eq!(read["beta"], Value::Bool(true));
        assert_eq!(read["age"], Value::Int(41));
        assert_eq!(read["country"], Value::String("de".to_owned()));
        let apps = ["maps", "mail"].map(|app| Value::String(app.to_owned()));
        assert_eq!(read["apps"], Value::List(apps.into()));
        assert_eq!(read["no"], Value::List(Vec::new()));
        for other in ["height = 1.8", "[table]\na = 1", "when = 2026-11-15", "list = [[1]]"] {
            let (read, mistakes) = parse(other, Path::new("")).unwrap();
            assert!(read.is_empty(), "{other}");
            assert!(mistakes[0].starts_with("line 1: `"), "{mistakes:?}");
        }
    }

    #[test]
    fn vectors_are_lists_or_files() {
        let folder = tempfile::tempdir().unwrap();
        let file =
            |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        file("a.npy", &npy::encoded(&[1.5, -2.0]));
        file("b.csv", b"1.5,-2\n");
        file("c.txt", b"1.5\n-2e0\n");
        file("d.csv", b"1.5;x\n");
        let vector = Value::Vector(vec![1.5, -2.0].into());
        for text in [
            "v = [1.5, -2]",
            "v = { file = \"a.npy\" }",
            "v = { file = \"b.csv\" }",
            "[v]\nfile = \"c.txt\"",
        ] {
            let (read, mistakes) = parse(text, folder.path()).unwrap();
            assert_eq!((&read["v"], mistakes.len()), (&vector, 0), "{text}");
        }
        let (read, _) = parse("v = [1, nan, inf]", folder.path()).unwrap();
        assert!(matches!(&read["v"], Value::Vector(v) if v.as_slice()[1].is_nan()));
        for (text, part) in [
            ("v = { file = \"d.csv\" }", "it has something that is not a number"),
            ("v = { file = \"e.npy\" }", "e.npy cannot be used"),
            ("v = { path = \"a.npy\" }", "`v` counts as missing: write"),
        ] {
            let (read, mistakes) = parse(text, folder.path()).unwrap();
            assert!(read.is_empty() && mistakes[0].contains(part), "{mistakes:?}");
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
            let error = parse(text, Path::new("")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            let hint = crate::output::hint_of(&error);
            assert_eq!(
                hint,
                Some(
                    "a value is a whole number, true, false, text in quotes, a list of texts, or a list of numbers"
                )
            );
        }
        let missing = "write a whole number, true, false, text in quotes, a list of texts, or a list of numbers";
        for (text, part, write) in [
            ("a = 1\nheight = 1.8\n", "line 2: `height` counts as missing: ", missing),
            ("a = 1\nlist = [1, true]\n", "line 2: `list` counts as missing: ", missing),
            ("a = 1\nwhen = 2026-11-15\n", "line 2: `when` counts as missing: ", missing),
            ("a = 1\n[home]\nb = 1\n", "line 2: `home` counts as missing: ", missing),
            ("a = 1\nMinutes = 1\n", "line 2: no recipe can read `Minutes`: ", "a-z, 0-9 and _"),
        ] {
            let said = &parse(text, Path::new("")).unwrap().1[0];
            assert!(said.contains(part) && said.contains(write), "{said}");
        }
    }

    #[test]
    fn a_mistake_is_located_without_being_quoted() {
        let error = parse("a = 1\nsecret = = 5\n", Path::new("")).unwrap_err().to_string();
        assert_eq!(error, "line 2 is not `name = value`");
    }
}
