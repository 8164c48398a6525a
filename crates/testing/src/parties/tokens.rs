//! Worlds whose recipes require tokens, and an attester and an issuer in memory that grant them by
//! the real protocol.

use std::collections::{BTreeMap, BTreeSet};

use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::attester::{self, Ask, AttesterRefusal, request_digest};
use sotto_protocol::device::tokens::AttesterRequest;
use sotto_protocol::issuer::{self, EncapsulationKeyring, Origin, Origins};
use sotto_wire::EntryId;
use sotto_wire::recipe::Recipe;
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, EncapsulationKey, IssuerAnswer, WITHHELD_PROBLEM,
};

use super::keys::{TOKEN_KEY_COUNT, encapsulation_key, token_key, token_key_text};
use super::log::{Batch, at};
use super::recipe::{DAY, NOW, recipe, recipe_entry, reclaim};
use super::world::Plan;

/// A world with one recipe that requires both tokens, which devices request immediately.
pub fn token_plan() -> Plan {
    let mut plan = Plan::new();
    plan.with_token_keys(&token_key_text(0), &token_key_text(1));
    plan.trust.tokens.as_mut().unwrap().spread_s = 0;
    plan.reclaim();
    plan
}

/// The same world with a different recipe, open for as long and with different token keys.
pub fn other_plan() -> Plan {
    let mut plan = token_plan();
    plan.recipe = recipe("another-question");
    plan.endorse(&token_key_text(2), Some(&token_key_text(3)));
    plan.reclaim();
    plan
}

/// Adds another recipe with the token keys of this number (1 or 2), changed by `change`. Returns
/// its id.
pub fn add_recipe(plan: &mut Plan, number: usize, change: impl FnOnce(&mut Recipe)) -> EntryId {
    let mut other = recipe(&format!("recipe-{number}"));
    change(&mut other);
    reclaim(&mut other);
    let (leader, helper) = (token_key_text(2 * number), token_key_text(2 * number + 1));
    let expires = other.when.closes;
    other.parties.tokens =
        plan.issuer_signer.endorse_recipe(&other, &leader, Some(&helper), expires);
    plan.later.push(Batch { entries: vec![recipe_entry(&other)], times: at(NOW - 2 * DAY) });
    other.id()
}

/// A request as it reached the attester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    pub body: Vec<u8>,
    pub client_key: [u8; 32],
    pub request_blind: [u8; 32],
    pub client_alias: [u8; 32],
}

impl Came {
    pub fn new(sent: &AttesterRequest<'_>) -> Self {
        Self {
            body: sent.attempt.request.clone(),
            client_key: sent.client_key,
            request_blind: sent.attempt.request_blind,
            client_alias: sent.attempt.client_alias,
        }
    }
}

/// A refusal: its status and its problem type.
pub type Refused = (u16, &'static str);

/// A refusal without details.
const REFUSED: Refused = (400, "about:blank");

/// Attester and issuer together: their keys, their counts and every request.
pub struct Authority {
    keyring: EncapsulationKeyring,
    origins: Origins,
    rows: BTreeSet<([u8; 32], [u8; 64])>,
    answers: BTreeMap<[u8; 32], Vec<u8>>,
    pub came: Vec<Came>,
}

impl Authority {
    pub fn new() -> Self {
        Self::with_keys(&[encapsulation_key()])
    }

    /// An authority with these encapsulation keys.
    pub fn with_keys(keys: &[HpkeKeypair]) -> Self {
        let origins = (0..TOKEN_KEY_COUNT).map(|number| {
            let key = IssuerKey::from_pkcs8(&token_key(number).to_pkcs8()).unwrap();
            Origin::new(key, Secret::new([number as u8; 32]), Moment(NOW + 30 * DAY))
        });
        Self {
            keyring: EncapsulationKeyring::new(keys).unwrap(),
            origins: origins.collect(),
            rows: BTreeSet::new(),
            answers: BTreeMap::new(),
            came: Vec::new(),
        }
    }

    /// Gives the issuer other keys from now on.
    pub fn rotate(&mut self, keys: &[HpkeKeypair]) {
        self.keyring = EncapsulationKeyring::new(keys).unwrap();
    }

    /// Answers one request, as the attester does.
    pub fn answer(&mut self, came: Came) -> Result<Vec<u8>, Refused> {
        self.came.push(came.clone());
        let digest = request_digest(&came.body);
        if let Some(answer) = self.answers.get(&digest) {
            return Ok(answer.clone());
        }
        let ask = Ask {
            body: &came.body,
            client_key: came.client_key,
            request_blind: came.request_blind,
            client_alias: came.client_alias,
        };
        let ids: Vec<_> = self.keyring.keys().iter().map(EncapsulationKey::id).collect();
        let forwarded = attester::consume_token_request(&ask, &ids).map_err(|refusal| {
            let lost_key = refusal == AttesterRefusal::EncapsulationKey;
            if lost_key { (400, ENCAPSULATION_KEY_PROBLEM) } else { REFUSED }
        })?;
        let nonce = [self.came.len() as u8; 16];
        let (keyring, origins) = (&self.keyring, &self.origins);
        let answer = issuer::consume_token_request(
            &came.body,
            keyring,
            origins,
            Moment(NOW),
            u64::MAX,
            &nonce,
        );
        let answer: IssuerAnswer = answer.map_err(|_| REFUSED)?;
        let issued = attester::consume_issuer_answer(&forwarded, &answer).map_err(|_| REFUSED)?;
        if !self.rows.insert((came.client_key, issued.alias)) {
            return Err((429, WITHHELD_PROBLEM));
        }
        self.answers.insert(digest, issued.response.clone());
        Ok(issued.response)
    }

    /// How many tokens were granted.
    pub fn granted(&self) -> usize {
        self.rows.len()
    }

    /// The distinct requests, by their bytes.
    pub fn distinct(&self) -> BTreeSet<&[u8]> {
        self.came.iter().map(|came| came.body.as_slice()).collect()
    }
}
