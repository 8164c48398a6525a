//! The attester's checks: what it forwards, what it refuses, and the alias by which it counts.

mod keys;
mod transcripts;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use sotto_crypto::key_blinding::{ClientSecret, PublicKey};
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, ISSUER_CONTEXT};
use sotto_protocol::attester::{
    Ask, AttestationRefusal, AttesterRefusal, consume_issuer_answer, consume_token_request,
};
use sotto_testing::published::rate_limited;
use sotto_wire::Encode;
use sotto_wire::token::{IssuerAnswer, ShortOpaque, TOKEN_LIMIT, TOKEN_TYPE, TokenRequest};

const ENCAP_KEY: [u8; 32] = [0xe1; 32];

/// A request that is correct in everything that the attester can see.
struct Honest {
    secret: ClientSecret,
    blind: [u8; 32],
    request: TokenRequest<'static>,
}

fn honest(seed: u64) -> Honest {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let secret = ClientSecret::generate(&mut rng);
    again(secret, &mut rng)
}

/// A request of one client, with a different blind each time.
fn again(secret: ClientSecret, rng: &mut ChaCha20Rng) -> Honest {
    let mut blind = [0; 32];
    rng.fill_bytes(&mut blind);
    let mut sealed = vec![0; 371];
    rng.fill_bytes(&mut sealed);
    let request_key = *secret.public_key().blind(&blind, CLIENT_CONTEXT).as_bytes();
    let mut request = TokenRequest {
        token_type: TOKEN_TYPE,
        request_key,
        issuer_encap_key_id: ENCAP_KEY,
        encrypted_token_request: ShortOpaque::new(sealed).unwrap(),
        request_signature: [0; 64],
    };
    request.request_signature =
        secret.sign_blinded(&blind, CLIENT_CONTEXT, &request.signed_message());
    Honest { secret, blind, request }
}

impl Honest {
    fn sign(&mut self) {
        let message = self.request.signed_message();
        self.request.request_signature =
            self.secret.sign_blinded(&self.blind, CLIENT_CONTEXT, &message);
    }

    fn refusal(&self) -> Option<AttesterRefusal> {
        let body = self.request.to_bytes();
        let client_key = *self.secret.public_key().as_bytes();
        refusal(&body, client_key, self.blind)
    }

    /// The issuer's half: the request key under the secret of an origin.
    fn answer(&self, origin: &[u8; 32]) -> IssuerAnswer {
        let request_key = PublicKey::parse(&self.request.request_key).unwrap();
        let index_key = *request_key.blind(origin, ISSUER_CONTEXT).as_bytes();
        IssuerAnswer::Issued { index_key, limit: TOKEN_LIMIT, response: vec![3; 288] }
    }

    fn alias(&self, origin: &[u8; 32]) -> [u8; 64] {
        let body = self.request.to_bytes();
        let client_key = *self.secret.public_key().as_bytes();
        let ask = ask(&body, client_key, self.blind);
        let forwarded = consume_token_request(&ask, &[ENCAP_KEY]).unwrap();
        consume_issuer_answer(&forwarded, &self.answer(origin)).unwrap().alias
    }
}

fn ask(body: &[u8], client_key: [u8; 32], request_blind: [u8; 32]) -> Ask<'_> {
    Ask { body, client_key, request_blind, client_alias: [9; 32] }
}

fn refusal(body: &[u8], client_key: [u8; 32], blind: [u8; 32]) -> Option<AttesterRefusal> {
    consume_token_request(&ask(body, client_key, blind), &[[1; 32], ENCAP_KEY]).err()
}

#[test]
fn an_honest_request_passes() {
    let request = honest(1);
    assert_eq!(request.refusal(), None);
}

#[test]
fn the_alias_is_that_of_client_and_origin() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let secret = || ClientSecret::new([5; 32]);
    let (origin, other) = ([1; 32], [2; 32]);
    let first = again(secret(), &mut rng);
    let second = again(secret(), &mut rng);
    assert_ne!(first.request.request_key, second.request.request_key);
    assert_eq!(first.alias(&origin), second.alias(&origin));
    assert_ne!(first.alias(&origin), first.alias(&other));
    assert_ne!(first.alias(&origin), honest(3).alias(&origin));
}

#[test]
fn another_blind_is_refused() {
    let mut request = honest(4);
    request.blind[0] ^= 1;
    assert_eq!(request.refusal(), Some(AttesterRefusal::Blind));
    // Nor may the client key be somebody else's.
    let other = honest(5);
    let body = request.request.to_bytes();
    let refused = refusal(&body, *other.secret.public_key().as_bytes(), request.blind);
    assert_eq!(refused, Some(AttesterRefusal::Blind));
}

#[test]
fn every_bit_of_a_request_counts() {
    let request = honest(6);
    let body = request.request.to_bytes();
    let client_key = *request.secret.public_key().as_bytes();
    for place in 0..body.len() {
        let mut changed = body.clone();
        changed[place] ^= 1 << (place % 8);
        let refused = refusal(&changed, client_key, request.blind);
        let refused = refused.unwrap_or_else(|| panic!("a change at {place} passed"));
        assert_eq!(status(refused), 400);
    }
    for len in 0..body.len() {
        let refused = refusal(&body[..len], client_key, request.blind);
        assert_eq!(refused, Some(AttesterRefusal::Malformed), "{len}");
    }
    let longer = [&body[..], &[0]].concat();
    assert_eq!(refusal(&longer, client_key, request.blind), Some(AttesterRefusal::Malformed));
}

#[test]
fn other_types_and_keys_are_refused_even_if_signed() {
    for token_type in [0x0001, 0x0002, 0x0003, 0x0400] {
        let mut request = honest(7);
        request.request.token_type = token_type;
        request.sign();
        assert_eq!(request.refusal(), Some(AttesterRefusal::TokenType));
    }
    let mut request = honest(8);
    request.request.issuer_encap_key_id[31] ^= 1;
    request.sign();
    assert_eq!(request.refusal(), Some(AttesterRefusal::EncapsulationKey));
}

#[test]
fn an_issuer_is_not_believed_either() {
    let request = honest(9);
    let body = request.request.to_bytes();
    let client_key = *request.secret.public_key().as_bytes();
    let forwarded =
        consume_token_request(&ask(&body, client_key, request.blind), &[ENCAP_KEY]).unwrap();
    let refusal = |answer: IssuerAnswer| {
        consume_issuer_answer(&forwarded, &answer).err().map(|refusal| (refusal, status(refusal)))
    };
    assert_eq!(refusal(request.answer(&[1; 32])), None);
    for limit in [0, 2, u64::MAX] {
        let IssuerAnswer::Issued { index_key, response, .. } = request.answer(&[1; 32]) else {
            panic!("the issuer issues");
        };
        let answer = IssuerAnswer::Issued { index_key, limit, response };
        assert_eq!(refusal(answer), Some((AttesterRefusal::IssuerLimit, 400)));
    }
    for len in [0, 287, 289, 16 << 10, 65_535] {
        let IssuerAnswer::Issued { index_key, limit, .. } = request.answer(&[1; 32]) else {
            panic!("the issuer issues");
        };
        let answer = IssuerAnswer::Issued { index_key, limit, response: vec![3; len] };
        assert_eq!(refusal(answer), Some((AttesterRefusal::IssuerResponse, 400)), "{len}");
    }
    for (status, expected) in [
        (400, (AttesterRefusal::IssuerRefused, 400)),
        (401, (AttesterRefusal::IssuerKey, 401)),
        (404, (AttesterRefusal::IssuerRefused, 400)),
        (429, (AttesterRefusal::IssuerUnavailable, 503)),
        (500, (AttesterRefusal::IssuerUnavailable, 503)),
        (503, (AttesterRefusal::IssuerUnavailable, 503)),
    ] {
        assert_eq!(refusal(IssuerAnswer::Refused { status }), Some(expected), "{status}");
    }
}

#[test]
fn refusals_have_names_of_their_own_and_say_nothing_of_the_request() {
    let names = AttesterRefusal::ALL.map(AttesterRefusal::name).to_vec();
    let mut all = [names, AttestationRefusal::ALL.map(AttestationRefusal::name).to_vec()].concat();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    let body = honest(10).request.to_bytes();
    assert_eq!(format!("{:?}", ask(&body, [1; 32], [2; 32])), "Ask { .. }");
}

fn hex(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn key(value: &Value) -> [u8; 32] {
    hex(value).try_into().unwrap()
}

/// The status that the vectors give for a refusal.
fn status(refusal: AttesterRefusal) -> u16 {
    match refusal {
        AttesterRefusal::Withheld => 429,
        AttesterRefusal::IssuerKey => 401,
        AttesterRefusal::IssuerUnavailable | AttesterRefusal::Full => 503,
        _ => 400,
    }
}
