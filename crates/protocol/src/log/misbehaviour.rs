//! Proofs that somebody broke a promise. Anybody can check them without asking anyone.
//!
//! Each holds statements that the culprit itself signed and that cannot all be honest. Whoever
//! finds one publishes it; [`Misbehaviour::check`] needs nothing else. It accuses a key, and says
//! so: anybody can make a key under any name, so whose key it is must be known from elsewhere (a
//! policy, a trust file).

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use sotto_crypto::{merkle, note};
use sotto_wire::recipe::Recipe;
use sotto_wire::{Checkpoint, Entry, Note, TreeHash, VerifierKey};

use super::{Fetch, Reader, ReaderError};
use crate::recipe::Assessment;

/// Statements that cannot all be honest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Misbehaviour {
    /// A log signed two trees, and neither extends the other.
    SplitView {
        /// The log's key, as a vkey.
        log: String,
        /// A signed checkpoint.
        one: String,
        /// Another, of the same size or a larger one.
        other: String,
        /// If `other` is larger: hashes that prove that `other` has, at the size of `one`, a
        /// different root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<ForeignRoot>,
    },
    /// An author signed a recipe whose parameters do not keep its promise, or that has no meaning.
    BadRecipe {
        /// The signed entry.
        entry: String,
    },
    /// An author signed two recipes under one name.
    NameReuse {
        /// A signed entry.
        one: String,
        /// Another.
        other: String,
    },
}

/// Whose key a proof accuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accused {
    /// A log.
    Log(VerifierKey),
    /// The author of a recipe.
    Author {
        /// The author's key.
        key: VerifierKey,
        /// The name of the recipe.
        recipe: String,
    },
}

impl Accused {
    /// The key.
    pub fn key(&self) -> &VerifierKey {
        match self {
            Self::Log(key) | Self::Author { key, .. } => key,
        }
    }
}

/// What the larger of two trees holds at the size of the smaller one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignRoot {
    /// The root at the smaller size, in base64.
    pub root: String,
    /// The consistency proof from it to the larger tree, in base64.
    pub hashes: Vec<String>,
}

impl Misbehaviour {
    /// Makes a proof from two views that a log gave, if they contradict each other. Views of
    /// different sizes need `proof`. An error says why this proves nothing.
    pub fn split_view(
        log: &VerifierKey,
        one: &Note,
        other: &Note,
        proof: Option<ForeignRoot>,
    ) -> Result<Self, String> {
        let (one, other) = (text(one), text(other));
        let found = Self::SplitView { log: log.to_string(), one, other, proof };
        found.check().map(|_| found)
    }

    /// Whose key is accused. Only [`Self::check`] says whether that is right. An error says why this
    /// accuses nobody.
    pub fn accused(&self) -> Result<Accused, String> {
        match self {
            Self::SplitView { log, .. } => log_key(log).map(Accused::Log),
            Self::BadRecipe { entry } | Self::NameReuse { one: entry, .. } => {
                let (recipe, key) = signed_recipe(entry)?;
                Ok(Accused::Author { key, recipe: recipe.name })
            }
        }
    }

    /// Checks every signature, and that the statements contradict each other. Returns the
    /// accusation as text; an error says why this proves nothing.
    pub fn check(&self) -> Result<String, String> {
        match self {
            Self::SplitView { log, one, other, proof } => {
                check_split(log, one, other, proof.as_ref())
            }
            Self::BadRecipe { entry } => {
                let (recipe, author) = signed_recipe(entry)?;
                match Assessment::at_best(recipe) {
                    Ok(_) => Err("the recipe keeps its promise".to_owned()),
                    Err(silence) => {
                        Ok(format!("the author key {author} signed a recipe that fails: {silence}"))
                    }
                }
            }
            Self::NameReuse { one, other } => {
                let (one, author) = signed_recipe(one)?;
                let (other, _) = signed_recipe(other)?;
                if one.author.key != other.author.key || one.name != other.name {
                    return Err("the recipes have different authors or names".to_owned());
                }
                if one.id() == other.id() {
                    return Err("both are the same recipe".to_owned());
                }
                let number = |recipe: &Recipe| recipe.round().map(|round| round.index);
                if one.series_id() == other.series_id() && number(&one) != number(&other) {
                    return Err("both belong to one series".to_owned());
                }
                Ok(format!("the author key {author} signed two recipes named {}", one.name))
            }
        }
    }
}

/// How two trees that a log signed relate to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The larger tree begins with the smaller one.
    Extends,
    /// Neither extends the other, and this is proved: by the two checkpoints alone if they have the
    /// same size, otherwise together with this value. Given the notes, the smaller one first,
    /// [`Misbehaviour::split_view`] turns it into a proof that anybody can check.
    Split(Option<ForeignRoot>),
    /// The files belong to a different tree than the larger checkpoint. They are not signed, and
    /// somebody on the path may have changed them, so nothing is proved either way.
    Unproved,
}

/// Compares two checkpoints, in either order. The files are read only if the sizes differ; they
/// must be those of the larger tree. The caller must know that the log signed both. Unless the
/// trees fit, the reader forgets what it read.
pub fn compare<F: Fetch>(
    reader: &mut Reader<F>,
    one: &Checkpoint,
    other: &Checkpoint,
) -> Result<Comparison, ReaderError> {
    let (small, large) = if one.size <= other.size { (one, other) } else { (other, one) };
    if small.origin != large.origin {
        return Ok(Comparison::Unproved);
    }
    if small.size == large.size {
        return Ok(match small.root == large.root {
            true => Comparison::Extends,
            false => Comparison::Split(None),
        });
    }
    if small.size == 0 {
        return Ok(Comparison::Extends);
    }
    let compared = compare_prefix(reader, small, large);
    if !matches!(compared, Ok(Comparison::Extends)) {
        reader.forget();
    }
    compared
}

fn compare_prefix<F: Fetch>(
    reader: &mut Reader<F>,
    small: &Checkpoint,
    large: &Checkpoint,
) -> Result<Comparison, ReaderError> {
    let (from, to) = (small.size, large.size);
    let hashes = reader.consistency(from, to)?;
    let leads_from =
        |root| merkle::verify_consistency(from, root, to, &large.root, &hashes).is_ok();
    if leads_from(&small.root) {
        return Ok(Comparison::Extends);
    }
    let root = reader.root_of_prefix(from, to)?;
    // The hashes prove something only because they lead to the signed root.
    Ok(match root != small.root && leads_from(&root) {
        true => Comparison::Split(Some(ForeignRoot {
            root: root.to_string(),
            hashes: hashes.iter().map(ToString::to_string).collect(),
        })),
        false => Comparison::Unproved,
    })
}

fn log_key(text: &str) -> Result<VerifierKey, String> {
    text.parse().map_err(|error| format!("log key: {error}"))
}

fn check_split(
    log: &str,
    one: &str,
    other: &str,
    proof: Option<&ForeignRoot>,
) -> Result<String, String> {
    let key = log_key(log)?;
    let signed = |note: &str| signed_checkpoint("the checkpoint", note.as_bytes(), &key);
    let (one, other) = (signed(one)?, signed(other)?);
    if one.origin != other.origin {
        return Err("the checkpoints are of different logs".to_owned());
    }
    let Some(proof) = proof else {
        if one.size != other.size || one.root == other.root {
            return Err("the checkpoints do not contradict each other".to_owned());
        }
        return Ok(format!("the log key {key} signed two trees of {} entries", one.size));
    };
    let root: TreeHash = proof.root.parse().map_err(|error| format!("root: {error}"))?;
    let hashes: Result<Vec<TreeHash>, _> = proof.hashes.iter().map(|hash| hash.parse()).collect();
    let hashes = hashes.map_err(|error| format!("proof: {error}"))?;
    merkle::verify_consistency(one.size, &root, other.size, &other.root, &hashes)
        .map_err(|error| format!("proof: {error}"))?;
    if root == one.root {
        return Err("the larger tree extends the smaller one".to_owned());
    }
    Ok(format!(
        "the log key {key} signed a tree of {} entries that does not begin with its tree of {}",
        other.size, one.size
    ))
}

/// The checkpoint in a note that this log's key signed. An error, about `what`, says why it does
/// not count.
pub(super) fn signed_checkpoint(
    what: &str,
    note: &[u8],
    key: &VerifierKey,
) -> Result<Checkpoint, String> {
    let fails = |error: &dyn Display| format!("{what}: {error}");
    let signed = Note::parse(note).map_err(|error| fails(&error))?;
    note::verify(&signed, key).map_err(|error| fails(&error))?;
    let checkpoint = Checkpoint::parse(signed.text()).map_err(|error| fails(&error))?;
    if checkpoint.origin != key.name().as_str() {
        return Err(format!("{what} is of another log"));
    }
    Ok(checkpoint)
}

fn signed_recipe(text: &str) -> Result<(Recipe, VerifierKey), String> {
    let entry = Entry::parse(text.as_bytes()).map_err(|error| format!("entry: {error}"))?;
    let recipe = entry.recipe().ok_or("the entry is not a recipe")?.clone();
    note::verify(entry.note(), &recipe.author.verifier())
        .map_err(|error| format!("entry: {error}"))?;
    let author = recipe.author.verifier();
    Ok((recipe, author))
}

fn text(note: &Note) -> String {
    // Notes are UTF-8: nothing is lost.
    String::from_utf8_lossy(&note.to_bytes()).into_owned()
}
