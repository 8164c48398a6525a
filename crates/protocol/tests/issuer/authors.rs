//! Token keys for authors: who gets them, and what the endorsement says.

use std::sync::Arc;

use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey};
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::Moment;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::{
    AuthorRefusal, AuthorRules, RecipeKey, check_one_role, consume_token_key_request,
    produce_token_key, request_id,
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
        helper: "helper.example".parse().unwrap(),
        role: Role::Leader,
        expires: NOW.0 + WINDOW_S,
        nonce: "0123456789abcdefABCDEF".to_owned(),
        participations: None,
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
    let helper = TokenKeyRequest { role: Role::Helper, ..request.clone() };
    assert_eq!(judge(&signed(&helper, &author()), NOW), Ok(helper.clone()));
    assert_ne!(request_id(&helper), request_id(&request));
    assert_ne!(request_id(&helper), request_id(&TokenKeyRequest { expires: 1, ..helper.clone() }));
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
    let helps = TokenKeyRequest { helper: issuer, ..request() };
    for request in [leads, helps] {
        assert_eq!(judge(&signed(&request, &author()), NOW), Err(AuthorRefusal::IsAggregator));
    }
}

#[test]
fn an_issuer_serves_one_aggregator_of_a_recipe() {
    let made = request();
    let again = |change: fn(&mut TokenKeyRequest)| {
        let mut next = request();
        change(&mut next);
        check_one_role(&next, [&made].into_iter())
    };
    assert_eq!(check_one_role(&made, std::iter::empty()), Ok(()));
    assert_eq!(again(|_| {}), Ok(()));
    assert_eq!(again(|next| next.role = Role::Helper), Err(AuthorRefusal::BothRoles));
    // Whatever else the author changes about the same recipe.
    let later = again(|next| (next.role, next.expires) = (Role::Helper, next.expires - 1));
    assert_eq!(later, Err(AuthorRefusal::BothRoles));
    // Another recipe, or another author's.
    assert_eq!(again(|next| next.nonce = "another-recipe-0000000".into()), Ok(()));
    let other = again(|next| {
        next.role = Role::Helper;
        next.nonce = "another-recipe-0000000".into();
    });
    assert_eq!(other, Ok(()));
    let stranger = again(|next| {
        next.role = Role::Helper;
        next.author = signer(&key("other.example"));
    });
    assert_eq!(stranger, Ok(()));
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

fn made(request: TokenKeyRequest) -> RecipeKey {
    let vectors = rate_limited();
    let key = IssuerKey::from_pkcs8(&bytes(&vectors["origins"]["O1"]["pkcs8_der"])).unwrap();
    let origin = Arc::new(Origin::new(key, Secret::new([1; 32]), Moment(request.expires)));
    RecipeKey { request, origin }
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
    let issuer = operator().name().clone();
    let (request, other) = (request(), "other.example".parse().unwrap());
    for (role, aggregator) in [(Role::Leader, &request.leader), (Role::Helper, &request.helper)] {
        let made = made(TokenKeyRequest { role, ..request.clone() });
        let key = &produce_token_key(&made, &operator());
        assert_eq!(*key, produce_token_key(&made, &operator()));
        assert_eq!(key.issuer, issuer);
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
fn debug_shows_no_secret_and_no_name_of_an_origin() {
    let made = made(request());
    let shown = format!("{made:?}");
    assert!(!shown.contains(&made.origin.token_key().origin_name()));
    assert!(!shown.contains("[1, 1, 1"));
}
