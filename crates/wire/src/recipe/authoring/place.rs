//! Where in a text a key is.

use toml::de::{DeTable, DeValue};

use super::AuthoringError;

/// Names by which reasons call a field that has a longer path.
const ALIASES: [(&str, &str); 3] = [
    ("mapping", "query.mapping"),
    ("predicate", "who.targeting.predicate"),
    ("claims", "privacy.epsilon"),
];

/// The line and column of the first key that a reason names, like `sampling.rate must be above 0`;
/// both count from 1. If the key is not there, the place of the table that lacks it. A key without
/// a table counts only as the first word: `name` and `who` are also plain words.
pub fn place_of(text: &str, reason: &str) -> Option<(usize, usize)> {
    let document = DeTable::parse(text).ok()?;
    let words = reason.split_whitespace().map(|word| word.trim_matches([':', ',', ';']));
    let offset = words.enumerate().find_map(|(index, word)| {
        let alias = ALIASES.iter().find(|(name, _)| *name == word);
        let path = alias.map_or(word, |(_, path)| path);
        (index == 0 || path.contains('.')).then(|| offset(document.get_ref(), path))?
    })?;
    Some(position(text, offset))
}

/// The line and column of the byte at this offset.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The error with its place. A missing table belongs at the end.
pub(super) fn placed(error: AuthoringError, text: &str) -> AuthoringError {
    match error {
        AuthoringError::Key { key, reason, .. } => {
            let end = || (text.lines().count().max(1), 1);
            let (line, column) = place_of(text, &key).unwrap_or_else(end);
            AuthoringError::Key { line, column, key, reason }
        }
        other => other,
    }
}

/// Where the key begins, or the last part of its path that is there. `None` if none is.
fn offset(document: &DeTable<'_>, path: &str) -> Option<usize> {
    let (mut table, mut found) = (document, None);
    for part in path.split('.') {
        let (name, index) = part.split_once('[').unwrap_or((part, ""));
        // The JSON has units in its names.
        let names = [name, name.trim_end_matches("_s"), name.trim_end_matches("_micro")];
        let Some((key, value)) = names.iter().find_map(|name| table.get_key_value(*name)) else {
            break;
        };
        found = Some(key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            DeValue::Array(array) => {
                let index = index.trim_end_matches(']').parse().ok();
                let element = index.and_then(|index: usize| array.get(index));
                return element.map(|element| element.span().start).or(found);
            }
            _ => break,
        }
    }
    found
}
