//! What a device remembers, and how it changes. Every step of the device is one [`Change`], made
//! durable before the next step.

use std::collections::BTreeMap;
use std::ops::DerefMut;

use serde::{Deserialize, Serialize};
use sotto_dp::filter::Filter;
use sotto_wire::recipe::{Recipe, Signer};
use sotto_wire::{Checkpoint, EntryId, HpkeConfig, KeyName, TreeHash};

use super::ledger::Ledger;
use super::tokens::{ClientSeed, RecipeTokens, TokenChange};
use crate::recipe::windows::GRACE_S;
use crate::{Moment, base64url};

/// How often a report is sent, whatever the leader says, or if it says nothing.
pub const MAX_SENDS: u32 = 5;

/// How many lines of the device's history are kept, the newest.
pub(super) const MAX_AUDIT_LINES: usize = 1_000;

/// Where a device keeps its state.
///
/// `commit` is atomic and durable. When it returns, the change has been applied. If it fails or
/// never returns, the state is either the old one or the new one, nothing in between.
pub trait DeviceStore {
    /// The state; the default state if none was ever stored.
    fn state(&self) -> &DeviceState;

    /// Makes a change durable, then visible.
    fn commit(&mut self, change: Change) -> Result<(), StateError>;
}

/// Stores behind references and boxes.
impl<S: DerefMut<Target: DeviceStore>> DeviceStore for S {
    fn state(&self) -> &DeviceState {
        (**self).state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        (**self).commit(change)
    }
}

/// A state in memory, for simulated fleets. It does not survive a restart.
#[derive(Clone, Debug, Default)]
pub struct MemoryState(DeviceState);

impl From<DeviceState> for MemoryState {
    fn from(state: DeviceState) -> Self {
        Self(state)
    }
}

impl DeviceStore for MemoryState {
    fn state(&self) -> &DeviceState {
        &self.0
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        self.0.apply(change);
        Ok(())
    }
}

/// Why a state could not be stored or read. The device then does nothing.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// An error of the operating system.
    #[error("the device's state cannot be stored: {0}")]
    Io(#[from] std::io::Error),
    /// What was read is not a valid state.
    #[error("the device's state is damaged: {0}")]
    Damaged(String),
    /// It is sealed and does not open.
    #[error("the device's state does not open: the key is wrong, or the file is damaged")]
    Sealed,
    /// Another process holds it.
    #[error("another process is using the device's state")]
    Locked,
}

/// What a device remembers. It says which recipes were considered, but, once an answer is
/// delivered, not whether they were answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceState {
    /// The newest checkpoint of each log, by its origin.
    pub(super) logs: BTreeMap<String, SeenCheckpoint>,
    /// The newest witnessed time. It never goes backwards.
    pub(super) time: u64,
    /// The end of the period in which this state began. Until then the device answers nothing, and
    /// it never answers a recipe that opened before then.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) silent_until: Option<u64>,
    /// The newest key set of each operator.
    pub(super) key_sets: BTreeMap<KeyName, SeenKeySet>,
    /// Recipes by their author's key and name.
    pub(super) names: BTreeMap<String, EntryId>,
    /// Recipes that were decided and have not ended.
    pub(super) recipes: BTreeMap<EntryId, Considered>,
    /// Series of which a round was decided and that have not ended, by their headers. No state of
    /// an earlier version has any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) series: BTreeMap<EntryId, InSeries>,
    /// What has been spent. Like every field it is required: a state that lost it must not read as
    /// a state that spent nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) ledger: Option<Ledger>,
    /// The device's history.
    pub(super) audit: Vec<AuditLine>,
    /// The seed of the key by which the attester knows this device.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) client_seed: Option<ClientSeed>,
    /// The tokens of recipes that have not ended. A state that lost them would request them again.
    pub(super) tokens: BTreeMap<EntryId, RecipeTokens>,
    /// The newest key of the log's gateway. Optional: without it a device starts again from the
    /// pinned key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) log_gateway: Option<SeenGateway>,
}

/// A gateway key from a proved key set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenGateway {
    /// Who signed the key set, by the key pinned for it.
    pub operator: Signer,
    /// When the key set ends.
    pub not_after: u64,
    /// The gateway's key.
    #[serde(with = "config_text")]
    pub config: HpkeConfig,
}

/// A checkpoint that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenCheckpoint {
    pub(super) size: u64,
    pub(super) root: TreeHash,
}

/// A key set that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenKeySet {
    /// Its sequence number.
    pub seq: u64,
    /// Its id.
    pub id: EntryId,
    /// When it came into force.
    pub not_before: u64,
}

/// A recipe that was decided: considered and charged, or only covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Considered {
    /// After this it cannot be answered, and may be forgotten.
    closes: u64,
    /// What is to be sent, until it is delivered. Without it the device stays silent: the coins
    /// came up tails, it was delivered or given up, or the device crashed in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
}

/// How far this device is in a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InSeries {
    /// After this it may be forgotten.
    pub(super) closes: u64,
    /// Rounds below this number are over for this device.
    pub(super) next: u64,
    /// The last round that was considered.
    pub(super) last: EntryId,
    /// Whether the ledger was charged, which is for all rounds.
    pub(super) is_paid: bool,
    /// In a donation, the secret round in which this device will take part, if it will. Once it is
    /// there nothing is left of it, so that the state does not tell whether it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slot: Option<u64>,
}

/// An answer, or cover, that is not delivered yet.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The report, or as many zeros. It never changes.
    #[serde(with = "base64url")]
    pub report: Vec<u8>,
    /// The encoded task, which says where to send it.
    #[serde(with = "base64url")]
    pub task_configuration: Vec<u8>,
    /// It is not sent before this time.
    #[serde(default)]
    pub from: u64,
    /// How often it was sent.
    #[serde(default)]
    pub sends: u32,
    /// How it gets to the leader; `None` if it goes directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

/// The way of a report through a relay. It is stored, and follows the log whenever that is read, so
/// that sending needs nothing from the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The operator of the leader's gateway.
    pub gateway: KeyName,
    /// The gateway's key.
    #[serde(with = "config_text")]
    pub key: HpkeConfig,
    /// The relays that may carry it.
    pub relays: Vec<String>,
}

impl Pending {
    /// Whether it was sent as often as allowed. A leader that could ask for it again and again
    /// would see when this device is active.
    pub fn is_exhausted(&self) -> bool {
        self.sends >= MAX_SENDS
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// One line of the history: a recipe was considered. It never says whether it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditLine {
    /// When, by the device's clock.
    pub at: u64,
    /// The recipe's id.
    pub recipe: EntryId,
    /// Its name.
    pub name: String,
    /// Its purpose, as stated by its author.
    pub purpose: String,
    /// What the ledger was charged, in micro-units of epsilon; absent if the recipe claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon_micro: Option<u64>,
    /// Why an answer would be the recipe's fallback; absent if it would not be. It is noted before
    /// the coin is tossed, whatever the coin says, and names attributes, never their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// One durable step.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A newer view of a log was accepted.
    Seen {
        /// What the log commits to.
        checkpoint: Checkpoint,
        /// The witnessed time.
        time: u64,
        /// The end of the silent period, if the state is new.
        silent_until: u64,
    },
    /// A recipe was decided: it may be answered, and is paid for, or it is only covered.
    Considered(Box<Consider>),
    /// A coin came up heads: there is an answer, or cover.
    Answered {
        /// The recipe.
        recipe: EntryId,
        /// What to send.
        pending: Pending,
    },
    /// The log's operator logged a new key of the log's gateway.
    LogGateway {
        /// The key set.
        set: SeenKeySet,
        /// What it says about the gateway.
        gateway: SeenGateway,
    },
    /// Tokens: planned, requested, granted or withheld.
    Tokens(TokenChange),
    /// Several steps, of which none has to be durable before another one.
    Together(Vec<Change>),
    /// The leader's gateway has another key, or other relays may be used.
    Rerouted {
        /// The recipe.
        recipe: EntryId,
        /// How the answer gets to the leader now.
        route: Route,
    },
    /// The answer is about to be sent, once more.
    Sending {
        /// The recipe.
        recipe: EntryId,
    },
    /// It was not sent after all: there was no connection.
    NotSent {
        /// The recipe.
        recipe: EntryId,
    },
    /// The leader has the answer, or will never accept it, or it was sent as often as allowed: the
    /// bytes are deleted.
    Delivered {
        /// The recipe.
        recipe: EntryId,
    },
}

/// Everything that considering a recipe changes, in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Consider {
    pub(super) recipe: EntryId,
    /// Its series, if it is a round.
    pub(super) series: Option<(EntryId, InSeries)>,
    /// The round of the series that was considered before.
    pub(super) passed: Option<EntryId>,
    /// Its tokens.
    pub(super) spends: Option<EntryId>,
    pub(super) closes: u64,
    pub(super) name: String,
    pub(super) key_sets: [(KeyName, SeenKeySet); 2],
    /// The ledger after the charge; `None` for a recipe without a claim, or without an answer.
    pub(super) ledger: Option<Ledger>,
    /// `None` if the recipe is not answered, whatever the coin says.
    pub(super) line: Option<AuditLine>,
}

impl DeviceState {
    /// Applies one step.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Seen { checkpoint, time, silent_until } => {
                let seen = SeenCheckpoint { size: checkpoint.size, root: checkpoint.root };
                self.logs.insert(checkpoint.origin, seen);
                self.silent_until.get_or_insert(silent_until);
                self.time = self.time.max(time);
                // What has ended by the witnessed time can never be open again.
                let now = self.time;
                self.recipes.retain(|_, considered| considered.closes > now);
                self.series.retain(|_, series| series.closes > now);
                self.tokens.retain(|_, tokens| !tokens.is_over(now));
            }
            Change::Considered(step) => {
                let step = *step;
                let named = step.series.as_ref().map_or(step.recipe, |(header, _)| *header);
                self.names.insert(step.name, named);
                self.series.extend(step.series);
                self.key_sets.extend(step.key_sets);
                if step.ledger.is_some() {
                    self.ledger = step.ledger;
                }
                // Their report is made from the ticket, or never.
                let spent = step.spends.and_then(|tokens| self.tokens.get_mut(&tokens));
                spent.into_iter().for_each(RecipeTokens::spend);
                // What an earlier round of the series did not send comes too late.
                if let Some(round) = step.passed {
                    self.recipes.remove(&round);
                }
                let considered = Considered { closes: step.closes, pending: None };
                self.recipes.insert(step.recipe, considered);
                self.audit.extend(step.line);
                let excess = self.audit.len().saturating_sub(MAX_AUDIT_LINES);
                self.audit.drain(..excess);
            }
            Change::Answered { recipe, pending } => {
                if let Some(considered) = self.recipes.get_mut(&recipe) {
                    considered.pending = Some(pending);
                }
            }
            Change::LogGateway { set, gateway } => {
                self.key_sets.insert(gateway.operator.name.clone(), set);
                self.log_gateway = Some(gateway);
            }
            Change::Tokens(change) => self.apply_tokens(change),
            Change::Together(changes) => changes.into_iter().for_each(|change| self.apply(change)),
            Change::Rerouted { recipe, route } => {
                if let Some(pending) = self.pending_mut(&recipe) {
                    pending.route = Some(route);
                }
            }
            Change::Sending { recipe } => {
                if let Some(pending) = self.pending_mut(&recipe) {
                    pending.sends = pending.sends.saturating_add(1);
                }
            }
            Change::NotSent { recipe } => {
                if let Some(pending) = self.pending_mut(&recipe) {
                    pending.sends = pending.sends.saturating_sub(1);
                }
            }
            Change::Delivered { recipe } => {
                if let Some(considered) = self.recipes.get_mut(&recipe) {
                    considered.pending = None;
                }
            }
        }
    }

    /// The size up to which this device has seen a log.
    pub fn log_size(&self, origin: &str) -> Option<u64> {
        self.logs.get(origin).map(|seen| seen.size)
    }

    /// The newest witnessed time.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Whether a recipe has been decided.
    pub fn is_considered(&self, recipe: &EntryId) -> bool {
        self.recipes.contains_key(recipe)
    }

    /// Answers and cover that are not delivered yet.
    pub fn pending(&self) -> impl Iterator<Item = (EntryId, &Pending)> {
        self.recipes.iter().filter_map(|(id, considered)| Some((*id, considered.pending.as_ref()?)))
    }

    /// Those to be sent now. After the end of a recipe nobody waits for its answers for long.
    pub fn due(&self, now: Moment) -> impl Iterator<Item = (EntryId, &Pending)> {
        self.recipes.iter().filter_map(move |(recipe, considered)| {
            let pending = considered.pending.as_ref()?;
            let ended = considered.closes.saturating_add(GRACE_S) <= now.0;
            let due = pending.from <= now.0 && !pending.is_exhausted() && !ended;
            due.then_some((*recipe, pending))
        })
    }

    fn pending_mut(&mut self, recipe: &EntryId) -> Option<&mut Pending> {
        self.recipes.get_mut(recipe)?.pending.as_mut()
    }

    /// What has been spent in this period, if anything ever was.
    pub fn ledger(&self) -> Option<&Filter> {
        self.ledger.as_ref().map(|ledger| &ledger.filter)
    }

    /// The odometer: what has been spent in the device's whole life, if anything ever was.
    pub fn lifetime(&self) -> Option<Result<Filter, sotto_dp::Error>> {
        self.ledger.as_ref().map(|ledger| ledger.lifetime(&self.audit))
    }

    /// Whether what was spent in the device's life is stored, if anything was spent. It is not in
    /// states of version 2.
    pub fn has_lifetime(&self) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.lifetime.is_some())
    }

    /// The same state, with what is known of the device's life before there was an odometer.
    pub fn with_lifetime(mut self) -> Result<Self, sotto_dp::Error> {
        let lifetime = self.lifetime().transpose()?;
        if let Some(ledger) = &mut self.ledger {
            ledger.lifetime = lifetime;
        }
        Ok(self)
    }

    /// The device's history, oldest first.
    pub fn audit(&self) -> &[AuditLine] {
        &self.audit
    }
}

/// The key under which a recipe's name is remembered.
pub(super) fn name_key(recipe: &Recipe) -> String {
    format!("{}/{}", recipe.author.key, recipe.name)
}

/// An HPKE configuration in the text form of key sets.
mod config_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use sotto_wire::HpkeConfig;
    use sotto_wire::recipe::KeySet;

    pub(super) fn serialize<S: Serializer>(config: &HpkeConfig, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&KeySet::config_text(config))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HpkeConfig, D::Error> {
        KeySet::parse_config("config", &String::deserialize(from)?).map_err(D::Error::custom)
    }
}
