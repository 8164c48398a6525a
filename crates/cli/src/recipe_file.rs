//! Recipes from files and from the log: TOML written by people, canonical JSON, or a signed entry.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sotto_crypto::blind_rsa::TokenKey;
use sotto_crypto::note;
use sotto_protocol::recipe::{needs_audience, recipe_vdaf};
use sotto_protocol::trust::Trust;
use sotto_wire::recipe::{
    Aggregator, EndorsedKey, KeyDraft, PartiesDraft, RecipeVdaf, TokensDraft, parse_whole, place_of,
};
use sotto_wire::{
    Entry, EntryId, EntryKind, KeyName, KeySet, PublicKey, Recipe, RecipeDraft, Role, Signer,
};

use crate::log_source::{LogArgs, Snapshot};
use crate::output::{Place, WithHint, hinted, pointed};
use crate::private_file::read_bytes;
use crate::{keys, trust_file};

/// The contents of a file.
#[derive(Debug)]
pub(crate) enum Form {
    /// TOML, with its text; author, VDAF, parties and token keys may be missing.
    Draft(Box<RecipeDraft>, String),
    /// Canonical JSON.
    Json(Box<Recipe>),
    /// A signed note, of any kind.
    Entry(Box<Entry>),
}

/// A recipe from any source.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The recipe. Placeholders stand for an author, parties or token keys that the draft does not
    /// have.
    pub(crate) recipe: Recipe,
    /// The signed entry; its author's signature is verified.
    pub(crate) entry: Option<Entry>,
    /// Whether the author is known.
    pub(crate) author_known: bool,
    /// Whether the parties are known.
    pub(crate) parties_known: bool,
    /// Whether the recipe has its token keys, or needs none.
    pub(crate) token_keys_known: bool,
    /// The text that a person wrote.
    pub(crate) text: Option<String>,
    /// Its index in the log that it came from.
    pub(crate) index: Option<u64>,
    /// How many devices are in its certified audience, if that is known.
    pub(crate) audience: Option<u64>,
}

impl Loaded {
    pub(crate) fn complete(recipe: Recipe, entry: Option<Entry>) -> Self {
        Self {
            recipe,
            entry,
            author_known: true,
            parties_known: true,
            token_keys_known: true,
            text: None,
            index: None,
            audience: None,
        }
    }

    /// Whether the id is known: the id of a recipe with placeholders means nothing.
    pub(crate) fn id_known(&self) -> bool {
        self.author_known && self.parties_known && self.token_keys_known
    }
}

/// Options of commands about one recipe.
#[derive(Debug, Args)]
pub(crate) struct RecipeArgs {
    /// A file (TOML, canonical JSON or a signed entry), or the id or name of a recipe in the log.
    #[arg(value_name = "RECIPE")]
    pub(crate) recipe: String,
    /// The trust file of a device: pinned keys, floors, budget.
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) audience: AudienceArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// The audience of a recipe that is not looked up.
#[derive(Debug, Args)]
pub(crate) struct AudienceArgs {
    /// How many devices the result counted that certifies the audience [default: what the log given
    /// with --log says, if the claim depends on it]
    #[arg(long, value_name = "N", value_parser = parse_whole)]
    pub(crate) audience: Option<u64>,
}

impl AudienceArgs {
    /// The audience of `recipe`, if it has one: as given, or from the log where the claim depends
    /// on it.
    pub(crate) fn of(&self, recipe: &Recipe, log: &LogArgs) -> Result<Option<u64>> {
        let Some(targeting) = &recipe.who.targeting else { return Ok(None) };
        if self.audience.is_some() || log.log.is_none() || !needs_audience(recipe) {
            return Ok(self.audience);
        }
        let (_, entry) = log.required(None)?.snapshot(None)?.by_id(&targeting.certified)?;
        let result = entry.result().ok_or_else(|| anyhow!("the log's entry is not a result"));
        Ok(Some(result.context("the audience")?.population))
    }
}

impl RecipeArgs {
    /// The recipe and the trust file.
    pub(crate) fn load(&self) -> Result<(Loaded, Option<Trust>)> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let mut loaded = find(&self.recipe, &self.log, trust.as_ref())?;
        loaded.audience = self.audience.of(&loaded.recipe, &self.log)?;
        Ok((loaded, trust))
    }
}

/// The recipe in a file.
pub(crate) fn load(path: &Path) -> Result<Loaded> {
    read(path)?.loaded().with_context(|| path.display().to_string())
}

/// The recipe that a person specifies: by a file, or by its id or name in a log.
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

/// The entry of a recipe that a person specifies by its id or name in a log. Its signature is not
/// verified.
pub(crate) fn in_log(recipe: &str, snapshot: &mut Snapshot) -> Result<(u64, Entry)> {
    match recipe.parse::<EntryId>() {
        Ok(id) => snapshot.by_id(&id),
        Err(_) => by_name(recipe, snapshot),
    }
}

/// Reads and parses a file.
pub(crate) fn read(path: &Path) -> Result<Form> {
    parse(&read_bytes(path)?).with_context(|| format!("{} cannot be used", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Form> {
    if bytes.starts_with(b"sotto.") {
        return Ok(Form::Entry(Box::new(Entry::parse(bytes)?)));
    }
    if bytes.starts_with(b"{") {
        // A newline that an editor added at the end is not part of the JSON.
        let json = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let hint = "JSON must be canonical (RFC 8785); people write TOML: `sotto recipe new`";
        return Ok(Form::Json(Box::new(Recipe::parse(json).hint(hint)?)));
    }
    let text = std::str::from_utf8(bytes).context("neither TOML, JSON nor a signed entry")?;
    let hint = "docs/recipe-format.md describes the fields; `sotto recipe new` writes an example";
    let draft = RecipeDraft::from_toml(text).map_err(|error| {
        let place = error.place().and_then(|(line, column)| Place::new(text, line, column));
        hinted(pointed(error, place), hint)
    })?;
    // A rule that is broken is reported with its line, which nobody knows later.
    with_stand_ins(draft.clone()).map_err(|error| {
        let (reason, place) = located(text, &error.to_string());
        pointed(anyhow!(reason), place)
    })?;
    Ok(Form::Draft(Box::new(draft), text.to_owned()))
}

/// A reason with the line of the key that it names, and the place of that key.
pub(crate) fn located(text: &str, reason: &str) -> (String, Option<Place>) {
    match place_of(text, reason) {
        Some((line, column)) => (format!("line {line}: {reason}"), Place::new(text, line, column)),
        None => (reason.to_owned(), None),
    }
}

/// The place in the mapping or the predicate that a device's reason is about: `mapping, column 3:
/// ...`.
pub(crate) fn in_expression(recipe: &Recipe, reason: &str) -> Option<Place> {
    let (name, place) = reason.split_once(':')?.0.split_once(", ")?;
    let source = match name {
        "mapping" => recipe.query.mapping(),
        "predicate" => &recipe.who.targeting.as_ref()?.predicate,
        _ => return None,
    };
    place_in(source, place)
}

/// `column 3` or `line 2, column 3` of an expression.
pub(crate) fn place_in(source: &str, place: &str) -> Option<Place> {
    let (line, column) = place.split_once(", ").unwrap_or(("line 1", place));
    let number = |text: &str, name| text.strip_prefix(name)?.trim().parse::<usize>().ok();
    Place::new(source, number(line, "line")?, number(column, "column")?)
}

impl Loaded {
    /// Why a device would refuse the recipe, with the line in the text that a person wrote, and the
    /// place.
    pub(crate) fn located(&self, reason: &str) -> (String, Option<Place>) {
        let (located, place) = located(self.text.as_deref().unwrap_or_default(), reason);
        (located, in_expression(&self.recipe, reason).or(place))
    }
}

/// The parties of a draft that cannot do without any more.
pub(crate) fn parties(draft: &RecipeDraft) -> Result<&PartiesDraft> {
    draft.parties.as_ref().ok_or_else(|| anyhow!(NO_PARTIES)).hint(
        "fill in [parties], which `sotto recipe new` wrote at the end of the file; \
         `sotto demo --recipe FILE` tries the recipe without",
    )
}

/// Why a draft without parties is not a recipe yet.
pub(crate) const NO_PARTIES: &str =
    "[parties] is missing: who runs leader, helper, log and issuers, and the collector's key";

impl Form {
    /// The recipe, with placeholders for what is not known yet.
    pub(crate) fn loaded(self) -> Result<Loaded> {
        match self {
            Self::Draft(draft, text) => {
                let author_known = draft.author.is_some();
                let tokens = draft.tokens();
                let parties_known = tokens.is_some();
                let token_keys_known = tokens.is_some_and(|tokens| tokens.missing_key().is_none());
                let recipe = with_stand_ins(*draft)?;
                Ok(Loaded {
                    author_known,
                    parties_known,
                    token_keys_known,
                    text: Some(text),
                    ..Loaded::complete(recipe, None)
                })
            }
            Self::Json(recipe) => Ok(Loaded::complete(*recipe, None)),
            Self::Entry(entry) => {
                let Some(recipe) = entry.recipe().cloned() else {
                    bail!("the entry holds a {}, not a recipe", kind_words(entry.kind()));
                };
                note::verify(entry.note(), &recipe.author.verifier())
                    .with_context(|| format!("the signature of {}", recipe.author.name))?;
                Ok(Loaded::complete(recipe, Some(*entry)))
            }
        }
    }
}

/// Writes a public file. Replaces an existing one only with `force`.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(anyhow!("{} already exists", path.display()))
            .hint("choose another path with --out, or give --force to replace it");
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The kind of an entry in words.
pub(crate) fn kind_words(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Recipe => "recipe",
        EntryKind::KeySet => "key set",
        EntryKind::Result => "result",
        EntryKind::Receipt => "receipt",
    }
}

/// The recipe of a draft, with placeholders for an author, parties and token keys that it does not
/// have yet.
pub(crate) fn with_stand_ins(mut draft: RecipeDraft) -> Result<Recipe> {
    let author = draft.author.clone().map_or_else(stand_in, Ok)?;
    let expires = draft.when.closes;
    // Has the form of a key, but is not usable as one.
    let [first, second] =
        [TokenKey::from_modulus(&[0xff; 256])?, TokenKey::from_modulus(&[0xef; 256])?];
    if draft.parties.is_none() {
        draft.parties = Some(stand_in_parties()?);
    }
    for (role, stand_in) in [(Role::Leader, first), (Role::Helper, second)] {
        if let Some(key) = draft.token_key_mut(role)
            && let KeyDraft::Missing(issuer) = key
        {
            let stand_in = EndorsedKey::new(issuer.clone(), stand_in.spki(), expires, &[0; 64]);
            *key = KeyDraft::Endorsed(stand_in);
        }
    }
    complete(draft, author)
}

/// The recipe of a draft that lacks no more than its author and its VDAF, which is computed.
pub(crate) fn complete(draft: RecipeDraft, author: Signer) -> Result<Recipe> {
    if let Some(vdaf) = draft.vdaf {
        return Ok(draft.complete(author, vdaf)?);
    }
    let mut recipe = draft.complete(author, RecipeVdaf::Prio3Count)?;
    // Its errors name what the author wrote, not what is computed from it.
    recipe.query.check()?;
    recipe.aggregation.vdaf = recipe_vdaf(&recipe)?;
    recipe.check()?;
    Ok(recipe)
}

/// A placeholder for the author of a draft that is not signed yet. It is never published.
fn stand_in() -> Result<Signer> {
    let name: KeyName = "unsigned".parse()?;
    Ok(Signer { name, key: PublicKey::new([0; 32]) })
}

/// Placeholders for parties that are not known yet. They are never published.
fn stand_in_parties() -> Result<PartiesDraft> {
    let aggregator = |role: &str| {
        let operator = format!("{role}-not-known-yet");
        let url = format!("https://{operator}.example/");
        anyhow::Ok(Aggregator { operator: operator.parse()?, url })
    };
    let issuer = |name: &str| anyhow::Ok(KeyDraft::Missing(name.parse()?));
    Ok(PartiesDraft {
        leader: aggregator("leader")?,
        helper: aggregator("helper")?,
        collector_hpke_config: KeySet::config_text(keys::generate_hybrid(0).config()),
        log: "log-not-known-yet".to_owned(),
        tokens: TokensDraft::RateLimited {
            leader: issuer("leader-issuer-not-known-yet")?,
            helper: issuer("helper-issuer-not-known-yet")?,
        },
    })
}

fn by_name(name: &str, snapshot: &mut Snapshot) -> Result<(u64, Entry)> {
    let entries = snapshot.entries()?;
    // The rounds of a series have the name of their header, which stands for them.
    let of_name = |entry: &Entry| {
        entry.recipe().is_some_and(|recipe| recipe.name == name && recipe.round().is_none())
    };
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
