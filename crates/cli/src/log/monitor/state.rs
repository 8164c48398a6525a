//! What a monitor remembers about a log: enough to notice reused names, sequence numbers that go
//! back, and changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sotto_crypto::note;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Silence, check_url};
use sotto_protocol::log::Misbehaviour;
use sotto_protocol::recipe::{Assessment, show_micro};
use sotto_protocol::trust::Trust;
use sotto_wire::{
    Entry, EntryContent, HpkeConfig, KeyName, KeySet, Note, PopulationResult, Recipe,
};

use super::alerts::Report;
use crate::log::fork::SignedTree;
use crate::private_file;
use crate::recipe::describe;

/// The state of a monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorState {
    size: u64,
    checkpoint: Option<String>,
    /// Entries of recipes by author key and name: the whole entry, because it may become evidence.
    recipes: BTreeMap<String, String>,
    /// The name of the newest recipe of each author, by key.
    newest: BTreeMap<String, String>,
    /// The key sets of each pinned operator, in ascending order. Expired ones are dropped when a
    /// newer one arrives.
    key_sets: BTreeMap<String, Vec<KeySet>>,
}

/// A new entry, how to judge it, and where to report it.
struct News<'a> {
    index: u64,
    entry: &'a Entry,
    trust: &'a Trust,
    report: &'a mut Report,
}

impl MonitorState {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = private_file::read(path)?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    pub(super) fn keep(&self, path: &Path) -> Result<()> {
        private_file::write(path, &serde_json::to_string(self)?, true)
    }

    /// The number of entries read so far.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The last accepted checkpoint.
    pub(super) fn checkpoint(&self) -> Result<Option<SignedTree>> {
        let Some(text) = &self.checkpoint else { return Ok(None) };
        let tree = Note::parse(text.as_bytes()).map_err(Into::into).and_then(SignedTree::new);
        tree.map(Some).context("the remembered checkpoint is damaged")
    }

    pub(super) fn believe(&mut self, checkpoint: &Note) {
        self.checkpoint = String::from_utf8(checkpoint.to_bytes()).ok();
    }

    /// The aggregators of recipes that have not closed: their addresses and operators.
    pub(super) fn aggregators(&self, now: Moment) -> BTreeSet<(String, KeyName)> {
        let open = self.recipes.values().filter_map(|entry| recipe(entry));
        open.filter(|recipe| recipe.when.closes > now.0)
            .flat_map(|recipe| [recipe.parties.leader, recipe.parties.helper])
            .map(|aggregator| (aggregator.url, aggregator.operator))
            .collect()
    }

    /// The keys in an operator's key sets that have not expired.
    pub(super) fn logged_keys(&self, operator: &KeyName, now: Moment) -> Vec<HpkeConfig> {
        let sets = self.key_sets.get(operator.as_str()).map(Vec::as_slice).unwrap_or_default();
        let in_force = sets.iter().filter(|set| set.not_after > now.0);
        in_force.flat_map(|set| set.configs().unwrap_or_default()).collect()
    }

    /// Reads the next entry.
    pub(super) fn read_entry(&mut self, bytes: &[u8], trust: &Trust, report: &mut Report) {
        let index = self.size;
        self.size += 1;
        let entry = match Entry::parse(bytes) {
            Ok(entry) => entry,
            Err(error) => {
                report.alert(format!("{index}: an entry that cannot be parsed: {error}"), None);
                return;
            }
        };
        let news = &mut News { index, entry: &entry, trust, report };
        match entry.content() {
            EntryContent::Recipe(recipe) => self.read_recipe(recipe, news),
            EntryContent::KeySet(set) => self.read_key_set(set, news),
            EntryContent::Result(result) => read_result(result, news),
        }
    }

    fn read_recipe(&mut self, recipe: &Recipe, news: &mut News<'_>) {
        let News { index, entry, trust, report } = news;
        let (name, author) = (&recipe.name, &recipe.author);
        let head = format!("{index}: recipe {name} by {}", author.name);
        if let Err(error) = note::verify(entry.note(), &author.verifier()) {
            report.alert(format!("{head}: {error}"), None);
            return;
        }
        let bytes = String::from_utf8_lossy(&entry.to_bytes()).into_owned();
        let judged = match Assessment::new(recipe.clone()) {
            Err(silence) => {
                let proof = Misbehaviour::BadRecipe { entry: bytes.clone() };
                report.alert(format!("{head}: {silence}"), Some(proof));
                "it cannot be answered".to_owned()
            }
            Ok(assessment) => {
                let cost = assessment.cost().map(|cost| show_micro(cost.epsilon_micro));
                let cost =
                    cost.map_or("no privacy promised".to_owned(), |e| format!("epsilon {e}"));
                let checked = self.check_urls(recipe).and_then(|()| trust.check_token_keys(recipe));
                match checked.and_then(|()| assessment.check_limits(trust)) {
                    Ok(()) => cost,
                    Err(silence) => format!("{cost}; devices stay silent: {silence}"),
                }
            }
        };
        report.news(format!("{head}: {judged}, minimum batch {}", recipe.aggregation.min_batch));
        self.compare(&head, recipe, report);
        let key = format!("{}/{name}", author.key);
        match self.recipes.get(&key) {
            Some(other) if *other != bytes && self::recipe(other).as_ref() != Some(recipe) => {
                let proof = Misbehaviour::NameReuse { one: other.clone(), other: bytes };
                report.alert(format!("{head}: the name was used for another recipe"), Some(proof));
            }
            _ => {
                self.recipes.insert(key.clone(), bytes);
                self.newest.insert(author.key.to_string(), key);
            }
        }
    }

    /// Compares the URLs of the aggregators with those in their newest key sets.
    fn check_urls(&self, recipe: &Recipe) -> Result<(), Silence> {
        [&recipe.parties.leader, &recipe.parties.helper].into_iter().try_for_each(|named| {
            let newest = self.key_sets.get(named.operator.as_str()).and_then(|sets| sets.last());
            newest.map_or(Ok(()), |set| check_url(set.url.as_deref(), named))
        })
    }

    /// Reports what changed since the author's last recipe.
    fn compare(&self, head: &str, recipe: &Recipe, report: &mut Report) {
        let last = self.newest.get(&recipe.author.key.to_string());
        let Some(last) = last.and_then(|key| self.recipes.get(key)).and_then(|e| self::recipe(e))
        else {
            return;
        };
        for change in describe::changes(&last, recipe) {
            report.news(format!("{head}: since {}: {change}", last.name));
        }
    }

    fn read_key_set(&mut self, set: &KeySet, news: &mut News<'_>) {
        let News { index, entry, trust, report } = news;
        let name = &set.operator.name;
        let head = format!("{index}: key set {} of {name}", set.seq);
        let Some(pinned) = trust.operator(name) else {
            report.news(format!("{head}: an operator that the trust file does not pin"));
            return;
        };
        if !set.operator.is(pinned) || note::verify(entry.note(), pinned).is_err() {
            report.alert(format!("{head}: not signed by the pinned key"), None);
            return;
        }
        let kinds = [
            ("HPKE keys", set.configs()),
            ("gateway keys", set.gateway_keys()),
            ("encapsulation keys", set.encapsulation_keys()),
        ];
        let kinds = kinds.map(|(kind, keys)| (kind, keys.unwrap_or_default()));
        let kinds = kinds.iter().filter(|(_, keys)| !keys.is_empty());
        let kinds: Vec<String> =
            kinds.map(|(kind, keys)| format!("{kind} {}", ids(keys))).collect();
        let kinds = [kinds, set.url.iter().map(|url| format!("at {url}")).collect()].concat();
        report.news(format!("{head}: {}", kinds.join("; ")));
        let sets = self.key_sets.entry(name.to_string()).or_default();
        if let Some(last) = sets.last()
            && set.seq <= last.seq
        {
            report.alert(format!("{head}: key set {} was published before", last.seq), None);
            return;
        }
        let spacing = trust.settings().min_key_set_spacing_s;
        if let Some(last) = sets.last()
            && set.not_before < last.not_before.saturating_add(spacing)
        {
            let words = format!("it begins less than {spacing} s after key set {}", last.seq);
            report.alert(format!("{head}: {words}: devices ignore it"), None);
            return;
        }
        sets.retain(|old| old.not_after > set.not_before);
        sets.push(set.clone());
    }
}

fn read_result(result: &PopulationResult, news: &mut News<'_>) {
    let News { index, entry, trust, report } = news;
    let head = format!("{index}: result for the predicate {:?}", result.predicate);
    for signer in [&result.leader, &result.helper] {
        let Some(pinned) = trust.operator(&signer.name) else {
            let name = &signer.name;
            report.news(format!("{head}: by {name}, whom the trust file does not pin"));
            return;
        };
        // Anyone can make a key with this name.
        if !signer.is(pinned) || note::verify(entry.note(), pinned).is_err() {
            report.alert(format!("{head}: not signed by the pinned key of {}", signer.name), None);
            return;
        }
    }
    report.news(format!("{head}: {} devices", result.population));
}

fn recipe(entry: &str) -> Option<Recipe> {
    Entry::parse(entry.as_bytes()).ok()?.recipe().cloned()
}

/// The ids of keys, in a form that is easy to compare.
fn ids(keys: &[HpkeConfig]) -> String {
    let ids: Vec<String> = keys.iter().map(|key| key.id().value().to_string()).collect();
    ids.join(", ")
}
