//! The values of devices from a file: one device per line, the attributes' names in the first.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use sotto_protocol::expression::{Attributes, Value};
use sotto_wire::recipe::{AttributeName, AttributeType};

use crate::output::WithHint;
use crate::private_file;

type Declared = BTreeMap<AttributeName, AttributeType>;

/// The kinds of devices in the file, and the kind of each device.
pub(super) fn read(path: &Path, declared: &Declared) -> Result<(Vec<Attributes>, Vec<u32>)> {
    let text = private_file::read(path)?;
    parse(&text, declared).with_context(|| format!("{} cannot be used", path.display()))
}

/// The same from the text of such a file.
pub(super) fn parse(text: &str, declared: &Declared) -> Result<(Vec<Attributes>, Vec<u32>)> {
    let mut lines = text.lines().enumerate();
    let head = lines.next().map(|(_, line)| cells(line)).transpose().context("line 1")?;
    let head = head.unwrap_or_default();
    let names: Vec<&str> = declared.keys().map(AttributeName::as_str).collect();
    let hint = || format!("write the names in the first line: {}", names.join(","));
    if let Some(name) = head.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(anyhow!("line 1: the recipe declares no attribute `{name}`")).hint(hint());
    }
    if let Some(name) = names.iter().find(|name| !head.iter().any(|column| column == *name)) {
        return Err(anyhow!("line 1: there is no column `{name}`")).hint(hint());
    }
    let (mut kinds, mut held) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let kind = match known.get(line) {
            Some(kind) => *kind,
            None => {
                let kind = u32::try_from(kinds.len())?;
                kinds.push(
                    device(line, &head, declared).with_context(|| format!("line {}", index + 1))?,
                );
                known.insert(line, kind);
                kind
            }
        };
        held.push(kind);
    }
    Ok((kinds, held))
}

/// One device. An empty cell is an attribute that it does not have.
fn device(line: &str, head: &[String], declared: &Declared) -> Result<Attributes> {
    let cells = cells(line)?;
    ensure!(
        cells.len() == head.len(),
        "it has {} values, but the first line has {} names: leave a value empty, but not its comma",
        cells.len(),
        head.len()
    );
    let mut attributes = Attributes::new();
    for (name, cell) in head.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        let value = match declared.get(name.as_str()) {
            Some(AttributeType::Bool) => cell.parse().map(Value::Bool).ok(),
            Some(AttributeType::Int) => cell.parse().map(Value::Int).ok(),
            Some(AttributeType::String) => Some(Value::String(cell.clone())),
            Some(AttributeType::Strings) => Some(list(&cell)),
            Some(AttributeType::Vector(_)) => vector(&cell),
            None => None,
        };
        let wanted = match declared.get(name.as_str()) {
            Some(AttributeType::Bool) => "true or false",
            Some(AttributeType::Vector(_)) => "a list of numbers with semicolons between",
            _ => "a whole number",
        };
        let value = value
            .with_context(|| format!("{name}: {cell:?} is not {wanted}: write one, or nothing"))?;
        attributes.insert(name.clone(), value);
    }
    Ok(attributes)
}

/// The texts between semicolons.
fn list(cell: &str) -> Value {
    let texts = cell.split(';').map(str::trim).filter(|text| !text.is_empty());
    Value::List(texts.map(|text| Value::String(text.to_owned())).collect())
}

/// The numbers between semicolons.
fn vector(cell: &str) -> Option<Value> {
    let numbers = cell.split(';').map(|number| number.trim().parse().ok());
    numbers.collect::<Option<Vec<f64>>>().map(|numbers| Value::Vector(numbers.into()))
}

/// The values between commas. In double quotes, commas and doubled quotes are part of a value.
fn cells(line: &str) -> Result<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line.trim();
    loop {
        let (cell, after) = match rest.trim_start().strip_prefix('"') {
            None => match rest.find(',') {
                Some(at) => (rest[..at].trim().to_owned(), &rest[at..]),
                None => (rest.trim().to_owned(), ""),
            },
            Some(mut inside) => {
                let mut cell = String::new();
                loop {
                    let Some((before, after)) = inside.split_once('"') else {
                        bail!("a quote without an end: write `\"` after the value");
                    };
                    cell.push_str(before);
                    inside = after;
                    match inside.strip_prefix('"') {
                        Some(after) => inside = after,
                        None => break,
                    }
                    cell.push('"');
                }
                (cell, inside.trim_start())
            }
        };
        cells.push(cell);
        if after.is_empty() {
            return Ok(cells);
        }
        rest = after
            .strip_prefix(',')
            .context("something after a closing quote: write a comma there")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declared {
        [
            ("minutes".parse().unwrap(), AttributeType::Int),
            ("mode".parse().unwrap(), AttributeType::String),
            ("beta".parse().unwrap(), AttributeType::Bool),
        ]
        .into()
    }

    #[test]
    fn a_line_is_a_device() {
        let text = "mode,minutes,beta\nbus,20,true\n\"on foot, \"\"fast\"\"\", 5 ,false\nbus,20,true\n,,\n";
        let (kinds, held) = parse(text, &declared()).unwrap();
        assert_eq!(held, [0, 1, 0, 2]);
        assert_eq!(kinds[0]["minutes"], Value::Int(20));
        assert_eq!(kinds[1]["mode"], Value::String("on foot, \"fast\"".to_owned()));
        assert_eq!(kinds[1]["beta"], Value::Bool(false));
        assert!(kinds[2].is_empty(), "empty cells are missing attributes");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let names = "write the names in the first line: beta,minutes,mode";
        for (text, part, write) in [
            ("mode,minuts,beta\n", "line 1: the recipe declares no attribute `minuts`", names),
            ("mode,beta\n", "line 1: there is no column `minutes`", names),
            ("", "line 1: there is no column `beta`", names),
            ("\"mode,beta\n", "line 1: a quote without an end", "write `\"` after the value"),
            (
                "mode,minutes,beta\nbus,20,true\nbus,x,true\n",
                "line 3: minutes: \"x\" is not",
                "a whole number: write one, or nothing",
            ),
            ("mode,minutes,beta\nbus,20,yes\n", "line 2: beta: \"yes\" is not", "true or false"),
            (
                "mode,minutes,beta\nbus,20\n",
                "line 2: it has 2 values, but the first line has 3",
                "leave a value empty, but not its comma",
            ),
            (
                "mode,minutes,beta\n\"bus,20,true\n",
                "line 2: a quote without an end",
                "write `\"` after the value",
            ),
            (
                "mode,minutes,beta\n\"bus\"x,20,true\n",
                "line 2: something after",
                "write a comma there",
            ),
        ] {
            let error = parse(text, &declared()).unwrap_err();
            let said = format!("{error:#} {}", crate::output::hint_of(&error).unwrap_or_default());
            assert!(said.contains(part) && said.contains(write), "{said} / {part} / {write}");
        }
    }
}
