//! What a device (or an aggregator, which checks recipes as a device would) takes on trust: log and witness keys,
//! operators, floors, budget. One file, pinned with the application; everything else is proved.
//!
//! [`TrustFile`] is the form that people write, [`Trust`] the checked one. A setting that switches a check off is named
//! `insecure_`, and off unless somebody turns it on. The others say how much of something is asked for; whoever pins the file
//! answers for its numbers, and the defaults are what we would pin.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sotto_dp::Adjacency;
use sotto_dp::filter::Budget;
use sotto_wire::recipe::{Probability, PublicKey, Recipe, Signer};
use sotto_wire::{KeyName, KeyType, TlogPolicy, VerifierKey};

use crate::device::{Check, Silence};
use crate::recipe::Assessment;

const DAY_S: u64 = 86_400;

/// The trust file as it is written. Unknown settings are errors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustFile {
    /// Log, witnesses and quorum, in the form of C2SP tlog-policy.
    pub policy: String,
    /// The oldest checkpoint that is believed, in seconds by the device's clock.
    #[serde(default = "max_checkpoint_age_s")]
    pub max_checkpoint_age_s: u64,
    /// How long a recipe, a result or a key set must have been in the log, so that somebody can object.
    #[serde(default = "one_day")]
    pub min_log_age_s: u64,
    /// The least time between two key sets of one operator: faster ones could tell devices apart.
    #[serde(default = "one_day")]
    pub min_key_set_spacing_s: u64,
    /// How old the measurement of a certified audience may be.
    #[serde(default = "max_result_age_s")]
    pub max_result_age_s: u64,
    /// The operators whose aggregators may be named by a recipe.
    pub operators: Vec<PinnedOperator>,
    /// The authors whose recipes are considered; absent, all that the log holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authors: Option<Vec<String>>,
    /// The relays that this device may use.
    #[serde(default)]
    pub relays: Vec<PinnedRelay>,
    /// The smallest crowds and the largest rate.
    #[serde(default)]
    pub floors: Floors,
    /// Attributes that a predicate may read, because they are not sensitive.
    #[serde(default)]
    pub targeting_attributes: BTreeSet<String>,
    /// What may be spent in a period.
    #[serde(default)]
    pub budget: BudgetFile,
    /// Recipes and key sets count at once: anybody who controls the log can aim one at a device before anybody sees it.
    #[serde(default)]
    pub insecure_no_min_age: bool,
    /// Recipes without a claim are answered, and cost nothing.
    #[serde(default)]
    pub insecure_exact: bool,
    /// Reports go to the leader directly, which sees the device's address.
    #[serde(default)]
    pub insecure_direct: bool,
    /// A device without history answers at once: resetting it makes its budget new.
    #[serde(default)]
    pub insecure_fresh_start: bool,
}

impl TrustFile {
    /// A file with nothing but a policy: every setting at its default, no operator pinned.
    pub fn new(policy: impl Into<String>) -> Self {
        Self {
            policy: policy.into(),
            max_checkpoint_age_s: max_checkpoint_age_s(),
            min_log_age_s: one_day(),
            min_key_set_spacing_s: one_day(),
            max_result_age_s: max_result_age_s(),
            operators: Vec::new(),
            authors: None,
            relays: Vec::new(),
            floors: Floors::default(),
            targeting_attributes: BTreeSet::new(),
            budget: BudgetFile::default(),
            insecure_no_min_age: false,
            insecure_exact: false,
            insecure_direct: false,
            insecure_fresh_start: false,
        }
    }
}

/// An operator of aggregators.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedOperator {
    /// Its key in the form `name+hash+key`: it signs key sets and results.
    pub key: String,
}

/// A relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRelay {
    /// Who runs it: another operator than those of leader and helper.
    pub operator: String,
    /// Where it is.
    pub url: String,
}

/// Limits that no recipe may cross.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Floors {
    /// The smallest minimum batch.
    pub min_batch: u64,
    /// The smallest audience: the population of an untargeted recipe, the certified one of a targeted recipe.
    pub min_population: u64,
    /// The largest sampling rate, as `[num, den]`.
    pub max_rate: Probability,
    /// The shortest unit of time: a report carries the unit in which it was made, and a short one would tell when exactly.
    pub min_window_s: u64,
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            min_batch: 1_000,
            min_population: 10_000,
            max_rate: Probability::ONE,
            min_window_s: 600,
        }
    }
}

/// The budget of a period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetFile {
    /// The epsilon of a period.
    pub epsilon: f64,
    /// The delta of a period.
    pub delta: f64,
    /// The length of a period.
    pub period_s: u64,
}

impl Default for BudgetFile {
    /// Epsilon 2 in four weeks.
    fn default() -> Self {
        Self { epsilon: 2.0, delta: 1e-6, period_s: 28 * DAY_S }
    }
}

fn max_checkpoint_age_s() -> u64 {
    7 * DAY_S
}

fn max_result_age_s() -> u64 {
    90 * DAY_S
}

fn one_day() -> u64 {
    DAY_S
}

/// Why a trust file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct TrustError {
    place: &'static str,
    reason: String,
}

/// Checked trust anchors.
#[derive(Clone, Debug)]
pub struct Trust {
    policy: TlogPolicy,
    max_checkpoint_age_s: u64,
    min_log_age_s: u64,
    min_key_set_spacing_s: u64,
    max_result_age_s: u64,
    operators: BTreeMap<KeyName, VerifierKey>,
    authors: Option<BTreeSet<PublicKey>>,
    relays: Vec<(KeyName, String)>,
    floors: Floors,
    targeting_attributes: BTreeSet<String>,
    budget: Budget,
    period_s: u64,
    insecure_exact: bool,
    insecure_direct: bool,
    insecure_fresh_start: bool,
}

impl TryFrom<TrustFile> for Trust {
    type Error = TrustError;

    fn try_from(file: TrustFile) -> Result<Self, TrustError> {
        let at = |place: &'static str| {
            move |reason: &dyn std::fmt::Display| TrustError { place, reason: reason.to_string() }
        };
        let policy = TlogPolicy::parse(&file.policy).map_err(|error| at("policy")(&error))?;
        if policy.logs().is_empty() {
            return Err(at("policy")(&"it names no log"));
        }
        if !policy.requires_witnesses() {
            return Err(at("policy")(
                &"a quorum of witnesses is needed: without one no time is proved",
            ));
        }
        let budget = Budget {
            epsilon: file.budget.epsilon,
            delta: file.budget.delta,
            adjacency: Adjacency::Replace,
        };
        budget.check().map_err(|error| at("budget")(&error))?;
        if file.budget.period_s == 0 {
            return Err(at("budget")(&"period_s must be at least 1"));
        }
        let mut operators = BTreeMap::new();
        for operator in &file.operators {
            let key = ed25519(&operator.key).map_err(|error| at("operators")(&error))?;
            if operators.insert(key.name().clone(), key).is_some() {
                return Err(at("operators")(&"two keys have the same name"));
            }
        }
        let author = |text: &String| Ok(PublicKey::new(*ed25519(text)?.public_key()));
        let authors = file.authors.as_ref().map(|keys| keys.iter().map(author).collect());
        let authors: Option<Result<_, String>> = authors;
        let mut relays = Vec::new();
        for relay in file.relays {
            let name = relay.operator.parse().map_err(|error| at("relays")(&error))?;
            relays.push((name, relay.url));
        }
        let ages = file.min_log_age_s.min(file.min_key_set_spacing_s);
        if ages == 0 && !file.insecure_no_min_age {
            return Err(at("min_log_age_s, min_key_set_spacing_s")(&"0 needs insecure_no_min_age"));
        }
        let aged = |seconds| if file.insecure_no_min_age { 0 } else { seconds };
        Ok(Self {
            policy,
            max_checkpoint_age_s: file.max_checkpoint_age_s,
            min_log_age_s: aged(file.min_log_age_s),
            min_key_set_spacing_s: aged(file.min_key_set_spacing_s),
            max_result_age_s: file.max_result_age_s,
            operators,
            authors: authors.transpose().map_err(|error| at("authors")(&error))?,
            relays,
            floors: file.floors,
            targeting_attributes: file.targeting_attributes,
            budget,
            period_s: file.budget.period_s,
            insecure_exact: file.insecure_exact,
            insecure_direct: file.insecure_direct,
            insecure_fresh_start: file.insecure_fresh_start,
        })
    }
}

fn ed25519(text: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = text.parse().map_err(|error| format!("{text:?}: {error}"))?;
    match key.key_type() {
        KeyType::Ed25519 => Ok(key),
        KeyType::CosignatureV1 => Err(format!("{text:?} is a witness's key")),
    }
}

impl Trust {
    /// Log, witnesses and quorum.
    pub fn policy(&self) -> &TlogPolicy {
        &self.policy
    }

    /// The oldest checkpoint that is believed.
    pub fn max_checkpoint_age_s(&self) -> u64 {
        self.max_checkpoint_age_s
    }

    /// The least time in the log; 0 only with `insecure_no_min_age`.
    pub fn min_log_age_s(&self) -> u64 {
        self.min_log_age_s
    }

    /// The least time between two key sets of one operator.
    pub fn min_key_set_spacing_s(&self) -> u64 {
        self.min_key_set_spacing_s
    }

    /// The budget of a period.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// How old the measurement of a certified audience may be.
    pub fn max_result_age_s(&self) -> u64 {
        self.max_result_age_s
    }

    /// The end of the period that a moment lies in.
    pub fn period_end(&self, time: u64) -> u64 {
        (time / self.period_s + 1).saturating_mul(self.period_s)
    }

    /// The length of a period.
    pub fn period_s(&self) -> u64 {
        self.period_s
    }

    /// The floors.
    pub fn floors(&self) -> &Floors {
        &self.floors
    }

    /// The pinned key of an operator.
    pub fn operator(&self, name: &KeyName) -> Option<&VerifierKey> {
        self.operators.get(name)
    }

    /// The relays that may carry a report of this recipe: run by neither of its aggregators.
    pub fn relays_for<'a>(&'a self, recipe: &'a Recipe) -> impl Iterator<Item = &'a str> {
        let parties = &recipe.parties;
        self.relays
            .iter()
            .filter(|(name, _)| {
                *name != parties.leader.operator && *name != parties.helper.operator
            })
            .map(|(_, url)| url.as_str())
    }

    /// Whether reports go to the leader directly.
    pub fn insecure_direct(&self) -> bool {
        self.insecure_direct
    }

    /// Whether a device without history answers at once.
    pub fn insecure_fresh_start(&self) -> bool {
        self.insecure_fresh_start
    }

    /// Whether recipes of this author are considered.
    pub(crate) fn check_author(&self, author: &Signer) -> Result<(), Silence> {
        match &self.authors {
            Some(authors) if !authors.contains(&author.key) => {
                let reason = format!("the author {} is not on this device's list", author.name);
                Err(Silence::new(Check::AuthorSignature, reason))
            }
            _ => Ok(()),
        }
    }

    /// Leader, helper and relay are three operators, and the first two pinned.
    pub(crate) fn check_operators(&self, recipe: &Recipe) -> Result<(), Silence> {
        let refuse = |reason: String| Err(Silence::new(Check::Operators, reason));
        let (leader, helper) = (&recipe.parties.leader.operator, &recipe.parties.helper.operator);
        for name in [leader, helper] {
            if self.operator(name).is_none() {
                return refuse(format!("the operator {name} is not pinned"));
            }
        }
        let same_key = self.operator(leader).map(VerifierKey::public_key)
            == self.operator(helper).map(VerifierKey::public_key);
        if leader == helper || same_key {
            return refuse("leader and helper are one operator".to_owned());
        }
        if !self.insecure_direct && self.relays_for(recipe).next().is_none() {
            return refuse(
                "every pinned relay is run by the operator of the leader or of the helper"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The smallest batch and audience and the largest rate.
    pub(crate) fn check_floors(&self, assessment: &Assessment) -> Result<(), Silence> {
        let refuse = |reason: String| Err(Silence::new(Check::Floors, reason));
        let (recipe, floors) = (assessment.recipe(), &self.floors);
        let min_batch = recipe.aggregation.min_batch;
        if min_batch < floors.min_batch {
            let floor = floors.min_batch;
            return refuse(format!("a minimum batch of {min_batch} is below the floor of {floor}"));
        }
        if recipe.sampling.rate > floors.max_rate {
            let (rate, cap) = (&recipe.sampling.rate, &floors.max_rate);
            return refuse(format!("the sampling rate {rate} is above the cap of {cap}"));
        }
        let window_s = recipe.when.window_s;
        if window_s < floors.min_window_s {
            let floor = floors.min_window_s;
            return refuse(format!("a window of {window_s} s is below the floor of {floor} s"));
        }
        let population = recipe.who.population;
        if recipe.who.targeting.is_none() && population < floors.min_population {
            let floor = floors.min_population;
            return refuse(format!("a population of {population} is below the floor of {floor}"));
        }
        if assessment.cost().is_none() && !self.insecure_exact {
            return refuse("it claims no privacy, and this device does not allow that".to_owned());
        }
        Ok(())
    }

    /// A predicate reads only what is not sensitive.
    pub(crate) fn check_attributes(&self, assessment: &Assessment) -> Result<(), Silence> {
        let Some(predicate) = assessment.predicate() else { return Ok(()) };
        match predicate.attributes().iter().find(|name| !self.targeting_attributes.contains(*name))
        {
            None => Ok(()),
            Some(name) => {
                let reason = format!("the predicate reads {name}, which is not allowed for that");
                Err(Silence::new(Check::Targeting, reason))
            }
        }
    }
}
