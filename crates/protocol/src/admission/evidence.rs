//! What the log shows, and the proofs that it shows everybody the same.

use std::sync::Arc;

use sotto_crypto::hpke::usable;
use sotto_crypto::{merkle, note};
use sotto_wire::recipe::{Aggregator, KeySet, PopulationResult, Signer};
use sotto_wire::{
    Checkpoint, Entry, EntryId, FormatError, HpkeConfig, KeyName, Note, Role, TlogProof, TreeHash,
};

use super::{Check, Silence};
use crate::recipe::Assessment;
use crate::trust::Trust;
use crate::{MAX_CLOCK_SKEW_S, Moment};

/// The log at one time, signed by a pinned log and cosigned by a quorum of witnesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub(super) checkpoint: Checkpoint,
    /// The witnessed time: a quorum saw the checkpoint at this time or later.
    pub(super) time: u64,
}

/// An entry of the log with its proofs.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The entry's bytes.
    pub entry: Vec<u8>,
    /// Its position in the log.
    pub index: u64,
    /// Its inclusion proof in the current checkpoint.
    pub inclusion: Vec<TreeHash>,
    /// The proof against the first checkpoint that covered it. Its cosignatures prove the entry's
    /// age.
    pub first: TlogProof,
}

/// A recipe with everything else that must be proved with it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The recipe.
    pub recipe: Evidence,
    /// The header of its series, if the recipe is a round.
    pub header: Option<Evidence>,
    /// The newest key set of the leader's operator.
    pub leader_keys: Evidence,
    /// The newest key set of the helper's operator.
    pub helper_keys: Evidence,
    /// The newest key set of the operator that issues the leader's tokens, if the recipe has such
    /// tokens and the issuer is the pinned one.
    pub leader_issuer_keys: Option<Evidence>,
    /// The same for the helper's tokens.
    pub helper_issuer_keys: Option<Evidence>,
    /// The result that certifies the audience of a targeted recipe.
    pub certified: Option<Evidence>,
}

/// A recipe that has passed every check that is the same for all devices.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// What follows from the recipe.
    pub assessment: Arc<Assessment>,
    pub(crate) origin: String,
    /// Its position in the log. Devices consider recipes in this order, which no author can choose.
    pub(crate) index: u64,
    pub(crate) leader: OperatorKeys,
    pub(crate) helper: OperatorKeys,
    /// The keys of the issuer of the leader's tokens, if the recipe has such tokens.
    pub(crate) leader_issuer: Option<OperatorKeys>,
    /// The keys of the issuer of the helper's tokens.
    pub(crate) helper_issuer: Option<OperatorKeys>,
    /// The certified audience of a targeted recipe.
    pub audience: Option<u64>,
    /// From when on it could be admitted: the same time for every device with this trust file.
    pub(crate) known_from: u64,
}

impl Admitted {
    /// The key to seal the leader's share to.
    pub fn leader_config(&self) -> &HpkeConfig {
        &self.leader.config
    }

    /// The key to seal the helper's share to.
    pub fn helper_config(&self) -> &HpkeConfig {
        &self.helper.config
    }

    /// The key of the leader's gateway, to which a request with a report is sealed. `None` only if
    /// reports go to the leader directly.
    pub fn gateway_config(&self) -> Option<&HpkeConfig> {
        self.leader.set.gateway.as_ref()
    }

    /// The issuer's key, to which requests for this aggregator's tokens are sealed. `None` only if
    /// the recipe has no such tokens.
    pub fn encapsulation(&self, role: Role) -> Option<&HpkeConfig> {
        self.issuer(role).map(|issuer| &issuer.config)
    }

    /// The keys of the issuer of this aggregator's tokens, if the recipe has such tokens.
    pub(crate) fn issuer(&self, role: Role) -> Option<&OperatorKeys> {
        match role {
            Role::Leader => self.leader_issuer.as_ref(),
            Role::Helper => self.helper_issuer.as_ref(),
            Role::Client | Role::Collector => None,
        }
    }
}

/// The proved keys of an aggregator or an issuer.
#[derive(Clone, Debug)]
pub(crate) struct OperatorKeys {
    pub(crate) set: ProvedKeySet,
    /// The configuration to which shares, or token requests, are sealed.
    pub(super) config: HpkeConfig,
}

/// A key set whose position in the log has been proved.
#[derive(Clone, Debug)]
pub(crate) struct ProvedKeySet {
    pub(crate) operator: Signer,
    pub(crate) id: EntryId,
    pub(crate) seq: u64,
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
    /// The first usable key of the operator's gateway.
    pub(crate) gateway: Option<HpkeConfig>,
    /// Where the operator's aggregator is.
    pub(super) url: Option<String>,
}

impl View {
    /// Opens a checkpoint, which must be signed by a pinned log and cosigned by a quorum.
    pub fn open(note: &[u8], trust: &Trust) -> Result<Self, Silence> {
        let note = Note::parse(note)
            .map_err(|error| Silence::new(Check::LogKey, format!("checkpoint: {error}")))?;
        let checkpoint = verify_log(&note, trust)?;
        let time = verify_quorum(&note, trust)?.fresh;
        Ok(Self { checkpoint, time })
    }

    /// What the log commits to.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The witnessed time.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Checks that the checkpoint is neither old nor from the future.
    pub(crate) fn check_fresh(&self, trust: &Trust, now: Moment) -> Result<(), Silence> {
        if self.time > now.0.saturating_add(MAX_CLOCK_SKEW_S) {
            let ahead = self.time - now.0;
            let reason = format!("the checkpoint is {ahead} s ahead of this device's clock");
            return Err(Silence::new(Check::Freshness, reason));
        }
        let (age, allowed) =
            (now.0.saturating_sub(self.time), trust.settings().max_checkpoint_age_s);
        if age > allowed {
            let reason = format!("the checkpoint is {age} s old; at most {allowed} s are allowed");
            return Err(Silence::new(Check::Freshness, reason));
        }
        Ok(())
    }

    /// Checks that the log extends a tree that was seen before.
    pub(crate) fn check_extends(
        &self,
        size: u64,
        root: &TreeHash,
        proof: &[TreeHash],
    ) -> Result<(), Silence> {
        let new = &self.checkpoint;
        let refuse = |reason: String| Silence::new(Check::Consistency, reason);
        if new.size < size {
            return Err(refuse(format!("the log has {} entries, but had {size}", new.size)));
        }
        merkle::verify_consistency(size, root, new.size, &new.root, proof)
            .map_err(|error| refuse(format!("the log is not the one seen before: {error}")))
    }
}

impl Evidence {
    /// Parses the entry and proves its position and age. Returns the time by which a quorum had
    /// seen it.
    fn verify(&self, view: &View, trust: &Trust) -> Result<(Entry, u64), Silence> {
        let entry = self.parse()?;
        let first_time = self.verify_position(view, trust)?;
        Ok((entry, first_time))
    }

    /// The entry.
    pub(super) fn parse(&self) -> Result<Entry, Silence> {
        let entry = Entry::parse(&self.entry);
        entry.map_err(|error| Silence::new(Check::Canonical, error.to_string()))
    }

    /// Proves that the log holds the entry, and since when. Returns the time by which a quorum had
    /// seen it.
    pub(super) fn verify_position(&self, view: &View, trust: &Trust) -> Result<u64, Silence> {
        self.verify_inclusion(view)?;
        let first = verify_log(&self.first.checkpoint, trust)?;
        if first.origin != view.checkpoint.origin || self.first.index != self.index {
            return Err(Silence::new(Check::Inclusion, "the first proof is about something else"));
        }
        self.included(&first, &self.first.hashes)?;
        let seen_by = verify_quorum(&self.first.checkpoint, trust)?.proven;
        let age = view.time.saturating_sub(seen_by);
        if age < trust.settings().min_log_age_s {
            let needed = trust.settings().min_log_age_s;
            let reason = format!("it has been in the log for {age} s; {needed} s are needed");
            return Err(Silence::new(Check::MinimumAge, reason));
        }
        Ok(seen_by)
    }

    /// Proves that the log holds the entry.
    pub(super) fn verify_inclusion(&self, view: &View) -> Result<(), Silence> {
        self.included(&view.checkpoint, &self.inclusion)
    }

    fn included(&self, checkpoint: &Checkpoint, hashes: &[TreeHash]) -> Result<(), Silence> {
        let leaf = merkle::leaf_hash(&self.entry);
        merkle::verify_inclusion(&leaf, self.index, checkpoint.size, hashes, &checkpoint.root)
            .map_err(|error| Silence::new(Check::Inclusion, error.to_string()))
    }

    /// Proves a key set that must hold a key to seal to, among `keys`: those of an aggregator are
    /// for shares, those of an issuer for token requests.
    pub(super) fn verify_keys(
        &self,
        name: &KeyName,
        what: &str,
        keys: fn(&KeySet) -> Result<Vec<HpkeConfig>, FormatError>,
        view: &View,
        trust: &Trust,
    ) -> Result<OperatorKeys, Silence> {
        let (proved, set) = self.verify_key_set(name, view, trust)?;
        let refuse = |reason: String| Silence::new(Check::KeySets, format!("{name}: {reason}"));
        let configs = keys(&set).map_err(|error| refuse(error.to_string()))?;
        let config = usable(configs, trust.settings().require_post_quantum).into_iter().next();
        let config = config.ok_or_else(|| refuse(trust.unusable(what)))?;
        Ok(OperatorKeys { set: proved, config })
    }

    /// Proves a key set of the operator `name`, signed by the key pinned for it.
    pub(super) fn verify_key_set(
        &self,
        name: &KeyName,
        view: &View,
        trust: &Trust,
    ) -> Result<(ProvedKeySet, KeySet), Silence> {
        let refuse = |reason: String| Silence::new(Check::KeySets, format!("{name}: {reason}"));
        let pinned = trust.pinned_operator(name)?;
        let (entry, seen_by) =
            self.verify(view, trust).map_err(|silence| refuse(silence.to_string()))?;
        let set = entry.key_set().ok_or_else(|| refuse("the entry is not a key set".to_owned()))?;
        if !set.operator.is(pinned) {
            return Err(refuse("the key set is another operator's".to_owned()));
        }
        note::verify(entry.note(), pinned).map_err(|error| refuse(error.to_string()))?;
        // A set that came into force before it had been public long enough could target some
        // devices.
        let earliest = seen_by.saturating_add(trust.settings().min_log_age_s);
        if set.not_before.saturating_add(MAX_CLOCK_SKEW_S) < earliest {
            let reason = "it came into force before it had been in the log for long enough";
            return Err(refuse(reason.to_owned()));
        }
        let gateway_keys = set.gateway_keys().map_err(|error| refuse(error.to_string()))?;
        let proved = ProvedKeySet {
            operator: set.operator.clone(),
            id: entry.id(),
            seq: set.seq,
            not_before: set.not_before,
            not_after: set.not_after,
            gateway: usable(gateway_keys, trust.settings().require_post_quantum).into_iter().next(),
            url: set.url.clone(),
        };
        Ok((proved, set.clone()))
    }

    /// Proves the result that certifies an audience, signed by two pinned operators.
    pub(super) fn verify_result(
        &self,
        view: &View,
        trust: &Trust,
    ) -> Result<(EntryId, PopulationResult), Silence> {
        let refuse = |reason: String| Silence::new(Check::Targeting, format!("result: {reason}"));
        let (entry, seen_by) =
            self.verify(view, trust).map_err(|silence| refuse(silence.to_string()))?;
        let result =
            entry.result().ok_or_else(|| refuse("the entry is not a result".to_owned()))?.clone();
        for signer in [&result.leader, &result.helper] {
            let pinned = trust
                .operator(&signer.name)
                .filter(|pinned| signer.is(pinned))
                .ok_or_else(|| refuse(format!("the operator {} is not pinned", signer.name)))?;
            note::verify(entry.note(), pinned).map_err(|error| refuse(error.to_string()))?;
        }
        if result.leader.key == result.helper.key {
            return Err(refuse("one operator signed twice".to_owned()));
        }
        // Audiences shrink: devices that ran a version a year ago have moved on.
        let oldest = view.time.saturating_sub(trust.settings().max_result_age_s);
        if result.measured_at < oldest
            || result.measured_at > seen_by.saturating_add(MAX_CLOCK_SKEW_S)
        {
            return Err(refuse(
                "it was measured too long ago, or later than it was logged".to_owned(),
            ));
        }
        Ok((entry.id(), result))
    }
}

/// Checks that a recipe names an operator's aggregator at the URL in the operator's key set. An
/// author who could choose the URL would choose where the leader sends shares and its secret.
pub fn check_url(signed: Option<&str>, named: &Aggregator) -> Result<(), Silence> {
    let (operator, url) = (&named.operator, &named.url);
    let reason = match signed {
        Some(signed) if signed == url => return Ok(()),
        Some(signed) => format!(
            "the recipe names {operator} at {url}, but the operator's key set says {signed}: the author \
             must give exactly this URL"
        ),
        None => format!(
            "the recipe names {operator} at {url}, but the operator's key set has no URL: the operator \
             must publish one with `sotto keys publish --url`"
        ),
    };
    Err(Silence::new(Check::KeySets, reason))
}

fn verify_log(note: &Note, trust: &Trust) -> Result<Checkpoint, Silence> {
    note::verify_log(note, trust.policy())
        .map_err(|error| Silence::new(Check::LogKey, error.to_string()))
}

fn verify_quorum(note: &Note, trust: &Trust) -> Result<note::QuorumTime, Silence> {
    note::quorum(note, trust.policy())
        .map_err(|error| Silence::new(Check::WitnessQuorum, error.to_string()))
}
