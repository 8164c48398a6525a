//! Worlds whose recipes require tokens, and attesters and issuers in memory that grant them by the
//! real protocol.

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
use super::recipe::{ATTESTERS, DAY, NOW, recipe, recipe_entry, reclaim};
use super::world::{Plan, endorsed};

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

/// Adds another recipe with the token keys of this number (1 to 3), changed by `change`. Returns
/// its id.
pub fn add_recipe(plan: &mut Plan, number: usize, change: impl FnOnce(&mut Recipe)) -> EntryId {
    let mut other = recipe(&format!("recipe-{number}"));
    change(&mut other);
    reclaim(&mut other);
    let (leader, helper) = (token_key_text(2 * number), token_key_text(2 * number + 1));
    other.parties.tokens = endorsed(&plan.issuer_signers, &other, &leader, Some(&helper));
    plan.later.push(Batch { entries: vec![recipe_entry(&other)], times: at(NOW - 2 * DAY) });
    other.id()
}

/// A request as it reached an attester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// The operator of the attester.
    pub attester: String,
    pub body: Vec<u8>,
    pub client_key: [u8; 32],
    pub request_blind: [u8; 32],
    pub client_alias: [u8; 32],
}

impl Came {
    pub fn new(sent: &AttesterRequest<'_>) -> Self {
        Self {
            attester: sent.attester.operator.to_string(),
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

/// The attesters and issuers of both chains: their keys, their counts and every request.
pub struct Authority {
    chains: [Chain; 2],
    pub came: Vec<Came>,
}

/// An attester with its issuer.
struct Chain {
    keyring: EncapsulationKeyring,
    origins: Origins,
    rows: BTreeSet<([u8; 32], [u8; 64])>,
    answers: BTreeMap<[u8; 32], Vec<u8>>,
}

impl Authority {
    pub fn new() -> Self {
        Self::making(None)
    }

    /// The keys of the plan's recipe are for a series with as many participations.
    pub fn of_series(participations: u32) -> Self {
        Self::making(Some(participations))
    }

    fn making(participations: Option<u32>) -> Self {
        let chain = |chain: usize| {
            let numbers = (0..TOKEN_KEY_COUNT).filter(|number| number % 2 == chain);
            let origins = numbers.map(|number| {
                let key = IssuerKey::from_pkcs8(&token_key(number).to_pkcs8()).unwrap();
                let secret = Secret::new([number as u8; 32]);
                let origin = Origin::new(key, secret, Moment(NOW + 30 * DAY));
                origin.with_participations(participations.filter(|_| number < 2))
            });
            Chain {
                keyring: EncapsulationKeyring::new(&[encapsulation_key(chain)]).unwrap(),
                origins: origins.collect(),
                rows: BTreeSet::new(),
                answers: BTreeMap::new(),
            }
        };
        Self { chains: [0, 1].map(chain), came: Vec::new() }
    }

    /// Gives the issuer of the leader's (0) or the helper's (1) tokens other keys from now on.
    pub fn rotate(&mut self, chain: usize, keys: &[HpkeKeypair]) {
        self.chains[chain].keyring = EncapsulationKeyring::new(keys).unwrap();
    }

    /// Answers one request, as the attester to which it was sent does.
    pub fn answer(&mut self, came: Came) -> Result<Vec<u8>, Refused> {
        let chain = ATTESTERS.iter().position(|name| *name == came.attester).unwrap();
        self.came.push(came.clone());
        self.chains[chain].answer(&came, self.came.len())
    }

    /// How many tokens were granted.
    pub fn granted(&self) -> usize {
        self.chains.iter().map(|chain| chain.rows.len()).sum()
    }

    /// The distinct requests, by their bytes.
    pub fn distinct(&self) -> BTreeSet<&[u8]> {
        self.came.iter().map(|came| came.body.as_slice()).collect()
    }
}

impl Chain {
    fn answer(&mut self, came: &Came, number: usize) -> Result<Vec<u8>, Refused> {
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
        let nonce = [number as u8; 16];
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
}
