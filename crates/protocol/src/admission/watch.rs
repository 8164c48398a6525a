//! The log as one party follows it: the newest view, and a verdict on every open recipe by the
//! checks that are the same for all.
//!
//! One [`Watch`] serves a whole fleet of simulated devices. Real devices and aggregators each have
//! their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use sotto_wire::recipe::KeySet;
use sotto_wire::{EntryId, KeyName, Role, TreeHash};

use super::catalogue::Catalogue;
use super::{Admitted, Assessments, Check, ProvedKeySet, Silence, View};
use crate::Moment;
use crate::log::{Fetch, Reader, ReaderError};
use crate::recipe::Assessment;
use crate::trust::Trust;

/// The log as one party sees it.
#[derive(Debug)]
pub struct Watch<F> {
    reader: Reader<F>,
    catalogue: Catalogue,
    assessments: Assessments,
    view: Option<View>,
    admitted: BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>,
    /// The newest key set of the operator of the log's gateway, if one is pinned.
    log_gateway: Option<Result<ProvedKeySet, Silence>>,
}

/// Why there is no newer view.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The log has published nothing yet.
    #[error("the log has published no checkpoint yet")]
    Empty,
    /// The log is long and has been read only in part: the next call continues.
    #[error("{read} of the log's {size} entries have been read so far")]
    Behind {
        /// Entries read so far.
        read: u64,
        /// The size of the log.
        size: u64,
    },
    /// Files are missing or malformed: nothing is proved either way.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The log cannot be believed.
    #[error(transparent)]
    Refused(#[from] Silence),
}

impl<F: Fetch> Watch<F> {
    /// Watches the log behind `fetch`.
    pub fn new(fetch: F) -> Self {
        Self {
            reader: Reader::new(fetch),
            catalogue: Catalogue::default(),
            assessments: Assessments::default(),
            view: None,
            admitted: BTreeMap::new(),
            log_gateway: None,
        }
    }

    /// Takes the newest checkpoint and judges every open recipe in it. If this fails, the previous
    /// view and verdicts stay in force.
    pub fn refresh(&mut self, trust: &Trust, now: Moment) -> Result<&View, WatchError> {
        let read = self.read(trust, now);
        // A file that was wrong once must not stay cached: whatever was not proved is read again.
        let refused = self.admitted.values().filter_map(|verdict| verdict.as_ref().err());
        let log_gateway = self.log_gateway.as_ref().and_then(|set| set.as_ref().err());
        let unproved = refused.chain(log_gateway).any(|silence| silence.check == Check::Inclusion);
        let wrong = matches!(read, Err(WatchError::Reader(_) | WatchError::Refused(_)));
        if wrong || unproved {
            self.reader.forget();
            self.catalogue.forget_proofs();
        }
        Ok(self.view.insert(read?))
    }

    fn read(&mut self, trust: &Trust, now: Moment) -> Result<View, WatchError> {
        let note = self.reader.checkpoint()?.ok_or(WatchError::Empty)?;
        let view = View::open(&note.to_bytes(), trust)?;
        self.check_extends(&view)?;
        view.check_fresh(trust, now)?;
        let (tree, time) = (view.checkpoint(), view.time());
        if !self.catalogue.refresh(&mut self.reader, tree, time, trust)? {
            return Err(WatchError::Behind { read: self.catalogue.scanned(), size: tree.size });
        }
        self.admitted.clear();
        let open: Vec<EntryId> = self.catalogue.recipes().collect();
        for id in open {
            let verdict = self.admit(&id, &view, trust);
            self.admitted.insert(id, verdict.map(Arc::new));
        }
        refuse_reused_keys(&mut self.admitted);
        refuse_rounds_without_header(&mut self.admitted);
        let gateway = trust.log_gateway();
        self.log_gateway = gateway.map(|gateway| {
            let (proved, _) = self.prove_key_set(&gateway.operator, &view, trust)?;
            Ok(proved)
        });
        Ok(view)
    }

    /// The newest view.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The open recipes, admitted or not.
    pub fn recipes(&self) -> &BTreeMap<EntryId, Result<Arc<Admitted>, Silence>> {
        &self.admitted
    }

    /// The consistency proof between two sizes. Empty if there is nothing to prove: from the empty
    /// tree, and to one that is not larger.
    pub(crate) fn consistency(&mut self, from: u64, to: u64) -> Result<Vec<TreeHash>, ReaderError> {
        if from == 0 || from >= to {
            return Ok(Vec::new());
        }
        self.reader.consistency(from, to)
    }

    /// The reader, to read single entries.
    pub fn reader(&mut self) -> &mut Reader<F> {
        &mut self.reader
    }

    /// The name of an open recipe.
    pub fn name(&self, id: &EntryId) -> Option<String> {
        self.catalogue.recipe(id).map(|recipe| recipe.name)
    }

    /// The newest key set of a pinned operator that has been in the log long enough: the keys that
    /// devices seal to.
    pub fn key_set(&mut self, operator: &KeyName, trust: &Trust) -> Result<KeySet, Silence> {
        let Some(view) = self.view.clone() else {
            return Err(Silence::new(Check::KeySets, "the log has not been read yet"));
        };
        Ok(self.prove_key_set(operator, &view, trust)?.1)
    }

    /// The newest key set of the operator of the log's gateway.
    pub(crate) fn log_gateway_set(&self) -> Option<&ProvedKeySet> {
        self.log_gateway.as_ref()?.as_ref().ok()
    }

    fn prove_key_set(
        &mut self,
        operator: &KeyName,
        view: &View,
        trust: &Trust,
    ) -> Result<(ProvedKeySet, KeySet), Silence> {
        let evidence = self.catalogue.key_set(operator, &mut self.reader, view, trust)?;
        evidence.verify_key_set(operator, view, trust)
    }

    /// What follows from a recipe that the log holds, whether or not it may be answered. If it was
    /// not admitted, no audience counts as certified.
    pub fn assess(&mut self, id: &EntryId) -> Option<Result<Arc<Assessment>, Silence>> {
        if let Some(Ok(admitted)) = self.admitted.get(id) {
            return Some(Ok(Arc::clone(&admitted.assessment)));
        }
        Some(self.assessments.assess(*id, self.catalogue.recipe(id)?, None))
    }

    fn admit(&mut self, id: &EntryId, view: &View, trust: &Trust) -> Result<Admitted, Silence> {
        let offer = self.catalogue.offer(id, &mut self.reader, view, trust)?;
        self.assessments.admit(&offer, view, trust)
    }

    /// Checks that `new` extends the view that is in force.
    fn check_extends(&mut self, new: &View) -> Result<(), WatchError> {
        let Some(View { checkpoint: old, .. }) = self.view.clone() else { return Ok(()) };
        if old.origin != new.checkpoint.origin {
            let reason = format!("the log {} is now {}", old.origin, new.checkpoint.origin);
            return Err(Silence::new(Check::Consistency, reason).into());
        }
        let proof = self.consistency(old.size, new.checkpoint.size)?;
        Ok(new.check_extends(old.size, &old.root, &proof)?)
    }
}

/// Refuses recipes whose token keys an earlier open recipe already uses. A device gets one token per
/// key, so it could answer only one of them, and the attester would learn which of its requests
/// belong together. An issuer endorses a key for one author: nobody can reserve another author's.
fn refuse_reused_keys(admitted: &mut BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>) {
    let is_no_round = |admitted: &&Arc<Admitted>| admitted.assessment.recipe().round().is_none();
    let mut in_log_order: Vec<Arc<Admitted>> =
        admitted.values().flatten().filter(is_no_round).cloned().collect();
    in_log_order.sort_by_key(|admitted| admitted.index);
    let mut users: BTreeMap<String, EntryId> = BTreeMap::new();
    for recipe in in_log_order {
        let (id, tokens) = (recipe.assessment.id(), &recipe.assessment.recipe().parties.tokens);
        let keys = [Role::Leader, Role::Helper].map(|role| tokens.key(role));
        let keys: Vec<_> = keys.into_iter().flatten().map(|key| &key.public_key).collect();
        match keys.iter().find_map(|key| users.get(*key)) {
            Some(user) => {
                let reason = format!("its token keys belong to the recipe {user}");
                admitted.insert(id, Err(Silence::new(Check::TokenKeys, reason)));
            }
            None => users.extend(keys.into_iter().map(|key| (key.clone(), id))),
        }
    }
}

/// A round is answered with the tokens of its header: where that is refused, so is the round.
fn refuse_rounds_without_header(admitted: &mut BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>) {
    let refused = |round: &Arc<Admitted>| {
        let recipe = round.assessment.recipe();
        let header = recipe.header()?.id();
        match admitted.get(&header) {
            Some(Ok(_)) => None,
            Some(Err(silence)) => Some((recipe.id(), silence.clone())),
            None => Some((recipe.id(), Silence::new(Check::Round, "the header is not open"))),
        }
    };
    let refused: Vec<_> = admitted.values().flatten().filter_map(refused).collect();
    admitted.extend(refused.into_iter().map(|(id, silence)| (id, Err(silence))));
}
