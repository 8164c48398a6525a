//! Publicly verifiable tokens (RFC 9578, type 0x0002) exchanged with the crate `privacypass` in
//! both directions, and blinding compared with `blind-rsa-signatures`, which it builds on.

use std::collections::HashSet;
use std::sync::Mutex;

use async_trait::async_trait;
use blind_rsa_signatures::{Deterministic, KeyPair, PSS, PublicKey, SecretKey, Sha384};
use crypto_bigint::{Odd, U2048};
use futures_executor::block_on;
use privacypass::auth::authenticate::TokenChallenge as TheirChallenge;
use privacypass::common::errors::RedeemTokenError;
use privacypass::public_tokens::server::{
    IssuerKeyStore, IssuerServer, OriginKeyStore, OriginServer,
};
use privacypass::public_tokens::{PublicToken, TokenRequest, TokenResponse};
use privacypass::{Deserialize, Nonce, NonceStore, Serialize, TokenType};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey, TokenVerifier, Unblinder, blind, blind_with};
use sotto_wire::token::{Token, TokenChallenge};
use sotto_wire::{Decode, Encode};

const TYPE: u16 = 2;
const ISSUER: &str = "issuer.example";
const ORIGIN: &str = "origin.example";

type Pair = KeyPair<Sha384, PSS, Deterministic>;
type Public = PublicKey<Sha384, PSS, Deterministic>;

/// Their stores, with one key and a set of spent nonces.
struct Theirs {
    pair: Pair,
    spent: Mutex<HashSet<Nonce>>,
}

impl Theirs {
    /// The parties of `privacypass` with our issuer's key.
    fn with_key(issuer: &IssuerKey) -> Self {
        let sk = SecretKey::from_der(&issuer.to_pkcs8()).unwrap();
        let pair = Pair { pk: sk.public_key().unwrap(), sk };
        Self { pair, spent: Mutex::default() }
    }
}

#[async_trait]
impl IssuerKeyStore for Theirs {
    async fn insert(&self, _: u8, _: Pair) -> bool {
        false
    }
    async fn get(&self, id: &u8) -> Option<Pair> {
        let spki = self.pair.pk.to_spki().unwrap();
        (TokenKey::parse_spki(&spki).unwrap().truncated_id() == *id).then(|| self.pair.clone())
    }
    async fn remove(&self, _: &u8) -> bool {
        false
    }
}

#[async_trait]
impl OriginKeyStore for Theirs {
    async fn insert(&self, _: u8, _: Public) {}
    async fn get(&self, id: &u8) -> Vec<Public> {
        IssuerKeyStore::get(self, id).await.into_iter().map(|pair| pair.pk).collect()
    }
    async fn remove(&self, _: &u8) -> bool {
        false
    }
}

#[async_trait]
impl NonceStore for Theirs {
    async fn reserve(&self, nonce: &Nonce) -> bool {
        self.spent.lock().unwrap().insert(*nonce)
    }
    async fn commit(&self, _: &Nonce) {}
    async fn release(&self, nonce: &Nonce) {
        self.spent.lock().unwrap().remove(nonce);
    }
}

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// One challenge in both sets of types, which encode it identically.
fn challenges(context: Option<[u8; 32]>) -> (TokenChallenge, TheirChallenge) {
    let ours = TokenChallenge::new(TYPE, ISSUER, context, ORIGIN).unwrap();
    let theirs = TheirChallenge::new(TokenType::Public, ISSUER, context, &[ORIGIN.to_owned()]);
    assert_eq!(ours.to_bytes(), theirs.serialize().unwrap());
    assert_eq!(ours.digest(), theirs.digest().unwrap());
    (ours, theirs)
}

#[test]
fn the_keys_are_encoded_alike() {
    let issuer = IssuerKey::generate().unwrap();
    let theirs = Theirs::with_key(&issuer);
    assert_eq!(theirs.pair.pk.to_spki().unwrap(), issuer.token_key().spki());
    assert_eq!(Public::from_spki(issuer.token_key().spki()).unwrap(), theirs.pair.pk);
    // Keys from their generator pass our strict parsers, too.
    let generated = Pair::generate(&mut rng(1), 2048).unwrap();
    let parsed = IssuerKey::from_pkcs8(&generated.sk.to_der().unwrap()).unwrap();
    assert_eq!(parsed.token_key().spki(), generated.pk.to_spki().unwrap());
}

#[test]
fn their_client_with_our_issuer_and_verifier() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let verifier = TokenVerifier::new(key).unwrap();
    for (seed, context) in [(2, None), (3, Some([7; 32]))] {
        let (ours, theirs) = challenges(context);
        let public = Public::from_spki(key.spki()).unwrap();
        let (request, state) = TokenRequest::new(&mut rng(seed), public, &theirs).unwrap();

        let request = request.tls_serialize_detached().unwrap();
        assert_eq!(request[..3], [0, 2, key.truncated_id()]);
        let blind_sig = issuer.blind_sign(request[3..].try_into().unwrap()).unwrap();
        let response = TokenResponse::tls_deserialize(&mut &blind_sig[..]).unwrap();
        let token = response.issue_token(&state).unwrap().tls_serialize_detached().unwrap();

        let token = Token::from_bytes(&token).unwrap();
        assert_eq!(token.token_type, TYPE);
        assert_eq!(token.challenge_digest, ours.digest());
        assert_eq!(&token.token_key_id, key.id());
        verifier.verify(&token.input(), &token.authenticator).unwrap();
    }
}

#[test]
fn our_client_with_their_issuer_and_origin() {
    let issuer = IssuerKey::generate().unwrap();
    let theirs = Theirs::with_key(&issuer);
    let key = TokenKey::parse_spki(&theirs.pair.pk.to_spki().unwrap()).unwrap();
    let mut rng = rng(4);
    for context in [None, Some([9; 32])] {
        let (challenge, _) = challenges(context);
        let mut token = Token {
            token_type: TYPE,
            nonce: [0; 32],
            challenge_digest: challenge.digest(),
            token_key_id: *key.id(),
            authenticator: [0; 256],
        };
        rng.fill_bytes(&mut token.nonce);
        let (blinded, unblinder) = blind(&key, &token.input(), &mut rng).unwrap();

        let request = [&[0, 2, key.truncated_id()], &blinded[..]].concat();
        let request = TokenRequest::tls_deserialize(&mut &request[..]).unwrap();
        let response = block_on(IssuerServer::new().issue_token_response(&theirs, request));
        let blind_sig = response.unwrap().tls_serialize_detached().unwrap();
        let blind_sig = blind_sig.try_into().unwrap();
        // Blind signatures are deterministic: theirs is equal to our issuer's.
        assert_eq!(issuer.blind_sign(&blinded).unwrap(), blind_sig);
        token.authenticator = unblinder.finalize(&key, &token.input(), &blind_sig).unwrap();

        let redeem = |token: &Token| {
            let token = PublicToken::tls_deserialize(&mut &token.to_bytes()[..]).unwrap();
            block_on(OriginServer::new().redeem_token(&theirs, &theirs, token))
        };
        let mut forged = token.clone();
        forged.authenticator[255] ^= 1;
        let invalid = RedeemTokenError::InvalidSignature { token_type: TokenType::Public };
        assert_eq!(redeem(&forged), Err(invalid));
        assert_eq!(redeem(&token), Ok(()));
        assert_eq!(redeem(&token), Err(RedeemTokenError::DoubleSpending));
    }
}

#[test]
fn blinding_agrees_with_blind_rsa_signatures() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let theirs = Theirs::with_key(&issuer).pair;
    let modulus = Odd::new(U2048::from_be_slice(&theirs.pk.components().n())).unwrap();
    for seed in 0..16 {
        let input = [seed; 98];
        let blinding = theirs.pk.blind(&mut rng(seed), input).unwrap();
        // They draw the salt first, and keep the factor's inverse.
        let mut salt = [0; 48];
        rng(seed).fill_bytes(&mut salt);
        let secret: [u8; 256] = blinding.secret.0.clone().try_into().unwrap();
        let r = U2048::from_be_slice(&secret).invert_odd_mod(&modulus).unwrap();
        let r = r.to_be_bytes().as_ref().try_into().unwrap();
        let (blinded, unblinder) = blind_with(key, &input, &salt, &r).unwrap();
        assert_eq!(blinded[..], blinding.blind_message.0);
        assert_eq!(unblinder, Unblinder::from_bytes(&secret));

        let blind_sig = theirs.sk.blind_sign(blinded).unwrap();
        assert_eq!(issuer.blind_sign(&blinded).unwrap()[..], blind_sig.0);
        let signature = theirs.pk.finalize(&blind_sig, &blinding, input).unwrap();
        let blind_sig = blind_sig.0.try_into().unwrap();
        assert_eq!(unblinder.finalize(key, &input, &blind_sig).unwrap()[..], signature.0);
    }
}
