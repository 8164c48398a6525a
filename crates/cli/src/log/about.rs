//! Which entry of a log something is about.

use serde::{Deserialize, Serialize};
use sotto_protocol::Moment;
use sotto_wire::{Entry, EntryContent, Receipt};

use crate::time_text::show_moment;

/// An entry. Everything is absent where no entry is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) index: Option<u64>,
    /// Who signed it. A result has two operators.
    pub(super) author: Option<String>,
    /// The name of a recipe or of a proof, the number of a key set, the predicate of a result, the
    /// recipe's id of a receipt.
    pub(super) name: Option<String>,
    pub(super) entry_id: Option<String>,
    /// Who runs the server in question, and where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    #[serde(flatten)]
    pub(super) release: Option<Release>,
}

/// What a receipt says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Release {
    pub(super) role: String,
    pub(super) recipe_id: String,
    pub(super) seq: u64,
    /// The times as text, and in seconds.
    pub(super) start: String,
    pub(super) start_s: u64,
    pub(super) end: String,
    pub(super) end_s: u64,
    /// Rounded down to a power of two.
    pub(super) count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) batch_id: Option<String>,
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
            EntryContent::Receipt(receipt) => return Self::receipt(index, receipt),
        };
        Self {
            index: Some(index),
            author: Some(author),
            name: Some(name),
            entry_id: Some(entry.id().to_string()),
            ..Self::default()
        }
    }

    /// The entry at this index, with this receipt.
    pub(super) fn receipt(index: u64, receipt: &Receipt) -> Self {
        let (operator, recipe_id) = (receipt.operator.name.to_string(), receipt.recipe.to_string());
        Self {
            index: Some(index),
            author: Some(operator.clone()),
            name: Some(recipe_id.clone()),
            entry_id: Some(receipt.id().to_string()),
            operator: Some(operator),
            url: None,
            release: Some(Release {
                role: receipt.role.as_str().to_owned(),
                recipe_id,
                seq: receipt.seq,
                start: show_moment(Moment(receipt.start)),
                start_s: receipt.start,
                end: show_moment(Moment(receipt.end)),
                end_s: receipt.end,
                count: receipt.count,
                batch_id: receipt.batch.map(|batch| batch.to_string()),
            }),
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

impl Release {
    /// Interval and count, in words.
    pub(super) fn words(&self) -> String {
        let Self { start, end, count, .. } = self;
        match count {
            1 => format!("{start} to {end}, 1 report"),
            _ => format!("{start} to {end}, {count} to {} reports", count.saturating_mul(2) - 1),
        }
    }
}
