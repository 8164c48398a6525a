//! A device, an attester, an issuer and an aggregator around one recipe, and what they send each
//! other.

use anyhow::{Context, Result, bail};
use blind_rsa_signatures::{Deterministic, KeyPair, PSS, SecretKey, Sha384};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::attester::{self, Ask, Forwarded};
use sotto_protocol::issuer::{self, EncapsulationKeyring, Origin, Origins};
use sotto_protocol::token::{TokenAttempt, TokenTerms};
use sotto_wire::recipe::{EndorsedKey, Tokens};
use sotto_wire::token::IssuerAnswer;
use sotto_wire::{Entry, HpkeConfigId, Role};

use crate::device::Shown;

/// The number of tokens in one measurement: few enough that it is rarely interrupted.
pub(super) const BATCH: usize = 8;

/// The key of the peers.
pub(super) type PeerPair = KeyPair<Sha384, PSS, Deterministic>;

pub(super) struct Parties {
    pub(super) now: Moment,
    /// A copy of the leader's key, for operations that are measured in isolation.
    pub(super) key: IssuerKey,
    /// The same key in the peers' types.
    pub(super) peer: PeerPair,
    pub(super) terms: TokenTerms,
    pub(super) keyring: EncapsulationKeyring,
    pub(super) origins: Origins,
    client: ClientSecret,
    encapsulation: HpkeKeypair,
    /// Requests, each with its nonce.
    attempts: Vec<([u8; 32], TokenAttempt)>,
}

impl Parties {
    pub(super) fn new() -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let world = Shown::new()?;
        let key = IssuerKey::generate()?;
        let terms = terms(&world, &key)?;
        let sk = SecretKey::from_der(&key.to_pkcs8())?;
        let peer = PeerPair { pk: sk.public_key()?, sk };
        let expires = Moment(terms.expires());
        let copy = IssuerKey::from_pkcs8(&key.to_pkcs8())?;
        let origins = [Origin::new(copy, Secret::new([7; 32]), expires)].into_iter().collect();
        let encapsulation = HpkeKeypair::generate_hybrid(HpkeConfigId::new(1), &mut rng);
        let mut parties = Self {
            now: world.now,
            peer,
            keyring: EncapsulationKeyring::new(std::slice::from_ref(&encapsulation))?,
            origins,
            client: ClientSecret::generate(&mut rng),
            encapsulation,
            attempts: Vec::new(),
            key,
            terms,
        };
        for _ in 0..BATCH {
            let mut nonce = [0; 32];
            rng.fill_bytes(&mut nonce);
            let attempt = parties.ask(&nonce, &mut rng)?;
            parties.attempts.push((nonce, attempt));
        }
        Ok(parties)
    }

    /// The device's first step.
    pub(super) fn ask(&self, nonce: &[u8; 32], rng: &mut ChaCha20Rng) -> Result<TokenAttempt> {
        let config = self.encapsulation.config();
        Ok(self.terms.request(&self.client, config, nonce, rng)?)
    }

    /// What the device sends.
    pub(super) fn asks(&self) -> Vec<Ask<'_>> {
        let client_key = *self.client.public_key().as_bytes();
        let asks = self.attempts.iter().map(|(_, attempt)| Ask {
            body: &attempt.request,
            client_key,
            request_blind: attempt.request_blind,
            client_alias: attempt.client_alias,
        });
        asks.collect()
    }

    /// The encapsulation keys that the attester knows.
    pub(super) fn key_ids(&self) -> Vec<[u8; 32]> {
        self.keyring.keys().iter().map(|key| key.id()).collect()
    }

    /// What the attester keeps of each request, and the issuer's answer to it.
    pub(super) fn answered(&self) -> Result<Vec<(Forwarded, IssuerAnswer)>> {
        let ids = self.key_ids();
        let answered = self.asks().into_iter().map(|ask| {
            let forwarded = attester::consume_token_request(&ask, &ids)?;
            Ok((forwarded, self.issue(ask.body)?))
        });
        answered.collect()
    }

    /// The issuer's whole step.
    pub(super) fn issue(&self, body: &[u8]) -> Result<IssuerAnswer> {
        let (keyring, origins) = (&self.keyring, &self.origins);
        Ok(issuer::consume_token_request(body, keyring, origins, self.now, u64::MAX, &[3; 16])?)
    }

    /// The device's second step: the tokens.
    pub(super) fn finish(&self, answered: &[(Forwarded, IssuerAnswer)]) -> Result<Vec<Vec<u8>>> {
        let tokens = self.attempts.iter().zip(answered).map(|((nonce, attempt), (_, answer))| {
            let IssuerAnswer::Issued { response, .. } = answer else { bail!("refused") };
            Ok(self.terms.finish(nonce, attempt, response)?)
        });
        tokens.collect()
    }
}

/// The token terms of a recipe whose leader accepts tokens of `key`.
fn terms(world: &Shown, key: &IssuerKey) -> Result<TokenTerms> {
    let entry = Entry::parse(&world.offer.recipe.entry)?;
    let mut recipe = entry.recipe().cloned().context("a recipe")?;
    let closes = recipe.when.closes;
    let endorsed = |issuer: &str, key: &IssuerKey| {
        anyhow::Ok(EndorsedKey::new(issuer.parse()?, key.token_key().spki(), closes, &[0; 64]))
    };
    recipe.parties.tokens = Tokens::RateLimited {
        leader: endorsed("issuer-a.example", key)?,
        helper: endorsed("issuer-b.example", &IssuerKey::generate()?)?,
    };
    Ok(TokenTerms::of(&recipe, Role::Leader).context("tokens")??)
}
