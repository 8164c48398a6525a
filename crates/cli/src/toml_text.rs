//! Reads TOML that people write. An unknown key is an error, with a suggestion.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;

use crate::output::{Place, WithHint, pointed};
use crate::private_file;

/// Reads a TOML file. `T` denies unknown fields.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = private_file::read(path)?;
    parse(&text).with_context(|| format!("{} cannot be used", path.display()))
}

/// Parses TOML text. Errors name the line and the problem, and quote names, but no values: they may
/// be secret.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).or_else(|error| {
        let line = error
            .span()
            .map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
        let place = error.span().and_then(|span| place(text, span.start));
        let message = error.message();
        let described = match line {
            Some(line) => anyhow!("line {line}: {message}"),
            None => anyhow!("{message}"),
        };
        let described = pointed(described, place);
        let meant = suggestion(message).map(|name| format!("did you mean `{name}`?"));
        match meant.or_else(|| advice(message).map(str::to_owned)) {
            Some(hint) => Err(described).hint(hint),
            None => Err(described),
        }
    })
}

/// The place at this offset in a line `name = value`, without the value, or in the line of a table.
fn place(text: &str, offset: usize) -> Option<Place> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..)?.lines().next().unwrap_or_default();
    let is_name = |name: &str| {
        let name = name.trim();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let shown = match line.split_once('=') {
        Some((name, _)) if is_name(name) => format!("{name}= ..."),
        None if line.starts_with('[') => line.to_owned(),
        _ => return None,
    };
    let column = text.get(start..offset)?.chars().count().min(shown.chars().count() - 3) + 1;
    Place::new(&shown, 1, column)
}

/// Hints for some messages: a part of the message, and what to do.
const ADVICE: [(&str, &str); 4] = [
    (
        "invalid type: map, expected a sequence",
        "there may be several of these: write the table's name in double brackets, [[...]]",
    ),
    ("is not a public key", "a public key is name+hash+key, as `sotto keys signer` prints it"),
    ("is not a task id", "`sotto task show FILE` shows the id of a task"),
    ("policy: ", "`sotto serve log --print-config` shows an example of a policy"),
];

fn advice(message: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(part, _)| message.contains(part)).map(|(_, advice)| *advice)
}

/// From serde's "unknown field `lisen`, expected one of `listen`, ...": the nearest known name.
fn suggestion(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown ")?.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let (distance, name) =
        quoted.map(|name| (edit_distance(unknown, name), name)).min_by_key(|(d, _)| *d)?;
    (distance <= 1 + unknown.len() / 3).then_some(name)
}

/// The edit distance: insertions, deletions and substitutions.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            *cell = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            diagonal = above;
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::output::{hint_of, place_of};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        #[allow(dead_code)]
        listen: Option<String>,
        #[allow(dead_code)]
        data_dir: Option<String>,
    }

    #[test]
    fn distances() {
        for (a, b, distance) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("listen", "lisen", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn unknown_keys_get_a_suggestion() {
        let message = "unknown field `lisen`, expected `listen` or `data_dir`";
        assert_eq!(suggestion(message), Some("listen"));
        assert_eq!(suggestion("unknown field `qqqqqqq`, expected `listen` or `data_dir`"), None);
        let error = parse::<Settings>("data_dir = \"a\"\ndata_dri = \"b\"\n").unwrap_err();
        let shown = format!("{error:#}");
        assert!(shown.starts_with("line 2: unknown field `data_dri`"), "{shown}");
        assert_eq!(pointer(&error), "data_dri = ...\n^");
    }

    fn pointer(error: &anyhow::Error) -> String {
        place_of(error).unwrap().shown("", 80)
    }

    #[test]
    fn values_are_not_shown() {
        let error = parse::<Settings>("listen = 5150\n").unwrap_err();
        assert_eq!(pointer(&error), "listen = ...\n         ^");
        let error = parse::<Settings>("[tsl]\nkey = \"s3cret\"\n").unwrap_err();
        assert_eq!(pointer(&error), "[tsl]\n ^");
        for odd in ["listen = \"\"\"\ns3cret = x\n", "s3cret\n", "\"s3cret = \"\n"] {
            let error = parse::<Settings>(odd).unwrap_err();
            let shown = place_of(&error).map(|place| place.shown("", 80)).unwrap_or_default();
            assert!(!shown.contains("= x"), "{shown}");
        }
    }

    #[test]
    fn common_slips_get_a_hint() {
        #[derive(Debug, Deserialize)]
        struct Listed {
            #[allow(dead_code)]
            relays: Vec<Settings>,
        }
        let error = parse::<Listed>("[relays]\nlisten = \"a\"\n").unwrap_err();
        assert!(hint_of(&error).unwrap().contains("[[...]]"), "{error:?}");
    }

    #[test]
    fn errors_do_not_quote_the_file() {
        let error = parse::<Settings>("listen = \"s3cret\" x\n").unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
