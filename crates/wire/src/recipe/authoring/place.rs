//! Where in a text a key is.

use toml::de::{DeTable, DeValue};

use super::AuthoringError;

/// Names by which reasons call a field that has a longer path.
const ALIASES: [(&str, &str); 3] = [
    ("mapping", "query.mapping"),
    ("predicate", "who.targeting.predicate"),
    ("claims", "privacy.epsilon"),
];

/// The line of the first key that a reason names, like `sampling.rate must be above 0`. If the key
/// is not there, the line of the table that lacks it. A key without a table counts only as the
/// first word: `name` and `who` are also plain words.
pub fn line_of(text: &str, reason: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let words = reason.split_whitespace().map(|word| word.trim_matches([':', ',', ';']));
    let offset = words.enumerate().find_map(|(index, word)| {
        let alias = ALIASES.iter().find(|(name, _)| *name == word);
        let path = alias.map_or(word, |(_, path)| path);
        (index == 0 || path.contains('.')).then(|| offset(document.get_ref(), path))?
    })?;
    Some(text.get(..offset)?.matches('\n').count() + 1)
}

/// The error with its line. A missing table belongs at the end.
pub(super) fn placed(error: AuthoringError, text: &str) -> AuthoringError {
    match error {
        AuthoringError::Key { key, reason, .. } => {
            let line = line_of(text, &key).unwrap_or_else(|| text.lines().count().max(1));
            AuthoringError::Key { line, key, reason }
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
