//! Which entry of a log something is about.

use serde::{Deserialize, Serialize};
use sotto_wire::{Entry, EntryContent};

/// An entry. Everything is absent where no entry is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) index: Option<u64>,
    /// Who signed it. A result has two operators.
    pub(super) author: Option<String>,
    /// The name of a recipe or of a proof, the number of a key set, the predicate of a result.
    pub(super) name: Option<String>,
    pub(super) entry_id: Option<String>,
    /// Who runs the server in question, and where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

impl About {
    /// The entry at this index.
    pub(super) fn entry(index: u64, entry: &Entry) -> Self {
        let (author, name) = match entry.content() {
            EntryContent::Recipe(recipe) => (recipe.author.name.to_string(), recipe.name.clone()),
            EntryContent::KeySet(set) => (set.operator.name.to_string(), set.seq.to_string()),
            EntryContent::Result(result) => {
                let signers = format!("{}, {}", result.leader.name, result.helper.name);
                (signers, result.predicate.clone())
            }
        };
        Self {
            index: Some(index),
            author: Some(author),
            name: Some(name),
            entry_id: Some(entry.id().to_string()),
            ..Self::default()
        }
    }

    /// The entry at this index, of which nothing else is known.
    pub(super) fn index(index: u64) -> Self {
        Self { index: Some(index), ..Self::default() }
    }

    /// No entry, but an operator's server.
    pub(super) fn server(operator: impl ToString, url: &str) -> Self {
        let (operator, url) = (Some(operator.to_string()), Some(url.to_owned()));
        Self { operator, url, ..Self::default() }
    }
}
