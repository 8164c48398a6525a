//! Verifying a token: an aggregator's whole check, compared with the signature alone and with a
//! peer.
//!
//! The floor is `aws-lc-rs` with the key parsed beforehand. The peer redeems tokens of type 0x0002
//! under the same key, with stores in memory; its store of nonces is empty at the start of every
//! turn. Ours leaves the nonces to the database, where the report id represents the nonce.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PSS_2048_8192_SHA384};
use futures_executor::block_on;
use privacypass::public_tokens::server::{OriginKeyStore, OriginServer};
use privacypass::public_tokens::{PublicKey, PublicToken};
use privacypass::{Deserialize, Nonce, NonceStore};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::blind_rsa::blind;
use sotto_wire::token::Token;
use sotto_wire::{Decode, Encode};

use super::parties::{BATCH, Parties};
use crate::turns::least;

/// Microseconds per token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verification {
    pub(super) floor_us: f64,
    pub(super) ours_us: f64,
    pub(super) peer_us: f64,
}

pub(super) fn measure(parties: &Parties, times: usize) -> Result<Verification> {
    let tokens = parties.finish(&parties.answered()?)?;
    let signed = tokens
        .iter()
        .map(
            |token| Ok(Token::from_bytes(token).map(|token| (token.input(), token.authenticator))?),
        )
        .collect::<Result<Vec<_>>>()?;
    // In the SubjectPublicKeyInfo, the bare PKCS#1 key follows the algorithm.
    let spki = parties.key.token_key().spki();
    let bare = ParsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, &spki[spki.len() - 270..])?;
    let verifier = parties.terms.verifier()?;
    let peers = peer_tokens(parties)?;
    let mut floor = || -> Result<()> {
        for (input, authenticator) in &signed {
            bare.verify_sig(black_box(input), authenticator)?;
        }
        Ok(())
    };
    let mut ours = || -> Result<()> {
        for token in &tokens {
            black_box(verifier.verify(black_box(token), parties.now)?);
        }
        Ok(())
    };
    let mut peer = || -> Result<()> {
        let stores = Stores { key: parties.peer.pk.clone(), spent: Mutex::default() };
        for token in &peers {
            let token = PublicToken::tls_deserialize(&mut token.as_slice())?;
            block_on(OriginServer::new().redeem_token(&stores, &stores, token))?;
        }
        Ok(())
    };
    let seconds = least(times, [&mut floor, &mut ours, &mut peer])?;
    let [floor_us, ours_us, peer_us] = seconds.map(|s| s * 1e6 / BATCH as f64);
    Ok(Verification { floor_us, ours_us, peer_us })
}

/// Tokens that the peer accepts.
fn peer_tokens(parties: &Parties) -> Result<Vec<Vec<u8>>> {
    let key = parties.key.token_key();
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let token = |index: u8| {
        let mut token = Token {
            token_type: 2,
            nonce: [index; 32],
            challenge_digest: [0; 32],
            token_key_id: *key.id(),
            authenticator: [0; 256],
        };
        let (blinded, unblinder) = blind(key, &token.input(), &mut rng)?;
        let blind_sig = parties.key.blind_sign(&blinded)?;
        token.authenticator = unblinder.finalize(key, &token.input(), &blind_sig)?;
        Ok(token.to_bytes())
    };
    (0..BATCH as u8).map(token).collect()
}

/// The peer's stores: one key, and the nonces of one turn.
struct Stores {
    key: PublicKey,
    spent: Mutex<HashSet<Nonce>>,
}

#[async_trait]
impl OriginKeyStore for Stores {
    async fn insert(&self, _: u8, _: PublicKey) {}
    async fn get(&self, _: &u8) -> Vec<PublicKey> {
        vec![self.key.clone()]
    }
    async fn remove(&self, _: &u8) -> bool {
        false
    }
}

#[async_trait]
impl NonceStore for Stores {
    async fn reserve(&self, nonce: &Nonce) -> bool {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).insert(*nonce)
    }
    async fn commit(&self, _: &Nonce) {}
    async fn release(&self, _: &Nonce) {}
}
