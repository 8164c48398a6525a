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
use sotto_protocol::receipt::audit::Releases;
use sotto_protocol::recipe::{Assessment, needs_audience, show_micro};
use sotto_protocol::trust::Trust;
use sotto_wire::{
    Entry, EntryContent, EntryId, HpkeConfig, KeyName, KeySet, Note, PopulationResult, Recipe,
};

use super::events::{Event, EventKind, Report};
use crate::log::about::About;
use crate::log::findings::Party;
use crate::log::fork::SignedTree;
use crate::private_file;
use crate::recipe::describe;

/// After so many failures of the hook, the other events wait for the next reading.
const MAX_HOOK_FAILURES: usize = 3;

/// The state of a monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorState {
    size: u64,
    checkpoint: Option<String>,
    /// Entries of recipes by author key and name: the whole entry, because it may become evidence.
    pub(super) recipes: BTreeMap<String, String>,
    /// Where a recipe is in `recipes`.
    #[serde(skip)]
    pub(super) ids: BTreeMap<EntryId, String>,
    /// The name of the newest recipe of each author, by key.
    newest: BTreeMap<String, String>,
    /// The key sets of each pinned operator, in ascending order. Expired ones are dropped when a
    /// newer one arrives.
    pub(super) key_sets: BTreeMap<String, Vec<KeySet>>,
    /// The receipts of each recipe.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) receipts: BTreeMap<EntryId, Releases>,
    /// Events that the hook has not accepted yet, in the order in which it gets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<Event>,
}

/// A new entry, how to judge it, and where to report it.
struct News<'a> {
    about: About,
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
        let mut state: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", path.display()))?;
        let ids = state.recipes.iter().map(|(key, entry)| (recipe(entry), key));
        let ids = ids.filter_map(|(recipe, key)| Some((recipe?.id(), key.clone())));
        state.ids = ids.collect();
        Ok(state)
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

    /// Adds events for the hook. What is said of now, and not of an entry, replaces what was said
    /// of it before.
    pub(super) fn queue(&mut self, events: &[Event]) {
        let replaces = |new: &Event, old: &Event| {
            new == old
                || new.about.index.is_none() && new.kind == old.kind && new.about == old.about
        };
        self.pending.retain(|old| !events.iter().any(|new| replaces(new, old)));
        self.pending.extend_from_slice(events);
    }

    /// Gives the pending events to the hook, and returns why it failed. What it does not accept
    /// goes to the end of the queue, for another time. After a few failures, all others wait too.
    pub(super) fn deliver(&mut self, hook: impl Fn(&Event) -> Result<()>) -> Vec<String> {
        let (mut failed, mut failures) = (Vec::new(), Vec::new());
        let mut waiting = std::mem::take(&mut self.pending).into_iter();
        while failures.len() < MAX_HOOK_FAILURES
            && let Some(event) = waiting.next()
        {
            if let Err(error) = hook(&event) {
                failures.push(format!("{error:#}, for: {}", event.words));
                failed.push(event);
            }
        }
        self.pending = waiting.chain(failed).collect();
        failures
    }

    /// How many events the hook has not accepted yet.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
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

    /// Reads the next entry, which was public at this time at the latest.
    pub(super) fn read_entry(
        &mut self,
        bytes: &[u8],
        trust: &Trust,
        time_s: u64,
        report: &mut Report,
    ) {
        let index = self.size;
        self.size += 1;
        let entry = match Entry::parse(bytes) {
            Ok(entry) => entry,
            Err(error) => {
                let words = format!("{index}: an entry that cannot be parsed: {error}");
                report.alert(EventKind::Unreadable, &About::index(index), Some(Party::Log), words);
                return;
            }
        };
        let news = &mut News { about: About::entry(index, &entry), entry: &entry, trust, report };
        match entry.content() {
            EntryContent::Recipe(recipe) => self.read_recipe(recipe, news),
            EntryContent::KeySet(set) => self.read_key_set(set, news),
            EntryContent::Result(result) => read_result(result, news),
            EntryContent::Receipt(receipt) => {
                let News { about, report, .. } = news;
                self.read_receipt(receipt, &entry, about, (trust, time_s), report);
            }
        }
    }

    fn read_recipe(&mut self, recipe: &Recipe, news: &mut News<'_>) {
        let News { about, entry, trust, report } = news;
        let (name, author) = (&recipe.name, &recipe.author);
        let head = format!("{}: recipe {name} by {}", index(about), author.name);
        if let Err(error) = note::verify(entry.note(), &author.verifier()) {
            // A log must not publish what the author did not sign.
            let words = format!("{head}: {error}");
            report.alert(EventKind::Recipe, about, Some(Party::Log), words);
            return;
        }
        let bytes = String::from_utf8_lossy(&entry.to_bytes()).into_owned();
        let judged = match Assessment::at_best(recipe.clone()) {
            Err(silence) => {
                let words = format!("{head}: {silence}");
                report.alert(EventKind::BadRecipe, about, Some(Party::Author), words);
                report.evidence.push(Misbehaviour::BadRecipe { entry: bytes.clone() });
                "it cannot be answered".to_owned()
            }
            Ok(assessment) => {
                let cost = assessment.cost().map(|cost| show_micro(cost.epsilon_micro));
                let cost = match cost {
                    None => "no privacy promised".to_owned(),
                    Some(e) if needs_audience(recipe) => {
                        format!("epsilon {e} or more, which its certified audience decides")
                    }
                    Some(e) => format!("epsilon {e}"),
                };
                let checked = self.check_urls(recipe).and_then(|()| trust.check_token_keys(recipe));
                match checked.and_then(|()| assessment.check_limits(trust)) {
                    Ok(()) => cost,
                    Err(silence) => format!("{cost}; devices stay silent: {silence}"),
                }
            }
        };
        let words = format!("{head}: {judged}, minimum batch {}", recipe.aggregation.min_batch);
        report.news(EventKind::Recipe, about, words);
        // The rounds of a series have one name, and numbers. They do not differ from their header.
        let key = match recipe.round() {
            None => format!("{}/{name}", author.key),
            Some(round) => format!("{}/{name}#{}", author.key, round.index),
        };
        if recipe.round().is_none() {
            self.compare(&head, recipe, about, report);
        }
        match self.recipes.get(&key) {
            Some(other) if *other != bytes && self::recipe(other).as_ref() != Some(recipe) => {
                let words = format!("{head}: the name was used for another recipe");
                report.alert(EventKind::NameReuse, about, Some(Party::Author), words);
                let proof = Misbehaviour::NameReuse { one: other.clone(), other: bytes };
                report.evidence.push(proof);
            }
            _ => {
                self.ids.insert(recipe.id(), key.clone());
                self.recipes.insert(key.clone(), bytes);
                if recipe.round().is_none() {
                    self.newest.insert(author.key.to_string(), key);
                }
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
    fn compare(&self, head: &str, recipe: &Recipe, about: &About, report: &mut Report) {
        let last = self.newest.get(&recipe.author.key.to_string());
        let Some(last) = last.and_then(|key| self.recipes.get(key)).and_then(|e| self::recipe(e))
        else {
            return;
        };
        for change in describe::changes(&last, recipe) {
            let words = format!("{head}: since {}: {change}", last.name);
            report.news(EventKind::Change, about, words);
        }
    }

    fn read_key_set(&mut self, set: &KeySet, news: &mut News<'_>) {
        let News { about, entry, trust, report } = news;
        let name = &set.operator.name;
        let head = format!("{}: key set {} of {name}", index(about), set.seq);
        let kind = EventKind::KeySet;
        let Some(pinned) = trust.operator(name) else {
            let words = format!("{head}: an operator that the trust file does not pin");
            report.news(kind, about, words);
            return;
        };
        // Anyone can make a key with this name, so this speaks against nobody we know.
        if !set.operator.is(pinned) || note::verify(entry.note(), pinned).is_err() {
            report.alert(kind, about, None, format!("{head}: not signed by the pinned key"));
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
        report.news(kind, about, format!("{head}: {}", kinds.join("; ")));
        let sets = self.key_sets.entry(name.to_string()).or_default();
        if let Some(last) = sets.last()
            && set.seq <= last.seq
        {
            let words = format!("{head}: key set {} was published before", last.seq);
            report.alert(kind, about, Some(Party::Operator), words);
            return;
        }
        let spacing = trust.settings().min_key_set_spacing_s;
        if let Some(last) = sets.last()
            && set.not_before < last.not_before.saturating_add(spacing)
        {
            let words = format!("it begins less than {spacing} s after key set {}", last.seq);
            let words = format!("{head}: {words}: devices ignore it");
            report.alert(kind, about, Some(Party::Operator), words);
            return;
        }
        sets.retain(|old| old.not_after > set.not_before);
        sets.push(set.clone());
    }
}

fn read_result(result: &PopulationResult, news: &mut News<'_>) {
    let News { about, entry, trust, report } = news;
    let head = format!("{}: result for the predicate {:?}", index(about), result.predicate);
    let kind = EventKind::Result;
    for signer in [&result.leader, &result.helper] {
        let Some(pinned) = trust.operator(&signer.name) else {
            let name = &signer.name;
            let words = format!("{head}: by {name}, whom the trust file does not pin");
            report.news(kind, about, words);
            return;
        };
        // Anyone can make a key with this name.
        if !signer.is(pinned) || note::verify(entry.note(), pinned).is_err() {
            let words = format!("{head}: not signed by the pinned key of {}", signer.name);
            report.alert(kind, about, None, words);
            return;
        }
    }
    report.news(kind, about, format!("{head}: {} devices", result.population));
}

fn index(about: &About) -> u64 {
    about.index.unwrap_or_default()
}

pub(super) fn recipe(entry: &str) -> Option<Recipe> {
    Entry::parse(entry.as_bytes()).ok()?.recipe().cloned()
}

/// The ids of keys, in a form that is easy to compare.
fn ids(keys: &[HpkeConfig]) -> String {
    let ids: Vec<String> = keys.iter().map(|key| key.id().value().to_string()).collect();
    ids.join(", ")
}
