//! Recipes as files and from the log: TOML as people write it, canonical JSON, or a signed entry.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sotto_crypto::note;
use sotto_protocol::recipe::recipe_vdaf;
use sotto_protocol::trust::Trust;
use sotto_wire::{Entry, EntryId, EntryKind, KeyName, PublicKey, Recipe, RecipeDraft, Signer};

use crate::log_source::{LogArgs, Snapshot};
use crate::output::WithHint;
use crate::trust_file;

/// What a file holds.
#[derive(Debug)]
pub(crate) enum Form {
    /// TOML; author and VDAF may be missing.
    Draft(Box<RecipeDraft>),
    /// Canonical JSON.
    Json(Box<Recipe>),
    /// A signed note, of any kind.
    Entry(Box<Entry>),
}

/// A recipe, however it was given.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The recipe. If the draft names no author, a stand-in is in its place.
    pub(crate) recipe: Recipe,
    /// The signed entry; its author's signature is verified.
    pub(crate) entry: Option<Entry>,
    /// Whether the author, and with it the id, is known.
    pub(crate) author_known: bool,
    /// Its place in the log that it came from.
    pub(crate) index: Option<u64>,
}

/// Options of commands about one recipe.
#[derive(Debug, Args)]
pub(crate) struct RecipeArgs {
    /// A file (TOML, canonical JSON or a signed entry), or the id or name of a recipe in the log.
    #[arg(value_name = "RECIPE")]
    pub(crate) recipe: String,
    /// What a device takes on trust: pinned keys, floors, budget.
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

impl RecipeArgs {
    /// The recipe and the trust file.
    pub(crate) fn load(&self) -> Result<(Loaded, Option<Trust>)> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let loaded = find(&self.recipe, &self.log, trust.as_ref())?;
        Ok((loaded, trust))
    }
}

/// The recipe in a file.
pub(crate) fn load(path: &Path) -> Result<Loaded> {
    read(path)?.loaded().with_context(|| path.display().to_string())
}

/// The recipe that a person names: by a file, or by its id or name in a log.
pub(crate) fn find(recipe: &str, log: &LogArgs, trust: Option<&Trust>) -> Result<Loaded> {
    let path = Path::new(recipe);
    if path.is_file() {
        return load(path);
    }
    let Some(source) = log.source(trust)? else {
        return Err(anyhow!("there is no file {recipe}"))
            .hint("give a file, or --log for the id or name of a recipe in a log");
    };
    let (index, entry) = in_log(recipe, &mut source.snapshot(trust.map(Trust::policy))?)?;
    let mut loaded = Form::Entry(Box::new(entry)).loaded()?;
    loaded.index = Some(index);
    Ok(loaded)
}

/// The entry of a recipe that a person names by its id or name in a log. Its signature is not verified.
pub(crate) fn in_log(recipe: &str, snapshot: &mut Snapshot) -> Result<(u64, Entry)> {
    match recipe.parse::<EntryId>() {
        Ok(id) => snapshot.by_id(&id),
        Err(_) => by_name(recipe, snapshot),
    }
}

/// What the file holds.
pub(crate) fn read(path: &Path) -> Result<Form> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{} cannot be used", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Form> {
    if bytes.starts_with(b"sotto.") {
        return Ok(Form::Entry(Box::new(Entry::parse(bytes)?)));
    }
    if bytes.starts_with(b"{") {
        // An editor's newline at the end is none of the JSON.
        let json = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let hint = "JSON must be canonical (RFC 8785); people write TOML: `sotto recipe new`";
        return Ok(Form::Json(Box::new(Recipe::parse(json).hint(hint)?)));
    }
    let text = std::str::from_utf8(bytes).context("neither TOML, JSON nor a signed entry")?;
    let hint = "docs/recipes.md describes the fields; `sotto recipe new` writes an example";
    Ok(Form::Draft(Box::new(RecipeDraft::from_toml(text).hint(hint)?)))
}

impl Form {
    /// The recipe, with a stand-in for an author that is not known yet.
    pub(crate) fn loaded(self) -> Result<Loaded> {
        match self {
            Self::Draft(draft) => {
                let author_known = draft.author.is_some();
                let author = draft.author.clone().map_or_else(stand_in, Ok)?;
                let vdaf = draft.vdaf.unwrap_or_else(|| recipe_vdaf(&draft.query));
                let recipe = draft.complete(author, vdaf)?;
                Ok(Loaded { recipe, entry: None, author_known, index: None })
            }
            Self::Json(recipe) => {
                Ok(Loaded { recipe: *recipe, entry: None, author_known: true, index: None })
            }
            Self::Entry(entry) => {
                let Some(recipe) = entry.recipe().cloned() else {
                    bail!("the entry holds a {}, not a recipe", kind_words(entry.kind()));
                };
                note::verify(entry.note(), &recipe.author.verifier())
                    .with_context(|| format!("the signature of {}", recipe.author.name))?;
                Ok(Loaded { recipe, entry: Some(*entry), author_known: true, index: None })
            }
        }
    }
}

/// Writes a public file; an existing one is replaced with `force` only.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(anyhow!("{} exists already", path.display()))
            .hint("choose another place with --out, or give --force to replace it");
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The kind of an entry in words.
pub(crate) fn kind_words(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Recipe => "recipe",
        EntryKind::KeySet => "key set",
        EntryKind::Result => "result",
    }
}

/// Holds the author's place in a draft that nobody signed yet. It is never published.
fn stand_in() -> Result<Signer> {
    let name: KeyName = "unsigned".parse()?;
    Ok(Signer { name, key: PublicKey::new([0; 32]) })
}

fn by_name(name: &str, snapshot: &mut Snapshot) -> Result<(u64, Entry)> {
    let entries = snapshot.entries()?;
    let of_name = |entry: &Entry| entry.recipe().is_some_and(|recipe| recipe.name == name);
    let mut found: Vec<(u64, Entry)> =
        entries.into_iter().filter(|(_, entry)| of_name(entry)).collect();
    match found.len() {
        0 => Err(anyhow!("the log has no recipe {name}")),
        1 => found.pop().ok_or_else(|| anyhow!("the log has no recipe {name}")),
        _ => {
            let ids: Vec<String> = found.iter().map(|(_, entry)| entry.id().to_string()).collect();
            Err(anyhow!("the log has {} recipes {name}", ids.len()))
                .hint(format!("give the id of one: {}", ids.join(", ")))
        }
    }
}
