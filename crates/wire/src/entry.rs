//! Entries of the log: signed notes that contain one recipe, key set, result or receipt.
//!
//! The text of the note is `sotto.<kind>/v1` and the canonical JSON, one line each, and nothing
//! else. Entry and content are different things: the log hashes the whole note as a leaf, including
//! its signatures, while the id is the hash of the JSON alone, so that signing twice does not give
//! a second id. `sotto-crypto` verifies signatures.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::limits::MAX_ENTRY_LEN;
use crate::recipe::{KeySet, PopulationResult, Receipt, Recipe};
use crate::{FormatError, Note};

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A recipe, signed by its author.
    Recipe,
    /// The keys of an operator, signed by it.
    KeySet,
    /// A certified population, signed by two operators.
    Result,
    /// What an aggregator released, signed by its operator.
    Receipt,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Recipe, Self::KeySet, Self::Result, Self::Receipt];

    /// The name in the first line of an entry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recipe => "recipe",
            Self::KeySet => "key_set",
            Self::Result => "result",
            Self::Receipt => "receipt",
        }
    }

    /// The first line of an entry.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Recipe => "sotto.recipe/v1",
            Self::KeySet => "sotto.key_set/v1",
            Self::Result => "sotto.result/v1",
            Self::Receipt => "sotto.receipt/v1",
        }
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The SHA-256 of an entry's canonical JSON. As text: lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId([u8; 32]);

impl EntryId {
    /// Its length.
    pub const LEN: usize = 32;

    /// The id with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The id of the content with this canonical JSON.
    pub fn of(json: &[u8]) -> Self {
        Self(Sha256::digest(json).into())
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}

impl FromStr for EntryId {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() {
            return Err(FormatError::new("an entry id is 64 hexadecimal digits"));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().try_fold(0, |value, &digit| Ok(value << 4 | nibble(digit)?))?;
        }
        Ok(Self(bytes))
    }
}

/// Lower case only: each id has a single text form.
fn nibble(digit: u8) -> Result<u8, FormatError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(FormatError::new("an entry id is lower-case hexadecimal")),
    }
}

/// What an entry holds, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    /// A recipe.
    Recipe(Box<Recipe>),
    /// The keys of an operator.
    KeySet(KeySet),
    /// A certified population.
    Result(PopulationResult),
    /// What an aggregator released.
    Receipt(Receipt),
}

/// An entry of the log. Its content follows the rules of its format; its signatures are not yet
/// verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    note: Note,
    kind: EntryKind,
    content: EntryContent,
    id: EntryId,
}

impl Entry {
    /// Parses an entry: at most [`MAX_ENTRY_LEN`] bytes, a signed note, a known kind, canonical
    /// JSON.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_ENTRY_LEN {
            return Err(FormatError::new("an entry has at most 65,535 bytes"));
        }
        Self::from_note(Note::parse(bytes)?)
    }

    /// The entry in this note.
    pub fn from_note(note: Note) -> Result<Self, FormatError> {
        let (kind, json) = split(note.text())?;
        let content = match kind {
            EntryKind::Recipe => EntryContent::Recipe(Box::new(Recipe::parse(json.as_bytes())?)),
            EntryKind::KeySet => EntryContent::KeySet(KeySet::parse(json.as_bytes())?),
            EntryKind::Result => EntryContent::Result(PopulationResult::parse(json.as_bytes())?),
            EntryKind::Receipt => EntryContent::Receipt(Receipt::parse(json.as_bytes())?),
        };
        let id = EntryId::of(json.as_bytes());
        Ok(Self { note, kind, content, id })
    }

    /// The text to sign for an entry of this kind with this canonical JSON.
    pub fn text(kind: EntryKind, json: &str) -> String {
        format!("{}\n{json}\n", kind.header())
    }

    /// The signed note.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// What the entry holds.
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// What the entry holds, decoded.
    pub fn content(&self) -> &EntryContent {
        &self.content
    }

    /// The recipe, if it holds one.
    pub fn recipe(&self) -> Option<&Recipe> {
        match &self.content {
            EntryContent::Recipe(recipe) => Some(recipe),
            _ => None,
        }
    }

    /// The key set, if it holds one.
    pub fn key_set(&self) -> Option<&KeySet> {
        match &self.content {
            EntryContent::KeySet(key_set) => Some(key_set),
            _ => None,
        }
    }

    /// The result, if it holds one.
    pub fn result(&self) -> Option<&PopulationResult> {
        match &self.content {
            EntryContent::Result(result) => Some(result),
            _ => None,
        }
    }

    /// The receipt, if it holds one.
    pub fn receipt(&self) -> Option<&Receipt> {
        match &self.content {
            EntryContent::Receipt(receipt) => Some(receipt),
            _ => None,
        }
    }

    /// The canonical JSON.
    pub fn json(&self) -> &str {
        split(self.note.text()).map_or("", |(_, json)| json)
    }

    /// The hash of the canonical JSON.
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The bytes of the entry, as the log stores and hashes them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.note.to_bytes()
    }
}

/// The kind and the JSON in the text of a note.
fn split(text: &str) -> Result<(EntryKind, &str), FormatError> {
    let (header, rest) =
        text.split_once('\n').ok_or_else(|| FormatError::new("an entry has two lines of text"))?;
    let kind = EntryKind::ALL
        .into_iter()
        .find(|kind| kind.header() == header)
        .ok_or_else(|| FormatError::new("the first line of the entry names no known kind"))?;
    match rest.strip_suffix('\n') {
        Some(json) if !json.contains('\n') => Ok((kind, json)),
        _ => Err(FormatError::new("an entry has two lines of text")),
    }
}
