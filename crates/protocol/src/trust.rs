//! What a device (or an aggregator, which checks recipes as a device would) trusts without proof:
//! log and witness keys, operators, relays, floors, budget. It is one file, pinned with the
//! application; everything else is proved.
//!
//! [`TrustFile`] is the form that people write, [`Trust`] the checked form. A setting that disables
//! a check is named `insecure_` and is off by default. The other settings say how much is required.
//! Whoever pins the file is responsible for its numbers; the defaults are what we would pin.

mod file;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use sotto_dp::filter::Budget;
use sotto_wire::recipe::{PublicKey, Recipe, Signer};
use sotto_wire::{HpkeConfig, KeyName, TlogPolicy, VerifierKey};

pub use self::file::{
    BudgetFile, Floors, LogGatewayFile, PinnedOperator, PinnedServer, TrustError, TrustFile,
};
pub use self::tokens::{Chain, ChainFile, TokenTrust, TokensFile};
use crate::admission::{Check, Silence};
use crate::recipe::{Assessment, sending_epsilon};

/// Checked trust anchors.
#[derive(Clone, Debug)]
pub struct Trust {
    /// What needs no other form than in the file.
    settings: TrustFile,
    policy: TlogPolicy,
    operators: BTreeMap<KeyName, VerifierKey>,
    /// Every pinned key of an operator, those of relays and attesters too: two names with one key
    /// are one operator.
    keys: BTreeMap<KeyName, VerifierKey>,
    authors: Option<BTreeSet<PublicKey>>,
    relays: Vec<Server>,
    log_gateway: Option<LogGateway>,
    tokens: Option<TokenTrust>,
    budget: Budget,
}

/// A relay or an attester.
#[derive(Clone, Debug)]
pub struct Server {
    /// Who runs it.
    pub operator: KeyName,
    /// Where it is.
    pub url: String,
}

/// The gateway of the log, and the keys with which a device starts.
#[derive(Clone, Debug)]
pub struct LogGateway {
    /// Who runs it.
    pub operator: KeyName,
    /// The pinned keys that this device may seal to, the best one first. There is at least one.
    pub configs: Vec<HpkeConfig>,
}

impl Trust {
    /// The file it was made from. With `insecure_no_min_age` the minimum ages are 0.
    pub fn settings(&self) -> &TrustFile {
        &self.settings
    }

    /// Log, witnesses and quorum.
    pub fn policy(&self) -> &TlogPolicy {
        &self.policy
    }

    /// The budget of a period.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The cap on what a device spends in its whole life.
    pub fn lifetime(&self) -> Budget {
        self.settings.budget.lifetime()
    }

    /// The same for a reader of the log that seals nothing to the keys in it: an aggregator also
    /// serves devices that do not require the hybrid suite.
    pub fn with_any_suite(mut self) -> Self {
        self.settings.require_post_quantum = false;
        self
    }

    /// Why no key of a kind can be sealed to.
    pub(crate) fn unusable(&self, what: &str) -> String {
        match self.settings.require_post_quantum {
            true => format!(
                "no {what} of the hybrid suite: whoever records traffic now could open it later; the \
                 operator must publish one (`sotto keys new`, `sotto keys publish`), unless this \
                 device sets require_post_quantum = false"
            ),
            false => format!("no {what} of a supported suite"),
        }
    }

    /// The end of the period that contains this time.
    pub fn period_end(&self, time: u64) -> u64 {
        let period_s = self.settings.budget.period_s;
        (time / period_s + 1).saturating_mul(period_s)
    }

    /// The pinned key of an operator.
    pub fn operator(&self, name: &KeyName) -> Option<&VerifierKey> {
        self.operators.get(name)
    }

    /// The pinned key of an operator that a recipe names.
    pub(crate) fn pinned_operator(&self, name: &KeyName) -> Result<&VerifierKey, Silence> {
        let reason = || format!("the operator {name} is not pinned");
        self.operator(name).ok_or_else(|| Silence::new(Check::Operators, reason()))
    }

    /// All pinned relays.
    pub fn relays(&self) -> impl Iterator<Item = &str> {
        self.relays.iter().map(|relay| relay.url.as_str())
    }

    /// The relays that may carry a report of this recipe: those not run by another of its parties.
    pub fn relays_for<'a>(&'a self, recipe: &'a Recipe) -> impl Iterator<Item = &'a str> {
        self.relays_without(self.parties_of(recipe).iter().map(|party| party.operator).collect())
    }

    /// The gateway through which the log is read, if one is pinned.
    pub fn log_gateway(&self) -> Option<&LogGateway> {
        self.log_gateway.as_ref()
    }

    /// The relays that may carry reads of the log: those not run by the operator of its gateway.
    /// None without a gateway.
    pub fn log_relays(&self) -> impl Iterator<Item = &str> {
        let gateway = self.log_gateway.iter();
        gateway.flat_map(|gateway| self.relays_without(vec![&gateway.operator]))
    }

    /// The relays that none of these operators runs: whoever opens a request must not know where it
    /// came from.
    fn relays_without<'a>(&'a self, operators: Vec<&'a KeyName>) -> impl Iterator<Item = &'a str> {
        let foreign = move |relay: &&Server| {
            !operators.iter().any(|name| self.is_same_operator(&relay.operator, name))
        };
        self.relays.iter().filter(foreign).map(|relay| relay.url.as_str())
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

    /// Checks that leader, helper, issuers, attesters and relay are different operators, that the
    /// first two are pinned, and that the leader does not run the gateway of the log: any two of
    /// them together would know more about a device, or its report, than each alone.
    pub(crate) fn check_operators(&self, recipe: &Recipe) -> Result<(), Silence> {
        let refuse = |reason: String| Err(Silence::new(Check::Operators, reason));
        let (leader, helper) = (&recipe.parties.leader.operator, &recipe.parties.helper.operator);
        self.pinned_operator(leader)?;
        self.pinned_operator(helper)?;
        self.check_distinct(&self.parties_of(recipe)).or_else(refuse)?;
        if self.settings.insecure_direct {
            return Ok(());
        }
        if self
            .log_gateway
            .as_ref()
            .is_some_and(|gateway| self.is_same_operator(&gateway.operator, leader))
        {
            return refuse(format!(
                "the leader {leader} also runs the gateway through which this device reads the log: it \
                 would see when a device reads and when it reports; pin a gateway of another operator \
                 under [log_gateway]"
            ));
        }
        if self.relays_for(recipe).next().is_none() {
            let reason = match self.relays.is_empty() {
                true => "no relay is pinned",
                false => "every pinned relay is run by the operator of another party of the recipe",
            };
            return refuse(reason.to_owned());
        }
        Ok(())
    }

    /// Whether two names belong to one operator, by the names or by their pinned keys.
    pub fn is_same_operator(&self, one: &KeyName, other: &KeyName) -> bool {
        let keys = (self.keys.get(one), self.keys.get(other));
        let one_key = matches!(keys, (Some(a), Some(b)) if a.public_key() == b.public_key());
        one == other || one_key
    }

    /// Checks the smallest batch and audience and the largest rate.
    pub(crate) fn check_floors(&self, assessment: &Assessment) -> Result<(), Silence> {
        let TrustFile { insecure_direct, insecure_exact, .. } = self.settings;
        self.settings.floors.check(assessment, !insecure_direct, insecure_exact)
    }

    /// Checks that a predicate reads only attributes that are not sensitive.
    pub(crate) fn check_attributes(&self, assessment: &Assessment) -> Result<(), Silence> {
        let Some(predicate) = assessment.predicate() else { return Ok(()) };
        let allowed = &self.settings.targeting_attributes;
        match predicate.attributes().iter().find(|name| !allowed.contains(*name)) {
            None => Ok(()),
            Some(name) => {
                let reason = format!("the predicate reads {name}, which predicates may not read");
                Err(Silence::new(Check::Targeting, reason))
            }
        }
    }
}

impl Floors {
    /// Checks a recipe on a device with a trust file that says nothing about any of this.
    pub fn check_by_default(assessment: &Assessment) -> Result<(), Silence> {
        Self::default().check(assessment, true, false)
    }

    /// Checks a recipe on a device that sends cover, or not, and that answers exactly, or not.
    fn check(
        &self,
        assessment: &Assessment,
        covered: bool,
        insecure_exact: bool,
    ) -> Result<(), Silence> {
        let refuse = |reason: String| Err(Silence::new(Check::Floors, reason));
        let (recipe, floors) = (assessment.recipe(), self);
        let min_batch = recipe.aggregation.min_batch;
        let floor = floors.min_batch();
        if min_batch < floor {
            return refuse(format!(
                "a minimum batch of {min_batch} is below {floor}, which is twice \
                 floors.dishonest_devices of the trust file"
            ));
        }
        if recipe.sampling.rate > floors.max_rate {
            let (rate, cap) = (&recipe.sampling.rate, &floors.max_rate);
            return refuse(format!("the sampling rate {rate} is above the cap of {cap}"));
        }
        let sending = sending_epsilon(recipe, covered).unwrap_or(f64::INFINITY);
        if sending > floors.max_sending_epsilon {
            let cap = floors.max_sending_epsilon;
            return refuse(format!(
                "a relay would learn epsilon {sending:.3} about the answer from who sends something, \
                 which is above the cap of {cap}; with sampling.cover 1 it learns nothing"
            ));
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
        if assessment.cost().is_none() && !insecure_exact {
            return refuse("it claims no privacy, and this device does not allow that".to_owned());
        }
        Ok(())
    }
}
