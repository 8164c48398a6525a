//! How settings are shown to people: the template of a file, and the page that lists them.

use std::fmt::Write;

use super::{Entry, Settings, Table};

/// The longest line of a comment.
const COLUMNS: usize = 80;

/// A configuration file that shows every setting. A line `# key = value` shows a default; an
/// indented line `#   key = value` shows an example.
pub fn template<T: Settings>() -> String {
    let mut text = String::new();
    lines(&mut text, T::ABOUT);
    lines(
        &mut text,
        &["A line that begins with `# key =` shows a default; an indented one shows an example. \
            Paths are relative to this file."],
    );
    for part in parts(&T::default().entries()) {
        match part {
            Part::Value(entry) => {
                text.push('\n');
                value(&mut text, entry.key, entry);
            }
            Part::Table(name, entries) => {
                let _ = writeln!(text, "\n[{name}]");
                for entry in entries {
                    value(&mut text, last_name(entry), entry);
                }
            }
            Part::Optional(entry, table) => {
                text.push('\n');
                optional(&mut text, "", entry, table);
            }
        }
    }
    text
}

/// A section of the reference page, with all settings in one table.
pub fn reference<T: Settings>(title: &str) -> String {
    let about = T::ABOUT.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let mut text = format!("## {title}\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n");
    rows(&mut text, &T::default().entries(), "");
    text
}

/// A part of a file. All top-level keys come before the first table.
enum Part<'a> {
    /// A top-level key.
    Value(&'a Entry),
    /// A table with settings that all have defaults.
    Table(&'a str, Vec<&'a Entry>),
    /// An optional table, or an array of tables.
    Optional(&'a Entry, &'a Table),
}

/// The parts in the order of the file.
fn parts(entries: &[Entry]) -> Vec<Part<'_>> {
    let (mut values, mut optional) = (Vec::new(), Vec::new());
    let mut tables: Vec<(&str, Vec<&Entry>)> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.hidden) {
        match (&entry.table, entry.key.split_once('.')) {
            // A table with an example is written in one line, like a value.
            (Some(table), _) if entry.example.is_none() => {
                optional.push(Part::Optional(entry, table));
            }
            (_, None) => values.push(Part::Value(entry)),
            (_, Some((name, _))) => match tables.iter_mut().find(|(known, _)| *known == name) {
                Some((_, entries)) => entries.push(entry),
                None => tables.push((name, vec![entry])),
            },
        }
    }
    values.extend(tables.into_iter().map(|(name, entries)| Part::Table(name, entries)));
    values.extend(optional);
    values
}

/// The key without its table.
fn last_name(entry: &Entry) -> &'static str {
    entry.key.split_once('.').map_or(entry.key, |(_, name)| name)
}

/// A comment, in lines that fit a terminal.
fn lines(text: &mut String, lines: &[&str]) {
    let mut line = String::from("#");
    for word in joined(lines).split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(text, "{line}");
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

fn value(text: &mut String, key: &str, entry: &Entry) {
    lines(text, entry.doc);
    match (&entry.example, &entry.default) {
        (None, Some(default)) => {
            let _ = writeln!(text, "# {key} = {default}");
        }
        (example, _) => shown(text, &format!("{key} = {}", example.unwrap_or("\"...\""))),
    }
}

/// Lines that show examples: indented further than defaults.
fn shown(text: &mut String, shown: &str) {
    for line in shown.lines() {
        let _ = writeln!(text, "#   {line}");
    }
}

/// An optional table, with its settings.
fn optional(text: &mut String, prefix: &str, entry: &Entry, table: &Table) {
    lines(text, entry.doc);
    let name = format!("{prefix}{}", entry.key);
    shown(text, &if table.is_array { format!("[[{name}]]") } else { format!("[{name}]") });
    for part in parts(&table.entries) {
        match part {
            Part::Value(entry) => {
                let default = entry.default.as_deref().unwrap_or("\"...\"");
                lines(text, entry.doc);
                shown(text, &format!("{} = {}", entry.key, entry.example.unwrap_or(default)));
            }
            Part::Optional(entry, table) => optional(text, &format!("{name}."), entry, table),
            Part::Table(..) => {}
        }
    }
}

fn rows(text: &mut String, entries: &[Entry], prefix: &str) {
    for part in parts(entries) {
        match part {
            Part::Value(entry) => row(text, &format!("{prefix}{}", entry.key), entry),
            Part::Table(_, entries) => {
                entries
                    .iter()
                    .for_each(|entry| row(text, &format!("{prefix}{}", entry.key), entry));
            }
            Part::Optional(entry, table) => {
                let key = format!("{prefix}{}", entry.key);
                let (shown, inside) = match table.is_array {
                    true => (format!("[[{key}]]"), format!("{key}[].")),
                    false => (format!("[{key}]"), format!("{key}.")),
                };
                row(text, &shown, entry);
                rows(text, &table.entries, &inside);
            }
        }
    }
}

fn row(text: &mut String, key: &str, entry: &Entry) {
    let default = match (entry.required, &entry.default, entry.example) {
        (true, _, _) => "required".to_owned(),
        (false, Some(default), None) if entry.table.is_none() => format!("`{default}`"),
        _ => "unset".to_owned(),
    };
    let _ = writeln!(text, "| `{key}` | {default} | {} |", joined(entry.doc).replace('|', "\\|"));
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
