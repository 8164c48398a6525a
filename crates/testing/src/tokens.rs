//! Worlds whose recipes ask for tokens, and an attester and an issuer in memory that grant them by the real protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::attester::{self, Ask, AttesterRefusal, request_digest};
use sotto_protocol::device::tokens::TokenAsk;
use sotto_protocol::issuer::{self, EncapsulationKeyring, Origin, Origins};
use sotto_wire::EntryId;
use sotto_wire::recipe::{EndorsedKey, Recipe};
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, EncapsulationKey, IssuerAnswer, WITHHELD_PROBLEM,
};

use crate::device::world::{
    Batch, DAY, NOW, Plan, at, encapsulation_key, recipe, recipe_entry, reclaim,
};

/// The keys of up to three recipes, a leader's and a helper's for each.
fn token_keys() -> &'static [Vec<u8>] {
    static KEYS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    KEYS.get_or_init(|| {
        (0..6).map(|_| IssuerKey::generate().unwrap().to_pkcs8().to_vec()).collect()
    })
}

fn token_key(number: usize) -> IssuerKey {
    IssuerKey::from_pkcs8(&token_keys()[number]).unwrap()
}

fn token_key_text(number: usize) -> String {
    EndorsedKey::key_text(token_key(number).token_key().spki())
}

/// A world with one recipe that asks both tokens; they are asked for at once.
pub(crate) fn token_plan() -> Plan {
    let mut plan = Plan::new();
    plan.with_token_keys(&token_key_text(0), &token_key_text(1));
    plan.trust.tokens.as_mut().unwrap().spread_s = 0;
    plan.reclaim();
    plan
}

/// The same world with another recipe in its place, for as long and with other token keys.
pub(crate) fn other_plan() -> Plan {
    let mut plan = token_plan();
    plan.recipe = recipe("another-question");
    plan.endorse(&token_key_text(2), Some(&token_key_text(3)));
    plan.reclaim();
    plan
}

/// Adds another recipe, with the token keys of this number (1 or 2) and what `change` makes of it. Gives its id.
pub(crate) fn add_recipe(
    plan: &mut Plan,
    number: usize,
    change: impl FnOnce(&mut Recipe),
) -> EntryId {
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

/// A request as it came to the attester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) body: Vec<u8>,
    pub(crate) client_key: [u8; 32],
    pub(crate) request_blind: [u8; 32],
    pub(crate) client_alias: [u8; 32],
}

impl Came {
    #[allow(dead_code, reason = "where there is a transport, requests come by it")]
    pub(crate) fn new(ask: &TokenAsk<'_>) -> Self {
        Self {
            body: ask.attempt.request.clone(),
            client_key: ask.client_key,
            request_blind: ask.attempt.request_blind,
            client_alias: ask.attempt.client_alias,
        }
    }
}

/// A refusal: its status and its problem type.
pub(crate) type Refused = (u16, &'static str);

/// A refusal that says nothing more.
const REFUSED: Refused = (400, "about:blank");

/// Attester and issuer together: what they hold and all that came.
pub(crate) struct Authority {
    keyring: EncapsulationKeyring,
    origins: Origins,
    rows: BTreeSet<([u8; 32], [u8; 64])>,
    answers: BTreeMap<[u8; 32], Vec<u8>>,
    pub(crate) came: Vec<Came>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::with_keys(&[encapsulation_key()])
    }

    /// With these encapsulation keys.
    pub(crate) fn with_keys(keys: &[HpkeKeypair]) -> Self {
        let origins = (0..token_keys().len()).map(|number| {
            let expires = Moment(NOW + 30 * DAY);
            Origin::new(token_key(number), Secret::new([number as u8; 32]), expires)
        });
        Self {
            keyring: EncapsulationKeyring::new(keys).unwrap(),
            origins: origins.collect(),
            rows: BTreeSet::new(),
            answers: BTreeMap::new(),
            came: Vec::new(),
        }
    }

    /// The issuer has other keys from now on.
    #[allow(dead_code, reason = "not every crate's tests rotate")]
    pub(crate) fn rotate(&mut self, keys: &[HpkeKeypair]) {
        self.keyring = EncapsulationKeyring::new(keys).unwrap();
    }

    /// Answers one request, as the attester does.
    pub(crate) fn answer(&mut self, came: Came) -> Result<Vec<u8>, Refused> {
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

    /// Tokens that were granted.
    pub(crate) fn granted(&self) -> usize {
        self.rows.len()
    }

    /// Requests by their bytes.
    #[allow(dead_code, reason = "not every crate's tests count them")]
    pub(crate) fn distinct(&self) -> BTreeSet<&[u8]> {
        self.came.iter().map(|came| came.body.as_slice()).collect()
    }
}
