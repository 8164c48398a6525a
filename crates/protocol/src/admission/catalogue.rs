//! What a log holds for a party that acts on it: open recipes, key sets and results, with their
//! proofs.
//!
//! Entries of an unknown kind are skipped: a later version of the format may add kinds. Leaves to
//! others: whether to believe any of it ([`super::Assessments`] proves each offer).

use std::collections::BTreeMap;

use sotto_crypto::note;
use sotto_wire::recipe::{KeySet, Recipe, Signer};
use sotto_wire::{Checkpoint, Entry, EntryContent, EntryId, KeyName, Role, TlogProof, VerifierKey};

use super::{Check, Evidence, Offer, Silence, View};
use crate::log::{Fetch, Reader, ReaderError};
use crate::trust::Trust;

/// How many entries are read at once.
const STEP: u64 = 1_024;

/// How many entries one call reads: a tree may claim any size, and a call must end.
const MAX_READ: u64 = 1 << 17;

/// How many open recipes and results are kept, each. Far more than a device can pay for.
const MAX_LISTED: usize = 10_000;

/// How many key sets of one operator are kept: a new one every day for five years. What one
/// operator publishes takes no room from another.
const MAX_KEY_SETS: usize = 2_000;

/// What has been read of a log.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    scanned: u64,
    recipes: BTreeMap<EntryId, Listed>,
    /// The newest round of each series, by its header: its index and its id.
    rounds: BTreeMap<EntryId, (u64, EntryId)>,
    /// By operator, in log order. All of them are kept, because the spacing between them matters.
    key_sets: BTreeMap<KeyName, Vec<(KeySet, Listed)>>,
    results: BTreeMap<EntryId, Listed>,
}

#[derive(Debug)]
struct Listed {
    index: u64,
    entry: Vec<u8>,
    /// When it stops being relevant.
    until: u64,
    /// The proof against the first checkpoint that covered it, which never changes.
    first: Option<TlogProof>,
}

impl Catalogue {
    /// Reads entries that were added since the last call, up to the limit of one call, and drops
    /// what ended before `time`. Returns whether everything has been read.
    ///
    /// `time` is the witnessed time: a clock that jumps must not make a party forget what is open.
    pub(super) fn refresh<F: Fetch>(
        &mut self,
        reader: &mut Reader<F>,
        tree: &Checkpoint,
        time: u64,
        trust: &Trust,
    ) -> Result<bool, ReaderError> {
        let end = tree.size.min(self.scanned.saturating_add(MAX_READ));
        while self.scanned < end {
            let to = end.min(self.scanned.saturating_add(STEP));
            for (entry, index) in
                reader.entries(self.scanned..to, tree)?.into_iter().zip(self.scanned..)
            {
                self.list(index, entry, trust);
            }
            self.scanned = to;
        }
        self.recipes.retain(|_, listed| listed.until > time);
        self.rounds.retain(|_, (_, newest)| self.recipes.contains_key(newest));
        Ok(self.scanned >= tree.size)
    }

    /// How many entries have been read.
    pub(super) fn scanned(&self) -> u64 {
        self.scanned
    }

    /// The open recipes.
    pub(super) fn recipes(&self) -> impl Iterator<Item = EntryId> {
        self.recipes.keys().copied()
    }

    /// An open recipe.
    pub(super) fn recipe(&self, id: &EntryId) -> Option<Recipe> {
        Entry::parse(&self.recipes.get(id)?.entry).ok()?.recipe().cloned()
    }

    /// A recipe with everything else that must be proved with it, in the tree of `view`. Whatever
    /// is missing fails the check that needs it.
    pub(super) fn offer<F: Fetch>(
        &mut self,
        id: &EntryId,
        reader: &mut Reader<F>,
        view: &View,
        trust: &Trust,
    ) -> Result<Offer, Silence> {
        let missing =
            || Silence::new(Check::Inclusion, format!("the log holds no open recipe {id}"));
        let recipe = self.recipe(id).ok_or_else(missing)?;
        let header = match recipe.round() {
            None => None,
            Some(round) => {
                let series = recipe.series_id();
                self.check_newest(&series, id, round.index)?;
                let header = self.recipes.get_mut(&series).ok_or_else(|| {
                    let reason = format!("the log holds no open header {series}");
                    Silence::new(Check::Round, reason)
                })?;
                Some(header.prove(reader, view)?)
            }
        };
        let proved = self.recipes.get_mut(id).ok_or_else(missing)?.prove(reader, view)?;
        let leader_keys = self.key_set(&recipe.parties.leader.operator, reader, view, trust)?;
        let helper_keys = self.key_set(&recipe.parties.helper.operator, reader, view, trust)?;
        // Another issuer's keys are useless: the recipe is rejected because of its issuer.
        let mut issuer_keys = |role| {
            let issuer = trust.pinned_issuer(&recipe, role);
            issuer.map(|issuer| self.key_set(issuer, reader, view, trust)).transpose()
        };
        let leader_issuer_keys = issuer_keys(Role::Leader)?;
        let helper_issuer_keys = issuer_keys(Role::Helper)?;
        let certified = match &recipe.who.targeting {
            None => None,
            Some(targeting) => {
                let id = targeting.certified;
                let missing =
                    || Silence::new(Check::Targeting, format!("the log holds no result {id}"));
                let listed = self.results.get_mut(&id).ok_or_else(missing)?;
                Some(listed.prove(reader, view)?)
            }
        };
        Ok(Offer {
            recipe: proved,
            header,
            leader_keys,
            helper_keys,
            leader_issuer_keys,
            helper_issuer_keys,
            certified,
        })
    }

    /// Of two rounds with one number, and of rounds out of order, all parties follow the same one:
    /// whichever the log held first.
    fn check_newest(&self, series: &EntryId, id: &EntryId, index: u64) -> Result<(), Silence> {
        match self.rounds.get(series) {
            Some((_, newest)) if newest == id => Ok(()),
            newest => {
                let newest = newest.map_or(0, |(newest, _)| *newest);
                let reason = format!("it is round {index}, and there was round {newest} before");
                Err(Silence::new(Check::Round, reason))
            }
        }
    }

    /// The key set of a pinned operator that is in force.
    ///
    /// The choice depends only on what the operator signed and the log holds. Of the sets in log
    /// order, those count that have a higher number than the one before and come into force long
    /// enough after it. The last of these that has begun is chosen, so all devices with the same
    /// view choose the same set. If it has ended or cannot be proved, there is none: falling back
    /// would let the log or the operator sort devices by what they were shown.
    pub(super) fn key_set<F: Fetch>(
        &mut self,
        operator: &KeyName,
        reader: &mut Reader<F>,
        view: &View,
        trust: &Trust,
    ) -> Result<Evidence, Silence> {
        let pinned = trust.pinned_operator(operator)?;
        let (mut last, mut chosen): (Option<(u64, u64)>, _) = (None, None);
        let listed = self.key_sets.get_mut(operator).into_iter().flatten();
        for (set, listed) in listed.filter(|(set, _)| set.operator.is(pinned)) {
            let follows = last.is_none_or(|(seq, not_before)| {
                let earliest = not_before.saturating_add(trust.settings().min_key_set_spacing_s);
                set.seq > seq && set.not_before >= earliest
            });
            if follows {
                last = Some((set.seq, set.not_before));
                if set.not_before <= view.time() {
                    chosen = Some((set.not_after, listed));
                }
            }
        }
        match chosen {
            Some((not_after, chosen)) if not_after > view.time() => chosen.prove(reader, view),
            _ => {
                let reason = format!("the operator {operator} has no key set in force");
                Err(Silence::new(Check::KeySets, reason))
            }
        }
    }

    /// Forgets proofs that may have been read wrongly, so that they are read again.
    pub(super) fn forget_proofs(&mut self) {
        let key_sets = self.key_sets.values_mut().flatten().map(|(_, listed)| listed);
        let others = self.recipes.values_mut().chain(self.results.values_mut());
        key_sets.chain(others).for_each(|listed| listed.first = None);
    }

    /// Lists what this party may act on: entries signed by parties that it trusts. Anything else in
    /// the log costs no memory.
    fn list(&mut self, index: u64, bytes: Vec<u8>, trust: &Trust) {
        let Ok(entry) = Entry::parse(&bytes) else { return };
        let listed = |until| Listed { index, entry: bytes, until, first: None };
        let signed = |key: &VerifierKey| note::verify(entry.note(), key).is_ok();
        let by_operator = |signer: &Signer| {
            trust.operator(&signer.name).is_some_and(|key| signer.is(key) && signed(key))
        };
        match entry.content() {
            EntryContent::Recipe(recipe) => {
                let listens = trust.check_author(&recipe.author).is_ok();
                if listens && self.recipes.len() < MAX_LISTED && signed(&recipe.author.verifier()) {
                    let closes = recipe.open_times().closes;
                    self.recipes.entry(entry.id()).or_insert(listed(closes));
                    if let Some(round) = recipe.round() {
                        self.list_round(recipe.series_id(), round.index, entry.id());
                    }
                }
            }
            EntryContent::KeySet(set) => {
                let name = &set.operator.name;
                let room = self.key_sets.get(name).is_none_or(|sets| sets.len() < MAX_KEY_SETS);
                if room && by_operator(&set.operator) {
                    let sets = self.key_sets.entry(name.clone()).or_default();
                    sets.push((set.clone(), listed(u64::MAX)));
                }
            }
            EntryContent::Result(result) => {
                let certified = by_operator(&result.leader) && by_operator(&result.helper);
                if self.results.len() < MAX_LISTED && certified {
                    self.results.entry(entry.id()).or_insert(listed(u64::MAX));
                }
            }
            // For auditors: nothing that is served or answered depends on it.
            EntryContent::Receipt(_) => {}
        }
    }

    /// A newer round replaces the one before it.
    fn list_round(&mut self, series: EntryId, index: u64, id: EntryId) {
        match self.rounds.get(&series) {
            Some((newest, _)) if *newest >= index => {}
            _ => {
                if let Some((_, replaced)) = self.rounds.insert(series, (index, id)) {
                    self.recipes.remove(&replaced);
                }
            }
        }
    }
}

impl Listed {
    fn prove<F: Fetch>(
        &mut self,
        reader: &mut Reader<F>,
        view: &View,
    ) -> Result<Evidence, Silence> {
        let unread = |error: ReaderError| Silence::new(Check::Inclusion, error.to_string());
        let first = match &self.first {
            Some(first) => first.clone(),
            None => {
                let checkpoint = reader.first_checkpoint(self.index).map_err(unread)?;
                let first = reader.proof(self.index, &checkpoint).map_err(unread)?;
                self.first.insert(first).clone()
            }
        };
        let inclusion = reader.inclusion(self.index, view.checkpoint().size).map_err(unread)?;
        Ok(Evidence { entry: self.entry.clone(), index: self.index, inclusion, first })
    }
}
