//! Tokens: which issuer and attester are trusted, and whether a recipe's token keys come from that
//! issuer.
//!
//! Leaves to others: whether they are valid keys at all ([`crate::recipe::Assessment`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sotto_crypto::note;
use sotto_wire::recipe::{Recipe, check_url};
use sotto_wire::{KeyName, Role, VerifierKey};

use super::Trust;
use super::file::TrustError;
use crate::admission::{Check, Silence};

/// The parties that make sure that each device contributes once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// The operator of the issuer: one of the pinned operators. Its key endorses token keys and
    /// signs its key set.
    pub issuer: String,
    /// The attester, from which devices get their tokens; absent for aggregators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attester: Option<PinnedAttester>,
    /// The time over which a device randomly spreads its token requests: the times of the requests
    /// must say nothing about the device.
    #[serde(default = "spread_s")]
    pub spread_s: u64,
}

impl TokensFile {
    /// A file with this issuer, and every other setting at its default.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), attester: None, spread_s: spread_s() }
    }
}

/// An attester.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedAttester {
    /// Who runs it: not the operator of the issuer, leader, helper or relay.
    pub operator: String,
    /// Where it is.
    pub url: String,
}

/// The parties that make sure that each device contributes once.
#[derive(Clone, Debug)]
pub struct TokenTrust {
    /// The operator of the issuer, which is pinned.
    pub issuer: KeyName,
    /// The attester, from which devices get their tokens; aggregators need none.
    pub attester: Option<Attester>,
    /// The time over which token requests are spread.
    pub spread_s: u64,
}

/// The attester.
#[derive(Clone, Debug)]
pub struct Attester {
    /// Who runs it.
    pub operator: KeyName,
    /// Where it is.
    pub url: String,
}

impl Trust {
    /// Issuer and attester, if they are pinned.
    pub fn tokens(&self) -> Option<&TokenTrust> {
        self.tokens.as_ref()
    }

    /// The issuer of a recipe's tokens, if it is the pinned one.
    pub(crate) fn pinned_issuer<'a>(&self, recipe: &'a Recipe) -> Option<&'a KeyName> {
        let pinned = self.tokens.as_ref().map(|tokens| &tokens.issuer);
        recipe.parties.tokens.issuer().filter(|issuer| pinned == Some(*issuer))
    }

    /// Checks that both aggregators check tokens, unless an insecure setting allows otherwise, and
    /// that the pinned issuer endorsed their keys.
    ///
    /// An author who could list their own keys could sign tokens for any number of reports.
    pub fn check_token_keys(&self, recipe: &Recipe) -> Result<(), Silence> {
        self.check_token_terms(recipe)?;
        let refuse = |reason: String| Silence::new(Check::TokenKeys, reason);
        let Some(issuer) = recipe.parties.tokens.issuer() else { return Ok(()) };
        let pinned = self.operator(issuer);
        let pinned =
            pinned.ok_or_else(|| refuse(format!("the operator {issuer} is not pinned")))?;
        for (role, name) in [(Role::Leader, "leader"), (Role::Helper, "helper")] {
            if recipe.parties.tokens.key(role).is_none() {
                continue;
            }
            note::verify_endorsement(recipe, role, pinned).map_err(|error| {
                refuse(format!(
                    "{issuer} did not endorse the token key of the {name} ({error}); the keys were made for another author, \
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
            let who = match tokens.issuer() {
                None => "nobody checks",
                Some(_) => "the helper does not check",
            };
            return refuse(format!(
                "{who} that each device contributes once: the author must name an issuer of tokens for both aggregators \
                 (`--issuer`); with insecure_no_tokens in its trust file a device answers all the same"
            ));
        }
        match (tokens.issuer(), &self.tokens) {
            (Some(issuer), None) => refuse(format!(
                "its tokens are issued by {issuer}, and the trust file pins no issuer under [tokens]"
            )),
            (Some(issuer), Some(pinned)) if pinned.issuer != *issuer => refuse(format!(
                "its tokens are issued by {issuer}; the pinned issuer is {}",
                pinned.issuer
            )),
            _ => Ok(()),
        }
    }
}

/// Reads the section of the trust file.
pub(super) fn token_trust(
    file: &TokensFile,
    operators: &BTreeMap<KeyName, VerifierKey>,
) -> Result<TokenTrust, TrustError> {
    let at = TrustError::at("tokens");
    let name = |text: &String| -> Result<KeyName, TrustError> {
        text.parse().map_err(|error| at(&format!("{text:?}: {error}")))
    };
    let issuer = name(&file.issuer)?;
    // This operator's signature authenticates token keys and encapsulation keys.
    if !operators.contains_key(&issuer) {
        return Err(at(&format!("the issuer {issuer} is not pinned under [[operators]]")));
    }
    let attester = match &file.attester {
        None => None,
        Some(pinned) => {
            check_url("attester.url", &pinned.url)
                .map_err(|error| at(&format!("{:?}: {error}", pinned.url)))?;
            let operator = name(&pinned.operator)?;
            if operator == issuer {
                return Err(at(
                    &"attester and issuer must be two operators: together they know which device has which token",
                ));
            }
            Some(Attester { operator, url: pinned.url.clone() })
        }
    };
    Ok(TokenTrust { issuer, attester, spread_s: file.spread_s })
}

fn spread_s() -> u64 {
    43_200
}
