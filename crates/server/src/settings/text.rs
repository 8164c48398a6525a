//! What settings look like to people: the template of a file, and the page that lists them.

use std::fmt::Write;

use super::{Entry, Settings, Table};

/// A configuration file that shows every setting. A line `# key = value` has a default; a line
/// `#   key = value`, further in, an example.
pub fn template<T: Settings>() -> String {
    let mut text = String::new();
    lines(&mut text, T::ABOUT);
    lines(
        &mut text,
        &[
            " A line that begins with `# key =` shows a default, one that is further in an example.",
            " Paths are relative to this file.",
        ],
    );
    let entries = described(&T::default().entries());
    let (tables, values): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.table.is_some());
    let (top, inside): (Vec<&Entry>, Vec<&Entry>) =
        values.iter().partition(|entry| !entry.key.contains('.'));
    for entry in top {
        text.push('\n');
        value(&mut text, entry);
    }
    for name in names(&inside) {
        let _ = writeln!(text, "\n[{name}]");
        for entry in &inside {
            if let Some(key) = in_table(entry, name) {
                value(&mut text, &Entry { key, ..(*entry).clone() });
            }
        }
    }
    for entry in &tables {
        text.push('\n');
        table(&mut text, entry, "");
    }
    text
}

/// A section of the reference page, with all settings in one table.
pub fn reference<T: Settings>(title: &str) -> String {
    let about = joined(T::ABOUT);
    let mut text = format!("## {title}\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n");
    rows(&mut text, &T::default().entries(), "");
    text
}

fn described(entries: &[Entry]) -> Vec<Entry> {
    entries.iter().filter(|entry| !entry.hidden).cloned().collect()
}

/// The tables of dotted keys, in their order.
fn names<'a>(entries: &[&'a Entry]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (name, _) in entries.iter().filter_map(|entry| entry.key.split_once('.')) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn in_table(entry: &Entry, name: &str) -> Option<&'static str> {
    entry.key.split_once('.').filter(|(table, _)| *table == name).map(|(_, key)| key)
}

fn lines(text: &mut String, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(text, "#{line}");
    }
}

fn value(text: &mut String, entry: &Entry) {
    lines(text, entry.doc);
    if entry.required {
        text.push_str("# Required.\n");
    }
    match (&entry.example, &entry.default) {
        (Some(example), _) => shown(text, &format!("{} = {example}", entry.key)),
        (None, Some(default)) => {
            let _ = writeln!(text, "# {} = {default}", entry.key);
        }
        (None, None) => shown(text, &format!("{} = \"...\"", entry.key)),
    }
}

/// Lines that are examples: further in than defaults.
fn shown(text: &mut String, shown: &str) {
    for line in shown.lines() {
        let _ = writeln!(text, "#   {line}");
    }
}

/// A table that need not be there, with what is in it.
fn table(text: &mut String, entry: &Entry, around: &str) {
    let Some(Table { is_array, entries }) = &entry.table else { return };
    lines(text, entry.doc);
    if entry.required {
        text.push_str("# Required.\n");
    }
    let name = format!("{around}{}", entry.key);
    shown(text, &if *is_array { format!("[[{name}]]") } else { format!("[{name}]") });
    let is_table = |entry: &&Entry| entry.table.is_some() && entry.example.is_none();
    for entry in entries.iter().filter(|entry| !is_table(entry)) {
        let example = entry.example.map(str::to_owned).or_else(|| entry.default.clone());
        lines(text, entry.doc);
        shown(text, &format!("{} = {}", entry.key, example.as_deref().unwrap_or("\"...\"")));
    }
    for entry in entries.iter().filter(is_table) {
        table(text, entry, &format!("{name}."));
    }
}

fn rows(text: &mut String, entries: &[Entry], around: &str) {
    for entry in described(entries) {
        let key = format!("{around}{}", entry.key);
        let meaning = joined(entry.doc).replace('|', "\\|");
        let default = match (&entry.table, entry.required, &entry.default, entry.example) {
            (_, true, _, _) => "required".to_owned(),
            (None, false, Some(default), None) => format!("`{default}`"),
            _ => "unset".to_owned(),
        };
        match &entry.table {
            Some(table) if entry.example.is_none() => {
                let (shown, inside) = match table.is_array {
                    true => (format!("[[{key}]]"), format!("{key}[].")),
                    false => (format!("[{key}]"), format!("{key}.")),
                };
                let _ = writeln!(text, "| `{shown}` | {default} | {meaning} |");
                rows(text, &table.entries, &inside);
            }
            _ => {
                let _ = writeln!(text, "| `{key}` | {default} | {meaning} |");
            }
        }
    }
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
