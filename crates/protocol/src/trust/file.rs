//! The trust file as people write it, and how it becomes [`Trust`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use sotto_crypto::hpke::{is_supported, usable};
use sotto_dp::Adjacency;
use sotto_dp::filter::Budget;
use sotto_wire::recipe::{KeySet, Probability, PublicKey, check_url};
use sotto_wire::{KeyName, KeyType, TlogPolicy, VerifierKey};

use super::tokens::{TokensFile, token_trust};
use super::{LogGateway, Server, Trust};

const DAY_S: u64 = 86_400;

/// The trust file as it is written. Unknown settings are errors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustFile {
    /// Log, witnesses and quorum, in the form of C2SP tlog-policy.
    pub policy: String,
    /// The maximum age of an accepted checkpoint, in seconds by the device's clock.
    #[serde(default = "max_checkpoint_age_s")]
    pub max_checkpoint_age_s: u64,
    /// How long a recipe, a result or a key set must have been in the log, so that somebody can
    /// object.
    #[serde(default = "one_day")]
    pub min_log_age_s: u64,
    /// The minimum time between two key sets of one operator: faster changes could tell devices
    /// apart.
    #[serde(default = "one_day")]
    pub min_key_set_spacing_s: u64,
    /// How old the measurement of a certified audience may be.
    #[serde(default = "max_result_age_s")]
    pub max_result_age_s: u64,
    /// The operators whose aggregators a recipe may name.
    pub operators: Vec<PinnedOperator>,
    /// The authors whose recipes are considered; if absent, every author in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authors: Option<Vec<String>>,
    /// The relays that this device may use.
    #[serde(default)]
    pub relays: Vec<PinnedServer>,
    /// The gateway through which the log is read; needed by devices that use relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_gateway: Option<LogGatewayFile>,
    /// The issuers and the attesters of tokens; needed for recipes with tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensFile>,
    /// The smallest crowds and the largest rate.
    #[serde(default)]
    pub floors: Floors,
    /// Attributes that a predicate may read, because they are not sensitive.
    #[serde(default)]
    pub targeting_attributes: BTreeSet<String>,
    /// What may be spent in a period, and in a device's life.
    #[serde(default)]
    pub budget: BudgetFile,
    /// Whether everything must be sealed with the hybrid suite, X-Wing: shares, requests to gateways
    /// and requests for tokens. A recipe is refused if one of its parties offers only X25519, which a
    /// later quantum computer opens in recorded traffic. Without this, the hybrid suite is used where
    /// it is offered.
    #[serde(default = "yes")]
    pub require_post_quantum: bool,
    /// Recipes and key sets count immediately: anyone who controls the log can target a device with
    /// one before anybody else sees it.
    #[serde(default)]
    pub insecure_no_min_age: bool,
    /// Recipes without a claim are answered, and cost nothing.
    #[serde(default)]
    pub insecure_exact: bool,
    /// Recipes in which an aggregator counts reports without tokens are answered: anyone who sends
    /// many reports decides the total, and a leader can single out one device's report.
    #[serde(default)]
    pub insecure_no_tokens: bool,
    /// The tokens of both aggregators may come through one attester, or one issuer: it can then
    /// invent all devices of a batch but one, and whoever sees the result learns that one's report.
    #[serde(default)]
    pub insecure_single_attester: bool,
    /// Reports go directly to the leader, which sees the device's address; the log is read directly
    /// too.
    #[serde(default)]
    pub insecure_direct: bool,
    /// A device without history answers immediately: resetting it renews its budget.
    #[serde(default)]
    pub insecure_fresh_start: bool,
}

impl TrustFile {
    /// A file with only a policy: every other setting has its default, and no operator is pinned.
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
            log_gateway: None,
            tokens: None,
            floors: Floors::default(),
            targeting_attributes: BTreeSet::new(),
            budget: BudgetFile::default(),
            require_post_quantum: true,
            insecure_no_min_age: false,
            insecure_exact: false,
            insecure_no_tokens: false,
            insecure_single_attester: false,
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
pub struct PinnedServer {
    /// Who runs it: no operator of another party.
    pub operator: String,
    /// Its operator's key in the form `name+hash+key`. An operator with this key, whatever its name,
    /// is the same operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it is.
    pub url: String,
}

/// The gateway of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogGatewayFile {
    /// Who runs it: one of the pinned operators, which publishes newer keys in the log.
    pub operator: String,
    /// The keys with which a device starts, in the text form of key sets, the preferred one first.
    /// The logged keys replace them once the log has been read.
    pub hpke_configs: Vec<String>,
}

/// Limits that no recipe may cross.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Floors {
    /// How many devices, in total, may be dishonest. A recipe is refused if its minimum batch is
    /// less than twice this: an aggregator chooses which reports are in a batch, so it can put all
    /// dishonest devices into one, and privacy needs half of a batch to be honest.
    pub dishonest_devices: u64,
    /// The smallest audience: the population of an untargeted recipe, the certified audience of a
    /// targeted one.
    pub min_population: u64,
    /// The largest sampling rate, as `[num, den]`.
    pub max_rate: Probability,
    /// The most, as an epsilon, that a relay may learn about an answer from seeing that a device
    /// sends something, or nothing. It learns nothing if the sampling rate does not depend on the
    /// answer, or if every device sends something (cover 1).
    pub max_sending_epsilon: f64,
    /// The shortest unit of time: a report carries the unit in which it was made, and a short unit
    /// would reveal the exact time.
    pub min_window_s: u64,
}

impl Floors {
    /// The smallest minimum batch: at least half of it is honest.
    pub fn min_batch(&self) -> u64 {
        self.dishonest_devices.saturating_mul(2)
    }
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            dishonest_devices: 500,
            min_population: 10_000,
            max_rate: Probability::ONE,
            max_sending_epsilon: 0.1,
            min_window_s: 600,
        }
    }
}

/// The budget of a period, and the cap on a device's whole life. Whichever is reached first counts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetFile {
    /// The epsilon of a period.
    pub epsilon: f64,
    /// The delta of a period.
    pub delta: f64,
    /// The length of a period.
    pub period_s: u64,
    /// The epsilon of everything that a device ever answers. Once it is spent, the device answers
    /// nothing more.
    pub lifetime_epsilon: f64,
    /// The delta of the same.
    pub lifetime_delta: f64,
}

impl BudgetFile {
    fn period(&self) -> Budget {
        let (epsilon, delta) = (self.epsilon, self.delta);
        Budget { epsilon, delta, adjacency: Adjacency::Replace }
    }

    /// The cap on a device's life.
    pub(crate) fn lifetime(&self) -> Budget {
        let (epsilon, delta) = (self.lifetime_epsilon, self.lifetime_delta);
        Budget { epsilon, delta, adjacency: Adjacency::Replace }
    }
}

impl Default for BudgetFile {
    /// Epsilon 2 in four weeks, 10 in a device's life.
    fn default() -> Self {
        Self {
            epsilon: 2.0,
            delta: 1e-6,
            period_s: 28 * DAY_S,
            lifetime_epsilon: 10.0,
            lifetime_delta: 1e-5,
        }
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

fn yes() -> bool {
    true
}

/// Why a trust file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct TrustError {
    place: &'static str,
    reason: String,
}

impl TrustError {
    pub(super) fn at(place: &'static str) -> impl Fn(&dyn Display) -> Self {
        move |reason| Self { place, reason: reason.to_string() }
    }
}

impl TryFrom<TrustFile> for Trust {
    type Error = TrustError;

    fn try_from(mut file: TrustFile) -> Result<Self, TrustError> {
        let ages = file.min_log_age_s.min(file.min_key_set_spacing_s);
        if ages == 0 && !file.insecure_no_min_age {
            let at = TrustError::at("min_log_age_s, min_key_set_spacing_s");
            return Err(at(&"0 needs insecure_no_min_age"));
        }
        if file.insecure_no_min_age {
            (file.min_log_age_s, file.min_key_set_spacing_s) = (0, 0);
        }
        let operators = operators(&file.operators)?;
        let mut keys = operators.clone();
        let log_gateway = file.log_gateway.as_ref();
        let hybrid_only = file.require_post_quantum;
        let log_gateway = log_gateway
            .map(|gateway| log_gateway_of(gateway, hybrid_only, &operators))
            .transpose()?;
        let tokens = file.tokens.as_ref();
        let tokens = tokens.map(|file| token_trust(file, &operators, &mut keys)).transpose()?;
        let relays = file.relays.iter().map(|relay| server("relays", relay, &mut keys));
        let relays = relays.collect::<Result<_, _>>()?;
        let trust = Self {
            policy: policy(&file.policy)?,
            operators,
            keys,
            authors: file.authors.as_deref().map(authors).transpose()?,
            relays,
            log_gateway,
            tokens,
            budget: budget(&file.budget)?,
            settings: checked(file)?,
        };
        trust.check_chains()?;
        let unread = trust.log_gateway.is_some() && trust.log_relays().next().is_none();
        if unread && !trust.settings.insecure_direct {
            return Err(TrustError::at("log_gateway")(
                &"no relay of another operator is pinned under [[relays]]",
            ));
        }
        Ok(trust)
    }
}

/// The settings that have a range and no other form.
fn checked(file: TrustFile) -> Result<TrustFile, TrustError> {
    let cap = file.floors.max_sending_epsilon;
    match cap >= 0.0 && cap.is_finite() {
        true => Ok(file),
        false => Err(TrustError::at("floors")(&"max_sending_epsilon must be 0 or more")),
    }
}

fn policy(text: &str) -> Result<TlogPolicy, TrustError> {
    let at = TrustError::at("policy");
    let policy = TlogPolicy::parse(text).map_err(|error| at(&error))?;
    if policy.logs().is_empty() {
        return Err(at(&"it names no log"));
    }
    if !policy.requires_witnesses() {
        return Err(at(&"a quorum of witnesses is needed: without one no time is proved"));
    }
    Ok(policy)
}

fn budget(file: &BudgetFile) -> Result<Budget, TrustError> {
    let at = TrustError::at("budget");
    let budget = file.period();
    budget.check().map_err(|error| at(&error))?;
    file.lifetime().check().map_err(|error| at(&format!("lifetime: {error}")))?;
    if file.period_s == 0 {
        return Err(at(&"period_s must be at least 1"));
    }
    Ok(budget)
}

fn operators(pinned: &[PinnedOperator]) -> Result<BTreeMap<KeyName, VerifierKey>, TrustError> {
    let at = TrustError::at("operators");
    let mut operators = BTreeMap::new();
    for operator in pinned {
        let key = ed25519(&operator.key).map_err(|error| at(&error))?;
        if operators.insert(key.name().clone(), key).is_some() {
            return Err(at(&"two keys have the same name"));
        }
    }
    Ok(operators)
}

fn authors(keys: &[String]) -> Result<BTreeSet<PublicKey>, TrustError> {
    let at = TrustError::at("authors");
    let author = |text: &String| {
        let key = ed25519(text).map_err(|error| at(&error))?;
        Ok(PublicKey::new(*key.public_key()))
    };
    keys.iter().map(author).collect()
}

/// Reads a relay or an attester. Its operator's key, if given, goes to the others in `keys`.
pub(super) fn server(
    place: &'static str,
    file: &PinnedServer,
    keys: &mut BTreeMap<KeyName, VerifierKey>,
) -> Result<Server, TrustError> {
    let at = TrustError::at(place);
    let named = |error: &dyn Display| at(&format!("{:?}: {error}", file.operator));
    let operator: KeyName = file.operator.parse().map_err(|error| named(&error))?;
    let key = file.key.as_deref().map(ed25519).transpose().map_err(|error| named(&error))?;
    if let Some(key) = key {
        if *key.name() != operator {
            return Err(named(&format!("its key is that of {}", key.name())));
        }
        let known = keys.entry(operator.clone()).or_insert_with(|| key.clone());
        if known.public_key() != key.public_key() {
            return Err(named(&"another key of this operator is pinned elsewhere"));
        }
    }
    check_url("url", &file.url).map_err(|error| at(&format!("{:?}: {error}", file.url)))?;
    Ok(Server { operator, url: file.url.clone() })
}

fn log_gateway_of(
    file: &LogGatewayFile,
    hybrid_only: bool,
    operators: &BTreeMap<KeyName, VerifierKey>,
) -> Result<LogGateway, TrustError> {
    let at = TrustError::at("log_gateway");
    let operator: KeyName =
        file.operator.parse().map_err(|error| at(&format!("{:?}: {error}", file.operator)))?;
    // This operator's signature authenticates the gateway's newer keys.
    if !operators.contains_key(&operator) {
        return Err(at(&format!("the operator {operator} is not pinned")));
    }
    let configs = file.hpke_configs.iter().map(|text| KeySet::parse_config("hpke_configs", text));
    let configs: Vec<_> = configs.collect::<Result<_, _>>().map_err(|error| at(&error))?;
    if !configs.iter().any(is_supported) {
        return Err(at(&"no key of a supported suite"));
    }
    let configs = usable(configs, hybrid_only);
    if configs.is_empty() {
        return Err(at(&"no key of the hybrid suite: pin one (`sotto keys new`), or set \
                        require_post_quantum = false"));
    }
    Ok(LogGateway { operator, configs })
}

fn ed25519(text: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = text.parse().map_err(|error| format!("{text:?}: {error}"))?;
    match key.key_type() {
        KeyType::Ed25519 => Ok(key),
        KeyType::CosignatureV1 => Err(format!("{text:?} is a witness's key")),
    }
}
