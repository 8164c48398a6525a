//! Token keys for authors: who gets them, and what the endorsement says.

use std::sync::Arc;

use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey};
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::Moment;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::{
    AuthorRefusal, AuthorRules, RecipeKeys, consume_token_key_request, produce_token_keys,
    request_id,
};
use sotto_testing::keys::{key, key_of, signer};
use sotto_testing::published::rate_limited;
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest, TokenKeyStatement};
use sotto_wire::{Note, NoteSignature, PublicKey, Role, Signer};

use crate::issuer::keys::{NOW, bytes};

const WINDOW_S: u64 = 1000;

fn author() -> NoteKey {
    key("author.example")
}

fn operator() -> NoteKey {
    key("issuer.example")
}

fn request() -> TokenKeyRequest {
    TokenKeyRequest {
        author: signer(&author()),
        leader: "leader.example".parse().unwrap(),
        helper: Some("helper.example".parse().unwrap()),
        expires: NOW.0 + WINDOW_S,
        nonce: "0123456789abcdefABCDEF".to_owned(),
    }
}

fn signed(request: &TokenKeyRequest, by: &NoteKey) -> Vec<u8> {
    sotto_testing::log::note(&request.text(), &[by]).to_bytes()
}

fn judge(body: &[u8], now: Moment) -> Result<TokenKeyRequest, AuthorRefusal> {
    let rules = AuthorRules { authors: vec![author().verifier()], window_s: WINDOW_S };
    consume_token_key_request(body, &rules, &operator(), now)
}

#[test]
fn a_listed_author_is_heard() {
    let request = request();
    assert_eq!(judge(&signed(&request, &author()), NOW), Ok(request.clone()));
    let alone = TokenKeyRequest { helper: None, ..request };
    assert_eq!(judge(&signed(&alone, &author()), NOW), Ok(alone.clone()));
    assert_ne!(request_id(&alone), request_id(&TokenKeyRequest { expires: 1, ..alone.clone() }));
}

#[test]
fn others_are_not() {
    let refused = |body: &[u8]| judge(body, NOW).unwrap_err();
    // A key that is not listed, even under the author's name.
    for stranger in [key("other.example"), key_of("stranger", "author.example")] {
        let signer = Signer {
            name: stranger.name().clone(),
            key: PublicKey::new(*stranger.verifier().public_key()),
        };
        let request = TokenKeyRequest { author: signer, ..request() };
        assert_eq!(refused(&signed(&request, &stranger)), AuthorRefusal::UnknownAuthor);
    }
    // The author's name and key, but somebody else's signature.
    let forged = signed(&request(), &key_of("stranger", "author.example"));
    assert_eq!(refused(&forged), AuthorRefusal::Signature);
    let NoteSignature { name, key_id, mut signature } = author().sign(&request().text());
    signature[10] ^= 1;
    let note = Note::new(request().text()).unwrap();
    let note = note.with_signature(NoteSignature { name, key_id, signature });
    assert_eq!(refused(&note.to_bytes()), AuthorRefusal::Signature);
    // A signature over another request.
    let other = TokenKeyRequest { expires: request().expires - 1, ..request() };
    let note = Note::new(request().text()).unwrap().with_signature(author().sign(&other.text()));
    assert_eq!(refused(&note.to_bytes()), AuthorRefusal::Signature);
}

#[test]
fn expiries_lie_in_the_window() {
    let at = |expires| judge(&signed(&TokenKeyRequest { expires, ..request() }, &author()), NOW);
    assert!(at(NOW.0 + 1).is_ok() && at(NOW.0 + WINDOW_S).is_ok());
    for past in [0, NOW.0 - 1, NOW.0] {
        assert_eq!(at(past), Err(AuthorRefusal::Past));
    }
    for late in [NOW.0 + WINDOW_S + 1, (1 << 53) - 1] {
        assert_eq!(at(late), Err(AuthorRefusal::BeyondWindow(WINDOW_S)));
    }
    assert!(matches!(at(u64::MAX), Err(AuthorRefusal::Malformed(_))));
}

#[test]
fn the_issuer_is_no_aggregator() {
    let issuer = operator().name().clone();
    let leads = TokenKeyRequest { leader: issuer.clone(), ..request() };
    let helps = TokenKeyRequest { helper: Some(issuer), ..request() };
    for request in [leads, helps] {
        assert_eq!(judge(&signed(&request, &author()), NOW), Err(AuthorRefusal::IsAggregator));
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let text = request().text();
    let (_, json) = text.split_once('\n').unwrap();
    let other_kind = format!("sotto.recipe/v1\n{json}");
    let spaced = text.replacen(':', ": ", 1);
    let twice = format!("{text}{json}");
    for text in [other_kind, spaced, twice, "sotto.token-key-request/v1\n{}\n".to_owned()] {
        let note = Note::new(text.clone()).unwrap().with_signature(author().sign(&text));
        let refusal = judge(&note.to_bytes(), NOW).unwrap_err();
        assert!(matches!(refusal, AuthorRefusal::Malformed(_)), "{refusal:?}");
    }
    for body in [&b""[..], b"\n", &[0xff; 40], request().text().as_bytes()] {
        assert!(matches!(judge(body, NOW), Err(AuthorRefusal::Malformed(_))));
    }
}

fn keys(request: TokenKeyRequest) -> RecipeKeys {
    let vectors = rate_limited();
    let origin = |name: &str| {
        let key = IssuerKey::from_pkcs8(&bytes(&vectors["origins"][name]["pkcs8_der"])).unwrap();
        Arc::new(Origin::new(key, Secret::new([1; 32]), Moment(request.expires)))
    };
    let helper = request.helper.as_ref().map(|_| origin("O2"));
    RecipeKeys { leader: origin("O1"), helper, request }
}

/// Whether the operator signed this statement about the key.
fn endorsed(key: &EndorsedKey, statement: &TokenKeyStatement<'_>) -> bool {
    let signer = operator().sign("");
    let signature = key.signature().unwrap().to_vec();
    let signature = NoteSignature { signature, ..signer };
    let note = Note::new(statement.text()).unwrap().with_signature(signature);
    note::verify(&note, &operator().verifier()).is_ok()
}

#[test]
fn endorsements_bind_role_operator_author_and_expiry() {
    let keys = keys(request());
    let answer = produce_token_keys(&keys, &operator());
    assert_eq!(answer, produce_token_keys(&keys, &operator()));
    let (leader, helper) = (&answer.leader, answer.helper.as_ref().unwrap());
    assert_ne!(leader.public_key, helper.public_key);
    let issuer = operator().name().clone();
    let (request, other) = (request(), "other.example".parse().unwrap());
    for (key, role, aggregator) in [
        (leader, Role::Leader, &request.leader),
        (helper, Role::Helper, request.helper.as_ref().unwrap()),
    ] {
        TokenKey::parse_spki(&key.spki().unwrap()).unwrap();
        assert_eq!(key.expires, request.expires);
        let statement = TokenKeyStatement {
            role,
            aggregator,
            author: &request.author.key,
            issuer: &issuer,
            public_key: &key.public_key,
            expires: key.expires,
        };
        assert!(endorsed(key, &statement));
        let swapped = if role == Role::Leader { Role::Helper } else { Role::Leader };
        let stranger = PublicKey::new([3; 32]);
        let wrong = [
            TokenKeyStatement { role: swapped, ..statement },
            TokenKeyStatement { aggregator: &other, ..statement },
            TokenKeyStatement { author: &stranger, ..statement },
            TokenKeyStatement { issuer: &other, ..statement },
            TokenKeyStatement { public_key: "AAAA", ..statement },
            TokenKeyStatement { expires: key.expires + 1, ..statement },
        ];
        for statement in wrong {
            assert!(!endorsed(key, &statement), "{statement:?}");
        }
    }
}

#[test]
fn a_helper_that_cannot_check_gets_no_key() {
    let alone = keys(TokenKeyRequest { helper: None, ..request() });
    let answer = produce_token_keys(&alone, &operator());
    assert!(answer.helper.is_none());
    assert!(!serde_json::to_string(&answer).unwrap().contains("helper"));
}

#[test]
fn debug_shows_no_secret_and_no_name_of_an_origin() {
    let keys = keys(request());
    let shown = format!("{keys:?}");
    for origin in keys.origins() {
        assert!(!shown.contains(origin.name()));
    }
    assert!(!shown.contains("[1, 1, 1"));
}
