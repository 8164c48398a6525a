//! Tokens: which issuers and attesters are trusted, and whether a recipe's token keys come from
//! those issuers.
//!
//! There are two chains. The leader's token comes through one attester and one issuer, the helper's
//! through another attester and another issuer. With one chain, a single lying attester or issuer
//! could invent all devices of a batch but one.
//!
//! Leaves to others: whether they are valid keys at all ([`crate::recipe::Assessment`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sotto_crypto::note;
use sotto_wire::recipe::Recipe;
use sotto_wire::{KeyName, Role, VerifierKey};

use super::file::{PinnedServer, TrustError, server};
use super::{Server, Trust};
use crate::admission::{Check, Silence};

/// The aggregators, each with a chain of its own.
const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

/// The parties that make sure that each device contributes once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// Through whom the leader's tokens come.
    pub leader: ChainFile,
    /// Through whom the helper's tokens come: other operators than for the leader's.
    pub helper: ChainFile,
    /// The time over which a device randomly spreads its token requests: the times of the requests
    /// must say nothing about the device.
    #[serde(default = "spread_s")]
    pub spread_s: u64,
}

/// Through whom one aggregator's tokens come.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainFile {
    /// The operator of the issuer: one of the pinned operators. Its key endorses token keys and
    /// signs its key set.
    pub issuer: String,
    /// The attester, from which devices get these tokens; absent for aggregators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attester: Option<PinnedServer>,
}

impl TokensFile {
    /// A file with the issuers of the leader's and the helper's tokens, and every other setting at
    /// its default.
    pub fn new(leader: impl Into<String>, helper: impl Into<String>) -> Self {
        let chain = |issuer| ChainFile { issuer, attester: None };
        let (leader, helper) = (chain(leader.into()), chain(helper.into()));
        Self { leader, helper, spread_s: spread_s() }
    }
}

/// The parties that make sure that each device contributes once.
#[derive(Clone, Debug)]
pub struct TokenTrust {
    /// Through whom the leader's tokens come.
    pub leader: Chain,
    /// Through whom the helper's tokens come.
    pub helper: Chain,
    /// The time over which token requests are spread.
    pub spread_s: u64,
}

/// Through whom one aggregator's tokens come.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The operator of the issuer, which is pinned.
    pub issuer: KeyName,
    /// The attester, from which devices get their tokens; aggregators need none.
    pub attester: Option<Server>,
}

/// A party that handles a report, or the tokens of one aggregator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Party<'a> {
    kind: Kind,
    role: Role,
    pub(super) operator: &'a KeyName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Aggregator,
    Issuer,
    Attester,
}

impl Party<'_> {
    fn words(&self) -> String {
        let role = self.role.as_str();
        match self.kind {
            Kind::Aggregator => role.to_owned(),
            Kind::Issuer => format!("the issuer of the {role}'s tokens"),
            Kind::Attester => format!("the attester of the {role}'s tokens"),
        }
    }
}

impl TokenTrust {
    /// Through whom this aggregator's tokens come.
    pub fn chain(&self, role: Role) -> &Chain {
        match role {
            Role::Helper => &self.helper,
            _ => &self.leader,
        }
    }

    /// The attester of this aggregator's tokens, if attesters are pinned.
    pub fn attester(&self, role: Role) -> Option<&Server> {
        self.chain(role).attester.as_ref()
    }

    fn attesters(&self) -> impl Iterator<Item = Party<'_>> {
        let party = |role| {
            let operator = &self.attester(role)?.operator;
            Some(Party { kind: Kind::Attester, role, operator })
        };
        ROLES.into_iter().filter_map(party)
    }
}

impl Trust {
    /// Issuers and attesters, if they are pinned.
    pub fn tokens(&self) -> Option<&TokenTrust> {
        self.tokens.as_ref()
    }

    /// Whether one operator vouches for the tokens of both aggregators.
    pub fn has_one_attester(&self) -> bool {
        let attester = |role| Some(&self.tokens.as_ref()?.attester(role)?.operator);
        let attesters = (attester(Role::Leader), attester(Role::Helper));
        matches!(attesters, (Some(one), Some(other)) if self.is_same_operator(one, other))
    }

    /// The issuer of the tokens for this aggregator of a recipe, if it is the pinned one.
    pub(crate) fn pinned_issuer<'a>(&self, recipe: &'a Recipe, role: Role) -> Option<&'a KeyName> {
        let pinned = self.tokens.as_ref().map(|tokens| &tokens.chain(role).issuer);
        recipe.parties.tokens.issuer(role).filter(|issuer| pinned == Some(*issuer))
    }

    /// Every party except the relay that handles the reports of this recipe, or their tokens.
    pub(super) fn parties_of<'a>(&'a self, recipe: &'a Recipe) -> Vec<Party<'a>> {
        let parties = &recipe.parties;
        let aggregators = [&parties.leader.operator, &parties.helper.operator];
        let aggregators = ROLES.into_iter().zip(aggregators);
        let aggregators =
            aggregators.map(|(role, operator)| Party { kind: Kind::Aggregator, role, operator });
        let issuer = |role| {
            let operator = parties.tokens.issuer(role)?;
            Some(Party { kind: Kind::Issuer, role, operator })
        };
        let attesters = self.tokens.iter().flat_map(TokenTrust::attesters);
        let attesters = attesters.filter(|party| parties.tokens.key(party.role).is_some());
        aggregators.chain(ROLES.into_iter().filter_map(issuer)).chain(attesters).collect()
    }

    /// Checks that no operator is two of these parties. With `insecure_single_attester` both chains
    /// of tokens may share their attester, their issuer, or each.
    pub(super) fn check_distinct(&self, parties: &[Party<'_>]) -> Result<(), String> {
        let single = self.settings.insecure_single_attester;
        for (index, party) in parties.iter().enumerate() {
            let same = |other: &&Party<'_>| self.is_same_operator(other.operator, party.operator);
            let Some(other) = parties.iter().take(index).find(same) else { continue };
            let both_chains = other.kind == party.kind && party.kind != Kind::Aggregator;
            if both_chains && single {
                continue;
            }
            let mut reason = format!("{} and {} are one operator", other.words(), party.words());
            if both_chains {
                reason += " and could invent devices on its own: pin another one under \
                           [tokens.leader] or [tokens.helper], or set insecure_single_attester";
            }
            return Err(reason);
        }
        Ok(())
    }

    /// Checks that the pinned issuers and attesters are distinct operators.
    pub(super) fn check_chains(&self) -> Result<(), TrustError> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let issuer = |role| {
            let operator = &tokens.chain(role).issuer;
            Party { kind: Kind::Issuer, role, operator }
        };
        let parties: Vec<_> = ROLES.map(issuer).into_iter().chain(tokens.attesters()).collect();
        self.check_distinct(&parties).map_err(|reason| TrustError::at("tokens")(&reason))
    }

    /// Checks that both aggregators check tokens, unless an insecure setting allows otherwise, and
    /// that the pinned issuers endorsed their keys.
    ///
    /// An author who could list their own keys could sign tokens for any number of reports.
    pub fn check_token_keys(&self, recipe: &Recipe) -> Result<(), Silence> {
        self.check_token_terms(recipe)?;
        let refuse = |reason: String| Silence::new(Check::TokenKeys, reason);
        for role in ROLES {
            let Some(issuer) = recipe.parties.tokens.issuer(role) else { continue };
            let pinned = self.operator(issuer);
            let pinned =
                pinned.ok_or_else(|| refuse(format!("the operator {issuer} is not pinned")))?;
            note::verify_endorsement(recipe, role, pinned).map_err(|error| {
                let name = role.as_str();
                refuse(format!(
                    "{issuer} did not endorse the token key of the {name} ({error}); the key was made for another author, \
                     aggregator or expiry: ask the issuer again"
                ))
            })?;
        }
        Ok(())
    }

    /// The part of [`Trust::check_token_keys`] that does not need the keys, which a draft does not
    /// have yet.
    pub fn check_token_terms(&self, recipe: &Recipe) -> Result<(), Silence> {
        let refuse = |reason: String| Err(Silence::new(Check::TokenKeys, reason));
        let tokens = &recipe.parties.tokens;
        if tokens.is_insecure() && !self.settings.insecure_no_tokens {
            let who = match tokens.issuer(Role::Leader) {
                None => "nobody checks",
                Some(_) => "the helper does not check",
            };
            return refuse(format!(
                "{who} that each device contributes once: the author must name an issuer of tokens for each aggregator \
                 (`--issuer`); with insecure_no_tokens in its trust file a device answers all the same"
            ));
        }
        for role in ROLES {
            let Some(issuer) = tokens.issuer(role) else { continue };
            let name = role.as_str();
            let what = format!("the {name}'s tokens are issued by {issuer}");
            match &self.tokens {
                None => {
                    return refuse(format!(
                        "{what}, and the trust file pins no issuer under [tokens.{name}]"
                    ));
                }
                Some(pinned) if pinned.chain(role).issuer != *issuer => {
                    let pinned = &pinned.chain(role).issuer;
                    return refuse(format!("{what}; the pinned issuer is {pinned}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Reads the section of the trust file.
pub(super) fn token_trust(
    file: &TokensFile,
    operators: &BTreeMap<KeyName, VerifierKey>,
    keys: &mut BTreeMap<KeyName, VerifierKey>,
) -> Result<TokenTrust, TrustError> {
    let mut chain = |file| chain(file, operators, keys);
    let (leader, helper) = (chain(&file.leader)?, chain(&file.helper)?);
    if leader.attester.is_some() != helper.attester.is_some() {
        return Err(TrustError::at("tokens")(
            &"an attester is pinned for one aggregator only; devices need both, aggregators none",
        ));
    }
    if let (Some(one), Some(other)) = (&leader.attester, &helper.attester)
        && one.url == other.url
        && one.operator != other.operator
    {
        return Err(TrustError::at("tokens")(&format!(
            "the attesters {} and {} have the same URL: a server has one operator",
            one.operator, other.operator
        )));
    }
    Ok(TokenTrust { leader, helper, spread_s: file.spread_s })
}

fn chain(
    file: &ChainFile,
    operators: &BTreeMap<KeyName, VerifierKey>,
    keys: &mut BTreeMap<KeyName, VerifierKey>,
) -> Result<Chain, TrustError> {
    let at = TrustError::at("tokens");
    let issuer: KeyName =
        file.issuer.parse().map_err(|error| at(&format!("{:?}: {error}", file.issuer)))?;
    // This operator's signature authenticates token keys and encapsulation keys.
    if !operators.contains_key(&issuer) {
        return Err(at(&format!("the issuer {issuer} is not pinned under [[operators]]")));
    }
    let attester = file.attester.as_ref();
    let attester = attester.map(|file| server("tokens", file, keys)).transpose()?;
    Ok(Chain { issuer, attester })
}

fn spread_s() -> u64 {
    43_200
}
